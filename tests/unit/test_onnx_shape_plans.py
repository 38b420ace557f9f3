"""From the options `batch` and `shapes` to input shapes, and where the samples of a batch lie in a tensor."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import InputError
from ascendsim.frontends.onnx.batch_change import BatchAxis, preferred, reshaped
from ascendsim.frontends.onnx.shapes import ShapePlan, plan_shapes
from ascendsim.graph.ir import Graph

Dims = tuple[int | str | None, ...]


def plan(inputs: dict[str, Dims | None], batch: int | None = None, **shapes: Any) -> ShapePlan:
    graph = Graph("g")
    for name, shape in inputs.items():
        graph.add_input(name, DType.FLOAT32, shape)
    return plan_shapes(graph, batch, shapes or None)


SYMBOL = {"x": ("n", 3), "y": ("n",), "z": (5, "n"), "s": (), "q": (7, "m")}
NUMBER = {"x": (2, 3), "y": (2, 5), "z": (7, 2), "t": ("k", 2)}


def test_a_symbol_is_replaced_wherever_it_stands() -> None:
    found = plan(SYMBOL, 4)
    assert found.wanted == {"x": (4, 3), "y": (4,), "z": (5, 4), "s": (), "q": (7, "m")}
    assert found.reference == {"x": (1, 3), "y": (1,), "z": (5, 1), "s": (), "q": (7, "m")}
    assert (found.batches, found.dynamic) == ((1, 4), True)


def test_a_number_is_replaced_in_front_only() -> None:
    found = plan(NUMBER, 4)
    assert found.wanted == {"x": (4, 3), "y": (4, 5), "z": (7, 2), "t": (4, 2)}
    assert found.reference == {"x": (2, 3), "y": (2, 5), "z": (7, 2), "t": (2, 2)}
    assert (found.batches, found.dynamic) == ((2, 4), False)


@pytest.mark.parametrize(
    ("inputs", "batch", "shapes", "wanted"),
    [
        (NUMBER, 2, {}, {"x": (2, 3), "y": (2, 5), "z": (7, 2), "t": (2, 2)}),  # as it is but for t
        (NUMBER, None, {}, NUMBER),
        ({"x": (0, 3)}, 4, {}, {"x": (4, 3)}),  # an empty batch says nothing of its samples
        ({"x": (2, 3), "y": (2, 5)}, None, {"x": (4, 3), "y": (6, 5)}, {"x": (4, 3), "y": (6, 5)}),
        ({"x": ("n", 3)}, None, {"x": (-1, 3)}, {"x": (None, 3)}),  # it stays open
        ({"x": ("n", 3)}, 1, {}, {"x": (1, 3)}),  # exporters trace a symbol with one sample
        ({"x": (3, 2), "y": (2, 2)}, None, {"y": (9, 2)}, {"x": (3, 2), "y": (9, 2)}),  # y has no batch
    ],
)
def test_shapes_without_another_batch(
    inputs: dict[str, Dims], batch: int | None, shapes: dict[str, Any], wanted: dict[str, Dims]
) -> None:
    found = plan(inputs, batch, **shapes)
    assert found.wanted == wanted
    if inputs is not NUMBER or batch is None:
        assert (found.reference, found.batches, found.dynamic) == (wanted, None, False)


def test_shapes_of_one_input_may_say_the_batch_too() -> None:
    found = plan(NUMBER, None, x=(6, 3))
    assert found.wanted == {**NUMBER, "x": (6, 3)}
    assert (found.reference, found.batches) == (NUMBER, (2, 6))
    both = plan({"x": ("n", 3), "y": ("n", 5)}, 4, x=(4, 8))
    assert both.wanted == {"x": (4, 8), "y": (4, 5)}
    assert both.reference == {"x": (1, 8), "y": (1, 5)}
    open_ = plan({"x": (None, 3), "y": None}, 4)
    assert (open_.wanted, open_.batches, open_.dynamic) == ({"x": (4, 3)}, (1, 4), True)
    late = plan({"s": (), "u": None, "x": (2, 3)}, 8)  # the first input that has a first dimension
    assert (late.wanted, late.batches) == ({"s": (), "x": (8, 3)}, (2, 8))


IMAGES = {"x": ("n", 3, "h", "w")}


@pytest.mark.parametrize(
    ("inputs", "shapes", "wanted"),
    [
        (IMAGES, {"x": (-1, 3, 320, 480)}, {"x": (4, 3, 320, 480)}),
        (IMAGES, {"x": (1, 3, 320, 480)}, {"x": (4, 3, 320, 480)}),
        (IMAGES, {"x": (7, 3, -1, -1)}, {"x": (4, 3, None, None)}),
        ({"x": (1, 3, 8, 8)}, {"x": (1, 3, 16, 16)}, {"x": (4, 3, 16, 16)}),
        ({"x": (None, 3, None)}, {"x": (2, 3, 5)}, {"x": (4, 3, 5)}),
        ({"x": None}, {"x": (1, 3, 5)}, {"x": (4, 3, 5)}),  # not even the rank is known
        # the batch of each input by a name of its own, or one name at two places
        ({"x": ("n", "s"), "y": ("m", "t")}, {"x": (1, 8), "y": (1, 6)}, {"x": (4, 8), "y": (4, 6)}),
        ({"x": ("n", "s"), "y": (5, "n")}, {"x": (1, 8), "y": (5, 1)}, {"x": (4, 8), "y": (5, 4)}),
        # sizes that are no batch stay: another name with another size, another number
        ({"x": ("n", 3), "y": ("s",)}, {"x": (1, 3), "y": (128,)}, {"x": (4, 3), "y": (128,)}),
        ({"x": (1, 3), "y": (77, 3)}, {"x": (1, 3), "y": (77, 3)}, {"x": (4, 3), "y": (77, 3)}),
        ({"x": ("n", 3), "y": ("s",)}, {"x": (1, 3), "y": (-1,)}, {"x": (4, 3), "y": (4,)}),
    ],
)
def test_the_batch_replaces_the_one_of_a_shape_that_is_given(
    inputs: dict[str, Dims | None], shapes: dict[str, Any], wanted: dict[str, Dims]
) -> None:
    assert plan(inputs, 4, **shapes).wanted == wanted


@pytest.mark.parametrize("size", [1, 2**31 - 1])
def test_sizes_that_may_be(size: int) -> None:
    assert plan({"x": ("n", 3)}, size).wanted == {"x": (size, 3)}
    assert plan({"x": ("n", "m")}, None, x=[size, np.int64(size)]).wanted == {"x": (size, size)}


@pytest.mark.parametrize("size", [0, -2, 2**31, True, 1.0, "3", None])
def test_sizes_that_may_not_be(size: Any) -> None:
    with pytest.raises(InputError, match="input 'x' must have sizes from 1 to 2147483647"):
        plan({"x": ("n", 3)}, None, x=(1, size))
    if size is not None:
        with pytest.raises(InputError, match="option batch must have sizes from 1 to 2147483647"):
            plan({"x": ("n", 3)}, size)


@pytest.mark.parametrize(
    ("inputs", "batch", "shapes", "message"),
    [
        ({"x": (2, 3)}, None, {"y": (1,)}, "input 'y' is not an input of the model"),
        ({}, None, {"y": (1,)}, "the model has no inputs"),
        ({"x": (2, 3)}, None, {"x": "23"}, "must be a sequence of numbers"),
        ({"x": (2, 3)}, None, {"x": 5}, "must be a sequence of numbers"),
        ({"x": (2, None)}, None, {"x": (2,)}, r"must have 2 dimensions, as in \[2, \?\], not \[2\]"),
        ({"s": (), "u": None}, 4, {}, "needs a model with a batch dimension"),
    ],
)
def test_options_that_contradict(
    inputs: dict[str, Dims | None], batch: int | None, shapes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        plan(inputs, batch, **shapes)
    assert plan({"x": (2, 3), "z": (7, 2)}, 4, z=(5, 2)).wanted == {"x": (4, 3), "z": (5, 2)}  # no batch in z


# ------------------------------------------------------------------------------------------------------------


def carries(shape: tuple[int, ...], axis: int, inner: int, stride: int, batch: int) -> bool:
    """Whether the index along an axis tells the sample of every element, found by looking at all of them."""
    elements = np.arange(int(np.prod(shape)))
    index = np.unravel_index(elements, shape)[axis]
    return bool(np.array_equal(elements // stride % batch, index // inner % batch))


def test_axes_that_carry_a_batch_are_all_that_do() -> None:
    """Samples lie `stride` elements apart: element e belongs to sample e // stride % batch."""
    random, found = Random(4), 0
    for _ in range(300):
        shape = tuple(random.choice((1, 2, 3, 4, 6, 8)) for _ in range(random.randint(1, 4)))
        batch, stride = random.choice((1, 2, 3, 4)), random.choice((1, 2, 3, 4, 6, 8, 12, 24, 48))
        axes = reshaped(shape, stride, batch)
        assert [item.axis for item in axes] == sorted({item.axis for item in axes})
        for item in axes:
            assert carries(shape, item.axis, item.inner, stride, batch), (shape, stride, batch, item)
            assert item.stride(shape) == stride
            assert item.outer(shape, batch) * batch * item.inner == shape[item.axis]
        if batch > 1:
            for axis, inner in product(range(len(shape)), (1, 2, 3, 4, 6, 8)):
                if shape[axis] % (batch * inner) == 0 and carries(shape, axis, inner, stride, batch):
                    assert BatchAxis(axis, inner) in axes, (shape, stride, batch, axis, inner)
        found += len(axes)
    assert found > 80
    assert reshaped((2, 0, 3), 3, 2) == reshaped((2, 3), 0, 2) == []


def test_the_batch_alone_comes_first_then_what_it_was_merged_with() -> None:
    """Rows of a matrix are merged with what stands before, higher ranks with what follows."""
    merged, plain, later = BatchAxis(0, 2), BatchAxis(1), BatchAxis(2, 3)
    assert preferred([merged, plain, later], (8, 4, 12), 4) == [plain, later, merged]
    assert preferred([merged, later], (8, 5, 12), 4) == [later, merged]
    assert preferred([merged, BatchAxis(1, 3)], (8, 12), 4) == [merged, BatchAxis(1, 3)]
    assert preferred([BatchAxis(0), BatchAxis(1, 3)], (8, 12), 4) == [BatchAxis(0), BatchAxis(1, 3)]
    assert preferred([BatchAxis(0), BatchAxis(1)], (8, 4), 4) == [BatchAxis(1), BatchAxis(0)]
