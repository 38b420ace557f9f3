"""How many cores vector work takes, and what its cores hold of a stream at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.isa.instructions import Vector
from ascendsim.lower.templates.stage import Stage
from ascendsim.lower.templates.steps import Expansion
from ascendsim.lower.templates.vector import lower_vector
from ascendsim.opset.work import Step, Stream, VectorWork
from ascendsim.soc import load
from tests.support.lowering import executed, moved, ref, verify

SOC = load("Ascend910B1")


def normalised(rows: int, cols: int) -> VectorWork:
    """A sum of squares and products by it."""
    steps = (Step("vmul"), Step("vcadd"), Step("vrec", over="row"), Step("vmuls"))
    x, y = ref("x", (rows, cols)), ref("y", (rows, cols))
    return VectorWork(rows, cols, steps, (Stream(x),), (Stream(y),), "cols", 3)


def lowered(work: VectorWork) -> Stage:
    stage = lower_vector(work, SOC, Expansion(SOC))
    verify([stage], SOC)
    return stage


def cores(stage: Stage) -> int:
    return sum(group.count for group in stage.groups)


@pytest.mark.parametrize(("rows", "wanted"), [(1, 1), (16, 16), (48, 48), (136, 46), (4096, 48)])
def test_tiling_functions_give_each_core_as_many_rows(rows: int, wanted: int) -> None:
    """136 rows are 3 a core for 46 cores; a compiler that weighs what a core costs takes fewer."""
    work = normalised(rows, 64)
    spread = lowered(replace(work, cores="shares"))
    assert cores(spread) == wanted
    assert cores(lowered(work)) <= wanted
    assert moved([spread])["x", False] == rows * 64 * 2


def test_rows_that_nothing_needs_whole_are_cut_in_lines() -> None:
    """9 rows of 2048: 36 shares of 512."""
    x, y = ref("x", (9, 2048)), ref("y", (9, 2048))
    column = Stream(ref("scale", (2048,)), "col")
    work = VectorWork(9, 2048, (Step("vmul"),), (Stream(x), column), (Stream(y),), cores="shares")
    stage = lowered(work)
    assert cores(stage) == 36
    assert moved([stage])["y", True] == 9 * 2048 * 2


def test_kernels_that_start_everywhere_have_idle_cores() -> None:
    work = replace(normalised(16, 64), cores="all")
    stage = lowered(work)
    assert cores(stage) == SOC.vector_units
    assert [group.count for group in stage.groups if not group.block.body] == [SOC.vector_units - 16]
    assert lowered(replace(work, rows=96)).groups[-1].block.body


def test_one_buffer_a_stream_is_one_tile_at_a_time() -> None:
    work = replace(normalised(4800, 1000), cores="shares")
    two, one = lowered(work), lowered(replace(work, overlaps=False))
    for stage, slots in ((two, 2), (one, 1)):
        rings = {item.name: item.slots for item in stage.groups[0].block.allocations}
        assert {rings["in0"], rings["out0"]} == {slots}


def test_a_row_that_fits_alone_is_read_once() -> None:
    """Two rows of 20,000 do not fit into UB with their results, one does."""
    work = normalised(96, 20_000)
    whole, swept = lowered(replace(work, cores="shares")), lowered(work)
    assert moved([whole])["x", False] == 96 * 20_000 * 2
    assert moved([swept])["x", False] == 3 * 96 * 20_000 * 2


def test_numbers_of_a_row_are_taken_from_a_register() -> None:
    """A product by a number needs no copy of it for every element, one by a row of numbers does."""
    work = replace(normalised(96, 4096), in_turn=True, cores="shares")
    rows = replace(work, steps=(*work.steps[:-1], Step("vmul")))
    for one, wanted in ((work, False), (rows, True)):
        items = [item for item, _ in executed([lowered(one)]) if isinstance(item, Vector)]
        assert any(item.op == "vectordup" for item in items) is wanted


@pytest.mark.parametrize(
    ("name", "shapes", "outputs", "attributes", "wanted"),
    [
        ("AddRmsNorm", [(16, 5120), (16, 5120), (5120,)], 3, {}, 16),
        ("RmsNorm", [(136, 4, 128), (128,)], 2, {}, 46),
        ("DynamicQuant", [(1030, 2304)], 2, {}, 47),
        ("ReshapeAndCache", [(16, 1, 128)] * 2 + [(64, 128, 1, 128)] * 2 + [(16,)], 2, {}, 16),
        (
            "split_qkv_rmsnorm_rope",
            [(16, 768), (16, 128), (16, 128), (128,), (128,)],
            3,
            {"q_hidden_size": 512, "kv_hidden_size": 128, "head_dim": 128},
            48,
        ),
    ],
)
def test_small_kernels_take_the_cores_that_profiles_and_tilings_say(
    name: str, shapes: list[tuple[int, ...]], outputs: int, attributes: dict[str, int], wanted: int
) -> None:
    b = asim.GraphBuilder()
    inputs = [
        b.input(f"x{n}", shape, DType.INT32 if shape == (16,) else DType.BFLOAT16)
        for n, shape in enumerate(shapes)
    ]
    for n, made in enumerate(b.ops(name, *inputs, outputs=outputs, domain="ascend", **attributes)):
        b.output(made, f"y{n}")
    result = asim.simulate(asim.compile(b.build(), soc="Ascend910_9391", fusion="off"))
    (task,) = [task for task in result.model.program.tasks if task.nodes[0].startswith(name)]
    assert sum(group.count for group in task.groups) == wanted
