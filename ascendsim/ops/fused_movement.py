"""ConfusionTransposeD (domain "ascend"): a transpose and a reshape in one transfer.

transpose_first: reshape(transpose(x, perm), shape), else transpose(reshape(x, shape), perm). `shape` is what the reshape gives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.graph.ir import Array, Node, Shape
from ascendsim.ops.bursts import transpose_work
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.work import LowerContext, NoTask, Ref, Work


def _first(node: Node) -> bool:
    return bool(node.attr("transpose_first", 0))


def _infer(context: InferContext) -> None:
    node, source = context.node, context.shape(0)
    shape: Shape = tuple(node.attr("shape"))
    if source is not None and all(isinstance(dim, int) for dim in source):
        if math.prod(source) != math.prod(shape):  # type: ignore[arg-type]
            raise context.fail("must keep the number of elements", f"{list(source)} -> {list(shape)}")
        turned = len(source) if _first(node) else len(shape)
        if sorted(node.attr("perm")) != list(range(turned)):
            raise context.fail(f"needs perm to be an order of {turned} axes", node.attr("perm"))
    context.set(0, context.dtype(0), shape if _first(node) else tuple(shape[axis] for axis in node.attr("perm")))


def _compute(node: Node, inputs: Sequence[Any], _wanted: Sequence[np.dtype[Any]]) -> Sequence[Array]:
    perm, shape = tuple(node.attr("perm")), tuple(node.attr("shape"))
    if _first(node):
        return [inputs[0].transpose(perm).reshape(shape).copy(order="C")]
    return [inputs[0].reshape(shape).transpose(perm).copy(order="C")]


def _lower(node: Node, context: LowerContext) -> Work:
    source = Ref.of(node.required(0))
    if source.bytes == 0:
        return NoTask()
    turned = source.shape if _first(node) else tuple(node.attr("shape"))
    return transpose_work(source, Ref.of(node.output), turned, tuple(node.attr("perm")), context)


OPERATORS: tuple[OpDef, ...] = (OpDef("ConfusionTransposeD", _infer, _compute, _lower, domain="ascend"),)
