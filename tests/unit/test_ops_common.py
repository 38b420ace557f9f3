"""Shape rules and the description of elementwise work."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.core.formats import Format
from ascendsim.graph.ir import Graph, Shape
from ascendsim.ops.shared.common import (
    broadcast_shapes,
    elementwise_lower,
    finish,
    normalise_axes,
    split_broadcast,
    walking_shape,
)
from ascendsim.opset.work import AiCpuWork, LowerContext, NoTask, VectorWork


@pytest.mark.parametrize(
    ("shapes", "wanted"),
    [
        ([(2, 3), (3,)], (2, 3)),
        ([("n", 3), (1, 1)], ("n", 3)),
        ([("n", 1), ("n", 4)], ("n", 4)),
        ([("n",), ("m",)], (None,)),
        ([(None, 3), (5, 3)], (5, 3)),
        ([(), ()], ()),
        ([None, (2,)], None),
        ([(0, 1), (1, 4)], (0, 4)),
    ],
)
def test_broadcast_shapes(shapes: list[Shape | None], wanted: Shape | None) -> None:
    assert broadcast_shapes(shapes) == wanted


def test_shapes_that_do_not_broadcast() -> None:
    with pytest.raises(GraphError, match="must be equal or 1"):
        broadcast_shapes([(2, 3), (4,)])


def test_normalise_axes() -> None:
    assert normalise_axes((-1, 0), 3) == (0, 2)
    with pytest.raises(GraphError, match=r"must be in \[-3, 3\)"):
        normalise_axes((3,), 3)
    with pytest.raises(GraphError, match="every axis once"):
        normalise_axes((1, -2), 3)


def test_finish_rounds_once_and_overflows_to_infinity() -> None:
    found = finish(np.array([1e6, 2049.0, 2051.0, -0.0], np.float32), np.dtype(np.float16))
    np.testing.assert_array_equal(found, np.array([np.inf, 2048, 2052, -0.0], np.float16))
    assert np.signbit(found[3])


@pytest.mark.parametrize(
    ("output", "inputs", "wanted"),
    [
        ((4, 5), [(4, 5), (4, 5)], (1, 20, ("all", "all"))),
        ((4, 5), [(4, 5), ()], (1, 20, ("all", "one"))),
        ((2, 8, 3, 3), [(2, 8, 3, 3), (8, 1, 1)], (16, 9, ("all", "row"))),
        ((2, 7, 16), [(2, 7, 16), (16,)], (14, 16, ("all", "col"))),
        ((2, 7, 16), [(2, 7, 1), (2, 7, 16)], (14, 16, ("row", "all"))),
        ((2, 7, 16), [(2, 7, 16), (2, 1, 16)], (14, 16, ("all", "col"))),
        ((4, 5), [(4, 1), (5,)], (4, 5, ("row", "col"))),
        ((2, 3, 4), [(2, 3, 4), (3, 1), (2, 1, 4)], (6, 4, ("all", "row", "col"))),
        ((2, 8, 3, 3), [(), (8, 1, 1), (2, 8, 3, 3)], (16, 9, ("one", "row", "all"))),
        ((2, 8, 3, 3), [(1, 1), (2, 8, 3, 3), (3, 3)], (16, 9, ("one", "all", "col"))),
        ((2, 3, 4, 5), [(2, 3, 4, 5), (1, 1, 4, 5), (3, 1, 5)], (6, 20, ("all", "col", "all"))),
    ],
)
def test_split_of_a_broadcast(output: tuple[int, ...], inputs: list[tuple[int, ...]], wanted: object) -> None:
    split = split_broadcast(output, inputs)
    assert (split.rows, split.cols, split.overs) == wanted


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans(), st.booleans()), max_size=5))
def test_split_holds_every_input(axes: list[tuple[int, bool, bool]]) -> None:
    output = tuple(size for size, _, _ in axes)
    inputs = [tuple(size if kept[which] else 1 for size, *kept in axes) for which in range(2)]
    split = split_broadcast(output, inputs)
    assert split.rows * split.cols == math.prod(output)
    room = {"all": split.rows * split.cols, "row": split.rows, "col": split.rows * split.cols, "one": 1}
    for shape, over in zip(inputs, split.overs, strict=True):
        assert math.prod(shape) <= room[over]
        assert (over == "one") == (math.prod(shape) == 1)


def test_walking_shape_puts_channels_last() -> None:
    graph = Graph()
    feature = graph.add_input("x", DType.FLOAT16, (2, 20, 5, 7))
    feature.format = Format.NC1HWC0
    matrix = graph.add_input("m", DType.FLOAT16, (3, 20, 40))
    matrix.format = Format.FRACTAL_NZ
    assert walking_shape(feature) == (2, 5, 7, 32)
    assert walking_shape(matrix) == (3, 32, 48)


def _work(dtype: DType, context: LowerContext, wide: bool = False, shape: tuple[int, ...] = (4, 6)) -> object:
    graph = Graph()
    node = graph.add_node("Exp", [graph.add_input("x", dtype, shape)], ["y"])
    node.output.dtype, node.output.shape = dtype, shape
    return elementwise_lower(["vexp"], wide)(node, context)


def test_conversions_around_types_that_do_not_compute() -> None:
    work = _work(DType.INT8, LowerContext())
    assert isinstance(work, VectorWork)
    assert [(step.op, step.dtype) for step in work.steps] == [
        (op, DType.FLOAT16) for op in ("vconv", "vexp", "vconv")
    ]


def test_float16_widens_only_where_the_chip_can() -> None:
    full = LowerContext(intrinsics={"vexp": ("float16", "float32")})
    narrow = LowerContext(intrinsics={"vexp": ("float16",)})
    for context, wanted in ((full, ["vconv", "vexp", "vconv"]), (narrow, ["vexp"])):
        work = _work(DType.FLOAT16, context, wide=True)
        assert isinstance(work, VectorWork)
        assert [step.op for step in work.steps] == wanted


def test_types_without_vector_form_and_empty_tensors() -> None:
    assert isinstance(_work(DType.FLOAT64, LowerContext()), AiCpuWork)
    assert isinstance(_work(DType.FLOAT16, LowerContext(), shape=(0, 3)), NoTask)
