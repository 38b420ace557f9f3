"""Memory that is added to starts at zero (domain "ascend").

    AtomicAddrClean(memory) -> zeros of its shape

The graph engine puts it in front of kernels whose cores add up their results in memory. Here such operators
clear their memory themselves (`ops.training.conv_grad`); the operator alone stands for the task of a profile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.graph.ir import Array, Node
from ascendsim.ops.shared.bursts import clear_work
from ascendsim.ops.shared.common import on_ai_cpu, runs_on_ai_core, same_as
from ascendsim.opset import OpDef
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.structure import unread
from ascendsim.opset.work import LowerContext, NoTask, Ref, Work


def _cleared(_node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Array]:
    return [np.zeros(inputs[0].shape, wanted[0])]


def _lower(node: Node, context: LowerContext) -> Work:
    if not node.output.elements:
        return NoTask()
    return clear_work(Ref.of(node.output), context) if runs_on_ai_core(node) else on_ai_cpu(node)


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "AtomicAddrClean",
        same_as(),
        _cleared,
        _lower,
        domain="ascend",
        foldable=False,
        in_place=True,
        facts=Facts(unread(), Kind.OTHER, Precision.GRAY),
    ),
)
