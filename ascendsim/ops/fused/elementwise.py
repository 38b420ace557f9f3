"""Elementwise operators that only graph fusion makes (domain "ascend"): Square, Muls, FusedMulAdd,
FusedMulAddN.

Names are CANN's. Each computes in float32 and rounds once at its end, so that float16 results carry one
rounding instead of one for each operator that it stands for; float32 results are those of the unfused
operators bit by bit (Muls: of the product with the rounded reciprocal).
"""

from __future__ import annotations

import numpy as np

from ascendsim.graph.ir import Array, Node, Tensor
from ascendsim.ops.elementwise.arithmetic import by_kernel
from ascendsim.ops.shared.common import elementwise_lower, infer_broadcast, same_as, with_numpy
from ascendsim.ops.shared.dims import need_shape
from ascendsim.opset import Layout, OpDef
from ascendsim.opset.expansion import Writer
from ascendsim.opset.structure import ELEMENTWISE, SENSITIVE

DOMAIN = "ascend"


def _factor(node: Node) -> float:
    return float(node.attr("value"))


def _muls(node: Node, x: Array) -> Array:
    return np.asarray(x * x.dtype.type(_factor(node)))


def _mul_add(_node: Node, x: Array, factor: Array, summand: Array) -> Array:
    return np.asarray(x * factor + summand)


def _mul_add_n(_node: Node, x: Array, summand: Array, factor: Array) -> Array:
    return np.asarray(x * factor.reshape(()) + summand)


def _square_written_out(w: Writer) -> Tensor:
    return w.op("Mul", w(0), w(0))


def _mul_add_written_out(w: Writer) -> Tensor:
    return w.op("Add", w.op("Mul", w(0), w(1)), w(2))


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "Square",
        same_as(),
        by_kernel("SQUARE", lambda _node, x: x * x),
        elementwise_lower(["vmul"]),
        Layout.FOLLOW,
        expand=_square_written_out,
        domain=DOMAIN,
        facts=SENSITIVE,
    ),
    OpDef(
        "Muls",
        same_as(),
        with_numpy(_muls),
        elementwise_lower(["vmuls"]),
        Layout.FOLLOW,
        domain=DOMAIN,
        in_place=True,
        facts=ELEMENTWISE,
    ),
    OpDef(
        "FusedMulAdd",
        infer_broadcast(),
        with_numpy(_mul_add),
        elementwise_lower(["vmul", "vadd"]),
        Layout.FOLLOW,
        expand=_mul_add_written_out,
        domain=DOMAIN,
        in_place=True,
        most_inputs=3,
        facts=ELEMENTWISE,
    ),
    OpDef(
        "FusedMulAddN",
        same_as(check=lambda context: need_shape(context, 1, context.shape(0))),
        with_numpy(_mul_add_n),
        elementwise_lower(["vmuls", "vadd"]),
        Layout.FOLLOW,
        domain=DOMAIN,
        in_place=True,
        most_inputs=3,
        facts=ELEMENTWISE,
    ),
)
