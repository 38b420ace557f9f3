"""Magnitudes of a tensor over a whole data set, counted in bins as the data stream by.

Memory does not grow with the data: there is a fixed number of bins, and where a magnitude lies beyond the
last one, neighbours are joined and each is twice as wide. Widths are powers of two, so no count is ever split
between bins, and neither the order of the data nor how they are cut into batches changes the result.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ascendsim.graph.ir import Array

BINS = 1 << 15
_AT_ONCE = 1 << 20  # elements that are looked at in one go


class Histogram:
    """How often which magnitude occurs. Zeros are counted apart: every scale represents them exactly.

    Args:
        bins: Number of bins, even; the largest magnitude lies in the upper half of them.

    Attributes:
        counts: Magnitudes other than 0 by bin; bin k holds [k, k + 1) * width.
        width: Of a bin, a power of two; 0 until there is a magnitude other than 0.
        zeros: Elements that are 0.
        largest: The largest magnitude.
    """

    def __init__(self, bins: int = BINS) -> None:
        self.counts: NDArray[np.int64] = np.zeros(bins, np.int64)
        self.width, self.zeros, self.largest = 0.0, 0, 0.0

    @property
    def total(self) -> int:
        """Elements in all."""
        return int(self.counts.sum()) + self.zeros

    @property
    def top(self) -> int:
        """Number of bins up to the last one that is not empty."""
        held = np.flatnonzero(self.counts)
        return int(held[-1]) + 1 if held.size else 0

    def add(self, array: Array) -> None:
        """Counts the elements of an array, which must be finite."""
        flat = array.reshape(-1)
        for start in range(0, flat.size, _AT_ONCE):
            magnitudes = np.abs(flat[start : start + _AT_ONCE]).astype(np.float64)
            largest, zeros = float(magnitudes.max(initial=0.0)), int((magnitudes == 0).sum())
            self.zeros += zeros
            if largest == 0:
                continue
            self._reach(largest)
            places = (magnitudes / self.width).astype(np.int64)
            self.counts += np.bincount(places, minlength=self.counts.size)
            self.counts[0] -= zeros

    def merge(self, other: Histogram) -> None:
        """Adds what another one of as many bins has counted."""
        self.zeros += other.zeros
        if other.largest == 0:
            return
        self._reach(other.largest)
        counts = other.counts
        for _ in range(round(math.log2(self.width / other.width))):
            counts = _halved(counts)
        self.counts += counts

    def above(self, threshold: float) -> float:
        """Share of the elements in bins that begin at a threshold or beyond it."""
        if not self.width:
            return 0.0
        first = math.ceil(threshold / self.width)
        return float(self.counts[first:].sum() / self.total)

    def _reach(self, magnitude: float) -> None:
        """Widens the bins until they hold a magnitude."""
        self.largest = max(self.largest, magnitude)
        # the least power of two above it, over the number of bins
        width = math.ldexp(1.0, math.frexp(magnitude)[1]) / self.counts.size
        if not self.width:
            self.width = width
        while self.width < width:
            self.counts, self.width = _halved(self.counts), 2 * self.width


def _halved(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Neighbours joined; the upper half is empty then."""
    joined = counts.reshape(-1, 2).sum(axis=1)
    return np.concatenate([joined, np.zeros_like(joined)])
