"""Resize and GridSample: values against onnxruntime, shape rules, errors, work descriptions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascendsim.core.errors import GraphError
from ascendsim.ops import default_opset
from ascendsim.opset.work import AiCpuWork, MoveWork, ScalarWork, VectorWork
from tests.support.gate import in_one
from tests.support.rounding import assert_near_oracle
from tests.support.single_node import infer, lower, make_node, run, with_onnxruntime

TRANSFORMS = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"]


def image(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(4).standard_normal(shape).astype(dtype)


def scales(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def sizes(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@in_one("mode", ["nearest", "linear", "cubic"])
@in_one("transform", TRANSFORMS)
@in_one("target", [(1, 2, 14, 10), (1, 2, 3, 4), (1, 2, 7, 11)])
def test_sizes_equal_onnxruntime(mode: str, transform: str, target: tuple[int, ...]) -> None:
    inputs = [image(1, 2, 7, 5), None, None, sizes(*target)]
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": transform}
    if mode == "nearest":
        attributes["nearest_mode"] = "floor"
    oracle = with_onnxruntime("Resize", inputs, opset=19, **attributes)[0]
    assert_near_oracle(run("Resize", inputs, **attributes)[0], oracle)


@pytest.mark.parametrize("nearest_mode", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_nearest_modes_equal_onnxruntime(nearest_mode: str) -> None:
    inputs = [image(1, 1, 4, 4), None, scales(1, 1, 2, 1.75)]
    attributes: dict[str, Any] = {
        "mode": "nearest",
        "nearest_mode": nearest_mode,
        "coordinate_transformation_mode": "asymmetric",
    }
    np.testing.assert_array_equal(
        run("Resize", inputs, **attributes)[0], with_onnxruntime("Resize", inputs, **attributes)[0]
    )


@pytest.mark.parametrize(
    ("mode", "attributes"),
    [
        ("linear", {"antialias": 1}),
        ("cubic", {"antialias": 1}),
        ("cubic", {"exclude_outside": 1, "cubic_coeff_a": -0.5}),
    ],
)
def test_shrinking_equals_onnxruntime(mode: str, attributes: dict[str, Any]) -> None:
    inputs = [image(1, 2, 12, 15), None, scales(1, 1, 0.5, 0.6)]
    assert_near_oracle(
        run("Resize", inputs, mode=mode, **attributes)[0],
        with_onnxruntime("Resize", inputs, mode=mode, **attributes)[0],
    )


def test_crop_and_resize_fills_what_lies_outside() -> None:
    roi = np.array([0, 0, -0.2, 0.3, 1, 1, 0.7, 1.2], np.float32)
    inputs = [image(1, 1, 6, 6), roi, None, sizes(1, 1, 5, 4)]
    attributes: dict[str, Any] = {
        "mode": "linear",
        "coordinate_transformation_mode": "tf_crop_and_resize",
        "extrapolation_value": 9.0,
    }
    mine = run("Resize", inputs, **attributes)[0]
    assert_near_oracle(mine, with_onnxruntime("Resize", inputs, **attributes)[0])
    assert (mine == 9.0).any()


def test_axes_and_aspect_ratio() -> None:
    data = image(1, 2, 6, 9)
    chosen = run("Resize", [data, None, None, sizes(18, 12)], axes=(3, 2), mode="linear")[0]
    np.testing.assert_array_equal(
        chosen, run("Resize", [data, None, None, sizes(1, 2, 12, 18)], mode="linear")[0]
    )
    kept = infer(
        "Resize",
        [(1, 2, 6, 9), None, None, None],
        {3: [12, 12]},
        axes=(2, 3),
        keep_aspect_ratio_policy="not_larger",
    )
    assert kept == [(1, 2, 8, 12)]


def test_the_device_interpolates_in_float32_and_rounds_once() -> None:
    halves = image(1, 3, 8, 8, dtype=np.float16)
    exact = run("Resize", [halves.astype(np.float64), None, scales(1, 1, 2, 2)], mode="linear")[0]
    result = run("Resize", [halves, None, scales(1, 1, 2, 2)], mode="linear")[0]
    rounded = exact.astype(np.float16)
    assert (np.abs(result.astype(np.float64) - rounded) <= np.spacing(np.abs(rounded)) + 1e-6).all()


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_grid_sample_equals_onnxruntime(mode: str, padding: str, corners: int) -> None:
    grid = np.random.default_rng(6).uniform(-1.6, 1.6, (2, 5, 4, 2)).astype(np.float32)
    inputs = [image(2, 3, 6, 7), grid]
    attributes: dict[str, Any] = {"mode": mode, "padding_mode": padding, "align_corners": corners}
    assert_near_oracle(
        run("GridSample", inputs, **attributes)[0],
        with_onnxruntime("GridSample", inputs, opset=20, **attributes)[0],
    )


def test_unknown_dimensions_stay_unknown() -> None:
    assert infer("Resize", [("n", 3, None, 8), None, None, None], {3: [1, 3, 16, 16]}) == [(1, 3, 16, 16)]
    assert infer("GridSample", [("n", 3, 8, 8), ("n", "h", 5, 2)]) == [("n", 3, "h", 5)]


@pytest.mark.parametrize(
    ("inputs", "attributes", "message"),
    [
        ([image(1, 1, 4, 4), None, None, sizes(1, 1, 8)], {}, "needs 4 scales or sizes, not 3"),
        ([image(1, 1, 4, 4), None, scales(1, 1, 0, 2)], {}, "positive scales"),
        (
            [image(1, 1, 4, 4), None, scales(1, 1, 2, 2), sizes(1, 1, 8, 8)],
            {},
            "exactly one of scales and sizes, not both",
        ),
        (
            [image(1, 1, 4, 4), None, scales(1, 1, 2, 2)],
            {"coordinate_transformation_mode": "magic"},
            "coordinate_transformation_mode out of",
        ),
        ([image(1, 1, 4, 4), None, scales(1, 1, 2, 2)], {"axes": (7,)}, r"\[-4, 4\)"),
    ],
)
def test_misfits_are_named(inputs: list[Any], attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        run("Resize", inputs, **attributes)


def half(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float16)


def test_nearest_moves_and_linear_computes() -> None:
    moved = lower("Resize", [half(1, 16, 13, 13), None, scales(1, 1, 2, 2)], mode="nearest")
    assert isinstance(moved, MoveWork)
    assert moved.copies[0].bytes == 16 * 26 * 26 * 2
    computed = lower("Resize", [half(1, 16, 13, 13), None, scales(1, 1, 2, 2)], mode="linear")
    assert isinstance(computed, VectorWork)
    assert computed.rows * computed.cols == 16 * 26 * 26


def test_aligned_corners_have_a_vector_form_only_for_whole_ratios() -> None:
    """The Interp rule of the tuning guide: 175 -> 350 is scalar work, 176 -> 351 is vector work."""
    attributes: dict[str, Any] = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    slow = lower("Resize", [half(1, 18, 175, 175), None, None, sizes(1, 18, 350, 350)], **attributes)
    fast = lower("Resize", [half(1, 18, 176, 176), None, None, sizes(1, 18, 351, 351)], **attributes)
    assert isinstance(slow, ScalarWork)
    assert slow.elements == 2 * 350 * 350  # two blocks of 16 channels
    assert isinstance(fast, VectorWork)


def test_operator_types_follow_the_mode() -> None:
    node = make_node("Resize", [half(1, 1, 4, 4), None, scales(1, 1, 2, 2)], mode="linear")
    assert default_opset().cann_type(node) == "ResizeBilinearV2"


@pytest.mark.parametrize(
    ("mode", "shape", "reads"),
    [("nearest", (1, 2, 8, 8), 1), ("linear", (1, 2, 8, 8), 4), ("cubic", (1, 2, 8, 8), 16),
     ("nearest", (1, 2, 4, 4, 4), 1), ("linear", (1, 2, 4, 4, 4), 8)],
)  # fmt: skip
def test_a_sample_asks_for_all_of_its_neighbours(mode: str, shape: tuple[int, ...], reads: int) -> None:
    """On the AI CPU, which takes float64, an operation a value that is weighed."""
    grid = np.zeros((1, *shape[2:], len(shape) - 2))
    work = lower("GridSample", [np.zeros(shape), grid], mode=mode)
    assert isinstance(work, AiCpuWork)
    assert work.operations == reads
