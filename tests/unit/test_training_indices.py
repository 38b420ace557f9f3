"""Sums by index, gradients of slices and padding: NumPy written element by element, and what they undo."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascendsim.core.errors import GraphError
from ascendsim.opset.work import MoveWork, ScalarWork, SequenceWork, VectorWork
from tests.support.operator_cases import work_of
from tests.support.single_node import infer, make_node, run

Array = Any
RANDOM = np.random.default_rng(17)


@pytest.mark.parametrize("padding", [-1, 3])
@pytest.mark.parametrize("by_frequency", [0, 1])
def test_rows_of_one_word_are_added(padding: int, by_frequency: int) -> None:
    grad, words = RANDOM.standard_normal((3, 4, 5)), RANDOM.integers(0, 6, (3, 4))
    words[0, 0] = 3
    wanted = np.zeros((7, 5))
    for place in np.ndindex(words.shape):
        share = np.sum(words == words[place]) if by_frequency else 1
        if words[place] != padding:
            wanted[words[place]] += grad[place] / share
    more = {"num_weights": 7, "padding_idx": padding, "scale_grad_by_freq": by_frequency}
    np.testing.assert_allclose(run("EmbeddingDenseGrad", [grad, words], 1, "ascend", **more)[0], wanted)


def test_sums_of_float16_are_float32_inside() -> None:
    """2048 and a thousand ones: in float16 every single addition would be lost."""
    grad = np.ones((1001, 1), np.float16)
    grad[0] = 2048
    (found,) = run("EmbeddingDenseGrad", [grad, np.zeros(1001, np.int64)], 1, "ascend", num_weights=1)
    assert found.dtype == np.float16
    assert found.item() == np.float16(3048)


def test_words_that_are_not_in_the_table_are_refused() -> None:
    with pytest.raises(GraphError, match=r"needs indices in \[0, 4\), not 4"):
        run("EmbeddingDenseGrad", [np.ones((2, 3)), np.array([0, 4])], 1, "ascend", num_weights=4)
    with pytest.raises(GraphError, match="needs the attribute num_weights"):
        infer("EmbeddingDenseGrad", [(2, 3), None], constants={1: [0, 1]}, domain="ascend")


def test_segments_are_added_and_negative_ids_dropped() -> None:
    data, ids = RANDOM.standard_normal((2, 3, 4)), np.array([[2, -1, 0], [2, 2, 0]], np.int32)
    (found,) = run("UnsortedSegmentSum", [data, ids, np.array(4)], 1, "ascend")
    wanted = np.stack([data[ids == segment].sum(axis=0) for segment in range(4)])
    np.testing.assert_allclose(found, wanted)
    none = np.zeros((0, 4))
    (found,) = run("UnsortedSegmentSum", [none, np.zeros(0, np.int32), np.array(3)], 1, "ascend")
    np.testing.assert_array_equal(found, np.zeros((3, 4)))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_index_add_adds_at_indices(axis: int) -> None:
    data, indices = RANDOM.standard_normal((4, 5, 6)), np.array([3, 1, 3])
    shape = [4, 5, 6]
    shape[axis] = 3
    updates, alpha = RANDOM.standard_normal(shape), np.float64(0.5)
    wanted = data.copy()
    rows, new = np.moveaxis(wanted, axis, 0), np.moveaxis(updates, axis, 0)
    for number, place in enumerate(indices):
        rows[place] += 0.5 * new[number]
    (found,) = run("InplaceIndexAdd", [data, indices, updates, alpha], 1, "ascend", axis=axis)
    np.testing.assert_allclose(found, wanted)


def test_shapes_of_sums() -> None:
    unknown = make_node(
        "UnsortedSegmentSum",
        [np.ones((2, 3, 4)), np.zeros((2, 3), np.int32), np.array(5)],
        1,
        "ascend",
        known=False,
    )
    assert unknown.output.shape == (None, 4)
    with pytest.raises(GraphError, match="needs ids of a shape that"):
        make_node("UnsortedSegmentSum", [np.ones((2, 3)), np.zeros(3, np.int32), np.array(5)], 1, "ascend")
    with pytest.raises(GraphError, match="needs indices of int32 or int64, not float32"):
        infer("InplaceIndexAdd", [(2, 3), (2,), (2, 3)], domain="ascend", axis=0)


def test_rows_are_added_by_the_dma_and_shorter_pieces_by_the_scalar_unit() -> None:
    words = np.zeros(9, np.int64)
    rows = work_of(
        make_node("EmbeddingDenseGrad", [np.ones((9, 16), np.float32), words], 1, "ascend", num_weights=50),
        "Ascend910B1",
    )
    assert isinstance(rows, SequenceWork)
    clear, add = rows.parts
    assert isinstance(clear, VectorWork)
    assert clear.rows * clear.cols == 50 * 16
    assert isinstance(add, MoveWork)
    assert [(copy.bytes, copy.read_burst, copy.write_burst) for copy in add.copies] == [(9 * 64, 64, 64)]
    assert add.scalar_per_burst > 0
    short = work_of(
        make_node("EmbeddingDenseGrad", [np.ones((9, 4), np.float32), words], 1, "ascend", num_weights=50),
        "Ascend910B1",
    )
    assert isinstance(short, SequenceWork)
    assert isinstance(short.parts[1], ScalarWork)
    assert short.parts[1].elements == 36


# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("begin", "end", "strides", "masks", "taken"),
    [
        ((0, 1, 2), (2, 4, 7), (1, 1, 2), {}, np.s_[0:2, 1:4, 2:7:2]),
        ((1, 4, 6), (0, -5, 0), (-1, -2, -3), {}, np.s_[1:0:-1, 4:-5:-2, 6:0:-3]),
        ((9, 9, 9), (2, 3, 9), (1, 1, 1), {"begin_mask": 7, "end_mask": 4}, np.s_[:2, :3, :]),
        ((1, 0, -2), (2, 5, 0), (1, 1, 1), {"shrink_axis_mask": 5}, np.s_[1, 0:5, -2]),
        ((0, 0, 1), (0, 0, 3), (1, 1, 1), {"ellipsis_mask": 1, "new_axis_mask": 2}, np.s_[..., None, 1:3]),
        ((1,), (2,), (1,), {}, np.s_[1:2]),
    ],
)
def test_slice_grad_puts_the_gradient_where_the_slice_was(
    begin: Any, end: Any, strides: Any, masks: dict[str, int], taken: Any
) -> None:
    wanted = np.zeros((2, 5, 7), np.float32)
    dy = RANDOM.standard_normal(wanted[taken].shape).astype(np.float32)
    wanted[taken] = dy
    given = [np.array(part) for part in ((2, 5, 7), begin, end, strides)]
    (found,) = run("StridedSliceGrad", [*given, dy], 1, "ascend", **masks)
    np.testing.assert_array_equal(found, wanted)


def test_slices_that_cannot_be_are_refused() -> None:
    def infer_slice(dy: tuple[int, ...], *parts: Any) -> Any:
        shapes = [(len(part),) for part in parts]
        return infer("StridedSliceGrad", [*shapes, dy], dict(enumerate(parts)), domain="ascend")

    assert infer_slice((1, 3), (2, 3), (0, 0), (1, 3), (1, 1)) == [(2, 3)]
    with pytest.raises(GraphError, match="needs input 4 of shape"):
        infer_slice((2, 3), (2, 3), (0, 0), (1, 3), (1, 1))
    with pytest.raises(GraphError, match="strides other than 0"):
        infer_slice((1, 3), (2, 3), (0, 0), (1, 3), (1, 0))
    with pytest.raises(GraphError, match="needs as many begins"):
        infer_slice((1, 3), (2, 3), (0, 0), (1,), (1, 1))
    with pytest.raises(GraphError, match="needs a slice of"):
        infer_slice((1, 3), (2, 3), (0, 0, 0), (1, 3, 1), (1, 1, 1))
    assert infer("StridedSliceGrad", [(3,), (3,), (3,), (3,), None], domain="ascend") == [(None, None, None)]


@pytest.mark.parametrize(("mode", "numpy"), [("reflect", "reflect"), ("edge", "edge")])
def test_pad_grad_is_the_transpose_of_padding(mode: str, numpy: Any) -> None:
    """<pad(x), dy> = <x, grad(dy)> for every x and dy."""
    pads = ((0, 0), (2, 1), (0, 3))
    x = RANDOM.standard_normal((2, 5, 6))
    padded = np.pad(x, pads, mode=numpy)
    dy = RANDOM.standard_normal(padded.shape)
    for flat, contiguous in ((np.ravel(pads), 1), (np.ravel(np.transpose(pads)), 0)):
        (found,) = run("PadV3Grad", [dy, flat], 1, "ascend", mode=mode, paddings_contiguous=contiguous)
        assert found.shape == x.shape
        np.testing.assert_allclose(np.sum(padded * dy), np.sum(x * found))


def test_paddings_that_cannot_be_are_refused() -> None:
    def infer_pad(shape: Any, pads: Any, **more: Any) -> Any:
        return infer("PadV3Grad", [shape, (len(pads),)], {1: pads}, domain="ascend", **more)

    assert infer_pad(("n", 9), (0, 0, 2, 3)) == [("n", 4)]
    with pytest.raises(GraphError, match="needs paddings that the axes can have"):
        infer_pad((2, 9), (0, 0, 3, 3))
    with pytest.raises(GraphError, match="needs 4 paddings"):
        infer_pad((2, 9), (0, 0, 1))
    with pytest.raises(GraphError, match="needs a mode out of reflect, edge"):
        infer_pad((2, 9), (0, 0, 1, 1), mode="constant")
