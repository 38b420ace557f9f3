"""What the program of two convolutions does: each result made and stored once, all that is brought is used,
nothing between leaves L1."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random

import numpy as np

from ascendsim.core.errors import CompileError
from ascendsim.core.formats import align, ceil_div
from ascendsim.isa.checks import check_block
from ascendsim.isa.instructions import Buffer, Img2Col, Mmad, Move, Vector
from ascendsim.isa.walk import in_order
from ascendsim.lower.templates.bias import BROADCAST
from ascendsim.lower.templates.cube_pair import MOST_M, MOST_N, pair_options
from ascendsim.lower.templates.stage import Stage
from ascendsim.lower.templates.steps import Expansion
from ascendsim.opset.work import CubePair, CubeWork, Step, Stream
from ascendsim.soc import SocSpec, load
from tests.support.coverage import length, on_chip, transfers, union
from tests.support.flags import few_trips, has_race
from tests.support.lowering import convolution, loops, ref

CHIPS = ("Ascend310", "Ascend310P3", "Ascend910A")


@cache
def pairs() -> tuple[tuple[SocSpec, CubePair, Stage], ...]:
    """Random pairs with bands of any of the heights that are worth a look, on chips with one core; always the
    same."""
    random, found = Random(4), list[tuple[SocSpec, CubePair, Stage]]()
    while len(found) < 40:
        soc = load(random.choice(CHIPS), {"ai_cores": 1})
        channels, middle, outputs = (random.randint(1, 80) for _ in range(3))
        size, images, stride = random.randint(5, 40), random.randint(1, 3), random.choice((1, 1, 2))
        one, two = random.choice((1, 3, 5)), random.choice((1, 3, 5))
        first = convolution(channels, size, middle, one, 1, one // 2, images)
        then = convolution(middle, size, outputs, two, stride, two // 2, images)
        first = replace(first, out=replace(first.out, region="between"))
        then = replace(then, a=first.out, b=replace(then.b, region="w2"), bias=ref("bias2", (outputs,)))
        work = CubePair(
            *(varied(random, part, f"scale{number}") for number, part in enumerate((first, then)))
        )
        try:
            make = random.choice(pair_options(work, soc, Expansion(soc)))
        except CompileError as error:
            if "L1" not in str(error):  # there is no band for which it is large enough
                raise
            continue
        found.append((soc, work, make()))
    return tuple(found)


def varied(random: Random, work: CubeWork, name: str) -> CubeWork:
    """The work with or without bias, ReLU, and a scale a channel."""
    steps = tuple(step for step in (Step("vmul"), Step("vrelu")) if random.random() < 0.5)
    inputs = (Stream(ref(name, (work.n,)), "col"),) if Step("vmul") in steps else ()
    return replace(
        work, bias=work.bias if random.random() < 0.5 else None, epilogue=steps, epilogue_inputs=inputs
    )


def test_programs_are_sound() -> None:
    for soc, work, stage in pairs():
        (group,) = stage.groups
        check_block(group.block, soc)
        assert all(loop.trips > 1 for loop in loops(group.block.body))
        assert not has_race(replace(group.block, body=few_trips(group.block.body))), work


def test_one_row_at_a_time_is_enough() -> None:
    """L1 holds the three bands of one row of 32 x 64 values and the weights, but not those of two."""
    first, then = (convolution(64, 32, 64, 1, 1, 0, 1) for _ in range(2))
    first = replace(first, out=replace(first.out, region="between"))
    work = CubePair(first, replace(then, a=first.out, b=replace(then.b, region="w2")))
    bands = {}
    for kib in (40, 64):
        soc = load("Ascend310", {"ai_cores": 1, "buffers.l1": kib * 1024})
        (make, *_) = pair_options(work, soc, Expansion(soc))
        block = make().groups[0].block
        check_block(block, soc)
        bands[kib] = max(item.bytes for item in block.allocations if item.buffer is Buffer.L1)
    assert bands[40] < bands[64]


def test_results_are_stored_once_and_weights_come_once() -> None:
    for _, work, stage in pairs():
        block = stage.groups[0].block
        for region, size in stage.sizes.items():
            spans = transfers(block, region, region == "y")
            moved, different = int((spans[:, 1] - spans[:, 0]).sum()), length(union(spans))
            if region != "x":
                assert moved == different == size, (region, work)
            elif (
                work.first.conv is not None
                and work.second.conv is not None
                and work.first.conv.kernel_h == work.second.conv.kernel_h == 1
            ):
                images, blocks = work.first.conv.batch, ceil_div(work.first.conv.channels, 16)
                rows = work.second.conv.out_h if work.second.conv.stride_h == 1 else None
                assert (
                    rows is None or moved == different == images * blocks * rows * work.first.conv.width * 32
                )
            else:
                assert moved >= different >= 0.4 * size
        assert not len(transfers(block, "between", False))
        assert not len(transfers(block, "between", True))


def test_all_that_comes_into_l1_and_l0_is_used() -> None:
    """And no more, but for the fractal that may end beyond the last position of a band, and rows that img2col
    leaves out."""
    for _, work, stage in pairs():
        parts = zip(("a_l1", "between_l1"), (work.first.conv, work.second.conv), strict=True)
        beyond = {
            name: 960 if conv is not None and conv.kernel_h == conv.stride_h == 1 else 1 << 20
            for name, conv in parts
        }
        for buffer in (Buffer.L1, Buffer.L0A, Buffer.L0B):
            for name, (used, brought) in on_chip(stage.groups[0].block, buffer).items():
                assert union(np.array(used + brought)) == used, (name, work)
                assert length(used) - length(brought) <= beyond.get(name, 0), (name, work)


def test_every_tile_sums_all_of_k_once() -> None:
    for _, work, stage in pairs():
        depth, fresh, area, biased = 0, False, {0: 0, 1: 0}, False
        brought = dict.fromkeys((Buffer.L0A, Buffer.L0B), 0)
        depths = [
            align(part.conv.channels, 16) * part.conv.kernel_h * part.conv.kernel_w
            for part in (work.first, work.second)
            if part.conv
        ]
        for item, variables in in_order(stage.groups[0].block.body):
            if isinstance(item, Move | Img2Col) and item.dst.buffer in brought:
                brought[item.dst.buffer] += item.bytes
            elif isinstance(item, Vector) and item.op == BROADCAST:
                biased = True
            elif isinstance(item, Mmad):
                assert brought == {Buffer.L0A: item.a.bytes, Buffer.L0B: item.b.bytes}
                assert item.a.bytes == align(item.m, 16) * item.k * 2
                assert item.b.bytes == align(item.n, 16) * item.k * 2
                assert item.dst.bytes == align(item.m, 16) * align(item.n, 16) * 4
                assert item.m <= MOST_M
                assert item.n <= MOST_N
                brought = dict.fromkeys(brought, 0)
                new = not item.accumulate or (
                    bool(item.fresh_at) and not any(variables[name] for name in item.fresh_at)
                )
                assert not new or depth == 0, work
                fresh, depth, size = fresh or new, depth + item.k, item.m * item.n
            elif depth and isinstance(item, Vector) and item.op == "l0c_to_ub":
                assert depth in depths, work
                assert fresh or biased, work
                for number, part in enumerate((work.first, work.second)):
                    if depth == depths[number]:
                        area[number] += size
                        assert depths[0] == depths[1] or fresh == (part.bias is None), work
                        break
                depth, fresh = 0, False
        assert work.second.conv is not None
        results = work.second.conv.batch * work.second.conv.out_h * work.second.conv.out_w * work.second.n
        if depths[0] != depths[1]:
            assert area[1] == results, work
            assert area[0] >= work.first.n, work
