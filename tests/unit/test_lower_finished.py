"""Results that vector cores finish while the Cube goes on: bytes, order, time."""

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
from ascendsim.isa.program import Task, TaskKind
from ascendsim.isa.walk import static, times
from ascendsim.soc import load

CHIP = "Ascend910B1"


def graph(m: int, k: int, n: int, *, tokens: bool = True, batch: int = 1, whole: bool = False) -> Any:
    """An int8 product with a scale a column, and one a row."""
    b = asim.GraphBuilder()
    stack = (batch,) if batch > 1 else ()
    x = b.input("x", (*stack, m, k), DType.INT8)
    scale = b.constant(np.ones(n, np.float32), "s")
    rows = b.input("t", (m,), DType.FLOAT32) if tokens else None
    bias = b.constant(np.ones(n, np.int32), "b") if whole else None
    inputs = x, b.weight("w", (*stack, k, n), dtype=DType.INT8), scale, None, bias, rows
    made = b.op(
        "QuantBatchMatmulV3", *inputs, domain="ascend", dtype=DType.FLOAT16, name="QuantBatchMatmulV3"
    )
    b.output(made, "y")
    return b.build()


def compiled(*sizes: int, chip: str = CHIP, **options: Any) -> Any:
    return asim.compile(graph(*sizes, **options), chip)


def moved(task: Task, write: bool, scratch: bool) -> int:
    return sum(
        access.moved_bytes
        for access in task.accesses
        if ("workspace" in access.region) == scratch and access.write == write
    )


@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ((16, 512, 1536), {}),
        ((1, 512, 1536), {}),
        ((1000, 256, 1040), {"whole": True}),
        ((33, 64, 72), {"batch": 3}),
    ],
)
def test_every_sum_passes_through_scratch_memory_once(
    sizes: tuple[int, ...], options: dict[str, Any]
) -> None:
    m, k, n = sizes
    count = options.get("batch", 1)
    (task,) = compiled(*sizes, **options).program.tasks
    assert task.kind is TaskKind.MIX_AIC
    check_teams(task)
    for group in task.groups:
        check_block(group.block, load(CHIP))
        check_hazards(group.block)
    sums = 4 * count * m * n
    assert moved(task, True, True) == sums
    assert sums <= moved(task, False, True) <= 2 * sums  # a row alone is read by both cores of a team
    assert 2 * count * m * n <= moved(task, True, False) <= 4 * count * m * n
    macs = sum(
        item.m * item.k * item.n * times(around) * group.count
        for group in task.groups
        for item, around in static(group.block.body)
        if isinstance(item, Mmad)
    )
    assert macs >= count * m * k * n


def test_even_rows_are_stored_once() -> None:
    (task,) = compiled(1024, 256, 1024).program.tasks
    assert moved(task, True, False) == 2 * 1024 * 1024
    assert moved(task, False, True) == 4 * 1024 * 1024


def test_finishing_hides_behind_the_products() -> None:
    """Without scales of rows FIXPIPE does all; with them vector cores work beside the Cube, not after it."""
    alone, beside = (
        asim.simulate(compiled(1024, 4096, 4096, tokens=tokens)).duration_us for tokens in (False, True)
    )
    assert alone < beside < 1.25 * alone


def test_a_chip_whose_cores_are_one_finishes_on_the_way_out() -> None:
    model = compiled(64, 256, 256, chip="Ascend310P3")
    (task,) = model.tasks_of("QuantBatchMatmulV3")
    assert task.kind is TaskKind.AI_CORE
    assert not moved(task, True, True)
