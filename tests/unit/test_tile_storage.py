"""Tensors as their formats store them, and the rows of a map that a tile needs."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import CompileError, SimulationError
from ascendsim.core.formats import Format, storage_shape
from ascendsim.isa.effects import Box
from ascendsim.isa.instructions import Affine, Buffer
from ascendsim.isa.notes import as_matrix, from_matrix, origin
from ascendsim.lower.templates.held import held_rows
from ascendsim.lower.templates.sharing import space_of
from ascendsim.lower.templates.vector_notes import VectorNotes
from ascendsim.opset.work import ConvGeometry, Ref, Stream, VectorWork
from ascendsim.runtime.storage import Filters, logical, stored
from ascendsim.soc import load
from ascendsim.tile.evaluate import CoreMemory, GlobalMemory
from tests.support.lowering import convolution, ref


@pytest.mark.parametrize("kind", [DType.FLOAT16, DType.FLOAT32, DType.INT8])
@pytest.mark.parametrize(
    ("shape", "format"),
    [
        ((2, 20, 3, 5), Format.NC1HWC0),
        ((3, 17, 35), Format.FRACTAL_NZ),
        ((4, 5), Format.ND),
    ],
)
def test_what_is_stored_comes_back(shape, format, kind):
    array = (np.arange(np.prod(shape)) % 120).astype(kind.numpy).reshape(shape)
    there = stored(array, format)
    assert there.shape == storage_shape(shape, format, kind)
    np.testing.assert_array_equal(logical(there.reshape(-1), shape, format), array)


def test_places_of_single_elements():
    image = np.arange(2 * 20 * 3 * 5, dtype=np.float16).reshape(2, 20, 3, 5)
    assert stored(image, Format.NC1HWC0)[1, 1, 2, 4, 3] == image[1, 19, 2, 4]
    matrix = np.arange(20 * 40, dtype=np.float16).reshape(20, 40)
    assert stored(matrix, Format.FRACTAL_NZ)[2, 1, 3, 7] == matrix[19, 39]
    places = stored(np.arange(40).reshape(1, 40), Format.FRACTAL_NZ, size=1)  # as if they were int8
    assert places.shape == (2, 1, 16, 32)


def test_tensors_of_too_few_axes_for_a_format_lie_in_a_row():
    line, image = np.arange(5, dtype=np.float16), np.arange(30, dtype=np.float16).reshape(2, 3, 5)
    for array, format in ((line, Format.FRACTAL_NZ), (image, Format.NC1HWC0), (line, Format.NC1HWC0)):
        there = stored(array, format)
        np.testing.assert_array_equal(there, array)
        assert not np.shares_memory(there, array)
        np.testing.assert_array_equal(logical(there.reshape(-1), array.shape, format), array)


def test_groups_lie_on_the_diagonal_of_an_enlarged_one():
    weights = np.arange(1, 25, dtype=np.float16).reshape(6, 2, 1, 2)  # three groups of two outputs
    there = stored(weights, Format.FRACTAL_Z, Filters(groups=2, channels=4, outputs=4))
    assert there.shape == (1, 1, 2, 16, 16)
    for output, channel, tap in product(range(6), range(2), range(2)):
        group = output // 2
        assert there[0, 0, tap, output, channel + 2 * (group % 2)] == weights[output, channel, 0, tap]
    assert np.count_nonzero(there) == weights.size
    with pytest.raises(SimulationError, match="groups"):
        stored(weights, Format.FRACTAL_Z)


def test_filters_of_a_product_have_its_channels():
    """A product with filters knows them by the tensor alone, a convolution by its geometry."""
    groups = replace(convolution(40, 8, 48, 3), batch=2)
    assert Filters.of(groups) == Filters(2, 40, 48)
    filters = ref("w", (48, 40, 1, 3), Format.FRACTAL_Z)
    assert Filters.of(replace(groups, conv=None, b=filters, n=48, batch=1)) == Filters(1, 40, 48)


def needed(conv, first, count, taps):
    """Rows of the map that some positions see through some rows of the filter, by definition."""
    lines = {position // conv.out_w for position in range(first, first + count)}
    rows = {y * conv.stride_h - conv.pads[0] + tap * conv.dilation_h for y in lines for tap in taps}
    return rows & set(range(conv.height))


@pytest.mark.parametrize(
    ("stride", "kernel", "dilation", "pad"),
    [(1, 3, 1, 1), (2, 3, 1, 0), (4, 1, 1, 0), (3, 2, 1, 1), (5, 2, 2, 2)],
)
def test_a_tile_brings_the_rows_that_it_needs(stride, kernel, dilation, pad):
    high = (24 + 2 * pad - (kernel - 1) * dilation - 1) // stride + 1
    conv = ConvGeometry(
        1, 32, 24, 7, kernel, kernel, stride, stride, dilation, dilation, (pad, 0, pad, 0), high, 7
    )  # fmt: skip
    for first, count in product(range(0, 7 * high, 5), (1, 6, 7, 16, 40)):
        count = min(count, 7 * high - first)
        for k in ((0, 2 * kernel * kernel), (kernel * kernel + 1, kernel)):
            last = kernel - 1 if k[0] == 0 else k[1] // kernel  # a part begins at the second tap
            wanted = needed(conv, first, count, range(min(last, kernel - 1) + 1))
            held = held_rows(conv, first, count, k)
            begin, end = held.inside
            brought = {held.row(number) for number in range(begin, end)}
            assert wanted <= brought
            if dilation == 1:  # rows that nothing needs lie between two output rows, if they come at all
                assert brought == (wanted if held.packed else set(range(min(wanted), max(wanted) + 1)))


def test_chunks_do_not_go_over_channel_blocks():
    conv = ConvGeometry(1, 32, 8, 8, 3, 3, 1, 1, 1, 1, (0, 0, 0, 0), 6, 6)
    for first, count in ((7, 4), (4, 9), (9, 10), (8, 2)):
        with pytest.raises(CompileError, match="channel block"):
            held_rows(conv, 0, 6, (first, count))
    for first, count, rows in ((0, 9, 3), (9, 9, 3), (0, 18, 3), (3, 6, 2), (4, 2, 1), (8, 1, 1)):
        assert held_rows(conv, 0, 6, (first, count)).virtual == rows


def test_arrays_of_boxes_and_what_is_defined_of_them():
    memory = CoreMemory(load("Ascend310"), GlobalMemory([]))
    box = Box(Buffer.UB, "", DType.FLOAT16, ((2, 96), (2, 32), (16, 2)), Affine(64))
    matrix = np.arange(64, dtype=np.float16).reshape(2, 32)
    assert not memory.defined(box)
    memory.array(box)[...] = from_matrix(matrix, box)
    memory.define(box)
    assert memory.defined(box)
    np.testing.assert_array_equal(as_matrix(memory.array(box)), matrix)
    assert [memory.element(0, address, np.dtype(np.float16)) for address in (64, 96, 160)] == [
        (0, True),
        (32, True),
        (16, True),
    ]
    gap = Box(Buffer.UB, "", DType.FLOAT16, ((16, 2),), Affine(64 + 64))
    assert not memory.defined(gap)
    with pytest.raises(SimulationError, match="must lie in the buffer"):
        memory.array(Box(Buffer.UB, "", DType.FLOAT16, ((16, 2),), Affine(1 << 20)))


def test_an_origin_is_an_index_like_others():
    assert origin("m").at({"@m": 48}) == 48


@pytest.mark.parametrize("rows", [(0, 96), (40, 20), (47, 2), (50, 3)])
@pytest.mark.parametrize("columns", [(0, 32), (16, 16)])
def test_tiles_of_rows_that_go_on_in_the_next_matrix(rows, columns):
    ref = Ref("x", (2, 40, 32), DType.FLOAT16, Format.FRACTAL_NZ, 2 * 48 * 32 * 2)
    stream = Stream(ref)
    work = VectorWork(96, 32, (), (stream,), (stream,), reduces="cols")
    ids = np.arange(2 * 48 * 32).reshape(2, 2, 48, 16)  # matrices, blocks of columns, rows, columns of one
    lines = ids.transpose(0, 2, 1, 3).reshape(96, 32)
    wanted = lines[rows[0] : sum(rows), columns[0] : sum(columns)].reshape(rows[1], -1, 16).transpose(1, 0, 2)
    tile = np.full(wanted.size, -1)
    for piece in VectorNotes(work, space_of(work))._pieces(ref, rows, columns):
        for number in range(piece.number):
            into, come = (piece.held + number * piece.step) // 2, (piece.start + number * piece.apart) // 2
            tile[into : into + piece.length // 2] = ids.reshape(-1)[come : come + piece.length // 2]
    np.testing.assert_array_equal(tile.reshape(wanted.shape), wanted)
