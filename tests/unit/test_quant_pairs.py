"""What pairs of QuantizeLinear and DequantizeLinear say of tensors, weights as the Cube multiplies them, and
biases in units of sums: by hand, with the limits of a byte on both sides.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Constant, Graph, Tensor
from ascendsim.ops import default_opset
from ascendsim.passes.quant.batches import unfold_batches
from ascendsim.passes.quant.pairs import (
    Quantised,
    RefusedError,
    activation,
    bias_of,
    dequantised,
    integers,
    only_reader,
)
from ascendsim.passes.quant.qdq import join_quantised
from tests.support.fusing import new_builder

STEP = np.float32(0.25)


def quantised(b: GraphBuilder, values: Any, scale: Any = STEP, zero: Any = None, **more: Any) -> Quantised:
    """A constant as a model has it."""
    point = None if zero is None else b.constant(np.asarray(zero, values.dtype), "zero")
    more = {"axis": 0, **more}
    return Quantised(
        b.constant(values, "w"), b.constant(np.asarray(scale, np.float32), "scale"), point, **more
    )


def data(b: GraphBuilder, kind: DType, zero: int | None, scale: Any = STEP) -> Quantised:
    """A tensor of a run."""
    point = None if zero is None else b.constant(np.asarray(zero, kind.numpy), "zero")
    return Quantised(
        b.input(b.graph.fresh("x"), (4, 8), kind), b.constant(np.asarray(scale, np.float32), "step"), point, 1
    )


def whole(b: GraphBuilder, weight: Quantised, *axes: int) -> Any:
    """The integers that the Cube multiplies."""
    found = integers(b.graph, weight, axes or (0,), "the weight")
    assert found.zero is None
    assert found.kind is DType.INT8
    assert found.tensor.constant is not None
    return found.tensor.constant.array()


@pytest.mark.parametrize(
    ("values", "zero", "fits"),
    [
        ([0, 255], 128, True),
        ([0, 254], 127, True),
        ([0, 255], 127, False),
        ([1, 255], 129, True),
        ([0, 255], 129, False),
        ([5, 9], 0, True),
        ([5, 127], 0, True),
        ([5, 128], 0, False),
    ],
)
def test_unsigned_weights_without_their_zero_point_are_bytes_or_refused(
    values: list[int], zero: int, fits: bool
) -> None:
    b = new_builder()
    weight = quantised(b, np.array(values, np.uint8), zero=zero)
    if fits:
        np.testing.assert_array_equal(whole(b, weight), np.array(values) - zero)
    else:
        with pytest.raises(RefusedError, match="the weight leaves int8 without its zero point"):
            integers(b.graph, weight, (0,), "the weight")


def test_weights_that_are_what_the_cube_multiplies_stay_the_tensor_that_they_are() -> None:
    b = new_builder()
    for zero in (None, 0, [0, 0]):
        weight = quantised(b, np.array([[3, -4], [5, 6]], np.int8), zero=zero)
        assert integers(b.graph, weight, (0,), "w").tensor is weight.tensor
    shifted = quantised(b, np.array([[3, -4], [5, 6]], np.int8), scale=[1, 2], zero=[1, 0])
    np.testing.assert_array_equal(whole(b, shifted), [[2, -5], [5, 6]])
    columns = quantised(b, np.array([[3, -4], [5, 6]], np.int8), scale=[1, 2], zero=[1, 0], axis=-1)
    np.testing.assert_array_equal(whole(b, columns, 1), [[2, -4], [4, 6]])


def test_floats_are_rounded_to_even_and_cut_at_the_ends_of_their_bytes() -> None:
    b = new_builder()
    values = np.array([0.125, 0.375, -99, 99, 1], np.float32)
    zero = b.constant(np.int8(0), "zero")
    weight = Quantised(b.constant(values, "w"), b.constant(STEP, "s"), zero, 0, floats=True)
    np.testing.assert_array_equal(whole(b, weight), [0, 2, -128, 127, 4])
    unsigned = Quantised(b.constant(values, "w"), b.constant(STEP, "s"), None, 0, floats=True)
    with pytest.raises(RefusedError, match="leaves int8"):
        integers(b.graph, unsigned, (0,), "the weight")
    small = Quantised(b.constant(values[:3], "w"), b.constant(STEP, "s"), None, 0, floats=True)
    np.testing.assert_array_equal(whole(b, small), [0, 2, 0])
    two = Quantised(
        b.constant(np.ones((2, 2), np.float32)), b.constant(np.array([1, 0.5], np.float32)), zero, -2, True
    )
    np.testing.assert_array_equal(whole(b, two), [[1, 1], [2, 2]])


def test_weights_without_values_are_taken_by_their_form() -> None:
    b = new_builder()
    weight = Quantised(b.weight("w", (2, 2), dtype=DType.UINT8), b.constant(STEP), b.constant(np.uint8(1)), 0)
    made = integers(b.graph, weight, (0,), "w").tensor
    assert made.static_shape == (2, 2)
    assert made.constant is not None
    assert not made.constant.available


@pytest.mark.parametrize(
    ("values", "more", "reason"),
    [
        (np.ones((2, 2), np.int16), {}, "the weight is int16, not 8 bits wide"),
        (np.ones((2, 2), np.int8), {"scale": [1, 2], "axis": 1}, "has a scale for every slice of axis 1"),
        (np.ones((2, 2), np.int8), {"scale": [1, 2], "axis": -1}, "has a scale for every slice of axis -1"),
    ],
)
def test_other_weights_are_refused(values: Any, more: Any, reason: str) -> None:
    b = new_builder()
    with pytest.raises(RefusedError, match=reason):
        integers(b.graph, quantised(b, values, **more), (0,), "the weight")


def test_weights_and_scales_of_a_run_are_refused() -> None:
    b = new_builder()
    scale, x = b.input("s", ()), b.input("w", (2,), DType.INT8)
    held = b.constant(np.ones(2, np.int8))
    for weight, reason in (
        (Quantised(x, b.constant(STEP), None, 0), "the weight is not constant"),
        (Quantised(held, scale, None, 0), "scale and zero point of the weight are not known"),
        (Quantised(held, b.constant(STEP), b.input("z", (), DType.INT8), 0), "scale and zero point of the"),
    ):
        with pytest.raises(RefusedError, match=reason):
            integers(b.graph, weight, (0,), "the weight")


def test_numbers_and_zero_points_that_are_one() -> None:
    b = new_builder()
    assert data(b, DType.INT8, None).shift == 0
    assert data(b, DType.UINT8, 7).shift == 7
    assert data(b, DType.INT8, 0, scale=[0.5]).number == 0.5
    same = Quantised(b.constant(np.ones(2, np.int8)), b.constant(STEP), b.constant(np.int8([4, 4])), 0)
    assert same.shift == 4
    other = Quantised(
        b.constant(np.ones(2, np.int8)), b.constant(np.float32([1, 1])), b.constant(np.int8([4, 5])), 0
    )
    for name, reason in (
        ("shift", "the zero point of .* is not one"),
        ("number", "the scale of .* is not one"),
    ):
        with pytest.raises(RefusedError, match=reason):
            getattr(other, name)
    free = Quantised(other.tensor, b.input("s", ()), b.input("z", (), DType.INT8), 0)
    for name in ("shift", "number"):
        with pytest.raises(RefusedError, match="one known number"):
            getattr(free, name)


def test_equal_integers_stand_for_equal_numbers_if_scale_zero_point_and_type_are_equal() -> None:
    b = new_builder()
    one = data(b, DType.INT8, 3)
    assert one.equals(data(b, DType.INT8, 3))
    assert data(b, DType.INT8, None).equals(data(b, DType.INT8, 0))
    assert data(b, DType.INT8, 0).equals(data(b, DType.INT8, None))
    assert one.equals(Quantised(one.tensor, b.constant(np.float32([STEP])), one.zero, 1))
    for other in (
        data(b, DType.INT8, 4),
        data(b, DType.INT8, None),
        data(b, DType.UINT8, 3),
        data(b, DType.INT8, 3, scale=0.3),
        data(b, DType.INT8, 3, scale=[STEP, STEP]),
        Quantised(one.tensor, b.input("s", ()), one.zero, 1),
    ):
        assert not one.equals(other)
        assert not other.equals(one)
    free = Quantised(one.tensor, b.input("t", ()), one.zero, 1)
    assert free.equals(free)


def test_what_dequantise_linear_makes_is_known_by_its_operator() -> None:
    b = new_builder()
    x = b.input("x", (4, 8), DType.INT8)
    scale, zero = b.constant(np.ones(8, np.float32)), b.constant(np.zeros(8, np.int8))
    found = dequantised(b.op("DequantizeLinear", x, scale, zero, axis=-1))
    assert found is not None
    assert (found.tensor, found.scale, found.zero, found.axis, found.floats) == (x, scale, zero, -1, False)
    plain = dequantised(b.op("DequantizeLinear", x, b.constant(STEP)))
    assert plain is not None
    assert (plain.axis, plain.zero, plain.single, found.single) == (1, None, True, False)
    assert dequantised(None) is None
    assert dequantised(x) is None
    assert dequantised(b.op("Cast", x, to=DType.FLOAT32)) is None
    blocks = b.op("DequantizeLinear", x, b.constant(np.ones((4, 4), np.float32)), axis=1, block_size=2)
    assert dequantised(blocks) is None
    weight = b.constant(np.ones((4, 8), np.float32))
    held = dequantised(
        b.op("DequantizeLinear", b.op("QuantizeLinear", weight, STEP, np.int8(0)), STEP, np.int8(0))
    )
    assert held is not None
    assert (held.tensor, held.floats, held.kind) == (weight, True, DType.INT8)
    run = b.op("QuantizeLinear", b.input("y", (4, 8)), STEP, np.int8(0))
    live = dequantised(b.op("DequantizeLinear", run, STEP, np.int8(0)))
    assert live is not None
    assert (live.tensor, live.floats) == (run, False)


@pytest.mark.parametrize(
    ("kind", "scale", "reason"),
    [
        (DType.INT8, STEP, None),
        (DType.UINT8, STEP, None),
        (DType.INT32, STEP, "the data is int32, not 8 bits wide"),
        (DType.INT8, np.ones(8, np.float32), "the data has a scale for every slice"),
    ],
)
def test_data_are_bytes_with_one_scale(kind: DType, scale: Any, reason: str | None) -> None:
    b = new_builder()
    x = b.input("x", (4, 8), kind)
    floats = b.op("DequantizeLinear", x, b.constant(np.asarray(scale)))
    if reason is None:
        assert activation(floats, "the data").tensor is x
        return
    with pytest.raises(RefusedError, match=reason):
        activation(floats, "the data")


def test_one_reader_reads_once_as_its_data_what_is_no_output() -> None:
    b = new_builder()
    x = b.input("x", (4,))
    once, twice, second, shown = (b.op("Abs", x) for _ in range(4))
    reader = b.op("Neg", once).producer
    b.op("Mul", twice, twice)
    b.op("Mul", x, second)
    b.output(shown, "y")
    b.op("Neg", shown)
    assert only_reader(once) is reader
    assert [only_reader(tensor) for tensor in (twice, second, shown, x)] == [None] * 4


# ---- biases


@pytest.mark.parametrize(
    ("kind", "zero", "shifted", "needed"),
    [
        (DType.INT8, 0, False, False),
        (DType.INT8, None, False, False),
        (DType.INT8, 0, True, True),
        (DType.INT8, 3, False, True),
        (DType.INT8, 128 - 256, False, True),
        (DType.UINT8, 128, False, False),
        (DType.UINT8, 128, True, True),
        (DType.UINT8, 0, False, True),
    ],
)
def test_zeros_stand_for_a_bias_where_a_zero_point_needs_one(
    kind: DType, zero: int | None, shifted: bool, needed: bool
) -> None:
    b = new_builder()
    made = bias_of(b.graph, None, data(b, kind, zero), quantised(b, np.ones((5, 2), np.int8)), 5, shifted)
    assert (made is not None) is needed
    if made is not None:
        assert made.constant is not None
        np.testing.assert_array_equal(made.constant.array(), np.zeros(5, np.int32), strict=True)


def bias(b: GraphBuilder, given: Tensor, channels: int = 2, scales: Any = (0.5, 0.25)) -> Any:
    weight = quantised(b, np.ones((channels, 3), np.int8), scale=scales)
    made = bias_of(b.graph, given, data(b, DType.INT8, 0, scale=0.5), weight, channels, False)
    assert made is not None
    assert made.constant is not None
    assert made.dtype is DType.INT32
    return made, made.constant.array()


def test_biases_are_in_steps_of_data_times_weights() -> None:
    """0.5 * (0.5, 0.25) is (1/4, 1/8): what a bias is in these, rounded to even and cut at int32."""
    b = new_builder()
    floats = b.constant(np.float32([0.375, 10]))
    np.testing.assert_array_equal(bias(b, floats)[1], [2, 80])
    np.testing.assert_array_equal(bias(b, b.constant(np.float32([[1], [1]])))[1], [4, 8])
    np.testing.assert_array_equal(bias(b, floats, scales=0.5)[1], [2, 40])
    far = b.constant(np.float32([-1e12, 1e12]))
    np.testing.assert_array_equal(bias(b, far)[1], [-(2**31), 2**31 - 1])
    held = b.constant(np.int32([7, -9]))
    for steps, zero, wanted in (
        ([0.25, 0.125], None, [7, -9]),
        ([0.25, 0.125], [0, 0], [7, -9]),
        ([0.25, 0.125001], None, [7, -9]),
        ([0.25, 0.25], None, [7, -18]),
        ([0.5, 0.125], [0, 0], [14, -9]),
    ):
        ports = [b.constant(np.float32(steps)), None if zero is None else b.constant(np.int32(zero))]
        made, values = bias(b, b.op("DequantizeLinear", held, *ports, axis=0))
        np.testing.assert_array_equal(values, wanted)
        assert (made is held) is (wanted == [7, -9])
    column = b.constant(np.int32([[7], [-9]]))
    made, values = bias(b, b.op("DequantizeLinear", column, b.constant(np.float32([0.25, 0.125])), axis=0))
    np.testing.assert_array_equal(values, [7, -9], strict=False)
    assert made.static_shape == (2,)


def _of_bytes(b: GraphBuilder) -> Tensor:
    return b.op("DequantizeLinear", b.constant(np.int8([1, 2])), STEP)


def _with_a_zero_point(b: GraphBuilder) -> Tensor:
    ports = np.int32([1, 2]), np.float32([0.25, 0.125]), np.int32([0, 1])
    return b.op("DequantizeLinear", *map(b.constant, ports), axis=0)


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (lambda b: b.input("b", (2,)), "the bias is not one constant a column"),
        (lambda b: b.constant(np.ones(1, np.float32)), "the bias is not one constant a column"),
        (lambda b: b.constant(np.ones(4, np.float32)), "the bias is not one constant a column"),
        (_of_bytes, "the bias is quantised otherwise than in int32"),
        (_with_a_zero_point, "the bias has a zero point"),
    ],
)
def test_other_biases_are_refused(write: Any, reason: str) -> None:
    b = new_builder()
    with pytest.raises(RefusedError, match=reason):
        bias(b, write(b))


# ---- around them


def product(
    rows: int = 10, columns: int = 64, back: tuple[int, ...] = (2, 5, 32), **attributes: int
) -> Graph:
    """Bytes of a batch as rows, their product, and a batch again."""
    b = new_builder()
    x = b.input("x", (2, 5, 64), DType.INT8)
    flat = b.op("Reshape", x, b.constant(np.array([rows, columns])))
    scale, zero = b.constant(np.float32(1)), b.constant(np.int8(0))
    depth = rows if attributes.get("transA") else columns
    weight = b.constant(np.ones((depth, 32), np.int8))
    ports = [flat, scale, zero, weight, scale, zero, None, scale, zero]
    made = b.op("QGemm", *ports, domain="com.microsoft", **attributes)
    b.output(b.op("Reshape", made, b.constant(np.array(back))), "y")
    return b.build()


@pytest.mark.parametrize(
    ("graph", "unfolds"),
    [
        (product(), True),
        (product(transA=0), True),
        (product(back=(5, 2, 32)), False),
        (product(rows=10, columns=64, transA=1, back=(2, 32, 32)), False),
        (product(rows=20, columns=32, back=(2, 10, 32)), False),
    ],
)
def test_a_product_of_a_batch_is_one_where_rows_are_rows(graph: Graph, unfolds: bool) -> None:
    (record,) = unfold_batches(graph, default_opset())
    assert (record.matched, record.effected) == (1, int(unfolds))
    reasons = [refusal.reason for refusal in record.refusals]
    assert reasons == ([] if unfolds else ["the Reshapes do more than to fold a batch"])
    (node,) = (node for node in graph.nodes if node.op_type == "QGemm")
    assert (node.output.static_shape == (2, 5, 32)) is unfolds


@pytest.mark.parametrize("read", ["", "output", "elsewhere"])
def test_bytes_are_made_before_a_reshape_if_nobody_else_reads_the_floats(read: str) -> None:
    b = new_builder()
    x = b.op("Tanh", b.input("x", (4, 8)))
    flat = b.op("Reshape", x, b.constant(np.array([32])))
    scale, zero = b.constant(STEP), b.constant(np.int8(0))
    pair = b.op("DequantizeLinear", b.op("QuantizeLinear", flat, scale, zero), scale, zero)
    b.output(pair, "y")
    if read == "output":
        b.output(x, "floats")
    if read == "elsewhere":
        b.output(b.op("Neg", x), "z")
    graph = b.build()
    join_quantised(graph, default_opset())
    order = [node.op_type for node in graph.topological() if node.op_type in ("Reshape", "QuantizeLinear")]
    assert (order[0] == "QuantizeLinear") is (not read)


def test_weights_that_have_no_values_are_not_looked_at() -> None:
    """Whether they fit is asked of values alone."""
    b = new_builder()
    tensor = b.constant(np.zeros((0, 2), np.uint8), "w")
    found = integers(b.graph, Quantised(tensor, b.constant(STEP), b.constant(np.uint8(255)), 0), (0,), "w")
    assert isinstance(found.tensor.constant, Constant)
    assert found.tensor.constant.array().shape == (0, 2)
