"""MaxPoolGradWithArgmax over windows that are closer than half of their size, in the kernels of CANN's first
years (opp, max_pool_grad_with_argmax.py: cut_one_h).

Other windows are spread over tiles of many rows. Of these there is one row of the gradient in UB at a time,
and for each tap of its windows the bits of that tap are brought, waited for, and taken repeat by repeat; what
they choose is added to the map in float32. So it is 9 waits for global memory a row in windows of 3 x 3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import align
from ascendsim.graph.ir import Node, Tensor
from ascendsim.ops.reduce.pooling import plane_bytes
from ascendsim.ops.shared.common import select_by_bits
from ascendsim.ops.shared.windows import Axis, taps
from ascendsim.opset.work import LowerContext, Ref, Step, Stream, VectorWork

_WINDOWS = 16  # that a word of bits tells of, and of which a row in UB is a multiple


def are_close(axes: Sequence[Axis]) -> bool:
    """Whether more than two windows share a position, along any axis."""
    return any(axis.kernel > 2 * axis.stride for axis in axes)


def tap_by_tap(
    node: Node, context: LowerContext, gradient: Tensor, axes: tuple[Axis, ...], inside: DType, blocks: int
) -> VectorWork:
    """The work: a row of it is a tap of a row of the gradient.

    Args:
        node: With the bits as its third input.
        context: The chip.
        gradient: In NC1HWC0.
        axes: Its windows.
        inside: What the choice computes in.
        blocks: That the kernel starts.
    """
    *_, height, width, lanes = gradient.storage_shape
    wide = DType.FLOAT32 if context.supports("vadd", DType.FLOAT32) else inside
    rows = math.prod(gradient.storage_shape[:2]) * height * taps(axes)
    steps = (
        select_by_bits(inside, context),
        Step("vconv", wide),
        Step("vadd", wide),
        # of all taps of a row: the map's rows are set to zero, rounded and moved up by a stride
        Step("vconv", wide),
    )
    bits = node.required(2)
    return VectorWork(
        rows,
        align(width, _WINDOWS) * lanes,
        steps,
        (Stream(Ref.of(gradient)), Stream(Ref.of(bits))),
        (Stream(Ref.of(node.output)),),
        gather_bytes=plane_bytes(gradient),
        in_turn=True,
        overlaps=False,
        blocks=blocks,
    )
