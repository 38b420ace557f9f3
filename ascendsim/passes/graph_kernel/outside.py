"""Why an operator is in no composite: the first rule of the stages, of the flags or of the price that keeps
it outside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ascendsim.graph.composites import lies_inside
from ascendsim.graph.ir import Node
from ascendsim.passes.graph_kernel.flags import GraphKernelFlags
from ascendsim.passes.graph_kernel.groups import TYPES, Groups
from ascendsim.passes.graph_kernel.lists import AFTER_SELECTION, operators
from ascendsim.passes.graph_kernel.stages import is_saturated


@dataclass(frozen=True, slots=True)
class OutsideRecord:
    """An operator that no composite took in.

    Attributes:
        node: Its name in the device graph.
        type: MindSpore's name of its operator.
        reason: Why it stayed outside.
    """

    node: str
    type: str
    reason: str


def outside_records(
    groups: Groups, flags: GraphKernelFlags, given_up: Mapping[Node, str]
) -> Iterator[OutsideRecord]:
    """The operators outside of all groups, in execution order.

    Args:
        groups: As they are when the stages have ended.
        flags: Of the compilation.
        given_up: Members of composites that do not pay, with the reason.
    """
    inside = {node for members in groups.members.values() for node in members}
    for node in groups.order:
        if node not in inside:
            reason = given_up.get(node) or _why(node, groups, flags)
            yield OutsideRecord(node.name, groups.type_of(node), reason)


def _why(node: Node, groups: Groups, flags: GraphKernelFlags) -> str:
    name = groups.type_of(node)
    known = operators("basic") | operators("composite") | AFTER_SELECTION
    joins = flags.basic | flags.composite | AFTER_SELECTION
    if not {"basic", "composite"} & set(flags.stages):
        return "graph_kernel_flags has switched both stages off"
    if name not in joins:
        if name in known:
            return f"graph_kernel_flags keeps {name} outside"
        if name in flags.expand:
            return f"{name} written out is not faster than {name} whole"
        return f"{name} is on no list of operators that join composites"
    if node.control:
        return "it has a control edge"
    if len(node.outputs) != 1 or node.subgraphs:
        return "it has several results or a subgraph"
    for tensor in (*node.inputs, *node.outputs):
        if tensor is None or lies_inside(tensor):
            continue
        if not tensor.is_static:
            return f"the shape of {tensor.name!r} is not known"
        if tensor.dtype not in TYPES:
            return f"{tensor.element_type.value} is no type of composites"
        if not tensor.elements:
            return f"{tensor.name!r} has no element"
    return _beside(node, name, groups, flags)


def _beside(node: Node, name: str, groups: Groups, flags: GraphKernelFlags) -> str:
    """Why the composites next to an operator that may join did not take it in."""
    near = groups.producers([node]) | groups.users([node])
    touched = [number for number, members in groups.members.items() if members & near]
    if not touched:
        where = "no composite is next to it"
        return where if name in flags.basic else f"{where}, and {name} begins none"
    reasons = [_refused(node, name, groups, flags, number) for number in touched]
    return "; ".join(dict.fromkeys(reasons))


def _refused(node: Node, name: str, groups: Groups, flags: GraphKernelFlags, number: int) -> str:
    members, title = groups.members[number], groups.name(number)
    if "composite" not in flags.stages:
        return "graph_kernel_flags has switched the composite stage off"
    if between := groups.between({*members, node}):
        first = groups.sorted(between)[0]
        return f"{title} with it would close a circle through {first.name!r}"
    if not flags.grows(title):
        return f"{title} never grows"
    if flags.limit and len(members) >= flags.limit:
        return f"{title} has cluster_limit={flags.limit} operators"
    if is_saturated(map(groups.type_of, members)) and not flags.stitch and name not in AFTER_SELECTION:
        return f"{title} has a reduction and takes in nothing but Cast (opt_level 3 lifts it)"
    if name not in flags.composite | AFTER_SELECTION:
        return f"{name} joins basic operators only, not {title}"
    return f"{title} was complete before {name} could join"
