"""CANN's own operators: fused ones, gradients, updates of weights, markers."""

from __future__ import annotations

import numpy as np

from tests.support.own_cases.making import Array, Cases, one, some


def add_fused(cases: Cases) -> None:
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


def add_gradients(cases: Cases) -> None:
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


def add_updates(cases: Cases) -> None:
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


def add_markers(cases: Cases) -> None:
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
