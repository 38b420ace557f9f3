"""TransData: values stay; bytes include padding; pieces and vnchwconv follow from the layouts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.core.formats import Format, c0, storage_shape
from ascendsim.graph.ir import Graph
from ascendsim.ops import default_opset
from ascendsim.ops.movement.transdata import blocked_view
from ascendsim.opset import InferContext
from ascendsim.opset.work import LowerContext, MoveWork, NoTask, Work
from tests.support.single_node import C220, V100


def lowered(
    shape: tuple[int, ...],
    source: str,
    target: str,
    dtype: DType = DType.FLOAT16,
    chip: str = "v100",
    **more: bool,
) -> Work:
    graph = Graph()
    tensor = graph.add_input("x", dtype, shape)
    tensor.format = Format(source)
    node = graph.add_node("TransData", [tensor], ["y"], domain="ascend", src_format=source, dst_format=target)
    definition = default_opset().get(node)
    definition.infer(InferContext(node))
    assert node.output.format is Format(target)
    assert node.output.shape == shape
    data = (np.arange(math.prod(shape)) % 1000).astype(dtype.numpy).reshape(shape)
    np.testing.assert_array_equal(definition.compute(node, [data], [dtype.numpy])[0], data)
    assert definition.lower is not None
    return definition.lower(node, LowerContext(intrinsics=V100 if chip == "v100" else C220, **more))


@given(
    st.tuples(st.integers(1, 3), st.integers(1, 40), st.integers(1, 4), st.integers(1, 4)),
    st.sampled_from(["NC1HWC0", "FRACTAL_NZ", "FRACTAL_Z"]),
)
def test_the_view_of_a_layout_has_all_its_elements(shape: tuple[int, int, int, int], name: str) -> None:
    view, order = blocked_view(shape, Format(name), 16)
    assert sorted(order) == list(range(len(view)))
    assert math.prod(view) == math.prod(storage_shape(shape, Format(name), DType.FLOAT16))


@pytest.mark.parametrize("name", ["NC1HWC0", "FRACTAL_NZ", "FRACTAL_Z"])
def test_the_view_orders_elements_as_the_layout_does(name: str) -> None:
    shape, block = (16, 32, 3, 5) if name != "FRACTAL_NZ" else (2, 3, 32, 48), c0(DType.FLOAT16)
    data = np.arange(math.prod(shape)).reshape(shape)
    view, order = blocked_view(shape, Format(name), block)
    blocked = data.reshape(view).transpose(order).reshape(storage_shape(shape, Format(name), DType.FLOAT16))
    a, b, c, d = 1, 1, 20 % shape[2], 7 % shape[3]
    if name == "NC1HWC0":
        b = 20
        assert blocked[a, b // block, c, d, b % block] == data[a, b, c, d]
    elif name == "FRACTAL_NZ":
        assert blocked[a, b, d // block, c // 16, c % 16, d % block] == data[a, b, c, d]
    else:
        a, b = 9, 20
        assert blocked[(b // block * 3 + c) * 5 + d, a // 16, a % 16, b % block] == data[a, b, c, d]


def test_the_first_feature_map_is_written_with_its_padding() -> None:
    work = lowered((1, 3, 224, 224), "NCHW", "NC1HWC0")
    assert isinstance(work, MoveWork)
    (copy,) = work.copies
    assert copy.bytes == 3 * 224 * 224 * 2
    assert copy.written == 16 * 224 * 224 * 2
    assert copy.read_burst < copy.write_burst  # pieces of one channel in, 16 channels side by side out
    assert [step.op for step in work.steps] == ["vnchwconv"]


def test_the_way_back_mirrors_the_bursts() -> None:
    there, back = lowered((8, 64, 56, 56), "NCHW", "NC1HWC0"), lowered((8, 64, 56, 56), "NC1HWC0", "NCHW")
    assert isinstance(there, MoveWork)
    assert isinstance(back, MoveWork)
    assert (there.copies[0].read_burst, there.copies[0].write_burst) == (
        back.copies[0].write_burst,
        back.copies[0].read_burst,
    )


def test_matrix_rows_of_whole_blocks_need_no_vector_work() -> None:
    even, ragged = lowered((128, 768), "ND", "FRACTAL_NZ"), lowered((128, 100), "ND", "FRACTAL_NZ")
    assert isinstance(even, MoveWork)
    assert isinstance(ragged, MoveWork)
    assert even.steps == ()
    assert [step.op for step in ragged.steps] == ["vnchwconv", "vnchwconv"]
    assert ragged.copies[0].written == 128 * 112 * 2


def test_words_take_two_turns_on_v100() -> None:
    for chip, count in (("v100", 2), ("c220", 1)):
        work = lowered((1, 16, 8, 8), "NCHW", "NC1HWC0", DType.FLOAT32, chip)
        assert isinstance(work, MoveWork)
        assert work.steps[0].count == count


def test_between_plain_formats_nothing_moves() -> None:
    assert lowered((1, 3, 8, 8), "ND", "NCHW") == NoTask((("y", "x"),))


def test_unknown_format_is_refused() -> None:
    with pytest.raises(GraphError, match="NC1HWC0"):
        lowered_with_bad_name()


def lowered_with_bad_name() -> None:
    graph = Graph()
    node = graph.add_node(
        "TransData",
        [graph.add_input("x", DType.FLOAT16, (1,))],
        ["y"],
        domain="ascend",
        src_format="ND",
        dst_format="NC1HWC",
    )
    default_opset().get(node).infer(InferContext(node))


def test_lines_that_fill_no_whole_blocks_are_pieces_of_their_own() -> None:
    """676 bytes of a 13 x 13 map of words end inside a block, so the next channel starts a new piece; 16 x 16
    maps join."""
    ragged = lowered((32, 64, 13, 13), "NCHW", "NC1HWC0", DType.FLOAT32, "c220")
    even = lowered((32, 64, 16, 16), "NCHW", "NC1HWC0", DType.FLOAT32, "c220")
    assert isinstance(ragged, MoveWork)
    assert isinstance(even, MoveWork)
    assert ragged.copies[0].read_burst == 13 * 13 * 4
    assert even.copies[0].read_burst > 16 * 16 * 4


def test_filters_are_read_in_blocks_of_channels() -> None:
    """9 words of a 3 x 3 window are no whole block, but those of 8 channels, which lie together, are nine."""
    there, back = (
        lowered((64, 32, 3, 3), *way, DType.FLOAT32, "c220")
        for way in (("NCHW", "FRACTAL_Z"), ("FRACTAL_Z", "NCHW"))
    )
    assert isinstance(there, MoveWork)
    assert isinstance(back, MoveWork)
    assert there.copies[0].read_burst == back.copies[0].write_burst == 8 * 9 * 4


def test_maps_of_one_position_move_as_they_are_on_the_first_training_chips() -> None:
    """NC1HWC0 of 1 x 1 is row-major: nothing turns, and no tiling is worked out (3.8 us for 32 x 2048 on
    Ascend910B, as long as an elementwise task of as many cores).
    """
    found = []
    for shape in ((32, 2048, 1, 1), (32, 2048, 7, 7), (32, 2040, 1, 1)):
        work = lowered(shape, "NC1HWC0", "NCHW", transdata_in_turn=True)
        assert isinstance(work, MoveWork)
        found.append((bool(work.steps), work.in_turn))
    assert found == [(False, False), (True, True), (True, True)]
    other = lowered((32, 2048, 1, 1), "NC1HWC0", "NCHW")
    assert isinstance(other, MoveWork)
    assert other.steps
