"""Kernels that walk through feature maps: which cores have what, how large a tile is, what a block costs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ascendsim import soc as chips
from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format
from ascendsim.isa.checks import check_block
from ascendsim.isa.hazards import check_hazards
from ascendsim.isa.instructions import Move, Vector
from ascendsim.lower.templates.sharing import share_of, space_of
from ascendsim.lower.templates.stage import Stage
from ascendsim.lower.templates.steps import Expansion
from ascendsim.lower.templates.vector import lower_vector
from ascendsim.opset.work import Maps, Ref, Step, Stream, VectorWork
from tests.support.coverage import transfers, union
from tests.support.lowering import executed

SOC = chips.load("Ascend910B")  # the first generation with 30 cores


def work(images: int, blocks: int, size: int, split: str = "images", sums: bool = False) -> VectorWork:
    """One factor a channel times a float16 map, stored or added up."""
    rows, cols = images * size * size, blocks * 16
    whole = Stream(
        Ref("x", (images, cols, size, size), DType.FLOAT16, Format.NC1HWC0, rows * cols * 2),
    )
    channel = Stream(Ref("f", (cols,), DType.FLOAT32, Format.ND, cols * 4), "col")
    made = Stream(Ref("s", (cols,), DType.FLOAT32, Format.ND, cols * 4), "col")
    if not sums:
        made = replace(whole, ref=replace(whole.ref, region="y"))
    steps = (Step("vconv", DType.FLOAT32), Step("vmul", DType.FLOAT32))
    steps += (Step("vadd" if sums else "vconv", DType.FLOAT32),)
    return VectorWork(
        rows,
        cols,
        steps,
        (whole, channel),
        (made,),
        reduces="rows" if sums else "none",
        maps=Maps(images, blocks, split),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("images", "blocks", "split", "cores"),
    [  # block counts of BNTrainingReduceGrad, BNTrainingUpdate and BNTrainingUpdateGrad in published profiles
        (16, 128, "images", 16),
        (16, 4, "images", 16),
        (16, 16, "images or blocks", 16),
        (16, 8, "images or blocks", 8),
        (16, 4, "images or blocks", 4),
        (16, 4, "sums", 8),  # 16 in the profile, in the time of 32 images
        (16, 16, "sums", 8),
        (60, 4, "sums", 30),
        (1, 16, "images", 16),
    ],
)
def test_cores_have_whole_images_or_whole_blocks(images: int, blocks: int, split: str, cores: int) -> None:
    item = work(images, blocks, 14, split)
    rows, cols = share_of(item, space_of(item), item.steps, SOC)
    assert (item.rows // rows) * (item.cols // cols) == cores
    assert rows % (14 * 14) == 0
    assert cols % 16 == 0


def test_time_goes_with_the_images_of_the_busiest_core() -> None:
    """30 cores: 32 images are two for some of them, 64 three; sums of many blocks go with these."""
    for images, most in ((16, 1), (32, 2), (64, 3)):
        item = work(images, 8, 28)
        assert share_of(item, space_of(item), item.steps, SOC)[0] == most * 28 * 28
    item = work(64, 64, 14, "sums", sums=True)
    assert share_of(item, space_of(item), item.steps, SOC) == (item.rows, 3 * 16)
    few = work(4, 4, 14, "sums", sums=True)
    rows, cols = share_of(few, space_of(few), few.steps, SOC)
    assert (rows, cols) != (few.rows, few.cols), "neither keeps half of the cores busy: any part will do"


@pytest.mark.parametrize("size", [7, 14, 56, 112])
@pytest.mark.parametrize("sums", [False, True])
def test_a_block_brings_its_share_once_plane_by_plane(size: int, sums: bool) -> None:
    item = work(16, 8, size, "sums" if sums else "images", sums)
    stage = lower_vector(item, SOC, Expansion(SOC))
    for group in stage.groups:
        check_block(group.block, SOC)
        check_hazards(group.block, 2000)
    done = executed([Stage(stage.groups)])
    read = [(op, times) for op, times in done if isinstance(op, Move) and op.src.name == "x"]
    moved = sum(op.bytes * times for op, times in read)
    assert item.inputs[0].ref.bytes <= moved <= 1.02 * item.inputs[0].ref.bytes  # tiles end at 16 positions
    plane = size * size * 32
    assert all(op.bytes <= plane for op, _ in read) or not sums
    if size == 7 and not sums:
        assert all(op.bytes > plane for op, _ in read), "small planes come together"


def test_every_channel_block_takes_instructions_of_its_own() -> None:
    """A factor a channel: eight blocks in a tile are eight calls; conversions go over the tile as a whole."""
    stage = lower_vector(work(16, 8, 7), SOC, Expansion(SOC))
    done = [op for op, _ in executed([Stage(stage.groups)]) if isinstance(op, Vector)]
    assert {(op.op, op.calls) for op in done} == {("vconv", 1), ("vmul", 8)}


def test_factors_are_made_once_for_all_tiles_of_their_channels() -> None:
    """112 x 112 positions take many tiles; the root of a channel's variance is drawn once an image."""
    plain = work(16, 8, 112)
    item = replace(plain, steps=(Step("vsqrt", DType.FLOAT32, "col"), *plain.steps))
    done = list(executed([Stage(lower_vector(item, SOC, Expansion(SOC)).groups)]))
    times = {
        name: sum(often for op, often in done if isinstance(op, Vector) and op.op == name)
        for name in ("vsqrt", "vmul")
    }
    assert times["vsqrt"] == 16 * 8, "16 cores with an image each, block after block"
    assert times["vmul"] >= 8 * times["vsqrt"]


def test_what_is_spread_over_a_map_takes_an_instruction_a_block() -> None:
    plain = work(16, 8, 7)
    item = replace(plain, steps=(*plain.steps[:1], Step("vadds", DType.FLOAT32), *plain.steps[1:]))
    done = [op for op, _ in executed([Stage(lower_vector(item, SOC, Expansion(SOC)).groups)])]
    assert {op.calls for op in done if isinstance(op, Vector) and op.op == "vadds"} == {8}


@pytest.mark.parametrize("size", [7, 30, 112])
@pytest.mark.parametrize("sums", [False, True])
def test_one_core_brings_every_byte_of_maps_and_factors(size: int, sums: bool) -> None:
    """And stores each byte of the result once; factors come once for the tiles that they are for."""
    soc = chips.load("Ascend910B", {"ai_cores": 1})
    item = work(3, 8, size, "sums" if sums else "images", sums)
    (group,) = lower_vector(item, soc, Expansion(soc)).groups
    for stream in item.inputs:
        assert union(transfers(group.block, stream.ref.region, False)) == [(0, stream.ref.bytes)]
    (out,) = item.outputs
    stored = transfers(group.block, out.ref.region, True)
    assert union(stored) == [(0, out.ref.bytes)]
    assert int((stored[:, 1] - stored[:, 0]).sum()) == out.ref.bytes
