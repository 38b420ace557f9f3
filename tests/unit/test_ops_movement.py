"""Transpose, Concat, Split, Slice, Expand, Tile, Pad, CenterCropPad: values, shape rules and burst
lengths."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.core.formats import Format
from ascendsim.graph.ir import Graph
from ascendsim.isa.instructions import Move
from ascendsim.isa.walk import static, times
from ascendsim.ops import default_opset
from ascendsim.ops.shared.bursts import TILE_BYTES, static_transpose_work, transpose_bursts, transpose_work
from ascendsim.opset import InferContext
from ascendsim.opset.work import LowerContext, MoveWork, NoTask, Ref, Work
from ascendsim.soc import load
from tests.support.single_node import infer, lower, run, with_onnxruntime

HALF = np.zeros((8, 128, 12, 64), np.float16)
INT_MAX = 2**63 - 1


def only_copy(work: Work) -> tuple[int, int, int, int]:
    assert isinstance(work, MoveWork)
    (copy,) = work.copies
    return copy.bytes, copy.written, copy.read_burst, copy.write_burst


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@given(st.permutations(range(4)), st.lists(st.integers(1, 5), min_size=4, max_size=4))
def test_transpose_twice_is_the_identity(order: list[int], shape: list[int]) -> None:
    data = np.arange(math.prod(shape)).reshape(shape)
    turned = run("Transpose", [data], perm=tuple(order))[0]
    np.testing.assert_array_equal(turned, np.transpose(data, order))
    assert turned.flags.c_contiguous
    np.testing.assert_array_equal(run("Transpose", [turned], perm=tuple(np.argsort(order).tolist()))[0], data)


@given(
    st.permutations(range(4)),
    st.lists(st.integers(1, 300), min_size=4, max_size=4),
    st.sampled_from([1, 2, 4]),
)
def test_transpose_bursts_are_contiguous_pieces(order: list[int], shape: list[int], itemsize: int) -> None:
    read, write = transpose_bursts(shape, order, itemsize)
    total = math.prod(shape) * itemsize
    for burst in (read, write):
        assert itemsize <= burst <= min(total, TILE_BYTES) or total < itemsize
        assert burst % itemsize == 0
    moved = [axis for axis in order if shape[axis] > 1]
    if moved == sorted(moved):
        assert read == write  # nothing moves: one long piece


def test_transpose_of_heads_moves_whole_rows() -> None:
    work = lower("Transpose", [HALF], perm=(0, 2, 1, 3))
    assert isinstance(work, MoveWork)
    assert work.steps == ()  # 64 halves = 128 B: the DMA places them
    assert min(only_copy(work)[2:]) >= 64 * 2


def test_transpose_of_the_last_axis_needs_vnchwconv() -> None:
    blocks = np.zeros((1, 2, 48, 64), np.float16)
    halves = lower("Transpose", [blocks], perm=(0, 1, 3, 2))
    assert isinstance(halves, MoveWork)
    assert [(step.op, step.count) for step in halves.steps] == [("vnchwconv", 1)]
    words = blocks.astype(np.float32)
    old, new = (lower("Transpose", [words], generation=chip, perm=(0, 1, 3, 2)) for chip in ("v100", "c220"))
    assert isinstance(old, MoveWork)
    assert isinstance(new, MoveWork)
    assert (old.steps[0].count, new.steps[0].count) == (2, 1)  # v100 turns 32-bit elements in two halves


def test_lines_that_end_inside_a_block_are_put_together_block_by_block() -> None:
    ragged = lower("Transpose", [np.zeros((1, 2, 49, 64), np.float16)], perm=(0, 1, 3, 2))
    shuffle = lower("DepthToSpace", [np.zeros((1, 16, 32, 32), np.float16)], blocksize=2)
    for work in (ragged, shuffle):
        assert isinstance(work, MoveWork)
        assert [(step.op, step.run) for step in work.steps] == [
            ("vnchwconv", 0),
            ("vadds", 16),
            ("vnchwconv", 0),
        ]
        assert min(only_copy(work)[2:]) >= 512  # whole lines on either side


def test_on_310p3_only_lines_below_a_block_are_put_together() -> None:
    chip = LowerContext.of(load("Ascend310P3"))
    for columns, steps in ((49, 1), (3, 3)):
        source, target = (
            Ref("x", shape, DType.FLOAT16, Format.ND, 128 * columns)
            for shape in ((columns, 64), (64, columns))
        )
        assert len(transpose_work(source, target, source.shape, (1, 0), chip).steps) == steps


UNLISTED = LowerContext.of(load("Ascend310"), options={"transpose_white_list": False})


@pytest.mark.parametrize(
    ("shape", "order", "dtype", "single"),
    [
        ((1, 64, 2, 2, 114, 114), (0, 1, 4, 2, 5, 3), DType.FLOAT16, True),  # the pixel shuffle of RDN
        ((64, 2, 2, 14, 14), (0, 1, 2, 4, 3), DType.FLOAT32, False),  # the last two change places
        ((8, 85, 80, 80), (0, 2, 3, 1), DType.FLOAT16, False),  # so they do when 80 x 80 is one axis
        ((32, 16, 48), (2, 1, 0), DType.FLOAT16, False),  # whole blocks on either side
        ((32, 16, 48), (2, 1, 0), DType.FLOAT32, True),  # that form is for two bytes an element
        ((32, 16, 40), (2, 1, 0), DType.FLOAT16, True),
        ((40, 16, 48), (2, 1, 0), DType.FLOAT16, True),
        ((40, 3, 5, 40), (1, 0, 2, 3), DType.FLOAT16, False),  # the last axis stays
        ((40, 1, 1, 1), (3, 2, 1, 0), DType.FLOAT16, False),  # nothing moves
    ],
)
def test_off_the_white_list_some_transposes_go_element_by_element(
    shape: tuple[int, ...], order: tuple[int, ...], dtype: DType, single: bool
) -> None:
    size = math.prod(shape) * dtype.itemsize
    source = Ref("x", shape, dtype, Format.ND, size)
    target = Ref("y", tuple(shape[axis] for axis in order), dtype, Format.ND, size)
    work = static_transpose_work(source, target, shape, order, UNLISTED)
    assert work.one_by_one is single
    if single:
        assert work.steps == ()
        assert only_copy(work)[2:] == (dtype.itemsize, dtype.itemsize)
    listed = static_transpose_work(source, target, shape, order, LowerContext.of(load("Ascend310")))
    assert not listed.one_by_one


def test_element_by_element_is_one_core_and_two_instructions_an_element() -> None:
    builder = asim.GraphBuilder()
    x = builder.input("x", (1, 48, 2, 2, 15, 15), DType.FLOAT16)  # 43,200: more than UB has blocks for
    builder.output(builder.op("Transpose", x, perm=(0, 1, 4, 2, 5, 3), name="shuffle"), "y")
    graph = builder.build()
    listed, installed = (
        asim.compile(graph, soc="Ascend310", options={"transpose_white_list": on}) for on in (True, False)
    )
    (task,) = installed.program.tasks
    (group,) = task.groups
    counts: dict[tuple[str, int], int] = {}
    for instruction, around in static(group.block.body):
        if isinstance(instruction, Move):
            key = (instruction.pipe.value, instruction.bytes)
            counts[key] = counts.get(key, 0) + times(around)
    assert group.count == 1
    assert counts == {("MTE2", 2): 43_200, ("MTE3", 2): 43_200}
    slow, quick = (asim.simulate(model).duration_us for model in (installed, listed))
    assert slow > 20 * quick  # 92 times on the chip, for RDN's
    data = np.random.default_rng(0).standard_normal((1, 48, 2, 2, 15, 15)).astype(np.float16)
    result = asim.run(installed, {"x": data}).outputs["y"]
    np.testing.assert_array_equal(result, data.transpose(0, 1, 4, 2, 5, 3))


def test_a_step_along_the_last_axis_without_gather_drops_blocks_of_lanes() -> None:
    given = [np.zeros((16, 64), np.float16), ints(0), ints(64), ints(-1), ints(2)]
    old, new = (lower("Slice", given, generation=chip) for chip in ("v100", "c220"))
    assert isinstance(old, MoveWork)
    assert isinstance(new, MoveWork)
    assert [(step.op, step.run) for step in old.steps] == [
        ("vnchwconv", 0),
        ("vadds", 32),
        ("vnchwconv", 0),
    ]
    assert [step.op for step in new.steps] == ["vreducev2"]


@given(st.integers(0, 2), st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_concat_undoes_split(axis: int, sizes: list[int]) -> None:
    shape = [2, 3, 4]
    shape[axis] = sum(sizes)
    data = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    parts = run("Split", [data, ints(*sizes)], outputs=len(sizes), axis=axis - 3)
    assert [part.shape[axis] for part in parts] == sizes
    np.testing.assert_array_equal(run("Concat", parts, axis=axis)[0], data)


def test_uneven_split_by_count() -> None:
    parts = run("Split", [np.arange(7)], outputs=3, num_outputs=3)
    assert [part.tolist() for part in parts] == [[0, 1, 2], [3, 4, 5], [6]]


def test_split_refuses_sizes_that_do_not_add_up() -> None:
    with pytest.raises(GraphError, match="add up to 7"):
        run("Split", [np.arange(7), ints(3, 3)], outputs=2)


def test_concat_and_split_keep_symbols() -> None:
    assert infer("Concat", [("n", 3, 4), (None, 5, 4)], axis=1) == [("n", 8, 4)]
    assert infer("Concat", [("n", 3), None], axis=1) == [("n", None)]
    assert infer("Split", [("n", 6)], outputs=2, axis=1) == [("n", 3), ("n", 3)]
    assert infer("Split", [("n", 6)], outputs=1, num_outputs=1) == [("n", 6)]
    assert infer("Split", [("n", 6), (2,)], outputs=2, axis=1) == [("n", None), ("n", None)]


def test_concat_along_channels_writes_one_run_an_image() -> None:
    small, large = np.zeros((4, 32, 7, 7), np.float16), np.zeros((4, 64, 7, 7), np.float16)
    work = lower("Concat", [small, large], axis=1)
    assert isinstance(work, MoveWork)
    assert [copy.write_burst for copy in work.copies] == [32 * 49 * 2, 64 * 49 * 2]
    outermost = lower("Concat", [small, small], axis=0)
    assert isinstance(outermost, MoveWork)
    assert [copy.write_burst for copy in outermost.copies] == [small.nbytes, small.nbytes]


def test_concat_stays_in_blocks_where_channels_fill_them() -> None:
    graph = Graph()
    parts = [
        graph.add_input(name, DType.FLOAT16, (2, channels, 7, 7))
        for name, channels in (("a", 32), ("b", 64), ("c", 24))
    ]
    for tensor in parts:
        tensor.format = Format.NC1HWC0
    definition = default_opset().find("Concat")
    assert definition is not None
    assert definition.in_blocks is not None
    assert definition.lower is not None
    for inputs, axis, fits in ((parts[:2], 1, True), (parts[1:], 1, False), (parts[2:] * 2, -1, True)):
        node = graph.add_node("Concat", inputs, axis=axis)
        definition.infer(InferContext(node))
        assert definition.in_blocks(node, Format.NC1HWC0) is fits
    node = graph.add_node("Concat", parts[:2], axis=1)
    definition.infer(InferContext(node))
    node.output.format = Format.NC1HWC0
    work = definition.lower(node, LowerContext())
    assert isinstance(work, MoveWork)
    assert [copy.write_burst for copy in work.copies] == [32 * 49 * 2, 64 * 49 * 2]


def test_split_of_fractal_columns_cuts_whole_fractals() -> None:
    graph = Graph()
    matrix = graph.add_input("x", DType.FLOAT16, (64, 96))
    matrix.format = Format.FRACTAL_NZ
    definition = default_opset().find("Split")
    assert definition is not None
    assert definition.in_blocks is not None
    assert definition.lower is not None
    for axis, outputs, fits in ((1, 3, True), (1, 4, False), (0, 4, True), (0, 8, False)):
        node = graph.add_node("Split", [matrix], outputs, axis=axis, num_outputs=outputs)
        definition.infer(InferContext(node))
        assert definition.in_blocks(node, Format.FRACTAL_NZ) is fits
    columns, rows = (graph.add_node("Split", [matrix], 2, axis=axis, num_outputs=2) for axis in (1, 0))
    for node in (columns, rows):
        definition.infer(InferContext(node))
        for tensor in node.outputs:
            tensor.format = Format.FRACTAL_NZ
    by_columns, by_rows = (definition.lower(node, LowerContext()) for node in (columns, rows))
    assert isinstance(by_columns, MoveWork)
    assert isinstance(by_rows, MoveWork)
    assert by_columns.copies[0].read_burst == 64 * 48 * 2  # columns of fractals lie one after the other
    assert by_rows.copies[0].read_burst == 32 * 16 * 2  # half of each column


BOXES = [
    ([1], [3], [0], [1]),
    ([0, 1], [INT_MAX, -1], [1, 2], [1, 2]),
    ([-1], [-INT_MAX], [2], [-1]),
    ([5], [-7], [1], [-2]),
    ([100], [200], [0], [1]),
    ([3], [1], [2], [1]),
    ([-2, 0], [INT_MAX, 2], [-1, -3], [1, 1]),
]


@pytest.mark.parametrize("box", BOXES)
def test_slice_as_onnxruntime(box: tuple[list[int], ...]) -> None:
    data = np.arange(120, dtype=np.float32).reshape(4, 5, 6)
    inputs = [data, *(ints(*part) for part in box)]
    np.testing.assert_array_equal(run("Slice", inputs)[0], with_onnxruntime("Slice", inputs)[0])


def test_slice_with_symbols_and_unknown_bounds() -> None:
    assert infer("Slice", [("n", 8), (1,), (1,), (1,)], {1: [2], 2: [6], 3: [1]}) == [("n", 4)]
    assert infer("Slice", [("n", 8), (1,), (1,), (1,)], {1: [0], 2: [INT_MAX], 3: [0]}) == [("n", 8)]
    assert infer("Slice", [("n", 8), (1,), (1,), (1,)], {1: [0], 2: [5], 3: [0]}) == [(None, 8)]
    assert infer("Slice", [("n", 8), (1,), (1,), (1,)], {3: [1]}) == [("n", None)]


def test_slice_bursts() -> None:
    rows = lower("Slice", [np.zeros((64, 128), np.float16), ints(0), ints(32), ints(1)])
    assert only_copy(rows) == (64 * 64, 64 * 64, 64, 64 * 64)
    block = lower("Slice", [np.zeros((64, 128), np.float16), ints(8), ints(24), ints(0)])
    assert only_copy(block) == (16 * 256, 16 * 256, 16 * 256, 16 * 256)
    strided = lower("Slice", [np.zeros((64, 128), np.float16), ints(0), ints(128), ints(1), ints(2)])
    # the span is read, every other element is kept
    assert only_copy(strided) == (64 * 127 * 2, 64 * 64 * 2, 127 * 2, 64 * 64 * 2)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize("pads", [(0, 1, 2, 1, 0, 2), (1, 0, 0, 0, 2, 1)])
def test_pad_as_onnxruntime(mode: str, pads: tuple[int, ...]) -> None:
    data = np.random.default_rng(1).standard_normal((3, 4, 5)).astype(np.float32)
    inputs = [data, ints(*pads), np.float32(1.5)]
    np.testing.assert_array_equal(
        run("Pad", inputs, mode=mode)[0], with_onnxruntime("Pad", inputs, opset=19, mode=mode)[0]
    )


def test_negative_pads_cut() -> None:
    data = np.arange(12, dtype=np.float16).reshape(3, 4)
    assert run("Pad", [data, ints(-1, 1), None, ints(1)])[0].tolist() == [
        [1, 2, 3, 0],
        [5, 6, 7, 0],
        [9, 10, 11, 0],
    ]


def test_pad_shapes_and_bytes() -> None:
    assert infer("Pad", [("n", 3, 8, 8), (8,)], {1: [0, 0, 1, 1, 0, 0, 1, 1]}) == [("n", 3, 10, 10)]
    assert infer("Pad", [("n", 3), (4,)]) == [(None, None)]
    work = lower("Pad", [np.zeros((1, 16, 8, 8), np.float16), ints(0, 0, 1, 1, 0, 0, 1, 1)])
    assert only_copy(work)[:2] == (16 * 64 * 2, 16 * 100 * 2)


@given(st.lists(st.sampled_from([1, 3]), min_size=3, max_size=3))
def test_expand_as_numpy(shape: list[int]) -> None:
    data = np.arange(math.prod(shape)).reshape(shape)
    np.testing.assert_array_equal(
        run("Expand", [data, ints(2, 3, 3, 3)])[0], np.broadcast_to(data, (2, 3, 3, 3))
    )


def test_expand_refuses_and_infers() -> None:
    with pytest.raises(GraphError, match="broadcasts"):
        run("Expand", [np.zeros((2, 3)), ints(4, 3)])
    assert infer("Expand", [("n", 1), (3,)], {1: [4, 1, 5]}) == [(4, "n", 5)]
    assert infer("Expand", [(3, 1), (3,)]) == [(None, None, None)]


def test_expand_reads_its_source_once() -> None:
    work = lower("Expand", [np.zeros((1, 768), np.float16), ints(128, 768)])
    assert only_copy(work)[:2] == (768 * 2, 128 * 768 * 2)


@given(st.lists(st.integers(0, 3), min_size=2, max_size=2))
def test_tile_as_numpy(repeats: list[int]) -> None:
    data = np.arange(6).reshape(2, 3)
    np.testing.assert_array_equal(run("Tile", [data, ints(*repeats)])[0], np.tile(data, repeats))


def test_center_crop_pad_puts_the_odd_element_at_the_end() -> None:
    data = np.arange(5)
    assert run("CenterCropPad", [data, ints(2)])[0].tolist() == [1, 2]
    assert run("CenterCropPad", [data, ints(8)])[0].tolist() == [0, 0, 1, 2, 3, 4, 0, 0]


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        ("Transpose", [np.zeros((0, 3), np.float16)]),
        ("Slice", [np.zeros((4, 3), np.float16), ints(2), ints(2)]),
        ("Expand", [np.zeros((1, 3), np.float16), ints(0, 3)]),
        ("Tile", [np.zeros((2, 3), np.float16), ints(0, 1)]),
        ("Pad", [np.zeros((0, 3), np.float16), ints(0, 1, 0, 1)]),
        ("Concat", [np.zeros((0, 3), np.float16), np.zeros((0, 3), np.float16)]),
    ],
)
def test_empty_results_ask_for_nothing(op: str, inputs: list[np.ndarray]) -> None:
    attributes = {"axis": 0} if op == "Concat" else {}
    assert lower(op, inputs, **attributes) == NoTask()
