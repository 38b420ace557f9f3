"""Small instructions and blocks for tests of the machine, on the chip with round numbers."""

from __future__ import annotations

from ascendsim.isa.instructions import Buffer, Flag, Mmad, Move, Operand, Pipe, Statement, Vector
from ascendsim.isa.program import Block, CoreKind
from ascendsim.machine import run
from ascendsim.soc.spec import SocSpec
from ascendsim.trace.records import Trace
from tests.support.toy_programs import gm, program_of, task_of
from tests.support.toy_soc import bare

UB = Operand(Buffer.UB, "u", 4096)
OTHER = Operand(Buffer.UB, "v", 4096)
BIG = {"x": 1 << 22, "y": 1 << 22}


def block(*body: Statement, flags: tuple[Flag, ...] = (), core: CoreKind = CoreKind.AI) -> Block:
    return Block(body, (), flags, core)


def load(size: int = 4096, region: str = "x") -> Move:
    return Move(Pipe.MTE2, UB, gm(region, size), 1, size)


def store(size: int = 4096) -> Move:
    return Move(Pipe.MTE3, gm("y", size), UB, 1, size)


def add(repeats: int, dst: Operand = UB, *srcs: Operand) -> Vector:
    return Vector("vadd", "float16", 128 * repeats, dst, srcs or (OTHER,))


def mmad(blocks: int) -> Mmad:
    return Mmad(
        Operand(Buffer.L0C, "c", 1024),
        Operand(Buffer.L0A, "a", 512),
        Operand(Buffer.L0B, "b", 512),
        16,
        16 * blocks,
        16,
    )


def spans(trace: Trace, pipe: str) -> list[tuple[int, int]]:
    return [(item.start, item.end) for item in trace.instructions if item.pipe == pipe]


def simulate(body: Block, soc: SocSpec | None = None, count: int = 1) -> Trace:
    return run(program_of(task_of((body, count)), regions=BIG), soc or bare(), instructions=True)
