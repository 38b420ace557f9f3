"""Scores of throughput as `ascendsim validate` prints them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ascendsim.cli.common import print_table

if TYPE_CHECKING:
    from ascendsim.validate import Prediction, Score


def score_cells(value: Score) -> tuple[str, ...]:
    """Number of points, MAPE, median and bias in percent, Spearman."""
    shares = [f"{100 * share:.1f}" for share in (value.mape, value.median, value.bias)]
    return (str(value.points), *shares, f"{value.spearman:.3f}")


def print_worst(predictions: Iterable[Prediction]) -> None:
    """A row a prediction, samples a second, and an empty line."""
    rows = [
        (
            found.point.model,
            found.point.batch,
            f"{found.point.throughput:.1f}",
            f"{found.throughput:.1f}",
            f"{100 * found.error:+.1f}",
        )
        for found in predictions
    ]
    print_table(("network", "batch", "measured/s", "simulated/s", "error %"), rows)
    print()
