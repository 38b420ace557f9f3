"""What the way out of L0C does to the byte (`isa.notes`): to UB and through the epilogue, or by FIXPIPE.

In UB a tile lies as its tensor does in global memory: blocks of columns, each with all rows of the tile, or
rows one after the other. Rows are rounded up to 16, as in L0C.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import (
    BLOCK_BYTES,
    FRACTAL_BYTES,
    FRACTAL_ROWS,
    L0C_ELEMENT_BYTES,
    Format,
    align,
    c0,
    ceil_div,
)
from ascendsim.isa.effects import Box
from ascendsim.isa.instructions import Affine, Buffer
from ascendsim.isa.notes import (
    Arrays,
    Call,
    Frame,
    Item,
    Kernel,
    Note,
    Part,
    Row,
    as_matrix,
    from_matrix,
)
from ascendsim.lower.templates.cube_notes import Where
from ascendsim.lower.templates.effects import copy, fixpipe
from ascendsim.lower.templates.held import StripPlace
from ascendsim.lower.templates.product import Product
from ascendsim.opset.work import CubeWork, Ref, Stream

Extent = tuple[Affine, int]
BLOCKED = (Format.NC1HWC0, Format.FRACTAL_NZ)
_KNOWN = (DType.FLOAT16, DType.FLOAT32)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A tile of a tensor in global memory.

    Attributes:
        start: Its first byte.
        number, length: Of pieces, and bytes of each.
        apart: Bytes from one piece to the next there.
        held: The same in UB.
    """

    start: int
    number: int
    length: int
    apart: int
    held: int


class OutNotes:
    """Notes of one block's way out.

    Args:
        work: What is computed.
        whole: The product.
    """

    def __init__(self, work: CubeWork, whole: Product) -> None:
        self.work, self.whole = work, whole
        self.strip: StripPlace | None = None  # what is worked on now, in tile form

    def of(self, where: Where) -> TileNotes:
        """Those of one tile."""
        return TileNotes(self.work, self.whole, where, self.strip)

    @property
    def known(self) -> bool:
        """Whether all of it can be told."""
        work = self.work
        refs = [work.out, *(side.ref for side in work.side_outputs)]
        streams = [stream.ref for stream in work.epilogue_inputs if stream.over == "all"]
        if work.sums or any(ref.bits_of is not None for ref in streams):
            return False
        if any(ref.dtype not in _KNOWN for ref in refs):
            return False
        if work.conv is None and work.m * work.batch > 1 and work.out.format is Format.NC1HWC0:
            return False  # each row is a map of its own
        known = BLOCKED if work.conv is not None else (*BLOCKED, Format.ND)
        return all(ref.format in known for ref in (*refs, *streams))


class TileNotes:
    """Notes of one tile's way out.

    Args:
        work: What is computed.
        whole: The product.
        where: The tile.
        strip: In which columns of a map its rows are.
    """

    def __init__(self, work: CubeWork, whole: Product, where: Where, strip: StripPlace | None) -> None:
        self.work, self.whole, self.where, self.strip = work, whole, where, strip

    def parts(self, frame: Frame, rows: int) -> Iterator[tuple[tuple[int, int, int], int, int]]:
        """The parts of a tile whose rows follow each other in the tensor: batch, image and first row there;
        first row in the tile, and how many.
        """
        if self.strip is None:
            yield self.where.at(frame)[:3], 0, rows
            return
        assert self.work.conv is not None
        columns, left = self.strip.columns, self.strip.at(frame)
        batch, image, first, _ = self.where.at(frame, columns)
        done = 0
        while done < rows:
            line, inside = divmod(first + done, columns)
            count = min(rows - done, columns - inside)
            yield (batch, image, line * self.work.conv.out_w + left + inside), done, count
            done += count

    def stretch(
        self, ref: Ref, at: tuple[int, int, int], rows: int, held: int, n: tuple[int, int]
    ) -> Stretch:
        """Where a part of a tile lies.

        Args:
            ref: The tensor, shaped like the result.
            at: Batch, image and first row, counted from the start of the tensor.
            rows: Of the part.
            held: Rows of a block of columns of the tile.
            n: First column and how many.
        """
        whole, work = self.whole, self.work
        batch, image, row = at
        column, columns = n
        size = ref.dtype.itemsize
        if ref.format is Format.NC1HWC0:
            block, bytes = ref.block
            plane = whole.m * bytes
            first = batch * whole.n + column
            start = image * (ref.bytes // whole.images) + first // block * plane + row * bytes
            there = ceil_div(ref.shape[1], block) - first // block  # the last enlarged group may have fewer
            return Stretch(start, min(ceil_div(columns, block), there), rows * bytes, plane, held * bytes)
        base = batch * (ref.bytes // whole.batch) + image * (ref.bytes // whole.images)
        if work.conv is None and ref.shape != work.out.shape:
            each, count = ref.matrices(work.out) or (1, 1)
            base = batch // each % count * (ref.bytes // count)
        if ref.format is Format.FRACTAL_NZ:
            block = c0(ref.dtype)
            line = ceil_div(whole.m, FRACTAL_ROWS) * FRACTAL_BYTES
            start = base + column // block * line + row // FRACTAL_ROWS * FRACTAL_BYTES
            length = align(rows, FRACTAL_ROWS) * BLOCK_BYTES
            return Stretch(start, ceil_div(columns, block), length, line, held * BLOCK_BYTES)
        start = base + (row * whole.n + column) * size
        wide = align(columns, FRACTAL_ROWS) * size
        return Stretch(start, rows, columns * size, whole.n * size, wide)

    def bring(self, ref: Ref, m: int, n: Extent, part: Affine) -> Note:
        """A tile of a tensor shaped like the result comes to UB; all of it with part 0."""

        def note(frame: Frame) -> Sequence[Item]:
            return self._transfers(frame, ref, m, n, inward=True) if not frame.at(part) else ()

        return note

    def store(self, ref: Ref, m: int, n: Extent, part: Affine) -> Note:
        """A tile leaves UB; all of it with part 0."""

        def note(frame: Frame) -> Sequence[Item]:
            return self._transfers(frame, ref, m, n, inward=False) if not frame.at(part) else ()

        return note

    def _transfers(self, frame: Frame, ref: Ref, m: int, n: Extent, inward: bool) -> list[Item]:
        there, here = (Buffer.GM, ref.region), (Buffer.UB, "")
        columns = frame.at(n[0]) + frame.first("n"), n[1]
        found: list[Item] = []
        for at, done, rows in self.parts(frame, m):
            one = self.stretch(ref, at, rows, align(m, FRACTAL_ROWS), columns)
            if one.number <= 0:
                return []
            offset = done * (BLOCK_BYTES if ref.format in BLOCKED else one.held)
            if inward:
                effect = copy(here, there, one.number, one.length, (one.held, one.apart))
                found.append(Row(effect, (frame.target + offset, one.start)))
            else:
                effect = copy(there, here, one.number, one.length, (one.apart, one.held))
                found.append(Row(effect, (one.start, frame.sources[0] + offset)))
        return found

    def from_l0c(self, m: int, columns: int, dtype: DType) -> Note:
        """Columns of a tile come to UB as elements of a type."""
        rows, out = self._rows(m), self.work.out

        def note(frame: Frame) -> Sequence[Item]:
            held = align(m, FRACTAL_ROWS)
            source = _fractals(
                Buffer.L0C, DType.FLOAT32, (rows, columns, held), FRACTAL_ROWS, frame.sources[0]
            )
            target = self.tile(out, dtype, m, columns, frame.target)
            return [Call((target,), (source,), lambda arrays: [_converted(arrays, target)])]

        return note

    def _rows(self, m: int) -> int:
        """Rows of a tile that are there: whole fractals of blocked matrices."""
        blocked = self.work.conv is None and self.work.out.format is Format.FRACTAL_NZ
        return align(m, FRACTAL_ROWS) if blocked else m

    def tile(self, ref: Ref, dtype: DType, m: int, columns: int, address: int) -> Box:
        """A tile in UB as a tensor of a format has it, elements of a type."""
        rows, held = self._rows(m), align(m, FRACTAL_ROWS)
        whole = align(columns, FRACTAL_ROWS)
        if ref.format in BLOCKED:
            return _fractals(
                Buffer.UB, dtype, (rows, whole, held), BLOCK_BYTES // ref.dtype.itemsize, address
            )
        size = dtype.itemsize
        return Box(Buffer.UB, "", dtype, ((rows, whole * size), (whole, size)), Affine(address))

    def epilogue(
        self,
        made: Ref,
        before: tuple[str, DType],
        streams: Sequence[Stream],
        size: tuple[int, Extent],
    ) -> Note:
        """The operators behind the product on one tile.

        Args:
            made: What they make.
            before: Tensor that the first source holds ("" = the product), and the type that it has there.
            streams: What else they read, in the order of the sources.
            size: Rows of the tile, and its columns in the share.
        """
        m, (column, columns) = size
        rows = self._rows(m)

        def note(frame: Frame) -> Sequence[Item]:
            (batch, _, row), _, _ = next(self.parts(frame, rows))
            start = frame.at(column)
            place = (row, batch * self.whole.n + start + frame.first("n"))
            whole = align(columns, FRACTAL_ROWS)
            if made.format is Format.NC1HWC0:  # the last enlarged group may have fewer
                whole = min(whole, align(made.shape[1], c0(made.dtype)) - place[1])
            if whole <= 0:
                return ()
            source = self.tile(self.work.out, before[1], m, whole, frame.sources[0])
            parts = [Part(before[0], "all", source)]
            for stream, address in zip(streams, frame.sources[1:], strict=True):
                ref, size = stream.ref, stream.ref.dtype.itemsize
                if stream.over == "all":
                    parts.append(Part(ref.region, "all", self.tile(ref, ref.dtype, m, whole, address)))
                    continue
                there = ref.bytes // size
                wanted = {"row": rows, "col": whole, "one": 1}[stream.over]
                offset = start if stream.over == "col" else 0
                before_it = {"row": row, "col": place[1], "one": 0}[stream.over]
                count = max(0, min(wanted, there - before_it))
                box = Box(Buffer.UB, "", ref.dtype, ((count, size),), Affine(address + offset * size))
                parts.append(Part(ref.region, stream.over, box, wanted))
            target = self.tile(made, made.dtype, m, whole, frame.target)
            return [Kernel(Part(made.region, "all", target), tuple(parts), rows, whole, place)]

        return note

    def fix(self, m: int, n: Extent, part: Affine) -> Note:
        """FIXPIPE stores a tile; all of it with part 0."""
        work, held = self.work, align(m, FRACTAL_ROWS)

        def note(frame: Frame) -> Sequence[Item]:
            if frame.at(part):
                return ()
            columns = frame.at(n[0]) + frame.first("n"), n[1]
            found: list[Item] = []
            for at, done, rows in self.parts(frame, self._rows(m)):
                there = self.stretch(work.out, at, rows, held, columns)
                wide = n[1]
                if work.out.format is Format.NC1HWC0:
                    wide = min(wide, there.number * c0(work.out.dtype))
                if wide <= 0:
                    return ()
                effect = fixpipe(
                    work.out.region,
                    work.out.dtype,
                    (rows, wide),
                    held=held,
                    step=there.apart,
                    in_rows=work.out.format not in BLOCKED,
                    relu=bool(work.epilogue),
                )
                offset = done * FRACTAL_ROWS * L0C_ELEMENT_BYTES
                found.append(Row(effect, (there.start, frame.sources[0] + offset)))
            return found

        return note


def _fractals(buffer: Buffer, dtype: DType, size: tuple[int, int, int], block: int, address: int) -> Box:
    """Blocks of columns, each with some of `held` rows; `size`: rows, columns, held rows."""
    rows, columns, held = size
    each = block * dtype.itemsize
    dims = ((ceil_div(columns, block), held * each), (rows, each), (block, dtype.itemsize))
    return Box(buffer, "", dtype, dims, Affine(address))


def _converted(arrays: Arrays, target: Box) -> NDArray[Any]:
    with np.errstate(over="ignore"):
        return from_matrix(as_matrix(arrays[0]).astype(target.dtype.numpy), target)
