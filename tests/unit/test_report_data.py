"""The data of HTML reports: spans, operators, changes and graphs say what the trace says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import pytest

from ascendsim.core.errors import InputError
from ascendsim.core.table import Table
from ascendsim.profiling.view import ProfiledRun
from ascendsim.report import graphs
from ascendsim.report.changes import change_columns
from ascendsim.report.data import SHOWN, run_columns
from ascendsim.report.graphs import graph_columns
from ascendsim.report.page import make_report
from ascendsim.report.payload import payload, unpacked
from ascendsim.report.spans import STEPS_PER_US, span_columns
from ascendsim.trace.records import Trace
from tests.support.reported import EVIL, comparison, renamed, subject
from tests.support.synthetic_run import synthetic_run


def decoded(lane: dict[str, Any]) -> list[tuple[int, float, float]]:
    """(task, start, end) of a lane's spans, in us."""
    starts = list(accumulate(lane["s"]))
    tasks = accumulate(lane["op"])
    return [
        (task, start / STEPS_PER_US, (start + length) / STEPS_PER_US)
        for task, start, length in zip(tasks, starts, lane["d"], strict=True)
    ]


def lanes_named(lanes: list[dict[str, Any]], start: str) -> list[tuple[int, float, float]]:
    return sorted(span for lane in lanes if lane["name"].startswith(start) for span in decoded(lane))


@pytest.mark.parametrize("split", [False, True])
def test_spans_of_streams_are_those_of_the_trace(split: bool) -> None:
    run = synthetic_run(40, split=split, instructions=True)
    found = lanes_named(span_columns(run), "Stream")
    assert [task for task, _, _ in found] == list(range(40))
    for (_, start, end), view in zip(found, run.tasks, strict=True):
        assert (start, end) == pytest.approx((run.us(view.record.start), run.us(view.record.end)), abs=1e-4)


def test_spans_of_a_lane_never_overlap() -> None:
    for lane in span_columns(synthetic_run(60, streams=3, instructions=True)):
        spans = decoded(lane)
        assert all(before[2] <= after[1] for before, after in pairwise(spans))


def test_instructions_are_those_of_the_first_core() -> None:
    run = synthetic_run(12, instructions=True)
    lanes = [lane for lane in span_columns(run) if lane["name"].startswith("Core 0 ")]
    assert not [lane for lane in span_columns(run) if lane["name"].startswith("Core 1")]
    assert sum(len(lane["s"]) for lane in lanes) == len(run.trace.instructions)
    loads = [lane for lane in lanes if "MTE2" in lane["name"]]
    assert len(loads) > 1  # several loads are in flight at a time
    assert {lane["names"][number] for lane in loads for number in lane["n"]} == {"copy GM->L1 16384 B"}


def test_heights_are_busy_shares() -> None:
    run = synthetic_run(12)
    (lane,) = (lane for lane in span_columns(run) if lane["name"] == "Vector")
    heights = dict(zip(accumulate(lane["op"]), lane["h"], strict=True))
    pool = next(index for index, view in enumerate(run.tasks) if view.op_type == "Pooling")
    view = run.tasks[pool]
    assert heights[pool] / 255 == pytest.approx(view.busy("V") / view.duration / 2, abs=0.003)  # two cores


def test_a_window_leaves_out_what_is_outside() -> None:
    run = synthetic_run(60, instructions=True)
    middle = run.tasks[20]
    window = (run.us(middle.record.start), run.us(middle.record.end))
    lanes = span_columns(run, window)
    spans = [span for lane in lanes for span in decoded(lane)]
    assert 20 in {task for task, _, _ in spans}
    assert all(end >= window[0] - 1e-3 and start <= window[1] + 1e-3 for _, start, end in spans)
    assert len(run_columns(subject(run), window)["ops"]["cells"][0]) == 60  # the table stays whole


def test_operators_are_the_tasks_in_order_of_start() -> None:
    run = synthetic_run(24)
    ops = run_columns(subject(run))["ops"]
    cells = dict(zip(ops["columns"], ops["cells"], strict=True))
    assert cells["Name"] == [view.name for view in run.tasks]
    assert sum(cells["Time(us)"]) == pytest.approx(sum(run.us(view.duration) for view in run.tasks), abs=0.02)
    assert sum(cells["Share(%)"]) == pytest.approx(100, abs=0.1)
    on_cpu = cells["Type"].index("NonZero")
    assert (cells["Engine"][on_cpu], cells["DDR(GB/s)"][on_cpu], cells["TFLOP/s"][on_cpu]) == (
        "AI CPU",
        None,
        None,
    )
    assert ops["shown"] == SHOWN == ops["columns"].index("L2(GB/s)")
    assert "Input Shapes" in ops["columns"][ops["shown"] :]


def test_changes_join_fused_tasks_and_add_up() -> None:
    first, other = (result.profile for result in comparison().results.values())
    found = change_columns(first, other)
    difference = other.trace.duration_us - first.trace.duration_us
    assert difference < -1
    for table in ("types", "nodes"):
        assert sum(row[-1] for row in found[table]) + found["rest"][1] == pytest.approx(difference, abs=1e-3)
    (joined,) = (row for row in found["nodes"] if row[0].startswith("conv"))
    assert joined[0] == "conv + relu"
    assert [
        [run.tasks[task].name for task in tasks] for run, tasks in ((first, joined[1]), (other, joined[2]))
    ] == [
        ["conv", "relu"],
        ["conv+relu"],
    ]
    relu = next(row for row in found["types"] if row[0] == "Relu")
    assert relu[1:3] == [1, 0]
    sizes = [abs(row[-1]) for row in found["nodes"]]
    assert sizes == sorted(sizes, reverse=True)


def test_changes_know_what_a_rewritten_operator_stands_for() -> None:
    first, other = synthetic_run(6), renamed(["joined"])
    names = [view.name for view in first.tasks]
    other.graph.topological()[0].origin["source_names"] = tuple(names[:2])
    found = change_columns(first, other)["nodes"]
    assert next(row[:3] for row in found if row[0].startswith(names[0])) == [
        " + ".join(names[:2]),
        [0, 1],
        [0, 1],
    ]
    assert not [row for row in found if "joined" in row[0]]


def test_graphs_mark_what_is_new_and_lead_to_tasks() -> None:
    results = comparison().results
    model, device, _ = graph_columns(
        [
            replace(subject(result.profile, name), source=result.model.source)
            for name, result in results.items()
        ]
    )
    assert (model["name"], device["name"]) == ("model", "device graph of off")
    assert model["names"] == ["conv", "relu", "flat", "sigmoid"]
    state = dict(zip(device["names"], device["state"], strict=True))
    assert state["conv"] == 0
    assert {name for name, new in state.items() if new} == state.keys() - set(model["names"])
    run = results["off"].profile
    assert run.tasks[model["op"][1]].name == "relu"
    assert sorted(layer for layer in model["y"]) == [0, 1, 2, 3]


def test_a_graph_beyond_the_limit_is_not_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    run = synthetic_run(13)
    monkeypatch.setattr(graphs, "MOST_NODES", 12)
    (model, device) = graph_columns([subject(run)])
    assert "13 nodes, more than 12" in model["refused"]
    assert "x" not in device


def test_figures_that_are_assumed_come_first() -> None:
    data = payload("title", [subject(synthetic_run(5))])
    (rows,) = data["provenance"]["chips"].values()
    origins = [row[3] for row in rows]
    assert origins[:2] == ["assumed", "assumed"]
    assert set(origins[2:]) == {""}
    assert {rows[0][0], rows[1][0]} == {"launch.task_gap_us", "l2.read_latency_cycles"}


def test_figures_say_what_they_could_change() -> None:
    columns = ("Figure", "Low", "Change at low(%)", "Change at high(%)")
    weighed = Table(
        "sensitivity",
        columns,
        (("l2.read_latency_cycles", 1, -0.5, 3.00004), ("vector.cycles_per_repeat.*", 1, 2.0, None)),
    )
    data = payload("title", [subject(synthetic_run(5))], sensitivity=weighed)["provenance"]
    assert data["columns"] == ["Figure", "Value", "Unit", "Origin", *columns[2:], "Source"]
    (rows,) = data["chips"].values()
    assert rows[0][0] == "l2.read_latency_cycles"  # of the two assumed ones that which changes more
    assert rows[0][3:6] == ["assumed", -0.5, 3.0]
    assert rows[1][0] == "launch.task_gap_us"
    assert rows[1][4:6] == [None, None]
    entries = [row for row in rows if row[0].startswith("vector.cycles_per_repeat.")]
    assert entries
    assert all(row[4:6] == [2.0, None] for row in entries)  # a table moves as one
    with pytest.raises(InputError, match="sensitivity must be the table of a sensitivity, not findings"):
        payload("title", [subject(synthetic_run(5))], sensitivity=Table("findings", ("Figure",), ()))


def test_names_cannot_break_out_and_come_back_whole() -> None:
    run = renamed(EVIL)
    html = make_report(run.graph.name, [subject(run, EVIL[0])]).html
    assert html.count("</script>") == 2  # those of the page itself
    assert "<img" not in html
    text = re.search(r'id="payload">([^<]*)<', html)
    assert text is not None
    data = unpacked(text[1])
    assert data["runs"][0]["ops"]["cells"][0] == [view.name for view in run.tasks]
    assert set(EVIL) < set(data["runs"][0]["ops"]["cells"][0])
    assert data["runs"][0]["name"] == EVIL[0]


@pytest.mark.parametrize("count", [0, 1])
def test_runs_of_nothing_and_of_one_task(count: int) -> None:
    data = payload("few", [subject(synthetic_run(count))] * 2)
    assert [len(cells) for cells in data["runs"][0]["ops"]["cells"]] == [count] * len(
        data["runs"][0]["ops"]["columns"]
    )
    assert data["changes"][0]["whole"] == 0
    json.dumps(data, allow_nan=False)


def stretched(run: ProfiledRun, start: int, end: int) -> ProfiledRun:
    """The run with all tasks between two ticks."""
    records = tuple(replace(record, start=start, end=end, ready=start) for record in run.trace.tasks)
    trace = run.trace
    return replace(run, trace=Trace(trace.tick_seconds, trace.core_ticks, records, (), end))


def test_tasks_without_length_and_very_long_ones() -> None:
    run = synthetic_run(3)
    nothing = stretched(run, 6800, 6800)
    assert [span[1:] for span in lanes_named(span_columns(nothing), "Stream")] == [(1.0, 1.0)] * 3
    long = stretched(run, 0, 6_800 * 10**9)
    assert {span[2] for span in lanes_named(span_columns(long), "Stream")} == {1e9}
    json.dumps(payload("both", [subject(nothing), subject(long)]), allow_nan=False)


def listed(data: object, path: str = "") -> Iterator[str]:
    """One line a list of plain cells, by its place."""
    parts = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    if not parts or (isinstance(data, list) and not any(isinstance(part, (dict, list)) for part in data)):
        yield f"{path}: {json.dumps(data)}"
        return
    for name, part in parts:
        yield from listed(part, f"{path}/{name}")


def test_the_data_of_a_small_run(golden: Callable[[str, str], None]) -> None:
    data = payload("small", [subject(synthetic_run(3))])
    assert data.pop("provenance")  # follows the version and the chip's figures
    golden("report/payload_3_tasks.txt", "\n".join(listed(data)) + "\n")
