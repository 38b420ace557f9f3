"""What several sub-commands need: tables, and ATC's way to write options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ascendsim.core.errors import InputError
from ascendsim.core.text_table import (
    GAP,
    cell_rooms,
    fitted_rows,
    is_numeric,
    plain_table,
    stacked_heads,
)

_HERE = Path(__file__).parents[2] / "tests" / "data" / "models"
# the networks that published measurements are of: in a checkout, beside the package or where one stands
MODELS = _HERE if _HERE.is_dir() else Path("tests", "data", "models")
Cell = str | int | float
PIPE_WIDTH = 120  # letters of a line where there is no terminal: logs, mails and pages show as many
_MAX_RANK = 32  # dimensions of a tensor; ONNX files in use have at most 8
_MAX_DIM = 1 << 40


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Cell]], title: str = "") -> None:
    """Prints a table: with rules and bold heads on a terminal, plain aligned text of at most `PIPE_WIDTH`
    letters a line elsewhere. Columns of numbers stand right.

    Args:
        columns: Heads.
        rows: One cell a column; numbers as the caller wants to see them.
        title: A line above the table.
    """
    cells = [[str(cell) for cell in row] for row in rows]
    right = [is_numeric(row[index] for row in cells) for index in range(len(columns))]
    if sys.stdout.isatty():
        _print_rich(columns, cells, right, title)
    else:
        sys.stdout.write(plain_table(columns, cells, right, title, PIPE_WIDTH))


def parse_input_shape(text: str | None) -> dict[str, tuple[int, ...]]:
    """Reads ATC's --input_shape: "name:dim,dim;name:dim". A name may contain colons, the last one counts.

    Raises:
        InputError: If the form is wrong, a name comes twice or a dimension is neither positive nor -1 (open).

    >>> parse_input_shape("a:-1,3,224,224;b:1,128")
    {'a': (-1, 3, 224, 224), 'b': (1, 128)}
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for part in filter(None, (part.strip() for part in (text or "").split(";"))):
        name, _, dims = part.rpartition(":")
        name = name.strip()
        if not name:
            raise InputError("option --input_shape", "must have the form name:dim,dim;name:dim", repr(part))
        if name in shapes:
            raise InputError("option --input_shape", f"names input {name!r} twice")
        shapes[name] = _dims(name, dims)
    return shapes


def parse_settings(
    settings: Sequence[str] | None, option: str = "--set", form: str = "key=value"
) -> dict[str, str]:
    """Reads a repeated option of the form key=value.

    Raises:
        InputError: If the form is wrong or a key comes twice.

    >>> parse_settings(["l2.size=16MiB", "ai_cores=1"])
    {'l2.size': '16MiB', 'ai_cores': '1'}
    """
    values: dict[str, str] = {}
    for setting in settings or ():
        key, equals, value = (part.strip() for part in setting.partition("="))
        if not (key and equals and value):
            raise InputError(f"option {option}", f"must have the form {form}", repr(setting))
        if key in values:
            raise InputError(f"option {option}", f"names {key} twice")
        values[key] = value
    return values


SOC_OPTIONS = ("--soc_version", "--soc")  # ATC's name, and that of Python's argument


def add_soc_option(parser: argparse._ActionsContainer, **how: Any) -> None:
    """Adds the chip under both names (`args.soc_version`); `how` as for `add_argument`."""
    parser.add_argument(*SOC_OPTIONS, dest="soc_version", **{"metavar": "CHIP", **how})


def add_set_option(parser: argparse.ArgumentParser) -> None:
    """Adds the repeatable --set KEY=VALUE (`args.set`, for `parse_settings`)."""
    text = (
        "change a figure of the chip, for example l2.size=16MiB or ai_cores=1 (keys: ascendsim soc "
        "show); may be repeated"
    )
    parser.add_argument("--set", action="append", metavar="KEY=VALUE", help=text)


def _dims(name: str, text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")] if text.strip() else []  # "x:" is a scalar
    if len(parts) > _MAX_RANK:
        raise InputError("option --input_shape", f"gives input {name!r} more than {_MAX_RANK} dimensions")
    dims = []
    for part in parts:
        whole = part.isascii() and part.isdigit() and len(part) < 14 and 0 < int(part) < _MAX_DIM
        if not whole and part != "-1":
            raise InputError(
                "option --input_shape",
                f"must give input {name!r} whole positive dimensions, or -1 for open ones",
                repr(part),
            )
        dims.append(int(part))
    return tuple(dims)


def _print_rich(
    columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool], title: str
) -> None:
    """Where the terminal is narrow, names lose their middle, since head and tail tell them apart, sentences
    go on in the next line, and numbers stay whole.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=title or None, title_justify="left", box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0)
    )
    heads = stacked_heads(columns, right)
    console = Console()
    rooms = cell_rooms(heads, rows, right, console.width - GAP)
    for head, number in zip(heads, right, strict=True):
        table.add_column(Text(head), justify="right" if number else "left", overflow="fold", no_wrap=number)
    for row in fitted_rows(rows, rooms):  # Text: names may contain [brackets]
        table.add_row(*map(Text, row))
    console.print(table)
