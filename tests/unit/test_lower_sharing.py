"""How vector, movement and scalar work is shared and tiled: optima worked out by hand, limits at n and
n + 1, and tiles that leave no room for a larger one."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format
from ascendsim.isa.capacity import capacity
from ascendsim.isa.costs import cost
from ascendsim.isa.instructions import Buffer, Move, Pipe, Vector
from ascendsim.isa.program import CoreKind
from ascendsim.isa.walk import in_order
from ascendsim.lower.templates.movement import lower_movement, lower_scalar
from ascendsim.lower.templates.sharing import (
    Computing,
    as_profiled,
    lanes_of,
    share_of,
    space_of,
    worthwhile_cores,
)
from ascendsim.lower.templates.stage import Stage
from ascendsim.lower.templates.steps import Expansion, broadcast_calls
from ascendsim.lower.templates.vector import lower_vector
from ascendsim.opset.work import Copy, MoveWork, Over, ScalarWork, Step, Stream, VectorWork
from ascendsim.soc import SocSpec, load
from tests.support.lowering import ref
from tests.support.toy_machine import UB

WHOLE = 1 << 30
HALF, FULL = DType.FLOAT16, DType.FLOAT32


def blocks(stage: Stage) -> int:
    return sum(group.count for group in stage.groups)


def elementwise(count: int, dtype: DType = HALF) -> VectorWork:
    x, y = ref("x", (count,), dtype=dtype), ref("y", (count,), dtype=dtype)
    return VectorWork(1, count, (Step("vadds", dtype),), (Stream(x),), (Stream(y),))


def chip(dispatch: float = 0.1, **more: object) -> SocSpec:
    """Ascend910A with 32 cores, 1 byte a cycle in and out of UB, and DRAM that is never the slowest."""
    changes = {"ports.gm_to_ub": 1, "ports.ub_to_gm": 1, "dram.read_gb_per_s": 1e6, "frequency_mhz": 1000}
    return load(
        "Ascend910A", {**changes, "ai_cores": 32, "launch.block_dispatch_ns": dispatch * 1000, **more}
    )


# A core with 1/p of b bytes and c cycles of computing takes max(b, c)/p + (b + c)/4p, and p dispatches of d:
# least where p * p = (max(b, c) + (b + c)/4) / d.
@pytest.mark.parametrize(
    ("bytes", "computing", "cores"),
    [
        (8000, 0, 10),  # 10 000 / 100
        (5000, 0, 7.906),
        (8000, 12_000, 13.04),  # 17 000 / 100
        (8000, 4000, 10.488),  # 11 000 / 100
        (800, 0, 1),  # no more than whole transactions of 512 bytes
        (1023, 10**6, 1),
        (1024, 10**6, 2),
        (10**7, 0, 32),  # no more than there are
    ],
)
def test_cores_are_as_many_as_bring_the_end_nearest(bytes: int, computing: int, cores: float) -> None:
    found = worthwhile_cores(bytes, chip(), computing)
    assert found in {math.floor(cores), math.ceil(cores)}


def test_the_slower_port_counts_and_so_does_dram() -> None:
    for port in ("ports.gm_to_ub", "ports.ub_to_gm"):
        other = "ports.ub_to_gm" if port == "ports.gm_to_ub" else "ports.gm_to_ub"
        assert worthwhile_cores(32_000, chip(**{port: 4, other: 100})) == 10
    # 1 GB/s at 1000 MHz is a byte a cycle: 8000 cycles for any number of cores, so only the rest counts
    slow = worthwhile_cores(8000, chip(**{"dram.read_gb_per_s": 1}))
    assert slow in (4, 5)  # 2000 / 100 = 4.5 squared


@pytest.mark.parametrize(("name", "profiled"), [("Ascend910A", 32), ("Ascend910B1", 48)])
def test_cores_beyond_those_of_profiles_must_bring_the_end_nearer(name: str, profiled: int) -> None:
    soc = load(name, {"ai_cores": 256, "vector_cores": 512} if name == "Ascend910B1" else {"ai_cores": 256})
    for wanted in (1, profiled - 1, profiled):
        assert as_profiled(wanted, 0, soc) == wanted
    found = [as_profiled(200, bytes, soc) for bytes in (0, *(1 << power for power in range(12, 33)))]
    assert found == sorted(found)
    assert (found[0], found[-1]) == (profiled, 200)
    assert any(profiled < cores < 200 for cores in found)


def test_cycles_of_steps_are_those_of_their_repeats() -> None:
    """256 bytes a repeat; steps on single values, rows and columns count for nothing."""
    soc = load("Ascend910A")  # 4 cycles for vexp in float16, 2 in float32, 22 for vdiv, 1 for vadds
    for steps, cycles in (
        ((Step("vadds"),), 100),
        ((Step("vadds", count=3), Step("vadds", over="row"), Step("vadds", over="one")), 300),
        ((Step("vadds", FULL),), 200),
        ((Step("vexp"), Step("vexp", FULL), Step("vdiv")), 400 + 400 + 2200),
        ((Step("unheard of"),), 100),
    ):
        assert Computing.of(steps, soc).cycles(64 * 200) == cycles


@pytest.mark.parametrize(
    ("name", "run", "overruns", "cycles"),
    [
        ("Ascend910A", 512, False, 4),  # four repeats of 128 elements
        ("Ascend910A", 128, False, 3),  # no instruction takes less
        ("Ascend910A", 500, True, 4),
        ("Ascend910A", 500, False, 4 + 16),  # and the mask of its end
        ("Ascend310", 512, False, 27.2),  # starts every 40 ns at 680 MHz
    ],
)
def test_instructions_that_end_with_a_run_take_their_least_time(
    name: str, run: int, overruns: bool, cycles: float
) -> None:
    step = Step("vadds", count=9, run=run, overruns=overruns)
    for elements, calls in ((1, 1), (run, 1), (run + 1, 2), (10 * run, 10)):
        assert Computing.of((step,), load(name)).cycles(elements) == pytest.approx(9 * calls * cycles)


@pytest.mark.parametrize("name", ["Ascend310", "Ascend310P3", "Ascend910A", "Ascend910B1"])
def test_elementwise_work_takes_a_core_for_every_1024_elements(name: str) -> None:
    soc = load(name)
    for count, cores in ((1, 1), (1024, 1), (1025, 2), (2048, 2), (2049, 3), (10**7, soc.vector_units)):
        work = elementwise(count)
        found = blocks(lower_vector(work, soc, Expansion(soc)))
        assert found == min(cores, soc.vector_units)
        copy = MoveWork((Copy(work.inputs[0].ref, work.outputs[0].ref, 2 * count, WHOLE, WHOLE),))
        assert blocks(lower_movement(copy, soc, Expansion(soc))) == found


def with_row_factors(rows: int, cols: int) -> VectorWork:
    """A matrix of float32 times one value a row."""
    x, y = ref("x", (rows, cols), dtype=FULL), ref("y", (rows, cols), dtype=FULL)
    factor = Stream(ref("f", (rows, 1), dtype=FULL), "row")
    return VectorWork(rows, cols, (Step("vmul", FULL),), (Stream(x), factor), (Stream(y),))


@pytest.mark.parametrize(
    ("work", "published"),
    [  # block counts of tasks in training steps on Ascend910B, DeepFM and ResNet-50
        (elementwise(12_000, FULL), 24),
        (elementwise(16_000, FULL), 30),
        (elementwise(20_000, FULL), 30),
        (elementwise(256 * 128), 30),
        (with_row_factors(16, 100), 4),
        (with_row_factors(32, 100), 7),
        (with_row_factors(64, 100), 13),
    ],
)
def test_elementwise_kernels_cut_evenly_where_the_chips_kernels_do(work: VectorWork, published: int) -> None:
    soc = load("Ascend910B")
    assert blocks(lower_vector(work, soc, Expansion(soc))) == published


@pytest.mark.parametrize(("rows", "published"), [(64, 22), (128, 26), (256, 29), (30, 30)])
def test_slices_take_as_many_cores_as_have_whole_rows(rows: int, published: int) -> None:
    """Concat and Slice of ViT's tokens on Ascend910B: 768 of 50 x 768 numbers of each image."""
    source, target = ref("x", (rows, 50 * 768)), ref("y", (rows, 768))
    copy = Copy(source, target, target.bytes, 768 * 2, target.bytes)
    soc = load("Ascend910B")
    assert blocks(lower_movement(MoveWork((copy,)), soc, Expansion(soc))) == published


@pytest.mark.parametrize(("blocks_n", "published"), [(8, 8), (16, 16), (32, 16), (64, 22)])
def test_sums_of_fractals_have_whole_blocks_of_columns(blocks_n: int, published: int) -> None:
    """BiasAddGrad of DeepFM on Ascend910B: 12000 rows of 128 to 1024 numbers."""
    columns = 16 * blocks_n
    x = Stream(ref("x", (12_000, columns), Format.FRACTAL_NZ))
    steps = (Step("vconv", FULL), Step("vadd", FULL))
    total = Stream(ref("s", (columns,), dtype=FULL), "col")
    work = VectorWork(12_000, columns, steps, (x,), (total,), reduces="rows")
    assert blocks(lower_vector(work, load("Ascend910B"), Expansion(load("Ascend910B")))) == published


@pytest.mark.parametrize(("dispatch", "shared"), [(0.01, True), (100, False)])
@pytest.mark.parametrize("rows", [1, 4, 5, 40])
def test_long_rows_are_cut_if_that_brings_the_end_nearer(rows: int, dispatch: float, shared: bool) -> None:
    soc, columns = chip(dispatch), 32_768
    x, y = Stream(ref("x", (rows, columns))), Stream(ref("y", (rows,)), "row")
    work = VectorWork(rows, columns, (Step("vcadd"),), (x,), (y,), "cols")
    found = blocks(lower_vector(work, soc, Expansion(soc)))
    assert (found > rows) == (shared and rows < 32)
    for kept in (
        VectorWork(rows, columns, (Step("vcadd"),), (x,), (y,), "cols", sweeps=2),
        VectorWork(rows, columns, (Step("vcadd"),), (x,), (y, Stream(ref("z", (rows, columns)))), "cols"),
    ):
        assert blocks(lower_vector(kept, soc, Expansion(soc))) <= rows


def column_sum(rows: int, columns: int, dtype: DType) -> VectorWork:
    x, y = ref("x", (rows, columns), dtype=dtype), ref("y", (columns,), dtype=dtype)
    return VectorWork(
        rows, columns, (Step("vadd", dtype),), (Stream(x),), (Stream(y, "col"),), reduces="rows"
    )


@pytest.mark.parametrize(
    ("name", "rows", "columns", "loads"),
    [
        ("Ascend910A", 32, 84, [336] * 32),  # profile of LeNet-5: BiasAddGrad of 32 x 84 in 32 blocks
        ("Ascend910A", 32, 10, [7 * 40] * 4 + [4 * 40]),  # 64 elements at least
        ("Ascend910A", 1, 10, [40]),
        ("Ascend910A", 32, 16, [32 * 64]),  # whole blocks: worth one core
        ("Ascend910B1", 32, 84, [32 * 336]),
    ],
)
def test_columns_of_rows_that_fill_no_blocks_are_added_up_by_rows(
    name: str, rows: int, columns: int, loads: list[int]
) -> None:
    soc = load(name)
    stage = lower_vector(column_sum(rows, columns, FULL), soc, Expansion(soc))
    found = [
        item.bytes
        for group in stage.groups
        for _ in range(group.count)
        for item, _ in in_order(group.block.body)
        if isinstance(item, Move) and item.src.name == "x"
    ]
    assert found == loads


@pytest.mark.parametrize("columns", [8, 24, 40, 136])
def test_a_share_of_a_sum_is_no_wider_than_the_sum(columns: int) -> None:
    soc = load("Ascend910A")
    for rows in (1, 64, 4096):
        work = column_sum(rows, columns, FULL)
        share = share_of(work, space_of(work), work.steps, soc)
        assert share[0] <= rows
        assert share[1] <= columns


@pytest.mark.parametrize(("name", "whole"), [("Ascend910B1", True), ("Ascend910A", False)])
def test_reads_that_hold_requests_bring_no_piece_shorter_than_a_line(name: str, whole: bool) -> None:
    soc = load(name)
    stage = lower_vector(column_sum(128, 512, HALF), soc, Expansion(soc))
    assert blocks(stage) > 1
    assert all(item.bursts == 1 for item in moves(stage) if item.src.name == "x") == whole


def test_scalar_work_takes_a_core_for_every_64_elements() -> None:
    soc = load("Ascend310P3")
    for elements, cores in ((1, 1), (127, 1), (128, 2), (400, 6), (10_000, 8)):
        work = ScalarWork(elements, 8, (ref("x", (elements,)),), (ref("y", (elements,)),))
        assert blocks(lower_scalar(work, soc)) == cores


def test_shares_begin_at_whole_transactions_and_blocked_tiles_fill_them() -> None:
    """512 bytes: 256 elements of float16, 16 rows of a channel block, and 128 of float32."""
    random = Random(11)
    for name in ("Ascend310", "Ascend310P3", "Ascend910A"):
        soc = load(name)
        for _ in range(12):
            dtype = random.choice((HALF, FULL))
            for item in moves(
                lower_vector(elementwise(random.randint(2000, 300_000), dtype), soc, Expansion(soc))
            ):
                assert item.aligned, item
            positions, channels = 16 * random.randint(20, 200), 16 * random.randint(1, 8)
            x, y = (ref(region, (1, channels, 1, positions), Format.NC1HWC0) for region in "xy")
            scale = Stream(ref("s", (channels,)), "col")
            work = VectorWork(positions, channels, (Step("vmul"),), (Stream(x), scale), (Stream(y),))
            for item in moves(lower_vector(work, soc, Expansion(soc))):
                assert item.aligned or "s" in (item.src.name, item.dst.name), item


def moves(stage: Stage) -> list[Move]:
    return [
        item
        for group in stage.groups
        for item, _ in in_order(group.block.body)
        if isinstance(item, Move) and Buffer.GM in (item.src.buffer, item.dst.buffer)
    ]


def used(stage: Stage) -> int:
    (group,) = stage.groups
    return sum(a.bytes for a in group.block.allocations if a.buffer is Buffer.UB)


@pytest.mark.parametrize("name", ["Ascend310", "Ascend310P3", "Ascend910A"])
def test_large_tiles_leave_no_room_for_a_repeat_more(name: str) -> None:
    """What is free is less than a repeat more of each stream and what padding may take."""
    soc = load(name, {"ai_cores": 1})
    for inputs in (1, 2, 3, 4):
        streams = tuple(Stream(ref(f"x{number}", (4_000_000,))) for number in range(inputs))
        work = VectorWork(1, 4_000_000, (Step("vadd"),), streams, (Stream(ref("y", (4_000_000,))),))
        free = capacity(soc, Buffer.UB) - used(lower_vector(work, soc, Expansion(soc)))
        spare = 256 + 4 * 32 * (inputs + 2)
        assert spare <= free < spare + 2 * (inputs + 1) * 2 * 256


def test_tall_tiles_leave_no_room_for_a_row_more() -> None:
    """A row of x and y in two slots each, and its factor; what is free of UB and not put aside for padding:
    262 144 - 256 - 4 streams and scratch of 128 bytes."""
    soc = load("Ascend910A", {"ai_cores": 1})
    for columns in (500, 990, 1500):
        shapes = {"all": (5003, columns), "row": (5003,), "col": (columns,)}
        overs: list[Over] = ["all", "row", "col"]
        streams = tuple(Stream(ref(over, shapes[over]), over) for over in overs)
        work = VectorWork(5003, columns, (Step("vmul"),), streams, (Stream(ref("y", shapes["all"])),))
        stage = lower_vector(work, soc, Expansion(soc))
        rows = max(item.bytes for item in moves(stage) if item.src.name == "all") // (2 * columns)
        most = (262_144 - 256 - 128 * 5 - 4 * columns) // (4 * 2 * columns + 4)
        even = -(-5003 // -(-5003 // most))  # as many tiles of equal heights
        assert rows == even


@pytest.mark.parametrize(
    ("count", "inputs", "tile"),
    [
        (100_000, 1, 25_088),  # a quarter of the share, to a multiple of 256
        (20_000, 1, 5_120),  # ceil(20 000 / 4) = 5000 -> 5120 elements: 20 KiB in and out
        (12_000, 1, 4_352),  # a quarter would be 12 KiB: 16 KiB in and out are 4096 elements and one more
        (12_000, 3, 3_072),  # three in and one out: 2049 would do, a quarter is 3000
        (4_000, 3, 2_304),
        (1_000, 1, 1_000),
    ],
)
def test_tiles_are_a_quarter_of_the_share_and_move_16_kib(count: int, inputs: int, tile: int) -> None:
    soc = load("Ascend910A", {"ai_cores": 1})
    streams = tuple(Stream(ref(f"x{number}", (count,))) for number in range(inputs))
    work = VectorWork(1, count, (Step("vadd"),), streams, (Stream(ref("y", (count,))),))
    loads = [item.bytes for item in moves(lower_vector(work, soc, Expansion(soc))) if item.src.name == "x0"]
    assert max(loads) == 2 * tile


@pytest.mark.parametrize(
    ("total", "tile"),
    [
        (10_000, 10_000),
        (16_385, 16_384),
        (65_536, 16_384),
        (65_537, 16_896),
        (300_000, 75_264),
        (2_000_000, None),
    ],
)
def test_tiles_of_a_move_are_a_quarter_of_it_or_16_kib(total: int, tile: int | None) -> None:
    """To whole transactions; two slots of it fill UB at most, but for 1 KiB."""
    soc = load("Ascend910A", {"ai_cores": 1})
    x, y = ref("x", (total,), dtype=DType.INT8), ref("y", (total,), dtype=DType.INT8)
    stage = lower_movement(MoveWork((Copy(x, y, total, WHOLE, WHOLE),)), soc, Expansion(soc))
    largest = max(item.bytes for item in moves(stage) if item.pipe is Pipe.MTE2)
    assert largest == tile or tile is None
    if tile is None:
        assert capacity(soc, Buffer.UB) - 1024 - 2 * 512 <= 2 * largest <= capacity(soc, Buffer.UB) - 1024


def test_the_axis_that_a_blocked_format_splits() -> None:
    assert lanes_of(ref("x", (2, 40, 3, 3), Format.NC1HWC0)) == 48
    assert lanes_of(ref("x", (2, 40, 3, 3), Format.NC1HWC0, DType.INT8)) == 64
    assert lanes_of(ref("x", (5, 7, 33), Format.FRACTAL_NZ)) == 48
    assert lanes_of(ref("x", (7, 33), Format.FRACTAL_NZ)) == 48
    assert lanes_of(ref("x", (7, 33))) == lanes_of(ref("x", (33,))) == 0


@pytest.mark.parametrize(
    ("name", "kind"),
    [("Ascend310", CoreKind.AI), ("Ascend910A", CoreKind.AI), ("Ascend910B1", CoreKind.VECTOR)],
)
def test_broadcast_operands_take_the_cheaper_calls(name: str, kind: CoreKind) -> None:
    """One call a row, or one a strip of columns: as the machine would charge them."""
    soc, random, lanes, rarer = load(name), Random(1), 128, 0
    for _ in range(200):
        rows, cols = random.randint(1, 60), lanes * random.randint(1, 12) + random.randint(1, lanes - 1)
        ways = (cols, rows), (rows * lanes, -(-cols // lanes))
        cycles = [
            cost(Vector("vadd", "float16", elements, UB, (UB, UB), calls=calls), soc, kind).occupancy
            for elements, calls in ways
        ]
        found = ways.index(broadcast_calls(rows, cols, lanes, False, soc))
        assert cycles[found] == min(cycles), (rows, cols)
        rarer += found == 0
    assert rarer or name != "Ascend310"  # whose instructions start slowly


@pytest.mark.parametrize(
    ("elements", "wanted"),
    [(4096, 1), (16_384, 2), (65_536, 6), (262_144, 22), (524_288, 22), (2_359_296, 28)],
)
def test_memory_is_cleared_by_whole_pieces(elements: int, wanted: int) -> None:
    """Block counts of AtomicAddrClean in a profile of the 30 cores of Ascend910B."""
    soc = load("Ascend910B")
    target = ref("y", (elements,), dtype=FULL)
    work = VectorWork(1, elements, (Step("vectordup", FULL),), (), (Stream(target),), cores="pieces")
    assert blocks(lower_vector(work, soc, Expansion(soc))) == wanted


@pytest.mark.parametrize(("shape", "axes"), [((768, 768), (0, 1)), ((4, 200_000), (1,))])
def test_cores_have_parts_of_long_rows_that_are_added_up(
    shape: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    """Rows are gone through one by one on this chip, but few long ones are no reason for few cores."""
    b = asim.GraphBuilder()
    b.output(b.op("ReduceSum", b.input("x", shape), np.array(axes), keepdims=0), "y")
    model = asim.compile(b.build(), "Ascend910B", precision_mode="must_keep_origin_dtype")
    (task,) = model.program.tasks
    assert sum(group.count for group in task.groups) >= 24
