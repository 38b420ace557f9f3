"""Graph-kernel fusion: MindSpore's way of making one generated kernel out of several basic operators."""

from ascendsim.passes.graph_kernel.flags import GraphKernelFlags
from ascendsim.passes.graph_kernel.flow import (
    CompositeRecord,
    CostOracle,
    Dump,
    GraphKernelReport,
    composites_in,
    fuse_marked,
    mark_graph,
)
from ascendsim.passes.graph_kernel.outside import OutsideRecord

__all__ = [
    "CompositeRecord",
    "CostOracle",
    "Dump",
    "GraphKernelFlags",
    "GraphKernelReport",
    "OutsideRecord",
    "composites_in",
    "fuse_marked",
    "mark_graph",
]
