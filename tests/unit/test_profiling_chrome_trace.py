"""The Chrome trace: lanes without overlap, flows, counters, selection, size, equal bytes."""

from __future__ import annotations

import gzip
import itertools
import json
import re
from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendsim.core.errors import InputError
from ascendsim.profiling import chrome_trace, estimate_trace, write_trace
from ascendsim.profiling.chrome_trace import trace_text
from ascendsim.profiling.lanes import sub_lanes
from tests.support.synthetic_run import synthetic_run


def slices(trace):
    return [event for event in trace["traceEvents"] if event["ph"] == "X"]


def by_thread(events):
    threads = defaultdict(list)
    for event in events:
        threads[event["pid"], event["tid"]].append(
            (round(event["ts"] * 1000), round((event["ts"] + event["dur"]) * 1000))
        )
    return threads


@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.integers(0, 20)).map(lambda pair: (pair[0], pair[0] + pair[1])),
        max_size=40,
    )
)
def test_sub_lanes_never_overlap_and_are_as_few_as_possible(intervals):
    lanes = sub_lanes(intervals)
    for lane in set(lanes):
        members = sorted(
            interval for interval, number in zip(intervals, lanes, strict=True) if number == lane
        )
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(members))
    deepest = max((sum(s <= t < e for s, e in intervals) for t in range(81)), default=0)
    points = any(start == end for start, end in intervals)
    assert len(set(lanes)) == deepest or points


@pytest.mark.parametrize("level", ["task", "instruction"])
def test_no_events_overlap_on_a_thread(level):
    trace = chrome_trace(synthetic_run(60, instructions=True), level=level)
    for intervals in by_thread(slices(trace)).values():
        intervals.sort()
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(intervals))


def test_head_comes_before_the_events_and_names_the_run():
    run = synthetic_run(5)
    text = trace_text(chrome_trace(run))
    assert text.index('"profilingType":"op"') < text.index("[")
    head = json.loads(text)
    assert (head["schemaVersion"], head["displayTimeUnit"]) == (1, "ns")
    assert head["otherData"]["cycles"] == run.trace.cycles


def test_every_task_is_in_its_stream_with_exact_cycles():
    run = synthetic_run(60)
    tasks = {event["args"]["task"]: event for event in slices(chrome_trace(run)) if event["pid"] == 1}
    assert len(tasks) == 60
    for view in run.tasks:
        event = tasks[view.id]
        assert (event["ts"], event["name"]) == (pytest.approx(run.us(view.record.start), abs=6e-4), view.name)
        assert event["args"]["cycles"] == run.cycles(view.duration)
        assert (
            event["args"]["start_cycle"] * 10 <= view.record.start < (event["args"]["start_cycle"] + 1) * 10
        )


def test_times_have_three_decimals_and_processes_have_names():
    trace = chrome_trace(synthetic_run(40, instructions=True), level="instruction")
    text = trace_text(trace)
    assert not re.search(r'"(ts|dur)":\d+\.\d{4,}', text)
    assert not re.search(r'"(ts|dur)":[^,}]*e', text)
    named = {event["pid"] for event in trace["traceEvents"] if event.get("name") == "process_name"}
    assert {event["pid"] for event in trace["traceEvents"]} == named
    threads = {event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "thread_name"}
    assert {"Stream 0", "Stream 1", "AI CPU 0", "Cube", "MTE2", "MTE2_2"} <= threads


def test_instructions_appear_once_a_core():
    run = synthetic_run(10, instructions=True)
    events = [event for event in slices(chrome_trace(run, level="instruction")) if event["pid"] >= 10]
    assert len(events) == 2 * len(run.trace.instructions)
    busy = sum(record.end - record.start for record in run.trace.instructions if record.pipe == "M")
    cube = sum(event["dur"] for event in events if event["cat"] == "M" and event["pid"] == 10)
    assert cube == pytest.approx(run.us(busy), abs=0.001 * len(events))


def test_flows_lie_inside_the_slices_that_they_join():
    run = synthetic_run(60)
    events = chrome_trace(run)["traceEvents"]
    starts = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    assert len(starts) == sum(len(task.waits_for) for task in run.program.tasks) > 0
    assert set(starts) == set(ends)
    threads = by_thread(event for event in events if event["ph"] == "X")
    for event in [*starts.values(), *ends.values()]:
        time = round(event["ts"] * 1000)
        assert any(start <= time < end for start, end in threads[event["pid"], event["tid"]])
    assert all(starts[flow]["ts"] < ends[flow]["ts"] for flow in starts)


def test_counters_carry_one_value_end_at_zero_and_conserve_bytes():
    run = synthetic_run(30)
    tracks = defaultdict(list)
    for event in chrome_trace(run)["traceEvents"]:
        if event["ph"] == "C":
            assert list(event["args"]) == ["value"]
            tracks[event["name"]].append((event["ts"], event["args"]["value"]))
    assert {"DDR read (GB/s)", "DDR write (GB/s)", "L2 read (GB/s)", "Cube busy (%)"} <= set(tracks)
    assert all(track[-1][1] == 0 for track in tracks.values())
    steps = tracks["DDR read (GB/s)"]
    moved = sum(value * 1e3 * (after[0] - time) for (time, value), after in itertools.pairwise(steps))
    assert moved == pytest.approx(
        sum(record.read_bytes.get("ddr", 0) for record in run.trace.tasks), rel=1e-3
    )


def test_window_and_operators_narrow_the_trace():
    run = synthetic_run(60, instructions=True)
    whole = chrome_trace(run, level="instruction")
    part = chrome_trace(run, level="instruction", window=(0, 200))
    assert 0 < len(slices(part)) < len(slices(whole))
    assert all(event["ts"] <= 200 for event in slices(part))
    conv = slices(chrome_trace(run, level="instruction", operators="/layer0/conv_0"))
    assert {event["args"]["task"] for event in conv} == {0}


def test_wrong_arguments_are_explained():
    run = synthetic_run(5)
    with pytest.raises(InputError, match='option level must be "task" or "instruction"'):
        chrome_trace(run, level="block")  # type: ignore[arg-type]
    with pytest.raises(
        InputError, match="needs a run that recorded instructions; simulate with instructions=True"
    ):
        chrome_trace(run, level="instruction")


@pytest.mark.parametrize(("count", "level"), [(60, "task"), (500, "task"), (40, "instruction")])
def test_size_is_known_before_writing(tmp_path, count, level):
    run = synthetic_run(count, instructions=level == "instruction")
    estimate = estimate_trace(run, level=level)
    written = write_trace(run, tmp_path / "trace.json", level=level)
    assert written.estimate == estimate
    assert written.bytes == (tmp_path / "trace.json").stat().st_size
    assert 0.6 < written.bytes / estimate.bytes < 1.5
    assert estimate.advice == ""


def test_large_traces_come_with_advice():
    run = synthetic_run(40, instructions=True)

    def advice(cores: int) -> str:
        shared = tuple(range(cores))
        many = tuple(replace(record, cores=shared) for record in run.trace.instructions)
        return estimate_trace(
            replace(run, trace=replace(run.trace, instructions=many)), level="instruction"
        ).advice

    assert advice(2) == ""
    assert "write .json.gz" in advice(1_000)
    assert "Insight will not open it" in advice(10_000)


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_equal_runs_give_equal_bytes(tmp_path, name):
    first = write_trace(synthetic_run(20), tmp_path / name).path.read_bytes()
    second = write_trace(synthetic_run(20), tmp_path / name).path.read_bytes()
    assert first == second
    text = gzip.decompress(first) if name.endswith("gz") else first
    assert json.loads(text) == chrome_trace(synthetic_run(20))


def test_trace_text(golden):
    golden("profiling/trace_5_tasks.json", trace_text(chrome_trace(synthetic_run(5))))
