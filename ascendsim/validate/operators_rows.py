"""Published times of single operators: the rows of `data/measured_operators*.csv` and which of them can be
run here.

A row is left out with a reason where it does not say what was computed (no shapes, no element types), where
the operator has no counterpart in this project, or where it is one step of a tuning series whose tiling was
chosen badly on purpose.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import UnsupportedTypeError

# 910B is the name of a family. These chips have 24 Cube cores (the block counts of the rows), and the Cube
# time of the published 8192^3 products (3080 us at 24 cores) needs more than 1.81 GHz, which only the B1 has.
# Rows of language models name no chip either: 20 Cube cores and never more than 800 GB/s are those of the B4.
# "Ascend910B" of MindSpore's profiles is the first generation with 30 cores.
CHIPS = {
    "910A": "Ascend910A",
    "910A-tuned": "Ascend910A",  # operators that the vendor ran alone to find their tilings
    "910B": "Ascend910B1",
    "910B4": "Ascend910B4",
    "910B-30": "Ascend910B",
    "910B2": "Ascend910B2",
    "310": "Ascend310",
}
# files, and by which of the chips above a name in them is meant
_GROUPS = {
    "measured_operators.csv": {"910A": "910A", "910B": "910B"},
    "measured_operators_more.csv": {"910B": "910B4", "910B4": "910B4"},
    "measured_operators_2026.csv": {"Ascend910B": "910B-30", "Ascend910B2": "910B2"},
    "measured_convolutions.csv": {"310": "310"},
    "measured_gradients.csv": {"910A": "910A-tuned"},
}
FILES = tuple(_GROUPS)
_TIMES = re.compile(r"\w\W(\d+)")  # how often each kernel of a call runs
_CALL = re.compile(r"(\w+)(?:\[(.*)\])?")

_TYPES = {
    "FLOAT": DType.FLOAT32,
    "FLOAT32": DType.FLOAT32,
    "FLOAT16": DType.FLOAT16,
    "HALF": DType.FLOAT16,
    "DT_BF16": DType.BFLOAT16,
    "DOUBLE": DType.FLOAT64,
}
_RUNTIME = {"GetNext", "StreamSend", "StreamRecv"}
_ABSENT = {
    "MaxPoolGrad",
    "DSAGenBitMask",
    "AdaptiveAvgPool3d",
    "AdaptiveAvgPool3dGrad",
    "GroupedMatmul+dequant+GELU",
}
_SEVERAL = {"ForeachAddList", "ForeachMulScalar", "FusionOp_ReluGradV2_Cast", "MatMul+GELU"}
# Of a tuning series the last step stands for what a compiler emits; the steps before it show what a bad
# tiling costs.
_BEST_STEPS = {
    "step 6: UB bank conflicts removed",
    "Case 7: constant tiling",
    "Scenario 2",
    "Scenario 2, MIX_AIC",
    "144x128, S1",
    "MDL template: after Norm -> MDL",
    "static tiling: after constant tiling",
    "IBShare A+B: after IBShare A+B",
    "MTE2 preload: after doMTE2Preload",
}
_COLD = "not in L2"  # of a note


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
        file: Data file.
        line: Its line, to find the row by.
        group: Chip as published.
        op_type: CANN's operator type.
        name: Operator or case as published.
        updates: Whether it is part of an update of weights.
        case: Shapes as published, for samples that describe their sizes in words.
        inputs, outputs: Tensors, shapes as stored.
        blocks: Block count of the task; 0 if it is not published.
        duration_us: Task time on the device.
        cores_only: Whether the time is that of the AI Cores, without launch.
        profiled: From a profile of a network (inputs come from operators in front), not a stand-alone sample.
        attributes: What is published of the call's arguments.
        call: A call of a framework, several kernels, whose times are added up.
        kernels: Those of a call, as published.
        cold: Whether L2 is known to be full of what others left, and not to hold what it reads.
    """

    file: str
    line: int
    group: str
    op_type: str
    name: str
    updates: bool
    case: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    blocks: int
    duration_us: float
    cores_only: bool
    profiled: bool
    attributes: Mapping[str, Any] = field(default_factory=dict, hash=False)
    call: bool = False
    kernels: str = ""
    cold: bool = False

    @property
    def operator(self) -> OperatorRow:
        """The same for all rows whose graphs and times are the same: without place, name and figures."""
        return replace(self, file="", line=0, name="", blocks=0, duration_us=0.0)

    @property
    def kernels_in_all(self) -> int:
        """How many kernels a call runs; 0 if they are not published."""
        return sum(int(times) for times in _TIMES.findall(self.kernels))

    @property
    def held(self) -> bool:
        """Whether the row is one of the third that stay aside while mechanisms are chosen: by what it
        computes, so that the same operator in two rows is on one side.
        """
        what = (self.soc, self.op_type, *((o.shape, str(o.dtype)) for o in (*self.inputs, *self.outputs)))
        return hashlib.sha256(repr(what).encode()).digest()[0] % 3 == 0

    @property
    def shapes(self) -> str:
        """Shapes of the inputs for people: sizes joined by x, shapes by a blank."""
        return self.case.replace(",", "x").replace(";", " ").strip()

    @property
    def soc(self) -> str:
        """Chip of this project that stands for the row's."""
        return CHIPS[self.group]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A row that is not run, and why."""

    file: str
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
    for file, chips in _GROUPS.items():
        with files("ascendsim.validate").joinpath("data", file).open(encoding="utf-8") as source:
            for line, fields in enumerate(csv.DictReader(source), start=2):
                group = chips.get(fields["soc"], "")
                if (group not in wanted) if group else (groups is not None):
                    continue
                row = _row(file, line, group or fields["soc"], fields)
                reason = _why_not(fields, row) if group else "the chip is not one of this list, or not named"
                if reason:
                    left.append(LeftOut(file, line, row.group, row.op_type, row.name, reason))
                else:
                    rows.append(row)
    return tuple(rows), tuple(left)


def _row(file: str, line: int, group: str, fields: dict[str, str]) -> OperatorRow:
    call = _CALL.fullmatch(fields["op_type"]) if fields["phase"] == "alone" else None
    note = fields["note"]
    return OperatorRow(
        file,
        line,
        group,
        call[1] if call is not None else fields["op_type"],
        fields["op_name"] if fields["phase"] == "single operator" else fields["op_name"].rsplit("/", 1)[-1],
        "optimizer" in fields["op_name"],
        fields["in_shapes"],
        _operands(fields["in_shapes"], fields["in_dtypes"], fields["in_formats"]),
        _operands(fields["out_shapes"], fields["out_dtypes"], fields["out_formats"]),
        int(fields["block_dim"] or 0),
        float(fields["duration_us"]),
        "AI Core time" in note,
        fields["phase"] == "training",
        json.JSONDecoder().raw_decode(note, 6)[0] if note.startswith("attrs=") else {},
        call is not None,
        (call[2] or "") if call is not None else "",
        _COLD in note,
    )


def _operands(shapes: str, dtypes: str, formats: str) -> tuple[Operand, ...]:
    """Tensors of a cell triple; an empty part is a scalar. Free text (a sample's case) gives none."""
    if not shapes and not dtypes.strip("; "):
        return ()
    parts, types, forms = shapes.split(";"), re.sub(r"[\[\]' ]", "", dtypes).split(";"), formats.split(";")
    found = []
    for number, part in enumerate(parts):
        if part.strip() in ("none", "null"):
            continue
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
    if row.op_type == "AtomicAddrClean" and row.inputs and row.inputs[0].dtype is DType.FLOAT16:
        return "clears other outputs than the one that is listed, which is not added up in memory"
    if row.op_type in _SEVERAL:
        return "several operators in one task"
    if not fields["in_shapes"] and not fields["out_shapes"] and not fields["in_dtypes"].strip("; "):
        return "no shapes published"
    if row.call:
        return _why_no_call(fields, row)
    if fields["phase"] == "single operator":
        return "" if row.name in _BEST_STEPS else "a step of a tuning series with a tiling no compiler picks"
    if not row.inputs or any(o.dtype is None for o in (*row.inputs, *row.outputs) if o.shape):
        return "no element types published"
    if fields["trust"] == "low":
        return "trust low: " + fields["note"].partition(";")[0]
    return ""


def _why_no_call(fields: dict[str, str], row: OperatorRow) -> str:
    if "older measurement" in fields["model"]:
        return "measured again in another row"
    return "" if row.inputs else "no element types published"
