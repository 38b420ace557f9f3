"""SwitchDeadBranchElimination and MergePass: the dead side of a Switch with a constant condition, and what is
left of its Merge.

    data -> Switch(true) -> output_false -> A -> Merge -> y          data -> B -> y
                         -> output_true  -> B ->

Everything that the dead side feeds is dead too, up to the Merge, which loses that input. A Merge with one
input left hands it on; its second output is then the constant number of that input. Both are operators of
TensorFlow 1 (domain "ascend").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ascendsim.graph.ir import Constant, Graph, Node, Tensor
from ascendsim.passes.engine.edits import bypass, small_value
from ascendsim.passes.engine.node_pass import Site, again_around
from ascendsim.passes.rewriting.removal import drop_constants, remove
from ascendsim.passes.rewriting.runner import RefusedError

DOMAIN = "ascend"
MERGE = "Merge"


@dataclass(frozen=True, slots=True)
class SwitchDeadBranchElimination:
    """Removes what the dead side of a Switch feeds, and the Switch."""

    name: str = "SwitchDeadBranchElimination"
    op_types: frozenset[tuple[str, str]] = frozenset({(DOMAIN, "Switch")})

    def run(self, node: Node, site: Site) -> bool:
        condition = small_value(node.input(1), 1)
        if condition is None or len(node.outputs) != 2:
            raise RefusedError("condition not constant")
        live = int(bool(condition.ravel()[0]))
        alive, side = node.outputs[live], node.outputs[1 - live]
        dead = _dead_nodes(side, site.graph)
        if dead is None:
            raise RefusedError("its dead side is an output of the graph, read in a subgraph, or waited for")
        data, pred = node.required(0), node.required(1)
        again_around(node, site)
        merges = _cut(dead, side)
        node.outputs[:] = [alive, side]
        alive.index, side.index = 0, 1
        _hand_on(node, data)
        drop_constants(site.graph, (pred,))
        for merge in merges:
            site.again(merge)
        site.tally.count("dead sides removed")
        site.tally.count("dead nodes removed", len(dead))
        return True


@dataclass(frozen=True, slots=True)
class MergePass:
    """Removes a Merge with a single input."""

    name: str = "MergePass"
    op_types: frozenset[tuple[str, str]] = frozenset({(DOMAIN, MERGE)})

    def run(self, node: Node, site: Site) -> bool:
        given = [(number, tensor) for number, tensor in enumerate(node.inputs) if tensor is not None]
        if len(given) != 1:
            return False
        number, source = given[0]
        again_around(node, site)
        if len(node.outputs) > 1 and (
            node.outputs[1].uses or any(node.outputs[1] is output for output in site.graph.outputs)
        ):
            index = node.outputs.pop()
            index.producer, index.index, index.constant = None, 0, Constant(np.array(number, np.int32))
        _hand_on(node, source)
        site.tally.count("removed Merge")
        return True


def _is_merge(node: Node) -> bool:
    return (node.domain, node.op_type) == (DOMAIN, MERGE)


def _hand_on(node: Node, source: Tensor) -> None:
    """Takes a node out whose first output is `source` and whose others nobody reads; an Identity stays where
    the output's name must.
    """
    if bypass(node, source):
        return
    graph = node.graph
    assert graph is not None
    for unread in node.outputs[1:]:
        unread.producer = None
        graph.remove_tensor(unread)
    del node.outputs[1:]
    node.op_type, node.domain = "Identity", ""
    node.attributes.clear()
    node.set_input(0, source)
    node.truncate_inputs(1)


def _dead_nodes(side: Tensor, graph: Graph) -> list[Node] | None:
    """Nodes that get nothing if a tensor is dead, a Merge only if all its inputs are dead; None if more than
    such nodes would be lost.
    """
    found: dict[Node, None] = {}
    waiting = [side]
    while waiting:
        tensor = waiting.pop()
        if any(tensor is output for output in graph.outputs):
            return None
        for reader in tensor.consumers:
            if reader.graph is not graph:
                return None
            if reader in found or (
                _is_merge(reader) and not all(t in (None, side) or t.producer in found for t in reader.inputs)
            ):
                continue
            found[reader] = None
            waiting.extend(reader.outputs)
    return (
        None if any(follower not in found for node in found for follower in node.followers) else list(found)
    )


def _cut(dead: list[Node], side: Tensor) -> list[Node]:
    """Takes dead inputs off the Merges behind, and the dead nodes out of the graph; the Merges."""
    merges: dict[Node, None] = {}
    left = set(dead)
    for tensor in (side, *(output for node in dead for output in node.outputs)):
        for use in tensor.uses:
            use.node.set_input(use.index, None)
            if use.node not in left:
                merges[use.node] = None
    for node in dead:
        remove(node)
    return list(merges)
