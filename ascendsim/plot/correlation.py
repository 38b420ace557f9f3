"""Predicted against measured: a point a measurement, on logarithmic axes, with the line on which both are
equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ascendsim.plot.figures import Picture, dress
from ascendsim.plot.lanes import Floats
from ascendsim.plot.palette import FAINT, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = "osD^vP"  # shapes tell networks apart where colours repeat


@dataclass(eq=False, repr=False)
class CorrelationDisplay(Picture):
    """Measurements with their predictions, as numbers, and the picture of them.

    Attributes:
        names: Group (network) of each point.
        measured, predicted: Throughput or time, above zero.
        title: Line above the picture.
        note: What stands in the corner (the score).
        unit: Of both axes.
        figure_, ax_: Where it was drawn last; unset before `plot`.
    """

    names: tuple[str, ...]
    measured: Floats
    predicted: Floats
    title: str
    note: str
    unit: str = "samples/s"

    def plot(self, ax: Axes | None = None) -> Self:
        """Draws the points.

        Args:
            ax: Axes to draw on; a new figure if None.

        Returns:
            Itself, with `ax_` and `figure_` set.
        """
        import matplotlib

        ax = self._begin(ax, 8.6, 6.2)
        low = min(float(self.measured.min()), float(self.predicted.min())) / 1.6
        high = max(float(self.measured.max()), float(self.predicted.max())) * 1.6
        line = np.array([low, high])
        ax.fill_between(line, line / 1.25, line * 1.25, color=FAINT, alpha=0.13, lw=0, label="within 25 %")
        ax.plot(line, line, color=INK, lw=1.0, zorder=2)
        palette = matplotlib.colormaps["tab10"]
        colours = [palette(index) for index in range(10)]
        for number, name in enumerate(dict.fromkeys(self.names)):
            chosen = [index for index, own in enumerate(self.names) if own == name]
            marker = _MARKERS[number // len(colours) % len(_MARKERS)]
            colour = colours[number % len(colours)]
            style: dict[str, Any] = {
                "color": colour,
                "marker": marker,
                "s": 26,
                "lw": 0,
                "alpha": 0.85,
                "zorder": 3,
            }
            ax.scatter(self.measured[chosen], self.predicted[chosen], label=name, **style)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlim(low, high)
        ax.set_ylim(low, high)
        dress(ax, self.title, f"measured ({self.unit})", f"simulated ({self.unit})")
        ax.text(0.02, 0.98, self.note, transform=ax.transAxes, va="top", fontsize=9, color=INK)
        ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8, frameon=False)
        return self


def plot_correlation(
    names: Sequence[str],
    measured: Sequence[float],
    predicted: Sequence[float],
    title: str,
    note: str = "",
    *,
    ax: Axes | None = None,
    unit: str = "samples/s",
) -> CorrelationDisplay:
    """Draws predictions against measurements.

    Args:
        names: Group of each point (its network, its operator type).
        measured, predicted: Throughput or time, above zero.
        title: Line above the picture.
        note: Text in the corner.
        ax: Axes to draw on; a new figure if None.
        unit: Of both axes.
    """
    return CorrelationDisplay(
        tuple(names), np.array(measured, float), np.array(predicted, float), title, note, unit
    ).plot(ax)
