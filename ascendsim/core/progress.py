"""How far something long is, and how long the rest will take: a bar on terminals, lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from ascendsim.core.interrupts import interrupts_heard

Progress = Callable[[int, int], None]
_EVERY_S = 10.0  # between two lines of progress where standard error is no terminal


@contextmanager
def shown(progress: Progress | bool, label: str) -> Iterator[Progress | None]:
    """What is to be called with the points that are done and all points.

    Args:
        progress: A function; True = a bar or lines on standard error; False = nothing.
        label: What is under way.
    """
    if progress is True:
        with shown_progress(label) as show:
            yield show
    else:
        yield progress or None


@contextmanager
def shown_progress(label: str, unit: str = "points") -> Iterator[Callable[[int, int], None]]:
    """Shows how many points are done and how long the rest will take: as a bar on a terminal, as a line now
    and then elsewhere. An interrupt that got lost is raised then.
    """
    shows = bar(label, unit) if sys.stderr.isatty() else nullcontext(_Lines(label, unit))
    with shows as show, interrupts_heard() as check:

        def tell(done: int, total: int) -> None:
            show(done, total)
            check()

        yield tell


@contextmanager
def bar(label: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error while the block runs; gives what is called with how many are done and all."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(label, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


class _Lines:
    """Progress in plain lines: the first, the last, and one every few seconds.

    Args:
        label: What is under way.
        unit: What is counted.
        clock: Seconds.
    """

    def __init__(self, label: str, unit: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._label, self._unit, self._clock = label, unit, clock
        self._begun = self._said = clock()
        self._known: int | None = None

    def __call__(self, done: int, total: int) -> None:
        now = self._clock()
        first = self._known is None
        if self._known is None:
            self._known = done  # of an earlier run: they say nothing of how long a point takes
        if not (first or done == total or now - self._said >= _EVERY_S):
            return
        self._said = now
        left = ""
        if self._known < done < total:
            seconds = (now - self._begun) / (done - self._known) * (total - done)
            left = f", about {seconds:.0f} s left"
        print(f"{self._label}: {done} of {total} {self._unit}{left}", file=sys.stderr, flush=True)
