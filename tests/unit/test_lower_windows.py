"""Pooling: tiles of rows of the result, with all input rows that their windows touch; counted one by one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from ascendsim.core.errors import CompileError
from ascendsim.core.formats import Format
from ascendsim.isa.instructions import Move, Pipe
from ascendsim.isa.program import BlockGroup
from ascendsim.isa.walk import in_order
from ascendsim.lower.templates.steps import Expansion
from ascendsim.lower.templates.vector import lower_vector
from ascendsim.opset.work import RowWindows, Step, Stream, VectorWork
from ascendsim.soc import load
from tests.support.lowering import moved, ref, verify


def windows(random: Random, most: int = 30) -> RowWindows:
    """Windows of which each touches the map."""
    span = random.randint(1, 5)
    before, after, stride = random.randrange(span), random.randrange(span), random.randint(1, 4)
    height = random.randint(max(1, span - before - after), most)
    return RowWindows(height, (height + before + after - span) // stride + 1, span, stride, before)


def touched(of: RowWindows, first: int, count: int) -> set[int]:
    """Input rows under some rows of the result."""
    rows = set()
    for number in range(first, first + count):
        which, row = divmod(number, of.made)
        for place in range(row * of.stride - of.before, row * of.stride - of.before + of.span):
            if 0 <= place < of.height:
                rows.add(which * of.height + place)
    return rows


def pooling(of: RowWindows, images: int, channels: int, width: int) -> VectorWork:
    """A maximum over windows of maps in rows."""
    x, y = (
        ref(name, (images, channels, rows, width), Format.ND)
        for name, rows in (("x", of.height), ("y", of.made))
    )
    rows, steps = images * channels * of.made, (Step("vmax", run=width, count=2),)
    return VectorWork(
        rows, width, steps, (Stream(x),), (Stream(y),), gather_bytes=of.height * width * 2, windows=of
    )


def tiles(groups: Iterable[BlockGroup], work: VectorWork) -> list[tuple[int, int, int]]:
    """Of every tile of every core: first row of the result, how many, bytes that are loaded for them."""
    found = []
    for group in groups:
        for origin in group.origins:
            at = dict(origin)["@row"]
            sizes: dict[Pipe, list[int]] = {Pipe.MTE2: [], Pipe.MTE3: []}
            for one, _ in in_order(group.block.body, dict(origin)):
                if isinstance(one, Move):
                    sizes[one.pipe].append(one.bytes)
            for loaded, stored in zip(sizes[Pipe.MTE2], sizes[Pipe.MTE3], strict=True):
                rows, rest = divmod(stored, work.cols * 2)
                assert not rest
                found.append((at, rows, loaded))
                at += rows
    return found


def test_rows_under_windows_are_those_that_they_touch() -> None:
    random = Random(3)
    for _ in range(300):
        of = windows(random)
        first, count = random.randrange(3 * of.made), random.randint(1, 2 * of.made)
        rows = touched(of, first, count)
        assert of.under(first, count) == (min(rows), max(rows) + 1), (of, first, count)


def test_a_share_loads_the_rows_that_its_windows_touch() -> None:
    """Loads for tiles of one length are one instruction: that of the tile that touches most rows."""
    random, halos, borders = Random(4), 0, 0
    for _ in range(60):
        of, width = windows(random), random.choice([8, 16, 40])
        soc = load(random.choice(["Ascend310", "Ascend910A", "Ascend910B1"]))
        work = pooling(of, random.randint(1, 4), random.randint(1, 60), width)
        stage = lower_vector(work, soc, Expansion(soc, noted=True))
        verify([stage], soc)
        assert sum(count for _, count, _ in tiles(stage.groups, work)) == work.rows
        for group in stage.groups:
            needed: dict[int, int] = {}
            given: dict[int, set[int]] = {}
            for first, count, loaded in tiles([group], work):
                rows = touched(of, first, count)
                needed[count] = max(needed.get(count, 0), max(rows) + 1 - min(rows))
                given.setdefault(count, set()).add(loaded)
                halos += count % of.made > 0
                borders += first // of.made < (first + count - 1) // of.made
            assert given == {count: {rows * width * 2} for count, rows in needed.items()}, (of, needed)
    assert min(halos, borders) > 100


def test_whole_maps_are_read_once_and_cut_ones_overlap() -> None:
    """40 maps of 8 x 16 on 310's two cores take tiles of whole maps; 2 of 200 rows are cut."""
    soc = load("Ascend310")
    small = pooling(RowWindows(8, 4, 3, 2, 1), 1, 40, 16)
    stage = lower_vector(small, soc, Expansion(soc, noted=True))
    assert moved([stage])["x", False] == small.inputs[0].ref.bytes
    assert all(count % 4 == 0 for _, count, _ in tiles(stage.groups, small))
    tall = pooling(RowWindows(200, 99, 3, 2, 0), 1, 2, 512)
    cut = tiles(lower_vector(tall, soc, Expansion(soc, noted=True)).groups, tall)
    assert all(loaded == (2 * count + 1) * 1024 for _, count, loaded in cut)  # the halo: one row
    assert len(cut) > 2
    assert [first for first, _, _ in cut] == [0, *(a + b for (a, b, _), _ in pairwise(cut))]


def test_rows_too_long_for_ub_come_in_parts_without_halo() -> None:
    """Three rows of 200,000 values are more than UB holds: parts of a row, as elementwise work has them."""
    soc = load("Ascend310")
    work = pooling(RowWindows(9, 4, 3, 2, 0), 1, 1, 200_000)
    stage = lower_vector(work, soc, Expansion(soc, noted=True))
    verify([stage], soc)
    plain = lower_vector(replace(work, windows=None), soc, Expansion(soc, noted=True))
    assert [group.block for group in stage.groups] == [group.block for group in plain.groups]
    with pytest.raises(CompileError):
        lower_vector(replace(work, steps=(Step("no_such_step"),)), soc, Expansion(soc))


def test_tiles_of_windows_are_a_quarter_of_the_share_or_16_kib_or_fill_ub() -> None:
    """Two slots of input rows, wherever the tile begins, and two of the result: whole maps if it holds one,
    else even parts of the share; one map or part more would be more than all that."""
    random, limits = Random(9), dict.fromkeys(("wanted", "full", "maps", "parts"), 0)
    for _ in range(50):
        of, width = windows(random, 20), random.choice([16, 40, 128])
        size = random.choice((8, 24, 64)) << 10
        soc = load("Ascend910A", {"ai_cores": 2, "buffers.ub": size})
        work = pooling(of, 1, random.randint(1, 40), width)
        try:
            groups = lower_vector(work, soc, Expansion(soc, noted=True)).groups
        except CompileError:
            continue
        share = max(sum(count for _, count, _ in tiles([group], work)) // group.count for group in groups)
        tile = max(count for _, count, _ in tiles(groups, work))

        def room(rows: int, of: RowWindows = of, width: int = width) -> int:
            most = max(
                max(under) + 1 - min(under)
                for under in (touched(of, first, rows) for first in range(of.made))
            )
            return 2 * 2 * width * (most + rows)

        moved = sum(stream.ref.bytes for stream in (*work.inputs, *work.outputs)) / work.rows
        wanted = max(-(-share // 4), int(16 * 1024 / moved) + 1)
        assert tile <= min(share, wanted)
        assert room(tile) <= size
        if tile < share:
            whole = tile % of.made == 0
            parts = -(-share // tile)
            more = tile + of.made if whole else -(-share // (parts - 1))
            too_many, too_large = more > min(share, wanted), room(more) > size - 3 * 128 - 256
            assert too_many or too_large, (of, tile, share)
            limits["wanted" if too_many else "full"] += 1
            limits["maps" if whole else "parts"] += 1
            if not whole:
                assert tile == -(-share // parts)
                assert tile < of.made
    assert all(count > 2 for count in limits.values()), limits
