"""Writes the errors that intervals of predictions come from: network_errors.csv and operator_errors.csv in
ascendsim/profiling/data.

    python scripts/make_errors.py                      everything (some minutes)
    python scripts/make_errors.py --only operators     one of the tables
    python scripts/make_errors.py --chips 310 --keep   networks of a chip; other rows stay as they are

To be run again whenever times of the machine, chips' figures or measurements have changed.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from pathlib import Path

from ascendsim.core.files import write_whole
from ascendsim.core.table import Row
from ascendsim.profiling.interval import COLUMNS
from ascendsim.validate import measured_points
from ascendsim.validate.known_errors import error_rows, error_table, operator_rows
from ascendsim.validate.points import CHIPS

ROOT = Path(__file__).resolve().parents[1]
MODELS = ROOT / "tests" / "data" / "models"
TARGET = ROOT / "ascendsim" / "profiling" / "data"


def main() -> None:
    """Simulates what was published and writes the tables."""
    parser = argparse.ArgumentParser(description="Writes the tables of errors.")
    parser.add_argument("--only", choices=("networks", "operators"), help="one of the tables")
    parser.add_argument("--chips", default=",".join(CHIPS), help="of networks, as published (default: all)")
    parser.add_argument("--batches", help="batch sizes of networks (default: all)")
    parser.add_argument("--processes", type=int, default=2, help="how many share the work (default: 2)")
    parser.add_argument("--keep", action="store_true", help="keep rows of networks that are not simulated")
    args = parser.parse_args()
    if args.only != "operators":
        networks(args)
    if args.only != "networks":
        write("operator_errors", list(operator_rows(show, args.processes)))


def networks(args: argparse.Namespace) -> None:
    """The table of networks."""
    points = measured_points(args.chips.split(","))
    if args.batches:
        points = tuple(point for point in points if str(point.batch) in args.batches.split(","))
    rows: list[Row] = []
    for row in error_rows(points, MODELS, args.processes):
        rows.append(row)
        show(len(rows), len(points))
    if args.keep:
        done = {key(row) for row in rows}
        rows += [row for row in stored() if key(row) not in done]
    write("network_errors", rows)


def write(name: str, rows: Sequence[Row]) -> None:
    """Writes a table."""
    path = write_whole(TARGET / f"{name}.csv", error_table(name, rows).to_csv().encode())
    print(f"wrote {path.relative_to(ROOT)}")


def show(done: int, total: int) -> None:
    """Says how far it is."""
    print(f"{done} of {total}", file=sys.stderr, flush=True)


def key(row: Row) -> tuple[str, ...]:
    """Chip, network and batch."""
    named = dict(zip(COLUMNS, row, strict=True))
    return str(named["chip"]), str(named["name"]), str(named["case"])


def stored() -> list[Row]:
    """The rows of the table as it is."""
    with (TARGET / "network_errors.csv").open(encoding="utf-8", newline="") as source:
        return [tuple(row[name] for name in COLUMNS) for row in csv.DictReader(source)]


if __name__ == "__main__":
    main()
