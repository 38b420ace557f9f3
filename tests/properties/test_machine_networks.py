"""Programs of real networks obey the rules of the checks and the laws of the machine on every kind of
chip."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

import ascendsim
from ascendsim.compiler.model import CompiledModel
from ascendsim.isa.checks import check_program
from ascendsim.isa.hazards import check_hazards
from ascendsim.isa.instructions import Mmad
from ascendsim.isa.walk import in_order
from ascendsim.machine import run
from tests.support.gate import case

MODELS = Path(__file__).parent.parent / "data" / "models"
CHIPS = ("Ascend310", "Ascend310P3", "Ascend910A", "Ascend910B1")
QUICK = ("lenet5", "bert_tiny_s64")
LONG = tuple(sorted(path.stem for path in MODELS.glob("*.onnx") if path.stem not in QUICK))
CASES = [
    case(name, chip, quick=name in QUICK and place % 2 == turn)  # in the gate each chip with one of them
    for turn, name in enumerate((*QUICK, *LONG))
    for place, chip in enumerate(CHIPS)
]


@cache
def compiled(name: str, chip: str) -> CompiledModel:
    return ascendsim.compile(ascendsim.load(MODELS / f"{name}.onnx"), soc=chip)


@pytest.mark.parametrize(("name", "chip"), CASES)
def test_programs_keep_to_buffers_slots_and_flags(name: str, chip: str) -> None:
    model = compiled(name, chip)
    check_program(model.program, model.soc)
    for task in model.program.tasks:
        for group in task.groups:
            check_hazards(group.block, limit=600)


@pytest.mark.parametrize(("name", "chip"), CASES)
def test_groups_equal_their_members_and_no_bound_is_beaten(name: str, chip: str) -> None:
    model = compiled(name, chip)
    trace = run(model.program, model.soc)
    if name in QUICK or model.soc.ai_cores < 10:
        assert run(model.program, model.soc, groups=False).tasks == trace.tasks
    for record in trace.tasks:
        seconds = float((record.end - record.start) * trace.tick_seconds)
        cube = 2 * record.macs / (model.soc.peak_fp16_tflops * 1e12)
        assert seconds >= cube * (1 - 1e-9)
        for counted, rate in (
            (record.read_bytes, model.soc.dram.read_gb_per_s),
            (record.write_bytes, model.soc.dram.write_gb_per_s),
        ):
            assert seconds * rate * 1e9 >= counted["ddr"] * (1 - 1e-9) - 1


@pytest.mark.parametrize("chip", CHIPS)
def test_counted_macs_are_those_of_the_instructions_that_run(chip: str) -> None:
    model = compiled("lenet5", chip)
    records = {record.task: record.macs for record in run(model.program, model.soc).tasks}
    assert sum(records.values()) >= 416_520  # the network's own, padding on top
    for task in model.program.tasks:
        walked = sum(
            group.count * item.m * item.k * item.n
            for group in task.groups
            for item, _ in in_order(group.block.body)
            if isinstance(item, Mmad)
        )
        assert records[task.id] == walked
