"""A profile as a Chrome trace: the host's lane, steps, graph breaks and graphs, and below them the tasks as
every trace of a run has them.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

from ascendsim.core.files import write_whole
from ascendsim.profiling.chrome_trace import (
    HOST_PID,
    chrome_trace,
    process_events,
    thread_events,
    trace_text,
)
from ascendsim.torch.schedule import ALL, Activities, ProfilerActivity
from ascendsim.torch.timeline import Placed, Timeline

Event = dict[str, Any]

GRAPHS_PID = 5
_PYTHON, _STEPS, _BREAKS = (HOST_PID * 100_000 + number for number in (1, 2, 3))  # 0 has the tasks' launches
_GRAPHS = GRAPHS_PID * 100_000


def profile_trace(timeline: Timeline, name: str = "profile", activities: Activities = ALL) -> dict[str, Any]:
    """The trace as the object that a .json file holds.

    Args:
        timeline: Of the recording.
        name: Of the profile.
        activities: Whose lanes there are; steps and graph breaks are always there.
    """
    device = ProfilerActivity.NPU in activities
    events = [*_host(timeline, ProfilerActivity.CPU in activities), *(_graphs(timeline) if device else ())]
    if activities == ALL:
        events += _arrows(timeline)
    if device:
        traces = {id(graph.run): chrome_trace(graph.run.result.profile) for graph in timeline.graphs}
        events += _tasks(timeline, {key: trace["traceEvents"] for key, trace in traces.items()})
    soc = timeline.soc
    return {
        "schemaVersion": 1,
        "displayTimeUnit": "ns",
        "profilingType": "op",
        "otherData": {
            "model": name,
            "soc": "" if soc is None else soc.name,
            "duration_us": timeline.end / 1000,
            "steps": len(timeline.steps),
            "assumed": "" if soc is None else " ".join(sorted(soc.assumed)),
        },
        "traceEvents": events,
    }


def write_profile(timeline: Timeline, path: str | PathLike[str], activities: Activities = ALL) -> Path:
    """Writes the trace as .json, or compressed if the name ends with .gz.

    Raises:
        InputError: If the file cannot be written.
    """
    text = trace_text(profile_trace(timeline, activities=activities)).encode()
    target = Path(path)
    if target.suffix == ".gz":
        text = gzip.compress(text, compresslevel=6, mtime=0)
    write_whole(target, text)
    return target


def _slice(pid: int, tid: int, name: str, category: str, ns: tuple[int, int], args: Event) -> Event:
    start, end = ns
    common = {"ph": "X", "pid": pid, "tid": tid, "name": name, "cat": category}
    return {**common, "ts": start / 1000, "dur": (end - start) / 1000, "args": args}


def _host(timeline: Timeline, python: bool) -> Iterable[Event]:
    yield from process_events(HOST_PID, "Host", -1)
    for tid, name in ((_PYTHON, "Python"), (_STEPS, "Steps"), (_BREAKS, "Graph breaks")):
        yield from thread_events(HOST_PID, tid, name)
    for span in timeline.host if python else ():
        args: Event = {"step": timeline.steps[span.step].number}
        if span.shapes:
            args["input_shapes"] = "; ".join("x".join(map(str, shape)) for shape in span.shapes)
        if span.line:
            args["Call stack"] = span.line
        yield _slice(HOST_PID, _PYTHON, span.name, span.kind, (span.start, span.end), args)
    for step in timeline.steps:
        name = f"ProfilerStep#{step.number}"
        yield _slice(HOST_PID, _STEPS, name, "step", (step.start, step.end), {})
    for one in timeline.breaks:
        common = {"ph": "i", "s": "t", "pid": HOST_PID, "tid": _BREAKS, "cat": "graph break"}
        args = {"reason": one.behind.reason, "line": one.behind.line}
        yield {**common, "name": "graph break", "ts": one.at / 1000, "args": args}


def _graphs(timeline: Timeline) -> Iterable[Event]:
    """One slice a call of a graph."""
    yield from process_events(GRAPHS_PID, "Graphs", 0)
    yield from thread_events(GRAPHS_PID, _GRAPHS, "Graphs")
    numbers: dict[int, int] = {}
    for graph in timeline.graphs:
        number = numbers.setdefault(id(graph.run), len(numbers) + 1)
        args = {"step": timeline.steps[graph.step].number, "graph": number}
        span = (graph.start, graph.end)
        yield _slice(GRAPHS_PID, _GRAPHS, graph.run.kind, graph.run.kind, span, args)


def _arrows(timeline: Timeline) -> Iterable[Event]:
    """One from each launch to its graph."""
    launches = [span for span in timeline.host if span.kind == "launch"]
    for number, (launch, graph) in enumerate(zip(launches, timeline.graphs, strict=True), 1):
        leave = max(min(launch.end - 1, graph.start), launch.start)
        common = {"cat": "launch", "name": "launch", "id": number}
        yield {"ph": "s", **common, "pid": HOST_PID, "tid": _PYTHON, "ts": leave / 1000}
        yield {
            "ph": "f",
            "bp": "e",
            **common,
            "pid": GRAPHS_PID,
            "tid": _GRAPHS,
            "ts": graph.start / 1000,
        }


def _tasks(timeline: Timeline, traces: dict[int, list[Event]]) -> Iterable[Event]:
    """The traces of the graphs, each at its place; lanes are named once."""
    named: set[tuple[Any, ...]] = set()
    flows = len(timeline.graphs)
    for graph in timeline.graphs:
        most = flows
        for event in traces[id(graph.run)]:
            if event["ph"] == "M":
                key = (event["name"], event["pid"], event["tid"])
                if key not in named and key != ("process_name", HOST_PID, 0):
                    named.add(key)
                    yield event
                continue
            moved = _moved(event, graph)
            if "id" in event:
                moved["id"] = flows + event["id"]
                most = max(most, moved["id"])
            yield moved
        flows = most


def _moved(event: Event, graph: Placed) -> Event:
    """An event as many nanoseconds later as its graph starts."""
    ns = round(1000 * event["ts"]) + graph.start
    return {**event, "ts": ns / 1000}
