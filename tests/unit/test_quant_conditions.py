"""Passes that join operators of integers, one condition at a time: the graph on which one acts, and those
that miss just one thing, on which it must leave everything as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.graph.text import to_text
from ascendsim.graph.verify import verify
from ascendsim.ops import default_opset
from ascendsim.passes.precision.integer_sums import join_integer_products
from ascendsim.passes.quant.batches import unfold_batches
from ascendsim.passes.quant.early import quantise_early
from ascendsim.passes.quant.products import scale_products
from ascendsim.passes.quant.qdq import join_quantised
from ascendsim.passes.quant.roundings import leave_out_roundings
from tests.support.evaluate import evaluate
from tests.support.fusing import new_builder, random
from tests.unit.test_quant_pairs import product as batch_product

OPSET = default_opset()
Change = Callable[[Graph], object]
RNG = np.random.default_rng(11)


def graph_of(write: Callable[[GraphBuilder], Tensor]) -> Graph:
    b = new_builder()
    b.output(write(b), "y")
    return b.build()


def outcome(run: Any, graph: Graph) -> tuple[int, list[str]]:
    """How often a pass acted, and why not; what it leaves is valid, or unchanged."""
    before = to_text(graph)
    records = run(graph, OPSET)
    verify(graph)
    effected = sum(record.effected for record in records)
    if not effected and run is not join_quantised:  # which makes floats of constants in any case
        assert to_text(graph) == before
    return effected, [refusal.reason for record in records for refusal in record.refusals]


def guard(graph: Graph) -> Node:
    """A node that has nothing to do with the others."""
    (x, *_) = graph.inputs
    made = graph.add_node("Identity", [x], ["guarded"], name="guard")
    made.output.dtype, made.output.origin_dtype, made.output.shape = x.dtype, x.origin_dtype, x.shape
    graph.outputs.append(made.output)
    return made


def waits(kind: str) -> Change:
    return lambda graph: _of(graph, kind).add_control(guard(graph))


def is_waited_for(kind: str) -> Change:
    return lambda graph: guard(graph).add_control(_of(graph, kind))


def _of(graph: Graph, kind: str) -> Node:
    return next(node for node in graph.nodes if node.op_type == kind)


def shown(kind: str) -> Change:
    return lambda graph: graph.outputs.append(_of(graph, kind).output)


def read_too(kind: str) -> Change:
    def change(graph: Graph) -> None:
        source = _of(graph, kind).output
        made = graph.add_node("Identity", [source], ["again"])
        made.output.dtype, made.output.origin_dtype, made.output.shape = (
            source.dtype,
            source.origin_dtype,
            source.shape,
        )
        graph.outputs.append(made.output)

    return change


# ---- products of bytes with their scales


def scaled(b: GraphBuilder) -> Tensor:
    weights = b.constant(RNG.integers(-9, 9, (6, 5), np.int8))
    sums = b.op("QuantMatMul", b.input("x", (4, 6), DType.INT8), weights, domain="ascend")
    return b.op(
        "AscendDequant", sums, b.constant(random(5, positive=True)), domain="ascend", dtype=DType.FLOAT32
    )


def half(b: GraphBuilder) -> Tensor:
    weights = b.constant(np.ones((6, 5), np.int8))
    sums = b.op("QuantMatMul", b.input("x", (4, 6), DType.INT8), weights, domain="ascend")
    return b.op("AscendDequant", sums, b.constant(random(5)), domain="ascend", dtype=DType.FLOAT16)


def cast(b: GraphBuilder) -> Tensor:
    weights = b.constant(np.ones((6, 5), np.int8))
    return b.op(
        "Cast",
        b.op("QuantMatMul", b.input("x", (4, 6), DType.INT8), weights, domain="ascend"),
        to=DType.FLOAT32,
    )


def of_a_run(b: GraphBuilder) -> Tensor:
    weights = b.constant(np.ones((6, 5), np.int8))
    sums = b.op("QuantMatMul", b.input("x", (4, 6), DType.INT8), weights, domain="ascend")
    return b.op("AscendDequant", sums, b.input("s", (5,)), domain="ascend", dtype=DType.FLOAT32)


ALONE = "its sums are not scaled by an AscendDequant alone"


@pytest.mark.parametrize(
    ("write", "change", "reason"),
    [
        (scaled, None, None),
        (scaled, waits("QuantMatMul"), ALONE),
        (scaled, waits("AscendDequant"), ALONE),
        (cast, None, ALONE),
        (half, None, "the result is cut at 0 or no float32"),
        (scaled, shown("QuantMatMul"), "something else reads the sums"),
        (scaled, read_too("QuantMatMul"), "something else reads the sums"),
        (of_a_run, None, "the scale is not constant"),
    ],
)
def test_products_and_their_scales(write: Any, change: Change | None, reason: str | None) -> None:
    graph = graph_of(write)
    if change is not None:
        change(graph)
    assert outcome(scale_products, graph) == ((1, []) if reason is None else (0, [reason]))


@pytest.mark.parametrize("kind", ["QGemm", "Reshape"])
def test_batches_that_something_waits_for_stay_folded(kind: str) -> None:
    graph = batch_product()
    waits(kind)(graph)
    assert outcome(unfold_batches, graph) == (0, ["a control edge holds it"])
    graph = batch_product()
    graph.nodes[-1].add_control(guard(graph))
    assert outcome(unfold_batches, graph) == (0, ["a control edge holds it"])


@pytest.mark.parametrize("change", [shown("QGemm"), read_too("QGemm")])
def test_products_that_others_read_are_no_batches(change: Change) -> None:
    graph = batch_product()
    change(graph)
    assert outcome(unfold_batches, graph) == (0, [])


# ---- conversions in front of what moves elements


def moved(b: GraphBuilder, made: bool = True, table: bool = False) -> Tensor:
    """Floats that an operator makes are gathered, or fall flat, and then quantised."""
    x = b.input("x", (4, 8))
    x = b.op("Tanh", x) if made else x
    if table:
        picked = b.op("Gather", x, b.constant(np.array([2, 0])), axis=0)
        return b.op("QuantizeLinear", picked, b.constant(np.float32(0.25)), b.constant(np.int8(0)))
    flat = b.op("Reshape", x, b.constant(np.array([32])))
    return b.op("AscendQuant", flat, domain="ascend", scale=4.0, offset=1.0)


def by_channels(b: GraphBuilder) -> Tensor:
    picked = b.op("Gather", b.op("Tanh", b.input("x", (4, 8))), b.constant(np.array([2, 0])), axis=0)
    return b.op(
        "QuantizeLinear", picked, b.constant(random(8, positive=True)), b.constant(np.zeros(8, np.int8))
    )


HELD, OTHERS = "a control edge holds it", "the floats are read by others too"


@pytest.mark.parametrize(
    ("write", "change", "wanted"),
    [
        (moved, None, (1, [])),
        (lambda b: moved(b, table=True), None, (1, [])),
        (lambda b: moved(b, made=False), None, (0, [])),
        (moved, shown("Reshape"), (0, [OTHERS])),
        (moved, read_too("Reshape"), (0, [OTHERS])),
        (moved, waits("Reshape"), (0, [HELD])),
        (moved, waits("AscendQuant"), (0, [HELD])),
        (moved, is_waited_for("Reshape"), (0, [HELD])),
        (moved, is_waited_for("AscendQuant"), (0, [HELD])),
        (by_channels, None, (0, ["it has a step for each channel"])),
    ],
)
def test_conversions_move_to_the_front(write: Any, change: Change | None, wanted: Any) -> None:
    graph = graph_of(write)
    if change is not None:
        change(graph)
    assert outcome(quantise_early, graph) == wanted
    if wanted[0]:
        assert [node.op_type for node in graph.topological()][-1] in ("Reshape", "Gather")


# ---- roundings between two operators of bytes

SMALL, FINE = 0.001, 0.1


def bytes_(b: GraphBuilder, *values: Any) -> list[Tensor]:
    """Scale and zero point."""
    scale, zero = values
    return [b.constant(np.float32(scale)), b.constant(np.int8(zero))]


def matmul(b: GraphBuilder, step: float = SMALL, **bounds: float) -> Tensor:
    x, weight = b.input("x", (4, 6), DType.INT8), b.constant(RNG.integers(-9, 9, (6, 5), np.int8), "w")
    ports = [x, *bytes_(b, 0.02, 1), weight, *bytes_(b, 0.01, 0), *bytes_(b, step, 2)]
    return b.op("QLinearMatMul", *ports, **bounds)


def add(
    b: GraphBuilder,
    shape: Any = (5,),
    step: float = SMALL,
    result: float = FINE,
    swapped: bool = False,
    constant: bool = True,
    **bounds: float,
) -> Tensor:
    made = matmul(b, step, **bounds)
    values = RNG.integers(-99, 99, shape).astype(np.int8)
    given = b.constant(values, "b") if constant else b.input("b", shape, DType.INT8)
    sides = [[made, *bytes_(b, step, 2)], [given, *bytes_(b, 0.03, 0)]]
    one, other = sides[::-1] if swapped else sides
    return b.op("QLinearAdd", *one, *other, *bytes_(b, result, -3), domain="com.microsoft")


def times(
    b: GraphBuilder, factor: int = 4, zero: int = 0, result: float = FINE, shape: Any = (), **bounds: float
) -> Tensor:
    made = matmul(b, SMALL, **bounds)
    given = b.constant(np.full(shape, factor, np.int8), "f")
    ports = [made, *bytes_(b, SMALL, 2), given, *bytes_(b, 0.5, zero), *bytes_(b, result, 0)]
    return b.op("QLinearMul", *ports, domain="com.microsoft")


def swish(
    b: GraphBuilder, step: float = 0.02, zero: int = 1, gate: float = 1 / 255, result: float = 0.5
) -> Tensor:
    x = b.input("x", (4, 6), DType.INT8)
    made = b.op("QLinearSigmoid", x, *bytes_(b, 0.02, 1), *bytes_(b, gate, -128), domain="com.microsoft")
    ports = [x, *bytes_(b, step, zero), made, *bytes_(b, gate, -128), *bytes_(b, result, 0)]
    return b.op("QLinearMul", *ports, domain="com.microsoft")


BETWEEN = "something else reads what is between them, or waits"
COLUMN = "what is added is not one constant a column"
NUMBER = "the factor is not one number above 0"
OWN = "the product is not that of a tensor and its sigmoid"


@pytest.mark.parametrize(
    ("write", "change", "reason"),
    [
        (add, None, None),
        (lambda b: add(b, swapped=True), None, None),
        (lambda b: add(b, (1, 5)), None, None),
        (lambda b: add(b, (4, 5)), None, COLUMN),
        (lambda b: add(b, ()), None, COLUMN),
        (lambda b: add(b, constant=False), None, COLUMN),
        (lambda b: add(b, step=0.199), None, None),
        (lambda b: add(b, step=0.2), None, "the rounding between them is worth up to 1 steps of the result"),
        (lambda b: add(b, low=0.0), None, "there are bounds between them"),
        (lambda b: add(b, high=3.0), None, "there are bounds between them"),
        (add, shown("QLinearMatMul"), BETWEEN),
        (add, read_too("QLinearMatMul"), BETWEEN),
        (add, waits("QLinearMatMul"), BETWEEN),
        (add, waits("QLinearAdd"), BETWEEN),
        (times, None, None),
        (lambda b: times(b, shape=(1,)), None, None),
        (lambda b: times(b, shape=(5,)), None, NUMBER),
        (lambda b: times(b, 0), None, NUMBER),
        (lambda b: times(b, 4, 4), None, NUMBER),
        (lambda b: times(b, 4, 5), None, NUMBER),
        (lambda b: times(b, 4, 3), None, None),
        (lambda b: times(b, high=3.0), None, "there are bounds between them"),
        (times, waits("QLinearMul"), BETWEEN),
        (swish, None, None),
        (lambda b: swish(b, step=0.03), None, OWN),
        (lambda b: swish(b, zero=2), None, OWN),
        (
            lambda b: swish(b, gate=0.5, result=0.1),
            None,
            "the rounding between them is worth up to 6.4 steps of the re",
        ),
        (swish, shown("QLinearSigmoid"), BETWEEN),
        (swish, waits("QLinearSigmoid"), BETWEEN),
    ],
)
def test_roundings_that_do_not_count_are_left_out(
    write: Any, change: Change | None, reason: str | None
) -> None:
    graph = graph_of(write)
    if change is not None:
        change(graph)
    # so small that what is between the two holds them
    arrays = {
        tensor.name: RNG.integers(-9, 9, tensor.static_shape).astype(np.int8) for tensor in graph.inputs
    }
    before = evaluate(graph, OPSET, arrays)[0]
    effected, reasons = outcome(leave_out_roundings, graph)
    assert effected == (reason is None)
    if reason is None:
        after = evaluate(graph, OPSET, arrays)[0]
        assert np.abs(after.astype(int) - before.astype(int)).max() <= 1
    else:
        assert len(reasons) == 1
        assert reasons[0].startswith(reason)


def test_a_product_that_a_vector_makes_has_no_bias() -> None:
    """QGemm takes rows."""

    def write(b: GraphBuilder) -> Tensor:
        x, weight = b.input("x", (6,), DType.INT8), b.constant(np.ones((6, 5), np.int8))
        ports = [x, *bytes_(b, 0.02, 1), weight, *bytes_(b, 0.01, 0), *bytes_(b, SMALL, 2)]
        made = b.op("QLinearMatMul", *ports)
        given = [b.constant(np.ones(5, np.int8)), *bytes_(b, 0.03, 0)]
        return b.op(
            "QLinearAdd", made, *bytes_(b, SMALL, 2), *given, *bytes_(b, FINE, 0), domain="com.microsoft"
        )

    assert outcome(leave_out_roundings, graph_of(write)) == (0, ["the right operand is no matrix"])


# ---- integer sums that are scaled


def sums(
    b: GraphBuilder,
    scale: Any = (5,),
    to: DType = DType.FLOAT32,
    factor: str = "Mul",
    kind: Any = np.float32,
    swapped: bool = False,
    x: Any = (4, 6),
) -> Tensor:
    product = b.op(
        "MatMulInteger", b.input("x", x, DType.INT8), b.constant(RNG.integers(-9, 9, (6, 5), np.int8))
    )
    wide = b.op("Cast", product, to=to)
    given = b.constant(np.asarray(random(*scale, positive=True), kind), "scale")
    return b.op(factor, *((given, wide) if swapped else (wide, given)))


@pytest.mark.parametrize(
    ("write", "change", "joins"),
    [
        (sums, None, True),
        (lambda b: sums(b, swapped=True), None, True),
        (lambda b: sums(b, ()), None, True),
        (lambda b: sums(b, (1,)), None, True),
        (lambda b: sums(b, (1, 5)), None, True),
        (lambda b: sums(b, (1, 1, 5), x=(2, 4, 6)), None, True),
        (lambda b: sums(b, (4, 5)), None, False),
        (lambda b: sums(b, (4, 1)), None, False),
        (lambda b: sums(b, (1, 1, 5)), None, False),
        (lambda b: sums(b, (2, 1, 1), x=(2, 4, 6)), None, False),
        (lambda b: sums(b, to=DType.FLOAT64, kind=np.float64), None, False),
        (lambda b: sums(b, to=DType.FLOAT16, kind=np.float16), None, False),
        (lambda b: sums(b, factor="Add"), None, False),
        (lambda b: sums(b, factor="Div"), None, False),
        (sums, shown("MatMulInteger"), False),
        (sums, shown("Cast"), False),
        (sums, read_too("MatMulInteger"), False),
        (sums, read_too("Cast"), False),
    ],
)
def test_sums_are_scaled_on_their_way_out(write: Any, change: Change | None, joins: bool) -> None:
    graph = graph_of(write)
    if change is not None:
        change(graph)
    arrays = {"x": RNG.integers(-99, 99, graph.inputs[0].static_shape).astype(np.int8)}
    before, text = evaluate(graph, OPSET, arrays)[0], to_text(graph)
    assert join_integer_products(graph) == joins
    verify(graph)
    np.testing.assert_allclose(evaluate(graph, OPSET, arrays)[0], before, rtol=1e-6)
    assert (to_text(graph) == text) is not joins


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [((), (5,), True), ((1,), (5,), True), ((), (), True), ((5,), (), False), (None, (5,), False)],
)
def test_a_scale_that_is_a_product_goes_in_with_both_factors(one: Any, other: Any, apart: bool) -> None:
    """A number of the run and constants; None: a sum instead of a product, or two numbers of the run."""
    b = new_builder()
    product = b.op("MatMulInteger", b.input("x", (4, 6), DType.INT8), b.constant(np.ones((6, 5), np.int8)))
    step = b.input("step", () if one is None else one)
    columns = b.constant(np.asarray(random(*other, positive=True)))
    scale = b.op("Add" if one is None else "Mul", step, columns)
    b.output(b.op("Mul", b.op("Cast", product, to=DType.FLOAT32), scale), "y")
    graph = b.build()
    arrays = {
        "x": RNG.integers(-9, 9, (4, 6)).astype(np.int8),
        "step": np.asarray(random(*step.static_shape, positive=True)),
    }
    before = evaluate(graph, OPSET, arrays)[0]
    assert join_integer_products(graph) == 1
    verify(graph)
    (made,) = (node for node in graph.nodes if node.op_type == "DequantMatMul")
    assert made.input_count == (6 if apart else 5)
    assert ("Mul" in {node.op_type for node in graph.nodes}) is (not apart and one is not None)
    np.testing.assert_allclose(evaluate(graph, OPSET, arrays)[0], before, rtol=1e-6)


# ---- models in pairs


def pair_of(
    b: GraphBuilder, x: Tensor, scale: Any = 0.05, zero: int | None = 3, kind: Any = np.int8
) -> Tensor:
    ports = [b.constant(np.asarray(scale, np.float32))]
    if zero is not None:
        ports.append(b.constant(np.asarray(np.full(np.shape(scale), zero), kind)))
    return b.op("DequantizeLinear", b.op("QuantizeLinear", x, *ports), *ports)


def gemm(
    b: GraphBuilder, bias: bool = True, zero: int | None = 3, kind: Any = np.int8, **factors: Any
) -> Tensor:
    """A product between pairs; its result has a zero point."""
    weight = b.op(
        "DequantizeLinear",
        b.constant(RNG.integers(-9, 9, (6, 5)).astype(np.int8)),
        b.constant(np.float32(0.01)),
    )
    x = pair_of(b, b.input("x", (4, 6)), zero=0 if kind is np.int8 else 128, kind=kind)
    ports = [x, weight, *([b.constant(random(5) / 9)] if bias else [])]
    return pair_of(b, b.op("Gemm", *ports, **factors), 0.01, zero, kind)


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (gemm, None),
        (lambda b: gemm(b, bias=False), None),
        (lambda b: gemm(b, alpha=1.0, beta=1.0), None),
        (lambda b: gemm(b, beta=2.0), "the bias has a factor"),
        (lambda b: gemm(b, bias=False, beta=2.0), None),
        (lambda b: gemm(b, alpha=2.0), "the product has a factor and a bias"),
        (lambda b: gemm(b, bias=False, alpha=2.0), None),
    ],
)
def test_factors_of_products_of_bytes(write: Any, reason: str | None) -> None:
    graph = graph_of(write)
    assert outcome(join_quantised, graph) == ((1, []) if reason is None else (0, [reason]))


@pytest.mark.parametrize(
    ("kind", "zero", "needed"),
    [
        (np.int8, 0, False),
        (np.int8, 1, True),
        (np.int8, -128, True),
        (np.uint8, 128, False),
        (np.uint8, 127, True),
        (np.uint8, 0, True),
    ],
)
def test_a_zero_point_of_the_result_goes_into_the_bias(kind: Any, zero: int, needed: bool) -> None:
    """Zeros stand for a bias where there is none and the result's zero point is not that of its type."""
    graph = graph_of(lambda b: gemm(b, bias=False, zero=zero, kind=kind))
    assert outcome(join_quantised, graph) == (1, [])
    (node,) = (item for item in graph.nodes if item.op_type == "QGemm")
    assert (node.input(6) is not None) is needed


@pytest.mark.parametrize("op_type", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("shape", [(5,), (1, 5), (1, 1, 5)])
def test_zero_points_that_are_left_out_are_zero(op_type: str, shape: tuple[int, ...]) -> None:
    """Of what is added, or multiplied by; a row of data may have a batch."""

    def write(b: GraphBuilder) -> Tensor:
        x = b.input("x", (2, 4, 6), DType.INT8)
        weight = b.constant(RNG.integers(-9, 9, (6, 5), np.int8))
        made = b.op(
            "QLinearMatMul", x, *bytes_(b, 0.02, 1), weight, *bytes_(b, 0.01, 0), *bytes_(b, SMALL, 2)
        )
        values = (
            np.full((), 4, np.int8)
            if op_type == "QLinearMul"
            else RNG.integers(-99, 99, shape).astype(np.int8)
        )
        given = [b.constant(values), b.constant(np.float32(0.03)), None]
        return b.op(op_type, made, *bytes_(b, SMALL, 2), *given, *bytes_(b, FINE, -3), domain="com.microsoft")

    graph = graph_of(write)
    x = RNG.integers(-9, 9, (2, 4, 6)).astype(np.int8)
    before = evaluate(graph, OPSET, {"x": x})[0]
    assert outcome(leave_out_roundings, graph) == (1, [])
    after = evaluate(graph, OPSET, {"x": x})[0]
    assert np.abs(after.astype(int) - before.astype(int)).max() <= 1


def test_what_changed_places_stands_for_both_operators_of_the_user() -> None:
    """Names of the user's operators stay with what stands for them."""
    graph = graph_of(moved)
    quant, mover = _of(graph, "AscendQuant"), _of(graph, "Reshape")
    quant.origin["source_names"], mover.origin["source_names"] = ("q",), ("m",)
    assert outcome(quantise_early, graph) == (1, [])
    for kind in ("AscendQuant", "Reshape"):
        assert _of(graph, kind).origin["source_names"] == ("m", "q")
    assert _of(graph, "AscendQuant").origin["quantised_early"] is True
    assert "quantised_early" not in _of(graph, "Reshape").origin
