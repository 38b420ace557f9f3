"""Programs of small work of every template as listings: tiles, slots, operands, strides, flags."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import ascendsim as asim
from ascendsim.isa.listing import listing
from ascendsim.lower.needed_flags import with_needed_flags
from ascendsim.lower.program import Lowering
from ascendsim.lower.templates.cube import cube_stage, product_of
from ascendsim.lower.templates.cube_pair import pair_options
from ascendsim.lower.templates.stage import Stage
from ascendsim.lower.templates.steps import Expansion
from ascendsim.opset.work import Work
from ascendsim.soc import load
from tests.support.listed_cubes import CASES as CUBES
from tests.support.listed_cubes import Tiled, pair
from tests.support.listed_stages import CASES as STAGES
from tests.support.listed_works import CASES, long_reduction, padding, scattered
from tests.support.lowering import moved, verify


@pytest.mark.parametrize(("make", "chip"), CASES, ids=[make.__name__ for make, _ in CASES])
def test_program(make: Callable[[], Work], chip: str, golden: Callable[[str, str], None]) -> None:
    cores = {long_reduction: 8, scattered: 1}.get(make, 2)
    split = load(chip).split_cores
    soc = load(chip, {"ai_cores": cores} | ({"vector_cores": cores} if split else {}))
    stages = Lowering(soc).stages(make())
    verify(stages, soc)
    golden(f"lower/{make.__name__}_{chip}.txt", described(make, *stages))


@pytest.mark.parametrize("make", STAGES, ids=[make.__name__ for make in STAGES])
def test_program_of_whole_stages(make: Callable[[], list[Stage]], golden: Callable[[str, str], None]) -> None:
    golden(f"lower/{make.__name__}.txt", described(make, *make()))


def described(make: Callable[[], object], *stages: Stage) -> str:
    """What a program is for, and its listing."""
    about = " ".join((make.__doc__ or "").split())
    text = "".join(
        f"{'' if group.team is None else f'team {group.team}: '}{group.count} x {listing(group.block)}"
        for stage in stages
        for group in stage.groups
    )
    return f"{about}\n\n{text}"


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


@pytest.mark.parametrize(("make", "chip"), CUBES, ids=[make.__name__ for make, _ in CUBES])
def test_program_of_the_cube(
    make: Callable[[], Tiled], chip: str, golden: Callable[[str, str], None]
) -> None:
    soc, case = load(chip), make()
    stage = cube_stage(case.work, product_of(case.work, soc), case.tiling, soc, Expansion(soc))
    stage = with_needed_flags(stage)
    verify([stage], soc)
    golden(f"lower/{make.__name__}_{chip}.txt", described(make, stage))


def test_program_of_two_convolutions(golden: Callable[[str, str], None]) -> None:
    soc = load("Ascend310P3", {"ai_cores": 3})
    options = [make() for make in pair_options(pair(), soc, Expansion(soc))]
    stage = with_needed_flags(options[0])
    verify([stage], soc)
    golden("lower/pair_Ascend310P3.txt", described(pair, stage))
