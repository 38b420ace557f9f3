"""Passes on what they cannot know: tensors of unknown rank, inputs that are left out, dead parts of all
kinds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.graph.verify import verify
from ascendsim.passes.rewriting.removal import remove_dead

Body = Callable[[asim.GraphBuilder, Tensor], Tensor]
STAY: dict[str, Body] = {
    "Transpose": lambda b, x: b.op("Transpose", x),
    "Reshape": lambda b, x: b.op("Reshape", x, [2, 3]),
    "Flatten": lambda b, x: b.op("Flatten", x, axis=1),
    "Unsqueeze": lambda b, x: b.op("Unsqueeze", x, [0]),
    "Slice": lambda b, x: b.op("Slice", x, [0], [9], [0]),
    "Tile": lambda b, x: b.op("Tile", x, [1, 1]),
    "Expand": lambda b, x: b.op("Expand", x, [1, 1]),
    "ReduceSum": lambda b, x: b.op("ReduceSum", x, [0], keepdims=1),
    "Softmax": lambda b, x: b.op("Softmax", x, axis=-1),
    "Add": lambda b, x: b.op("Add", x, b.constant(np.zeros((1, 3), np.float32))),
    "Mul": lambda b, x: b.op("Mul", x, b.constant(np.ones((1, 3), np.float32))),
    "Shape": lambda b, x: b.op("Shape", x),
    "Size": lambda b, x: b.op("Size", x),
}


@pytest.mark.parametrize("name", STAY)
def test_what_may_change_a_tensor_of_unknown_rank_stays(name: str) -> None:
    b = asim.GraphBuilder("unknown")
    b.output(STAY[name](b, b.graph.add_input("x", DType.FLOAT32, None)), "y")
    graph = asim.optimize(b.build()).graph
    assert [node.op_type for node in graph.nodes] == [name]
    verify(graph)


@pytest.mark.parametrize("name", STAY)
def test_what_may_change_open_dimensions_stays(name: str) -> None:
    b = asim.GraphBuilder("open")
    b.output(STAY[name](b, b.input("x", (None, None))), "y")
    graph = asim.optimize(b.build()).graph
    verify(graph)
    assert [node.op_type for node in graph.nodes] == [name]


def chain(length: int, graph: Graph, start: Tensor | None) -> list[Tensor]:
    """Nodes one after the other, each with an input that is left out in the middle."""
    found = []
    for _ in range(length):
        w = graph.add_constant(graph.fresh("w"), np.ones(2, np.float32))
        start = graph.add_node("Clip", [start, None, w]).output
        found.append(start)
    return found


def test_dead_chains_go_with_their_constants_though_inputs_are_left_out() -> None:
    graph = Graph("dead")
    x = graph.add_input("x", DType.FLOAT32, (2,))
    kept = chain(2, graph, x)
    dead = chain(3, graph, kept[0])
    graph.outputs.append(kept[-1])
    assert len(dead) == 3
    assert remove_dead(graph) == (3, 3)
    assert len(graph) == 2
    assert remove_dead(graph) == (0, 0)
    graph.outputs.append(graph.add_constant("result", np.ones(1, np.float32)))
    assert remove_dead(graph) == (0, 0)  # a constant that the graph returns


def test_a_dead_node_takes_what_only_its_subgraph_read_with_it() -> None:
    graph, body = Graph("outer"), Graph("body")
    x = graph.add_input("x", DType.FLOAT32, (2,))
    flag = graph.add_input("flag", DType.BOOL, ())
    (seen,) = chain(1, graph, x)
    inner = Graph("inner")
    inner.outputs.append(inner.add_node("Neg", [seen]).output)
    held = body.add_node("If", [flag], then_branch=inner, else_branch=inner)
    body.outputs.append(body.add_node("Add", [held.output, x]).output)
    graph.add_node("If", [flag], then_branch=body, else_branch=body)
    graph.outputs.append(graph.add_node("Abs", [x]).output)
    nodes, constants = remove_dead(graph)
    assert (nodes, constants) == (2, 1)
    assert [node.op_type for node in graph.nodes] == ["Abs"]
    assert [use.node.op_type for use in x.uses] == ["Abs"]
    assert not flag.uses


def test_nodes_inside_of_subgraphs_go_too() -> None:
    graph, body = Graph("outer"), Graph("body")
    x = graph.add_input("x", DType.FLOAT32, (2,))
    flag = graph.add_input("flag", DType.BOOL, ())
    chain(2, body, x)
    body.outputs.append(body.add_node("Abs", [x]).output)
    graph.outputs.append(graph.add_node("If", [flag], then_branch=body, else_branch=body).output)
    assert remove_dead(graph) == (2, 2)
    assert len(body) == 1
