"""From a graph to a program: every node becomes tasks, in topological order, on one stream; a scope of UB fusion becomes one task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ascendsim.core.errors import AscendSimError, CompileError, UnsupportedOperatorError
from ascendsim.graph.ir import Graph, Node
from ascendsim.graph.scopes import units_in_order
from ascendsim.isa.program import Access, Program, Task, TaskKind
from ascendsim.lower.accesses import accesses_of
from ascendsim.lower.engine import check_static, with_workspace, work_of
from ascendsim.lower.fused import ChainWork, FusedScope, ScopeLowering
from ascendsim.lower.memory import plan_memory
from ascendsim.lower.templates.cube import lower_cube
from ascendsim.lower.templates.cube_pair import lower_pair
from ascendsim.lower.templates.movement import lower_movement, lower_scalar
from ascendsim.lower.templates.sequence import buffers_for, join_stages
from ascendsim.lower.templates.stage import Stage
from ascendsim.lower.templates.steps import Expansion
from ascendsim.lower.templates.vector import lower_vector
from ascendsim.opset import OpSet
from ascendsim.opset.work import (
    AiCpuWork,
    CubePair,
    CubeWork,
    LowerContext,
    MoveWork,
    NoTask,
    Ref,
    ScalarWork,
    SequenceWork,
    VectorWork,
    Work,
)
from ascendsim.soc.spec import SocSpec


@dataclass(frozen=True, slots=True)
class LowerOptions:
    """How to lower.

    Attributes:
        aicpu_types: CANN operator types that the chip runs on the AI CPU.
        flags: Profile flags that operators may ask for (`LowerContext.options`).
        chain: Joins the vector work of the nodes of a scope.
    """

    aicpu_types: frozenset[str] = frozenset()
    flags: Mapping[str, object] = field(default_factory=dict)
    chain: ChainWork | None = None


def scope_lowering(soc: SocSpec, opset: OpSet, options: LowerOptions) -> ScopeLowering:
    """What finds out whether several nodes can run as one task, as `lower_graph` would do it."""
    return ScopeLowering(soc, opset, _context(soc, options), Lowering(soc), options.chain)


def _context(soc: SocSpec, options: LowerOptions) -> LowerContext:
    return LowerContext(soc.generation, options.aicpu_types, dict(options.flags), soc.vector.intrinsics)


def lower_graph(graph: Graph, soc: SocSpec, opset: OpSet, *, options: LowerOptions | None = None) -> Program:
    """Lowers a compiled graph (precision and formats assigned) for a chip.

    Nodes with the same `origin["scope"]` become one task. The program's metadata names the chip ("soc") and, by node, its tasks
    ("tasks_of") and its engine ("engine": "cube", "vector", "movement", "scalar", "sequence", "ai_cpu" or "none").

    Raises:
        CompileError: If a shape is dynamic or work fits no tiling; names node or tensor and the remedy.
        UnsupportedOperatorError: If operators are unknown; lists all of them.
    """
    options = options or LowerOptions()
    unsupported = [(node.op_type, node.name) for node in graph.nodes if node not in opset]
    if unsupported:
        raise UnsupportedOperatorError(unsupported)
    check_static(graph)
    context = _context(soc, options)
    lowering = Lowering(soc)
    scopes = ScopeLowering(soc, opset, context, lowering, options.chain)
    internal: set[str] = set()
    tasks: list[Task] = []
    uses: list[list[str]] = []
    aliases: dict[str, str] = {}
    cuts: dict[str, tuple[int, int]] = {}
    tasks_of: dict[str, tuple[int, ...]] = {}
    engines: dict[str, str] = {}
    for unit in units_in_order(graph):
        node = unit[0]
        if len(unit) > 1:
            scope = scopes.lower(unit)
            task = fused_task(scope, len(tasks))
            hidden = {tensor.name for tensor in scope.internal}
            internal |= hidden
            touched = [tensor.name for item in unit for tensor in (*item.inputs, *item.outputs) if tensor is not None]
            uses.append([name for name in touched if name not in hidden])
            tasks.append(task)
            tasks_of.update((item.name, (task.id,)) for item in unit)
            engines.update((item.name, ENGINES[type(scope.work)]) for item in unit)
            continue
        work = work_of(node, opset, context)
        engines[node.name] = ENGINES[type(work)]
        if isinstance(work, NoTask):
            pairs = [*work.aliases, *((piece.region, piece.whole) for piece in work.slices)]
            for shared, source in pairs:
                if aliases.setdefault(shared, source) != source:
                    raise CompileError(
                        f"tensor {shared!r}", f"cannot lie in both {aliases[shared]!r} and {source!r}", remedy="please report this"
                    )
            aliases = {shared: source for shared, source in aliases.items() if shared != source}
            cuts.update((piece.region, (piece.axis, piece.first)) for piece in work.slices)
            tasks_of[node.name] = ()
            continue
        new = lowering.tasks(node, work, len(tasks))
        tasks_of[node.name] = tuple(task.id for task in new)
        tasks.extend(new)
        tensors = [tensor.name for tensor in (*node.inputs, *node.outputs) if tensor is not None]
        uses.extend([*tensors, *(access.region for access in task.accesses)] for task in new)
    plan = plan_memory(graph, uses, aliases, lowering.workspaces, cuts, internal)
    return Program(tuple(tasks), plan, metadata={"soc": soc.name, "graph": graph.name, "tasks_of": tasks_of, "engine": engines})


def fused_task(scope: FusedScope, number: int) -> Task:
    """The one task of a scope."""
    stage = scope.stage
    names = tuple(node.name for node in scope.nodes)
    return Task(number, scope.name, stage.kind, groups=stage.groups, accesses=accesses_of(stage.groups, stage.sizes), fused=names)


ENGINES: dict[type, str] = {
    CubeWork: "cube",
    CubePair: "cube",
    VectorWork: "vector",
    MoveWork: "movement",
    ScalarWork: "scalar",
    SequenceWork: "sequence",
    AiCpuWork: "ai_cpu",
    NoTask: "none",
}


class Lowering:
    """Turns work into tasks for one chip."""

    def __init__(self, soc: SocSpec) -> None:
        self.soc = soc
        self.expansion = Expansion(soc)
        self.workspaces: dict[str, int] = {}

    def tasks(self, node: Node, work: Work, first_id: int) -> list[Task]:
        """The tasks of a node, numbered from `first_id`.

        Raises:
            CompileError: Names the node.
        """
        if isinstance(work, AiCpuWork):
            return [self._ai_cpu_task(node.name, work, first_id)]
        if isinstance(work, SequenceWork):
            name = f"{node.name}/workspace"
            work = with_workspace(work, name)
            assert isinstance(work, SequenceWork)
            if work.workspace_bytes:
                self.workspaces[name] = work.workspace_bytes
        try:
            stages = self.stages(work)
        except AscendSimError as error:
            raise CompileError(f"node {node.name!r} ({node.op_type})", f"cannot be lowered: {error}") from error
        return [
            Task(first_id + number, node.name, stage.kind, groups=stage.groups, accesses=accesses_of(stage.groups, stage.sizes))
            for number, stage in enumerate(stages)
        ]

    def stages(self, work: Work) -> list[Stage]:
        """Blocks for any work of the AI Core, one stage a task."""
        if isinstance(work, CubeWork):
            stages, rest = lower_cube(work, self.soc, self.expansion)
            return stages if rest is None else [*stages, lower_vector(rest, self.soc, self.expansion)]
        if isinstance(work, CubePair):
            return [lower_pair(work, self.soc, self.expansion)]
        if isinstance(work, VectorWork):
            return [lower_vector(work, self.soc, self.expansion)]
        if isinstance(work, MoveWork):
            return [lower_movement(work, self.soc, self.expansion)]
        if isinstance(work, ScalarWork):
            return [lower_scalar(work, self.soc)]
        if isinstance(work, SequenceWork):
            return [self._bounded(stage, work) for stage in self._sequence(work)]
        raise CompileError("work", "must be work of the AI Core", type(work).__name__)

    def _sequence(self, work: SequenceWork) -> list[Stage]:
        inside = Lowering(buffers_for(self.soc, len(work.parts)))
        parts = [inside.stages(part) for part in work.parts]
        if any(len(stages) != 1 for stages in parts) or len({stages[0].kind for stages in parts}) != 1:
            return [stage for _ in range(work.repeat) for part in work.parts for stage in self.stages(part)]
        return join_stages([stages[0] for stages in parts], work.repeat, inside.soc)

    def _bounded(self, stage: Stage, work: SequenceWork) -> Stage:
        """Repeats walk over slices of tensors: what is touched in all is bounded by the bytes that move."""
        if work.repeat == 1:
            return stage
        return replace(stage, sizes={region: bytes * work.repeat for region, bytes in stage.sizes.items()})

    def _ai_cpu_task(self, name: str, work: AiCpuWork, number: int) -> Task:
        accesses = _whole(work.inputs, False) + _whole(work.outputs, True)
        micros = work.elements * work.operations / self.soc.ai_cpu.elements_per_us
        return Task(number, name, TaskKind.AI_CPU, accesses=accesses, cpu_us=micros)


def _whole(refs: Sequence[Ref], write: bool) -> tuple[Access, ...]:
    sizes = {ref.region: ref.bytes for ref in refs if ref.bytes}
    return tuple(Access(region, bytes, bytes, write) for region, bytes in sizes.items())
