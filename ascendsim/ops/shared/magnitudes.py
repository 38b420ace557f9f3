"""What the results of operators hold: the largest magnitude, zeros, and what lies close to zero."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ascendsim.graph.ir import Array, Node, Tensor

_SCANNED = ("float16", "float32")
# Zeros are looked into where one element of so many is below the normal range: then more may be zero for its
# size. Results spread evenly around zero have fewer.
_SUSPICIOUS = 128


@dataclass(frozen=True, slots=True)
class Magnitudes:
    """Of the result of an operator.

    Attributes:
        largest: The largest magnitude; NaN stands above infinity.
        suspicious: Whether some of the zeros may be numbers too small for float16.
        flushed: How many numbers became zero as they were rounded, where the rounding was seen.
    """

    largest: float
    suspicious: bool = False
    flushed: int = 0

    @property
    def finite(self) -> bool:
        return math.isfinite(self.largest)

    def joined(self, other: Magnitudes) -> Magnitudes:
        """Of two parts of a result."""
        return Magnitudes(
            float(np.maximum(self.largest, other.largest)),  # NaN where one is
            self.suspicious or other.suspicious,
            self.flushed + other.flushed,
        )


# What rounds beyond float16's last number: half a step above it.
ROUNDS_OUT = 65520.0


def left_float16(held: Mapping[Node, Magnitudes], dtype_of: Callable[[Tensor], np.dtype[Any]]) -> bool:
    """Whether one of some operators made what float16 cannot hold."""
    return any(
        (not item.finite or item.largest >= ROUNDS_OUT) and dtype_of(node.output) == np.float16
        for node, item in held.items()
    )


def magnitudes(array: Array) -> Magnitudes | None:
    """One pass over an array; None if it holds no numbers that could leave a float's range."""
    if array.dtype.name in _SCANNED:
        from ascendsim_kernels.watch import scan

        largest, zeros, small = scan(array)
        few = zeros == array.size or small * _SUSPICIOUS >= array.size
        return Magnitudes(largest, zeros > 0 and few)
    if array.dtype.kind == "f" or array.dtype.name == "bfloat16":
        with np.errstate(invalid="ignore"):  # ml_dtypes warns of NaN, which is what is looked for
            return Magnitudes(float(np.max(np.abs(array), initial=0)))
    return None
