"""Hypothesis strategies for well-formed block programs: nested loops, ragged tails, rings of slots, flags
between any pipes."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import strategies as st

from ascendsim.isa.instructions import (
    Buffer,
    Flag,
    Instruction,
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
from ascendsim.isa.program import Block
from tests.support.toy_programs import gm

REGIONS = {"x": 300_000, "w": 90_000, "y": 200_000}
PIPES = (Pipe.MTE2, Pipe.MTE1, Pipe.M, Pipe.V, Pipe.MTE3)
SIZES = (32, 512, 3000, 16384)


def work(pipe: Pipe, size: int) -> Instruction:
    """An instruction for a pipe whose length grows with `size`."""
    ub, l1 = Operand(Buffer.UB, "u", size), Operand(Buffer.L1, "l", size)
    if pipe is Pipe.MTE2:
        return Move(pipe, l1, gm("w" if size == 512 else "x", size), 1, size, aligned=size != 3000)
    if pipe is Pipe.MTE1:
        return Move(pipe, Operand(Buffer.L0A, "a", size), l1, 1, size, "load2d")
    if pipe is Pipe.M:
        return Mmad(
            Operand(Buffer.L0C, "c", 1024),
            Operand(Buffer.L0A, "a", 512),
            Operand(Buffer.L0B, "b", 512),
            16,
            size,
            16,
        )
    if pipe is Pipe.V:
        return Vector("vadd", "float16", size, ub, (Operand(Buffer.UB, "u" if size == 32 else "v", size),))
    if pipe is Pipe.MTE3:
        return Move(pipe, gm("y", size), ub, 1, size)
    return Scalar(size // 16)


def works(with_gm: bool = True) -> st.SearchStrategy[Instruction]:
    """Work on any pipe, the scalar unit included."""
    pipes = [pipe for pipe in (*PIPES, Pipe.S) if with_gm or pipe not in (Pipe.MTE2, Pipe.MTE3)]
    return st.builds(work, st.sampled_from(pipes), st.sampled_from(SIZES))


@st.composite
def blocks(draw: st.DrawFn, with_gm: bool = True) -> Block:
    """A block whose flags balance in every loop body, and which is free of deadlocks in program order."""
    flags: dict[str, Flag] = {}
    names = iter(range(1000))

    def synchronised(body: list[Statement]) -> list[Statement]:
        """Adds up to two flags to a body: a set before its wait, or the wait before the set with free slots
        to begin with."""
        for _ in range(draw(st.integers(0, 2))):
            source, target = draw(
                st.permutations(
                    [pipe for pipe in (*PIPES, Pipe.S) if with_gm or pipe not in (Pipe.MTE2, Pipe.MTE3)]
                )
            )[:2]
            first, second = sorted((draw(st.integers(0, len(body))), draw(st.integers(0, len(body)))))
            free = draw(st.integers(0, 2))
            flag = Flag(f"f{next(names)}", source, target, free, 16)
            flags[flag.name] = flag
            setting, waiting = SetFlag(source, flag.name), WaitFlag(target, flag.name)
            before, after = (waiting, setting) if free else (setting, waiting)
            body = [*body[:first], before, *body[first:second], after, *body[second:]]
        return body

    def nest(depth: int) -> tuple[Statement, ...]:
        body: list[Statement] = []
        for _ in range(draw(st.integers(1, 4))):
            if depth and draw(st.booleans()):
                body.append(Loop(f"i{next(names)}", draw(st.integers(0, 5)), nest(depth - 1)))
            else:
                body.append(draw(works(with_gm)))
        return tuple(synchronised(body))

    body = nest(2)
    return Block(body, (), tuple(flags.values()))


@st.composite
def pipelines(draw: st.DrawFn) -> Block:
    """Loads, work and stores over a ring of slots: a main loop and a ragged tail."""
    slots = draw(st.integers(1, 3))
    middle = draw(st.sampled_from([(Pipe.V,), (Pipe.MTE1, Pipe.M, Pipe.V)]))
    stages = (Pipe.MTE2, *middle, Pipe.MTE3)
    sizes = {pipe: draw(st.sampled_from(SIZES)) for pipe in stages}
    inner = draw(st.integers(1, 3))
    flags = []
    for number, (source, target) in enumerate(pairwise(stages)):
        flags += [
            Flag(f"full{number}", source, target, 0, slots),
            Flag(f"free{number}", target, source, slots, slots),
        ]

    def tile(divisor: int) -> tuple[Statement, ...]:
        body: list[Statement] = []
        for number, pipe in enumerate(stages):
            if number:
                body.append(WaitFlag(pipe, f"full{number - 1}"))
            if number + 1 < len(stages):
                body.append(WaitFlag(pipe, f"free{number}"))
            one = work(pipe, max(32, sizes[pipe] // divisor))
            body.append(Loop("k", inner, (one,)) if pipe is middle[0] else one)
            if number:
                body.append(SetFlag(pipe, f"free{number - 1}"))
            if number + 1 < len(stages):
                body.append(SetFlag(pipe, f"full{number}"))
        return tuple(body)

    trips = draw(st.integers(1, 8))
    nested: tuple[Statement, ...] = (Loop("o", draw(st.integers(1, 3)), (Loop("t", trips, tile(1)),)),)
    tail = tile(3) if draw(st.booleans()) else ()
    return Block((*nested, *tail), (), tuple(flags))


def any_block() -> st.SearchStrategy[Block]:
    """A pipeline or a block with arbitrary flags."""
    return st.one_of(pipelines(), blocks())
