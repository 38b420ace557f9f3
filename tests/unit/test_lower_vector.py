"""Vector, movement, scalar and sequence work: coverage, conservation, hazards, expansion of missing
intrinsics."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import CompileError
from ascendsim.core.formats import Format
from ascendsim.isa.instructions import Loop, Move, Scalar, Vector
from ascendsim.isa.program import CoreKind, TaskKind
from ascendsim.isa.walk import in_order
from ascendsim.lower.program import Lowering
from ascendsim.lower.templates.movement import aligned_shares, lower_movement, lower_scalar
from ascendsim.lower.templates.sharing import even_bursts, worthwhile_cores
from ascendsim.lower.templates.steps import REPLACEMENTS, SCALAR, Expansion
from ascendsim.lower.templates.vector import lower_vector
from ascendsim.machine import run
from ascendsim.opset.work import Copy, MoveWork, ScalarWork, SequenceWork, Step, Stream, VectorWork
from ascendsim.soc import SocSpec, load
from tests.support.lowering import CHIPS, computed, executed, matmul, moved, program_of, ref, verify

HALF = DType.FLOAT16


def elementwise(
    *shape: int, steps: tuple[Step, ...] = (Step("vadd"),), format: Format = Format.ND
) -> VectorWork:
    x, y = ref("x", shape, format), ref("y", shape, format)
    return VectorWork(1, x.bytes // 2, steps, (Stream(x),), (Stream(y),))


def softmax(rows: int, cols: int, op: str = "vexp") -> VectorWork:
    steps = (Step("vcmax"), Step("vsub"), Step(op), Step("vcadd"), Step("vmul"))
    return VectorWork(
        rows, cols, steps, (Stream(ref("x", (rows, cols))),), (Stream(ref("y", (rows, cols))),), "cols", 3
    )


def check(work: VectorWork, soc: SocSpec):  # type: ignore[no-untyped-def]
    stage = lower_vector(work, soc, Expansion(soc))
    verify([stage], soc)
    return stage


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("shape", [(3,), (1000,), (64, 1000), (1, 256, 56, 56), (7, 33, 129)])
def test_elementwise_work_moves_each_byte_once(chip: str, shape: tuple[int, ...]) -> None:
    soc = load(chip)
    work = elementwise(*shape)
    stage = check(work, soc)
    bytes = moved([stage])
    assert bytes["x", False] == bytes["y", True] == work.inputs[0].ref.bytes
    assert computed([stage], "vadd") == work.cols
    assert stage.kind is (TaskKind.AI_VECTOR_CORE if soc.split_cores else TaskKind.AI_CORE)
    assert {group.block.core for group in stage.groups} == {
        CoreKind.VECTOR if soc.split_cores else CoreKind.AI
    }


@pytest.mark.parametrize("chip", CHIPS)
def test_blocked_maps_with_a_value_a_channel(chip: str) -> None:
    soc = load(chip)
    x, y = ref("x", (2, 64, 28, 28), Format.NC1HWC0), ref("y", (2, 64, 28, 28), Format.NC1HWC0)
    scale = Stream(ref("s", (64,)), "col")
    work = VectorWork(2 * 28 * 28, 64, (Step("vmul"), Step("vadds")), (Stream(x), scale), (Stream(y),))
    stage = check(work, soc)
    bytes = moved([stage])
    assert bytes["x", False] == bytes["y", True] == x.bytes
    assert bytes["s", False] == 128 * sum(group.count for group in stage.groups)
    strided = [item for item, _ in executed([stage]) if isinstance(item, Move) and item.bursts > 1]
    assert strided
    assert all(item.bursts == 4 for item in strided)  # one burst a channel block


@pytest.mark.parametrize("chip", CHIPS)
def test_rows_that_fit_are_read_once_and_long_rows_once_a_sweep(chip: str) -> None:
    soc = load(chip)
    short, long = softmax(128, 1024), softmax(4, 300_000)
    assert moved([check(short, soc)])["x", False] == 128 * 1024 * 2
    stage = check(long, soc)
    assert moved([stage])["x", False] == 3 * 4 * 300_000 * 2
    assert moved([stage])["y", True] == 4 * 300_000 * 2
    assert sum(group.count for group in stage.groups) == min(4, soc.vector_units)


def test_long_reductions_fold_before_they_reduce() -> None:
    soc = load("Ascend910B1")
    stage = check(softmax(64, 4096), soc)
    assert computed([stage], "vmax") >= 64 * 4096
    assert computed([stage], "vcmax") == 64 * 128  # one repeat a row


@pytest.mark.parametrize("chip", CHIPS)
def test_a_reduction_of_one_long_row_is_shared_by_cores(chip: str) -> None:
    soc = load(chip)
    work = VectorWork(
        1,
        4_000_000,
        (Step("vcadd"),),
        (Stream(ref("x", (4_000_000,))),),
        (Stream(ref("y", (1,)), "row"),),
        "cols",
    )
    stage = check(work, soc)
    cores = sum(group.count for group in stage.groups)
    assert cores > 1
    assert moved([stage])["x", False] == 8_000_000
    assert moved([stage])["y", True] == 2 * cores  # partial results meet in global memory


@pytest.mark.parametrize("chip", CHIPS)
def test_reductions_over_rows_store_a_value_a_column(chip: str) -> None:
    soc = load(chip)
    x, y = ref("x", (3136, 256)), ref("y", (256,))
    work = VectorWork(
        3136, 256, (Step("vadd"), Step("vmuls", HALF, "col")), (Stream(x),), (Stream(y, "col"),), "rows"
    )
    stage = check(work, soc)
    assert moved([stage])["x", False] == x.bytes
    # where short pieces are slow, all cores have whole rows and bring a sum each
    sums = sum(group.count for group in stage.groups) if soc.dma.reads_hold_requests else 1
    assert moved([stage])["y", True] == y.bytes * sums
    assert computed([stage], "vmuls") == 256 * sums


def test_small_tensors_take_few_cores_and_large_ones_all() -> None:
    soc = load("Ascend910A")
    blocks = [
        sum(group.count for group in check(elementwise(size), soc).groups) for size in (16, 4096, 10_000_000)
    ]
    assert blocks[0] == 1
    assert blocks[0] <= blocks[1] < blocks[2] == soc.ai_cores
    assert worthwhile_cores(100, soc) == 1


@pytest.mark.parametrize("chip", CHIPS)
def test_intrinsics_that_the_chip_lacks_are_built_from_others(chip: str) -> None:
    soc = load(chip)
    expansion = Expansion(soc)
    for op, dtype in (
        ("vdiv", HALF),
        ("vsqrt", HALF),
        ("vexp", DType.FLOAT32),
        ("vgather", HALF),
        ("vadd", DType.INT64),
        ("vmul", DType.INT8),
    ):
        for step in expansion.expand((Step(op, dtype),)):
            assert step.op == SCALAR or step.dtype.value in soc.vector.intrinsics[step.op]
    check(elementwise(5000, steps=(Step("vdiv"), Step("vsqrt"), Step("vexp", DType.FLOAT32))), soc)


def test_ascend310_divides_by_a_refined_reciprocal_and_computes_exp_in_float16() -> None:
    expansion = Expansion(load("Ascend310"))
    assert [step.op for step in expansion.expand((Step("vdiv"),))] == [
        "vrec",
        "vmul",
        "vmuls",
        "vadds",
        "vmul",
        "vmul",
    ]
    wide = expansion.expand((Step("vexp", DType.FLOAT32),))
    assert [(step.op, step.dtype.value) for step in wide] == [
        ("vconv", "float32"),
        ("vexp", "float16"),
        ("vconv", "float32"),
    ]
    assert expansion.expand((Step("vgather"),))[0].op == SCALAR
    with pytest.raises(
        CompileError, match="intrinsic 'vexpp' does not exist on Ascend310; did you mean vexp"
    ):
        expansion.expand((Step("vexpp"),))


def test_replacements_end() -> None:
    """No intrinsic is built from itself."""
    for op in REPLACEMENTS:
        waiting, depth = {op}, 0
        while waiting := {part for one in waiting for part in REPLACEMENTS.get(one, ())}:
            depth += 1
            assert op not in waiting
            assert depth < len(REPLACEMENTS)


def test_scalar_steps_drain_the_vector_unit_around_them() -> None:
    soc = load("Ascend310")
    stage = check(elementwise(1000, steps=(Step("vadds"), Step("vgather"))), soc)
    assert (
        sum(item.cycles * times for item, times in executed([stage]) if isinstance(item, Scalar)) == 8 * 1000
    )


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    ("read", "write", "steps"),
    [(10**9, 10**9, ()), (96, 10**9, ()), (2048, 64, (Step("vnchwconv"),)), (10**9, 130, ())],
)
def test_movement_carries_every_byte_once(chip: str, read: int, write: int, steps: tuple[Step, ...]) -> None:
    soc = load(chip)
    x, y = ref("x", (123, 1000)), ref("y", (123, 1000))
    work = MoveWork((Copy(x, y, x.bytes, read, write),), steps, scalar_per_burst=2 if read == 96 else 0)
    stage = lower_movement(work, soc, Expansion(soc))
    verify([stage], soc)
    assert moved([stage]) == {("x", False): x.bytes, ("y", True): y.bytes}


@pytest.mark.parametrize("chip", CHIPS)
def test_concat_shares_every_part_and_reads_indices_once_a_core(chip: str) -> None:
    soc = load(chip)
    out = ref("y", (1, 300, 28, 28), Format.NC1HWC0)
    parts = [
        ref(f"x{number}", (1, channels, 28, 28), Format.NC1HWC0)
        for number, channels in enumerate((256, 16, 16))
    ]
    work = MoveWork(
        tuple(Copy(part, out, part.bytes, part.bytes, part.bytes) for part in parts),
        extra_inputs=(ref("i", (8,), dtype=DType.INT64),),
    )
    stage = lower_movement(work, soc, Expansion(soc))
    verify([stage], soc)
    bytes = moved([stage])
    assert all(bytes[part.region, False] == part.bytes for part in parts)
    assert bytes["y", True] == sum(part.bytes for part in parts)
    assert bytes["i", False] == 64 * sum(group.count for group in stage.groups)


def test_padding_writes_more_than_it_reads() -> None:
    soc = load("Ascend310")
    x, y = ref("x", (100, 100)), ref("y", (120, 120))
    stage = lower_movement(
        MoveWork((Copy(x, y, x.bytes, 200, 240, write_bytes=y.bytes),), (Step("vectordup"),)),
        soc,
        Expansion(soc),
    )
    verify([stage], soc)
    assert moved([stage])["x", False] == x.bytes
    assert moved([stage])["y", True] >= y.bytes


def test_shares_lie_side_by_side() -> None:
    assert aligned_shares([(100, 50), (60, 50)]) == [((50, 50), 1), ((50, 10), 1)]
    assert aligned_shares([(100, 25), (10, 25)]) == [((25, 10), 1), ((25, 0), 3)]
    assert even_bursts(1000, 96) == 20


@pytest.mark.parametrize("chip", CHIPS)
def test_scalar_work_counts_every_element(chip: str) -> None:
    soc = load(chip)
    stage = lower_scalar(ScalarWork(1000, 8, (ref("x", (1000,)),), (ref("y", (1000,)),)), soc)
    verify([stage], soc)
    cycles = sum(item.cycles * times for item, times in executed([stage]) if isinstance(item, Scalar))
    assert 8000 <= cycles <= 8000 * 1.1


def test_a_repeated_sequence_is_one_task_whose_cores_meet_after_each_part() -> None:
    for chip in ("Ascend310", "Ascend910B1"):
        soc = load(chip)
        parts = (matmul(16, 64, 256, soc), elementwise(16, 256))
        stages = Lowering(soc).stages(SequenceWork(parts, repeat=5))
        verify(stages, soc)
        single = moved(Lowering(soc).stages(SequenceWork(parts)))
        assert moved(stages) == {key: 5 * count for key, count in single.items()}
        assert len(stages) == 1
        blocks = [group.block for group in stages[0].groups]
        assert all(isinstance(block.body[0], Loop) and block.body[0].trips == 5 for block in blocks)
        if soc.split_cores:
            assert {block.core for block in blocks} == {CoreKind.CUBE, CoreKind.VECTOR}
            shared = [{flag.name for flag in block.flags if flag.shared} for block in blocks]
            assert shared[0]
            assert all(names == shared[0] for names in shared)


def test_vector_steps_run_in_order() -> None:
    soc = load("Ascend910A")
    stage = check(elementwise(100, steps=(Step("vmuls"), Step("vexp"), Step("vadds", count=3))), soc)
    assert [(item.op, item.calls) for item, _ in executed([stage]) if isinstance(item, Vector)] == [
        ("vmuls", 1),
        ("vexp", 1),
        ("vadds", 3),
    ]


def test_rows_of_fractals_are_reduced_a_block_at_a_time() -> None:
    soc = load("Ascend310P3")
    x, y = ref("x", (4, 32, 128), Format.FRACTAL_NZ), ref("y", (4, 32, 128), Format.FRACTAL_NZ)
    steps = (Step("vcmax"), Step("vsub"))
    stage = check(VectorWork(4 * 32, 128, steps, (Stream(x),), (Stream(y),), "cols", 3), soc)
    assert computed([stage], "vcgmax") == 4 * 32 * 16  # one block of 16 a row
    assert computed([stage], "vmax") == 4 * 32 * 128
    assert computed([stage], "vcmax") == 0


def test_tiles_of_a_move_end_where_bursts_end() -> None:
    soc = load("Ascend310P3")
    x, y = ref("x", (64, 128, 768), Format.FRACTAL_NZ), ref("y", (64, 128, 768))
    stage = lower_movement(MoveWork((Copy(x, y, x.bytes, 2048, 1024),)), soc, Expansion(soc))
    moves = [item for item, _ in executed([stage]) if isinstance(item, Move)]
    assert {item.burst_bytes for item in moves} == {1024, 2048}
    assert all(item.aligned for item in moves)


def test_pieces_of_whole_blocks_lie_whole_blocks_apart() -> None:
    """A picture twice as large reads each pixel's block where it needs it: no such read is ragged."""
    soc = load("Ascend310")
    x, y = ref("x", (1, 128, 40, 40), Format.NC1HWC0), ref("y", (1, 128, 80, 80), Format.NC1HWC0)
    stage = lower_movement(MoveWork((Copy(x, y, y.bytes, 32, 80 * 32),)), soc, Expansion(soc))
    reads = [
        item
        for item, _ in executed([stage])
        if isinstance(item, Move) and item.bursts > 1 and item.burst_bytes % 32 == 0
    ]
    assert reads
    assert all(item.src_stride % 32 == 0 and item.dst_stride % 32 == 0 for item in reads)


@pytest.mark.parametrize("chip", CHIPS)
def test_a_single_value_beside_sums_of_columns_is_stored_once(chip: str) -> None:
    """However many tiles of columns a share has: 30,522 columns of float32 are two on Ascend310."""
    soc = load(chip)
    x, scale = ref("x", (64, 30522), dtype=DType.FLOAT32), ref("s", (1,), dtype=DType.FLOAT32)
    total, inverse = ref("t", (30522,), dtype=DType.FLOAT32), ref("i", (1,), dtype=DType.FLOAT32)
    single = DType.FLOAT32
    steps = (Step("vrec", single, "one"), Step("vadd", single), Step("vmul", single, "col"))
    outputs = (Stream(inverse, "one"), Stream(total, "col"))
    stage = check(VectorWork(64, 30522, steps, (Stream(scale, "one"), Stream(x)), outputs, "rows"), soc)
    blocks = sum(group.count for group in stage.groups)
    assert moved([stage])["i", True] == 4 * blocks
    assert moved([stage])["t", True] == total.bytes
    run(program_of([stage]), soc)


@pytest.mark.parametrize(
    ("name", "rows", "columns", "dtype", "calls"),
    [
        ("Ascend910A", 8, 1024, DType.FLOAT32, {(3, 1024), (2, 1024)}),  # rows are fewer than strips of 64
        ("Ascend910A", 8, 1000, DType.FLOAT32, {(16, 3 * 64), (16, 2 * 64)}),  # each would need a mask
        ("Ascend910A", 8, 50, DType.FLOAT32, {(1, 8 * 50)}),
        ("Ascend310P3", 8, 1000, DType.FLOAT32, {(3, 1000), (2, 1000)}),  # instructions start slowly
        ("Ascend310P3", 120, 1000, HALF, {(8, 30 * 128)}),
    ],
)
def test_broadcast_rows_with_ragged_ends_are_taken_in_strips(
    name: str, rows: int, columns: int, dtype: DType, calls: set[tuple[int, int]]
) -> None:
    """Tiles of three rows of float32, of thirty of float16."""
    soc = load(name, {"ai_cores": 1})
    x, y = (ref(region, (rows, columns), dtype=dtype) for region in "xy")
    factor = Stream(ref("g", (columns,), dtype=dtype), "col")
    work = VectorWork(rows, columns, (Step("vmul", dtype),), (Stream(x), factor), (Stream(y),), "cols")
    (group,) = lower_vector(work, soc, Expansion(soc)).groups
    items = [item for item, _ in in_order(group.block.body) if isinstance(item, Vector)]
    assert {(item.calls, item.elements) for item in items} == calls


def in_loops(stage, op: str) -> list[tuple[int, int]]:  # type: ignore[no-untyped-def]
    """Elements of an instruction and how often it runs."""
    return [(item.elements, times) for item, times in executed([stage]) if getattr(item, "op", "") == op]


def test_rows_in_turn_take_every_step_row_by_row() -> None:
    """What was made of a row comes back through the scalar unit, twice a row."""
    soc = load("Ascend910A", {"ai_cores": 1})
    stage = check(replace(softmax(40, 50), in_turn=True), soc)
    for op in ("vcmax", "vsub", "vexp", "vcadd", "vmul"):
        assert {elements for elements, _ in in_loops(stage, op)} == {50}
        assert sum(times for _, times in in_loops(stage, op)) == 40
    assert sum(times for _, times in in_loops(stage, "vectordup")) == 2 * 40
    assert sum(times for item, times in executed([stage]) if isinstance(item, Scalar)) == 2 * 40


def test_a_row_in_turn_that_ends_within_a_repeat_takes_a_second_instruction() -> None:
    stage = check(replace(softmax(40, 197), in_turn=True), load("Ascend310", {"ai_cores": 1}))
    assert in_loops(stage, "vexp") == [(128, 40), (69, 40)]


def test_rows_in_turn_take_a_fixed_time_each() -> None:
    """Steps of one row wait for each other: Softmax was measured at 478 cycles a row of 50 elements."""
    soc = load("Ascend910B", {"ai_cores": 1})

    def cycles(rows: int, **more: bool) -> float:
        trace = run(program_of([check(replace(softmax(rows, 50), **more), soc)]), soc)
        return trace.end / trace.core_ticks

    quick = cycles(4000) - cycles(2000)
    slow = cycles(4000, in_turn=True) - cycles(2000, in_turn=True)
    assert slow > 5 * quick
    assert 200 < slow / 2000 < 500


def test_a_lone_reduction_in_turn_needs_no_loop() -> None:
    """Rows of one repeat: an instruction a row, none of which waits for the one before it."""
    soc = load("Ascend910A", {"ai_cores": 1})
    x, y = ref("x", (30, 39), dtype=DType.FLOAT32), ref("y", (30,), dtype=DType.FLOAT32)
    step = (Step("vcadd", DType.FLOAT32),)
    work = VectorWork(30, 39, step, (Stream(x),), (Stream(y, "row"),), "cols", in_turn=True)
    stage = check(work, soc)
    calls = [item for item, _ in executed([stage]) if isinstance(item, Vector)]
    assert {item.elements for item in calls} == {39}
    assert sum(item.calls * times for item, times in executed([stage]) if isinstance(item, Vector)) == 30


def test_movement_in_turn_takes_all_cores_and_one_buffer() -> None:
    soc = load("Ascend910A", {"kernels.even_shares": False})
    x, y = ref("x", (64, 768)), ref("y", (64, 768), Format.FRACTAL_NZ)
    copy = Copy(x, y, x.bytes, 1536, 512)
    plain, turn = (
        lower_movement(MoveWork((copy,), in_turn=way), soc, Expansion(soc)) for way in (False, True)
    )
    assert sum(group.count for group in turn.groups) == soc.ai_cores > sum(g.count for g in plain.groups)
    assert {a.slots for group in turn.groups for a in group.block.allocations} == {1}
    verify([turn], soc)
