"""What communication costs a step of data parallel training."""

from __future__ import annotations

from ascendsim.core.table import Table
from ascendsim.profiling.view import ProfiledRun, covered

COLUMNS = (
    "Devices",
    "Server",
    "HcomAllReduce",
    "Step(us)",
    "Computing(us)",
    "Communication(us)",
    "Communication(Not Overlapped)(us)",
    "Step on 1 device(us)",
    "Efficiency(%)",
)


def communication(run: ProfiledRun, devices: int, server: str, single_us: float) -> Table:
    """One row: the step, its parts, and how much of a device's speed is left.

    Args:
        run: Of a training step with its all-reduces.
        devices: That trained together.
        server: Its name.
        single_us: Time of the step on one device.
    """
    collectives = [view for view in run.tasks if view.is_communication]
    computing = covered(view for view in run.tasks if not view.is_communication)
    step = run.trace.duration_us
    row = (
        devices,
        server,
        len(collectives),
        step,
        run.us(computing),
        run.us(covered(collectives)),
        run.us(covered(run.tasks) - computing),
        single_us,
        100 * single_us / step if step else 100.0,
    )
    return Table("communication", COLUMNS, (row,))
