"""A strip of a map: some successive columns of a convolution's result, with the input columns under them.

Rows of a wide map do not fit into L1. The tile form of a convolution cuts the width as well: to the rest of
the templates a strip is a map of its own, narrower, whose input columns overlap those of its neighbours
(halo) and are read again. Where even a strip's windows are too wide, a kernel row goes through L1 some taps
at a time, and columns that no tap needs (stride beyond the window) are left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import lru_cache

from ascendsim.core.formats import TRANSACTION_BYTES, align, ceil_div
from ascendsim.opset.work import ConvGeometry


@dataclass(frozen=True, slots=True)
class Strip(ConvGeometry):
    """Geometry of a strip; `width` and `out_w` are its own, `batch` counts the strips of all images.

    Attributes:
        whole_width, whole_out: Columns of the whole map and of its whole result.
    """

    whole_width: int = field(kw_only=True)
    whole_out: int = field(kw_only=True)

    @property
    def count(self) -> int:
        """Strips of an image."""
        return ceil_div(self.whole_out, self.out_w)

    @property
    def tail(self) -> int:
        """Columns of the last strip of an image."""
        return self.whole_out - (self.count - 1) * self.out_w


def strip_of(conv: ConvGeometry, columns: int) -> Strip:
    """The strips of a map, `columns` of the result each (the last one may have fewer)."""
    values = {one.name: getattr(conv, one.name) for one in fields(ConvGeometry)}
    whole, made = conv.width, conv.out_w
    if isinstance(conv, Strip):
        whole, made = conv.whole_width, conv.whole_out
        values["batch"] //= conv.count
    values |= {"batch": values["batch"] * ceil_div(made, columns), "out_w": columns}
    values["width"] = min(whole, columns_under(conv, columns, conv.kernel_w))
    return Strip(**values, whole_width=whole, whole_out=made)


def columns_under(conv: ConvGeometry, columns: int, kernel_columns: int) -> int:
    """Input columns that so many columns of the result need of some successive taps of a kernel row."""
    extent = (kernel_columns - 1) * conv.dilation_w + 1
    return columns * extent if conv.stride_w > extent else (columns - 1) * conv.stride_w + extent


def skips_columns(conv: ConvGeometry, kernel_columns: int) -> bool:
    """Whether a chunk with so many taps of a kernel row leaves input columns of a strip out."""
    return isinstance(conv, Strip) and conv.stride_w > (kernel_columns - 1) * conv.dilation_w + 1


def kernel_columns(conv: ConvGeometry, k_blocks: int) -> int:
    """Taps of a kernel row that a chunk of k touches: all if it holds whole kernel rows."""
    return min(conv.kernel_w, k_blocks)


def held_columns(conv: ConvGeometry, k_blocks: int) -> int:
    """Columns of a map that a chunk of k needs in L1: all of a whole map, those under its taps of a strip."""
    if not isinstance(conv, Strip):
        return conv.width
    return strip_columns(conv, conv.whole_width, k_blocks)


def strip_columns(strip: ConvGeometry, whole_width: int, k_blocks: int) -> int:
    """The same of a strip of a map that has so many."""
    return min(whole_width, columns_under(strip, strip.out_w, kernel_columns(strip, k_blocks)))


def row_parts(conv: ConvGeometry) -> tuple[int, ...]:
    """Numbers of taps in which a kernel row of a strip may go through L1, from more to fewer; none of a map
    in whole rows.
    """
    return _parts(conv.kernel_w) if isinstance(conv, Strip) else ()


@lru_cache
def _parts(taps: int) -> tuple[int, ...]:
    """Numbers below `taps` that divide it."""
    return tuple([part for part in range(taps // 2, 0, -1) if taps % part == 0])


def strip_waste(strips: int, burst: int) -> float:
    """What the short rows of so many strips of an image cost: bytes of whole transactions of DRAM over those
    of a burst.

    Bursts begin and end anywhere unless they are whole transactions: they touch one more then.
    """
    if strips == 1:
        return 1.0
    touched = align(burst, TRANSACTION_BYTES)
    return (touched if touched == burst else touched + TRANSACTION_BYTES) / burst
