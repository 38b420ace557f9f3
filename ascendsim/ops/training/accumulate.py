"""AccumulateGrad (domain "ascend"): a gradient added to its piece of a buffer, element by element as it lies.

    AccumulateGrad(piece, gradient) -> piece + gradient in one row     CANN's Add, launched by autograd

The piece is a stretch of memory in which gradients have the format of their weights (FRACTAL_Z of filters),
so that nothing is turned round on the way into it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.formats import Format
from ascendsim.graph.ir import Array, Node, Tensor
from ascendsim.ops.shared.common import (
    computing_type,
    converted,
    finish,
    make_steps,
    on_ai_cpu,
    runs_on_ai_core,
)
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.structure import opaque
from ascendsim.opset.work import LowerContext, NoTask, Ref, Stream, VectorWork, Work


def _infer(context: InferContext) -> None:
    piece, grad = context.node.required(0), context.node.required(1)
    if piece.is_static and grad.is_static and piece.elements != grad.elements:
        raise context.fail("needs as many numbers in both", [piece.elements, grad.elements])
    context.set(0, context.dtype(0), context.shape(0))


def _added(_node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Array]:
    piece, grad = inputs
    return [finish(piece + grad.reshape(piece.shape), wanted[0])]


def _lower(node: Node, context: LowerContext) -> Work:
    piece, grad = node.required(0), node.required(1)
    if not piece.elements:
        return NoTask()
    if not runs_on_ai_core(node):
        return on_ai_cpu(node)
    inside = computing_type(piece.element_type, context, False)
    types = [piece.element_type, grad.element_type]
    steps = converted(make_steps(("vadd",), inside), types, node.output.element_type, inside)
    streams = (Stream(Ref.of(piece)), Stream(_row(grad)))
    return VectorWork(1, piece.elements, steps, streams, (Stream(Ref.of(node.output)),))


def _row(tensor: Tensor) -> Ref:
    """The tensor's numbers one behind another."""
    size = tensor.elements * tensor.element_type.itemsize
    return Ref(tensor.name, (tensor.elements,), tensor.element_type, Format.ND, size)


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "AccumulateGrad",
        _infer,
        _added,
        _lower,
        Layout.FOLLOW,
        "Add",
        domain="ascend",
        most_inputs=2,
        facts=Facts(opaque(), Kind.OTHER, Precision.GRAY),
    ),
)
