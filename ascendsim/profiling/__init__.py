"""Trace -> reports: tables with msprof's columns, summaries, Chrome traces. Nothing here prints.

Every report starts from a `ProfiledRun`. Times in tables are microseconds of simulated time from 0.
"""

from ascendsim.core.table import Table
from ascendsim.profiling.chrome_trace import TraceFile, TraceSize, chrome_trace, estimate_trace, write_trace
from ascendsim.profiling.communication import communication
from ascendsim.profiling.fusion_op import fusion_op
from ascendsim.profiling.images import image_times
from ascendsim.profiling.kinds import KINDS, kind_of
from ascendsim.profiling.metrics import TaskMetrics, task_metrics
from ascendsim.profiling.notebook import html
from ascendsim.profiling.op_summary import ai_core_metrics, op_summary
from ascendsim.profiling.phases import Phases, phases, task_phases
from ascendsim.profiling.select import select
from ascendsim.profiling.statistics import op_statistic, task_time
from ascendsim.profiling.steps import steps
from ascendsim.profiling.summary import Summary, summarise, top_operators
from ascendsim.profiling.training import training_shares
from ascendsim.profiling.view import ProfiledRun, TaskView

__all__ = [
    "KINDS",
    "Phases",
    "ProfiledRun",
    "Summary",
    "Table",
    "TaskMetrics",
    "TaskView",
    "TraceFile",
    "TraceSize",
    "ai_core_metrics",
    "chrome_trace",
    "communication",
    "estimate_trace",
    "fusion_op",
    "html",
    "image_times",
    "kind_of",
    "op_statistic",
    "op_summary",
    "phases",
    "select",
    "steps",
    "summarise",
    "task_metrics",
    "task_phases",
    "task_time",
    "top_operators",
    "training_shares",
    "write_trace",
]
