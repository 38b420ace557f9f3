"""CANN's operators on bytes: values against exact arithmetic at ties and at the ends of the range, and which
instructions scales and offsets cost.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.opset.work import AiCpuWork, NoTask, VectorWork
from tests.support.integer_laws import RNG, bytes_of, counts, lowered, nearest
from tests.support.single_node import make_node, run

ALL = np.arange(-128, 128, dtype=np.int8)


def ascend(name: str, *inputs: Any, **attributes: Any) -> Any:
    return run(name, list(inputs), domain="ascend", **attributes)[0]


# ---- values: all factors are powers of two, so that every product is exact


def test_quantising_rounds_ties_to_even_and_saturates_behind_the_offset() -> None:
    x = np.arange(-300, 300, dtype=np.float32) / 4
    found = ascend("AscendQuant", x, scale=2.0, offset=3.0)
    assert found.tolist() == nearest(x * 2 + 3)
    assert {-128, 127} <= set(found.tolist())
    assert ascend("AscendQuant", x).tolist() == nearest(x)


SUMS = RNG.integers(-4000, 4000, (2, 3, 4, 5)).astype(np.int32)
SCALES = np.array([0.5, 0.0625, 2.0], np.float32)


def registers(scale: Any) -> Any:
    """Prepared scales, with other settings of the chip in the high half."""
    return scale.view(np.uint32).astype(np.uint64) | np.uint64(0x4000_0000_0000)


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("relu", [0, 1])
@pytest.mark.parametrize("rank", [2, 3, 4])
def test_sums_have_the_scale_of_their_channel(rank: int, relu: int, prepared: bool) -> None:
    """Offsets come behind the cut at zero."""
    sums = {2: SUMS[:, :, 0, 0], 3: SUMS.reshape(2, 3, 20), 4: SUMS}[rank]
    wide = np.stack([sums[:, channel] * float(SCALES[channel]) for channel in range(3)], axis=1)
    wide = np.maximum(wide, 0) if relu else wide
    scale = registers(SCALES) if prepared else SCALES
    np.testing.assert_array_equal(ascend("AscendDequant", sums, scale, relu_flag=relu), wide)
    found = ascend("AscendRequant", sums, scale, relu_flag=relu, offset=-7.0)
    assert found.reshape(-1).tolist() == nearest(wide - 7)
    single = sums[0, 0]  # without axes, where there were two
    found = ascend("AscendRequant", single, scale[1:2], relu_flag=relu)
    assert found.reshape(-1).tolist() == nearest(np.maximum(single / 16, 0) if relu else single / 16)


def test_bytes_become_floats_by_shift_and_scale() -> None:
    found = ascend("AscendAntiQuant", ALL, scale=0.25, offset=3.0)
    assert found.tolist() == [(number + 3) * 0.25 for number in range(-128, 128)]
    assert ascend("AscendAntiQuant", ALL).tolist() == list(range(-128, 128))
    assert ascend("AscendAntiQuant", ALL, dtype=DType.FLOAT16).dtype == np.float16


def test_weights_lose_their_offset_and_saturate() -> None:
    offset = np.array([[-100], [0], [100]], np.int8)
    found = ascend("AscendWeightQuant", np.tile(ALL, (3, 1)), offset)
    for row, shift in zip(found, (-100, 0, 100), strict=True):
        assert row.tolist() == nearest(np.arange(-128, 128) - shift)


@pytest.mark.parametrize(("turn_a", "turn_b"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_products_of_bytes_are_exact(turn_a: int, turn_b: int) -> None:
    a, b, bias = bytes_of(5, 7), bytes_of(7, 3), np.array([1, -2, 1000], np.int32)
    given = (a.T.copy() if turn_a else a, b.T.copy() if turn_b else b)
    flags = {"transA": turn_a, "transB": turn_b}
    wanted = (a.astype(int) - 9) @ b.astype(int)
    np.testing.assert_array_equal(ascend("QuantMatMul", *given, offset_x=9, **flags), wanted)
    np.testing.assert_array_equal(ascend("QuantMatMul", *given, bias, offset_x=9, **flags), wanted + bias)
    work = lowered("QuantMatMul", *given, bias, **flags)
    assert (work.m, work.k, work.n, work.bias is None) == (5, 7, 3, False)
    assert lowered("QuantMatMul", *given, **flags).bias is None


def convolved(x: Any, w: Any, stride: int, pad: int, group: int) -> Any:
    """Products and sums one by one; borders are zeros."""
    images, filters = x.shape[0], w.shape[0]
    wide = np.pad(x.astype(int), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    height, width = ((size - w.shape[2]) // stride + 1 for size in wide.shape[2:])
    made = np.zeros((images, filters, height, width), int)
    for at in np.ndindex(made.shape):
        first = at[1] // (filters // group) * w.shape[1]
        top, left = at[2] * stride, at[3] * stride
        window = wide[at[0], first : first + w.shape[1], top : top + w.shape[2], left : left + w.shape[3]]
        made[at] = (window * w[at[1]].astype(int)).sum()
    return made


IMAGE, FILTERS, BIAS = bytes_of(2, 4, 5, 6), bytes_of(6, 2, 3, 3), np.arange(-3, 3, dtype=np.int32) * 100
WINDOW: dict[str, Any] = {"strides": (2, 2), "pads": (1, 1, 1, 1), "group": 2}
DEQ = np.array([1, 0.5, 0.25, 2, 1, 0.125], np.float32) / 1024


def test_a_convolution_takes_the_offset_off_its_data_but_not_off_borders() -> None:
    """The offset's part of the bias may be in it already: the same sums."""
    wanted = convolved(IMAGE.astype(int) - 11, FILTERS, 2, 1, 2)
    along = (-1, 1, 1)
    conv = {**WINDOW, "offset_x": 11}
    np.testing.assert_array_equal(ascend("QuantConv", IMAGE, FILTERS, **conv), wanted)
    sums = wanted + BIAS.reshape(along)
    np.testing.assert_array_equal(ascend("QuantConv", IMAGE, FILTERS, BIAS, **conv), sums)
    moved = BIAS - 11 * FILTERS.reshape(6, -1).sum(axis=1, dtype=np.int32)
    found = ascend("QuantConv", IMAGE, FILTERS, moved, offset_in_bias=1, **conv)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, sums)


@pytest.mark.parametrize("relu", [0, 1])
def test_a_convolution_with_scales_is_the_three_operators_one_by_one(relu: int) -> None:
    inputs = IMAGE, FILTERS, BIAS, DEQ
    sums = ascend("QuantConv", *inputs[:3], **WINDOW)
    real = ascend("AscendDequant", sums, DEQ, relu_flag=relu)
    np.testing.assert_array_equal(ascend("QuantConv", *inputs, relu_flag=relu, **WINDOW), real)
    more = {"relu_flag": relu, "quant_scale": 16.0, "dtype": DType.INT8}
    for offset in (0.0, 5.0):
        wanted = ascend("AscendQuant", real, scale=16.0, offset=offset)
        given = {"quant_offset": offset} if offset else {}
        np.testing.assert_array_equal(ascend("QuantConv", *inputs, **given, **more, **WINDOW), wanted)


@pytest.mark.parametrize(
    ("name", "inputs", "port"),
    [
        ("QuantMatMul", (bytes_of(2, 3), bytes_of(3, 4)), 0),
        ("QuantMatMul", (bytes_of(2, 3), bytes_of(3, 4)), 1),
        ("QuantConv", (IMAGE, FILTERS), 0),
        ("QuantConv", (IMAGE, FILTERS), 1),
        ("AscendAntiQuant", (ALL,), 0),
        ("AscendDequant", (SUMS, SCALES), 0),
    ],
)
def test_integers_of_another_type_are_refused(name: str, inputs: tuple[Any, ...], port: int) -> None:
    given = [array.astype(np.uint8) if at == port else array for at, array in enumerate(inputs)]
    with pytest.raises(GraphError, match="needs int"):
        make_node(name, given, domain="ascend", **(WINDOW if name == "QuantConv" else {}))


# ---- work


def test_offsets_of_convolutions_cost_a_step_only_outside_the_bias_and_scales_none_of_their_own() -> None:
    given = IMAGE, FILTERS, BIAS
    assert counts(lowered("QuantConv", *given, **WINDOW)) == {}
    assert counts(lowered("QuantConv", *given, offset_x=3, **WINDOW)) == {"vsub": 1}
    assert counts(lowered("QuantConv", *given, offset_x=3, offset_in_bias=1, **WINDOW)) == {}
    assert counts(lowered("QuantConv", *given, DEQ, relu_flag=1, **WINDOW)) == {"vrelu": 1}
    stored = lowered("QuantConv", *given, DEQ, relu_flag=1, quant_scale=2.0, dtype=DType.INT8, **WINDOW)
    assert [step.op for step in stored.epilogue] == ["deqscale", "vrelu", "vconv"]
    assert stored.useful_macs == convolved(IMAGE, FILTERS, 2, 1, 2).size * 2 * 3 * 3


@pytest.mark.parametrize(
    ("name", "inputs", "steps", "inside"),
    [
        ("AscendQuant", (SUMS.astype(np.float32),), {"vconv": 2, "vmuls": 1, "vadds": 1}, DType.FLOAT32),
        ("AscendQuant", (SUMS.astype(np.float16),), {"vconv": 2, "vmuls": 1, "vadds": 1}, DType.FLOAT16),
        ("AscendDequant", (SUMS, SCALES[:1]), {"vconv": 1, "vmuls": 1}, DType.FLOAT32),
        ("AscendDequant", (SUMS, SCALES), {"vconv": 1, "vmul": 1}, DType.FLOAT32),
        ("AscendRequant", (SUMS, SCALES), {"vconv": 2, "vmul": 1, "vadds": 1}, DType.FLOAT16),
        ("AscendAntiQuant", (IMAGE,), {"vconv": 1, "vadds": 1, "vmuls": 1}, DType.FLOAT32),
        ("AscendWeightQuant", (IMAGE, np.int8(3)), {"vconv": 2, "vadds": 1}, DType.FLOAT16),
        ("AscendWeightQuant", (IMAGE, bytes_of(1, 4, 1, 1)), {"vconv": 2, "vsub": 1}, DType.FLOAT16),
    ],
)
def test_steps_are_those_of_the_formula_between_conversions(
    name: str, inputs: tuple[Any, ...], steps: dict[str, int], inside: DType
) -> None:
    """One value a channel lies in another stream, one for all is a number in the instructions."""
    work = lowered(name, *inputs)
    assert isinstance(work, VectorWork)
    assert counts(work) == steps
    assert {step.dtype for step in work.steps} == {inside}
    assert work.steps[0].op == "vconv"
    assert work.rows * work.cols == inputs[0].size
    assert [stream.ref.bytes for stream in work.inputs] == [np.asarray(array).nbytes for array in inputs]
    if len(inputs) > 1:
        assert work.inputs[1].over == ("one" if np.size(inputs[1]) == 1 else "row")
    relu = {"relu_flag": 1} if name in ("AscendDequant", "AscendRequant") else {}
    assert counts(lowered(name, *inputs, **relu)) == steps | ({"vrelu": 1} if relu else {})


def test_what_is_empty_costs_nothing_and_what_is_flat_runs_on_the_ai_cpu() -> None:
    assert isinstance(lowered("AscendQuant", np.zeros((0, 3), np.float32), known=False), NoTask)
    assert isinstance(lowered("AscendQuant", np.zeros(3, np.float32)), AiCpuWork)
    assert isinstance(lowered("AscendQuant", np.zeros((1, 3), np.float32)), VectorWork)
    none = np.zeros((0, 4, 5, 6), np.int8)
    assert isinstance(lowered("QuantConv", none, FILTERS, known=False, **WINDOW), NoTask)
