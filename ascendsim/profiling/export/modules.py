"""Modules of a network as ranges of time: which layer a task belongs to, and what its products cost.

Readers of such ranges know one thread of the host: ranges nest or lie behind one another, and an operator
belongs to the innermost range around its call. So every task gets a window on that axis: its launch by the
host, or, where the device launches by itself, the time in which it ran, so that nothing of a host is made up.
Windows of tasks that overlap (other streams) are cut so that they follow one another.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ascendsim.profiling.export.capture import Capture
from ascendsim.profiling.fusion_op import original_operators
from ascendsim.profiling.view import TaskView

MOST_TEXT = 100_000  # characters of a file's list of scopes that are looked at
DEEPEST = 18  # msprof-analyze leaves out what lies deeper than 20 levels, root and operator included
LEAST_NS = 2  # of a window: an mfu range ends 1 ns before it, and must not be empty


@dataclass(frozen=True, slots=True)
class Window:
    """The time of a task's call on the host's thread, in nanoseconds since 1970."""

    view: TaskView
    start: int
    end: int


@dataclass(slots=True)
class Module:
    """A range of calls in one module."""

    name: str
    start: int
    end: int


def windows(capture: Capture) -> list[Window]:
    """The windows of all tasks that somebody launches, one behind the other."""
    if capture.host_launches:
        launches = [(capture.launch(view), view) for view in capture.run.tasks]
        spans = sorted([(*span, view.id, view) for span, view in launches if span is not None])
    else:
        spans = sorted([(*capture.span(view), view.id, view) for view in capture.run.tasks])
    result: list[Window] = []
    reached = 0
    for place, (first, last, _, view) in enumerate(spans):
        start = max(first, reached)
        following = spans[place + 1][0] if place + 1 < len(spans) else last
        reached = max(start + LEAST_NS, min(last, following))
        result.append(Window(view, start, reached))
    return result


def has_modules(capture: Capture) -> bool:
    """Whether any task's module is known."""
    return any(_scopes(capture.scopes, view) for view in capture.run.tasks)


def modules(capture: Capture, calls: Sequence[Window]) -> list[Module]:
    """Ranges of modules by start, outer ones first, below one for the whole network; none if no module is
    known.
    """
    if not has_modules(capture):
        return []
    found: list[Module] = []
    opened: list[Module] = []
    for call in calls:
        path = (capture.run.graph.name or "model", *_scopes(capture.scopes, call.view)[:DEEPEST])
        kept = 0
        while kept < min(len(opened), len(path)) and opened[kept].name == path[kept]:
            kept += 1
        opened = opened[:kept] + [Module(name, call.start, call.end) for name in path[kept:]]
        found.extend(opened[kept:])
        for module in opened:
            module.end = call.end
    return found


def name_scopes(text: str) -> tuple[str, ...]:
    """Modules around an operator, outermost first, from what torch.onnx writes into a file: the list of
    dotted paths of all modules around it and last of its own name, as Python prints it. Empty if it is no
    such list.

    >>> name_scopes("['', 'encoder', 'encoder.layer.0', 'linear_1']")
    ('encoder', 'layer.0')
    """
    if len(text) > MOST_TEXT:
        return ()
    try:
        paths = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ()
    if not isinstance(paths, list | tuple) or not all(isinstance(path, str) for path in paths):
        return ()
    return _inner(paths[:-1])


def _inner(paths: Sequence[str]) -> tuple[str, ...]:
    """Dotted paths of modules, each in the one before, as names below it; empty ones are left out."""
    known = [path for path in paths if path]
    return tuple([path.removeprefix(f"{outer}.") for outer, path in zip(["", *known], known, strict=False)])


def _scopes(known: Mapping[str, tuple[str, ...]], view: TaskView) -> tuple[str, ...]:
    """Modules around the first operator of the user's that a task runs, by the file or by its name
    ("/layer1/layer1.0/conv1/Conv").
    """
    for name in original_operators(view):
        if scopes := known.get(name) or _inner(name.split("/")[:-1]):
            return scopes
    return ()
