"""A user's own measurements: rows of a CSV file in the columns of `measured_models.csv`.

Needed are `onnx` (a file in the folder of networks), `batch`, and `throughput_per_s` or
`latency_ms_per_batch`; `soc` where no chip is named beside the file. All other columns may be missing.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from ascendsim import soc as chips
from ascendsim.core.errors import AscendSimError, InputError
from ascendsim.validate.conditions import Conditions
from ascendsim.validate.points import CHIPS, Point, points_of

NEEDED = ("onnx", "batch")
TIMES = ("throughput_per_s", "latency_ms_per_batch")
# what a row says that does not say it
_SILENT = {
    "trust": "high",
    "aipp": "no",
    "cann": "",
    "options": "unknown",
    "scripts": "",
    "dated": "",
    "conditions": "",
}
_MOST_BYTES = 1 << 24
_MOST_BATCH = 1 << 16


@dataclass(frozen=True, slots=True)
class LeftOutRow:
    """A row, or a point of several, that cannot be used.

    Attributes:
        where: Line of the file, or the point.
        reason: One line.
    """

    where: str
    reason: str


def read_rows(
    path: str | PathLike[str], folder: Path, soc: str | None = None
) -> tuple[tuple[Point, ...], tuple[LeftOutRow, ...]]:
    """The points of a file, and the rows that cannot be used.

    Args:
        path: The CSV file.
        folder: Where the networks are.
        soc: The chip that counts: rows of others are left out, rows that name none are of it. None = that of
            each row.

    Raises:
        InputError: If the file cannot be read, or a needed column is missing.
    """
    usable: list[Mapping[str, str]] = []
    left: list[LeftOutRow] = []
    named: dict[str, str] = {}
    for line, raw in _lines(Path(path), soc):
        try:
            row = _checked(raw, folder, soc)
            named[row["soc"]] = _chip(row["soc"])
        except AscendSimError as error:
            left.append(LeftOutRow(f"line {line}", str(error)))
        else:
            usable.append(row)
    return points_of(usable, named), tuple(left)


def _lines(path: Path, soc: str | None) -> list[tuple[int, dict[str, str]]]:
    """Rows with the line on which each ends, cells without blanks around them."""
    try:
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            rule = f"must be a CSV file of at most {_MOST_BYTES >> 20} MiB"
            raise InputError(
                f"measurements {str(path)!r}", rule, remedy="see docs/validate.md for its columns"
            )
        with path.open(encoding="utf-8-sig", newline="") as source:
            reader = csv.DictReader(source, restval="", strict=True)
            names = [name.strip() for name in reader.fieldnames or ()]
            reader.fieldnames = names
            _check_columns(path, names, soc)
            return [
                (reader.line_num, {name: (row[name] or "").strip() for name in names if name})
                for row in reader
            ]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = "is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else f"cannot be read ({error})"
        raise InputError(f"measurements {str(path)!r}", reason) from None


def _check_columns(path: Path, names: list[str], soc: str | None) -> None:
    lacking = [name for name in (*NEEDED, *(() if soc else ("soc",))) if name not in names]
    if not set(TIMES) & set(names):
        lacking.append(" or ".join(TIMES))
    if lacking:
        raise InputError(
            f"measurements {str(path)!r}",
            f"have no column {', '.join(lacking)}",
            remedy="the first line names the columns, see docs/validate.md",
        )


def _checked(raw: Mapping[str, str], folder: Path, soc: str | None) -> dict[str, str]:
    """A row that `points_of` can take.

    Raises:
        InputError: If it says something that cannot be.
    """
    row = {**_SILENT, **{name: text for name, text in raw.items() if text}}
    file = row.get("onnx", "")
    inside = (folder / file).resolve()
    if not file or not inside.is_relative_to(folder.resolve()) or not inside.is_file():
        raise InputError(f"onnx {file!r}", f"is no file in {str(folder)!r}", remedy="see --models")
    batch = _number(row, "batch")
    if batch != int(batch) or batch > _MOST_BATCH:
        raise InputError("batch", "must be a whole number from 1 on", repr(row["batch"]))
    if row["trust"] == "low":
        raise InputError("trust", "is low: such rows are not scored")
    for name, known in (("trust", ("high", "medium")), ("aipp", ("yes", "no", "not mentioned"))):
        if row[name] not in known:
            raise InputError(name, f"must be {' or '.join(known)}", repr(row[name]))
    if soc is not None and "soc" in row and _chip(row["soc"]) != _chip(soc):
        raise InputError("soc", f"is not {soc}", repr(row["soc"]))
    row.setdefault("soc", soc or "")
    if row.get("throughput_per_s"):
        throughput = _number(row, "throughput_per_s")
    else:
        throughput = batch / _number(row, "latency_ms_per_batch") * 1e3
    try:
        Conditions.of(row)
    except ValueError as error:
        raise InputError("options", f"cannot be read ({error})", repr(row["options"])) from None
    return {
        **row,
        "model": row.get("model") or Path(file).stem,
        "batch": str(int(batch)),
        "throughput_per_s": repr(throughput),
    }


def _number(row: Mapping[str, str], name: str) -> float:
    try:
        value = float(row.get(name, ""))
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise InputError(name, "must be a positive number", repr(row.get(name, "")))
    return value


def _chip(name: str) -> str:
    """The chip of this project that a row names, as published or as here.

    Raises:
        SocError: If there is none, or it lacks figures.
    """
    if not name:
        raise InputError("soc", "is empty", remedy="name a chip (ascendsim soc list)")
    spec = chips.load(CHIPS.get(name, name))
    chips.require_runnable(spec)
    return CHIPS.get(name, name) if name.endswith(".toml") else spec.name
