"""What programs of movement, scalar and sequence work do: every byte once, indices once, parts of a sequence
one after the other."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from random import Random

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.isa.capacity import capacity
from ascendsim.isa.checks import check_block
from ascendsim.isa.instructions import Buffer, Move, Pipe, Scalar, SetFlag, Vector
from ascendsim.isa.program import Block
from ascendsim.isa.walk import in_order
from ascendsim.lower.program import Lowering
from ascendsim.lower.templates.movement import lower_movement, lower_scalar
from ascendsim.lower.templates.stage import sizes_of
from ascendsim.lower.templates.steps import Expansion
from ascendsim.opset.work import (
    Copy,
    CubeWork,
    MoveWork,
    Ref,
    ScalarWork,
    SequenceWork,
    Step,
    Stream,
    VectorWork,
)
from ascendsim.soc import SocSpec, load
from tests.support.coverage import length, on_chip, transfers, union
from tests.support.flags import few_trips, has_race
from tests.support.lowering import executed, loops, matmul, moved, ref

CHIPS = ("Ascend310", "Ascend310P3", "Ascend910A", "Ascend910B1")
WHOLE = 10**9  # a burst as long as the tensor


def one_core(chip: str) -> SocSpec:
    return load(chip, {"ai_cores": 1} | ({"vector_cores": 1} if load(chip).split_cores else {}))


@dataclass(frozen=True)
class Moving:
    """Work and the program of the one core of a chip."""

    soc: SocSpec
    work: MoveWork
    block: Block


@cache
def movements() -> tuple[Moving, ...]:
    """Programs of random work; always the same."""
    random, found = Random(6), []
    for number in range(100):
        soc, copies = one_core(CHIPS[number % len(CHIPS)]), []
        for part in range(random.choice((1, 1, 2, 3))):
            size = random.choice(
                (random.randint(1, 200), random.randint(200, 20_000), random.randint(20_000, 300_000))
            )
            read, write = (
                random.choice((WHOLE, random.randint(2, 4000), 32 * random.randint(1, 40))) for _ in range(2)
            )
            x, y = ref(f"x{part}", (size,)), ref(f"y{part}", (size,))
            copies.append(Copy(x, y, x.bytes, read, write))
        steps = random.choice(((), (Step("vnchwconv"),)))
        indices = random.choice(((), (ref("i", (random.randint(1, 30_000),), dtype=DType.INT32),)))
        work = MoveWork(tuple(copies), steps, random.choice((0, 3)), indices)
        (group,) = lower_movement(work, soc, Expansion(soc)).groups
        found.append(Moving(soc, work, group.block))
    return tuple(found)


def test_programs_are_sound() -> None:
    for made in movements():
        check_block(made.block, made.soc)
        assert all(loop.trips > 1 for loop in loops(made.block.body))
        assert not has_race(replace(made.block, body=few_trips(made.block.body))), made.work


def test_every_byte_goes_in_and_out_once_and_most_of_it_from_a_place_of_its_own() -> None:
    """Pieces of a rearranged tensor lie apart as they may; what is copied as it is comes from where it is."""
    for made in movements():
        for copy in made.work.copies:
            for tensor, write, burst in (
                (copy.src, False, copy.read_burst),
                (copy.dst, True, copy.write_burst),
            ):
                spans = transfers(made.block, tensor.region, write)
                different = length(union(spans))
                assert (spans[:, 1] - spans[:, 0]).sum() == tensor.bytes, made.work
                assert (
                    different == tensor.bytes
                    if burst == WHOLE and copy.read_burst == copy.write_burst
                    else different >= 0.6 * tensor.bytes
                )
        for tensor in made.work.extra_inputs:
            spans = transfers(made.block, tensor.region, False)
            assert (spans[:, 1] - spans[:, 0]).sum() == length(union(spans)) == tensor.bytes


def test_what_comes_into_ub_goes_on_and_nothing_else_leaves() -> None:
    for made in movements():
        for name, (used, brought) in on_chip(made.block, Buffer.UB).items():
            if name.startswith("in"):
                assert union(np.array(used + brought)) == used, (name, made.work)
            if name.startswith("out"):
                assert union(np.array(used + brought)) == brought, (name, made.work)
        counts = [
            item.elements * item.calls for item, _ in in_order(made.block.body) if isinstance(item, Vector)
        ]
        whole = sum(copy.bytes // 2 for copy in made.work.copies) if made.work.steps else 0
        assert whole - len(counts) <= sum(counts) <= whole, made.work  # a tile may end within an element


def test_every_burst_of_an_indexed_read_has_its_address() -> None:
    for made in movements():
        bursts = sum(
            item.bursts
            for item, _ in in_order(made.block.body)
            if isinstance(item, Move) and item.pipe is Pipe.MTE2 and item.src.name != "i"
        )
        cycles = sum(item.cycles for item, _ in in_order(made.block.body) if isinstance(item, Scalar))
        assert cycles == made.work.scalar_per_burst * bursts, made.work


def test_single_bursts_have_no_stride_and_others_lie_apart() -> None:
    for made in movements():
        for item, _ in in_order(made.block.body):
            if isinstance(item, Move):
                (stride, other) = sorted((item.src_stride, item.dst_stride), reverse=True)
                assert other == 0
                assert (
                    stride == 0
                    if item.bursts == 1
                    else stride > item.burst_bytes or stride in (0, item.burst_bytes)
                )


def test_scalar_work_without_operands_still_takes_its_time() -> None:
    soc = load("Ascend310")
    stage = lower_scalar(ScalarWork(100, 8, (), ()), soc)
    assert sum(item.cycles * times for item, times in executed([stage]) if isinstance(item, Scalar)) == 800


def test_tiles_fill_what_they_can_use() -> None:
    """At least about 16 KB, or the whole tensor, or a good part of UB; never so large that nothing
    overlaps."""
    for made in movements():
        largest = max(copy.bytes for copy in made.work.copies)
        loads = [
            item.bytes
            for item, _ in in_order(made.block.body)
            if isinstance(item, Move) and item.pipe is Pipe.MTE2 and item.src.name != "i"
        ]
        used = sum(allocation.bytes for allocation in made.block.allocations)
        assert max(loads) >= min(largest, 8 * 1024) or used > 0.5 * capacity(made.soc, Buffer.UB), made.work
        assert max(loads) <= max(16 * 1024, largest // 3 + 512), made.work
        assert {
            allocation.slots
            for allocation in made.block.allocations
            if allocation.name.startswith(("in", "out"))
        } - {1, 2} == set()


@pytest.mark.parametrize("chip", CHIPS)
def test_scalar_work_takes_each_element_of_each_operand_once(chip: str) -> None:
    soc, random = one_core(chip), Random(7)
    for _ in range(12):
        count = random.choice((random.randint(1, 100), random.randint(100, 200_000)))
        x, z, y = ref("x", (count,)), ref("z", (count,), dtype=DType.INT32), ref("y", (2 * count,))
        (group,) = lower_scalar(ScalarWork(count, 8, (x, z), (y,)), soc).groups
        check_block(group.block, soc)
        assert not has_race(replace(group.block, body=few_trips(group.block.body)))
        for tensor in (x, z, y):
            spans = transfers(group.block, tensor.region, tensor is y)
            assert 0.95 * tensor.bytes <= length(union(spans)) <= tensor.bytes
            assert (spans[:, 1] - spans[:, 0]).sum() >= tensor.bytes
        items = [item for item, _ in in_order(group.block.body) if isinstance(item, Scalar)]
        assert 8 * count <= sum(item.cycles for item in items) < 8 * (count + len(items))
        assert all(len(item.srcs) == 2 and len(item.dsts) == 1 for item in items)


def operands(work: CubeWork | VectorWork) -> list[Ref]:
    if isinstance(work, CubeWork):
        return [work.a, work.b, work.out]
    return [stream.ref for stream in (*work.inputs, *work.outputs)]


def softmax(rows: int, cols: int) -> VectorWork:
    steps = (Step("vcmax"), Step("vsub"), Step("vexp"), Step("vcadd"), Step("vmul"))
    return VectorWork(
        rows, cols, steps, (Stream(ref("c", (rows, cols))),), (Stream(ref("y", (rows, cols))),), "cols", 3
    )


@pytest.mark.parametrize("repeat", [1, 2, 3, 7])
@pytest.mark.parametrize("chip", ["Ascend310", "Ascend310P3", "Ascend910A"])
def test_a_sequence_does_what_its_parts_do_as_often_as_it_repeats(chip: str, repeat: int) -> None:
    soc = load(chip)
    parts = (matmul(40, 64, 256, soc), softmax(40, 256))
    single: Counter[tuple[str, bool]] = sum((moved(Lowering(soc).stages(part)) for part in parts), Counter())
    stages = Lowering(soc).settled(SequenceWork(parts, repeat), None)
    assert moved(stages) == {key: repeat * bytes for key, bytes in single.items()}
    (stage,) = stages
    # c is stored in blocks by the one, read in rows by the other
    sizes = [sizes_of(*operands(part)) for part in parts]
    assert stage.sizes == {
        region: repeat * max(part.get(region, 0) for part in sizes) for part in sizes for region in part
    }
    drains = sum(
        times
        for item, times in executed(stages)
        if isinstance(item, SetFlag) and item.flag.startswith("drained_")
    )
    starters = sum(len(group.block.flags) * group.count for group in stage.groups)
    assert 0 < drains <= starters * repeat * len(parts)
    for group in stage.groups:
        check_block(group.block, soc)
        assert not has_race(replace(group.block, body=few_trips(group.block.body)))
    for buffer in (Buffer.UB, Buffer.L1, Buffer.L0C):
        places = [
            (group, part) for group in stage.groups for part in {a.part for a in group.block.allocations}
        ]
        ends = [
            [
                (a.offset, a.offset + a.bytes)
                for a in group.block.allocations
                if a.buffer is buffer and a.part == part
            ]
            for group, part in places
        ]
        assert all(
            low[1] <= high[0]
            for spans in ends
            for low, high in zip(sorted(spans), sorted(spans)[1:], strict=False)
        )
