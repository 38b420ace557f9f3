"""Options for open shapes, gears and control flow: what to compile for, and what to run."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ascendsim.cli.common import parse_settings, print_table
from ascendsim.core.errors import InputError

if TYPE_CHECKING:
    from ascendsim.compiler.model import CompiledModel


def add_gear_options(parser: argparse.ArgumentParser) -> None:
    """Adds ATC's options for gears."""
    gears = parser.add_argument_group("gears", "several input shapes in one model; -1 marks what is open")
    gears.add_argument("--dynamic_batch_size", metavar="N,N", help='batch sizes, "1,2,4,8"')
    gears.add_argument(
        "--dynamic_image_size", metavar="H,W;H,W", help='heights and widths, "416,416;832,832"'
    )
    gears.add_argument(
        "--dynamic_dims", metavar="DIMS;DIMS", help='all open dimensions in order, "1,20;1,40"'
    )


def gear_settings(args: argparse.Namespace) -> dict[str, Any]:
    """Keyword arguments for `compile`."""
    return {
        name: getattr(args, name) for name in ("dynamic_batch_size", "dynamic_image_size", "dynamic_dims")
    }


def add_choice_options(parser: argparse.ArgumentParser) -> None:
    """Adds what to run of a model with control flow where no values decide."""
    text = "without values: branch that an If (then, else) or Case (number) takes; may be repeated"
    parser.add_argument("--branch", action="append", metavar="NODE=BRANCH", help=text)
    parser.add_argument(
        "--trips",
        action="append",
        metavar="NODE=N",
        help="without values: iterations of a loop; may be repeated",
    )


def add_gear_choice(parser: argparse.ArgumentParser) -> None:
    """Adds which gear to run."""
    parser.add_argument(
        "--gear",
        metavar="GEAR",
        help='gear to run, as in the list of gears: "4" or "416,416" (default: the largest)',
    )


def choices(args: argparse.Namespace) -> dict[str, Any]:
    """Keyword arguments for `simulate`: branches and numbers of iterations.

    Raises:
        InputError: If a number of iterations is no number.
    """
    branches = parse_settings(args.branch, option="--branch", form="NODE=BRANCH")
    trips = parse_settings(args.trips, option="--trips", form="NODE=N")
    for node, count in trips.items():
        if not count.isascii() or not count.isdigit() or len(count) > 8:
            raise InputError(
                f"option --trips: node {node!r}", "must be a whole number of at most 8 digits", repr(count)
            )
    return {
        "branches": {node: int(which) if which.isdigit() else which for node, which in branches.items()},
        "trips": {node: int(count) for node, count in trips.items()},
    }


def run_shapes(model: CompiledModel, args: argparse.Namespace) -> dict[str, tuple[int, ...]] | None:
    """The input shapes of the gear that the options name; None if they name none.

    Raises:
        InputError: If the model has no such gear, or no gears.
    """
    from ascendsim.compiler.gears import GearedModel

    if args.gear is None:
        return None
    if not isinstance(model, GearedModel):
        raise InputError(
            "option --gear",
            "needs a model with gears",
            repr(args.gear),
            "give --dynamic_batch_size or its like too",
        )
    for gear in model.gears:
        if ",".join(map(str, gear)) == args.gear.replace(" ", ""):
            return model.shapes_of_gear(gear)
    raise InputError("option --gear", f"must be one of {model.settings.text()}", repr(args.gear))


def print_open_model(model: CompiledModel) -> bool:
    """Prints what a model with gears, open shapes or control flow is made of; says whether it is one."""
    from ascendsim.compiler.dynamic import DynamicModel
    from ascendsim.compiler.gears import GearedModel

    if isinstance(model, GearedModel):
        table = model.table()
        print_table(
            table.columns,
            [[f"{cell:.1f}" if isinstance(cell, float) else str(cell) for cell in row] for row in table.rows],
        )
        total = (
            f"weights {model.weight_bytes / 2**20:.1f} MiB, other device memory at most "
            f"{model.arena_bytes / 2**20:.1f} MiB"
        )
        print(f"{len(model.gears)} gears in one model; {total}")
        return True
    if isinstance(model, DynamicModel):
        print(
            f"{model.source.name} is compiled piece by piece when its shapes are known; scheduled by the "
            f"{_WHO[model.schedule]}"
        )
        for reason in model.reasons:
            print(f"  {reason}")
        return True
    return False


_WHO = {"sink": "device", "host": "host, task by task", "eager": "framework, operator by operator"}
