"""CANN's log files: the lines of a compilation where CANN's tools put theirs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from os import PathLike
from pathlib import Path

from ascendsim.compiler.buffer_log import buffer_texts
from ascendsim.compiler.model import CompiledModel
from ascendsim.core.arguments import checked
from ascendsim.core.errors import AscendSimError, InputError, suggest
from ascendsim.core.files import make_folder, write_whole
from ascendsim.passes.fusion.plog import LEVELS, error_line, plog_name, write_plog

VARIABLE = "ASCEND_PROCESS_LOG_PATH"


def log_folder(folder: str | PathLike[str] | None = None) -> Path:
    """Where log files go: `debug/plog` below a folder, below that of the environment variable
    ASCEND_PROCESS_LOG_PATH, or below `~/ascend/log`, whichever is given first.
    """
    chosen = folder if folder is not None else os.environ.get(VARIABLE) or Path.home() / "ascend" / "log"
    return Path(chosen) / "debug" / "plog"


@checked(model="asim.compile makes one")
def save_log(
    model: CompiledModel, level: str = "info", folder: str | PathLike[str] | None = None
) -> Path | None:
    """Writes what a compilation logs, as CANN does: rules that matched, their patterns and counts, in the
    order of execution.

    Args:
        model: From `compile`.
        level: ATC's `--log`: "debug" (UB fusion as CANN's own lines have it too), "info" (graph, UB, L1 and
            L2 fusion), "warning", "error" or "null" (nothing is written).
        folder: In place of ASCEND_PROCESS_LOG_PATH and `~/ascend/log`; the file is `debug/plog/plog-*.log`
            below it.

    Returns:
        The file; None at "null".

    Raises:
        InputError: If the level is none of these, or the file cannot be written.
    """
    check_level(level)
    if level == "null":
        return None
    target = _made(folder)
    further = buffer_texts(model.buffers)
    return write_plog(
        model.fusion, target, further=further, level=level, pid=os.getpid(), start=datetime.now()
    )


@contextmanager
def logging_errors(level: str, folder: str | PathLike[str] | None = None) -> Iterator[None]:
    """Writes a log of one ERROR line if the block fails for a reason of the user's, and hands the error on.

    Raises:
        InputError: If the level is none of ATC's.
    """
    check_level(level)
    try:
        yield
    except AscendSimError as error:
        if level != "null":
            now, pid = datetime.now(), os.getpid()
            line = error_line(" ".join(str(error).split()), pid=pid, start=now)
            write_whole(_made(folder) / plog_name(pid, now), f"{line}\n".encode())
        raise


def _made(folder: str | PathLike[str] | None) -> Path:
    """`log_folder`, made; what cannot be made is named as the user named it."""
    if folder is not None:
        make_folder(folder)
    return make_folder(log_folder(folder))


def check_level(level: str) -> None:
    """Refuses what is no level of ATC's `--log`.

    Raises:
        InputError: If it is none.
    """
    if level not in LEVELS:
        raise InputError(
            "option log", f"must be one of {', '.join(LEVELS)}", repr(level), suggest(level, LEVELS)
        )
