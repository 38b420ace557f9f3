"""What kernels of the first training chips do by their published sources (`opp`): blocks in turns, numbers
that go through registers, transfers one by one. Times beside the laws are published ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph
from ascendsim.isa.instructions import Loop, Move, Pipe, Scalar, Statement
from ascendsim.ops.shared.bursts import turning_blocks
from tests.support.tile_runs import task_runs

A, B, LATER = "Ascend910A", "Ascend910B", "Ascend910B1"  # 32 and 30 cores; of another generation
MHZ = 900  # of B
UB = 256 * 1024  # bytes, of both


def built(op: str, *shapes: tuple[tuple[int, ...], DType], outputs: int = 1, **options: object) -> Graph:
    builder = asim.GraphBuilder("one")
    given = [builder.input(f"in{number}", *one) for number, one in enumerate(shapes)]
    constants = options.pop("constants", ())
    assert isinstance(constants, tuple)
    made = builder.ops(op, *given, *constants, outputs=outputs, **options)  # type: ignore[arg-type]
    for tensor in made:
        builder.output(tensor)
    return builder.build()


def compiled(graph: Graph, soc: str = B, **figures: float) -> asim.CompiledModel:
    changes = {key.replace("__", "."): value for key, value in figures.items()}
    keep = "must_keep_origin_dtype"
    return asim.compile(graph, soc=soc, set=changes, fusion="off", optimize=False, precision_mode=keep)


def took(graph: Graph, soc: str = B, kind: str = "", **figures: float) -> float:
    """Time of the task of an operator; of the only one if there is one."""
    run = asim.simulate(compiled(graph, soc, **figures)).profile
    return sum(run.us(view.duration) for view in run.tasks if kind in view.op_type)


def blocks(graph: Graph, soc: str = B) -> int:
    (task,) = compiled(graph, soc).program.tasks
    return task.block_dim


def executed(body: Sequence[Statement], times: int = 1) -> Iterator[tuple[Statement, int]]:
    for item in body:
        if isinstance(item, Loop):
            yield from executed(item.body, times * item.trips)
        else:
            yield item, times


def moves(graph: Graph, pipe: Pipe, soc: str = B, region: str = "", kind: str = "") -> list[tuple[Move, int]]:
    """Transfers of an operator's task, and how often each is done on all cores."""
    task = next(task for task in compiled(graph, soc).program.tasks if task.name.startswith(kind))
    found = ((one, group.count) for group in task.groups for one in executed(group.block.body))
    return [
        (item, times * cores)
        for (item, times), cores in found
        if isinstance(item, Move) and item.pipe is pipe and region in (item.src.name + item.dst.name)
    ]


# ------------------------------------------------------------------------------------------ blocks in turns


def pooled(images: int, channels: int, size: int, stride: int) -> Graph:
    out = ceil(size / stride)
    shapes = [
        ((images, channels, size, size), DType.FLOAT16),
        ((images, channels, out, out), DType.FLOAT16),
        ((images, channels, 9, ceil(out * out / 16) + 1), DType.UINT16),
    ]
    pads = (0, 0, 1, 1) if stride == 2 else (1, 1, 1, 1)
    window = {"kernel_shape": (3, 3), "strides": (stride, stride), "pads": pads}
    return built("MaxPoolGradWithArgmax", *shapes, domain="ascend", **window)


def test_maps_beyond_the_cores_run_in_turns() -> None:
    """MaxPoolGradWithArgmax of ResNet-50 takes 214, 356 and 642 us with 64, 128 and 256 maps on 30 cores."""
    times = {maps: took(pooled(maps, 16, 112, 2), kind="MaxPoolGrad") for maps in (60, 64, 90, 128)}
    assert times[64] == pytest.approx(times[90], rel=0.03)
    assert times[64] / times[60] == pytest.approx(3 / 2, rel=0.1)
    assert times[64] == pytest.approx(214, rel=0.1)
    assert times[128] == pytest.approx(356, rel=0.1)


def turned(images: int) -> Graph:
    return built("Transpose", ((images, 3, 7, 32, 7, 32), DType.FLOAT16), perm=(0, 2, 4, 1, 3, 5))


def test_each_turn_of_a_transpose_starts_up() -> None:
    """ConfusionTransposeD of 64 images takes 448 blocks: 15 turns on 30 cores."""
    first, late = (took(turned(64), launch__kernel_init_ns=init) for init in (1000, 3000))
    assert late - first == pytest.approx(2.0 * 15, rel=0.02)
    few = [took(turned(4), launch__kernel_init_ns=init) for init in (1000, 3000)]  # 28 blocks
    assert few[1] - few[0] == pytest.approx(2.0, rel=0.02)


def test_blocks_of_transposes_are_what_fits_into_the_buffer() -> None:
    """Published: Transpose of 64 to 256 x 50 x 12 x 64 has 32, 64 and 128 blocks, ConfusionTransposeD 896."""
    assert [turning_blocks((n, 12, 50, 64), 2, UB) for n in (64, 128, 256)] == [32, 64, 128]
    assert turning_blocks((128, 7, 7, 3, 32, 32), 2, UB) == 896


def test_bits_of_close_windows_come_tap_by_tap() -> None:
    bits = moves(pooled(1, 16, 28, 1), Pipe.MTE2, region="in2", kind="MaxPoolGradWithArgmax")
    assert sum(times for _, times in bits) == 28 * 9
    apart = moves(pooled(1, 16, 28, 2), Pipe.MTE2, region="in2", kind="MaxPoolGradWithArgmax")
    assert sum(times for _, times in apart) < 14


def test_tap_by_tap_is_for_close_windows_on_the_first_training_chips() -> None:
    close, apart = (took(pooled(30, 16, 28, stride), kind="MaxPoolGrad") for stride in (1, 2))
    assert close > 5 * apart  # four times the windows
    later = [took(pooled(30, 16, 28, stride), LATER, "MaxPoolGrad") for stride in (1, 2)]
    assert later[0] < 2 * later[1]


# ------------------------------------------------------------------------------------- numbers by registers


def loss(rows: int, classes: int) -> Graph:
    given = ((rows, classes), DType.FLOAT32)
    return built("SoftmaxCrossEntropyWithLogits", given, given, outputs=2, domain="ascend")


def by_cycle(graph: Graph, soc: str = B) -> float:
    """Cycles of a core for each one that a number takes through a register."""
    key = "kernels__register_move_cycles"
    few, many = (took(graph, soc, **{key: cycles}) for cycles in (10, 30))
    return (many - few) * MHZ / 20


def test_each_number_of_a_ragged_row_moves_three_times() -> None:
    assert by_cycle(loss(64, 100)) == pytest.approx(64 * 100 * 3, rel=0.01)
    assert by_cycle(loss(64, 96)) == pytest.approx(0, abs=1)  # reduced where they lie


@pytest.mark.parametrize(("rows", "us"), [(16, 93.9), (32, 186.3), (64, 370.3)])
def test_the_dense_loss_takes_what_was_published(rows: int, us: float) -> None:
    assert took(loss(rows, 100)) == pytest.approx(us, rel=0.1)


def test_cores_have_a_block_of_losses_each() -> None:
    """Published block counts: [64, 1001] 8, [128, 1001] 16, [64, 100] 1; [32, 10] on 910A 2."""
    assert [blocks(loss(rows, 1001)) for rows in (64, 128)] == [8, 16]
    assert (blocks(loss(64, 100)), blocks(loss(32, 10), A)) == (1, 2)


def test_rows_that_do_not_stay_come_and_go_one_by_one() -> None:
    short, long = took(loss(240, 1001)), took(loss(480, 1001))
    stored = moves(loss(64, 1001), Pipe.MTE3, region="SoftmaxCrossEntropyWithLogits_out_1")
    assert [(move.bytes, times) for move, times in stored] == [(1001 * 4, 64)]
    assert long - short == pytest.approx(short, rel=0.15)


def spread(shape: tuple[int, ...], repeats: list[int], dtype: DType = DType.FLOAT32) -> Graph:
    return built("Tile", (shape, dtype), constants=(repeats,))


def test_numbers_of_ragged_rows_go_to_registers_before_they_are_spread() -> None:
    assert by_cycle(spread((12000, 1), [1, 39])) == pytest.approx(400, rel=0.02)
    assert by_cycle(spread((12000, 1), [1, 80])) == pytest.approx(0, abs=1)


@pytest.mark.parametrize(("images", "us"), [(16, 67.4), (32, 129.8), (64, 192.2)])
def test_spreading_over_maps_takes_what_was_published(images: int, us: float) -> None:
    graph = spread((images, 2048, 1, 1), [1, 1, 7, 7], DType.FLOAT16)
    assert took(graph) == pytest.approx(us, rel=0.15)


def picked(rows: int, width: int, count: int) -> Graph:
    return built("Gather", ((rows, width), DType.FLOAT32), ((count,), DType.INT32))


def test_gather_brings_rows_one_by_one_and_numbers_by_registers() -> None:
    rows = moves(picked(5000, 80, 3000), Pipe.MTE2, region="in0")
    assert sum(times for move, times in rows if (move.bursts, move.bytes) == (1, 320)) == 3000
    assert by_cycle(picked(5000, 1, 30_000)) == pytest.approx(1000, rel=0.02)
    (whole,) = {move.bursts > 1 for move, _ in moves(picked(5000, 80, 3000), Pipe.MTE2, LATER, "in0")}
    assert whole


def test_numbers_of_larger_tables_wait_for_where_they_lie() -> None:
    """DeepFM's 468,000 to 780,000 numbers out of 184,965 take a core 54 ns each: the table lies in L1."""
    near, inside, far = (took(picked(rows, 1, 300_000)) for rows in (10_000, 184_965, 400_000))
    assert near < inside < far
    assert (inside - took(picked(184_965, 1, 150_000))) * 30 / 150 == pytest.approx(54, rel=0.15)


def test_sums_of_segments_add_each_row_in_memory() -> None:
    data, ids = ((3000, 80), DType.FLOAT32), ((3000,), DType.INT32)
    graph = built("UnsortedSegmentSum", data, ids, constants=([700],), domain="ascend")
    added = [(move, times) for move, times in moves(graph, Pipe.MTE3) if move.atomic == "add"]
    assert sum(times for _, times in added) == 3000
    assert {move.bytes for move, _ in added} == {320}
    assert not any(move.atomic for move, _ in moves(graph, Pipe.MTE3, LATER))


def test_a_kept_column_goes_through_a_register() -> None:
    """The first of 8 numbers a row: 184,965 rows take 95 us."""
    graph = built("Slice", ((184_965, 8), DType.FLOAT32), constants=([0], [1], [1]))
    assert by_cycle(graph) == pytest.approx(184_965 / 30, rel=0.02)
    assert took(graph) < 1.4 * 95


@pytest.mark.parametrize("graph", [loss(64, 100), turned(8)], ids=["loss", "turned"])
def test_blocks_make_the_values_of_the_operator(graph: Graph) -> None:
    runs = [run for run in task_runs(compiled(graph)) if run.name != "TransData"]
    assert runs
    assert all(run.equal for run in runs), [run.lacks or run.difference for run in runs]


@pytest.mark.parametrize("soc", [A, LATER])
def test_blocks_that_spread_numbers_over_maps_do_not_tell_values(soc: str) -> None:
    """A part of such a source, repeated, is not a part of the result."""
    (run,) = task_runs(compiled(spread((4, 64, 1, 1), [1, 1, 17, 17]), soc))
    assert "has no note" in run.lacks


# ------------------------------------------------------------------------------------- sums, one-hot vectors


def bias(rows: int, columns: int, dtype: DType = DType.FLOAT16) -> Graph:
    return built("BiasAddGrad", ((rows, columns), dtype), domain="ascend")


def test_ragged_sums_that_dma_cannot_add_are_shared_by_columns() -> None:
    """Published block counts in float16; in float32 (910A) [32, 84] takes all 32 cores, some rows each."""
    assert [blocks(bias(rows, 100)) for rows in (16, 64)] == [7, 7]
    assert blocks(bias(64, 1001)) == 30
    assert blocks(bias(32, 84, DType.FLOAT32), A) == 32
    each = (took(bias(256, 1001)) - took(bias(128, 1001))) * 1000 / 128
    assert 70 < each < 153  # ns; published: 153


def test_middle_axes_are_read_in_whole_groups() -> None:
    """SquareSumV1 of 12,000 x 39 x 80 takes 196 us, which is little more than its bytes."""
    shape = ((12_000, 39, 80), DType.FLOAT32)
    graph = built("ReduceSumSquare", shape, constants=([1],), keepdims=0)
    assert {move.bursts for move, _ in moves(graph, Pipe.MTE2)} == {1}
    assert took(graph) < 1.5 * 196


def test_sums_of_long_rows_go_to_their_place_by_a_register() -> None:
    """ReduceSum of 12,000 rows of 80 takes 50 us, of 39 numbers, which one instruction adds up, 14."""

    def summed(columns: int) -> Graph:
        options = {"constants": ([1],), "keepdims": 0}
        return built("ReduceSum", ((12_000, columns), DType.FLOAT32), **options)

    assert by_cycle(summed(80)) == pytest.approx(400, rel=0.02)
    assert by_cycle(summed(39)) == pytest.approx(0, abs=1)
    assert took(summed(80)) == pytest.approx(50, rel=0.2)


def test_rows_of_one_hot_vectors_are_dealt_out_evenly() -> None:
    """Published: 16 blocks for 16, 32 and 64 indices on 30 cores, 32 for 32 of them on 32."""

    def hot(count: int, depth: int) -> Graph:
        builder = asim.GraphBuilder("hot")
        given, values = builder.input("x", (count,), DType.INT32), builder.constant([0.0, 1.0])
        builder.output(builder.op("OneHot", given, depth, values))
        return builder.build()

    assert [blocks(hot(count, 100)) for count in (16, 32, 64)] == [16, 16, 16]
    assert blocks(hot(32, 10), A) == 32
    assert blocks(hot(31, 1)) == 1  # less than a block of 32 B each


def test_sums_of_softmax_gradients_are_read_one_by_one() -> None:
    shape = ((64, 64, 64), DType.FLOAT16)
    graph = built("SoftmaxGrad", shape, shape, domain="ascend")
    body = compiled(graph).program.tasks[-1].groups[0].block.body
    read = sum(item.cycles * times for item, times in executed(body) if isinstance(item, Scalar))
    assert read == pytest.approx(64 * 64 / blocks(graph) * 8, rel=0.15)
