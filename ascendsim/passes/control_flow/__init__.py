"""Control flow in graphs: which nodes run subgraphs, and whether a graph can go to the device as a whole."""

from ascendsim.passes.control_flow.nodes import control_flow_nodes, is_control_flow
from ascendsim.passes.control_flow.sinking import host_reasons, is_dynamic, reached_nodes

__all__ = ["control_flow_nodes", "host_reasons", "is_control_flow", "is_dynamic", "reached_nodes"]
