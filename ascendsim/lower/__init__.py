"""From a graph to a program: engine choice, tiling, emission, memory plan."""

from ascendsim.lower.program import LowerOptions, lower_graph, scope_lowering

__all__ = ["LowerOptions", "lower_graph", "scope_lowering"]
