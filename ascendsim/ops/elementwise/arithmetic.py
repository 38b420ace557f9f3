"""Arithmetic and mathematical functions, element by element, with broadcasting.

Costs: instruction sequences are those of the vector unit (lower/templates replaces what a chip lacks). Where
a function is a polynomial or an algorithm, its length agrees with the published cycles per element of the
c220 library functions (cost_models section 6, ATT): sigmoid 0.10-0.13, tanh 0.16-0.20, erf 0.60-0.70, pow
0.62-0.70, sign 0.17 (float32).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import numpy as np

from ascendsim.graph.ir import Array, Node, Tensor
from ascendsim.ops.shared.common import (
    StepSpec,
    as_float32,
    elementwise_lower,
    elementwise_work,
    finish,
    infer_broadcast,
    on_ai_cpu,
    same_as,
    with_numpy,
)
from ascendsim.opset import Layout, OpDef
from ascendsim.opset.definition import Compute
from ascendsim.opset.expansion import Writer
from ascendsim.opset.facts import Facts, Sign
from ascendsim.opset.structure import (
    CHOSEN_ELEMENT,
    COMPUTED,
    ELEMENTWISE,
    PARTIAL,
    SENSITIVE,
    SENSITIVE_PARTIAL,
)
from ascendsim.opset.work import LowerContext, NoTask, Ref, Work

Parameters = Callable[[Node], tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class KernelCompute:
    """Values by the jitted kernel for 16- and 32-bit floats, by NumPy for all other types.

    Attributes:
        kernel: Name in `ascendsim_kernels.elementwise.Unary`.
        others: Values for all other types.
        parameters: Those of its numbers a, b that it reads, or a function of the node that gives them.
    """

    kernel: str
    others: Compute
    parameters: tuple[float, ...] | Parameters = ()

    def numbers(self, node: Node) -> tuple[float, ...]:
        """The kernel's a and b for a node, as far as it reads them."""
        return self.parameters(node) if callable(self.parameters) else self.parameters

    def __call__(self, node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
        """As `OpDef.compute`."""
        array = inputs[0]
        if array.dtype.name not in ("float16", "float32", "bfloat16"):
            return self.others(node, inputs[:1], wanted)
        from ascendsim_kernels.elementwise import Unary, unary

        wide = array if array.dtype == np.float16 == wanted[0] else as_float32(array)
        return [finish(unary(Unary[self.kernel], wide, *self.numbers(node)), wanted[0])]


def by_kernel(
    kernel: str, fallback: Callable[..., Any], parameters: tuple[float, ...] | Parameters = ()
) -> Compute:
    """Values by the jitted kernel for 16- and 32-bit floats, by NumPy for all other types.

    Args:
        kernel: Name in `ascendsim_kernels.elementwise.Unary`.
        fallback: (node, array) -> array in the array's own type.
        parameters: Those of its numbers a, b that it reads, or a function of the node that gives them.
    """
    return KernelCompute(kernel, with_numpy(fallback), parameters)


@dataclass(frozen=True, slots=True)
class PairwiseCompute:
    """Values of a function of two or more arrays that broadcast, folded from the left.

    float16: widened to float32, rounded once at the end of the operator. Other types: `function` in their own
    type.

    Attributes:
        kernel: Name in `ascendsim_kernels.pairwise.Binary`.
        function: The same for arrays.
    """

    kernel: str
    function: Callable[[Array, Array], Array]

    def __call__(self, node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
        """As `OpDef.compute`."""
        if len(inputs) == 2 and inputs[0].dtype == inputs[1].dtype == wanted[0] == np.float16:
            from ascendsim_kernels.pairwise import Binary, binary

            return [binary(Binary[self.kernel], inputs[0], inputs[1])]
        with np.errstate(all="ignore"):
            result = as_float32(inputs[0])
            for other in inputs[1:]:
                result = self.function(result, as_float32(other))
        return [finish(result.copy() if result is inputs[0] else result, wanted[0])]


def _divide(a: Array, b: Array) -> Array:
    """Quotient; of integers cut off towards zero (0 for a division by zero, as NumPy has it)."""
    if not np.issubdtype(np.result_type(a, b), np.integer):
        return np.asarray(a / b)
    quotient: Array = np.array(a // b)
    towards_zero = (a % b != 0) & ((a < 0) != (b < 0))
    quotient += towards_zero.astype(quotient.dtype)
    return quotient


def _modulo(node: Node, a: Array, b: Array) -> Array:
    return np.asarray(np.fmod(a, b) if node.attr("fmod", 0) else np.mod(a, b))


_POWERS: dict[float, Callable[[Array], Array]] = {
    2.0: lambda x: x * x,
    3.0: lambda x: x * x * x,
    0.5: np.sqrt,
    -1.0: np.reciprocal,
    1.0: np.copy,
}


def _power(_node: Node, base: Array, exponent: Array) -> Array:
    """The power base ** exponent in the type of the base; integers that need it go through float64."""
    if np.issubdtype(base.dtype, np.floating):
        if exponent.size == 1 and exponent.ndim <= base.ndim and float(exponent.item()) in _POWERS:
            return _POWERS[float(exponent.item())](base)
        return np.asarray(np.power(base, exponent.astype(base.dtype)))
    if np.issubdtype(exponent.dtype, np.integer) and (exponent >= 0).all():
        return np.asarray(np.power(base, exponent.astype(base.dtype)))
    return np.trunc(np.power(base.astype(np.float64), exponent.astype(np.float64))).astype(base.dtype)


def _mean(_node: Node, *arrays: Array) -> Array:
    total = arrays[0]
    for array in arrays[1:]:
        total = total + array
    return np.asarray(total / np.asarray(len(arrays), total.dtype))


def _erf(_node: Node, x: Array) -> Array:
    from scipy.special import erf

    return np.asarray(erf(x.astype(np.float64)))


def numpy_unary(function: Callable[[Array], Array]) -> Compute:
    """Values by a NumPy function of one array."""
    return with_numpy(lambda _node, x: function(x))


def _log(array: Array) -> Array:
    """Correctly rounded, so that LogSoftmax, which takes it of its sums, has the bits of its formula."""
    return np.log(array, dtype=np.float64 if array.dtype == np.float32 else None)


def _constant_exponent(node: Node) -> float | None:
    """The exponent of Pow if it is one known number."""
    tensor = node.required(1)
    if tensor.constant is None or not tensor.constant.available or tensor.elements != 1:
        return None
    return float(tensor.constant.array().item())


# x^y = e^(y ln|x|) with the sign of negative bases, special values, and refinement of ln: 40 cycles per 64
# float32 elements
POW_STEPS: tuple[StepSpec, ...] = (
    "vabs",
    "vln",
    "vmul",
    "vexp",
    ("vconv", 4),
    ("vmuls", 2),
    ("vcmp", 6),
    ("vsel", 6),
    ("vmul", 8),
    ("vadds", 8),
)
_POW_SHORT: dict[float, tuple[StepSpec, ...]] = {
    2.0: ("vmul",),
    3.0: (("vmul", 2),),
    4.0: (("vmul", 2),),
    0.5: ("vsqrt",),
    -1.0: ("vrec",),
    -0.5: ("vrsqrt",),
    1.0: ("vadds",),
}


# Instructions that 64-bit integers are built from 32-bit halves with (CANN's Add, Sub, Mul, Maximum, Minimum
# take int64; Maximum was measured on 910B2 at 547 GB/s)
_LONG = frozenset({"vadd", "vsub", "vmul", "vmax", "vmin"})


def _pow_lower(node: Node, context: LowerContext) -> Work:
    """On the AI CPU in old releases (profile flag "aicpu_pow"); small constant exponents are products."""
    if node.output.elements and context.options.get("aicpu_pow"):
        return on_ai_cpu(node, 20.0)
    exponent = _constant_exponent(node)
    short = _POW_SHORT.get(exponent) if exponent is not None else None
    return elementwise_work(node, context, POW_STEPS if short is None else short, wide=short is None)


def _fold_lower(op: str, after: Sequence[StepSpec] = ()) -> Callable[[Node, LowerContext], Work]:
    """Any number of inputs, folded by n - 1 instructions; one input is passed on."""

    def lower(node: Node, context: LowerContext) -> Work:
        if node.input_count == 1:
            source, target = node.required(0), node.output
            return (
                NoTask(((target.name, source.name),))
                if Ref.of(source).bytes == Ref.of(target).bytes
                else on_ai_cpu(node)
            )
        return elementwise_work(node, context, [(op, node.input_count - 1), *after], long=op in _LONG)

    return lower


# t = floor(a / b) by conversion, a - t * b
_MOD_STEPS: tuple[StepSpec, ...] = ("vdiv", ("vconv", 2), "vmul", "vsub")
# Range reduction to one period, then an odd polynomial with 6 coefficients
_PERIODIC: tuple[StepSpec, ...] = (("vmuls", 2), ("vconv", 2), "vsub", ("vmul", 8), ("vadds", 6))
# Inverse functions by polynomial after range reduction with compare and select
_INVERSE: tuple[StepSpec, ...] = (("vcmp", 2), ("vsel", 2), "vsqrt", "vdiv", ("vmul", 10), ("vadds", 9))
_HYPERBOLIC: tuple[StepSpec, ...] = ("vexp", "vrec", "vadd", "vmuls")  # (e^x +- e^-x) / 2
_LOGARITHMIC: tuple[StepSpec, ...] = ("vmul", "vadds", "vsqrt", "vadd", "vln")  # ln(x + sqrt(x^2 +- 1))
# Clamp, two polynomials in x^2 (6 and 5 coefficients) and their quotient; "vmul" counts 2 cycles where its
# reads meet in one bank
ERF_STEPS: tuple[StepSpec, ...] = ("vmins", "vmaxs", "vmuls", ("vmul", 12), ("vadds", 11), "vdiv")
_SIGN_STEPS: tuple[StepSpec, ...] = (("vmuls", 2), "vabs", ("vadds", 2), "vdiv", ("vconv", 2))


def _binary(
    name: str,
    kernel: str,
    function: Callable[[Array, Array], Array],
    step: str,
    cann: str = "",
    *,
    facts: Facts = ELEMENTWISE,
    mindspore: str = "",
) -> OpDef:
    return OpDef(
        name,
        infer_broadcast(),
        PairwiseCompute(kernel, function),
        elementwise_lower([step], long=step in _LONG),
        Layout.FOLLOW,
        cann,
        mindspore=mindspore or cann,
        in_place=True,
        most_inputs=2,
        facts=facts,
    )


def _function(
    name: str, compute: Compute, steps: Sequence[StepSpec], wide: bool = False, facts: Facts = ELEMENTWISE
) -> OpDef:
    return OpDef(
        name, same_as(), compute, elementwise_lower(steps, wide), Layout.FOLLOW, in_place=True, facts=facts
    )


def _kernel(
    name: str,
    kernel: str,
    function: Callable[[Array], Array],
    steps: Sequence[StepSpec],
    *,
    numbers: tuple[float, ...] = (),
    wide: bool = False,
    facts: Facts = ELEMENTWISE,
) -> OpDef:
    return _function(name, by_kernel(kernel, lambda _node, x: function(x), numbers), steps, wide, facts)


def _of_two(name: str, of_two: str) -> Callable[[Node], str]:
    """MindSpore's operator takes two operands."""
    return lambda node: of_two if node.input_count == 2 else name


def _sum_written_out(w: Writer) -> Tensor | None:
    """Sums of two; the operator rounds once, so float16 is widened in between."""
    count = w.node.input_count
    operands = [w.wide(w(index)) if count > 2 else w(index) for index in range(count)]
    return w.like_output(reduce(partial(w.op, "Add"), operands)) if count > 1 else None


_MAGNITUDE = replace(COMPUTED, sign=Sign.NEVER_NEGATIVE)
_ROOT = replace(SENSITIVE_PARTIAL, sign=Sign.NEVER_NEGATIVE)
_POWER = replace(SENSITIVE_PARTIAL, sign=Sign.POSITIVE)

OPERATORS: tuple[OpDef, ...] = (
    _binary("Add", "ADD", np.add, "vadd", facts=COMPUTED, mindspore="TensorAdd"),
    _binary("Sub", "SUB", np.subtract, "vsub", facts=COMPUTED),
    _binary("Mul", "MUL", np.multiply, "vmul", facts=COMPUTED),
    _binary("Div", "DIV", _divide, "vdiv", "RealDiv", facts=replace(COMPUTED, finite=False)),
    OpDef(
        "Max",
        infer_broadcast(),
        PairwiseCompute("MAX", np.maximum),
        _fold_lower("vmax"),
        Layout.FOLLOW,
        "Maximum",
        mindspore=_of_two("Max", "Maximum"),
        in_place=True,
        most_inputs=None,
        facts=CHOSEN_ELEMENT,
    ),
    OpDef(
        "Min",
        infer_broadcast(),
        PairwiseCompute("MIN", np.minimum),
        _fold_lower("vmin"),
        Layout.FOLLOW,
        "Minimum",
        mindspore=_of_two("Min", "Minimum"),
        in_place=True,
        most_inputs=None,
        facts=CHOSEN_ELEMENT,
    ),
    OpDef(
        "Sum",
        infer_broadcast(),
        PairwiseCompute("ADD", np.add),
        _fold_lower("vadd"),
        Layout.FOLLOW,
        "AddN",
        mindspore="AddN",
        expand=_sum_written_out,
        in_place=True,
        most_inputs=None,
        facts=COMPUTED,
    ),
    OpDef(
        "Mean",
        infer_broadcast(),
        with_numpy(_mean),
        _fold_lower("vadd", ("vmuls",)),
        Layout.FOLLOW,
        "AccumulateNV2",
        in_place=True,
        most_inputs=None,
        facts=ELEMENTWISE,
    ),
    OpDef(
        "Pow",
        infer_broadcast(),
        with_numpy(_power),
        _pow_lower,
        Layout.FOLLOW,
        in_place=True,
        most_inputs=2,
        facts=SENSITIVE_PARTIAL,
    ),
    OpDef(
        "Mod",
        infer_broadcast(),
        with_numpy(_modulo),
        elementwise_lower(_MOD_STEPS, wide=True),
        Layout.FOLLOW,
        "FloorMod",
        in_place=True,
        most_inputs=2,
        facts=replace(COMPUTED, finite=False),
    ),
    _kernel("Abs", "ABS", np.abs, ["vabs"], facts=_MAGNITUDE),
    _kernel("Neg", "LINEAR", np.negative, ["vmuls"], numbers=(-1, -0.0), facts=COMPUTED),
    _kernel(
        "Sqrt",
        "SQRT",
        np.sqrt,
        ["vsqrt"],
        facts=_ROOT,
    ),
    _kernel("Reciprocal", "RECIPROCAL", np.reciprocal, ["vrec"], facts=SENSITIVE_PARTIAL),
    _kernel(
        "Exp",
        "EXP",
        np.exp,
        ["vexp"],
        wide=True,
        facts=_POWER,
    ),
    _function("Log", numpy_unary(_log), ["vln"], wide=True, facts=SENSITIVE_PARTIAL),
    _function("Floor", numpy_unary(np.floor), [("vconv", 2)]),
    _function("Ceil", numpy_unary(np.ceil), [("vconv", 2)]),
    _function("Round", numpy_unary(np.rint), [("vconv", 2)]),
    _function("Sign", numpy_unary(np.sign), _SIGN_STEPS),
    _function("Erf", by_kernel("ERF", _erf), ERF_STEPS, wide=True, facts=SENSITIVE),
    _function("Sin", numpy_unary(np.sin), _PERIODIC, wide=True),
    _function("Cos", numpy_unary(np.cos), _PERIODIC, wide=True),
    _function(
        "Tan", numpy_unary(np.tan), (*_PERIODIC, ("vmul", 4), ("vadds", 4), "vdiv"), wide=True, facts=PARTIAL
    ),
    _function("Asin", numpy_unary(np.arcsin), _INVERSE, wide=True, facts=PARTIAL),
    _function("Acos", numpy_unary(np.arccos), (*_INVERSE, "vmuls", "vadds"), wide=True, facts=PARTIAL),
    _function("Atan", numpy_unary(np.arctan), _INVERSE, wide=True),
    _function("Sinh", numpy_unary(np.sinh), _HYPERBOLIC, wide=True, facts=PARTIAL),
    _function("Cosh", numpy_unary(np.cosh), _HYPERBOLIC, wide=True, facts=PARTIAL),
    _function("Asinh", numpy_unary(np.arcsinh), _LOGARITHMIC, wide=True),
    _function("Acosh", numpy_unary(np.arccosh), _LOGARITHMIC, wide=True, facts=PARTIAL),
    _function(
        "Atanh",
        numpy_unary(np.arctanh),
        ("vmuls", ("vadds", 2), "vdiv", "vln", "vmuls"),
        wide=True,
        facts=PARTIAL,
    ),
)
