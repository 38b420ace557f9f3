"""Checks for overflow, for dynamic loss scaling (domain "ascend").

The first generation notes every overflow in a status register of each core, which the graph reads:

    NPUAllocFloatStatus() -> data               eight floats in global memory, all 0
    NPUClearFloatStatus(addr, ...) -> data      clears the register
    NPUGetFloatStatus(addr, watched...) -> data  data[0] = 1 if there was an overflow since

Later chips look at the gradients themselves:

    AllFinite(gradients...) -> bool[1]          MindSpore's name
    NonFiniteCheck(gradients...) -> float[1]    CANN's: 1 if any number is infinite or NaN

A graph has no register. What the backward pass made is therefore given to the first two as further inputs,
after which they run; NPUGetFloatStatus looks for infinities and NaN in it, at no cost, since the register
holds it on the chip.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Node
from ascendsim.ops.shared.bursts import fill_work
from ascendsim.ops.shared.common import computing_type, make_steps, on_ai_cpu, runs_on_ai_core
from ascendsim.ops.shared.dims import need_shape
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.axes import AxisMap, by_labels
from ascendsim.opset.definition import Infer
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.structure import opaque, unread
from ascendsim.opset.work import LowerContext, Ref, SequenceWork, Stream, VectorWork, Work

Wanted = Sequence["np.dtype[Any]"]
_STATUS = (8,)


def _status_infer(context: InferContext) -> None:
    if context.node.input_count:
        need_shape(context, 0, _STATUS)
    context.set(0, DType.FLOAT32, _STATUS)


def _zeros(_node: Node, _inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    return [np.zeros(_STATUS, wanted[0])]


def _zeros_lower(node: Node, _context: LowerContext) -> Work:
    return fill_work(Ref.of(node.output))


def _all_finite(arrays: Sequence[Any]) -> bool:
    given = (array for array in arrays if array is not None)
    # ml_dtypes' types are of kind "V"
    floats = (array if array.dtype.kind == "f" else array.astype(np.float32) for array in given)
    return all(bool(np.isfinite(array).all()) for array in floats)


def _get(_node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    status = inputs[0].astype(wanted[0])
    if not _all_finite(inputs[1:]):
        status[0] = 1
    return [status]


def _get_lower(node: Node, _context: LowerContext) -> Work:
    """The register joins what the buffer holds."""
    buffer, target = Ref.of(node.required(0)), Ref.of(node.output)
    steps = make_steps(["vadd"], DType.FLOAT32)
    return VectorWork(1, _STATUS[0], steps, (Stream(buffer),), (Stream(target),))


def _get_links(node: Node) -> AxisMap:
    return by_labels(node, {0: (0,)}, {0: (0,)})


# ------------------------------------------------------------------------------------------------------------


def _flag_infer(dtype: DType) -> Infer:
    def infer(context: InferContext) -> None:
        if not any(tensor is not None for tensor in context.node.inputs):
            raise context.fail("needs tensors to look at")
        context.set(0, dtype, (1,))

    return infer


def _finite(_node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    return [np.array([_all_finite(inputs)])]


def _non_finite(_node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    return [np.array([not _all_finite(inputs)], wanted[0])]


def _flag_lower(node: Node, context: LowerContext) -> Work:
    """Each tensor is read once: x - x is 0 but for infinities and NaN, and the largest magnitude is kept."""
    target = Ref.of(node.output)
    tensors = [tensor for tensor in node.inputs if tensor is not None and tensor.elements]
    if not runs_on_ai_core(node):
        return on_ai_cpu(node)
    parts = []
    for tensor in tensors:
        inside = computing_type(tensor.element_type, context)
        steps = make_steps(["vsub", "vabs", "vmax"], inside)
        if inside is not tensor.element_type:
            steps = (*make_steps(["vconv"], inside), *steps)
        flag = (Stream(target, "one"),)
        parts.append(VectorWork(1, tensor.elements, steps, (Stream(Ref.of(tensor)),), flag))
    return SequenceWork(tuple(parts)) if parts else fill_work(target)


_WATCHED = Facts(opaque(), Kind.OTHER, Precision.GRAY)

OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "NPUAllocFloatStatus",
        _status_infer,
        _zeros,
        _zeros_lower,
        domain="ascend",
        foldable=False,
        most_inputs=0,
        facts=Facts(unread(), Kind.OTHER, Precision.GRAY),
    ),
    OpDef(
        "NPUClearFloatStatus",
        _status_infer,
        _zeros,
        _zeros_lower,
        domain="ascend",
        foldable=False,
        most_inputs=None,
        facts=Facts(unread(), Kind.OTHER, Precision.GRAY),
    ),
    OpDef(
        "NPUGetFloatStatus",
        _status_infer,
        _get,
        _get_lower,
        domain="ascend",
        foldable=False,
        most_inputs=None,
        facts=Facts(_get_links, Kind.OTHER, Precision.GRAY, parameters=(0,)),
    ),
    OpDef(
        "AllFinite",
        _flag_infer(DType.BOOL),
        _finite,
        _flag_lower,
        domain="ascend",
        most_inputs=None,
        facts=_WATCHED,
    ),
    OpDef(
        "NonFiniteCheck",
        _flag_infer(DType.FLOAT32),
        _non_finite,
        _flag_lower,
        domain="ascend",
        most_inputs=None,
        facts=_WATCHED,
    ),
)
