"""Published times of single operators: the rows of `data/measured_operators.csv` and which of them can be run
here.

A row is left out with a reason where it does not say what was computed (no shapes, no element types), where
the operator has no counterpart in this project, or where it is one step of a tuning series whose tiling was
chosen badly on purpose.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import UnsupportedTypeError

# 910B is the name of a family. These chips have 24 Cube cores (the block counts of the rows), and the Cube
# time of the published 8192^3 products (3080 us at 24 cores) needs more than 1.81 GHz, which only the B1 has.
CHIPS = {"910A": "Ascend910A", "910B": "Ascend910B1"}

_TYPES = {"FLOAT": DType.FLOAT32, "FLOAT32": DType.FLOAT32, "FLOAT16": DType.FLOAT16, "HALF": DType.FLOAT16}
_RUNTIME = {"GetNext", "StreamSend", "StreamRecv"}
_ABSENT = {
    "MaxPoolGradWithArgmax",
    "MaxPoolGradWithArgmaxV1",
    "MaxPoolGrad",
    "Conv2DBackpropFilter",
    "Conv2DBackpropFilterD",
    "DropOutDoMask",
    "DSAGenBitMask",
    "LogSoftmaxGrad",
    "NLLLossGrad",
    "AdaptiveAvgPool3d",
    "AdaptiveAvgPool3dGrad",
    "SoftmaxCrossEntropyWithLogits",
    "GroupedMatMul int8 dequant",
    "GroupedMatmul+dequant+GELU",
}
_SEVERAL = {"ForeachAddList", "ForeachMulScalar", "FusionOp_ReluGradV2_Cast", "MatMul+GELU"}
# Of a tuning series the last step stands for what a compiler emits; the steps before it show what a bad
# tiling costs.
_BEST_STEPS = {
    "step 6: UB bank conflicts removed",
    "Case 7: constant tiling",
    "Scenario 2",
    "144x128, S1",
    "MDL template: after Norm -> MDL",
    "static tiling: after constant tiling",
    "IBShare A+B: after IBShare A+B",
    "MTE2 preload: after doMTE2Preload",
}


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor as a row has it: the shape in its stored format."""

    shape: tuple[int, ...]
    dtype: DType | None
    format: str


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """One published time.

    Attributes:
        line: Line of the data file, to find the row by.
        group: Chip as published.
        op_type: CANN's operator type.
        name: Operator or case as published.
        case: Shapes as published, for samples that describe their sizes in words.
        inputs, outputs: Tensors, shapes as stored.
        blocks: Block count of the task; 0 if it is not published.
        duration_us: Task time on the device.
        cores_only: Whether the time is that of the AI Cores, without launch.
        profiled: From a profile of a network (inputs come from operators in front), not a stand-alone sample.
    """

    line: int
    group: str
    op_type: str
    name: str
    case: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    blocks: int
    duration_us: float
    cores_only: bool
    profiled: bool

    @property
    def soc(self) -> str:
        """Chip of this project that stands for the row's."""
        return CHIPS[self.group]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A row that is not run, and why."""

    line: int
    group: str
    op_type: str
    name: str
    reason: str


def measured_operators(
    groups: Iterable[str] | None = None,
) -> tuple[tuple[OperatorRow, ...], tuple[LeftOut, ...]]:
    """Rows to run and rows left out, in the order of the file.

    Args:
        groups: Chips as published; all by default.
    """
    wanted = set(CHIPS) if groups is None else set(groups)
    rows, left = [], []
    with files("ascendsim.validate").joinpath("data/measured_operators.csv").open(encoding="utf-8") as source:
        for line, fields in enumerate(csv.DictReader(source), start=2):
            if fields["soc"] not in wanted:
                continue
            row = _row(line, fields)
            reason = _why_not(fields, row)
            if reason:
                left.append(LeftOut(line, row.group, row.op_type, row.name, reason))
            else:
                rows.append(row)
    return tuple(rows), tuple(left)


def _row(line: int, fields: dict[str, str]) -> OperatorRow:
    return OperatorRow(
        line,
        fields["soc"],
        fields["op_type"],
        fields["op_name"] if fields["phase"] == "single operator" else fields["op_name"].rsplit("/", 1)[-1],
        fields["in_shapes"],
        _operands(fields["in_shapes"], fields["in_dtypes"], fields["in_formats"]),
        _operands(fields["out_shapes"], fields["out_dtypes"], fields["out_formats"]),
        int(fields["block_dim"] or 0),
        float(fields["duration_us"]),
        "AI Core time" in fields["note"],
        fields["phase"] == "training",
    )


def _operands(shapes: str, dtypes: str, formats: str) -> tuple[Operand, ...]:
    """Tensors of a cell triple; an empty part is a scalar. Free text (a sample's case) gives none."""
    if not shapes and not dtypes:
        return ()
    parts, types, forms = shapes.split(";"), dtypes.split(";"), formats.split(";")
    found = []
    for number, part in enumerate(parts):
        dims = [dim.strip() for dim in part.split(",")] if part.strip() else []
        if not all(dim.isdigit() for dim in dims):
            return ()
        kind = types[min(number, len(types) - 1)] if len(types) in (1, len(parts)) else ""
        form = forms[min(number, len(forms) - 1)].partition(":")[0]
        found.append(Operand(tuple(int(dim) for dim in dims), _dtype(kind), form))
    return tuple(found)


def _dtype(text: str) -> DType | None:
    if text.upper() in _TYPES:
        return _TYPES[text.upper()]
    try:
        return DType.of(text.lower()) if text else None
    except UnsupportedTypeError:
        return None


def _why_not(fields: dict[str, str], row: OperatorRow) -> str:
    """Why a row cannot be run; empty if it can."""
    if row.op_type in _RUNTIME:
        return "a task of the runtime, not an operator"
    if row.op_type in _ABSENT:
        return "no operator of this project does this"
    if row.op_type in _SEVERAL:
        return "several operators in one task"
    if not fields["in_shapes"] and not fields["out_shapes"]:
        return "no shapes published"
    if fields["phase"] == "single operator":
        return "" if row.name in _BEST_STEPS else "a step of a tuning series with a tiling no compiler picks"
    if (
        "NUMBER_TYPE" in fields["in_dtypes"]
        or any(o.dtype is None for o in (*row.inputs, *row.outputs))
        or not row.inputs
    ):
        return "no element types published"
    if fields["trust"] == "low":
        return "trust low: " + fields["note"].partition(";")[0]
    return ""
