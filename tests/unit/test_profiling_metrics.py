"""Engine, bound, achieved against peak, phases, summary and the HTML of a result."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ascendsim.isa.program import MemoryPlan, Program, Task, TaskKind
from ascendsim.profiling import ProfiledRun, html, phases, summarise, task_metrics, task_phases, top_operators
from ascendsim.profiling.metrics import (
    bound_by,
    ddr_peak_gb_per_s,
    ddr_utilisation,
    engine_of,
    l2_utilisation,
    peak_tflops,
    pipe_shares,
    pipe_units,
)
from ascendsim.profiling.phases import launch_ticks
from ascendsim.profiling.view import TaskView
from ascendsim.trace.records import TaskRecord, Trace
from tests.support.synthetic_run import CORE_TICKS, NAMES, TICK, chain_graph, synthetic_run, tiny_soc


def record(**changes) -> TaskRecord:
    base = TaskRecord(
        task=0,
        name="/layer0/conv_0",
        kind="AI_CORE",
        stream=0,
        ready=0,
        start=100,
        end=1100,
        blocks=2,
        rounds=1,
        cores=2,
        busy={},
        block_ticks=2000,
        first_compute=300,
        last_compute=900,
    )
    return replace(base, **changes)


def view(kind: TaskKind = TaskKind.AI_CORE, **changes) -> TaskView:
    return TaskView(record(kind=kind.value, **changes), Task(0, "/layer0/conv_0", kind), (), "Conv2D")


def busy(**ratios: float) -> TaskView:
    return view(busy={pipe: int(share * 2000) for pipe, share in ratios.items()})


@pytest.mark.parametrize(
    ("task", "ddr", "l2", "launch", "bound"),
    [
        (busy(M=0.9, MTE2=0.85), 0.7, 0.1, 0.0, "Cube"),
        (busy(V=0.8), 0.1, 0.1, 0.0, "Vector"),
        (busy(S=0.95, V=0.9), 0.1, 0.1, 0.0, "Scalar"),
        (busy(MTE1=0.9, MTE2=0.5), 0.9, 0.1, 0.0, "MTE1"),
        (busy(MTE2=0.9, V=0.3), 0.3, 0.3, 0.0, "MTE2"),
        (busy(MTE2=0.9, V=0.3), 0.6, 0.3, 0.0, "DDR"),
        (busy(MTE2=0.9, V=0.3), 0.6, 0.7, 0.0, "L2"),
        (busy(MTE3=0.85), 0.0, 0.6, 0.0, "L2"),
        (busy(MTE3=0.85), 0.1, 0.1, 0.0, "MTE3"),
        (busy(FIX=0.81), 0.0, 0.0, 0.0, "FixPipe"),
        (busy(M=0.79, MTE2=0.79), 0.59, 0.59, 0.5, "latency"),
        (busy(M=0.5), 0.65, 0.6, 0.0, "DDR"),
        (busy(M=0.95), 0.9, 0.9, 0.51, "launch"),
        (view(TaskKind.AI_CPU), 0.0, 0.0, 1.0, "AI CPU"),
    ],
)
def test_bound_rule(task, ddr, l2, launch, bound):
    assert bound_by(task, ddr, l2, launch) == bound


@pytest.mark.parametrize(
    ("task", "engine"),
    [
        (busy(M=0.1, MTE2=0.9), "Cube"),
        (busy(V=0.1, MTE2=0.9, S=0.2), "Vector"),
        (busy(V=0.1, MTE2=0.2, S=0.9), "Scalar"),
        (busy(MTE2=0.2, MTE3=0.2), "MTE"),
        (busy(), "-"),
        (view(TaskKind.AI_CPU), "AI CPU"),
    ],
)
def test_engine_rule(task, engine):
    assert engine_of(task) == engine


def test_peaks_by_hand():
    soc = tiny_soc()
    assert peak_tflops(soc) == pytest.approx(2 * 16 * 16 * 16 * 2 * 680e6 / 1e12)
    assert peak_tflops(soc, "int8") == pytest.approx(2 * peak_tflops(soc))
    assert peak_tflops(soc, "float64") == 0.0
    assert ddr_peak_gb_per_s(soc) == 50
    assert ddr_peak_gb_per_s(tiny_soc(half_duplex=False)) == 100


def test_l2_utilisation_is_that_of_the_busier_direction():
    full = 64 * 2 * 680  # bytes of one direction in 1 us
    assert l2_utilisation(tiny_soc(), full // 2, full // 4, 1.0) == pytest.approx(0.5)
    assert l2_utilisation(tiny_soc(), full // 4, full, 1.0) == pytest.approx(1.0)
    assert l2_utilisation(tiny_soc(), 1, 1, 0.0) == 0.0


def test_ddr_utilisation_adds_directions_on_a_half_duplex_bus_only():
    assert ddr_utilisation(tiny_soc(), 25_000, 10_000, 1.0) == pytest.approx(0.7)
    assert ddr_utilisation(tiny_soc(half_duplex=False), 25_000, 10_000, 1.0) == pytest.approx(0.5)
    assert ddr_utilisation(tiny_soc(), 25_000, 10_000, 0.0) == 0.0


@pytest.mark.parametrize(
    ("split", "extra", "units"),
    [
        (False, 0, {"M": 2, "V": 2, "S": 2, "MTE1": 2, "MTE2": 2, "MTE3": 2}),
        (False, 3, {"M": 2, "V": 5, "S": 5, "MTE1": 2, "MTE2": 5, "MTE3": 5}),
        (True, 4, {"M": 2, "FIX": 2, "V": 4, "MTE3": 4, "S": 6, "MTE2": 6}),
    ],
)
def test_pipe_units(split, extra, units):
    soc = replace(tiny_soc(split=split), vector_cores=extra)
    assert {pipe: pipe_units(soc, pipe) for pipe in units} == units


def run_of(task_record: TaskRecord) -> ProfiledRun:
    graph, _ = chain_graph(1)
    program = Program((Task(0, "/layer0/conv_0", TaskKind(task_record.kind)),), MemoryPlan({}, 0, 0))
    return ProfiledRun(
        graph, program, Trace(TICK, CORE_TICKS, (task_record,), end=task_record.end), tiny_soc(), NAMES
    )


def test_task_metrics_by_hand():
    run = run_of(
        record(
            start=0, end=6_800, macs=500_000, read_bytes={"ddr": 20_000, "l2": 5}, write_bytes={"ddr": 10_000}
        )
    )
    metrics = task_metrics(run, run.tasks[0])
    assert metrics.time_us == pytest.approx(1.0)
    assert metrics.tflops == pytest.approx(1.0)  # 500,000 multiply-adds = 10^6 operations in 1 us
    assert metrics.peak_tflops == pytest.approx(11.14112)
    assert metrics.of_peak == pytest.approx(1 / 11.14112)
    assert metrics.ddr_gb_per_s == pytest.approx(30.0)
    assert metrics.ddr_utilisation == pytest.approx(0.6)
    assert metrics.l2_utilisation == pytest.approx(5 / 64 / (680 * 2))
    assert metrics.bound == "launch"  # blocks held the cores for 1,000 of 6,800 ticks


def test_the_start_of_blocks_counts_as_launch():
    ready = {"start": 0, "end": 6_800, "block_ticks": 2 * 6_800, "busy": {"V": 2 * 3_000}}
    run = run_of(record(**ready))
    # kernel_init_ns = 500 is half of 1 us, not more
    assert task_metrics(run, run.tasks[0]).bound == "latency"
    slower = replace(run, soc=replace(run.soc, launch=replace(run.soc.launch, kernel_init_ns=600)))
    assert task_metrics(slower, slower.tasks[0]).bound == "launch"


def test_dispatch_bounds_what_waits_for_its_blocks_longer_than_it_works():
    def bound(dispatch: int, work: int) -> str:
        times = {"start": 0, "end": 6_800, "block_ticks": 2 * 6_800}
        run = run_of(record(**times, busy={"V": 2 * work}, dispatch=dispatch))
        at_once = replace(run, soc=replace(run.soc, launch=replace(run.soc.launch, kernel_init_ns=0)))
        return task_metrics(at_once, at_once.tasks[0]).bound

    assert (bound(999, 1_000), bound(1_001, 1_000)) == ("latency", "dispatch")
    assert (bound(3_399, 3_500), bound(3_401, 3_500)) == ("latency", "launch")  # half of 6,800
    later, once = (run_of(record(dispatch=dispatch)) for dispatch in (1_200, 0))
    assert launch_ticks(later, later.tasks[0]) == launch_ticks(once, once.tasks[0]) + 1_200


def test_pipe_shares_are_over_duration_and_all_cores():
    run = run_of(record(busy={"M": 500, "MTE2": 2000}))
    assert pipe_shares(run, run.tasks[0]) == {"M": 0.25, "MTE2": 1.0}


def test_phases_follow_one_another_and_add_up():
    found = phases(record(busy={"M": 800, "MTE2": 1000, "MTE3": 200, "FIX": 20}))
    assert (found.emit, found.read, found.compute, found.write) == (100, 200, 600, 200)
    assert (found.read_busy, found.compute_busy, found.write_busy) == (500, 400, 110)


def test_launch_belongs_to_emit_and_never_reaches_into_compute():
    found = phases(record(), launch=150)
    assert (found.emit, found.read, found.compute, found.write) == (250, 50, 600, 200)
    assert (phases(record(), launch=10_000).emit, phases(record(), launch=10_000).read) == (300, 0)


def test_phase_table_adds_up_to_the_time_from_ready_to_end():
    run = synthetic_run(30)
    rows = {row["Task ID"]: row for row in task_phases(run).records()}
    for view in run.tasks:
        total = sum(rows[view.id][f"{name}(us)"] for name in ("Emit", "Read", "Compute", "Write"))
        assert total == pytest.approx(run.us(view.record.end - view.record.ready))
    launch = 1.5 + 2 + 0.5  # waiting in the stream, task_launch_us, kernel_init_ns
    assert rows[0]["Emit(us)"] == pytest.approx(launch, abs=1e-3)


def test_phases_of_a_transfer_are_cut_by_the_work_of_the_transfer_pipes():
    found = phases(record(first_compute=-1, last_compute=-1, busy={"MTE2": 600, "MTE3": 200}))
    assert (found.emit, found.read, found.compute, found.write) == (100, 750, 0, 250)


def test_phases_of_an_ai_cpu_task():
    found = phases(record(kind="AI_CPU", first_compute=-1, last_compute=-1))
    assert (found.emit, found.read, found.compute, found.write) == (100, 0, 1000, 0)


@pytest.mark.parametrize("split", [False, True])
def test_phases_partition_every_task_of_a_run(split):
    for task in synthetic_run(40, split=split).trace.tasks:
        found = phases(task)
        assert found.emit + found.read + found.compute + found.write == task.end - task.ready
        assert min(found.emit, found.read, found.compute, found.write) >= 0


def test_summary_adds_up():
    run = synthetic_run(40)
    total = summarise(run)
    assert total.tasks == 40
    assert total.duration_us == run.trace.duration_us
    assert total.batch == 4
    assert total.samples_per_s == pytest.approx(4e6 / total.duration_us)
    assert (
        total.ddr_bytes
        == sum(sum(r.read_bytes.values()) + sum(r.write_bytes.values()) for r in run.trace.tasks)
        - total.l2_bytes
    )
    assert total.cube_utilisation == pytest.approx(
        sum(r.busy.get("M", 0) for r in run.trace.tasks) / (2 * run.trace.end)
    )
    assert sum(total.engine_shares.values()) == pytest.approx(1)
    assert list(total.engine_shares.values()) == sorted(total.engine_shares.values(), reverse=True)
    assert 0 < total.idle_share < 0.1
    assert total.assumed == ("l2.read_latency_cycles", "launch.task_gap_us")


def test_summary_of_an_empty_run_is_all_zero():
    total = summarise(synthetic_run(0))
    assert (
        total.duration_us,
        total.samples_per_s,
        total.cube_utilisation,
        total.idle_share,
        dict(total.engine_shares),
    ) == (0, 0, 0, 0, {})


def test_top_operators_are_the_longest_with_what_bounds_them():
    run = synthetic_run(60)
    table = top_operators(run, 10)
    times = table.column("Time(us)")
    assert len(table) == 10
    assert list(times) == sorted(times, reverse=True)
    assert times[0] == max(run.us(r.end - r.start) for r in run.trace.tasks)
    everything = top_operators(run, 60)
    assert sum(everything.column("Share(%)")) == pytest.approx(100)
    cpu = everything.filter(Engine="AI CPU").records()[0]
    assert (cpu["Bound by"], cpu["TFLOP/s"], cpu["L2(GB/s)"], cpu["Of peak(%)"]) == (
        "AI CPU",
        None,
        None,
        None,
    )
    add = everything.filter(Type="Add").records()[0]
    assert (add["Engine"], add["Bound by"], add["TFLOP/s"]) == ("Vector", "MTE2", None)
    assert len(top_operators(run, 0)) == 0


def test_html_is_self_contained_and_escaped():
    run = synthetic_run(20)
    run.graph.name = "<script>alert(1)</script>"
    text = html(run)
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert not re.search(r"https?://|src=|<link", text)
    assert "2 chip figures are assumed" in text
    assert html(synthetic_run(0)).startswith("<style>")
