"""CondRemovePass: If and Case with a constant condition become a call of the branch that is taken.

    node    constant condition            what is left
    If      true                          the then branch
            false                         the else branch
    Case    index 0 .. N-1                that branch
            index >= N                    the last branch
            index < 0                     nothing is changed

The branch becomes the body of a PartitionedCall that takes over the node's data inputs and its outputs; the
other branches are deleted, before anybody compiles them. A condition often becomes constant by folding only,
hence this runs in the same traversal. A While is never unrolled.
"""

from __future__ import annotations

from dataclasses import dataclass

from ascendsim.graph.ir import Graph, Node
from ascendsim.passes.engine.edits import small_value
from ascendsim.passes.engine.inlining import BODY, CALL, DOMAIN
from ascendsim.passes.engine.node_pass import Site, again_around
from ascendsim.passes.rewriting.removal import disconnect, drop_constants
from ascendsim.passes.rewriting.runner import RefusedError


@dataclass(frozen=True, slots=True)
class CondRemovePass:
    """Dead-edge elimination on one node."""

    name: str = "CondRemovePass"
    op_types: frozenset[tuple[str, str]] = frozenset({("", "If"), (DOMAIN, "Case")})

    def run(self, node: Node, site: Site) -> bool:
        branches = _branches(node)
        if not branches:
            return False
        condition = small_value(node.input(0), 1)
        if condition is None:
            raise RefusedError("condition not constant")
        number = _taken(node, condition.ravel()[0].item(), len(branches))
        if number is None:
            site.tally.note(f"{node.name}: left, its condition {condition.ravel()[0]} is negative")
            return False
        again_around(node, site)
        kind = "branch" if node.domain else "If branch"
        _call(node, branches, number)
        site.again(node)
        site.tally.count(f"{kind} removed", len(branches) - 1)
        site.tally.count("calls made")
        return True


def _branches(node: Node) -> tuple[Graph, ...]:
    found: tuple[object, ...] = ()
    if (node.domain, node.op_type) == ("", "If"):
        found = (node.attr("else_branch"), node.attr("then_branch"))
    elif (node.domain, node.op_type) == (DOMAIN, "Case"):
        found = node.attr("branches") or ()
    graphs = tuple(item for item in found if isinstance(item, Graph))
    return graphs if len(graphs) == len(found) else ()


def _taken(node: Node, condition: float, count: int) -> int | None:
    """Number of the branch that a condition chooses (an If has its else branch first); None if it is
    negative.
    """
    if condition < 0:
        return None
    return int(condition > 0) if node.op_type == "If" else min(int(condition), count - 1)


def _call(node: Node, branches: tuple[Graph, ...], number: int) -> None:
    graph, condition = node.graph, node.required(0)
    assert graph is not None
    for index, branch in enumerate(branches):
        if index != number:
            disconnect(branch)
    arguments = node.inputs[1:]
    for index, tensor in enumerate(arguments):
        node.set_input(index, tensor)
    node.truncate_inputs(len(arguments))
    node.op_type, node.domain = CALL, DOMAIN
    node.attributes.clear()
    node.attributes[BODY] = branches[number]
    drop_constants(graph, (condition,))
