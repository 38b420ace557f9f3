"""How far predictions are from measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from ascendsim.validate.points import Point


@dataclass(frozen=True, slots=True)
class Prediction:
    """A predicted throughput beside the measured one, in samples per second."""

    point: Point
    throughput: float

    @property
    def error(self) -> float:
        """Signed relative error: predicted / measured - 1."""
        return self.throughput / self.point.throughput - 1


@dataclass(frozen=True, slots=True)
class Score:
    """Errors of a set of predictions.

    Attributes:
        mape: Mean of |error|.
        median: Median of |error|.
        bias: Mean of the signed error.
        spearman: Rank correlation of predicted and measured throughput; 0 for fewer than two points.
    """

    points: int
    mape: float
    median: float
    bias: float
    spearman: float


def score(predictions: Sequence[Prediction]) -> Score:
    """The score of at least one prediction."""
    errors = [prediction.error for prediction in predictions]
    absolute = [abs(error) for error in errors]
    correlation = spearman([p.throughput for p in predictions], [p.point.throughput for p in predictions])
    return Score(len(errors), fmean(absolute), median(absolute), fmean(errors), correlation)


def worst(predictions: Sequence[Prediction], count: int = 10) -> tuple[Prediction, ...]:
    """The predictions with the largest errors, largest first."""
    ordered = sorted(predictions, key=lambda p: (-abs(p.error), p.point.model, p.point.batch))
    return tuple(ordered[:count])


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Rank correlation: the correlation of the ranks, equal values sharing their mean rank.

    >>> spearman([1, 2, 3, 4], [10, 30, 20, 40])
    0.8
    """
    if len(a) < 2:
        return 0.0
    x, y = _ranks(a), _ranks(b)
    mean = (len(a) + 1) / 2
    product = sum((i - mean) * (j - mean) for i, j in zip(x, y, strict=True))
    spread = sum((i - mean) ** 2 for i in x) * sum((j - mean) ** 2 for j in y)
    return float(product / spread**0.5) if spread else 0.0


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for position in range(start, end + 1):
            ranks[order[position]] = (start + end) / 2 + 1
        start = end + 1
    return ranks
