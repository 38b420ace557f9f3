"""What a task that had the cores to itself did there, however that was found out."""

from __future__ import annotations

from dataclasses import dataclass

from ascendsim.machine.log import Item
from ascendsim.machine.tasks import Figures


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a task did on the cores.

    Attributes:
        ticks: From its arrival at the cores to its end.
        figures: What its record tells.
        first, last: Ticks of the first start and the last end on a computing pipe, relative to the arrival;
            None if there are none.
        items: Its instruction records, if it was recorded, and `start`, the tick of the arrival in them.
    """

    ticks: int
    figures: Figures
    first: int | None
    last: int | None
    items: tuple[Item, ...]
    start: int
