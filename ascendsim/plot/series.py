"""Several quantities over one: lines, stacked bars, and panels over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from ascendsim.plot.figures import Picture, dress
from ascendsim.plot.palette import FAINT, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c8c8c", "#000000")


@dataclass(eq=False, repr=False)
class SeriesDisplay(Picture):
    """Quantities over one that doubles from point to point.

    Attributes:
        x: Places, the same for all.
        series: Values by name.
        title, x_label, y_label: Texts.
        stacked: Whether values stand on each other as bars, else they are lines.
        limit: A bound to draw across, and what it is; None = none.
        figure_, ax_: Where it was drawn last; unset before `plot`.
    """

    x: tuple[float, ...]
    series: Mapping[str, tuple[float, ...]]
    title: str
    x_label: str
    y_label: str
    stacked: bool = False
    limit: tuple[float, str] | None = None

    def plot(self, ax: Axes | None = None) -> Self:
        """Draws the lines or bars.

        Args:
            ax: Axes to draw on; a new figure if None.

        Returns:
            Itself, with `ax_` and `figure_` set.
        """
        ax = self._begin(ax, 7.5, 4.2)
        places = range(len(self.x))
        below = [0.0] * len(self.x)
        for number, (name, values) in enumerate(self.series.items()):
            colour = COLOURS[number % len(COLOURS)]
            if self.stacked:
                ax.bar(places, values, bottom=below, width=0.66, color=colour, label=name)
                below = [base + value for base, value in zip(below, values, strict=True)]
            else:
                ax.plot(places, values, color=colour, marker="o", markersize=4, label=name)
        if self.limit is not None:
            ax.axhline(self.limit[0], color=INK, linewidth=0.9, linestyle="--", label=self.limit[1])
        ax.set_xticks(places, [f"{value:,.0f}" for value in self.x])
        ax.set_ylim(bottom=0)
        dress(ax, self.title, self.x_label, self.y_label)
        ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8, frameon=False)
        return self


def plot_series(
    x: Sequence[float],
    series: Mapping[str, Sequence[float]],
    title: str,
    x_label: str,
    y_label: str,
    ax: Axes | None = None,
    *,
    stacked: bool = False,
    limit: tuple[float, str] | None = None,
) -> SeriesDisplay:
    """Draws quantities over one.

    Args:
        x: Places.
        series: Values by name.
        title, x_label, y_label: Texts.
        ax: Axes to draw on; a new figure if None.
        stacked: Whether values stand on each other as bars.
        limit: A bound to draw across, and what it is.
    """
    values = {name: tuple(map(float, own)) for name, own in series.items()}
    display = SeriesDisplay(tuple(map(float, x)), values, title, x_label, y_label, stacked, limit)
    return display.plot(ax)


@dataclass(eq=False, repr=False)
class ServingDisplay(Picture):
    """How full a server was over time.

    Attributes:
        seconds: Ends of steps.
        batch: Sequences in each.
        cache: Part of the cache that is used then.
        title: Line above the picture.
        figure_, ax_: Where it was drawn last; unset before `plot`.
    """

    seconds: tuple[float, ...]
    batch: tuple[float, ...]
    cache: tuple[float, ...]
    title: str

    def plot(self, ax: Axes | None = None) -> Self:
        """Draws the batch, and the cache on an axis of its own.

        Args:
            ax: Axes to draw on; a new figure if None.

        Returns:
            Itself, with `ax_` and `figure_` set.
        """
        ax = self._begin(ax, 7.5, 3.4)
        ax.step(self.seconds, self.batch, color=COLOURS[0], linewidth=1.0)
        dress(ax, self.title, "time (s)", "sequences that get a token")
        ax.yaxis.label.set_color(COLOURS[0])
        ax.set_ylim(bottom=0)
        other = ax.twinx()
        other.plot(self.seconds, [100 * part for part in self.cache], color=COLOURS[1], linewidth=1.0)
        other.set_ylabel("cache in use (%)", fontsize=9, color=COLOURS[1])
        other.set_ylim(0, 105)
        other.tick_params(labelsize=9, labelcolor=INK, color=FAINT)
        other.spines["top"].set_visible(False)
        return self


def plot_serving(
    seconds: Sequence[float],
    batch: Sequence[float],
    cache: Sequence[float],
    title: str,
    ax: Axes | None = None,
) -> ServingDisplay:
    """Draws how full a server was.

    Args:
        seconds: Ends of steps.
        batch: Sequences in each.
        cache: Part of the cache that is used then.
        title: Line above the picture.
        ax: Axes to draw on; a new figure if None.
    """
    return ServingDisplay(tuple(seconds), tuple(batch), tuple(cache), title).plot(ax)
