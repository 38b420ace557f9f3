"""Figures without pyplot: nothing global is touched, nothing opens a window."""

from __future__ import annotations

import io
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ascendsim.core.arguments import checked
from ascendsim.core.errors import InputError, suggest
from ascendsim.core.files import write_whole
from ascendsim.core.text_table import middle_cut
from ascendsim.plot.palette import FAINT, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")


class Picture(ABC):
    """What all displays can do once they can plot themselves.

    Attributes:
        title: What the picture shows.
        figure_, ax_: Where it was drawn last; unset before `plot`.
    """

    title: str
    figure_: Figure
    ax_: Axes

    @abstractmethod
    def plot(self, ax: Axes | None = None) -> Self:
        """Draws on axes (a new figure if None), sets `figure_` and `ax_`, returns itself."""

    @checked()
    def _begin(self, ax: Axes | None, width: float, height: float) -> Axes:
        """The axes to draw on, a new figure of this size in inches if None; notes where the picture is."""
        self.ax_ = new_axes(width, height) if ax is None else ax
        self.figure_ = figure_of(self.ax_)
        return self.ax_

    @checked()
    def save(self, path: str | PathLike[str]) -> Path:
        """Writes the picture as .png, .svg or .pdf (drawn first if it was not yet).

        Raises:
            InputError: If the file name has another ending, or the file cannot be written.
        """
        return save_figure(self._drawn(), path)

    def _drawn(self) -> Figure:
        if not hasattr(self, "figure_"):
            self.plot()
        return self.figure_

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.title!r})"

    def _repr_png_(self) -> bytes:
        return png_bytes(self._drawn())


def new_axes(width: float, height: float) -> Axes:
    """Axes on a new figure of its own.

    Args:
        width: Width in inches.
        height: Height in inches.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    return figure.add_subplot()


def dress(ax: Axes, title: str, x_label: str, y_label: str) -> None:
    """Gives axes of two measured quantities their texts, in the project's sizes and colours, and an open
    frame.
    """
    ax.set_xlabel(x_label, loc="left", fontsize=9, color=INK)
    ax.set_ylabel(y_label, fontsize=9, color=INK)
    write_title(ax, title)
    ax.tick_params(labelsize=9, labelcolor=INK, color=FAINT)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


@contextmanager
def _any_letters() -> Iterator[None]:
    """Names may have letters that the font does not (Chinese ones): these are boxes, and nobody is warned of
    each.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from", UserWarning)
        yield


def lay_out(figure: Figure) -> None:
    """Gives axes and texts their final places, which what is drawn into them may ask for."""
    with _any_letters():
        figure.draw_without_rendering()


def figure_of(ax: Axes) -> Figure:
    """The figure that axes belong to, at the outermost level."""
    figure = ax.get_figure(root=True)
    if figure is None:
        raise InputError("the given axes", "belong to no figure", remedy="use axes of a living figure")
    return figure


@lru_cache(maxsize=8)
def _renderer(dpi: float) -> RendererAgg:
    from matplotlib.backends.backend_agg import RendererAgg

    return RendererAgg(8, 8, dpi)  # type: ignore[no-untyped-call]


@lru_cache(maxsize=4096)  # labels of one size try the same names again and again
def text_width(text: str, size: float, dpi: float) -> float:
    """Width of a text in pixels at a font size in points."""
    from matplotlib.font_manager import FontProperties

    with _any_letters():
        width, _, _ = _renderer(dpi).get_text_width_height_descent(text, FontProperties(size=size), False)  # type: ignore[no-untyped-call]
    return float(width)


def fits(candidates: Sequence[str], size: float, dpi: float, room: float) -> str:
    """The first candidate that fits into `room` pixels, else ""."""
    return next((text for text in candidates if text_width(text, size, dpi) <= room), "")


def shortened(text: str, size: float, dpi: float, room: float) -> str:
    """A text of at most `room` pixels, without its middle, since the tail says more than the head; "" if
    fewer than six letters would be left.
    """
    if text_width(text, size, dpi) <= room:
        return text
    letters = int(len(text) * room / max(text_width(text, size, dpi), 1e-9)) + 1
    while letters > 6:
        cut = middle_cut(text, letters)
        if text_width(cut, size, dpi) <= room:
            return cut
        letters -= 1
    return ""


def write_title(ax: Axes, title: str, size: float = 11.0) -> None:
    """Writes a line above axes; a name that is longer than the axes are wide is cut at the end of its first
    word, where titles have the model, so that time and counts stay.
    """
    dpi, room = figure_of(ax).dpi, float(ax.get_window_extent().width)
    name, space, rest = title.partition(" ")
    if text_width(title, size, dpi) > room:
        left = room - text_width(space + rest, size, dpi)
        title = (shortened(name, size, dpi, left) or f"{name[:5]}…") + space + rest
    ax.set_title(title, loc="left", fontsize=size, color=INK)


def save_figure(figure: Figure, path: str | PathLike[str]) -> Path:
    """Writes a figure as .png, .svg or .pdf, whole or not at all; equal figures give equal bytes.

    Raises:
        InputError: If the name ends otherwise, or the file cannot be written.
    """
    import matplotlib as mpl

    target = Path(path)
    kind = target.suffix.lower().lstrip(".")
    if kind not in FORMATS:
        raise InputError(
            f"picture file {target.name!r}",
            "must end with .png, .svg or .pdf",
            kind or "a name without ending",
            suggest(kind, FORMATS),
        )
    buffer = io.BytesIO()
    undated: dict[str, Any] = {
        "png": {"Software": None},
        "svg": {"Date": None},
        "pdf": {"CreationDate": None},
    }[kind]
    with mpl.rc_context({"svg.hashsalt": "ascendsim"}), _any_letters():
        figure.savefig(buffer, format=kind, metadata=undated)
    return write_whole(target, buffer.getvalue())


def png_bytes(figure: Figure) -> bytes:
    """The figure as PNG, for notebooks."""
    buffer = io.BytesIO()
    with _any_letters():
        figure.savefig(buffer, format="png")
    return buffer.getvalue()
