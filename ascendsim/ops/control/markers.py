"""Markers that frameworks leave in graphs: StopGradient, PreventGradient, Snapshot, GuaranteeConst,
PlaceholderWithDefault, Print, Assert.

They concern training, debugging or the framework's own compiler. When a trained model is run they hand their
first input on (Assert gives nothing), so the graph engine removes them; a graph that is not optimised keeps
them as another name of the same memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.graph.ir import Node
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.structure import ELEMENTWISE, opaque
from ascendsim.opset.work import LowerContext, NoTask

DOMAIN = "ascend"
# with the number of inputs at most: Print takes what it prints too
_FORWARDING = {
    "StopGradient": 1,
    "PreventGradient": 1,
    "Snapshot": 1,
    "GuaranteeConst": 1,
    "PlaceholderWithDefault": 1,
    "Print": None,
}


def _infer(context: InferContext) -> None:
    context.set(0, context.dtype(0), context.shape(0))


def _compute(node: Node, inputs: Sequence[Any], _wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    return [inputs[0]] if node.outputs else []


def _lower(node: Node, _context: LowerContext) -> NoTask:
    return NoTask(((node.output.name, node.required(0).name),)) if node.outputs else NoTask()


OPERATORS: tuple[OpDef, ...] = (
    *(
        OpDef(
            name, _infer, _compute, _lower, Layout.FOLLOW, domain=DOMAIN, most_inputs=most, facts=ELEMENTWISE
        )
        for name, most in _FORWARDING.items()
    ),
    OpDef(
        "Assert",
        _infer,
        _compute,
        _lower,
        domain=DOMAIN,
        foldable=False,
        most_inputs=None,
        facts=Facts(opaque(), Kind.OTHER, Precision.GRAY),
    ),
)
