"""op_summary: one row a task, with msprof's columns for the chip's generation; and the AI Core metrics table.

Columns and formulas follow msprof's PipeUtilization group: x_ratio = busy cycles of pipe x / total cycles,
x_time = (busy cycles / clock) / blocks * rounds. Chips with coupled cores have one set of columns, chips with
split cores one for cube cores (aic_) and one for vector cores (aiv_).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ascendsim.core.table import QUOTED, TAB, Cell, Row, Table
from ascendsim.graph.ir import Tensor
from ascendsim.profiling.view import NOT_KNOWN, Part, ProfiledRun, TaskView

MODEL_ID = 1
DEVICE_ID = 0
START_COLUMN = "Task Start Time(us)"

_HEAD = [
    "Device_id",
    "Model ID",
    "Task ID",
    "Stream ID",
    "Op Name",
    "OP Type",
    "OP State",
    "Task Type",
    "Task Start Time(us)",
    "Task Duration(us)",
    "Task Wait Time(us)",
    "Block Dim",
]
_TENSORS = [
    "Input Shapes",
    "Input Data Types",
    "Input Formats",
    "Output Shapes",
    "Output Data Types",
    "Output Formats",
]

# msprof's name of a pipe -> ours, in column order
COUPLED_PIPES = {"vec": "V", "mac": "M", "scalar": "S", "mte1": "MTE1", "mte2": "MTE2", "mte3": "MTE3"}
CUBE_CORE_PIPES = {"mac": "M", "scalar": "S", "mte1": "MTE1", "mte2": "MTE2", "fixpipe": "FIX"}
VECTOR_CORE_PIPES = {"vec": "V", "scalar": "S", "mte2": "MTE2", "mte3": "MTE3"}


def op_summary(run: ProfiledRun) -> Table:
    """One row a task in order of start, with the columns of msprof's op_summary for the chip.

    Start times are simulated time from 0. What the simulator has no model of (instruction-cache misses) is
    N/A, and so is every core column of an AI CPU task.
    """
    columns, rows = _columns(run.soc.split_cores), []
    previous_end: int | None = None
    for view in run.tasks:
        wait = 0 if previous_end is None else max(view.record.start - previous_end, 0)
        previous_end = view.record.end if previous_end is None else max(previous_end, view.record.end)
        rows.append(_row(run, view, wait))
    styles = {START_COLUMN: TAB, "Input Shapes": QUOTED, "Output Shapes": QUOTED}
    return Table("op_summary", columns, tuple(rows), styles)


def ai_core_metrics(run: ProfiledRun) -> Table:
    """One row a task that ran on the cores: a task id of `op_statistic` that is missing here ran on the AI
    CPU.
    """
    columns = (
        "Task",
        "Op Name",
        "OP Type",
        "Task Type",
        "Task Duration(us)",
        "Block Dim",
        *_pmu_columns(run.soc.split_cores),
    )
    rows = tuple(
        (
            view.id,
            view.name,
            view.op_type,
            view.task.kind.value,
            run.us(view.duration),
            view.record.blocks,
            *_pmu_cells(run, view),
        )
        for view in run.tasks
        if view.on_ai_core
    )
    return Table("ai_core_metrics", columns, rows)


def _columns(split: bool) -> tuple[str, ...]:
    head = [
        *_HEAD,
        *(["Mix Block Dim"] if split else []),
        "HF32 Eligible",
        *_TENSORS,
        *(["Context ID"] if split else []),
    ]
    return (*head, *_pmu_columns(split))


def _row(run: ProfiledRun, view: TaskView, wait: int) -> Row:
    split = run.soc.split_cores
    blocks: list[Cell] = [view.task.block_dim]
    if split:
        vector = view.vector_blocks
        mixed = vector if view.on_ai_core and 0 < vector < view.task.block_dim else 0
        blocks = [view.task.block_dim - mixed, mixed]
    head: Row = (
        DEVICE_ID,
        MODEL_ID,
        view.id,
        view.record.stream,
        view.name,
        view.op_type,
        "static",
        view.task.kind.value,
        run.us(view.record.start),
        run.us(view.duration),
        run.us(wait),
        *blocks,
        "NO",
    )
    return (*head, *tensor_cells(view), *((None,) if split else ()), *_pmu_cells(run, view))


def tensor_cells(view: TaskView) -> tuple[Cell, ...]:
    """Shapes, types and formats of a task's inputs, then of its outputs; None where there is no tensor."""
    texts = (_shape, _dtype, _format)
    return tuple([_list(tensors, text) for tensors in (view.inputs(), view.outputs()) for text in texts])


def _pmu_columns(split: bool) -> tuple[str, ...]:
    if not split:
        return (
            "aicore_time(us)",
            "total_cycles",
            *_pipe_columns("", COUPLED_PIPES),
            "icache_miss_rate",
            "memory_bound",
            "cube_utilization(%)",
        )
    cube = (
        "aicore_time(us)",
        "aic_total_cycles",
        *_pipe_columns("aic_", CUBE_CORE_PIPES),
        "aic_icache_miss_rate",
    )
    vector = (
        "aiv_time(us)",
        "aiv_total_cycles",
        *_pipe_columns("aiv_", VECTOR_CORE_PIPES),
        "aiv_icache_miss_rate",
    )
    return (*cube, *vector, "cube_utilization(%)")


def _pipe_columns(prefix: str, pipes: dict[str, str]) -> list[str]:
    return [f"{prefix}{name}_{what}" for name in pipes for what in ("time(us)", "ratio")]


def _pmu_cells(run: ProfiledRun, view: TaskView) -> tuple[Cell, ...]:
    split = run.soc.split_cores
    if not view.on_ai_core or not view.record.block_ticks:
        return (None,) * len(_pmu_columns(split))
    clock = run.soc.frequency_mhz
    if not split:
        record = view.record
        whole = Part(record.blocks, record.block_ticks, record.busy)
        cycles = run.cycles(record.block_ticks)
        compute = max(whole.ratio("M"), whole.ratio("V"))
        memory_bound = whole.ratio("MTE2") / compute if compute else None
        return (
            *_part_cells(run, view, whole, clock, COUPLED_PIPES),
            memory_bound,
            _cube_utilisation(run, view, cycles, run.soc.ai_cores),
        )
    cube, vector = view.beside_vector, view.on_vector
    return (
        *_part_cells(run, view, cube, clock, CUBE_CORE_PIPES),
        *_part_cells(run, view, vector, run.soc.vector_frequency_mhz or clock, VECTOR_CORE_PIPES),
        _cube_utilisation(run, view, run.cycles(cube.ticks), run.soc.ai_cores),
    )


def _part_cells(
    run: ProfiledRun, view: TaskView, part: Part, mhz: int, pipes: dict[str, str]
) -> tuple[Cell, ...]:
    """Time and cycles of a part of a task, times and ratios of its pipes, and misses of the instruction
    cache.
    """
    times = [
        cell
        for pipe in pipes.values()
        for cell in (run.mean_block_us(view, part.busy.get(pipe, 0), part), part.ratio(pipe))
    ]
    return (run.mean_block_us(view, part.ticks, part), run.cycles(part.ticks, mhz), *times, None)


def _cube_utilisation(run: ProfiledRun, view: TaskView, cycles: int, cores: int) -> Cell:
    """total_cycles / (clock * cores * duration) in percent, as msprof defines it: how full the cores were,
    not the Cube.
    """
    us = run.us(view.duration)
    return 100 * cycles / (run.soc.frequency_mhz * cores * us) if us and cores else None


def _list(tensors: Sequence[Tensor], text: Callable[[Tensor], str]) -> Cell:
    return ";".join(text(tensor) for tensor in tensors) if tensors else None


def _shape(tensor: Tensor) -> str:
    return (
        ",".join(map(str, tensor.storage_shape))
        if tensor.is_static and tensor.dtype is not None
        else NOT_KNOWN
    )


def _dtype(tensor: Tensor) -> str:
    return tensor.dtype.cann if tensor.dtype is not None else NOT_KNOWN


def _format(tensor: Tensor) -> str:
    return tensor.format.value
