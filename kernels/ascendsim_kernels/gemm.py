"""Exact products of small integers through float32 BLAS.

Float products need no kernel of their own: a product of two halves is exact in float32 (11 + 11 bits), so
`numpy.matmul` of widened operands differs from the Cube only in the order of accumulation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

EXACT_FLOAT32 = 1 << 24  # every integer up to here is a float32


def exact_terms(left: NDArray[Any], right: NDArray[Any]) -> int:
    """How many products of elements of the two arrays float32 can sum without rounding (1024 for full-range
    int8).
    """
    largest = _magnitude(left) * _magnitude(right)
    return max(1, EXACT_FLOAT32 // largest) if largest else EXACT_FLOAT32


def integer_matmul(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.int32]:
    """Exact a @ b in int32 of small integers (8 bit, zero points already taken off).

    The inner dimension is cut so that no partial sum leaves the integers that float32 holds exactly.

    Args:
        a: (..., m, k) or (k,), integers of magnitude < 512.
        b: (..., k, n) or (k,), integers of magnitude < 512.

    Returns:
        (..., m, n); sums wrap around at 32 bits as the hardware's accumulator does.
    """
    step = exact_terms(a, b)
    inner = a.shape[-1]
    left, right = a.astype(np.float32), b.astype(np.float32)
    total = np.matmul(left[..., :step], _rows(right, 0, step)).astype(np.int64)
    for start in range(step, inner, step):
        total = total + np.matmul(left[..., start : start + step], _rows(right, start, start + step)).astype(
            np.int64
        )
    return np.asarray(total).astype(np.int32)


def _rows(matrix: NDArray[Any], start: int, stop: int) -> NDArray[Any]:
    """Rows of the contracted axis: the only axis of a vector, the last but one of a matrix."""
    return matrix[start:stop] if matrix.ndim == 1 else matrix[..., start:stop, :]


def _magnitude(array: NDArray[Any]) -> int:
    if array.size == 0:
        return 0
    return max(abs(int(array.min())), abs(int(array.max())))
