"""How vector and movement work is shared among cores, and how tensors lie under a tile."""

from __future__ import annotations

from dataclasses import dataclass

from ascendsim.core.formats import BLOCK_BYTES, TRANSACTION_BYTES, Format, align, c0, ceil_div
from ascendsim.opset.work import Maps, Ref, VectorWork
from ascendsim.soc.spec import SocSpec

# rows (or columns, where rows are added up) longer than this are worth cutting if there are fewer than cores;
# the partial results meet in global memory
PARTIAL_BYTES = 64 * 1024

# Elementwise kernels of CANN take another core for every 1024 elements, whatever that costs or gains: so say
# the block counts of nearly all elementwise tasks in profiles of 910A and 910B (840 elements: 1 block, 3840:
# 4, 10080: 10, 23232: 23, 131072 and more: all cores).
ELEMENTS_A_CORE = 1024
PROFILED_CORES = {False: 32, True: 48}  # of those chips, by whether vector cores are apart


@dataclass(frozen=True, slots=True)
class Space:
    """The iteration space: rows x cols, and whether columns may be cut anywhere."""

    rows: int
    cols: int
    flat: bool


def space_of(work: VectorWork) -> Space:
    """Joins rows and columns where nothing tells them apart."""
    streams = (*work.inputs, *work.outputs)
    if (
        work.maps is None
        and work.reduces == "none"
        and all(stream.over in ("all", "one") for stream in streams)
    ):
        return Space(1, work.rows * work.cols, True)
    return Space(work.rows, work.cols, False)


def share_of(work: VectorWork, space: Space, soc: SocSpec) -> tuple[int, int]:
    """Rows and columns of one core's share."""
    cores = soc.vector_units
    whole = None if work.maps is None else _whole_maps(work.maps, space, cores)
    if whole is not None:
        return whole
    streams = [stream for stream in (*work.inputs, *work.outputs) if stream.over == "all"]
    itemsize = min((stream.ref.dtype.itemsize for stream in streams), default=2)
    piece = TRANSACTION_BYTES // itemsize
    total = sum(stream.ref.bytes for stream in streams)
    if space.flat:
        parts = elementwise_cores(space.cols, total, soc, vector_cycles(work, soc))
        return space.rows, min(space.cols, align(ceil_div(space.cols, parts), piece))
    parts = worthwhile_cores(total, soc, vector_cycles(work, soc))
    if work.reduces == "cols":
        share_rows = ceil_div(space.rows, min(parts, space.rows))
        used = ceil_div(space.rows, share_rows)
        stores_all = any(stream.over == "all" for stream in work.outputs)
        if (
            not stores_all
            and used * 2 <= cores
            and space.cols * itemsize > PARTIAL_BYTES
            and work.sweeps == 1
        ):
            return share_rows, align(ceil_div(space.cols, parts // used or 1), piece)
        return share_rows, space.cols
    if work.reduces == "rows":
        block = c0(work.inputs[0].ref.dtype) if work.planes else min(piece, 16)
        share_cols = min(space.cols, align(ceil_div(space.cols, parts), block))
        stores_all = any(stream.over == "all" for stream in work.outputs)
        tall = space.rows * share_cols * itemsize > PARTIAL_BYTES
        narrow = ceil_div(space.cols, block) * 2 <= parts
        if work.planes or stores_all or not tall or not narrow:
            return space.rows, share_cols
        return ceil_div(space.rows, parts), space.cols
    if space.rows >= parts:
        grain = (
            TRANSACTION_BYTES // BLOCK_BYTES
            if any(lanes_of(stream.ref) == space.cols for stream in streams)
            else 1
        )
        return min(space.rows, align(ceil_div(space.rows, parts), grain)), space.cols
    return 1, min(space.cols, align(ceil_div(space.cols, parts // space.rows), piece))


def _whole_maps(maps: Maps, space: Space, cores: int) -> tuple[int, int] | None:
    """Rows and columns of a share of whole images or channel blocks; None where cores may have any part.

    From the block counts of batch normalisation's kernels in profiles of 910B (30 cores; 16, 32 and 64 images
    of 4 to 128 blocks). Elementwise ones have images, however few; the update has blocks if there are fewer
    images than cores. Sums have blocks if there are as many as cores, so that none of them is in parts, else
    images if these keep half of the cores busy.
    """
    images, blocks = maps.images, maps.blocks
    by_blocks = {
        "images": images == 1,
        "images or blocks": images < cores,
        "sums": blocks >= cores or images < cores / 2,
    }[maps.split]
    if maps.split == "sums" and by_blocks and blocks < cores / 2:
        return None
    if by_blocks:
        return space.rows, space.cols // blocks * ceil_div(blocks, cores)
    return space.rows // images * ceil_div(images, cores), space.cols


def elementwise_cores(elements: int, total_bytes: int, soc: SocSpec, computing: float = 0.0) -> int:
    """How many cores elementwise work takes: as CANN's kernels on the chips whose profiles are known, and of
    more cores than these have only as many as bring the end nearer.
    """
    wanted, profiled = (
        min(soc.vector_units, ceil_div(elements, ELEMENTS_A_CORE)),
        PROFILED_CORES[soc.split_cores],
    )
    if wanted <= profiled:
        return wanted
    return max(profiled, min(wanted, worthwhile_cores(total_bytes, soc, computing)))


def vector_cycles(work: VectorWork, soc: SocSpec) -> float:
    """About how long one vector unit computes: a repeat's cycles for every step on every element."""
    repeats = soc.vector.cycles_per_repeat
    elements = work.rows * work.cols
    each = sum(
        step.count
        * step.dtype.itemsize
        * repeats.get(f"{step.op}.{step.dtype.value}", repeats.get(step.op, 1.0))
        for step in work.steps
        if step.over == "all"
    )
    return elements * each / soc.vector.repeat_bytes


def worthwhile_cores(total_bytes: int, soc: SocSpec, computing: float = 0.0) -> int:
    """How many cores bring the end nearest.

    A core's time is that of its slowest pipe plus a quarter of the others (pipes overlap, but fill and
    drain); one more block costs its dispatch.

    Args:
        total_bytes: Moved by all cores.
        soc: The chip.
        computing: Cycles of one vector unit.
    """
    dispatch = soc.launch.block_dispatch_ns * soc.vector_frequency_mhz / 1000
    rate = min(soc.ports.gm_to_ub or 1.0, soc.ports.ub_to_gm or 1.0)
    dram = soc.dram.read_gb_per_s * 1e3 / soc.vector_frequency_mhz
    most = min(soc.vector_units, max(1, total_bytes // TRANSACTION_BYTES))

    def cycles(parts: int) -> float:
        moving = total_bytes / parts / rate
        return (
            max(moving, computing / parts, total_bytes / dram)
            + (moving + computing / parts) / 4
            + parts * dispatch
        )

    return min(range(1, most + 1), key=lambda parts: (cycles(parts), parts))


def even_bursts(bytes: int, burst: int) -> int:
    """Number of equal pieces, about `burst` bytes each, that `bytes` can be cut in (1 if none is near).

    >>> even_bursts(1000, 100), even_bursts(1001, 100), even_bursts(997, 100)
    (10, 11, 1)
    """
    wanted = ceil_div(bytes, burst)
    return next((count for count in range(wanted, min(bytes, wanted + 32) + 1) if bytes % count == 0), 1)


def lanes_of(ref: Ref) -> int:
    """Padded length of the axis that a blocked format splits (channels, columns); 0 for row-major tensors.

    A tile of some rows and all lanes is then one burst a block, each as long as the rows.
    """
    if ref.format is Format.NC1HWC0 and len(ref.shape) == 4:
        return align(ref.shape[1], ref.block[0])
    if ref.format is Format.FRACTAL_NZ and len(ref.shape) >= 2:
        return align(ref.shape[-1], ref.block[0])
    return 0
