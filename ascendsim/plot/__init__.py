"""Pictures of a run. The only package that imports matplotlib, and only when a picture is drawn."""

from ascendsim.plot.bars import TopOperatorsDisplay, plot_top_operators
from ascendsim.plot.comparison import ComparisonDisplay, comparison_timelines
from ascendsim.plot.correlation import CorrelationDisplay, plot_correlation
from ascendsim.plot.graph_picture import GraphDisplay, plot_graphs
from ascendsim.plot.roofline import RooflineDisplay, plot_roofline
from ascendsim.plot.timeline import TimelineDisplay, plot_timeline, timeline
from ascendsim.plot.waterfall import WaterfallDisplay, plot_waterfall

__all__ = [
    "ComparisonDisplay",
    "CorrelationDisplay",
    "GraphDisplay",
    "RooflineDisplay",
    "TimelineDisplay",
    "TopOperatorsDisplay",
    "WaterfallDisplay",
    "comparison_timelines",
    "plot_correlation",
    "plot_graphs",
    "plot_roofline",
    "plot_timeline",
    "plot_top_operators",
    "plot_waterfall",
    "timeline",
]
