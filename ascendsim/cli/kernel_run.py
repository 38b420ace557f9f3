"""`ascendsim kernel run FILE.py[::CASE]`: values against the expected ones, time, pipes, findings."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ascendsim.cli.common import add_soc_option, print_table
from ascendsim.cli.kernel_files import cases_of, made
from ascendsim.cli.model_options import print_warnings
from ascendsim.core.errors import AscendSimError, InputError

if TYPE_CHECKING:
    from ascendsim import KernelResult, asc
    from ascendsim.soc import SocSpec

HELP = "run cases on the simulated chip: values against the expected ones, time, pipes"
_USAGE_ERROR = 2


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE.py[::CASE]", help="a file of kernels, which is run, or one case"
    )
    add_soc_option(parser, default="Ascend910B1", help="the chip (default: Ascend910B1)")
    parser.add_argument(
        "--inf_nan_mode_enable",
        choices=("0", "1"),
        help="float16 beyond its range: 1 = infinite or NaN, 0 = saturation (default: as the chip has it)",
    )
    text = "write what every pipe of every core did as a Chrome trace (.json or .json.gz), of one case"
    parser.add_argument("--timeline", metavar="FILE.json", help=text)


def run(args: argparse.Namespace) -> int:
    from ascendsim.soc import load, name_warning

    chip = load(args.soc_version)
    print_warnings(filter(None, [name_warning(chip)]))
    with cases_of(args.file) as found:
        if args.timeline and len(found) > 1:
            raise InputError(
                "option --timeline",
                "goes with one case",
                f"{len(found)}",
                f"write FILE.py::{next(iter(found))}",
            )
        given = args.inf_nan_mode_enable
        mode = None if given is None else given == "1"
        codes = [_one(name, give, chip, mode, args.timeline) for name, give in found.items()]
    return max(codes)


def _one(
    name: str, give: Callable[[], asc.Case], chip: SocSpec, mode: bool | None, timeline: str | None
) -> int:
    """Runs a case and prints what came out; 1 if values differ, 2 if the kernel raised an exception."""
    from ascendsim import run_kernel

    case = made(name, give)
    try:
        result = run_kernel(case.kernel, case.cores, *case.args, soc=chip, inf_nan_mode_enable=mode)
    except AscendSimError:
        raise
    except Exception:  # of the user's own lines: all of them are worth seeing
        traceback.print_exc(file=sys.stderr)
        return _USAGE_ERROR
    wrong = case.failures()
    _print(name, case, result, wrong)
    if timeline:
        result.save_trace(Path(timeline))
    return 1 if wrong else 0


def _print(name: str, case: asc.Case, result: KernelResult, wrong: list[str]) -> None:
    cores = f"{case.cores} core{'s' if case.cores > 1 else ''}"
    print(f"{name}: {result.duration_us:,.2f} us on {cores} of {result.soc.name}")
    for line in wrong:
        print(f"  wrong: {line}")
    if not wrong:
        within = f" (within rtol {case.rtol:g}, atol {case.atol:g})" if case.rtol or case.atol else ""
        print(f"  values: {', '.join(case.expect) or 'nothing'} as expected{within}")
    for finding in (*result.findings, *result.advice):
        print(f"  {'finding' if finding.error else 'advice'}: {finding}")
    rows = [
        (pipe, f"{busy:.2f}", f"{100 * busy / result.duration_us:.1f}")
        for pipe, busy in result.pipes().items()
    ]
    print_table(("pipe", "busy(us)", "of the time(%)"), rows)
