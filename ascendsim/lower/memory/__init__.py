"""Where everything lies in device memory: lives, planners, in-place results, weight layout, and what came of
it.
"""

from ascendsim.lower.memory.in_place import Takeover, takeovers
from ascendsim.lower.memory.order import TaskOrder
from ascendsim.lower.memory.pieces import Board, Piece
from ascendsim.lower.memory.plan import MemoryOptions, plan_memory, slice_offset

__all__ = [
    "Board",
    "MemoryOptions",
    "Piece",
    "Takeover",
    "TaskOrder",
    "plan_memory",
    "slice_offset",
    "takeovers",
]
