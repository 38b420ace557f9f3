"""The roofline of a run: what tasks of the Cube achieve against what DDR bandwidth and the Cube allow.

Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", CACM 52(4), 2009: at an
intensity of I operations a byte, at most min(peak, I * bandwidth) operations a second are possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from ascendsim.core.table import Table
from ascendsim.plot.drawing import draw_legend
from ascendsim.plot.figures import Picture, dress
from ascendsim.plot.lanes import Floats
from ascendsim.plot.palette import FAINT, INK, KIND_COLOURS
from ascendsim.profiling.kinds import KINDS, kind_of
from ascendsim.profiling.metrics import ddr_peak_gb_per_s, peak_tflops, task_metrics
from ascendsim.profiling.view import ProfiledRun

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class RooflineDisplay(Picture):
    """Tasks with useful Cube work that move bytes through DDR, as numbers, and the picture of them.

    Attributes:
        names, kinds: By point.
        intensity: Cube operations a DDR byte.
        tflops: Achieved, in 10^12 operations/s.
        times_us: Durations; areas of the points.
        peak_tflops, peak_gb_per_s: The roof: the chip's float16 peak and its DDR bandwidth.
        left_out: Tasks with Cube work whose data never came from DDR (their intensity has no end).
        title: Line above the picture.
        figure_, ax_: Where it was drawn last; unset before `plot`.
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    intensity: Floats
    tflops: Floats
    times_us: Floats
    peak_tflops: float
    peak_gb_per_s: float
    left_out: int
    title: str

    @property
    def ridge(self) -> float:
        """Intensity at which the two roofs meet, in operations a byte."""
        return self.peak_tflops * 1e3 / self.peak_gb_per_s

    def roof(self, intensity: Floats) -> Floats:
        """Largest possible rate at an intensity, in 10^12 operations/s."""
        return np.minimum(self.peak_tflops, intensity * self.peak_gb_per_s / 1e3)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draws the roofline.

        Args:
            ax: Axes to draw on; a new figure if None.

        Returns:
            Itself, with `ax_` and `figure_` set.
        """
        ax = self._begin(ax, 8.0, 5.2)
        low = min(self.ridge / 30, float(self.intensity.min()) / 2 if len(self.intensity) else 1.0)
        high = max(self.ridge * 30, float(self.intensity.max()) * 2 if len(self.intensity) else 1.0)
        line = np.geomspace(low, high, 200)
        ax.plot(line, self.roof(line), color=INK, lw=1.3, zorder=3)
        ax.vlines(self.ridge, self.peak_tflops / 1e6, self.peak_tflops, color=FAINT, lw=0.8, ls=":", zorder=1)
        longest = float(self.times_us.max()) if len(self.times_us) else 1.0
        for kind in KINDS:
            chosen = [i for i, name in enumerate(self.kinds) if name == kind]
            if chosen:
                areas = 12 + 240 * self.times_us[chosen] / longest
                ax.scatter(
                    self.intensity[chosen],
                    self.tflops[chosen],
                    s=areas,
                    color=KIND_COLOURS[kind],
                    alpha=0.75,
                    lw=0,
                    zorder=4,
                )
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlim(low, high)
        dress(ax, self.title, "Cube operations a DDR byte", "10¹² operations/s")
        note = (
            f"Cube {self.peak_tflops:.1f} TFLOP/s, DDR {self.peak_gb_per_s:.0f} GB/s, ridge "
            f"{self.ridge:.0f} operations a byte"
        )
        if self.left_out:
            note += f"\n{self.left_out} tasks without DDR bytes are not shown"
        ax.text(0.015, 0.98, note, transform=ax.transAxes, va="top", fontsize=8.5, color=FAINT)
        top = self.peak_tflops * 3.5
        ax.set_ylim(
            min(float(self.tflops.min()) / 2 if len(self.tflops) else top, self.peak_tflops / 100), top
        )
        draw_legend(ax, [kind for kind in KINDS if kind in self.kinds])
        return self

    def to_table(self) -> Table:
        """The points behind the picture."""
        columns = ("Op Name", "Kind", "Intensity(op/B)", "TFLOP/s", "Roof(TFLOP/s)", "Time(us)")
        numbers = (self.intensity, self.tflops, self.roof(self.intensity), self.times_us)
        rows = zip(self.names, self.kinds, *(map(float, values) for values in numbers), strict=True)
        return Table("roofline", columns, tuple(rows))


def plot_roofline(run: ProfiledRun, ax: Axes | None = None) -> RooflineDisplay:
    """Draws the roofline of a run's Cube tasks.

    Args:
        run: The run.
        ax: Axes to draw on; a new figure if None.
    """
    cube = [view for view in run.tasks if view.record.macs]
    views = [view for view in cube if view.moved("ddr")]
    return RooflineDisplay(
        tuple(view.name for view in views),
        tuple(kind_of(view) for view in views),
        np.array([2 * view.record.macs / view.moved("ddr") for view in views]),
        np.array([task_metrics(run, view).tflops for view in views]),
        np.array([run.us(view.duration) for view in views]),
        peak_tflops(run.soc),
        ddr_peak_gb_per_s(run.soc),
        len(cube) - len(views),
        f"{run.graph.name} on {run.soc.name}: Cube tasks under the roof",
    ).plot(ax)
