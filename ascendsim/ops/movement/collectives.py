"""HcomAllReduce, HcomAllGather, HcomReduceScatter and HcomAllToAll (domain "ascend"): HCCL's collectives as
operators of a graph that one of several devices runs.

`rank_size` devices take part. `known_us` is the time on the links, which the builder of the graph knows
(`soc.collectives`), so that lowering needs no model of a server. Values need what the other devices hold, so
only a group of one has them. Tensors are gathered and scattered along axis 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Array, Dim, Node
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.structure import opaque
from ascendsim.opset.work import LinkWork, LowerContext, NoTask, Ref, Work

DOMAIN = "ascend"
_GROWS, _SHRINKS = "HcomAllGather", "HcomReduceScatter"


def _infer(context: InferContext) -> None:
    devices = int(context.node.attr("rank_size", 1))
    if devices < 1:
        raise context.fail("needs a rank_size of 1 or more", devices)
    shape, name = context.shape(0), context.node.op_type
    if shape is None or name not in (_GROWS, _SHRINKS):
        context.set(0, context.dtype(0), shape)
        return
    if not shape:
        raise context.fail("needs at least one axis", "a scalar")
    first: Dim = shape[0]
    if isinstance(first, int):
        if name == _SHRINKS and first % devices:
            raise context.fail(f"needs a first axis that {devices} devices share evenly", first)
        first = first * devices if name == _GROWS else first // devices
    context.set(0, context.dtype(0), (first, *shape[1:]))


def _compute(node: Node, inputs: Sequence[Any], _wanted: Sequence[np.dtype[Any]]) -> Sequence[Array]:
    devices = int(node.attr("rank_size", 1))
    if devices > 1:
        rule = f"needs what all {devices} devices hold, and this is one of them"
        raise InputError(f"node {node.name!r} ({node.op_type})", rule, remedy="compute values on one card")
    return [inputs[0]]


def _lower(node: Node, _context: LowerContext) -> Work:
    source, made = node.required(0), node.output
    if int(node.attr("rank_size", 1)) == 1:
        return NoTask(((made.name, source.name),))
    return LinkWork(float(node.attr("known_us", 0.0)), (Ref.of(source),), (Ref.of(made),))


OPERATORS: tuple[OpDef, ...] = tuple(
    OpDef(
        name,
        _infer,
        _compute,
        _lower,
        Layout.ND,
        domain=DOMAIN,
        most_inputs=1,
        foldable=False,
        facts=Facts(opaque(), Kind.OTHER, Precision.GRAY),
    )
    for name in ("HcomAllReduce", _GROWS, _SHRINKS, "HcomAllToAll")
)
