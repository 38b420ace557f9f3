"""Perfetto's trace processor loads our traces without an error and finds what was emitted."""

from __future__ import annotations

import json
import re
from collections import defaultdict

import pytest

import ascendsim as asim
from ascendsim.profiling import write_trace
from ascendsim.profiling.export import Capture, export_run, msprof_timeline
from ascendsim.profiling.metrics import PIPE_NAMES
from tests.support.exported import host_launched
from tests.support.perfetto import ERRORS, query
from tests.support.synthetic_run import synthetic_run

BUSY = (
    "select process.name, thread.name, count(*), sum(slice.dur) from slice join thread_track on "
    "slice.track_id = thread_track.id "
    "join thread using (utid) join process using (upid) group by utid order by 1, 2"
)


def emitted(trace):
    """Rows that BUSY must give: by process and thread name, the slices and their nanoseconds."""
    names, totals = {}, defaultdict(lambda: [0, 0])
    for event in trace["traceEvents"]:
        if event["ph"] == "M" and event["name"] in ("process_name", "thread_name"):
            names[event["name"], event["pid"], event["tid"]] = event["args"]["name"]
        if event["ph"] == "X":
            key = (names["process_name", event["pid"], 0], names["thread_name", event["pid"], event["tid"]])
            totals[key][0] += 1
            totals[key][1] += round(event["dur"] * 1000)
    return sorted([*key, *value] for key, value in totals.items())


@pytest.mark.parametrize(
    ("count", "level", "name"), [(60, "instruction", "trace.json"), (500, "task", "trace.json.gz")]
)
def test_trace_processor_finds_every_slice_flow_and_counter(tmp_path, count, level, name):
    run = synthetic_run(count, instructions=level == "instruction")
    written = write_trace(run, tmp_path / name, level=level)
    if name.endswith("gz"):
        trace = json.loads(write_trace(run, tmp_path / "plain.json", level=level).path.read_bytes())
    else:
        trace = json.loads(written.path.read_bytes())
    errors, busy, flows, counters = query(
        written.path, ERRORS, BUSY, "select count(*) from flow", "select count(*) from counter"
    )
    assert errors == []
    assert sorted(busy) == emitted(trace)
    events = trace["traceEvents"]
    assert flows == [[sum(event["ph"] == "s" for event in events)]]
    assert counters == [[sum(event["ph"] == "C" for event in events)]]


def test_stream_threads_are_busy_as_long_as_their_tasks(tmp_path):
    run = synthetic_run(60)
    path = write_trace(run, tmp_path / "trace.json").path
    errors, busy = query(path, ERRORS, BUSY)
    assert errors == []
    by_thread = {row[1]: row[3] for row in busy if row[0] == "Streams"}
    for stream in (0, 1):
        members = [record for record in run.trace.tasks if record.stream == stream]
        expected = sum(run.us(record.end - record.start) for record in members) * 1000
        assert by_thread[f"Stream {stream}"] == pytest.approx(expected, abs=len(members))


@pytest.mark.parametrize("chip", [pytest.param("Ascend310", marks=pytest.mark.slow), "Ascend910B1"])
def test_pipes_of_a_simulated_network_are_busy_as_long_as_its_tasks_say(tmp_path, models_dir, chip):
    model = asim.compile(asim.load(models_dir / "lenet5.onnx"), soc=chip)
    result = asim.simulate(model, instructions=True)
    written = write_trace(result.profile, tmp_path / "trace.json", level="instruction")
    errors, busy = query(written.path, ERRORS, BUSY)
    assert errors == []
    assert sorted(busy) == emitted(json.loads(written.path.read_bytes()))
    for pipe, name in PIPE_NAMES.items():
        if pipe == "S":  # the scalar unit is also busy issuing, which makes no slices
            continue
        threads = [row for row in busy if "ore " in row[0] and re.fullmatch(rf"{name}(_\d+)?", row[1])]
        expected = result.trace.us(sum(record.busy.get(pipe, 0) for record in result.trace.tasks)) * 1000
        assert sum(row[3] for row in threads) == pytest.approx(expected, abs=sum(row[2] for row in threads))


def test_overlap_is_what_the_processor_counts_as_an_error(tmp_path):
    """The check above can fail: two overlapping slices on one thread are reported."""
    path = tmp_path / "bad.json"
    common = {"ph": "X", "pid": 1, "tid": 2, "name": "x"}
    path.write_text(
        json.dumps({"traceEvents": [{**common, "ts": 0, "dur": 10}, {**common, "ts": 5, "dur": 10}]})
    )
    errors, slices = query(path, ERRORS, "select count(*) from slice")
    assert errors == [["slice_drop_overlapping_complete_event", 1]]
    assert slices == [[1]]


def test_msprof_timeline_loads(tmp_path):
    run = host_launched(synthetic_run(30))
    timeline = msprof_timeline(Capture(run))
    path = tmp_path / "msprof.json"
    path.write_text(json.dumps(timeline))
    errors, slices, flows, counters, names = query(
        path,
        ERRORS,
        "select count(*) from slice",
        "select count(*) from flow",
        "select count(*) from counter",
        "select name from thread where name is not null order by 1",
    )
    assert errors == []
    assert slices == [[sum(event["ph"] == "X" for event in timeline)]]
    assert flows == [[30]]
    assert counters == [[sum(event["ph"] == "C" for event in timeline)]]
    lanes = ["Communication", "Communication(Not Overlapped)", "Computing", "Free"]
    assert names == [[name] for name in [*lanes, "Stream 0", "Stream 1", "Thread 0", "Thread 1"]]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["kineto", "opprof"])
def test_exports_load(tmp_path, form):
    run = host_launched(synthetic_run(30, instructions=True))
    paths = [
        path
        for path in export_run(run, tmp_path, (form,)).files
        if path.suffix == ".json" and path.parent.name in ("simulator", tmp_path.name)
    ]
    (path,) = paths
    events = json.loads(path.read_bytes())["traceEvents"]
    errors, slices, flows = query(path, ERRORS, "select count(*) from slice", "select count(*) from flow")
    assert errors == []
    assert slices == [[sum(event["ph"] == "X" for event in events)]]
    assert flows == [[sum(event["ph"] == "s" for event in events)]]
