"""Windows over the rows of maps: which rows of the input some rows of the result need."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RowWindows:
    """Windows that slide over the rows of maps; those of one map follow each other, and so do maps.

    Attributes:
        height: Rows of a map of the input.
        made: Rows of a map of the result.
        span: Input rows from the first to the last that a window covers.
        stride: Input rows from one window to the next.
        before: Rows of padding in front of a map.
    """

    height: int
    made: int
    span: int
    stride: int
    before: int

    def under(self, first: int, count: int) -> tuple[int, int]:
        """Input rows of all maps, the first and the one behind the last, that some rows of the result need.

        >>> RowWindows(height=8, made=4, span=3, stride=2, before=1).under(1, 2)
        (1, 6)
        """
        (upper, top), (lower, bottom) = divmod(first, self.made), divmod(first + count - 1, self.made)
        start = min(max(0, top * self.stride - self.before), self.height - 1)
        end = max(1, min(self.height, bottom * self.stride - self.before + self.span))
        return upper * self.height + start, max(lower * self.height + end, upper * self.height + start + 1)

    def most(self, count: int, begins: Iterable[int]) -> int:
        """The most input rows that so many successive rows of the result need, of those that begin at some
        rows.
        """
        spans = [self.under(first, count) for first in {begin % self.made for begin in begins}]
        return max(end - start for start, end in spans)
