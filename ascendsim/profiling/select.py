"""Choosing tasks by time window and by operator."""

from __future__ import annotations

from collections.abc import Iterable

from ascendsim.core.errors import InputError, suggest
from ascendsim.graph.scopes import within
from ascendsim.profiling.view import ProfiledRun, TaskView

Window = tuple[float, float]


def select(
    run: ProfiledRun, window: Window | None = None, operators: str | Iterable[str] | None = None
) -> tuple[TaskView, ...]:
    """Tasks that overlap a window and belong to an operator, in order of start.

    Args:
        run: The run.
        window: Start and end in us of simulated time; None = everything.
        operators: Names, scopes ("/layer1") or shell patterns ("/layer1/*") of tasks, nodes, operators of the
            user's model or operator types; None = all.

    Raises:
        InputError: If the window is empty or past the end of the run, or a name matches no task (suggests the
            nearest one).
    """
    views = run.tasks
    if operators is not None:
        names = (operators,) if isinstance(operators, str) else tuple(operators)
        chosen: set[int] = set()
        for name in names:
            hits = {view.id for view in views if _matches(view, name)}
            if not hits:
                known = [*dict.fromkeys(view.op_type for view in views), *(view.name for view in views)]
                raise InputError(
                    f"operator {name!r}", "matches no task of the run", remedy=suggest(name, known)
                )
            chosen |= hits
        views = tuple(view for view in views if view.id in chosen)
    if window is not None:
        start, end = check_window(window)
        if views and start > run.trace.duration_us:
            raise InputError(
                "option window",
                f"must begin before the run ends, after {run.trace.duration_us:,.3f} us",
                f"({start:g}, {end:g})",
                "times are in us from the start of the run",
            )
        views = tuple(
            view for view in views if run.us(view.record.end) >= start and run.us(view.record.start) <= end
        )
    return views


def check_window(window: Window) -> Window:
    """The window as floats.

    Raises:
        InputError: If it is not (start, end) with start < end.
    """
    try:
        start, end = (float(value) for value in window)
    except (TypeError, ValueError):
        raise InputError("option window", "must be (start_us, end_us)", repr(window)) from None
    if not start < end:
        raise InputError(
            "option window",
            "must have its start before its end",
            f"({start:g}, {end:g})",
            "times are in us from the start of the run",
        )
    return start, end


def _matches(view: TaskView, name: str) -> bool:
    candidates = (
        view.name,
        view.op_type,
        *(node.name for node in view.nodes),
        *(node.op_type for node in view.nodes),
        *(source for node in view.nodes for source in node.origin.get("source_names", ())),
    )
    return any(name == candidate or within(candidate, name) for candidate in candidates)
