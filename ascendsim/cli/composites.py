"""Composites of graph-kernel fusion on the command line: what each replaces and gains, and why the other
operators stayed outside.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ascendsim.cli.common import print_table

if TYPE_CHECKING:
    from ascendsim.passes.graph_kernel import GraphKernelReport


def print_composites(report: GraphKernelReport) -> None:
    """Prints a row for each kind of composite: equal ones with equal times are one row."""
    kinds = Counter(
        (item.name, len(item.members), item.parts_us, item.composite_us, item.kept) for item in report.records
    )
    print()
    columns = ("composite", "number", "operators", "parts [us]", "composite [us]", "made")
    rows = [
        (name, count, members, _time(parts), _time(whole), "yes" if kept else "no: not faster than its parts")
        for (name, members, parts, whole, kept), count in kinds.items()
    ]
    if rows:
        print_table(columns, rows)
    print(
        f"graph-kernel fusion: {len(report.composites)} composites made, "
        f"{len(report.records) - len(report.composites)} given up, {len(report.outside)} operators outside"
    )


def print_outside(report: GraphKernelReport) -> None:
    """Prints a row for each operator type and reason: how many operators, and the first of them."""
    nodes: dict[tuple[str, str], list[str]] = {}
    for item in report.outside:
        nodes.setdefault((item.type, item.reason), []).append(item.node)
    if nodes:
        print()
        rows = [
            (kind, len(names), names[0] if len(names) == 1 else f"{names[0]}, ...", reason)
            for (kind, reason), names in nodes.items()
        ]
        print_table(("outside", "number", "first", "why it is in no composite"), rows)


def _time(microseconds: float | None) -> str:
    return "-" if microseconds is None else f"{microseconds:,.3f}"
