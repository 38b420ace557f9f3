"""NonMaxSuppression, RoiAlign, MaxRoiPool and DeformConv: values against onnxruntime and by definition,
errors, work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascendsim.core.errors import GraphError
from ascendsim.opset.work import AiCpuWork, SequenceWork, VectorWork
from tests.support.rounding import assert_near_oracle
from tests.support.single_node import infer, lower, run, with_onnxruntime


def boxes(count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    corners = rng.uniform(0, 10, (2, count, 2))
    return np.concatenate([corners, corners + rng.uniform(0.5, 4, (2, count, 2))], axis=2).astype(np.float32)


@pytest.mark.parametrize("centre", [0, 1])
@pytest.mark.parametrize(("limit", "overlap", "least"), [(5, 0.5, 0.2), (100, 0.3, None), (3, 0.0, 0.9)])
def test_suppression_equals_onnxruntime(centre: int, limit: int, overlap: float, least: float | None) -> None:
    scores = np.random.default_rng(1).uniform(0, 1, (2, 3, 40)).astype(np.float32)
    inputs: list[Any] = [boxes(40), scores, np.array([limit], np.int64), np.array([overlap], np.float32)]
    if least is not None:
        inputs.append(np.array([least], np.float32))
    mine = run("NonMaxSuppression", inputs, center_point_box=centre)[0]
    np.testing.assert_array_equal(
        mine, with_onnxruntime("NonMaxSuppression", inputs, center_point_box=centre)[0]
    )


def test_no_limit_selects_nothing() -> None:
    assert run("NonMaxSuppression", [boxes(4), np.ones((2, 1, 4), np.float32)])[0].shape == (0, 3)


def test_suppression_runs_on_the_ai_cpu() -> None:
    inputs = [boxes(40), np.ones((2, 3, 40), np.float32), np.array([10], np.int64)]
    work = lower("NonMaxSuppression", inputs)
    assert isinstance(work, AiCpuWork)
    assert work.elements == 2 * 3 * 40


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("transform", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("sampling", [0, 2])
def test_roi_align_equals_onnxruntime(mode: str, transform: str, sampling: int) -> None:
    image = np.random.default_rng(2).standard_normal((2, 3, 10, 12)).astype(np.float32)
    rois = np.array([[1, 1, 15, 14], [0, 3, 9, 20], [-3, -2, 30, 28]], np.float32)
    inputs = [image, rois, np.array([0, 1, 1], np.int64)]
    attributes: dict[str, Any] = {
        "mode": mode,
        "coordinate_transformation_mode": transform,
        "sampling_ratio": sampling,
        "output_height": 3,
        "output_width": 4,
        "spatial_scale": 0.5,
    }
    assert_near_oracle(
        run("RoiAlign", inputs, **attributes)[0], with_onnxruntime("RoiAlign", inputs, **attributes)[0]
    )


def test_max_roi_pool_equals_onnxruntime() -> None:
    image = np.random.default_rng(2).standard_normal((2, 3, 10, 12)).astype(np.float32)
    rois = np.array([[0, 1, 1, 15, 14], [1, 0, 3, 9, 18], [1, 4, 4, 4, 4]], np.float32)
    attributes: dict[str, Any] = {"pooled_shape": (3, 2), "spatial_scale": 0.5}
    mine = run("MaxRoiPool", [image, rois], **attributes)[0]
    np.testing.assert_array_equal(mine, with_onnxruntime("MaxRoiPool", [image, rois], **attributes)[0])


@pytest.mark.parametrize(("groups", "shifts"), [(1, 1), (2, 1), (2, 4)])
def test_deformation_by_whole_positions_is_a_shifted_convolution(groups: int, shifts: int) -> None:
    rng = np.random.default_rng(3)
    image, weight = (
        rng.standard_normal((2, 4, 8, 8)).astype(np.float32),
        rng.standard_normal((6, 4 // groups, 3, 3)).astype(np.float32),
    )
    offset = np.zeros((2, shifts * 18, 6, 6), np.float32)
    plain = run("Conv", [image, weight], group=groups)[0]
    assert_near_oracle(
        run("DeformConv", [image, weight, offset], group=groups, offset_group=shifts)[0], plain
    )
    offset[:, 0::2] = 1  # one row down: the same as a convolution over the image moved up by one row
    moved = np.concatenate([image[:, :, 1:], np.zeros((2, 4, 1, 8), np.float32)], axis=2)
    expected = run("Conv", [moved, weight], group=groups)[0]
    assert_near_oracle(
        run("DeformConv", [image, weight, offset], group=groups, offset_group=shifts)[0], expected
    )


def test_deformation_takes_mask_and_bias() -> None:
    rng = np.random.default_rng(3)
    image, weight = (
        rng.standard_normal((1, 2, 5, 5)).astype(np.float32),
        rng.standard_normal((3, 2, 2, 2)).astype(np.float32),
    )
    bias = np.array([1, 2, 3], np.float32)
    halved = run(
        "DeformConv",
        [image, weight, np.zeros((1, 8, 4, 4), np.float32), bias, np.full((1, 4, 4, 4), 0.5, np.float32)],
    )[0]
    expected = run("Conv", [image, weight / 2, bias])[0]
    assert_near_oracle(halved, expected)


def test_misfits_are_named() -> None:
    with pytest.raises(GraphError, match="a score for every box, not 5 boxes and 6 scores"):
        infer("NonMaxSuppression", [(1, 5, 4), (1, 2, 6)])
    with pytest.raises(GraphError, match="offsets of shape"):
        run(
            "DeformConv",
            [
                np.zeros((1, 1, 4, 4), np.float32),
                np.zeros((1, 1, 3, 3), np.float32),
                np.zeros((1, 4, 2, 2), np.float32),
            ],
        )
    with pytest.raises(GraphError, match="batch indices from 0 to 0"):
        run(
            "RoiAlign",
            [np.zeros((1, 1, 4, 4), np.float32), np.zeros((1, 4), np.float32), np.array([3], np.int64)],
        )


def test_work_gathers_on_the_vector_unit() -> None:
    image = np.zeros((1, 8, 16, 16), np.float16)
    aligned = lower(
        "RoiAlign",
        [image, np.zeros((4, 4), np.float16), np.zeros(4, np.int64)],
        output_height=7,
        output_width=7,
    )
    assert isinstance(aligned, VectorWork)
    assert aligned.rows * aligned.cols == 4 * 8 * 49
    deformed = lower(
        "DeformConv", [image, np.zeros((8, 8, 3, 3), np.float16), np.zeros((1, 18, 14, 14), np.float16)]
    )
    assert isinstance(deformed, SequenceWork)
    assert len(deformed.parts) == 2


@pytest.mark.parametrize(
    ("op_type", "shapes", "message"),
    [
        ("RoiAlign", [(1, 2, 5, 5), (6, 4), (3,)], "needs an image number for every region.*3 for 6"),
        ("RoiAlign", [(1, 2, 5, 5), (3, 5), (3,)], "needs 4 numbers a region"),
        ("RoiAlign", [(1, 2, 5, 5), (3, 4), (3, 1)], "needs a vector of image numbers"),
        ("MaxRoiPool", [(1, 2, 5, 5), (3, 4)], "needs 5 numbers a region"),
    ],
)
def test_regions_that_do_not_fit_are_refused(
    op_type: str, shapes: list[tuple[int, ...]], message: str
) -> None:
    with pytest.raises(GraphError, match=message):
        infer(op_type, shapes, pooled_shape=(2, 2))
    known = [(1, 2, 5, 5), ("n", 5 if op_type == "MaxRoiPool" else 4), *[("m",)] * (len(shapes) - 2)]
    assert infer(op_type, known, pooled_shape=(2, 2)) == [("n", 2, 2, 2)]
