"""What moving one figure of a chip does to a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ascendsim.sweep.figures import Movable
from ascendsim.sweep.rows import SweepRow
from ascendsim.sweep.space import Point

Ask = Callable[[Sequence[Point]], list[SweepRow]]
"""Simulates points."""


@dataclass(frozen=True)
class Side:
    """A figure moved to one side.

    Attributes:
        values: All changed figures of the chip by key; empty if it was not moved to this side.
        time_us: Device time then; None if the chip or the model refused.
        error: Why it did.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    time_us: float | None = None
    error: str = ""


@dataclass(frozen=True)
class Probe:
    """A figure with what it does to the time.

    Attributes:
        figure: What was moved.
        low, high: The time with less and with more of it.
    """

    figure: Movable
    low: Side
    high: Side

    def changes(self, base_us: float) -> tuple[float | None, float | None]:
        """Relative change of the time at both sides, 0.1 = 10 % slower."""
        low, high = (
            None if side.time_us is None else side.time_us / base_us - 1 for side in (self.low, self.high)
        )
        return low, high

    def reach(self, base_us: float) -> float:
        """The larger change."""
        return max(abs(change or 0.0) for change in self.changes(base_us))

    def value_at(self, side: Side) -> float | None:
        """What the figure was moved to; of a table its first entry if all are equal."""
        own = {side.values[key] for key in self.figure.figures if key in side.values}
        return own.pop() if len(own) == 1 else None

    def left_out(self, side: Side) -> str:
        """That a side is not in the study, since the chip or the model refuses it, and why; "" if it is."""
        if not side.error:
            return ""
        value = self.value_at(side)
        place = (
            f"at {value:g}" if value is not None else f"at its {'low' if side is self.low else 'high'} side"
        )
        return f"left out {place}: {side.error}"

    def elasticity(self, base_us: float) -> float | None:
        """Change of the time in percent by one percent more of the figure, over the span that was moved."""
        ends = [(base_us, 1.0)]
        for side in (self.low, self.high):
            if side.time_us is not None:
                key = next(key for key, value in self.figure.figures.items() if value)
                ends.append((side.time_us, side.values[key] / self.figure.figures[key]))
        (time_a, at_a), (time_b, at_b) = min(ends, key=lambda end: end[1]), max(ends, key=lambda end: end[1])
        return math.log(time_b / time_a) / math.log(at_b / at_a) if at_a > 0 and at_a != at_b else None
