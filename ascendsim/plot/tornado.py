"""Changes of a time by figures that were moved: a bar a figure, the longest on top."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from ascendsim.plot.figures import Picture, write_title
from ascendsim.plot.palette import FAINT, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Bar = tuple[str, bool, float | None, float | None]
_LEAST = 0.0005  # of the time: less would read as 0.0 %
LOW, HIGH = "#e69f00", "#0072b2"  # of Okabe and Ito's palette


@dataclass(eq=False, repr=False)
class TornadoDisplay(Picture):
    """Bars as numbers, and the picture of them.

    Attributes:
        bars: Name, whether it is assumed, relative change of the time with less and with more of it (0.1 =
            10 % slower; None where there is none), the longest first.
        title: Line above the picture.
        note: What stands below it.
        figure_, ax_: Where it was drawn last; unset before `plot`.
    """

    bars: tuple[Bar, ...]
    title: str
    note: str

    def plot(self, ax: Axes | None = None) -> Self:
        """Draws the bars: what less of a figure does, and what more of it does, on either side of nothing.

        Args:
            ax: Axes to draw on; a new figure if None.

        Returns:
            Itself, with `ax_` and `figure_` set.
        """
        count = len(self.bars)
        ax = self._begin(ax, 7.6, 1.3 + 0.3 * max(count, 2))
        most = max([abs(change or 0.0) for bar in self.bars for change in bar[2:]], default=0.0) or 0.01
        for place, (_, assumed, low, high) in enumerate(self.bars):
            # where both sides go the same way the shorter one lies on top
            for change, colour in sorted(((low, LOW), (high, HIGH)), key=lambda each: -abs(each[0] or 0.0)):
                if change:
                    style: dict[str, Any] = (
                        {"hatch": "////", "edgecolor": "white", "lw": 0} if assumed else {}
                    )
                    ax.barh(place, 100 * change, height=0.66, color=colour, zorder=2, **style)
            self._notes(ax, place, low, high)
        names = [f"{name} (assumed)" if assumed else name for name, assumed, *_ in self.bars]
        ax.set_yticks(range(count), names, fontsize=9, color=INK)
        ax.set_ylim(max(count, 1) - 0.4, -0.6)
        ax.set_xlim(-130 * most, 130 * most)  # room for the notes
        ax.axvline(0, color=INK, lw=0.8, zorder=3)
        ax.set_xlabel(f"change of the time (%); {self.note}", loc="left", fontsize=9, color=INK)
        write_title(ax, self.title)
        ax.tick_params(axis="y", length=0)
        ax.tick_params(axis="x", labelsize=9, labelcolor=INK, color=FAINT)
        for side in ("top", "right", "left"):
            ax.spines[side].set_visible(False)
        self._legend(ax)
        return self

    def _notes(self, ax: Axes, place: int, low: float | None, high: float | None) -> None:
        """The changes in percent at the ends of the bars; two on one side stand behind the longer one."""
        ends: dict[bool, list[float]] = {}
        for change in (low, high):
            if change and abs(change) >= _LEAST:
                ends.setdefault(change > 0, []).append(change)
        for right, changes in ends.items():
            furthest = max(changes, key=abs)
            text = " / ".join(f"{100 * change:+.1f}" for change in changes)
            ax.annotate(
                text,
                (100 * furthest, place),
                (4 if right else -4, 0),
                textcoords="offset points",
                ha="left" if right else "right",
                va="center",
                fontsize=8.5,
                color=INK,
            )

    def _legend(self, ax: Axes) -> None:
        from matplotlib.patches import Patch

        handles = [Patch(color=LOW, label="less of it"), Patch(color=HIGH, label="more of it")]
        ax.legend(handles=handles, loc="lower right", fontsize=8.5, frameon=False, labelcolor=INK)


def plot_tornado(bars: Sequence[Bar], title: str, note: str, ax: Axes | None = None) -> TornadoDisplay:
    """Draws changes of a time.

    Args:
        bars: As `TornadoDisplay` has them.
        title: Line above the picture.
        note: What stands below it.
        ax: Axes to draw on; a new figure if None.
    """
    return TornadoDisplay(tuple(bars), title, note).plot(ax)
