"""The folder that torch_npu's profiler writes, which more commands of msprof-analyze read than msprof's.

<name>_<time>_ascend_pt/
profiler_info_0.json, profiler_metadata.json
PROF_.../
ASCEND_PROFILER_OUTPUT/
ascend_pytorch_profiler_0.db, analysis.db, trace_view.json
{kernel_details,op_statistic,step_trace_time,api_statistic,memory_record,operator_memory}.csv
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from ascendsim.core.files import make_folder, write_whole
from ascendsim.core.version import __version__
from ascendsim.profiling.export import text_tables
from ascendsim.profiling.export.capture import Capture
from ascendsim.profiling.export.database import RANK, analysis_database, torch_database
from ascendsim.profiling.export.msprof_folder import write_prof_folder, write_table
from ascendsim.profiling.export.timeline import timeline_text
from ascendsim.profiling.statistics import op_statistic

MOST_NAME = 60  # characters of a model's name in that of a folder


def write_ascend_pt(capture: Capture, folder: Path) -> tuple[Path, ...]:
    """Writes a ..._ascend_pt folder with a PROF_... folder in it.

    Returns:
        The folder, and the files in it.

    Raises:
        InputError: If something cannot be written.
    """
    top = make_folder(folder / f"{file_stem(capture)}_{capture.long_stamp}_ascend_pt")
    output = make_folder(top / "ASCEND_PROFILER_OUTPUT")
    tables = (
        text_tables.kernel_details(capture),
        op_statistic(capture.run),
        text_tables.step_trace_time(capture),
        text_tables.api_statistic(capture),
        text_tables.memory_record(capture),
        text_tables.operator_memory(capture),
    )
    written = [
        write_whole(top / f"profiler_info_{RANK}.json", _json(_INFORMATION)),
        write_whole(top / "profiler_metadata.json", _json({"distributed_backend": "", "ENV_VARIABLES": {}})),
        *write_prof_folder(capture, top)[1:],
        write_whole(output / f"ascend_pytorch_profiler_{RANK}.db", torch_database(capture)),
        write_whole(output / "analysis.db", analysis_database(capture)),
        write_whole(output / "trace_view.json", timeline_text(capture)),
        *(write_table(table, output / f"{table.name}.csv") for table in tables),
    ]
    return (top, *written)


def file_stem(capture: Capture) -> str:
    """The model's name as names of files can have it."""
    return re.sub(r"[^A-Za-z0-9.-]+", "_", capture.run.graph.name)[:MOST_NAME].strip("._") or "model"


_INFORMATION = {
    "config": {
        "experimental_config": {
            "_profiler_level": "Level1",
            "_aic_metrics": "AiCoreUtilization.PipeUtilization",
            "_export_type": ["text", "db"],
        }
    },
    "torch_npu_version": f"ascendsim {__version__}",
    "cann_version": "",
    "rank_id": RANK,
}


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content).encode()
