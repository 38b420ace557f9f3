"""MindSpore's networks: MindIR."""

from ascendsim.frontends.mindir.loading import read_mindir

__all__ = ["read_mindir"]
