"""Weights of few bits that vector cores make floats while the Cube multiplies: bytes, order, time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.isa.checks import check_block
from ascendsim.isa.cross_checks import check_teams
from ascendsim.isa.hazards import check_hazards
from ascendsim.isa.instructions import Mmad
from ascendsim.isa.program import CoreKind, Task, TaskKind
from ascendsim.isa.walk import static, times
from ascendsim.lower.accesses import task_of
from ascendsim.lower.engine import work_of
from ascendsim.lower.program import Lowering
from ascendsim.machine import run as run_machine
from ascendsim.ops import default_opset
from ascendsim.opset.work import WORKSPACE, LowerContext, WorkChoice
from ascendsim.soc import load

CHIP = "Ascend910B1"


def graph(m: int, k: int, n: int, bits: int = 8, group: int = 0, turned: bool = False) -> Any:
    """A product with weights of so many bits; 16: of floats."""
    b = asim.GraphBuilder()
    x = b.input("x", (m, k), DType.FLOAT16)
    if bits == 16:
        b.output(b.op("MatMul", x, b.weight("w", (k, n), dtype=DType.FLOAT16)), "y")
        return b.build()
    shape = (n, k) if turned else (k, n)
    kind = DType.INT8
    if bits == 4:
        shape, kind = (shape[0], shape[1] // 8), DType.INT32
    groups = -(-k // group) if group else 1
    scale = (n, groups) if turned and group else (groups, n) if group else (n,)
    inputs = x, b.weight("w", shape, dtype=kind), b.constant(np.ones(scale, np.float16), "s")
    more = {"antiquant_group_size": group, "transpose_weight": int(turned)}
    b.output(b.op("WeightQuantBatchMatmulV2", *inputs, domain="ascend", **more), "y")
    return b.build()


def simulated(*sizes: int, chip: str = CHIP, **options: Any) -> Any:
    return asim.simulate(asim.compile(graph(*sizes, **options), chip))


def staged(*sizes: int, **options: Any) -> Task:
    """The task whose weights are made beside the product, whether it is the quickest way or not."""
    soc, (node,) = load(CHIP), graph(*sizes, **options).nodes
    work = work_of(node, default_opset(), LowerContext.of(soc))
    assert isinstance(work, WorkChoice)
    (stage,) = Lowering(soc).stages(work.ways[0])
    return task_of(stage, 0, "p", soc)


def scratch(task: Task, write: bool) -> int:
    """Bytes that pass through scratch memory one way."""
    return sum(
        access.moved_bytes
        for access in task.accesses
        if access.region.startswith(WORKSPACE) and access.write == write
    )


FORMS = [
    {"turned": False},
    {"turned": True},
    {"bits": 4, "group": 128},
    {"bits": 4, "group": 128, "turned": True},
]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_few_rows_are_quicker_than_with_float16(form: dict[str, Any]) -> None:
    plain = simulated(16, 4096, 4096, bits=16)
    few = simulated(16, 4096, 4096, **form)
    assert [task.kind for task in few.model.program.tasks] == [TaskKind.MIX_AIC]
    assert few.duration_us < plain.duration_us


def test_a_small_matrix_takes_fewer_teams() -> None:
    plain, few = (simulated(16, 4096, 1024, **form) for form in ({"bits": 16}, {"turned": True}))
    (task,) = few.model.program.tasks
    cubes = sum(group.count for group in task.groups if group.block.core is CoreKind.CUBE)
    assert cubes <= load(CHIP).ai_cores // 2
    assert few.duration_us < plain.duration_us


def test_a_large_matrix_takes_little_more_than_its_bytes() -> None:
    result = simulated(16, 4096, 11008, bits=4, group=128)
    stream_us = 4096 * 11008 / 2 / load(CHIP).dram.read_gb_per_s / 1e3
    assert stream_us < result.duration_us < 0.6 * simulated(16, 4096, 11008, bits=16).duration_us


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("sizes", [(16, 4096, 4096), (3, 1024, 1536), (40, 4096, 1536)])
def test_every_weight_passes_through_scratch_memory_once(
    sizes: tuple[int, int, int], form: dict[str, Any]
) -> None:
    m, k, n = sizes
    task = staged(m, k, n, **form)
    check_teams(task)
    for group in task.groups:
        check_block(group.block, load(CHIP))
        check_hazards(group.block)
    for write in (True, False):
        assert 2 * k * n <= scratch(task, write) <= 1.02 * 2 * k * n
    macs = sum(
        item.m * item.k * item.n * times(around) * group.count
        for group in task.groups
        for item, around in static(group.block.body)
        if isinstance(item, Mmad)
    )
    assert macs == m * k * n
    # both vector cores of a team bring the scales of what they make: once, or with each chunk
    scales = next(access for access in task.accesses if access.region == "s")
    groups = k // form["group"] if "group" in form else 1
    assert scales.unique_bytes == 2 * groups * n
    turns, left = divmod(scales.moved_bytes, 2 * scales.unique_bytes)
    assert not left
    assert turns == 1 if groups > 1 else turns >= 1


def test_nothing_of_scratch_memory_comes_from_dram() -> None:
    result = simulated(16, 4096, 4096)
    (task,) = result.trace.tasks
    outside = 4096 * 4096 + 16 * 4096 * 2 + 4096 * 2
    assert outside <= task.read_bytes["ddr"] <= 1.02 * outside
    assert task.write_bytes["ddr"] == 0


def test_the_cube_multiplies_while_weights_are_made() -> None:
    model = asim.compile(graph(16, 4096, 4096), CHIP)
    records = run_machine(model.program, model.soc, instructions=True).instructions
    products = [record for record in records if record.pipe == "M"]
    made = [record for record in records if record.pipe == "V"]
    halfway = (min(record.start for record in made) + max(record.end for record in made)) / 2
    before = sum(record.end <= halfway for record in products)
    assert 0.2 < before / len(products) < 0.5  # behind what is made, but not far


def test_scratch_memory_is_for_few_chunks() -> None:
    model = asim.compile(graph(16, 11008, 4096), CHIP)
    (region,) = [region for region in model.program.memory.regions.values() if region.kind == "workspace"]
    assert region.bytes < 0.3 * 2 * 11008 * 4096


def test_many_rows_have_their_weights_made_first() -> None:
    tasks = simulated(2048, 1024, 1024).model.program.tasks
    assert [task.kind for task in tasks] == [TaskKind.AI_VECTOR_CORE, TaskKind.AI_CORE]


def test_cores_that_are_one_work_in_turn() -> None:
    program = simulated(16, 1024, 1024, chip="Ascend310P3").model.program
    assert {group.block.core for task in program.tasks for group in task.groups} == {CoreKind.AI}


def test_few_columns_need_no_whole_block_of_what_is_stored() -> None:
    """L0C holds 48 columns of 600 rows: fewer than the 64 of 4 bits that fill 32 bytes, but all that there
    are."""
    task = staged(600, 256, 32, bits=4, group=128)
    assert sum(group.count for group in task.groups if group.block.core is CoreKind.CUBE) == 1
    check_teams(task)
