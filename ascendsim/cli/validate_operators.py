"""`ascendsim validate operators`: simulated against published times of single operators."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ascendsim.cli.common import print_table
from ascendsim.cli.model_options import check_folder, positive, progress
from ascendsim.core.files import make_folder, write_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ascendsim.validate.operators import Timing
    from ascendsim.validate.operators_rows import LeftOut

MOST_PROCESSES = 2


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    parser.add_argument(
        "--chips",
        default="910A,910A-tuned,910B,910B4,910B-30,910B2,310",
        metavar="LIST",
        help="chips as published: 910A, 910A-tuned (alone), 910B, 910B4, 910B-30 (first generation), 910B2, "
        "310 (default: all)",
    )
    parser.add_argument(
        "--worst",
        type=positive,
        default=10,
        metavar="N",
        help="rows to list, largest errors first (default: 10)",
    )
    parser.add_argument(
        "--left_out",
        action="store_true",
        help="list every row that is left out, not only how many for which reason",
    )
    parser.add_argument(
        "--csv", metavar="FILE", help="write every row with its prediction, or the reason why it has none"
    )
    parser.add_argument(
        "--output", metavar="DIR", help="folder for operators.csv and a correlation picture a chip"
    )


def run(args: argparse.Namespace) -> int:
    """Simulates, prints and writes."""
    from ascendsim.core.errors import InputError, suggest
    from ascendsim.validate.operators import compare_operators
    from ascendsim.validate.operators_rows import CHIPS

    check_folder(args.output)
    groups = list(dict.fromkeys(name.strip() for name in args.chips.split(",") if name.strip()))
    for group in groups:
        if group not in CHIPS:
            raise InputError(
                f"option --chips: {group!r}", "has no published operators", remedy=suggest(group, CHIPS)
            )
    with progress("simulating", "rows") as show:
        processes = min(MOST_PROCESSES, os.cpu_count() or 1)
        timings, left = compare_operators(groups, show, processes=processes)
    for group in groups:
        mine = [timing for timing in timings if timing.row.group == group]
        if mine:
            _print(group, mine, args.worst)
    _print_far(timings)
    _print_left(left, args.left_out)
    tables = [Path(args.csv)] if args.csv else []
    if args.output is not None:
        make_folder(args.output)
        tables.append(Path(args.output) / "operators.csv")
        for group in groups:
            _draw(group, [timing for timing in timings if timing.row.group == group], Path(args.output))
    for path in tables:
        print(f"wrote {write_whole(path, _csv(timings, left).encode())}")
    return 0


def _print(group: str, timings: Sequence[Timing], count: int) -> None:
    from ascendsim.validate.operators import FITTED_KINDS, score_operators

    kinds = sorted({timing.row.op_type for timing in timings})
    rows = []
    parts = [
        ("all", list(timings)),
        ("not fitted on", [t for t in timings if t.row.op_type not in FITTED_KINDS]),
        ("set aside", [t for t in timings if t.row.held]),
    ]
    for name, part in (*parts, *((kind, [t for t in timings if t.row.op_type == kind]) for kind in kinds)):
        if not part:
            continue
        found = score_operators(part)
        ranks = (f"{found.spearman:.3f}", f"{found.roofline_spearman:.3f}") if found.count > 2 else ("-", "-")
        shares = [f"{100 * share:.1f}" for share in (found.median, found.bias, found.roofline_median)]
        rows.append((name, str(found.count), shares[0], shares[1], ranks[0], shares[2], ranks[1]))
    columns = ("operator", "rows", "median %", "bias %", "Spearman", "roofline median %", "roofline Spearman")
    print_table(columns, rows, title=f"chip {group} (as {timings[0].row.soc})")
    print()
    worst = sorted(timings, key=lambda t: (-abs(t.error), t.row.file, t.row.line))[:count]
    listed = [
        (
            t.row.op_type,
            _shapes(t),
            f"{t.row.duration_us:.2f}",
            f"{t.simulated_us:.2f}",
            f"{100 * t.error:+.0f}",
            f"{t.row.file.removesuffix('.csv')}:{t.row.line}",
        )
        for t in worst
    ]
    print_table(("operator", "inputs", "measured us", "simulated us", "error %", "line"), listed)
    print()


def _print_far(timings: Sequence[Timing]) -> None:
    from ascendsim.validate.operator_reasons import FAR, far_off

    rows = [
        (
            str(len(found)),
            ", ".join(sorted({timing.row.group for timing in found})),
            ", ".join(sorted({timing.row.op_type for timing in found})),
            reason,
        )
        for reason, found in sorted(far_off(timings).items(), key=lambda item: -len(item[1]))
    ]
    if rows:
        print_table(("rows", "chips", "operators", f"off by more than a factor of {FAR:.0f} because"), rows)
        print()


def _print_left(left: Sequence[LeftOut], every: bool) -> None:
    if every:
        rows = [
            (item.group, item.op_type, item.name, f"{item.file}:{item.line}", item.reason) for item in left
        ]
        print_table(("chip", "operator", "name", "line", "left out because"), rows)
        return
    reasons = dict.fromkeys(item.reason for item in left)
    counted = [(str(sum(item.reason == reason for item in left)), reason) for reason in reasons]
    print_table(
        ("rows", "left out because (--left_out lists them)"), sorted(counted, key=lambda row: -int(row[0]))
    )


def _shapes(timing: Timing) -> str:
    return timing.row.shapes[:48]


def _draw(group: str, timings: Sequence[Timing], folder: Path) -> None:
    from ascendsim.plot import plot_correlation
    from ascendsim.validate.operators import score_operators

    if not timings:
        return
    own = score_operators(timings)
    note = f"{own.count} rows, median error {own.median:.1%}, Spearman {own.spearman:.3f}"
    ordered = sorted(timings, key=lambda t: t.row.op_type)
    measured, simulated = [t.row.duration_us for t in ordered], [t.simulated_us for t in ordered]
    path = folder / f"correlation_operators_{group}.png"
    names = [t.row.op_type for t in ordered]
    plot_correlation(names, measured, simulated, f"Times of operators on chip {group}", note, unit="us").save(
        path
    )
    print(f"wrote {path}")


def _csv(timings: Sequence[Timing], left: Sequence[LeftOut]) -> str:
    lines = ["file,line,chip,operator,inputs,measured_us,simulated_us,error,roofline_us,left_out_because"]
    for t in timings:
        figures = f"{t.row.duration_us:.3f},{t.simulated_us:.3f},{t.error:.4f},{t.roofline_us:.3f}"
        lines.append(f"{t.row.file},{t.row.line},{t.row.group},{t.row.op_type},{_shapes(t)},{figures},")
    lines += [f'{item.file},{item.line},{item.group},{item.op_type},,,,,,"{item.reason}"' for item in left]
    return "\n".join(lines) + "\n"
