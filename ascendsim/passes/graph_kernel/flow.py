"""Graph-kernel fusion of a model, in MindSpore's two rounds.

Round 0 runs on the user's graph, before kernels are selected: basic and composite stage mark groups of
operators. Precision and layout then work on the plain nodes. Round 1 runs on the device graph: operators are
expanded, both stages run again (now Cast may join), every group whose composite is not faster than its parts
is given up, and the others become nodes of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from ascendsim.graph.composites import body_graph, is_composite
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Graph, Node
from ascendsim.opset import OpSet
from ascendsim.passes.graph_kernel.expanders import expand
from ascendsim.passes.graph_kernel.flags import GraphKernelFlags
from ascendsim.passes.graph_kernel.groups import Groups, mark_of
from ascendsim.passes.graph_kernel.lists import with_mindspore_types
from ascendsim.passes.graph_kernel.outline import keeping_places, outline, outline_all
from ascendsim.passes.graph_kernel.outside import OutsideRecord, outside_records
from ascendsim.passes.graph_kernel.stages import basic_stage, composite_stage

CostOracle = Callable[[Graph], float]  # microseconds of a device graph, run alone
# name of the stage, and the graph with composites, under MindSpore's operator names
Dump = Callable[[str, Graph], None]
VALIDATE = "6_validate"
BASIC_END, COMPOSITE_END = "hwopt_d_fuse_basic_opt_end_graph", "hwopt_d_composite_opt_end_graph"
_EXPANDED = "expanded_from"


@dataclass(frozen=True, slots=True)
class CompositeRecord:
    """One composite, made or given up.

    Attributes:
        name: As MindSpore prints it.
        members: Names of the nodes that it stands for, as they were before operators were expanded.
        types: MindSpore's operator types of its body.
        parts_us, composite_us: Time of the parts and of the composite, None without an oracle.
        kept: Whether it pays.
    """

    name: str
    members: tuple[str, ...]
    types: tuple[str, ...]
    parts_us: float | None
    composite_us: float | None
    kept: bool


@dataclass(slots=True)
class GraphKernelReport:
    """What graph-kernel fusion did."""

    records: list[CompositeRecord] = field(default_factory=list)
    outside: list[OutsideRecord] = field(default_factory=list)  # operators in no composite, and why
    warnings: list[str] = field(default_factory=list)

    @property
    def composites(self) -> list[CompositeRecord]:
        """Those that were made."""
        return [record for record in self.records if record.kept]


def mark_graph(graph: Graph, opset: OpSet, flags: GraphKernelFlags, dump: Dump | None = None) -> None:
    """Round 0: marks groups in the user's graph.

    Args:
        graph: Shapes inferred; nodes are marked, nothing else changes. A composite file is one group already.
        opset: Operators.
        flags: The user's switches.
        dump: Receives the graph before, after the basic stage and after the composite stage.
    """
    if dump is not None:
        dump(VALIDATE, with_mindspore_types(copy_graph(graph), opset))
    groups = Groups(graph, opset)
    if graph.metadata.get("format") == "composite" and flags.stages and groups.order:
        groups.mark(groups.order, str(graph.metadata["composite"]))
    _stages(
        groups, flags, False, None if dump is None else lambda: dump(f"{BASIC_END}_0", _preview(graph, opset))
    )
    if dump is not None:
        dump(f"{COMPOSITE_END}_0", _preview(graph, opset))


def fuse_marked(
    graph: Graph,
    opset: OpSet,
    flags: GraphKernelFlags,
    oracle: CostOracle | None = None,
    dump: Dump | None = None,
) -> tuple[Graph, GraphKernelReport]:
    """Round 1: expands operators, completes the groups and makes composites of those that pay.

    Args:
        graph: The device graph with the marks of round 0; not changed.
        opset: Operators.
        flags: The user's switches.
        oracle: Says how long a device graph takes; None keeps every composite.
        dump: Receives the graph after both stages.

    Returns:
        The fused graph and what was done.
    """
    report = GraphKernelReport(warnings=list(flags.warnings))
    denied: set[str] = set()
    late: set[str] = set()  # expanded operators whose neighbours join each other first
    basic: list[Graph] = []
    places = {node: place for place, node in enumerate(graph.topological())}
    while True:
        attempt = copy_graph(graph)
        if "expander" in flags.stages:
            _expand_all(attempt, opset, flags, denied)
        groups = Groups(attempt, opset)
        _repair(groups)
        if "expander" in flags.stages and "composite" in flags.stages:
            composite_stage(groups, flags, True, _first(groups, late))
        _stages(groups, flags, True, None if dump is None else partial(_keep_preview, attempt, opset, basic))
        weighed = [
            (number, *_weighed(graph, places, groups, number, oracle))
            for number in groups.numbers_from_the_end()
        ]
        lost = {name for _, record, expanded in weighed if not record.kept for name in expanded}
        if not lost:
            break
        denied |= lost & late  # once more, with these operators whole
        late |= lost
    if dump is not None:
        dump(f"{BASIC_END}_1", basic[-1])
    given_up: dict[Node, str] = {}
    for number, record, _ in weighed:
        if not record.kept:
            why = f"{record.name} takes {record.composite_us:.3f} us, its parts {record.parts_us:.3f} us"
            given_up.update(dict.fromkeys(groups.members[number], why))
            groups.dissolve(number)
    report.outside = list(outside_records(groups, flags, given_up))
    _outline_all(groups)
    report.records = [record for _, record, _ in reversed(weighed)]
    if dump is not None:
        dump(f"{COMPOSITE_END}_1", with_mindspore_types(copy_graph(attempt), opset))
    return attempt, report


def _stages(
    groups: Groups, flags: GraphKernelFlags, selected: bool, after_basic: Callable[[], None] | None
) -> None:
    if "basic" in flags.stages:
        basic_stage(groups, flags, selected)
    if after_basic is not None:
        after_basic()
    if "composite" in flags.stages:
        composite_stage(groups, flags, selected)


def _keep_preview(graph: Graph, opset: OpSet, kept: list[Graph]) -> None:
    kept[:] = [_preview(graph, opset)]


def _preview(graph: Graph, opset: OpSet) -> Graph:
    """The graph with its groups as composites."""
    copy = copy_graph(graph)
    _outline_all(Groups(copy, opset))
    return with_mindspore_types(copy, opset)


def _outline_all(groups: Groups) -> None:
    found = groups.numbers_from_the_end()
    outline_all(
        groups.graph, [(groups.sorted(groups.members[number]), groups.name(number)) for number in found]
    )


def _expand_all(graph: Graph, opset: OpSet, flags: GraphKernelFlags, denied: set[str]) -> None:
    """Expands operators; what one becomes is a group, which may grow."""
    groups = Groups(graph, opset)
    instead: dict[Node, list[Node]] = {}
    with keeping_places(graph, instead):
        for node in groups.order:
            name = groups.type_of(node)
            if node.name in denied or name not in flags.expand or mark_of(node) is not None:
                continue
            label = node.name
            made = expand(graph, node, opset)
            for new in made or ():
                new.origin[_EXPANDED] = label
            if made:
                groups.mark(made, name)
                instead[node] = made


def _first(groups: Groups, late: Collection[str]) -> set[int]:
    """Groups of expanded operators that grow before basic operators join each other, as MindSpore has it from
    1.0 on: its expander comes before both stages.
    """
    return {
        number
        for number, members in groups.members.items()
        if any(node.origin.get(_EXPANDED, None) not in (None, *late) for node in members)
    }


def _repair(groups: Groups) -> None:
    """Takes what precision and layout put between members into the group if it may join, else lets go of
    members until none is cut off.
    """
    for number in list(groups.members):
        name = groups.name(number)
        members = set(groups.members[number])
        inner = groups.between(members)
        if inner and all(node.op_type == "Cast" for node in inner):
            members |= inner
        kept: set[Node] = set()
        for node in reversed(groups.sorted(members)):
            if not kept or not groups.has_between({*kept, node}):
                kept.add(node)
        if len(kept) < 2 and not any(_EXPANDED in node.origin for node in kept):
            groups.dissolve(number)
        elif kept != groups.members[number]:
            groups.mark(kept, name, number)


def _weighed(
    original: Graph, places: Mapping[Node, int], groups: Groups, number: int, oracle: CostOracle | None
) -> tuple[CompositeRecord, frozenset[str]]:
    """A group with its price, and the names of the operators that were expanded for it; `places` are those of
    the original's nodes in execution order.
    """
    members = groups.sorted(groups.members[number])
    expanded = frozenset(node.origin[_EXPANDED] for node in members if _EXPANDED in node.origin)
    names = tuple(dict.fromkeys(node.origin.get(_EXPANDED, node.name) for node in members))
    types = tuple(map(groups.type_of, members))
    name = groups.name(number)
    if oracle is None:
        return CompositeRecord(name, names, types, None, None, True), expanded
    parts, _, _ = body_graph(sorted(map(original.node, names), key=lambda node: places[node]), name)
    whole, _, _ = body_graph(members, name)
    outline(whole, whole.topological(), name)
    before, after = oracle(parts), oracle(whole)
    # the file says that it is one kernel, whatever it costs
    given = original.metadata.get("format") == "composite"
    return CompositeRecord(name, names, types, before, after, given or after < before), expanded


def composites_in(graph: Graph) -> Iterator[Node]:
    """The composites of a graph in execution order."""
    return (node for node in graph.topological() if is_composite(node))
