"""A picture of a tensor's magnitudes and of the threshold beyond which they saturate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from ascendsim.plot.figures import Picture, dress
from ascendsim.plot.palette import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BLUE, _RED = "#0072b2", "#d55e00"
_BARS = 160  # that a picture can show


@dataclass(eq=False, repr=False)
class HistogramDisplay(Picture):
    """Magnitudes of a tensor by bin, and the picture of them.

    Attributes:
        counts: Elements by bin, zeros left out.
        width: Of a bin.
        zeros: Elements that are 0.
        threshold: T, which becomes the largest integer.
        largest: The largest magnitude.
        title: Line above the picture.
        figure_, ax_: Where it was drawn last; unset before `plot`.
    """

    counts: NDArray[np.int64]
    width: float
    zeros: int
    threshold: float
    largest: float
    title: str

    def plot(self, ax: Axes | None = None) -> Self:
        """Draws the bars, T as a line, and says how much lies beyond it.

        Args:
            ax: Axes to draw on; a new figure if None.

        Returns:
            Itself, with `ax_` and `figure_` set.
        """
        ax = self._begin(ax, 8.4, 3.6)
        together = -(-self.counts.size // _BARS)
        padded = np.pad(self.counts, (0, -self.counts.size % together)).reshape(-1, together).sum(axis=1)
        step = together * self.width
        starts = np.arange(padded.size) * step
        beyond = starts >= self.threshold
        for part, colour in ((~beyond, _BLUE), (beyond, _RED)):
            ax.bar(starts[part], padded[part], width=step, align="edge", color=colour)
        ax.set_yscale("log")
        ax.set_ylim(0.5, max(float(padded.max(initial=1)), 1.0) * 6)
        ax.set_xlim(0, 1.02 * max(starts[-1] + step, self.threshold))
        ax.axvline(self.threshold, color=INK, lw=1.2, ls="--")
        total = int(self.counts.sum()) + self.zeros
        clipped = int(self.counts[np.arange(self.counts.size) * self.width >= self.threshold].sum())
        left = self.threshold < 0.6 * ax.get_xlim()[1]
        ax.annotate(
            f"T = {self.threshold:.4g}\n{100 * clipped / total:.3g} % beyond, largest {self.largest:.4g}",
            (self.threshold, 0.97), xycoords=("data", "axes fraction"), xytext=(6 if left else -6, 0),
            textcoords="offset points", ha="left" if left else "right", va="top", fontsize=9, color=INK,
        )  # fmt: skip
        zeros = f"; {100 * self.zeros / total:.1f} % are 0" if self.zeros else ""
        dress(ax, self.title, f"magnitude{zeros}", "elements")
        return self


def plot_histogram(
    counts: NDArray[np.int64],
    width: float,
    *,
    zeros: int,
    threshold: float,
    largest: float,
    title: str,
    ax: Axes | None = None,
) -> HistogramDisplay:
    """Draws magnitudes and a threshold.

    Args:
        counts: Elements by bin, zeros left out.
        width: Of a bin.
        zeros: Elements that are 0.
        threshold: T.
        largest: The largest magnitude.
        title: Line above the picture.
        ax: Axes to draw on; a new figure if None.
    """
    return HistogramDisplay(counts, width, zeros, threshold, largest, title).plot(ax)
