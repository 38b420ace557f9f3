"""Lowers units, a single node or the nodes of a scope, each kind once: what repeats is copied under other
names.

The first unit with a key (`unit_key`) is lowered; the tasks of all others with that key are its tasks with
their own names of tensors and nodes, whose blocks share its statements (`isa.program.RenamedBlock`). That
saves nearly all of the work on networks with equal layers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ascendsim.core.errors import CompileError
from ascendsim.graph.ir import Node
from ascendsim.graph.scopes import internal_tensors
from ascendsim.isa.program import Access, BlockGroup, RenamedBlock, Task
from ascendsim.lower.engine import work_of, workspace_name
from ascendsim.lower.fused import FusedScope, ScopeLowering
from ascendsim.lower.known_units import KnownUnits, LoweredUnit, Refusal, named_in
from ascendsim.lower.templates.stage import Stage
from ascendsim.lower.tiling_search import TILING
from ascendsim.lower.unit_key import Key, unit_key
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
    Slice,
    StagedProduct,
    VectorWork,
    Work,
    WorkChoice,
)

NodeTasks = Callable[[Node, Work, int | None], tuple[list[Task], Mapping[str, int], int]]

ENGINES: dict[type, str] = {
    CubeWork: "cube",
    CubePair: "cube",
    FilterWork: "cube",
    VectorWork: "vector",
    MoveWork: "movement",
    ScalarWork: "scalar",
    SequenceWork: "sequence",
    WorkChoice: "sequence",
    StagedProduct: "sequence",
    FinishedProduct: "sequence",
    AttentionWork: "attention",
    AiCpuWork: "ai_cpu",
    LinkWork: "links",
    NoTask: "none",
}


class UnitLowering:
    """Lowers the units of graphs for one chip.

    Args:
        opset: Operators.
        context: What operators may ask while they describe their work.
        node_tasks: Makes the tasks of a node from its work and its tiling if that is given: the tasks, its
            workspaces, its tiling.
        scopes: Makes programs for scopes.
        known: What this compilation has lowered; None = every unit is lowered by itself.
        before: What others have lowered with the same chip, opset and options.
    """

    def __init__(
        self,
        opset: OpSet,
        context: LowerContext,
        node_tasks: NodeTasks,
        scopes: ScopeLowering,
        known: KnownUnits | None,
        before: KnownUnits | None = None,
    ) -> None:
        self._opset, self._context, self._node_tasks, self._scopes, self._known = (
            opset,
            context,
            node_tasks,
            scopes,
            known,
        )
        self._before = KnownUnits() if before is None else before

    def fusible(self, node: Node) -> bool:
        """Whether a node runs a task on the AI Core."""
        return self._engine(node) not in ("ai_cpu", "links", "none")

    def lower(self, nodes: Sequence[Node]) -> FusedScope:
        """The program of a scope, see `ScopeLowering.lower`, or that of an equal one, which saves as much.

        Raises:
            CompileError: If there is none.
        """
        named = unit_key(nodes) if self._known is not None else None
        if named is None:
            return self._scopes.lower(nodes)
        assert self._known is not None
        key, names = named
        found = self._known.scopes.get(key)
        if found is None:
            found = self._before.scope(key)
            if found is None:
                return self._lower_scope(nodes, key, names)
            self._known.scopes[key] = found
        _, outcome = found
        if isinstance(outcome, Refusal):
            if not outcome.can_be_shared:
                return self._scopes.lower(nodes)  # which refuses it in its own words
            raise outcome.of(named_in(nodes, names))
        return outcome

    def settled(self, nodes: Sequence[Node]) -> FusedScope:
        """The program of a scope that is not fused any further: its tiling may be picked by time.

        Raises:
            CompileError: If there is none.
        """
        given = nodes[0].origin.get(TILING)
        named = unit_key(nodes) if self._known is not None else None
        if named is None:
            return self._scopes.settled(self._scopes.lower(nodes), given)
        assert self._known is not None
        key, names = named
        if key not in self._known.settled and (found := self._before.settled_scope(key)):
            self._known.settled[key] = found
        if key not in self._known.settled:
            scope = self.lower(nodes)
            first, outcome = self._known.scopes[key]
            if outcome is not scope:  # another scope with the key was refused, this one was not
                return self._scopes.settled(scope, given)
            self._known.settled[key] = first, self._scopes.settled(scope, given)
            self._before.keep_settled(key, first, self._known.settled[key][1])
        before, settled = self._known.settled[key]
        return _renamed_scope(settled, nodes, dict(zip(before, names, strict=True)))

    def _lower_scope(self, nodes: Sequence[Node], key: Key, names: tuple[str, ...]) -> FusedScope:
        assert self._known is not None
        try:
            scope = self._scopes.lower(nodes)
        except CompileError as error:
            refusal = Refusal(error, named_in(nodes, names))
            self._known.scopes[key] = names, refusal
            self._before.keep_scope(key, names, refusal)
            raise
        self._known.scopes[key] = names, scope
        self._before.keep_scope(key, names, scope)
        return scope

    def unit(self, nodes: Sequence[Node], first: int = 0) -> LoweredUnit:
        """A node by itself, or the nodes of a scope, tasks numbered from `first`.

        Raises:
            CompileError: If it cannot be lowered; names the node or the scope.
        """
        if len(nodes) == 1:
            return self.node(nodes[0], first)
        scope = self.settled(nodes)
        internal = frozenset(tensor.name for tensor in scope.internal)
        task = fused_task(scope, first)
        return LoweredUnit(ENGINES[type(scope.work)], (task,), internal=internal, option=scope.stage.option)

    def node(self, node: Node, first: int = 0) -> LoweredUnit:
        """A node by itself, its tasks numbered from `first`.

        Raises:
            CompileError: If it cannot be lowered; names it.
        """
        named = unit_key((node,)) if self._known is not None else None
        if named is None:
            return _numbered(self._lower_node(node), first)
        assert self._known is not None
        key, names = named
        found = self._known.nodes.get(key) or self._before.node(key)
        if found is None:
            lowered = self._lower_node(node)
            self._known.nodes[key] = names, lowered
            self._before.keep_node(key, names, lowered)
            return _numbered(lowered, first)
        self._known.nodes[key] = found
        before, lowered = found
        return _renamed_node(lowered, node, dict(zip(before, names, strict=True)), first)

    def _lower_node(self, node: Node) -> LoweredUnit:
        work = work_of(node, self._opset, self._context)
        engine = ENGINES[type(work)]
        if isinstance(work, NoTask):
            return LoweredUnit(engine, nothing=work)
        tasks, workspaces, option = self._node_tasks(node, work, node.origin.get(TILING))
        return LoweredUnit(engine, tuple(tasks), workspaces=workspaces, option=option)

    def _engine(self, node: Node) -> str:
        named = unit_key((node,)) if self._known is not None else None
        if named is None:
            return ENGINES[type(work_of(node, self._opset, self._context))]
        assert self._known is not None
        engines, (key, _) = self._before.engines, named
        if key not in engines:
            engines[key] = ENGINES[type(work_of(node, self._opset, self._context))]
        return engines[key]


def fused_task(scope: FusedScope, number: int) -> Task:
    """The one task of a scope."""
    stage = scope.stage
    names = tuple([node.name for node in scope.nodes])
    return Task(number, scope.name, stage.kind, groups=stage.groups, accesses=scope.accesses, fused=names)


def _renamed_scope(scope: FusedScope, nodes: Sequence[Node], names: Mapping[str, str]) -> FusedScope:
    sizes = {names[region]: size for region, size in scope.stage.sizes.items()}
    stage = Stage(_renamed_groups(scope.stage.groups, names), scope.stage.kind, sizes, scope.stage.option)
    accesses = _renamed_accesses(scope.accesses, names)
    return FusedScope(
        tuple(nodes),
        scope.work,
        stage,
        accesses,
        internal_tensors(nodes),
        scope.saved_bytes,
        scope.operand_bytes,
    )


def _numbered(lowered: LoweredUnit, first: int) -> LoweredUnit:
    return replace(lowered, tasks=tuple([replace(task, id=first + task.id) for task in lowered.tasks]))


def _renamed_node(lowered: LoweredUnit, node: Node, names: dict[str, str], first: int) -> LoweredUnit:
    if lowered.nothing is not None:
        aliases = tuple([(names[shared], names[source]) for shared, source in lowered.nothing.aliases])
        slices = tuple(
            [
                Slice(names[cut.region], names[cut.whole], cut.axis, cut.first)
                for cut in lowered.nothing.slices
            ]
        )
        return LoweredUnit(lowered.engine, nothing=NoTask(aliases, slices))
    for task in lowered.tasks[:1]:
        old, new = workspace_name(task.name), workspace_name(node.name)
        names[old] = new
        names |= {name: new + name.removeprefix(old) for name in lowered.workspaces}
    workspaces = {names[name]: size for name, size in lowered.workspaces.items()}
    tasks = tuple(
        [
            Task(
                first + task.id,
                node.name,
                task.kind,
                groups=_renamed_groups(task.groups, names),
                accesses=_renamed_accesses(task.accesses, names),
                cpu_us=task.cpu_us,
                known_us=task.known_us,
                host_waits=task.host_waits,
            )
            for task in lowered.tasks
        ]
    )
    return LoweredUnit(lowered.engine, tasks, workspaces=workspaces, option=lowered.option)


def _renamed_groups(groups: Sequence[BlockGroup], names: Mapping[str, str]) -> tuple[BlockGroup, ...]:
    return tuple([replace(group, block=RenamedBlock(group.block, names)) for group in groups])


def _renamed_accesses(accesses: Sequence[Access], names: Mapping[str, str]) -> tuple[Access, ...]:
    return tuple(
        [
            Access(names[access.region], access.unique_bytes, access.moved_bytes, access.write)
            for access in accesses
        ]
    )
