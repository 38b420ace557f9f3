"""Cumulative sums and products along an axis."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import BLOCK_BYTES
from ascendsim.graph.ir import Array, Node
from ascendsim.ops.shared.common import (
    computing_type,
    converted,
    normalise_axis,
    on_ai_cpu,
    same_as,
    with_numpy,
)
from ascendsim.ops.shared.dims import need_rank
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.facts import Elements, Facts, Kind, Precision
from ascendsim.opset.structure import along_axes, constant_ints
from ascendsim.opset.work import LowerContext, NoTask, Ref, Step, Stream, VectorWork, Work, WorkChoice

_TYPES = frozenset({DType.FLOAT16, DType.FLOAT32, DType.INT32, DType.BFLOAT16})


def _cumulative(function: Callable[..., Array], neutral: int) -> Callable[..., Array]:
    def values(node: Node, array: Array, axis: Array) -> Array:
        where = normalise_axis(
            int(np.asarray(axis).item()), array.ndim, f"axis of node {node.name!r} ({node.op_type})"
        )
        moved = np.moveaxis(array, where, 0)
        moved = moved[::-1] if node.attr("reverse", 0) else moved
        if node.attr("exclusive", 0):
            moved = np.concatenate([np.full_like(moved[:1], neutral), moved[:-1]])
        result = function(moved, axis=0, dtype=moved.dtype)
        result = result[::-1] if node.attr("reverse", 0) else result
        return np.ascontiguousarray(np.moveaxis(result, 0, where))

    return values


def _cumulative_lower(op: str) -> Callable[[Node, LowerContext], Work]:
    """One instruction a slice along the axis; each adds the slice before, so they depend on each other.

    Slices below a block are fetched one by one (2.3 G elements/s on 910B2): the AI CPU may be quicker.
    """

    def lower(node: Node, context: LowerContext) -> Work:
        source, target, axis = node.required(0), node.output, node.required(1)
        if source.elements == 0:
            return NoTask()
        known = axis.constant is not None and axis.constant.available
        if not known or source.element_type not in _TYPES:
            return on_ai_cpu(node)
        assert axis.constant is not None
        shape = source.static_shape
        where = int(axis.constant.array().item()) % len(shape)
        inner = math.prod(shape[where + 1 :])
        inside = computing_type(source.element_type, context)
        steps = converted((Step(op, inside),), [source.element_type], source.element_type, inside)
        piece = inner * source.element_type.itemsize
        work = VectorWork(
            source.elements // inner,
            inner,
            steps,
            (Stream(Ref.of(source)),),
            (Stream(Ref.of(target)),),
            gather_bytes=piece,
        )
        return WorkChoice((work, on_ai_cpu(node))) if piece < BLOCK_BYTES else work

    return lower


def _stated_axis(node: Node, rank: int) -> tuple[int, ...] | None:
    given = constant_ints(node.input(1))
    return None if given is None or not rank else (given[0] % rank,)


def _check(context: InferContext) -> None:
    need_rank(context, 0, 1)


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "CumSum",
        same_as(check=_check),
        with_numpy(_cumulative(np.cumsum, 0)),
        _cumulative_lower("vadd"),
        cann="CumsumD",
        most_inputs=2,
        facts=Facts(
            along_axes(_stated_axis),
            Kind.REDUCTION,
            Precision.BLACK,
            parameters=(1,),
            elements=Elements.COMPUTED,
            typed=(0,),
        ),
    ),
    OpDef(
        "CumProd",
        same_as(check=_check),
        with_numpy(_cumulative(np.cumprod, 1)),
        _cumulative_lower("vmul"),
        cann="CumprodD",
        most_inputs=2,
        facts=Facts(along_axes(_stated_axis), Kind.REDUCTION, Precision.GRAY, parameters=(1,)),
    ),
)
