"""Costs of moving data: load2d and load3d on MTE1, moves between on-chip buffers, transfers to and from
global memory.
"""

from __future__ import annotations

import math

from ascendsim.core.errors import CompileError
from ascendsim.core.formats import (
    BLOCK_BYTES,
    FRACTAL_BYTES,
    L0C_ELEMENT_BYTES,
    TRANSACTION_BYTES,
    align,
)
from ascendsim.isa.cost_model import (
    Cost,
    LinkDemand,
    Waiting,
    path_width,
    start_cycles,
    whole_cycles,
    with_start,
)
from ascendsim.isa.instructions import LOAD3D_STRIDES, Buffer, Img2Col, Move
from ascendsim.soc.spec import PortSpec, SocSpec


def move_cost(move: Move, soc: SocSpec, megahertz: int) -> Cost:
    """A DMA: on-chip moves take bytes / port width; transfers to and from GM become a demand on the shared
    links.

    Raises:
        CompileError: The chip has no such path.
    """
    start = start_cycles(soc, megahertz)
    if Buffer.GM in (move.src.buffer, move.dst.buffer):
        return Cost(whole_cycles(start), bytes=move.bytes, link=_link_demand(move, soc))
    width = _on_chip_width(move, soc)
    bytes_moved, gap = move.bytes, 0.0
    if move.dst.buffer in (Buffer.L0A, Buffer.L0B):
        bytes_moved, gap = align(move.bytes, FRACTAL_BYTES), soc.ports.load2d_gap_cycles
    else:
        bytes_moved = move.bursts * align(move.burst_bytes, BLOCK_BYTES)
    cycles = max(bytes_moved / width + gap, _converting_cycles(move, soc))
    occupancy, head = with_start(cycles, start)
    return Cost(occupancy, head=head, bytes=move.bytes)


def img2col_cost(load: Img2Col, soc: SocSpec, megahertz: int) -> Cost:
    """load3d: bytes produced / rate + head.

    c220 follows the vendor's rate table by stride and input rows. v100 makes a fractal at the port's full
    width at stride 1, whatever rows it spans (`ports.load3d_counts_rows`); other strides take the same
    relative slowdown (assumed).

    Raises:
        CompileError: The target is neither L0A nor L0B, or the chip has no such path.
    """
    to_a = load.dst.buffer is Buffer.L0A
    if not to_a and load.dst.buffer is not Buffer.L0B:
        raise CompileError(
            "load3d", "must write L0A or L0B", load.dst.buffer.value, "use a Move for other buffers"
        )
    port = soc.ports.l1_to_l0a if to_a else soc.ports.l1_to_l0b
    width = path_width(port, f"L1 -> {load.dst.buffer.value}", soc) * load3d_efficiency(load, to_a, soc.ports)
    cycles = align(load.bytes, FRACTAL_BYTES) / width + soc.ports.load3d_head_cycles
    occupancy, head = with_start(cycles, start_cycles(soc, megahertz))
    return Cost(occupancy, head=head, bytes=load.bytes)


def load3d_efficiency(load: Img2Col, to_a: bool, ports: PortSpec) -> float:
    """Rate of a load3d relative to the full width of its port.

    A fractal takes 2 cycles of L0A or 4 of L0B if it comes from one input row, and one more for each row it
    spans if there are several and the chip counts them; a stride s of 2, 4 or 8 takes s times 2 or 4, others
    the chip's least share, which is never passed (c220, vendor documentation; strides into L0B as into L0A,
    which tuned gradients of depthwise filters on 910A bear out).
    """
    rows, stride = load.input_rows, load.stride_w
    spanned = rows if rows > 1 and ports.load3d_counts_rows else 0
    turns, least = (2, ports.load3d_least_l0a) if to_a else (4, ports.load3d_least_l0b)
    if stride not in LOAD3D_STRIDES:
        return least
    return max(turns / (turns * stride + spanned), least)


def _on_chip_width(move: Move, soc: SocSpec) -> float:
    ports = soc.ports
    source, target = move.src.buffer, move.dst.buffer
    widths = {
        (Buffer.L1, Buffer.L0A): ports.l1_to_l0a,
        (Buffer.L1, Buffer.L0B): ports.l1_to_l0b,
        (Buffer.L1, Buffer.UB): ports.l1_to_ub,
        (Buffer.UB, Buffer.L1): ports.ub_to_l1,
        (Buffer.L0C, Buffer.UB): ports.l0c_to_ub,
        (Buffer.L0C, Buffer.L1): ports.l0c_to_l1,
        (Buffer.UB, Buffer.UB): ports.ub_to_ub,
        (Buffer.L1, Buffer.BT): ports.l1_to_bt,
    }
    return path_width(widths.get((source, target)), f"{source.value} -> {target.value}", soc)


def _gm_width(move: Move, ports: PortSpec, soc: SocSpec) -> float:
    source, target = move.src.buffer, move.dst.buffer
    widths = {
        (Buffer.GM, Buffer.L1): ports.gm_to_l1,
        (Buffer.GM, Buffer.UB): ports.gm_to_ub,
        (Buffer.UB, Buffer.GM): ports.ub_to_gm,
        (Buffer.L0C, Buffer.GM): ports.l0c_to_gm,
    }
    width = path_width(widths.get((source, target)), f"{source.value} -> {target.value}", soc)
    if move.kind == "aipp":
        # blocks of C0 channels a pixel leave the port, only the image's bytes come in
        return width * move.bytes / max(move.bytes, move.dst.bytes)
    return width


def _link_demand(move: Move, soc: SocSpec) -> LinkDemand:
    write = move.dst.buffer is Buffer.GM
    region = move.dst.name if write else move.src.name
    stride = move.dst_stride if write else move.src_stride
    efficiency = _efficiency(move, soc)
    l2, dram = soc.l2, soc.dram
    l2_bytes = math.ceil(rounded_bytes(move, stride, l2.request_bytes) / efficiency)
    count = requests(move, stride, l2.line_bytes) if _holds_requests(move, soc) else 0
    engine_cycles = _engine_cycles(move, stride, efficiency, soc)
    request_cycles = count * l2.line_bytes / _gm_width(move, soc.ports, soc)
    hit, miss = (
        (l2.write_latency_cycles, dram.write_latency_cycles)
        if write
        else (l2.read_latency_cycles, dram.read_latency_cycles)
    )
    grain = dram.transaction_bytes
    if not move.cached:
        miss, grain = dram.uncached_latency_cycles, l2.request_bytes
    return LinkDemand(
        region=region,
        write=write,
        bytes=move.bytes,
        l2_bytes=l2_bytes,
        dram_bytes=math.ceil(rounded_bytes(move, stride, grain) / efficiency),
        least_dram_bytes=math.ceil(move.bytes / efficiency),
        port_bytes_per_cycle=l2_bytes / engine_cycles if engine_cycles else _gm_width(move, soc.ports, soc),
        hit_latency=hit,
        miss_latency=miss,
        request_bytes_per_cycle=l2_bytes / request_cycles if request_cycles else None,
        waiting=_waiting(move, count, soc, miss) if count else None,
        requests=count,
        cached=move.cached,
        atomic=bool(move.atomic),
    )


def _engine_cycles(move: Move, stride: int, efficiency: float, soc: SocSpec) -> float:
    """Cycles that the DMA engine and the core's own path need if all data came at once: bytes / width, and
    least times.
    """
    dma, width = soc.dma, _gm_width(move, soc.ports, soc)
    cycles = max(rounded_bytes(move, stride, BLOCK_BYTES) / efficiency / width, _converting_cycles(move, soc))
    if move.kind == "nd2nz":
        ragged = _is_ragged(move) and dma.ragged_nd2nz_bytes_per_cycle is not None
        rate = dma.ragged_nd2nz_bytes_per_cycle if ragged else dma.nd2nz_bytes_per_cycle
        return cycles if rate is None else max(cycles, move.bytes / rate)
    cycles = max(cycles, (move.bursts - 1) * dma.burst_cycles)
    rate = dma.ragged_row_bytes_per_cycle
    ragged = _is_ragged(move) or (rate is not None and _is_ragged_row(move))
    if not (ragged and Buffer.UB in (move.src.buffer, move.dst.buffer)):
        return cycles
    rows = move.bursts * dma.ragged_row_cycles
    return max(cycles, rows if rate is None else rows + move.bytes / rate)


def _waiting(move: Move, count: int, soc: SocSpec, idle: int) -> Waiting | None:
    """How long requests of a read wait; those past L2 share no lines."""
    hit, line = soc.l2.read_latency_cycles, soc.l2.line_bytes
    if not hit:
        return None
    loaded = soc.dram.loaded_latency_cycles
    if loaded is None or not move.cached or move.dst.buffer is not Buffer.L1:
        return Waiting(hit, idle)
    return Waiting(hit, idle, loaded, max(1.0, count * line / move.bytes))


def _holds_requests(move: Move, soc: SocSpec) -> bool:
    """Whether the engine keeps a fixed number of requests outstanding, so that latency and burst length
    decide its rate.

    Not where each ragged row is changed in layout on the way: that is slower than any latency.
    """
    slow = move.kind == "nd2nz" and _is_ragged(move) and soc.dma.ragged_nd2nz_bytes_per_cycle is not None
    return soc.dma.reads_hold_requests and move.src.buffer is Buffer.GM and not slow


def requests(move: Move, stride: int, line: int) -> int:
    """Requests of at most a line each that fetch the bursts; a burst that does not touch the one before
    starts a request of its own.
    """
    if stride in (0, move.burst_bytes):
        return math.ceil(move.bytes / line)
    return move.bursts * math.ceil(move.burst_bytes / line)


def _converting_cycles(move: Move, soc: SocSpec) -> float:
    """Cycles that FIXPIPE needs for the elements that it takes out of L0C."""
    rate = soc.ports.fixpipe_elements_per_cycle
    return (
        move.src.bytes / L0C_ELEMENT_BYTES / rate
        if rate is not None and move.src.buffer is Buffer.L0C
        else 0.0
    )


def rounded_bytes(move: Move, stride: int, grain: int) -> int:
    """Bytes of whole grains that the bursts touch; bursts closer than a grain share theirs, so the span
    bounds the sum.
    """
    if stride in (0, move.burst_bytes):
        return align(move.bytes, grain)
    apart = move.bursts * align(move.burst_bytes, grain)
    if abs(stride) < move.burst_bytes:
        return apart
    return min(apart, align((move.bursts - 1) * abs(stride) + move.burst_bytes, grain))


def _efficiency(move: Move, soc: SocSpec) -> float:
    """Share of the rate that alignment leaves; ragged rows are measured with the misalignment that they
    bring.
    """
    if _is_ragged(move):
        # the engine is slower than any link then
        slow = move.kind == "nd2nz" and soc.dma.ragged_nd2nz_bytes_per_cycle is not None
        return 1.0 if slow else soc.dma.ragged_efficiency
    if move.aligned:
        return 1.0
    stride = move.dst_stride if move.dst.buffer is Buffer.GM else move.src_stride
    length = move.bytes if stride in (0, move.burst_bytes) else move.burst_bytes
    return unaligned_efficiency(length, soc.dram.unaligned_efficiency)


def unaligned_efficiency(length: int, least: float) -> float:
    """Share of the rate that a burst gets which begins off a transaction boundary: it touches one transaction
    more than it fills, but never gets less than what was measured at worst.

    >>> unaligned_efficiency(2048, 0.7), unaligned_efficiency(512, 0.7)
    (0.8, 0.7)

    Args:
        length: Contiguous bytes.
        least: `dram.unaligned_efficiency` of the chip.
    """
    return max(least, length / (length + TRANSACTION_BYTES))


def _is_ragged(move: Move) -> bool:
    """Whether rows in global memory begin or end within a block of 32 B."""
    stride = move.dst_stride if move.dst.buffer is Buffer.GM else move.src_stride
    return move.bursts > 1 and (move.burst_bytes % BLOCK_BYTES != 0 or stride % BLOCK_BYTES != 0)


def _is_ragged_row(move: Move) -> bool:
    """Whether it is a single row that begins and ends within a block of 32 B."""
    return move.bursts == 1 and not move.aligned and move.burst_bytes % BLOCK_BYTES != 0
