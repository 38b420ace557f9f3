"""Findings about two instructions that meet, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ascendsim.core.formats import BLOCK_BYTES
from ascendsim.isa.effects import Box
from ascendsim.isa.forms import Form
from ascendsim.isa.hard_events import HARD_EVENTS
from ascendsim.isa.instructions import Buffer, Pipe
from ascendsim.tile.findings import Finding
from ascendsim.tile.sources import arguments


@dataclass(frozen=True)
class Conflict:
    """Two instructions that touch the same bytes.

    Attributes:
        first, second: The one that came first in the order of the program, and the other.
        box: Operand of the second one, counted by `operand`.
        place: Compiled text of the second call and its place there.
        wrote: Whether the first one writes.
        span: First and last byte that both touch.
        name: Array or buffer.
        cores: Of the first and the second.
        row: Row of the second on its core.
        count: Cases.
        extents: Bytes that these cores wrote of the array.
        names: What cores are called that wait for one another; None for those that do not.
    """

    first: Form
    second: Form
    box: Box
    operand: int
    place: tuple[Any, int]
    wrote: bool
    span: tuple[int, int]
    name: str
    cores: tuple[int, int]
    row: int
    count: int
    extents: tuple[tuple[int, int] | None, ...]
    names: tuple[str, str] | None = None

    @property
    def writes(self) -> bool:
        """Whether the second one writes the operand."""
        effect = self.second.effect
        return effect is not None and self.operand < len(effect.writes)

    @property
    def bytes(self) -> str:
        """The bytes: elements of an array, addresses of a buffer with the variable that holds them."""
        low, high = self.span
        if self.box.buffer is Buffer.GM:
            size = self.box.dtype.itemsize
            return f"{self.name}[{low // size}..{high // size}]"
        named = arguments(*self.place)
        effect = self.second.effect
        known = effect is not None and len(named) >= len(effect.boxes)
        variable = named[self.operand] if known else ""
        where = f"{self.name} 0x{low:04x}..0x{high:04x}"
        return f"{variable} ({where})" if variable else where


def say(kind: str, one: Conflict) -> Finding:
    """The finding of a conflict: "race", "cores" or "operands"."""
    if kind == "operands":
        return _operands(one)
    return _cores(one) if kind == "cores" else _race(one)


def _race(one: Conflict) -> Finding:
    first, second = one.first, one.second
    verb, doing = "writes" if one.writes else "reads", "writing" if one.wrote else "reading"
    text = (
        f"({second.pipe.value}) {verb} {one.bytes}, which asc.{first.site.name} at {first.site.file}:"
        f"{first.site.line} ({first.pipe.value}) may still be {doing}"
    )
    return Finding(
        "race",
        str(second.site),
        text,
        one.cores[1],
        one.row,
        _remedy(first.pipe, second.pipe),
        one.count,
        other=str(first.site),
        pipes=(first.pipe.value, second.pipe.value),
        buffer=one.name,
        bytes=one.span,
    )


def _remedy(first: Pipe, second: Pipe) -> str:
    event = f"{first.value}_{second.value}"
    if first is second:
        return f"put pipe_barrier(PipeID.PIPE_{first.value}) between them"
    if event in HARD_EVENTS:
        flag = f"(HardEvent.{event}, 0)"
        return f"put set_flag{flag} behind the first and wait_flag{flag} before the second"
    return "put pipe_barrier(PipeID.PIPE_ALL) between them"


def _cores(one: Conflict) -> Finding:
    low, high = one.cores
    verbs = "writes" if one.wrote else "reads", "writes" if one.writes else "reads"
    extents = one.extents
    names = one.names or (f"core {low}", f"core {high}")
    if low > high:
        names, verbs, extents = names[::-1], verbs[::-1], extents[::-1]
    too = " too" if verbs[0] == verbs[1] else ""
    text = f"{names[0]} {verbs[0]} {one.bytes}, which {names[1]} {verbs[1]}{too}"
    remedy = "give each core bytes of its own" if too else "put sync_all() between them"
    if one.names is not None:
        where = f"{one.first.site.file}:{one.first.site.line}"
        text += f", and no flag between cores orders the two (asc.{one.first.site.name} at {where})"
        remedy = (
            f"put cross_core_set_flag(..., PipeID.PIPE_{one.first.pipe.value}) behind {where} and"
            " cross_core_wait_flag before this, or sync_all() between them"
        )
    size = one.box.dtype.itemsize
    if too and extents[0] and extents[1] and one.span[1] - one.span[0] < BLOCK_BYTES:
        part = extents[1][0] - extents[0][0]
        if 0 < part < extents[0][1] - extents[0][0]:
            text += f": its part of {part // size} elements was rounded up to {BLOCK_BYTES} bytes"
            remedy = "use data_copy_pad"
    return Finding(
        "cores",
        str(one.second.site),
        text,
        one.cores[1],
        one.row,
        remedy,
        one.count,
        other=str(one.first.site),
        pipes=(one.first.pipe.value, one.second.pipe.value),
        buffer=one.name,
        bytes=one.span,
    )


def _operands(one: Conflict) -> Finding:
    low, high = one.span
    names = arguments(*one.place)
    effect = one.second.effect
    known = effect is not None and len(names) >= len(effect.boxes) and names[0] and names[one.operand]
    pair = f"{names[0]} and {names[one.operand]}" if known else "its target and a source"
    text = f"gets {pair}, which share {one.name} 0x{low:04x}..0x{high:04x} in part"
    return Finding(
        "operands",
        str(one.second.site),
        text,
        one.cores[1],
        one.row,
        "let them be the same, or apart",
        one.count,
        pipes=(one.second.pipe.value,),
        buffer=one.name,
        bytes=one.span,
    )
