"""The graph engine: what CANN's GE does to a graph before and after graph fusion, under GE's names."""

from ascendsim.passes.engine.prune import parse_out_nodes, select_outputs
from ascendsim.passes.engine.report import EngineReport, PassRecord, PassRun, Weight, weigh
from ascendsim.passes.engine.settings import EngineSettings
from ascendsim.passes.engine.stages import GraphEngine, Stage, all_stages, pass_names

__all__ = [
    "EngineReport",
    "EngineSettings",
    "GraphEngine",
    "PassRecord",
    "PassRun",
    "Stage",
    "Weight",
    "all_stages",
    "parse_out_nodes",
    "pass_names",
    "select_outputs",
    "weigh",
]
