"""Relu in training (domain "ascend"): ReluGrad, ReluV2 and ReluGradV2.

    ReluGrad(dy, y)  = dy where y > 0, else 0                    reads the activation
    ReluV2(x)        -> max(x, 0), mask                          one bit an element: x > 0
    ReluGradV2(dy, mask)                                         reads 1/16 of the bytes of a float16
                                                                 activation

The mask is uint8 and packs eight neighbours of axis 1 (the channels; axis 0 of a vector), least significant
bit first. Its traffic is that of its bits also where its channels are padded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format, ceil_div
from ascendsim.graph.ir import Array, Node, Shape, Tensor
from ascendsim.ops.normalise.normalisation_work import channel_split, maps_of
from ascendsim.ops.shared.common import (
    elementwise_lower,
    make_steps,
    on_ai_cpu,
    runs_on_ai_core,
    same_as,
    select_by_bits,
    with_numpy,
)
from ascendsim.ops.shared.dims import may_equal, need_shape
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.axes import WHOLE, AxisMap
from ascendsim.opset.facts import Facts, Kind, OpPattern, Precision
from ascendsim.opset.structure import ELEMENTWISE, elementwise
from ascendsim.opset.work import LowerContext, NoTask, Ref, Stream, VectorWork, Work

Wanted = Sequence["np.dtype[Any]"]
_BITS = 8


def _packed_axis(rank: int) -> int:
    return 1 if rank > 1 else 0


def _mask_shape(shape: Shape | None) -> Shape | None:
    if not shape:
        return None if shape is None else (1,)
    axis = _packed_axis(len(shape))
    size = shape[axis]
    return (*shape[:axis], ceil_div(size, _BITS) if isinstance(size, int) else None, *shape[axis + 1 :])


def _infer_relu(context: InferContext) -> None:
    context.set(0, context.dtype(0), context.shape(0))
    context.set(1, DType.UINT8, _mask_shape(context.shape(0)))


def _infer_grad(context: InferContext) -> None:
    wanted = _mask_shape(context.shape(0))
    if not may_equal(wanted, context.shape(1)):
        raise context.fail(f"needs a mask of shape {wanted}", context.shape(1))
    context.set(0, context.dtype(0), context.shape(0))


def _relu(_node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    x = inputs[0]
    positive = np.atleast_1d(x > 0)
    mask = np.packbits(positive, axis=_packed_axis(positive.ndim), bitorder="little")
    return [np.maximum(x, x.dtype.type(0)).astype(wanted[0]), mask][: len(wanted)]


def _relu_grad_bits(_node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    grad, mask = inputs
    axis = _packed_axis(max(1, grad.ndim))
    size = grad.shape[axis] if grad.ndim else 1
    kept = np.unpackbits(mask, axis=axis, count=size, bitorder="little").astype(bool).reshape(grad.shape)
    return [np.where(kept, grad, grad.dtype.type(0)).astype(wanted[0])]


def _bits(mask: Tensor, data: Tensor) -> Stream:
    """The mask as vector work sees it: one bit for each stored element of the data."""
    kind = data.element_type
    size = ceil_div(data.storage_bytes // kind.itemsize, _BITS)
    return Stream(
        Ref(mask.name, data.static_shape, DType.UINT8, data.format, size, mask.is_constant, bits_of=kind)
    )


def _from_activation(_node: Node, grad: Array, y: Array) -> Array:
    if grad.dtype == y.dtype and grad.dtype in (np.float32, np.float64):
        from ascendsim_kernels.elementwise import where_positive

        return where_positive(y, grad)
    return np.where(y > 0, grad, grad.dtype.type(0))


def _lower_relu(node: Node, context: LowerContext) -> Work:
    data, result, mask = node.required(0), node.output, node.outputs[1]
    if data.elements == 0:
        return NoTask()
    if not runs_on_ai_core(node):
        return on_ai_cpu(node, 2.0)
    stored = data.storage_bytes // data.element_type.itemsize
    steps = make_steps(["vcmpv", "vrelu"], data.element_type)
    return VectorWork(1, stored, steps, (Stream(Ref.of(data)),), (Stream(Ref.of(result)), _bits(mask, data)))


def _lower_grad(node: Node, context: LowerContext) -> Work:
    grad, mask, result = node.required(0), node.required(1), node.output
    if grad.elements == 0:
        return NoTask()
    if not runs_on_ai_core(node):
        return on_ai_cpu(node)
    inside, maps = grad.element_type, maps_of(grad, "images")
    rows, cols = channel_split(grad)[:2] if maps is not None else (1, grad.storage_bytes // inside.itemsize)
    step = select_by_bits(inside, context)
    inputs = (Stream(Ref.of(grad)), _bits(mask, grad))
    return VectorWork(rows, cols, (step,), inputs, (Stream(Ref.of(result)),), maps=maps)


def _in_blocks(node: Node, format: Format) -> bool:
    return format is Format.NC1HWC0


def _links_of_bits(node: Node) -> AxisMap:
    """Element by element, but a byte of the mask holds eight neighbours of the packed axis."""
    links = dict(elementwise(0)(node).links)
    if (own := links.get((0, 1))) is not None:
        packed = _packed_axis(len(own))
        links[0, 1] = (*own[:packed], replace(WHOLE, axis=packed), *own[packed + 1 :])
    return AxisMap(links)


_FACTS = Facts(elementwise(0), Kind.ELEMENTWISE, Precision.GRAY, pattern=OpPattern.ELEMWISE)

OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "ReluGrad",
        same_as(check=lambda context: need_shape(context, 1, context.shape(0))),
        with_numpy(_from_activation),
        elementwise_lower(["vcmp", "vsel"]),
        Layout.FOLLOW,
        domain="ascend",
        most_inputs=2,
        facts=ELEMENTWISE,
    ),
    OpDef(
        "ReluV2",
        _infer_relu,
        _relu,
        _lower_relu,
        Layout.FOLLOW,
        domain="ascend",
        in_blocks=_in_blocks,
        facts=replace(_FACTS, axes=_links_of_bits),
    ),
    OpDef(
        "ReluGradV2",
        _infer_grad,
        _relu_grad_bits,
        _lower_grad,
        Layout.FOLLOW,
        domain="ascend",
        in_blocks=_in_blocks,
        most_inputs=2,
        facts=_FACTS,
    ),
)
