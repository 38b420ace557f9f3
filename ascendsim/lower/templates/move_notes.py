"""What the blocks of movement work do (`isa.notes`): elements carried through UB, counted in the target."""

from __future__ import annotations

from collections.abc import Sequence

from ascendsim.isa.instructions import Affine, Buffer
from ascendsim.isa.notes import Carry, Frame, Item, Row
from ascendsim.lower.templates.effects import copy as moved
from ascendsim.opset.work import Copy


class MoveNotes:
    """Notes of one tile.

    Args:
        copy: What is carried.
        number: Of the copy among those of the work; -1 = one core has all of it.
        turned: Whether the vector unit works on it.
        at, size: First byte of the tile in the share, and how many, by which the work counts.
    """

    def __init__(self, copy: Copy, number: int, turned: bool, at: Affine, size: int) -> None:
        self.copy, self.number, self.turned, self.at, self.size = copy, number, turned, at, size

    def _carry(self, frame: Frame, phase: str) -> Sequence[Item]:
        one = self.copy
        start = frame.at(self.at) + (frame.first(f"copy{self.number}") if self.number >= 0 else 0)
        addresses = (frame.target, frame.sources[0] if frame.sources else 0)
        span = start, start + self.size, one.bytes or one.written
        return [Carry(one.src.region, one.dst.region, phase, *span, self.turned, addresses)]

    def bring(self, frame: Frame) -> Sequence[Item]:
        """The tile comes to UB."""
        return self._carry(frame, "in")

    def turn(self, frame: Frame) -> Sequence[Item]:
        """The vector unit brings it in the order of the target."""
        return self._carry(frame, "turn")

    def store(self, frame: Frame) -> Sequence[Item]:
        """The tile leaves UB."""
        return self._carry(frame, "out")


def bring_whole(region: str, at: Affine, size: int, frame: Frame) -> Sequence[Item]:
    """Bytes of a tensor that all cores read, from a place on."""
    effect = moved((Buffer.UB, ""), (Buffer.GM, region), 1, size, (size, size))
    return [Row(effect, (frame.target, frame.at(at)))]
