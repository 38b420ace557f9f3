"""Which networks are plain: those whose batches the chip's compiler is seen to cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Tensor
from ascendsim.ops import default_opset
from ascendsim.passes.l2 import is_plain
from tests.support.fusing import build, random

Body = Callable[..., Tensor]


def conv(b: Any, x: Tensor, outputs: int, group: int = 1, kernel: int = 3) -> Tensor:
    inside = int(x.static_shape[1]) // group
    result: Tensor = b.op(
        "Conv", x, random(outputs, inside, kernel, kernel), pads=[kernel // 2] * 4, group=group
    )
    return result


def plain(body: Body, channels: int = 32) -> bool:
    """Whether a network of a convolution and what a body makes of its maps is plain."""
    graph = build(lambda b: body(b, conv(b, b.input("x", (4, 3, 8, 8)), channels)))
    return is_plain(graph, default_opset())


def mean(b: Any, x: Tensor) -> Tensor:
    result: Tensor = b.op("ReduceMean", x, np.array([2, 3]))
    return result


def scaled(b: Any, x: Tensor) -> Tensor:
    """Squeeze and excitation: a factor for each channel."""
    factor = b.op("Sigmoid", conv(b, mean(b, x), int(x.static_shape[1]), kernel=1))
    result: Tensor = b.op("Mul", x, factor)
    return result


@pytest.mark.parametrize(
    "body",
    [
        lambda b, x: b.op("Relu", x),
        lambda b, x: b.op("Add", conv(b, x, 32), x),
        lambda b, x: b.op("MaxPool", x, kernel_shape=[2, 2]),
        lambda b, x: mean(b, x),
        lambda b, x: b.op("Flatten", mean(b, x)),
        lambda b, x: b.op("Softmax", b.op("Flatten", mean(b, x)), axis=1),
        lambda b, x: conv(b, x, 32, group=32),
        lambda b, x: conv(b, x, 32, group=8),
        lambda b, x: conv(b, x, 32, group=2),
    ],
)
def test_convolutions_poolings_and_sums_are_plain(body: Body) -> None:
    assert plain(body)


@pytest.mark.parametrize(
    "body",
    [
        lambda b, x: b.op("Concat", x, x, axis=1),
        lambda b, x: b.op("Transpose", x, perm=[0, 1, 3, 2]),
        lambda b, x: b.op("Reshape", x, np.array([4, 2, 16, 64])),
        lambda b, x: b.op("Softmax", x, axis=1),
        scaled,
    ],
)
def test_what_joins_turns_or_scales_maps_is_not(body: Body) -> None:
    assert not plain(body)


def test_groups_must_fill_fractals() -> None:
    """Groups of 24 channels end inside of one; 48 do not, and 8 fill one together."""
    assert not plain(lambda b, x: conv(b, x, 96, group=4), channels=96)
    assert plain(lambda b, x: conv(b, x, 96, group=2), channels=96)
    assert plain(lambda b, x: conv(b, x, 96, group=12), channels=96)
    assert not plain(lambda b, x: conv(b, x, 48, group=2), channels=32)


@pytest.mark.parametrize(("groups", "expected"), [(1, True), (2, True), (4, False)])
def test_quantised_convolutions_are_judged_by_their_maps(groups: int, expected: bool) -> None:
    """Their second input is a scale, not the filters."""
    one, zero = np.float32(1), np.uint8(0)

    def body(b: Any) -> Tensor:
        filters = np.ones((96, 96 // groups, 3, 3), np.uint8)
        inputs = (b.input("x", (4, 96, 8, 8), DType.UINT8), one, zero, filters, one, zero, one, zero)
        result: Tensor = b.op("QLinearConv", *inputs, pads=[1] * 4, group=groups)
        return result

    assert is_plain(build(body), default_opset()) == expected


def test_without_convolutions_nothing_is_plain() -> None:
    assert not is_plain(build(lambda b: b.op("Relu", b.input("x", (4, 3, 8, 8)))), default_opset())
