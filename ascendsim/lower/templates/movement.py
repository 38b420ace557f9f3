"""Movement and scalar work: tensors carried through UB in bursts, with vector steps or address computation on
the way.

Each copy is cut in equal tiles; MTE2 brings a tile in (two slots), V turns or converts it if asked to, MTE3
stores it. Without vector steps the tile goes out from where it came in. Cores take shares of every copy, so a
block is a chain of loops.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from ascendsim.core.formats import BLOCK_BYTES, TRANSACTION_BYTES, align, ceil_div
from ascendsim.isa.capacity import capacity
from ascendsim.isa.instructions import Affine, Buffer, Move, Operand, Pipe, Scalar
from ascendsim.isa.notes import Origin, nothing
from ascendsim.isa.program import Block, BlockGroup
from ascendsim.lower.affine import plus, times
from ascendsim.lower.emit import BlockBuilder, Ring, pieces
from ascendsim.lower.templates.move_notes import MoveNotes, bring_whole
from ascendsim.lower.templates.operands import fitted
from ascendsim.lower.templates.sharing import as_profiled, elementwise_cores, even_bursts, worthwhile_cores
from ascendsim.lower.templates.single_moves import single_bursts
from ascendsim.lower.templates.stage import (
    Stage,
    Tile,
    shared,
    sizes_of,
    start_turning,
    vector_core,
    work_out_tiling,
)
from ascendsim.lower.templates.steps import Expansion, emit_steps
from ascendsim.lower.templates.turns import share_of_blocks, turns
from ascendsim.lower.templates.vector_writer import GOOD_TRANSFER_BYTES, TILES_TO_OVERLAP
from ascendsim.opset.work import Copy, MoveWork, Ref, ScalarWork, Step
from ascendsim.soc.spec import SocSpec

OVERS = ("all", "row", "col", "one")


def lower_movement(work: MoveWork, soc: SocSpec, expansion: Expansion) -> Stage:
    """Blocks of movement work."""
    core, kind = vector_core(soc)
    if work.one_by_one:
        return Stage(
            (BlockGroup(_element_block(expansion.builder(core), work.copies), 1, origins=((),)),),
            kind,
            sizes_of(*(ref for copy in work.copies for ref in (copy.src, copy.dst))),
        )
    steps = expansion.expand(work.steps)
    copies = [copy for copy in work.copies if copy.bytes or copy.written]
    shares = [
        share_of_blocks(copy.bytes or copy.written, work.blocks, soc)
        if work.blocks
        else _whole_pieces(copy, work.pieces, work.most_cores or soc.vector_units)
        if work.pieces
        else _share(copy, _parts(copy, steps, work.in_turn, soc))
        for copy in copies
    ]
    groups: list[BlockGroup] = []
    blocks = aligned_shares(
        [(copy.bytes or copy.written, share) for copy, share in zip(copies, shares, strict=True)]
    )
    used = sum(count for _, count in blocks)
    # profiles: kernels for open shapes that turn, and TransData of the first generation, are started on all
    open_shapes = work.own_tiling and not work.code_at_hand and bool(soc.kernels.tiling_ns)
    launched = max(used, as_profiled(soc.vector_units, 0, soc)) if open_shapes or work.in_turn else used
    for amounts, count in blocks:
        writer = MoveWriter(expansion.builder(core), work, steps)
        if work.own_tiling:
            work_out_tiling(writer.b, 0 if work.code_at_hand else launched)
        if work.in_turn:
            start_turning(writer.b)
        block = writer.write(list(zip(copies, amounts, strict=True)))
        cores = sum(group.count for group in groups)
        where = tuple(share_origin(shares, core) for core in range(cores, cores + count))
        groups.append(BlockGroup(block, count, origins=where if expansion.noted else ()))
    if launched > used:
        groups.append(BlockGroup(BlockBuilder(soc, core).build(), launched - used))
    sizes: dict[str, int] = sizes_of(*work.extra_inputs)
    touched: dict[str, int] = {}
    for copy in copies:
        for ref, bytes in ((copy.src, copy.bytes), (copy.dst, copy.written)):
            touched[ref.region] = min(ref.bytes, touched.get(ref.region, 0) + bytes)
    return Stage(tuple(groups), kind, sizes | touched)


def share_origin(shares: Sequence[int], core: int) -> Origin:
    """Where the share of a core begins in each copy."""
    return tuple([(f"@copy{number}", core * share) for number, share in enumerate(shares)])


def _single_cycles(copy: Copy, steps: tuple[Step, ...], soc: SocSpec) -> float:
    """About how long one vector unit needs for steps that take few elements an instruction, which outlast any
    transfer.
    """
    unit = soc.vector
    start = soc.issue.instruction_start_ns * soc.vector_frequency_mhz / 1000
    each = max(unit.minimum_cycles + unit.mask_cycles, start)
    elements = max(copy.bytes, copy.written) // copy.src.dtype.itemsize
    return sum(_calls(elements, step)[1] * step.count * each for step in steps if step.run)


def _parts(copy: Copy, steps: tuple[Step, ...], in_turn: bool, soc: SocSpec) -> int:
    """How many cores a copy takes."""
    total = copy.bytes or copy.written
    if in_turn:  # all of them, say profiles
        return as_profiled(soc.vector_units, total + copy.written, soc)
    if copy.read_burst >= total and copy.write_burst >= copy.written:
        # a plain copy, which CANN shares as elementwise work
        itemsize = copy.src.dtype.itemsize
        return elementwise_cores(total // itemsize, itemsize, total + copy.written, soc)
    if soc.kernels.even_shares:  # Slice of 64 rows takes 30 of 30 cores
        bursts = max(total // copy.read_burst, copy.written // copy.write_burst)
        return as_profiled(min(soc.vector_units, max(1, bursts)), total + copy.written, soc)
    return worthwhile_cores(total + copy.written, soc, _single_cycles(copy, steps, soc))


def _share(copy: Copy, parts: int) -> int:
    """Bytes of one core's share: whole bursts if they are short enough, 512 B pieces else."""
    total = copy.bytes or copy.written
    wanted = ceil_div(total, parts)
    grain = _grain(copy, wanted)
    return min(total, align(wanted, grain) if total > grain else total)


def _whole_pieces(copy: Copy, pieces: int, cores: int) -> int:
    """Bytes of one core's share where cores take whole images, filters and the like."""
    total = copy.bytes or copy.written
    return min(total, ceil_div(total * ceil_div(pieces, cores), pieces))


def _grain(copy: Copy, room: int) -> int:
    """Bytes of the source that a tile or share should be a multiple of: whole bursts on both sides if they
    fit, else those of the longer or at least of the shorter side, else 512 B.

    A tile that ends inside a burst leaves pieces on either side that neither start nor end on 512 B
    boundaries.
    """
    total = copy.bytes or copy.written
    read = copy.read_burst if copy.read_burst < total else 1
    write = copy.write_burst * total // copy.written if copy.write_burst < copy.written else 1
    sides = (math.lcm(read, write), max(read, write), min(read, write))
    wanted = [grain for side in sides for grain in (math.lcm(side, TRANSACTION_BYTES), side) if side > 1]
    return next((grain for grain in wanted if grain <= room), TRANSACTION_BYTES)


def _calls(elements: int, step: Step) -> tuple[int, int]:
    """Elements of one instruction and how many there are (`Step.run`)."""
    calls = ceil_div(elements, step.run) if step.run else 1
    return ceil_div(elements, calls), calls


def aligned_shares(copies: list[tuple[int, int]]) -> list[tuple[tuple[int, ...], int]]:
    """Shares of several copies (bytes, share) laid side by side over the cores: equal rows join to groups.

    >>> aligned_shares([(100, 50), (60, 50)])
    [((50, 50), 1), ((50, 10), 1)]
    """
    ends: set[int] = {0}
    runs: list[list[tuple[int, int, int]]] = []  # per copy: first core, end core, bytes
    for total, share in copies:
        at, run = 0, []
        for size, count in shared(total, share):
            run.append((at, at + count, size))
            at += count
            ends.add(at)
        runs.append(run)
    cuts = sorted(ends)
    result: list[tuple[tuple[int, ...], int]] = []
    for first, end in pairwise(cuts):
        amounts = tuple(next((size for start, stop, size in run if start <= first < stop), 0) for run in runs)
        result.append((amounts, end - first))
    return result


@dataclass(slots=True)
class MoveWriter:
    """Writes the program of one core's shares."""

    b: BlockBuilder
    work: MoveWork
    steps: tuple[Step, ...]

    def write(self, amounts: list[tuple[Copy, int]]) -> Block:
        """The block."""
        b = self.b
        for number, ref in enumerate(self.work.extra_inputs):
            self._bring_whole(ref, f"index{number}")
        room = (capacity(b.soc, Buffer.UB) - b.used(Buffer.UB) - 1024) // BLOCK_BYTES * BLOCK_BYTES
        widths = [max(1.0, copy.written / (copy.bytes or copy.written)) for copy, _ in amounts]
        widest = max(widths)
        wide = max([step.dtype.itemsize for step in self.steps], default=1)
        narrow = min([copy.src.dtype.itemsize for copy, _ in amounts])
        growth = max(1.0, wide / narrow) if self.steps else 1.0
        per_byte = 2 + 2 * widest * growth if self.steps else 2 * widest
        most = max(BLOCK_BYTES, int(room / per_byte) // BLOCK_BYTES * BLOCK_BYTES)
        largest = max([amount for _, amount in amounts])
        tile = min(
            most, max(align(ceil_div(largest, TILES_TO_OVERLAP), TRANSACTION_BYTES), GOOD_TRANSFER_BYTES)
        )
        bound = max([_grain(copy, tile) for copy, _ in amounts])
        tile = tile // bound * bound or tile
        source_bytes, target_bytes = (
            tile if self.steps else math.ceil(tile * widest),
            align(math.ceil(tile * widest * growth), BLOCK_BYTES),
        )
        read_by = Pipe.V if self.steps else Pipe.MTE3
        slots = 1 if self.work.in_turn or self.work.one_buffer else 2
        source = b.ring("in", Pipe.MTE2, read_by, slots, (Buffer.UB, align(source_bytes, BLOCK_BYTES)))
        target = b.ring("out", Pipe.V, Pipe.MTE3, slots, (Buffer.UB, target_bytes)) if self.steps else None
        for number, (copy, amount) in enumerate(amounts):
            each = ceil_div(copy.bytes or copy.written, self.work.blocks) if self.work.blocks else amount
            for first, size in turns(b, source, amount, each) if amount else ():
                for piece in pieces(size, min(tile, size)):
                    with b.loop("t", piece.trips) as i:
                        at = plus(first, piece.at(i))
                        notes = MoveNotes(copy, number, bool(self.steps), at, piece.size)
                        self._tile(copy, at, piece.size, source, target, notes)
        return b.build()

    def _tile(
        self, copy: Copy, at: Affine, size: int, source: Ring, target: Ring | None, notes: MoveNotes
    ) -> None:
        b = self.b
        ratio = (copy.written, copy.bytes or copy.written)
        written = ceil_div(size * ratio[0], ratio[1])
        reads = copy.bytes > 0
        b.acquire(source)
        if reads:
            tile = self._gm(copy.src, at, size, copy.read_burst, (1, 1))
            if self.work.scalar_per_burst:
                cycles = self.work.scalar_per_burst * tile.bursts
                if self.work.pieces:  # by elements, of which a tile may hold fewer than a burst
                    cycles = min(cycles, ceil_div(self.work.scalar_per_burst * size, copy.read_burst))
                b.emit(Scalar(cycles, "addresses"))
            into = b.target(source, tile.bytes)
            move = Move(
                Pipe.MTE2,
                into,
                tile.operand,
                tile.bursts,
                tile.burst_bytes,
                src_stride=tile.stride,
                aligned=tile.aligned,
                effect=b.note(notes.bring),
            )
            single_bursts(b, move) if self.work.singly == "read" else b.emit(move)
        b.commit(source)
        b.receive(source)
        last = source
        if target is not None:
            b.acquire(target)
            elements = max(size, written) // copy.src.dtype.itemsize
            read, made = b.source(source, source.slot_bytes), b.target(target, target.slot_bytes)
            single = any(step.run for step in self.steps)
            with b.together(notes.turn):
                for steps in [(step,) for step in self.steps] if single else [self.steps]:
                    counts = _calls(max(1, elements), steps[0])
                    emit_steps(b, steps, dict.fromkeys(OVERS, counts), made, (read,))
            b.release(source)
            b.commit(target)
            b.receive(target)
            last = target
        tile = self._gm(copy.dst, at, written, copy.write_burst, ratio)
        held = b.source(last, tile.bytes)
        move = Move(
            Pipe.MTE3,
            tile.operand,
            held,
            tile.bursts,
            tile.burst_bytes,
            dst_stride=tile.stride,
            aligned=tile.aligned,
            effect=b.note(notes.store),
        )
        single_bursts(b, replace(move, atomic="add")) if self.work.singly == "added" else b.emit(move)
        b.release(last)

    def _bring_whole(self, ref: Ref, name: str) -> None:
        """Reads indices and the like once, in pieces that fit a small buffer."""
        b = self.b
        size = min(ref.bytes, GOOD_TRANSFER_BYTES)
        if not size:
            return
        ring = b.ring(name, Pipe.MTE2, Pipe.S, 1, (Buffer.UB, align(size, BLOCK_BYTES)))
        for piece in pieces(ref.bytes, size):
            with b.loop("x", piece.trips) as i:
                b.acquire(ring)
                tile = Tile(ref.region, times(piece.at(i), 1), 1, piece.size)
                b.emit(
                    Move(
                        Pipe.MTE2,
                        b.target(ring, piece.size),
                        tile.operand,
                        1,
                        piece.size,
                        aligned=tile.aligned,
                        effect=b.note(partial(bring_whole, ref.region, piece.at(i), piece.size)),
                    )
                )
                b.commit(ring)
                b.receive(ring)
                read = (b.source(ring, piece.size),)
                b.emit(Scalar(0, "indices", srcs=read, effect=b.note(nothing)))
                b.release(ring)

    def _gm(self, ref: Ref, at: Affine, bytes: int, burst: int, ratio: tuple[int, int]) -> Tile:
        """A tile's bytes in bursts; where a burst is shorter than the tile, the pieces lie apart."""
        offset = Affine(
            at.base * ratio[0] // ratio[1],
            tuple((name, step * ratio[0] // ratio[1]) for name, step in at.terms),
        )
        length = max(1, min(burst, bytes))
        # a tile may end inside a burst: even pieces of nearly its length then
        bursts = even_bursts(bytes, length)
        length = bytes // bursts
        grain = 1 if length % BLOCK_BYTES else BLOCK_BYTES  # pieces of whole blocks lie whole blocks apart
        stride = (
            0
            if bursts == 1
            else max(length + BLOCK_BYTES, min(ref.bytes // bursts, 8 * length) // grain * grain)
        )
        return fitted(self.b, Tile(ref.region, offset, bursts, length, stride), ref)


def _element_block(b: BlockBuilder, copies: tuple[Copy, ...]) -> Block:
    """Element after element into a 32 B block of UB and from there into its place: one buffer, which is full
    before the first element leaves it.
    """
    most = (capacity(b.soc, Buffer.UB) - 1024) // BLOCK_BYTES  # 1 KiB stays free, as in transpose_d.py
    for copy in copies:
        size = copy.src.dtype.itemsize
        elements = copy.bytes // size
        held = min(elements, most)
        ring = b.ring("elements", Pipe.MTE2, Pipe.MTE3, 1, (Buffer.UB, held * BLOCK_BYTES))
        # neighbours in the result lie this far apart in the source
        apart = max(1, min(elements // held, copy.src.bytes // size // held)) * size
        for piece in pieces(elements, held):
            with b.loop("t", piece.trips) as i:
                at = piece.at(i)
                b.acquire(ring)
                with b.loop("e", piece.size) as e:
                    read = fitted(
                        b, Tile(copy.src.region, plus(times(at, size), times(e, apart)), 1, size), copy.src
                    )
                    slot = b.target(ring, size, offset=times(e, BLOCK_BYTES))
                    notes = MoveNotes(copy, -1, False, times(plus(at, e), size), size)
                    note = b.note(notes.bring)
                    b.emit(Move(Pipe.MTE2, slot, read.operand, 1, size, aligned=read.aligned, effect=note))
                b.commit(ring)
                b.receive(ring)
                with b.loop("e", piece.size) as e:
                    write = Tile(copy.dst.region, plus(times(at, size), times(e, size)), 1, size)
                    slot = b.source(ring, size, offset=times(e, BLOCK_BYTES))
                    notes = MoveNotes(copy, -1, False, times(plus(at, e), size), size)
                    note = b.note(notes.store)
                    b.emit(Move(Pipe.MTE3, write.operand, slot, 1, size, aligned=write.aligned, effect=note))
                b.release(ring)
    return b.build()


def lower_scalar(work: ScalarWork, soc: SocSpec) -> Stage:
    """Blocks of scalar work: elements shared among cores, inputs and outputs through UB, the scalar unit in
    between.
    """
    core, kind = vector_core(soc)
    share = ceil_div(work.elements, min(soc.vector_units, max(1, work.elements // 64)))
    groups = [
        BlockGroup(_scalar_block(BlockBuilder(soc, core), work, size), count)
        for size, count in shared(work.elements, share)
    ]
    return Stage(tuple(groups), kind, sizes_of(*work.inputs, *work.outputs))


def _scalar_block(b: BlockBuilder, work: ScalarWork, elements: int) -> Block:
    refs = [ref for ref in (*work.inputs, *work.outputs) if ref.bytes]
    room = capacity(b.soc, Buffer.UB) // (2 * max(1, len(refs))) // BLOCK_BYTES * BLOCK_BYTES - BLOCK_BYTES
    shares = {id(ref): max(1, ceil_div(ref.bytes * elements, work.elements)) for ref in refs}
    tiles = max([ceil_div(share, room) for share in shares.values()], default=1)
    rings = []
    for number, ref in enumerate(refs):
        size = ceil_div(shares[id(ref)], tiles)
        pipes = (
            (Pipe.MTE2, Pipe.S) if number < len([r for r in work.inputs if r.bytes]) else (Pipe.S, Pipe.MTE3)
        )
        rings.append((ref, size, b.ring(f"part{number}", *pipes, 2, (Buffer.UB, align(size, BLOCK_BYTES)))))
    with b.loop("t", tiles) as i:
        read: list[Operand] = []
        for ref, size, ring in rings:
            b.acquire(ring)
            if ring.producer is Pipe.MTE2:
                tile = fitted(b, Tile(ref.region, times(i, size), 1, min(size, ref.bytes)), ref)
                b.emit(
                    Move(
                        Pipe.MTE2,
                        b.target(ring, tile.bytes),
                        tile.operand,
                        1,
                        tile.bytes,
                        aligned=tile.aligned,
                    )
                )
                b.commit(ring)
                b.receive(ring)
                read.append(b.source(ring, size))
        made = tuple(b.target(ring, size) for _, size, ring in rings if ring.producer is Pipe.S)
        b.emit(
            Scalar(
                ceil_div(elements, tiles) * work.cycles_per_element,
                "element by element",
                dsts=made,
                srcs=tuple(read),
            )
        )
        for ref, size, ring in rings:
            if ring.producer is Pipe.MTE2:
                b.release(ring)
                continue
            b.commit(ring)
            b.receive(ring)
            tile = fitted(b, Tile(ref.region, times(i, size), 1, min(size, ref.bytes)), ref)
            b.emit(
                Move(Pipe.MTE3, tile.operand, b.source(ring, tile.bytes), 1, tile.bytes, aligned=tile.aligned)
            )
            b.release(ring)
    return b.build()
