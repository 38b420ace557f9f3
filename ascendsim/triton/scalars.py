"""Operations of the scalar unit: arithmetic on integers and floating-point numbers as MLIR defines it."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from ascendsim.core.errors import KernelError

Number = Any  # int or float
WIDTHS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "index": 64}
FLOATS: dict[str, type] = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f64": np.float64,
}
_UNSIGNED_OF = {2: np.uint16, 4: np.uint32, 8: np.uint64}


def wrapped(value: int, kind: str) -> int:
    """An integer in the range of a type, as two's complement; i1 is 0 or 1.

    >>> wrapped(255, "i8"), wrapped(3, "i1")
    (-1, 1)
    """
    width = WIDTHS[kind]
    value &= (1 << width) - 1
    return value if width == 1 or value < 1 << (width - 1) else value - (1 << width)


def unsigned(value: int, kind: str) -> int:
    """The bits of an integer as a number that is not negative."""
    return value & ((1 << WIDTHS[kind]) - 1)


def rounded(value: float, kind: str) -> float:
    """The nearest number of a floating-point type."""
    with np.errstate(all="ignore"):
        return float(FLOATS[kind](value))


def bits_of(value: Number, kind: str) -> int:
    """A scalar as the word that a call hands over."""
    if kind in FLOATS:
        with np.errstate(all="ignore"):
            made: Any = np.array(value, FLOATS[kind])
        return int(made.view(_UNSIGNED_OF[made.itemsize]))
    return int(value) & ((1 << 64) - 1)


def constant(text: str, kind: str) -> Number:
    """A constant of a type as it is written.

    >>> constant("0xFF800000", "f32"), constant("true", "i1"), constant("-5", "i32")
    (-inf, 1, -5)
    """
    if text in ("true", "false"):
        return int(text == "true")
    if kind not in FLOATS:
        return int(text)
    if not text.startswith("0x"):
        return float(text)
    number = int(text, 16)
    if kind == "f64":
        return float(struct.unpack("<d", struct.pack("<Q", number))[0])
    made = np.array(number, _UNSIGNED_OF[2 if kind != "f32" else 4])
    return float(made.view(FLOATS[kind]))


def _toward_zero(left: int, right: int) -> int:
    if not right:
        raise KernelError("compiled kernel", "divides an integer by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


_INTEGER: dict[str, Callable[[int, int], int]] = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "divsi": _toward_zero,
    "remsi": lambda a, b: a - b * _toward_zero(a, b),
    "ceildivsi": lambda a, b: -(-a // b),
    "floordivsi": lambda a, b: a // b,
    "andi": lambda a, b: a & b,
    "ori": lambda a, b: a | b,
    "xori": lambda a, b: a ^ b,
    "shli": lambda a, b: a << min(b, 64),
    "shrsi": lambda a, b: a >> b,
    "minsi": min,
    "maxsi": max,
}
_OF_BITS: dict[str, Callable[[int, int], int]] = {
    "divui": lambda a, b: _toward_zero(a, b),
    "remui": lambda a, b: a - b * _toward_zero(a, b),
    "ceildivui": lambda a, b: -(-a // b),
    "minui": min,
    "maxui": max,
    "shrui": lambda a, b: a >> b,
}
_COMPARED: dict[str, Callable[[Number, Number], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


_FLOAT: dict[str, Callable[..., Any]] = {
    "addf": np.add,
    "subf": np.subtract,
    "mulf": np.multiply,
    "divf": np.divide,
    "remf": np.fmod,
    "negf": np.negative,
    "maximumf": np.maximum,
    "minimumf": np.minimum,
    "maxnumf": np.fmax,
    "minnumf": np.fmin,
    "absf": np.abs,
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "floor": np.floor,
    "ceil": np.ceil,
    "powf": np.power,
    "fma": lambda a, b, c: a * b + c,
}


def arithmetic(name: str, kind: str) -> Callable[..., Number] | None:
    """What an operation of `arith` or `math` computes on one type; None if it is not known.

    Args:
        name: Without its dialect.
        kind: Type of the operands.
    """
    if kind in FLOATS:
        function = _FLOAT.get(name)
        if function is None:
            return None
        # the scalar unit computes in float32; what is narrower is rounded to its type
        width = np.float64 if kind == "f64" else np.float32

        def compute(*given: float) -> float:
            with np.errstate(all="ignore"):
                return rounded(function(*[width(one) for one in given]), kind)

        return compute
    if name in _INTEGER:
        whole = _INTEGER[name]
        return lambda a, b: wrapped(whole(a, b), kind)
    if name in _OF_BITS:
        plain = _OF_BITS[name]
        return lambda a, b: wrapped(plain(unsigned(a, kind), unsigned(b, kind)), kind)
    if name == "absi":
        return lambda a: wrapped(abs(a), kind)
    return None


def comparison(name: str, predicate: str, kind: str) -> Callable[[Number, Number], int] | None:
    """`cmpi` or `cmpf` with a predicate; None if it is not known."""
    relation = _COMPARED.get(predicate if len(predicate) == 2 else predicate[1:])
    if name == "cmpf":
        if predicate in ("ord", "uno"):
            wanted = predicate == "uno"
            return lambda a, b: int((math.isnan(a) or math.isnan(b)) is wanted)
        if relation is None:
            return None
        either = predicate.startswith("u")  # unordered: true if one is NaN
        return lambda a, b: int(either) if math.isnan(a) or math.isnan(b) else int(relation(a, b))
    if relation is None:
        return None
    if predicate.startswith("u"):
        return lambda a, b: int(relation(unsigned(a, kind), unsigned(b, kind)))
    return lambda a, b: int(relation(a, b))


def conversion(name: str, source: str, target: str) -> Callable[[Number], Number] | None:
    """A change of type; None if it is not known."""
    if name in ("index_cast", "trunci", "extsi"):
        return lambda a: wrapped(-a if source == "i1" and name == "extsi" else a, target)
    if name in ("extui", "index_castui"):
        return lambda a: wrapped(unsigned(a, source), target)
    if name in ("sitofp", "extf", "truncf"):
        return lambda a: rounded(a, target)
    if name == "uitofp":
        return lambda a: rounded(unsigned(a, source), target)
    if name in ("fptosi", "fptoui"):
        return lambda a: wrapped(int(a) if math.isfinite(a) else 0, target)
    if name == "bitcast":
        return lambda a: _same_bits(a, source, target)
    return None


def _same_bits(value: Number, source: str, target: str) -> Number:
    if source in FLOATS:
        return wrapped(bits_of(value, source), target)
    made = np.array(unsigned(value, source), _UNSIGNED_OF[WIDTHS[source] // 8])
    return float(made.view(FLOATS[target]))
