"""Small programs for tests of the machine: a double-buffered matmul, vector pipelines, and wrappers that make
a Program."""

from __future__ import annotations

from typing import Any

from ascendsim.isa.instructions import (
    ZERO,
    Affine,
    Allocation,
    Buffer,
    Flag,
    Loop,
    Mmad,
    Move,
    Operand,
    Pipe,
    SetFlag,
    Statement,
    Vector,
    WaitFlag,
)
from ascendsim.isa.program import (
    Access,
    Block,
    BlockGroup,
    CoreKind,
    MemoryPlan,
    Program,
    ProgramInfo,
    Region,
    Task,
    TaskKind,
)


def gm(name: str, size: int, offset: Affine = ZERO) -> Operand:
    return Operand(Buffer.GM, name, size, offset)


def program_of(
    *tasks: Task, regions: dict[str, int] | None = None, mode: str = "sink", **info: Any
) -> Program:
    """A program whose regions lie one after the other."""
    plan, offset = {}, 0
    for name, size in (regions or {}).items():
        plan[name] = Region(name, offset, size, "activation")
        offset += -(-size // 512) * 512
    return Program(tuple(tasks), MemoryPlan(plan, offset, 0), mode, ProgramInfo(**info))


def task_of(
    *groups: tuple[Block, int],
    id: int = 0,
    accesses: tuple[Access, ...] = (),
    stream: int = 0,
    waits_for: tuple[int, ...] = (),
) -> Task:
    return Task(
        id,
        f"t{id}",
        TaskKind.AI_CORE,
        stream,
        tuple(BlockGroup(block, count) for block, count in groups),
        accesses,
        waits_for,
    )


def copy_block(
    tiles: int, tile_bytes: int = 4096, slots: int = 2, op: str = "vadd", core: CoreKind = CoreKind.AI
) -> Block:
    """GM -> UB, one vector instruction, UB -> GM, double-buffered."""
    slot = Affine(0, (("i", 1),))
    step = Affine(0, (("i", tile_bytes),))
    source = Operand(Buffer.UB, "in", tile_bytes, slot=slot)
    target = Operand(Buffer.UB, "out", tile_bytes, slot=slot)
    body: tuple[Statement, ...] = (
        WaitFlag(Pipe.MTE2, "in_free"),
        Move(Pipe.MTE2, source, gm("x", tile_bytes, step), 1, tile_bytes),
        SetFlag(Pipe.MTE2, "in_full"),
        WaitFlag(Pipe.V, "in_full"),
        WaitFlag(Pipe.V, "out_free"),
        Vector(op, "float16", tile_bytes // 2, target, (source,)),
        SetFlag(Pipe.V, "in_free"),
        SetFlag(Pipe.V, "out_full"),
        WaitFlag(Pipe.MTE3, "out_full"),
        Move(Pipe.MTE3, gm("y", tile_bytes, step), target, 1, tile_bytes),
        SetFlag(Pipe.MTE3, "out_free"),
    )
    return Block(
        body=(Loop("i", tiles, body),),
        allocations=(
            Allocation("in", Buffer.UB, 0, tile_bytes, slots),
            Allocation("out", Buffer.UB, tile_bytes * slots, tile_bytes, slots),
        ),
        flags=(
            Flag("in_free", Pipe.V, Pipe.MTE2, slots, slots),
            Flag("in_full", Pipe.MTE2, Pipe.V, 0, slots),
            Flag("out_free", Pipe.MTE3, Pipe.V, slots, slots),
            Flag("out_full", Pipe.V, Pipe.MTE3, 0, slots),
        ),
        core=core,
    )


def matmul_block(outer: int, inner: int, tile: int = 64) -> Block:
    """Tiles of a matmul on a coupled core: L1 and L0 double-buffered, results through UB to GM."""
    size = tile * tile * 2
    in_l1 = Affine(0, (("o", inner), ("k", 1)))
    a1, b1 = Operand(Buffer.L1, "a1", size, slot=in_l1), Operand(Buffer.L1, "b1", size, slot=in_l1)
    a0, b0 = Operand(Buffer.L0A, "a0", size, slot=in_l1), Operand(Buffer.L0B, "b0", size, slot=in_l1)
    c0 = Operand(Buffer.L0C, "c0", 2 * size)
    out = Operand(Buffer.UB, "out", size)
    inner_body: tuple[Statement, ...] = (
        WaitFlag(Pipe.MTE2, "l1_free"),
        Move(Pipe.MTE2, a1, gm("a", size), tile, tile * 2, "nd2nz", src_stride=1024),
        Move(Pipe.MTE2, b1, gm("b", size), tile, tile * 2, "nd2nz", src_stride=1024),
        SetFlag(Pipe.MTE2, "l1_full"),
        WaitFlag(Pipe.MTE1, "l1_full"),
        WaitFlag(Pipe.MTE1, "l0_free"),
        Move(Pipe.MTE1, a0, a1, 1, size, "load2d"),
        Move(Pipe.MTE1, b0, b1, 1, size, "load2d"),
        SetFlag(Pipe.MTE1, "l1_free"),
        SetFlag(Pipe.MTE1, "l0_full"),
        WaitFlag(Pipe.M, "l0_full"),
        Mmad(c0, a0, b0, tile, tile, tile),
        SetFlag(Pipe.M, "l0_free"),
    )
    body: tuple[Statement, ...] = (
        WaitFlag(Pipe.M, "c_free"),
        Loop("k", inner, inner_body),
        SetFlag(Pipe.M, "c_full"),
        WaitFlag(Pipe.V, "c_full"),
        WaitFlag(Pipe.V, "out_free"),
        Vector("l0c_to_ub", "float32", tile * tile, out, (c0,)),
        SetFlag(Pipe.V, "c_free"),
        SetFlag(Pipe.V, "out_full"),
        WaitFlag(Pipe.MTE3, "out_full"),
        Move(Pipe.MTE3, gm("c", size, Affine(0, (("o", size),))), out, 1, size),
        SetFlag(Pipe.MTE3, "out_free"),
    )
    return Block(
        body=(Loop("o", outer, body),),
        allocations=(
            Allocation("a1", Buffer.L1, 0, size, 2),
            Allocation("b1", Buffer.L1, 2 * size, size, 2),
            Allocation("a0", Buffer.L0A, 0, size, 2),
            Allocation("b0", Buffer.L0B, 0, size, 2),
            Allocation("c0", Buffer.L0C, 0, 2 * size),
            Allocation("out", Buffer.UB, 0, size),
        ),
        flags=(
            Flag("l1_free", Pipe.MTE1, Pipe.MTE2, 2, 2),
            Flag("l1_full", Pipe.MTE2, Pipe.MTE1, 0, 2),
            Flag("l0_free", Pipe.M, Pipe.MTE1, 2, 2),
            Flag("l0_full", Pipe.MTE1, Pipe.M, 0, 2),
            Flag("c_free", Pipe.V, Pipe.M, 1, 1),
            Flag("c_full", Pipe.M, Pipe.V, 0, 1),
            Flag("out_free", Pipe.MTE3, Pipe.V, 1, 1),
            Flag("out_full", Pipe.V, Pipe.MTE3, 0, 1),
        ),
    )
