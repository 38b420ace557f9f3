"""How vector and movement work is shared among cores, and how tensors lie under a tile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ascendsim.core.formats import BLOCK_BYTES, TRANSACTION_BYTES, Format, align, c0, ceil_div
from ascendsim.lower.templates.steps import least_cycles
from ascendsim.opset.work import Maps, Ref, Step, VectorWork
from ascendsim.soc.spec import SocSpec

# columns longer than this are worth cutting where they are added up and there are fewer than cores; the
# partial results meet in global memory
PARTIAL_BYTES = 64 * 1024

# Rows that fill no whole blocks are added up by as many cores as have this many elements, in whole rows:
# BiasAddGrad on 910A takes 32 blocks for [32, 84], 6 for [32, 10] and 16 for [32, 120] (whole blocks).
ELEMENTS_TO_ADD = 64

# Elementwise kernels of CANN take another core for every 1024 elements, whatever that costs or gains: so say
# the block counts of nearly all elementwise tasks in profiles of 910A and 910B (840 elements: 1 block, 3840:
# 4, 10080: 10, 23232: 23, 131072 and more: all cores).
ELEMENTS_A_CORE = 1024
# The static kernel that clears memory for atomic additions hands out whole pieces of 48 KiB, as many to each
# core (canndev, tbe/impl/atomic_addr_clean.py): block counts of a profile of Ascend910B (30 cores) say 1 for
# 16 KiB, 6 for 256 KiB, 22 for 1 and for 2 MiB.
CLEARED_BYTES = 48 * 1024
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
        and work.windows is None
        and not work.blocks
        and work.reduces == "none"
        and all(stream.over in ("all", "one") for stream in streams)
    ):
        return Space(1, work.rows * work.cols, True)
    return Space(work.rows, work.cols, False)


def share_of(work: VectorWork, space: Space, steps: Sequence[Step], soc: SocSpec) -> tuple[int, int]:
    """Rows and columns of one core's share.

    Args:
        work: To share.
        space: Its iteration space.
        steps: Its steps as the chip has them.
        soc: The chip.
    """
    whole = (
        None
        if work.maps is None
        else _whole_maps(work.maps, space, soc.vector_units, soc.kernels.images_added)
    )
    if whole is not None:
        return whole
    streams = [stream for stream in (*work.inputs, *work.outputs) if stream.over == "all"]
    total = sum(stream.ref.bytes for stream in streams)
    if work.windows is not None:
        return _of_windows(space, total, work.outputs[0].ref.dtype.itemsize, Computing.of(steps, soc), soc)
    open_shapes = work.own_tiling and not work.code_at_hand and soc.kernels.tiling_ns
    if open_shapes and (share := _of_open_shapes(work, space, total, soc)):
        return share
    piece = TRANSACTION_BYTES // min((stream.ref.dtype.itemsize for stream in streams), default=2)
    if work.cores == "pieces":
        return space.rows, _cleared(space.cols, work.outputs[0].ref.dtype.itemsize, soc.vector_units)
    if work.cores != "worthwhile" and work.reduces != "rows":
        return next(_shares(work, space, soc.vector_units, piece))
    plain = work.reduces == "none" and not work.gather_bytes and all(_any_length(one, soc) for one in steps)
    if soc.kernels.even_shares and plain:
        return _even_share(work, space, total, Computing.of(steps, soc), soc)
    stores_all = any(stream.over == "all" for stream in work.outputs)
    parts_meet = work.sweeps == 1 and not stores_all  # cores may have parts of a row
    by_row = work.in_turn and work.reduces == "cols"
    computing = Computing.of(steps, soc)
    if space.flat and all(_any_length(step, soc) for step in steps):
        made = max((stream.ref.dtype.itemsize for stream in work.outputs), default=4)
        parts = elementwise_cores(space.cols, made, total, soc, computing.cycles(space.cols))
        return space.rows, min(space.cols, align(ceil_div(space.cols, parts), piece))
    if work.reduces == "rows":
        parts = worthwhile_cores(total, soc, computing.cycles(space.rows * space.cols))
        return _of_sums(work, space, parts, piece, soc)

    def nearest(share: tuple[int, int]) -> tuple[float, int]:
        rows, cols = share
        parts = ceil_div(space.rows, rows) * ceil_div(space.cols, cols)
        each = total * rows * cols / (space.rows * space.cols)
        if parts > 1 and rows * cols % piece:
            each /= soc.dram.unaligned_efficiency
        # what is gone through in turn has instructions for each row, or each part of one; parts of a single
        # row are long, so that rates decide
        own = Computing.of(steps, soc, cols) if by_row and space.rows > 1 else computing
        return end_cycles(total, each, own.cycles(rows * cols), parts, soc), parts

    most = min(soc.vector_units, max(1, total // TRANSACTION_BYTES))
    if by_row and not (parts_meet and space.rows < soc.vector_units):  # each costs much more than its bytes
        most = min(
            soc.vector_units, space.rows, max(1, min(stream.ref.bytes for stream in streams) // BLOCK_BYTES)
        )
    ways = (share for parts in range(1, most + 1) for share in _shares(work, space, parts, piece))
    return min(dict.fromkeys(ways), key=nearest)


def _even_share(
    work: VectorWork, space: Space, total: int, computing: Computing, soc: SocSpec
) -> tuple[int, int]:
    """The share of an elementwise kernel whose cores are counted by the bytes of its result: some rows where
    an operand is broadcast, if there are as many as cores, else a part of one.
    """
    whole = [stream for stream in (*work.inputs, *work.outputs) if stream.over == "all"]
    results = sum(stream.ref.dtype.itemsize for stream in work.outputs if stream.over == "all")
    elements = space.rows * space.cols
    parts = elementwise_cores(elements, results or 4, total, soc, computing.cycles(elements))
    if space.rows >= parts:
        return ceil_div(space.rows, parts), space.cols
    grain = BLOCK_BYTES // min((stream.ref.dtype.itemsize for stream in whole), default=2)
    return 1, min(space.cols, align(ceil_div(space.cols, parts // space.rows), grain))


def _any_length(step: Step, soc: SocSpec) -> bool:
    """Whether a step goes through elements as elementwise kernels do, one repeat an instruction at least."""
    return not step.run or step.run * step.dtype.itemsize == soc.vector.repeat_bytes


def _cleared(elements: int, itemsize: int, cores: int) -> int:
    """Elements that a core clears: whole pieces, all cores as many.

    >>> _cleared(16 * 1024, 4, 30), _cleared(512 * 1024, 4, 30)
    (12288, 24576)
    """
    return min(elements, align(ceil_div(elements * itemsize, cores), CLEARED_BYTES) // itemsize)


def _of_windows(
    space: Space, total: int, itemsize: int, computing: Computing, soc: SocSpec
) -> tuple[int, int]:
    """The share of rows of maps that windows make: as elementwise work where they are next to each other, as
    many cores as bring the end nearest where each row takes instructions of its own.
    """
    elements = space.rows * space.cols
    if not computing.runs:
        parts = elementwise_cores(elements, itemsize, total, soc, computing.cycles(elements))
        return ceil_div(space.rows, min(parts, space.rows)), space.cols
    most = min(soc.vector_units, space.rows, max(1, total // TRANSACTION_BYTES))

    def nearest(rows: int) -> tuple[float, int]:
        parts, each = ceil_div(space.rows, rows), total * rows / space.rows
        return end_cycles(total, each, computing.cycles(rows * space.cols), parts, soc), parts

    shares = dict.fromkeys(ceil_div(space.rows, parts) for parts in range(1, most + 1))
    return min(shares, key=nearest), space.cols


def _of_open_shapes(work: VectorWork, space: Space, total: int, soc: SocSpec) -> tuple[int, int] | None:
    """The share of kernels for open shapes, which take all cores for any number of rows, or columns in
    32 B blocks; None for one long row and for tall and narrow work.

    From block counts of AlexNet's training on 910B: sums of [32, 1000] down take 42, of [32, 4096] 47, along
    [256, 5408] 43 and [384, 5408] 48.
    """
    cores = min(soc.vector_units, PROFILED_CORES[soc.split_cores])
    if work.reduces == "cols":
        if space.rows == 1 and total > PARTIAL_BYTES:
            return None
        return ceil_div(space.rows, cores), space.cols
    block = BLOCK_BYTES // work.inputs[0].ref.dtype.itemsize
    if work.reduces != "rows" or work.planes or space.rows * BLOCK_BYTES > PARTIAL_BYTES:
        return None
    return space.rows, min(space.cols, align(ceil_div(space.cols, cores), block))


def _of_sums(work: VectorWork, space: Space, parts: int, piece: int, soc: SocSpec) -> tuple[int, int]:
    """The share of one of some cores where rows are added up: some columns, or some rows of tall and narrow
    work and of rows that fill no whole blocks.
    """
    source = work.inputs[0].ref
    block = c0(source.dtype) if work.planes else min(piece, 16)
    cols = min(space.cols, align(ceil_div(space.cols, parts), block))
    if work.planes or any(stream.over == "all" for stream in work.outputs):
        return space.rows, cols
    if source.format is Format.FRACTAL_NZ and soc.kernels.sums_in_turn:
        blocks = ceil_div(space.cols, block)
        return space.rows, block * ceil_div(blocks, min(blocks, soc.vector_units))
    itemsize = TRANSACTION_BYTES // piece
    rows = ceil_div(space.rows, parts)
    if source.format is Format.ND and source.bytes // space.rows % BLOCK_BYTES:
        run = max((step.run for step in work.steps), default=0)
        if run:  # an instruction takes what a core has of a row
            return space.rows, min(space.cols, run)
        if not soc.split_cores:
            wanted = max(1, space.rows * space.cols // ELEMENTS_TO_ADD)
            rows = ceil_div(space.rows, min(wanted, soc.vector_units, PROFILED_CORES[False]))
        return rows, space.cols
    if soc.dma.reads_hold_requests and cols < space.cols and cols * itemsize < soc.l2.line_bytes:
        return rows, space.cols  # a request would bring less than it can
    tall = space.rows * cols * itemsize > PARTIAL_BYTES
    narrow = ceil_div(space.cols, block) * 2 <= parts
    return (rows, space.cols) if tall and narrow else (space.rows, cols)


def _shares(work: VectorWork, space: Space, parts: int, piece: int) -> Iterator[tuple[int, int]]:
    """Ways to cut other work for some cores: rows, and columns where there are more cores than rows and
    nothing needs a whole row.
    """
    streams = [stream for stream in (*work.inputs, *work.outputs) if stream.over == "all"]
    if work.reduces == "cols":
        rows = ceil_div(space.rows, parts)
        yield rows, space.cols
        used = ceil_div(space.rows, rows)
        stores_all = any(stream.over == "all" for stream in work.outputs)
        if used < parts and not stores_all and work.sweeps == 1:  # partial results meet in global memory
            yield rows, min(space.cols, align(ceil_div(space.cols, parts // used), piece))
    elif space.rows >= parts:
        blocked = any(lanes_of(stream.ref) == space.cols for stream in streams)
        grain = TRANSACTION_BYTES // BLOCK_BYTES if blocked else 1
        yield min(space.rows, align(ceil_div(space.rows, parts), grain)), space.cols
    else:
        yield 1, min(space.cols, align(ceil_div(space.cols, parts // space.rows), piece))


def _whole_maps(maps: Maps, space: Space, cores: int, fewest_added: int) -> tuple[int, int] | None:
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
    least = fewest_added if maps.split == "sums" else 1
    return space.rows // images * max(min(images, least), ceil_div(images, cores)), space.cols


def elementwise_cores(
    elements: int, itemsize: int, total_bytes: int, soc: SocSpec, computing: float = 0.0
) -> int:
    """How many cores elementwise work takes: as CANN's kernels on the chips whose profiles are known.

    Args:
        elements: Of the result.
        itemsize: Bytes of one.
        total_bytes: Moved by all cores.
        soc: The chip.
        computing: Cycles of one vector unit.
    """
    each = (soc.kernels.core_bytes or 0) // itemsize or ELEMENTS_A_CORE
    return as_profiled(min(soc.vector_units, ceil_div(elements, each)), total_bytes, soc, computing)


def as_profiled(wanted: int, total_bytes: int, soc: SocSpec, computing: float = 0.0) -> int:
    """How many cores work takes of which profiles say that it takes so many: of more than the chips of these
    profiles have only as many as bring the end nearer.
    """
    profiled = PROFILED_CORES[soc.split_cores]
    if wanted <= profiled:
        return wanted
    return max(profiled, min(wanted, worthwhile_cores(total_bytes, soc, computing)))


@dataclass(frozen=True, slots=True)
class Computing:
    """About how long one vector unit computes.

    Attributes:
        each: Cycles of an element in steps that take any number of elements an instruction.
        runs: Of the others: elements of an instruction at most, and cycles of all that take as many.
    """

    each: float
    runs: tuple[tuple[int, float], ...] = ()

    @classmethod
    def of(cls, steps: Sequence[Step], soc: SocSpec, row: int = 0) -> Computing:
        """A repeat's cycles for every step on every element; an instruction takes its least time at least.

        Args:
            steps: As the chip has them.
            soc: The chip.
            row: Elements of a row, where rows are gone through one by one: each has instructions of its own.
        """
        unit, least = soc.vector, least_cycles(soc)
        each, runs = 0.0, []
        for step in steps:
            if step.over != "all":
                if row:
                    runs.append((row, step.count * least))
                continue
            key = f"{step.op}.{step.dtype.value}"
            repeat = step.count * unit.cycles_per_repeat.get(key, unit.cycles_per_repeat.get(step.op, 1.0))
            if run := step.run or row:
                length = run * step.dtype.itemsize
                cycles = max(step.count * least, ceil_div(length, unit.repeat_bytes) * repeat)
                masked = length % unit.repeat_bytes and not step.overruns
                runs.append((run, cycles + (step.count * unit.mask_cycles if masked else 0)))
            else:
                each += step.dtype.itemsize * repeat / unit.repeat_bytes
        return cls(each, tuple(runs))

    def cycles(self, elements: int) -> float:
        """Cycles for so many elements."""
        return elements * self.each + sum(ceil_div(elements, run) * cycles for run, cycles in self.runs)


def worthwhile_cores(total_bytes: int, soc: SocSpec, computing: float = 0.0) -> int:
    """How many cores bring the end nearest, of work that can be cut anywhere.

    Args:
        total_bytes: Moved by all cores.
        soc: The chip.
        computing: Cycles of one vector unit.
    """
    most = min(soc.vector_units, max(1, total_bytes // TRANSACTION_BYTES))

    def nearest(parts: int) -> tuple[float, int]:
        return end_cycles(total_bytes, total_bytes / parts, computing / parts, parts, soc), parts

    return min(range(1, most + 1), key=nearest)


def end_cycles(total_bytes: int, bytes: float, computing: float, parts: int, soc: SocSpec) -> float:
    """About when the last of some cores is done.

    A core's time is that of its slowest pipe plus a quarter of the others (pipes overlap, but fill and
    drain); one more block costs its dispatch.

    Args:
        total_bytes: Moved by all cores.
        bytes: Moved by the core with the largest share.
        computing: Cycles of its vector unit.
        parts: Cores.
        soc: The chip.
    """
    dispatch = soc.launch.block_dispatch_ns * soc.vector_frequency_mhz / 1000
    rate = min(soc.ports.gm_to_ub or 1.0, soc.ports.ub_to_gm or 1.0)
    dram = soc.dram.read_gb_per_s * 1e3 / soc.vector_frequency_mhz
    moving = bytes / rate
    return max(moving, computing, total_bytes / dram) + (moving + computing) / 4 + parts * dispatch


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
