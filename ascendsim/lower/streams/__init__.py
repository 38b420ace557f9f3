"""On which stream each task runs, and for which tasks of other streams it waits."""

from ascendsim.lower.streams.assign import PARALLEL_MODES, StreamOptions, with_streams
from ascendsim.lower.streams.dependencies import task_dependencies
from ascendsim.lower.streams.events import needed_waits

__all__ = ["PARALLEL_MODES", "StreamOptions", "needed_waits", "task_dependencies", "with_streams"]
