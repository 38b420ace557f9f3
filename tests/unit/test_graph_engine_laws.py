"""Laws of the graph engine: what shape vectors may be said to hold, what makes nodes the same, when subgraphs
are looked at again."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Constant, Graph, Node, Tensor
from ascendsim.ops import default_opset
from ascendsim.passes.engine.common_subexpressions import CommonSubexpressionEliminationPass
from ascendsim.passes.engine.edits import bypass, same_type
from ascendsim.passes.engine.infer_shape import InferShapePass
from ascendsim.passes.engine.node_pass import Site
from ascendsim.passes.engine.settings import EngineSettings
from ascendsim.passes.engine.traversal import Traversal
from ascendsim.passes.engine.value_range import InferValueRangePass
from ascendsim.passes.rewriting.folding import MAX_FOLDED_BYTES, fold_small
from tests.support.evaluate import evaluate
from tests.support.fusing import new_builder
from tests.support.gate import in_one

OPSET = default_opset()
Maker = Callable[[GraphBuilder, Tensor], Tensor]


# -----------------------------------------------------------------------------------------------------------

VECTORS: dict[str, Maker] = {
    "Shape": lambda b, s: s,
    "Shape from axis 1 to 3": lambda b, s: b.op("Shape", b.graph.inputs[0], start=1, end=3),
    "Shape of the last two axes": lambda b, s: b.op("Shape", b.graph.inputs[0], start=-2),
    "Gather": lambda b, s: b.op("Gather", s, np.array([3, 0, -1, -4])),
    "Gather of a matrix of places": lambda b, s: b.op("Gather", s, np.array([[1, 2], [3, 0]])),
    "Gather of one": lambda b, s: b.op("Gather", s, np.array(2)),
    "Slice": lambda b, s: b.op("Slice", s, [1], [3]),
    "Slice from the end": lambda b, s: b.op("Slice", s, [-3], [100]),
    "Slice in steps": lambda b, s: b.op("Slice", s, [0], [4], [0], [2]),
    "Slice backwards": lambda b, s: b.op("Slice", s, [3], [-100], [0], [-1]),
    "Concat": lambda b, s: b.op("Concat", s, b.constant([7, 9]), b.op("Slice", s, [0], [2]), axis=0),
    "Unsqueeze": lambda b, s: b.op("Unsqueeze", s, [0]),
    "Squeeze": lambda b, s: b.op("Squeeze", b.op("Slice", s, [1], [2]), [0]),
    "Reshape": lambda b, s: b.op("Reshape", s, [2, 2]),
    "Flatten": lambda b, s: b.op("Flatten", s, axis=0),
    "Identity": lambda b, s: b.op("Identity", s),
    "Cast": lambda b, s: b.op("Cast", s, to=DType.INT32),
    "Add": lambda b, s: b.op("Add", s, np.array([1, -2, 3, 4])),
    "Sub": lambda b, s: b.op("Sub", np.array([10]), s),
    "Mul": lambda b, s: b.op("Mul", s, b.constant(3)),
    "Div": lambda b, s: b.op("Div", s, b.constant([1, 2, -3, 4])),
    "Mod": lambda b, s: b.op("Mod", s, b.constant(3)),
    "Neg": lambda b, s: b.op("Neg", s),
    "Sum": lambda b, s: b.op("Sum", s, b.constant(3), s),
    "Transpose": lambda b, s: b.op("Transpose", b.op("Reshape", s, [2, 2])),
    "Tile": lambda b, s: b.op("Tile", s, [2]),
    "Expand": lambda b, s: b.op("Expand", s, [2, 4]),
    "Where": lambda b, s: b.op("Where", np.array([True, False, True, False]), s, b.constant([7])),
    "Pad with a number": lambda b, s: b.op("Pad", s, [1, 1], b.constant(9)),
    "Mul of two parts": lambda b, s: b.op("Mul", b.op("Slice", s, [0], [2]), b.op("Slice", s, [2], [4])),
    "Add of one and many": lambda b, s: b.op("Add", b.op("Slice", s, [3], [4]), s),
    "Gather of a Gather": lambda b, s: b.op(
        "Gather", b.op("Gather", s, np.array([2, 3])), np.array([1, 0, 1])
    ),
}


def known_parts(graph: Graph) -> dict[Tensor, tuple[int | str | None, ...]]:
    traversal = Traversal(graph, [InferShapePass(), InferValueRangePass(potential=True)], OPSET)
    traversal.run()
    found: dict[Tensor, tuple[int | str | None, ...]] = dict(traversal.parts)
    for node in graph.nodes:
        for tensor in node.outputs:
            if tensor.constant is not None:
                found[tensor] = tuple(int(value) for value in tensor.constant.array().ravel())
    return found


def of_open_shape(make: Maker, shape: Sequence[int | str]) -> Graph:
    b = new_builder()
    b.output(make(b, b.op("Shape", b.input("x", tuple(shape)))), "y")
    return b.graph


@in_one("name", VECTORS)
@in_one("opened", [0b0000, 0b0001, 0b0100, 0b1010, 0b1111])
def test_what_is_known_of_a_shape_vector_is_so(name: str, opened: int) -> None:
    """Each element that is said to be a number is that number, each symbol the size of that axis, whatever
    the open sizes are."""
    sizes = (2, 3, 4, 5)
    symbols = tuple(f"d{axis}" if opened >> axis & 1 else size for axis, size in enumerate(sizes))
    graph = of_open_shape(VECTORS[name], symbols)
    output = graph.outputs[0]
    parts = known_parts(graph).get(output)
    for values in itertools.product(
        *((1, 6) if opened >> axis & 1 else (size,) for axis, size in enumerate(sizes))
    ):
        (wanted,) = evaluate(
            copy_graph(of_open_shape(VECTORS[name], values)), OPSET, {"x": np.zeros(values, np.float32)}
        )
        for part, value in zip(parts or (), wanted.ravel(), strict=parts is not None):
            if isinstance(part, str):
                part = values[int(part[1:])]
            assert part is None or part == value
    if not opened:
        assert parts is not None, "with all sizes known all elements are"
        assert None not in parts
    if parts is not None:
        arithmetic = name.split()[0] in ("Add", "Sub", "Mul", "Div", "Mod", "Neg", "Sum")
        (first,), (second,) = (
            evaluate(of_open_shape(VECTORS[name], sizes_), OPSET, {"x": np.zeros(sizes_, np.float32)})
            for sizes_ in (
                tuple(11 if opened >> axis & 1 else size for axis, size in enumerate(sizes)),
                tuple(13 if opened >> axis & 1 else size for axis, size in enumerate(sizes)),
            )
        )
        for part, one, other in zip(parts, first.ravel(), second.ravel(), strict=True):
            assert isinstance(part, int) == bool(one == other), (
                "an element that does not depend on open sizes is known"
            )
            assert arithmetic or isinstance(part, (int, str)), (
                "an element that is a size is at least its symbol"
            )


@pytest.mark.parametrize("count", [63, 64, 65])
def test_vectors_of_up_to_64_elements_are_followed(count: int) -> None:
    graph = of_open_shape(lambda b, s: b.op("Gather", s, np.zeros(count, np.int64)), (4, "n"))
    assert (known_parts(graph).get(graph.outputs[0]) == (4,) * count) is (count <= 64)


@pytest.mark.parametrize("index", [-5, -4, 3, 4])
def test_places_outside_a_vector_are_not_known(index: int) -> None:
    graph = of_open_shape(lambda b, s: b.op("Gather", s, np.array([index])), (2, 3, 4, "n"))
    parts = known_parts(graph).get(graph.outputs[0])
    assert parts == ({-4: (2,), 3: ("n",)}.get(index))


@pytest.mark.parametrize(
    ("op_type", "target", "wanted"),
    [
        ("Reshape", (2, "n", 12), (2, "n", 12)),
        ("Reshape", (0, "n", -1), (None, "n", None)),
        ("Reshape", (1, "n", 1), (1, "n", 1)),
        ("Expand", (2, "n", 12), (2, None, 12)),
        ("Expand", (1, "n", 3), (None, None, 3)),
    ],
)
def test_known_parts_become_dimensions(
    op_type: str, target: tuple[int | str, ...], wanted: tuple[int | str | None, ...]
) -> None:
    """0 and -1 have meanings of their own in Reshape; a 1 or a symbol in Expand keeps what is there."""
    b = new_builder()
    data = b.input("data", (None,) if op_type == "Reshape" else (None, None, None))
    sizes = b.op("Shape", b.input("x", ("n",)))
    parts = [sizes if isinstance(part, str) else b.constant([part]) for part in target]
    b.output(b.op(op_type, data, b.op("Concat", *parts, axis=0)), "y")
    known_parts(b.graph)
    assert b.graph.outputs[0].shape == wanted


# ------------------------------------------------------------------------------------------------- the same c


def pair(change: Callable[[Graph, Node], None] = lambda graph, node: None, outputs: bool = False) -> Graph:
    """Two nodes that do the same, of which the second one is changed, behind each of them another node."""
    b = new_builder()
    x = b.input("x", (2, 3))
    first, second = (b.op("Softmax", x, axis=1, name=name) for name in ("first", "second"))
    b.output(b.op("Neg", first), "a")
    b.output(b.op("Abs", second), "b")
    b.op("Exp", x, name="other")
    if outputs:
        b.graph.outputs.extend((first, second))
    change(b.graph, b.graph.node("second"))
    return b.graph


def merged(graph: Graph) -> int:
    return CommonSubexpressionEliminationPass(OPSET).run(graph).counts.get("merged nodes", 0)


def _origin(_graph: Graph, node: Node) -> None:
    node.output.origin_dtype = DType.FLOAT16


def _device(_graph: Graph, node: Node) -> None:
    node.output.dtype = DType.FLOAT16


def _shape(_graph: Graph, node: Node) -> None:
    node.output.shape = (2, None)


def _format(_graph: Graph, node: Node) -> None:
    node.output.format = Format.FRACTAL_NZ


def _waits(graph: Graph, node: Node) -> None:
    node.add_control(graph.node("other"))


def _attribute(_graph: Graph, node: Node) -> None:
    node.attributes["axis"] = 0


def _attribute_type(_graph: Graph, node: Node) -> None:
    node.attributes["axis"] = 1.0


def _more(_graph: Graph, node: Node) -> None:
    node.attributes["more"] = 1


def _domain(_graph: Graph, node: Node) -> None:
    node.domain = "ascend"


def _mark(_graph: Graph, node: Node) -> None:
    node.attributes["no_const_folding"] = 1


@pytest.mark.parametrize(
    "change", [_origin, _device, _shape, _format, _waits, _attribute, _attribute_type, _more, _domain, _mark]
)
def test_nodes_that_differ_in_anything_stay_two(change: Callable[[Graph, Node], None]) -> None:
    assert merged(pair()) == 1
    assert merged(pair(change)) == 0


def test_nodes_that_wait_for_the_same_are_the_same() -> None:
    graph = pair()
    for name in ("first", "second"):
        graph.node(name).add_control(graph.node("other"))
    assert merged(graph) == 1
    assert graph.node("first").control == (graph.node("other"),)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (0.0, 0.0, True),
        (0.0, -0.0, False),
        (float("nan"), float("nan"), True),
        (1, 1.0, False),
        (1, True, False),
        ((1, 2), (1, 3), False),
        ((0.0,), (-0.0,), False),
        ("a", "b", False),
        (DType.INT8, DType.UINT8, False),
        (np.float32(0), np.float32(0), True),
        (np.zeros(2), np.zeros(2), True),
        (np.zeros(2), -np.zeros(2), False),
        (np.zeros(2), np.zeros(2, np.float32), False),
        (np.zeros((1, 2)), np.zeros(2), False),
    ],
)
def test_attributes_are_equal_to_the_bit(one: object, other: object, same: bool) -> None:
    graph = pair()
    graph.node("first").attributes["a"], graph.node("second").attributes["a"] = one, other  # type: ignore[assignment]
    assert merged(graph) == int(same)


def test_who_waited_for_a_merged_node_waits_for_the_one_that_stays() -> None:
    graph = pair(lambda graph, node: graph.node("other").add_control(node))
    assert merged(graph) == 1
    assert graph.node("other").control == (graph.node("first"),)


def test_the_first_of_equal_nodes_stays_and_takes_over_the_name_of_an_output() -> None:
    graph = pair()
    graph.outputs.append(graph.node("second").output)
    name = graph.node("second").output.name
    assert merged(graph) == 1
    assert graph.node("first").output.name == name
    assert graph.outputs[-1] is graph.node("first").output
    both = pair(outputs=True)
    assert merged(both) == 0
    assert CommonSubexpressionEliminationPass(OPSET).run(both).counts == {"left: both name outputs": 1}


def test_equal_nodes_inside_a_subgraph_are_merged_there() -> None:
    body = pair()
    outer = Graph("outer")
    data = outer.add_input("data", DType.FLOAT32, (2, 3))
    call = outer.add_node("PartitionedCall", [data], ["p", "q"], name="call", domain="ascend", f=body)
    outer.outputs.extend(call.outputs)
    assert merged(outer) == 1
    assert len(body) == 4


# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("dtype", DType.FLOAT16),
        ("origin_dtype", DType.FLOAT16),
        ("shape", (3, 2)),
        ("format", Format.FRACTAL_NZ),
    ],
)
def test_tensors_of_the_same_type_agree_in_everything(key: str, value: object) -> None:
    def made() -> Tensor:
        return Tensor("t", DType.FLOAT32, (2, 3))

    other = made()
    assert same_type(made(), other)
    setattr(other, key, value)
    assert not same_type(made(), other)
    assert not same_type(other, made())


def test_open_dimensions_are_not_known_to_be_the_same() -> None:
    for shape in ((2, None), None):
        one, other = Tensor("a", DType.FLOAT32, shape), Tensor("b", DType.FLOAT32, shape)
        assert not same_type(one, other)
    assert same_type(Tensor("a", DType.FLOAT32, ("n",)), Tensor("b", DType.FLOAT32, ("n",)))


def test_a_cast_that_changes_the_users_type_alone_stays() -> None:
    """On the device both sides are float16; with the model's own types the cast widens."""
    b = GraphBuilder()
    x = b.input("x", (2,), DType.FLOAT16)
    y = b.op("Cast", x, to=DType.FLOAT32, name="cast")
    y.dtype, y.origin_dtype, y.shape = DType.FLOAT16, DType.FLOAT32, (2,)
    z = b.op("Relu", y)
    z.dtype, z.origin_dtype, z.shape = DType.FLOAT16, DType.FLOAT32, (2,)
    b.output(z, "z")
    assert [node.op_type for node in asim.optimize(b.graph, passes=["CastRemovePass"]).graph.nodes] == [
        "Cast",
        "Relu",
    ]


def held(reader: bool = True, output: bool = False) -> Graph:
    """An Identity that waits for another node."""
    b = new_builder()
    x = b.op("Abs", b.input("x", (2,)), name="before")
    other = b.op("Exp", b.input("z", (2,)), name="other")
    same = b.op("Identity", x, name="same")
    b.graph.node("same").add_control(b.graph.node("other"))
    b.output(b.op("Neg", same, name="reader") if reader else same, "y")
    if output:
        b.graph.outputs.append(same)
    b.output(other, "o")
    return b.graph


def test_readers_wait_for_what_a_removed_node_waited_for() -> None:
    graph = held()
    assert bypass(graph.node("same"), graph.node("before").output)
    assert graph.node("reader").control == (graph.node("other"),)
    for graph in (held(reader=False), held(output=True)):
        assert not bypass(graph.node("same"), graph.node("before").output)
        assert "same" in graph._node_names


# ------------------------------------------------------------------------------------------------------------


def loop_of(shape: tuple[int | None, ...]) -> Graph:
    """A PartitionedCall whose result is known only once its body was looked at."""
    body = Graph("body")
    inner = body.add_input("inner", DType.FLOAT32, shape)
    made = body.add_node("Flatten", [inner], ["flat"], name="flatten").output
    made.dtype = made.origin_dtype = DType.FLOAT32
    body.outputs.append(made)
    graph = Graph("outer")
    data = graph.add_input("data", DType.FLOAT32, shape)
    call = graph.add_node("PartitionedCall", [data], ["called"], name="call", domain="ascend", f=body)
    graph.outputs.append(graph.add_node("Relu", [call.output], ["y"], name="relu").output)
    return graph


class Visits:
    """Notes which nodes it saw, and gives the body's result its shape when it sees what makes it."""

    name, op_types = "Visits", None

    def __init__(self, gives_shape: bool) -> None:
        self.seen: list[str] = []
        self.gives_shape = gives_shape

    def run(self, node: Node, site: Site) -> bool:
        self.seen.append(node.name)
        if node.name == "flatten" and self.gives_shape:
            node.output.shape = (2, 12)
        return False


@pytest.mark.parametrize(
    ("gives_shape", "seen"),
    [(True, ["call", "flatten", "call", "relu"]), (False, ["call", "flatten", "relu"])],
)
def test_a_node_is_looked_at_again_if_the_types_of_its_subgraph_changed(
    gives_shape: bool, seen: list[str]
) -> None:
    visits = Visits(gives_shape)
    Traversal(loop_of((2, 3, 4)), [visits], OPSET).run()
    assert visits.seen == seen


# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("surplus", "folds"), [(-1, True), (0, True), (1, False)])
def test_a_lookup_folds_in_a_table_of_up_to_64_mib(surplus: int, folds: bool) -> None:
    """Operands count in the bytes of the user's types: the table, and the int64 that says which row."""
    rows = (64 << 20) - 8 + surplus
    b = new_builder()
    table = b.graph.add_tensor(
        Tensor("table", DType.INT8, (rows,), constant=Constant(np.broadcast_to(np.int8(7), (rows,))))
    )
    node = b.op("Gather", table, np.array(5)).producer
    assert node is not None
    arrays = fold_small(node, OPSET.get(node))
    assert (arrays is not None) is folds
    if arrays is not None:
        assert arrays[0] == 7


@pytest.mark.parametrize(("surplus", "folds"), [(-1, True), (0, True), (1, False)])
def test_results_fold_up_to_1_mib(surplus: int, folds: bool) -> None:
    b = new_builder()
    node = b.op("Expand", np.int8(3), [MAX_FOLDED_BYTES + surplus]).producer
    assert node is not None
    assert MAX_FOLDED_BYTES == 1 << 20
    assert (fold_small(node, OPSET.get(node)) is not None) is folds


@pytest.mark.parametrize(("surplus", "folds"), [(-1, True), (0, True), (1, False)])
def test_a_value_may_take_1_mib_more_than_what_it_is_made_of(surplus: int, folds: bool) -> None:
    """Of values that are computed when they are asked for: those of whole weights."""
    operand = 2 << 20
    b = new_builder()
    weight = b.weight("w", (operand,), lambda: np.zeros(operand, np.int8), DType.INT8)
    size = operand + (1 << 20) + 16 + surplus  # the pads are two numbers of int64
    padded = b.op("Pad", weight, np.array([0, size - operand]))
    b.output(b.op("Identity", padded), "y")
    after = asim.optimize(b.graph, passes=["ConstantFoldingPass"]).graph
    assert ("Pad" not in [node.op_type for node in after.nodes]) is folds


# ------------------------------------------------------------------------------------------------------------

TABLE = [  # options -> whether shape inference, folding, dead edges, pruning, common subexpressions run
    ({}, "yes yes yes yes yes"),
    ({"oo_level": "O1"}, "yes yes yes yes no"),
    ({"constant_folding": False}, "yes no yes yes yes"),
    ({"dead_code_elimination": False}, "yes yes no yes yes"),
    ({"chosen": frozenset({"PrunePass"})}, "yes no no yes no"),
    ({"chosen": frozenset({"ConstantFoldingPass"}), "constant_folding": False}, "yes no no no no"),
    ({"chosen": frozenset({"CommonSubexpressionEliminationPass"}), "oo_level": "O1"}, "yes no no no no"),
    ({"off": True}, "no no no no no"),
]
NAMES = (
    "InferShapePass",
    "ConstantFoldingPass",
    "CondRemovePass",
    "PrunePass",
    "CommonSubexpressionEliminationPass",
)


@pytest.mark.parametrize(("options", "wanted"), TABLE)
def test_which_passes_run(options: dict[str, Any], wanted: str) -> None:
    settings = EngineSettings(**options)
    assert [settings.runs(name) for name in NAMES] == [word == "yes" for word in wanted.split()]
    assert all((settings.why_not(name) == "") is settings.runs(name) for name in NAMES)


def test_the_defaults_of_options_are_those_of_settings() -> None:
    assert EngineSettings.of(None, NAMES) == EngineSettings() == EngineSettings.of(True, NAMES)
    assert EngineSettings.of(False, NAMES) == EngineSettings(off=True)
    assert EngineSettings.of(["PrunePass"], NAMES) == EngineSettings(chosen=frozenset({"PrunePass"}))
