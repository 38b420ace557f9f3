"""Chrome trace (JSON) of a run, for Perfetto and MindStudio Insight.

Processes are "Host" (where it launches task by task), "Streams" (one thread a stream), "AI CPU", "AI
Cores" (counters), "Ctrl CPU" and "DVPP" where they prepare images (one thread a thread or channel), and
with level="instruction" one process a core with one thread a pipe. What Perfetto's trace processor
demands is kept: no two events of a thread overlap (sub-lanes such as "MTE2_2" open where they would),
time starts at 0 with three decimals of a microsecond, flows start and end inside slices. Exact cycles are
in the arguments, since cycles shorter than a nanosecond vanish in the time stamps.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from ascendsim.core.arguments import checked
from ascendsim.core.errors import InputError
from ascendsim.core.files import write_whole
from ascendsim.isa.program import TaskKind
from ascendsim.profiling.kinds import kind_of
from ascendsim.profiling.lanes import sub_lanes
from ascendsim.profiling.metrics import PIPE_NAMES, core_name, pipe_shares, task_metrics
from ascendsim.profiling.select import Window, check_window, select
from ascendsim.profiling.view import ProfiledRun, TaskView
from ascendsim.trace.records import InstructionRecord

Level = Literal["task", "instruction"]
Event = dict[str, Any]

STREAMS_PID, AI_CPU_PID, COUNTERS_PID, HOST_PID, CORES_PID = 1, 2, 3, 4, 10
_IMAGE_PIDS = {TaskKind.CTRL_CPU: 6, TaskKind.DVPP: 7}  # 5 has the graphs of PyTorch's programs
# by process of tasks: its name, its threads', and its place
_PROCESSES = {
    STREAMS_PID: ("Streams", "Stream", 0),
    _IMAGE_PIDS[TaskKind.CTRL_CPU]: ("Ctrl CPU", "Ctrl CPU", -1),
    _IMAGE_PIDS[TaskKind.DVPP]: ("DVPP", "DVPP", -1),
}
LARGE_BYTES = 100 * 1000 * 1000  # viewers in a browser become slow above this size
INSIGHT_BYTES = 1 << 30  # MindStudio Insight opens no larger JSON
# measured: bytes of one task (slice, counters, arguments) and of one instruction
_TASK_BYTES, _INSTRUCTION_BYTES = (1500, 170)


@dataclass(frozen=True, slots=True)
class TraceSize:
    """How large a trace is going to be.

    Attributes:
        events: Slices, about.
        bytes: Bytes of the JSON file, about.
        advice: What to do about it, "" if it is small enough for every viewer.
    """

    events: int
    bytes: int
    advice: str


@dataclass(frozen=True, slots=True)
class TraceFile:
    """A trace that was written.

    Attributes:
        path: The file.
        events: Entries of traceEvents.
        bytes: Size of the file.
        estimate: What was expected before writing.
    """

    path: Path
    events: int
    bytes: int
    estimate: TraceSize


def estimate_trace(
    run: ProfiledRun,
    *,
    level: Level = "task",
    window: Window | None = None,
    operators: str | Iterable[str] | None = None,
) -> TraceSize:
    """The size of a trace, before it is made. Arguments as in `chrome_trace`."""
    views = select(run, window, operators)
    slices = 0
    if _check_level(level) == "instruction":
        slices = sum(len(record.cores) for record in _instructions(run, views, window))
    size = len(views) * _TASK_BYTES + slices * _INSTRUCTION_BYTES
    advice = ""
    if size > INSIGHT_BYTES:
        advice = "larger than 1 GB: MindStudio Insight will not open it; narrow it with window= or operators="
    elif size > LARGE_BYTES:
        advice = (
            f"larger than {LARGE_BYTES // 10**6} MB: write .json.gz, or narrow it with window= or operators="
        )
    return TraceSize(len(views) + slices, size, advice)


def chrome_trace(
    run: ProfiledRun,
    *,
    level: Level = "task",
    window: Window | None = None,
    operators: str | Iterable[str] | None = None,
) -> dict[str, Any]:
    """The trace as the object that a .json file holds.

    Args:
        run: The run.
        level: "task" = one slice a task; "instruction" adds one slice an instruction, core and pipe, where
            the run recorded them.
        window: Only what overlaps (start, end), in us.
        operators: Only tasks of these names, name patterns or operator types.

    Raises:
        InputError: If an argument is not usable, or instructions are wanted of a run that recorded none.
    """
    views = select(run, window, operators)
    events = [
        *_host_events(run, views),
        *_stream_events(run, views),
        *_flow_events(run, views),
        *_counter_events(run, views),
    ]
    if _check_level(level) == "instruction":
        events.extend(_core_events(run, _instructions(run, views, window)))
    soc = run.soc
    return {
        "schemaVersion": 1,
        "displayTimeUnit": "ns",
        "profilingType": "op",  # MindStudio Insight looks for it before the first list
        "otherData": {
            "model": run.graph.name,
            "soc": soc.name,
            "clock_mhz": soc.frequency_mhz,
            "duration_us": run.trace.duration_us,
            "cycles": run.trace.cycles,
            "assumed": " ".join(sorted(soc.assumed)),
        },
        "traceEvents": events,
    }


@checked()
def write_trace(
    run: ProfiledRun,
    path: str | PathLike[str],
    *,
    level: Level = "task",
    window: Window | None = None,
    operators: str | Iterable[str] | None = None,
) -> TraceFile:
    """Writes the trace as .json, or compressed if the name ends with .gz. Equal runs give equal bytes.

    Args:
        run: The run.
        path: File to write, whole or not at all.
        level: As in `chrome_trace`.
        window: As in `chrome_trace`.
        operators: As in `chrome_trace`.

    Raises:
        InputError: As in `chrome_trace`.
        InputError: If the file cannot be written.
    """
    estimate = estimate_trace(run, level=level, window=window, operators=operators)
    trace = chrome_trace(run, level=level, window=window, operators=operators)
    text = trace_text(trace).encode()
    target = Path(path)
    if target.suffix == ".gz":
        text = gzip.compress(text, compresslevel=6, mtime=0)
    write_whole(target, text)
    return TraceFile(target, len(trace["traceEvents"]), len(text), estimate)


def trace_text(trace: dict[str, Any]) -> str:
    """JSON text with one event a line: small, and readable with `grep` and `diff`."""
    head = {key: value for key, value in trace.items() if key != "traceEvents"}
    lines = ",\n".join(
        json.dumps(event, separators=(",", ":"), ensure_ascii=False) for event in trace["traceEvents"]
    )
    return (
        json.dumps(head, separators=(",", ":"), ensure_ascii=False)[:-1]
        + ',"traceEvents":[\n'
        + lines
        + "\n]}\n"
    )


def process_events(pid: int, name: str, sort_index: int) -> list[Event]:
    """Metadata that names a process and puts it in order."""
    return [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}},
        {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": sort_index}},
    ]


def thread_events(pid: int, tid: int, name: str) -> list[Event]:
    """Metadata that names a thread and puts it in order of its number."""
    return [
        {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}},
        {"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": {"sort_index": tid}},
    ]


def _check_level(level: str) -> str:
    if level not in ("task", "instruction"):
        raise InputError("option level", 'must be "task" or "instruction"', repr(level))
    return level


def _instructions(
    run: ProfiledRun, views: Sequence[TaskView], window: Window | None
) -> list[InstructionRecord]:
    if not run.trace.instructions:
        raise InputError(
            'level="instruction"',
            "needs a run that recorded instructions",
            remedy="simulate with instructions=True",
        )
    wanted = {view.id for view in views}
    start, end = (float("-inf"), float("inf")) if window is None else check_window(window)
    return [
        r
        for r in run.trace.instructions
        if r.task in wanted and run.us(r.end) >= start and run.us(r.start) <= end
    ]


def _pid(view: TaskView) -> int:
    """The process in which a task has its slice."""
    return _IMAGE_PIDS.get(view.task.kind, STREAMS_PID)


def _stream_tid(pid: int, stream: int, lane: int) -> int:
    return pid * 100_000 + stream * 100 + lane


def _lanes_of(run: ProfiledRun, views: Sequence[TaskView]) -> list[int]:
    return sub_lanes([(run.ns(view.record.start), run.ns(view.record.end)) for view in views])


def _placed(run: ProfiledRun, views: Sequence[TaskView]) -> list[tuple[TaskView, int]]:
    """Tasks with the thread of their stream."""
    streams: dict[int, list[TaskView]] = {}
    for view in views:
        streams.setdefault(view.record.stream, []).append(view)
    placed = [
        (view, _stream_tid(_pid(view), stream, lane))
        for stream, members in sorted(streams.items())
        for view, lane in zip(members, _lanes_of(run, members), strict=True)
    ]
    return sorted(placed, key=lambda item: (item[0].record.start, item[0].id))


def _stream_events(run: ProfiledRun, views: Sequence[TaskView]) -> list[Event]:
    placed = _placed(run, views)
    events = []
    for pid, (process, thread, place) in _PROCESSES.items():
        threads = sorted({tid for view, tid in placed if _pid(view) == pid})
        if threads or pid == STREAMS_PID:
            events += process_events(pid, process, place)
        for number, tid in enumerate(threads):
            stream, lane = divmod(tid - _stream_tid(pid, 0, 0), 100)
            shown = f"{thread} {stream if pid == STREAMS_PID else number}"
            events += thread_events(pid, tid, shown + (f" ({lane + 1})" if lane else ""))
    slices = [
        _slice(
            run,
            _pid(view),
            tid,
            view.name,
            category=kind_of(view),
            record=view.record,
            args=_task_args(run, view),
        )
        for view, tid in placed
    ]
    on_cpu = [view for view in views if view.on_ai_cpu]
    if on_cpu:
        events += process_events(AI_CPU_PID, "AI CPU", 1)
        lanes = _lanes_of(run, on_cpu)
        for lane in range(max(lanes) + 1):
            events += thread_events(AI_CPU_PID, AI_CPU_PID * 100_000 + lane, f"AI CPU {lane}")
        for view, lane in zip(on_cpu, lanes, strict=True):
            slices.append(
                _slice(
                    run,
                    AI_CPU_PID,
                    AI_CPU_PID * 100_000 + lane,
                    view.name,
                    category=kind_of(view),
                    record=view.record,
                    args={"task": view.id},
                )
            )
    return events + slices


def _host_events(run: ProfiledRun, views: Sequence[TaskView]) -> list[Event]:
    launched = sorted(
        (view for view in views if view.record.launch_end >= 0),
        key=lambda view: (view.record.launch_start, view.id),
    )
    if not launched:
        return []
    tid = HOST_PID * 100_000
    slices = []
    for view in launched:
        start, end = run.ns(view.record.launch_start), run.ns(view.record.launch_end)
        slices.append(_slice_between(HOST_PID, tid, view.name, "launch", (start, end), {"task": view.id}))
    return [*process_events(HOST_PID, "Host", -1), *thread_events(HOST_PID, tid, "Launches"), *slices]


def _slice(
    run: ProfiledRun, pid: int, tid: int, name: str, *, category: str, record: Any, args: Event
) -> Event:
    return _slice_between(pid, tid, name, category, (run.ns(record.start), run.ns(record.end)), args)


def _slice_between(pid: int, tid: int, name: str, category: str, ns: tuple[int, int], args: Event) -> Event:
    return {
        "ph": "X",
        "pid": pid,
        "tid": tid,
        "name": name,
        "cat": category,
        "ts": ns[0] / 1000,
        "dur": (ns[1] - ns[0]) / 1000,
        "args": args,
    }


def _task_args(run: ProfiledRun, view: TaskView) -> Event:
    record = view.record
    args: Event = {
        "task": view.id,
        "type": view.op_type,
        "engine": view.task.kind.value,
        "start_cycle": record.start // run.trace.core_ticks,
        "cycles": run.cycles(view.duration),
        "blocks": record.blocks,
        "rounds": record.rounds,
        "bound_by": task_metrics(run, view).bound,
        "wait_us": run.ns(record.start - record.ready) / 1000,
    }
    if record.macs:
        args["macs"] = record.macs
    for what, levels in (("read", record.read_bytes), ("write", record.write_bytes)):
        args.update({f"{what}_{level}_bytes": count for level, count in sorted(levels.items()) if count})
    args.update(
        {f"{PIPE_NAMES[pipe]}(%)": round(100 * share, 1) for pipe, share in pipe_shares(run, view).items()}
    )
    shapes = ["x".join(map(str, tensor.shape)) for tensor in view.inputs()[:8] if tensor.shape is not None]
    if shapes:
        args["input_shapes"] = "; ".join(shapes)
    return args


def _flow_events(run: ProfiledRun, views: Sequence[TaskView]) -> list[Event]:
    """One arrow for each stream event: from the last nanosecond of the task awaited to the first of the task
    that waited.
    """
    placed = {view.id: (view, tid) for view, tid in _placed(run, views)}
    events: list[Event] = []
    for view, tid in sorted(placed.values(), key=lambda item: item[0].id):
        for before in view.task.waits_for:
            if before not in placed:
                continue
            source, source_tid = placed[before]
            leave = max(run.ns(source.record.end) - 1, run.ns(source.record.start))
            flow = len(events) // 2 + 1
            common = {"cat": "stream event", "name": "stream event", "id": flow}
            events.append({"ph": "s", **common, "pid": _pid(source), "tid": source_tid, "ts": leave / 1000})
            arrival = {"pid": _pid(view), "tid": tid, "ts": run.ns(view.record.start) / 1000}
            events.append({"ph": "f", "bp": "e", **common, **arrival})
    return events


def _counter_events(run: ProfiledRun, views: Sequence[TaskView]) -> list[Event]:
    """Bandwidth by level and direction, and busy share by pipe: averages over each task, added where tasks
    overlap.
    """
    changes: dict[str, dict[int, float]] = {}
    for view in views:
        start, end = run.ns(view.record.start), run.ns(view.record.end)
        if end <= start:
            continue
        values = {
            f"{PIPE_NAMES[pipe]} busy (%)": 100 * share for pipe, share in pipe_shares(run, view).items()
        }
        for what, levels in (("read", view.record.read_bytes), ("write", view.record.write_bytes)):
            values.update(
                {
                    f"{level.upper()} {what} (GB/s)": count / (end - start)
                    for level, count in levels.items()
                    if count
                }
            )
        for name, value in values.items():
            steps = changes.setdefault(name, {})
            steps[start] = steps.get(start, 0.0) + value
            steps[end] = steps.get(end, 0.0) - value
    events = process_events(COUNTERS_PID, "AI Cores, average over each task", 2) if changes else []
    for name in sorted(changes):
        level, last = 0.0, 0.0
        for time, step in sorted(changes[name].items()):
            level += step
            shown = round(abs(level), 3)
            if shown != last:
                events.append(
                    {
                        "ph": "C",
                        "pid": COUNTERS_PID,
                        "tid": 0,
                        "name": name,
                        "ts": time / 1000,
                        "args": {"value": shown},
                    }
                )
                last = shown
    return events


def _core_events(run: ProfiledRun, records: Sequence[InstructionRecord]) -> list[Event]:
    """One process a core, one thread a pipe, and further ones where instructions of a pipe overlap."""
    names = {view.id: view.name for view in run.tasks}
    by_pipe: dict[tuple[int, str], list[InstructionRecord]] = {}
    for record in records:
        for core in record.cores:
            by_pipe.setdefault((core, record.pipe), []).append(record)
    order = list(PIPE_NAMES)
    events: list[Event] = []
    slices: list[Event] = []
    for core in sorted({core for core, _ in by_pipe}):
        pid = CORES_PID + core
        events += process_events(pid, core_name(run.soc, core), pid)
        for pipe in sorted((p for c, p in by_pipe if c == core), key=order.index):
            members = sorted(by_pipe[core, pipe], key=lambda r: (r.start, r.end, r.task))
            lanes = sub_lanes([(run.ns(r.start), run.ns(r.end)) for r in members])
            first = pid * 100_000 + order.index(pipe) * 1000
            for lane in range(max(lanes) + 1):
                events += thread_events(
                    pid, first + lane, PIPE_NAMES[pipe] + (f"_{lane + 1}" if lane else "")
                )
            for record, lane in zip(members, lanes, strict=True):
                args: Event = {
                    "task": record.task,
                    "operator": names[record.task],
                    "cycles": run.cycles(record.end - record.start),
                }
                if record.bytes:
                    args["bytes"] = record.bytes
                slices.append(
                    _slice(run, pid, first + lane, record.name, category=pipe, record=record, args=args)
                )
    return events + slices
