"""TopK, ArgMax, ArgMin, NonZero, Unique and the rearranging operators, against numpy and onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendsim.core.errors import GraphError
from ascendsim.opset.work import AiCpuWork, MoveWork, VectorWork
from tests.support.single_node import infer, lower, run, with_onnxruntime

RANDOM = np.random.default_rng(11)
DATA = RANDOM.standard_normal((4, 5, 6)).astype(np.float32)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("largest", [0, 1])
def test_topk_as_onnxruntime(axis: int, largest: int) -> None:
    inputs = [DATA, np.array([3])]
    expected = with_onnxruntime("TopK", inputs, 2, axis=axis, largest=largest)
    for ours, theirs in zip(run("TopK", inputs, 2, axis=axis, largest=largest), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.booleans())
def test_topk_prefers_lower_indices_among_equals(values: list[int], largest: bool) -> None:
    sign = -1 if largest else 1
    expected = sorted(range(len(values)), key=lambda index: (sign * values[index], index))
    _, indices = run("TopK", [np.array(values, np.float16), np.array([len(values)])], 2, largest=int(largest))
    assert indices.tolist() == expected


def test_topk_shapes_and_bounds() -> None:
    assert infer("TopK", [("n", 100), (1,)], {1: [5]}, outputs=2) == [("n", 5), ("n", 5)]
    assert infer("TopK", [("n", 100), (1,)], outputs=2) == [("n", None), ("n", None)]
    with pytest.raises(GraphError, match="K between 0 and 6"):
        run("TopK", [DATA, np.array([7])], 2)


def test_topk_uses_sort_instructions_where_there_are_some() -> None:
    halves = [np.zeros((2, 1000), np.float16), np.array([5])]
    work = lower("TopK", halves, 2)
    assert isinstance(work, VectorWork)
    assert [step.op for step in work.steps] == ["vadds", "vbitsort", "vmrgsort4"]
    # 32 runs of 32; of four that are merged 32 elements go on: 1024, 256 and 64 elements, with their indices
    assert work.steps[2].count == 3
    everything = lower("TopK", [halves[0], np.array([1000])], 2)
    assert isinstance(everything, VectorWork)
    assert everything.steps[2].count == 7  # 1024 elements three times
    assert {step.run for step in work.steps} == {1000}  # row by row
    assert isinstance(lower("TopK", [halves[0].astype(np.int64), halves[1]], 2), AiCpuWork)


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize(("keep", "last"), [(0, 0), (1, 1)])
@pytest.mark.parametrize("axis", [0, -1])
def test_arg_search_as_onnxruntime(op: str, keep: int, last: int, axis: int) -> None:
    data = RANDOM.integers(0, 3, (4, 5, 6)).astype(np.float32)  # many ties
    attributes = {"axis": axis, "keepdims": keep, "select_last_index": last}
    np.testing.assert_array_equal(
        run(op, [data], **attributes)[0], with_onnxruntime(op, [data], **attributes)[0]
    )


def test_argmax_shapes_and_work() -> None:
    assert infer("ArgMax", [("n", 10)], axis=1, keepdims=0) == [("n",)]
    along = lower("ArgMax", [np.zeros((32, 1000), np.float16)], axis=1)
    assert isinstance(along, VectorWork)
    assert (along.rows, along.cols, along.reduces) == (32, 1000, "cols")
    across = lower("ArgMax", [np.zeros((32, 1000), np.float16)], axis=0)
    assert isinstance(across, VectorWork)
    assert (across.rows, across.cols, across.reduces) == (32, 1000, "rows")
    assert isinstance(lower("ArgMax", [np.zeros((4, 4), np.float64)]), AiCpuWork)


def test_nonzero_as_numpy() -> None:
    data = RANDOM.integers(0, 2, (3, 4))
    np.testing.assert_array_equal(run("NonZero", [data])[0], np.stack(np.nonzero(data)))
    assert run("NonZero", [np.float32(2)])[0].tolist() == [[0]]
    assert infer("NonZero", [("n", 3)]) == [(2, None)]


@pytest.mark.parametrize("in_order", [0, 1])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_unique_as_onnxruntime(in_order: int, axis: int | None) -> None:
    data = RANDOM.integers(0, 2, (4, 3)).astype(np.float32)
    attributes = {"sorted": in_order} | ({} if axis is None else {"axis": axis})
    for ours, theirs in zip(
        run("Unique", [data], 4, **attributes),
        with_onnxruntime("Unique", [data], 4, **attributes),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)


@given(st.integers(1, 3), st.sampled_from(["DCR", "CRD"]), st.integers(1, 3))
def test_space_to_depth_undoes_depth_to_space(block: int, mode: str, depth: int) -> None:
    data = np.arange(2 * depth * block**2 * 6).reshape(2, depth * block**2, 2, 3)
    wide = run("DepthToSpace", [data], blocksize=block, mode=mode)[0]
    assert wide.shape == (2, depth, 2 * block, 3 * block)
    np.testing.assert_array_equal(run("SpaceToDepth", [wide], blocksize=block, mode=mode)[0], data)


def test_depth_to_space_as_onnxruntime_and_its_shapes() -> None:
    data = RANDOM.standard_normal((1, 8, 3, 2)).astype(np.float32)
    for mode in ("DCR", "CRD"):
        expected = with_onnxruntime("DepthToSpace", [data], blocksize=2, mode=mode)[0]
        np.testing.assert_array_equal(run("DepthToSpace", [data], blocksize=2, mode=mode)[0], expected)
    assert infer("DepthToSpace", [("n", 16, 4, None)], blocksize=2) == [("n", 4, 8, None)]
    with pytest.raises(GraphError, match="multiples of 4"):
        infer("DepthToSpace", [(1, 6, 2, 2)], blocksize=2)
    assert isinstance(lower("DepthToSpace", [data.astype(np.float16)], blocksize=2), MoveWork)


@pytest.mark.parametrize("batch", [0, 1])
def test_reverse_sequence_as_onnxruntime(batch: int) -> None:
    data = RANDOM.standard_normal((4, 4, 3)).astype(np.float32)
    inputs, attributes = [data, np.array([1, 4, 2, 3])], {"batch_axis": batch, "time_axis": 1 - batch}
    np.testing.assert_array_equal(
        run("ReverseSequence", inputs, **attributes)[0],
        with_onnxruntime("ReverseSequence", inputs, **attributes)[0],
    )


@given(st.integers(-5, 5), st.booleans())
def test_trilu_as_numpy(diagonal: int, upper: bool) -> None:
    expected = (np.triu if upper else np.tril)(DATA, diagonal)
    np.testing.assert_array_equal(run("Trilu", [DATA, np.array(diagonal)], upper=int(upper))[0], expected)


def test_col2im_as_onnxruntime() -> None:
    columns = RANDOM.standard_normal((2, 3 * 4, 12)).astype(np.float32)
    inputs = [columns, np.array([5, 7]), np.array([2, 2])]
    attributes = {"strides": (2, 2), "pads": (0, 1, 1, 0), "dilations": (1, 1)}
    np.testing.assert_allclose(
        run("Col2Im", inputs, **attributes)[0], with_onnxruntime("Col2Im", inputs, **attributes)[0], rtol=1e-6
    )
