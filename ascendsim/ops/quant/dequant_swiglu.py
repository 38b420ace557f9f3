"""DequantSwigluQuant (domain "ascend", CANN's prototype): the gate between two products of int8.

    DequantSwigluQuant(x, weight_scale, activation_scale, bias, quant_scale, quant_offset) -> y, scale

x holds a gate and its partner side by side on the last axis: int32 sums, which are multiplied by
weight_scale (one a column) and activation_scale (one a row), with bias of int32 added before and of floats
after; or floats, as they are. The halves make one by SwiGlu (the second one is the gate, or with
activate_left the first), which is made int8: with quant_mode "dynamic" by rows, times quant_scale (one a
column), as DynamicQuant does; with "static" as quotients by the one number quant_scale, plus quant_offset,
and without scales of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Node
from ascendsim.ops.elementwise.activation import SIGMOID_STEPS
from ascendsim.ops.quant.dynamic import (
    check_int8,
    dynamic_steps,
    per_row,
    rounded_steps,
    rows_and_scales,
    scaled_bytes,
    statistics_shape,
)
from ascendsim.ops.shared.common import as_float32, computing_type, make_steps, on_ai_cpu, runs_on_ai_core
from ascendsim.ops.shared.dims import need_shape, product
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.axes import AxisMap
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.work import LowerContext, NoTask, Over, Ref, Step, Stream, VectorWork, Work

_WEIGHT, _ACTIVATION, _BIAS, _SCALE, _OFFSET = 1, 2, 3, 4, 5  # ports


def _dynamic(node: Node) -> bool:
    return str(node.attr("quant_mode", "static")) == "dynamic"


def _infer(context: InferContext) -> None:
    node, data, sums = context.node, context.shape(0), context.dtype(0) is DType.INT32
    check_int8(context)
    mode = node.attr("quant_mode", "static")
    if mode not in ("static", "dynamic"):
        raise context.fail("needs quant_mode static or dynamic", repr(mode))
    if not sums and any(context.has(port) for port in (_WEIGHT, _ACTIVATION, _BIAS)):
        raise context.fail("needs int32 sums for scales and bias of a product", context.dtype(0).value)
    if sums and not context.has(_WEIGHT):
        raise context.fail("needs weight_scale for int32 sums", None)
    if not _dynamic(node) and not context.has(_SCALE):
        raise context.fail("needs quant_scale with quant_mode static", None)
    half = data
    if data is not None:
        last = data[-1] if data else None
        if len(data) < 2 or (isinstance(last, int) and last % 2):
            raise context.fail("needs rank 2 or more and a last axis of even size", list(data))
        half = (*data[:-1], last // 2 if isinstance(last, int) else None)
        for port in (_WEIGHT, _BIAS):
            if context.has(port):
                need_shape(context, port, (last,) if len(context.shape(port) or (0,)) == 1 else (1, last))
        if context.has(_ACTIVATION):
            _one_a_row(context, product(data[:-1]))
        for port in (_SCALE, _OFFSET):
            if context.has(port) and context.shape(port) != (1,):
                wanted = half[-1:] if _dynamic(node) else (1,)
                need_shape(context, port, wanted if len(context.shape(port) or (0,)) == 1 else (1, *wanted))
    context.set(0, DType.INT8, half)
    context.set(1, DType.FLOAT32, statistics_shape(half) if _dynamic(node) else (0,))


def _one_a_row(context: InferContext, rows: object) -> None:
    shape = context.shape(_ACTIVATION)
    count = None if shape is None else product(shape)
    if isinstance(count, int) and isinstance(rows, int) and count != rows:
        raise context.fail(f"needs {rows} values as input {_ACTIVATION}, one a row", count)


def _compute(node: Node, inputs: Sequence[Any], _wanted: Sequence[np.dtype[Any]]) -> Sequence[Array]:
    x, weight, activation, bias, scale, offset = (*inputs, *(None,) * 6)[:6]
    with np.errstate(all="ignore"):
        if x.dtype == np.int32:
            whole = bias is not None and bias.dtype.kind == "i"
            sums = x + bias.reshape(-1) if whole else x
            wide = sums.astype(np.float32) * as_float32(weight).reshape(-1)
            if activation is not None:
                wide = wide * as_float32(activation).reshape(*x.shape[:-1], 1)
            if bias is not None and not whole:
                wide = wide + as_float32(bias).reshape(-1)
        else:
            wide = as_float32(x)
        first, second = np.split(wide, 2, axis=-1)
        gate, other = (first, second) if node.attr("activate_left", 0) else (second, first)
        made = gate / (1 + np.exp(-gate)) * other
    factor = None if scale is None else as_float32(scale).reshape(-1)
    if _dynamic(node):
        return per_row(made, factor)
    assert factor is not None
    zero = None if offset is None else offset.reshape(-1)
    return [scaled_bytes(made, factor, zero, divides=True), np.zeros(0, np.float32)]


def _lower(node: Node, context: LowerContext) -> Work:
    """Both halves of a row come in, half as many bytes of a quarter of the size leave."""
    data = node.required(0)
    if data.elements == 0:
        return NoTask()
    if not runs_on_ai_core(node):
        return on_ai_cpu(node, 12.0)
    target, sums = node.output, data.element_type is DType.INT32
    inside = DType.FLOAT32 if sums else computing_type(data.element_type, context, wide=True)
    twice: list[Step] = []  # steps on both halves
    if inside is not data.element_type:
        twice += make_steps(["vconv"], inside)
    twice += make_steps(["vmul" for port in (_WEIGHT, _ACTIVATION) if node.input(port) is not None], inside)
    twice += make_steps(["vadd"] if node.input(_BIAS) is not None else [], inside)
    dynamic, smooth = _dynamic(node), node.input(_SCALE) is not None
    steps = (
        *(step for step in twice for _ in range(2)),
        *make_steps([*SIGMOID_STEPS, ("vmul", 2)], inside),
        *(
            dynamic_steps(inside, smooth)
            if dynamic
            else rounded_steps(inside, node.input(_OFFSET) is not None)
        ),
    )
    overs: dict[int, Over] = {0: "all", _ACTIVATION: "row"}
    streams = [
        Stream(Ref.of(tensor), overs.get(port, "one" if tensor.elements == 1 else "col"))
        for port, tensor in enumerate(node.inputs)
        if tensor is not None
    ]
    results = [Stream(Ref.of(target))]
    results += [Stream(Ref.of(tensor), "row") for tensor in node.outputs[1:] if tensor.elements]
    cols = target.static_shape[-1]
    return VectorWork(
        target.elements // cols,
        cols,
        steps,
        tuple(streams),
        tuple(results),
        reduces="cols" if dynamic else "none",
        sweeps=2,
        gather_bytes=cols * data.element_type.itemsize,
    )


def _links(node: Node) -> AxisMap:
    return rows_and_scales(node, ())


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "DequantSwigluQuant",
        _infer,
        _compute,
        _lower,
        domain="ascend",
        most_inputs=6,
        facts=Facts(_links, Kind.REDUCTION, Precision.SUMS, parameters=(1, 2, 3, 4, 5)),
    ),
)
