"""Groups of nodes in bounded memory: the same bits as whole, what is cut and what is not, and bytes."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Graph, Tensor
from ascendsim.ops import default_opset
from ascendsim.ops.fused import bounded
from ascendsim.ops.fused.bounded import ROOM, run_bounded
from ascendsim.ops.fused.slices import Slicing
from ascendsim.ops.fused.values import run_chain
from tests.support.akg import random_inputs
from tests.support.gate import every
from tests.support.random_composites import FAMILIES, random_composite

OPSET = default_opset()


def dtype_of(tensor: Tensor) -> np.dtype:
    return tensor.element_type.numpy


def builder(dtype: DType = DType.FLOAT32) -> asim.GraphBuilder:
    return asim.GraphBuilder(dtype=dtype)


def arrays_of(graph: Graph, seed: int = 0) -> dict[Tensor, Array]:
    generator = np.random.default_rng(seed)
    arrays = {t: generator.normal(0, 2, t.static_shape).astype(dtype_of(t)) for t in graph.inputs}
    return arrays | {t: t.constant.array() for t in graph.constants if t.constant is not None}


def same_bits(graph: Graph, arrays: dict[Tensor, Array], room: int) -> None:
    nodes = graph.topological()
    kept = {tensor: array.copy() for tensor, array in arrays.items()}
    whole = run_chain(nodes, arrays, OPSET, dtype_of, graph.outputs)
    parts = run_bounded(nodes, arrays, OPSET, dtype_of, graph.outputs, room=room)
    for tensor, expected in whole.items():
        assert parts[tensor].dtype == expected.dtype
        assert parts[tensor].shape == expected.shape
        assert parts[tensor].tobytes() == expected.tobytes(), tensor
    for tensor, array in arrays.items():
        assert np.array_equal(array, kept[tensor], equal_nan=True)


def cuts(graph: Graph, room: int) -> list[tuple[list[str], list[int]]]:
    """Of every stage: operators, and the sizes of the slices in parts; one part where it is not cut."""
    slicing = Slicing(graph.topological(), OPSET, dtype_of, room)
    found = []
    for stage in slicing.stages:
        cut = slicing.cut(stage)
        sizes = [1] if cut is None else np.diff(cut.bounds).tolist()
        found.append(([node.op_type for node in stage.nodes], sizes))
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_slices_have_the_bits_of_the_whole(family: str) -> None:
    cut = 0
    for seed in range(6):
        record = random_composite(family, seed, 1 << 13)
        graph = asim.load(json.dumps(record).encode())
        arrays = {graph.tensors[name]: array for name, array in random_inputs(record, {}, seed).items()}
        arrays |= {t: t.constant.array() for t in graph.constants if t.constant is not None}
        same_bits(graph, arrays, 5000)
        cut += sum(len(sizes) > 1 for _, sizes in cuts(graph, 5000))
    assert cut >= 3


def softmax_like(rows: int, columns: int, axis: int, dtype: DType = DType.FLOAT32) -> Graph:
    b = builder(dtype)
    x = b.op("Mul", b.input("x", (rows, columns)), 0.5)
    e = b.op("Exp", b.op("Sub", x, b.op("ReduceMax", x, [axis])))
    b.output(b.op("Div", e, b.op("ReduceSum", e, [axis])), "y")
    return b.build()


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.FLOAT32])
@pytest.mark.parametrize("axis", [0, 1])
def test_slices_that_do_not_divide(axis: int, dtype: DType) -> None:
    graph = softmax_like(103, 101, axis, dtype)
    room = 40_000
    ((operators, sizes),) = cuts(graph, room)
    assert len(operators) == 6
    assert sum(sizes) == (103, 101)[1 - axis]
    assert len(sizes) > 2
    assert set(sizes) == {min(sizes), min(sizes) + 1}
    same_bits(graph, arrays_of(graph), room)


def test_sums_over_all_axes_are_whole_and_what_is_around_them_is_not() -> None:
    b = builder()
    x = b.op("Add", b.input("x", (64, 60)), 1.0)
    b.output(b.op("Div", x, b.op("ReduceSum", x, [0, 1])), "y")
    graph = b.build()
    assert [(operators, len(sizes) > 1) for operators, sizes in cuts(graph, 8000)] == [
        (["Add"], True),
        (["ReduceSum"], False),
        (["Div"], True),
    ]
    same_bits(graph, arrays_of(graph), 8000)


def test_sums_along_different_axes_are_cut_along_the_other_one_each() -> None:
    b = builder()
    x, y = b.input("x", (64, 60)), b.input("y", (64, 60))
    product = b.op("Mul", x, y)
    b.output(b.op("ReduceSum", product, [0]), "columns")
    b.output(b.op("Sub", product, b.op("ReduceSum", product, [1])), "rows")
    graph = b.build()
    found = cuts(graph, 8000)
    assert all(len(sizes) > 1 for _, sizes in found)
    assert len(found) == 2
    same_bits(graph, arrays_of(graph), 8000)


def test_a_slice_keeps_two_elements_of_every_axis() -> None:
    """A sum over rows of one column runs along the row, in lanes: its bits are others."""
    b = builder()
    b.output(b.op("ReduceSum", b.op("Exp", b.input("x", (5000, 3))), [0]), "y")
    graph = b.build()
    assert [len(sizes) for _, sizes in cuts(graph, 2000)] == [1]
    b = builder()
    b.output(b.op("ReduceSum", b.op("Exp", b.input("x", (5000, 5))), [0]), "y")
    graph = b.build()
    assert [sizes for _, sizes in cuts(graph, 2000)] == [[2, 3]]
    same_bits(graph, arrays_of(graph), 2000)


def test_sums_by_numpy_are_whole() -> None:
    """NumPy's order of summing depends on the strides."""
    for dtype, op, whole in (
        (DType.FLOAT64, "ReduceSum", True),
        (DType.FLOAT32, "ReduceProd", True),
        (DType.FLOAT32, "ReduceSum", False),
    ):
        b = builder(dtype)
        b.output(b.op(op, b.input("x", (64, 60)), [1]), "y")
        assert (cuts(b.build(), 4000)[0][1] == [1]) is whole


def test_axes_that_come_from_reshapes_transposes_and_repeats() -> None:
    b = builder()
    x = b.op("Exp", b.input("x", (12, 35, 8)))
    split = b.op("Reshape", b.op("Transpose", x, perm=[1, 0, 2]), [35 * 12, 8])
    wide = b.op("Expand", b.op("Unsqueeze", b.op("Abs", split), [1]), [35 * 12, 3, 8])
    joined = b.op("Concat", wide, b.op("Tile", b.op("Neg", wide), [1, 2, 1]), axis=1)
    b.output(b.op("Sqrt", joined), "y")
    graph = b.build()
    assert any(len(sizes) > 1 for _, sizes in cuts(graph, 9000))
    same_bits(graph, arrays_of(graph), 9000)


@pytest.mark.parametrize("seed", range(3))
def test_random_numbers_are_drawn_in_one_go(seed: int) -> None:
    b = builder()
    x = b.input("x", (50, 40))
    b.output(b.op("Add", b.op("Dropout", b.op("Mul", x, x)), b.op("RandomUniformLike", x, seed=1.0)), "y")
    graph = b.build()
    same_bits(graph, arrays_of(graph, seed), 4000)
    ((_, sizes),) = [found for found in cuts(graph, 4000) if "RandomUniformLike" in found[0]]
    assert sizes == [1]


# --- places -------------------------------------------------------------------------------------------------


def swapped(rows: int) -> Graph:
    b = builder()
    x, y = b.input("x", (rows, 32)), b.input("y", (rows, 32))
    b.output(b.op("Add", b.op("Sub", x, y), 1.0), "first")
    b.output(b.op("Mul", b.op("Add", x, y), 3.0), "second")
    return b.build()


@pytest.mark.parametrize("turned", [False, True])
def test_results_may_lie_where_the_inputs_lay(turned: bool) -> None:
    graph = swapped(100)
    arrays = arrays_of(graph)
    expected = run_chain(graph.topological(), arrays, OPSET, dtype_of, graph.outputs)
    given = [array.copy() for array in arrays.values() if array.ndim == 2]
    places = dict(zip(graph.outputs, given[::-1] if turned else given, strict=True))
    inputs = arrays | dict(zip(graph.inputs, given, strict=True))
    found = run_bounded(
        graph.topological(), inputs, OPSET, dtype_of, graph.outputs, place_of=places.get, room=4000
    )
    for tensor, array in expected.items():
        assert np.shares_memory(found[tensor], places[tensor])
        assert np.array_equal(places[tensor], array)


def test_a_place_that_another_slice_still_reads_is_not_written() -> None:
    graph = swapped(100)
    arrays = arrays_of(graph)
    expected = run_chain(graph.topological(), arrays, OPSET, dtype_of, graph.outputs)
    memory = np.zeros((140, 32), np.float32)
    memory[:100] = arrays[graph.inputs[0]]
    inputs = {**arrays, graph.inputs[0]: memory[:100]}
    before = memory.copy()
    found = run_bounded(
        graph.topological(),
        inputs,
        OPSET,
        dtype_of,
        graph.outputs,
        place_of=lambda tensor: memory[3:103] if tensor is graph.outputs[0] else None,
        room=4000,
    )
    assert np.array_equal(memory, before)
    for tensor, array in expected.items():
        assert np.array_equal(found[tensor], array)


def test_a_place_that_a_later_stage_reads_is_not_written() -> None:
    b = builder()
    x = b.input("x", (64, 60))
    y = b.op("Exp", b.op("Mul", x, 0.5))
    b.output(y, "y")
    b.output(b.op("Sub", x, b.op("ReduceSum", y, [0, 1])), "z")
    graph = b.build()
    arrays = arrays_of(graph)
    expected = run_chain(graph.topological(), arrays, OPSET, dtype_of, graph.outputs)
    memory = arrays[x].copy()
    found = run_bounded(
        graph.topological(),
        {**arrays, x: memory},
        OPSET,
        dtype_of,
        graph.outputs,
        place_of=lambda tensor: memory if tensor.name == "y" else None,
        room=8000,
    )
    for tensor, array in expected.items():
        assert np.array_equal(found[tensor], array)


# --- bytes --------------------------------------------------------------------------------------------------


def peak(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_bytes_beside_inputs_and_results_are_bounded() -> None:
    graph = softmax_like(4096, 512, 1)
    arrays, nodes = arrays_of(graph), graph.topological()
    one = arrays[graph.inputs[0]].nbytes
    places = {graph.outputs[0]: np.empty((4096, 512), np.float32)}
    room = one // 4

    def parts() -> object:
        return run_bounded(nodes, arrays, OPSET, dtype_of, graph.outputs, place_of=places.get, room=room)

    parts()  # kernels are loaded
    assert peak(parts) < room
    assert peak(lambda: run_chain(nodes, arrays, OPSET, dtype_of, graph.outputs)) > 2 * one


@pytest.mark.parametrize("fusion", every(2, ["graph-kernel", "off"]))
def test_a_run_holds_no_intermediate_values_besides_device_memory(fusion: str) -> None:
    graph = softmax_like(8192, 1100, 1)
    model = asim.compile(graph, "Ascend910A", fusion=fusion, precision_mode="must_keep_origin_dtype")
    inputs = asim.random_inputs(model)
    size = inputs["x"].nbytes
    assert size > ROOM
    device = max(
        region.offset + region.bytes
        for region in model.program.memory.regions.values()
        if region.kind != "weight"
    )
    asim.run(model, inputs)
    assert peak(lambda: asim.run(model, inputs)) < device + size + ROOM


def test_small_groups_are_computed_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = softmax_like(64, 64, 1)

    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(bounded, "Slicing", never)
    run_bounded(graph.topological(), arrays_of(graph), OPSET, dtype_of, graph.outputs)
