"""Histograms that stream, and the thresholds that are found on them, against plain readings of the method."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascendsim.core.errors import InputError
from ascendsim.quantisation.histogram import BINS, Histogram
from ascendsim.quantisation.thresholds import threshold

RANDOM = np.random.default_rng(3)


def histogram(values: Any, bins: int = BINS, parts: int = 1) -> Histogram:
    made = Histogram(bins)
    for part in np.array_split(np.asarray(values, np.float32), parts):
        made.add(part)
    return made


# ---- histograms


def test_bins_hold_what_numpy_counts() -> None:
    values = np.concatenate([RANDOM.standard_normal(5000), np.zeros(40)]).astype(np.float32)
    found = histogram(values, bins=64)
    edges = np.arange(65) * found.width
    counts, _ = np.histogram(np.abs(values[values != 0]), edges)
    assert found.counts.tolist() == counts.tolist()
    assert (found.zeros, found.total) == (40, 5040)
    assert found.largest == np.abs(values).max()
    assert found.largest / found.width > 32  # the upper half is in use


def test_neither_order_nor_batches_change_it() -> None:
    values = RANDOM.standard_normal(4000) * np.exp(3 * RANDOM.standard_normal(4000))
    whole = histogram(values)
    for other in (
        histogram(values, parts=37),
        histogram(np.sort(values), parts=9),
        histogram(values[::-1], parts=3),
    ):
        assert other.counts.tolist() == whole.counts.tolist()
        assert (other.width, other.largest, other.zeros) == (whole.width, whole.largest, whole.zeros)


def test_memory_does_not_grow_with_the_data() -> None:
    found = Histogram(128)
    for exponent in range(-20, 20):
        found.add(np.full(1000, 2.0**exponent, np.float32))
    assert found.counts.size == 128
    assert found.total == 40_000


@pytest.mark.parametrize("scales", [(1, 1000), (1000, 1), (1, 1)])
def test_merged_histograms_are_those_of_all_values(scales: tuple[float, float]) -> None:
    parts = [scale * RANDOM.standard_normal(500) for scale in scales]
    merged = histogram(parts[0], 256)
    merged.merge(histogram(parts[1], 256))
    both = histogram(np.concatenate(parts), 256)
    assert merged.counts.tolist() == both.counts.tolist()
    assert merged.width == both.width


def test_merging_with_zeros_alone() -> None:
    zeros, values = histogram(np.zeros(5)), histogram([1.0, 2.0])
    zeros.merge(values)
    assert (zeros.total, zeros.largest) == (7, 2)
    values.merge(histogram(np.zeros(3)))
    assert (values.total, values.zeros) == (5, 3)


# ---- thresholds


def by_the_slides(counts: Any, levels: int = 128) -> int:
    """Bins below the T of least divergence, written down as TensorRT's description has it."""
    best, least = 0, np.inf
    for i in range(levels, len(counts) + 1):
        if counts[i:].sum() > 0.1 * counts.sum():
            continue
        p = counts[:i].astype(float)
        p[np.flatnonzero(p)[-1]] += counts[i:].sum()
        q = np.zeros(i)
        for level in range(levels):
            start, end = level * i // levels, (level + 1) * i // levels
            filled = counts[start:end] > 0
            if filled.any():
                q[start:end][filled] = counts[start:end].sum() / filled.sum()
        p, q = p / p.sum(), q / q.sum()
        held = p > 0
        divergence = float((p[held] * np.log(p[held] / q[held])).sum())
        if divergence < least - 1e-12:
            best, least = i, divergence
    return best


@pytest.mark.parametrize("seed", range(2))
def test_kl_is_that_of_the_description(seed: int) -> None:
    random = np.random.default_rng(seed)
    values = np.concatenate([random.laplace(size=20_000), random.uniform(12, 14, 30)])
    found = histogram(values, bins=512)
    bins = by_the_slides(found.counts[: found.top])
    assert threshold(found, "kl") == pytest.approx(bins * found.width)
    assert threshold(found, "kl") < found.largest


def squared_error(values: Any, limit: float) -> float:
    step = limit / 127
    rounded = np.clip(np.rint(values / step), -127, 127) * step
    return float(((rounded - values) ** 2).mean())


@pytest.mark.parametrize("tail", [0.0, 1e-4])
def test_mse_has_the_least_error_of_a_scan_over_the_values(tail: float) -> None:
    values = RANDOM.laplace(size=30_000)
    values[: round(tail * values.size)] *= 40
    found = threshold(histogram(values), "mse")
    scanned = min(
        squared_error(values, limit) for limit in np.linspace(0.02, 1.2, 400) * np.abs(values).max()
    )
    assert squared_error(values, found) <= 1.01 * scanned


def test_rare_outliers_are_cut_off_by_what_saturates() -> None:
    values = RANDOM.standard_normal(200_000)
    values[:2] = 300.0  # one in 10^5
    found = histogram(values)
    assert threshold(found, "max") == 300
    for method in ("kl", "percentile"):
        assert 2.5 < threshold(found, method) < 6, method
    assert found.above(threshold(found, "kl")) >= 2 / 200_000


def test_mse_weighs_an_outlier_against_the_steps() -> None:
    """A share p at A costs p (A - T)^2, steps of T / 127 cost (T / 127)^2 / 12: least at A p / (p + c)."""
    values = RANDOM.standard_normal(1_000_000)
    values[0] = 128.0
    share, steps = 1e-6, 1 / (12 * 127**2)
    wanted = 128 * share / (share + steps)
    assert threshold(histogram(values), "mse") == pytest.approx(wanted, rel=0.05)


def test_percentile_leaves_its_share_whole() -> None:
    values = np.arange(1, 10_001, dtype=np.float32)
    found = histogram(values)
    for share in (50.0, 99.0, 99.9):
        limit = threshold(found, "percentile", share)
        assert abs(limit - 100 * share) <= found.width + 1
    assert threshold(found, "percentile", 100.0) == 10_000
    assert threshold(histogram(np.concatenate([np.zeros(999), [7.0]])), "percentile", 90.0) <= 7


def test_values_far_from_zero_are_not_clipped_all_together() -> None:
    averages = RANDOM.normal(0.9, 0.12, 300)
    assert np.mean(averages > threshold(histogram(averages), "kl")) < 0.11


def test_few_different_values_are_left_whole() -> None:
    for method in ("kl", "mse"):
        assert threshold(histogram([1.0] * 50 + [-2.0] * 50), method) == pytest.approx(2.0, rel=0.02), method
        assert threshold(histogram(np.zeros(10)), method) == 0


def test_wrong_options() -> None:
    with pytest.raises(InputError, match="did you mean 'kl'|does not exist"):
        threshold(histogram([1.0]), "klx")
    with pytest.raises(InputError, match="option percentile must be above 0 and at most 100, not 0"):
        threshold(histogram([1.0]), "percentile", 0)
