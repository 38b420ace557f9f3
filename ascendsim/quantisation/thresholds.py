"""The magnitude T that becomes the largest int8: everything beyond it saturates (step = T / 127).

A small T clips what is large, a large T makes the steps coarse for everything else. Candidates are the ends
of the histogram's bins.

    max          the largest magnitude: nothing is clipped
    percentile   the least T that a share of all elements does not exceed
    mse          least expected squared error of rounding and clipping
    kl           least Kullback-Leibler divergence of the values in 128 levels from the values in fine bins,
                 as NVIDIA describes it for TensorRT (S. Migacz, "8-bit Inference with TensorRT", GTC 2017)

Three things the description leaves open. What is clipped counts where the last element below T lies: in an
empty bin it would have no counterpart, and no outlier far from all others could ever be clipped. At most a
tenth of the elements other than 0 is clipped: of averages, which lie away from 0, nearly all could be, as a
single bin is like itself. And while the best T lies in the lower half of the bins, the search goes on with
bins of half the width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ascendsim.core.errors import InputError, suggest
from ascendsim.quantisation.histogram import Histogram

Method = Literal["kl", "mse", "max", "percentile"]
METHODS: tuple[str, ...] = get_args(Method)
STEPS = 127  # magnitudes of symmetric int8 other than 0
LEVELS = 128  # what the KL method tells apart; also the least number of bins below T
PERCENTILE = 99.99
_BINS = 2048  # of TensorRT's histograms
_CANDIDATES = 1024  # of the squared error, half a percent apart
_MOST_CLIPPED = 0.1  # share of the elements other than 0
_TOGETHER = 512  # candidates that are tried at a time, which bounds memory
_SAME = 1e-12  # losses that differ by less do so by rounding

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


def threshold(histogram: Histogram, method: str = "kl", percentile: float = PERCENTILE) -> float:
    """T of a tensor; 0 if nothing but zeros was seen.

    Args:
        histogram: Of its magnitudes.
        method: "kl", "mse", "max" or "percentile".
        percentile: Share of the elements in percent that "percentile" leaves whole.

    Raises:
        InputError: If there is no such method, or no such share.
    """
    check_method(method, percentile)
    if method == "max" or histogram.largest == 0:
        return histogram.largest
    if method == "percentile":
        bins = _percentile(histogram, percentile)
    else:
        bins = _least_divergence(histogram) if method == "kl" else _least_error(histogram)
    return min(bins * histogram.width, histogram.largest)


def check_method(method: str, percentile: float) -> None:
    """Refuses options that `threshold` does not take.

    Raises:
        InputError: If there is no such method, or no such share.
    """
    if method not in METHODS:
        raise InputError(f"option activation: {method!r}", "does not exist", remedy=suggest(method, METHODS))
    if not 0 < percentile <= 100:
        raise InputError("option percentile", "must be above 0 and at most 100", percentile)


def _percentile(histogram: Histogram, percentile: float) -> int:
    reached = histogram.zeros + np.cumsum(histogram.counts)
    wanted = percentile / 100 * histogram.total
    return min(int(np.searchsorted(reached, wanted)) + 1, histogram.top)


def _least_divergence(histogram: Histogram) -> int:
    """Number of bins below the T of least divergence."""
    counts = histogram.counts[: histogram.top].astype(np.float64)
    joined = 1  # bins of the histogram that make one
    while counts.size > _BINS * joined:
        joined *= 2
    while True:
        coarse = _joined(counts, joined)
        candidates = np.arange(min(LEVELS, coarse.size), min(_BINS, coarse.size) + 1)
        best = _best(candidates, _divergence(coarse))
        if 2 * best >= _BINS or joined == 1:
            return min(best * joined, counts.size)
        joined //= 2


def _least_error(histogram: Histogram) -> int:
    """Number of bins below the T of least squared error."""
    counts = histogram.counts[: histogram.top].astype(np.float64)
    lowest = min(LEVELS, counts.size)
    candidates = np.unique(np.rint(np.geomspace(lowest, counts.size, _CANDIDATES)).astype(np.int64))
    return _best(candidates, _squared_error(counts))


def _best(candidates: Whole, loss: Callable[[Whole], Floats]) -> int:
    """The candidate of least loss; of several the one that clips least."""
    parts = [loss(candidates[at : at + _TOGETHER]) for at in range(0, candidates.size, _TOGETHER)]
    losses = np.concatenate(parts)
    return int(candidates[np.flatnonzero(losses <= losses.min() + _SAME)[-1]])


def _joined(counts: Floats, together: int) -> Floats:
    """Sums of neighbours."""
    return np.asarray(np.pad(counts, (0, -counts.size % together)).reshape(-1, together).sum(axis=1))


def _divergence(counts: Floats) -> Callable[[Whole], Floats]:
    """Kullback-Leibler divergence of Q from P for candidates of `i` bins.

    P is the first i bins, with what lies beyond them added to the last one that is not empty; Q is the same
    bins without that, each of 128 levels spread evenly over those of its bins that are not empty. Sums over
    bins are differences of running sums, so that a candidate costs as much as it has levels.
    """
    total = counts.sum()
    held, filled = _running(counts), _running((counts > 0).astype(np.float64))
    entropy = _running(_x_log_x(counts))
    # bin -> the last one up to it that is not empty (the first bin if there is none)
    latest = np.maximum.accumulate(np.where(counts > 0, np.arange(counts.size), 0))

    def loss(candidates: Whole) -> Floats:
        edges = candidates[:, None] * np.arange(LEVELS + 1) // LEVELS
        inside, bins = np.diff(held[edges]), np.diff(filled[edges])
        density = np.log(np.divide(inside, bins, out=np.ones_like(inside), where=bins > 0))
        beyond, last = total - held[candidates], latest[candidates - 1]
        level = (edges[:, 1:] <= last[:, None]).sum(axis=1)
        p_log_p = entropy[candidates] - _x_log_x(counts[last]) + _x_log_x(counts[last] + beyond)
        p_log_q = (inside * density).sum(axis=1) + beyond * density[np.arange(candidates.size), level]
        divergence = (p_log_p - p_log_q) / total + np.log(np.maximum(held[candidates], 1) / total)
        return np.where(beyond <= _MOST_CLIPPED * total, divergence, np.inf)

    return loss


def _squared_error(counts: Floats) -> Callable[[Whole], Floats]:
    """Sum of squared errors for candidates of `i` bins, every element in the middle of its bin; in units of a
    bin's width.
    """
    middles = np.arange(counts.size) + 0.5
    moments = [_running(counts * middles**power) for power in range(3)]

    def loss(candidates: Whole) -> Floats:
        step = candidates[:, None] / STEPS
        # bins whose middle is nearer to level j than to j + 1 end here; the last level takes all beyond
        edges = np.ceil((np.arange(STEPS) + 0.5) * step - 0.5).astype(np.int64)
        ends = np.full((candidates.size, 1), counts.size)
        edges = np.concatenate([np.zeros_like(ends), np.minimum(edges, counts.size), ends], axis=1)
        level = np.arange(STEPS + 1) * step
        zeroth, first, second = (np.diff(moment[edges]) for moment in moments)
        return np.asarray((second - 2 * level * first + level**2 * zeroth).sum(axis=1))

    return loss


def _running(values: Floats) -> Floats:
    """Running sums, from 0 on."""
    return np.concatenate([[0.0], np.cumsum(values)])


def _x_log_x(values: Floats) -> Floats:
    return np.asarray(values * np.log(np.maximum(values, 1)))  # counts: whole numbers
