"""StridedWrite and StridedRead (domain "ascend"): a task writes into, or reads from, a slice of a larger
tensor.

    Conv -> StridedWrite -> Concat      the convolution stores its channels where the Concat would have copied
    them Split -> StridedRead -> Conv        the convolution loads its channels from where the Split found
    them

Neither moves anything: the stride is a parameter of the neighbour's own store or load. With them, a Concat or
Split whose attribute `no_task` is set has nothing left to do (`ops/movement/affine.py`): its parts share the
memory of the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.graph.ir import Node
from ascendsim.ops.shared.common import same_as
from ascendsim.opset import Layout, OpDef
from ascendsim.opset.facts import OpPattern, movement
from ascendsim.opset.structure import elementwise
from ascendsim.opset.work import LowerContext, NoTask, Work


def _compute(_node: Node, inputs: Sequence[Any], _wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    return [inputs[0]]


def _lower_write(node: Node, _context: LowerContext) -> Work:
    """The input lies where the output does: its producer writes there."""
    return NoTask(((node.required(0).name, node.output.name),))


def _lower_read(node: Node, _context: LowerContext) -> Work:
    """The output lies where the input does."""
    return NoTask(((node.output.name, node.required(0).name),))


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "StridedWrite",
        same_as(),
        _compute,
        _lower_write,
        Layout.FOLLOW,
        domain="ascend",
        most_inputs=None,
        facts=movement(elementwise(), pattern=OpPattern.STRIDED_WRITE),
    ),
    OpDef(
        "StridedRead",
        same_as(),
        _compute,
        _lower_read,
        Layout.FOLLOW,
        domain="ascend",
        most_inputs=None,
        facts=movement(elementwise(), pattern=OpPattern.STRIDED_READ),
    ),
)
