"""Operators between bytes."""

from __future__ import annotations

import numpy as np

from ascendsim.core.dtypes import DType
from tests.support.own_cases.making import Cases, one, some
from tests.support.own_cases.products import add_grouped, add_scaled_products


def add_quantised(cases: Cases) -> None:
    x, scale, zero = some(3, 20, 5, 7), some(20, positive=True), some(20, dtype=np.int8)
    for axis_scale, axis_zero in ((scale, zero), (one(0.1), one(3, np.int8)), (scale, None)):
        cases.add("QuantizeLinear", x, axis_scale, axis_zero, axis=1)
        cases.add("DequantizeLinear", some(3, 20, 5, 7, dtype=np.int8), axis_scale, axis_zero, axis=1)
    cases.add(
        "QuantizeLinear", some(4, 8), some(4, 2, positive=True), some(4, 2, dtype=np.uint8), block_size=4
    )
    a, b = some(5, 34, dtype=np.int8), some(34, 18, dtype=np.int8)
    cases.add("MatMulInteger", a, b, one(2, np.int8), some(18, dtype=np.int8))
    for columns in (some(18, positive=True), one(0.5)):
        zeros = some(18, dtype=np.int8) if columns.size > 1 else one(0, np.int8)
        cases.add(
            "QLinearMatMul", a, one(0.25), one(1, np.int8), b, columns, zeros, one(2.0), one(3, np.int8)
        )
    add_scaled_products(cases)
    add_grouped(cases)
    image, weight = some(2, 20, 6, 7, dtype=np.int8), some(12, 20, 3, 2, dtype=np.int8)
    cases.add("ConvInteger", image, weight, one(2, np.int8), strides=(2, 1), pads=(1, 0, 0, 1))
    for columns in (some(12, positive=True), one(0.5)):
        parts = (one(0.25), one(1, np.int8), weight, columns, one(0, np.int8), one(2.0), one(3, np.int8))
        cases.add("QLinearConv", image, *parts, some(12, dtype=np.int32), strides=(2, 1))
    for shape in ((3, 20, 5, 7), (32, 40), (17,)):
        cases.ascend("AscendQuant", some(*shape), scale=20.0, offset=3.0)
        sums = some(*shape, dtype=np.int32) * 17
        for values in (one(0.25), some(20, positive=True)) if len(shape) == 4 else (one(0.25),):
            for relu in (0, 1):
                cases.ascend("AscendDequant", sums, values, relu_flag=relu, dtype=DType.FLOAT16)
                cases.ascend("AscendRequant", sums, values, relu_flag=relu, offset=2.0)
    for columns in (one(0.25), some(18, positive=True)):
        cases.ascend("DequantMatMul", a, b, one(2, np.int8), some(18, dtype=np.int8), columns)
        cases.ascend("DequantMatMul", a, b, one(2, np.int8), one(0, np.int8), one(0.5), columns)
    for channels in (one(0.25), some(1, 12, 1, 1, positive=True)):
        more = {"strides": (2, 1), "pads": (1, 0, 0, 1)}
        cases.ascend("DequantConv", image, weight, one(2, np.int8), one(0, np.int8), channels, **more)
    add_between_bytes(cases)
    cases.ascend("AscendWeightQuant", weight, one(2, np.int8))
    cases.ascend("AscendWeightQuant", weight, some(12, 1, 1, 1, dtype=np.int8))
    for more, scales in (
        ({}, None),
        ({"offset_x": 3}, None),
        ({"offset_x": 3, "offset_in_bias": 1}, one(0.25)),
        ({"relu_flag": 1}, some(12, positive=True)),
        ({"relu_flag": 1, "quant_scale": 0.05, "quant_offset": 3.0, "dtype": DType.INT8}, one(0.25)),
    ):
        cases.ascend(
            "QuantConv",
            image,
            weight,
            some(12, dtype=np.int32),
            scales,
            pads=(1, 0, 0, 1),
            **{"dtype": DType.FLOAT16, **more},
        )


def add_between_bytes(cases: Cases) -> None:
    """Operators of integers in onnxruntime's domain."""
    domain = {"domain": "com.microsoft"}
    x, y, row = (
        some(3, 4, 5, 6, dtype=np.int8),
        some(3, 4, 5, 6, dtype=np.int8, seed=1),
        some(6, dtype=np.int8),
    )
    first, second, result = (
        (one(scale), one(zero, np.int8)) for scale, zero in ((0.3, 2), (0.2, -3), (0.4, 1))
    )
    for other in (y, row):
        cases.add("QLinearAdd", x, *first, other, *second, *result, **domain)
        cases.add("QLinearMul", x, *first, other, *second, *result, **domain)
    cases.add("QLinearSigmoid", x, *first, one(1 / 128), one(-100, np.int8), **domain)
    cases.add("QLinearLeakyRelu", x, *first, *result, alpha=0.2, low=-3, high=9, **domain)
    cases.add("QLinearLeakyRelu", x, *first, *result, alpha=0.2, **domain)
    part = some(3, 2, 5, 6, dtype=np.int8)
    cases.add("QLinearConcat", *result, x, *first, part, *second, axis=1, **domain)
    window = {"kernel_shape": (3, 2), "strides": (2, 1), "pads": (1, 0, 1, 1)}
    cases.add("QLinearAveragePool", x, *first, *result, **window, **domain)
    cases.add("QLinearGlobalAveragePool", x, *first, *result, **domain)
    for axes, kept in (((2, 3), 1), ((-1,), 0), ((0, 2), 0)):
        cases.add("QLinearReduceMean", x, *first, *result, axes=axes, keepdims=kept, **domain)
    a, b, bias = some(5, 7, dtype=np.int8), some(3, 7, dtype=np.int8), some(3, dtype=np.int32)
    columns, zeros = some(3, positive=True), np.zeros(3, np.int8)
    cases.add("QGemm", a, *first, b, columns, zeros, bias, *result, transB=1, **domain)
    cases.add("QGemm", a, *first, b.T.copy(), one(0.1), one(0, np.int8), bias, alpha=0.5, **domain)
    batch = some(2, 5, 7, dtype=np.int8)
    cases.add("QGemm", batch, *first, b, columns, zeros, bias, *result, transB=1, **domain)
    cases.add("QLinearSoftmax", x, *first, one(1 / 255), one(-128, np.int8), axis=-1, opset=13, **domain)
    cases.add("QLinearSoftmax", x, *first, one(1 / 255), one(-128, np.int8), axis=1, opset=13, **domain)
    which = some(3, 4, 5, 6, dtype=bool)
    cases.add("QLinearWhere", which, x, *first, y, *second, *result, **domain)
    cases.add("QLinearWhere", which, x, *first, row, *second, *result, **domain)
    cases.ascend("QuantSwish", x, *first, *result)
    cases.ascend("AscendAntiQuant", x, scale=0.25, offset=3.0, dtype=DType.FLOAT16)
    cases.ascend("AscendAntiQuant", x)
    cases.ascend("QuantMatMul", a, b, bias, transB=1, offset_x=2)
    cases.ascend("QuantMatMul", a, b.T.copy())
    image, filters = some(2, 5, 6, 7, dtype=np.int8), some(5, 4, 3, 2, dtype=np.int8)
    more = {"strides": (2, 1), "pads": (1, 0, 0, 1)}
    for steps in (some(4, positive=True), one(0.1)):
        weights = (filters, steps, one(0, np.int8))
        cases.ascend("QuantConvTranspose", image, *first, *weights, *result, some(4, dtype=np.int32), **more)
