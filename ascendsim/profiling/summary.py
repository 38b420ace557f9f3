"""What a run comes to: totals, shares by engine, and the table of operators that take the most time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ascendsim.core.table import Row, Table
from ascendsim.profiling.metrics import (
    PIPE_NAMES,
    ddr_utilisation,
    engine_of,
    peak_tflops,
    pipe_units,
    task_metrics,
)
from ascendsim.profiling.view import ProfiledRun, covered

_OF_IMAGES = ("ctrl_cpu.", "dvpp.")  # figures of the chip that matter to images only


@dataclass(frozen=True, slots=True)
class Summary:
    """Totals of a run.

    Attributes:
        model, soc: Names.
        tasks: Tasks that ran.
        duration_us, cycles: Device time of one execution; over images of all of them, with DVPP in front.
        batch: Samples: first dimension of the first input, or the number of images.
        samples_per_s: batch / duration ("fps" of an image network).
        ddr_bytes: Useful bytes from and to DDR, reads and writes added.
        l2_bytes: Bytes between the cores and L2 (0 on chips whose transfers pass L2 by).
        ddr_utilisation: Average share of the DDR bandwidth over the whole run, 0..1.
        cube_utilisation: Busy Cube time / (duration x Cube units), 0..1.
        achieved_tflops, peak_tflops: Useful multiply-adds on the Cube x 2 / duration, and the chip's float16
            peak.
        pipe_utilisation: As `cube_utilisation`, by pipe name, for pipes that worked.
        engine_shares: Share of the summed task time by engine (`metrics.engine_of`), largest first.
        idle_share: Part of the duration in which no task was dispatched, 0..1.
        assumed: Keys of the chip's figures without a source, which the result rests on.
        overrides: Keys of the chip's figures that the user changed.
    """

    model: str
    soc: str
    tasks: int
    duration_us: float
    cycles: int
    batch: int
    samples_per_s: float
    ddr_bytes: int
    l2_bytes: int
    ddr_utilisation: float
    cube_utilisation: float
    achieved_tflops: float
    peak_tflops: float
    pipe_utilisation: Mapping[str, float]
    engine_shares: Mapping[str, float]
    idle_share: float
    assumed: tuple[str, ...]
    overrides: tuple[str, ...]


def summarise(run: ProfiledRun) -> Summary:
    """Totals of a run."""
    us, end = run.trace.duration_us, run.trace.end
    read = sum(view.record.read_bytes.get("ddr", 0) for view in run.tasks)
    write = sum(view.record.write_bytes.get("ddr", 0) for view in run.tasks)
    busy = {pipe: sum(view.busy(pipe) for view in run.tasks) for pipe in PIPE_NAMES}
    macs = sum(view.record.macs for view in run.tasks)
    engines: dict[str, int] = {}
    for view in run.tasks:
        engines[engine_of(view)] = engines.get(engine_of(view), 0) + view.duration
    task_ticks = sum(engines.values())
    pipes = {
        PIPE_NAMES[pipe]: ticks / (end * pipe_units(run.soc, pipe))
        for pipe, ticks in busy.items()
        if ticks and end
    }
    images = any(view.for_images for view in run.tasks)
    ordered = sorted(engines.items(), key=lambda item: (-item[1], item[0]))
    return Summary(
        model=run.graph.name,
        soc=run.soc.name,
        tasks=len(run.tasks),
        duration_us=us,
        cycles=run.trace.cycles,
        batch=run.batch,
        samples_per_s=run.batch / us * 1e6 if us else 0.0,
        ddr_bytes=read + write,
        l2_bytes=sum(view.moved("l2") for view in run.tasks),
        ddr_utilisation=ddr_utilisation(run.soc, read, write, us),
        cube_utilisation=pipes.get("Cube", 0.0),
        achieved_tflops=2 * macs / us / 1e6 if us else 0.0,
        peak_tflops=peak_tflops(run.soc),
        pipe_utilisation=pipes,
        engine_shares={engine: ticks / task_ticks for engine, ticks in ordered} if task_ticks else {},
        idle_share=1 - covered(run.tasks) / end if end else 0.0,
        assumed=tuple(sorted(key for key in run.soc.assumed if images or not key.startswith(_OF_IMAGES))),
        overrides=tuple(sorted(run.soc.overrides)),
    )


def top_operators(run: ProfiledRun, count: int = 10) -> Table:
    """The tasks that take the most time.

    Columns: operator, type, engine (`metrics.engine_of`), time, share of the run's summed task time, what
    bounds it (the rule is that of `metrics.bound_by`), the busiest pipe and its share of the time, Cube rate
    in 10^12 operations/s, rates at DDR and L2 in 10^9 B/s, and achieved against peak in percent: of the Cube
    for tasks with useful multiply-adds, of the busier of DDR and L2 for the others (N/A for the AI CPU).
    """
    total = sum(view.duration for view in run.tasks)
    views = sorted(run.tasks, key=lambda view: (-view.duration, view.id))[: max(count, 0)]
    rows: list[Row] = []
    for view in views:
        figures = task_metrics(run, view)
        share = 100 * view.duration / total if total else 0.0
        tflops = figures.tflops if view.record.macs else None
        peak = 100 * figures.of_peak if view.on_ai_core else None
        rates = (figures.ddr_gb_per_s, figures.l2_gb_per_s) if view.on_ai_core else (None, None)
        rows.append(
            (
                view.name,
                view.op_type,
                figures.engine,
                figures.time_us,
                share,
                figures.bound,
                figures.busiest or None,
                tflops,
                *rates,
                peak,
            )
        )
    columns = (
        "Operator",
        "Type",
        "Engine",
        "Time(us)",
        "Share(%)",
        "Bound by",
        "Busiest pipe",
        "TFLOP/s",
        "DDR(GB/s)",
        "L2(GB/s)",
        "Of peak(%)",
    )
    return Table("top_operators", columns, tuple(rows))
