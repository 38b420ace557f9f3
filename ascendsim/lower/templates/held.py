"""What L1 holds of a feature map for a tile of a convolution: the rows and columns that it needs, clipped at
the border of the map.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ascendsim.core.errors import CompileError
from ascendsim.isa.instructions import Affine
from ascendsim.isa.notes import Frame
from ascendsim.lower.templates import conv as unfold
from ascendsim.opset.work import ConvGeometry


@dataclass(frozen=True, slots=True)
class StripPlace:
    """Columns of a convolution's result that are worked on as if they were all (`strips`).

    Attributes:
        first: First of them in the share.
        columns: How many.
    """

    first: Affine
    columns: int

    def at(self, frame: Frame) -> int:
        """The first of them in the result."""
        return frame.at(self.first) + frame.first("wide")


@dataclass(frozen=True, slots=True)
class Lines:
    """Columns of a map that those of a result need.

    Attributes:
        first, count: Those in the map.
        left: How many are left of it.
    """

    first: int
    count: int
    left: int


def lines_under(conv: ConvGeometry, first: int, columns: int) -> Lines:
    """The columns of a map under some of a convolution's result."""
    start = first * conv.stride_w - conv.pads[1]
    end = start + (columns - 1) * conv.stride_w + (conv.kernel_w - 1) * conv.dilation_w + 1
    inside = max(0, start)
    return Lines(inside, min(conv.width, end) - inside, max(0, -start))


@dataclass(frozen=True, slots=True)
class Held:
    """The rows of a feature map in L1 that a run of output positions needs.

    Attributes:
        first: First of them, if none lay outside of the map.
        virtual: How many there are, those outside of the map counted in.
        extent: Rows that one output row needs.
        apart: Input rows from one output row to the next.
        height: Of the map.
        output: First output row.
        taps: First row of the filter and how many.
    """

    first: int
    virtual: int
    extent: int
    apart: int
    height: int
    output: int
    taps: tuple[int, int]

    @property
    def packed(self) -> bool:
        """Whether rows between those that are needed are left out."""
        return self.apart > self.extent

    @property
    def stride(self) -> int:
        """Rows in L1 from one output row to the next."""
        return self.extent if self.packed else self.apart

    def row(self, number: int) -> int:
        """Row of the map, counted as in L1 with those outside; below 0 or beyond its end if it is outside."""
        if self.packed:
            return self.first + number // self.extent * self.apart + number % self.extent
        return self.first + number

    @property
    def inside(self) -> tuple[int, int]:
        """Those in the map: first and the one behind the last."""
        there = [number for number in range(self.virtual) if 0 <= self.row(number) < self.height]
        return (there[0], there[-1] + 1) if there else (0, 0)


def held_rows(conv: ConvGeometry, first: int, count: int, k: tuple[int, int]) -> Held:
    """The rows that some output positions need of a chunk of k.

    Args:
        conv: The convolution.
        first, count: Output positions.
        k: First block of k and how many: whole channel blocks, or a part of one.

    Raises:
        CompileError: A chunk goes over the border of a channel block.
    """
    taps = unfold.taps(conv)
    low, high = 0, conv.kernel_h - 1
    if k[0] % taps or k[1] % taps:
        if k[0] // taps != (k[0] + k[1] - 1) // taps:
            raise CompileError("a chunk of k", "must end with a channel block", f"{k[0]} + {k[1]} of {taps}")
        low, high = k[0] % taps // conv.kernel_w, (k[0] + k[1] - 1) % taps // conv.kernel_w
    top, bottom = first // conv.out_w, (first + count - 1) // conv.out_w
    extent = (high - low) * conv.dilation_h + 1
    start = top * conv.stride_h - conv.pads[0] + low * conv.dilation_h
    lines = bottom - top + 1
    packed = conv.stride_h > extent
    virtual = lines * extent if packed else (lines - 1) * conv.stride_h + extent
    return Held(start, virtual, extent, conv.stride_h, conv.height, top, (low, high - low + 1))


def under(conv: ConvGeometry, strip: StripPlace | None, frame: Frame) -> tuple[ConvGeometry, Lines]:
    """The convolution whose result is a strip, and the columns of the map that it needs; of none, all."""
    if strip is None:
        return conv, Lines(0, conv.width, conv.pads[1])
    return replace(conv, out_w=strip.columns), lines_under(conv, strip.at(frame), strip.columns)
