"""`ascendsim sweep MODEL`: a model at every combination of chips, batches, options and figures of chips."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ascendsim.cli.common import add_soc_option
from ascendsim.cli.model_options import check_folder, positive
from ascendsim.cli.report_option import add_report_option, check_report_option
from ascendsim.cli.sweep_options import (
    add_point_options,
    add_worker_options,
    axes_of,
    print_columns,
)
from ascendsim.cli.variants import batches, parts
from ascendsim.core.errors import InputError, suggest
from ascendsim.core.files import make_folder
from ascendsim.core.interrupts import code_of

if TYPE_CHECKING:
    from ascendsim.sweep.rows import Sweep

NAME = "sweep"
HELP = "simulate a model at every combination of chips, batches and options"
_SHOWN = ("Time(us)", "Samples/s", "DDR read(MB)", "Memory(MiB)", "Weights(MiB)", "Cube(%)", "DDR(%)")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", nargs="+", help="paths of models")
    axes = parser.add_argument_group("axes", "every combination is a point")
    add_soc_option(axes, default="Ascend310", metavar="CHIP,CHIP", help="chips (default: Ascend310)")
    axes.add_argument("--batch", metavar="N,N", help="batch sizes (default: the model's own)")
    axes.add_argument("--fusion", default="all", metavar="LEVEL,LEVEL", help="fusion levels (default: all)")
    text = "who launches tasks, some of sink, host, eager (default: sink)"
    axes.add_argument("--mode", default="sink", metavar="MODE,MODE", help=text)
    add_point_options(parser)
    add_worker_options(parser)
    text = "all points with tiles by a formula first, then those that could be best again in full"
    parser.add_argument("--screen", action="store_true", help=text)
    parser.add_argument("--time_limit", type=positive, metavar="S", help="seconds that a point may take")
    parser.add_argument(
        "--limit", type=positive, default=10_000, metavar="N", help="points at most (default: 10000)"
    )
    text = "two columns to weigh against each other (default: Samples/s,Memory(MiB))"
    parser.add_argument("--pareto", default="Samples/s,Memory(MiB)", metavar="COLUMN,COLUMN", help=text)
    text = (
        "folder for sweep.csv, pareto.csv, pareto.png, failed.csv, and sweep.db unless --store names another"
    )
    parser.add_argument("--output", metavar="DIR", help=text)
    add_report_option(parser)


def run(args: argparse.Namespace) -> int:
    from ascendsim.core.progress import shown_progress
    from ascendsim.sweep import sweep

    started = time.perf_counter()
    check_folder(args.output)
    check_report_option(args.report)
    columns, axes = parts(args.pareto, "--pareto"), axes_of(args)
    _check_columns(columns, axes)
    store = args.store
    if store is None and args.output is not None:
        store = str(make_folder(args.output) / "sweep.db")
    done = [0, 0]
    with shown_progress("sweep") as show:

        def count(ready: int, total: int) -> None:
            done[:] = ready, total
            show(ready, total)

        try:
            found = sweep(
                args.model,
                soc=_axis(parts(args.soc_version, "--soc_version")),
                batch=_axis(batches(args.batch)),
                fusion=_axis(parts(args.fusion, "--fusion")),
                schedule=_axis(parts(args.mode, "--mode")),
                store=store,
                workers=args.workers,
                screen=args.screen,
                retry=args.retry,
                time_limit=args.time_limit,
                limit=args.limit,
                progress=count,
                **axes,
            )
        except KeyboardInterrupt as stop:
            kept = (
                "nothing is kept; --store FILE would"
                if store is None
                else f"{store} has them, the same command goes on"
            )
            print(f"ascendsim: interrupted after {done[0]} of {done[1]} points; {kept}", file=sys.stderr)
            return code_of(stop)
    _print(found)
    if len(found.table()):
        rows = ", ".join(str(row[0]) for row in found.pareto(*columns))
        print(f"\nno other point is better in {' and '.join(columns)}: rows {rows}")
    if args.output is not None:
        _write(found, make_folder(args.output), columns)
    if args.report is not None:
        page = found.report(args.report)
        print(f"wrote {page.path} ({len(page.html) / 1e6:.2f} MB)")
    print(f"took {time.perf_counter() - started:.1f} s")
    return 1 if len(found.failed()) else 0


def _axis(values: tuple[Any, ...]) -> Any:
    """One value stands for itself: only several are an axis."""
    return list(values) if len(values) > 1 else values[0]


def _check_columns(columns: tuple[str, ...], axes: Mapping[str, Any]) -> None:
    """Refuses columns that no row will have, before anything is computed."""
    from ascendsim.sweep.space import column_of
    from ascendsim.sweep.work import FIGURES

    nested = [key for name in ("set", "options") for key in axes[name]]
    known = [*FIGURES, "soc", "batch", "fusion", "schedule", *nested, *map(column_of, axes)]
    for column in columns:
        if column not in known:
            raise InputError(f"column {column!r}", "is not in the sweep", remedy=suggest(column, known))


def _print(found: Sweep) -> None:
    table, failed = found.table(), found.failed()
    axes = table.columns[: table.columns.index("Time(us)")]
    print_columns((*axes, *(name for name in _SHOWN if name in table.columns)), table.records())
    if len(failed):
        print("\nfailed:")
        print_columns(failed.columns, failed.records())


def _write(found: Sweep, folder: Path, columns: tuple[str, ...]) -> None:
    done = len(found.table()) > 0
    tables = [found.table(), *([found.pareto(*columns)] if done else []), found.failed()]
    for table in tables:
        if not len(table):
            continue
        table.to_csv(folder / f"{table.name}.csv")
        print(f"wrote {folder / table.name}.csv")
    if len(columns) == 2 and done:
        print(f"wrote {found.plot_pareto(columns[1], columns[0]).save(folder / 'pareto.png')}")
