"""What pictures over time have in common: the time axis, the heights and names of lanes, the busy shares at
their right end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ascendsim.plot.figures import write_title
from ascendsim.plot.lanes import Floats, Lane
from ascendsim.plot.palette import FAINT, INK
from ascendsim.profiling.select import Window

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MS_FROM_US = 10_000.0  # times longer than this are given in ms


def time_unit(window: Window) -> str:
    """Unit of the time axis: "us", or "ms" for long windows."""
    return "ms" if window[1] - window[0] > MS_FROM_US else "us"


def time_scale(window: Window) -> float:
    """Axis units of a microsecond."""
    return 1e-3 if time_unit(window) == "ms" else 1.0


def duration_text(us: float, window: Window, sign: str = "") -> str:
    """A duration in the unit of the time axis, so that one picture has one unit.

    Args:
        us: The duration.
        window: What the axis shows.
        sign: "+" for a change, which has its sign before it.

    >>> duration_text(1234.56, (0.0, 1300.0)), duration_text(1234.56, (0.0, 14354.2))
    ('1,234.6 us', '1.23 ms')
    """
    unit = time_unit(window)
    return f"{us * time_scale(window):{sign},.{2 if unit == 'ms' else 1}f} {unit}"


def lane_height(lane: Lane) -> float:
    """Height of a lane in units of a plain one."""
    return lane.weight * (1.0 if lane.row_count == 1 else 0.6 + 0.4 * min(lane.row_count, 6))


def lane_tops(lanes: Sequence[Lane], first: float = 0.0) -> Floats:
    """Where each lane begins and the last one ends: one value more than there are lanes."""
    return first + np.concatenate([[0.0], np.cumsum([lane_height(lane) for lane in lanes])])


def draw_frame(ax: Axes, window: Window, rows: float, title: str) -> None:
    """Sets limits, title and time axis; y grows downwards from 0 to `rows`."""
    scale = time_scale(window)
    ax.set_xlim(window[0] * scale, window[1] * scale)
    ax.set_ylim(max(rows, 1.0), 0)
    ax.set_xlabel(f"time ({time_unit(window)})", loc="left", fontsize=9, color=INK)
    write_title(ax, title)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", labelsize=9, labelcolor=INK, color=FAINT)


def name_lanes(ax: Axes, lanes: Sequence[Lane], centres: Sequence[float]) -> None:
    """Writes the names of lanes at their left end."""
    ax.set_yticks(list(centres), [lane.name for lane in lanes], fontsize=9, color=INK)


def write_shares(ax: Axes, lanes: Sequence[Lane], tops: Floats, window: Window) -> None:
    """The average busy share of each lane over the window, at its right end, under the word "busy"."""
    ax.text(
        1.006,
        float(tops[0]) - 0.02,
        "busy",
        transform=ax.get_yaxis_transform(),
        va="bottom",
        fontsize=8.5,
        color=FAINT,
    )
    for lane, top in zip(lanes, tops, strict=False):
        percent = 100 * lane.busy_share(window)
        share = f"{percent:.0f} %" if percent >= 9.95 or percent == 0 else f"{percent:.1f} %"
        place = (1.006, float(top) + lane_height(lane) / 2)
        ax.text(*place, share, transform=ax.get_yaxis_transform(), va="center", fontsize=8.5, color=FAINT)
