"""Times that fall step by step: each bar hangs between the time before it and the time after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Self

from ascendsim.plot.figures import Picture, write_title
from ascendsim.plot.palette import FAINT, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WHOLE, LESS, MORE = "#56b4e9", "#009e73", "#d55e00"  # of Okabe and Ito's palette


@dataclass(eq=False, repr=False)
class WaterfallDisplay(Picture):
    """Steps as numbers, and the picture of them.

    Attributes:
        names: Of the steps, the first one being where they start from.
        times_us: After each step.
        title: Line above the picture.
        figure_, ax_: Where it was drawn last; unset before `plot`.
    """

    names: tuple[str, ...]
    times_us: tuple[float, ...]
    title: str

    @property
    def gains(self) -> tuple[float, ...]:
        """Throughput that each step adds to the one before, 0.2 = 20 %; 0 for the first."""
        return (0.0, *(before / after - 1 for before, after in pairwise(self.times_us)))

    def plot(self, ax: Axes | None = None) -> Self:
        """Draws the bars: the first and the last time whole, in between what each step takes or adds.

        Args:
            ax: Axes to draw on; a new figure if None.

        Returns:
            Itself, with `ax_` and `figure_` set.
        """
        count = len(self.names)
        ax = self._begin(ax, 7.5, 1.4 + 0.34 * (count + 1))
        last = self.times_us[-1]
        ax.barh(0, self.times_us[0], height=0.66, color=WHOLE)
        ax.barh(count, last, height=0.66, color=WHOLE)
        self._note(ax, 0, self.times_us[0], f"{self.times_us[0]:,.0f} us")
        self._note(ax, count, last, f"{last:,.0f} us   {self.times_us[0] / last:.2f} times as fast")
        for place, (before, after) in enumerate(pairwise(self.times_us), 1):
            left, right = sorted((before, after))
            ax.barh(place, right - left, left=left, height=0.66, color=LESS if after <= before else MORE)
            ax.plot([before] * 2, [place - 1, place + 0.33], color=FAINT, linewidth=0.7)
            gain = 100 * self.gains[place]
            self._note(ax, place, right, "0" if abs(gain) < 0.05 else f"{gain:+.1f} %")
        ax.plot([last] * 2, [count - 1, count + 0.33], color=FAINT, linewidth=0.7)
        labels = [self.names[0], *(f"+ {name}" for name in self.names[1:]), "all together"]
        ax.set_yticks(range(count + 1), labels, fontsize=9, color=INK)
        ax.set_ylim(count + 0.6, -0.6)
        ax.set_xlim(0, 1.3 * max(self.times_us))  # room for the notes
        ax.set_xlabel(
            "time (us); notes: gain in throughput over the step before", loc="left", fontsize=9, color=INK
        )
        write_title(ax, self.title)
        ax.tick_params(axis="y", length=0)
        ax.tick_params(axis="x", labelsize=9, labelcolor=INK, color=FAINT)
        for side in ("top", "right", "left"):
            ax.spines[side].set_visible(False)
        return self

    def _note(self, ax: Axes, place: int, end: float, text: str) -> None:
        ax.annotate(
            text, (end, place), (5, 0), textcoords="offset points", va="center", fontsize=8.5, color=INK
        )


def plot_waterfall(
    names: Sequence[str], times_us: Sequence[float], title: str, ax: Axes | None = None
) -> WaterfallDisplay:
    """Draws times that change step by step.

    Args:
        names: Of the steps; the first one is where they start from.
        times_us: Time after each step.
        title: Line above the picture.
        ax: Axes to draw on; a new figure if None.
    """
    return WaterfallDisplay(tuple(names), tuple(times_us), title).plot(ax)
