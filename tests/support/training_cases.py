"""Cases of training operators: gradients, losses, dropout, weight updates, checks of overflow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tests.support.own_cases import _List

from tests.support.own_cases import some

Array = Any


def activation_gradients(cases: _List) -> None:
    pairs = [(some(2, 20, 3, 5), some(2, 20, 3, 5, seed=1)), (some(7, 33), some(7, 33, seed=1))]
    for dy, x in pairs:
        for form in ("none", "tanh"):
            cases.ascend("GeluGrad", dy, x, some(*x.shape, seed=2), approximate=form)
        cases.ascend("SwishGrad", dy, x, some(*x.shape, seed=2), scale=1.7)
        for name in (
            *("FastGeluGrad", "TanhGrad", "SigmoidGrad", "SiluGrad", "HardSwishGrad"),
            *("Relu6Grad", "EluGrad", "SoftplusGrad", "ReciprocalGrad"),
        ):
            cases.ascend(name, dy, 2 * x)
        cases.ascend("SqrtGrad", abs(x) + np.float32(0.5), dy)
        cases.ascend("HardSigmoidGrad", dy, 3 * x, alpha=0.25, beta=0.75)
        cases.ascend("HardtanhGrad", x, dy, min_val=-0.5, max_val=0.75)
        cases.ascend("LeakyReluGrad", dy, x, negative_slope=0.1)
        cases.ascend("ThresholdGradV2D", dy, x, threshold=0.25)
        for known in (0, 1):
            cases.ascend("EluGradV2", dy, x, alpha=0.5, scale=1.5, input_scale=0.75, is_result=known)
        cases.ascend("SoftplusV2Grad", dy, x, beta=2.0, threshold=1.5)
    for name in ("HardSigmoidGrad", "HardtanhGrad", "LeakyReluGrad", "EluGradV2", "SoftplusV2Grad"):
        cases.ascend(name, *pairs[1])
    cases.ascend("GeluGrad", *pairs[1], pairs[1][1])
    cases.ascend("SwishGrad", *pairs[1], pairs[1][1])
