"""Single operators: simulated task times against published ones.

Each row becomes a graph of one operator (`operators_graphs`), which is compiled and simulated like any other;
the time of the operator's own task counts. Beside it stands a roofline: the longer of its multiply-adds at 80
% of the Cube's peak for the element type and its bytes at DRAM bandwidth, plus 2 us a task, the fixed time of
the roofline for networks (`roofline`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from ascendsim import soc as chips
from ascendsim.api.compiling import compile
from ascendsim.api.result import Result
from ascendsim.api.running import simulate
from ascendsim.compiler.model import CompiledModel
from ascendsim.compiler.profile_options import profile_options
from ascendsim.compiler.tilings import tilings_of
from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Node
from ascendsim.lower import LowerOptions, lower_graph
from ascendsim.ops import default_opset
from ascendsim.ops.shared.aicpu import aicpu_types
from ascendsim.soc import SocSpec
from ascendsim.validate.operators_bench import OneOperator
from ascendsim.validate.operators_graphs import one_operator
from ascendsim.validate.operators_rows import LeftOut, OperatorRow, measured_operators
from ascendsim.validate.roofline import CUBE_SHARE
from ascendsim.validate.score import spearman

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
FITTED_KINDS = frozenset(_SMALL_TASKS | {"TransData"})

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
    groups: Iterable[str] | None = None, progress: Callable[[int, int], None] | None = None
) -> tuple[tuple[Timing, ...], tuple[LeftOut, ...]]:
    """Simulates every row that can be run.

    Args:
        groups: Chips as published ("910A", "910B"); all by default.
        progress: Called with (rows done, rows in all).

    Returns:
        The timings, and the rows that were left out with their reasons, both in the order of the data.
    """
    rows, absent = measured_operators(groups)
    specs = {row.soc: chips.load(row.soc) for row in rows}
    timings, left = [], list(absent)
    for done, row in enumerate(rows):
        built = one_operator(row)
        if isinstance(built, str):
            left.append(LeftOut(row.line, row.group, row.op_type, row.name, built))
        else:
            spec = specs[row.soc]
            timings.append(Timing(row, _simulated_us(row, built, spec), _roofline_us(built, spec)))
        if progress is not None:
            progress(done + 1, len(rows))
    return tuple(timings), tuple(sorted(left, key=lambda item: item.line))


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
    has it so.
    """
    model = _compiled(operator, spec)
    result: Result = simulate(model)
    tasks = {task.id for task in model.tasks_of(operator.node)}
    records = [record for record in result.trace.tasks if record.task in tasks]
    if row.cores_only:
        return sum(result.trace.us(record.block_ticks) / max(1, record.cores) for record in records)
    return sum(result.trace.us(record.end - record.start) for record in records)


def _compiled(operator: OneOperator, spec: SocSpec) -> CompiledModel:
    if not operator.placed:
        return compile(
            operator.graph, soc=spec, fusion="off", optimize=False, precision_mode=operator.precision
        )
    opset = default_opset()
    options = LowerOptions(
        aicpu_types=aicpu_types(spec.kernels.ai_cpu_table), tilings=tilings_of(spec, profile_options(None))
    )
    program = lower_graph(operator.graph, spec, opset, options=options)
    return CompiledModel(operator.graph, program, spec, opset, operator.graph)


def _roofline_us(operator: OneOperator, spec: SocSpec) -> float:
    node = next(node for node in operator.graph.nodes if node.name == operator.node)
    slowdown = (
        _CUBE_SLOWDOWN.get(node.required(0).element_type, 1)
        if operator.precision == "must_keep_origin_dtype"
        else 1
    )
    compute = 2 * operator.macs * slowdown / (CUBE_SHARE * spec.peak_fp16_tflops) / 1e6
    return max(compute, _bytes(node) / spec.dram.read_gb_per_s / 1e3) + _FIXED_US


def _bytes(node: Node) -> int:
    return sum(tensor.storage_bytes for tensor in (*node.inputs, *node.outputs) if tensor is not None)
