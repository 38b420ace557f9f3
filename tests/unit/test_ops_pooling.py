"""Pooling: values against onnxruntime and NumPy, indices, ceil mode, shape rules, work descriptions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascendsim.core.errors import GraphError
from ascendsim.core.formats import Format
from ascendsim.isa.instructions import Move, Pipe, Vector
from ascendsim.isa.walk import static, times
from ascendsim.lower.templates.steps import Expansion
from ascendsim.lower.templates.vector import lower_vector
from ascendsim.ops import default_opset
from ascendsim.opset.work import LowerContext, VectorWork
from ascendsim.soc import load
from tests.support.rounding import assert_device_rounding, assert_near_oracle
from tests.support.single_node import infer, lower, make_node, run, with_onnxruntime

WINDOWS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 9, 11), {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}),
    ((1, 3, 10, 7), {"kernel_shape": (2, 3), "strides": (3, 2), "ceil_mode": 1}),
    ((1, 2, 9, 9), {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (0, 0, 2, 2), "ceil_mode": 1}),
    ((1, 2, 12, 12), {"kernel_shape": (3, 2), "dilations": (2, 3)}),
    ((1, 2, 10, 7), {"kernel_shape": (4, 3), "strides": (3, 2), "auto_pad": "SAME_UPPER"}),
    ((1, 2, 10, 7), {"kernel_shape": (4, 3), "strides": (3, 2), "auto_pad": "SAME_LOWER"}),
    ((2, 4, 17), {"kernel_shape": (3,), "strides": (2,), "pads": (1, 0)}),
    ((1, 2, 5, 6, 7), {"kernel_shape": (2, 3, 3), "pads": (1, 0, 1, 0, 1, 1), "strides": (2, 1, 2)}),
]


def image(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(2).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize(("shape", "attributes"), WINDOWS)
def test_maximum_and_its_position_equal_onnxruntime(
    shape: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    values, where = with_onnxruntime("MaxPool", [image(shape)], outputs=2, **attributes)
    mine, place = run("MaxPool", [image(shape)], outputs=2, **attributes)
    np.testing.assert_array_equal(mine, values)
    np.testing.assert_array_equal(place, where)
    np.testing.assert_array_equal(run("MaxPool", [image(shape)], **attributes)[0], values)


def test_positions_in_column_major_order() -> None:
    attributes: dict[str, Any] = {"kernel_shape": (2, 2), "strides": (2, 2), "storage_order": 1}
    expected = with_onnxruntime("MaxPool", [image((2, 2, 4, 6))], outputs=2, **attributes)[1]
    np.testing.assert_array_equal(run("MaxPool", [image((2, 2, 4, 6))], outputs=2, **attributes)[1], expected)


# onnxruntime counts positions beyond the padding in ceil mode with count_include_pad; there the node cases of
# the ONNX suite decide.
@pytest.mark.parametrize(
    ("shape", "attributes", "include"),
    [
        (shape, attributes, include)
        for shape, attributes in WINDOWS
        for include in (0, 1)
        if not (include and attributes.get("ceil_mode"))
    ],
)
def test_average_equals_onnxruntime(shape: tuple[int, ...], attributes: dict[str, Any], include: int) -> None:
    oracle = with_onnxruntime(
        "AveragePool", [image(shape)], opset=19, count_include_pad=include, **attributes
    )[0]
    assert_near_oracle(run("AveragePool", [image(shape)], count_include_pad=include, **attributes)[0], oracle)


@pytest.mark.parametrize("power", [1, 2, 3])
def test_lp_norm_of_windows(power: int) -> None:
    data = image((1, 2, 8, 8))
    pieces = np.lib.stride_tricks.sliding_window_view(np.abs(data.astype(np.float64)), (3, 3), axis=(2, 3))[
        :, :, ::2, ::2
    ]
    expected = (pieces**power).sum(axis=(-2, -1)) ** (1 / power)
    np.testing.assert_allclose(
        run("LpPool", [data], kernel_shape=(3, 3), strides=(2, 2), p=power)[0], expected, rtol=1e-5
    )


@pytest.mark.parametrize("op", ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
def test_global_pools_equal_onnxruntime(op: str) -> None:
    assert_near_oracle(run(op, [image((2, 3, 5, 7))])[0], with_onnxruntime(op, [image((2, 3, 5, 7))])[0])


def test_average_on_the_device_rounds_once() -> None:
    halves = image((1, 4, 16, 16), np.float16)
    wide = halves.astype(np.float64)
    pieces = np.lib.stride_tricks.sliding_window_view(wide, (5, 5), axis=(2, 3))
    result = run("AveragePool", [halves], kernel_shape=(5, 5))[0]
    assert_device_rounding(result, pieces.mean(axis=(-2, -1)), np.abs(pieces).mean(axis=(-2, -1)), 26)
    assert_device_rounding(
        run("GlobalAveragePool", [halves])[0], wide.mean(axis=(2, 3), keepdims=True), 1.0, 257
    )


def test_bytes_are_pooled_as_bytes() -> None:
    data = np.arange(-8, 8, dtype=np.int8).reshape(1, 1, 4, 4)
    np.testing.assert_array_equal(
        run("MaxPool", [data], kernel_shape=(2, 2), strides=(2, 2))[0].ravel(), [-3, -1, 5, 7]
    )


def test_unknown_dimensions_stay_unknown() -> None:
    assert infer("MaxPool", [("n", 3, None, 8)], kernel_shape=(2, 2), strides=(2, 2)) == [("n", 3, None, 4)]
    assert infer("GlobalAveragePool", [("n", "c", None, 8)]) == [("n", "c", 1, 1)]
    assert infer("AveragePool", [None], kernel_shape=(2, 2)) == [None]


@pytest.mark.parametrize(
    ("op", "shape", "attributes", "message"),
    [
        ("MaxPool", (1, 3, 4, 4), {"kernel_shape": (5, 5)}, "at least 5 along spatial axis 0, not 4"),
        ("MaxPool", (1, 3, 4, 4), {"kernel_shape": (2,)}, "kernel of 2 positive sizes"),
        ("MaxPool", (1, 3, 4, 4), {}, "kernel of 2 positive sizes"),
        ("GlobalMaxPool", (1, 3), {}, "batch, channels, spatial"),
        ("AveragePool", (1, 1, 2, 2, 2, 2), {"kernel_shape": (1, 1, 1, 1)}, "1 to 3 spatial axes, not 4"),
    ],
)
def test_misfits_are_named(op: str, shape: tuple[int, ...], attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        infer(op, [shape], **attributes)


@pytest.mark.parametrize(
    ("sizes", "kernel", "strides", "folds"),
    [
        ((112, 112), (3, 3), (2, 2), [4, 2]),  # 2 lines of the input a line of the result, then 3 lines to 1
        ((14, 14), (3, 3), (1, 1), [2, 2]),
        ((14, 14), (2, 3), (5, 4), [4, 1]),  # windows leave lines out
        ((14, 14), (1, 3), (1, 2), [2, 1]),
        ((20,), (4,), (2,), [3]),
        ((8, 9, 9), (3, 2, 3), (2, 2, 1), [8, 2, 2]),
    ],
)
def test_maxima_are_folded_axis_by_axis(
    sizes: tuple[int, ...], kernel: tuple[int, ...], strides: tuple[int, ...], folds: list[int]
) -> None:
    image = [np.zeros((1, 64, *sizes), np.float16)]
    work = lower("MaxPool", image, kernel_shape=kernel, strides=strides)
    assert isinstance(work, VectorWork)
    assert [(step.op, step.count) for step in work.steps] == [("vmax", count) for count in folds]
    # lines end an instruction where windows are apart
    assert [bool(step.run) for step in work.steps] == [stride > 1 for stride in reversed(strides)]


def test_work_of_a_window_is_one_instruction_a_tap_where_positions_are_kept() -> None:
    image = [np.zeros((1, 64, 112, 112), np.float16)]
    work = lower("MaxPool", image, outputs=2, kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1))
    assert isinstance(work, VectorWork)
    assert work.rows * work.cols == 64 * 56 * 56
    assert [(step.op, step.count) for step in work.steps] == [("vmax", 9), ("vcmpv", 9), ("vsel", 9)]


def test_blocked_maps_pool_rows_of_whole_blocks() -> None:
    node = make_node("GlobalAveragePool", [np.zeros((2, 40, 7, 7), np.float16)])
    node.required(0).format = node.output.format = Format.NC1HWC0
    definition = default_opset().get(node)
    assert definition.lower is not None
    work = definition.lower(node, LowerContext())
    assert isinstance(work, VectorWork)
    assert (work.rows, work.cols, work.reduces) == (49, 2 * 48, "rows")
    node = make_node(
        "AveragePool", [np.zeros((2, 40, 8, 8), np.float16)], kernel_shape=(2, 2), strides=(2, 2)
    )
    node.required(0).format = node.output.format = Format.NC1HWC0
    definition = default_opset().get(node)
    assert definition.lower is not None
    work = definition.lower(node, LowerContext())
    assert isinstance(work, VectorWork)
    assert (work.rows, work.cols) == (2 * 3 * 4, 4 * 16)


def test_strides_end_an_instruction_with_its_output_row() -> None:
    """Without strides a tap is the plane shifted, which one instruction runs over."""
    runs = {}
    for stride in (1, 2):
        node = make_node(
            "MaxPool", [np.zeros((1, 32, 20, 20), np.float16)], kernel_shape=(2, 2), strides=(stride, stride)
        )
        node.required(0).format = node.output.format = Format.NC1HWC0
        definition = default_opset().get(node)
        assert definition.lower is not None
        work = definition.lower(node, LowerContext())
        assert isinstance(work, VectorWork)
        runs[stride] = work.steps[0].run
        soc = load("Ascend910A")
        stage = lower_vector(work, soc, Expansion(soc))
        calls = sum(
            item.calls * times(around) * group.count
            for group in stage.groups
            for item, around in static(group.block.body)
            if isinstance(item, Vector)
        )
        # 2 lines in and 1 line out, for channel blocks x rows
        assert calls >= 3 * 2 * 10 if stride == 2 else calls < 3 * 2 * 10
    assert runs == {1: 0, 2: 10 * 16}


@pytest.mark.parametrize(("outputs", "whole"), [(1, True), (2, False)])
def test_rows_of_windows_run_over_their_end_unless_positions_are_kept(outputs: int, whole: bool) -> None:
    """7 x 16 elements an output row are no whole repeat; a slot then has room for one."""
    node = make_node(
        "MaxPool",
        [np.zeros((1, 64, 14, 14), np.float16)],
        outputs=outputs,
        kernel_shape=(3, 3),
        strides=(2, 2),
        pads=(1, 1, 1, 1),
    )
    node.required(0).format = node.output.format = Format.NC1HWC0
    definition = default_opset().get(node)
    assert definition.lower is not None
    work = definition.lower(node, LowerContext())
    assert isinstance(work, VectorWork)
    soc = load("Ascend310P3")
    for group in lower_vector(work, soc, Expansion(soc)).groups:
        vectors = [
            item for item, _ in static(group.block.body) if isinstance(item, Vector) and item.calls > 1
        ]
        assert vectors
        assert all((item.elements % 128 == 0) == whole for item in vectors)
        slots = [item.slot_bytes for item in group.block.allocations]
        assert not whole or all(size % 256 == 0 for size in slots)


def test_planes_under_windows_are_read_as_a_whole() -> None:
    """Rows of 14 positions are 448 bytes, but follow each other."""
    node = make_node("MaxPool", [np.zeros((1, 64, 14, 14), np.float16)], kernel_shape=(3, 3), strides=(2, 2))
    node.required(0).format = node.output.format = Format.NC1HWC0
    definition = default_opset().get(node)
    assert definition.lower is not None
    soc = load("Ascend310P3")
    work = definition.lower(node, LowerContext())
    assert isinstance(work, VectorWork)
    loads = [
        item
        for group in lower_vector(work, soc, Expansion(soc)).groups
        for item, _ in static(group.block.body)
        if isinstance(item, Move) and item.pipe is Pipe.MTE2
    ]
    assert loads
    assert all(item.bursts == 1 for item in loads)
