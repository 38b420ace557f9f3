"""Tables of a profile: steps, operators, averages by name, graph breaks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ascendsim.core.errors import InputError, suggest
from ascendsim.core.table import QUOTED, Row, Table
from ascendsim.profiling.fusion_op import original_operators
from ascendsim.profiling.op_summary import START_COLUMN
from ascendsim.torch.recording import Run
from ascendsim.torch.schedule import ALL, Activities, ProfilerActivity
from ascendsim.torch.timeline import Timeline

KINDS = ("forward", "backward", "optimizer", "inference")
_STEP_COLUMNS = (
    "Step",
    "Time(us)",
    *(f"{kind.capitalize()}(us)" for kind in KINDS),
    "Device Free(us)",
    "Host(us)",
    "Graph Breaks",
)


def step_times(timeline: Timeline) -> Table:
    """One row a step: its time, that of its graphs by kind, time in which the device had nothing to do, time
    in which the host worked (beside the device, for the most part).
    """
    device: Counter[tuple[int, str]] = Counter()  # ns by step and kind
    for graph in timeline.graphs:
        device[graph.step, graph.run.kind] += graph.end - graph.start
    host: Counter[int] = Counter()
    for span in timeline.host:
        if span.kind != "wait":
            host[span.step] += span.end - span.start
    breaks = Counter(one.step for one in timeline.breaks)
    rows: list[Row] = []
    for place, step in enumerate(timeline.steps):
        by_kind = [device[place, kind] for kind in KINDS]
        whole = step.end - step.start
        times = (whole, *by_kind, whole - sum(by_kind), host[place])
        rows.append((step.number, *(ns / 1000 for ns in times), breaks[place]))
    return Table("step_times", _STEP_COLUMNS, tuple(rows))


def runs_of(timeline: Timeline) -> tuple[Run, ...]:
    """The graphs that ran, each once."""
    return tuple({id(graph.run): graph.run for graph in timeline.graphs}.values())


def op_summary(timeline: Timeline, stacks: bool = False) -> Table:
    """One row a task and call, with msprof's columns; Model ID numbers the graphs.

    Args:
        timeline: Of the recording.
        stacks: Adds the user's lines whose calls a task does.
    """
    runs = runs_of(timeline)
    tables = {id(run): _with_lines(run) if stacks else run.result.op_summary() for run in runs}
    if not runs:
        return Table("op_summary", ("Step Id",), ())
    first = tables[id(runs[0])]
    start, model = first.index(START_COLUMN), first.index("Model ID")
    wait = first.index("Task Wait Time(us)")
    number = {id(run): place + 1 for place, run in enumerate(runs)}
    rows: list[Row] = []
    idle_since: int | None = None
    for graph in timeline.graphs:
        for place, row in enumerate(tables[id(graph.run)]):
            cells: list[Any] = list(row)
            cells[start] += graph.start / 1000
            cells[model] = number[id(graph.run)]
            if not place and idle_since is not None:
                cells[wait] = cells[start] - idle_since / 1000
            rows.append((timeline.steps[graph.step].number, *cells))
        idle_since = graph.end
    return replace(first, columns=("Step Id", *first.columns), rows=tuple(rows))


def _with_lines(run: Run) -> Table:
    table, known = run.result.op_summary(), {name: note.line for note in run.notes for name in note.nodes}
    rows = []
    for row, view in zip(table, run.result.profile.tasks, strict=True):
        lines = dict.fromkeys(known[name] for name in original_operators(view) if name in known)
        rows.append((*row, "; ".join(lines)))
    styles = {**table.styles, "Call Stack": QUOTED}
    return replace(table, columns=(*table.columns, "Call Stack"), rows=tuple(rows), styles=styles)


def memory_record(timeline: Timeline) -> Table:
    """How much device memory is in use while each task runs, with the columns of torch_npu's file: a graph
    reserves its arena and its weights for as long as it runs.
    """
    rows: list[Row] = []
    for graph in timeline.graphs:
        report = graph.run.result.memory
        fixed, reserved = report.figures.weights, report.figures.peak
        whole = (fixed + reserved) / 2**20
        for (start, _), live in zip(report.spans, report.figures.live, strict=True):
            at = graph.start / 1000 + start
            rows.append(("GE", at, (fixed + live) / 2**20, whole, whole, "NPU:0"))
        rows.append(("GE", graph.end / 1000, 0.0, 0.0, 0.0, "NPU:0"))
    columns = ("Component", "Timestamp(us)", "Total Allocated(MB)", "Total Reserved(MB)", "Total Active(MB)")
    return Table("memory_record", (*columns, "Device Type"), tuple(rows))


def kernel_details(timeline: Timeline, stacks: bool = False) -> Table:
    """`op_summary` under the names that PyTorch's profile folders have."""
    table = op_summary(timeline, stacks)
    columns = tuple(_KERNEL_NAMES.get(column, column) for column in table.columns)
    styles = {_KERNEL_NAMES.get(column, column): style for column, style in table.styles.items()}
    return replace(table, name="kernel_details", columns=columns, styles=styles)


_KERNEL_NAMES = {
    "Op Name": "Name",
    "OP Type": "Type",
    "Task Type": "Accelerator Core",
    START_COLUMN: "Start Time(us)",
    "Task Duration(us)": "Duration(us)",
    "Task Wait Time(us)": "Wait Time(us)",
}


def step_trace_time(timeline: Timeline) -> Table:
    """One row a step, with the columns of PyTorch's profile folders: computing and free."""
    columns = ("Device_id", "Step", "Computing", "Communication(Not Overlapped)", "Communication", "Free")
    times = step_times(timeline)
    free = times.index("Device Free(us)")
    rows = []
    for number, whole, *others in times:
        idle: Any = others[free - 2]
        rows.append((0, number, whole - idle, 0.0, 0.0, idle))
    return Table("step_trace_time", columns, tuple(rows))


def graph_breaks(timeline: Timeline) -> Table:
    """One row a graph break that was come to: when, why and where."""
    rows = tuple(
        (timeline.steps[one.step].number, one.at / 1000, one.behind.reason, one.behind.line)
        for one in timeline.breaks
    )
    return Table("graph_breaks", ("Step", "Host Time(us)", "Reason", "Line"), rows)


_AVERAGES = ("Name", "Self CPU(us)", "Self NPU(us)", "Self NPU(%)", "NPU Avg(us)", "# of Calls")
_KEYS: Mapping[str, str] = {
    "self_cpu_time_total": "Self CPU(us)",
    "cpu_time_total": "Self CPU(us)",
    "self_npu_time_total": "Self NPU(us)",
    "npu_time_total": "Self NPU(us)",
    "self_device_time_total": "Self NPU(us)",
    "device_time_total": "Self NPU(us)",
    "npu_time": "NPU Avg(us)",
    "device_time": "NPU Avg(us)",
    "count": "# of Calls",
}


@dataclass(frozen=True)
class KeyAverages:
    """Averages by name, as PyTorch's profiler gives them.

    Attributes:
        averages: One row a name.
    """

    averages: Table

    def table(self, sort_by: str = "self_npu_time_total", row_limit: int = 100) -> str:
        """The averages as text.

        Args:
            sort_by: In PyTorch's words, "self_npu_time_total", "self_cpu_time_total", "count" ...
            row_limit: Number of rows; -1 for all.

        Raises:
            InputError: If `sort_by` is not known.
        """
        if sort_by not in _KEYS:
            raise InputError("argument sort_by", "is not known", repr(sort_by), suggest(sort_by, _KEYS))
        ordered = self.averages.sort(_KEYS[sort_by], descending=True)
        return str(ordered if row_limit < 0 else ordered.top(row_limit))

    def __len__(self) -> int:
        return len(self.averages)

    def __str__(self) -> str:
        return self.table()


@dataclass(slots=True)
class _Sum:
    """Of the events of a name."""

    host: int = 0
    device: float = 0.0
    calls: int = 0


def key_averages(timeline: Timeline, by_shape: bool, activities: Activities = ALL) -> KeyAverages:
    """Operators of the device by type, and what the host did by name.

    Args:
        timeline: Of the recording.
        by_shape: Whether other shapes make another row.
        activities: Whose.
    """
    sums: dict[tuple[str, str], _Sum] = {}
    for span in timeline.host if ProfilerActivity.CPU in activities else ():
        shapes = "; ".join("x".join(map(str, shape)) for shape in span.shapes)
        one = sums.setdefault((span.name, shapes if by_shape else ""), _Sum())
        one.host += span.end - span.start
        one.calls += 1
    for run in runs_of(timeline) if ProfilerActivity.NPU in activities else ():
        calls = sum(graph.run is run for graph in timeline.graphs)
        profile = run.result.profile
        for view in profile.tasks:
            known = [tensor.shape for tensor in view.inputs() if tensor.shape is not None]
            shapes = "; ".join("x".join(map(str, shape)) for shape in known)
            one = sums.setdefault((view.op_type, shapes if by_shape else ""), _Sum())
            one.device += calls * profile.us(view.duration)
            one.calls += calls
    return KeyAverages(_averages(sums, by_shape))


def _averages(sums: Mapping[tuple[str, str], _Sum], by_shape: bool) -> Table:
    whole = sum(one.device for one in sums.values())
    rows: list[Row] = []
    for (name, shapes), one in sums.items():
        share = 100 * one.device / whole if whole else 0.0
        row: Row = (name, one.host / 1000, one.device, share, one.device / one.calls, one.calls)
        rows.append((*row, shapes) if by_shape else row)
    columns = (*_AVERAGES, "Input Shapes") if by_shape else _AVERAGES
    return Table("key_averages", columns, tuple(rows)).sort("Self NPU(us)", descending=True)
