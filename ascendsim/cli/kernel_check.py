"""`ascendsim kernel check FILE.py[::CASE]`: cases in several orders and on several chips; what is wrong."""

from __future__ import annotations

import argparse
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ascendsim.cli.common import add_soc_option
from ascendsim.cli.kernel_files import cases_of, made
from ascendsim.core.errors import AscendSimError, InputError, KernelError

if TYPE_CHECKING:
    from ascendsim import asc
    from ascendsim.soc import SocSpec
    from ascendsim.tile.order import Order

HELP = "run cases in several orders and on several chips; exit code 1 if anything is found"
_ORDERS: tuple[Order, ...] = ("program", "late", *range(16))


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE.py[::CASE]", help="a file of kernels, which is run, or one case"
    )
    add_soc_option(parser, action="append", help="a chip, may be repeated (default: Ascend910B1)")
    parser.add_argument(
        "--order",
        action="append",
        metavar="ORDER",
        help="program, late or a seed, may be repeated (default: program, late and seeds 0 to 15)",
    )
    parser.add_argument(
        "--sync",
        choices=("auto", "manual"),
        default="auto",
        help="who orders the vector unit's own instructions: the compiler (auto) or the kernel (manual)",
    )


def run(args: argparse.Namespace) -> int:
    from ascendsim.soc import load

    chips = [load(name) for name in args.soc_version or ["Ascend910B1"]]
    orders = [_order(text) for text in args.order] if args.order else list(_ORDERS)
    wrong = 0
    with cases_of(args.file) as found:
        for name, give in found.items():
            for chip in chips:
                lines = list(_lines(name, give, chip, orders, args.sync))
                wrong += bool(lines)
                runs = f"{len(orders)} order{'s' if len(orders) > 1 else ''}"
                print(f"{name} on {chip.name}: {len(lines) or 'nothing'} found in {runs}")
                for line in lines:
                    print(f"  {line}")
    return 1 if wrong else 0


def _order(text: str) -> Order:
    named: dict[str, Order] = {"program": "program", "late": "late"}
    if text in named:
        return named[text]
    if not text.isdigit():
        raise InputError("option --order", "takes program, late or a seed", text, "write --order 3")
    return int(text)


def _lines(
    name: str,
    give: Callable[[], asc.Case],
    chip: SocSpec,
    orders: list[Order],
    sync: Literal["auto", "manual"],
) -> Iterator[str]:
    """What is wrong: what the checker finds, once, and values by the orders in which they differ."""
    from ascendsim import run_kernel

    said: set[str] = set()
    for order in orders:
        case = made(name, give)  # arrays of its own: the last run has written to the others
        try:
            result = run_kernel(case.kernel, case.cores, *case.args, soc=chip, order=order, sync=sync)
        except KernelError as error:
            for finding in getattr(error, "findings", ())[:-1]:
                yield str(finding)
            yield str(error)
            return
        except AscendSimError:
            raise
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            yield f"{Path(place.filename).name}:{place.lineno}: {type(error).__name__}: {error}"
            return
        for finding in result.findings:
            if (key := f"{finding.kind}{finding.where}{finding.other}{finding.buffer}") not in said:
                said.add(key)
                yield str(finding)
        for failure in case.failures():
            if (key := failure.partition("[")[0]) not in said:
                said.add(key)
                yield f"{failure} (order {order})"
