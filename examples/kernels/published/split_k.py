"""A product in slices of K on each core, behind a change of layout on the vector cores.

Sizes and the order of work follow catlass (example 34): the vector cores write A in fractals; each cube core
has some tiles of the result, makes a slice of K of all of them before the next one, and adds it up in a
workspace of float32; a packet of A or B stays in L1 as long as the next tile needs it; the vector cores
convert the sums. The change of layout alone is that of asc-devkit's case of ND2NZ on the vector cores.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from published.matmul import CUBE, Piece, Plan, Share, by_blocks, matmul, on, up
from published.row import Row, empty

from ascendsim import asc

EVENT, PIPE = asc.HardEvent, asc.PipeID
LAID, SUMMED = 8, 9  # flags: A lies in fractals, all sums are there
ROOM = 48 * 1024  # bytes of a piece in UB
INNER = 128  # rows, columns and depth of a block in L0
LANES = 128
BAND = 20  # tiles across a band of the snake in which tiles are numbered


class Slices(NamedTuple):
    """How a product in slices is made.

    Attributes:
        tile: Rows, columns and depth of a packet in L1.
        slots: Packets of A and of B that L1 holds.
    """

    tile: tuple[int, int, int] = (256, 128, 512)
    slots: tuple[int, int] = (1, 2)


# --- vector cores -------------------------------------------------------------------------------------------


def to_fractals(given: asc.GlobalAddress, made: asc.GlobalAddress, rows: int, columns: int) -> None:
    """Rows as columns of 32 bytes, sixteen rows at a time; behind the last column come zeros."""
    dtype, height = given.dtype, up(rows, CUBE)
    wide = min(up(columns, CUBE), ROOM // CUBE // dtype.sizeof())
    pipe, into, out = asc.TPipe(), asc.TQue(asc.TPosition.VECIN, 2), asc.TQue(asc.TPosition.VECOUT, 2)
    for queue in (into, out):
        pipe.init_buffer(queue, 2, CUBE * wide * dtype.sizeof())
    places = [(top, left) for top in range(0, rows, CUBE) for left in range(0, columns, wide)]
    cores = asc.get_block_num() * asc.get_sub_block_num()
    for top, left in places[asc.get_block_idx() :: cores]:
        high, width = min(CUBE, rows - top), min(wide, columns - left)
        whole = up(width, CUBE)
        lines = into.alloc_tensor(dtype)
        size = dtype.sizeof()
        params = asc.DataCopyExtParams(high, width * size, (columns - width) * size, 0)
        fill = asc.DataCopyPadExtParams(dtype, True, 0, whole - width, 0)
        asc.data_copy_pad(lines, on(given)[top * columns + left :], params, fill)
        into.enque(lines)
        lines, blocks = into.deque(dtype), out.alloc_tensor(dtype)
        full, rest = divmod(whole, LANES)
        params = asc.CopyRepeatParams(CUBE, 1, LANES, LANES // CUBE)
        for row in range(high):
            source, target = lines[row * whole :], blocks[row * CUBE :]
            if full:
                asc.copy(target, source, LANES, full, params)
            if rest:
                asc.copy(target[full * LANES * CUBE :], source[full * LANES :], rest, 1, params)
        into.free_tensor(lines)
        out.enque(blocks)
        blocks = out.deque(dtype)
        params = asc.DataCopyParams(whole // CUBE, high, CUBE - high, height - high)
        asc.data_copy(on(made)[left * height + top * CUBE :], blocks, params)
        out.free_tensor(blocks)


def to_half(sums: asc.GlobalAddress, made: asc.GlobalAddress, count: int) -> None:
    """float32 as float16, a stretch a vector core at a time."""
    most = ROOM // 4
    pipe, into, out = asc.TPipe(), asc.TQue(asc.TPosition.VECIN, 2), asc.TQue(asc.TPosition.VECOUT, 2)
    pipe.init_buffer(into, 2, most * 4)
    pipe.init_buffer(out, 2, most * 2)
    cores = asc.get_block_num() * asc.get_sub_block_num()
    share = up(asc.ceildiv(count, cores), CUBE)
    end = min(count, (asc.get_block_idx() + 1) * share)
    for start in range(asc.get_block_idx() * share, end, most):
        length = min(most, end - start)
        wide = into.alloc_tensor(asc.float32)
        asc.data_copy_pad(wide, on(sums)[start:], asc.DataCopyExtParams(1, length * 4, 0, 0))
        into.enque(wide)
        wide, narrow = into.deque(asc.float32), out.alloc_tensor(asc.float16)
        asc.cast(narrow, wide, asc.RoundMode.CAST_RINT, length)
        into.free_tensor(wide)
        out.enque(narrow)
        narrow = out.deque(asc.float16)
        asc.data_copy_pad(on(made)[start:], narrow, asc.DataCopyExtParams(1, length * 2, 0, 0))
        out.free_tensor(narrow)


# --- cube cores ---------------------------------------------------------------------------------------------


class _Operand:
    """The packets of an operand in L1."""

    def __init__(self, position: asc.TPosition, place: int, size: int, slots: int, event: int) -> None:
        self.packets = [
            asc.LocalTensor(asc.float16, position, place + 2 * size * at, size) for at in range(slots)
        ]
        self.event, self.begun, self.fresh = event, 0, False
        for at in range(slots):
            asc.set_flag(EVENT.MTE1_MTE2, event + at)

    def load(self, source: asc.GlobalTensor, params) -> None:
        """The next packet on its way."""
        at = self.begun % len(self.packets)
        self.begun += 1
        asc.wait_flag(EVENT.MTE1_MTE2, self.event + at)
        asc.data_copy(self.packets[at], source, params)
        asc.set_flag(EVENT.MTE2_MTE1, self.event + at)

    def take(self, number: int) -> asc.LocalTensor:
        """A packet by its number, once it is there."""
        at = number % len(self.packets)
        if self.fresh:
            asc.wait_flag(EVENT.MTE2_MTE1, self.event + at)
            self.fresh = False
        return self.packets[at]

    def release(self, number: int) -> None:
        """A packet has been read."""
        asc.set_flag(EVENT.MTE1_MTE2, self.event + number % len(self.packets))

    def end(self) -> None:
        """All packets have been read."""
        for at in range(len(self.packets)):
            asc.wait_flag(EVENT.MTE1_MTE2, self.event + at)


def slices(
    a: asc.GlobalAddress,
    b: asc.GlobalAddress,
    sums: asc.GlobalAddress,
    size: tuple[int, int, int],
    plan: Slices,
) -> None:
    """A cube core's part: sums[M, N] = a[M, K] b[N, K]^T, a in fractals."""
    (m, n, k), (tall, wide, deep) = size, plan.tile
    height, a_gm, b_gm, sums_gm = up(m, CUBE), on(a), on(b), on(sums)
    left = _Operand(asc.TPosition.A1, 0, tall * deep, plan.slots[0], 0)
    right = _Operand(asc.TPosition.B1, 2 * tall * deep * plan.slots[0], wide * deep, plan.slots[1], 2)
    inner = INNER * INNER
    l0a, l0b, acc = (
        [asc.LocalTensor(dtype, position, at * inner * dtype.sizeof(), inner) for at in range(2)]
        for dtype, position in (
            (asc.float16, asc.TPosition.A2),
            (asc.float16, asc.TPosition.B2),
            (asc.float32, asc.TPosition.CO1),
        )
    )
    for at in range(2):
        asc.set_flag(EVENT.M_MTE1, at)
        asc.set_flag(EVENT.FIX_M, at)

    def load_a(tile: Piece) -> None:
        rows = up(tile.height, CUBE)
        params = asc.DataCopyParams(asc.ceildiv(tile.depth, CUBE), rows, height - rows, 0)
        left.load(a_gm[tile.first * height + tile.top * CUBE :], params)

    def load_b(tile: Piece) -> None:
        params = asc.Nd2NzParams(1, tile.width, tile.depth, 0, k, up(tile.width, CUBE), 1, 0)
        right.load(b_gm[tile.left * k + tile.first :], params)

    def feed(turn: int, packets: tuple, tile: Piece, place: tuple[int, int, int]) -> tuple[int, int, int]:
        """A block of each operand on its way to L0."""
        row, column, depth = place
        high, across = min(INNER, tile.height - row), min(INNER, tile.width - column)
        long, rows, columns = min(INNER, tile.depth - depth), up(tile.height, CUBE), up(tile.width, CUBE)
        params = asc.LoadData3DParamsV2(
            l1_h=1,
            l1_w=rows,
            channel_size=up(long, CUBE),
            k_extension=up(long, CUBE),
            m_extension=up(high, CUBE),
            m_start_pt=row,
        )
        asc.load_data(l0a[turn], packets[0][depth * rows :], params)
        for at in range(asc.ceildiv(long, CUBE)):
            source = packets[1][(depth + at * CUBE) * columns + column * CUBE :]
            params = asc.LoadData2DParams(0, up(across, CUBE) // CUBE, 1)
            asc.load_data(l0b[turn][at * CUBE * up(across, CUBE) :], source, params)
        return high, across, long

    work = list(_order(size, plan, asc.get_block_idx(), asc.get_block_num()))
    turn = stored = seen_a = seen_b = 0
    for number, tile in enumerate(work):
        if number == 0:
            load_a(tile)
            load_b(tile)
            left.fresh = right.fresh = True
        behind = work[number + 1] if number + 1 < len(work) else None
        new_a = behind is not None and (behind.first, behind.top) != (tile.first, tile.top)
        new_b = behind is not None and (behind.first, behind.left) != (tile.first, tile.left)
        if new_a and plan.slots[0] > 1:
            load_a(behind)
        if new_b and plan.slots[1] > 1:
            load_b(behind)
        if tile.first:
            asc.set_atomic_add(asc.float32)
        else:
            asc.set_atomic_none()
        packets = left.take(seen_a), right.take(seen_b)
        for row in range(0, tile.height, INNER):
            for column in range(0, tile.width, INNER):
                slot = stored % 2
                asc.wait_flag(EVENT.FIX_M, slot)
                for depth in range(0, tile.depth, INNER):
                    asc.wait_flag(EVENT.M_MTE1, turn)
                    high, across, long = feed(turn, packets, tile, (row, column, depth))
                    asc.set_flag(EVENT.MTE1_M, turn)
                    asc.wait_flag(EVENT.MTE1_M, turn)
                    params = asc.MmadParams(high, across, long, cmatrix_init_val=depth == 0)
                    asc.mmad(acc[slot], l0a[turn], l0b[turn], params)
                    asc.set_flag(EVENT.M_MTE1, turn)
                    turn ^= 1
                asc.set_flag(EVENT.M_FIX, slot)
                asc.wait_flag(EVENT.M_FIX, slot)
                params = asc.FixpipeParamsV220(across, high, up(high, CUBE), n)
                asc.fixpipe(sums_gm[(tile.top + row) * n + tile.left + column :], acc[slot], params)
                asc.set_flag(EVENT.FIX_M, slot)
                stored += 1
        for operand, new, seen, load in ((left, new_a, seen_a, load_a), (right, new_b, seen_b, load_b)):
            if new or behind is None:
                operand.release(seen)
            if new and len(operand.packets) == 1:
                load(behind)
            operand.fresh = new
        seen_a, seen_b = seen_a + new_a, seen_b + new_b
    asc.set_atomic_none()
    left.end()
    right.end()
    for at in range(2):
        asc.wait_flag(EVENT.M_MTE1, at)
        asc.wait_flag(EVENT.FIX_M, at)


def _order(size: tuple[int, int, int], plan: Slices, core: int, cores: int) -> Iterator[Piece]:
    """A core's tiles, slice of K by slice."""
    (m, n, k), (tall, wide, deep) = size, plan.tile
    places = list(_snake(asc.ceildiv(m, tall), asc.ceildiv(n, wide)))
    each, more = divmod(len(places), cores)
    start = core * each + min(core, more)
    for first in range(0, k, deep):
        for row, column in places[start : start + each + (core < more)]:
            top, left = row * tall, column * wide
            yield Piece(top, left, min(tall, m - top), min(wide, n - left), first, min(deep, k - first))


def _snake(down: int, across: int) -> Iterator[tuple[int, int]]:
    """Tiles in bands of some columns, up and down, to and fro; a narrow last band joins the one before it."""
    starts = list(range(0, across, BAND))
    if len(starts) > 1 and across - starts[-1] < BAND // 2:
        starts.pop()
    for band, start in enumerate(starts):
        end = starts[band + 1] if band + 1 < len(starts) else across
        for row in range(down)[:: -1 if band % 2 else 1]:
            for column in range(start, end)[:: -1 if row % 2 else 1]:
                yield row, column


@asc.jit
def split_matmul(
    a: asc.GlobalAddress,
    b: asc.GlobalAddress,
    laid: asc.GlobalAddress,
    sums: asc.GlobalAddress,
    c: asc.GlobalAddress,
    size: tuple[int, int, int],
    plan: Slices,
) -> None:
    """c[M, N] = a[M, K] b[N, K]^T by way of two workspaces."""
    m, n, k = size
    if asc.ascend_is_aic():
        asc.cross_core_wait_flag(LAID, 2)
        slices(laid, b, sums, size, plan)
        asc.cross_core_set_flag(SUMMED, 2, PIPE.PIPE_FIX)
    if asc.ascend_is_aiv():
        to_fractals(a, laid, m, k)
        asc.sync_all()
        asc.cross_core_set_flag(LAID, 2, PIPE.PIPE_MTE3)
        asc.cross_core_wait_flag(SUMMED, 2)
        asc.sync_all()
        to_half(sums, c, m * n)


@asc.jit
def laid_matmul(
    a: asc.GlobalAddress,
    b: asc.GlobalAddress,
    laid: asc.GlobalAddress,
    c: asc.GlobalAddress,
    size: tuple[int, int, int],
    plan: Plan,
    share: Share,
) -> None:
    """c[M, N] = a[M, K] b[K, N], of which the vector cores write b in fractals first."""
    _, n, k = size
    if asc.ascend_is_aic():
        asc.cross_core_wait_flag(LAID, 2)
        matmul(a, laid, c, size, plan, share)
    if asc.ascend_is_aiv():
        to_fractals(b, laid, k, n)
        asc.sync_all()
        asc.cross_core_set_flag(LAID, 2, PIPE.PIPE_MTE3)


def rows() -> list[Row]:
    """Rows 78, 80, 82, 84 and 229."""
    made = []
    for number, m, k in ((78, 2048, 4000), (80, 4096, 8000), (82, 4096, 40000), (84, 2048, 80000)):

        def args(m=m, k=k):
            n = 4096
            room = empty(up(m, CUBE) * up(k, CUBE)), empty(m, n, dtype="float32")
            return empty(m, k), empty(n, k), *room, empty(m, n), (m, n, k), Slices()

        made.append(Row(number, split_matmul, 24, args, soc="Ascend910B2"))

    def odd():
        m, n, k = size = (1024, 4095, 1024)
        plan = Plan(quant=asc.QuantModes.F322F16, fractals=True)
        room = empty(k * up(n, CUBE))
        return empty(m, k), empty(k, n), room, empty(m, n), size, plan, by_blocks(size, (128, 1408))

    return [*made, Row(229, laid_matmul, 24, odd, measure="cube")]
