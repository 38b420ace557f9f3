"""The cube core's side of an attention task: products of a unit, tile by tile through L1, L0 and L0C."""

from __future__ import annotations

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import FRACTAL_ROWS, L0C_ELEMENT_BYTES, align
from ascendsim.isa.instructions import Affine, Buffer, Mmad, Move, Pipe, SetFlag, WaitFlag
from ascendsim.lower.affine import plus, times
from ascendsim.lower.emit import BlockBuilder, Ring, pieces
from ascendsim.lower.templates.attention_units import ALL_SUMS, READY, SCORES, SUMS, WEIGHTS, Unit
from ascendsim.lower.templates.operands import fitted
from ascendsim.lower.templates.stage import Tile
from ascendsim.opset.attention import AttentionWork, BlockProduct, Extent, Matrix

TILE = 128  # rows, columns and depth of a tile: three of them fill L0A, L0B and L0C twice
At = tuple[Affine, int]  # where a piece of an axis begins, and its size


class AttentionCube:
    """Writes what the cube core of a team does."""

    def __init__(self, b: BlockBuilder, work: AttentionWork) -> None:
        self.b, self.work = b, work
        self.depth = TILE * DType.FLOAT16.itemsize // work.dtype.itemsize
        operand = TILE * self.depth * work.dtype.itemsize
        self.deep = work.tiles_in_l1 * self.depth
        whole = TILE * self.deep * work.dtype.itemsize
        self.a1 = b.ring("a_l1", Pipe.MTE2, Pipe.MTE1, 2, (Buffer.L1, whole))
        self.b1 = b.ring("b_l1", Pipe.MTE2, Pipe.MTE1, work.tiles_in_l1 + 1, (Buffer.L1, whole))
        self.l0 = b.ring("l0", Pipe.MTE1, Pipe.M, 2, (Buffer.L0A, operand), (Buffer.L0B, operand))
        size = TILE * TILE * L0C_ELEMENT_BYTES
        self.l0c = b.ring("l0c", Pipe.M, Pipe.FIX, 2, (Buffer.L0C, size))

    def begin(self) -> None:
        """Waits until memory for sums is clear."""
        if self.work.prologue:
            self.b.emit(WaitFlag(Pipe.MTE2, READY))

    def end(self) -> None:
        """Says that all sums are there."""
        if self.work.epilogue:
            self.b.emit(SetFlag(Pipe.FIX, ALL_SUMS))

    def before(self, unit: Unit) -> None:
        """Products that become scores."""
        for product in self.work.before:
            self._product(product, unit)
        self.b.emit(SetFlag(Pipe.FIX, SCORES))

    def after(self, unit: Unit) -> None:
        """Products of what the vector cores have made of the scores."""
        self.b.emit(WaitFlag(Pipe.MTE2, WEIGHTS))
        for product in self.work.after:
            self._product(product, unit)
        if self.work.join is not None:
            self.b.emit(SetFlag(Pipe.FIX, SUMS))

    def _product(self, product: BlockProduct, unit: Unit) -> None:
        b = self.b
        m, k, n = (_size(extent, unit) for extent in (product.m, product.k, product.n))
        hold = k <= self.deep and not product.more  # rows of A that serve all columns
        for rows in pieces(m, TILE):
            with b.loop("m", rows.trips) as i:
                row = rows.at(i), rows.size
                if hold:
                    self._load(self.a1, product.a, row, (Affine(), k), product.transpose_a)
                    b.receive(self.a1)
                for columns in pieces(n, TILE):
                    with b.loop("n", columns.trips) as j:
                        self._tile(product, row, (columns.at(j), columns.size), k, hold)
                if hold:
                    b.release(self.a1)

    def _tile(self, product: BlockProduct, m: At, n: At, k: int, hold: bool) -> None:
        b = self.b
        b.acquire(self.l0c)
        for number, (size, left, right) in enumerate(((k, product.a, product.b), *product.more)):
            for deep in pieces(size, self.deep):
                with b.loop("k", deep.trips) as s:
                    at = deep.at(s), deep.size
                    if not hold:
                        self._load(self.a1, left, m, at, product.transpose_a)
                    self._load(self.b1, right, at, n, product.transpose_b)
                    if not hold:
                        b.receive(self.a1)
                    b.receive(self.b1)
                    for depth in pieces(deep.size, self.depth):
                        with b.loop("k0", depth.trips) as t:
                            inner = plus(at[0], depth.at(t)), depth.size
                            self._multiply(m[1], n[1], inner, begins=number == 0)
                    b.release(self.b1)
                    if not hold:
                        b.release(self.a1)
        b.commit(self.l0c)
        self._store(product, m, n)

    def _load(self, ring: Ring, matrix: Matrix, rows: At, columns: At, transposed: bool) -> None:
        """GM -> L1, into fractals on the way."""
        b = self.b
        if transposed:
            rows, columns = columns, rows
        b.acquire(ring)
        tile = fitted(b, _tile_of(matrix, rows, columns), matrix.ref)
        move = Move(
            Pipe.MTE2,
            b.target(ring, tile.bytes),
            tile.operand,
            tile.bursts,
            tile.burst_bytes,
            "nd2nz",
            src_stride=tile.stride,
            aligned=tile.aligned,
        )
        b.emit(move)
        b.commit(ring)

    def _multiply(self, m: int, n: int, k: At, begins: bool) -> None:
        """A step of k; `begins`: whether sums begin with the first one."""
        b, item = self.b, self.work.dtype.itemsize
        left, right = (align(size, FRACTAL_ROWS) * k[1] * item for size in (m, n))
        b.acquire(self.l0)
        for part, (ring, size) in enumerate(((self.a1, left), (self.b1, right))):
            size = min(size, ring.slot_bytes)
            b.emit(Move(Pipe.MTE1, b.target(self.l0, size, part), b.source(ring, size), 1, size, "load2d"))
        b.commit(self.l0)
        b.receive(self.l0)
        fresh = tuple(name for name, _ in k[0].terms) if begins and k[0].base == 0 else None
        result = align(m, FRACTAL_ROWS) * align(n, FRACTAL_ROWS) * L0C_ELEMENT_BYTES
        b.emit(
            Mmad(
                dst=b.target(self.l0c, result),
                a=b.source(self.l0, left, 0),
                b=b.source(self.l0, right, 1),
                m=m,
                k=k[1],
                n=n,
                dtype=self.work.dtype.value,
                accumulate=fresh != (),
                fresh_at=fresh or (),
            )
        )
        b.release(self.l0)

    def _store(self, product: BlockProduct, m: At, n: At) -> None:
        """L0C -> GM, in float32."""
        b = self.b
        b.receive(self.l0c)
        tile = fitted(b, _tile_of(product.out, m, n), product.out.ref)
        held = align(m[1], FRACTAL_ROWS) * align(n[1], FRACTAL_ROWS) * L0C_ELEMENT_BYTES
        b.emit(
            Move(
                Pipe.FIX,
                tile.operand,
                b.source(self.l0c, held),
                tile.bursts,
                tile.burst_bytes,
                "fixpipe",
                dst_stride=tile.stride,
                aligned=tile.aligned,
                atomic="add" if product.added else "",
            )
        )
        b.release(self.l0c)


def _size(extent: Extent, unit: Unit) -> int:
    if isinstance(extent, int):
        return extent
    return unit.rows if extent == "rows" else unit.columns


def _tile_of(matrix: Matrix, rows: At, columns: At) -> Tile:
    """A piece of a matrix whose rows are `stride` elements apart."""
    item = matrix.ref.dtype.itemsize
    offset = plus(times(rows[0], matrix.stride * item), times(columns[0], item))
    return Tile.strided(matrix.ref.region, offset, rows[1], columns[1] * item, matrix.stride * item)
