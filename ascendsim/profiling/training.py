"""Where the time of a training step goes: forward, backward, update."""

from __future__ import annotations

from ascendsim.core.table import Table
from ascendsim.profiling.fusion_op import original_operators
from ascendsim.profiling.view import ProfiledRun, TaskView
from ascendsim.training import scopes

PHASES = ("forward", "backward", "update")
_PREFIXES = {
    scopes.GRADIENTS: "backward",
    **dict.fromkeys((scopes.LOSS_SCALE, scopes.CLIP, scopes.OPTIMIZER), "update"),
}
COLUMNS = ("Phase", "Tasks", "Total Time(us)", "Ratio(%)")


def training_shares(run: ProfiledRun) -> Table:
    """One row a phase: its tasks and the sum of their times. A task of several operators belongs to the phase
    of the first; casts and conversions to that of the tensor that they take.

    Args:
        run: Of a training step; all of another graph is forward.
    """
    ticks, counts = dict.fromkeys(PHASES, 0), dict.fromkeys(PHASES, 0)
    for view in run.tasks:
        if view.is_communication:  # beside all of them: see `communication`
            continue
        phase = phase_of(view)
        ticks[phase] += view.duration
        counts[phase] += 1
    whole = sum(ticks.values())
    rows = [
        (phase, counts[phase], run.us(ticks[phase]), 100 * ticks[phase] / whole if whole else 0.0)
        for phase in PHASES
    ]
    return Table("training_shares", COLUMNS, tuple(rows))


def phase_of(view: TaskView) -> str:
    """The phase of a task, by the scope of its first operator's name."""
    name = next(iter(original_operators(view)), view.name)
    return _PREFIXES.get(name.partition("/")[0], "forward")
