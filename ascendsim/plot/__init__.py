"""Pictures of a run. The only package that imports matplotlib, and only when a picture is drawn."""

from ascendsim.plot.bars import TopOperatorsDisplay, plot_top_operators
from ascendsim.plot.roofline import RooflineDisplay, plot_roofline
from ascendsim.plot.timeline import TimelineDisplay, plot_timeline, timeline

__all__ = [
    "RooflineDisplay",
    "TimelineDisplay",
    "TopOperatorsDisplay",
    "plot_roofline",
    "plot_timeline",
    "plot_top_operators",
    "timeline",
]
