"""From a graph to a program: engine choice, tiling, emission, memory plan."""

from ascendsim.lower.program import LowerOptions, lower_graph

__all__ = ["LowerOptions", "lower_graph"]
