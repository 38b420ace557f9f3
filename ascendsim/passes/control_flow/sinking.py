"""Whether a graph can go to the device as a whole (sink), and if not, why the host has to schedule it."""

from __future__ import annotations

from collections.abc import Iterator

from ascendsim.graph.branches import ROUNDS, possible_subgraphs
from ascendsim.graph.constants import shape_text
from ascendsim.graph.ir import Graph, Node
from ascendsim.passes.control_flow.nodes import is_control_flow

MAX_REASONS = 5


def is_dynamic(graph: Graph) -> bool:
    """Whether a graph cannot become one program: it has control flow, or shapes that are not known before it
    runs.
    """
    if any(is_control_flow(node) for node in graph.nodes) or not all(
        tensor.is_static for tensor in graph.inputs
    ):
        return True
    return any(not tensor.is_static for node in graph.nodes for tensor in node.outputs)


def host_reasons(graph: Graph) -> tuple[str, ...]:
    """Why the host has to schedule a graph; empty if every shape in it and in its subgraphs is static.

    One sentence a tensor, the first few: open inputs, then results whose inputs are static but whose own
    shape is not (all further open shapes follow from those).
    """
    reasons = [
        f"input {tensor.name!r} has the open shape {shape_text(tensor.shape)}"
        for tensor in graph.inputs
        if not tensor.is_static
    ]
    reached = list(reached_nodes(graph))
    for node in reached:
        if all(tensor is None or tensor.is_static for tensor in node.inputs):
            open_results = [tensor for tensor in node.outputs if not tensor.is_static]
            reasons += [
                f"node {node.name!r} ({node.op_type}) gives {t.name!r} the shape {shape_text(t.shape)}"
                f"{_rounds(node) if t is open_results[0] else ''}"
                for t in open_results
            ]
    if not reasons:
        reasons = [
            f"tensor {t.name!r} has the shape {shape_text(t.shape)}"
            for node in reached
            for t in node.outputs
            if not t.is_static
        ]
    more = len(reasons) - MAX_REASONS
    return (*reasons[:MAX_REASONS], *((f"and {more} more",) if more > 0 else ()))


def _rounds(node: Node) -> str:
    """What opened the shapes of a loop: a clause for each round of its body's shape inference that did."""
    for _, body in node.subgraphs:
        found: tuple[str, ...] = body.metadata.get(ROUNDS, ())
        if any(found):
            texts = (f"round {number}: {text}" for number, text in enumerate(found, 1) if text)
            return f" (its body's shapes settle in {len(found)} rounds; {'; '.join(texts)})"
    return ""


def reached_nodes(graph: Graph) -> Iterator[Node]:
    """Every node of a graph and its subgraphs that may run."""
    for node in graph.nodes:
        yield node
        for _, subgraph in possible_subgraphs(node):
            yield from reached_nodes(subgraph)
