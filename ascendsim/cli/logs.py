"""Logs and results of fusion on the command line: ATC's --log, and what stands beside a compiled model."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ascendsim.cli.model_options import check_folder

if TYPE_CHECKING:
    from ascendsim.compiler.model import CompiledModel

_LEVELS = ("debug", "info", "warning", "error", "null")


def add_log_option(parser: argparse.ArgumentParser) -> None:
    """Adds ATC's --log."""
    text = (
        "write CANN's log of the compilation from this level on, to ASCEND_PROCESS_LOG_PATH/debug/plog or "
        "~/ascend/log/debug/plog (default: null, none)"
    )
    parser.add_argument("--log", choices=_LEVELS, default="null", help=text)


def logged(args: argparse.Namespace, compiling: Callable[[], CompiledModel]) -> CompiledModel:
    """What `compiling` gives; if it fails, that is logged where --log asks for a log."""
    if args.log == "null":
        return compiling()
    from ascendsim.api.logs import log_folder, logging_errors

    check_folder(str(log_folder()), "the log folder")
    with logging_errors(args.log):
        return compiling()


def write_log(args: argparse.Namespace, model: CompiledModel) -> None:
    """Writes the log of a model where --log asks for one, and names it."""
    if args.log != "null":
        from ascendsim.api.logs import save_log

        print(f"wrote {save_log(model, args.log)}")


def write_fusion(model: CompiledModel, folder: Path) -> None:
    """Writes fusion_result.json and plog/ beside a compiled model, and names them."""
    from ascendsim.compiler.buffer_log import buffer_texts
    from ascendsim.core.files import make_folder
    from ascendsim.passes.fusion.plog import write_plog
    from ascendsim.passes.fusion.result_file import write_result

    print(f"wrote {write_result(model.fusion, folder)}")
    further = buffer_texts(model.buffers)
    print(f"wrote {write_plog(model.fusion, make_folder(folder / 'plog'), further=further)}")
