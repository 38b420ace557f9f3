"""The operators that take the most time, as bars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from ascendsim.plot.drawing import draw_legend
from ascendsim.plot.figures import Picture, write_title
from ascendsim.plot.palette import FAINT, INK, KIND_COLOURS
from ascendsim.profiling.kinds import KINDS, kind_of
from ascendsim.profiling.metrics import task_metrics
from ascendsim.profiling.view import ProfiledRun

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME_LETTERS = 40  # longer names lose their head; the tail tells operators apart


@dataclass(eq=False, repr=False)
class TopOperatorsDisplay(Picture):
    """The longest tasks as numbers, and the picture of them.

    Attributes:
        names, kinds, bounds: By bar, from the top; bounds as in `profiling.metrics.bound_by`.
        times_us, shares: Duration, and share 0..1 of the summed time of all tasks.
        title: Line above the picture.
        figure_, ax_: Where it was drawn last; unset before `plot`.
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    bounds: tuple[str, ...]
    times_us: tuple[float, ...]
    shares: tuple[float, ...]
    title: str

    def plot(self, ax: Axes | None = None) -> Self:
        """Draws the bars.

        Args:
            ax: Axes to draw on; a new figure if None.

        Returns:
            Itself, with `ax_` and `figure_` set.
        """
        count = len(self.names)
        ax = self._begin(ax, 9.0, 1.5 + 0.3 * max(count, 1))
        ax.barh(range(count), self.times_us, height=0.72, color=[KIND_COLOURS[kind] for kind in self.kinds])
        for place, (time, share, bound) in enumerate(
            zip(self.times_us, self.shares, self.bounds, strict=True)
        ):
            note = f"{time:,.1f} us  {100 * share:.1f} %  {bound}"
            ax.annotate(
                note, (time, place), (5, 0), textcoords="offset points", va="center", fontsize=8.5, color=INK
            )
        ax.set_yticks(range(count), [_short(name) for name in self.names], fontsize=9, color=INK)
        ax.set_ylim(max(count, 1) - 0.5, -0.5)
        ax.set_xlim(0, 1.35 * max(self.times_us, default=1.0))  # room for the note of the longest bar
        ax.set_xlabel("time (us)", loc="left", fontsize=9, color=INK)
        write_title(ax, self.title)
        ax.tick_params(axis="y", length=0)
        ax.tick_params(axis="x", labelsize=9, labelcolor=INK, color=FAINT)
        for side in ("top", "right", "left"):
            ax.spines[side].set_visible(False)
        draw_legend(ax, [kind for kind in KINDS if kind in self.kinds])
        return self


def plot_top_operators(run: ProfiledRun, count: int = 12, ax: Axes | None = None) -> TopOperatorsDisplay:
    """Draws the tasks that take the most time, with their share and what bounds them.

    Args:
        run: The run.
        count: How many.
        ax: Axes to draw on; a new figure if None.
    """
    total = sum(view.duration for view in run.tasks)
    views = sorted(run.tasks, key=lambda view: (-view.duration, view.id))[: max(count, 0)]
    return TopOperatorsDisplay(
        tuple(view.name for view in views),
        tuple(kind_of(view) for view in views),
        tuple(task_metrics(run, view).bound for view in views),
        tuple(run.us(view.duration) for view in views),
        tuple(view.duration / total for view in views),
        f"{run.graph.name} on {run.soc.name}: {len(views)} longest of {len(run.tasks):,} tasks",
    ).plot(ax)


def _short(name: str) -> str:
    return name if len(name) <= NAME_LETTERS else f"…{name[-NAME_LETTERS:]}"
