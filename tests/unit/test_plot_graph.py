"""Pictures of graphs: layers follow the edges, boxes keep apart, and colours say what came and what went."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Graph
from ascendsim.plot.graph_layout import GAP, layered
from ascendsim.plot.graph_picture import GONE, NEW, drawing_of, plot_graphs


def shape_arithmetic() -> Graph:
    b = asim.GraphBuilder()
    x = b.input("x", (2, 3, 4, 5))
    b.output(b.op("Reshape", x, b.op("Gather", b.op("Shape", x), [1, 0, 2, 3])), "y")
    return b.build()


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[float], list[tuple[int, int]]]:
    count = draw(st.integers(1, 14))
    widths = draw(st.lists(st.floats(0.2, 3.0), min_size=count, max_size=count))
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(
        lambda pair: pair[0] != pair[1]
    )
    return widths, [(min(pair), max(pair)) for pair in draw(st.lists(pairs, max_size=20))]


@given(graphs())
def test_edges_point_down_and_boxes_keep_apart(case: tuple[list[float], list[tuple[int, int]]]) -> None:
    widths, edges = case
    layout = layered(widths, edges)
    for (source, target), route in zip(edges, layout.routes, strict=True):
        assert route[0] == layout.places[source]
        assert route[-1] == layout.places[target]
        assert [layer for _, layer in route] == list(range(route[0][1], route[-1][1] + 1))
    for layer in range(layout.layers):
        boxes = sorted(
            (x, width) for (x, own), width in zip(layout.places, widths, strict=True) if own == layer
        )
        for (left, left_width), (right, right_width) in pairwise(boxes):
            assert right - left >= (left_width + right_width) / 2 + GAP - 1e-6
    assert all(
        width / 2 - 1e-6 <= x <= layout.width - width / 2 + 1e-6
        for (x, _), width in zip(layout.places, widths, strict=True)
    )


def test_a_drawing_has_what_the_graph_has() -> None:
    drawing = drawing_of("shapes", shape_arithmetic())
    assert [box.lines[0] for box in drawing.boxes] == ["x", "Shape", "[1, 0, 2, 3]", "Gather", "Reshape", "y"]
    assert len(drawing.layout.routes) == 6
    assert drawing.labels[0] == "f32 [2,3,4,5]"


def test_what_went_is_orange_and_what_came_is_green(tmp_path: Path) -> None:
    from matplotlib.colors import to_hex
    from matplotlib.patches import FancyBboxPatch

    b = asim.GraphBuilder()
    b.output(b.op("Relu", b.input("x", (2,)), name="new"), "y")
    display = plot_graphs({"before": shape_arithmetic(), "after": b.build()})
    colours = [
        to_hex(patch.get_facecolor()) for patch in display.ax_.patches if isinstance(patch, FancyBboxPatch)
    ]
    assert (colours.count(GONE), colours.count(NEW)) == (3, 1)
    assert display.save(tmp_path / "graphs.png").stat().st_size > 1000


def test_labels_stand_beside_their_arrows() -> None:
    """Left of arrows that all lead down or to the right, else right of them."""
    b = asim.GraphBuilder()
    x = b.input("x", (8,))
    sums = b.op("Add", b.op("Relu", x, name="one"), b.op("Neg", x, name="other"), name="sum")
    b.output(sums, "y")
    shown = plot_graphs(b.build())
    (drawing,) = shown.drawings
    places = {box.name: place for box, place in zip(drawing.boxes, drawing.layout.places, strict=True)}
    assert places["one"][0] < places["sum"][0] < places["other"][0]
    labels = [text for text in shown.ax_.texts if text.get_text() == "f32 [8]"]
    sides = {
        name: label.get_horizontalalignment()
        for label, name in zip(labels, ("x", "one", "other", "sum"), strict=True)
    }
    assert sides == {"x": "left", "one": "right", "other": "left", "sum": "left"}


def test_large_graphs_are_refused() -> None:
    b = asim.GraphBuilder()
    x = b.input("x", (2,))
    for _ in range(130):
        x = b.op("Relu", x)
    b.output(x, "y")
    with pytest.raises(InputError, match="at most 120 boxes"):
        plot_graphs(b.build())
    with pytest.raises(InputError, match="needs a graph"):
        plot_graphs({})


def test_what_a_branch_reads_from_outside_points_to_its_operator() -> None:
    graph = Graph("choosing")
    x, condition = graph.add_input("x", DType.FLOAT32, (2,)), graph.add_input("condition", DType.BOOL, ())
    branches = []
    for name in ("then_branch", "else_branch"):
        branch = Graph(name)
        branch.outputs.append(branch.add_node("Relu", [x]).output)
        branches.append(branch)
    made = graph.add_node("If", [condition], name="choice", then_branch=branches[0], else_branch=branches[1])
    graph.outputs.append(made.output)
    drawing = drawing_of("branches", graph)
    names = [box.lines for box in drawing.boxes]
    assert ("If", "then_branch, else_branch") in names
    assert len(drawing.layout.routes) == 3


def test_pictures_say_in_one_line_what_they_show() -> None:
    graph = shape_arithmetic()
    result = asim.simulate(asim.compile(graph))
    assert repr(plot_graphs({"before": graph, "after": graph})) == "GraphDisplay('before, after')"
    assert repr(result.plot_timeline()).startswith("TimelineDisplay('")
    assert "\n" not in repr(result.plot_timeline()) + repr(result.memory.plot())
