"""The roofline of a run: what tasks of the Cube achieve against what DDR bandwidth and the Cube allow.

Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", CACM 52(4), 2009: at an
intensity of I operations a byte, at most min(peak, I * bandwidth) operations a second are possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ascendsim.core.table import Table
from ascendsim.plot.drawing import draw_legend
from ascendsim.plot.figures import Picture, dress, figure_of, text_width
from ascendsim.plot.lanes import Floats
from ascendsim.plot.palette import FAINT, INK, KIND_COLOURS
from ascendsim.profiling.kinds import KINDS, kind_of
from ascendsim.profiling.metrics import ddr_peak_gb_per_s, peak_tflops, task_metrics
from ascendsim.profiling.view import ProfiledRun

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MOST_LABELS = 6  # names beside points, of those that take the most time
LABEL_SIZE = 7.5
_LETTERS = 30  # longer names lose their head; the tail tells operators apart
_TRIED = 40  # points whose names are tried: more are short beside the longest
_GAP = 3.0  # pixels between a point and its name

Box = tuple[float, float, float, float]


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
        for kind in KINDS:
            chosen = [i for i, name in enumerate(self.kinds) if name == kind]
            if chosen:
                areas = [self._area(place) for place in chosen]
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
        dress(ax, self.title, "Cube operations a DDR byte", "TFLOP/s")
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
        self._label(ax)
        draw_legend(ax, [kind for kind in KINDS if kind in self.kinds])
        return self

    def _area(self, place: int) -> float:
        """Of a point, in square points of print: by its share of the longest time."""
        return 12 + 240 * float(self.times_us[place]) / float(self.times_us.max())

    def _label(self, ax: Axes) -> None:
        """Names the points that take the most time, beside them, as far as names cover neither one another
        nor other points.
        """
        dpi, window = figure_of(ax).dpi, ax.get_window_extent()
        middles = [ax.transData.transform(point) for point in zip(self.intensity, self.tflops, strict=True)]
        radii = [(self._area(place) / np.pi) ** 0.5 * dpi / 72 for place in range(len(self.names))]
        points = [
            (x - radius, y - radius, x + radius, y + radius)
            for (x, y), radius in zip(middles, radii, strict=True)
        ]
        taken: list[Box] = []
        longest = sorted(range(len(self.names)), key=lambda i: (-self.times_us[i], self.names[i]))
        for place in longest[:_TRIED]:
            text = _shown(self.names[place])
            width, height = text_width(text, LABEL_SIZE, dpi), LABEL_SIZE * dpi / 72
            x, y = middles[place]
            for side in (1, -1):
                near = x + side * (radii[place] + _GAP)
                box = (
                    min(near, near + side * width),
                    y - height / 2,
                    max(near, near + side * width),
                    y + height / 2,
                )
                others = (own for number, own in enumerate(points) if number != place)
                inside = window.x0 <= box[0] and box[2] <= window.x1
                if inside and not any(_meet(box, other) for other in (*taken, *others)):
                    taken.append(box)
                    style: dict[str, Any] = {"ha": "left" if side > 0 else "right", "va": "center"}
                    at = (side * (radii[place] + _GAP) * 72 / dpi, 0)
                    own = (self.intensity[place], self.tflops[place])
                    ax.annotate(
                        text,
                        own,
                        at,
                        textcoords="offset points",
                        color=INK,
                        zorder=5,
                        size=LABEL_SIZE,
                        **style,
                    )
                    break
            if len(taken) == MOST_LABELS:
                break

    def to_table(self) -> Table:
        """The points behind the picture."""
        columns = ("Op Name", "Kind", "Intensity(op/B)", "TFLOP/s", "Roof(TFLOP/s)", "Time(us)")
        numbers = (self.intensity, self.tflops, self.roof(self.intensity), self.times_us)
        rows = zip(self.names, self.kinds, *(map(float, values) for values in numbers), strict=True)
        return Table("roofline", columns, tuple(rows))


def _shown(name: str) -> str:
    return name if len(name) <= _LETTERS else f"…{name[-_LETTERS:]}"


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


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
