"""Drawing lanes on axes: bars, densities and labels at pixel resolution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.graph.scopes import FUSED_SEPARATOR
from ascendsim.plot.figures import figure_of, fits, shortened, text_width
from ascendsim.plot.lanes import COLOURED, Floats, Lane, coverage
from ascendsim.plot.palette import INK, KIND_COLOURS, LANE, SURE, ink_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Chosen = NDArray[np.bool_]

BAR_PIXELS = 2.5  # narrower bars are added up into densities
CROWDED_BAR_PIXELS = (
    9.0  # the same in a row where most bars are that narrow anyway, so that a few do not stand out by chance
)
LABEL_PIXELS = 14.0  # narrower bars get no label
EDGE_PIXELS = 5.0  # wider bars get an edge that parts them from their neighbours
DENSITY_PIXELS = 3.0  # width of a column of densities
FILL = 0.84  # part of a lane's height that its content takes
FADED = 0.18
PALE = 0.6  # how much lighter the part of a bar is in which its task is launched and dispatched
PALE_PIXELS = 1.5  # narrower parts are not told apart
LAUNCHED = "pale: launch and dispatch"
LIKELY = "bar: likely end"
LEGEND_SIZE = 8.5


class LaneArtist:
    """Draws lanes on axes whose limits and layout are settled.

    Args:
        ax: The axes; y grows downwards.
        window: Visible time in us.
        scale: Axis units of a microsecond.
        highlighted: Task ids that stand out; None = all.
    """

    def __init__(
        self, ax: Axes, window: tuple[float, float], scale: float, highlighted: frozenset[int] | None
    ) -> None:
        self.ax, self.window, self.scale, self.highlighted = ax, window, scale, highlighted
        box = ax.get_window_extent()
        self.dpi = figure_of(ax).dpi
        self.pixels = max(float(box.width), 1.0)
        self.pixels_of_lane = float(box.height) / abs(ax.get_ylim()[0] - ax.get_ylim()[1])
        self.us_of_pixel = (window[1] - window[0]) / self.pixels

    def draw(self, lane: Lane, top: float, height: float, until: float | None = None) -> None:
        """Draws one lane between y = top and y = top + height, its background up to a time in us (the end of
        the window if None).
        """
        inner = top + height * (1 - FILL) / 2
        share = 1.0 if until is None else (until - self.window[0]) / (self.window[1] - self.window[0])
        self.ax.axhspan(
            inner, inner + height * FILL, 0.0, min(max(share, 0.0), 1.0), color=LANE, lw=0, zorder=0
        )
        for faded in (True, False):
            chosen = self._part(lane, faded)
            if not chosen.any():
                continue
            if lane.shares:
                narrow = (
                    float(np.median((lane.ends - lane.starts)[chosen])) < DENSITY_PIXELS * self.us_of_pixel
                )
                self._columns(
                    lane,
                    chosen,
                    inner,
                    height * FILL,
                    DENSITY_PIXELS if narrow else 1.0,
                    FADED if faded else 1.0,
                )
            else:
                self._bars(lane, chosen, inner, height * FILL / lane.row_count, FADED if faded else 1.0)

    def _part(self, lane: Lane, faded: bool) -> Chosen:
        if self.highlighted is None:
            return np.full(len(lane), not faded)
        inside = np.isin(lane.tasks, sorted(self.highlighted))
        return ~inside if faded else inside

    def _bars(self, lane: Lane, chosen: Chosen, top: float, height: float, alpha: float) -> None:
        """Whole bars where they are wide enough, densities elsewhere, row by row."""
        widths = (lane.ends - lane.starts) / self.us_of_pixel
        for row in range(lane.row_count):
            in_row = chosen & (lane.rows == row)
            crowded = in_row.any() and float(np.median(widths[in_row])) < BAR_PIXELS
            wide = widths >= (CROWDED_BAR_PIXELS if crowded else BAR_PIXELS)
            upper = top + row * height
            narrow = in_row & ~wide
            if narrow.any():
                self._columns(lane, narrow, upper, height, DENSITY_PIXELS, alpha)
            if (in_row & wide).any():
                self._rectangles(lane, np.flatnonzero(in_row & wide), upper, height, alpha)

    def _rectangles(
        self, lane: Lane, indices: NDArray[np.int64], top: float, height: float, alpha: float
    ) -> None:
        starts, ends = lane.starts[indices] * self.scale, lane.ends[indices] * self.scale
        widths = (lane.ends[indices] - lane.starts[indices]) / self.us_of_pixel
        colours = [KIND_COLOURS[COLOURED[lane.kinds[i]]] for i in indices]
        edges = np.where(widths >= EDGE_PIXELS, 0.7, 0.0)
        boxes = _boxes(starts, ends, np.full(len(indices), top), np.full(len(indices), top + height))
        self._add(boxes, facecolors=colours, edgecolors="white", linewidths=edges, alpha=alpha, zorder=3)
        if lane.begun is not None:
            pale = indices[lane.begun[indices] - lane.starts[indices] >= PALE_PIXELS * self.us_of_pixel]
            heads = _boxes(
                lane.starts[pale] * self.scale,
                lane.begun[pale] * self.scale,
                np.full(len(pale), top),
                np.full(len(pale), top + height),
            )
            self._add(heads, facecolors="white", linewidths=0, alpha=PALE * alpha, zorder=3.5)
        for i in indices[widths >= LABEL_PIXELS]:
            pale_middle = lane.begun is not None and 2 * lane.begun[i] > lane.starts[i] + lane.ends[i]
            dark = alpha < 1 or pale_middle
            ink = INK if dark else ink_on(KIND_COLOURS[COLOURED[lane.kinds[i]]])
            self._label(lane, int(i), top, height, ink, pale_middle)

    def _label(self, lane: Lane, index: int, top: float, height: float, ink: str, in_head: bool) -> None:
        """The name of a bar (with its time if there is room) inside the visible part of its pale head or of
        what follows; upright where that is narrow.
        """
        start, end = max(lane.starts[index], self.window[0]), min(lane.ends[index], self.window[1])
        if lane.begun is not None:
            border = min(max(lane.begun[index], start), end)
            start, end = (start, border) if in_head else (border, end)
        width, lane_pixels = (end - start) / self.us_of_pixel, height * self.pixels_of_lane
        large = min(8.0, 0.62 * lane_pixels * 72 / self.dpi)
        small = min(large, 6.5)
        name = lane.labels[index]
        if small < 5 or not name:
            return
        full, scoped, short = label_texts(name)
        timed = f"{full}  {self._time(lane.ends[index] - lane.starts[index])}"
        upright = lane_pixels - 5 if width >= 1.2 * small * self.dpi / 72 else 0.0

        def ways() -> Iterator[tuple[float, int, str]]:
            """Measured one by one: most bars have room for the first."""
            yield large, 0, fits([timed, full, scoped], large, self.dpi, width - 6)
            yield small, 0, fits([full, scoped], small, self.dpi, width - 5)
            yield small, 90, fits([full, scoped], small, self.dpi, upright)
            yield small, 0, fits([short], small, self.dpi, width - 5)
            yield small, 90, fits([short], small, self.dpi, upright)
            yield small, 0, shortened(short, small, self.dpi, width - 5)
            yield small, 90, shortened(short, small, self.dpi, upright)

        for size, angle, text in ways():
            if text:
                place = ((start + end) / 2 * self.scale, top + height / 2)
                style: dict[str, Any] = {
                    "ha": "center",
                    "va": "center",
                    "rotation": angle,
                    "clip_on": True,
                    "zorder": 4,
                }
                self.ax.text(*place, text, fontsize=size, color=ink, **style)
                return

    def _time(self, us: float) -> str:
        """A duration in the unit of the time axis."""
        if self.scale < 1:
            return f"{us * self.scale:.2f} ms"
        return f"{us:,.1f} us" if us >= 10 else f"{us:.2f} us"

    def _columns(
        self,
        lane: Lane,
        chosen: Chosen,
        top: float,
        height: float,
        width: float,
        alpha: float,
    ) -> None:
        """Columns `width` pixels wide, as high as the slices cover them, stacked by kind from the bottom."""
        edges = np.linspace(self.window[0], self.window[1], max(int(self.pixels / width), 1) + 1)
        base: Floats = np.full(len(edges) - 1, top + height)
        for kind in sorted({int(k) for k in lane.kinds[chosen]}):
            part = chosen & (lane.kinds == kind)
            share = coverage(lane.starts[part], lane.ends[part], lane.heights[part], edges)
            upper = np.maximum(base - share * height, top)
            # equal columns join
            first = np.flatnonzero(np.concatenate([[True], (np.diff(upper) != 0) | (np.diff(base) != 0)]))
            last = np.concatenate([first[1:], [len(upper)]])
            times = edges * self.scale
            boxes = _boxes(times[first], times[last], upper[first], base[first])[upper[first] < base[first]]
            self._add(
                boxes,
                facecolors=KIND_COLOURS[COLOURED[kind]],
                linewidths=0,
                alpha=alpha,
                antialiaseds=False,
                zorder=2,
            )
            base = upper

    def _add(self, boxes: Floats, **style: Any) -> None:
        from matplotlib.collections import PolyCollection

        # one array, which matplotlib takes sooner than a list, and its annotation not at all
        self.ax.add_collection(PolyCollection(boxes, **style), autolim=False)  # type: ignore[arg-type]


def _boxes(left: Floats, right: Floats, top: Floats, bottom: Floats) -> Floats:
    """Corners of rectangles, shape (count, 4, 2)."""
    corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
    return np.stack([np.stack(corner, axis=1) for corner in corners], axis=1)


def label_texts(name: str) -> tuple[str, str, str]:
    """Names of a task from long to short: layer and operators, layer, and the shortest that says what it is.

    The layer is the innermost scope of its first operator, behind the innermost scope that has a number, so
    that repeated layers can be told apart; colours tell operators apart.

    >>> label_texts("/layer1/layer1.0/conv1/Conv+/layer1/layer1.0/relu/Relu")
    ('layer1.0/conv1/Conv+Relu', 'layer1.0/conv1', 'conv1')
    >>> label_texts("/encoder/layer.3/attention/query/MatMul"), label_texts("Conv_12")
    (('layer.3/query/MatMul', 'layer.3/query', 'query'), ('Conv_12', 'Conv_12', 'Conv_12'))
    >>> label_texts("encoder.layer.3.attention.query.MatMul")
    ('layer.3/query/MatMul', 'layer.3/query', 'query')
    """
    fused = [_scopes(own) for own in name.split(FUSED_SEPARATOR)]
    operators = FUSED_SEPARATOR.join(parts[-1] for parts in fused)
    *outer, layer = fused[0][:-1] or [""]
    if not layer:
        return operators, operators, operators
    numbered = [scope for scope in outer if any(letter.isdigit() for letter in scope)]
    placed = "/".join([*(numbered[-1:] or outer[-1:]), layer])
    return f"{placed}/{operators}", placed, layer


def _scopes(name: str) -> list[str]:
    """The scopes of an operator, from the outermost, and its own name: between "/", or between the dots of a
    module's path, where a number belongs to the word before it.

    >>> _scopes("/encoder/layer.3/MatMul"), _scopes("encoder.layer.3.MatMul"), _scopes("v1.5")
    (['encoder', 'layer.3', 'MatMul'], ['encoder', 'layer.3', 'MatMul'], ['v1.5'])
    """
    if "/" in name:
        return [part for part in name.split("/") if part] or [name]
    parts: list[str] = []
    for part in name.split("."):
        if parts and (part.isdigit() or not part):
            parts[-1] += f".{part}"
        else:
            parts.append(part)
    return parts


def draw_legend(ax: Axes, kinds: Sequence[str]) -> None:
    """A legend of kinds (and of `LAUNCHED`, `LIKELY`) under the axes, in as many columns as their width has
    room for.
    """
    from matplotlib.patches import Patch
    from matplotlib.transforms import ScaledTranslation

    if not kinds:
        return
    dpi, room = figure_of(ax).dpi, float(ax.get_window_extent().width)
    widths = [text_width(kind, LEGEND_SIZE, dpi) + 3.2 * LEGEND_SIZE * dpi / 72 for kind in kinds]
    columns = next((count for count in range(len(kinds), 1, -1) if _legend_width(widths, count) <= room), 1)
    # next to the label of the time axis, else below it
    beside = columns == len(kinds) and sum(widths) < room - 90
    below = ax.transAxes + ScaledTranslation(0, -(24 if beside else 38) / 72, figure_of(ax).dpi_scale_trans)
    ax.legend(
        handles=[
            Patch(facecolor=SURE if kind == LIKELY else KIND_COLOURS.get(kind, LANE), label=kind)
            for kind in kinds
        ],
        ncols=columns,
        loc="upper right",
        bbox_to_anchor=(1.0, 0.0),
        bbox_transform=below,
        frameon=False,
        fontsize=LEGEND_SIZE,
        labelcolor=INK,
        borderaxespad=0,
        handlelength=1.2,
        columnspacing=1.4,
    )


def _legend_width(widths: Sequence[float], columns: int) -> float:
    """Width of a legend whose entries fill its columns from the top."""
    rows = -(-len(widths) // columns)
    return sum(max(widths[at : at + rows]) for at in range(0, len(widths), rows))
