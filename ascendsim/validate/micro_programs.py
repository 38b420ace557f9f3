"""Instruction programs of published micro-benchmarks, written with the builder and the templates that
lowering uses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import FRACTAL_ROWS, Format
from ascendsim.isa.instructions import (
    Affine,
    Buffer,
    Flag,
    Loop,
    Mmad,
    Move,
    Operand,
    Pipe,
    Scalar,
    SetFlag,
    Statement,
    Vector,
    WaitFlag,
)
from ascendsim.isa.program import Block, BlockGroup, CoreKind, MemoryPlan, Program, Task, TaskKind
from ascendsim.lower.affine import plus, times
from ascendsim.lower.emit import BlockBuilder
from ascendsim.lower.templates.cube import product_of
from ascendsim.lower.templates.cube_block import CubeWriter
from ascendsim.lower.templates.stage import Tile, share_groups
from ascendsim.lower.templates.steps import Expansion
from ascendsim.lower.templates.tiling import Tiling
from ascendsim.opset.work import CubeWork, Ref
from ascendsim.soc import SocSpec

_HALF = 2  # bytes of a float16 element
_TILE_READY = "l0c_full"  # flag of the Cube template: a tile of the result is in L0C
_MOST_LOADS = 8  # that a hand-written matmul keeps in L1 (the depth of the vendor's example)
_USED = Flag("l1_used", Pipe.MTE1, Pipe.MTE2)
Build = Callable[[SocSpec], Program]


def one_task(
    groups: Sequence[BlockGroup], regions: dict[str, int], kind: TaskKind = TaskKind.AI_CORE
) -> Program:
    """A program of one task on regions of the given sizes, one after the other in global memory."""
    task = Task(0, "micro-benchmark", kind, groups=tuple(groups))
    return Program((task,), MemoryPlan.in_a_row(regions, "input"))


# --- units by themselves ------------------------------------------------------------------------------------


def products(count: int, size: tuple[int, int, int], cores: int) -> Build:
    """`count` independent mmads of m x k x n in a row."""
    m, k, n = size

    def build(soc: SocSpec) -> Program:
        b = BlockBuilder(soc, CoreKind.CUBE if soc.split_cores else CoreKind.AI)
        a, w = b.allocate("a", Buffer.L0A, m * k * _HALF), b.allocate("b", Buffer.L0B, k * n * _HALF)
        c = b.allocate("c", Buffer.L0C, m * n * 4)
        target, left, right = (Operand(x.buffer, x.name, x.bytes) for x in (c, a, w))
        with b.loop("i", count):
            b.emit(Mmad(target, left, right, m, k, n, accumulate=False))
        return one_task([BlockGroup(b.build(), cores)], {})

    return build


def on_chip_moves(count: int, source: Buffer, target: Buffer, size: int, cores: int) -> Build:
    """`count` moves of `size` bytes from L1 to L0, or within UB by the vector unit."""

    def build(soc: SocSpec) -> Program:
        b = BlockBuilder(soc)
        start, end = b.allocate("source", source, size), b.allocate("target", target, size)
        pipe, kind = (Pipe.V, "copy") if source is Buffer.UB else (Pipe.MTE1, "load2d")
        with b.loop("i", count):
            b.emit(
                Move(pipe, Operand(target, end.name, size), Operand(source, start.name, size), 1, size, kind)
            )
        return one_task([BlockGroup(b.build(), cores)], {})

    return build


def vector_calls(count: int, op: str, dtype: DType, elements: int, addresses: Sequence[int]) -> Build:
    """`count` calls of a vector instruction; byte addresses in UB of its result and then of its sources (none
    = wherever).
    """

    def build(soc: SocSpec) -> Program:
        core = CoreKind.VECTOR if soc.split_cores else CoreKind.AI
        b = BlockBuilder(soc, core)
        size = elements * dtype.itemsize
        names = ["target", *(f"source{number}" for number in range(1, max(2, len(addresses))))]
        operands = {}
        for place, name in sorted(zip(addresses or (0, size), names, strict=True)):
            if place > b.used(Buffer.UB):
                b.allocate("unused", Buffer.UB, place - b.used(Buffer.UB))
            operands[name] = Operand(Buffer.UB, b.allocate(name, Buffer.UB, size).name, size)
        target, *sources = (operands[name] for name in names)
        with b.loop("i", count):
            b.emit(Vector(op, dtype.value, elements, target, tuple(sources)))
        return one_task([BlockGroup(b.build(), 1)], {}, TaskKind.AI_VECTOR_CORE)

    return build


def both_ways(count: int, size: int, cores: int) -> Build:
    """Reads of `size` bytes on MTE2 and writes of `size` bytes on MTE3 at the same time, independent of each
    other.
    """

    def build(soc: SocSpec) -> Program:
        b = BlockBuilder(soc)
        inward, outward = b.allocate("in", Buffer.UB, size), b.allocate("out", Buffer.UB, size)
        with b.loop("i", count) as i:
            read = Tile("source", times(i, size), 1, size)
            b.emit(Move(Pipe.MTE2, Operand(Buffer.UB, inward.name, size), read.operand, 1, size))
            write = Tile("sink", times(i, size), 1, size)
            b.emit(Move(Pipe.MTE3, write.operand, Operand(Buffer.UB, outward.name, size), 1, size))
        total = count * size * cores
        return one_task([BlockGroup(b.build(), cores)], {"source": total, "sink": total})

    return build


def fills(size: int, tile: int, cores: int) -> Build:
    """A tensor of `size` bytes written from UB in tiles, shared evenly by the cores."""

    def build(soc: SocSpec) -> Program:
        b = BlockBuilder(soc, CoreKind.VECTOR if soc.split_cores else CoreKind.AI)
        value = b.allocate("value", Buffer.UB, tile)
        with b.loop("i", size // cores // tile) as i:
            out = Tile("filled", times(i, tile), 1, tile)
            b.emit(Move(Pipe.MTE3, out.operand, Operand(Buffer.UB, value.name, tile), 1, tile))
        return one_task([BlockGroup(b.build(), cores)], {"filled": size}, TaskKind.AI_VECTOR_CORE)

    return build


# --- a matrix through MTE2 ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Walk:
    """How cores read a row-major float16 matrix of `rows` x `columns` in tiles.

    Attributes:
        tile: Rows and columns of one transfer.
        to_l1: Into L1 with the change from ND to NZ (cube cores); else into UB (vector cores).
        repeats: Times that each slice is read, one pass after the other.
        slices: Pieces along the columns; all passes over one come before the next.
        pitch: Elements from row to row if not `columns`.
        shared: Every core reads the whole matrix, in blocks of rows; else a share of the rows.
        rotated: Core i starts at block i.
        cached: Through L2.
    """

    rows: int
    columns: int
    tile: tuple[int, int]
    cores: int
    to_l1: bool = False
    repeats: int = 1
    slices: int = 1
    pitch: int = 0
    shared: bool = False
    rotated: bool = False
    cached: bool = True

    @property
    def bytes(self) -> int:
        """Bytes that all cores read."""
        return self.rows * self.columns * _HALF * self.repeats * (self.cores if self.shared else 1)


def matrix_reads(walk: Walk) -> Build:
    """The program of a walk: nothing but transfers, each into the same place."""

    def build(soc: SocSpec) -> Program:
        size = walk.rows * (walk.pitch or walk.columns) * _HALF
        kind = TaskKind.AI_CORE if walk.to_l1 else TaskKind.AI_VECTOR_CORE
        if not walk.rotated:
            return one_task([BlockGroup(_reader(soc, walk, 0).build(), walk.cores)], {"matrix": size}, kind)
        groups = [BlockGroup(_reader(soc, walk, first).build(), 1) for first in range(walk.cores)]
        return one_task(groups, {"matrix": size}, kind)

    return build


def _reader(soc: SocSpec, walk: Walk, first: int) -> BlockBuilder:
    b = BlockBuilder(soc, CoreKind.CUBE if walk.to_l1 else CoreKind.VECTOR)
    height, width = walk.tile
    pitch = (walk.pitch or walk.columns) * _HALF
    target = b.allocate("tile", Buffer.L1 if walk.to_l1 else Buffer.UB, height * width * _HALF)
    own_rows = walk.rows if walk.shared else walk.rows // walk.cores
    columns = walk.columns // walk.slices
    block = walk.rows // walk.cores if walk.shared else own_rows

    def tiles(start: Affine, rows: int) -> None:
        with b.loop("m", rows // height) as m, b.loop("n", columns // width) as n:
            offset = plus(start, times(m, height * pitch), times(n, width * _HALF))
            tile = Tile.strided("matrix", offset, height, width * _HALF, pitch)
            into = Operand(target.buffer, target.name, tile.bytes)
            layout = "nd2nz" if walk.to_l1 else "copy"
            move = Move(
                Pipe.MTE2,
                into,
                tile.operand,
                tile.bursts,
                tile.burst_bytes,
                layout,
                src_stride=tile.stride,
                aligned=tile.aligned,
            )
            b.emit(replace(move, cached=walk.cached))

    with b.loop("slice", walk.slices) as s, b.loop("pass", walk.repeats):
        start = times(s, columns * _HALF)
        blocks = own_rows // block
        with b.loop("late", blocks - first) as i:
            tiles(plus(start, first * block * pitch, times(i, block * pitch)), block)
        if first:
            with b.loop("early", first) as i:
                tiles(plus(start, times(i, block * pitch)), block)
    return b


# --- matrix products with a given tiling --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Product:
    """A matmul of row-major float16 operands with the tiling of a hand-written kernel.

    Attributes:
        share: Rows and columns of one core.
        base: m, n, k of one mmad.
        steps: mmads along k that one load of the operands serves.
        keeps: Operand whose panel stays in L1, "a" or "b". While B stays, the next load of A goes ahead of
            the work on this one.

        out: Element type of the result.
        head_us: From the start of the kernel to its first transfer.
        slots: Loads that L1 keeps, 0 = as many as fit, at most `_MOST_LOADS`.
        unit_flag: FIXPIPE follows the last mmad of a tile unit by unit.
        in_turn: Loads of a tile of the result begin when L1 holds nothing of the one before that is needed.
        a_transposed, b_transposed: A lies as k x m, B as n x k.
        staggered: Every core starts at a chunk of k of its own.
    """

    m: int
    n: int
    k: int
    share: tuple[int, int]
    base: tuple[int, int, int]
    steps: int = 1
    out: DType = DType.FLOAT16
    keeps: str = ""
    head_us: float = 0.0
    slots: int = 0
    unit_flag: bool = False
    in_turn: bool = False
    a_transposed: bool = False
    b_transposed: bool = False
    staggered: bool = False


def matmul(product: Product) -> Build:
    """The program that the Cube template writes for the tiling."""
    p = product

    def build(soc: SocSpec) -> Program:
        a = Ref(
            "a", (p.k, p.m) if p.a_transposed else (p.m, p.k), DType.FLOAT16, Format.ND, p.m * p.k * _HALF
        )
        b = Ref(
            "b", (p.n, p.k) if p.b_transposed else (p.k, p.n), DType.FLOAT16, Format.ND, p.k * p.n * _HALF
        )
        c = Ref("c", (p.m, p.n), p.out, Format.ND, p.m * p.n * p.out.itemsize)
        work = CubeWork(p.m, p.k, p.n, a, b, c, transpose_a=p.a_transposed, transpose_b=p.b_transposed)
        wanted = product_of(work, soc)
        (share_m, share_n), (base_m, base_n, base_k) = p.share, p.base
        step = base_k // FRACTAL_ROWS
        load = (base_m + base_n) * base_k * p.steps * _HALF
        slots = p.slots or min(_MOST_LOADS, (soc.buffers.l1 or 0) // load)
        tiling = Tiling(
            1, 1, share_m, share_n, base_m, base_n, step * p.steps, step, p.keeps, 1, 0.0, base_m, slots
        )
        axes = [(1, 1), (1, 1), (p.m, share_m), (p.n, share_n)]
        head = Scalar(
            round(max(0.0, p.head_us - soc.launch.kernel_init_ns / 1e3) * soc.frequency_mhz),
            "initialise the library",
        )

        def block(m: int, n: int) -> Block:
            written = CubeWriter(work, wanted, tiling, soc, Expansion(soc), (m, n)).write(1, 1, m, n)
            body = _with_unit_flag(written.body) if p.unit_flag else written.body
            if p.in_turn:
                body, written = _in_turn(body), replace(written, flags=(*written.flags, _USED))
            return replace(written, body=(head, *body) if head.cycles else body)

        groups = [BlockGroup(block(m, n), count) for (_, _, m, n), count in share_groups(axes)]
        if p.staggered:
            groups = [BlockGroup(group.block, 1) for group in groups for _ in range(group.count)]
        return one_task(groups, {"a": a.bytes, "b": b.bytes, "c": c.bytes})

    return build


def _with_unit_flag(body: Sequence[Statement]) -> tuple[Statement, ...]:
    """The same statements with UnitFlag between mmad and FIXPIPE."""
    changed: list[Statement] = []
    for statement in body:
        if isinstance(statement, Loop):
            statement = replace(statement, body=_with_unit_flag(statement.body))
        elif isinstance(statement, SetFlag) and statement.pipe is Pipe.M and statement.flag == _TILE_READY:
            statement = replace(statement, unit_flag=True)
        changed.append(statement)
    return tuple(changed)


def _in_turn(body: Sequence[Statement]) -> tuple[Statement, ...]:
    """The same statements, whose loads wait at the end of a column of tiles until MTE1 has read L1."""
    wait = SetFlag(Pipe.MTE1, _USED.name), WaitFlag(Pipe.MTE2, _USED.name)
    return tuple(
        replace(statement, body=(*statement.body, *wait)) if isinstance(statement, Loop) else statement
        for statement in body
    )
