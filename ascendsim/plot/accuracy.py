"""Pictures of a comparison with float32: the error along the network, and error against time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from ascendsim.plot.figures import Picture, dress
from ascendsim.plot.lanes import Floats
from ascendsim.plot.palette import FAINT, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BLUE, _RED, _GREEN = "#0072b2", "#d55e00", "#009e73"
_LEAST = 1e-8  # equal arrays stand here on the logarithmic axis
_LONGEST = 44  # characters of an operator's name


@dataclass(eq=False, repr=False)
class ErrorDisplay(Picture):
    """Errors by tensor, as numbers, and the picture of them.

    Attributes:
        names: Operators, in order of execution.
        errors: Relative Euclidean distance of each one's result; infinite where that is not finite.
        outputs: Which of them are outputs of the network.
        limit: A line; the first tensor above it is named.
        title: Line above the picture.
        figure_, ax_: Where it was drawn last; unset before `plot`.
    """

    names: tuple[str, ...]
    errors: Floats
    outputs: tuple[bool, ...]
    limit: float
    title: str

    def plot(self, ax: Axes | None = None) -> Self:
        """Draws the errors.

        Args:
            ax: Axes to draw on; a new figure if None.

        Returns:
            Itself, with `ax_` and `figure_` set.
        """
        ax = self._begin(ax, 9.6, 4.4)
        places = np.arange(len(self.names))
        finite = np.isfinite(self.errors)
        known = self.errors[finite]
        top = max(float(known.max(initial=0.0)), self.limit) * 6
        heights = np.where(finite, np.maximum(self.errors, _LEAST), top)
        ax.plot(places, np.where(finite, heights, np.nan), color=_BLUE, lw=1.2, zorder=2)
        ax.scatter(places[finite], heights[finite], s=12, color=_BLUE, zorder=3, label="tensor")
        if not finite.all():
            ax.scatter(places[~finite], heights[~finite], s=30, marker="x", color=_RED, zorder=4,
                       label="not finite")  # fmt: skip
        ends = np.array(self.outputs, bool)
        if ends.any():
            ax.scatter(places[ends], heights[ends], s=70, facecolors="none", edgecolors=_GREEN,
                       linewidths=1.6, zorder=4, label="output of the network")  # fmt: skip
        ax.axhline(self.limit, color=FAINT, lw=1.0, ls="--", zorder=1)
        ax.annotate(f"limit {self.limit:g}", (0.004, self.limit), xycoords=("axes fraction", "data"),
                    xytext=(0, 3), textcoords="offset points", fontsize=8, color=FAINT)  # fmt: skip
        ax.set_yscale("log")
        ax.set_ylim(max(float(heights.min(initial=top)) / 4, _LEAST / 2), top * 4)
        above = np.flatnonzero(~(self.errors <= self.limit))
        if above.size:
            self._name(ax, int(above[0]), float(heights[above[0]]))
        dress(ax, self.title, "operators of the model, in order", "relative Euclidean distance")
        ax.set_xlim(-0.5, len(self.names) - 0.5)
        ax.legend(loc="lower right", fontsize=8, frameon=False)
        return self

    def _name(self, ax: Axes, place: int, height: float) -> None:
        """Says where it begins, on the side where there is room."""
        name = self.names[place]
        text = name if len(name) <= _LONGEST else "…" + name[1 - _LONGEST :]
        left = place <= len(self.names) / 2
        ax.annotate(f"begins at {text}", (place, height), xytext=(10 if left else -10, 14),
                    textcoords="offset points", ha="left" if left else "right", fontsize=9, color=INK,
                    arrowprops={"arrowstyle": "-", "color": FAINT, "lw": 0.8})  # fmt: skip


def plot_errors(
    names: Sequence[str],
    errors: Sequence[float],
    outputs: Sequence[bool],
    limit: float,
    title: str,
    ax: Axes | None = None,
) -> ErrorDisplay:
    """Draws the error along a network.

    Args:
        names: Operators, in order of execution.
        errors: Of their results, infinite where those are not finite.
        outputs: Which of them are outputs of the network.
        limit: Largest error that is no trouble.
        title: Line above the picture.
        ax: Axes to draw on; a new figure if None.
    """
    return ErrorDisplay(tuple(names), np.array(errors, float), tuple(outputs), limit, title).plot(ax)


@dataclass(eq=False, repr=False)
class PriceDisplay(Picture):
    """Error and time of compilations, as numbers, and the picture of them.

    Attributes:
        labels: What stays in float32.
        errors: Of the outputs; infinite where they are not finite.
        durations_us: Device time in us.
        limit: A line.
        title: Line above the picture.
        figure_, ax_: Where it was drawn last; unset before `plot`.
    """

    labels: tuple[str, ...]
    errors: Floats
    durations_us: Floats
    limit: float
    title: str

    def plot(self, ax: Axes | None = None) -> Self:
        """Draws the points.

        Args:
            ax: Axes to draw on; a new figure if None.

        Returns:
            Itself, with `ax_` and `figure_` set.
        """
        ax = self._begin(ax, 8.4, 4.8)
        finite = np.isfinite(self.errors)
        top = max(float(self.errors[finite].max(initial=0.0)), self.limit) * 6
        heights = np.where(finite, np.maximum(self.errors, _LEAST), top)
        for number, label in enumerate(self.labels):
            x, y = float(self.durations_us[number]), float(heights[number])
            colour = _RED if not finite[number] else _GREEN if self.errors[number] <= self.limit else _BLUE
            ax.scatter([x], [y], s=36, color=colour, marker="o" if finite[number] else "x", zorder=3)
            ax.annotate(label, (x, y), xytext=(7, 6 if number % 2 else -11), textcoords="offset points",
                        fontsize=8, color=INK)  # fmt: skip
        ax.axhline(self.limit, color=FAINT, lw=1.0, ls="--", zorder=1)
        ax.annotate(f"limit {self.limit:g}", (0.004, self.limit), xycoords=("axes fraction", "data"),
                    xytext=(0, 3), textcoords="offset points", fontsize=8, color=FAINT)  # fmt: skip
        ax.set_yscale("log")
        ax.set_ylim(max(float(heights.min()) / 4, _LEAST / 2), top * 4)
        ax.margins(x=0.2)
        dress(ax, self.title, "device time (us)", "relative Euclidean distance")
        return self


def plot_price(
    labels: Sequence[str],
    errors: Sequence[float],
    durations_us: Sequence[float],
    limit: float,
    title: str,
    ax: Axes | None = None,
) -> PriceDisplay:
    """Draws error against time.

    Args:
        labels: What stays in float32.
        errors: Of the outputs, infinite where they are not finite.
        durations_us: Device time in us.
        limit: Largest error that is no trouble.
        title: Line above the picture.
        ax: Axes to draw on; a new figure if None.
    """
    return PriceDisplay(
        tuple(labels), np.array(errors, float), np.array(durations_us, float), limit, title
    ).plot(ax)
