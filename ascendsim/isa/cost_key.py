"""What decides the cost of an instruction, as a key: of equal instructions only one need be costed."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from operator import attrgetter
from typing import Any

from ascendsim.isa.instructions import (
    Barrier,
    Buffer,
    Img2Col,
    Instruction,
    Mmad,
    Move,
    Scalar,
    SetFlag,
    Vector,
    WaitFlag,
)

# `_name_` is the plain attribute behind an enumeration member's `name`: this is done for every instruction of
# a program.
_FIELDS: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    Mmad: attrgetter("pipe._name_", "m", "k", "n", "dtype", "hf32"),
    Vector: attrgetter(
        "pipe._name_", "op", "dtype", "elements", "calls", "bank_conflict", "write_conflict", "dst.name"
    ),
    Img2Col: attrgetter("pipe._name_", "dst.buffer._name_", "bytes", "stride_w", "input_rows"),
    Scalar: attrgetter("pipe._name_", "cycles", "what"),
    SetFlag: attrgetter("pipe._name_", "flag", "unit_flag"),
    WaitFlag: attrgetter("pipe._name_", "flag"),
    Barrier: lambda barrier: (barrier.pipe.name,),
}
_MOVE = attrgetter(
    "pipe._name_",
    "kind",
    "bursts",
    "burst_bytes",
    "src_stride",
    "dst_stride",
    "aligned",
    "cached",
    "atomic",
    "src.buffer._name_",
    "dst.buffer._name_",
)


def cost_key(instruction: Instruction) -> tuple[Hashable, ...]:
    """What decides the cost of an instruction, but for the name of its region."""
    if not isinstance(instruction, Move):
        kind = type(instruction)
        return kind.__name__, _FIELDS[kind](instruction)
    if instruction.src.buffer is Buffer.L0C:
        return _MOVE(instruction), instruction.src.bytes
    if instruction.kind == "aipp":
        return _MOVE(instruction), instruction.dst.bytes
    return _MOVE(instruction), 0
