"""CANN's log lines about fusion (plog).

One INFO line for each pattern of a graph pass that matched, even if it changed nothing; one INFO line and two
DEBUG lines for each UB pass that matched (each line is one line in the file):

    [INFO] GE(1,ascendsim):2026-01-01-00:00:00.001.000 [pattern_fusion_base_pass.cc:259]1
    RunOnePattern:GraphId[0],
        GraphFusionPass[P]: pattern=p, matched_times=1, effected_times=1.
    [INFO] FE(1,ascendsim):2026-01-01-00:00:00.002.000 [buffer_fusion.cc:135]1
    RunBufferFusion:GraphId[0],
        BufferFusionPass[P]: matched_times=1, effect_times=1.
    [DEBUG] FE(1,ascendsim):2026-01-01-00:00:00.003.000 [buffer_fusion.cc:135]1 RunBufferFusion:SessionId 0
    graph_id 0
        buffer_fusion_pass[P]: matched_times=1.

Warnings (options without effect, names that no pass has) are WARNING lines of a place of this project. The
order of lines is the order of execution. Time stamps only count: the first line is one millisecond after
`start`, each further one another millisecond, so that equal compilations write equal logs. Files, line
numbers and message texts follow the examples in CANN's introduction to fusion and hicann/ge; the place and
function name of the DEBUG lines are assumed, no public example shows them, and so is the INFO line of UB
passes: the tuning guide of the Ascend 310 says that the log prints their rules at level info. It says
effect_times, as CANN does of UB passes, so that a search for effected_times finds what it finds in CANN's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from os import PathLike
from pathlib import Path

from ascendsim.core.files import write_whole
from ascendsim.passes.fusion.report import FusionReport

START = datetime(2026, 1, 1)
PROCESS = "ascendsim"
STEP = timedelta(milliseconds=1)
LogText = tuple[str, str, str, str, str]  # level, module, file and line, function, message
LEVELS = ("debug", "info", "warning", "error", "null")  # ATC's --log, each with those behind it
# Anchored expression for the INFO lines, checked against the eleven lines of CANN's introduction.
LINE = re.compile(
    r"^\[INFO\] GE\((?P<pid>\d+),(?P<proc>[^)]+)\):(?P<ts>\d{4}-\d\d-\d\d-\d\d:\d\d:\d\d\.\d{3}\.\d{3}) "
    r"\[(?P<file>[\w.]+):(?P<line>\d+)\]\s*"
    r"(?P<tid>\d+) (?P<fn>\w+):\s*GraphId\[(?P<gid>\d+)\], GraphFusionPass\[(?P<pass>\w+)\]: "
    r"pattern=(?P<pat>\w+), "
    r"matched_times=(?P<m>\d+), effected_times=(?P<e>\d+)\.?$"
)


@dataclass(frozen=True, slots=True)
class PlogLine:
    """One INFO line about a pattern of a graph-fusion pass."""

    graph_id: int
    name: str
    pattern: str
    matched: int
    effected: int


def plog_lines(
    report: FusionReport,
    *,
    further: Iterable[LogText] = (),
    level: str = "debug",
    pid: int = 1,
    start: datetime = START,
    process: str = PROCESS,
) -> tuple[str, ...]:
    """The log of a compilation, one string a line.

    Args:
        report: What fusion did.
        further: Lines of what came after it (L1 and L2 fusion).
        level: The least of `LEVELS` that is written.
        pid: Process and thread number to print.
        start: Time from which the lines count.
        process: Name of the process to print.
    """
    written = {name.upper() for name in LEVELS[LEVELS.index(level) : -1]}
    texts = [*_warning_texts(report), *_graph_texts(report), *_ub_texts(report), *further]
    texts = [text for text in texts if text[0] in written]
    return tuple(_line(text, pid, process, start + number * STEP) for number, text in enumerate(texts, 1))


def error_line(message: str, *, pid: int, start: datetime, process: str = PROCESS) -> str:
    """The line of a compilation that failed."""
    return _line(("ERROR", "GE", "compile.py:1", "Compile", message), pid, process, start)


def write_plog(
    report: FusionReport,
    path_or_dir: str | PathLike[str],
    *,
    further: Iterable[LogText] = (),
    level: str = "debug",
    pid: int = 1,
    start: datetime = START,
    process: str = PROCESS,
) -> Path:
    """Writes the log of a compilation.

    Args:
        report: What fusion did.
        path_or_dir: The file; a folder gets a file named as CANN names it, `plog-<pid>_<time>.log`.
        further: Lines of what came after it (L1 and L2 fusion).
        level: The least of `LEVELS` that is written.
        pid: Process and thread number to print.
        start: Time from which the lines count.
        process: Name of the process to print.

    Returns:
        The file.

    Raises:
        InputError: If it cannot be written.
    """
    path = Path(path_or_dir)
    if path.is_dir():
        path /= plog_name(pid, start)
    lines = plog_lines(report, further=further, level=level, pid=pid, start=start, process=process)
    return write_whole(path, "".join(f"{line}\n" for line in lines).encode())


def plog_name(pid: int, start: datetime) -> str:
    """Name of a log file, as CANN names them."""
    return f"plog-{pid}_{start:%Y%m%d%H%M%S}{start.microsecond // 1000:03d}.log"


def read_plog(text: str) -> tuple[PlogLine, ...]:
    """The INFO lines about graph fusion in a log, CANN's or ours; other lines are skipped.

    Args:
        text: Content of a plog file.
    """
    matches = (LINE.match(line) for line in text.splitlines())
    return tuple(
        PlogLine(int(m["gid"]), m["pass"], m["pat"], int(m["m"]), int(m["e"]))
        for m in matches
        if m is not None
    )


def _line(text: LogText, pid: int, process: str, time: datetime) -> str:
    level, module, place, function, message = text
    return f"[{level}] {module}({pid},{process}):{_stamp(time)} [{place}]{pid} {function}:{message}"


def _warning_texts(report: FusionReport) -> Iterator[LogText]:
    for warning in report.warnings:
        yield ("WARNING", "GE", "options.py:1", "CheckOptions", " ".join(warning.split()))


def _graph_texts(report: FusionReport) -> Iterator[LogText]:
    for record in report.records:
        if record.family == "graph" and record.matched:
            counts = f"matched_times={record.matched}, effected_times={record.effected}."
            message = f"GraphId[0], GraphFusionPass[{record.name}]: pattern={record.pattern}, {counts}"
            yield ("INFO", "GE", "pattern_fusion_base_pass.cc:259", "RunOnePattern", message)


def _ub_texts(report: FusionReport) -> Iterator[LogText]:
    """UB passes: one line each, and as CANN's DEBUG lines, all matched counts first, then all effected
    ones.
    """
    totals = report.totals("ub")
    for name, (matched, effected) in totals.items():
        text = f"matched_times={matched}, effect_times={effected}."
        message = f"GraphId[0], BufferFusionPass[{name}]: {text}"
        yield ("INFO", "FE", "buffer_fusion.cc:135", "RunBufferFusion", message)
    for key, index in (("matched_times", 0), ("effect_times", 1)):
        for name, times in totals.items():
            message = f"SessionId 0 graph_id 0 buffer_fusion_pass[{name}]: {key}={times[index]}."
            yield ("DEBUG", "FE", "buffer_fusion.cc:135", "RunBufferFusion", message)


def _stamp(time: datetime) -> str:
    return f"{time:%Y-%m-%d-%H:%M:%S}.{time.microsecond // 1000:03d}.{time.microsecond % 1000:03d}"
