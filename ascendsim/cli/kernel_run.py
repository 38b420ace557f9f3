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
from ascendsim.plot.figures import FORMATS

if TYPE_CHECKING:
    from ascendsim import KernelResult, asc
    from ascendsim.soc import SocSpec
    from ascendsim.tile.findings import Finding

HELP = "run cases on the simulated chip: values against the expected ones, time, pipes"
_USAGE_ERROR = 2
_DIGITS = (2, 1, 2, 1)
PICTURES = tuple(f".{form}" for form in FORMATS)
NO_INTERVAL = "no measured kernel is known to be like one of your own; docs/kernels_results.md has some"


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
    text = "write what every pipe of every core did, of one case: a Chrome trace (.json or .json.gz)"
    text += f", or a picture ({', '.join(PICTURES)})"
    parser.add_argument("--timeline", metavar="FILE", help=text)


def run(args: argparse.Namespace) -> int:
    from ascendsim.soc import load, name_warning

    chip = load(args.soc_version)
    print_warnings(filter(None, [name_warning(chip)]))
    if args.timeline:
        _check_timeline(args.timeline)
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
        if len(found) == 1:
            return _one(*next(iter(found.items())), chip, mode, args.timeline)
        codes = {name: _tried(name, give, chip, mode) for name, give in found.items()}
    bad = {
        "cannot run": [name for name, code in codes.items() if code == _USAGE_ERROR],
        "gives wrong values": [name for name, code in codes.items() if code == 1],
    }
    for what, names in bad.items():
        if names:
            print(f"{len(names)} of {len(codes)} cases: {what}: {', '.join(names)}", file=sys.stderr)
    return max(codes.values())


def _tried(name: str, give: Callable[[], asc.Case], chip: SocSpec, mode: bool | None) -> int:
    """A case among others: what cannot run stops none of them."""
    try:
        return _one(name, give, chip, mode, None)
    except AscendSimError as error:
        print(f"{name}: cannot run")
        print(f"  error: {' '.join(str(error).split())}")
        return _USAGE_ERROR


def _check_timeline(text: str) -> None:
    """Refuses a name that says nothing of what the file shall be, before anything runs."""
    if not text.lower().endswith((*PICTURES, ".json", ".json.gz")):
        known = ", ".join((".json", ".json.gz", *PICTURES))
        raise InputError("option --timeline", f"must name a file that ends in one of {known}", repr(text))


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
    if timeline and timeline.lower().endswith(PICTURES):
        result.plot_timeline().save(Path(timeline))
    elif timeline:
        result.save_trace(Path(timeline))
    return 1 if wrong else 0


def _lost(finding: Finding, result: KernelResult) -> str:
    """What the cycles of an advice come to in time."""
    if finding.cycles is None:
        return ""
    us = finding.cycles / result.soc.frequency_mhz
    return f" (these cycles: {us:,.2f} us, {100 * us / result.duration_us:.1f} % of the time)"


def _print(name: str, case: asc.Case, result: KernelResult, wrong: list[str]) -> None:
    cores = f"{case.cores} core{'s' if case.cores > 1 else ''}"
    print(f"{name}: {result.duration_us:,.2f} us on {cores} of {result.soc.name}")
    for line in wrong:
        print(f"  wrong: {line}")
    if not wrong:
        within = f" (within rtol {case.rtol:g}, atol {case.atol:g})" if case.rtol or case.atol else ""
        print(f"  values: {', '.join(case.expect) or 'nothing'} as expected{within}")
    for finding in (*result.findings, *result.advice):
        print(f"  {'finding' if finding.error else 'advice'}: {finding}{_lost(finding, result)}")
    table = result.where_time_goes()
    rows = [
        (
            str(pipe),
            *(
                "" if cell is None else f"{cell:.{digits}f}"
                for cell, digits in zip(cells, _DIGITS, strict=True)
            ),
        )
        for pipe, *cells in table
    ]
    print_table(("pipe", "busy(us)", "busy(%)", "alone(us)", "of the time(%)"), rows)
    print(
        "  alone: no other pipe of that core was busy; this column adds up to the whole time, launch and all"
    )
    print(f"  likely interval: none, {NO_INTERVAL}")
