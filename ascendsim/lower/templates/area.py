"""Where a tile of a Cube result lies: rows of the product one after the other, or columns of a strip."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from ascendsim.core.formats import BLOCK_BYTES, Format, ceil_div
from ascendsim.isa.instructions import ZERO, Affine
from ascendsim.lower.affine import plus, times
from ascendsim.lower.emit import BlockBuilder
from ascendsim.lower.templates.operands import result_tile
from ascendsim.lower.templates.stage import Tile
from ascendsim.opset.work import Ref

Extent = tuple[Affine, int]  # first index and count
Whole = tuple[int, int, bool]  # rows and columns of the whole product, and whether it is a feature map


def share_of_slot(bytes: int, parts: int) -> int:
    """Distance of the parts of a slot, whole blocks of 32 B."""
    return bytes // parts // BLOCK_BYTES * BLOCK_BYTES


class Area(Protocol):
    """Places of a product's rows in tensors that are shaped like its result."""

    def first(self, m: Affine) -> Affine:
        """Position of a row."""
        ...

    def tiles(
        self, b: BlockBuilder, ref: Ref, whole: Whole, m: Extent, n: Extent, base: Affine
    ) -> Iterator[tuple[Tile, Affine, int]]:
        """Loops over the pieces of a tile: yields each with its number and how many there are.

        Args:
            b: What the loops are written with.
            ref: The tensor.
            whole: Of the product.
            m, n: Rows and columns of the tile.
            base: Byte offset of the product's result.
        """
        ...


class WholeRows:
    """Rows follow each other."""

    def first(self, m: Affine) -> Affine:
        return m

    def tiles(
        self, b: BlockBuilder, ref: Ref, whole: Whole, m: Extent, n: Extent, base: Affine
    ) -> Iterator[tuple[Tile, Affine, int]]:
        yield result_tile(ref, whole[0], whole[1], m, n, base=base, is_map=whole[2]), ZERO, 1


@dataclass(frozen=True, slots=True)
class StripArea:
    """Rows are positions of a strip of a map; a tile is some whole rows of the strip, or a part of one.

    Attributes:
        column: First column of the strip in the map.
        columns: Columns of the strip.
        width: Columns of the map.
    """

    column: Affine
    columns: int
    width: int

    def first(self, m: Affine) -> Affine:
        rows = Affine(m.base // self.columns, tuple([(name, step // self.columns) for name, step in m.terms]))
        rest = Affine(m.base % self.columns, tuple([(name, step % self.columns) for name, step in m.terms]))
        return plus(times(rows, self.width), rest, self.column)

    def tiles(
        self, b: BlockBuilder, ref: Ref, whole: Whole, m: Extent, n: Extent, base: Affine
    ) -> Iterator[tuple[Tile, Affine, int]]:
        start, rows = self.first(m[0]), max(1, m[1] // self.columns)
        if rows == 1 or self.columns == self.width:
            yield result_tile(ref, whole[0], whole[1], (start, m[1]), n, base=base, is_map=whole[2]), ZERO, 1
            return
        block, bytes = ref.block
        blocks = ceil_div(n[1], block)
        if ref.format is Format.NC1HWC0 and blocks < rows:
            with b.loop("block", blocks) as j:
                column = plus(n[0], times(j, block))
                one = result_tile(
                    ref,
                    whole[0],
                    whole[1],
                    (start, self.columns),
                    (column, block),
                    base=base,
                    is_map=whole[2],
                )
                burst = self.columns * bytes
                yield (
                    Tile.strided(ref.region, one.offset, rows, burst, self.width * bytes),
                    j,
                    blocks,
                )
            return
        with b.loop("row", rows) as y:
            line = (plus(start, times(y, self.width)), self.columns)
            yield result_tile(ref, whole[0], whole[1], line, n, base=base, is_map=whole[2]), y, rows
