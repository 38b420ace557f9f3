"""Why simulated and measured times of single operators differ by more than a factor of three, as far as that
is known: `data/operator_reasons.csv`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from ascendsim.validate.operators import Timing

FAR = 3.0  # simulated to measured, or measured to simulated
UNKNOWN = "no reason is known"


@dataclass(frozen=True, slots=True)
class Reason:
    """A finding about some operators.

    Attributes:
        chips: As published: ("910B-30",).
        operators: Pattern of their types, `*` for any text.
        inputs: Pattern of their `OperatorRow.shapes`.
        text: What is known.
    """

    chips: tuple[str, ...]
    operators: str
    inputs: str
    text: str

    def fits(self, group: str, op_type: str, shapes: str) -> bool:
        """Whether it speaks of an operator."""
        return (
            group in self.chips and fnmatchcase(op_type, self.operators) and fnmatchcase(shapes, self.inputs)
        )


@cache
def reasons() -> tuple[Reason, ...]:
    """All that are known."""
    with (Path(__file__).parent / "data" / "operator_reasons.csv").open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        return tuple(
            [Reason(tuple(r["chips"].split("|")), r["operators"], r["inputs"], r["reason"]) for r in rows]
        )


def far_off(timings: Iterable[Timing]) -> dict[str, list[Timing]]:
    """The timings that are off by more than `FAR`, by reason; those without one under `UNKNOWN`."""
    found: dict[str, list[Timing]] = {}
    for timing in timings:
        ratio = timing.simulated_us / timing.row.duration_us
        if not 1 / FAR <= ratio <= FAR:
            row = timing.row
            known = (one.text for one in reasons() if one.fits(row.group, row.op_type, row.shapes))
            found.setdefault(next(known, UNKNOWN), []).append(timing)
    return found
