"""Activations: functions of one tensor, and PRelu and Clip with their parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Node, Tensor
from ascendsim.ops.elementwise.arithmetic import by_kernel
from ascendsim.ops.shared.common import (
    TANH_STEPS,
    StepSpec,
    as_float32,
    elementwise_lower,
    elementwise_work,
    finish,
    same_as,
    with_numpy,
)
from ascendsim.ops.shared.dims import need_shape, need_within
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.definition import Compute
from ascendsim.opset.expansion import Writer
from ascendsim.opset.facts import Facts, Kind, OpPattern, Precision, Sign
from ascendsim.opset.structure import ELEMENTWISE, elementwise
from ascendsim.opset.work import LowerContext, Work

SIGMOID_STEPS: tuple[StepSpec, ...] = ("vmuls", "vexp", "vadds", "vrec")
# y (2 - x y): y = 1 / x with more digits
_NEWTON_STEPS: tuple[StepSpec, ...] = ("vmul", "vmuls", "vadds", "vmul")
# max(0, min(1, 1/2 + x (a + x^2 (b + c x^2))))
_QUICK_SIGMOID_STEPS: tuple[StepSpec, ...] = (
    *("vmul", "vmuls", "vadds", "vmul", "vadds", "vmul", "vadds"),
    *("vmins", "vmaxs"),
)
# x / (1 + e^-|y|) * e^min(y, 0) with y = 2 sqrt(2 / pi) (x + 0.044715 x^3): CANN's Gelu, in which both
# exponents stay negative
_GELU_STEPS: tuple[StepSpec, ...] = (
    *(("vmul", 2), "vmuls", "vadd", "vmuls"),
    *("vmins", "vexp", "vabs", "vmuls", "vexp", "vadds", "vdiv", "vmul"),
)
# x / (1 + e^y) with y = -2 sqrt(2 / pi) (x + 0.044715 x^3)
_SHORT_GELU_STEPS: tuple[StepSpec, ...] = (("vmul", 2), "vmuls", "vadd", "vmuls", "vexp", "vadds", "vdiv")
# x (sgn(x) (a (min(|x / sqrt(2)|, b) - b)^2 + 1/2) + 1/2), the sign as x / |x|
_QUICK_GELU_STEPS: tuple[StepSpec, ...] = (
    *("vmuls", "vabs", "vmins", "vadds", "vmul", "vmuls", "vadds"),
    *("vadds", "vabs", "vrec", "vmul", "vmul", "vadds", "vmul"),
)
# max(x, 0) + ln(1 + e^-|x|)
_SOFTPLUS_STEPS: tuple[StepSpec, ...] = (
    "vabs",
    "vmuls",
    "vexp",
    "vadds",
    "vln",
    "vmaxs",
    "vadd",
)
# x tanh(ln(1 + e^x)) without the logarithm, in a form for each sign so that no exponent overflows, of which a
# mask takes one (canndev, tbe/impl/dynamic/mish.py):
# x > 0: (2 e^-x + 1) / (2 e^-2x + 2 e^-x + 1); else (2 e^x + e^2x) / (2 + 2 e^x + e^2x)
_MISH_STEPS: tuple[StepSpec, ...] = (
    *("vcmp", ("vmuls", 2), ("vexp", 2), ("vmuls", 2), ("vadds", 2), "vadd", "vdiv", "vsel"),
    *("vcmp", "vmuls", ("vexp", 2), "vmuls", "vadd", "vadds", "vdiv", "vsel"),
    *("vadd", "vmul"),
)
# max(x, 0) + a (e^min(x, 0) - 1)
_EXPONENTIAL_STEPS: tuple[StepSpec, ...] = (
    "vmins",
    "vexp",
    "vadds",
    "vmuls",
    "vmaxs",
    "vadd",
)
_CUT_STEPS: tuple[StepSpec, ...] = ("vcmp", "vsel")


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def sigmoid_steps(context: LowerContext, dtype: DType) -> tuple[StepSpec, ...]:
    """Vector instructions of CANN's Sigmoid (canndev, tbe/impl/sigmoid.py and dynamic/sigmoid.py; DSL,
    compute/math.py, vrec).

    Ascend310 runs the static kernel, which takes the reciprocal as it comes. Others run the dynamic one: it
    divides on Ascend910 and in float32, else it makes the reciprocal precise by two steps of Newton's method.

    Args:
        context: The chip.
        dtype: Type that it computes in.
    """
    if not context.supports("vexp", DType.FLOAT32):
        return SIGMOID_STEPS
    if dtype is DType.FLOAT32 or context.sigmoid_divides:
        return ("vmuls", "vexp", "vadds", "vectordup", "vdiv")
    return (*SIGMOID_STEPS, *_NEWTON_STEPS, *_NEWTON_STEPS)


def _sigmoid_lower(node: Node, context: LowerContext) -> Work:
    if context.sigmoid_polynomial and context.form("Sigmoid") == "high_performance":
        return elementwise_work(node, context, _QUICK_SIGMOID_STEPS)
    return elementwise_work(node, context, sigmoid_steps(context, node.required(0).element_type))


def _number(node: Node, name: str, default: float) -> float:
    return float(node.attr(name, default))


def _leaky(node: Node, x: Array) -> Array:
    return np.where(x < 0, x * x.dtype.type(_number(node, "alpha", 0.01)), x)


def _elu(node: Node, x: Array) -> Array:
    return np.where(x < 0, _number(node, "alpha", 1.0) * np.expm1(np.minimum(x, 0)), x)


def _celu(node: Node, x: Array) -> Array:
    alpha = _number(node, "alpha", 1.0)
    return np.asarray(np.maximum(x, 0) + np.minimum(alpha * np.expm1(np.minimum(x, 0) / alpha), 0))


def _selu(node: Node, x: Array) -> Array:
    alpha, gamma = (
        _number(node, "alpha", 1.67326319217681884765625),
        _number(node, "gamma", 1.05070102214813232421875),
    )
    return np.asarray(gamma * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))))


def _softplus(x: Array) -> Array:
    return np.asarray(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


def _threshold(node: Node, x: Array) -> Array:
    return np.where(x > _number(node, "alpha", 1.0), x, x.dtype.type(0))


def _shrink(node: Node, x: Array) -> Array:
    limit, bias = _number(node, "lambd", 0.5), _number(node, "bias", 0.0)
    step = x.dtype.type(bias) if x.dtype.kind == "f" else bias  # of integers: rounded to zero at the end
    return np.asarray(np.where(x < -limit, x + step, np.where(x > limit, x - step, x.dtype.type(0))))


def _hard_sigmoid(node: Node, x: Array) -> Array:
    return np.asarray(np.clip(x * _number(node, "alpha", 0.2) + _number(node, "beta", 0.5), 0, 1))


def gelu_exact(x: Array) -> Array:
    """X times the normal distribution's share below it."""
    from scipy.special import erf

    return np.asarray(0.5 * x * (1 + erf(x / np.sqrt(2.0))))


def gelu_tanh(x: Array) -> Array:
    """The same by way of tanh."""
    return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


_EXACT = by_kernel("GELU", lambda _node, x: gelu_exact(x))
_APPROXIMATE = by_kernel("GELU_TANH", lambda _node, x: gelu_tanh(x))


def _gelu(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    return (_APPROXIMATE if node.attr("approximate", "none") == "tanh" else _EXACT)(node, inputs, wanted)


def _gelu_lower(node: Node, context: LowerContext) -> Work:
    """Of both functions: CANN has one kernel, that with tanh (values keep the function that the model asks
    for). Its form of high performance stays in the input's type and takes no exponent.
    """
    if context.form("Gelu") == "high_performance":
        return elementwise_work(node, context, _QUICK_GELU_STEPS)
    return elementwise_work(node, context, gelu_steps(context), wide=True)


def gelu_steps(context: LowerContext) -> tuple[StepSpec, ...]:
    """Instructions of the chip's Gelu, in float32 where it can."""
    return _GELU_STEPS if context.gelu_two_exponents else _SHORT_GELU_STEPS


def _clip(_node: Node, x: Array, low: Array | None = None, high: Array | None = None) -> Array:
    """min(max(x, low), high): where low > high the result is high."""
    lowered = x if low is None else np.maximum(x, low.reshape(()))
    return np.array(lowered) if high is None else np.asarray(np.minimum(lowered, high.reshape(())))


_CLIP_OTHERS = with_numpy(_clip)


def _clip_compute(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    array, low, high = (*inputs, None, None)[:3]
    if array.dtype.name not in ("float16", "float32") or array.dtype != wanted[0]:
        return _CLIP_OTHERS(node, inputs, wanted)
    from ascendsim_kernels.elementwise import Unary, unary

    a = -np.inf if low is None else float(np.asarray(low).item())
    b = np.inf if high is None else float(np.asarray(high).item())
    return [unary(Unary.CLIP, array, a, b)]


def _clip_lower(node: Node, context: LowerContext) -> Work:
    return elementwise_work(
        node,
        context,
        [op for index, op in ((1, "vmaxs"), (2, "vmins")) if node.input(index) is not None] or ["vadds"],
    )


def _clipped_sign(node: Node) -> Sign:
    low = node.input(1)
    known = low is not None and low.constant is not None and low.constant.available
    return (
        Sign.NEVER_NEGATIVE
        if known and low is not None and low.constant is not None and low.constant.array().min() >= 0
        else Sign.ANY
    )


def _prelu(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    from ascendsim_kernels.pairwise import Binary, binary

    x, slope = inputs
    if not x.dtype == slope.dtype == wanted[0] == np.float16:
        x, slope = as_float32(x), as_float32(slope)
    return [finish(binary(Binary.PRELU, x, slope), wanted[0])]


def _prelu_check(context: InferContext) -> None:
    need_within(context, 1, context.shape(0))


def _same_shapes(context: InferContext) -> None:
    need_shape(context, 1, context.shape(0))


def _swiglu(node: Node, a: Array, b: Array) -> Array:
    return np.asarray(a * _sigmoid(_number(node, "alpha", 1.0) * a) * b)


def _make(
    name: str,
    compute: Compute,
    steps: Sequence[StepSpec],
    wide: bool = False,
    cann: str = "",
    facts: Facts = ELEMENTWISE,
) -> OpDef:
    return OpDef(
        name,
        same_as(),
        compute,
        elementwise_lower(steps, wide),
        Layout.FOLLOW,
        cann,
        in_place=True,
        facts=facts,
    )


def _relu_written_out(w: Writer) -> Tensor:
    return w.op("Max", w(0), 0.0)


def _sigmoid_written_out(w: Writer) -> Tensor:
    x = w.wide(w(0))
    return w.like_output(w.op("Reciprocal", w.op("Add", w.op("Exp", w.op("Neg", x)), 1.0)))


def _gelu_written_out(w: Writer) -> Tensor:
    """The tanh form, as MindSpore has it: x / 2 (1 + tanh u), u = sqrt(2 / pi) (x + 0.044715 x^3); the exact
    form by erf.
    """
    x = w.wide(w(0))
    if w.node.attr("approximate", "none") == "tanh":
        cube = w.op("Mul", w.op("Mul", w.op("Mul", x, x), x), 0.044715)
        curve = w.op("Tanh", w.op("Mul", w.op("Add", x, cube), math.sqrt(2 / math.pi)))
    else:
        curve = w.op("Erf", w.op("Mul", x, math.sqrt(0.5)))
    return w.like_output(w.op("Mul", w.op("Mul", w.op("Add", curve, 1.0), x), 0.5))


_RECTIFIED = replace(ELEMENTWISE, sign=Sign.NEVER_NEGATIVE)
_POSITIVE = replace(ELEMENTWISE, sign=Sign.POSITIVE)

OPERATORS: tuple[OpDef, ...] = (
    replace(
        _make(
            "Relu",
            by_kernel("CLIP", lambda _n, x: np.maximum(x, x.dtype.type(0)), (0, np.inf)),
            ["vrelu"],
            facts=_RECTIFIED,
        ),
        mindspore="ReLU",
        expand=_relu_written_out,
    ),
    _make("LeakyRelu", by_kernel("LEAKY", _leaky, lambda n: (_number(n, "alpha", 0.01),)), ["vlrelu"]),
    OpDef(
        "PRelu",
        same_as(check=_prelu_check),
        _prelu,
        elementwise_lower(["vmins", "vmul", "vmaxs", "vadd"]),
        Layout.FOLLOW,
        in_place=True,
        most_inputs=2,
        facts=ELEMENTWISE,
    ),
    OpDef(
        "Clip",
        same_as(),
        _clip_compute,
        _clip_lower,
        Layout.FOLLOW,
        "ClipByValue",
        in_place=True,
        most_inputs=3,
        facts=Facts(elementwise(0), Kind.ELEMENTWISE, Precision.GRAY, sign=_clipped_sign),
    ),
    OpDef(
        "Sigmoid",
        same_as(),
        by_kernel("SIGMOID", lambda _n, x: _sigmoid(x)),
        _sigmoid_lower,
        Layout.FOLLOW,
        expand=_sigmoid_written_out,
        in_place=True,
        facts=replace(_POSITIVE, two_forms=True, versioned=True),
    ),
    _make("Tanh", by_kernel("TANH", lambda _n, x: np.tanh(x)), TANH_STEPS, wide=True),
    _make(
        "HardSigmoid",
        by_kernel(
            "HARD_SIGMOID", _hard_sigmoid, lambda n: (_number(n, "alpha", 0.2), _number(n, "beta", 0.5))
        ),
        ["vmuls", "vadds", "vmaxs", "vmins"],
        facts=_RECTIFIED,
    ),
    _make(
        "HardSwish",
        by_kernel("HARD_SWISH", lambda _n, x: x * np.clip(x / 6 + 0.5, 0, 1)),
        ["vadds", "vmaxs", "vmins", "vmul", "vmuls"],
        wide=True,
    ),
    OpDef(
        "Gelu",
        same_as(),
        _gelu,
        _gelu_lower,
        Layout.FOLLOW,
        mindspore="GeLU",
        expand=_gelu_written_out,
        in_place=True,
        facts=replace(ELEMENTWISE, two_forms=True, versioned=True),
    ),
    _make(
        "Swish",
        by_kernel(
            "SWISH",
            lambda n, x: x * _sigmoid(_number(n, "alpha", 1.0) * x),
            lambda n: (_number(n, "alpha", 1.0),),
        ),
        ("vmuls", "vmins", "vexp", "vadds", "vdiv"),
        wide=True,
    ),
    OpDef(
        "SwiGLU",
        same_as(check=_same_shapes),
        with_numpy(_swiglu),
        elementwise_lower((*SIGMOID_STEPS, ("vmul", 2)), wide=True),
        Layout.FOLLOW,
        "SwiGlu",
        most_inputs=2,
        facts=Facts(elementwise(), Kind.ELEMENTWISE, Precision.GRAY, pattern=OpPattern.OPAQUE),
    ),
    _make("Elu", with_numpy(_elu), _EXPONENTIAL_STEPS, wide=True),
    _make("Celu", with_numpy(_celu), ("vmuls", *_EXPONENTIAL_STEPS), wide=True, cann="CeluV2"),
    _make("Selu", with_numpy(_selu), (*_EXPONENTIAL_STEPS, "vmuls"), wide=True),
    _make("Softplus", with_numpy(lambda _n, x: _softplus(x)), _SOFTPLUS_STEPS, wide=True, facts=_POSITIVE),
    _make("Softsign", with_numpy(lambda _n, x: x / (1 + np.abs(x))), ["vabs", "vadds", "vdiv"]),
    _make(
        "Mish",
        with_numpy(lambda _n, x: x * np.tanh(_softplus(x))),
        _MISH_STEPS,
        wide=True,
    ),
    _make("ThresholdedRelu", with_numpy(_threshold), _CUT_STEPS),
    _make("Shrink", with_numpy(_shrink), ("vadds", *_CUT_STEPS, "vadds", *_CUT_STEPS)),
)
