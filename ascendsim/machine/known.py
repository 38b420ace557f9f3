"""What runs on one chip have worked out, for those that follow: a network is timed again and again while
batches are cut, with most of its tasks as they were.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from itertools import count

from ascendsim.core.keys import forget_oldest
from ascendsim.machine.block_key import Key
from ascendsim.machine.compiled import CompiledBlock, Prices
from ascendsim.machine.outcome import Outcome
from ascendsim.machine.tasks import KnownTraffic

MOST_BLOCKS = 1000  # some 50 kB each
MOST = 8000  # tasks, or prices of instructions; 2 kB each


@dataclass(slots=True)
class Known:
    """Of one chip; blocks are told apart by numbers that all runs share.

    Attributes:
        prices: Of instructions.
        blocks: By what decides their time.
        traffic: Of tasks, whatever the names of their regions.
        outcomes: Of tasks on free cores, by what decides them; see `machine.replay`.
    """

    prices: Prices = field(default_factory=dict)
    blocks: dict[Key, CompiledBlock] = field(default_factory=dict)
    traffic: KnownTraffic = field(default_factory=dict)
    outcomes: dict[Hashable, Outcome] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    def number(self) -> int:
        """A number for a new block, which none has had."""
        return next(self._numbers)

    def make_room(self) -> None:
        """Forgets what came first of what is too much."""
        forget_oldest(self.blocks, MOST_BLOCKS)
        forget_oldest(self.traffic, MOST)
        forget_oldest(self.outcomes, MOST)
        for prices in self.prices.values():
            forget_oldest(prices, MOST)
