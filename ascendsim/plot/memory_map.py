"""The memory map: address against time, a rectangle for every tensor while it lives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from ascendsim.isa.program import Region
from ascendsim.plot.figures import Picture, dress, fits, lay_out
from ascendsim.plot.palette import INK, ink_on

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

COLOURS = {
    "input": "#56b4e9",
    "output": "#e69f00",
    "activation": "#009e73",
    "in place": "#8fd3bd",
    "workspace": "#cc79a7",
}
LIVE = "#b5b9bf"
_LEAST_NAMED = 0.02  # share of the height below which a rectangle gets no name


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A tensor in the map.

    Attributes:
        kind: Key of `COLOURS`.
        start, stop: On the time axis.
        offset, bytes: In device memory.
    """

    name: str
    kind: str
    start: float
    stop: float
    offset: int
    bytes: int


@dataclass(eq=False, repr=False)
class MemoryMapDisplay(Picture):
    """The map as numbers, and the picture of it.

    Attributes:
        rectangles: One a tensor.
        edges: Times at which something begins or ends to live, rising.
        live: Bytes taken between an edge and the next.
        peak, lower_bound: End of the arena, and the largest live set, in bytes.
        unit: Of the time axis.
        title: Line above the picture.
        figure_, ax_: Where it was drawn last; unset before `plot`.
    """

    rectangles: tuple[Rectangle, ...]
    edges: tuple[float, ...]
    live: tuple[int, ...]
    peak: int
    lower_bound: int
    unit: str
    title: str

    def plot(self, ax: Axes | None = None) -> Self:
        """Draws the map.

        Args:
            ax: Axes to draw on; a new figure if None.

        Returns:
            Itself, with `ax_` and `figure_` set.
        """
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch
        from matplotlib.patches import Rectangle as Box

        ax = self._begin(ax, 11.0, 6.5)
        scale, unit = (2**20, "MiB") if self.peak >= 2**20 else (2**10, "KiB")
        top = max(self.peak, 1) / scale
        ax.set_xlim(self.edges[0], max(self.edges[-1], self.edges[0] + 1e-9))
        ax.set_ylim(0, 1.04 * top)
        for item in self.rectangles:
            corner, size = (item.start, item.offset / scale), (item.stop - item.start, item.bytes / scale)
            ax.add_patch(Box(corner, *size, facecolor=COLOURS[item.kind], edgecolor="white", linewidth=0.4))
        ax.axhline(self.lower_bound / scale, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        self._draw_live(ax, scale, unit)
        dress(
            ax,
            "",
            f"time ({self.unit})" if self.unit != "task" else "task, in launch order",
            f"address ({unit})",
        )
        kinds = [kind for kind in COLOURS if any(item.kind == kind for item in self.rectangles)]
        handles: list[Artist] = [Patch(color=COLOURS[kind], label=kind) for kind in kinds]
        handles += [
            Line2D([], [], color=INK, linestyle=(0, (4, 3)), label="largest live set"),
        ]
        ax.legend(handles=handles, loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8, frameon=False)
        self._write_names(ax, scale, top)
        return self

    def _draw_live(self, ax: Axes, scale: float, unit: str) -> None:
        """How many bytes are taken, in a strip of its own above the map: sums are no addresses."""
        strip = ax.inset_axes((0.0, 1.06, 1.0, 0.22))
        strip.set_xlim(ax.get_xlim())
        strip.set_ylim(0, 1.15 * max(self.lower_bound, 1) / scale)
        strip.stairs([bytes / scale for bytes in self.live], self.edges, color=LIVE, fill=True)
        strip.axhline(self.lower_bound / scale, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        dress(strip, self.title, "", f"alive ({unit})")
        strip.tick_params(axis="x", labelbottom=False)

    def _write_names(self, ax: Axes, scale: float, top: float) -> None:
        """Names inside of rectangles that have room for them."""
        lay_out(self.figure_)
        dpi, pixels = self.figure_.dpi, ax.get_window_extent().width
        width = self.edges[-1] - self.edges[0] or 1.0
        for item in self.rectangles:
            if item.bytes / scale < _LEAST_NAMED * top:
                continue
            text = fits((item.name,), 7, dpi, pixels * (item.stop - item.start) / width - 6)
            if text:
                middle = ((item.start + item.stop) / 2, (item.offset + item.bytes / 2) / scale)
                ax.text(
                    *middle,
                    text,
                    ha="center",
                    va="center",
                    fontsize=7,
                    color=ink_on(COLOURS[item.kind]),
                    clip_on=True,
                )


def memory_map(
    regions: Sequence[Region],
    spans: Sequence[tuple[float, float]],
    peak: int,
    lower_bound: int,
    title: str,
    unit: str = "task",
) -> MemoryMapDisplay:
    """The map of a plan.

    Args:
        regions: Those that own their bytes, weights left out.
        spans: Start and end of each task on the time axis, in launch order.
        peak: End of the arena.
        lower_bound: The largest live set.
        title: Line above the picture.
        unit: "task", or the unit of the spans.
    """
    end = max((stop for _, stop in spans), default=1.0)
    found = []
    for region in regions:
        kind = "in place" if region.in_place_of is not None else region.kind
        whole = region.kind in ("input", "output")
        used = spans[region.first : region.last + 1]
        start = 0.0 if whole or not used else min(first for first, _ in used)
        stop = end if whole or not used else max(last for _, last in used)
        found.append(Rectangle(region.name, kind, start, stop, region.offset, region.bytes))
    order = sorted(found, key=lambda item: (item.kind == "in place", item.start, item.offset, item.name))
    edges, live = _taken(order, end)
    return MemoryMapDisplay(tuple(order), edges, live, peak, lower_bound, unit, title)


def _taken(rectangles: Sequence[Rectangle], end: float) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Edges in time, and bytes of all addresses that are taken between them; those of results in place count
    once.
    """
    edges = sorted({0.0, end, *(edge for item in rectangles for edge in (item.start, item.stop))})
    begin: dict[float, list[Rectangle]] = {}
    for item in rectangles:
        begin.setdefault(item.start, []).append(item)
    alive: list[Rectangle] = []
    taken = []
    for edge in edges[:-1]:
        alive = sorted(
            [*(item for item in alive if item.stop > edge), *begin.get(edge, ())],
            key=lambda item: item.offset,
        )
        top = total = 0
        for item in alive:
            total += max(0, item.offset + item.bytes - max(top, item.offset))
            top = max(top, item.offset + item.bytes)
        taken.append(total)
    return tuple(edges), tuple(taken)
