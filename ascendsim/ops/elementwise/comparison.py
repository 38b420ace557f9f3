"""Comparisons, logic, bit operations and Where."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Node
from ascendsim.ops.shared.common import (
    StepSpec,
    converted,
    elementwise_lower,
    elementwise_work,
    infer_broadcast,
    make_steps,
    on_ai_cpu,
    same_as,
    split_broadcast,
    walking_shape,
    with_numpy,
)
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.facts import movement
from ascendsim.opset.structure import COMPARED, ELEMENTWISE, elementwise
from ascendsim.opset.work import (
    AiCpuWork,
    LowerContext,
    NoTask,
    Ref,
    SequenceWork,
    Step,
    Stream,
    VectorWork,
    Work,
    WorkChoice,
    workspace_of,
)

_BITWISE_TYPES = frozenset({DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.INT32, DType.UINT32})
_COMPARE: tuple[StepSpec, ...] = ("vcmp", "vsel")  # mask, then 1 or 0; a conversion to bool follows
_LONG_COMPARE: tuple[StepSpec, ...] = (("vcmp", 2), "vand", "vsel")  # both 32-bit halves, then as for one
_XOR: tuple[StepSpec, ...] = ("vor", "vand", "vnot", "vand")  # (a | b) & ~(a & b)


def _is_inf(node: Node, x: Array) -> Array:
    return (np.isposinf(x) & bool(node.attr("detect_positive", 1))) | (
        np.isneginf(x) & bool(node.attr("detect_negative", 1))
    )


def _shift(node: Node, x: Array, by: Array) -> Array:
    return np.asarray(np.left_shift(x, by) if node.attr("direction") == "LEFT" else np.right_shift(x, by))


def _where_infer(context: InferContext) -> None:
    if context.dtype(1) is not context.dtype(2):
        raise context.fail(
            "needs two branches of one type", f"{context.dtype(1).value} and {context.dtype(2).value}"
        )
    infer_broadcast(type_from=1)(context)


def _where(_node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    """A choice and no arithmetic: every type keeps its bits."""
    return [np.where(*inputs).astype(wanted[0], copy=False)]


def _where_lower(node: Node, context: LowerContext) -> Work:
    """The condition's bytes become a mask (compare with 0), then the mask selects.

    CANN's kernel takes int64 too (ops-math, select_v2: its list of types for the AI Core).
    """
    return elementwise_work(node, context, _COMPARE, type_from=1, long=True)


def _bitwise_lower(specs: Sequence[StepSpec]) -> Callable[[Node, LowerContext], Work]:
    """Bit instructions exist for 16-bit lanes alone; other widths are looked at as such lanes."""

    def lower(node: Node, _context: LowerContext) -> Work:
        output = node.output
        if output.elements == 0:
            return NoTask()
        dtype = output.element_type
        if dtype not in _BITWISE_TYPES:
            return on_ai_cpu(node)
        tensors = [tensor for tensor in node.inputs if tensor is not None]
        split = split_broadcast(walking_shape(output), [walking_shape(tensor, output) for tensor in tensors])
        lanes = max(1, dtype.itemsize // DType.INT16.itemsize)
        steps = make_steps(
            [(spec, lanes) if isinstance(spec, str) else (spec[0], spec[1] * lanes) for spec in specs],
            DType.INT16,
        )
        streams = tuple(
            Stream(Ref.of(tensor), over) for tensor, over in zip(tensors, split.overs, strict=True)
        )
        return VectorWork(split.rows, split.cols, steps, streams, (Stream(Ref.of(output)),))

    return lower


def _shift_lower(node: Node, _context: LowerContext) -> Work:
    """The AI Core shifts all elements by one number; a tensor of shifts is left to the AI CPU."""
    return on_ai_cpu(node) if math.prod(node.output.static_shape) else NoTask()


def _compare_lower(steps: Sequence[StepSpec]) -> Callable[[Node, LowerContext], Work]:
    """Compares elements. 64-bit ones in 32-bit halves, on chips that handle them on the AI Core at all (their
    vconv takes int64); on others the AI CPU brings labels and indices to int32 first, or compares.

    Measured: Equal of int64 takes 2.7 us on one vector core of an Ascend910B.
    """

    def lower(node: Node, context: LowerContext) -> Work:
        tensors = [tensor for tensor in node.inputs if tensor is not None]
        output = node.output
        if output.elements == 0 or any(tensor.element_type is not DType.INT64 for tensor in tensors):
            return elementwise_work(node, context, steps)
        split = split_broadcast(walking_shape(output), [walking_shape(tensor, output) for tensor in tensors])
        refs = [Ref.of(tensor) for tensor in tensors]

        def compared(sources: Sequence[Ref], body: tuple[Step, ...]) -> VectorWork:
            streams = tuple(Stream(ref, over) for ref, over in zip(sources, split.overs, strict=True))
            return VectorWork(split.rows, split.cols, body, streams, (Stream(Ref.of(output)),))

        if context.supports("vconv", DType.INT64):
            return compared(refs, make_steps(_LONG_COMPARE, DType.INT32))
        narrow = {ref.region: _narrowed(ref) for ref in refs}
        casts = tuple(
            AiCpuWork(math.prod(ref.shape), 1.0, (ref,), (narrow[ref.region],))
            for ref in dict.fromkeys(refs)
            if not ref.constant
        )
        body = converted(make_steps(steps, DType.INT32), [], output.element_type, DType.INT32)
        last = compared([narrow[ref.region] for ref in refs], body)
        scratch = sum(part.outputs[0].bytes for part in casts)
        by_vector = SequenceWork((*casts, last), workspace_bytes=scratch) if casts else last
        return WorkChoice((by_vector, on_ai_cpu(node, float(len(steps)))))

    return lower


def _narrowed(wide: Ref) -> Ref:
    """Scratch memory for an int32 copy; a constant lies as int32 from the start, in the memory that it
    has.
    """
    if wide.constant:
        return wide
    size = math.prod(wide.shape) * DType.INT32.itemsize
    return replace(wide, region=workspace_of(wide.region), dtype=DType.INT32, bytes=size)


def _compare(
    name: str,
    function: Callable[[Array, Array], Array],
    steps: Sequence[StepSpec] = _COMPARE,
    cann: str = "",
    mindspore: str = "",
) -> OpDef:
    return OpDef(
        name,
        infer_broadcast(DType.BOOL),
        with_numpy(lambda _node, a, b: function(a, b)),
        _compare_lower(steps),
        Layout.FOLLOW,
        cann,
        mindspore=mindspore,
        most_inputs=2,
        facts=COMPARED,
    )


def _bitwise(name: str, function: Callable[[Array, Array], Array], steps: Sequence[StepSpec]) -> OpDef:
    return OpDef(
        name,
        infer_broadcast(),
        with_numpy(lambda _node, a, b: function(a, b)),
        _bitwise_lower(steps),
        Layout.FOLLOW,
        most_inputs=2,
        facts=ELEMENTWISE,
    )


OPERATORS: tuple[OpDef, ...] = (
    _compare("Equal", np.equal),
    _compare("Greater", np.greater),
    _compare("GreaterOrEqual", np.greater_equal, cann="GreaterEqual", mindspore="GreaterEqual"),
    _compare("Less", np.less),
    _compare("LessOrEqual", np.less_equal, cann="LessEqual", mindspore="LessEqual"),
    _compare("And", np.logical_and, ("vmul",), "LogicalAnd"),
    _compare("Or", np.logical_or, ("vmax",), "LogicalOr"),
    _compare("Xor", np.logical_xor, ("vsub", "vabs"), "LogicalXor"),
    OpDef(
        "Not",
        same_as(),
        with_numpy(lambda _n, x: ~x),
        elementwise_lower(["vmuls", "vadds"]),
        Layout.FOLLOW,
        "LogicalNot",
        facts=ELEMENTWISE,
    ),
    OpDef(
        "IsNaN",
        same_as(dtype=DType.BOOL),
        with_numpy(lambda _n, x: np.isnan(x)),
        elementwise_lower(_COMPARE),
        Layout.FOLLOW,
        "IsNan",
        facts=ELEMENTWISE,
    ),
    OpDef(
        "IsInf",
        same_as(dtype=DType.BOOL),
        with_numpy(_is_inf),
        elementwise_lower(["vabs", *_COMPARE]),
        Layout.FOLLOW,
        facts=ELEMENTWISE,
    ),
    _bitwise("BitwiseAnd", np.bitwise_and, ("vand",)),
    _bitwise("BitwiseOr", np.bitwise_or, ("vor",)),
    _bitwise("BitwiseXor", np.bitwise_xor, _XOR),
    OpDef(
        "BitwiseNot",
        same_as(),
        with_numpy(lambda _n, x: ~x),
        _bitwise_lower(("vnot",)),
        Layout.FOLLOW,
        "Invert",
        facts=ELEMENTWISE,
    ),
    OpDef(
        "BitShift",
        infer_broadcast(),
        with_numpy(_shift),
        _shift_lower,
        Layout.FOLLOW,
        "LeftShift",
        most_inputs=2,
        facts=ELEMENTWISE,
    ),
    OpDef(
        "Where",
        _where_infer,
        _where,
        _where_lower,
        Layout.FOLLOW,
        "SelectV2",
        mindspore="Select",
        in_place=True,
        most_inputs=3,
        facts=movement(elementwise(), kept=(1, 2)),
    ),
)
