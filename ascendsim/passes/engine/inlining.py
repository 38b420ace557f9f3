"""InlinePartitionedCall: the body of a call takes the place of the call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.passes.rewriting.outputs import is_output, set_aside, typed_like
from ascendsim.passes.rewriting.passes import PassResult
from ascendsim.passes.rewriting.removal import all_graphs, drop_constants

DOMAIN = "ascend"
CALL, BODY = "PartitionedCall", "f"  # GE's operator and its attribute


@dataclass(frozen=True, slots=True)
class InlinePartitionedCallPass:
    """Moves the nodes of every PartitionedCall into the graph around it, so that they are optimised and fused
    with their neighbours.
    """

    name: str = "InlinePartitionedCallPass"

    def run(self, graph: Graph) -> PassResult:
        inlined = 0
        for scope in all_graphs(graph):
            calls = [node for node in scope.nodes if is_call(node)]
            while calls:
                call = calls.pop()
                calls.extend(node for node in inline(call) if is_call(node))
                inlined += 1
        return PassResult.of({"inlined calls": inlined})


def is_call(node: Node) -> bool:
    """Whether a node is a PartitionedCall."""
    return node.op_type == CALL and node.domain == DOMAIN and isinstance(node.attr(BODY), Graph)


def inline(call: Node) -> list[Node]:
    """Moves the nodes of a call's body into the graph of the call, in its place, and removes the call.

    Names of tensors and nodes that the graph has already get the call's name in front. Outputs keep the names
    that they have in the graph. A body's output that is one of its inputs, or a constant that is named twice,
    is handed on by an Identity.

    Returns:
        The nodes, in order.
    """
    graph, body = call.graph, call.attributes[BODY]
    assert graph is not None
    assert isinstance(body, Graph)
    order, inputs, names = list(graph.nodes), call.inputs, _names_around(graph, body)
    for inner, given in zip(body.inputs, inputs, strict=True):
        assert given is not None
        body.replace_uses(inner, given)
    results = list(body.outputs)
    body.outputs.clear()
    body_nodes = body.topological()
    given_inputs = set(body.inputs)
    for tensor in [tensor for tensor in body.tensors.values() if tensor not in given_inputs]:
        tensor.name = graph.fresh(f"{call.name}/{tensor.name}" if tensor.name in names else tensor.name)
        graph.add_tensor(tensor)
    nodes = _move(body_nodes, graph, call)
    own = {tensor for node in nodes for tensor in node.outputs}.union(body.constants)
    last: list[Node] = []
    for outer, result in zip(call.outputs, results, strict=False):
        if is_output(graph, outer):
            name = set_aside(graph, outer, "called")
            if result in own:
                own.remove(result)
                graph.rename_tensor(result, name)
            else:
                last.append(_handed_on(result, outer, name, graph, call))
                result = last[-1].output
        graph.replace_uses(outer, result)
    firsts = [node for node in nodes if not any(True for _ in graph.predecessors(node))]
    for before in call.control:
        for node in firsts:
            node.add_control(before)
    for follower in call.followers:
        for node in (*nodes, *last):
            follower.add_control(node)
    graph.remove_node(call)
    drop_constants(graph, inputs)
    place = order.index(call)
    graph.reorder([*order[:place], *nodes, *last, *order[place + 1 :]])
    return [*nodes, *last]


def _names_around(graph: Graph, body: Graph) -> set[str]:
    """Names that a tensor of the body must not have outside: those of the graph, of what it reads from around
    it, of other subgraphs.
    """
    inside = set(all_graphs(body))
    names = {name for scope in all_graphs(graph) if scope not in inside for name in scope.tensors}
    return names.union(tensor.name for tensor in graph.captured())


def _move(nodes: Sequence[Node], graph: Graph, call: Node) -> list[Node]:
    """Makes the nodes anew in another graph that holds their tensors already; they let go of their edges."""
    made: dict[Node, Node] = {}
    taken = {node.name for node in graph.nodes}
    for node in nodes:
        inputs, outputs = node.inputs, tuple(node.outputs)
        node.truncate_inputs(0)
        for tensor in outputs:
            tensor.producer, tensor.index = None, 0
        name = graph.fresh(f"{call.name}/{node.name}" if node.name in taken else node.name)
        made[node] = graph.add_node(node.op_type, inputs, outputs, name=name, domain=node.domain)
        made[node].attributes.update(node.attributes)
        made[node].origin.update(node.origin)
    for node, twin in made.items():
        for before in node.control:
            twin.add_control(made[before])
    return list(made.values())


def _handed_on(result: Tensor, outer: Tensor, name: str, graph: Graph, call: Node) -> Node:
    """An Identity that gives a value under the name of a graph output."""
    node = graph.add_node("Identity", [result], [name], name=graph.fresh(f"{call.name}/output"))
    typed_like(node.output, outer)
    return node
