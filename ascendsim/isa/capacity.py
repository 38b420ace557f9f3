"""Sizes of the on-chip buffers that operands name."""

from __future__ import annotations

from ascendsim.isa.instructions import Buffer
from ascendsim.soc.spec import SocSpec


def capacity(soc: SocSpec, buffer: Buffer) -> int:
    """Bytes of an on-chip buffer of one core, 0 if the chip has none or its size is not known."""
    buffers = soc.buffers
    sizes = {
        Buffer.L1: buffers.l1,
        Buffer.L0A: buffers.l0a,
        Buffer.L0B: buffers.l0b,
        Buffer.L0C: buffers.l0c,
        Buffer.UB: buffers.ub,
        Buffer.BT: buffers.bias_table,
    }
    return sizes.get(buffer) or 0
