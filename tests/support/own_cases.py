"""Cases of operators that ONNX's suite has none of, and forms of others that it lacks: uneven sizes, runs of
whole blocks, many axes.

Sizes of one case differ from each other wherever they may, so that no law holds by the chance that two are
equal.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.passes.aipp.settings import AippSettings
from tests.support.operator_cases import Case

Array = Any


def some(*shape: int, dtype: Any = np.float32, positive: bool = False, seed: int = 0) -> Array:
    """Seeded numbers: normally distributed, or (positive) from 0.5 to 1.5, or small integers."""
    generator = np.random.default_rng([seed, *shape])
    if np.dtype(dtype).kind in "iu":
        return generator.integers(0 if np.dtype(dtype).kind == "u" or positive else -9, 10, shape).astype(
            dtype
        )
    if dtype is bool:
        return generator.random(shape) < 0.5
    return (generator.random(shape) + 0.5 if positive else generator.standard_normal(shape)).astype(dtype)


def ints(*values: int) -> Array:
    """An int64 vector."""
    return np.array(values, np.int64)


def one(value: float, dtype: Any = np.float32) -> Array:
    """A scalar."""
    return np.array(value, dtype)


class Cases(list[Case]):
    """A list of cases with what makes them."""

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self.prefix = prefix

    def add(
        self, op_type: str, *inputs: Array | None, outputs: int = 1, domain: str = "", **attributes: Any
    ) -> None:
        self.append(
            Case(f"{self.prefix}_{op_type}_{len(self)}", op_type, inputs, outputs, domain, attributes)
        )

    def ascend(self, op_type: str, *inputs: Array | None, outputs: int = 1, **attributes: Any) -> None:
        self.add(op_type, *inputs, outputs=outputs, domain="ascend", **attributes)


@cache
def own_cases() -> tuple[Case, ...]:
    """Those with sizes of every kind."""
    from tests.support.gradient_cases import add_training

    cases = Cases("own")
    for write in (
        _elementwise,
        _windows,
        _products,
        _reductions,
        _normalisations,
        _movement,
        _indexing,
        _made,
        _recurrent,
        _quantised,
    ):
        write(cases)
    for write in (_fused, _gradients, _updates, _markers, _images, add_training):
        write(cases)
    from tests.support.language_cases import add_language
    from tests.support.training_cases import write_all

    write_all(cases)
    add_language(cases)
    return tuple(cases)


@cache
def edge_cases() -> tuple[Case, ...]:
    """Those with values and sizes at the ends of what there is."""
    cases = Cases("edge")
    _edges(cases)
    return tuple(cases)


def _elementwise(cases: Cases) -> None:
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
        cases.add(name, np.empty((0, 3), np.int64), np.empty((1, 3), np.int64))
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


def _windows(cases: Cases) -> None:
    def conv(x: tuple[int, ...], w: tuple[int, ...], bias: bool = True, **attributes: Any) -> None:
        cases.add("Conv", some(*x), some(*w), some(w[0]) if bias else None, **attributes)

    conv((2, 20, 9, 11), (33, 20, 3, 5), strides=(2, 1), pads=(1, 2, 0, 1), dilations=(1, 2))
    conv((1, 24, 8, 7), (36, 6, 3, 2), bias=False, group=4, strides=(1, 2))
    conv((2, 24, 8, 7), (48, 1, 3, 3), group=24, auto_pad="SAME_UPPER", strides=(2, 2))
    conv((2, 5, 13), (7, 5, 4), strides=(3,), pads=(2, 1))
    conv((1, 4, 5, 6, 7), (6, 2, 2, 3, 1), group=2, strides=(1, 2, 1), pads=(1, 0, 0, 0, 1, 0))
    conv((2, 16, 5, 6), (32, 16, 1, 1), activation="relu")
    conv((1, 16, 6, 5), (8, 16, 3, 2), auto_pad="SAME_LOWER")
    for group in (1, 2):
        shape = (6, 4 // group, 3, 2)
        cases.add(
            "ConvTranspose",
            some(2, 6, 5, 4),
            some(*shape),
            some(4),
            group=group,
            strides=(2, 3),
            pads=(1, 0, 0, 1),
        )
    cases.add(
        "ConvTranspose", some(1, 3, 7), some(3, 2, 4), None, strides=(2,), dilations=(2,), output_padding=(1,)
    )
    cases.add("ConvTranspose", some(1, 3, 3, 4, 5), some(3, 2, 2, 1, 3), None, strides=(2, 1, 1))
    cases.add("ConvTranspose", some(1, 2, 4, 5), some(2, 3, 1, 2), None, pads=(1, 1, 1, 0))
    cases.add(
        "ConvTranspose", some(1, 2, 4, 5), some(2, 3, 3, 3), None, auto_pad="SAME_UPPER", strides=(3, 2)
    )
    cases.add("ConvTranspose", some(1, 2, 4, 5), some(2, 3, 3, 3), None, output_shape=(9, 14), strides=(2, 3))
    for name in ("MaxPool", "AveragePool", "LpPool"):
        pooled = some(2, 20, 9, 11, positive=True)
        more: dict[str, Any] = {"p": 3} if name == "LpPool" else {}
        cases.add(name, pooled, kernel_shape=(3, 2), strides=(2, 1), pads=(1, 0, 0, 1), **more)
        cases.add(name, pooled, kernel_shape=(3, 2), strides=(1, 1), **more)
        cases.add(name, pooled, kernel_shape=(2, 3), strides=(2, 2), auto_pad="SAME_LOWER", **more)
        cases.add(name, pooled, kernel_shape=(4, 4), strides=(3, 3), ceil_mode=1, dilations=(1, 2), **more)
        cases.add(name, some(2, 3, 13, positive=True), kernel_shape=(4,), strides=(3,), **more)
        cases.add(name, some(1, 2, 4, 5, 6, positive=True), kernel_shape=(2, 3, 2), strides=(1, 2, 2), **more)
    cases.add("MaxPool", some(2, 20, 9, 11), outputs=2, kernel_shape=(3, 2), strides=(2, 1))
    cases.add("AveragePool", some(2, 20, 9, 11), kernel_shape=(3, 2), pads=(1, 0, 0, 1), count_include_pad=1)
    for order in (1, 2, 3):
        cases.add("LpPool", some(2, 20, 9, 11), kernel_shape=(3, 2), p=order)
        cases.add("GlobalLpPool", some(2, 20, 3, 5), p=order)
    for name in ("GlobalMaxPool", "GlobalAveragePool"):
        for shape in ((2, 20, 3, 5), (2, 3, 7), (2, 3, 2, 3, 4)):
            cases.add(name, some(*shape))
    rois = np.array([[0, 0, 0, 6, 4], [1, 2, 1, 9, 7], [1, 3, 3, 3, 3]], np.float32)
    cases.add("MaxRoiPool", some(2, 5, 9, 11), rois, pooled_shape=(2, 3), spatial_scale=0.75)
    for mode, sampling in (("avg", 2), ("max", 0), ("avg", 3)):
        cases.add(
            "RoiAlign",
            some(2, 5, 9, 11),
            rois[:, 1:],
            rois[:, 0].astype(np.int64),
            mode=mode,
            sampling_ratio=sampling,
            output_height=2,
        )
    x, w = some(1, 4, 6, 7), some(6, 2, 3, 2)
    offset, mask = some(1, 2 * 6 * 2, 4, 6), some(1, 2 * 6, 4, 6, positive=True)
    cases.add("DeformConv", x, w, offset, some(6), mask, group=2, offset_group=2)
    cases.add("Resize", some(2, 20, 3, 5), None, np.array([1, 1, 2, 3], np.float32))
    for mode, scales in product(
        ("nearest", "linear", "cubic"), ((1, 1, 2, 2.5), (1, 1, 0.5, 1), (2, 1, 1, 1))
    ):
        cases.add("Resize", some(2, 20, 4, 5), None, np.array(scales, np.float32), mode=mode)
    for mode, size in product(("linear", "cubic"), ((2, 20, 7, 9), (2, 20, 8, 5))):
        cases.add(
            "Resize",
            some(2, 20, 4, 5),
            None,
            None,
            ints(*size),
            mode=mode,
            coordinate_transformation_mode="align_corners",
        )
    cases.add(
        "Resize", some(2, 20, 9, 8), None, np.array([1, 1, 0.4, 0.5], np.float32), mode="linear", antialias=1
    )
    cases.add("Resize", some(2, 3, 9), None, np.array([1, 2, 1], np.float32))
    for mode in ("linear", "cubic", "nearest"):
        cases.add("GridSample", some(2, 3, 5, 7), some(2, 4, 6, 2), mode=mode)
    cases.add("GridSample", some(2, 3, 5, 7, 4), some(2, 4, 6, 2, 3), mode="linear")
    cases.add(
        "MaxUnpool",
        some(1, 2, 2, 3),
        np.arange(12).reshape(1, 2, 2, 3) * 3,
        kernel_shape=(2, 2),
        strides=(2, 2),
    )


def _products(cases: Cases) -> None:
    for a, b in (
        ((5, 34), (34, 18)),
        ((3, 5, 34), (34, 18)),
        ((2, 3, 5, 34), (3, 34, 18)),
        ((5, 34), (2, 34, 18)),
        ((34,), (34, 18)),
        ((5, 34), (34,)),
    ):
        cases.add("MatMul", some(*a), some(*b))
        cases.add("MatMul", some(*a, dtype=np.int32), some(*b, dtype=np.int32))
    cases.add("MatMul", some(5, 34, dtype=np.float64), some(34, 18, dtype=np.float64))
    for third, (alpha, beta) in product(
        (None, (18,), (5, 18), (5, 1), (1,), (), (1, 18)), ((1.0, 1.0), (0.5, 1.0), (1.0, 0.25), (2.0, 0.5))
    ):
        cases.add(
            "Gemm", some(5, 34), some(34, 18), None if third is None else some(*third), alpha=alpha, beta=beta
        )
    for turned, other in ((0, 1), (1, 0), (1, 1)):
        a, b = some(*((34, 5) if turned else (5, 34))), some(*((18, 34) if other else (34, 18)))
        cases.add("Gemm", a, b, some(18), transA=turned, transB=other)
        cases.ascend("BatchMatMul", np.stack([a, a]), b, some(18), adj_x1=turned, adj_x2=other)
        cases.ascend("BatchMatMul", a, np.stack([b, b, b]), adj_x1=turned, adj_x2=other)
        cases.ascend("CompositeMatMul", np.stack([a, a]), b, transpose_a=turned, transpose_b=other)
    cases.add("Gemm", some(5, 34, dtype=np.int32), some(34, 18, dtype=np.int32))
    cases.ascend(
        "CompositeMatMul",
        some(2, 3, 16, 16),
        some(4, 2, 16, 16),
        format_a="FRACTAL_NZ",
        format_b="FRACTAL_NZ",
        format_out="FRACTAL_NZ",
    )
    cases.ascend(
        "CompositeMatMul", some(5, 2, 3, 16, 16), some(32, 7), format_a="FRACTAL_NZ", to=DType.FLOAT32
    )
    shapes = {
        "ij,jk->ik": ((5, 34), (34, 18)),
        "bij,bjk->bik": ((3, 5, 34), (3, 34, 18)),
        "bhqd,bhkd->bhqk": ((2, 3, 5, 8), (2, 3, 7, 8)),
        "ij,kj->ik": ((5, 34), (18, 34)),
        "ij,j->i": ((5, 34), (34,)),
        "i,j->ij": ((5,), (7,)),
        "ij->ji": ((5, 7),),
        "ij->i": ((5, 7),),
        "ij,jk,kl->il": ((5, 7), (7, 3), (3, 4)),
        "...ij,...jk->...ik": ((2, 5, 7), (2, 7, 3)),
        "abc,cd->abd": ((2, 5, 7), (7, 3)),
    }
    for equation, operands in shapes.items():
        cases.add("Einsum", *(some(*shape) for shape in operands), equation=equation)
    cases.ascend("FullyConnection", some(3, 20, 2, 4), some(33, 20, 2, 4), some(33), activation="relu")
    cases.ascend("FullyConnection", some(3, 20), some(33, 20))


def _reductions(cases: Cases) -> None:
    names = (
        "ReduceSum",
        "ReduceMean",
        "ReduceMax",
        "ReduceMin",
        "ReduceProd",
        "ReduceL1",
        "ReduceL2",
        "ReduceSumSquare",
        "ReduceLogSum",
    )
    for name in (*names, "ReduceLogSumExp"):
        x = some(3, 20, 5, 7, positive=True)
        for axes in ((-1,), (2, 3), (1,), (0, 2, 3), (0,), (0, 2)):
            cases.add(name, x, ints(*axes), keepdims=int(len(axes) != 2))
        cases.add(name, x)
        cases.add(name, x, noop_with_empty_axes=1)
        cases.add(name, some(6, 1, 5, positive=True), ints(1))
        cases.add(name, some(3, 7, dtype=np.int32), ints(1))
        cases.add(name, some(3, 7, dtype=np.float64, positive=True), ints(0))
    cases.add("ReduceMean", some(3, 600, 5, 7), ints(2, 3))
    cases.add("ReduceMax", some(3, 7, dtype=np.int8), ints(1))
    for name in ("Softmax", "LogSoftmax", "Hardmax", "LpNormalization"):
        for axis in (-1, 1, 0):
            cases.add(name, some(3, 20, 5, 7), axis=axis)
        cases.add(name, some(3, 32, 48), axis=-1)
        cases.add(name, some(11))
        cases.add(name, some(3, 7, dtype=np.float64))
    cases.add("LpNormalization", some(3, 20), p=1)
    for name in ("ArgMax", "ArgMin"):
        for axis, keep in ((0, 1), (1, 0), (-1, 1)):
            for dtype in (np.float32, np.int32, np.float64):
                cases.add(name, some(3, 20, 5, dtype=dtype), axis=axis, keepdims=keep)
    for dtype, axis in product((np.float32, np.float16, np.int64), (-1, 0)):
        cases.add("TopK", some(40, 100, dtype=dtype), ints(3), outputs=2, axis=axis)
    for length in (32, 33, 128, 129, 512, 513):
        cases.add("TopK", some(2, length, dtype=np.float16), ints(3), outputs=2)
    for name in ("CumSum", "CumProd"):
        for axis in (0, 1, -1):
            cases.add(name, some(3, 20, 5, positive=True), np.array(axis, np.int64), reverse=axis % 2)
        cases.add(name, some(3, 20, dtype=np.float64), np.array(1, np.int64))
    for shape in ((6, 5), (6, 5, 3)):
        labels = some(shape[0], *shape[2:], dtype=np.int64, positive=True) % 5
        for reduction, weight in product(("none", "mean", "sum"), (None, some(5, positive=True))):
            cases.add("NegativeLogLikelihoodLoss", some(*shape), labels, weight, reduction=reduction)
            cases.add(
                "SoftmaxCrossEntropyLoss",
                some(*shape),
                labels,
                weight,
                outputs=2,
                reduction=reduction,
                ignore_index=1,
            )


def _normalisations(cases: Cases) -> None:
    for shape in ((2, 20, 3, 5), (6, 20), (2, 20, 7)):
        values = [some(20, positive=True, seed=number) for number in range(4)]
        cases.add("BatchNormalization", some(*shape), *values)
        cases.add("BatchNormalization", some(*shape), *values, outputs=3, training_mode=1, momentum=0.75)
        cases.ascend("BNInference", some(*shape), *values)
        for name in ("BNInferenceD", "Scale"):
            cases.ascend(name, some(*shape), *values[:2])
        cases.ascend("Scale", some(*shape), values[0])
        cases.ascend("BNTrainingReduce", some(*shape), outputs=2)
        sums = [some(20, positive=True, seed=4), some(20, positive=True, seed=5) + 5]
        cases.ascend("BNTrainingUpdate", some(*shape), *sums, *values, outputs=3, momentum=0.75)
        big, stats = (
            [some(*shape, seed=number) for number in (1, 2)],
            [some(20, positive=True, seed=number) for number in range(6)],
        )
        for training in (0, 1):
            cases.ascend("BatchNormGrad", *big, *stats[:3], outputs=3, training_mode=training)
        cases.ascend("BNTrainingUpdateGrad", *big, *stats[:2], outputs=2)
        cases.ascend("BNTrainingReduceGrad", *big, *stats[:5])
    for name in ("LayerNormalization", "RMSNormalization"):
        for axis in (-1, 1):
            shape = (20, 5, 7)[axis:] if axis == -1 else (20, 5, 7)
            bias = [some(*shape, seed=1)] if name == "LayerNormalization" else []
            cases.add(name, some(3, 20, 5, 7), some(*shape), *bias, axis=axis)
        cases.add(name, some(3, 32, 48), some(1), axis=-1)
        cases.add(name, some(3, 7, dtype=np.float64), some(7, dtype=np.float64))
    cases.add("LayerNormalization", some(3, 20, 7), some(7), some(7), outputs=3)
    cases.add("GroupNormalization", some(3, 20, 5, 7), some(20), some(20), num_groups=4)
    cases.add("InstanceNormalization", some(3, 20, 5, 7), some(20), some(20))
    for axes in ((0, 2, 3), (1,), (2, 3), (1, 3)):
        cases.add("MeanVarianceNormalization", some(3, 20, 5, 7), axes=axes)
    for size in (1, 3, 4):
        cases.add("LRN", some(2, 20, 3, 5), size=size, alpha=0.5, beta=0.5, bias=2.0)


def _movement(cases: Cases) -> None:
    for shape, orders in (
        ((2, 20, 32), ((1, 0, 2), (0, 2, 1), (2, 1, 0))),
        ((2, 3, 40, 64), ((0, 2, 1, 3), (0, 2, 3, 1), (3, 2, 1, 0))),
    ):
        for perm in orders:
            for dtype in (np.float32, np.int8, np.int64):
                cases.add("Transpose", some(*shape, dtype=dtype), perm=perm)
    cases.add("Transpose", some(20, 30, 3), perm=(1, 0, 2))
    cases.add("Transpose", some(1, 20, 1, 30), perm=(2, 1, 0, 3))
    for axis, parts in ((1, (32, 16, 48)), (1, (20, 3)), (0, (2, 2)), (-1, (2, 2)), (2, (3, 3))):
        arrays = []
        for number, size in enumerate(parts):
            shape = [2, 20, 3, 2]
            shape[axis] = size
            arrays.append(some(*shape, seed=number))
        cases.add("Concat", *arrays, axis=axis)
        cases.add("Concat", *(array[:1] if axis else array for array in arrays), axis=axis)
        whole = np.concatenate(arrays, axis=axis)
        cases.add("Split", whole, ints(*parts), outputs=len(parts), axis=axis)
        cases.add("Split", whole[:1] if axis else whole, ints(*parts), outputs=len(parts), axis=axis)
    cases.add("Split", some(7, 6), outputs=3, axis=0, num_outputs=3)
    cases.add("Concat", some(2, 0, 3), some(2, 4, 3), axis=1)
    x = some(6, 20, 34)
    for starts, ends, axes, steps in (
        ((1,), (5,), (0,), (1,)),
        ((2,), (18,), (1,), (1,)),
        ((3,), (19,), (2,), (1,)),
        ((1, 2), (6, 30), (0, 2), (2, 3)),
        ((-1,), (-30,), (2,), (-2,)),
        ((-5, 0), (1000, -1), (-2, 0), (1, 1)),
        ((-1,), (-1000,), (0,), (-1,)),
        ((0, 1), (6, 20), (0, 1), (1, 2)),
    ):
        for dtype in (np.float32, np.int8):
            cases.add("Slice", x.astype(dtype), ints(*starts), ints(*ends), ints(*axes), ints(*steps))
    cases.add("Slice", x, ints(1, 2), ints(4, 9))
    for source, target in (
        ((3, 1), (2, 3, 32)),
        ((20, 1), (20, 7)),
        ((1, 7), (20, 7)),
        ((1,), (40, 50)),
        ((3, 1, 16), (3, 5, 16)),
        ((3, 4), (1, 1)),
    ):
        for dtype in (np.float32, np.int64, np.int8):
            cases.add("Expand", some(*source, dtype=dtype), ints(*target))
    for source, repeats in (
        ((3, 20), (2, 1)),
        ((3, 20), (1, 3)),
        ((3, 1), (1, 7)),
        ((2, 3, 16), (1, 4, 1)),
        ((3, 20), (1, 1)),
        ((1, 1), (30, 40)),
    ):
        cases.add("Tile", some(*source), ints(*repeats))
    for mode in ("constant", "reflect", "edge", "wrap"):
        for pads in ((0, 0, 1, 2, 0, 0, 2, 1), (0, 0, 1, 0, 0, 0, 1, 0), (0, 1, 0, 0, 0, 1, 0, 0)):
            cases.add("Pad", some(2, 20, 5, 7), ints(*pads), mode=mode)
    cases.add("Pad", some(2, 20, 5, 8), ints(-1, 1, 0, 2), one(3.0), ints(-1, 1))
    cases.add("CenterCropPad", some(5, 20, 7), ints(8, 3), axes=(1, 2))
    cases.add("CenterCropPad", some(5, 20, 7), ints(6, 17, 8))
    for mode, shape in product(("DCR", "CRD"), ((2, 36, 5, 7), (1, 8, 3, 64))):
        cases.add("DepthToSpace", some(*shape), blocksize=2, mode=mode)
        cases.add("SpaceToDepth", some(shape[0], shape[1], 6, 8), blocksize=2, mode=mode)
    cases.add("ReverseSequence", some(5, 3, 7), ints(5, 2, 0), time_axis=0, batch_axis=1)
    cases.add("ReverseSequence", some(3, 5, 16), ints(5, 2, 1), time_axis=1, batch_axis=0)
    for k, upper in product((None, 2, -3), (0, 1)):
        cases.add("Trilu", some(2, 6, 9), None if k is None else np.array(k, np.int64), upper=upper)
    cases.add("Col2Im", some(2, 30, 16), ints(5, 6), ints(2, 3))
    cases.add("Col2Im", some(2, 30, 9), ints(5, 6), ints(2, 3), strides=(2, 2), pads=(0, 1, 1, 0))
    for target in ((6, 20), (-1, 5), (0, 0, 40)):
        cases.add("Reshape", some(*((3, 1, 40) if 0 in target else (3, 40))), ints(*target))
    cases.add("Reshape", some(0, 3), ints(3, 0), allowzero=1)
    for axis in (0, 1, -1, 3):
        cases.add("Flatten", some(3, 20, 7), axis=axis)
    cases.add("Squeeze", some(3, 1, 20, 1), ints(1, -1))
    cases.add("Squeeze", some(3, 1, 20, 1))
    cases.add("Unsqueeze", some(3, 20), ints(0, -1))
    for training in (None, False, True):
        ports = (one(0.25), None if training is None else np.array(training))
        cases.add("Dropout", some(3, 20), *ports, outputs=2, seed=3)
        cases.add("Dropout", some(3, 20), *ports, seed=3)
    cases.add("Shape", some(3, 20, 7, 2), start=1, end=-1)
    for source, target in (("ND", "FRACTAL_NZ"), ("FRACTAL_NZ", "ND")):
        for shape in ((20, 40), (32, 48), (3, 20, 48)):
            cases.ascend("TransData", some(*shape, dtype=np.float16), src_format=source, dst_format=target)
    for source, target in (
        ("NCHW", "NC1HWC0"),
        ("NC1HWC0", "NCHW"),
        ("NCHW", "FRACTAL_Z"),
        ("FRACTAL_Z", "NCHW"),
        ("NCHW", "ND"),
        ("NC1HWC0", "FRACTAL_NZ"),
    ):
        for shape, dtype in product(((2, 20, 5, 7), (33, 3, 3, 3)), (np.float16, np.int8, np.float32)):
            cases.ascend("TransData", some(*shape, dtype=dtype), src_format=source, dst_format=target)


def _indexing(cases: Cases) -> None:
    table = some(20, 7, 16)
    for axis in (0, 1, 2):
        for dtype in (np.float32, np.int8):
            cases.add("Gather", table.astype(dtype), np.array([[0, 3, -1], [2, 1, 1]], np.int64), axis=axis)
    cases.add("Gather", table, np.array(3, np.int64))
    cases.add("GatherElements", some(5, 20), some(4, 20, dtype=np.int64, positive=True) % 5)
    cases.add("GatherElements", some(5, 20, dtype=np.int64), some(5, 3, dtype=np.int64), axis=1)
    cases.add("GatherND", table, np.array([[0, 3], [2, 1], [-1, 6]], np.int64))
    cases.add("GatherND", some(3, 7, 16), np.array([[[0, 3], [2, 1]]] * 3, np.int64), batch_dims=1)
    cases.add("GatherND", some(3, 7, 4), np.array([[0], [2]], np.int64))
    for reduction in ("none", "add", "mul", "max", "min"):
        cases.add(
            "ScatterElements",
            some(5, 20),
            some(4, 20, dtype=np.int64, positive=True) % 5,
            some(4, 20),
            reduction=reduction,
        )
        cases.add(
            "ScatterND", some(9, 3, 16), ints(0, 3, 3, 8).reshape(4, 1), some(4, 3, 16), reduction=reduction
        )
        cases.add("ScatterND", some(9, 5), np.array([[0, 3], [8, 1]], np.int64), some(2), reduction=reduction)
    cases.add("ScatterND", some(9, 7), ints(0, 3).reshape(2, 1), some(2, 7))
    cases.add("ScatterND", some(9, 8), ints(0, 3).reshape(2, 1), some(2, 8))
    cases.add("ScatterElements", some(5, 20), np.zeros((0, 20), np.int64), some(0, 20))
    cases.add("TensorScatter", some(2, 3, 9, 4), some(2, 3, 2, 4), ints(1, 7))
    cases.add("TensorScatter", some(2, 9, 4), some(2, 3, 4), ints(7, 8), axis=1, mode="circular")
    cases.add("Compress", some(5, 20), np.array([True, False, True, True]), axis=0)
    cases.add("NonZero", some(5, 20, dtype=np.int32))
    for axis, order in product((None, 0, 1), (0, 1)):
        more = {} if axis is None else {"axis": axis}
        cases.add("Unique", some(6, 3, dtype=np.int64) % 2, outputs=4, sorted=order, **more)
    boxes, scores = (
        np.sort(some(2, 6, 2, 2, positive=True), axis=2).reshape(2, 6, 4),
        some(2, 3, 6, positive=True),
    )
    for center in (0, 1):
        cases.add("NonMaxSuppression", boxes, scores, ints(2), one(0.4), one(0.8), center_point_box=center)
    cases.add("NonMaxSuppression", boxes, scores, ints(3))
    cases.ascend(
        "Proposal",
        some(2, 4, 3, 5, positive=True),
        some(2, 8, 3, 5) / 4,
        np.array([[40, 60, 1], [50, 70, 1]], np.float32),
        outputs=2,
        **{"base_size": 12.0, "ratio": (1.0, 2.0), "scale": (1.0,), "min_size": 4.0, "post_nms_topn": 16},
    )
    sixteen = np.arange(16, dtype=np.float32)
    boxes = np.stack([sixteen, sixteen / 2, sixteen * 3, sixteen + 9], axis=1)
    chosen = {"score_threshold": 0.25, "k": 16, "min_size": 4.0, "nms_threshold": 0.5, "post_nms_num": 16}
    cases.ascend("RpnProposalsD", boxes, some(16, 1, positive=True), img_size=(20, 30), **chosen)
    cases.ascend("RpnProposals", boxes, some(16, 1, positive=True), np.array([20, 30], np.int32), **chosen)
    cases.ascend("MapIndex", np.array([3, 4], np.int32), np.array([1, 2, 3, 4, 5, 6], np.int32))


def _made(cases: Cases) -> None:
    for name, more in (
        ("RandomUniform", {"low": 2.0, "high": 3.0}),
        ("RandomNormal", {"mean": 50.0, "scale": 0.5}),
    ):
        cases.add(name, shape=(3, 20), seed=1.5, **more)
        cases.add(name, shape=(3, 20), dtype=DType.FLOAT16, **more)
        cases.add(f"{name}Like", some(3, 20), **more)
    cases.add("Multinomial", some(3, 5), sample_size=4, seed=2.0)
    cases.add("EyeLike", some(6, 9), k=2, dtype=DType.FLOAT32)
    cases.add(
        "OneHot", some(6, 3, dtype=np.int64), np.array(7, np.int64), np.array([2, 5], np.float32), axis=1
    )
    cases.add("ConstantOfShape", ints(3, 20), value=np.array([7], np.int64))
    cases.add("ConstantOfShape", ints(3, 0))
    cases.add("Range", *(np.array(v, np.int64) for v in (3, 20, 4)))
    cases.add("Range", *(np.array(v, np.float32) for v in (3, -2, -0.5)))
    cases.add("Det", some(3, 4, 4))
    cases.add("DFT", some(2, 10, 1), np.array(16, np.int64), onesided=1)
    cases.add("DFT", some(2, 10, 2), inverse=1)
    cases.add("STFT", some(2, 40, 1), np.array(3, np.int64), None, np.array(8, np.int64))


def _recurrent(cases: Cases) -> None:
    for name, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        for direction, count in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
            x, w, r = some(5, 2, 3), some(count, gates * 4, 3), some(count, gates * 4, 4)
            b = some(count, 2 * gates * 4)
            lengths = np.array([5, 3], np.int32)
            states = [some(count, 2, 4, seed=number) for number in range(2 if name == "LSTM" else 1)]
            results = 3 if name == "LSTM" else 2
            cases.add(
                name,
                x,
                w,
                r,
                b,
                lengths,
                *states,
                outputs=results,
                direction=direction,
                hidden_size=4,
                clip=1.5,
            )
            cases.add(name, x, w, r, outputs=results, direction=direction, hidden_size=4)
        turned = (some(2, 5, 3), some(1, gates * 4, 3), some(1, gates * 4, 4))
        cases.add(name, *turned, outputs=results, layout=1, hidden_size=4)
    lstm = (some(5, 2, 3), some(1, 16, 3), some(1, 16, 4), some(1, 32), None, None, None, some(1, 12))
    for couples in (0, 1):
        cases.add("LSTM", *lstm, outputs=3, hidden_size=4, input_forget=couples)
    gru = (some(5, 2, 3), some(1, 12, 3), some(1, 12, 4), some(1, 24))
    both = (some(5, 2, 3), some(2, 4, 3), some(2, 4, 4))
    cases.add("RNN", *both, outputs=2, hidden_size=4, direction="bidirectional", activations=("Relu", "Tanh"))
    for after in (0, 1):
        cases.add(
            "GRU",
            *gru,
            outputs=2,
            hidden_size=4,
            linear_before_reset=after,
            activations=("HardSigmoid", "Softsign"),
        )
    numbers = {
        "Affine": ((0.5,), (0.25,)),
        "ThresholdedRelu": ((0.75,), ()),
        "ScaledTanh": ((1.5,), (0.5,)),
        "HardSigmoid": ((0.3,), (0.4,)),
    }
    for function in (*numbers, "LeakyRelu", "Elu", "Softplus", "Softsign", "Relu"):
        alpha, beta = numbers.get(function, ((), ()))
        more: dict[str, Any] = {
            name: value for name, value in (("activation_alpha", alpha), ("activation_beta", beta)) if value
        }
        cases.add(
            "RNN",
            some(5, 2, 3),
            some(1, 4, 3),
            some(1, 4, 4),
            outputs=2,
            hidden_size=4,
            activations=(function,),
            **more,
        )
    for heads, rule in product(((2, 2), (4, 2)), ("linear", "gated", "delta", "gated_delta")):
        queries, keys = heads
        more = [some(2, 5, keys * 3), some(2, 5, keys, positive=True)]
        ports = (some(2, 5, queries * 3), some(2, 5, keys * 3), some(2, 5, keys * 4), None, *more)
        cases.add(
            "LinearAttention", *ports, outputs=2, q_num_heads=queries, kv_num_heads=keys, update_rule=rule
        )
    for interleaved in (0, 1):
        cases.add(
            "RotaryEmbedding",
            some(2, 4, 5, 8),
            some(2, 5, 3),
            some(2, 5, 3),
            rotary_embedding_dim=6,
            interleaved=interleaved,
        )


def _scaled_products(cases: Cases) -> None:
    """Those of large language models: scales of rows, columns and groups."""
    name = "QuantBatchMatmulV3"
    a, b, columns = some(5, 34, dtype=np.int8), some(34, 18, dtype=np.int8), some(18, positive=True)
    rows, sums, last = some(5, positive=True), some(18, dtype=np.int32), some(18)
    cases.ascend(name, a, b, columns)
    cases.ascend(name, a, b, one(0.5), None, sums, dtype=DType.INT8)
    cases.ascend(name, a, b, columns, None, last, rows, dtype=DType.FLOAT16)
    cases.ascend(name, a, b, columns, None, sums, rows, dtype=DType.BFLOAT16)
    cases.ascend(name, a.T.copy(), b.T.copy(), columns, transpose_x1=1, transpose_x2=1)
    cases.ascend(
        name, some(2, 5, 34, dtype=np.int8), some(2, 34, 18, dtype=np.int8), columns, dtype=DType.INT32
    )
    name, x = "WeightQuantBatchMatmulV2", some(5, 34)
    cases.ascend(name, x, b, columns)
    cases.ascend(name, x, b, one(0.5), one(2.0), None, None, last)
    cases.ascend(name, x, b, some(2, 18, positive=True), some(2, 18), antiquant_group_size=32)
    cases.ascend(name, x, b.T.copy(), some(18, 2, positive=True), antiquant_group_size=32, transpose_weight=1)
    more = {"domain": "com.microsoft", "K": 32, "N": 18, "block_size": 16}
    cases.add(
        "MatMulNBits", some(5, 32), some(18, 2, 8, dtype=np.uint8), some(36, positive=True), bits=4, **more
    )
    blocks = some(18, 2, 16, dtype=np.uint8), some(36, positive=True), some(36, dtype=np.uint8)
    cases.add("MatMulNBits", some(2, 3, 32), *blocks, None, some(18), bits=8, **more)
    cases.ascend(name, x, some(34, 3, dtype=np.int32), some(24, positive=True), None, some(24, positive=True))


def _grouped(cases: Cases) -> None:
    """Rows of experts by the experts' matrices."""
    name, x, weight = "GroupedMatmul", some(7, 20), some(3, 20, 12)
    counts, ends = np.array([2, 0, 4], np.int64), np.array([1, 4, 7], np.int64)
    none = [None] * 3
    cases.ascend(name, x, weight, None, None, *none, counts, group_list_type=1)
    cases.ascend(name, x, weight.swapaxes(1, 2).copy(), some(3, 12), None, *none, ends, transpose_weight=1)
    a, b = some(7, 34, dtype=np.int8), some(3, 34, 18, dtype=np.int8)
    columns, rows = some(3, 18, positive=True), some(7, positive=True)
    cases.ascend(name, a, b, None, columns, *none, ends)
    cases.ascend(name, a, b, some(3, 18), columns, *none, ends, rows, dtype=DType.BFLOAT16)


def _quantised(cases: Cases) -> None:
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
    _scaled_products(cases)
    _grouped(cases)
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
    _between_bytes(cases)
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


def _between_bytes(cases: Cases) -> None:
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


def _fused(cases: Cases) -> None:
    x, y, z = (some(2, 40, 3, 5, seed=number) for number in range(3))
    cases.ascend("Square", x)
    cases.ascend("Muls", x, value=0.3)
    cases.ascend("FusedMulAdd", x, y, z)
    cases.ascend("FusedMulAdd", x, some(40, 1, 1), some(5))
    cases.ascend("FusedMulAddN", x, y, np.array([2.5], np.float32))
    cases.ascend("Rsqrt", some(3, 20, positive=True))
    cases.ascend("Assign", some(3, 20), some(3, 20, seed=1))
    for source, perm, shape, first in (
        ((2, 32, 96), (0, 2, 1, 3), (2, 32, 3, 32), 0),
        ((2, 3, 32, 32), (0, 2, 1, 3), (2, 32, 96), 1),
        ((2, 3, 16, 32), (1, 0), (32, 96), 0),
    ):
        cases.ascend("ConfusionTransposeD", some(*source), perm=perm, shape=shape, transpose_first=first)
    cases.ascend("StridedWrite", x)
    cases.ascend("StridedRead", x)


def _gradients(cases: Cases) -> None:
    for axis in (-1, 1, 0):
        cases.ascend("SoftmaxGrad", some(3, 20, 5), some(3, 20, 5, seed=1), axis=axis)
        cases.ascend("ConfusionSoftmaxGrad", some(3, 20, 5), some(3, 20, 5, seed=1), axis=axis)
        factor = np.array([0.3], np.float32)
        cases.ascend("SoftmaxGradExt", some(3, 20, 5), some(3, 20, 5, seed=1), factor, axis=axis)
    dy, x, inverse, mean = (
        some(3, 20, 7),
        some(3, 20, 7, seed=1),
        some(3, 20, 1, positive=True),
        some(3, 20, 1),
    )
    cases.ascend("LayerNormGrad", dy, x, inverse, mean, some(7), outputs=3)
    cases.ascend("LayerNormXBackpropV2", dy, x, inverse, mean, some(7), outputs=2)
    cases.ascend("LayerNormBetaGammaBackpropV2", dy, some(3, 20, 7, seed=2), outputs=2, shape_gamma=(7,))
    for shape in ((2, 12, 3, 5), (2, 16, 3, 5), (3, 20), (17,), ()):
        mask_shape = (
            (1,)
            if not shape
            else tuple(-(-n // 8) if axis == min(1, len(shape) - 1) else n for axis, n in enumerate(shape))
        )
        cases.ascend("ReluV2", some(*shape), outputs=2)
        cases.ascend("ReluGradV2", some(*shape), np.full(mask_shape, 0b10110101, np.uint8))
        cases.ascend("ReluGrad", some(*shape), some(*shape, seed=1))
    cases.ascend("RsqrtGrad", some(3, 20, positive=True), some(3, 20))


def _updates(cases: Cases) -> None:
    def tensors(count: int) -> list[Array]:
        return [some(3, 40, seed=number, positive=True) for number in range(count)]

    def numbers(count: int) -> list[Array]:
        return [one(0.1 + 0.07 * number) for number in range(count)]

    cases.ascend("AdamApplyOne", *tensors(4), *numbers(6), outputs=3)
    cases.ascend("AdamApplyOneWithDecay", *tensors(4), *numbers(7), outputs=3)
    for name in ("LambNextMV", "LambNextMVWithDecay"):
        cases.ascend(
            name, *tensors(2), one(0.9), *tensors(2), one(0.8), some(3, 40, seed=9), *numbers(6), outputs=4
        )
    cases.ascend("LambNextRight", *tensors(2), *numbers(4), outputs=2)
    cases.ascend(
        "LambUpdateWithLr", one(0.5), one(0.7), one(0.3), one(0.1), *tensors(2), one(0.0), one(1.0), one(10.0)
    )
    cases.ascend("LambUpdateWithLrV2", one(0.5), one(0.7), one(0.1), *tensors(2), one(0.0), one(1.0))
    cases.ascend("ClipByNormNoDivSum", some(3, 40), one(0.0), one(1.0), one(0.5))
    momentum = (one(0.1), np.array(3, np.int64), *tensors(3), one(0.5))
    for mode in ("standard", "nesterov"):
        more = {"alpha": 0.9, "beta": 0.7, "mode": mode, "norm_coefficient": 0.01}
        cases.ascend("FusedMulApplyMomentum", *momentum, outputs=2, **more)
        cases.add(
            "Momentum",
            one(0.1),
            np.array(0, np.int64),
            *tensors(3),
            outputs=2,
            domain="ai.onnx.preview.training",
            **more,
        )
    cases.ascend("FusedMulApplyMomentum", *momentum, outputs=2, alpha=0.9, beta=0.7, mode="standard")
    adam = (one(0.1), np.array(3, np.int64), *tensors(8))
    more = {
        "alpha": 0.8,
        "beta": 0.7,
        "epsilon": 0.01,
        "norm_coefficient": 0.01,
        "norm_coefficient_post": 0.1,
    }
    cases.add("Adam", *adam, outputs=6, domain="ai.onnx.preview.training", **more)
    more = {"decay_factor": 0.2, "epsilon": 0.01, "norm_coefficient": 0.01}
    cases.add(
        "Adagrad",
        one(0.1),
        np.array(3, np.int64),
        *tensors(6),
        outputs=4,
        domain="ai.onnx.preview.training",
        **more,
    )


def _markers(cases: Cases) -> None:
    for name in (
        "StopGradient",
        "PreventGradient",
        "Snapshot",
        "GuaranteeConst",
        "PlaceholderWithDefault",
        "Print",
    ):
        cases.ascend(name, some(3, 20))
    cases.ascend("Assert", np.array(True), some(3), outputs=0)
    cases.add("Identity", some(3, 20))


def _images(cases: Cases) -> None:
    plain = {"mean": (10, 20, 30), "minimum": (1.0, 2.0, 3.0), "scale": (0.5, 0.25, 0.125)}
    yuv = {"matrix": (256, 0, 359, 256, -88, -183, 256, 454, 0), "input_bias": (0, 128, 128)}
    for settings in (
        AippSettings("RGB888_U8", source=(10, 12), crop=(1, 2, 6, 8), swap=1, **plain),
        AippSettings(
            "YUV420SP_U8",
            source=(10, 12),
            crop=(2, 2, 6, 8),
            border=(1, 2, 3, 4),
            border_value=5.0,
            **yuv,
            **plain,
        ),
        AippSettings("YUV400_U8", source=(10, 12), **plain),
    ):
        images = some(2, *settings.raw_shape(2)[1:], dtype=np.uint8) * 20
        cases.ascend("Aipp", images, **settings.attributes())
        weight = some(7, settings.channels, 3, 2)
        cases.ascend(
            "AippConv",
            images,
            weight,
            some(7),
            strides=(2, 1),
            pads=(1, 0, 0, 1),
            activation="relu",
            **settings.attributes(),
        )


SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, 3.4e38, -3.4e38, 1.0, -1.0, 0.5, -2.5, 1e-5, 89.0],
    np.float32,
)
UNARY = (
    "Abs",
    "Neg",
    "Sqrt",
    "Reciprocal",
    "Exp",
    "Log",
    "Floor",
    "Ceil",
    "Round",
    "Sign",
    "Erf",
    "Sin",
    "Cos",
    "Tan",
    "Asin",
    "Acos",
)
UNARY += (
    "Atan",
    "Sinh",
    "Cosh",
    "Asinh",
    "Acosh",
    "Atanh",
    "Relu",
    "LeakyRelu",
    "Sigmoid",
    "Tanh",
    "HardSigmoid",
    "HardSwish",
    "Elu",
    "Celu",
)
UNARY += (
    "Selu",
    "Softplus",
    "Softsign",
    "Mish",
    "ThresholdedRelu",
    "Shrink",
    "IsNaN",
    "IsInf",
    "Gelu",
    "Identity",
)


def _edges(cases: Cases) -> None:
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
