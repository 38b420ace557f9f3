"""op_statistic (by operator type) and task_time (by task of the scheduler), with msprof's columns for the
chip's generation.
"""

from __future__ import annotations

from ascendsim.core.table import TAB, Cell, Row, Table
from ascendsim.profiling.op_summary import DEVICE_ID
from ascendsim.profiling.view import ProfiledRun, TaskView

KERNEL_TYPES = {
    "AI_CORE": "KERNEL_AICORE",
    "AI_VECTOR_CORE": "KERNEL_AIVEC",
    "MIX_AIC": "KERNEL_MIX_AIC",
    "MIX_AIV": "KERNEL_MIX_AIV",
    "AI_CPU": "KERNEL_AICPU",
    "COMMUNICATION": "COMMUNICATION",
    "DVPP": "DVPP",
    "CTRL_CPU": "CTRL_CPU",
    "MEMCPY_ASYNC": "MEMCPY_ASYNC",
}


def op_statistic(run: ProfiledRun, *, task_ids: bool = False) -> Table:
    """One row an operator type and core type, by total time.

    The first column is Device_id, on inference chips (310, 310P) the model's name, as msprof has it.

    Args:
        run: The run.
        task_ids: Adds the columns "Op Names" and "Task IDs" (in the same order, separated by ";"), which join
            this table to `ai_core_metrics`: an id that is not there belongs to a task of the AI CPU. The
            table is then called op_statistic_tasks.
    """
    groups: dict[tuple[str, str], list[TaskView]] = {}
    for view in run.tasks:
        groups.setdefault((view.op_type, view.task.kind.value), []).append(view)
    total = sum(view.duration for view in run.tasks)
    inference = run.soc.kernels.inference
    first: Cell = (run.graph.name or None) if inference else DEVICE_ID
    ordered = sorted(groups.items(), key=lambda item: (-sum(view.duration for view in item[1]), item[0]))
    rows: list[Row] = []
    for (op_type, core), views in ordered:
        times = [view.duration for view in views]
        share = 100 * sum(times) / total if total else 0.0
        row: Row = (
            first,
            op_type,
            core,
            len(times),
            run.us(sum(times)),
            run.us(min(times)),
            run.us(sum(times)) / len(times),
            run.us(max(times)),
            share,
        )
        members = (";".join(view.name for view in views), ";".join(str(view.id) for view in views))
        rows.append((*row, *members) if task_ids else row)
    columns = (
        "Model Name" if inference else "Device_id",
        "OP Type",
        "Core Type",
        "Count",
        "Total Time(us)",
        "Min Time(us)",
        "Avg Time(us)",
        "Max Time(us)",
        "Ratio(%)",
    )
    if task_ids:
        return Table("op_statistic_tasks", (*columns, "Op Names", "Task IDs"), tuple(rows))
    return Table("op_statistic", columns, tuple(rows))


def task_time(run: ProfiledRun) -> Table:
    """One row a task as the scheduler saw it: the old layout on chips with coupled cores, the 8-column layout
    on split cores.

    In the old layout Waiting is the time from the moment the stream and its events allowed the task to its
    dispatch; Pending is N/A, since dispatch is one event here.
    """
    return _new_layout(run) if run.soc.split_cores else _old_layout(run)


def _new_layout(run: ProfiledRun) -> Table:
    columns = (
        "Device_id",
        "kernel_name",
        "kernel_type",
        "stream_id",
        "task_id",
        "task_time(us)",
        "task_start(us)",
        "task_stop(us)",
    )
    rows = tuple(
        (
            DEVICE_ID,
            view.name,
            KERNEL_TYPES[view.task.kind.value],
            view.record.stream,
            view.id,
            run.us(view.duration),
            run.us(view.record.start),
            run.us(view.record.end),
        )
        for view in run.tasks
    )
    return Table("task_time", columns, rows, {"task_start(us)": TAB, "task_stop(us)": TAB})


def _old_layout(run: ProfiledRun) -> Table:
    columns = [
        "Time(%)",
        "Time(us)",
        "Count",
        "Avg(us)",
        "Min(us)",
        "Max(us)",
        "Waiting(us)",
        "Running(us)",
        "Pending(us)",
        "Type",
        "API",
        "Task ID",
        "Op Name",
        "Stream ID",
    ]
    total = sum(view.duration for view in run.tasks)
    call = "rtKernelLaunch" if run.program.mode == "host" else "rtModelExecute"
    rows: list[Row] = []
    for view in run.tasks:
        us = run.us(view.duration)
        waiting = run.us(view.record.start - view.record.ready)
        share = 100 * view.duration / total if total else 0.0
        rows.append(
            (
                share,
                us,
                1,
                us,
                us,
                us,
                waiting,
                us,
                None,
                view.op_type,
                None if view.for_images else call,
                view.id,
                view.name,
                view.record.stream,
            )
        )
    return Table("task_time", tuple(columns), tuple(rows))
