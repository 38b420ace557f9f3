"""Products of int8 in groups of rows, each with weights of its own; vector cores bring the int32 back by a
factor a column and a factor a row, apply a fast GELU and convert to float16.

Sizes and the order of work follow asc-devkit's quant_group_matmul_high_performance: a cube core stores blocks
of 128 x 256 into a ring in a workspace, its vector cores take 24 rows of them at a time. The library's
product is written as published.matmul has it, with the same tiling.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from published.matmul import Piece, Plan, Share, matmul, on, tiles
from published.row import Row, empty

from ascendsim import asc

THERE, FREE = 5, 3  # flags: a block is stored; its place is free
ROWS, LANES = 24, 64  # of a block in UB at once


class Groups(NamedTuple):
    """Sizes.

    Attributes:
        count, rows: Groups, and rows of each.
        n, k: Columns and depth of the weights of a group.
        single: Rows and columns that a core makes before it goes on.
    """

    count: int
    rows: int
    n: int
    k: int
    single: tuple[int, int]


def dealt(groups: Groups) -> Share:
    """Pieces row by row, dealt out to the cores through all groups, whose weights stand side by side."""
    height, width = groups.single
    places = [
        Piece(group * groups.rows + top, group * groups.n + left, height, width)
        for group in range(groups.count)
        for top in range(0, groups.rows, height)
        for left in range(0, groups.n, width)
    ]

    def share(core: int, cores: int) -> Iterator[Piece]:
        yield from places[core::cores]

    return share


class _Stage:
    """What a vector core does with blocks."""

    def __init__(self, scale, token, y, groups: Groups, plan: Plan) -> None:
        self.scale, self.token, self.y = on(scale), on(token), on(y)
        self.groups, self.width = groups, plan.base[1]
        self.pipe, count = asc.TPipe(), ROWS * plan.base[1]
        self.factors, self.tokens, self.sums = [asc.TQue(asc.TPosition.VECIN, 2) for _ in range(3)]
        self.out = asc.TQue(asc.TPosition.VECOUT, 2)
        for queue, size in (
            (self.factors, self.width * 4), (self.tokens, plan.base[0] * 4), (self.sums, count * 4),
            (self.out, count * 2),
        ):  # fmt: skip
            self.pipe.init_buffer(queue, 2, size)
        buffer = asc.TBuf(asc.TPosition.VECCALC)
        self.pipe.init_buffer(buffer, 4 * count * 4)
        room = buffer.get(asc.float32)
        self.wide, self.spread, self.made, self.soft = (room[at * count :] for at in range(4))

    def _load(
        self, queue: asc.TQue, source: asc.GlobalTensor, count: int, dtype=asc.float32
    ) -> asc.LocalTensor:
        local = queue.alloc_tensor(dtype)
        asc.data_copy_pad(local, source, asc.DataCopyExtParams(1, count * 4, 0, 0))
        queue.enque(local)
        return local

    def block(self, sums: asc.GlobalTensor, tile: Piece, workers: int) -> None:
        """A block of which each vector core takes every second part, or one of them all."""
        me = asc.get_sub_block_idx()
        left = tile.left % self.groups.n
        self._load(self.factors, self.scale[tile.left :], tile.width)
        factors = self.factors.deque(asc.float32)
        asc.cross_core_wait_flag(THERE, 2)
        for number, top in enumerate(range(0, tile.height, ROWS)):
            if me < workers and (number + 1) % workers == me:
                rows = min(ROWS, tile.height - top)
                self._part(sums[top * tile.width :], factors, (tile.top + top, left, rows, tile.width))
        self.factors.free_tensor(factors)
        asc.cross_core_set_flag(FREE, 2, asc.PipeID.PIPE_MTE2)

    def _part(
        self, sums: asc.GlobalTensor, factors: asc.LocalTensor, place: tuple[int, int, int, int]
    ) -> None:
        (top, left, rows, width), count = place, place[2] * place[3]
        across = width // 8
        self._load(self.sums, sums, count, asc.int32)
        self._load(self.tokens, self.token[top:], rows)
        tokens = self.tokens.deque(asc.float32)
        asc.brcb(self.made, tokens, asc.ceildiv(rows, 8), asc.BrcbRepeatParams(1, 8))
        for at in range(0, width, LANES):
            asc.copy(self.spread[at:], self.made, LANES, rows, asc.CopyRepeatParams(1, 0, across, 1))
        self.tokens.free_tensor(tokens)
        given = self.sums.deque(asc.int32)
        asc.cast(self.soft, given, asc.RoundMode.CAST_NONE, count)
        same = asc.BinaryRepeatParams(1, 1, 1, across, across, 0)
        for at in range(0, width, LANES):
            asc.mul(self.soft[at:], self.soft[at:], factors[at:], LANES, rows, same)
        asc.adds(self.wide, self.soft, 0.0, count)  # how the library copies
        self.sums.free_tensor(given)
        asc.mul(self.made, self.wide, self.spread, count)
        asc.muls(self.wide, self.made, -1.702, count)
        asc.exp(self.wide, self.wide, count)
        asc.adds(self.wide, self.wide, 1.0, count)
        asc.div(self.soft, self.made, self.wide, count)
        made = self.out.alloc_tensor(asc.float16)
        asc.cast(made, self.soft, asc.RoundMode.CAST_NONE, count)
        self.out.enque(made)
        made = self.out.deque(asc.float16)
        n = self.groups.n
        asc.data_copy_pad(
            self.y[top * n + left :], made, asc.DataCopyExtParams(rows, width * 2, 0, (n - width) * 2)
        )
        self.out.free_tensor(made)


@asc.jit
def grouped_matmul(
    x: asc.GlobalAddress, weight: asc.GlobalAddress, scale: asc.GlobalAddress, token: asc.GlobalAddress,
    work: asc.GlobalAddress, y: asc.GlobalAddress, groups: Groups, plan: Plan, workers: int,
) -> None:  # fmt: skip
    """y[rows, n] float16 = gelu((x weight) scale token); weights of a group are n / 32 x k x 32 int8."""
    share, stored, ring = dealt(groups), 0, plan.ring

    def ready() -> None:
        nonlocal stored
        if stored >= ring:
            asc.cross_core_wait_flag(FREE, 2)
        stored += 1

    def done() -> None:
        asc.cross_core_set_flag(THERE, 2, asc.PipeID.PIPE_FIX)

    if asc.ascend_is_aic():
        size = groups.count * groups.rows, groups.count * groups.n, groups.k
        matmul(x, weight, work, size, plan._replace(ready=ready, done=done), share)
        for _ in range(min(stored, ring)):
            asc.cross_core_wait_flag(FREE, 2)
    if asc.ascend_is_aiv():
        stage, team = _Stage(scale, token, y, groups, plan), asc.get_block_idx() // asc.get_task_ratio()
        for piece in share(team, asc.get_block_num()):
            for tile in tiles(piece, plan, groups.k):
                place = team * ring + stored % ring
                stage.block(on(work)[place * plan.base[0] * plan.base[1] :], tile, workers)
                stored += 1


def arrays(groups: Groups, plan: Plan, cores: int) -> tuple:
    """Operands, factors, workspace and result."""
    rows, columns = groups.count * groups.rows, groups.count * groups.n
    operands = empty(rows, groups.k, dtype="int8"), empty(columns // 32, groups.k, 32, dtype="int8")
    factors = empty(columns, dtype="float32"), empty(rows, dtype="float32")
    block = plan.base[0] * plan.base[1]
    return *operands, *factors, empty(cores * plan.ring, block, dtype="int32"), empty(rows, groups.n)


def rows() -> list[Row]:
    """Rows 56 to 58: one vector core a cube core, two, and two with four blocks under way."""
    groups = Groups(8, 1024, 8192, 1024, (128, 1024))
    plan = Plan(base=(128, 256, 128), steps=(8, 4), fractals=True, unit_flag=True, keep_a=True)

    def row(number: int, ring: int, workers: int, note: str = "") -> Row:
        whole = plan._replace(ring=ring)

        def args() -> tuple:
            return *arrays(groups, whole, 24), groups, whole, workers

        return Row(number, grouped_matmul, 24, args, note=note)

    idle = "each cube core has two vector cores, the second of which only answers"
    return [row(56, 1, 1, idle), row(57, 1, 2), row(58, 4, 2)]
