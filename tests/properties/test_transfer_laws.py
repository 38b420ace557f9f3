"""Transfers of all random programs: operands are as large as what moves, and tiles that would reach beyond
their tensor are moved inside of it, no further than they must."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format, align
from ascendsim.isa.instructions import Affine, Buffer, Move
from ascendsim.isa.program import Block
from ascendsim.isa.walk import in_order, static
from ascendsim.lower.emit import BlockBuilder
from ascendsim.lower.templates.operands import fitted, matrix_tile, result_tile
from ascendsim.lower.templates.stage import Tile
from ascendsim.opset.work import Ref
from ascendsim.soc import load
from tests.properties.test_move_laws import movements
from tests.support.flags import few_trips
from tests.support.listed_stages import CASES
from tests.support.random_cubes import cube_programs
from tests.support.random_vectors import vector_programs

# what converts or looks a value up: two sides of different sizes
OTHER_SIZES = {"fixpipe", "bias", "aipp", "load2d"}


def blocks() -> Iterator[Block]:
    for made in (*vector_programs(), *cube_programs(), *movements()):
        yield made.block


def test_both_sides_of_a_transfer_are_as_large_as_what_it_moves() -> None:
    for block in blocks():
        slots = {allocation.name: allocation.slot_bytes for allocation in block.allocations}
        for item, _ in static(block.body):
            if not isinstance(item, Move):
                continue
            for side, stride in ((item.dst, item.dst_stride), (item.src, item.src_stride)):
                if side.buffer is Buffer.GM:
                    span = (item.bursts - 1) * (stride or item.burst_bytes) + item.burst_bytes
                    assert side.bytes == span, item
                elif item.kind not in OTHER_SIZES:
                    assert side.bytes == item.bytes <= slots[side.name], item


def test_a_transfer_is_aligned_if_none_of_its_bursts_crosses_a_line_that_it_need_not() -> None:
    """Each begins at a line of 512 bytes, or is a part that divides one; a single one below 32 bytes lies
    in a block."""
    kinds: Counter[bool] = Counter()
    teams = [group.block for make in CASES for stage in make() for group in stage.groups]
    for block in (*blocks(), *teams):
        starts: dict[int, set[int]] = {}
        moves: dict[int, Move] = {}
        for item, variables in in_order(few_trips(block.body, 2)):
            if not isinstance(item, Move) or Buffer.GM not in (item.dst.buffer, item.src.buffer):
                continue
            inward = item.src.buffer is Buffer.GM
            side, stride = (item.src, item.src_stride) if inward else (item.dst, item.dst_stride)
            first, count = side.offset.at(variables), item.bursts if stride else 1
            starts.setdefault(id(item), set()).update(first + number * stride for number in range(count))
            moves[id(item)] = item
        for number, item in moves.items():
            apart = item.bursts > 1 and item.src_stride + item.dst_stride > 0
            burst = item.burst_bytes if apart else item.bytes
            grain = burst if burst and 512 % burst == 0 else 512
            on_lines = all(start % grain == 0 for start in starts[number])
            assert item.aligned == (on_lines or (item.bursts == 1 and burst < 32)), item
            kinds[item.aligned] += 1
    assert min(kinds.values()) > 300


def random_tile(random: Random, builder: BlockBuilder, names: list[str]) -> tuple[Tile, Ref]:
    """A tile of a tensor that reaches beyond its end by up to a half of its bytes, or does not."""
    size = random.choice((random.randint(64, 5000), 512 * random.randint(1, 40)))
    grain = random.choice((1, 32, 512))
    bursts = random.choice((1, 1, random.randint(2, 6)))
    length = max(1, min(size // (2 * bursts), random.randint(1, 1500)))
    length = max(grain, length // grain * grain) if grain < size else length
    stride = 0 if bursts == 1 else length + grain * random.randint(1, 3)
    terms = tuple((name, grain * random.randint(1, 8)) for name in names)
    offset = Affine(grain * random.randint(0, max(1, size // (2 * grain))), terms)
    return Tile("x", offset, bursts, length, stride), Ref("x", (size,), DType.INT8, Format.ND, size)


def places(tile: Tile, trips: dict[str, int]) -> np.ndarray:
    """First bytes of a tile for all values of the loops."""
    values = [np.arange(count) for count in trips.values()]
    grid = np.meshgrid(*values, indexing="ij")
    steps = dict(tile.offset.terms)
    return tile.offset.base + sum(
        (steps.get(name, 0) * one for name, one in zip(trips, grid, strict=True)),
        np.zeros(grid[0].shape, int),
    )


def test_a_tile_that_reaches_beyond_its_tensor_is_moved_inside_of_it() -> None:
    random, moved = Random(8), 0
    for _ in range(600):
        builder = BlockBuilder(load("Ascend310"))
        trips = {"i": random.randint(2, 5), "j": random.randint(2, 4)}
        with builder.loop("i", trips["i"]), builder.loop("j", trips["j"]):
            tile, ref = random_tile(random, builder, list(trips))
            found = fitted(builder, tile, ref)
        before, after = places(tile, trips), places(found, trips)
        span = found.operand.bytes
        assert after.min() >= 0
        assert after.max() + span <= ref.bytes, (tile, ref, found)
        if before.max() + tile.operand.bytes <= ref.bytes:
            assert found == tile
            continue
        moved += 1
        assert found.bytes == min(tile.bytes, ref.bytes)
        if tile.bytes >= ref.bytes:
            assert found == Tile("x", Affine(), 1, ref.bytes)
            continue
        grain = 512 if tile.aligned else 1
        assert found.bursts == tile.bursts
        assert found.aligned >= tile.aligned or found.stride == found.burst_bytes
        assert (after <= before).all()
        assert tile.burst_bytes <= (found.stride or tile.burst_bytes) <= max(tile.stride, tile.burst_bytes)
        # bursts lie together only if they must, and the last place is as far back as they allow
        slack = grain * (1 + sum(trips.values()) + tile.bursts)
        assert after.max() + span + slack > min(ref.bytes, before.max() + tile.operand.bytes), (tile, ref)
    assert moved > 100


def test_a_constant_offset_gives_way_before_the_steps_do() -> None:
    """100 bytes of 1000, from 700 on with steps of 100 in four trips: 400 too far, all of it off the base."""
    builder = BlockBuilder(load("Ascend310"))
    ref = Ref("x", (1000,), DType.INT8, Format.ND, 1000)
    with builder.loop("i", 4):
        far = fitted(builder, Tile("x", Affine(700, (("i", 100),)), 1, 100), ref)
        farther = fitted(builder, Tile("x", Affine(50, (("i", 400),)), 1, 100), ref)
        whole = fitted(builder, Tile("x", Affine(0, (("i", 100),)), 1, 1000), ref)
    assert far.offset == Affine(600, (("i", 100),))
    assert farther.offset == Affine(0, (("i", 300),))
    assert whole == Tile("x", Affine(), 1, 1000)
    with builder.loop("i", 4), builder.loop("j", 3):  # the shortest step goes first
        both = fitted(builder, Tile("x", Affine(0, (("i", 300), ("j", 20))), 1, 100), ref)
        some = fitted(builder, Tile("x", Affine(0, (("i", 290), ("j", 20))), 1, 100), ref)
    assert both.offset == Affine(0, (("i", 300),))
    assert (some.offset.base, dict(some.offset.terms)) == (0, {"i": 290, "j": 15})
    spread = Tile("x", Affine(400), 4, 50, 300)  # 400 + 3 x 300 + 50 is too far: the bursts move together
    assert fitted(builder, spread, ref) == Tile("x", Affine(400), 4, 50, 183)
    aligned = Ref("x", (8192,), DType.INT8, Format.ND, 8192)
    wide = Tile("x", Affine(4096), 3, 512, 2048)
    assert fitted(builder, wide, aligned) == Tile("x", Affine(4096), 3, 512, 1536)


def filled(shape: tuple[int, ...], format: Format) -> tuple[Ref, np.ndarray]:
    """A matrix (.., rows, columns) and, by byte address, which element lies there (-1: padding)."""
    rows, columns = shape
    if format is Format.ND:
        return Ref("x", shape, DType.FLOAT16, format, rows * columns * 2), np.arange(rows * columns)
    m, n = align(rows, 16), align(columns, 16)
    padded = np.full((m, n), -1)
    padded[:rows, :columns] = np.arange(rows * columns).reshape(rows, columns)
    stored = padded.reshape(m, n // 16, 16).transpose(1, 0, 2).reshape(-1)
    return Ref("x", shape, DType.FLOAT16, format, m * n * 2), stored


def elements(tile: Tile, stored: np.ndarray) -> set[int]:
    """Elements of a tile without its padding."""
    assert not tile.offset.terms
    stride = tile.stride or tile.burst_bytes
    starts = tile.offset.base + np.arange(tile.bursts) * stride
    found = [stored[start // 2 : (start + tile.burst_bytes) // 2] for start in starts.tolist()]
    return set(np.concatenate(found).tolist()) - {-1}


@pytest.mark.parametrize("format", [Format.ND, Format.FRACTAL_NZ])
def test_tiles_of_matrices_hold_the_elements_that_they_are_made_of(format: Format) -> None:
    """Rows and columns of a tile, found again in the stored bytes; tiles of blocked matrices are whole
    fractals."""
    random = Random(9)
    for _ in range(60):
        rows, columns = random.randint(1, 70), random.randint(1, 70)
        ref, stored = filled((rows, columns), format)
        first, left = 16 * random.randrange(-(-rows // 16)), 16 * random.randrange(-(-columns // 16))
        height, width = min(32, rows - first), min(48, columns - left)
        wanted = {
            row * columns + column
            for row in range(first, first + height)
            for column in range(left, left + width)
        }
        if format is Format.FRACTAL_NZ:
            wanted = {
                row * columns + column
                for row in range(first, min(rows, first + align(height, 16)))
                for column in range(left, min(columns, left + align(width, 16)))
            }
        spans = (Affine(first), height), (Affine(left), width)
        assert elements(matrix_tile(ref, (rows, columns), *spans, Affine()), stored) == wanted
        assert (
            elements(result_tile(ref, rows, columns, *spans, base=Affine(), is_map=False), stored) == wanted
        )


def test_tiles_of_maps_hold_their_positions_and_channels() -> None:
    """NC1HWC0: channel blocks, positions, 16 channels; and row-major maps: channels, positions."""
    random = Random(10)
    for _ in range(60):
        positions, channels = random.randint(1, 60), random.randint(1, 70)
        blocks = -(-channels // 16)
        places = np.arange(blocks * positions * 16)
        ref = Ref("x", (1, channels, 1, positions), DType.FLOAT16, Format.NC1HWC0, places.size * 2)
        first, block = random.randrange(positions), random.randrange(blocks)
        count, width = random.randint(1, positions - first), random.randint(1, channels - 16 * block)
        spans = (Affine(first), count), (Affine(16 * block), width)
        wanted = {
            (one * positions + position) * 16 + lane
            for one in range(block, block + -(-width // 16))
            for position in range(first, first + count)
            for lane in range(16)
        }
        assert (
            elements(result_tile(ref, positions, channels, *spans, base=Affine(), is_map=True), places)
            == wanted
        )
        flat = Ref("x", (1, channels, 1, positions), DType.FLOAT16, Format.NCHW, channels * positions * 2)
        plain = {
            channel * positions + position
            for channel in range(16 * block, 16 * block + width)
            for position in range(first, first + count)
        }
        stored = np.arange(channels * positions)
        assert (
            elements(result_tile(flat, positions, channels, *spans, base=Affine(), is_map=True), stored)
            == plain
        )
