"""The program of one core's share of a convolution in tile form: its strips of columns one after the other.

Inside of a strip it is the program of a whole map (`cube_block`); input columns come in one transfer a row or
a channel block, whichever are fewer, and results leave likewise (`area`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from math import prod

from ascendsim.core.formats import BLOCK_BYTES, c0, ceil_div
from ascendsim.isa.instructions import ZERO, Affine
from ascendsim.isa.notes import Frame, Item, Note
from ascendsim.isa.program import BlockGroup
from ascendsim.lower.affine import plus, times
from ascendsim.lower.emit import Piece, pieces
from ascendsim.lower.templates import conv as unfold
from ascendsim.lower.templates.area import StripArea
from ascendsim.lower.templates.cube_block import CubeWriter
from ascendsim.lower.templates.cube_notes import Where
from ascendsim.lower.templates.held import StripPlace
from ascendsim.lower.templates.operands import first_row
from ascendsim.lower.templates.product import Product
from ascendsim.lower.templates.stage import Tile, share_groups, share_origins
from ascendsim.lower.templates.steps import Expansion
from ascendsim.lower.templates.strips import Strip, held_columns, kernel_columns, skips_columns, strip_of
from ascendsim.lower.templates.tiling import Tiling
from ascendsim.lower.templates.width_tiles import image_share
from ascendsim.opset.work import CubeWork, RawImage
from ascendsim.soc.spec import SocSpec


def strip_groups(
    work: CubeWork, product: Product, tiling: Tiling, soc: SocSpec, expansion: Expansion
) -> list[BlockGroup]:
    """Blocks of a convolution in tile form.

    Raises:
        CompileError: If the operands of its epilogue do not fit beside its tiles.
    """
    assert work.conv is not None
    strip = strip_of(work.conv, tiling.columns)
    images, columns = image_share(strip, tiling.share_images)
    axes = [
        (product.batch, tiling.share_batch),
        (product.images, images),
        (strip.whole_out, columns),
        (strip.out_h, tiling.share_m // tiling.columns),
        (product.n, tiling.share_n),
    ]
    groups = []
    for (batch, many, wide, high, n), count in share_groups(axes):
        writer = StripWriter(work, product, tiling, soc, expansion, (high, wide, n))
        groups.append(BlockGroup(writer.write(batch, many, high * tiling.columns, n), count))
    if expansion.noted:
        named = [(name, *axis) for name, axis in zip(AXES, axes, strict=True)]
        groups = [replace(one, origins=at) for one, at in zip(groups, share_origins(named), strict=True)]
    return groups


AXES = ("batch", "image", "wide", "high", "n")


class StripWriter(CubeWriter):
    """Writes the program of one share of rows, columns and output channels."""

    def __init__(
        self,
        work: CubeWork,
        product: Product,
        tiling: Tiling,
        soc: SocSpec,
        expansion: Expansion,
        share: tuple[int, int, int],
    ) -> None:
        assert work.conv is not None
        high, wide, n = share
        self.strip = strip_of(work.conv, tiling.columns)
        view = replace(product, conv=self.strip, images=self.strip.batch, m=self.strip.out_h * tiling.columns)
        inside = replace(work, conv=self.strip)
        super().__init__(inside, view, tiling, soc, expansion, (high * min(wide, tiling.columns), n))
        self._note(work, product)
        self.whole, self.high, self.wide = product, high, wide
        self.column = ZERO

    def _images(self, images: int, m: int) -> Iterator[tuple[Affine, int]]:
        tile_m, band_m = self.tiling.tile_m, self.tiling.band_m
        with self.b.loop("image", images) as image:
            for part in pieces(self.wide, self.tiling.columns):
                with self.b.loop("w", part.trips) as w:
                    self._enter(part, w)
                    self.tile_m, self.band_m = self._runs(part.size, tile_m), self._runs(part.size, band_m)
                    self.band_m = self.band_m // self.tile_m * self.tile_m
                    yield image, self.high * part.size

    def _runs(self, columns: int, run: int) -> int:
        """Positions of a tile or band in a strip that may be narrower than others."""
        rows, most = run // self.tiling.columns, self.high * columns
        if not rows:
            return min(run, most)
        return min(most, rows * columns)

    def _enter(self, part: Piece, index: Affine) -> None:
        """Makes strips of some width the map that is worked on."""
        self.conv = conv = strip_of(self.strip, part.size)
        self.grain = part.size  # tiles are whole rows of a strip
        self.out.area = StripArea(part.at(index), part.size, conv.whole_out)
        self.notes.strip = StripPlace(part.at(index), part.size)
        if self.out.notes is not None:
            self.out.notes.strip = self.notes.strip
        last = conv.whole_width - conv.width
        first = min(last, part.start * conv.stride_w)
        step = min(part.size * conv.stride_w, (last - first) // (part.trips - 1)) if part.trips > 1 else 0
        self.column = plus(first, times(index, step))

    def _load_a(self, where: Where, m: int, trips: int, k: tuple[Affine, int]) -> None:
        work, conv, block = self.work, self.conv, c0(self.work.dtype)
        assert isinstance(conv, Strip)
        rows = unfold.kernel_rows(conv, k[1])
        held, columns = unfold.window(conv, m, self.grain, rows).rows, held_columns(conv, k[1])
        first = first_row(conv, (where.m, m), rows, trips, self.grain)
        down = conv.stride_h if unfold.skips_rows(conv, rows) else 1
        if work.image is not None:
            self._load_image(work.image, where.image, first, held, down)
            return
        line = conv.whole_width * BLOCK_BYTES
        plane = conv.height * line
        taps, units = unfold.taps(conv), ceil_div(k[1], unfold.taps(conv))
        channels = Affine(
            k[0].base // taps * plane, tuple([(name, step // taps * plane) for name, step in k[0].terms])
        )
        if unfold.channel_blocks(conv, block) * conv.kernel_d * conv.kernel_h == 1:
            channels = times(k[0], conv.dilation_w * BLOCK_BYTES)  # a block of k is a tap of the only row
        offset = plus(
            times(where.batch, unfold.channel_blocks(conv, block) * plane),
            times(where.image, work.a.bytes // self.whole.images),
            times(first, line),
            times(self.column, BLOCK_BYTES),
            channels,
        )
        axes = [(units, plane), (held, down * line)]
        if skips_columns(conv, kernel_columns(conv, k[1])):
            axes.append((conv.out_w, conv.stride_w * BLOCK_BYTES))
        self._bring(offset, axes, held * units * columns * BLOCK_BYTES, self.notes.load_a(where, m, k))

    def _bring(self, offset: Affine, axes: Sequence[tuple[int, int]], bytes: int, note: Note) -> None:
        """Brings bursts that lie along several axes (count, distance): one transfer along the longest axis,
        loops over the others, the first trip of which has the note of all.
        """
        axes = [axis for axis in axes if axis[0] > 1]
        burst = bytes // prod(count for count, _ in axes)
        axes.sort()
        across, along = axes[:-1], axes[-1] if axes else (1, burst)
        with ExitStack() as loops:
            at, part = offset, along[0] * burst
            place, inside, turns = ZERO, part, list[Affine]()
            for count, distance in across:
                index = loops.enter_context(self.b.loop("d", count))
                at, place = plus(at, times(index, distance)), plus(place, times(index, inside))
                inside *= count
                turns.append(index)
            tile = Tile.strided(self.work.a.region, at, along[0], burst, along[1])
            whole = partial(_with_first, turns, note)
            self._load(tile, self.a1, 0, self.work.a, at=place, note=whole)

    def _load_image(self, image: RawImage, number: Affine, first: Affine, held: int, down: int) -> None:
        """AIPP converts the columns of some rows on their way."""
        conv = self.conv
        assert isinstance(conv, Strip)
        used = image.used_bytes * conv.width // conv.whole_width
        offset = plus(
            times(number, image.image_bytes),
            image.first_byte,
            times(first, image.row_bytes),
            times(self.column, image.used_bytes // conv.whole_width),
        )
        rows = ceil_div(held * image.rows, image.per)
        tile = Tile.strided(self.work.a.region, offset, rows, used, image.row_bytes * down)
        converted = held * conv.width * BLOCK_BYTES
        self._load(tile, self.a1, 0, self.work.a, converted=converted)


def _with_first(turns: Sequence[Affine], note: Note, frame: Frame) -> Sequence[Item]:
    """The note of a whole transfer, on the first trip of the loops that it is cut into."""
    return () if any(frame.at(index) for index in turns) else note(frame)
