"""What the blocks of vector work do to the byte (`isa.notes`): streams to UB and back, kernels on tiles.

In UB a tile lies as its tensor does in global memory: rows one after the other, or blocks of columns, each
with all rows of the tile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ascendsim.core.formats import BLOCK_BYTES, FRACTAL_ROWS, Format, align, c0, ceil_div
from ascendsim.isa.effects import Box, Dims
from ascendsim.isa.instructions import ZERO, Affine, Buffer
from ascendsim.isa.notes import Frame, Item, Kernel, Note, Part, Row
from ascendsim.lower.templates.effects import copy
from ascendsim.lower.templates.sharing import Space
from ascendsim.opset.work import Ref, Stream, VectorWork

Extent = tuple[Affine, int]
AXES = ("row", "col")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a tile that is one transfer.

    Attributes:
        start, held: Its first byte in the tensor and in the tile.
        number, length: Of pieces, and bytes of each.
        apart, step: Bytes from one piece to the next in the tensor and in the tile.
    """

    start: int
    held: int
    number: int
    length: int
    apart: int
    step: int


def is_blocked(ref: Ref) -> bool:
    """Whether its columns come in blocks."""
    return (ref.format is Format.NC1HWC0 and len(ref.shape) == 4) or (
        ref.format is Format.FRACTAL_NZ and len(ref.shape) >= 2
    )


def inner_rows(ref: Ref) -> int:
    """Rows of a blocked tensor that follow each other within a block of columns."""
    if ref.format is Format.NC1HWC0:
        return ref.shape[2] * ref.shape[3]
    return align(ref.shape[-2], FRACTAL_ROWS)


class VectorNotes:
    """Notes of one block.

    Args:
        work: What is computed.
        space: Its iteration space.
    """

    def __init__(self, work: VectorWork, space: Space) -> None:
        self.work, self.space = work, space
        self._made: Kernel | None = None  # what the vector unit did last

    @property
    def known(self) -> bool:
        """Whether all of it can be told: every stream is as large as the iteration space says."""
        work = self.work
        if work.gather_bytes or work.planes or work.maps is not None or work.reduces == "rows":
            return False
        # what a node that only repeats makes of a part is not what it makes of the whole
        repeats = all(stream.over != "all" for stream in work.inputs)
        if repeats or any(stream.over not in ("all", "row") for stream in work.outputs):
            return False
        streams = (*work.inputs, *work.outputs)
        large = [stream.ref for stream in streams if stream.over in ("all", "col")]
        whole = [stream.ref for stream in streams if stream.over == "all"]
        if self.space.flat or any(is_blocked(ref) and not self._in_blocks(ref) for ref in whole):
            if len({(ref.format, ref.dtype.itemsize if is_blocked(ref) else 0) for ref in large}) > 1:
                return False
            if work.reduces != "none":
                return False
        return all(self._fits(stream) for stream in streams)

    @property
    def known_planes(self) -> bool:
        """The same of sums over whole planes, one value for each."""
        work = self.work
        streams = (*work.inputs, *work.outputs)
        if not work.planes or [stream.over for stream in streams] != ["all", "col"]:
            return False
        source, sums = (stream.ref for stream in streams)
        return (
            source.format is Format.NC1HWC0
            and source.bytes == self.space.rows * self.space.cols * source.dtype.itemsize
            and sums.bytes == self.space.cols * sums.dtype.itemsize
            and self.space.rows == inner_rows(source)
        )

    def _fits(self, stream: Stream) -> bool:
        ref, space = stream.ref, self.space
        if ref.bits_of is not None or ref.format is Format.FRACTAL_Z:
            return False
        elements = ref.bytes // ref.dtype.itemsize
        if stream.over == "all":
            columns = not self._in_blocks(ref) or self._columns(ref) == space.cols
            return columns and elements == space.rows * space.cols
        if stream.over == "col":
            return elements <= space.cols and space.cols - elements < BLOCK_BYTES
        return elements == (space.rows if stream.over == "row" else 1)

    def _in_blocks(self, ref: Ref) -> bool:
        """Whether a tile of it is blocks of columns; columns that are whole matrices or maps lie in a row."""
        if self.space.flat or not is_blocked(ref):
            return False
        if self.work.planes:
            return True
        return self.space.cols % (inner_rows(ref) * self._columns(ref)) != 0 or inner_rows(ref) == 1

    @staticmethod
    def _columns(ref: Ref) -> int:
        return align(ref.shape[1 if ref.format is Format.NC1HWC0 else -1], c0(ref.dtype))

    def _pieces(self, ref: Ref, row: tuple[int, int], col: tuple[int, int]) -> Iterator[Piece]:
        """A tile of a tensor of the whole iteration space: first row and column, and how many."""
        size = ref.dtype.itemsize
        if self.space.flat:
            yield Piece(col[0] * size, 0, 1, col[1] * size, 0, 0)
            return
        if not self._in_blocks(ref):
            wide, line = col[1] * size, self.space.cols * size
            yield Piece(row[0] * line + col[0] * size, 0, row[1], wide, line, wide)
            return
        block, inner = c0(ref.dtype), inner_rows(ref)
        plane, step = inner * BLOCK_BYTES, row[1] * BLOCK_BYTES
        first, end = row[0], row[0] + row[1]
        while first < end:  # planes of one image or matrix lie together
            outer, inside = divmod(first, inner)
            rows = min(end - first, inner - inside)
            start = (outer * self.space.cols // block + col[0] // block) * plane + inside * BLOCK_BYTES
            held = (first - row[0]) * BLOCK_BYTES
            yield Piece(start, held, col[1] // block, rows * BLOCK_BYTES, plane, step)
            first += rows

    def move(self, stream: Stream, row: Extent, col: Extent, inward: bool) -> Note:
        """A tile of a stream comes to UB, or leaves it."""
        ref = stream.ref
        there, here = (Buffer.GM, ref.region), (Buffer.UB, "")

        def note(frame: Frame) -> Sequence[Item]:
            found: list[Item] = []
            base = frame.target if inward else frame.sources[0]
            for piece in self._transfers(frame, stream, row, col):
                if inward:
                    effect = copy(here, there, piece.number, piece.length, (piece.step, piece.apart))
                    found.append(Row(effect, (base + piece.held, piece.start)))
                else:
                    effect = copy(there, here, piece.number, piece.length, (piece.apart, piece.step))
                    found.append(Row(effect, (piece.start, base + piece.held)))
            return found

        return note

    def store(self, stream: Stream, row: Extent, col: Extent) -> Note:
        """A tile of a result leaves UB. The vector unit's instructions name the first result only: another
        one is made here, of what they read.
        """
        leave = self.move(stream, row, col, inward=False)
        if stream is self.work.outputs[0]:
            return leave

        def note(frame: Frame) -> Sequence[Item]:
            made = self._made
            assert made is not None
            columns = col[1] if stream.over == "all" else 1
            tile = (made.rows, 0, made.rows, col[1])
            target = self._part(stream, frame.sources[0], tile, made.first[1])
            return [replace(made, target=target, columns=columns), *leave(frame)]

        return note

    def _transfers(self, frame: Frame, stream: Stream, row: Extent, col: Extent) -> Iterator[Piece]:
        rows = (frame.at(row[0]) + frame.first("row"), row[1])
        columns = (frame.at(col[0]) + frame.first("col"), col[1])
        if stream.over == "all":
            yield from self._pieces(stream.ref, rows, columns)
            return
        size = stream.ref.dtype.itemsize
        first, count = {"row": rows, "col": columns, "one": (0, 1)}[stream.over]
        length = min(count, stream.ref.bytes // size - first) * size
        yield Piece(first * size, 0, 1, length, length, length)

    def compute(self, rows: int, row: Extent, col: Extent, at: Affine = ZERO) -> Note:
        """The vector unit works on a tile.

        Args:
            rows: Of the tile in UB.
            row, col: First row and column in the share, and how many the vector unit does.
            at: First of these rows in the tile.
        """

        def note(frame: Frame) -> Sequence[Item]:
            out = self.work.outputs[0]
            place = (frame.at(row[0]) + frame.first("row"), frame.at(col[0]) + frame.first("col"))
            tile = (rows, frame.at(at), row[1], col[1])
            parts = [
                self._part(stream, address, tile, place[1])
                for stream, address in zip(self.work.inputs, frame.sources, strict=True)
            ]
            target = self._part(out, frame.target, tile, place[1])
            columns = col[1] if out.over == "all" else 1
            whole = self.work.reduces == "cols"
            self._made = Kernel(target, tuple(parts), row[1], columns, place, whole)
            return [self._made]

        return note

    def plane(self, rows: int, col: Extent, at: Affine) -> Note:
        """A block of columns is added up over all its rows; `at`: its first column among the sums in UB."""
        source, sums = self.work.inputs[0], self.work.outputs[0]

        def note(frame: Frame) -> Sequence[Item]:
            column = frame.at(col[0]) + frame.first("col")
            part = self._part(source, frame.sources[0], (rows, 0, rows, col[1]), column)
            address = frame.target + frame.at(at) * sums.ref.dtype.itemsize
            target = self._part(sums, address, (1, 0, 1, col[1]), column)
            return [Kernel(target, (part,), rows, col[1], (0, column))]

        return note

    def _part(self, stream: Stream, address: int, tile: tuple[int, int, int, int], column: int) -> Part:
        """What a tile has of a stream; `tile`: its rows, the first one that is wanted, how many, columns."""
        ref = stream.ref
        held, first, rows, columns = tile
        size = ref.dtype.itemsize
        if stream.over == "all" and not self.space.flat:
            if self._in_blocks(ref):
                block = c0(ref.dtype)
                dims: Dims = (
                    (ceil_div(columns, block), held * BLOCK_BYTES),
                    (rows, BLOCK_BYTES),
                    (block, size),
                )
                address += first * BLOCK_BYTES
            else:
                dims = ((rows, columns * size), (columns, size))
                address += first * columns * size
            return Part(ref.region, "all", Box(Buffer.UB, "", ref.dtype, dims, Affine(address)))
        wanted = {"all": columns, "col": columns, "row": rows, "one": 1}[stream.over]
        count = min(wanted, ref.bytes // size - column) if stream.over == "col" else wanted
        if stream.over == "row":
            address += first * size
        box = Box(Buffer.UB, "", ref.dtype, ((count, size),), Affine(address))
        return Part(ref.region, stream.over, box, wanted)
