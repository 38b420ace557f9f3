"""Single operators: simulated task times against published ones.

Each row becomes a graph of one operator (`operators_graphs`), which is compiled and simulated like any other;
the time of the operator's own task counts. Beside it stands a roofline: the longer of its multiply-adds at 80
% of the Cube's peak for the element type and its bytes at DRAM bandwidth, plus 2 us a task, the fixed time of
the roofline for networks (`roofline`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from statistics import fmean, median
from types import MappingProxyType
from typing import Union

from ascendsim import soc as chips
from ascendsim.api.result import Result
from ascendsim.api.running import simulate
from ascendsim.compiler.compiling import compile_graph
from ascendsim.compiler.model import CompiledModel
from ascendsim.compiler.options import CompileOptions
from ascendsim.compiler.profile_options import profile_options
from ascendsim.compiler.tilings import tilings_of
from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Node
from ascendsim.lower import LowerOptions, lower_graph
from ascendsim.ops import default_opset
from ascendsim.ops.shared.aicpu import ai_cpu_rules
from ascendsim.opset.lower_context import OPEN_SHAPES
from ascendsim.soc import SocSpec
from ascendsim.validate.operators_bench import OneOperator
from ascendsim.validate.operators_graphs import one_operator
from ascendsim.validate.operators_rows import FILES, LeftOut, OperatorRow, measured_operators
from ascendsim.validate.roofline import CUBE_SHARE
from ascendsim.validate.score import spearman
from ascendsim.validate.worker import start_worker

# Kinds whose small tasks the launch figures of 910A and 910B were fitted on, and TransData for ragged rows
# (`fitted_on` in the chip files): scored with all, and apart.
_SMALL_TASKS = {
    "Add",
    "ApplyMomentumD",
    "AssignAdd",
    "AtomicAddrClean",
    "Cast",
    "Fill",
    "Mul",
    "OnesLike",
    "RealDiv",
    "Relu",
    "ReluGrad",
    "ReluV2",
}
_ADDS_UP = {"Conv2DBackpropFilter", "Conv2DBackpropFilterD", "DepthwiseConv2DBackpropFilter"}
FITTED_KINDS = frozenset(_SMALL_TASKS | {"TransData", "gqa"})

# Duration less time of the vector cores on 910B: 0.53 us at 1 block, 1.08 at 8, 2.61 at 40, 3.36 at 48
# (profiles of Qwen3 and AlexNet training): 57 to 60 ns a block, 63 by calls of Mul, Add and Exp; what is
# longer in a network's step is code that all cores fetch. A call of one kernel finds its code in the cores:
# of Sigmoid and Gelu on 48 cores 2.9 us do not grow with the tensor, and 27 ns a block are left (18 of the
# ATT model, `base.toml`); of calls of several kernels, which push each other out, three of one element after
# another take 5.2 us each.
WARM = {"launch.block_dispatch_ns": 63.0, "kernels.core_code_ns": 0.0}
ALONE = {"launch.block_dispatch_ns": 27.0}

NO_CHANGES: Mapping[str, str | int | float] = MappingProxyType({})

_WORTH_A_PROCESS = 64  # rows below which starting another process takes longer than it saves
_FIXED_US = 2.0
# multiply-adds a cycle of the 16x16x16 float16 array over those of its 16x16x4 float32 form
_CUBE_SLOWDOWN = {DType.FLOAT32: 4}


@dataclass(frozen=True, slots=True)
class Timing:
    """A published time of an operator with its predictions, in microseconds."""

    row: OperatorRow
    simulated_us: float
    roofline_us: float

    @property
    def error(self) -> float:
        """Signed relative error: simulated / measured - 1."""
        return self.simulated_us / self.row.duration_us - 1

    @property
    def roofline_error(self) -> float:
        return self.roofline_us / self.row.duration_us - 1


@dataclass(frozen=True, slots=True)
class OperatorScore:
    """Errors of a set of timings: median of |error|, mean of the signed error, rank correlation of times;
    ours and the roofline's.
    """

    count: int
    median: float
    bias: float
    spearman: float
    roofline_median: float
    roofline_spearman: float


def compare_operators(
    groups: Iterable[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
    *,
    processes: int = 1,
    kinds: Collection[str] | None = None,
    overrides: Mapping[str, str | int | float] | None = None,
) -> tuple[tuple[Timing, ...], tuple[LeftOut, ...]]:
    """Simulates every row that can be run; rows of the same operator once.

    Args:
        groups: Chips as published ("910A", "910B"); all by default.
        progress: Called with (rows done, rows in all).
        processes: How many share the work.
        kinds: Operator types; all by default.
        overrides: Changed figures of all chips, as for `soc.load`.

    Returns:
        The timings, and the rows that were left out with their reasons, both in the order of the data.
    """
    rows, absent = measured_operators(groups)
    rows = tuple(row for row in rows if kinds is None or row.op_type in kinds)
    alike: dict[OperatorRow, list[OperatorRow]] = {}
    for row in rows:
        alike.setdefault(row.operator, []).append(row)
    timed, done = {}, 0
    for operator, found in _each(partial(_predicted, overrides=overrides or {}), list(alike), processes):
        timed[operator] = found
        done += len(alike[operator])
        if progress is not None:
            progress(done, len(rows))
    timings, left = [], list(absent)
    for row in rows:
        found = timed[row.operator]
        if isinstance(found, str):
            left.append(LeftOut(row.file, row.line, row.group, row.op_type, row.name, found))
        else:
            timings.append(Timing(row, *found))
    return tuple(timings), tuple(sorted(left, key=lambda item: (FILES.index(item.file), item.line)))


_Predicted = Union[str, tuple[float, float]]


def _each(
    work: Callable[[OperatorRow], _Predicted], rows: Sequence[OperatorRow], processes: int
) -> Iterator[tuple[OperatorRow, _Predicted]]:
    if processes < 2 or len(rows) < _WORTH_A_PROCESS:
        yield from ((row, work(row)) for row in rows)
        return
    with ProcessPoolExecutor(processes, get_context("spawn"), initializer=start_worker) as workers:
        yield from zip(rows, workers.map(work, rows, chunksize=8), strict=True)


def _predicted(row: OperatorRow, overrides: Mapping[str, str | int | float]) -> _Predicted:
    """Times in us by the simulator and by the roofline, or why there are none."""
    built = one_operator(row)
    if isinstance(built, str):
        return built
    spec = chip_of(row, overrides)
    return _simulated_us(row, built, spec), _roofline_us(built, spec)


def chip_of(row: OperatorRow, overrides: Mapping[str, str | int | float] = NO_CHANGES) -> SocSpec:
    """A row's chip; calls ran often before, so that cores need not fetch their code."""
    warm = {**WARM, **(ALONE if row.kernels_in_all == 1 else {})} if row.call else {}
    return chips.load(row.soc, {**warm, **overrides})


def score_operators(timings: Sequence[Timing]) -> OperatorScore:
    """The score of at least one timing."""
    measured = [timing.row.duration_us for timing in timings]
    return OperatorScore(
        len(timings),
        median(abs(timing.error) for timing in timings),
        fmean(timing.error for timing in timings),
        spearman([timing.simulated_us for timing in timings], measured),
        median(abs(timing.roofline_error) for timing in timings),
        spearman([timing.roofline_us for timing in timings], measured),
    )


def _simulated_us(row: OperatorRow, operator: OneOperator, spec: SocSpec) -> float:
    """Time of the operator's tasks, from dispatch to the end of the last block; without launch where the row
    has it so, and without the MemSet in front of what is added up, which a profile lists by itself.
    """
    model = _compiled(operator, spec)
    result: Result = simulate(model)
    if row.call:  # with all that turns, converts and clears
        records = list(result.trace.tasks)
    else:
        tasks = {task.id for name in (operator.node, *operator.more) for task in model.tasks_of(name)}
        records = [record for record in result.trace.tasks if record.task in tasks]
        if row.op_type in _ADDS_UP:
            records = records[-1:]
    if row.cores_only:
        return sum(result.trace.us(record.block_ticks) / max(1, record.cores) for record in records)
    return sum(result.trace.us(record.end - record.start) for record in records)


def _compiled(operator: OneOperator, spec: SocSpec) -> CompiledModel:
    if not operator.placed:
        asked = CompileOptions(
            soc=spec,
            fusion=operator.fusion,
            optimize=False,
            precision_mode=operator.precision,
            options={"open_shape_kernels": "always"},  # as profiled: the host launches them
        )
        # without warnings: what ran just before on other tensors (`Bench.before`) is a part of its own
        return compile_graph(operator.graph, asked)
    opset = default_opset()
    options = LowerOptions(
        aicpu_types=ai_cpu_rules(spec.kernels.ai_cpu_table),
        flags={OPEN_SHAPES: True},
        tilings=tilings_of(spec, profile_options(None)),
    )
    program = lower_graph(operator.graph, spec, opset, options=options)
    return CompiledModel(operator.graph, program, spec, opset, operator.graph)


def _roofline_us(operator: OneOperator, spec: SocSpec) -> float:
    nodes = operator.graph.nodes
    node = next(node for node in nodes if node.name == operator.node)
    slowdown = (
        _CUBE_SLOWDOWN.get(node.output.element_type, 1)
        if operator.precision == "must_keep_origin_dtype"
        else 1
    )
    compute = 2 * operator.macs * slowdown / (CUBE_SHARE * spec.peak_fp16_tflops) / 1e6
    return max(compute, _bytes(node) / spec.dram.read_gb_per_s / 1e3) + _FIXED_US


def _bytes(node: Node) -> int:
    return sum(tensor.storage_bytes for tensor in (*node.inputs, *node.outputs) if tensor is not None)
