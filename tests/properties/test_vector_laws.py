"""What the program of vector work does: each byte in and out once, every element in every step, all of it
within UB and in good pieces."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import replace

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import CompileError
from ascendsim.core.formats import Format, align, ceil_div
from ascendsim.isa.capacity import capacity
from ascendsim.isa.checks import check_block
from ascendsim.isa.instructions import Buffer, Move, Pipe, Vector
from ascendsim.isa.program import Block
from ascendsim.isa.walk import in_order, static
from ascendsim.lower.templates.steps import Expansion
from ascendsim.lower.templates.vector import lower_vector
from ascendsim.soc import load
from tests.support.coverage import length, on_chip, transfers, union
from tests.support.flags import few_trips, has_race
from tests.support.lowering import loops
from tests.support.random_vectors import VectorProgram, vector_programs


def moved(made: VectorProgram, region: str) -> tuple[int, int]:
    """Bytes of a region that move, and different ones."""
    spans = transfers(made.block, region, region == "y")
    return int((spans[:, 1] - spans[:, 0]).sum()), length(union(spans))


def test_programs_are_sound() -> None:
    for made in vector_programs():
        check_block(made.block, made.soc)
        assert all(loop.trips > 1 for loop in loops(made.block.body))
        assert not has_race(replace(made.block, body=few_trips(made.block.body))), made.work


def test_every_result_is_stored_once_and_every_operand_is_read() -> None:
    """Full operands once, or once a sweep if a row does not fit into UB."""
    for made in vector_programs():
        for stream in (*made.work.inputs, *made.work.outputs):
            total, different = moved(made, stream.ref.region)
            assert different == stream.ref.bytes, (stream, made.work)
            if stream.ref.region == "y" or (stream.over == "all" and made.work.sweeps == 1):
                assert total == stream.ref.bytes, (stream, made.work)
            elif stream.over == "all":
                fits = made.work.cols * 2 * stream.ref.dtype.itemsize <= made.room("in0") * 2
                assert total == stream.ref.bytes * (1 if fits else made.work.sweeps), (stream, made.work)


def test_every_step_sees_every_element() -> None:
    """Steps that no reduction folds and that the chip has as they are; a broadcast operand may make strips,
    whose last one is as wide as the others.
    """
    for made in vector_programs():
        elements: Counter[str] = Counter()
        for item, _ in in_order(made.block.body):
            if isinstance(item, Vector):
                elements[item.op] += item.elements * item.calls
        for op in ("vmul", "vrelu", "vmuls"):
            steps = [step for step in made.work.steps if step.op == op]
            if steps and steps[0].dtype.value in made.soc.vector.intrinsics.get(op, ()):
                whole = made.work.rows * made.work.cols * len(steps)
                strips = made.work.rows * align(made.work.cols, 256 // steps[0].dtype.itemsize) * len(steps)
                assert whole <= elements[op] <= max(whole * 1.25 + 128 * len(steps), strips), (op, made.work)
                if all(stream.over in ("all", "one") for stream in made.work.inputs):
                    assert elements[op] == whole, (op, made.work)


def test_a_tile_has_room_in_ub_and_all_of_it_is_used() -> None:
    """What is brought is read, what is stored was made, and results are as wide as their elements."""
    for made in vector_programs():
        for name, (used, brought) in on_chip(made.block, Buffer.UB).items():
            if name.startswith("in"):
                assert union(np.array(used + brought)) == used, (name, made.work)
            elif name.startswith("out"):
                assert union(np.array(used + brought)) == brought, (name, made.work)
        for item, _ in in_order(made.block.body):
            if (
                isinstance(item, Vector)
                and not made.work.planes
                and made.work.reduces == "none"
                and item.calls == 1
            ):
                width = (
                    4
                    if item.dtype == "float32" and item.dst.name == "tmp"
                    else made.work.outputs[0].ref.dtype.itemsize
                )
                assert item.dst.bytes >= item.elements * width, made.work


def test_what_streams_has_two_slots_and_what_stays_one() -> None:
    for made in vector_programs():
        slots = {allocation.name: allocation.slots for allocation in made.block.allocations}
        for number, stream in enumerate(made.work.inputs):
            assert slots[f"in{number}"] == (
                2 if stream.over in ("all", "row") and not made.work.planes else 1
            )
        for number, stream in enumerate(made.work.outputs):
            assert slots[f"out{number}"] == (2 if stream.over in ("all", "row") else 1)


def test_tiles_are_large_unless_that_would_leave_nothing_to_overlap() -> None:
    """Tiles fill UB, or four of them are a share, or they reach 16 KB: no smaller ones, and none that could
    be cut further."""
    for made in vector_programs():
        if (
            made.work.planes
            or made.work.reduces == "rows"
            or any(stream.over == "col" for stream in made.work.inputs)
        ):
            continue
        loads = [
            item
            for item, _ in in_order(made.block.body)
            if isinstance(item, Move) and item.pipe is Pipe.MTE2 and item.src.name == "x"
        ]
        largest, full = max(item.bytes for item in loads), made.sizes["x"]
        used = sum(
            allocation.bytes for allocation in made.block.allocations if allocation.buffer is Buffer.UB
        )
        others = len(made.work.inputs) + len(made.work.outputs)
        wanted = min(full, max(ceil_div(full, 4), 16 * 1024 // others))
        assert largest >= 0.7 * wanted or used >= 0.5 * capacity(made.soc, Buffer.UB), made.work
        row = full // made.work.rows
        assert largest <= max(2 * wanted, wanted + 16 * row, wanted + 1024), made.work


def test_values_between_steps_have_room() -> None:
    """One value of the widest type for each element of a tile; two if it is wider than what comes in, which
    is converted first."""
    for made in vector_programs():
        widest = max(step.dtype.itemsize for step in made.work.steps)
        narrow = min(stream.ref.dtype.itemsize for stream in made.work.inputs if stream.over == "all")
        tile = made.room("in0") / narrow
        each = widest * (2 if widest > narrow else 1)
        if len(made.steps) > 1 and not made.work.planes:
            assert tile * each * 0.9 - 64 <= made.room("tmp") <= tile * each + 32, made.work
        elif len(made.steps) == 1:
            assert made.room("tmp") == 0, made.work
    assert {step.dtype for made in vector_programs() for step in made.work.steps} == {
        DType.FLOAT16,
        DType.FLOAT32,
    }


def in_small_room(made: VectorProgram, size: int) -> Block | None:
    """The block of the same work on a chip with so small a UB; None if it is refused."""
    cores = {"vector_cores": 1} if made.soc.split_cores else {}
    soc = load(made.soc.name, {"ai_cores": 1, "buffers.ub": size, **cores})
    try:
        (group,) = lower_vector(made.work, soc, Expansion(soc)).groups
    except CompileError:
        return None
    check_block(group.block, soc)
    return group.block


def test_the_smallest_room_is_that_for_one_element_at_a_time() -> None:
    """With a byte less the work is refused, and nothing that fits is."""
    seen = 0
    for made in vector_programs()[:24]:
        first = made.work.inputs[0].ref
        if first.format is Format.ND and not made.work.planes:
            size = bisect_left(
                range(4096), True, 64, key=lambda size, made=made: in_small_room(made, size) is not None
            )
            block = in_small_room(made, size)
            assert block is not None
            loads = [item for item, _ in static(block.body) if isinstance(item, Move)]
            assert {item.bytes for item in loads if item.src.name == "x"} == {first.dtype.itemsize}, made.work
            seen += 1
    assert seen > 6
