"""Reductions and normalisations."""

from __future__ import annotations

from itertools import product

import numpy as np

from tests.support.own_cases.making import Cases, ints, some


def add_reductions(cases: Cases) -> None:
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


def add_normalisations(cases: Cases) -> None:
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
