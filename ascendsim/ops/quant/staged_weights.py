"""How products make floats of weights of few bits: all before the product, or piece by piece beside it."""

from __future__ import annotations

import math
from dataclasses import replace

from ascendsim.opset.work import (
    CubeWork,
    LowerContext,
    SequenceWork,
    StagedProduct,
    VectorWork,
    Work,
    WorkChoice,
)

VECTOR_CORES = 2  # beside each cube core
VALUES = 24576  # halves that a vector core makes at a time: 32 KB of UB, twice, beside what comes
SLOTS = 8  # chunks of each cube core that are under way


def product_of_staged(making: VectorWork, product: CubeWork, context: LowerContext) -> Work:
    """Weights in floats, then the product; where cube and vector cores are apart and FIXPIPE completes the
    results, the quicker one of that and both side by side.

    Args:
        making: Stored weights to floats, which are operand `b` of the product, in scratch memory.
        product: The product.
        context: Of the chip.
    """
    whole = SequenceWork((making, product), workspace_bytes=product.b.bytes)
    if not context.split_cores or product.batch > 1 or product.epilogue:
        return whole
    room = max(1, context.cores) * SLOTS * VECTOR_CORES * VALUES * product.b.dtype.itemsize
    size = min(product.b.bytes, room)
    chunks = replace(product, b=replace(product.b, bytes=size))
    outputs = tuple([replace(stream, ref=replace(stream.ref, bytes=size)) for stream in making.outputs])
    packed = math.prod(product.b.shape) // (making.rows * making.cols)
    staged = StagedProduct(replace(making, outputs=outputs), chunks, VALUES, SLOTS, packed)
    return WorkChoice((staged, whole))
