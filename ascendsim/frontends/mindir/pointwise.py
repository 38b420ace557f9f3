"""Elementwise primitives. MindSpore brings operands of two types to one by itself; ONNX wants it said."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from onnx import TensorProto

from ascendsim.frontends.mindir.values import Ref
from ascendsim.frontends.mindir.writer import Call, WriteCall

_SAME = {
    "Abs": "Abs",
    "Ceil": "Ceil",
    "Cos": "Cos",
    "Erf": "Erf",
    "Exp": "Exp",
    "Floor": "Floor",
    "HSwish": "HardSwish",
    "Identity": "Identity",
    "Log": "Log",
    "LogicalNot": "Not",
    "Mish": "Mish",
    "Neg": "Neg",
    "ReLU": "Relu",
    "Reciprocal": "Reciprocal",
    "Round": "Round",
    "Sigmoid": "Sigmoid",
    "Sign": "Sign",
    "Sin": "Sin",
    "Softplus": "Softplus",
    "Sqrt": "Sqrt",
    "Tanh": "Tanh",
}
_ARITHMETIC = {
    "Add": "Add",
    "Adds": "Add",
    "Div": "Div",
    "Divs": "Div",
    "Maximum": "Max",
    "Minimum": "Min",
    "Mul": "Mul",
    "Muls": "Mul",
    "Pow": "Pow",
    "PowTensorScalar": "Pow",
    "RealDiv": "Div",
    "Sub": "Sub",
    "Subs": "Sub",
}
_COMPARING = {
    "Equal": "Equal",
    "Greater": "Greater",
    "GreaterEqual": "GreaterOrEqual",
    "GreaterEqualScalar": "GreaterOrEqual",
    "GreaterScalar": "Greater",
    "Less": "Less",
    "LessEqual": "LessOrEqual",
    "LessEqualScalar": "LessOrEqual",
    "LessScalar": "Less",
    "LogicalAnd": "And",
    "LogicalOr": "Or",
}
_WHOLE = (2, 3, 4, 5, 6, 7, 12, 13)


def _same(call: Call) -> Any:
    return call.emit(_SAME[call.kind], [call.tensor(0)])


def _arithmetic(call: Call) -> Any:
    kind = call.form.dtype
    return call.emit(_ARITHMETIC[call.kind], [call.tensor(0, kind), call.tensor(1, kind)])


def _common(call: Call) -> int:
    """The type in which two operands are compared."""
    kinds = {item.dtype for item in call.inputs if isinstance(item, Ref)}
    broken = any(isinstance(item, float) for item in call.inputs)
    whole = all(kind in _WHOLE for kind in kinds)
    if len(kinds) == 1 and not (whole and broken):
        return kinds.pop()
    return TensorProto.INT64 if whole and not broken else TensorProto.FLOAT


def _comparing(call: Call) -> Any:
    kind = _common(call)
    return call.emit(_COMPARING[call.kind], [call.tensor(0, kind), call.tensor(1, kind)])


def _not_equal(call: Call) -> Any:
    kind = _common(call)
    return call.emit("Not", [call.step("Equal", [call.tensor(0, kind), call.tensor(1, kind)])])


def _square(call: Call) -> Any:
    x = call.tensor(0)
    return call.emit("Mul", [x, x])


def _rsqrt(call: Call) -> Any:
    return call.emit("Reciprocal", [call.step("Sqrt", [call.tensor(0)])])


def _relu6(call: Call) -> Any:
    kind = call.form.dtype
    return call.emit("Clip", [call.tensor(0), call.scalar(0, kind), call.scalar(6, kind)])


def _silu(call: Call) -> Any:
    x = call.tensor(0)
    return call.emit("Mul", [x, call.step("Sigmoid", [x])])


def _select(call: Call) -> Any:
    kind = call.form.dtype
    return call.emit("Where", [call.tensor(0), call.tensor(1, kind), call.tensor(2, kind)])


def _cast(call: Call) -> Any:
    return call.emit("Cast", [call.tensor(0)], to=call.form.dtype)


def _with(kind: str, attributes: Mapping[str, Any], call: Call) -> Any:
    return call.emit(kind, [call.tensor(0)], **attributes)


def _elu(call: Call) -> Any:
    return call.emit("Elu", [call.tensor(0)], alpha=call.number(1, "alpha", 1.0))


def _prelu(call: Call) -> Any:
    """Slopes are those of channels, the second axis."""
    x, slope = call.ref(0), call.tensor(1)
    if len(x.dims) > 2:
        slope = call.step("Reshape", [slope, call.list([-1, *(1,) * (len(x.dims) - 2)])])
    return call.emit("PRelu", [x.name, slope])


POINTWISE: Mapping[str, WriteCall] = {
    **dict.fromkeys(_SAME, _same),
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    **dict.fromkeys(_COMPARING, _comparing),
    "Cast": _cast,
    "Elu": _elu,
    # the primitive is the form by tanh whatever the device
    "GeLU": partial(_with, "Gelu", {"approximate": "tanh"}),
    "HSigmoid": partial(_with, "HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}),
    "NotEqual": _not_equal,
    "PReLU": _prelu,
    "ReLU6": _relu6,
    "Rsqrt": _rsqrt,
    "Select": _select,
    "SiLU": _silu,
    "Square": _square,
}
