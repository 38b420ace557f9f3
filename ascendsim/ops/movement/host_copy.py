"""MemcpyAsync (domain "ascend"): a tensor comes out of the host's memory or goes there, as a task of the
runtime.

`known_us` is its time, which whoever puts the node into a graph knows (`passes.host_inputs`, `host_reads`);
with `host_waits` the host launches nothing until it has ended. The chip's cores take no part in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.graph.ir import Array, Node
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.structure import opaque
from ascendsim.opset.work import LinkWork, LowerContext, NoTask, Ref, Work

DOMAIN = "ascend"
OP_TYPE = "MemcpyAsync"


def _infer(context: InferContext) -> None:
    context.set(0, context.dtype(0), context.shape(0))


def _compute(_node: Node, inputs: Sequence[Any], _wanted: Sequence[np.dtype[Any]]) -> Sequence[Array]:
    return [inputs[0]]


def _lower(node: Node, _context: LowerContext) -> Work:
    source, made = node.required(0), node.output
    if made.elements == 0:
        return NoTask(((made.name, source.name),))
    us, waits = float(node.attr("known_us", 0.0)), bool(node.attr("host_waits", 0))
    return LinkWork(us, (Ref.of(source),), (Ref.of(made),), from_host=True, host_waits=waits)


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        OP_TYPE,
        _infer,
        _compute,
        _lower,
        Layout.ND,
        domain=DOMAIN,
        most_inputs=1,
        foldable=False,
        facts=Facts(opaque(), Kind.MOVEMENT, Precision.GRAY),
    ),
)
