"""Values and sizes at the ends of what there is."""

from __future__ import annotations

from itertools import product

import numpy as np

from ascendsim.core.dtypes import DType
from tests.support.own_cases.making import Cases, ints, one, some

SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, 3.4e38, -3.4e38, 1.0, -1.0, 0.5, -2.5, 1e-5, 89.0],
    np.float32,
)
UNARY = (
    "Abs", "Neg", "Sqrt", "Reciprocal", "Exp", "Log", "Floor", "Ceil", "Round", "Sign", "Erf", "Sin",
    "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Relu", "LeakyRelu",
    "Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "Elu", "Celu", "Selu", "Softplus", "Softsign", "Mish",
    "ThresholdedRelu", "Shrink", "IsNaN", "IsInf", "Gelu", "Identity",
)  # fmt: skip


def add_edges(cases: Cases) -> None:
    """Infinities, NaN, zeros of both signs, ends of integer ranges, tensors without elements and of rank
    0."""
    left, right = np.meshgrid(SPECIAL, SPECIAL)
    for name in UNARY:
        cases.add(name, SPECIAL)
        cases.add(name, np.float32(0.75).reshape(()))
        cases.add(name, np.empty((2, 0, 3), np.float32))
    for name in ("Add", "Sub", "Mul", "Div", "Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"):
        cases.add(name, left, right)
        cases.add(name, np.empty((2, 0, 3), np.float32), some(3))
        cases.add(name, one(2.0), one(0.5))
    for name in ("Max", "Min"):
        cases.add(name, left[:, 1:], right[:, 1:])
    for dtype in (np.int8, np.uint8, np.int16, np.int32, np.int64):
        ends = np.array([np.iinfo(dtype).min, np.iinfo(dtype).max, 1, 2, 7], dtype)
        a, b = (array.reshape(-1) for array in np.meshgrid(ends, ends[1:]))
        for name in ("Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Equal", "Greater"):
            cases.add(name, a, b)
        if dtype is not np.int16:
            cases.add("Abs" if dtype != np.uint8 else "Sign", ends[1:])
        cases.add("Cast", ends, to=DType.FLOAT32)
        cases.add("Clip", ends, np.array(2, dtype), np.array(7, dtype))
    cases.add("Mod", SPECIAL[9:], SPECIAL[9:][::-1].copy(), fmod=1)
    for direction, dtype in product(("LEFT", "RIGHT"), (np.uint8, np.uint32, np.uint64)):
        cases.add("BitShift", np.array([1, 200, 16], dtype), np.array([3, 1, 7], dtype), direction=direction)
    for name in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2"):
        # sums of means are wider than those of others
        cases.add(name, left[:, 1:] if name != "ReduceMean" else left[:, 9:], ints(0))
        cases.add(name, np.float32(2.5).reshape(()), keepdims=0)
    for name in ("ReduceSum", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare"):
        cases.add(name, np.empty((2, 0, 3), np.float32), ints(1))
        cases.add(name, np.empty((2, 0, 3), np.float32), ints(2))
    for name in ("Softmax", "LogSoftmax"):
        cases.add(
            name, np.array([[1e30, 0, -1e30], [-np.inf, 0, 0], [np.nan, 0, 0], [-0.0, 0.0, 1.0]], np.float32)
        )
        cases.add(name, np.empty((0, 3), np.float32))
        cases.add(name, some(3, 0, 2), axis=0)
    cases.add("MatMul", some(3, 0), some(0, 4))
    cases.add("MatMul", some(2, 0, 3), some(3, 4))
    cases.add("Gemm", some(3, 0), some(0, 4), some(4))
    for name in ("ArgMax", "ArgMin"):
        for last in (0, 1):
            cases.add(name, np.array([[3, 1, 3], [1, 1, 2]], np.float32), axis=1, select_last_index=last)
    cases.add("TopK", np.array([[3, 1, 3, 2], [1, 1, 2, 1]], np.float32), ints(3), outputs=2, largest=0)
    cases.add("Concat", np.empty((0, 3), np.float32), np.empty((0, 3), np.float32), axis=0)
    cases.add("Split", np.empty((0, 4), np.float32), ints(1, 3), outputs=2, axis=1)
    cases.add("Slice", some(3, 4), ints(2), ints(2))
    cases.add("Gather", some(3, 4), np.empty((0,), np.int64))
    cases.add("Tile", some(3, 4), ints(0, 2))
    cases.add("Expand", some(1, 4), ints(0, 4))
    cases.add("Pad", np.empty((0, 2), np.float32), ints(1, 0, 1, 1), one(2.0))
    cases.add("Transpose", np.empty((2, 0, 3), np.float32), perm=(2, 0, 1))
    cases.add("Transpose", one(2.0))
    cases.add("Where", np.array(True), one(2.0), some(3))
    cases.add("Resize", some(1, 1, 2, 2), None, np.array([1, 1, 0.4, 1], np.float32))
    cases.add("CumSum", np.empty((2, 0), np.float32), np.array(1, np.int64))
    cases.add(
        "OneHot", np.array([-1, 0, 9, -9], np.int64), np.array(5, np.int64), np.array([0, 1], np.float32)
    )
    cases.add(
        "QuantizeLinear",
        np.append(SPECIAL[1:], [0.5, 1.5, 2.5, -0.5, 127.5]).astype(np.float32),
        one(1.0),
        one(1, np.int8),
    )
    cases.add("DequantizeLinear", np.array([-128, 127, 0], np.int8), one(0.5), one(-128, np.int8))
    cases.add(
        "Cast",
        np.array([0.5, 1.5, 2.5, -1.5, 65519.9, 65520.0, 1e-8, np.nan, np.inf], np.float32),
        to=DType.FLOAT16,
    )
    cases.add("Cast", np.array([0.0, -0.0, 0.1, np.nan, -3], np.float32), to=DType.BOOL)
    cases.add("Cast", np.array([1.9, -1.9, 100.5, -0.4], np.float32), to=DType.INT32)
    cases.add(
        "Pow",
        np.array([-8.0, -2.0, 0.0, 4.0, 2.0], np.float32),
        np.array([1 / 3, 3.0, 0.0, -0.5, 0.0], np.float32),
    )
    cases.add("PRelu", SPECIAL[1:], one(0.25))
    cases.add(
        "BatchNormalization", np.empty((0, 4, 2), np.float32), *(some(4, positive=True) for _ in range(4))
    )
    cases.add("LayerNormalization", np.full((2, 3), 7, np.float32), some(3), some(3))
    cases.add("MaxPool", np.array([[[np.inf, -np.inf, 1, 2, 3]]], np.float32), kernel_shape=(2,))
    cases.add("MaxPool", np.array([[[5, -3, 100]]], np.int8), kernel_shape=(2,))
    cases.add(
        "AveragePool",
        some(1, 1, 4, 4),
        kernel_shape=(3, 3),
        strides=(2, 2),
        pads=(1, 1, 1, 1),
        ceil_mode=1,
        count_include_pad=1,
    )
    cases.add("NonZero", np.float32(3).reshape(()))
    cases.add("EyeLike", some(4, 3), k=-1)
    cases.add("Trilu", np.empty((2, 0, 3), np.float32))
