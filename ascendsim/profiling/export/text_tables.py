"""The tables of text that stand beside the databases: msprof's further ones and those of torch_npu's
profiler.

Columns and order: Ascend/msprof, summary/*_assembler.cpp, and Ascend/pytorch, torch_npu/profiler/analysis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import fsum

from ascendsim.core.table import TAB, Cell, Row, Table
from ascendsim.profiling.export.capture import Capture, us_text
from ascendsim.profiling.export.database import step_times
from ascendsim.profiling.export.memory import memory_use
from ascendsim.profiling.op_summary import DEVICE_ID, MODEL_ID, START_COLUMN, op_summary
from ascendsim.profiling.statistics import task_time

# our op_summary -> kernel_details
_KERNEL_COLUMNS = {
    "Op Name": "Name",
    "OP Type": "Type",
    "Task Type": "Accelerator Core",
    START_COLUMN: "Start Time(us)",
    "Task Duration(us)": "Duration(us)",
    "Task Wait Time(us)": "Wait Time(us)",
}
_MIB = 1 << 20


def epoch_op_summary(capture: Capture) -> Table:
    """op_summary with times since 1970."""
    return _in_epoch(op_summary(capture.run), {START_COLUMN: _starts(capture)})


def epoch_task_time(capture: Capture) -> Table:
    """task_time with times since 1970, where it has any."""
    table = task_time(capture.run)
    if "task_start(us)" not in table.columns:
        return table
    ends = [capture.span(view)[1] for view in capture.run.tasks]
    return _in_epoch(table, {"task_start(us)": _starts(capture), "task_stop(us)": ends})


def kernel_details(capture: Capture) -> Table:
    """op_summary under the names of torch_npu, with the step in front."""
    table = epoch_op_summary(capture)
    columns = ("Step Id", *(_KERNEL_COLUMNS.get(column, column) for column in table.columns))
    styles = {_KERNEL_COLUMNS.get(column, column): style for column, style in table.styles.items()}
    return Table("kernel_details", columns, tuple([("1", *row) for row in table.rows]), styles)


def step_trace(capture: Capture) -> Table:
    """One row: the one iteration. What a forward pass alone has no figures for is N/A."""
    columns = (
        "Device_id",
        "Iteration ID",
        "FP Start(us)",
        "BP End(us)",
        "Iteration End(us)",
        "Iteration Time(us)",
        "FP to BP Time(us)",
        "Iteration Refresh(us)",
        "Data Aug Bound(us)",
        "Model ID",
        "Reduce Start(us)",
        "Reduce Duration(us)",
    )
    time = (capture.end - capture.base) / 1000
    row: Row = (DEVICE_ID, 1, None, None, us_text(capture.end), time, None, None, None, MODEL_ID, None, None)
    return Table("step_trace", columns, (row,), {"Iteration End(us)": TAB})


def step_trace_time(capture: Capture) -> Table:
    """One row: what the device did in the one step."""
    columns = (
        "Device_id",
        "Step",
        "Computing",
        "Communication(Not Overlapped)",
        "Overlapped",
        "Communication",
        "Free",
        "Stage",
        "Bubble",
        "Communication(Not Overlapped and Exclude Receive)",
        "Preparing",
    )
    return Table("step_trace_time", columns, ((DEVICE_ID, 1, *step_times(capture)),))


def api_statistic(capture: Capture) -> Table:
    """Calls of the host by name: its launches of tasks; no row where the device launches by itself."""
    columns = (
        "Device_id",
        "Level",
        "API Name",
        "Time(us)",
        "Count",
        "Avg(us)",
        "Min(us)",
        "Max(us)",
        "Variance",
    )
    spans = [capture.launch(view) for view in capture.run.tasks]
    times = [(span[1] - span[0]) / 1000 for span in spans if span is not None]
    rows: tuple[Row, ...] = ()
    if times:
        total = fsum(times)
        mean = total / len(times)
        variance = fsum((time - mean) ** 2 for time in times) / len(times)
        rows = (("host", "node", "launch", total, len(times), mean, min(times), max(times), variance),)
    return Table("api_statistic", columns, rows)


def memory_record(capture: Capture) -> Table:
    """Bytes taken over time."""
    columns = (
        "Component",
        "Timestamp(us)",
        "Total Allocated(MB)",
        "Total Reserved(MB)",
        "Total Active(MB)",
        "Stream Ptr",
        "Device Type",
    )
    use = memory_use(capture)
    rows: list[Row] = []
    for time, level in use.levels:
        taken = level / _MIB
        rows.append(("PTA", us_text(time), taken, use.reserved / _MIB, taken, 0, f"NPU:{DEVICE_ID}"))
    return Table("memory_record", columns, tuple(rows), {"Timestamp(us)": TAB})


def operator_memory(capture: Capture) -> Table:
    """One row a tensor or workspace: its bytes, and from when to when it has them."""
    moments = ("Allocation Time(us)", "Release Time(us)", "Active Release Time(us)")
    totals = ("Allocated(MB)", "Reserved(MB)", "Active(MB)")
    columns = (
        "Name",
        "Size(KB)",
        *moments,
        "Duration(us)",
        "Active Duration(us)",
        *(f"Allocation Total {what}" for what in totals),
        *(f"Release Total {what}" for what in totals),
        "Stream Ptr",
        "Device Type",
    )
    use = memory_use(capture)
    rows: list[Row] = []
    for item in use.allocations:
        released, lasted = us_text(item.released), (item.released - item.allocated) / 1000
        times = (us_text(item.allocated), released, released, lasted, lasted)
        levels = [
            level / _MIB for total in (item.before, item.after) for level in (total, use.reserved, total)
        ]
        rows.append((item.name, item.bytes / 1024, *times, *levels, 0, f"NPU:{DEVICE_ID}"))
    return Table("operator_memory", columns, tuple(rows), dict.fromkeys(moments, TAB))


def _starts(capture: Capture) -> list[int]:
    return [capture.span(view)[0] for view in capture.run.tasks]


def _in_epoch(table: Table, times: Mapping[str, Sequence[int]]) -> Table:
    """The table with columns of simulated times replaced by times since 1970."""
    columns: list[Sequence[Cell]] = [
        [us_text(ns) for ns in times[column]] if column in times else table.column(column)
        for column in table.columns
    ]
    return replace(table, rows=tuple(zip(*columns, strict=True)) if table.rows else ())
