"""What a model needs of a card's memory: weights, cache, and what a step works in."""

from __future__ import annotations

from dataclasses import dataclass

from ascendsim.core.table import Table
from ascendsim.llm.layers import BLOCK

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of one card, in bytes.

    Attributes:
        model, soc: Names.
        capacity: Of the card, without what the system keeps.
        weights: Of the model's share.
        token: That the cache keeps of a token that all layers remember.
        window_token, window: The same of layers of a window, which remember so many tokens.
        workspace: What a step works in beside weights and cache.
    """

    model: str
    soc: str
    capacity: int
    weights: int
    token: int
    window_token: int
    window: int
    workspace: int

    def cache(self, batch: int, context: int) -> int:
        """Bytes of the cache: blocks of tokens, of every sequence and layer."""
        blocks = -(-context // BLOCK) * BLOCK
        kept = min(blocks, -(-self.window // BLOCK) * BLOCK + BLOCK) if self.window else 0
        return batch * (blocks * self.token + kept * self.window_token)

    def needed(self, batch: int, context: int) -> int:
        """Bytes in all."""
        return self.weights + self.workspace + self.cache(batch, context)

    def fits(self, batch: int, context: int) -> bool:
        """Whether the card has them."""
        return self.needed(batch, context) <= self.capacity

    def largest_batch(self, context: int) -> int:
        """Sequences of a context that fit; 0 if not one does."""
        left = self.capacity - self.weights - self.workspace
        return max(0, left // max(1, self.cache(1, context)))

    def longest_context(self, batch: int = 1) -> int:
        """Tokens of each sequence that fit; 0 if none do."""
        low, high = 0, 1 << 32
        while low < high - 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.fits(batch, middle) else (low, middle)
        return low

    def table(self, batch: int = 1, contexts: tuple[int, ...] = (1024, 4096, 16384, 32768)) -> Table:
        """One row a context: weights, cache, workspace, and the largest batch."""
        rows = tuple(
            (
                context,
                self.weights / GIB,
                self.cache(batch, context) / GIB,
                self.workspace / GIB,
                self.capacity / GIB,
                self.largest_batch(context),
            )
            for context in contexts
        )
        columns = ("Context", "Weights(GiB)", "Cache(GiB)", "Workspace(GiB)", "Card(GiB)", "Largest batch")
        return Table("llm_memory", columns, rows)

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()
