"""From a graph to a program: engine choice, tiling, emission, memory plan."""

from ascendsim.lower.known_units import KnownUnits
from ascendsim.lower.program import LowerOptions, lower_graph, scope_lowering

__all__ = ["KnownUnits", "LowerOptions", "lower_graph", "scope_lowering"]
