"""UB fusion: nodes that share a task because what is between them stays in the Unified Buffer."""

from ascendsim.passes.ub.flow import fuse_buffers, ub_passes
from ascendsim.passes.ub.limits import PROFILES, UbLimits, limits_of

__all__ = ["PROFILES", "UbLimits", "fuse_buffers", "limits_of", "ub_passes"]
