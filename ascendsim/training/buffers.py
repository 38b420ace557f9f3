"""Places of tensors in a buffer that holds several."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ascendsim.graph.ir import Array


@dataclass(frozen=True, slots=True)
class Place:
    """Where a weight lies in the buffer.

    Attributes:
        start: First number.
        shape: Of the weight.
    """

    start: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return math.prod(self.shape)

    def of(self, buffer: Array) -> Array:
        """The weight (or its state, or its gradient) as a view of a buffer's values."""
        return buffer[self.start : self.start + self.size].reshape(self.shape)
