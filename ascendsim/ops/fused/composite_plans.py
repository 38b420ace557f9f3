"""Ways to cut the body of a composite into phases.

A phase is a set of nodes that run together, tile by tile; what later phases read of it passes through
workspace. Which cut is quickest depends on the chip: one sweep over the data with everything in it, whose
tiles are small and whose shares are those of its reductions, or several that are free to choose theirs. So
there are several plans:

    whole         all nodes in one phase
    early, late   each node in the first phase that takes it, or in the last one before its readers
    ended         as these, but with the result of a reduction a new phase begins
    again         nodes are repeated in a phase where that reads no more than what they have made
    apart         parts that have nothing to do with each other, one after the other
    single        each node by itself
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeAlias

from ascendsim.graph.ir import Node, Tensor
from ascendsim.ops.fused.composite_body import Body
from ascendsim.opset.work import CubeWork, VectorWork

# phases; a node's results are stored by the first phase that has it
Plan: TypeAlias = tuple[tuple[Node, ...], ...]


def plans_of(body: Body) -> list[Plan]:
    """The plans that are worth a look, all different, the one with the fewest phases first."""
    if not body.nodes:
        return [()]
    found = list(dict.fromkeys(_all_plans(body)))
    return sorted(found, key=len)


def _all_plans(body: Body) -> Iterator[Plan]:
    whole = (tuple(body.nodes),)
    if works_of(body, whole) is not None:
        yield whole
    for ended in (False, True):
        for place in (_early, _late):
            plan = place(body, body.nodes, ended)
            yield plan
            yield repeated(body, plan)
    groups = independent(body)
    if len(groups) > 1:
        for ended in (False, True):
            plan = tuple(phase for group in groups for phase in _early(body, group, ended))
            yield plan
            yield repeated(body, plan)
    yield tuple((node,) for node in body.nodes)


def works_of(body: Body, plan: Plan) -> list[VectorWork | CubeWork | None] | None:
    """The work of each phase of a plan, None for a node that only runs as it would alone; None if a phase
    does not fit together.
    """
    works: list[VectorWork | CubeWork | None] = []
    for number, phase in enumerate(plan):
        work = body.joined(phase, stores(body, plan, number))
        if work is None and len(phase) > 1:
            return None
        works.append(work)
    return works


def stores(body: Body, plan: Plan, number: int) -> list[Tensor]:
    """What a phase of a plan writes: results that no phase before it has and others read that do not make
    them again.
    """
    before = {node for phase in plan[:number] for node in phase}
    own = [node for node in plan[number] if node not in before]
    made = {tensor for node in own for tensor in node.outputs}
    wanted = {
        tensor
        for phase in plan[number + 1 :]
        for node in phase
        for tensor in body.reads(node)
        if tensor in made and tensor.producer not in phase
    }
    return body.stored(made, wanted)


def _fits(body: Body, nodes: Collection[Node]) -> bool:
    """Whether nodes can be one phase, all that others read of them stored."""
    phase = _sorted(body, nodes)
    made = {tensor for node in phase for tensor in node.outputs}
    wanted = {tensor for tensor in made if not body.readers.get(tensor, set()) <= set(phase)}
    return body.joined(phase, body.stored(made, wanted)) is not None


def _sorted(body: Body, nodes: Collection[Node]) -> tuple[Node, ...]:
    return tuple(node for node in body.nodes if node in nodes)


def _early(body: Body, nodes: Sequence[Node], ended: bool) -> Plan:
    """Each node in the first phase that takes it, behind all that it reads."""
    return _placed(
        body, nodes, ended, lambda node: [t.producer for t in body.reads(node) if t.producer is not None]
    )


def _late(body: Body, nodes: Sequence[Node], ended: bool) -> Plan:
    """Each node in the last phase that takes it, before all that reads it."""
    plan = _placed(
        body,
        list(reversed(nodes)),
        ended,
        lambda node: [reader for t in node.outputs for reader in body.readers.get(t, ())],
    )
    return plan[::-1]


def _placed(body: Body, nodes: Sequence[Node], ended: bool, bounds: Callable[[Node], list[Node]]) -> Plan:
    """Deals nodes out to phases: each goes into the first one that takes it, not before those of its bounds.

    Args:
        body: The body.
        nodes: In execution order, or against it.
        ended: Whether a node that reads what a reduction of a phase has led to must be in another phase.
        bounds: Nodes that must be in the same phase or an earlier one (of the order of `nodes`).
    """
    phases: list[set[Node]] = []
    home: dict[Node, int] = {}
    for node in nodes:
        first = max((home[other] for other in bounds(node) if other in home), default=0)
        for number in range(first, len(phases)):
            together = {*phases[number], node}
            if (not ended or _ends_with_reductions(body, together)) and _fits(body, together):
                phases[number].add(node)
                break
        else:
            number = len(phases)
            phases.append({node})
        home[node] = number
    return tuple(_sorted(body, phase) for phase in phases)


def _ends_with_reductions(body: Body, phase: Collection[Node]) -> bool:
    """Whether what reductions of a phase have led to is used by nothing of full size in it."""
    folded: set[Tensor] = set()
    largest = max(tensor.elements for node in phase for tensor in (*body.reads(node), *node.outputs))
    for node in _sorted(body, phase):
        if any(tensor in folded for tensor in body.reads(node)):
            if any(tensor.elements == largest > 1 for tensor in node.outputs):
                return False
            folded.update(node.outputs)
        elif body.reduces(node):
            folded.update(node.outputs)
    return True


def repeated(body: Body, plan: Plan) -> Plan:
    """The plan with nodes repeated in phases that would read their results, where their operands are no more
    bytes than these.
    """
    phases = [set(phase) for phase in plan]
    for number, phase in enumerate(phases):
        given = {tensor for node in phase for tensor in body.reads(node)} - {
            tensor for node in phase for tensor in node.outputs
        }
        for node in reversed(body.nodes):
            (made, *others) = node.outputs
            if made not in given or others or node in phase or not body.is_elementwise(node):
                continue
            more = {tensor for tensor in body.reads(node) if tensor not in given and not tensor.is_constant}
            if sum(map(body.bytes, more)) <= body.bytes(made) and _fits(body, {*phase, node}):
                phase.add(node)
                given = (given - {made}) | more
        phases[number] = phase
    return _needed(body, tuple(_sorted(body, phase) for phase in phases))


def _needed(body: Body, plan: Plan) -> Plan:
    """The plan without nodes whose results nobody reads any more."""
    kept: list[tuple[Node, ...]] = []
    returned = {body.root(tensor) for tensor in body.graph.outputs}
    for number in reversed(range(len(plan))):
        before = {node for phase in plan[:number] for node in phase}
        wanted = {
            tensor
            for phase in kept
            for node in phase
            for tensor in body.reads(node)
            if tensor.producer not in phase
        }
        phase: list[Node] = []
        for node in reversed(plan[number]):
            inside = {tensor for other in phase for tensor in body.reads(other)}
            stored = node not in before and any(
                tensor in returned or tensor in wanted for tensor in node.outputs
            )
            if stored or any(tensor in inside for tensor in node.outputs):
                phase.append(node)
        if phase:
            kept.append(tuple(reversed(phase)))
    return tuple(reversed(kept))


def independent(body: Body) -> list[list[Node]]:
    """Sets of nodes between which no tensor passes, in the order of their first nodes."""
    group: dict[Node, list[Node]] = {}
    for node in body.nodes:
        joined = [node]
        producers = [tensor.producer for tensor in body.reads(node)]
        for other in {id(group[p]): group[p] for p in producers if p is not None and p in group}.values():
            joined = [*other, *joined]
        for member in joined:
            group[member] = joined
    order = {node: place for place, node in enumerate(body.nodes)}
    groups = {id(members): sorted(members, key=lambda node: order[node]) for members in group.values()}
    return sorted(groups.values(), key=lambda members: order[members[0]])
