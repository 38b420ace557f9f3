"""Points of a sweep: dots with the line of those that no other beats, and figures over an axis."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from ascendsim.core.table import Cell, Table
from ascendsim.plot.figures import Picture, dress
from ascendsim.plot.palette import FAINT, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette without its yellow; shapes tell groups apart where colours repeat
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#8c8c8c")
_MARKERS = "osD^vPX"
_MOST_NOTES = 15  # points on a front that are told apart by text
_WIDE = 30.0  # a figure whose largest value is that many times the smallest gets a logarithmic axis


@dataclass(eq=False, repr=False)
class ParetoDisplay(Picture):
    """Points, and which of them no other beats.

    Attributes:
        x, y: Figures of each point.
        groups: What each point is coloured by.
        best: Whether no other point beats it.
        notes: What is written beside each point that no other beats; "" = nothing.
        labels: Titles of x, y and groups.
        title: Line above the picture.
        larger_x: Whether x is better the larger it is.
        figure_, ax_: Where it was drawn last; unset before `plot`.
    """

    x: tuple[float, ...]
    y: tuple[float, ...]
    groups: tuple[str, ...]
    best: tuple[bool, ...]
    notes: tuple[str, ...]
    labels: tuple[str, str, str]
    title: str
    larger_x: bool = False

    def plot(self, ax: Axes | None = None) -> Self:
        """Draws the points.

        Args:
            ax: Axes to draw on; a new figure if None.

        Returns:
            Itself, with `ax_` and `figure_` set.
        """
        ax = self._begin(ax, 7.6, 4.6)
        front = sorted((x, y) for x, y, best in zip(self.x, self.y, self.best, strict=True) if best)
        if front:
            # between two points nothing is known to be better than the one that costs no more of x
            steps = "steps-pre" if self.larger_x else "steps-post"
            ax.plot(
                *zip(*front, strict=True),
                ds=steps,
                color=FAINT,
                lw=1.0,
                zorder=2,
                label="no other beats these",
            )
        places: dict[str, tuple[list[int], list[int]]] = {}
        for place, (group, best) in enumerate(zip(self.groups, self.best, strict=True)):
            places.setdefault(group, ([], []))[not best].append(place)
        for number, group in enumerate(places):
            for best, chosen in zip((True, False), places[group], strict=True):
                style: dict[str, Any] = {"s": 34, "zorder": 3, "lw": 1.1, **_style(number)}
                if not best:
                    style |= {"facecolors": "white", "edgecolors": style.pop("color")}
                ax.scatter([self.x[i] for i in chosen], [self.y[i] for i in chosen], **style)
            ax.scatter([], [], s=34, label=group, **_style(number))
        rightmost = max(self.x, default=0.0)
        for x, y, best, note in zip(self.x, self.y, self.best, self.notes, strict=True):
            if best and note:
                last = x == rightmost  # to its right there is the legend
                style = {"ha": "right" if last else "left", "fontsize": 7.5, "color": INK}
                ax.annotate(note, (x, y), (-5 if last else 5, -11), textcoords="offset points", **style)
        _scales(ax, self.x, self.y)
        dress(ax, self.title, self.labels[0], self.labels[1])
        _legend(ax, self.labels[2])
        return self


@dataclass(eq=False, repr=False)
class LinesDisplay(Picture):
    """Figures over an axis, a line for each value of another.

    Attributes:
        lines: Places and figures by the name of the line; places are texts where the axis has names.
        labels: Titles of x, y and of what the lines differ in.
        title: Line above the picture.
        figure_, ax_: Where it was drawn last; unset before `plot`.
    """

    lines: dict[str, tuple[tuple[Cell, ...], tuple[float, ...]]]
    labels: tuple[str, str, str]
    title: str

    def plot(self, ax: Axes | None = None) -> Self:
        """Draws the lines.

        Args:
            ax: Axes to draw on; a new figure if None.

        Returns:
            Itself, with `ax_` and `figure_` set.
        """
        ax = self._begin(ax, 7.6, 4.6)
        for number, (name, (x, y)) in enumerate(self.lines.items()):
            ax.plot(list(x), list(y), ms=5, lw=1.3, label=name, **_style(number))  # type: ignore[arg-type]
        xs = [value for x, _ in self.lines.values() for value in x]
        ys = [value for _, y in self.lines.values() for value in y]
        numbers = [float(value) for value in xs if isinstance(value, (int, float))]
        _scales(ax, numbers if len(numbers) == len(xs) else [], ys)
        if 0 < len(set(numbers)) <= 10 and len(numbers) == len(xs):
            places = sorted(set(numbers))
            ax.set_xticks(places, [f"{value:g}" for value in places])
            ax.set_xticks([], minor=True)
        dress(ax, self.title, self.labels[0], self.labels[1])
        if len(self.lines) > 1:
            _legend(ax, self.labels[2])
        return self


def plot_pareto(
    table: Table,
    columns: tuple[str, str],
    group: str,
    best: Collection[Any],
    ax: Axes | None = None,
    *,
    beside: str = "",
    larger_x: bool = False,
) -> ParetoDisplay:
    """Draws rows as dots.

    Args:
        table: With a column "Row".
        columns: What runs along x and y.
        group: Column that colours the dots.
        best: Numbers of the rows that no other beats.
        ax: Axes to draw on; a new figure if None.
        beside: Column whose value stands beside each point of the front, while they are few enough.
        larger_x: Whether x is better the larger it is.
    """
    rows = [row for row in table.records() if row[columns[0]] is not None and row[columns[1]] is not None]
    told = bool(beside) and len(best) <= _MOST_NOTES
    title = f"{columns[1]} against {columns[0]}: {len(rows)} points"
    return ParetoDisplay(
        tuple(float(row[columns[0]]) for row in rows),  # type: ignore[arg-type]
        tuple(float(row[columns[1]]) for row in rows),  # type: ignore[arg-type]
        tuple(str(row[group]) for row in rows),
        tuple(row["Row"] in best for row in rows),
        tuple(_short(row[beside]) if told else "" for row in rows),
        (*columns, group),
        f"{title}, the best with their {beside}" if told else title,
        larger_x,
    ).plot(ax)


def plot_lines(table: Table, x: str, y: str, by: str | None, ax: Axes | None = None) -> LinesDisplay:
    """Draws a column over another, a line for each value of a third.

    Args:
        table: The rows.
        x: Column of places.
        y: Column of numbers.
        by: Column whose values have a line each.
        ax: Axes to draw on; a new figure if None.
    """
    found: dict[str, list[tuple[Cell, float]]] = {}
    for row in table.records():
        if row[y] is not None:
            name = y if by is None else str(row[by])
            found.setdefault(name, []).append((row[x], float(row[y])))  # type: ignore[arg-type]
    lines = {}
    for name, places in found.items():
        if all(isinstance(place, (int, float)) for place, _ in places):
            places.sort()
        else:
            places = [(str(place), value) for place, value in places]
        lines[name] = (tuple(place for place, _ in places), tuple(value for _, value in places))
    return LinesDisplay(lines, (x, y, by or ""), f"{y} over {x}" + (f", by {by}" if by else "")).plot(ax)


def _style(number: int) -> dict[str, Any]:
    count = len(_COLOURS)
    return {"color": _COLOURS[number % count], "marker": _MARKERS[(number + number // count) % len(_MARKERS)]}


def _short(value: Cell) -> str:
    return f"{value:g}" if isinstance(value, float) else "own" if value is None else str(value)


def _scales(ax: Axes, xs: Sequence[float], ys: Sequence[float]) -> None:
    """Logarithmic axes for figures that span much, and numbers as people write them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for values, axis, scale in ((xs, ax.xaxis, ax.set_xscale), (ys, ax.yaxis, ax.set_yscale)):
        if not values:
            continue
        if min(values) > 0 and max(values) > _WIDE * min(values):
            scale("log")
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_minor_formatter(NullFormatter())
        elif axis is ax.yaxis and min(values) >= 0:
            ax.set_ylim(bottom=0)
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))


def _legend(ax: Axes, title: str) -> None:
    if not ax.get_legend_handles_labels()[0]:
        return
    ax.legend(
        loc="center left",
        bbox_to_anchor=(1.01, 0.5),
        fontsize=8,
        frameon=False,
        labelcolor=INK,
        title=title,
        title_fontsize=8,
    )
