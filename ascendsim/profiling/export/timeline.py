"""The timeline of msprof_*.json and trace_view.json: a bare list of Chrome events.

A process has the number (process << 10) | (sort index << 5) | device; the host is device 31. Start times are
texts of microseconds since 1970, since no float holds them.
"""

from __future__ import annotations

import json
from typing import Any

from ascendsim.profiling.export import schema
from ascendsim.profiling.export.capture import Capture, readable, us_text
from ascendsim.profiling.export.database import connection
from ascendsim.profiling.lanes import sub_lanes
from ascendsim.profiling.op_summary import MODEL_ID

Event = dict[str, Any]

NO_SUBTASK = 4294967295
_HOST, _DEVICE = 31, 0
_LEVELS = {"ddr": ("DDR", 20), "l2": ("L2", 21)}  # name and sort index of counters


def process_number(sort_index: int, device: int = _DEVICE) -> int:
    """The number of the one process of a sort index."""
    return (1 << 10) | (sort_index << 5) | device


HARDWARE, OVERLAP, CANN = process_number(14), process_number(17), process_number(7, _HOST)


def msprof_timeline(capture: Capture) -> list[Event]:
    """Tasks by stream, what the device did altogether, launches of the host, and bytes moved."""
    return [
        *_hardware(capture),
        *_overlap(capture),
        *_launches(capture),
        *[event for level in _LEVELS for event in _counters(capture, level)],
    ]


def timeline_text(capture: Capture) -> bytes:
    """The timeline as the file has it."""
    return json.dumps(msprof_timeline(capture), separators=(",", ":")).encode()


def _process(pid: int, name: str, label: str, sort_index: int) -> list[Event]:
    return [
        _metadata(pid, "process_name", 0, name=name),
        _metadata(pid, "process_labels", 0, labels=label),
        _metadata(pid, "process_sort_index", 0, sort_index=sort_index),
    ]


def _thread(pid: int, tid: int, name: str) -> list[Event]:
    return [
        _metadata(pid, "thread_name", tid, name=name),
        _metadata(pid, "thread_sort_index", tid, sort_index=tid),
    ]


def _metadata(pid: int, what: str, tid: int, **args: str | int) -> Event:
    return {"name": what, "pid": pid, "tid": tid, "args": args, "ph": "M"}


def _slice(pid: int, tid: int, name: str, span: tuple[int, int], args: Event) -> Event:
    start, end = span
    place = {"pid": pid, "tid": tid, "ts": us_text(start), "dur": (end - start) / 1000}
    return {"name": readable(name), **place, "args": args, "ph": "X"}


def _hardware(capture: Capture) -> list[Event]:
    events = _process(HARDWARE, "Ascend Hardware", "NPU", 14)
    for stream in sorted({view.record.stream for view in capture.run.tasks}):
        events += _thread(HARDWARE, stream, f"Stream {stream}")
    for view in capture.run.tasks:
        args = {
            "Model Id": MODEL_ID,
            "Task Type": view.task.kind.value,
            "Physic Stream Id": view.record.stream,
            "Task Id": view.id,
            "Batch Id": 0,
            "Subtask Id": NO_SUBTASK,
            "connection_id": connection(view),
        }
        events.append(_slice(HARDWARE, view.record.stream, view.name, capture.span(view), args))
    return events


def _overlap(capture: Capture) -> list[Event]:
    """The process "Overlap Analysis", in which readers look up how long the device computed."""
    events = _process(OVERLAP, "Overlap Analysis", "NPU", 17)
    for tid, (name, intervals) in enumerate(zip(schema.OVERLAP_TYPES, capture.overlap, strict=True)):
        events += _thread(OVERLAP, tid, name)
        events += [_slice(OVERLAP, tid, name, span, {"analysis_type": name}) for span in intervals]
    return events


def _launches(capture: Capture) -> list[Event]:
    """What the host launches, with arrows to the tasks; nothing if the device launches by itself."""
    launched = [(span, view) for view in capture.run.tasks if (span := capture.launch(view)) is not None]
    if not launched:
        return []
    events = [*_process(CANN, "CANN", "CPU", 7)]
    lanes = sub_lanes([span for span, _ in launched])
    for lane in range(max(lanes) + 1):
        events += _thread(CANN, lane, f"Thread {lane}")
    for (span, view), lane in zip(launched, lanes, strict=True):
        joined = connection(view)
        args = {"connection_id": joined, "item_id": readable(view.op_type), "level": "node"}
        events.append(_slice(CANN, lane, "Node@launch", span, args))
        arrow = {"cat": "HostToDevice", "name": f"HostToDevice{joined}", "id": str(joined)}
        events.append({**arrow, "ph": "s", "pid": CANN, "tid": lane, "ts": us_text(span[0])})
        end = {"pid": HARDWARE, "tid": view.record.stream, "ts": us_text(capture.span(view)[0])}
        events.append({**arrow, "ph": "f", "bp": "e", **end})
    return events


def _counters(capture: Capture, level: str) -> list[Event]:
    """Megabytes a second at a level of memory: averages over each task, added where tasks overlap."""
    name, sort_index = _LEVELS[level]
    pid = process_number(sort_index)
    events: list[Event] = []
    for what in ("Read", "Write"):
        changes: dict[int, float] = {}
        for view in capture.run.tasks:
            start, end = capture.span(view)
            moved = view.record.read_bytes if what == "Read" else view.record.write_bytes
            if moved.get(level) and end > start:
                rate = moved[level] / (end - start) * 1000  # bytes a ns = 1000 MB a second
                changes[start] = changes.get(start, 0.0) + rate
                changes[end] = changes.get(end, 0.0) - rate
        now = 0.0
        for time in sorted(changes):
            now += changes[time]
            shown = {f"{what}(MB/s)": round(abs(now), 3)}
            place = {"pid": pid, "tid": 0, "ts": us_text(time)}
            events.append({"name": f"{name} 0/{what}", **place, "args": shown, "ph": "C"})
    return [*_process(pid, name, "NPU", sort_index), *events] if events else []
