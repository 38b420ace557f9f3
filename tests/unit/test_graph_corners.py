"""Graphs by hand: damage of each kind that `verify` names, nodes that hang on a single edge of any kind,
names that are made up, and orders that are told again.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError, InputError
from ascendsim.graph import parsing
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Array, Constant, Graph, Node, Tensor, Use
from ascendsim.graph.same_values import same_values
from ascendsim.graph.scopes import within
from ascendsim.graph.sorting import sorted_nodes
from ascendsim.graph.text import parse_text, to_text
from ascendsim.graph.verify import verify

Change = Callable[[Graph], object]


def good() -> Graph:
    return parse_text(
        "graph good { input %x: float32[2] const %w: float32[2] = [1.0, 2.0] "
        "add: %y: float32[2] = Add(%x, %w) relu: %z: float32[2] = Relu(%y) output %z }"
    )


def _made_elsewhere(graph: Graph) -> None:
    graph.tensors["y"].producer = good().node("add")


def _at_another_place(graph: Graph) -> None:
    graph.tensors["y"].index = 1


def _beyond_the_outputs(graph: Graph) -> None:
    graph.node("add").outputs.append(Tensor("more", DType.FLOAT32, (2,)))


def _other_output(graph: Graph) -> None:
    graph.node("add").outputs[0] = graph.add_tensor(Tensor("more", DType.FLOAT32, (2,)))


def _reader_of_no_graph(graph: Graph) -> None:
    graph.tensors["x"]._uses[Use(Node("Relu", "nowhere"), 0)] = None


def _port_that_is_not_there(graph: Graph) -> None:
    graph.tensors["x"]._uses[Use(graph.node("relu"), 1)] = None


def _node_of_another_graph(graph: Graph) -> None:
    for tensor in graph.node("relu").outputs:
        tensor.producer = None
    graph.node("relu").graph = good()
    graph.inputs.append(graph.tensors["z"])


def _output_without_a_source(graph: Graph) -> None:
    graph.outputs.append(graph.add_tensor(Tensor("lost", DType.FLOAT32, (2,))))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_made_elsewhere, "tensor 'y' must be made by a node of its own graph"),
        (_at_another_place, "tensor 'y' must be output 1 of node 'add'"),
        (_beyond_the_outputs, r"output 1 of node 'add' \(Add\) must be made by this node alone: 'more'"),
        (_other_output, "tensor 'y' must be output 0 of node 'add'"),
        (_reader_of_no_graph, "tensor 'x' is listed as read by a node that is in no graph"),
        (
            _port_that_is_not_there,
            "tensor 'x' is listed as input 1 of node 'relu', which reads something else",
        ),
        (
            _node_of_another_graph,
            r"node 'relu' \(Relu\) must be registered under its own name in its own graph",
        ),
        (_output_without_a_source, "tensor 'lost' has no source"),
    ],
)
def test_damage_is_named(change: Change, message: str) -> None:
    graph = good()
    change(graph)
    with pytest.raises(GraphError, match=message):
        verify(graph)


def test_a_tensor_that_nobody_makes_or_reads_does_no_harm() -> None:
    graph = good()
    graph.add_tensor(Tensor("spare", DType.FLOAT32, (2,)))
    verify(graph)


def _waits(graph: Graph, alone: Node) -> None:
    alone.add_control(graph.node("add"))


def _is_waited_for(graph: Graph, alone: Node) -> None:
    graph.node("add").add_control(alone)


def _is_read(graph: Graph, alone: Node) -> None:
    graph.node("add").set_input(1, alone.output)


def _makes_an_output(graph: Graph, alone: Node) -> None:
    graph.outputs.append(alone.output)


def _reads(graph: Graph, alone: Node) -> None:
    alone.set_input(0, graph.tensors["x"])


def _holds(graph: Graph, alone: Node) -> None:
    alone.attributes["body"] = good()


@pytest.mark.parametrize("connect", [_waits, _is_waited_for, _is_read, _makes_an_output, _reads, _holds])
def test_one_edge_of_any_kind_connects_a_node(connect: Callable[[Graph, Node], object]) -> None:
    graph = good()
    alone = graph.add_node("RandomNormal", [], name="alone")
    alone.output.dtype, alone.output.shape = DType.FLOAT32, (2,)
    with pytest.raises(GraphError, match="node 'alone' .* has no edge at all"):
        verify(graph)
    connect(graph, alone)
    verify(graph)


def test_outputs_without_a_name_get_one() -> None:
    graph = good()
    node = graph.add_node("Split", [graph.tensors["x"]], ["a", "", ""], name="parts")
    names = [tensor.name for tensor in node.outputs]
    assert names[0] == "a"
    assert len(set(names)) == 3
    assert all(name.startswith("parts_unused") for name in names[1:])
    assert all(graph.tensors[name] is tensor for name, tensor in zip(names, node.outputs, strict=True))
    again = graph.add_node("Relu", [node.outputs[0]], name="parts")
    assert again.name != "parts"
    assert graph.add_node("Relu", [node.outputs[0]]).name == "Relu"


def test_an_order_is_told_again_and_anew() -> None:
    graph = good()
    order = [graph.node("add"), graph.node("relu")]
    assert graph.topological() == order
    assert graph.topological() == order
    assert graph.topological(anew=True) == order
    graph.topological().clear()
    assert graph.topological() == order
    graph.node("relu")._inputs[0] = None  # without the graph's knowledge
    graph.node("add")._inputs[0] = graph.tensors["z"]
    assert graph.topological() == order
    assert graph.topological(anew=True) == order[::-1]


def test_the_first_result_of_several_is_that_of_op() -> None:
    b = GraphBuilder()
    first = b.op("Split", b.input("x", (4, 6)), outputs=["a", "b"], axis=1)
    assert first.name == "a"
    assert [tensor.name for tensor in b.ops("Split", first, outputs=["c", "d"], axis=1)] == ["c", "d"]


def test_what_is_unknown_of_a_tensor_is_said() -> None:
    tensor = Tensor("t")
    with pytest.raises(
        GraphError, match=r"tensor 't' needs a static shape; give fixed shapes: --input_shape"
    ):
        _ = tensor.static_shape
    with pytest.raises(GraphError, match="tensor 't' has no element type; run shape inference first"):
        _ = tensor.element_type
    assert repr(tensor) == "%t: ?[?]"
    tensor.shape, tensor.dtype = (2, None, "n"), DType.INT8
    assert repr(tensor) == "%t: int8[2,?,n]"
    with pytest.raises(GraphError, match="needs a static shape"):
        _ = tensor.elements


def test_a_constant_says_what_it_holds() -> None:
    held = Constant(np.arange(3))
    later = Constant(loader=lambda: np.arange(3))
    absent = Constant(absent_because="left out")
    flags = [(item.loaded, item.available, item.computed) for item in (held, later, absent)]
    assert flags == [(True, True, False), (False, True, False), (False, False, False)]
    assert later.array().tolist() == [0, 1, 2]
    assert later.loaded
    assert Constant(loader=lambda: np.arange(3), computed=True).computed


def test_an_output_of_the_graph_is_no_dead_tensor() -> None:
    graph = good()
    graph.outputs.append(graph.tensors["w"])
    graph.node("add").set_input(1, graph.tensors["x"])
    for name in ("w", "x", "z", "y"):
        with pytest.raises(GraphError, match=f"tensor '{name}' cannot be removed: it is still used"):
            graph.remove_tensor(graph.tensors[name])
    graph.outputs.pop()
    graph.remove_tensor(graph.tensors["w"])
    assert "w" not in graph.tensors


@pytest.mark.parametrize("mode", [True, False, -1, 4, "1"])
def test_other_orders_are_refused(mode: object) -> None:
    with pytest.raises(InputError, match="option topo_sorting_mode must be one of 0, 1, 2, 3, not"):
        sorted_nodes(good(), mode)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "scope", "inside"),
    [
        ("layer1/0/conv", "layer1/0", True),
        ("/layer1/0/conv", "/layer1/0/", True),
        ("layer1/0", "layer1/0", True),
        ("layer1/01/conv", "layer1/0", False),
        ("layer1/0/conv", "*/conv", True),
        ("layer1/0/convolution", "*/conv", False),
    ],
)
def test_names_below_a_scope(name: str, scope: str, inside: bool) -> None:
    assert within(name, scope) is inside


def test_equal_constants_are_found_among_others() -> None:
    """Two of one text beside a third that differs where nobody samples."""
    values = [np.zeros(1 << 12, np.int8) for _ in range(4)]
    values[1][77] = values[3][77] = 1
    tensors = [
        Tensor(f"t{number}", DType.INT8, array.shape, constant=Constant(array))
        for number, array in enumerate(values)
    ]
    assert [[tensor.name for tensor in group] for group in same_values(tensors)] == [
        ["t0", "t2"],
        ["t1", "t3"],
    ]
    assert same_values(tensors[:2]) == []


def test_tensors_with_one_constant_are_equal_without_its_values() -> None:
    read: list[str] = []

    def values() -> Array:
        read.append("values")
        return np.ones(8, np.int8)

    shared = Constant(loader=values)
    tensors = [Tensor(f"t{number}", DType.INT8, (8,), constant=shared) for number in range(3)]
    assert same_values(tensors) == [tensors]
    assert not read
    other = Tensor("other", DType.INT8, (8,), constant=Constant(np.ones(8, np.int8)))
    assert same_values([*tensors, other]) == [[*tensors, other]]
    assert read == ["values"]
    assert same_values(
        [*tensors, Tensor("zero", DType.INT8, (8,), constant=Constant(np.zeros(8, np.int8)))]
    ) == [tensors]


@pytest.mark.parametrize("form", ["float32[?]", "float32[*]", "?[1]", "float32[n]"])
def test_arrays_of_attributes_need_a_type_and_a_size(form: str) -> None:
    text = (
        "graph g { input %x: float32[1] "
        f"n: %y: float32[1] = Relu(%x) {{v = array {form} [1.0]}} output %y }}"
    )
    with pytest.raises(GraphError, match="needs a type and a static shape"):
        parse_text(text)
    fine = parse_text(text.replace(form, "float16[1]"))
    value = fine.node("n").attr("v")
    assert (value.dtype, value.tolist()) == (np.float16, [1.0])
    empty = parse_text(text.replace(form, "int8[2,0]").replace("[1.0]", "[]"))
    assert empty.node("n").attr("v").shape == (2, 0)


def test_a_shape_may_be_open_or_its_rank() -> None:
    graph = parse_text("graph g { input %x: float32[*] input %z: float32[?,n,3] output %x }")
    assert [tensor.shape for tensor in graph.inputs] == [None, (None, "n", 3)]
    with pytest.raises(GraphError):
        parse_text("graph g { input %x: float32[")


def test_values_of_an_open_size_are_not_written_out() -> None:
    graph = good()
    assert "[1.0, 2.0]" in to_text(graph)
    graph.tensors["w"].shape = (None,)
    assert "[1.0, 2.0]" not in to_text(graph)
    assert "%w: float32[?]" in to_text(graph)


def nested(depth: int) -> Graph:
    """A graph with so many graphs inside each other."""
    graph = Graph("outermost")
    inner = graph
    for level in range(depth):
        x = inner.add_input(f"x{level}", DType.BOOL, ())
        body = Graph(f"body{level}")
        inner.outputs.append(inner.add_node("If", [x], then_branch=body).output)
        inner = body
    inner.outputs.append(inner.add_input("last", DType.BOOL, ()))
    return graph


@pytest.mark.parametrize(("depth", "fits"), [(1, True), (32, True), (33, False)])
def test_graphs_lie_in_each_other_32_deep(depth: int, fits: bool) -> None:
    if fits:
        verify(nested(depth))
        return
    with pytest.raises(GraphError, match="must not nest deeper than 32"):
        verify(nested(depth))


@pytest.mark.parametrize(("depth", "fits"), [(32, True), (33, False)])
def test_texts_of_graphs_lie_in_each_other_32_deep(depth: int, fits: bool) -> None:
    text = to_text(nested(depth))
    if fits:
        assert to_text(parse_text(text)) == text
        return
    with pytest.raises(GraphError, match="must not nest deeper than 32 graphs"):
        parse_text(text)


def test_an_empty_graph_has_no_output() -> None:
    with pytest.raises(GraphError, match="graph 'nothing' must have an output"):
        verify(Graph("nothing"))
    graph = Graph("constant")
    graph.outputs.append(graph.add_constant("c", np.zeros(1, np.float32)))
    verify(graph)


@pytest.mark.parametrize(("count", "named"), [(8, 8), (9, 8)])
def test_a_cycle_names_up_to_8_nodes(count: int, named: int) -> None:
    graph = Graph("round")
    x = graph.add_input("x", DType.FLOAT32, (1,))
    nodes = [graph.add_node("Add", [x, x], name=f"n{number}") for number in range(count)]
    for one, following in zip(nodes, [*nodes[1:], nodes[0]], strict=True):
        following.set_input(1, one.output)
    names = ", ".join(f"n{number}" for number in range(named))
    with pytest.raises(GraphError, match=f"has a cycle through nodes {names};"):
        graph.topological()


def test_an_order_holds_every_node_once() -> None:
    graph = good()
    add, relu = graph.node("add"), graph.node("relu")
    for order in ([add], [add, relu, relu], [add, good().node("relu")], []):
        with pytest.raises(
            GraphError, match=f"can only be reordered with all of its nodes, not {len(order)} of 2"
        ):
            graph.reorder(order)
    graph.reorder([relu, add])
    assert graph.nodes == (relu, add)
    assert graph.topological() == [add, relu]


def test_names_of_tensors_that_are_read_before_they_are_made() -> None:
    """Nodes of a text are connected when it and the graphs around it are complete."""
    text = (
        "graph g { input %c: bool[] input %x: float32[2] "
        "if: %y: float32[2] = If(%c) {then_branch = graph t { n: %a: float32[2] = Neg(%later) output %a }, "
        "else_branch = graph e { output %later m: %later: float32[2] = Abs(%x) }} "
        "late: %later: float32[2] = Relu(%x) output %y }"
    )
    try:
        graph = parse_text(text)
    except GraphError as error:
        pytest.fail(str(error))
    inner = dict(graph.node("if").subgraphs)
    assert inner["then_branch"].node("n").input(0) is graph.tensors["later"]
    assert inner["else_branch"].outputs[0] is inner["else_branch"].tensors["later"]
    with pytest.raises(GraphError, match="later"):
        parse_text(text.replace("late: %later: float32[2] = Relu(%x) ", ""))


def test_an_output_of_nothing_has_no_source() -> None:
    graph = Graph("hollow")
    graph.outputs.append(graph.add_tensor(Tensor("t", DType.FLOAT32, (1,))))
    with pytest.raises(GraphError, match="tensor 't' has no source"):
        verify(graph)


def test_additions_are_counted_from_none() -> None:
    graph = Graph("g")
    assert graph.additions == 0
    first = graph.add_node("RandomNormal", [])
    assert (graph.additions, graph.added_since(0), graph.added_since(1)) == (1, [first], [])
    graph.remove_node(first)
    assert (graph.additions, graph.added_since(0)) == (1, [])
    second = graph.add_node("RandomNormal", [])
    assert (graph.additions, graph.added_since(1)) == (2, [second])


def test_texts_have_at_most_64_mib_of_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parsing.MAX_TEXT == 64 << 20
    monkeypatch.setattr(parsing, "MAX_TEXT", 100)
    text = "graph g { input %x: float32[1] output %x }"
    assert parse_text(text.ljust(100)).name == "g"
    with pytest.raises(GraphError, match="at most 100"):
        parse_text(text.ljust(101))


def test_operators_are_counted_the_most_frequent_first() -> None:
    graph = Graph("g")
    x = graph.add_input("x", DType.FLOAT32, (1,))
    for kind in ("Relu", "Abs", "Neg", "Relu", "Neg", "Exp"):
        graph.add_node(kind, [x])
    assert graph.operators().rows == (("Neg", 2), ("Relu", 2), ("Abs", 1), ("Exp", 1))
    assert repr(graph.nodes[0]) == "Relu(Relu)"
    assert len(graph) == 6


def test_a_node_moves_to_just_before_another() -> None:
    graph = Graph("g")
    x = graph.add_input("x", DType.FLOAT32, (1,))
    a, b, c, d = (graph.add_node("Relu", [x], name=name) for name in "abcd")
    graph.place_before(d, b)
    assert graph.nodes == (a, d, b, c)
    assert graph.topological() == [a, d, b, c]
    graph.place_before(a, c)
    assert graph.nodes == (d, b, a, c)
    graph.place_before(d, b)
    assert graph.nodes == (d, b, a, c)


def test_what_only_looks_the_same_is_compared_to_the_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if three texts had one digest."""
    for name in ("_sample_key", "_hash_key"):
        monkeypatch.setattr(f"ascendsim.graph.same_values.{name}", lambda tensor: 0)
    values = [np.array([number], np.int8) for number in (1, 2, 3, 2, 3, 4)]
    tensors = [
        Tensor(f"t{place}", DType.INT8, (1,), constant=Constant(value)) for place, value in enumerate(values)
    ]
    found = [[tensor.name for tensor in group] for group in same_values(tensors)]
    assert found == [["t1", "t3"], ["t2", "t4"]]
