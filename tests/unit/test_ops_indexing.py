"""Gather and Scatter families: values against numpy and onnxruntime, shape rules, work."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendsim.core.errors import GraphError
from ascendsim.opset.work import AiCpuWork, MoveWork, ScalarWork, SequenceWork, VectorWork, WorkChoice
from tests.support.single_node import infer, lower, run, with_onnxruntime

RANDOM = np.random.default_rng(7)
DATA = RANDOM.standard_normal((4, 5, 6)).astype(np.float32)


@given(st.integers(-3, 2), st.lists(st.integers(-4, 3), min_size=1, max_size=5))
def test_gather_as_numpy(axis: int, indices: list[int]) -> None:
    np.testing.assert_array_equal(
        run("Gather", [DATA, np.array([indices])], axis=axis)[0], np.take(DATA, [indices], axis)
    )


def test_gather_of_a_scalar_index_drops_the_axis() -> None:
    assert run("Gather", [DATA, np.array(2)], axis=1)[0].shape == (4, 6)
    assert infer("Gather", [("n", 5, 6), ("s", 2)], axis=1) == [("n", "s", 2, 6)]


@pytest.mark.parametrize("op", ["Gather", "GatherElements"])
def test_indices_outside_are_refused(op: str) -> None:
    with pytest.raises(GraphError, match=r"indices in \[-4, 4\), not 4"):
        run(op, [DATA, np.full((1, 1, 1), 4)], axis=0)


def test_embedding_rows_are_bursts_with_a_scalar_address_each() -> None:
    table, tokens = np.zeros((1000, 128), np.float16), np.zeros((2, 64), np.int64)
    work = lower("Gather", [table, tokens])
    assert isinstance(work, MoveWork)
    (copy,) = work.copies
    assert (copy.bytes, copy.read_burst, copy.write_burst) == (128 * 128 * 2, 256, 128 * 128 * 2)
    assert work.scalar_per_burst > 0
    assert [ref.region for ref in work.extra_inputs] == ["input1"]


def test_single_elements_take_vgather_or_the_scalar_unit() -> None:
    inputs = [np.zeros((16, 16), np.float16), np.zeros((16, 4), np.int64)]
    last = lower("GatherElements", inputs, generation="c220", axis=1)
    assert isinstance(last, WorkChoice)
    assert [type(way) for way in last.ways] == [ScalarWork, AiCpuWork]
    first = lower("GatherElements", inputs, generation="c220", axis=0)
    assert isinstance(first, WorkChoice)
    turned = first.ways[0]
    assert isinstance(turned, SequenceWork)
    assert [type(part) for part in turned.parts] == [MoveWork, MoveWork, VectorWork, MoveWork]
    gather = turned.parts[2]
    assert isinstance(gather, VectorWork)
    assert [step.op for step in gather.steps] == ["vconv", "vmuls", "vgather"]
    old = lower("GatherElements", inputs, axis=0)
    assert isinstance(old, WorkChoice)
    assert isinstance(old.ways[0], SequenceWork)
    assert isinstance(old.ways[0].parts[2], ScalarWork)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_elements_as_onnxruntime(axis: int) -> None:
    indices = RANDOM.integers(-4, 4, (3, 4, 5))
    inputs = [DATA, indices]
    np.testing.assert_array_equal(
        run("GatherElements", inputs, axis=axis)[0], with_onnxruntime("GatherElements", inputs, axis=axis)[0]
    )


@pytest.mark.parametrize(("batch", "shape"), [(0, (2, 3, 2)), (1, (4, 3, 1)), (2, (4, 5, 2, 1)), (0, (7, 3))])
def test_gather_nd_as_onnxruntime(batch: int, shape: tuple[int, ...]) -> None:
    inputs = [DATA, RANDOM.integers(-4, 4, shape)]
    expected = with_onnxruntime("GatherND", inputs, batch_dims=batch)[0]
    np.testing.assert_array_equal(run("GatherND", inputs, batch_dims=batch)[0], expected)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scatter_elements_as_onnxruntime(reduction: str) -> None:
    indices = np.stack([RANDOM.permutation(5)[:3] for _ in range(24)]).reshape(4, 6, 3).transpose(0, 2, 1)
    inputs = [DATA, indices, RANDOM.standard_normal(indices.shape).astype(np.float32)]
    expected = with_onnxruntime("ScatterElements", inputs, axis=1, reduction=reduction)[0]
    np.testing.assert_array_equal(run("ScatterElements", inputs, axis=1, reduction=reduction)[0], expected)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scatter_nd_as_onnxruntime(reduction: str) -> None:
    inputs = [DATA, np.array([[0, 1], [3, 4], [2, 0]]), RANDOM.standard_normal((3, 6)).astype(np.float32)]
    expected = with_onnxruntime("ScatterND", inputs, reduction=reduction)[0]
    np.testing.assert_array_equal(run("ScatterND", inputs, reduction=reduction)[0], expected)


def test_scatter_adds_halves_in_float32_and_rounds_once() -> None:
    data, many = np.array([2048], np.float16), np.ones(8, np.float16)
    result = run("ScatterElements", [data, np.zeros(8, np.int64), many], reduction="add")[0]
    assert result.tolist() == [2056]  # in float16 steps each sum would fall back to 2048


@given(st.permutations(range(4)))
def test_scatter_undoes_gather(order: list[int]) -> None:
    indices = np.array(order)
    rows = run("Gather", [DATA, indices])[0]
    np.testing.assert_array_equal(run("ScatterND", [np.zeros_like(DATA), indices[:, None], rows])[0], DATA)


def test_scatter_copies_then_writes() -> None:
    rows = [np.zeros((64, 128), np.float16), np.zeros((4, 1), np.int64), np.zeros((4, 128), np.float16)]
    work = lower("ScatterND", rows)
    assert isinstance(work, SequenceWork)
    copying, writing = work.parts
    assert isinstance(copying, MoveWork)
    assert isinstance(writing, MoveWork)
    assert copying.copies[0].bytes == 64 * 256
    assert (writing.copies[0].bytes, writing.copies[0].write_burst) == (4 * 256, 256)


def test_unknown_reduction_is_refused() -> None:
    with pytest.raises(GraphError, match="reduction"):
        run("ScatterND", [DATA, np.array([[0]]), DATA[:1]], reduction="xor")


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_compress_as_numpy(axis: int | None) -> None:
    condition = np.array([True, False, True])
    attributes = {} if axis is None else {"axis": axis}
    np.testing.assert_array_equal(
        run("Compress", [DATA, condition], **attributes)[0], np.compress(condition, DATA, axis)
    )


def test_circular_cache_wraps() -> None:
    cache, update = np.zeros((1, 1, 4, 1), np.float32), np.array([1, 2, 3], np.float32).reshape(1, 1, 3, 1)
    result = run("TensorScatter", [cache, update, np.array([2])], mode="circular")[0]
    assert result.reshape(-1).tolist() == [3, 0, 1, 2]
    with pytest.raises(GraphError, match="indices"):
        run("TensorScatter", [cache, update, np.array([2])])
