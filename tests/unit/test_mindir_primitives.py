"""Every primitive of MindSpore by itself against what its documentation says of it, in numpy, with arguments
that change what it makes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.graph.ir import Graph
from ascendsim.ops import default_opset
from tests.support.evaluate import evaluate
from tests.support.fusing import random
from tests.support.mindir_nets import network
from tests.unit.test_caffe_layers import correlated, pairs

Array = Any


@dataclass(frozen=True)
class Primitive:
    """One primitive.

    Attributes:
        kind: Its name.
        given: What it reads: arrays, and constants.
        wanted: What it makes of the arrays; several results as a tuple, None where nobody reads one.
        attributes: Constants where older versions have them.
    """

    kind: str
    given: Sequence[Any]
    wanted: Callable[..., Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)


X = random(2, 4, 5, 6)
ROWS, OTHER = random(3, 4), random(3, 4, seed=1)
POSITIVE = np.abs(ROWS) + np.float32(0.1)
WHOLE = np.arange(12, dtype=np.int32).reshape(3, 4) - 5
HALF = ROWS.astype(np.float16)
FILTERS = random(6, 2, 3, 2, seed=2)
ERF = np.vectorize(math.erf, [float])


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def channels(values: Array, rank: int = 4) -> Array:
    return values.reshape(-1, *(1,) * (rank - 2))


def padded(x: Array, top: int, bottom: int, left: int, right: int, value: float = 0.0) -> Array:
    return np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=value)


def transposed(x: Array, w: Array, stride: Sequence[int], begin: Sequence[int], outs: Sequence[int]) -> Array:
    """What each point adds around its place, of which a window is kept; one group, no dilation."""
    made = np.zeros((len(x), w.shape[1], *outs))
    rows, columns = (
        pairs(out, size, step, pad, 1, inside)
        for out, size, step, pad, inside in zip(outs, w.shape[2:], stride, begin, x.shape[2:], strict=True)
    )
    for o, a, i in rows:
        for q, b, j in columns:
            made[:, :, i, j] += x[:, :, o, q] @ w[:, :, a, b]
    return made


def pooled(x: Array, kernel: Sequence[int], stride: Sequence[int], of: Callable[..., Array]) -> Array:
    """Windows that lie in the map; nan is what is not there."""
    outs = [(size - k) // s + 1 for size, k, s in zip(x.shape[2:], kernel, stride, strict=True)]
    made = np.zeros((*x.shape[:2], *outs))
    for i in range(outs[0]):
        for j in range(outs[1]):
            top, left = i * stride[0], j * stride[1]
            made[:, :, i, j] = of(x[:, :, top : top + kernel[0], left : left + kernel[1]], axis=(2, 3))
    return made


def normed(x: Array, axes: Sequence[int], epsilon: float) -> Array:
    mean, variance = x.mean(tuple(axes), keepdims=True), x.var(tuple(axes), keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon)


def softmax(x: Array, axis: int) -> Array:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def conv(x: Array, w: Array) -> Array:
    return correlated(padded(x, 1, 0, 2, 1), w, 2, ((2, 0, 1), (1, 0, 2)))


def upright(x: Array, w: Array) -> Array:
    return correlated(x, w, 2, ((1, 0, 1), (1, 0, 1)))


def resized(x: Array, size: Sequence[int], places: Callable[[int, int], Array], near: bool = False) -> Array:
    """Height, then width, between the two points around each place, or at the one before it."""
    for axis, made in zip((2, 3), size, strict=True):
        last = x.shape[axis] - 1
        at = np.clip(places(x.shape[axis], made), 0, last)
        low = np.floor(at).astype(int)
        share = (at - low).reshape(-1, *(1,) * (3 - axis)) * (not near)
        x = x.take(low, axis) * (1 - share) + x.take(np.minimum(low + 1, last), axis) * share
    return x


ADDRESSES = {
    "corners": lambda size, made: np.arange(made) * (size - 1) / (made - 1),
    "centres": lambda size, made: (np.arange(made) + 0.5) * size / made - 0.5,
    "edges": lambda size, made: np.arange(made) * size / made,
}
CONV = {"pad_mode": "pad", "pad": (1, 0, 2, 1), "stride": (1, 1, 2, 1), "dilation": (1, 1, 1, 2), "group": 2}
DEEP = X[:, :, None]
NORM = [random(4, seed=3), random(4, seed=4), random(4, seed=5), random(4, seed=6, positive=True)]


def _unary(kind: str, wanted: Callable[..., Array], x: Array = ROWS) -> tuple[str, Primitive]:
    return kind, Primitive(kind, [x], wanted)


def _binary(kind: str, wanted: Callable[..., Array], *given: Any) -> tuple[str, Primitive]:
    return kind, Primitive(kind, given or [ROWS, OTHER], wanted)


CASES: dict[str, Primitive] = dict(
    [
        _unary("Abs", np.abs),
        _unary("Ceil", np.ceil, ROWS * 3),
        _unary("Cos", np.cos),
        _unary("Erf", ERF),
        _unary("Exp", np.exp),
        _unary("Floor", np.floor, ROWS * 3),
        _unary("HSwish", lambda x: x * np.clip(x + 3, 0, 6) / 6, ROWS * 4),
        _unary("Identity", lambda x: x),
        _unary("Log", np.log, POSITIVE),
        _unary("LogicalNot", np.logical_not, ROWS > 0),
        _unary("Mish", lambda x: x * np.tanh(np.log1p(np.exp(x)))),
        _unary("Neg", np.negative),
        _unary("ReLU", lambda x: np.maximum(x, 0)),
        _unary("Reciprocal", lambda x: 1 / x, POSITIVE),
        _unary("Round", np.rint, ROWS * 3),
        _unary("Sigmoid", sigmoid),
        _unary("Sign", np.sign),
        _unary("Sin", np.sin),
        _unary("Softplus", lambda x: np.log1p(np.exp(x))),
        _unary("Sqrt", np.sqrt, POSITIVE),
        _unary("Tanh", np.tanh),
        _unary("GeLU", lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
        _unary("HSigmoid", lambda x: np.clip(x + 3, 0, 6) / 6, ROWS * 4),
        _unary("ReLU6", lambda x: np.clip(x, 0, 6), ROWS * 9),
        _unary("Rsqrt", lambda x: 1 / np.sqrt(x), POSITIVE),
        _unary("SiLU", lambda x: x * sigmoid(x)),
        _unary("Square", np.square),
        *(
            _binary(kind, wanted)
            for kind, wanted in {
                "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Maximum": np.maximum,
                "Minimum": np.minimum, "Greater": np.greater, "GreaterEqual": np.greater_equal,
                "Less": np.less, "LessEqual": np.less_equal,
            }.items()
        ),
        _binary("Div", np.divide, ROWS, POSITIVE),
        _binary("RealDiv", np.divide, ROWS, POSITIVE),
        _binary("Pow", np.power, POSITIVE, OTHER),
        _binary("Adds", lambda x: x + 1.5, ROWS, 1.5),
        _binary("Subs", lambda x: x - 1.5, ROWS, 1.5),
        _binary("Muls", lambda x: x * 1.5, ROWS, 1.5),
        _binary("Divs", lambda x: x / 1.5, ROWS, 1.5),
        _binary("PowTensorScalar", lambda x: x**1.5, POSITIVE, 1.5),
        _binary("GreaterScalar", lambda x: x > 2, WHOLE, 2),
        _binary("GreaterEqualScalar", lambda x: x >= 2, WHOLE, 2),
        _binary("LessScalar", lambda x: x < 2, WHOLE, 2),
        _binary("LessEqualScalar", lambda x: x <= 2, WHOLE, 2),
        _binary("LogicalAnd", np.logical_and, ROWS > 0, OTHER > 0),
        _binary("LogicalOr", np.logical_or, ROWS > 0, OTHER > 0),
        _binary("Equal", np.equal, WHOLE, -WHOLE),
        _binary("NotEqual", np.not_equal, WHOLE, -WHOLE),
    ]
)  # fmt: skip
CASES |= {
    # operands of two types meet in one
    "Add of a number": Primitive("Add", [2.5, ROWS], lambda x: 2.5 + x),
    "Mul of two types": Primitive("Mul", [ROWS, WHOLE], lambda x, y: x * y),
    "whole numbers and a broken one": Primitive("GreaterScalar", [WHOLE, 1.5], lambda x: x > 1.5),
    "whole numbers of two sizes": Primitive(
        "Less", [WHOLE, WHOLE[:, ::-1].astype(np.int64) + (1 << 40)], lambda x, y: x < y
    ),
    "large whole numbers": Primitive(
        "Equal", [WHOLE + (1 << 25), (WHOLE + (1 << 25) + WHOLE % 2).astype(np.int64)], lambda x, y: x == y
    ),
    "floats and whole numbers": Primitive("Less", [ROWS * 3, WHOLE], lambda x, y: x < y),
    "halves": Primitive("LessEqual", [HALF, HALF[:, ::-1].copy()], lambda x, y: x <= y),
    "Select": Primitive("Select", [ROWS > 0, ROWS, OTHER], np.where),
    "Select of a number": Primitive("Select", [ROWS > 0, ROWS, 2.0], lambda c, x: np.where(c, x, 2)),
    "Cast": Primitive("Cast", [ROWS * 3, None], lambda x: x.astype(np.int32)),
    "Elu": Primitive("Elu", [ROWS, 0.5], lambda x: np.where(x > 0, x, 0.5 * np.expm1(x))),
    "Elu as it is": Primitive("Elu", [ROWS], lambda x: np.where(x > 0, x, np.expm1(x))),
    "Elu of an attribute": Primitive(
        "Elu", [ROWS], lambda x: np.where(x > 0, x, 2 * np.expm1(x)), {"alpha": 2.0}
    ),
    "PReLU": Primitive("PReLU", [X, NORM[0]], lambda x, a: np.where(x > 0, x, x * channels(a))),
    "PReLU of rows": Primitive("PReLU", [ROWS, NORM[0]], lambda x, a: np.where(x > 0, x, x * a)),
    # layers
    "Conv2D": Primitive("Conv2D", [X, FILTERS], conv, CONV),
    "Conv2D by numbers": Primitive("Conv2D", [X, FILTERS], conv, {**CONV, "pad_mode": 0}),
    "Conv2D valid": Primitive("Conv2D", [X, FILTERS], upright, {"group": 2, "pad_mode": "VALID"}),
    "Conv2D as it is": Primitive("Conv2D", [X, FILTERS], upright, {"group": 2}),
    "Conv2D same": Primitive(
        "Conv2D",
        [X, FILTERS],
        lambda x, w: correlated(padded(x, 1, 1, 0, 1), w, 2, ((1, 0, 1), (1, 0, 1))),
        {"group": 2, "pad_mode": "same", "pad": (9, 9, 9, 9)},
    ),
    "Conv2D with one padding": Primitive(
        "Conv2D",
        [X, FILTERS],
        lambda x, w: correlated(padded(x, 1, 1, 1, 1), w, 2, ((2, 0, 1), (2, 0, 1))),
        {"group": 2, "pad_mode": "pad", "pad": 1, "stride": 2},
    ),
    "Conv2DTranspose": Primitive(
        "Conv2DTranspose",
        [X, random(4, 3, 3, 2)],
        lambda x, w: transposed(x, w, (2, 3), (0, 0), (11, 17)),
        {"stride": (2, 3), "pad_mode": "valid"},
    ),
    "Conv2DTranspose padded": Primitive(
        "Conv2DTranspose",
        [X, random(4, 3, 3, 2)],
        lambda x, w: transposed(x, w, (2, 1), (1, 0), (10, 6)),
        {"stride": (2, 1), "pad_mode": "pad", "pad": (1, 0, 0, 1)},
    ),
    "Conv2DTranspose same": Primitive(
        "Conv2DTranspose",
        [X, random(4, 3, 5, 3)],
        lambda x, w: transposed(x, w, (2, 2), (1, 0), (10, 12)),
        {"stride": (2, 2), "pad_mode": "same"},
    ),
    "MaxPool": Primitive(
        "MaxPool", [X, (1, 1, 3, 2), (1, 1, 2, 1)], lambda x: pooled(x, (3, 2), (2, 1), np.max)
    ),
    "MaxPool same": Primitive(
        "MaxPool",
        [X, (3, 2), (2, 1), "same"],
        lambda x: pooled(padded(x, 1, 1, 0, 1, -np.inf), (3, 2), (2, 1), np.max),
    ),
    "AvgPool": Primitive(
        "AvgPool",
        [X],
        lambda x: pooled(x, (2, 3), (1, 2), np.mean),
        {"kernel_size": (1, 1, 2, 3), "strides": (1, 1, 1, 2), "pad_mode": 2, "format": "NCHW"},
    ),
    "AvgPool same": Primitive(
        "AvgPool",
        [X, (2, 3), (1, 2), 1, 0],
        lambda x: pooled(padded(x, 0, 1, 0, 1, np.nan), (2, 3), (1, 2), np.nanmean),
    ),
    "AvgPool3D": Primitive(
        "AvgPool3D",
        [DEEP],
        lambda x: pooled(padded(x[:, :, 0], 1, 0, 0, 2), (3, 2), (2, 1), np.mean)[:, :, None],
        {"kernel_size": (1, 1, 1, 3, 2), "strides": (1, 1, 1, 2, 1), "pad_list": (0, 0, 1, 0, 0, 2)},
    ),
    "AvgPool3D inside": Primitive(
        "AvgPool3D",
        [DEEP],
        lambda x: pooled(padded(x[:, :, 0], 1, 1, 1, 1, np.nan), (3, 2), (1, 1), np.nanmean)[:, :, None],
        {"kernel_size": (1, 1, 1, 3, 2), "strides": 1, "pad_list": (0, 1, 1), "count_include_pad": False},
    ),
    "AvgPool3D rounded up": Primitive(
        "AvgPool3D",
        [DEEP],
        lambda x: pooled(padded(x[:, :, 0], 0, 1, 0, 0, np.nan), (2, 2), (2, 2), np.nanmean)[:, :, None],
        {"kernel_size": 2, "strides": 2, "ceil_mode": True},
    ),
    "MaxPool3DWithArgmax": Primitive(
        "MaxPool3DWithArgmax",
        [DEEP],
        lambda x: (pooled(padded(x[:, :, 0], 1, 1, 0, 0, -np.inf), (3, 2), (2, 1), np.max)[:, :, None], None),
        {"ksize": (1, 1, 1, 3, 2), "strides": (1, 1, 1, 2, 1), "pads": (0, 1, 0)},
    ),
    "MaxPool3DWithArgmax dilated": Primitive(
        "MaxPool3DWithArgmax",
        [DEEP],
        lambda x: (np.maximum(x[:, :, :, :-2], x[:, :, :, 2:]), None),
        {"ksize": (2, 1), "strides": 1, "pads": 0, "dilation": (1, 2, 1)},
    ),
    "MatMul": Primitive("MatMul", [ROWS, OTHER], lambda a, b: a.T @ b, {"transpose_a": True}),
    "MatMul turned": Primitive("MatMul", [ROWS, OTHER, False, True], lambda a, b: a @ b.T),
    "MatMul of both": Primitive("MatMul", [ROWS, random(5, 3), True, True], lambda a, b: a.T @ b.T),
    "MatMul as it is": Primitive("MatMul", [ROWS, random(4, 5)], np.matmul),
    "BatchMatMul": Primitive("BatchMatMul", [X, X, True], lambda a, b: a.swapaxes(-1, -2) @ b),
    "BatchMatMul turned": Primitive("BatchMatMul", [X, X, False, True], lambda a, b: a @ b.swapaxes(-1, -2)),
    "BatchMatMul of two ranks": Primitive(
        "BatchMatMul", [X, random(7, 6), False, True], lambda a, b: a @ b.swapaxes(-1, -2)
    ),
    "MatMulExt": Primitive("MatMulExt", [X, random(6, 3)], np.matmul),
    "BiasAdd": Primitive("BiasAdd", [X, NORM[0]], lambda x, b: x + channels(b)),
    "BiasAdd of rows": Primitive("BiasAdd", [ROWS, NORM[0]], np.add),
    "BatchNorm": Primitive(
        "BatchNorm",
        [X, *NORM, False, 0.1, 0.9, "NCHW"],
        lambda x, scale, shift, mean, variance: (
            channels(scale) * (x - channels(mean)) / np.sqrt(channels(variance) + 0.1) + channels(shift),
            *[None] * 4,
        ),
    ),
    "BatchNorm as it is": Primitive(
        "BatchNorm",
        [X, *NORM[:3], NORM[3] / 1e4],
        lambda x, scale, shift, mean, variance: (
            channels(scale) * (x - channels(mean)) / np.sqrt(channels(variance) + 1e-5) + channels(shift),
            *[None] * 4,
        ),
    ),
    "LayerNorm": Primitive(
        "LayerNorm",
        [X, random(5, 6), random(5, 6, seed=1), 2, 2, 0.2],
        lambda x, scale, shift: (scale * normed(x, (2, 3), 0.2) + shift, None, None),
    ),
    "LayerNorm as it is": Primitive(
        "LayerNorm",
        [ROWS / 1e3, random(4), random(4, seed=1)],
        lambda x, scale, shift: (scale * normed(x, (1,), 1e-7) + shift, None, None),
    ),
    "LayerNorm of the last axis": Primitive(
        "LayerNorm",
        [X, random(6), random(6, seed=1), -1, -1],
        lambda x, scale, shift: (scale * normed(x, (3,), 1e-7) + shift, None, None),
    ),
    "GroupNorm": Primitive(
        "GroupNorm",
        [X, 2, NORM[0], NORM[1], 0.3],
        lambda x, scale, shift: (
            channels(scale) * normed(x.reshape(2, 2, 2, 5, 6), (2, 3, 4), 0.3).reshape(x.shape)
            + channels(shift),
            None,
            None,
        ),
    ),
    "GroupNorm as it is": Primitive(
        "GroupNorm",
        [X / 100, 4, NORM[0], NORM[1]],
        lambda x, scale, shift: (channels(scale) * normed(x, (2, 3), 1e-5) + channels(shift), None, None),
    ),
    "Softmax": Primitive("Softmax", [X, (1,)], lambda x: softmax(x, 1)),
    "Softmax as it is": Primitive("Softmax", [ROWS], lambda x: softmax(x, -1)),
    "LogSoftmax": Primitive("LogSoftmax", [ROWS, 0], lambda x: np.log(softmax(x, 0))),
    "LogSoftmax as it is": Primitive("LogSoftmax", [ROWS], lambda x: np.log(softmax(x, -1))),
    # movement
    "BroadcastTo": Primitive(
        "BroadcastTo", [ROWS, (2, 3, 4)], lambda x: np.broadcast_to(x, (2, 3, 4)).copy()
    ),
    "ExpandDims": Primitive("ExpandDims", [ROWS, 1], lambda x: x[:, None]),
    "Flatten": Primitive("Flatten", [X], lambda x: x.reshape(2, -1)),
    "Reshape": Primitive("Reshape", [ROWS, (2, -1)], lambda x: x.reshape(2, 6)),
    "Tile": Primitive("Tile", [ROWS, (2, 3)], lambda x: np.tile(x, (2, 3))),
    "Transpose": Primitive("Transpose", [X, (0, 2, 3, 1)], lambda x: x.transpose(0, 2, 3, 1).copy()),
    "Squeeze": Primitive("Squeeze", [X[:1, :1], 1], lambda x: x[:, 0]),
    "Squeeze of all": Primitive("Squeeze", [X[:1, :1]], lambda x: x[0, 0]),
    "Squeeze of two": Primitive("Squeeze", [X[:1, :1, :1]], lambda x: x[0, 0], {"axis": (0, 1)}),
    "ReduceMean": Primitive("ReduceMean", [X, (1, 3), True], lambda x: x.mean((1, 3), keepdims=True)),
    "ReduceSum": Primitive("ReduceSum", [X, (), False], lambda x: x.sum()),
    "ReduceMax": Primitive("ReduceMax", [X, 2], lambda x: x.max(2)),
    "ReduceMin": Primitive("ReduceMin", [X], lambda x: x.min(), {"keep_dims": False}),
    "MeanExt": Primitive("MeanExt", [X, None], lambda x: x.mean()),
    "SumExt": Primitive("SumExt", [WHOLE, 0, True], lambda x: x.sum(0, keepdims=True).astype(np.float32)),
    "Gather": Primitive("Gather", [ROWS, np.array([2, 0], np.int32), 1], lambda x, i: x[:, i]),
    "Gather as it is": Primitive("Gather", [ROWS, np.array([2, 0], np.int32)], lambda x, i: x[i]),
    "Concat": Primitive("Concat", [(ROWS, OTHER), 1], lambda x, y: np.concatenate([x, y], 1)),
    "Concat as it is": Primitive("Concat", [(ROWS, OTHER)], lambda x, y: np.concatenate([x, y], 0)),
    "Stack": Primitive("Stack", [(ROWS, OTHER)], lambda x, y: np.stack([x, y], 1), {"axis": 1}),
    "Stack as it is": Primitive("Stack", [(ROWS, OTHER)], lambda x, y: np.stack([x, y])),
    "Split": Primitive("Split", [X, 1, 2], lambda x: (x[:, :2], x[:, 2:])),
    "Split as it is": Primitive("Split", [X], lambda x: (x[:1], x[1:]), {"output_num": 2}),
    "StridedSlice": Primitive(
        "StridedSlice", [ROWS, (1, 3), (3, 0), (1, -2)], lambda x: x[1:3, 3:0:-2].copy()
    ),
    "StridedSlice of an element": Primitive(
        "StridedSlice", [X, (1, -1, 0), (2, 9, 5), (1, 1, 2), 0, 0, 0, 0, 2], lambda x: x[1:2, -1, ::2].copy()
    ),
    "StridedSlice of two": Primitive(
        "StridedSlice", [X, (1, 2), (9, 9), (7, 3), 0, 0, 0, 0, 3], lambda x: x[1, 2].copy()
    ),
    "StridedSlice from ends": Primitive(
        "StridedSlice",
        [X, (1, 3, 2, 4), (1, 1, 3, 1), (1, -1, 1, -2), 3, 12],
        lambda x: x[:1, :1:-1, 2:, 4::-2].copy(),
    ),
    "StridedSlice to ends": Primitive(
        "StridedSlice", [X, (1, 3), (1, 1), (1, -1), 0, 3], lambda x: x[1:, 3::-1].copy()
    ),
    "Slice": Primitive("Slice", [X, (0, 1, 2, 0), (1, 2, -1, 6)], lambda x: x[:1, 1:3, 2:].copy()),
    "Pad": Primitive("Pad", [ROWS], lambda x: np.pad(x, ((1, 2), (0, 3))), {"paddings": ((1, 2), (0, 3))}),
    "ArgMaxWithValue": Primitive(
        "ArgMaxWithValue",
        [ROWS, 1, True],
        lambda x: (x.argmax(1, keepdims=True).astype(np.int32), x.max(1, keepdims=True)),
    ),
    "ArgMinWithValue": Primitive(
        "ArgMinWithValue", [ROWS], lambda x: (x.argmin(0).astype(np.int32), x.min(0))
    ),
    **{
        f"ResizeBilinearV2 {name}": Primitive(
            "ResizeBilinearV2",
            [X, (9, 4), name == "corners", name == "centres"],
            lambda x, places=places: resized(x, (9, 4), places),
        )
        for name, places in ADDRESSES.items()
    },
    "ResizeNearestNeighborV2": Primitive(
        "ResizeNearestNeighborV2",
        [X, (9, 4), False, False],
        lambda x: resized(x, (9, 4), ADDRESSES["edges"], True),
    ),
    "ResizeNearestNeighborV2 corners": Primitive(
        "ResizeNearestNeighborV2",
        [X, (9, 4), True, False],
        lambda x: resized(
            x, (9, 4), lambda size, made: np.floor(ADDRESSES["corners"](size, made) + 0.5), True
        ),
    ),
}


def arrays_of(given: Sequence[Any]) -> list[Array]:
    flat = [item for one in given for item in (one if isinstance(one, tuple) else (one,))]
    return [item for item in flat if isinstance(item, np.ndarray)]


def loaded(folder: Path, case: Primitive, results: Sequence[Array | None]) -> Graph:
    """The network of one primitive, read from a file."""
    path = folder / "net.mindir"
    path.write_bytes(network(case.kind, case.given, results, case.attributes).SerializeToString())
    return asim.load(path)


def typed(case: Primitive, made: Any) -> list[Array | None]:
    """What is made, in the type of what is read where the result is of its kind."""
    kind = arrays_of(case.given)[0].dtype
    floats = np.dtype(np.float32) if kind.kind != "f" else kind
    results = made if isinstance(made, tuple) else (made,)
    return [
        None
        if one is None
        else np.asarray(one, floats)
        if np.asarray(one).dtype.kind == "f"
        else np.asarray(one)
        for one in results
    ]


@pytest.mark.parametrize("name", CASES)
def test_a_primitive_makes_what_mindspore_says(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    arrays = arrays_of(case.given)
    results = typed(case, case.wanted(*arrays))
    graph = loaded(tmp_path, case, results)
    given = dict(zip([tensor.name for tensor in graph.inputs], arrays, strict=True))
    made = evaluate(graph, default_opset(), given)
    for one, other in zip(made, [result for result in results if result is not None], strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(one, other, rtol=3e-5, atol=3e-5)
