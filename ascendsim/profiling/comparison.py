"""Several runs side by side: one row a variant, what each task of each variant reads and writes, and how far
outputs differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.core.table import GENERAL, Row, Table
from ascendsim.profiling.interval import DurationInterval
from ascendsim.profiling.notebook import STYLE, bar, light_bar
from ascendsim.profiling.phases import launch_ticks, phases
from ascendsim.profiling.view import ProfiledRun

REFERENCE = "reference"
COMPARED = "compared"
BY_PLACE = "compared in order, names differ"
COLUMNS = (
    "Variant",
    "Time(us)",
    "Likely from(us)",
    "Likely to(us)",
    "Speed-up",
    "Samples/s",
    "DDR read(MB)",
    "DDR write(MB)",
    "L2(MB)",
    "Tasks",
    "Block launches",
    "Launch(us)",
    "Memory(MiB)",
    "Weights(MiB)",
    "Largest difference",
    "Of range",
    "Values",
)


@dataclass(frozen=True, slots=True)
class Difference:
    """How far the outputs of a run are from those of the reference.

    Attributes:
        absolute: Largest difference of two elements over all outputs; None if the outputs cannot be compared.
        relative: Largest difference over the range (largest less smallest element) of the reference's output;
            None as before.
        note: `REFERENCE` for the reference itself, `COMPARED`, `BY_PLACE`, or why there is no difference.
    """

    absolute: float | None
    relative: float | None
    note: str = COMPARED


NO_VALUES = Difference(None, None, "no values")


@dataclass(frozen=True, slots=True)
class VariantFigures:
    """What one variant comes to.

    Attributes:
        name: Of the variant.
        duration_us: Device time of one execution.
        speed_up: Throughput over that of the first variant: of samples a second, so that batches compare.
        samples_per_s: Samples of a batch over the device time.
        ddr_read_bytes, ddr_write_bytes: Useful bytes from and to DDR.
        l2_bytes: Bytes between the cores and L2, reads and writes added (0 on chips whose transfers pass L2
            by).
        tasks: Tasks that the scheduler dispatched.
        block_launches: Blocks of those tasks that started on a core, or on the AI CPU.
        launch_us: Time from the start of each task to work on its cores, added up: what launching costs.
        memory_bytes: Largest device memory for inputs, outputs, activations and workspaces.
        weight_bytes: Device memory for weights.
        difference: Of the outputs to those of the first variant.
        likely: Where the device time is likely to be on a real chip; None if that was not asked for.
    """

    name: str
    duration_us: float
    speed_up: float
    samples_per_s: float
    ddr_read_bytes: int
    ddr_write_bytes: int
    l2_bytes: int
    tasks: int
    block_launches: int
    launch_us: float
    memory_bytes: int
    weight_bytes: int
    difference: Difference
    likely: DurationInterval | None = None

    def row(self) -> Row:
        """One row of the table of a comparison."""
        traffic = (self.ddr_read_bytes / 1e6, self.ddr_write_bytes / 1e6, self.l2_bytes / 1e6)
        counts = (self.tasks, self.block_launches, self.launch_us)
        memory = (self.memory_bytes / 2**20, self.weight_bytes / 2**20)
        values = (self.difference.absolute, self.difference.relative, self.difference.note)
        ends = (None, None) if self.likely is None else (self.likely.low_us, self.likely.high_us)
        speed = (self.duration_us, *ends, self.speed_up, self.samples_per_s)
        return (self.name, *speed, *traffic, *counts, *memory, *values)


def compare_figures(
    runs: Mapping[str, ProfiledRun],
    differences: Mapping[str, Difference] | None = None,
    likely: Mapping[str, DurationInterval] | None = None,
) -> tuple[VariantFigures, ...]:
    """Figures of every variant, in the order given.

    Args:
        runs: By name of the variant; the first is the one that the others are measured against.
        differences: By the same names; none if values were not compared.
        likely: Intervals of the device times by the same names.
    """
    known, sure = differences or {}, likely or {}
    first = _sample_us(next(iter(runs.values())))
    return tuple(
        _figures(name, run, first, known.get(name, NO_VALUES), sure.get(name)) for name, run in runs.items()
    )


def comparison_table(figures: tuple[VariantFigures, ...]) -> Table:
    """The figures as a table: MB are 10^6 bytes of traffic, MiB 2^20 bytes of memory."""
    styles = {"Largest difference": GENERAL, "Of range": GENERAL}
    return Table("compare", COLUMNS, tuple(variant.row() for variant in figures), styles)


def comparison_html(table: Table) -> str:
    """The table of a comparison as a self-contained, escaped HTML fragment: a bar of time in front of each
    row.
    """
    columns = [table.column(name) for name in ("Variant", "Time(us)", "Likely from(us)", "Likely to(us)")]
    rows = [
        (str(name), float(time or 0), float(low or 0), float(high or 0))
        for name, time, low, high in zip(*columns, strict=True)
    ]
    longest = max([max(time, high) for _, time, _, high in rows], default=0.0) or 1.0
    bars = "".join(
        f'<tr><td>{escape(name)}</td><td style="min-width:310px">{bar(time / longest, 300)}'
        f"{light_bar((high - time) / longest, 300)}</td>"
        f"<td>{time:,.1f} us{f', likely {low:,.1f} to {high:,.1f} us' if high else ''}</td></tr>"
        for name, time, low, high in rows
    )
    return f'{STYLE}<div class="asim"><table>{bars}</table>{table.to_html()}</div>'


def phase_table(runs: Mapping[str, ProfiledRun]) -> Table:
    """Phases of every task of every variant, and the tensors in global memory that it reads and writes.

    Emit is on the clock; read, compute and write are what the pipes of an average core worked, overlapped or
    not (see `Phases`).
    """
    rows: list[Row] = []
    for name, run in runs.items():
        for view in run.tasks:
            spent = phases(view.record, launch_ticks(run, view))
            ticks = (spent.emit, spent.read_busy, spent.compute_busy, spent.write_busy)
            touched = [
                ", ".join(
                    dict.fromkeys(access.region for access in view.task.accesses if access.write == write)
                )
                for write in (False, True)
            ]
            rows.append((name, view.name, *map(run.us, ticks), *touched))
    columns = ("Variant", "Task", "Emit(us)", "Read(us)", "Compute(us)", "Write(us)", "Reads", "Writes")
    return Table("phases", columns, tuple(rows))


def largest_difference(
    reference: Mapping[str, NDArray[Any]], other: Mapping[str, NDArray[Any]]
) -> Difference:
    """How far outputs are from those of a reference.

    Equal infinities and NaN at the same place count as equal; other elements that are not finite give an
    infinite difference. An output whose range is 0 is measured by its largest magnitude instead.

    Args:
        reference: Output arrays by name.
        other: The same outputs of another run, of the same shapes.
    """
    if set(reference) != set(other):
        odd = sorted(set(reference) ^ set(other))[0]
        return Difference(None, None, f"other outputs: {odd!r} is in one variant only")
    absolute = relative = 0.0
    for name, expected in reference.items():
        actual = other[name]
        if expected.shape != actual.shape:
            shapes = " and ".join("x".join(map(str, array.shape)) or "scalar" for array in (expected, actual))
            return Difference(None, None, f"output {name!r} has shapes {shapes}")
        distance, spread = _distance(expected, actual)
        absolute = max(absolute, distance)
        relative = max(relative, distance / spread if spread else 0.0 if distance == 0 else float("inf"))
    return Difference(absolute, relative)


def _distance(expected: NDArray[Any], actual: NDArray[Any]) -> tuple[float, float]:
    """Largest difference of two arrays of one shape, and the range of the first."""
    a, b = expected.astype(np.float64), actual.astype(np.float64)
    if not a.size:
        return 0.0, 0.0
    with np.errstate(invalid="ignore"):
        apart = np.abs(a - b)
    apart[(a == b) | (np.isnan(a) & np.isnan(b))] = 0.0
    apart[np.isnan(apart)] = np.inf
    finite = a[np.isfinite(a)]
    spread = float(np.ptp(finite)) or float(np.abs(finite).max()) if finite.size else 0.0
    return float(apart.max()), spread


def _sample_us(run: ProfiledRun) -> float:
    return run.trace.duration_us / run.batch


def _figures(
    name: str, run: ProfiledRun, first_us: float, difference: Difference, likely: DurationInterval | None
) -> VariantFigures:
    us = run.trace.duration_us
    return VariantFigures(
        name=name,
        duration_us=us,
        speed_up=first_us / _sample_us(run) if us else 1.0,
        samples_per_s=1e6 / _sample_us(run) if us else 0.0,
        ddr_read_bytes=sum(view.record.read_bytes.get("ddr", 0) for view in run.tasks),
        ddr_write_bytes=sum(view.record.write_bytes.get("ddr", 0) for view in run.tasks),
        l2_bytes=sum(view.moved("l2") for view in run.tasks),
        tasks=len(run.tasks),
        block_launches=sum(view.record.blocks for view in run.tasks),
        launch_us=run.us(sum(launch_ticks(run, view) for view in run.tasks)),
        memory_bytes=run.program.memory.peak_bytes,
        weight_bytes=run.program.memory.weight_bytes,
        difference=difference,
        likely=likely,
    )
