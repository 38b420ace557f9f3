"""What a report is about: runs by name, with what a trace alone does not know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from ascendsim.graph.ir import Graph, Node
from ascendsim.plot.memory_map import MemoryMapDisplay
from ascendsim.profiling.view import ProfiledRun, TaskView

Columns = dict[str, Any]  # plain data as JSON has it


@dataclass(frozen=True)
class Subject:
    """One run of a report.

    Attributes:
        name: What tells it from the others.
        profile: The run.
        source: The graph as the user gave it.
        memory: Its memory plan over the time of the run; None if there is no plan of the whole.
        memory_bytes: Device memory for all but weights.
        likely: Where its duration on a real chip is likely to be, and what that rests on; "" if nothing is
            said.
        options: Options of `compile` that differ from their defaults, as text.
    """

    name: str
    profile: ProfiledRun
    source: Graph
    memory: MemoryMapDisplay | None = None
    memory_bytes: int = 0
    likely: str = ""
    options: Mapping[str, str] = field(default_factory=dict)


def sources_of(nodes: Iterable[Node]) -> list[str]:
    """Names of the operators of the user's model that some device nodes stand for; of inserted nodes their
    own.
    """
    return list(
        dict.fromkeys(name for node in nodes for name in node.origin.get("source_names", (node.name,)))
    )


def task_sources(view: TaskView) -> list[str]:
    """As `sources_of`; a task without a node stands for itself."""
    return sources_of(view.nodes) or [view.name]


def short(value: float | None, digits: int = 4) -> float | None:
    """A number with as many significant digits as a reader needs, so that files stay small; None if it is no
    finite one.

    >>> short(123.4567), short(0.000123456), short(float("nan")), short(None)
    (123.5, 0.0001235, None, None)
    """
    return float(f"{value:.{digits}g}") if value is not None and isfinite(value) else None
