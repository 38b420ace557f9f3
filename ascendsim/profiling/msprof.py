"""The folder that `msprof --export` would have written, for msprof-analyze and MindStudio Insight.

    PROF_000001_<time>_ASCENDSIM/
      host/
      device_0/info.json.0
      mindstudio_profiler_output/{op_summary,op_statistic,task_time}_<time>.csv, msprof_<time>.json

Times in these files are microseconds since 1970, as msprof has them: the simulated time is added to a fixed
epoch, so that equal runs give equal bytes. They are made from whole nanoseconds, since a float cannot hold an
epoch time to three decimals.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

from ascendsim.core.files import make_folder, write_whole
from ascendsim.core.table import Table
from ascendsim.profiling.op_summary import MODEL_ID, START_COLUMN, op_summary
from ascendsim.profiling.statistics import op_statistic, task_time
from ascendsim.profiling.view import ProfiledRun

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
NO_SUBTASK = 4294967295
# process << 10 | sort index << 5 | device: "Ascend Hardware" of device 0
_HARDWARE_PID = (1 << 10) | (14 << 5)


def msprof_timeline(run: ProfiledRun, epoch: datetime = EPOCH) -> list[dict[str, Any]]:
    """The timeline as msprof_*.json has it: a bare list of Chrome events with the threads of "Ascend
    Hardware".

    Args:
        run: The run.
        epoch: When the run started.
    """
    events = [
        _metadata("process_name", 0, name="Ascend Hardware"),
        _metadata("process_labels", 0, labels="NPU"),
    ]
    events.append(_metadata("process_sort_index", 0, sort_index=14))
    for stream in sorted({view.record.stream for view in run.tasks}):
        events += [
            _metadata("thread_name", stream, name=f"Stream {stream}"),
            _metadata("thread_sort_index", stream, sort_index=stream),
        ]
    for view in run.tasks:
        start, end = run.ns(view.record.start), run.ns(view.record.end)
        args = {
            "Model Id": MODEL_ID,
            "Task Type": view.task.kind.value,
            "Physic Stream Id": view.record.stream,
            "Task Id": view.id,
            "Batch Id": 0,
            "Subtask Id": NO_SUBTASK,
            "connection_id": view.id,
        }
        place = {"pid": _HARDWARE_PID, "tid": view.record.stream}
        events.append(
            {
                "name": view.name,
                **place,
                "ts": _epoch_us(epoch, start),
                "dur": (end - start) / 1000,
                "args": args,
                "ph": "X",
            }
        )
    return events


def write_prof_folder(run: ProfiledRun, path: str | PathLike[str], epoch: datetime = EPOCH) -> Path:
    """Writes a PROF_... folder that msprof-analyze and MindStudio Insight read.

    Args:
        run: The run.
        path: Folder in which the PROF_... folder is made; both are created if needed, files of the same name
            are replaced.
        epoch: When the run started; part of the names.

    Returns:
        The PROF_... folder.

    Raises:
        InputError: If something cannot be written.
    """
    stamp = epoch.strftime("%Y%m%d%H%M%S")
    folder = Path(path) / f"PROF_000001_{stamp}{epoch.microsecond // 1000:03d}_ASCENDSIM"
    tables, device = folder / "mindstudio_profiler_output", folder / "device_0"
    for directory in (tables, device, folder / "host"):
        make_folder(directory)
    soc = run.soc
    info = {
        "id": 0,
        "ai_core_num": soc.ai_cores,
        "aiv_num": soc.vector_cores,
        "aic_frequency": str(soc.frequency_mhz),
    }
    write_whole(device / "info.json.0", json.dumps({"DeviceInfo": [info]}).encode())
    op_statistic(run).to_csv(tables / f"op_statistic_{stamp}.csv")
    starts = [run.ns(view.record.start) for view in run.tasks]
    ends = [run.ns(view.record.end) for view in run.tasks]
    _in_epoch(op_summary(run), START_COLUMN, starts, epoch).to_csv(tables / f"op_summary_{stamp}.csv")
    times = task_time(run)
    if "task_start(us)" in times.columns:
        times = _in_epoch(_in_epoch(times, "task_start(us)", starts, epoch), "task_stop(us)", ends, epoch)
    times.to_csv(tables / f"task_time_{stamp}.csv")
    write_whole(
        tables / f"msprof_{stamp}.json",
        json.dumps(msprof_timeline(run, epoch), separators=(",", ":")).encode(),
    )
    return folder


def _metadata(what: str, tid: int, **args: str | int) -> dict[str, Any]:
    return {"name": what, "pid": _HARDWARE_PID, "tid": tid, "args": args, "ph": "M"}


def _epoch_us(epoch: datetime, ns: int) -> str:
    """Microseconds since 1970 with three decimals, exactly."""
    total = int(epoch.timestamp()) * 10**9 + epoch.microsecond * 1000 + ns
    return f"{total // 1000}.{total % 1000:03d}"


def _in_epoch(table: Table, column: str, ns: list[int], epoch: datetime) -> Table:
    """The table with a column of simulated times replaced by epoch times."""
    index = table.index(column)
    rows = tuple(
        (*row[:index], _epoch_us(epoch, time), *row[index + 1 :])
        for row, time in zip(table.rows, ns, strict=True)
    )
    return replace(table, rows=rows)
