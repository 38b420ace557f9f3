"""Slots of operands in loops: whose ring turns in a loop stands at another slot in each of its trips."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import is_

from ascendsim.core.records import quickly_changed
from ascendsim.isa.instructions import (
    Affine,
    Buffer,
    Img2Col,
    Loop,
    Mmad,
    Move,
    Operand,
    Scalar,
    SetFlag,
    Statement,
    Vector,
    WaitFlag,
)
from ascendsim.lower.affine import plus

_MOVED, _UNFOLDED = quickly_changed(Move, "dst", "src"), quickly_changed(Img2Col, "dst", "src")
_MULTIPLIED, _COMPUTED = (
    quickly_changed(Mmad, "dst", "a", "b", "bias"),
    quickly_changed(Vector, "dst", "srcs"),
)


def advanced(body: Sequence[Statement], variable: str, turns: Mapping[str, int]) -> Iterator[Statement]:
    """Adds `turn * variable` to the slot of every operand whose ring turns in the loop over `variable`.

    Args:
        body: Of the loop.
        variable: Of the loop.
        turns: By allocation, slots by which a trip moves on.
    """
    turning = {turn: ((variable, turn),) for turn in turns.values()}

    def shift(operand: Operand) -> Operand:
        turn = turns.get(operand.name)
        if turn is None or operand.buffer is Buffer.GM:
            return operand
        slot, more = operand.slot, turning[turn]
        slot = plus(slot, Affine(0, more)) if slot.terms else Affine(slot.base, more)
        return Operand(operand.buffer, operand.name, operand.bytes, operand.offset, slot)

    for item in body:
        if isinstance(item, SetFlag | WaitFlag):
            yield item
        elif isinstance(item, Loop):
            yield Loop(item.variable, item.trips, tuple(advanced(item.body, variable, turns)))
        elif isinstance(item, Move | Img2Col):
            dst, src = shift(item.dst), shift(item.src)
            same = dst is item.dst and src is item.src
            yield item if same else (_MOVED if isinstance(item, Move) else _UNFOLDED)(item, dst, src)
        elif isinstance(item, Mmad):
            bias = None if item.bias is None else shift(item.bias)
            yield _MULTIPLIED(item, shift(item.dst), shift(item.a), shift(item.b), bias)
        elif isinstance(item, Vector):
            dst, srcs = shift(item.dst), tuple([shift(source) for source in item.srcs])
            same = dst is item.dst and all(map(is_, srcs, item.srcs))
            yield item if same else _COMPUTED(item, dst, srcs)
        elif isinstance(item, Scalar):
            dsts, srcs = (tuple([shift(operand) for operand in side]) for side in (item.dsts, item.srcs))
            yield replace(item, dsts=dsts, srcs=srcs)
        else:
            yield item
