"""Sizes of the on-chip buffers that operands name."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from ascendsim.isa.instructions import Buffer
from ascendsim.soc.spec import BufferSpec, SocSpec

_SIZES: dict[Buffer, Callable[[BufferSpec], int | None]] = {
    Buffer.L1: attrgetter("l1"),
    Buffer.L0A: attrgetter("l0a"),
    Buffer.L0B: attrgetter("l0b"),
    Buffer.L0C: attrgetter("l0c"),
    Buffer.UB: attrgetter("ub"),
    Buffer.BT: attrgetter("bias_table"),
}


def capacity(soc: SocSpec, buffer: Buffer) -> int:
    """Bytes of an on-chip buffer of one core, 0 if the chip has none or its size is not known."""
    size_of = _SIZES.get(buffer)
    return (0 if size_of is None else size_of(soc.buffers)) or 0
