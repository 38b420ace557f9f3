"""Pictures of a comparison with float32: the error along the network, and error against time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from ascendsim.plot.figures import Picture, dress
from ascendsim.plot.lanes import Floats
from ascendsim.plot.palette import FAINT, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BLUE, _RED, _GREEN = "#0072b2", "#d55e00", "#009e73"
_LONGEST = 28  # characters of an operator's name
_NAMED = 24  # up to so many operators have their names on the axis


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
        ax = self._begin(ax, 9.6, 4.8)
        places = np.arange(len(self.names))
        heights, finite, top = _heights(ax, self.errors, self.limit)
        ax.plot(places, np.where(finite, heights, np.nan), color=_BLUE, lw=1.2, zorder=2)
        ax.scatter(places[finite], heights[finite], s=14, color=_BLUE, zorder=3, label="tensor")
        if not finite.all():
            ax.scatter(places[~finite], heights[~finite], s=34, marker="x", color=_RED, zorder=4,
                       label="not finite")  # fmt: skip
        ends = np.array(self.outputs, bool)
        if ends.any():
            ax.scatter(places[ends], heights[ends], s=80, facecolors="none", edgecolors=_GREEN,
                       linewidths=1.6, zorder=4, label="output of the network")  # fmt: skip
        above = np.flatnonzero(~(self.errors <= self.limit))
        if above.size:
            self._name(ax, int(above[0]), float(heights[above[0]]), top)
        dress(ax, self.title, "operators of the model, in order", "relative Euclidean distance")
        ax.set_xlim(-0.5, len(self.names) - 0.5)
        if len(self.names) <= _NAMED:
            ax.set_xticks(places, [_short(name) for name in self.names], rotation=35, ha="right", fontsize=8)
        # beside the title: names of tensors below the axes are as long as they like
        ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, fontsize=8, frameon=False)
        return self

    def _name(self, ax: Axes, place: int, height: float, top: float) -> None:
        """Says where it begins, on the side where there is room."""
        left, low = place <= len(self.names) / 2, height < top
        ax.annotate(f"begins at {_short(self.names[place])}", (place, height),
                    xytext=(12 if left else -12, 14 if low else -18), textcoords="offset points",
                    ha="left" if left else "right", fontsize=9, color=INK,
                    arrowprops={"arrowstyle": "-", "color": FAINT, "lw": 0.8})  # fmt: skip


def _heights(ax: Axes, errors: Floats, limit: float) -> tuple[Floats, NDArray[np.bool_], float]:
    """Where errors stand on a logarithmic axis, which are finite, and the height of those that are not; draws
    the limit.

    Equal arrays stand at the foot, values that are not finite at the top.
    """
    finite = np.isfinite(errors)
    known = errors[finite & (errors > 0)]
    foot = min(float(known.min(initial=limit or 1.0)), limit or 1.0) / 30
    top = max(float(known.max(initial=0.0)), limit, foot) * 20
    heights = np.where(finite, np.maximum(errors, foot), top)
    ax.set_yscale("log")
    ax.set_ylim(foot / 2, top * 4)
    notes = [(limit, f"limit {limit:g}")] if limit > 0 else []
    if (errors == 0).any():
        notes.append((foot, "equal"))
    if not finite.all():
        notes.append((top, "not finite"))
    for height, text in notes:
        ax.axhline(height, color=FAINT, lw=0.8, ls="--", zorder=1)
        ax.annotate(text, (0, height), xycoords=("axes fraction", "data"), xytext=(4, 3),
                    textcoords="offset points", fontsize=8, color=FAINT)  # fmt: skip
    return heights, finite, top


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else "…" + name[1 - _LONGEST :]


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
        heights, finite, top = _heights(ax, self.errors, self.limit)
        wide = max(float(np.ptp(self.durations_us)), 0.01 * float(self.durations_us.max()))
        ax.set_xlim(
            float(self.durations_us.min()) - 0.08 * wide, float(self.durations_us.max()) + 0.45 * wide
        )
        marks = [_RED if not known else _GREEN if error <= self.limit else _BLUE
                 for known, error in zip(finite, self.errors, strict=True)]  # fmt: skip
        for x, y, colour in zip(self.durations_us, heights, marks, strict=True):
            ax.scatter([x], [y], s=36, color=colour, marker="x" if colour == _RED else "o", zorder=3)
        for members in self._together(heights, wide):
            last = max(members, key=lambda number: self.durations_us[number])
            down = heights[last] >= top
            ax.annotate("\n".join(self.labels[number] for number in members),
                        (float(self.durations_us[last]), float(heights[last])), xytext=(8, -5 if down else 0),
                        textcoords="offset points", va="top" if down else "center", fontsize=8,
                        color=INK)  # fmt: skip
        dress(ax, self.title, "device time (us)", "relative Euclidean distance")
        return self

    def _together(self, heights: Floats, wide: float) -> list[list[int]]:
        """Points so near to each other that they share one label, line by line."""
        groups: list[list[int]] = []
        for number in np.argsort(self.durations_us, kind="stable"):
            for group in groups:
                near = self.durations_us[number] - self.durations_us[group[-1]] < 0.12 * wide
                if near and abs(np.log(heights[number] / heights[group[-1]])) < 1.0:
                    group.append(int(number))
                    break
            else:
                groups.append([int(number)])
        return groups


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
