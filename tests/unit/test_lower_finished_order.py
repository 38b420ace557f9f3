"""Results that vector cores finish, instruction by instruction: the order of the tiles on both sides, the
flags between them, which rows and scales each piece reads, and what is stored where.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import CompileError
from ascendsim.isa.capacity import capacity
from ascendsim.isa.checks import check_block
from ascendsim.isa.hazards import check_hazards
from ascendsim.isa.instructions import Buffer, Move, Pipe, SetFlag, Vector, WaitFlag
from ascendsim.isa.program import Block, CoreKind, TaskKind
from ascendsim.isa.walk import in_order
from ascendsim.lower.templates.finished import FETCHED, SUMS, lower_finished
from ascendsim.lower.templates.stage import Stage
from ascendsim.lower.templates.steps import Expansion
from ascendsim.lower.templates.tiling import Tiling
from ascendsim.opset.work import FinishedProduct
from ascendsim.soc import SocSpec, load
from tests.support.listed_stages import asked

CHIP = "Ascend910B1"


def chip(each: int = 2) -> SocSpec:
    """One AI Core with so many vector cores."""
    return load(CHIP, {"ai_cores": 1, "vector_cores": each})


@dataclass(frozen=True)
class Case:
    """Rows, inner length, columns, batch, tile and which operand is held."""

    m: int
    k: int
    n: int
    tile_m: int
    tile_n: int
    hold: str
    batch: int = 1
    each: int = 2
    bias: bool = False  # of floats, one a column

    @property
    def tiles(self) -> list[tuple[int, int, int, int, int]]:
        """Product, first row, rows, first column, columns in the order of the Cube: the held operand's tile
        stays, the other's come one after the other."""
        rows = [(at, min(self.tile_m, self.m - at)) for at in range(0, self.m, self.tile_m)]
        columns = [(at, min(self.tile_n, self.n - at)) for at in range(0, self.n, self.tile_n)]
        if self.hold == "a":
            flat = [(*row, *column) for row in rows for column in columns]
        else:
            flat = [(*row, *column) for column in columns for row in rows]
        return [(product, *tile) for product in range(self.batch) for tile in flat]

    def work(self) -> FinishedProduct:
        b = asim.GraphBuilder()
        stack = (self.batch,) if self.batch > 1 else ()
        x = b.input("x", (*stack, self.m, self.k), DType.INT8)
        w = b.weight("w", (*stack, self.k, self.n), dtype=DType.INT8)
        scale, rows = b.constant(np.ones(self.n, np.float32), "s"), b.input("t", (self.m,), DType.FLOAT32)
        bias = b.constant(np.ones(self.n, np.float32), "b") if self.bias else None
        inputs = x, w, scale, None, bias, rows
        b.output(b.op("QuantBatchMatmulV3", *inputs, domain="ascend", dtype=DType.FLOAT16), "y")
        work = asked(b.build(), chip(self.each))
        assert isinstance(work, FinishedProduct)
        return work

    def stage(self) -> Stage:
        soc = chip(self.each)
        shares = self.batch, 1, self.m, self.n
        tiling = Tiling(*shares, self.tile_m, self.tile_n, 4, 2, self.hold, 1, 0.0, self.tile_m)
        return lower_finished(self.work(), tiling, soc, Expansion(soc))


CASES = [
    Case(80, 128, 100, 48, 64, "a"),
    Case(80, 128, 100, 48, 64, "b", bias=True),
    Case(33, 64, 72, 32, 32, "", batch=2),
    Case(32, 64, 64, 16, 32, "", each=1),
    Case(100, 64, 300, 64, 256, "b", each=1),  # tiles that UB takes in several pieces
]
EACH_CASE = pytest.mark.parametrize("case", CASES, ids=str)


def sides(case: Case) -> tuple[Block, Block]:
    """The programs of the cube core and of its vector cores."""
    stage = case.stage()
    cube, vector = stage.groups
    assert stage.kind is TaskKind.MIX_AIC
    assert (cube.block.core, vector.block.core) == (CoreKind.CUBE, CoreKind.VECTOR)
    assert (cube.count, vector.count, cube.team) == (1, case.each, vector.team)
    assert [flag.name for flag in cube.block.cross] == [SUMS, FETCHED]
    assert cube.block.cross == vector.block.cross
    for group in stage.groups:
        check_block(group.block, chip(case.each))
        check_hazards(group.block)
    return cube.block, vector.block


def on_pipe(block: Block, pipe: Pipe) -> Iterator[str]:
    """What a pipe does with scratch memory and with the flags between cores."""
    for item, _ in in_order(block.body):
        if isinstance(item, (SetFlag, WaitFlag)) and item.flag in (SUMS, FETCHED):
            assert item.pipe is pipe
            yield f"{'set' if isinstance(item, SetFlag) else 'wait'} {item.flag}"
        elif isinstance(item, Move) and item.pipe is pipe:
            for operand, done in ((item.src, "read"), (item.dst, "write")):
                if "workspace" in operand.name:
                    yield done


@EACH_CASE
def test_a_tile_is_stored_where_there_is_room_and_fetched_where_it_is_there(case: Case) -> None:
    """The Cube waits for room, stores, and says so; vector cores wait for the tile, fetch all pieces, and say
    so. They begin with all room that there is, and the Cube ends when all is free again."""
    cube, vector = sides(case)
    slots, count = case.work().slots, len(case.tiles)
    tile = [f"wait {FETCHED}", "write", f"set {SUMS}"]
    assert list(on_pipe(cube, Pipe.FIX)) == tile * count + [f"wait {FETCHED}"] * slots
    said = list(on_pipe(vector, Pipe.MTE2))
    assert said[:slots] == [f"set {FETCHED}"] * slots
    starts = [at for at, what in enumerate(said) if what == f"wait {SUMS}"]
    assert len(starts) == count
    for first, last in pairwise([*starts, len(said)]):
        inner = said[first + 1 : last - 1]
        assert inner == ["read"] * len(inner) != []
        assert said[last - 1] == f"set {FETCHED}"


@EACH_CASE
def test_the_cube_stores_whole_sums_of_the_tiles_in_order(case: Case) -> None:
    cube, _ = sides(case)
    stores = [item for item, _ in in_order(cube.body) if isinstance(item, Move) and item.pipe is Pipe.FIX]
    assert [move.bytes for move in stores] == [4 * rows * columns for _, _, rows, _, columns in case.tiles]
    assert {(move.bursts, move.kind, move.dst.offset.base) for move in stores} == {(1, "fixpipe", 0)}
    for move, (_, _, rows, _, columns) in zip(stores, case.tiles, strict=True):
        assert move.src.bytes == 4 * (-(-rows // 16) * 16) * (-(-columns // 16) * 16)  # whole fractals


def pieces(case: Case) -> list[dict[str, Any]]:
    """Bytes and offsets of what a vector core reads and stores, piece by piece; it stores after it reads."""
    _, vector = sides(case)
    found: list[dict[str, Any]] = []
    for item, at in in_order(vector.body):
        if isinstance(item, Move):
            operand = item.dst if item.dst.buffer is Buffer.GM else item.src
            name = "sums" if "workspace" in operand.name else operand.name
            if name == "sums":
                found.append({"steps": []})
            found[-1][name] = (operand.offset.at(at), item)
        elif isinstance(item, Vector):
            found[-1]["steps"].append(item)
    return found


@EACH_CASE
def test_rows_of_a_tile_meet_their_scales_and_go_to_their_place(case: Case) -> None:
    """A vector core takes its even part of a tile's rows, the first of them here."""
    found = iter(pieces(case))
    for product, first, rows, left, columns in case.tiles:
        own, done = -(-rows // case.each), 0
        while done < own:
            piece = next(found)
            _, sums = piece["sums"]
            height = sums.bytes // (4 * columns)
            assert sums.bytes == 4 * columns * height
            assert {"s", "t", "y"} | ({"b"} if case.bias else set()) == piece.keys() - {"sums", "steps"}
            for name in ("s", "b") if case.bias else ("s",):
                at, scale = piece[name]
                assert (at, scale.bytes) == (4 * left, 4 * columns)
            at, scale = piece["t"]
            assert scale.bytes == 4 * height
            assert at == 4 * (first + done)
            at, result = piece["y"]
            assert at == 2 * ((product * case.m + first + done) * case.n + left)
            assert (result.bursts, result.burst_bytes) in (
                (height, 2 * columns),
                (1, 2 * columns * height),  # rows that lie one behind the other
            )
            assert height == 1 or result.bursts == 1 or result.dst_stride == 2 * case.n
            done += height
        assert done == own
    assert next(found, None) is None


@EACH_CASE
def test_the_steps_run_on_every_element_of_a_piece_in_the_order_of_the_formula(case: Case) -> None:
    """(sum as a float) x scale of the column x scale of the row (+ bias), and rounded: the first step reads
    the sums, the others what it has made."""
    for piece in pieces(case):
        _, sums = piece["sums"]
        steps = piece["steps"]
        names = ["vconv", "vmul", "vmul", *(["vadd"] if case.bias else []), "vconv"]
        assert [step.op for step in steps] == names
        assert {step.dtype for step in steps} == {"float32"}
        for step in steps:
            assert step.elements * step.calls >= sums.bytes // 4
            if step.op == "vconv":
                assert step.elements * step.calls == sums.bytes // 4
        assert [step.srcs[0].name for step in steps] == ["in_0", *["out"] * (len(steps) - 1)]
        assert {step.dst.name for step in steps} == {"out"}


def test_pieces_are_as_tall_as_the_unified_buffer_lets_them() -> None:
    """Two of each are there at a time: sums, results as floats, scales. One row more would be too much."""
    case = CASES[-1]
    heights = [piece["sums"][1].bytes // (4 * case.tile_n) for piece in pieces(case)[:2]]
    room = capacity(chip(), Buffer.UB)

    def held(rows: int) -> int:
        return 2 * (rows * case.tile_n * (4 + 4) + rows * 4 + case.tile_n * 4)

    assert max(heights) < case.tile_m
    assert held(max(heights)) <= room < held(max(heights) + 1) + 2 * 3 * 32  # blocks are whole


@EACH_CASE
def test_the_next_piece_comes_and_the_last_one_goes_while_one_is_worked_on(case: Case) -> None:
    """Two slots of everything; of scales as much as a piece needs."""
    _, vector = sides(case)
    places = {place.name: place for place in vector.allocations}
    assert {place.slots for place in places.values()} == {2}
    assert set(places) == {"out", *(f"in_{part}" for part in range(3 + case.bias))}
    rows = places["in_0"].slot_bytes // (4 * min(case.tile_n, case.n))
    assert places["out"].slot_bytes == places["in_0"].slot_bytes
    columns = -(-min(case.tile_n, case.n) * 4 // 32) * 32
    assert places["in_1"].slot_bytes == columns
    assert places["in_2"].slot_bytes == -(-rows * 4 // 32) * 32
    if case.bias:
        assert places["in_3"].slot_bytes == columns


def test_rows_of_a_grouped_product_have_scales_of_their_own() -> None:
    """As many scales as rows of all groups: each group reads its own, in order."""
    case = CASES[2]
    work = case.work()
    token = work.product.epilogue_inputs[1]
    whole = replace(token, ref=replace(token.ref, shape=(2 * case.m,), bytes=8 * case.m))
    streams = (work.product.epilogue_inputs[0], whole, *work.product.epilogue_inputs[2:])
    grouped = replace(work, product=replace(work.product, epilogue_inputs=streams))
    tiling = Tiling(2, 1, case.m, case.n, 32, 96, 4, 2, "", 1, 0.0, 32)
    block = lower_finished(grouped, tiling, chip(), Expansion(chip())).groups[1].block
    read = [
        item.src.offset.at(at) // 4
        for item, at in in_order(block.body)
        if isinstance(item, Move) and item.src.name == "t"
    ]
    assert read == [0, 32, case.m, case.m + 32]


def test_one_chip_has_no_cores_of_its_own_for_this() -> None:
    case = CASES[0]
    tiling = Tiling(1, 1, case.m, case.n, 48, 64, 4, 2, "a", 1, 0.0, 48)
    soc = load("Ascend310P3")
    with pytest.raises(CompileError, match="need cube and vector cores that are apart"):
        lower_finished(case.work(), tiling, soc, Expansion(soc))


@pytest.mark.parametrize(("share_m", "share_n"), [(40, 100), (80, 50), (32, 64), (48, 32)])
def test_shares_are_teams_that_store_all_rows_and_columns_together(share_m: int, share_n: int) -> None:
    """Each cube core with its vector cores; what teams store adds up to the result."""
    case, soc = CASES[0], load(CHIP)
    tiling = Tiling(1, 1, share_m, share_n, 16, 32, 4, 2, "", 1, 0.0, 16)
    stage = lower_finished(case.work(), tiling, soc, Expansion(soc))
    cubes, vectors = stage.groups[::2], stage.groups[1::2]
    assert sum(group.count for group in cubes) == -(-case.m // share_m) * -(-case.n // share_n)
    assert [group.team for group in cubes] == [group.team for group in vectors] == list(range(len(cubes)))
    assert [group.count for group in vectors] == [2 * group.count for group in cubes]

    def stored(groups: Any, pipe: Pipe) -> int:
        return sum(
            group.count * item.bytes
            for group in groups
            for item, _ in in_order(group.block.body)
            if isinstance(item, Move) and item.pipe is pipe
        )

    assert stored(cubes, Pipe.FIX) == 4 * case.m * case.n
    assert stored(vectors, Pipe.MTE3) == 2 * case.m * case.n
    assert stage.inside == {case.work().sums.region}
    assert stage.sizes["y"] == 2 * case.m * case.n
