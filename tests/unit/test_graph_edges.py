"""What the graph refuses and keeps right at its edges."""

from __future__ import annotations

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.graph.ir import Graph, Node, Shape, Tensor
from ascendsim.graph.verify import verify


def pair() -> tuple[Graph, Tensor, Tensor]:
    """y = Abs(x), and a constant that nobody reads."""
    graph = Graph("pair")
    x = graph.add_input("x", DType.FLOAT32, (2,))
    y = graph.add_node("Abs", [x], ["y"]).output
    graph.add_constant("c", np.zeros(2))
    graph.outputs.append(y)
    return graph, x, y


def test_only_tensors_that_nobody_needs_can_be_forgotten() -> None:
    graph, x, y = pair()
    spare = graph.add_input("spare", DType.FLOAT32, (1,))
    unread = graph.add_node("Neg", [x]).output
    for tensor in (x, y, spare, unread):  # read, returned, an input, made by a node
        with pytest.raises(GraphError, match="cannot be removed: it is still used"):
            graph.remove_tensor(tensor)
        assert graph.tensors[tensor.name] is tensor
    c = graph.tensors["c"]
    graph.outputs.append(c)
    with pytest.raises(GraphError, match="cannot be removed"):
        graph.remove_tensor(c)
    graph.outputs.remove(c)
    graph.remove_tensor(c)
    assert "c" not in graph.tensors


def nested(depth: int) -> Graph:
    """A graph with so many subgraphs one inside of the other."""
    graph = Graph(f"g{depth}")
    x = graph.add_input("x", DType.BOOL, ())
    more = {} if depth == 0 else {"then_branch": nested(depth - 1)}
    graph.outputs.append(graph.add_node("If" if more else "Not", [x], **more).output)
    return graph


def test_subgraphs_nest_32_deep() -> None:
    verify(nested(32))
    with pytest.raises(GraphError, match="must not nest deeper than 32 subgraphs"):
        verify(nested(33))


def test_readers_are_told_once_each_in_order() -> None:
    graph, x, _ = pair()
    twice = graph.add_node("Mul", [x, x])
    assert [node.op_type for node in x.consumers] == ["Abs", "Mul"]
    assert len(x.uses) == 3
    twice.set_input(0, None)
    assert [(use.node.op_type, use.index) for use in x.uses] == [("Abs", 0), ("Mul", 1)]


def test_ports_beyond_the_last_are_absent_until_they_are_set() -> None:
    graph, x, _ = pair()
    node = graph.add_node("Clip", [x])
    assert (node.input(1), node.input(-1), node.input_count) == (None, None, 1)
    node.set_input(2, x)
    assert node.inputs == (x, None, x)
    with pytest.raises(GraphError, match="needs input 1; connect it"):
        node.required(1)
    node.truncate_inputs(1)
    assert node.inputs == (x,)
    assert (node, 2) not in [tuple(use) for use in x.uses]


@pytest.mark.parametrize("change", ["missing", "twice", "foreign"])
def test_an_order_holds_exactly_the_nodes(change: str) -> None:
    graph, x, y = pair()
    second = graph.add_node("Neg", [x])
    assert y.producer is not None
    order = {
        "missing": [second],
        "twice": [second, second],
        "foreign": [second, pair()[2].producer],
    }[change]
    with pytest.raises(GraphError, match="can only be reordered with all of its nodes"):
        graph.reorder(order)  # type: ignore[arg-type]
    graph.reorder([second, y.producer])
    assert graph.nodes == (second, y.producer)


def test_names_that_are_taken() -> None:
    graph, x, y = pair()
    with pytest.raises(GraphError, match="tensor name 'y' is taken"):
        graph.rename_tensor(x, "y")
    graph.rename_tensor(y, "y")
    graph.rename_tensor(y, "z")
    assert list(graph.tensors) == ["x", "c", "z"]
    with pytest.raises(GraphError, match="tensor 'x' must be defined once"):
        graph.add_tensor(Tensor("x"))
    assert graph.fresh("free") == "free"
    assert graph.fresh("Abs") == "Abs_1"  # a node has it
    assert graph.add_node("Abs", [x], name="Abs").name not in ("Abs", "Abs_1")


@pytest.mark.parametrize(
    ("shape", "text"),
    [(None, "%t: float16[?]"), ((2, None, "n"), "%t: float16[2,?,n]"), ((), "%t: float16[]")],
)
def test_a_tensor_prints_its_type_and_what_is_known_of_its_shape(shape: Shape | None, text: str) -> None:
    assert repr(Tensor("t", DType.FLOAT16, shape)) == text
    assert repr(Tensor("t", None, shape)) == text.replace("float16", "?")
    assert Tensor("t", DType.FLOAT16, shape).is_static == ("?" not in text)


def test_subgraphs_are_the_graphs_among_attributes() -> None:
    """Other attributes of a node that holds some may be tuples too, such as the axes of a Scan."""
    bodies = [Graph(name) for name in ("body", "first", "second")]
    node = Node("Scan", "scan")
    node.attributes.update(scan_input_axes=(0, 1), body=bodies[0], branches=tuple(bodies[1:]), number=3)
    assert node.subgraphs == (("body", bodies[0]), ("branches", bodies[1]), ("branches", bodies[2]))
    assert Node("Scan", "none").subgraphs == ()
    graph = Graph()
    graph.add_node("Constant", [], value_ints=(1, 2))
    held = graph.add_node("If", [], then_branch=bodies[0], else_branch=bodies[1])
    assert graph.holders == [held]


def test_a_node_that_goes_is_waited_for_by_nobody_and_waits_for_nobody() -> None:
    graph, x, _ = pair()
    before, gone, behind = (graph.add_node("Neg", [x]) for _ in range(3))
    gone.add_control(before)
    behind.add_control(gone)
    graph.remove_node(gone)
    assert before.followers == behind.control == ()
    assert gone.graph is None
