"""Transfers whose pieces come or go by a DMA instruction each: kernels that look up where each one lies."""

from __future__ import annotations

from dataclasses import replace

from ascendsim.isa.instructions import Buffer, Move, Operand
from ascendsim.lower.affine import plus, times
from ascendsim.lower.emit import BlockBuilder


def single_bursts(b: BlockBuilder, move: Move) -> None:
    """Emits a transfer piece by piece; in the buffer they lie one after the other.

    Args:
        b: The builder.
        move: The transfer as one instruction.
    """
    apart = move.src_stride or move.dst_stride or move.burst_bytes
    with b.loop("e", move.bursts) as e:

        def one(operand: Operand) -> Operand:
            step = apart if operand.buffer is Buffer.GM else move.burst_bytes
            return replace(operand, bytes=move.burst_bytes, offset=plus(operand.offset, times(e, step)))

        single = replace(move, dst=one(move.dst), src=one(move.src), bursts=1, effect=None)
        b.emit(replace(single, src_stride=0, dst_stride=0))
