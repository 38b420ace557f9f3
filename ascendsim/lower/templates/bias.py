"""The bias of a Cube tile: it is in L0C before the products are added to it, so no vector instruction adds it
on the way out.

    first and second generation     the vector unit broadcasts one value a column over the tile's place in L0C
                                    (broadcast_ub_to_cc)
    chips with a bias table         MTE1 brings the tile's columns into the table, from where the first mmad
                                    takes them

The vector unit is also what empties L0C. So that the Cube does not wait for it, it writes the bias of the
next tile before it fetches the finished one, as long as the next tile has a place of its own and its columns
are known. A run is a sequence of tiles for which they are: all rows of one panel of columns, or all tiles if
columns run inside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Protocol

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import CompileError
from ascendsim.core.formats import FRACTAL_ROWS, L0C_ELEMENT_BYTES, align
from ascendsim.isa.capacity import capacity
from ascendsim.isa.effects import Box, row
from ascendsim.isa.instructions import ZERO, Affine, Buffer, Move, Operand, Pipe, SetFlag, Vector, WaitFlag
from ascendsim.isa.notes import Arrays, Call, Frame, Item, Note, nothing
from ascendsim.lower.affine import plus, times
from ascendsim.lower.emit import BlockBuilder, Piece, Ring
from ascendsim.lower.templates.operands import bring_columns
from ascendsim.lower.templates.steps import Expansion
from ascendsim.opset.work import CubeWork, Ref, Step
from ascendsim.soc.spec import SocSpec

BROADCAST = "broadcast_ub_to_cc"
KEPT_SHARE = 3 / 4  # of a buffer that values a column may take at most
SMALLEST_TILES = 4096  # bytes: operands of 16 x 16 results of any type, two of each
Extent = tuple[Affine, int]  # first index and count


def accumulator_type(work: CubeWork) -> DType:
    """Element type in L0C."""
    return DType.INT32 if work.dtype.is_integer else DType.FLOAT32


def has_table(soc: SocSpec) -> bool:
    """Whether the Cube takes the bias from a table."""
    return bool(soc.buffers.bias_table and soc.ports.l1_to_bt)


def most_columns(work: CubeWork, soc: SocSpec) -> int:
    """Columns that a tile may have at most: values in the bias table, if that is where the bias goes."""
    if work.bias is None or not has_table(soc):
        return work.n
    return max(FRACTAL_ROWS, (soc.buffers.bias_table or 0) // L0C_ELEMENT_BYTES)


def most_share(work: CubeWork, soc: SocSpec) -> int:
    """Columns that a block may take at most: values a column are kept for all of them, in L1 for the bias
    table, or in UB with what the epilogue reads and adds up, and room for tiles must be left.
    """
    l1 = capacity(soc, Buffer.L1)
    most = int(min(KEPT_SHARE * l1, l1 - SMALLEST_TILES)) // L0C_ELEMENT_BYTES
    if not soc.split_cores:
        kept = sum(stream.ref.dtype.itemsize for stream in work.epilogue_inputs if stream.over == "col")
        kept += L0C_ELEMENT_BYTES * len(work.sums)
        if work.bias is not None:
            wide = 0 if work.bias.dtype is accumulator_type(work) else L0C_ELEMENT_BYTES
            kept += work.bias.dtype.itemsize + wide
        if kept:
            most = min(most, int(KEPT_SHARE * capacity(soc, Buffer.UB)) // kept)
    return max(FRACTAL_ROWS, most // FRACTAL_ROWS * FRACTAL_ROWS)


def bias_passes(work: CubeWork, soc: SocSpec) -> int:
    """Vector passes over the 16-bit elements of a tile that writing its bias takes as long as."""
    if work.bias is None or has_table(soc) or not soc.ports.ub_to_l0c:
        return 0
    return round(L0C_ELEMENT_BYTES / 2 * soc.vector.bytes_per_cycle / soc.ports.ub_to_l0c)


class Bias(Protocol):
    """What a template calls, in this order: start, for each run enter, for each tile bring, begin, computed,
    stored; leave; finish.

    Attributes:
        preloads: Whether the first mmad of a tile adds to what is in L0C.
    """

    preloads: bool

    def start(self, n_at: Affine, n: int, placed: Affine = ZERO) -> None:
        """Brings the bias of the share's columns; `placed` is the first of them in the tensor."""
        ...

    def enter(self, n: Extent) -> None:
        """A run of tiles begins with one of these columns."""
        ...

    def bring(self, n: Extent) -> None:
        """Before a tile's operands are loaded."""
        ...

    def begin(self) -> None:
        """Before the tile's first mmad."""
        ...

    def taken(self, n: int) -> Operand | None:
        """Where the first mmad of a tile of so many columns finds the bias, if it is in the table."""
        ...

    def computed(self, following: Extent) -> None:
        """The tile is computed; the next one of the run has the columns `following`."""
        ...

    def stored(self, following: Extent) -> None:
        """The tile has left L0C."""
        ...

    def leave(self) -> None:
        """The run is over."""
        ...

    def finish(self) -> None:
        """Gives the share's bias back."""
        ...

    def fill(self, frame: Frame, n: Extent, rows: int) -> Sequence[Item]:
        """What puts the bias into the place of a tile, of so many rows in L0C, for the note of its first
        mmad: how many rows the next tile has is not known where the instruction stands.
        """
        ...


def bias_of(
    builder: BlockBuilder,
    work: CubeWork,
    l0c: Ring,
    expansion: Expansion,
    tile: tuple[int, int],
    share_n: int,
) -> Bias:
    """What brings the bias of some work on this chip.

    Raises:
        CompileError: If the chip has no way for it.
    """
    if work.bias is None:
        return NoBias()
    if has_table(builder.soc):
        return BiasTable(builder, work.bias, tile[1], share_n)
    if builder.soc.ports.ub_to_l0c:
        return BroadcastBias(builder, work, work.bias, l0c, expansion=expansion, tile=tile, share_n=share_n)
    raise CompileError(
        f"bias {work.bias.region!r}",
        f"has no way into L0C of {builder.soc.name}",
        remedy="set ports.ub_to_l0c",
    )


def in_turn(
    b: BlockBuilder, bias: Bias, parts: Sequence[Piece], name: str
) -> Iterator[tuple[Piece, Affine, Extent]]:
    """Loops over pieces of columns, again and again: yields each with its index and the columns that come
    after it.

    For a bias that is written ahead the last piece stands alone, since the first one follows it.
    """
    for number, part in enumerate(parts):
        if not bias.preloads:
            with b.loop(name, part.trips) as index:
                yield part, index, (part.at(index), part.size)
            continue
        if part.trips > 1:
            with b.loop(name, part.trips - 1) as index:
                yield part, index, (part.at(plus(index, 1)), part.size)
        after = parts[(number + 1) % len(parts)]
        yield part, Affine(part.trips - 1), (Affine(after.start), after.size)


def conversion(target: Buffer, source: Buffer, types: tuple[DType, DType], count: int) -> Note:
    """The note of values that get another type on their way.

    Args:
        target, source: Buffers.
        types: Of the target and of the source.
        count: Values.
    """
    to, of = types

    def note(frame: Frame) -> Sequence[Item]:
        written = Box(target, "", to, row(count, to), Affine(frame.target))
        read = Box(source, "", of, row(count, of), Affine(frame.sources[0]))
        return [Call((written,), (read,), lambda arrays: [arrays[0].astype(to.numpy)])]

    return note


def _spread(columns: int, arrays: Arrays) -> Arrays:
    """One value a column for all rows of blocks of 16 columns; zeros behind the last value."""
    values = arrays[0]
    whole = np.zeros(columns, values.dtype)
    whole[: len(values)] = values
    return [whole.reshape(-1, 1, FRACTAL_ROWS)]


class NoBias:
    """Nothing to do."""

    preloads = False

    def start(self, n_at: Affine, n: int, placed: Affine = ZERO) -> None: ...

    def enter(self, n: Extent) -> None: ...

    def bring(self, n: Extent) -> None: ...

    def begin(self) -> None: ...

    def taken(self, n: int) -> Operand | None:
        return None

    def computed(self, following: Extent) -> None: ...

    def stored(self, following: Extent) -> None: ...

    def leave(self) -> None: ...

    def finish(self) -> None: ...

    def fill(self, frame: Frame, n: Extent, rows: int) -> Sequence[Item]:
        return ()


class BiasTable:
    """Through L1 into the bias table."""

    preloads = False

    def __init__(self, builder: BlockBuilder, bias: Ref, tile_n: int, share_n: int) -> None:
        self.b, self.ref = builder, bias
        slot = align(tile_n * L0C_ELEMENT_BYTES, 64)
        slots = 2 if 2 * slot <= capacity(builder.soc, Buffer.BT) else 1
        self.held = builder.ring(
            "bias_l1", Pipe.MTE2, Pipe.MTE1, 1, (Buffer.L1, align(share_n * bias.dtype.itemsize, 32))
        )
        self.table = builder.ring("bias_bt", Pipe.MTE1, Pipe.M, slots, (Buffer.BT, slot))

    def start(self, n_at: Affine, n: int, placed: Affine = ZERO) -> None:
        bring_columns(self.b, self.ref, self.held, n_at, n, placed)
        self.b.receive(self.held)

    def enter(self, n: Extent) -> None:
        """Every tile brings its own."""

    def bring(self, n: Extent) -> None:
        b, item = self.b, self.ref.dtype.itemsize
        b.acquire(self.table)
        source = b.source(self.held, n[1] * item, 0, times(n[0], item))
        b.emit(
            Move(
                Pipe.MTE1,
                b.target(self.table, n[1] * L0C_ELEMENT_BYTES),
                source,
                1,
                n[1] * item,
                "bias",
                effect=b.note(conversion(Buffer.BT, Buffer.L1, (DType.FLOAT32, self.ref.dtype), n[1])),
            )
        )
        b.commit(self.table)

    def begin(self) -> None:
        self.b.receive(self.table)

    def taken(self, n: int) -> Operand | None:
        return self.b.source(self.table, n * L0C_ELEMENT_BYTES)

    def computed(self, following: Extent) -> None:
        self.b.release(self.table)

    def stored(self, following: Extent) -> None:
        """The table is free already."""

    def leave(self) -> None:
        """Nothing is written ahead."""

    def finish(self) -> None:
        self.b.release(self.held)

    def fill(self, frame: Frame, n: Extent, rows: int) -> Sequence[Item]:
        return ()


class BroadcastBias:
    """From UB into L0C, one tile ahead of the Cube."""

    preloads = True

    def __init__(
        self,
        builder: BlockBuilder,
        work: CubeWork,
        bias: Ref,
        l0c: Ring,
        *,
        expansion: Expansion,
        tile: tuple[int, int],
        share_n: int,
    ) -> None:
        self.b, self.ref, self.l0c, self.expansion = builder, bias, l0c, expansion
        self.rows, self.kind = align(tile[0], FRACTAL_ROWS), accumulator_type(work)
        self.columns = share_n
        columns = align(share_n, FRACTAL_ROWS)
        self.held = builder.ring("bias_ub", Pipe.MTE2, Pipe.V, 1, (Buffer.UB, columns * bias.dtype.itemsize))
        self.wide = self.held
        if bias.dtype is not self.kind:
            self.wide = builder.ring(
                "bias_wide_ub", Pipe.V, Pipe.V, 1, (Buffer.UB, columns * L0C_ELEMENT_BYTES)
            )
        self.ready = builder.semaphore("bias_ready", Pipe.V, Pipe.M, l0c.slots)

    def start(self, n_at: Affine, n: int, placed: Affine = ZERO) -> None:
        b = self.b
        self.columns = n
        bring_columns(b, self.ref, self.held, n_at, n, placed)
        b.receive(self.held)
        if self.wide is not self.held:
            source, target = (
                b.source(self.held, self.held.slot_bytes),
                b.target(self.wide, self.wide.slot_bytes),
            )
            for step in self.expansion.expand((Step("vconv", DType.FLOAT32),)):
                note = b.note(conversion(Buffer.UB, Buffer.UB, (self.kind, self.ref.dtype), n))
                b.emit(Vector(step.op, step.dtype.value, n, target, (source,), effect=note))

    def enter(self, n: Extent) -> None:
        self._write(n)

    def bring(self, n: Extent) -> None:
        """The vector unit has the share's bias."""

    def begin(self) -> None:
        self.b.emit(WaitFlag(Pipe.M, self.ready))

    def taken(self, n: int) -> Operand | None:
        """It is in L0C already."""
        return None

    def computed(self, following: Extent) -> None:
        if self.l0c.slots > 1:
            self._write(following)

    def stored(self, following: Extent) -> None:
        if self.l0c.slots == 1:
            self._write(following)

    def leave(self) -> None:
        self.b.emit(WaitFlag(Pipe.M, self.ready))  # the bias after the last tile was for nobody

    def finish(self) -> None:
        self.b.release(self.held)

    def fill(self, frame: Frame, n: Extent, rows: int) -> Sequence[Item]:
        first = frame.at(n[0])
        columns, there = align(n[1], FRACTAL_ROWS), min(n[1], self.columns - first)
        shape = (
            (columns // FRACTAL_ROWS, rows * FRACTAL_ROWS * L0C_ELEMENT_BYTES),
            (rows, FRACTAL_ROWS * L0C_ELEMENT_BYTES),
            (FRACTAL_ROWS, L0C_ELEMENT_BYTES),
        )
        target = Box(Buffer.L0C, "", self.kind, shape, Affine(frame.target))
        start = Affine(self.wide.allocations[0].offset + first * L0C_ELEMENT_BYTES)
        values = Box(Buffer.UB, "", self.kind, row(there, self.kind), start)
        return [Call((target,), (values,), partial(_spread, columns))]

    def _write(self, n: Extent) -> None:
        """Puts the bias into the place of the next tile."""
        b, columns = self.b, align(n[1], FRACTAL_ROWS)
        source = b.source(self.wide, columns * L0C_ELEMENT_BYTES, 0, times(n[0], L0C_ELEMENT_BYTES))
        count = self.rows * columns
        b.emit(
            Vector(
                BROADCAST,
                self.kind.value,
                count,
                b.target(self.l0c, count * L0C_ELEMENT_BYTES),
                (source,),
                effect=b.note(nothing),  # see `fill`
            )
        )
        b.emit(SetFlag(Pipe.V, self.ready))
