"""Times of steps at any batch and context: simulated once a cell of a grid, straight in between."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from ascendsim.llm.language_model import Chip, LanguageModel, Mode

# Corners of cells: steps of kernels are uneven below, and nearly straight above
_At = Callable[[int], float]
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
CONTEXTS = (128, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)
ROWS = (1, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)


class StepTimes:
    """Microseconds of decode steps and of chunks of prompts, each cell simulated when it is asked for first.

    Args:
        model: What runs.
        soc: On which chip.
        mode: "graph" or "eager".
        overhead_us: What the server does between two steps.
    """

    def __init__(
        self, model: LanguageModel, soc: Chip, mode: Mode = "graph", overhead_us: float = 0.0
    ) -> None:
        self.model, self.soc, self.mode, self.overhead_us = model, soc, mode, overhead_us
        self._cells: dict[tuple[int, int, int], float] = {}
        most = model.architecture.positions
        self._contexts = (*(one for one in CONTEXTS if one < most), most)

    @property
    def simulated(self) -> int:
        """Cells simulated so far."""
        return len(self._cells)

    def decode(self, batch: int, context: float) -> float:
        """A step that makes a token for each sequence; `context` is their mean length."""
        return (
            self._between(BATCHES, batch, lambda size: self._at_context(size, 1, context)) + self.overhead_us
        )

    def mixed(self, batch: int, context: float, rows: int, prompts: int, length: float) -> float:
        """A step that also takes in `rows` tokens of so many prompts, whose contexts reach `length`.

        Products see the rows of both; the attention over the cache of the decoding sequences comes on top.
        """
        chunk = self._between(ROWS, rows + batch, lambda size: self._chunk(size, prompts, length))
        if not batch:
            return chunk + self.overhead_us
        bare = self._between(BATCHES, batch, lambda size: self._cell(size, 1, self._contexts[0]))
        return chunk + max(0.0, self.decode(batch, context) - bare)

    def error(self, batch: int, context: int) -> float:
        """How far off the time at a point inside a cell is, as a part of the simulated one."""
        batch = min(max(batch, 3), BATCHES[-1])
        straight = self.decode(batch, context) - self.overhead_us
        exact = self._simulated(batch, 1, context)
        return abs(straight - exact) / exact

    def _chunk(self, rows: int, prompts: int, length: float) -> float:
        """Chunks of several prompts: of as many as a power of two gives, with equal parts."""
        count = 1 << max(0, min(prompts, rows).bit_length() - 1)
        while rows // count > self._contexts[-1]:
            count *= 2
        queries = rows // count
        known = [context for context in self._contexts if context >= queries]
        return self._between(known, length, lambda context: self._cell(count, queries, context))

    def _at_context(self, batch: int, queries: int, context: float) -> float:
        return self._between(self._contexts, context, lambda corner: self._cell(batch, queries, corner))

    def _between(self, corners: Sequence[int], value: float, at: _At) -> float:
        """Straight between two corners, and on behind the last; the first one's below it."""
        if value <= corners[0] or len(corners) == 1:
            return at(corners[0])
        place = min(bisect_right(corners, value), len(corners) - 1)
        low, high = corners[place - 1], corners[place]
        share = (value - low) / (high - low)
        return (1 - share) * at(low) + share * at(high) if share else at(low)

    def _cell(self, batch: int, queries: int, context: int) -> float:
        key = (batch, queries, context)
        if key not in self._cells:
            self._cells[key] = self._simulated(*key)
        return self._cells[key]

    def _simulated(self, batch: int, queries: int, context: int) -> float:
        return self.model.duration_us(self.soc, batch, queries, context, self.mode)
