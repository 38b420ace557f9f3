"""Global pooling over planes of channel blocks: every plane once, one slot, a repeat a position, sums stored
together or in parts."""

from __future__ import annotations

import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format
from ascendsim.isa.instructions import Move, Pipe, Vector
from ascendsim.lower.templates.steps import Expansion
from ascendsim.lower.templates.vector import lower_vector
from ascendsim.opset.work import Step, Stream, VectorWork
from ascendsim.soc import load
from tests.support.fusing import build, random
from tests.support.lowering import CHIPS, computed, executed, moved, ref, statements, verify


def pooling(images: int, channels: int, height: int, width: int, lanes: int = 16) -> VectorWork:
    x, y = (
        ref("x", (images, channels, height, width), Format.NC1HWC0),
        ref("y", (images, channels, 1, 1), Format.NC1HWC0),
    )
    wide = DType.FLOAT32
    steps = (
        Step("vconv", wide),
        Step("vmuls", wide),
        Step("vadd", wide, lanes=lanes),
        Step("vconv", wide, "col"),
    )
    columns = x.bytes // (2 * height * width)
    return VectorWork(height * width, columns, steps, (Stream(x),), (Stream(y, "col"),), "rows", planes=True)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    "shape", [(1, 16, 7, 7), (2, 40, 15, 15), (8, 256, 56, 56), (1, 16, 240, 240), (1, 3, 1, 1)]
)
def test_every_plane_is_read_once_by_itself_and_sums_go_out_together(
    chip: str, shape: tuple[int, int, int, int]
) -> None:
    soc = load(chip)
    work = pooling(*shape)
    stage = lower_vector(work, soc, Expansion(soc))
    verify([stage], soc)
    images, channels, height, width = shape
    planes, blocks = images * -(-channels // 16), sum(group.count for group in stage.groups)
    bytes = moved([stage])
    assert bytes["x", False] == work.inputs[0].ref.bytes
    assert bytes["y", True] == work.outputs[0].ref.bytes
    loads = [item for item, _ in executed([stage]) if isinstance(item, Move) and item.pipe is Pipe.MTE2]
    stores = sum(
        times for item, times in executed([stage]) if isinstance(item, Move) and item.pipe is Pipe.MTE3
    )
    assert all(item.bursts == 1 and item.burst_bytes <= 32 * height * width for item in loads)
    assert stores == blocks <= min(planes, soc.vector_units)
    assert computed([stage], "vmuls") == planes * 16 * height * width
    # a repeat a position
    assert computed([stage], "vadd") == planes * (soc.vector.repeat_bytes // 4) * height * width
    inputs = [
        slot for group in stage.groups for slot in group.block.allocations if slot.name.startswith("in")
    ]
    assert {slot.slots for slot in inputs} == {1}


@pytest.mark.parametrize("chip", CHIPS)
def test_sums_that_would_fill_ub_go_out_in_parts(chip: str) -> None:
    soc = load(chip)
    work = pooling(512, 2048, 7, 7)
    stage = lower_vector(work, soc, Expansion(soc))
    verify([stage], soc)
    bytes = moved([stage])
    assert bytes["x", False] == work.inputs[0].ref.bytes
    assert bytes["y", True] == work.outputs[0].ref.bytes
    for group in stage.groups:
        (room,) = (slot.slot_bytes for slot in group.block.allocations if slot.name == "out0")
        stores = [
            times
            for item, times in statements(group.block.body)
            if isinstance(item, Move) and item.pipe is Pipe.MTE3
        ]
        assert room <= soc.buffers.ub / 2
        if sum(stores) > 1:  # a block of channels more would not have fitted
            assert room + 16 * 8 > 0.49 * soc.buffers.ub


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("shape", [(8, 256, 7, 7), (512, 2048, 7, 7)])
def test_float32_sums_have_room(chip: str, shape: tuple[int, int, int, int]) -> None:
    soc = load(chip)
    stage = lower_vector(pooling(*shape), soc, Expansion(soc))
    for group in stage.groups:
        (slots,) = (allocation for allocation in group.block.allocations if allocation.name == "out0")
        wide = [
            item
            for item, _ in statements(group.block.body)
            if isinstance(item, Vector) and item.op == "vconv" and item.dst.name == "out0"
        ]
        assert wide
        assert all(4 * item.elements <= slots.bytes for item in wide)
        folds = [
            item
            for item, _ in statements(group.block.body)
            if isinstance(item, Vector) and item.dst.name == "tmp"
        ]
        assert {item.op for item in folds} == {"vconv", "vmuls"}  # only sums go where sums are


@pytest.mark.parametrize("chip", CHIPS)
def test_planes_of_8_bit_types_stay_whole(chip: str) -> None:
    soc = load(chip)
    x = ref("x", (1, 96, 58, 58), Format.NC1HWC0, DType.INT8)
    y = ref("y", (1, 96, 1, 1), Format.NC1HWC0, DType.INT8)
    steps = (Step("vconv"), Step("vmax", lanes=32))
    stage = lower_vector(
        VectorWork(58 * 58, 96, steps, (Stream(x),), (Stream(y, "col"),), "rows", planes=True),
        soc,
        Expansion(soc),
    )
    verify([stage], soc)
    assert sum(group.count for group in stage.groups) <= 3  # blocks of 32 channels
    assert moved([stage])["x", False] == x.bytes


def test_few_planes_in_float16_fill_their_repeats() -> None:
    def lanes(soc: str, images: int, channels: int) -> set[int]:
        image = (images, 16, 14, 14)
        graph = build(
            lambda b: b.op("GlobalAveragePool", b.op("Conv", b.input("x", image), random(channels, 16, 1, 1)))
        )
        program = asim.compile(graph, soc=soc).program
        (task,) = (task for task in program.tasks if "GlobalAveragePool" in task.name)
        blocks = [statements(group.block.body) for group in task.groups]
        return {
            item.elements // 196
            for block in blocks
            for item, _ in block
            if isinstance(item, Vector) and item.op == "vadd"
        }

    assert lanes("Ascend310", 1, 512) == {16}  # 32 planes: halves are added, 128 lanes a repeat
    assert lanes("Ascend310", 2, 512) == {128}  # a repeat a position
    assert lanes("Ascend310P3", 1, 512) == {64}  # float32
