"""`ascendsim validate micro`: instruction programs against published micro-benchmarks."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ascendsim.cli.common import print_table
from ascendsim.cli.model_options import check_folder, progress
from ascendsim.core.files import make_folder, write_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ascendsim.validate.micro import MicroComparison, Outcome


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    parser.add_argument(
        "--left_out",
        action="store_true",
        help="list every row that is left out, not only how many for which reason",
    )
    parser.add_argument(
        "--csv",
        metavar="FILE",
        help="write every row with the simulated figure, or the reason why it has none",
    )
    parser.add_argument(
        "--output", metavar="DIR", help="folder for micro.csv and a correlation picture a chip family"
    )


def run(args: argparse.Namespace) -> int:
    """Simulates, prints and writes."""
    from ascendsim.validate.micro import compare_micro

    check_folder(args.output)
    with progress("simulating", "rows") as show:
        found = compare_micro(show)
    for family in found.families:
        _print_rows(family, [outcome for outcome in found.outcomes if outcome.family == family])
    _print_scores(found)
    _print_left(found, args.left_out)
    tables = [Path(args.csv)] if args.csv else []
    if args.output is not None:
        make_folder(args.output)
        tables.append(Path(args.output) / "micro.csv")
        for family in found.families:
            _draw(
                family, [outcome for outcome in found.outcomes if outcome.family == family], Path(args.output)
            )
    for path in tables:
        print(f"wrote {write_whole(path, _csv(found).encode())}")
    return 0


def _print_rows(family: str, outcomes: Sequence[Outcome]) -> None:
    rows = []
    for outcome in outcomes:
        row = outcome.row
        mark = "beside the table" if outcome.extra else ""
        what = f"{row.operation}, {row.conditions or row.shape or row.cores}"
        figures = (
            f"{row.measured:g}",
            f"{outcome.simulated:.6g}",
            row.unit.replace(" of 50 MHz counter", ""),
            f"{100 * outcome.error:+.1f}",
        )
        rows.append((str(row.id), outcome.group, what[:70], *figures, ", ".join(outcome.fitted) or mark))
    columns = ("row", "kind", "what", "measured", "simulated", "unit", "error %", "fitted on it")
    print_table(columns, rows, title=f"chip family {family}")
    print()


def _print_scores(found: MicroComparison) -> None:
    from ascendsim.validate.micro import mean_error

    rows = []
    for family in found.families:
        mine = [outcome for outcome in found.outcomes if outcome.family == family]
        table = [outcome for outcome in mine if not outcome.extra]
        parts = [
            ("all", table),
            ("that no figure was fitted on", [outcome for outcome in table if not outcome.fitted]),
        ]
        parts += [
            (kind, [outcome for outcome in table if outcome.group == kind])
            for kind in dict.fromkeys(o.group for o in table)
        ]
        parts.append(
            (
                "beside the table, not fitted on",
                [outcome for outcome in mine if outcome.extra and not outcome.fitted],
            )
        )
        rows += [
            (family, name, str(len(part)), f"{100 * mean_error(part):.1f}") for name, part in parts if part
        ]
    print_table(("chip family", "rows", "number", "mean |error| %"), rows)
    print()


def _print_left(found: MicroComparison, every: bool) -> None:
    if every:
        listed = [(str(row.id), row.soc, row.operation[:60], reason) for row, reason in found.left_out]
        print_table(("row", "chip", "what", "left out because it"), listed)
        return
    reasons = dict.fromkeys(reason for _, reason in found.left_out)
    counted = [(str(sum(reason == own for _, own in found.left_out)), reason) for reason in reasons]
    print_table(
        ("rows", "left out because (--left_out lists them)"), sorted(counted, key=lambda row: -int(row[0]))
    )


def _draw(family: str, outcomes: Sequence[Outcome], folder: Path) -> None:
    from ascendsim.plot import plot_correlation
    from ascendsim.validate.micro import mean_error

    note = f"{len(outcomes)} rows, mean |error| {mean_error(outcomes):.1%}"
    names = [outcome.group for outcome in outcomes]
    measured, simulated = (
        [outcome.row.measured for outcome in outcomes],
        [outcome.simulated for outcome in outcomes],
    )
    path = folder / f"correlation_micro_{family}.png"
    plot_correlation(
        names, measured, simulated, f"Micro-benchmarks of {family}", note, unit="in the unit of the row"
    ).save(path)
    print(f"wrote {path}")


def _csv(found: MicroComparison) -> str:
    lines = ["row,chip,kind,measured,simulated,unit,error,fitted,left_out_because"]
    for outcome in found.outcomes:
        row = outcome.row
        figures = f"{row.measured:g},{outcome.simulated:.6g},{row.unit},{outcome.error:.4f}"
        lines.append(f"{row.id},{row.soc},{outcome.group},{figures},{' '.join(outcome.fitted)},")
    lines += [f'{row.id},"{row.soc}",,{row.value},,{row.unit},,,"{reason}"' for row, reason in found.left_out]
    return "\n".join(lines) + "\n"
