"""From a graph to a program: every node becomes tasks, in topological order; a scope of UB fusion becomes one
task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TypeAlias

from ascendsim.core.errors import AscendSimError, CompileError, UnsupportedOperatorError
from ascendsim.graph.ir import Graph, Node
from ascendsim.graph.scopes import units_in_order
from ascendsim.isa.program import MemoryPlan, Program, ProgramInfo, Task
from ascendsim.lower.accesses import ai_cpu_stage, link_stage, task_of
from ascendsim.lower.engine import Scratching, check_static, with_workspace, workspace_name, workspaces_of
from ascendsim.lower.fused import ChainWork, ScopeLowering
from ascendsim.lower.known_units import KnownUnits, LoweredUnit
from ascendsim.lower.memory import MemoryOptions, TaskOrder, plan_memory, takeovers
from ascendsim.lower.needed_flags import with_needed_flags, with_useful_flags
from ascendsim.lower.streams import StreamOptions, with_streams
from ascendsim.lower.templates.attention import lower_attention
from ascendsim.lower.templates.cube import cube_options, lower_cube, vector_rest
from ascendsim.lower.templates.cube_pair import lower_pair, pair_options
from ascendsim.lower.templates.filter_grad import lower_filter
from ascendsim.lower.templates.finished import finished_options
from ascendsim.lower.templates.movement import lower_movement, lower_scalar
from ascendsim.lower.templates.sequence import join_stages
from ascendsim.lower.templates.stage import Stage, core_counts, sizes_in_all
from ascendsim.lower.templates.staged import lower_staged
from ascendsim.lower.templates.steps import Expansion
from ascendsim.lower.templates.vector import lower_vector
from ascendsim.lower.tiling_search import Options, Tiled, TilingSearch
from ascendsim.lower.units import UnitLowering
from ascendsim.lower.ways import WayPicker
from ascendsim.opset import OpSet
from ascendsim.opset.work import (
    AiCpuWork,
    AttentionWork,
    CubePair,
    CubeWork,
    FilterWork,
    FinishedProduct,
    LinkWork,
    LowerContext,
    MoveWork,
    NoTask,
    ScalarWork,
    SequenceWork,
    StagedProduct,
    VectorWork,
    Work,
    WorkChoice,
)
from ascendsim.soc.spec import SocSpec

UnitsBefore: TypeAlias = Callable[[TilingSearch | None], KnownUnits]  # by what picks tilings


@dataclass(frozen=True, slots=True)
class LowerOptions:
    """How to lower. One object serves one chip and one opset, since it remembers what was lowered.

    Attributes:
        aicpu_types: What the chip runs on the AI CPU (`OpSet.on_ai_cpu`).
        flags: Profile flags that operators may ask for (`LowerContext.options`).
        chain: Joins the vector work of the nodes of a scope.
        memory: How device memory is planned.
        streams: On which streams tasks run.
        known: Units that were lowered before; None = equal units are lowered again (slower, the program is
            the same).
        before: Units that others lowered with equal options, of which `known` and `tilings` may differ.
        tilings: Picks tilings of the chip by time; None = the closed form's first.
        noted: Whether instructions say what they do (`isa.notes`).
    """

    aicpu_types: frozenset[str] = frozenset()
    flags: Mapping[str, object] = field(default_factory=dict)
    chain: ChainWork | None = None
    memory: MemoryOptions = field(default_factory=MemoryOptions)
    streams: StreamOptions = field(default_factory=StreamOptions)
    known: KnownUnits | None = field(default_factory=KnownUnits)
    before: UnitsBefore | None = None
    tilings: TilingSearch | None = None
    noted: bool = False


def scope_lowering(soc: SocSpec, opset: OpSet, options: LowerOptions) -> UnitLowering:
    """What finds out whether several nodes can run as one task, as `lower_graph` would do it."""
    context = LowerContext.of(soc, options.aicpu_types, options.flags)
    lowering = Lowering(soc, options.tilings, options.noted)
    scopes = ScopeLowering(soc, opset, context, lowering, options.chain)
    before = None if options.before is None or options.noted else options.before(options.tilings)
    return UnitLowering(opset, context, lowering.tasks, scopes, options.known, before)


def lower_graph(graph: Graph, soc: SocSpec, opset: OpSet, *, options: LowerOptions | None = None) -> Program:
    """Lowers a compiled graph (precision and formats assigned) for a chip.

    Nodes with the same `origin["scope"]` become one task.

    Raises:
        CompileError: If a shape is dynamic or work fits no tiling; names node or tensor and the remedy.
        UnsupportedOperatorError: If operators are unknown; lists all of them.
    """
    unsupported = [(node.op_type, node.name) for node in graph.nodes if node not in opset]
    if unsupported:
        raise UnsupportedOperatorError(unsupported)
    check_static(graph)
    options = options or LowerOptions()
    units = scope_lowering(soc, opset, options)
    made: list[tuple[Sequence[Node], LoweredUnit]] = []
    tasks: list[Task] = []
    for nodes in units_in_order(graph):
        made.append((nodes, units.unit(nodes, len(tasks))))
        tasks += made[-1][1].tasks
    tasks_of = {node.name: tuple([task.id for task in unit.tasks]) for nodes, unit in made for node in nodes}
    tasks = with_streams(graph, tasks, tasks_of, soc, options.streams)
    info = ProgramInfo(
        soc.name,
        graph.name,
        tasks_of,
        engines={node.name: unit.engine for nodes, unit in made for node in nodes},
        tilings={nodes[0].name: unit.option for nodes, unit in made if unit.option >= 0},
    )
    return Program(tuple(tasks), _memory(graph, made, tasks, opset, options.memory), info=info)


def _memory(
    graph: Graph,
    made: Sequence[tuple[Sequence[Node], LoweredUnit]],
    tasks: Sequence[Task],
    opset: OpSet,
    options: MemoryOptions,
) -> MemoryPlan:
    """The memory plan of a lowered graph.

    Args:
        graph: The graph.
        made: Units in order.
        tasks: With their streams.
        opset: Operators.
        options: How memory is planned.
    """
    uses: list[list[str]] = []
    aliases: dict[str, str] = {}
    cuts: dict[str, tuple[int, int]] = {}
    for nodes, unit in made:
        tensors = (tensor for node in nodes for tensor in (*node.inputs, *node.outputs))
        touched = [tensor.name for tensor in tensors if tensor and tensor.name not in unit.internal]
        uses += [[*touched, *(access.region for access in task.accesses)] for task in unit.tasks]
        if unit.nothing is not None:
            _share_memory(unit.nothing, aliases, cuts)
    workspaces = {name: size for _, unit in made for name, size in unit.workspaces.items()}
    internal = {name for _, unit in made for name in unit.internal}
    return plan_memory(
        graph,
        uses,
        aliases,
        workspaces,
        cuts=cuts,
        internal=internal,
        order=TaskOrder.of(tasks),
        takeovers=takeovers(graph, tasks, opset),
        options=options,
    )


def _share_memory(work: NoTask, aliases: dict[str, str], cuts: dict[str, tuple[int, int]]) -> None:
    """Notes which tensors share memory where a node runs nothing."""
    for shared, source in [*work.aliases, *((piece.region, piece.whole) for piece in work.slices)]:
        if shared != source and aliases.setdefault(shared, source) != source:
            raise CompileError(
                f"tensor {shared!r}",
                f"cannot lie in both {aliases[shared]!r} and {source!r}",
                remedy="please report this",
            )
    cuts.update((piece.region, (piece.axis, piece.first)) for piece in work.slices)


class Lowering:
    """Turns work into tasks for one chip.

    Args:
        soc: The chip.
        tilings: Picks tilings by time where they are settled; None = the closed form's first.
        noted: See `LowerOptions`.
    """

    def __init__(self, soc: SocSpec, tilings: TilingSearch | None = None, noted: bool = False) -> None:
        self.soc = soc
        self.expansion = Expansion(soc, noted)
        self.tilings = tilings
        self.ways = WayPicker(self)

    def tasks(
        self, node: Node, work: Work, option: int | None = None
    ) -> tuple[list[Task], dict[str, int], int]:
        """The tasks of a node, numbered from 0, bytes of its scratch regions by name, and which tiling it has
        (`settled`).

        Raises:
            CompileError: Names the node.
        """
        workspaces: dict[str, int] = {}
        name = workspace_name(node.name)
        if isinstance(work, Scratching | WorkChoice):
            work = with_workspace(work, name)
        try:
            if isinstance(work, WorkChoice):
                option = self.ways.pick(work) if option is None else option
                work, stages = self.ways.way(work, option)
                stages[0] = replace(stages[0], option=option)
            else:
                stages = self.settled(work, option)
        except AscendSimError as error:
            raise CompileError(
                f"node {node.name!r} ({node.op_type})", f"cannot be lowered: {error}"
            ) from error
        if isinstance(work, Scratching):
            workspaces = workspaces_of(work, name)
        tasks = [task_of(stage, number, node.name, self.soc) for number, stage in enumerate(stages)]
        return tasks, workspaces, stages[0].option

    def settled(self, work: Work, option: int | None, drafts: Sequence[Stage] | None = None) -> list[Stage]:
        """Blocks with a tiling that is settled.

        Args:
            work: Of the AI Core.
            option: Which of the tilings that are worth a look to take; None = the quickest, if tilings are
                picked by time.
            drafts: What `drafts` has made of the work, if it has.
        """
        if not isinstance(work, Tiled) or (self.tilings is None and option is None):
            return [with_useful_flags(stage) for stage in drafts or self.drafts(work)]
        options: Options
        if isinstance(work, CubeWork):
            options = cube_options(work, self.soc, self.expansion)
        elif isinstance(work, FinishedProduct):
            options = finished_options(work, self.soc, self.expansion)
        else:
            options = pair_options(work, self.soc, self.expansion)
        if drafts is not None:
            options[0] = partial(drafts.__getitem__, 0)
        # the one that is taken has been made to be timed
        options = [cache(partial(_trimmed, make)) for make in options]
        if option is None and self.tilings is not None:
            option = self.tilings.choose(work, options)
        number = option or 0
        if number >= len(options):
            raise CompileError(
                "the tiling of a task",
                f"must be one of {len(options)}",
                str(number),
                "compile the model again",
            )
        rest = vector_rest(work, self.soc) if isinstance(work, CubeWork) else None
        stages = [replace(with_useful_flags(options[number]()), option=number if len(options) > 1 else -1)]
        return (
            stages
            if rest is None
            else [*stages, with_useful_flags(lower_vector(rest, self.soc, self.expansion))]
        )

    def stages(self, work: Work) -> list[Stage]:
        """Blocks for any work, one stage a task, with the closed form's tilings."""
        return [with_useful_flags(stage) for stage in self.drafts(work)]

    def drafts(self, work: Work) -> list[Stage]:
        """The same with all flags; what orders nothing in a part of a sequence may do so when it runs
        again.
        """
        if isinstance(work, AiCpuWork):
            return [ai_cpu_stage(work)]
        if isinstance(work, LinkWork):
            return [link_stage(work)]
        if isinstance(work, CubeWork):
            stages, rest = lower_cube(work, self.soc, self.expansion)
            return stages if rest is None else [*stages, lower_vector(rest, self.soc, self.expansion)]
        if isinstance(work, CubePair):
            return [lower_pair(work, self.soc, self.expansion)]
        if isinstance(work, AttentionWork):
            return [lower_attention(work, self.soc, self.expansion)]
        if isinstance(work, StagedProduct):
            return [lower_staged(work, self.soc, self.expansion)]
        if isinstance(work, FinishedProduct):
            return [finished_options(work, self.soc, self.expansion)[0]()]
        if isinstance(work, FilterWork):
            return [lower_filter(work, self.soc, self.expansion)]
        if isinstance(work, VectorWork):
            return [lower_vector(work, self.soc, self.expansion)]
        if isinstance(work, MoveWork):
            return [lower_movement(work, self.soc, self.expansion)]
        if isinstance(work, ScalarWork):
            return [lower_scalar(work, self.soc)]
        if isinstance(work, SequenceWork):
            return [_bounded(stage, work.repeat) for stage in self._sequence(work)]
        raise CompileError("work", "must be work of the AI Core", type(work).__name__)

    def _sequence(self, work: SequenceWork) -> list[Stage]:
        stages = [stage for part in work.parts for stage in self.drafts(part)]
        joined = join_stages(stages, work.repeat, core_counts(self.soc))
        if not work.apart or len(joined) > 1:
            return joined
        return [replace(joined[0], sizes=sizes_in_all(stages))]


def _bounded(stage: Stage, repeat: int) -> Stage:
    """Repeats walk over slices of tensors: what is touched in all is bounded by the bytes that move."""
    return replace(stage, sizes={region: bytes * repeat for region, bytes in stage.sizes.items()})


def _trimmed(make: Callable[[], Stage]) -> Stage:
    return with_needed_flags(make())
