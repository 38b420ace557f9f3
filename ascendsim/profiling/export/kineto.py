"""The trace that PyTorch's own profiler (Kineto) writes: for TensorBoard, Holistic Trace Analysis, TraceLens.

These readers join three events by number: the operator that the program called, its launch, and the kernel on
the device. Where the device launches by itself there is no call, so that operator and launch get the time of
the task: nothing of a host is made up.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ascendsim.core.files import write_whole
from ascendsim.graph.ir import Tensor
from ascendsim.profiling.export.ascend_pt import file_stem
from ascendsim.profiling.export.capture import Capture, readable
from ascendsim.profiling.export.database import RANK, connection
from ascendsim.profiling.export.modules import Window, windows
from ascendsim.profiling.lanes import sub_lanes

Event = dict[str, Any]

HOST_PID, DEVICE_PID = 1, 0
_STEP_ID = 2**31 - 1  # "External id" of the step, beyond those of tasks
_LANES = 1000  # threads that a stream may have
# our types -> names of PyTorch's
_TYPES = {
    "FLOAT16": "c10::Half",
    "BF16": "c10::BFloat16",
    "FLOAT": "float",
    "DOUBLE": "double",
    "INT8": "signed char",
    "UINT8": "unsigned char",
    "INT16": "short",
    "INT32": "int",
    "INT64": "long int",
    "BOOL": "bool",
}


def kineto_trace(capture: Capture) -> dict[str, Any]:
    """The trace as one object; times are microseconds from the start of the run, which `baseTimeNanoseconds`
    puts into the epoch.
    """
    soc = capture.run.soc
    device = {"id": 0, "name": soc.name, "numSms": soc.ai_cores, "totalGlobalMem": 0}
    return {
        "schemaVersion": 1,
        "deviceProperties": [device],
        "distributedInfo": {"backend": "hccl", "rank": RANK, "world_size": 1},
        "displayTimeUnit": "ns",
        "baseTimeNanoseconds": capture.base,
        "traceEvents": _events(capture),
    }


def write_kineto(capture: Capture, folder: Path) -> tuple[Path, ...]:
    """Writes <name>.pt.trace.json.

    Returns:
        The file.

    Raises:
        InputError: If it cannot be written.
    """
    text = json.dumps(kineto_trace(capture), separators=(",", ":"))
    return (write_whole(folder / f"{file_stem(capture)}.pt.trace.json", text.encode()),)


def _events(capture: Capture) -> list[Event]:
    calls = windows(capture)
    events = [
        _metadata("process_name", HOST_PID, 0, name="python"),
        _metadata("process_labels", HOST_PID, 0, labels="CPU"),
        _metadata("process_name", DEVICE_PID, 0, name=f"NPU 0 ({readable(capture.run.soc.name)})"),
        _metadata("process_labels", DEVICE_PID, 0, labels="GPU 0"),
        _metadata("thread_name", HOST_PID, 1, name="thread 1"),
    ]
    last = max([capture.end, *(call.end for call in calls)])
    step = _slice("user_annotation", "ProfilerStep#1", HOST_PID, 1, (0, last - capture.base))
    events.append({**step, "args": {"External id": _STEP_ID}})
    for call in calls:
        events += _call_events(capture, call)
    threads: dict[int, str] = {}
    streams: dict[int, list[int]] = {}
    for place, view in enumerate(capture.run.tasks):
        streams.setdefault(view.record.stream, []).append(place)
    for stream, places in sorted(streams.items()):
        spans = [capture.span(capture.run.tasks[place]) for place in places]
        for place, span, lane in zip(places, spans, sub_lanes(spans), strict=True):
            tid = stream * _LANES + lane
            threads[tid] = f"stream {stream}" + (f" ({lane + 1})" if lane else "")
            events += _kernel_events(capture, place, tid, span)
    return events + [_metadata("thread_name", DEVICE_PID, tid, name=name) for tid, name in threads.items()]


def _call_events(capture: Capture, call: Window) -> list[Event]:
    """The operator, and its launch within."""
    view, joined = call.view, connection(call.view)
    tensors = view.inputs()
    span = (call.start - capture.base, call.end - capture.base)
    operator = {
        "External id": joined,
        "Input Dims": [list(tensor.static_shape) if tensor.is_static else [] for tensor in tensors],
        "Input type": [_type(tensor) for tensor in tensors],
        "Sequence number": view.id,
        "Fwd thread id": 0,
        "node": readable(view.name),
    }
    launch = {"External id": joined, "correlation": joined, "cbid": 211}
    flow = {"cat": "ac2g", "name": "ac2g", "id": joined, "pid": HOST_PID, "tid": 1}
    return [
        {**_slice("cpu_op", readable(view.op_type), HOST_PID, 1, span), "args": operator},
        {**_slice("cuda_runtime", "cudaLaunchKernel", HOST_PID, 1, span), "args": launch},
        {**flow, "ph": "s", "ts": span[0] / 1000},
    ]


def _kernel_events(capture: Capture, place: int, tid: int, span: tuple[int, int]) -> list[Event]:
    view = capture.run.tasks[place]
    joined = connection(view)
    args = {
        "External id": joined,
        "correlation": joined,
        "device": 0,
        "context": 1,
        "stream": view.record.stream,
        "grid": [view.task.block_dim, 1, 1],
        "block": [1, 1, 1],
        "queued": 0,
    }
    name = readable(f"{view.op_type}:{view.name}")
    start, end = span[0] - capture.base, span[1] - capture.base
    kernel = {**_slice("kernel", name, DEVICE_PID, tid, (start, end)), "args": args}
    flow = {"cat": "ac2g", "name": "ac2g", "id": joined, "pid": DEVICE_PID, "tid": tid}
    return [kernel, {**flow, "ph": "f", "bp": "e", "ts": start / 1000}]


def _slice(category: str, name: str, pid: int, tid: int, span: tuple[int, int]) -> Event:
    start, end = span
    place = {"pid": pid, "tid": tid, "ts": start / 1000, "dur": (end - start) / 1000}
    return {"ph": "X", "cat": category, "name": name, **place}


def _metadata(what: str, pid: int, tid: int, **args: str) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "ts": 0, "args": args}


def _type(tensor: Tensor) -> str:
    return "" if tensor.dtype is None else _TYPES.get(tensor.dtype.cann, tensor.dtype.cann)
