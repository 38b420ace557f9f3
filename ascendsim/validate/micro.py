"""Micro-benchmarks: simulated against published figures, row by row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from ascendsim import soc as chips
from ascendsim.machine import run
from ascendsim.soc import SocSpec
from ascendsim.validate.micro_cases import Case, Run, micro_cases
from ascendsim.validate.micro_rows import Row, micro_rows, reason_of

PREFIX = "microbenchmark "  # of rows in the chips' `fitted_on`
_FIRST_EXTRA = 1000  # ids of rows that are published beside those of the table


@dataclass(frozen=True, slots=True)
class Outcome:
    """A row with what the simulator says.

    Attributes:
        family: Chips that are scored together.
        group: Kind of program.
        fitted: Figures of the chip that were fitted on this row.
    """

    row: Row
    family: str
    group: str
    simulated: float
    fitted: tuple[str, ...]

    @property
    def error(self) -> float:
        """Signed relative error: simulated / measured - 1."""
        return self.simulated / self.row.measured - 1

    @property
    def extra(self) -> bool:
        """Whether it is published beside the rows of the table."""
        return self.row.id > _FIRST_EXTRA


@dataclass(frozen=True, slots=True)
class MicroComparison:
    """All rows that have a program, and the others with the reason."""

    outcomes: tuple[Outcome, ...]
    left_out: tuple[tuple[Row, str], ...]

    @property
    def families(self) -> tuple[str, ...]:
        """Families of chips in the order of their rows."""
        return tuple(dict.fromkeys(outcome.family for outcome in self.outcomes))


def compare_micro(progress: Callable[[int, int], None] | None = None) -> MicroComparison:
    """Simulates every row that describes a program.

    Args:
        progress: Called with (rows done, rows in all).
    """
    rows = {row.id: row for row in micro_rows()}
    cases = micro_cases()
    outcomes = []
    for done, case in enumerate(cases):
        spec = chips.load(case.chip, case.settings)
        row = rows[case.row]
        name = f"{PREFIX}{row.id}"
        fitted = tuple(key for key, on in spec.fitted_on.items() if name in on)
        outcomes.append(
            Outcome(row, _family(case.chip), case.group, case.read(_simulate(case, spec)), fitted)
        )
        if progress is not None:
            progress(done + 1, len(cases))
    have = {case.row for case in cases}
    others = tuple((row, reason_of(row.id) or "has no reason") for row in rows.values() if row.id not in have)
    return MicroComparison(tuple(outcomes), others)


def mean_error(outcomes: Sequence[Outcome]) -> float:
    """Mean of |error|; 0 for none."""
    return fmean(abs(outcome.error) for outcome in outcomes) if outcomes else 0.0


def _family(chip: str) -> str:
    return "Ascend910B" if chip.startswith("Ascend910B") else chip


def _simulate(case: Case, spec: SocSpec) -> Run:
    trace = run(case.build(spec), spec)
    task = trace.tasks[0]
    tick = float(trace.tick_seconds) * 1e6
    us = tick / task.blocks
    core = task.block_ticks * us - (task.cores - 1) * spec.launch.block_dispatch_ns / 1e3
    return Run(
        (task.end - task.start) * tick,
        core,
        core - spec.launch.kernel_init_ns / 1e3,
        {pipe: busy * us for pipe, busy in task.busy.items()},
    )
