"""Kernels that gather windows of feature maps (pooling): tiles are rows of the result, with all input rows
under their windows.

Input rows at the border of a tile (halo) are read again by its neighbour. A tile may go over the border of
two maps, which follow each other in memory: its input is one piece, from the first row that a window touches
to the last. Every transfer of a loop is as long as the one that needs most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from ascendsim.core.errors import CompileError
from ascendsim.core.formats import align, ceil_div
from ascendsim.isa.effects import Box
from ascendsim.isa.instructions import ZERO, Affine, Buffer
from ascendsim.isa.notes import Frame, Item, Kernel, Note
from ascendsim.lower.affine import scaled, times
from ascendsim.lower.emit import BlockBuilder, pieces
from ascendsim.lower.templates.operands import fitted
from ascendsim.lower.templates.sharing import Space
from ascendsim.lower.templates.stage import Tile
from ascendsim.lower.templates.vector_notes import Extent, Piece, VectorNotes
from ascendsim.lower.templates.vector_writer import GOOD_TRANSFER_BYTES, TILES_TO_OVERLAP, VectorWriter
from ascendsim.opset.work import Ref, RowWindows, Step, Stream, VectorWork


class WindowWriter(VectorWriter):
    """Writes the program of a share of rows of the result.

    Args:
        builder, work, space, steps, rows, cols: See `VectorWriter`.
        share: Rows of all shares but the last.
    """

    def __init__(
        self,
        builder: BlockBuilder,
        work: VectorWork,
        space: Space,
        steps: tuple[Step, ...],
        rows: int,
        cols: int,
        *,
        share: int,
    ) -> None:
        assert work.windows is not None
        self.windows, self.share, self.source = work.windows, share, work.inputs[0]
        self.line = line_bytes(self.windows, self.source.ref, space)
        super().__init__(builder, work, space, steps, rows, cols)

    def _choose_tile(self) -> None:
        self.tile_cols, self.sweeping = self.cols, False
        whole = [stream for stream in (*self.work.inputs, *self.work.outputs) if stream.over == "all"]
        moved = self.cols * sum(self._item(stream) for stream in whole)
        wanted = max(ceil_div(self.rows, TILES_TO_OVERLAP), int(GOOD_TRANSFER_BYTES // moved) + 1)
        few, many, room = 0, min(self.rows, wanted), self._room()
        while few < many:  # the most that fit wherever they begin
            middle = (few + many + 1) // 2
            few, many = (middle, many) if self._bytes(middle) <= room else (few, middle - 1)
        if not few:
            rule = "must hold one row of windows"
            raise CompileError(f"UB of {self.b.soc.name}", rule, f"{room} bytes", "use smaller maps")
        made = self.windows.made
        even = ceil_div(self.rows, ceil_div(self.rows, few))
        self.tile_rows = few // made * made if made <= few < self.rows else even  # whole maps: no halo

    def _bytes(self, rows: int) -> float:
        """UB bytes that a tile takes."""
        made = sum(max(self._item(stream), stream.ref.dtype.itemsize) for stream in self.work.outputs)
        held = self.held * self.windows.most(rows, range(self.windows.made)) * self.line
        return held + rows * self.cols * (self.held * made + self.scratch_item)

    @cached_property
    def _loaded(self) -> dict[int, int]:
        """Input rows that are loaded for tiles of so many rows."""
        whole = self.space.rows // self.share * self.share
        shares = range(0, whole, self.share) if self.rows == self.share else (whole,)
        loaded: dict[int, int] = {}
        for part in pieces(self.rows, self.tile_rows):
            tiles = range(part.start, part.start + part.trips * part.size, part.size)
            begins = [share + tile for share in shares for tile in tiles]
            loaded[part.size] = self.windows.most(part.size, begins)
        return loaded

    def _slot_bytes(self, stream: Stream) -> int:
        if stream is self.source:
            return align(max(self._loaded.values()) * self.line, self._grain())
        return super()._slot_bytes(stream)

    def _gm(self, stream: Stream, row: tuple[Affine, int], col: tuple[Affine, int]) -> Tile:
        """Rows of all maps follow each other."""
        ref, windows, whole = stream.ref, self.windows, self.space.rows
        if stream.over != "all":
            return super()._gm(stream, row, col)
        if stream is self.source:
            first = times(scaled(row[0], windows.height, windows.made), self.line)
            size = self._loaded[row[1]] * self.line
        else:
            first, size = scaled(row[0], ref.bytes, whole), ceil_div(ref.bytes * row[1], whole)
        return fitted(self.b, Tile(ref.region, first, 1, size), ref)

    def _notes(self) -> VectorNotes:
        return WindowNotes(self.work, self.space, self.windows)

    def _known(self) -> bool:
        return self.notes.known


class WindowNotes(VectorNotes):
    """Notes of one block; in UB rows of maps lie as in global memory."""

    def __init__(self, work: VectorWork, space: Space, windows: RowWindows) -> None:
        super().__init__(work, space)
        self.windows, self.source = windows, work.inputs[0]
        self.line = line_bytes(windows, self.source.ref, space)

    @property
    def known(self) -> bool:
        """Whether there is one result, with a map for each of the input."""
        (source, *others), outputs, rows = self.work.inputs, self.work.outputs, self.space.rows
        maps = rows // self.windows.made
        return (
            [stream.over for stream in outputs] == ["all"]
            and all(stream.over == "one" for stream in others)
            and source.ref.format is outputs[0].ref.format
            and source.ref.bytes == maps * self.windows.height * self.line
            and rows % self.windows.made == 0
            and self._fits(outputs[0])
        )

    def _in_blocks(self, ref: Ref) -> bool:
        return False

    def _pieces(self, ref: Ref, row: tuple[int, int], col: tuple[int, int]) -> Iterator[Piece]:
        if ref.region != self.source.ref.region:
            yield from super()._pieces(ref, row, col)
            return
        first, end = self.windows.under(*row)
        yield Piece(first * self.line, 0, 1, (end - first) * self.line, 0, 0)

    def compute(self, rows: int, row: Extent, col: Extent, at: Affine = ZERO) -> Note:
        whole = super().compute(rows, row, col, at)
        item = self.source.ref.dtype.itemsize

        def note(frame: Frame) -> Sequence[Item]:
            (kernel,) = whole(frame)
            assert isinstance(kernel, Kernel)
            first, end = self.windows.under(kernel.first[0], kernel.rows)
            dims = ((end - first, self.line), (self.line // item, item))
            box = Box(Buffer.UB, "", self.source.ref.dtype, dims, Affine(frame.sources[0]))
            part = replace(kernel.sources[0], box=box)
            return [replace(kernel, sources=(part, *kernel.sources[1:]), under=(first, end))]

        return note


def line_bytes(windows: RowWindows, source: Ref, space: Space) -> int:
    """Bytes of an input row."""
    return source.bytes // (space.rows // windows.made * windows.height)
