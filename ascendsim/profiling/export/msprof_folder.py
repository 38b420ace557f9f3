"""The folder that `msprof --export` would have written, for msprof-analyze and MindStudio Insight.

    PROF_000001_<time>_ASCENDSIM/
      host/
      device_0/info.json.0
      mindstudio_profiler_output/{op_summary,op_statistic,task_time,step_trace,fusion_op,api_statistic}_<time>.csv,
        msprof_<time>.json
      msprof_<time>.db

Times in these files are microseconds since 1970 (in the database nanoseconds), as msprof has them: the
simulated time is added to a fixed epoch, so that equal runs give equal bytes.
"""

from __future__ import annotations

import json
from pathlib import Path

from ascendsim.core.files import make_folder, write_whole
from ascendsim.core.table import Table
from ascendsim.profiling.export import text_tables
from ascendsim.profiling.export.capture import Capture, readable_table
from ascendsim.profiling.export.database import HOST, RANK, msprof_database
from ascendsim.profiling.export.timeline import timeline_text
from ascendsim.profiling.fusion_op import fusion_op
from ascendsim.profiling.op_summary import DEVICE_ID
from ascendsim.profiling.statistics import op_statistic


def write_prof_folder(capture: Capture, folder: Path) -> tuple[Path, ...]:
    """Writes a PROF_... folder that msprof-analyze and MindStudio Insight read.

    Args:
        capture: The run.
        folder: Folder in which the PROF_... folder is made; both are created if needed, files of the same
            name are replaced.

    Returns:
        The PROF_... folder, and the files in it.

    Raises:
        InputError: If something cannot be written.
    """
    run, stamp = capture.run, capture.stamp
    top = make_folder(folder / f"PROF_000001_{capture.long_stamp}_ASCENDSIM")
    tables, device = make_folder(top / "mindstudio_profiler_output"), make_folder(top / "device_0")
    make_folder(top / "host")
    written = [
        write_whole(device / "info.json.0", _information(capture)),
        *(
            write_table(table, tables / f"{table.name}_{stamp}.csv")
            for table in (
                text_tables.epoch_op_summary(capture),
                op_statistic(run),
                text_tables.epoch_task_time(capture),
                text_tables.step_trace(capture),
                fusion_op(run),
                text_tables.api_statistic(capture),
            )
        ),
        write_whole(tables / f"msprof_{stamp}.json", timeline_text(capture)),
        write_whole(top / f"msprof_{stamp}.db", msprof_database(capture)),
    ]
    return (top, *written)


def write_table(table: Table, path: Path) -> Path:
    """Writes a table as CSV that all tools can read."""
    readable_table(table).to_csv(path)
    return path


def _information(capture: Capture) -> bytes:
    """info.json: the device, and whose it is (readers of clusters join folders by rank and host)."""
    soc = capture.run.soc
    device = {
        "id": DEVICE_ID,
        "ai_core_num": soc.ai_cores,
        "aiv_num": soc.vector_cores,
        "aic_frequency": str(soc.frequency_mhz),
    }
    return json.dumps({"DeviceInfo": [device], "rank_id": RANK, "hostUid": HOST}).encode()
