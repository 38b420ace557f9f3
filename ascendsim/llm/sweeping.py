"""A model over batches and contexts: time per output token, what it costs, and what it is spent on."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from ascendsim.core.arguments import checked
from ascendsim.core.errors import InputError, OptionWarning
from ascendsim.core.table import Row, Table
from ascendsim.llm.language_model import Chip, LanguageModel, Mode, called_otherwise, warn
from ascendsim.llm.memory import GIB, Memory

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # noqa: TID251 - only for the type checker, nothing is loaded

    from ascendsim.plot.series import SeriesDisplay

_NAMED = 7  # kernels with a name of their own in pictures


@dataclass(frozen=True, slots=True)
class Point:
    """A step at a batch and a context.

    Attributes:
        batch, context: Sequences, and tokens of each.
        step_us: Time of the step; None where it does not fit into the card.
        kernels: Its time by kernel.
    """

    batch: int
    context: int
    step_us: float | None
    kernels: dict[str, float]

    @property
    def tokens_per_s(self) -> float | None:
        return None if self.step_us is None else self.batch / self.step_us * 1e6


@dataclass(frozen=True)
class Sweep:
    """Steps of a model over batches and contexts.

    Attributes:
        model, soc, mode: What was run.
        points: By batch, then by context.
        memory: Of a card.
        note: What is to be known of the times.
    """

    model: str
    soc: str
    mode: Mode
    points: tuple[Point, ...]
    memory: Memory
    note: str = ""

    def table(self) -> Table:
        """One row a point; points that do not fit have no times."""
        rows: list[Row] = []
        for point in self.points:
            top = max(point.kernels, key=lambda name: point.kernels[name], default=None)
            needed = self.memory.needed(point.batch, point.context) / GIB
            time = None if point.step_us is None else point.step_us / 1000
            rows.append((point.batch, point.context, time, point.tokens_per_s, top, needed))
        columns = ("Batch", "Context", "TPOT(ms)", "Tokens/s", "Most time in", "Memory(GiB)")
        return Table("llm_steps", columns, tuple(rows))

    @checked()
    def plot(self, ax: Axes | None = None) -> SeriesDisplay:
        """Draws time per output token against batch, a line for each context.

        Args:
            ax: Axes to draw on; a new figure if None.
        """
        from ascendsim.plot.series import plot_series

        batches = sorted({point.batch for point in self.points})
        by_context: dict[int, list[float]] = {}
        for point in self.points:
            by_context.setdefault(point.context, []).append((point.step_us or float("nan")) / 1000)
        series = {f"context {context:,}": by_context[context] for context in sorted(by_context)}
        return plot_series(
            batches, series, self._title(), "batch (sequences)", "time per output token (ms)", ax
        )

    @checked()
    def plot_kernels(self, batch: int | None = None, ax: Axes | None = None) -> SeriesDisplay:
        """Draws the time of each kernel over the contexts.

        Args:
            batch: Which; the smallest if None.
            ax: Axes to draw on; a new figure if None.

        Raises:
            InputError: If no point of the batch fits.
        """
        from ascendsim.plot.series import plot_series

        size = min(point.batch for point in self.points) if batch is None else batch
        points = [point for point in self.points if point.batch == size and point.kernels]
        if not points:
            raise InputError("option batch", "must be one that was run and fits", size)
        total: Counter[str] = Counter()
        for point in points:
            total.update(point.kernels)
        named = [name for name, _ in total.most_common(_NAMED)]
        series = {name: [point.kernels.get(name, 0.0) / 1000 for point in points] for name in named}
        rest = [(sum(p.kernels.values()) - sum(p.kernels.get(n, 0.0) for n in named)) / 1000 for p in points]
        if any(part > 0 for part in rest):
            series["others"] = rest
        contexts = [point.context for point in points]
        title = f"{self._title()}, batch {size}"
        return plot_series(
            contexts, series, title, "context (tokens)", "time in a step (ms)", ax, stacked=True
        )

    @checked()
    def plot_memory(self, batch: int = 1, ax: Axes | None = None) -> SeriesDisplay:
        """Draws what a card holds over the contexts, and how much it can.

        Args:
            batch: Sequences.
            ax: Axes to draw on; a new figure if None.
        """
        from ascendsim.plot.series import plot_series

        contexts = sorted({point.context for point in self.points})
        series = {
            "weights": [self.memory.weights / GIB for _ in contexts],
            "workspace": [self.memory.workspace / GIB for _ in contexts],
            "cache": [self.memory.cache(batch, context) / GIB for context in contexts],
        }
        title = f"{self._title()}, batch {batch}"
        limit = (self.memory.capacity / GIB, "card")
        return plot_series(contexts, series, title, "context (tokens)", "GiB", ax, stacked=True, limit=limit)

    def _title(self) -> str:
        return f"{self.model} on {self.soc}"

    def _repr_html_(self) -> str:
        return self.table()._repr_html_() + (f"<p>{escape(self.note)}</p>" if self.note else "")

    def __repr__(self) -> str:
        return f"Sweep({self._title()!r}: {len(self.points)} points)"


@checked(model="asim.llm.model makes one", batches="a list of numbers", contexts="a list of numbers")
def sweep(
    model: LanguageModel,
    soc: Chip,
    batches: Iterable[int] = (1, 8, 32),
    contexts: Iterable[int] = (1024, 4096, 16384),
    mode: Mode = "graph",
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Sweep:
    """Steps at all batches and contexts.

    Args:
        model: From `asim.llm.model`.
        soc: As for `compile`.
        batches: Sequences.
        contexts: Tokens of each.
        mode: As for `LanguageModel.step`.
        progress: Called with (points done, points in all).

    Raises:
        InputError: If no point fits into the card, or a number is out of range.
    """
    wanted = [(batch, context) for batch in batches for context in contexts]
    if not wanted:
        raise InputError("batches and contexts", "must name at least one each")
    for batch, context in wanted:
        model.check_tokens(batch, 1, context)
    warn(model.note(soc))
    warn(called_otherwise(soc))
    memory, points = model.memory(soc), []
    for number, (batch, context) in enumerate(wanted, 1):
        if not memory.fits(batch, context):
            points.append(Point(batch, context, None, {}))
        else:
            with warnings.catch_warnings():  # said once is enough
                warnings.simplefilter("ignore", OptionWarning)
                result = model.step(soc, batch, context, mode)
            spent: dict[str, float] = {}
            for view in result.profile.tasks:
                us = result.trace.us(view.duration)
                spent[view.op_type] = spent.get(view.op_type, 0.0) + us
            points.append(Point(batch, context, result.duration_us, spent))
        if progress is not None:
            progress(number, len(wanted))
    if all(point.step_us is None for point in points):
        model.step(soc, *wanted[0], mode)  # says what would fit
    return Sweep(model.name, memory.soc, mode, tuple(points), memory, model.note(soc))
