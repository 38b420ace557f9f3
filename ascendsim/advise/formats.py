"""What forces TransData, sorted by cause as CANN's advisor does ("TransData identification"): an operator
without a blocked format, a Reshape that breaks it, two blocked formats side by side, the ends of the graph.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ascendsim.core.table import Row, Table
from ascendsim.passes.layout.causes import TRANSDATA, Cause
from ascendsim.profiling import ProfiledRun, TaskView

_SHOWN = 3  # causes in a finding, operators of each
_EMPTY = ("Forced by", "Tasks", "Time(us)", "Share(%)", "Operators")


@dataclass(slots=True)
class Forced:
    """TransData of one cause.

    Attributes:
        kind: See `Cause`.
        causes: What forces them, each once.
        tasks: How many.
        ticks: Their time; that of a task which does other work as well is left out.
    """

    kind: str
    causes: dict[Cause, None] = field(default_factory=dict)
    tasks: int = 0
    ticks: int = 0


def forced(run: ProfiledRun) -> tuple[Forced, ...]:
    """TransData of a run by what forces them, most time first."""
    found: dict[str, Forced] = {}
    for view in run.tasks:
        for node in view.nodes:
            cause = Cause.of(node) if node.op_type == TRANSDATA else None
            if cause is None:
                continue
            one = found.setdefault(cause.kind, Forced(cause.kind))
            one.causes[cause] = None
            one.tasks += 1
            one.ticks += view.duration if _alone(view) else 0
    return tuple(sorted(found.values(), key=lambda one: (-one.ticks, one.kind)))


def transdata(run: ProfiledRun) -> Table:
    """One row a cause: what forces TransData, how many tasks that makes, their time and its share of all, and
    the operators by name.
    """
    total = sum(view.duration for view in run.tasks)
    rows: list[Row] = [
        (
            one.kind,
            one.tasks,
            run.us(one.ticks),
            100 * one.ticks / max(1, total),
            ";".join(dict.fromkeys(cause.name for cause in one.causes)),
        )
        for one in forced(run)
    ]
    return Table("transdata", _EMPTY, tuple(rows))


def no_transdata() -> Table:
    """The same without rows."""
    return Table("transdata", _EMPTY, ())


def transdata_finding(causes: Table) -> str:
    """What the list of slow operators says of all TransData; "" if nothing is known of any."""
    parts = []
    for row in causes.records()[:_SHOWN]:
        names = str(row["Operators"]).split(";")
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        share = f"{float(row['Share(%)'] or 0):.0f} % of the time"
        parts.append(f"{row['Forced by']} ({row['Tasks']}, {share}: {', '.join(names[:_SHOWN])}{more})")
    return f"forced by {', '.join(parts)}" if parts else ""


def _alone(view: TaskView) -> bool:
    return all(node.op_type == TRANSDATA for node in view.nodes)
