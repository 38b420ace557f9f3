"""A run as plain columns: totals, operators, lanes, roofline and memory plan."""

from __future__ import annotations

from ascendsim.plot.memory_map import COLOURS
from ascendsim.profiling.kinds import kind_of
from ascendsim.profiling.metrics import ddr_peak_gb_per_s, peak_tflops, task_metrics
from ascendsim.profiling.op_summary import op_summary
from ascendsim.profiling.select import Window
from ascendsim.profiling.summary import summarise
from ascendsim.report.spans import STEPS_PER_US, span_columns
from ascendsim.report.subject import Columns, Subject, short, task_sources

OPERATOR_COLUMNS = (
    "Name",
    "Type",
    "Start(us)",
    "Time(us)",
    "Share(%)",
    "Engine",
    "Bound by",
    "Busiest pipe",
    "TFLOP/s",
    "DDR(GB/s)",
    "Of peak(%)",
    "L2(GB/s)",
    "Kind",
    "Cube operations a DDR byte",
    "Blocks",
    "Stream",
    "Original operators",
)


SHOWN = OPERATOR_COLUMNS.index(
    "L2(GB/s)"
)  # columns that a page shows at first: what fits into a window's width


def run_columns(subject: Subject, window: Window | None = None) -> Columns:
    """All that the views show of one run."""
    run = subject.profile
    return {
        "name": subject.name,
        "chip": run.soc.name,
        "end": round(run.trace.duration_us * STEPS_PER_US),
        "facts": _facts(subject),
        "likely": subject.likely,
        "engines": {name: short(100 * share) for name, share in summarise(run).engine_shares.items()},
        "ops": operator_columns(subject),
        "lanes": span_columns(run, window),
        "roof": {"tflops": short(peak_tflops(run.soc)), "gb": short(ddr_peak_gb_per_s(run.soc))},
        "memory": memory_columns(subject),
        "options": dict(subject.options),
    }


def _facts(subject: Subject) -> list[list[str | float | None]]:
    """Totals as (what, number)."""
    total = summarise(subject.profile)
    share = total.achieved_tflops / total.peak_tflops if total.peak_tflops else None
    return [
        ["Device time (us)", short(total.duration_us, 9)],
        ["Samples/s", short(total.samples_per_s, 6)],
        ["MFU (%)", None if share is None else short(100 * share)],
        ["Cube busy (%)", short(100 * total.cube_utilisation)],
        ["DDR traffic (MB)", short(total.ddr_bytes / 1e6, 6)],
        ["DDR bandwidth used (%)", short(100 * total.ddr_utilisation)],
        ["No task running (%)", short(100 * total.idle_share)],
        ["Tasks", total.tasks],
        ["Memory without weights (MiB)", short(subject.memory_bytes / 2**20, 5)],
    ]


def operator_columns(subject: Subject) -> Columns:
    """One row a task in order of start: what it achieved, and behind that msprof's op_summary."""
    run = subject.profile
    total = sum(view.duration for view in run.tasks)
    rows = []
    for view in run.tasks:
        figures, moved = task_metrics(run, view), view.moved("ddr")
        macs = view.record.macs
        rows.append(
            (
                view.name,
                view.op_type,
                round(run.us(view.record.start), 3),
                round(figures.time_us, 3),
                short(100 * view.duration / total if total else 0.0),
                figures.engine,
                figures.bound,
                figures.busiest or None,
                short(figures.tflops) if macs else None,
                *(
                    short(rate) if view.on_ai_core else None
                    for rate in (figures.ddr_gb_per_s, 100 * figures.of_peak, figures.l2_gb_per_s)
                ),
                kind_of(view),
                short(2 * macs / moved) if macs and moved else None,
                view.record.blocks,
                view.record.stream,
                ";".join(task_sources(view)),
            )
        )
    table = op_summary(run)
    further = [name for name in table.columns if name not in ("Op Name", "OP Type", "Stream ID")]
    cells = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in OPERATOR_COLUMNS]
    cells += [[short(c, 6) if isinstance(c, float) else c for c in table.column(name)] for name in further]
    return {"columns": [*OPERATOR_COLUMNS, *further], "shown": SHOWN, "cells": cells}


def memory_columns(subject: Subject) -> Columns | None:
    """The rectangles of the memory map in order of time, and how much of it is alive when."""
    plan = subject.memory
    if plan is None:
        return None
    kinds = list(COLOURS)
    items = plan.rectangles
    return {
        "kinds": [[kind, COLOURS[kind]] for kind in kinds],
        "peak": plan.peak,
        "bound": plan.lower_bound,
        "names": [item.name for item in items],
        "kind": [kinds.index(item.kind) for item in items],
        "offset": [item.offset for item in items],
        "bytes": [item.bytes for item in items],
        "start": [round(item.start * STEPS_PER_US) for item in items],
        "stop": [round(item.stop * STEPS_PER_US) for item in items],
        "edges": [round(edge * STEPS_PER_US) for edge in plan.edges],
        "live": list(plan.live),
    }
