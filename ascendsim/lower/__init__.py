"""From a graph to a program: engine choice, tiling, emission, memory plan."""

from ascendsim.lower.program import LowerOptions, lower_graph, scope_lowering
from ascendsim.lower.units import KnownUnits

__all__ = ["KnownUnits", "LowerOptions", "lower_graph", "scope_lowering"]
