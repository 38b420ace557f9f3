"""Switch and Merge, the control flow of TensorFlow 1 as GE takes it over.

    Switch(data, pred) -> output_false, output_true     data leaves by the side that pred names, the other
                                                        side is dead
    Merge(x1, x2, ...) -> y, value_index                the one input that is not dead, and its number

With a constant `pred` the graph engine removes the dead side when the graph is compiled
(SwitchDeadBranchElimination, MergePass). Sides that only a value can decide are not run here: that form of
control flow is If's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import CompileError, GraphError
from ascendsim.graph.ir import Node
from ascendsim.ops.control.control_flow_shapes import merge_shapes
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.structure import opaque
from ascendsim.opset.work import LowerContext, Work

DOMAIN = "ascend"
WHY = "cannot run: its condition is not constant, or its dead side is an output of the graph or waited for"
REMEDY = "make the condition constant, and leave optimisation on, or export the branches as If"


def _switch_infer(ctx: InferContext) -> None:
    for side in range(2):
        ctx.set(side, ctx.dtype(0), ctx.shape(0))


def _merge_infer(ctx: InferContext) -> None:
    """Inputs agree in type; a dimension in which they differ is open, and so is the rank."""
    given = [tensor for tensor in ctx.node.inputs if tensor is not None]
    if not given or given[0].dtype is None:
        raise ctx.fail("needs inputs of a known element type")
    kind, shape = given[0].dtype, given[0].shape
    for tensor in given[1:]:
        if tensor.dtype is not kind:
            raise ctx.fail("needs inputs of one element type")
        shape = merge_shapes(shape, tensor.shape)
    ctx.set(0, kind, shape)
    if len(ctx.node.outputs) > 1:
        ctx.set(1, DType.INT32, ())


def _no_values(node: Node, _inputs: Sequence[Any], _wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    raise GraphError(f"node {node.name!r} ({node.op_type})", WHY, remedy=REMEDY)


def _no_work(node: Node, _ctx: LowerContext) -> Work:
    raise CompileError(f"node {node.name!r} ({node.op_type})", WHY, remedy=REMEDY)


_FACTS = Facts(opaque(), Kind.OTHER, Precision.GRAY)

OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "Switch",
        _switch_infer,
        _no_values,
        _no_work,
        domain=DOMAIN,
        foldable=False,
        most_inputs=None,
        facts=_FACTS,
    ),
    OpDef(
        "Merge",
        _merge_infer,
        _no_values,
        _no_work,
        domain=DOMAIN,
        foldable=False,
        most_inputs=None,
        facts=_FACTS,
    ),
)
