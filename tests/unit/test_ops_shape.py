"""Reshape, Flatten, Squeeze, Unsqueeze, Identity, Dropout, Shape, Size."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendsim.core.errors import GraphError
from ascendsim.opset.work import MoveWork, NoTask
from tests.support.single_node import infer, lower, make_node, run, with_onnxruntime

DATA = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize("target", [[4, 6], [-1, 3], [0, -1], [2, 0, 4], [0, 0, 2, 2], [24], [1, -1, 1]])
def test_reshape_as_onnxruntime(target: list[int]) -> None:
    inputs = [DATA, np.array(target, np.int64)]
    np.testing.assert_array_equal(run("Reshape", inputs)[0], with_onnxruntime("Reshape", inputs)[0])


def test_reshape_allowzero_makes_an_empty_tensor() -> None:
    empty = np.zeros((0, 3), np.float32)
    assert run("Reshape", [empty, np.array([3, 0], np.int64)], allowzero=1)[0].shape == (3, 0)


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (("n", 3, 4), [0, -1], ("n", 12)),
        (("n", 3, 4), [-1, 12], ("n", 12)),
        (("n", 3, 4), [-1], (None,)),
        (("n", "m", 4), [0, 0, 2, -1], ("n", "m", 2, 2)),
        ((None, 3), [-1, 3], (None, 3)),
        (None, [2, -1], (2, None)),
        ((2, 3, 4), [6, -1], (6, 4)),
    ],
)
def test_reshape_keeps_what_is_provable(
    source: tuple[object, ...] | None, target: list[int], expected: tuple[object, ...]
) -> None:
    assert infer("Reshape", [source, (len(target),)], {1: target}) == [expected]  # type: ignore[list-item]


def test_reshape_with_unknown_target_knows_its_rank() -> None:
    assert infer("Reshape", [(2, 3), (3,)]) == [(None, None, None)]


@pytest.mark.parametrize(
    ("target", "message"),
    [([5, 5], "24 -> 25"), ([-1, -1], "at most one -1"), ([-1, 7], "cannot fit 24"), ([-2, 4], "sizes")],
)
def test_reshape_refuses(target: list[int], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        run("Reshape", [DATA, np.array(target, np.int64)])


def test_reshape_is_no_task() -> None:
    node = make_node("Reshape", [DATA, np.array([24], np.int64)])
    assert lower("Reshape", [DATA, np.array([24], np.int64)]) == NoTask(((node.output.name, "input0"),))


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_reshape_back_restores(shape: list[int], data: st.DataObject) -> None:
    array = np.arange(math.prod(shape)).reshape(shape)
    axis = data.draw(st.integers(0, len(shape)))
    flat = run("Flatten", [array], axis=axis)[0]
    assert flat.shape == (math.prod(shape[:axis]), math.prod(shape[axis:]))
    np.testing.assert_array_equal(run("Reshape", [flat, np.array(shape, np.int64)])[0], array)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.data())
def test_squeeze_undoes_unsqueeze(shape: list[int], data: st.DataObject) -> None:
    array = np.arange(math.prod(shape)).reshape(shape)
    rank = len(shape) + 2
    axes = np.array(
        data.draw(
            st.lists(st.integers(-rank, rank - 1), min_size=2, max_size=2, unique_by=lambda axis: axis % rank)
        ),
        np.int64,
    )
    grown = run("Unsqueeze", [array, axes])[0]
    np.testing.assert_array_equal(grown, np.expand_dims(array, tuple(axes)))
    np.testing.assert_array_equal(run("Squeeze", [grown, axes])[0], array)


def test_squeeze_of_a_longer_axis_is_refused() -> None:
    with pytest.raises(GraphError, match="size 1"):
        run("Squeeze", [DATA, np.array([1], np.int64)])


def test_squeeze_keeps_symbols() -> None:
    assert infer("Squeeze", [("n", 1, 5), (1,)], {1: [1]}) == [("n", 5)]
    assert infer("Squeeze", [("n", 1, 5)]) == [None]  # n may be 1
    assert infer("Unsqueeze", [("n", 5), (2,)], {1: [0, -1]}) == [(1, "n", 5, 1)]


def test_flatten_keeps_the_batch_symbol() -> None:
    assert infer("Flatten", [("n", 3, 4)]) == [("n", 12)]
    assert infer("Flatten", [None]) == [(None, None)]


def test_dropout_is_the_identity_in_inference() -> None:
    result, mask = run("Dropout", [DATA], outputs=2)
    np.testing.assert_array_equal(result, DATA)
    assert mask.all()
    for outputs in (1, 2):  # a mask that nobody reads is not written
        assert isinstance(lower("Dropout", [DATA], outputs), NoTask)


def test_dropout_in_training_drops_and_scales() -> None:
    result, mask = run(
        "Dropout", [np.ones((64, 64), np.float32), np.float32(0.25), np.bool_(True)], outputs=2, seed=3
    )
    assert 0.7 < mask.mean() < 0.8
    np.testing.assert_allclose(result, mask / 0.75, rtol=1e-6)
    assert isinstance(lower("Dropout", [DATA, np.float32(0.25), np.bool_(True)]), MoveWork)


@pytest.mark.parametrize(
    ("start", "end"), [(0, None), (1, None), (-1, None), (0, -1), (1, 2), (5, None), (2, 1)]
)
def test_shape_slices_as_onnxruntime(start: int, end: int | None) -> None:
    attributes = {"start": start} | ({} if end is None else {"end": end})
    np.testing.assert_array_equal(
        run("Shape", [DATA], **attributes)[0], with_onnxruntime("Shape", [DATA], **attributes)[0]
    )


def test_size_counts() -> None:
    assert run("Size", [DATA])[0] == 24


@pytest.mark.parametrize("start", [-9, -4, -3, -1, 0, 2, 3, 9])
def test_bounds_of_shape_are_clamped_as_by_onnxruntime(start: int) -> None:
    x = np.zeros((2, 3, 4), np.float32)
    for end in (None, -9, -4, -3, -1, 0, 2, 3, 9):
        options = {"start": start} | ({} if end is None else {"end": end})
        (wanted,) = with_onnxruntime("Shape", [x], opset=15, **options)
        (found,) = run("Shape", [x], **options)
        np.testing.assert_array_equal(found, wanted)
