"""What the way out of L0C does to the byte (`isa.notes`): to UB and through the epilogue, or by FIXPIPE.

In UB a tile lies as its tensor does in global memory: blocks of columns, each with all rows of the tile, or
rows one after the other. Rows are rounded up to 16, as in L0C.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import BLOCK_BYTES, FRACTAL_BYTES, FRACTAL_ROWS, Format, align, c0, ceil_div
from ascendsim.isa.effects import Box, Effect
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
from ascendsim.lower.templates.product import Product
from ascendsim.opset.work import CubeWork, Ref, Stream

Extent = tuple[Affine, int]
BLOCKED = (Format.NC1HWC0, Format.FRACTAL_NZ)
_KNOWN = (DType.FLOAT16, DType.FLOAT32)


@dataclass(frozen=True, slots=True)
class Strip:
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

    def of(self, where: Where) -> TileNotes:
        """Those of one tile."""
        return TileNotes(self.work, self.whole, where)

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
    """

    def __init__(self, work: CubeWork, whole: Product, where: Where) -> None:
        self.work, self.whole, self.where = work, whole, where

    def strip(self, ref: Ref, at: tuple[int, int, int, int], rows: int, column: int, columns: int) -> Strip:
        """Where a tile lies.

        Args:
            ref: The tensor, shaped like the result.
            at: Batch, image and first row of the tile, counted from the start of the tensor; not its column.
            rows: Of the tile.
            column, columns: First column and how many.
        """
        whole, work = self.whole, self.work
        batch, image, row, _ = at
        size = ref.dtype.itemsize
        held = align(rows, FRACTAL_ROWS)
        if ref.format is Format.NC1HWC0:
            block, bytes = ref.block
            plane = whole.m * bytes
            first = batch * whole.n + column
            start = image * (ref.bytes // whole.images) + first // block * plane + row * bytes
            return Strip(start, ceil_div(columns, block), rows * bytes, plane, held * bytes)
        base = batch * (ref.bytes // whole.batch) + image * (ref.bytes // whole.images)
        if ref.format is Format.FRACTAL_NZ:
            block = c0(ref.dtype)
            line = ceil_div(whole.m if work.conv is not None else work.m, FRACTAL_ROWS) * FRACTAL_BYTES
            start = base + column // block * line + row // FRACTAL_ROWS * FRACTAL_BYTES
            return Strip(start, ceil_div(columns, block), held * BLOCK_BYTES, line, held * BLOCK_BYTES)
        start = base + (row * whole.n + column) * size
        wide = align(columns, FRACTAL_ROWS) * size
        return Strip(start, rows, columns * size, whole.n * size, wide)

    def bring(self, ref: Ref, m: int, n: Extent) -> Note:
        """A tile of a tensor shaped like the result comes to UB."""

        def note(frame: Frame) -> Sequence[Item]:
            at = self.where.at(frame)
            there = self.strip(ref, at, m, frame.at(n[0]) + frame.first("n"), n[1])
            effect = _moved((Buffer.UB, ""), (Buffer.GM, ref.region), there, inward=True)
            return [Row(effect, (frame.target, there.start))]

        return note

    def store(self, ref: Ref, m: int, n: Extent) -> Note:
        """A tile leaves UB."""

        def note(frame: Frame) -> Sequence[Item]:
            at = self.where.at(frame)
            there = self.strip(ref, at, m, frame.at(n[0]) + frame.first("n"), n[1])
            effect = _moved((Buffer.GM, ref.region), (Buffer.UB, ""), there, inward=False)
            return [Row(effect, (there.start, frame.sources[0]))]

        return note

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
        rows, whole = self._rows(m), align(columns, FRACTAL_ROWS)

        def note(frame: Frame) -> Sequence[Item]:
            batch, _, row, _ = self.where.at(frame)
            start = frame.at(column)
            place = (row, batch * self.whole.n + start + frame.first("n"))
            source = self.tile(self.work.out, before[1], m, columns, frame.sources[0])
            parts = [Part(before[0], "all", source)]
            for stream, address in zip(streams, frame.sources[1:], strict=True):
                ref, size = stream.ref, stream.ref.dtype.itemsize
                if stream.over == "all":
                    parts.append(Part(ref.region, "all", self.tile(ref, ref.dtype, m, columns, address)))
                    continue
                there = ref.bytes // size
                wanted = {"row": rows, "col": whole, "one": 1}[stream.over]
                offset = start if stream.over == "col" else 0
                before_it = {"row": row, "col": place[1], "one": 0}[stream.over]
                count = min(wanted, there - before_it)
                box = Box(Buffer.UB, "", ref.dtype, ((count, size),), Affine(address + offset * size))
                parts.append(Part(ref.region, stream.over, box, wanted))
            target = self.tile(made, made.dtype, m, columns, frame.target)
            return [Kernel(Part(made.region, "all", target), tuple(parts), rows, whole, place)]

        return note

    def fix(self, m: int, n: Extent) -> Note:
        """FIXPIPE stores a tile."""
        work = self.work

        def note(frame: Frame) -> Sequence[Item]:
            at = self.where.at(frame)
            rows = self._rows(m)
            there = self.strip(work.out, at, rows, frame.at(n[0]) + frame.first("n"), n[1])
            effect = fixpipe(
                work.out.region,
                work.out.dtype,
                (rows, n[1]),
                held=align(m, FRACTAL_ROWS),
                step=there.apart,
                in_rows=work.out.format not in BLOCKED,
                relu=bool(work.epilogue),
            )
            return [Row(effect, (there.start, frame.sources[0]))]

        return note


def _moved(target: tuple[Buffer, str], source: tuple[Buffer, str], there: Strip, inward: bool) -> Effect:
    steps = (there.held, there.apart) if inward else (there.apart, there.held)
    return copy(target, source, there.number, there.length, steps)


def _fractals(buffer: Buffer, dtype: DType, size: tuple[int, int, int], block: int, address: int) -> Box:
    """Blocks of columns, each with some of `held` rows; `size`: rows, columns, held rows."""
    rows, columns, held = size
    each = block * dtype.itemsize
    dims = ((ceil_div(columns, block), held * each), (rows, each), (block, dtype.itemsize))
    return Box(buffer, "", dtype, dims, Affine(address))


def _converted(arrays: Arrays, target: Box) -> NDArray[Any]:
    with np.errstate(over="ignore"):
        return from_matrix(as_matrix(arrays[0]).astype(target.dtype.numpy), target)
