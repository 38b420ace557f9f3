"""Reductions of segments: rows with the same id become one row (domain "ascend", CANN's prototypes).

    UnsortedSegmentMax, -Min, -Prod (x, segment_ids, num_segments) -> y  ids in any order, negative ones are
                                                                          dropped
    SegmentSum, -Mean, -Max, -Min, -Prod (x, segment_ids) -> y            ids of the first axis, rising; as
                                                                          many segments as the last id says

UnsortedSegmentSum stands beside the other sums by index (`ops/training/index_grads.py`). A segment without
rows holds what changes nothing (the lowest number for Max, 1 for Prod) where ids are unsorted, and 0 (1 for
Prod) where they rise, as in TensorFlow. Sums and products of 16-bit floats are float32, rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.graph.ir import Array, Node
from ascendsim.ops.shared.bursts import fill_work, run_bytes, scattering
from ascendsim.ops.shared.common import as_float32, finish, on_ai_cpu, runs_on_ai_core
from ascendsim.ops.shared.dims import known_ints, may_equal
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.axes import NOTHING_SAID, AxisMap, Label, by_labels, rank_of
from ascendsim.opset.facts import Facts, Kind, OpPattern, Precision
from ascendsim.opset.work import (
    LowerContext,
    MoveWork,
    Ref,
    ScalarWork,
    SequenceWork,
    Step,
    Stream,
    VectorWork,
    Work,
)

_INDICES = (DType.INT32, DType.INT64)
_FOLDS: dict[str, np.ufunc] = {
    "Sum": np.add,
    "Mean": np.add,
    "Max": np.maximum,
    "Min": np.minimum,
    "Prod": np.multiply,
}
_STEPS = {"Sum": "vadd", "Mean": "vadd", "Max": "vmax", "Min": "vmin", "Prod": "vmul"}


def _kind(node: Node) -> str:
    """Sum, Mean, Max, Min or Prod."""
    return node.op_type.rpartition("Segment")[2]


def _sorted(node: Node) -> bool:
    return node.op_type.startswith("Segment")


def _infer(context: InferContext) -> None:
    if context.dtype(1) not in _INDICES:
        raise context.fail("needs ids of int32 or int64", context.dtype(1).value)
    data, ids = context.shape(0), context.shape(1)
    if _sorted(context.node):
        if ids is not None and len(ids) != 1:
            raise context.fail("needs a list of ids", ids)
        known = context.value(1)
        size = None if known is None else [int(known[-1]) + 1 if known.size else 0]
    else:
        found = known_ints(context, 2)
        size = None if found is None else [int(count) for count in found]
        if size is not None and (len(size) != 1 or size[0] < 0):
            raise context.fail("needs one number of segments that is not negative", size)
    if data is None or ids is None:
        context.set(0, context.dtype(0), None)
        return
    if not may_equal(data[: len(ids)], ids):
        raise context.fail(f"needs ids of a shape that {data} begins with", ids)
    context.set(0, context.dtype(0), (None if size is None else size[0], *data[len(ids) :]))


def _neutral(node: Node, wanted: np.dtype[Any]) -> Any:
    """What a segment without rows holds."""
    kind = _kind(node)
    if kind == "Prod":
        return 1
    if kind in ("Sum", "Mean") or _sorted(node):
        return 0
    limits = np.finfo(wanted) if wanted.kind == "f" else np.iinfo(wanted)
    return limits.min if kind == "Max" else limits.max


def _compute(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Array]:
    data, ids = as_float32(inputs[0]), np.asarray(inputs[1], np.int64)
    rows, places = data.reshape(ids.size, *data.shape[ids.ndim :]), ids.reshape(-1)
    if _sorted(node):
        if places.size and (places[0] < 0 or (np.diff(places) < 0).any()):
            raise GraphError(f"node {node.name!r} ({node.op_type})", "needs ids that rise from 0 on")
        size = int(places[-1]) + 1 if places.size else 0
    else:
        size = int(np.asarray(inputs[2]).item())
        rows, places = rows[places >= 0], places[places >= 0]
    if places.size and places.max() >= size:
        raise GraphError(f"node {node.name!r} ({node.op_type})", f"needs ids below {size}", int(places.max()))
    result = np.full((size, *rows.shape[1:]), _neutral(node, wanted[0]), rows.dtype)
    if places.size and rows.size:
        order = np.argsort(places, kind="stable")
        found, starts, counts = np.unique(places[order], return_index=True, return_counts=True)
        with np.errstate(all="ignore"):
            result[found] = _FOLDS[_kind(node)].reduceat(rows[order], starts, axis=0)
            if _kind(node) == "Mean":
                whole = counts.reshape(-1, *(1,) * (rows.ndim - 1)).astype(rows.dtype)
                result[found] = result[found] // whole if rows.dtype.kind == "i" else result[found] / whole
    return [finish(result, wanted[0])]


def _lower(node: Node, _context: LowerContext) -> Work:
    """The result is filled; every row meets what lies at its place; a mean is divided at the end."""
    data, ids, target = Ref.of(node.required(0)), Ref.of(node.required(1)), Ref.of(node.output)
    fill = fill_work(target)
    if not isinstance(fill, VectorWork) or not data.bytes:
        return fill
    if not runs_on_ai_core(node, range(1, 3)):
        return on_ai_cpu(node)
    run = run_bytes(data.shape, len(ids.shape), data.dtype.itemsize)
    step = Step(_STEPS[_kind(node)], data.dtype)
    parts: list[VectorWork | MoveWork | ScalarWork] = [
        fill,
        scattering(data, target, run, (ids, target), (step,)),
    ]
    if _kind(node) == "Mean":
        stream = (Stream(target),)
        parts.append(VectorWork(1, fill.cols, (Step("vmul", target.dtype),), stream, stream))
    return SequenceWork(tuple(parts))


def _links(node: Node) -> AxisMap:
    rank, depth = rank_of(node, 0), rank_of(node, 1)
    if rank is None or depth is None:
        return NOTHING_SAID
    labels: list[Label] = [*(("row", axis) for axis in range(depth)), *range(depth, rank)]
    return by_labels(node, {0: labels, 1: labels[:depth]}, {0: ("segment", *range(depth, rank))})


_FACTS = Facts(_links, Kind.REDUCTION, Precision.BLACK, OpPattern.SEGMENT)
_UNSORTED = replace(_FACTS, parameters=(2,))
_SORTED = replace(_FACTS, parameters=(1,))  # the last id says how many segments there are


def _operator(name: str, inputs: int) -> OpDef:
    unsorted = inputs == 3
    return OpDef(
        name,
        _infer,
        _compute,
        _lower,
        domain="ascend",
        most_inputs=inputs,
        steered_by=() if unsorted else (1,),
        facts=_UNSORTED if unsorted else _SORTED,
    )


OPERATORS: tuple[OpDef, ...] = (
    *(_operator(f"UnsortedSegment{kind}", 3) for kind in ("Max", "Min", "Prod")),
    *(_operator(f"Segment{kind}", 2) for kind in ("Sum", "Mean", "Max", "Min", "Prod")),
)
