"""Whether a graph hangs together, edges that join two nodes twice, and who says so."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ascendsim as asim
from ascendsim.cli.main import main
from ascendsim.graph.connection import connected_parts, multi_edges, parts_text
from ascendsim.graph.ir import Graph, Tensor


@given(st.integers(1, 12), st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=14))
def test_parts_are_the_components_of_the_edges(count: int, edges: list[tuple[int, int]]) -> None:
    """Node b reads node a for every edge a < b; nodes without one read an input of their own."""
    b = asim.GraphBuilder("g")
    kept = [(low, high) for low, high in ((min(e), max(e)) for e in edges) if low < high < count]
    made: list[Tensor] = []
    for number in range(count):
        read = [made[low] for low, high in kept if high == number] or [b.input(f"x{number}", (4,))]
        made.append(b.op("Sum", *read, name=f"n{number}"))
        b.output(made[-1], f"y{number}")
    groups = [{number} for number in range(count)]  # by merging sets, slowly
    for low, high in kept:
        (first,), (second,) = ([g for g in groups if end in g] for end in (low, high))
        if first is not second:
            groups = [g for g in groups if g not in (first, second)] + [first | second]
    graph = b.build()
    found = {frozenset(int(node.name[1:]) for node in part) for part in connected_parts(graph)}
    assert found == {frozenset(group) for group in groups}
    doubles = {(low, high): kept.count((low, high)) for low, high in kept}
    wanted = {(f"n{low}", f"n{high}"): n for (low, high), n in doubles.items() if n > 1}
    assert multi_edges(graph) == wanted


def two_networks() -> Graph:
    b = asim.GraphBuilder("two")
    half = b.constant(np.float32(0.5), "half")  # of both, and no edge between them
    for name in "ab":
        x = b.op("Mul", b.input(f"x{name}", (8, 16)), half, name=f"scale_{name}")
        b.output(b.op("Softmax", x, name=f"soft_{name}"), f"y{name}")
    return b.build()


def test_a_graph_input_and_a_subgraph_join_and_a_constant_does_not() -> None:
    graph = two_networks()
    assert parts_text(connected_parts(graph)) == "scale_a to soft_a (2 nodes); scale_b to soft_b (2 nodes)"
    b = asim.GraphBuilder("one")
    x = b.input("x", (8,))
    b.output(b.op("Relu", x), "y")
    b.output(b.op("Neg", x), "z")
    assert len(connected_parts(b.build())) == 1


@pytest.mark.parametrize("count", [1, 2])
def test_compilation_and_optimize_say_so(
    count: int, tmp_path: object, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = two_networks()
    b = asim.GraphBuilder("whole")
    y = b.ops("Split", b.input("x", (8, 16)), outputs=("c0", "c1"), axis=0, num_outputs=2, name="cut")
    b.output(b.op("Add", *y, name="sum"), "y")
    graph = graph if count == 2 else b.build()
    lines = [line for line in asim.compile(graph).fusion.warnings if "no edge joins" in line]
    assert len(lines) == count - 1
    if lines:
        assert "graph 'two' has 2 parts" in lines[0]
        assert "soft_a" in lines[0]
    from ascendsim.frontends.onnx.export import export_onnx

    path = f"{tmp_path}/net.onnx"
    onnx.save(onnx.load_from_string(export_onnx(graph)), path)
    assert main(["optimize", path]) == 0
    printed = capsys.readouterr().out
    assert ("2 parts that no edge joins" in printed) == (count == 2)
    assert ("joined by more than one edge: cut to sum (2)" in printed) == (count == 1)
