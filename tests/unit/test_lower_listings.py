"""Programs of small vector, movement and scalar work as listings: tiles, slots, operands, strides, flags."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import ascendsim as asim
from ascendsim.isa.listing import listing
from ascendsim.lower.program import Lowering
from ascendsim.opset.work import Work
from ascendsim.soc import load
from tests.support.listed_works import CASES, long_reduction, padding
from tests.support.lowering import moved, verify


@pytest.mark.parametrize(("make", "chip"), CASES, ids=[make.__name__ for make, _ in CASES])
def test_program(make: Callable[[], Work], chip: str, golden: Callable[[str, str], None]) -> None:
    cores = 8 if make is long_reduction else 2
    split = load(chip).split_cores
    soc = load(chip, {"ai_cores": cores} | ({"vector_cores": cores} if split else {}))
    stages = Lowering(soc).stages(make())
    verify(stages, soc)
    text = "".join(f"{group.count} x {listing(group.block)}" for stage in stages for group in stage.groups)
    golden(f"lower/{make.__name__}_{chip}.txt", f"{make.__doc__}\n\n{text}")


def test_a_part_that_is_only_written_takes_no_more_room_than_its_bytes() -> None:
    """A mask that is filled beside data that are copied: however long it is."""
    soc = load("Ascend310")
    assert moved(Lowering(soc).stages(padding()))["z", True] == 8000
    for count in (1000, 100_000):
        builder = asim.GraphBuilder("dropout")
        made = builder.op("Dropout", builder.input("x", (count,)), outputs=["y", "mask"]).producer
        assert made is not None
        for tensor in made.outputs:
            builder.output(tensor)
        model = asim.compile(builder.build(), soc="Ascend310")
        assert moved_bytes(model, "mask") == count


def moved_bytes(model: asim.CompiledModel, region: str) -> int:
    """Bytes that tasks write to a tensor."""
    return sum(
        access.moved_bytes
        for task in model.program.tasks
        for access in task.accesses
        if access.region == region and access.write
    )
