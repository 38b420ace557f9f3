"""Attention as one task of cube and vector cores: what teams have, what moves, how time follows the work."""

from __future__ import annotations

from typing import Any

import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.isa.checks import check_program
from ascendsim.isa.hazards import check_hazards
from ascendsim.isa.instructions import Mmad, SetFlag, WaitFlag
from ascendsim.isa.program import CoreKind, Program, TaskKind
from ascendsim.isa.walk import static, times
from ascendsim.lower.templates.attention import units_of
from ascendsim.opset.attention import Band, EqualHeads
from ascendsim.opset.work import AttentionWork
from ascendsim.soc import load
from tests.support.lowering import loops

CAUSAL = {"sparse_mode": 2}


def _graph(
    queries: int, keys: int, heads: int, shared: int, *, size: int = 128, grad: bool = False, **options: Any
) -> Any:
    """BNSD, bfloat16, one sequence."""
    b = asim.GraphBuilder()
    half = DType.BFLOAT16
    q = b.input("q", (1, heads, queries, size), half)
    k, v = (b.input(name, (1, shared, keys, size), half) for name in "kv")
    mask = b.input("mask", (2048, 2048), DType.BOOL) if options else None
    numbers = {"scale_value": 0.1, "head_num": heads, "input_layout": "BNSD", **options}
    if not grad:
        made = b.ops(
            "FlashAttentionScore", q, k, v, None, None, None, mask, outputs=4, domain="ascend", **numbers
        )
        for place in (0, 1, 3):
            b.output(made[place], f"y{place}")
        return b.build()
    dy, out = (b.input(name, (1, heads, queries, size), half) for name in ("dy", "out"))
    rows = [b.input(name, (1, heads, queries, 8), DType.FLOAT32) for name in ("maxima", "sums")]
    given = (q, k, v, dy, None, None, None, mask, *rows, None, out)
    made = b.ops("FlashAttentionScoreGrad", *given, outputs=4, domain="ascend", **numbers)
    for place in range(3):
        b.output(made[place], f"y{place}")
    return b.build()


def _program(*sizes: int, **options: Any) -> Program:
    return asim.compile(_graph(*sizes, **options), "Ascend910B3").program


def _macs(program: Program) -> int:
    (task,) = program.tasks
    return sum(
        item.m * item.k * item.n * times(around) * group.count
        for group in task.groups
        for item, around in static(group.block.body)
        if isinstance(item, Mmad)
    )


def _moved(program: Program, region: str) -> int:
    (task,) = program.tasks
    return sum(access.moved_bytes for access in task.accesses if access.region == region)


@pytest.mark.parametrize("grad", [False, True])
def test_one_task_of_teams(grad: bool) -> None:
    (task,) = _program(700, 1100, 3, 1, grad=grad).tasks
    assert task.kind is TaskKind.MIX_AIC
    cubes = [group for group in task.groups if group.block.core is CoreKind.CUBE]
    vectors = [group for group in task.groups if group.block.core is CoreKind.VECTOR]
    assert sum(group.count for group in cubes) * 2 == sum(group.count for group in vectors)
    assert {group.team for group in cubes} == {group.team for group in vectors}


@pytest.mark.parametrize(("grad", "products"), [(False, 2), (True, 5)])
@pytest.mark.parametrize(("queries", "keys"), [(1024, 2048), (700, 1104), (96, 48)])
def test_the_cube_does_all_products_once(grad: bool, products: int, queries: int, keys: int) -> None:
    assert _macs(_program(queries, keys, 3, 1, grad=grad)) == products * 3 * queries * keys * 128


def test_blocks_above_the_diagonal_are_left_out() -> None:
    whole = _macs(_program(4096, 4096, 2, 2))
    causal = _macs(_program(4096, 4096, 2, 2, **CAUSAL))
    assert 0.5 < causal / whole < 0.55  # blocks on the diagonal are whole


def test_scores_are_no_tensors() -> None:
    """What is in memory grows with the cores, not with the square of the length; results are written once."""
    sizes = {}
    for length in (8192, 16384):
        program = _program(length, length, 1, 1)
        sizes[length] = sum(
            region.bytes for region in program.memory.regions.values() if region.kind == "workspace"
        )
        assert _moved(program, "y3") == length * 128 * 2
        assert _moved(program, "y0") == length * 32
    assert sizes[8192] == sizes[16384] < 8192**2 * 4 // 3


@pytest.mark.parametrize("sizes", [(700, 1100, 3, 1), (96, 48, 3, 1)])
def test_what_goes_to_scratch_memory_comes_back_once(sizes: tuple[int, ...]) -> None:
    """Of sums only what a block of keys before has left."""
    (task,) = _program(*sizes).tasks
    moved = {
        write: {
            access.region: access.moved_bytes
            for access in task.accesses
            if access.write is write and "/workspace/" in access.region
        }
        for write in (False, True)
    }
    assert len(moved[True]) >= 3
    assert moved[False] == moved[True]


def test_grouped_heads_take_no_more_memory() -> None:
    few, many = _program(1024, 1024, 8, 1), _program(1024, 1024, 8, 8)
    assert _macs(few) == _macs(many)
    size = {name: program.memory.regions["k"].bytes for name, program in (("few", few), ("many", many))}
    assert size["few"] * 8 == size["many"]


def test_masks_are_read_where_they_reach() -> None:
    """Of 16 x 4 blocks of a causal head those that hold the diagonal: 256 rows by what is left of 1024."""
    program = _program(4096, 4096, 1, 1, **CAUSAL)
    diagonal = sum(256 * (256 * (1 + block % 4)) for block in range(16))
    assert _moved(program, "mask") == diagonal
    assert _moved(_program(4096, 4096, 1, 1), "mask") == 0


def test_every_flag_that_is_set_is_waited_for() -> None:
    (task,) = _program(700, 1100, 3, 1, grad=True).tasks
    for group in task.groups:
        names = {flag.name for flag in group.block.cross}
        used = {item.flag for item, _ in static(group.block.body) if isinstance(item, SetFlag | WaitFlag)}
        assert names <= used


def test_units_of_a_row_block() -> None:
    work = AttentionWork(
        (),
        256,
        1024,
        DType.FLOAT16,
        (),
        (),
        (),
        (),
        (),
        (),
        (),
        masks=("m",),  # type: ignore[arg-type]
    )
    last = list(units_of(work, EqualHeads(1, 2500, 2500, Band(-1500, 0)), 2000))
    assert [(unit.columns, unit.masked, unit.first, unit.last) for unit in last] == [
        (1024, True, True, False),
        (736, True, False, True),
    ]


def test_time_follows_the_work() -> None:
    """Twice the heads on all cores take twice the time; half the scores about half."""
    time = {
        heads: asim.simulate(asim.compile(_graph(2048, 2048, heads, heads), "Ascend910B3")).duration_us
        for heads in (20, 40)
    }
    assert 1.8 < time[40] / time[20] < 2.1
    causal = asim.simulate(asim.compile(_graph(2048, 2048, 40, 40, **CAUSAL), "Ascend910B3")).duration_us
    assert 0.5 < causal / time[40] < 0.75


def test_one_kernel_beats_its_formula() -> None:
    b = asim.GraphBuilder()
    q, k, v = (b.input(name, (1, 16, 2048, 128), DType.FLOAT16) for name in "qkv")
    scores = b.op("Mul", b.op("MatMul", q, b.op("Transpose", k, perm=(0, 1, 3, 2))), 0.1)
    b.output(b.op("MatMul", b.op("Softmax", scores, axis=-1), v), "y")
    formula = asim.simulate(asim.compile(b.build(), "Ascend910B3")).duration_us
    kernel = asim.simulate(asim.compile(_graph(2048, 2048, 16, 16), "Ascend910B3")).duration_us
    assert kernel < formula


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (50, 2049, 2, 1), (777, 1333, 4, 2)])
@pytest.mark.parametrize("size", [16, 192])
def test_programs_keep_to_buffers_regions_and_order(sizes: tuple[int, ...], size: int, grad: bool) -> None:
    program = _program(*sizes, size=size, grad=grad)
    check_program(program, load("Ascend910B3"))
    for group in program.tasks[0].groups:
        check_hazards(group.block)
        assert all(loop.trips > 1 for loop in loops(group.block.body))


def test_scratch_memory_stays_in_a_small_l2() -> None:
    """62 MB of rings beside 80 MB of operands and sums, and 96 MB of L2: a team needs little of each at a
    time, so that DRAM carries operands and sums, not products."""
    graph = _graph(4096, 4096, 16, 8, grad=True, **CAUSAL)
    task = asim.simulate(asim.compile(graph, "Ascend910B4")).trace.tasks[0]
    for moved in (task.read_bytes, task.write_bytes):
        assert 0 < moved["ddr"] < 0.1 * moved["l2"]


@pytest.mark.parametrize("grad", [False, True])
def test_one_tile_is_multiplied_while_the_next_one_comes(grad: bool) -> None:
    """Two places for each operand in L1 and L0, and for results."""
    groups = _program(777, 1333, 4, 2, grad=grad).tasks[0].groups
    blocks = [group.block for group in groups if group.block.core is CoreKind.CUBE]
    slots = {one.name: one.slots for block in blocks for one in block.allocations}
    assert len(slots) >= 4
    assert set(slots.values()) == {2}
