"""Writes a run as the SQLite databases of msprof and of torch_npu's profiler.

Rows come in order of the run, texts are numbered by first use, and all is one transaction in a database in
memory, which becomes a file at one go: equal runs give equal bytes, and no reader sees half a database.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ascendsim.core.errors import InputError
from ascendsim.core.table import Cell
from ascendsim.core.version import __version__
from ascendsim.profiling.export import schema
from ascendsim.profiling.export.capture import Capture, readable
from ascendsim.profiling.export.memory import memory_use
from ascendsim.profiling.export.modules import Window, modules, windows
from ascendsim.profiling.op_summary import DEVICE_ID, MODEL_ID, tensor_cells
from ascendsim.profiling.statistics import KERNEL_TYPES
from ascendsim.profiling.view import TaskView

Rows = Iterable[Sequence[Any]]

PAGE_BYTES = 4096
RANK = 0
HOST = "ascendsim"
THREAD = 1  # the one thread of the host
_RANGE = 2  # MSTX event type start/end
_MODULE_CONNECTION, _FLOPS_CONNECTION = 4_200_000_000, 4_000_000_000  # beyond the numbers of tasks


class Strings:
    """Texts by number, in order of first use."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: Cell) -> int:
        """The number of a text; of "N/A" for None."""
        return self._numbers.setdefault("N/A" if text is None else readable(str(text)), len(self._numbers))

    def rows(self) -> list[tuple[int, str]]:
        return [(number, text) for text, number in self._numbers.items()]


def connection(view: TaskView) -> int:
    """The number that joins a task to its launch; readers take 0 for none."""
    return view.id + 1


def database(tables: Mapping[str, schema.Columns], content: Mapping[str, Rows]) -> bytes:
    """A database file with these tables, those without rows too.

    Raises:
        InputError: If a number is larger than SQLite holds.
    """
    base = sqlite3.connect(":memory:", isolation_level=None)
    try:
        base.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        base.execute("PRAGMA secure_delete = ON")  # no bytes of what memory held before
        base.execute("BEGIN")
        for name, columns in tables.items():
            listed = ", ".join(f"{column} {kind}" for column, kind in columns)
            base.execute(f"CREATE TABLE {name} ({listed})")
            marks = ", ".join("?" for _ in columns)
            base.executemany(f"INSERT INTO {name} VALUES ({marks})", content.get(name, ()))
        base.execute("COMMIT")
        return base.serialize()
    except OverflowError:
        raise InputError("the run", "has a number beyond 2^63, which no database holds") from None
    finally:
        base.close()


def msprof_database(capture: Capture) -> bytes:
    """The database of a PROF folder, msprof_<time>.db."""
    strings, calls = Strings(), windows(capture)
    content = _msprof_rows(capture, strings, calls)
    return database(schema.MSPROF, {**content, "STRING_IDS": strings.rows()})


def torch_database(capture: Capture) -> bytes:
    """The database of a framework's folder, ascend_pytorch_profiler_<rank>.db."""
    strings, calls = Strings(), windows(capture)
    content = {**_msprof_rows(capture, strings, calls), **_torch_rows(capture, strings, calls)}
    return database(schema.TORCH, {**content, "STRING_IDS": strings.rows()})


def analysis_database(capture: Capture) -> bytes:
    """analysis.db of a framework's folder."""
    return database(schema.ANALYSIS, {"StepTraceTime": [(DEVICE_ID, "1", *step_times(capture))]})


def step_times(capture: Capture) -> tuple[float, ...]:
    """Microseconds of the one step: computing, communication that nothing hides, hidden, all of it, idle,
    the stage, and what only several stages have.
    """
    computing, communication, alone, free = capture.overlap_ns
    step = capture.end - capture.base
    times = (computing, alone, communication - alone, communication, free, step, 0, alone, 0)
    return tuple([ns / 1000 for ns in times])


def _msprof_rows(capture: Capture, strings: Strings, calls: Sequence[Window]) -> dict[str, Rows]:
    run, number = capture.run, strings.number
    computing = [view for view in run.tasks if not view.is_communication]
    pmu = [(view.id, number(name), value) for view in computing for name, value in capture.counters(view)]
    overlap = [
        (start, end, kind) for kind, intervals in enumerate(capture.overlap) for start, end in intervals
    ]
    launch = number("launch")
    return {
        "SESSION_TIME_INFO": [(capture.base, capture.end)],
        "NPU_INFO": [(DEVICE_ID, readable(run.soc.name))],
        "RANK_DEVICE_MAP": [(RANK, DEVICE_ID)],
        "HOST_INFO": [(HOST, HOST)],
        "META_DATA": list(schema.VERSION.items()),
        "TASK": [_task_row(capture, strings, view) for view in run.tasks],
        "COMPUTE_TASK_INFO": [_info_row(capture, strings, view) for view in computing],
        "COMMUNICATION_OP": [
            _communication_row(capture, strings, view) for view in run.tasks if view.is_communication
        ],
        "TASK_PMU_INFO": pmu,
        "CANN_API": [
            (call.start, call.end, schema.NODE_API, THREAD, connection(call.view), launch) for call in calls
        ],
        "ENUM_API_TYPE": list(schema.API_TYPES.items()),
        "AICORE_FREQ": [(DEVICE_ID, capture.base, run.soc.frequency_mhz, 0)],
        "OVERLAP_ANALYSIS": [
            (place, DEVICE_ID, start, end, kind) for place, (start, end, kind) in enumerate(overlap)
        ],
        "ENUM_OVERLAP_ANALYSIS_TYPE": list(enumerate(schema.OVERLAP_TYPES)),
        "MSTX_EVENTS": _ranges(capture, strings, calls),
        "ENUM_MSTX_EVENT_TYPE": list(enumerate(schema.MSTX_TYPES)),
    }


def _task_row(capture: Capture, strings: Strings, view: TaskView) -> tuple[int, ...]:
    start, end = capture.span(view)
    kind = strings.number(KERNEL_TYPES[view.task.kind.value])
    stream = view.record.stream
    joined = connection(view)
    return (start, end, DEVICE_ID, joined, view.id, 0, kind, schema.NO_CONTEXT, stream, view.id, MODEL_ID)


def _info_row(capture: Capture, strings: Strings, view: TaskView) -> tuple[int, ...]:
    number = strings.number
    in_shapes, in_types, in_formats, out_shapes, out_types, out_formats = tensor_cells(view)
    tensors = (in_formats, in_types, in_shapes, out_formats, out_types, out_shapes)
    return (
        number(view.name),
        view.id,
        *capture.blocks(view),
        number(view.task.kind.value),
        number(view.op_type),
        *[number(text) for text in tensors],
        *[number(text) for text in (None, "static", "NO")],  # attributes, state, HF32
        0,
        0,
    )


def _communication_row(capture: Capture, strings: Strings, view: TaskView) -> tuple[int | None, ...]:
    start, end = capture.span(view)
    name, kind = strings.number(view.name), strings.number(view.op_type)
    group, algorithm = strings.number(None), strings.number(None)
    unknown = None  # the machine knows the time of a collective, not its type, count or group
    joined = connection(view)
    return (
        name,
        start,
        end,
        joined,
        group,
        view.id,
        0,
        0,
        unknown,
        algorithm,
        unknown,
        kind,
        DEVICE_ID,
        unknown,
    )


def _ranges(capture: Capture, strings: Strings, calls: Sequence[Window]) -> list[tuple[int, ...]]:
    """Ranges of modules, and of the operators that multiply with their floating-point operations."""
    rows: list[tuple[int, ...]] = []

    def add(start: int, end: int, message: str, domain: str, joined: int) -> None:
        ids = strings.number(message), strings.number(domain)
        rows.append((start, end, _RANGE, len(rows), 0, ids[0], THREAD, THREAD, ids[1], joined + len(rows)))

    for module in modules(capture, calls):
        add(module.start, module.end, module.name, "Module", _MODULE_CONNECTION)
    for call in calls:
        if flops := 2 * call.view.record.macs:
            # both ends of such a range count, so that it must not touch the next call
            add(call.start, call.end - 1, f"{flops}-{call.view.op_type}", "mfu_flops", _FLOPS_CONNECTION)
    return rows


def _torch_rows(capture: Capture, strings: Strings, calls: Sequence[Window]) -> dict[str, Rows]:
    number, use = strings.number, memory_use(capture)
    api = []
    for call in calls:
        shapes, types = tensor_cells(call.view)[:2]
        joined, ids = connection(call.view), (number(types), number(shapes))
        name = number(call.view.op_type)
        api.append(
            (call.start, call.end, THREAD, joined, name, call.view.id, 0, *ids, 0, schema.OPERATOR_API)
        )
    component = number("PTA")
    reserved = use.reserved
    return {
        "META_DATA": [*schema.VERSION.items(), ("PYTORCH_VERSION", f"ascendsim {__version__}")],
        "STEP_TIME": [(1, capture.base, capture.end)],
        "PYTORCH_API": api,
        "CONNECTION_IDS": [(connection(call.view), connection(call.view)) for call in calls],
        "MEMORY_RECORD": [
            (component, time, level, reserved, level, 0, DEVICE_ID) for time, level in use.levels
        ],
        "OP_MEMORY": [
            (
                number(item.name),
                item.bytes,
                item.allocated,
                item.released,
                item.released,
                item.released - item.allocated,
                item.released - item.allocated,
                *(item.before, reserved, item.before),
                *(item.after, reserved, item.after),
                0,
                DEVICE_ID,
            )
            for item in use.allocations
        ],
    }
