"""How products make floats of weights of few bits: all before the product, or piece by piece beside it.

Beside it, memory brings the weights' own bytes, while the floats stay in L2: with few rows a large matrix
is 1.1 to 1.8 times as quick as in float16. For a matrix of a few megabytes the three blocks of each team take
longer to hand out than they save.
"""

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
# Shares of the cube cores that are worth a look: each one more costs the dispatch of its team
TEAMS = (1.0, 2 / 3, 1 / 2)
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
    parts = replace(making, outputs=outputs)
    teams = dict.fromkeys(max(1, round(context.cores * share)) for share in TEAMS)
    staged = [StagedProduct(parts, chunks, VALUES, SLOTS, count, packed) for count in teams]
    return WorkChoice((*staged, whole))
