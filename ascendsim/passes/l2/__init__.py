"""L2 fusion on the graph: which operators can run on a part of the batch, and blocks of them cut into smaller
batches.
"""

from ascendsim.passes.l2.edges import seed_edges
from ascendsim.passes.l2.plain import is_plain
from ascendsim.passes.l2.rebatch import BLOCK, TWIN_OF, BatchBlock, at_batch, cut_blocks, refusal
from ascendsim.passes.l2.sample_axis import BatchAxis, find_batch

__all__ = [
    "BLOCK",
    "TWIN_OF",
    "BatchAxis",
    "BatchBlock",
    "at_batch",
    "cut_blocks",
    "find_batch",
    "is_plain",
    "refusal",
    "seed_edges",
]
