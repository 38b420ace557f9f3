"""Operators element by element."""

from __future__ import annotations

from itertools import product

import numpy as np

from ascendsim.core.dtypes import DType
from tests.support.own_cases.making import Cases, one, some


def add_elementwise(cases: Cases) -> None:
    x, y = some(2, 40, 3, 5), some(2, 40, 3, 5, seed=1)
    for name in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Mod"):
        positive = some(2, 40, 3, 5, positive=True, seed=2)
        cases.add(name, some(2, 40, 3, 5, positive=True), positive)
        cases.add(name, positive, some(40, 1, 1, positive=True))
        cases.add(name, positive, some(1, 40, 1, 5, positive=True))
        cases.add(name, some(7, 1, positive=True), some(33, positive=True))
        for dtype in (np.int32, np.int8):
            cases.add(
                name,
                some(4, 6, dtype=dtype, positive=True) + dtype(1),
                some(4, 6, dtype=dtype, positive=True) % dtype(3) + dtype(1),
            )
        cases.add(name, some(4, 6, dtype=np.float64, positive=True), some(6, dtype=np.float64, positive=True))
    for exponent in (2.0, 3.0, 4.0, 0.5, -1.0, -0.5, 1.0, 1.7):
        cases.add("Pow", some(3, 9, positive=True), one(exponent))
    cases.add("Pow", some(3, 9, positive=True), np.array([2.0], np.float32))
    for name in ("Max", "Min", "Sum", "Mean"):
        cases.add(name, x)
        cases.add(name, x, y, some(5), some(40, 1, 1))
    for name in (
        "Relu",
        "Exp",
        "Gelu",
        "Sigmoid",
        "Tanh",
        "Not",
        "BitwiseNot",
        "Neg",
        "Softplus",
        "LeakyRelu",
        "Erf",
        "Floor",
    ):
        kinds = {"Not": (bool,), "BitwiseNot": (np.int8, np.int32, np.uint16, np.int64)}.get(
            name, (np.float32, np.float64, np.float16)
        )
        for dtype in kinds:
            cases.add(name, some(3, 20, 5, 7, dtype=dtype))
    for shape in ((3, 1, 1), (1,), (2, 3, 5, 7), (7,)):
        cases.add("PRelu", some(2, 3, 5, 7), some(*shape))
    cases.add("Clip", x, one(-0.5), one(0.5))
    cases.add("Clip", x, None, one(0.5))
    cases.add("Clip", x, one(-0.5))
    cases.add("Clip", x)
    cases.add("Where", some(40, 1, 1, dtype=bool), x, y)
    cases.add("Where", some(2, 40, 3, 5, dtype=bool), x, one(0.0))
    for name in ("Equal", "Greater", "LessOrEqual"):
        for dtype in (np.float32, np.float16, np.int32, np.int64, np.int8):
            cases.add(name, some(3, 33, dtype=dtype), some(33, dtype=dtype))
        cases.add(name, np.empty((0, 3), np.int64), np.zeros((1, 3), np.int64))
    for name in ("BitwiseAnd", "BitwiseXor", "BitwiseOr"):
        for dtype in (np.int8, np.int16, np.int32, np.int64):
            cases.add(name, some(3, 33, dtype=dtype), some(33, dtype=dtype))
    cases.add("IsInf", some(3, 33), detect_negative=0)
    cases.add("Cast", x, to=DType.FLOAT32)
    kinds = (np.float32, np.float16, np.int32, np.int8, np.uint8, np.int64, np.float64, bool)
    for source, target in product(kinds, kinds):
        if source is not target:
            cases.add("Cast", some(3, 11, dtype=source), to=DType.of(np.dtype(target)))
    cases.add("CastLike", some(3, 11), some(2, dtype=np.int32))
    cases.add("BitCast", some(3, 11), to=DType.INT32)
    cases.add("Binarizer", some(3, 11), domain="ai.onnx.ml", threshold=0.25)
    cases.add("SwiGLU", some(6, 34), some(6, 34, seed=1))
