"""Options of commands that compute many points: which models and points, and where."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from ascendsim.cli.common import add_soc_option, parse_input_shape, parse_settings
from ascendsim.cli.model_options import positive
from ascendsim.cli.variants import batches, parts
from ascendsim.compiler.options import cli_options, default_of
from ascendsim.core.errors import InputError

SHAPES_HELP = 'shapes of inputs, for example "input:8,3,224,224"'


def add_point_options(parser: argparse.ArgumentParser) -> None:
    """Adds what is the same at all points, or an axis of them."""
    parser.add_argument("--input_shape", metavar="NAME:DIMS", help=SHAPES_HELP)
    text = "figure of the chip, for example dram.read_gb_per_s=40,60; may be repeated"
    parser.add_argument("--set", action="append", metavar="KEY=V,V", help=text)
    text = "how releases differ, for example tiling=verified,closed_form; may be repeated"
    parser.add_argument("--option", action="append", metavar="KEY=V,V", help=text)
    text = "another option of ascendsim compile, for example precision_mode=force_fp16,force_fp32"
    parser.add_argument("--axis", action="append", metavar="NAME=V,V", help=text)


def add_single_options(parser: argparse.ArgumentParser, several: bool = False) -> None:
    """Adds chip, input shapes, batch, fusion level and mode.

    Args:
        parser: Where to.
        several: Whether each may list several values, which are an axis, and none need be given.
    """
    one = "" if several else "chip (default: Ascend310)"
    metavar = "{0},{0}" if several else "{0}"
    soc = None if several else "Ascend310"
    add_soc_option(parser, default=soc, metavar=metavar.format("CHIP"), help=one or "chips")
    parser.add_argument("--input_shape", metavar="NAME:DIMS", help=SHAPES_HELP)
    text = "batch sizes of every input" if several else "batch size of every input"
    number: dict[str, Any] = {} if several else {"type": positive}
    parser.add_argument(
        "--batch", metavar=metavar.format("N"), help=f"{text} (default: the model's own)", **number
    )
    text = f"fusion {'levels' if several else 'level'} (default: all)"
    parser.add_argument("--fusion", metavar=metavar.format("LEVEL"), help=text)
    parser.add_argument("--mode", metavar=metavar.format("MODE"), help="who launches tasks (default: sink)")


def single_axes(args: argparse.Namespace) -> dict[str, Any]:
    """What `add_single_options` was given, as keyword arguments for `search` and `sensitivity`."""

    def axis(text: str | None, option: str) -> Any:
        found = (None,) if text is None else parts(text, option)
        return list(found) if len(found) > 1 else found[0]

    sizes = batches(None if args.batch is None else str(args.batch))
    return {
        "soc": axis(args.soc_version, "--soc_version"),
        "batch": list(sizes) if len(sizes) > 1 else sizes[0],
        "shapes": parse_input_shape(args.input_shape) or None,
        "fusion": axis(args.fusion, "--fusion"),
        "schedule": axis(args.mode, "--mode"),
    }


def add_worker_options(parser: argparse.ArgumentParser) -> None:
    """Adds where answers are kept and how many processes work."""
    text = (
        "SQLite file that keeps every answer at once, so that the same command goes on where it was stopped"
    )
    parser.add_argument("--store", metavar="FILE", help=text)
    text = "points under way at a time, each in a process of its own (default: as many as processors)"
    parser.add_argument("--workers", type=positive, metavar="N", help=text)
    parser.add_argument("--retry", action="store_true", help="try points again that failed before")


def axes_of(args: argparse.Namespace) -> dict[str, Any]:
    """Keyword arguments for `sweep` from --set, --option, --axis and --input_shape.

    Raises:
        InputError: If a list is empty or names something twice, or a value cannot be read.
    """
    from ascendsim.compiler.profile_options import parse_profile_options

    figures = {
        key: list(parts(text, f"--set {key}"))
        for key, text in parse_settings(args.set, "--set", "key=value,value").items()
    }
    releases = {
        key: [parse_profile_options({key: part})[key] for part in parts(text, f"--option {key}")]
        for key, text in parse_settings(args.option, "--option", "key=value,value").items()
    }
    others = {
        name: [_typed(name, part) for part in parts(text, f"--axis {name}")]
        for name, text in parse_settings(args.axis, "--axis", "name=value,value").items()
    }
    shapes = parse_input_shape(args.input_shape)
    return {
        "set": figures,
        "options": releases,
        **({"shapes": shapes} if shapes else {}),
        **{name: values[0] if len(values) == 1 else values for name, values in others.items()},
    }


def _typed(name: str, text: str) -> Any:
    """A value as the option's field has it; unknown options are refused later."""
    field = next((field for field, option in cli_options().items() if name in (field, option.name)), None)
    if field is None:
        return text
    option, default = cli_options()[field], default_of(field)
    if option.words:
        if text not in option.words:
            raise InputError(
                f"option --axis {name}", f"must list some of {', '.join(option.words)}", repr(text)
            )
        return option.words.index(text) == 1
    whole = text.isascii() and text.isdigit() and (isinstance(default, int) or option.metavar == "N")
    return int(text) if whole else text


def print_columns(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Prints some columns of rows, numbers as people read them."""
    from ascendsim.cli.common import print_table

    print_table(columns, [[_cell(row[column]) for column in columns] for row in rows])


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) < 100 else f"{value:,.1f}"
    return str(value)
