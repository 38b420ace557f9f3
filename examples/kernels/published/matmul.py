"""One matmul for all published ones: tile sizes, order of tiles, buffers and layouts are a plan.

The order of copies and waits follows asc-devkit's matmul_basic_api_high_performance: tiles of A and B go to
L1 in packets of several base blocks, from there block by block to two slots of L0A and L0B; the next packet
is on its way while one is used up; results leave by FIXPIPE.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ascendsim import asc

EVENT = asc.HardEvent
L0_SLOT = 32 * 1024
CUBE = 16  # rows of a fractal


class Piece(NamedTuple):
    """A part of the product that one core makes before it goes on to its next one.

    Attributes:
        top, left, height, width: Rows and columns.
        first, depth: Of K; a depth of 0 is all of it.
        place: Element of c where the product that it is a part of begins.
    """

    top: int
    left: int
    height: int
    width: int
    first: int = 0
    depth: int = 0
    place: int = 0


Share = Callable[[int, int], Iterator[Piece]]  # core, cores: its pieces


class Plan(NamedTuple):
    """How a product is made.

    Attributes:
        base: Rows, columns and depth of a base block: one mmad.
        steps: Base blocks in depth of a packet of A and of B in L1.
        slots: Packets of each that L1 holds.
        transposed: B lies as N x K.
        fractals: B lies in columns of 32 bytes (zN).
        unit_flag: FIXPIPE stores what an mmad has finished while the next units are made.
        turned: Each core begins K with its own packet, so that they do not ask for one address at once.
        quant: What FIXPIPE makes of the float32.
        atomic: Results are added to what is there.
        along_rows: Tiles of a piece are made row of tiles by row, not column by column.
        keep_a: The packet of A holds all of K and stays for all tiles of the same rows.
        ready, done: Called before and behind the store of every tile.
        ring: Places of a base block that each core stores its tiles in, one after the other; 0 for c itself.
    """

    base: tuple[int, int, int] = (128, 256, 64)
    steps: tuple[int, int] = (4, 4)
    slots: int = 2
    transposed: bool = False
    fractals: bool = False
    unit_flag: bool = False
    turned: bool = False
    quant: asc.QuantModes = asc.QuantModes.NoQuant
    atomic: bool = False
    along_rows: bool = False
    keep_a: bool = False
    ready: Callable[[], None] | None = None
    done: Callable[[], None] | None = None
    ring: int = 0


def up(value: int, grain: int) -> int:
    """Rounded up to a multiple."""
    return -(-value // grain) * grain


def on(address: asc.GlobalAddress) -> asc.GlobalTensor:
    """A whole array."""
    tensor = asc.GlobalTensor()
    tensor.set_global_buffer(address)
    return tensor


class _Side:
    """One operand on its way through L1 and L0: its slots and how far it is."""

    def __init__(self, where: tuple, place: int, size: int, steps: int, slots: int, number: int) -> None:
        outer, inner, dtype = where
        width = dtype.sizeof()
        self.packets = [asc.LocalTensor(dtype, outer, place + at * size * width, size) for at in range(slots)]
        half = L0_SLOT // width
        self.blocks = [asc.LocalTensor(dtype, inner, at * L0_SLOT, half) for at in range(2)]
        self.steps, self.slots, self.event = steps, slots, 2 * number
        self.begun = 0  # packets so far, of all tiles
        self.loaded = 0  # packets of this tile
        self.kept = -1  # row of the tiles for which a packet stays
        self.fresh = True  # nobody has waited for the packet that stays


@asc.jit
def matmul(
    a: asc.GlobalAddress,
    b: asc.GlobalAddress,
    c: asc.GlobalAddress,
    size: tuple[int, int, int],
    plan: Plan,
    share: Share,
) -> None:
    """c[M, N] = a[M, K] b[K, N], piece by piece, as a plan says."""
    (_, n, k), (base_m, base_n, base_k) = size, plan.base
    dtype, out = a.dtype, asc.int32 if a.dtype == asc.int8 else asc.float32
    c0 = 32 // dtype.sizeof()
    a_gm, b_gm, c_gm = on(a), on(b), on(c)
    even = plan.steps[0] == plan.steps[1] and k % (plan.steps[0] * base_k) == 0
    asc.static_assert(even or not plan.turned, "packets that are turned are whole, and equal for A and B")
    fits = plan.steps[0] * base_k >= k
    asc.static_assert(fits or not plan.keep_a, "an A that is kept fits into a packet")
    sizes = up(base_m, CUBE) * base_k * plan.steps[0], up(base_n, CUBE) * base_k * plan.steps[1]
    left = _Side((asc.TPosition.A1, asc.TPosition.A2, dtype), 0, sizes[0], plan.steps[0], plan.slots, 0)
    place = plan.slots * sizes[0] * dtype.sizeof()
    right = _Side((asc.TPosition.B1, asc.TPosition.B2, dtype), place, sizes[1], plan.steps[1], plan.slots, 1)
    result = asc.LocalTensor(out, asc.TPosition.CO1, 0, up(base_m, CUBE) * up(base_n, CUBE))
    turn, stored, core = 0, 0, asc.get_block_idx()

    def load(side: _Side, tile: Piece, packet: int, packets: int) -> None:
        """A packet on its way to L1."""
        slot = side.begun % side.slots
        side.begun += 1
        side.loaded += 1
        if plan.turned:
            packet = (packet + asc.get_block_idx()) % packets
        start = packet * side.steps * base_k
        depth = min(side.steps * base_k, tile.depth - start)
        start += tile.first
        asc.wait_flag(EVENT.MTE1_MTE2, side.event + slot)
        local = side.packets[slot]
        if side is left:
            height = up(tile.height, CUBE)
            params = asc.Nd2NzParams(1, tile.height, depth, 0, k, height, 1, 0)
            asc.data_copy(local, a_gm[tile.top * k + start :], params)
        elif plan.transposed:
            params = asc.Nd2NzParams(1, tile.width, depth, 0, k, up(tile.width, CUBE), 1, 0)
            asc.data_copy(local, b_gm[tile.left * k + start :], params)
        elif plan.fractals:
            params = asc.DataCopyParams(asc.ceildiv(tile.width, c0), depth, k - depth, 0)
            asc.data_copy(local, b_gm[tile.left * k + start * c0 :], params)
        else:
            params = asc.Nd2NzParams(1, depth, tile.width, 0, n, up(depth, CUBE), 1, 0)
            asc.data_copy(local, b_gm[start * n + tile.left :], params)
        asc.set_flag(EVENT.MTE2_MTE1, side.event + slot)

    def release() -> None:
        """Lets go of the packet of A that stays."""
        if left.kept >= 0:
            asc.set_flag(EVENT.MTE1_MTE2, left.event + (left.begun - 1) % left.slots)

    def stay(tile: Piece) -> None:
        """Sees that the packet of A that stays is the tile's."""
        if left.kept == tile.top:
            left.loaded = 1
            return
        release()
        load(left, tile, 0, 1)
        left.kept, left.fresh = tile.top, True

    def block_of_a(tile: Piece, inside: int, depth: int, packet: asc.LocalTensor) -> None:
        height = up(tile.height, CUBE)
        params = asc.LoadData3DParamsV2(
            l1_h=1, l1_w=height, channel_size=up(depth, c0), k_extension=up(depth, c0), m_extension=height
        )
        asc.load_data(left.blocks[turn], packet[inside * height :], params)

    def block_of_b(tile: Piece, inside: int, depth: int, packet: asc.LocalTensor, whole: int) -> None:
        width = up(tile.width, CUBE)
        if plan.transposed:
            params = asc.LoadData2DParams(0, width // CUBE, 1)
            for column in range(asc.ceildiv(depth, c0)):
                at = column * c0 * width
                asc.load_data(right.blocks[turn][at:], packet[inside * width + at :], params)
            return
        if dtype == asc.int8:  # squares of 32 x 32
            across, down = asc.ceildiv(width, c0), whole // c0
            for row in range(depth // c0):
                params = asc.LoadData2dTransposeParams(inside // c0 + row, across, down, 1, 0)
                asc.load_data_with_transpose(right.blocks[turn][row * across * c0 * c0 :], packet, params)
            return
        params = asc.LoadData3DParamsV2(
            l1_h=1,
            l1_w=up(whole, CUBE),
            channel_size=width,
            k_extension=width,
            m_extension=up(depth, CUBE),
            m_start_pt=inside,
            en_transpose=True,
        )
        asc.load_data(right.blocks[turn], packet, params)

    for slot in range(plan.slots):
        asc.set_flag(EVENT.MTE1_MTE2, left.event + slot)
        asc.set_flag(EVENT.MTE1_MTE2, right.event + slot)
    for slot in range(2):
        asc.set_flag(EVENT.M_MTE1, slot)
    if not plan.unit_flag:
        asc.set_flag(EVENT.FIX_M, 0)
    if plan.atomic:
        asc.set_atomic_add(out)
    for piece in share(asc.get_block_idx(), asc.get_block_num()):
        for tile in tiles(piece, plan, k):
            last = asc.ceildiv(tile.depth, base_k) - 1
            left.loaded = right.loaded = 0
            if not plan.unit_flag:
                asc.wait_flag(EVENT.FIX_M, 0)
            for step in range(last + 1):
                for side in (left, right):
                    if step % side.steps or side.loaded != step // side.steps:
                        continue
                    if side is left and plan.keep_a:
                        stay(tile)
                    else:
                        load(side, tile, side.loaded, asc.ceildiv(last + 1, side.steps))
                asc.wait_flag(EVENT.M_MTE1, turn)
                depth = min(base_k, tile.depth - step * base_k)
                for side in (left, right):
                    number = step // side.steps
                    slot = (side.begun - side.loaded + number) % side.slots
                    inside = step % side.steps
                    stays = side is left and plan.keep_a
                    if inside == 0 and (side.fresh or not stays):
                        asc.wait_flag(EVENT.MTE2_MTE1, side.event + slot)
                        side.fresh = False
                    packet = side.packets[slot]
                    if side is left:
                        block_of_a(tile, inside * base_k, depth, packet)
                    else:
                        whole = min(side.steps * base_k, tile.depth - number * side.steps * base_k)
                        block_of_b(tile, inside * base_k, depth, packet, whole)
                    if not stays and (inside == side.steps - 1 or step == last):
                        asc.set_flag(EVENT.MTE1_MTE2, side.event + slot)
                asc.set_flag(EVENT.MTE1_M, turn)
                asc.wait_flag(EVENT.MTE1_M, turn)
                flag = (3 if step == last else 2) if plan.unit_flag else 0
                asc.mmad(
                    result,
                    left.blocks[turn],
                    right.blocks[turn],
                    asc.MmadParams(
                        tile.height, tile.width, depth, unit_flag=flag, cmatrix_init_val=step == 0
                    ),
                )
                asc.set_flag(EVENT.M_MTE1, turn)
                turn ^= 1
                for side in (right, left):  # the next packet is loaded while this one is used up
                    packets = asc.ceildiv(last + 1, side.steps)
                    if plan.slots > 1 and step % side.steps == 0 and side.loaded < packets:
                        load(side, tile, side.loaded, packets)
            if not plan.unit_flag:
                asc.set_flag(EVENT.M_FIX, 0)
                asc.wait_flag(EVENT.M_FIX, 0)
            if plan.ready is not None:
                plan.ready()
            place, row = tile.place + tile.top * n + tile.left, n
            if plan.ring:
                place, row = (core * plan.ring + stored % plan.ring) * base_m * base_n, base_n
            stored += 1
            params = asc.FixpipeParamsV220(
                tile.width,
                tile.height,
                up(tile.height, CUBE),
                row,
                quant_pre=plan.quant,
                unit_flag=3 if plan.unit_flag else 0,
            )
            asc.fixpipe(c_gm[place:], result, params)
            if plan.done is not None:
                plan.done()
            if not plan.unit_flag:
                asc.set_flag(EVENT.FIX_M, 0)
    release()
    if plan.atomic:
        asc.set_atomic_none()
    for slot in range(plan.slots):
        asc.wait_flag(EVENT.MTE1_MTE2, left.event + slot)
        asc.wait_flag(EVENT.MTE1_MTE2, right.event + slot)
    for slot in range(2):
        asc.wait_flag(EVENT.M_MTE1, slot)
    if not plan.unit_flag:
        asc.wait_flag(EVENT.FIX_M, 0)


def tiles(piece: Piece, plan: Plan, k: int) -> Iterator[Piece]:
    """Base tiles of a piece."""
    height, width, _ = plan.base
    tops = range(piece.top, piece.top + piece.height, height)
    lefts = range(piece.left, piece.left + piece.width, width)
    places = [(top, left) for top in tops for left in lefts]
    if not plan.along_rows:
        places = [(top, left) for left in lefts for top in tops]
    for top, left in places:
        rows = min(height, piece.top + piece.height - top)
        columns = min(width, piece.left + piece.width - left)
        yield Piece(top, left, rows, columns, piece.first, piece.depth or k, piece.place)


# --- which core makes what ----------------------------------------------------------------------------------


def by_blocks(size: tuple[int, int, int], single: tuple[int, int], rounds: int = 1) -> Share:
    """One piece of `single` rows and columns a core and round; cores go down the rows first.

    Args:
        size: M, N, K.
        single: Rows and columns of a piece.
        rounds: Parts of M that are made one after the other, so that what they read stays in L2.
    """
    m, n, _ = size
    down = asc.ceildiv(m, single[0] * rounds)

    def share(core: int, cores: int) -> Iterator[Piece]:
        for number in range(rounds):
            top, left = (core % down + number * down) * single[0], core // down * single[1]
            if top < m and left < n:
                yield Piece(top, left, min(single[0], m - top), min(single[1], n - left))

    return share


def swizzled(
    size: tuple[int, int, int], tile: tuple[int, int], offset: int = 3, by_columns: bool = False
) -> Share:
    """Tiles dealt out to the cores in snakes through bands of `offset` tiles (catlass' swizzle).

    Args:
        size: M, N, K.
        tile: Rows and columns of a tile.
        offset: Tiles across a band.
        by_columns: Bands are of columns, not of rows.
    """
    (m, n, _), (height, width) = size, tile
    counts = asc.ceildiv(m, height), asc.ceildiv(n, width)
    across, along = counts[::-1] if by_columns else counts

    def share(core: int, cores: int) -> Iterator[Piece]:
        for number in range(core, across * along, cores):
            band, inside = divmod(number, offset * along)
            thick = min(offset, across - band * offset)
            step, at = divmod(inside, thick)
            if band % 2:
                step = along - 1 - step
            row, column = band * offset + at, step
            if by_columns:
                row, column = column, row
            top, left = row * height, column * width
            yield Piece(top, left, min(height, m - top), min(width, n - left))

    return share
