"""Flash attention of one head of 128 with cube and vector cores: softmax(q k^T / sqrt(128)) v.

Sizes, addresses, buffers, flags and the order of work follow pto-isa's kernels/manual/common/flash_atten in
its default tiling: a cube core has 128 rows of q, scores and weights go through rings of 8 tiles of 256 keys
in global memory, scores are made 4 tiles ahead of the weighted sums, and each vector core takes a half of the
rows, 32 at a time. With which tiling a published time was measured is not said beside it.
"""

from __future__ import annotations

from collections.abc import Callable

from published.row import Row, empty

from ascendsim import asc

ROWS, WIDTH, TILE, SUB = 128, 128, 256, 128  # of q and of a head; keys of a tile and of a product
SLICE, HALF = 32, 64  # rows that a vector core works on at once, and has in all
RING, PERIOD, AHEAD = 8, 4, 4  # tiles of a ring, between two messages that it is free, of scores made ahead
SCORES, WEIGHTS, SUMS = 0, 2, 4  # flags: tiles are there; the next number says that they are free
EVENT, PIPE, POS, F32, F16 = asc.HardEvent, asc.PipeID, asc.TPosition, asc.float32, asc.float16
SQUARE = ROWS * SUB


def local(dtype: asc.DataType, position: asc.TPosition, place: int, count: int) -> asc.LocalTensor:
    """A tensor at an address."""
    return asc.LocalTensor(dtype, position, place, count)


def then(event: asc.HardEvent, number: int = 0) -> None:
    """The second pipe of a pair goes on when the first one has done all before this."""
    asc.set_flag(event, number)
    asc.wait_flag(event, number)


class Ring:
    """Tiles in global memory between cube and vector cores.

    Args:
        flag: Number of the flag that a tile is there.
        full, free: Pipes that fill tiles and empty them.
    """

    def __init__(self, flag: int, full: asc.PipeID, free: asc.PipeID) -> None:
        self.flag, self.full, self.free = flag, full, free
        self.made = self.taken = self.waited = 0

    def allocate(self) -> None:
        """The producer waits until a place is free."""
        if self.made >= RING and self.made % PERIOD == 0:
            self._wait()

    def push(self) -> None:
        """The producer has filled a place."""
        asc.cross_core_set_flag(self.flag, 2, self.full)
        self.made += 1

    def pop(self) -> None:
        """The consumer waits for a place that is filled."""
        asc.cross_core_wait_flag(self.flag, 2)

    def release(self) -> None:
        """The consumer has read it."""
        self.taken += 1
        if self.taken % PERIOD == 0:
            asc.cross_core_set_flag(self.flag + 1, 2, self.free)

    def drain(self) -> None:
        """The producer takes the last messages back."""
        while self.waited < self.made // PERIOD:
            self._wait()

    def _wait(self) -> None:
        asc.cross_core_wait_flag(self.flag + 1, 2)
        self.waited += 1


def rings() -> tuple[Ring, Ring, Ring]:
    """Scores, weights, and products of weights and values."""
    return (
        Ring(SCORES, PIPE.PIPE_FIX, PIPE.PIPE_MTE2),
        Ring(WEIGHTS, PIPE.PIPE_MTE3, PIPE.PIPE_MTE2),
        Ring(SUMS, PIPE.PIPE_FIX, PIPE.PIPE_MTE2),
    )


class _Cube:
    """A cube core: products of tiles of 128 x 128 x 128, two of everything but q."""

    def __init__(self, memory: tuple[asc.GlobalTensor, ...]) -> None:
        self.q, self.k, self.v, self.scores, self.weights, self.sums = memory
        self.rings = rings()
        at = [local(F16, POS.A1, 2 * SQUARE * number, SQUARE) for number in range(7)]
        self.q_near, self.k_near, self.p_near, self.v_near = at[0], at[1:3], at[3:5], at[5:7]
        self.left, self.right = (
            [local(F16, pos, 32768 * side, SQUARE) for side in range(2)] for pos in (POS.A2, POS.B2)
        )
        self.results = [local(F32, POS.CO1, 65536 * side, SQUARE) for side in range(2)]
        self.turn = self.keys = self.values = self.side = 0

    def next_result(self) -> asc.LocalTensor:
        """The other half of L0C."""
        self.side ^= 1
        return self.results[self.side]

    def product(
        self, left: asc.LocalTensor, right: asc.LocalTensor, result: asc.LocalTensor, turned: bool, how: str
    ) -> None:
        """Left times right, or right^T if not turned, 128 x 128 x 128."""
        asc.wait_flag(EVENT.M_MTE1, self.turn)
        whole = asc.LoadData3DParamsV2(l1_h=1, l1_w=ROWS, channel_size=SUB, k_extension=SUB, m_extension=ROWS)
        asc.load_data(self.left[self.turn], left, whole)
        if turned:
            side = asc.LoadData3DParamsV2(
                l1_h=1, l1_w=SUB, channel_size=WIDTH, k_extension=WIDTH, m_extension=SUB, en_transpose=True
            )
        else:
            side = asc.LoadData2DParams(0, SQUARE // 256, 1)
        asc.load_data(self.right[self.turn], right, side)
        then(EVENT.MTE1_M, self.turn)
        unit = 3 if "last" in how else 2
        params = asc.MmadParams(ROWS, SUB, WIDTH, unit_flag=unit, cmatrix_init_val="first" in how)
        asc.mmad(result, self.left[self.turn], self.right[self.turn], params)
        asc.set_flag(EVENT.M_MTE1, self.turn)
        self.turn ^= 1

    def store(self, place: asc.GlobalTensor, result: asc.LocalTensor) -> None:
        """A result to global memory."""
        asc.fixpipe(place, result, asc.FixpipeParamsV220(SUB, ROWS, ROWS, SUB, unit_flag=3))

    def score(self, tile: int, sub: int, result: asc.LocalTensor) -> None:
        """The scores of 128 keys."""
        ring, slot = self.rings[0], self.keys % 2
        self.keys += 1
        if sub == 0:
            ring.allocate()
        asc.wait_flag(EVENT.MTE1_MTE2, slot)
        square = asc.Nd2NzParams(1, ROWS, WIDTH, 0, WIDTH, ROWS, 1, 0)
        if tile == 0 and sub == 0:
            asc.data_copy(self.q_near, self.q, square)
        asc.data_copy(self.k_near[slot], self.k[(tile * TILE + sub * SUB) * WIDTH :], square)
        then(EVENT.MTE2_MTE1)
        self.product(self.q_near, self.k_near[slot], result, False, "first and last")
        asc.set_flag(EVENT.MTE1_MTE2, slot)
        self.store(self.scores[tile % RING * ROWS * TILE + sub * SQUARE :], result)
        if sub == TILE // SUB - 1:
            ring.push()

    def weigh(self, tile: int, sub: int, result: asc.LocalTensor) -> None:
        """Weights of 128 keys times their values."""
        _, given, ring = self.rings
        slot, last = self.values % 2, sub == TILE // SUB - 1
        self.values += 1
        if sub == 0:
            given.pop()
        asc.wait_flag(EVENT.MTE1_MTE2, 2 + slot)
        square = asc.Nd2NzParams(1, ROWS, WIDTH, 0, WIDTH, ROWS, 1, 0)
        asc.data_copy(self.v_near[slot], self.v[(tile * TILE + sub * SUB) * WIDTH :], square)
        asc.data_copy(self.p_near[slot], self.weights[tile % RING * ROWS * TILE + sub * SQUARE :], square)
        if last:
            given.release()
        then(EVENT.MTE2_MTE1)
        how = ("first " if sub == 0 else "") + ("last" if last else "")
        self.product(self.p_near[slot], self.v_near[slot], result, True, how)
        asc.set_flag(EVENT.MTE1_MTE2, 2 + slot)
        if last:
            ring.allocate()
            self.store(self.sums[tile % RING * SQUARE :], result)
            ring.push()

    def run(self, tiles: int) -> None:
        """All tiles."""
        for number in range(2):
            asc.set_flag(EVENT.M_MTE1, number)
        for number in range(4):
            asc.set_flag(EVENT.MTE1_MTE2, number)
        for tile in range(min(AHEAD, tiles)):
            for sub in range(TILE // SUB):
                self.score(tile, sub, self.next_result())
        for tile in range(tiles):
            more = tile + AHEAD < tiles
            scores = self.next_result() if more else self.results[0]
            sums = self.next_result()
            for sub in range(TILE // SUB):
                if more:
                    self.score(tile + AHEAD, sub, scores)
                self.weigh(tile, sub, sums)
        self.rings[0].drain()
        self.rings[2].drain()
        for number in range(2):
            asc.wait_flag(EVENT.M_MTE1, number)
        for number in range(4):
            asc.wait_flag(EVENT.MTE1_MTE2, number)


class _Vector:
    """A vector core: the softmax of 64 rows, 32 at a time, and their weighted sums."""

    def __init__(self, memory: tuple[asc.GlobalTensor, ...]) -> None:
        self.scores, self.weights, self.sums, self.out = memory
        self.rings = rings()
        place = 0

        def room(dtype: asc.DataType, count: int) -> asc.LocalTensor:
            nonlocal place
            tensor = local(dtype, POS.VECCALC, place, count)
            place += count * dtype.sizeof()
            return tensor

        self.total = room(F32, HALF * WIDTH)
        self.near = [room(F32, SLICE * TILE) for _ in range(2)]  # scores, and weighted sums of tiles
        self.fresh, self.peak = room(F32, HALF), room(F32, HALF)
        self.fold, self.folded = room(F32, SLICE * TILE // 8), room(F32, SLICE * TILE // 16)
        self.part, self.share = room(F32, HALF), room(F32, HALF)
        self.decay = [room(F32, HALF) for _ in range(RING)]
        self.softened = [room(F16, SLICE * TILE) for _ in range(2)]
        self.spread = room(F32, HALF * 8)
        self.turn = 0

    def reduced(self, to: asc.LocalTensor, tile: asc.LocalTensor, largest: bool) -> None:
        """A number a row of 32 x 256."""
        group, pair = (asc.block_reduce_max, asc.max) if largest else (asc.block_reduce_sum, asc.add)
        twos = asc.BinaryRepeatParams(1, 2, 2, 8, 16, 16)
        group(self.fold, tile, SLICE * 4, 64, 1, 1, 8)
        barrier()
        pair(self.folded, self.fold, self.fold[8:], 64, SLICE // 4, twos)
        barrier()
        pair(self.fold, self.folded, self.folded[8:], 64, SLICE // 8, twos)
        barrier()
        group(to, self.fold, SLICE // 8, 64, 1, 1, 8)
        barrier()

    def by_rows(
        self,
        call: Callable[..., None],
        tile: asc.LocalTensor,
        numbers: asc.LocalTensor,
        rows: int,
        columns: int,
    ) -> None:
        """Applies a number a row to all columns."""
        asc.brcb(self.spread, numbers, rows // 8, asc.BrcbRepeatParams(1, 8))
        barrier()
        step = columns // 8
        for column in range(0, columns, 64):
            part = tile[column:]
            call(part, part, self.spread, 64, rows, asc.BinaryRepeatParams(1, 1, 0, step, step, 1))

    def soften(self, tile: int, part: int) -> None:
        """Weights of 32 rows and 256 keys."""
        given, ring, _ = self.rings
        turn, self.turn = self.turn % 2, self.turn + 1
        first, last = part == 0, part == HALF // SLICE - 1
        x, p = self.near[turn], self.softened[turn]
        asc.wait_flag(EVENT.V_MTE2, turn)
        if first:
            given.pop()
        where = tile % RING * ROWS * TILE + part * SLICE * SUB
        for sub in range(TILE // SUB):
            row = SUB * 4 // 32
            asc.data_copy(
                x[sub * SUB :], self.scores[where + sub * SQUARE :], asc.DataCopyParams(SLICE, row, 0, row)
            )
        if last:
            given.release()
        then(EVENT.MTE2_V)
        asc.wait_flag(EVENT.MTE3_V, turn)
        self.softmax(tile, part * SLICE, x, p)
        asc.set_flag(EVENT.V_MTE2, turn)
        then(EVENT.V_MTE3)
        if first:
            ring.allocate()
        for sub in range(TILE // SUB):
            row = SUB * 2 // 32
            asc.data_copy(
                self.weights[where + sub * SQUARE :], p[sub * SUB :], asc.DataCopyParams(SLICE, row, row, 0)
            )
        if last:
            ring.push()
        asc.set_flag(EVENT.MTE3_V, turn)

    def softmax(self, tile: int, row: int, x: asc.LocalTensor, p: asc.LocalTensor) -> None:
        """Weights p = exp(scale (x - peak)); brings peak, sums and decay of what came before up to date."""
        scale, count = WIDTH**-0.5, SLICE * TILE
        peak, share = self.peak[row:], self.share[row:]
        if tile == 0:
            self.reduced(peak, x, True)
            self.by_rows(asc.sub, x, peak, SLICE, TILE)
            asc.muls(x, x, scale, count)
            asc.exp(x, x, count)
            barrier()
            self.reduced(share, x, False)
            asc.cast(p, x, asc.RoundMode.CAST_ROUND, count)
            return
        fresh, part, decay = self.fresh[row:], self.part[row:], self.decay[tile % RING][row:]
        self.reduced(fresh, x, True)
        asc.max(fresh, fresh, peak, SLICE)
        barrier()
        asc.sub(decay, peak, fresh, SLICE)
        barrier()
        asc.muls(peak, fresh, 1.0, SLICE)
        barrier()
        self.by_rows(asc.sub, x, fresh, SLICE, TILE)
        asc.muls(decay, decay, scale, SLICE)
        asc.muls(x, x, scale, count)
        asc.exp(decay, decay, SLICE)
        asc.exp(x, x, count)
        asc.cast(p, x, asc.RoundMode.CAST_ROUND, count)
        barrier()
        asc.mul(share, decay, share, SLICE)
        self.reduced(part, x, False)
        asc.add(share, share, part, SLICE)

    def add_up(self, tile: int, tiles: int) -> None:
        """The weighted sums of a tile, to those of the ones before it."""
        ring = self.rings[2]
        turn, self.turn = self.turn % 2, self.turn + 1
        asc.wait_flag(EVENT.V_MTE2, turn)
        ring.pop()
        fresh = self.total if tile == 0 else self.near[turn]
        asc.data_copy(fresh, self.sums[tile % RING * SQUARE :], HALF * WIDTH)
        ring.release()
        then(EVENT.MTE2_V)
        if tile:
            self.by_rows(asc.mul, self.total, self.decay[tile % RING], HALF, WIDTH)
            asc.add(self.total, self.total, fresh, HALF * WIDTH)
        if tile == tiles - 1:
            self.by_rows(asc.div, self.total, self.share, HALF, WIDTH)
        asc.set_flag(EVENT.V_MTE2, turn)

    def run(self, tiles: int) -> None:
        """All tiles."""
        for number in range(2):
            asc.set_flag(EVENT.V_MTE2, number)
            asc.set_flag(EVENT.MTE3_V, number)
        for tile in range(min(AHEAD, tiles)):
            for part in range(HALF // SLICE):
                self.soften(tile, part)
        for tile in range(tiles):
            if tile + AHEAD < tiles:
                for part in range(HALF // SLICE):
                    self.soften(tile + AHEAD, part)
            self.add_up(tile, tiles)
        then(EVENT.V_MTE3)
        asc.data_copy(self.out, self.total, HALF * WIDTH)
        self.rings[1].drain()
        for number in range(2):
            asc.wait_flag(EVENT.V_MTE2, number)
            asc.wait_flag(EVENT.MTE3_V, number)


def barrier() -> None:
    """Order within the vector unit, as the source has it."""
    asc.pipe_barrier(PIPE.PIPE_V)


def on(address: asc.GlobalAddress) -> asc.GlobalTensor:
    """A tensor at an address."""
    tensor = asc.GlobalTensor()
    tensor.set_global_buffer(address)
    return tensor


@asc.jit
def attention(
    q: asc.GlobalAddress, k: asc.GlobalAddress, v: asc.GlobalAddress, out: asc.GlobalAddress,
    scores: asc.GlobalAddress, weights: asc.GlobalAddress, sums: asc.GlobalAddress, keys: int,
) -> None:  # fmt: skip
    """out[rows, 128] float32 of q[rows, 128], k and v[keys, 128] float16; 128 rows a team."""
    team = asc.get_block_idx() if asc.ascend_is_aic() else asc.get_block_idx() // asc.get_task_ratio()
    half = 0 if asc.ascend_is_aic() else asc.get_sub_block_idx() * HALF
    tile = team * RING * ROWS * TILE
    inside = on(scores + tile + half * SUB), on(weights + tile + half * SUB)
    sums_gm = on(sums + team * RING * SQUARE + half * WIDTH)
    row = (team * ROWS + half) * WIDTH
    if asc.ascend_is_aic():
        _Cube((on(q + row), on(k), on(v), *inside, sums_gm)).run(keys // TILE)
    if asc.ascend_is_aiv():
        _Vector((*inside, sums_gm, on(out + row))).run(keys // TILE)


def room(teams: int) -> tuple:
    """Scores, weights and sums between the cores."""
    return (
        empty(teams, RING, ROWS * TILE, dtype="float32"),
        empty(teams, RING, ROWS * TILE),
        empty(teams, RING, SQUARE, dtype="float32"),
    )


def rows() -> list[Row]:
    """Rows 111 to 126: 1, 2, 4 and 8 cores by 1,024 to 8,192 keys."""

    def row(number: int, teams: int, keys: int) -> Row:
        def args() -> tuple:
            q, out = empty(teams * ROWS, WIDTH), empty(teams * ROWS, WIDTH, dtype="float32")
            return q, empty(keys, WIDTH), empty(keys, WIDTH), out, *room(teams), keys

        return Row(number, attention, teams, args)

    sizes = [(teams, keys) for teams in (1, 2, 4, 8) for keys in (1024, 2048, 4096, 8192)]
    return [row(111 + at, teams, keys) for at, (teams, keys) in enumerate(sizes)]
