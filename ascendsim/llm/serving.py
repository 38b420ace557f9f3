"""What a server's clients saw, and how full it was."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from ascendsim.core.arguments import checked
from ascendsim.core.table import Row, Table
from ascendsim.graph.ir import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # noqa: TID251 - only for the type checker, nothing is loaded

    from ascendsim.plot.series import ServingDisplay

PERCENTILES = (50, 90, 99)


def _doubles() -> array[float]:
    return array("d")


@dataclass(slots=True)
class Steps:
    """The steps that were made, those of one go as one entry."""

    end: array[float] = field(default_factory=_doubles)
    seconds: array[float] = field(default_factory=_doubles)
    count: array[float] = field(default_factory=_doubles)
    batch: array[float] = field(default_factory=_doubles)
    tokens: array[float] = field(default_factory=_doubles)
    context: array[float] = field(default_factory=_doubles)
    cache: array[float] = field(default_factory=_doubles)

    def add(self, *values: float) -> None:
        """One entry: end of the last step [s], seconds of each, steps, sequences that got a token in each,
        tokens of each, their mean context, share of the cache that is used.
        """
        columns = (self.end, self.seconds, self.count, self.batch, self.tokens, self.context, self.cache)
        for column, value in zip(columns, values, strict=True):
            column.append(value)

    def typical(self) -> tuple[int, int]:
        """Batch and context of the step in the middle of all time spent."""
        spent = np.cumsum(np.array(self.seconds) * np.array(self.count))
        middle = int(np.searchsorted(spent, spent[-1] / 2))
        return max(1, round(self.batch[middle])), max(2, round(self.context[middle]))


@dataclass(frozen=True)
class Serving:
    """A served workload.

    Attributes:
        model, soc, cards: What ran where.
        arrival, first, finish: Of each request, in seconds: when it came, had its first token, and its last.
        prompt, output: Tokens of each.
        steps: That the server made.
        preempted: How often a sequence had to give its cache back.
        cells: Steps that were simulated; times of others lie between these.
        error: Of such a time, as a part of the simulated one, at the typical step.
        estimated: Whether lengths are estimates from text.
        note: What is to be known of the times.
    """

    model: str
    soc: str
    cards: int
    arrival: Array
    prompt: Array
    output: Array
    first: Array
    finish: Array
    steps: Steps = field(repr=False)
    preempted: int = 0
    cells: int = 0
    error: float = 0.0
    estimated: bool = False
    note: str = ""

    @property
    def duration_s(self) -> float:
        """From the first arrival to the last token."""
        return float(self.finish.max() - self.arrival.min())

    @property
    def ttft_ms(self) -> Array:
        """Time to first token of each request."""
        return np.asarray((self.first - self.arrival) * 1e3)

    @property
    def tpot_ms(self) -> Array:
        """Time per output token of each request of more than one, the first left out."""
        several = self.output > 1
        spent = (self.finish - self.first)[several]
        return np.asarray(spent / (self.output[several] - 1) * 1e3)

    @property
    def output_tokens_per_s(self) -> float:
        return float(self.output.sum()) / self.duration_s

    @property
    def total_tokens_per_s(self) -> float:
        """Tokens of prompts and of answers."""
        return float(self.output.sum() + self.prompt.sum()) / self.duration_s

    @property
    def utilisation(self) -> float:
        """Part of the time in which the cards work."""
        return float((np.array(self.steps.seconds) * np.array(self.steps.count)).sum()) / self.duration_s

    def inter_token_ms(self, percentile: float) -> float:
        """Percentile of the time between two tokens of a sequence."""
        order = np.argsort(np.array(self.steps.seconds))
        weight = np.cumsum((np.array(self.steps.count) * np.array(self.steps.batch))[order])
        place = min(int(np.searchsorted(weight, weight[-1] * percentile / 100)), len(order) - 1)
        return float(np.array(self.steps.seconds)[order][place]) * 1e3

    def table(self) -> Table:
        """One row a measure: mean and percentiles."""
        rows: list[Row] = []
        for name, values in (("TTFT(ms)", self.ttft_ms), ("TPOT(ms)", self.tpot_ms)):
            if len(values):
                rows.append(
                    (name, float(values.mean()), *(float(np.percentile(values, p)) for p in PERCENTILES))
                )
        latency = self.finish - self.arrival
        rows.append(
            ("Latency(s)", float(latency.mean()), *(float(np.percentile(latency, p)) for p in PERCENTILES))
        )
        return Table("llm_serving", ("Measure", "Mean", *(f"P{p}" for p in PERCENTILES)), tuple(rows))

    def summary(self) -> Table:
        """One row: requests, duration, tokens a second, how busy cards were, and what the times rest on."""
        row = (
            len(self.arrival),
            self.duration_s,
            len(self.arrival) / self.duration_s,
            self.output_tokens_per_s,
            self.total_tokens_per_s,
            100 * self.utilisation,
            float(max(self.steps.batch)),
            100 * max(self.steps.cache),
            self.preempted,
            self.cells,
            100 * self.error,
        )
        columns = (
            "Requests",
            "Duration(s)",
            "Requests/s",
            "Output tokens/s",
            "Total tokens/s",
            "Busy(%)",
            "Largest batch",
            "Cache at most(%)",
            "Preempted",
            "Steps simulated",
            "Error between them(%)",
        )
        return Table("llm_serving_summary", columns, (row,))

    @checked()
    def plot(self, ax: Axes | None = None) -> ServingDisplay:
        """Draws batch, cache and tokens a second over time.

        Args:
            ax: Axes to draw on; a new figure if None.
        """
        from ascendsim.plot.series import plot_serving

        return plot_serving(
            self.steps.end, self.steps.batch, self.steps.cache, f"{self.model} on {self.soc}", ax
        )

    def _repr_html_(self) -> str:
        note = f"<p>{escape(self.note)}</p>" if self.note else ""
        return self.summary()._repr_html_() + self.table()._repr_html_() + note

    def __repr__(self) -> str:
        rate = f"{self.output_tokens_per_s:,.0f} tokens/s"
        return f"Serving({self.model!r} on {self.cards} x {self.soc}: {len(self.arrival)} requests, {rate})"
