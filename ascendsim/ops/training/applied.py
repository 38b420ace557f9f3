"""Whole weight updates by CANN's prototypes (domain "ascend"): one operator a weight, as a training step has
them when the optimiser is not written out.

Inputs and outputs stand in CANN's order; the outputs are the new values of what CANN changes in place.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ascendsim.graph.ir import Array, Node
from ascendsim.ops.shared.bursts import DUPLICATE
from ascendsim.ops.shared.common import StepSpec
from ascendsim.ops.training.updates import several, update_op
from ascendsim.opset import OpDef
from ascendsim.opset.work import LowerContext, VectorWork, Work

Arrays = tuple[Array, ...]

# Of the kernel for open shapes (canndev, tbe/impl/dynamic/apply_adam_w.py): each number is spread over the
# tile, sums and products of numbers are made of such tiles, in the type of the weights
_SPREAD = 7
_SPREAD_STEPS: tuple[StepSpec, ...] = (
    (DUPLICATE, _SPREAD),
    ("vmuls", 3),
    ("vmul", 8),
    ("vadds", 3),
    ("vsub", 2),
    ("vdiv", 2),
    "vsqrt",
    ("vadd", 2),
)


def _momentum(node: Node, w: Array, v: Array, rate: Array, g: Array, momentum: Array) -> Arrays:
    v = v * momentum + g
    return w - rate * (g + momentum * v if node.attr("use_nesterov", 0) else v), v


def _adam(
    node: Node,
    w: Array,
    m: Array,
    v: Array,
    *numbers: Array,
) -> Arrays:
    """The powers are beta^t, those of this step."""
    power1, power2, rate, beta1, beta2, epsilon, g = numbers
    one = w.dtype.type(1)
    rate = rate * np.sqrt(one - power2) / (one - power1)
    m = beta1 * m + (one - beta1) * g
    v = beta2 * v + (one - beta2) * (g * g)
    direction = beta1 * m + (one - beta1) * g if node.attr("use_nesterov", 0) else m
    return w - rate * direction / (np.sqrt(v) + epsilon), m, v


def _adam_w(node: Node, w: Array, m: Array, v: Array, *numbers: Array) -> Arrays:
    """The powers are beta^(t - 1), those of the step before."""
    power1, power2, rate, decay, beta1, beta2, epsilon, g = numbers
    one = w.dtype.type(1)
    g = -g if node.attr("maximize", 0) else g
    m = beta1 * m + (one - beta1) * g
    v = beta2 * v + (one - beta2) * (g * g)
    root = np.sqrt(v / (one - power2 * beta2)) + epsilon
    return w * (one - rate * decay) - rate * (m / (one - power1 * beta1)) / root, m, v


_ADAM_W: tuple[StepSpec, ...] = ("vmul", ("vmuls", 7), ("vadd", 2), "vsqrt", "vadds", "vdiv", "vsub")


def _adam_w_lower(node: Node, context: LowerContext) -> Work:
    """On split cores the kernel for open shapes, whose code is long."""
    if not (context.split_cores and context.open_shapes):
        return several(node, context, _ADAM_W)
    work = several(node, context, _SPREAD_STEPS, wide=False)
    return replace(work, long_code=True) if isinstance(work, VectorWork) else work


def _lamb(_node: Node, g: Array, v: Array, m: Array, w: Array, *numbers: Array) -> Arrays:
    """LAMB's direction before the trust ratio; steps counts from 1."""
    mul0, mul1, mul2, mul3, epsilon, steps, used, decay = numbers
    one = w.dtype.type(1)
    v = v * mul2 + (g * g) * mul3
    m = m * mul0 + g * mul1
    root = np.sqrt(v / (one - mul2**steps)) + epsilon
    return (m / (one - mul0**steps)) / root + w * decay * used, v, m


def _lamb_weight(_node: Node, w_norm: Array, g_norm: Array, rate: Array, update: Array, w: Array) -> Array:
    one = w.dtype.type(1)
    ratio = np.where(w_norm > 0, np.where(g_norm > 0, w_norm / g_norm, one), one)
    return np.asarray(w - ratio * rate * update)


# What is done with single numbers (powers, corrections of the rate) is left to the scalar unit.
OPERATORS: tuple[OpDef, ...] = (
    update_op("ApplyMomentum", 2, _momentum, (("vmuls", 2), "vadd", "vsub"), cann="ApplyMomentumD"),
    update_op(
        "ApplyAdam",
        3,
        _adam,
        ("vmul", ("vmuls", 5), ("vadd", 2), "vsqrt", "vadds", "vdiv", "vsub"),
        cann="ApplyAdamD",
    ),
    update_op("ApplyAdamW", 3, _adam_w, _ADAM_W, lower=_adam_w_lower),
    update_op(
        "LambApplyOptimizerAssign",
        3,
        _lamb,
        ("vmul", ("vmuls", 7), ("vadd", 3), "vsqrt", "vadds", "vdiv"),
    ),
    update_op("LambApplyWeightAssign", 1, _lamb_weight, ("vmuls", "vsub")),
)
