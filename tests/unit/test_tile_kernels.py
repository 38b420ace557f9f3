"""Operators on tiles of their tensors, as blocks hold them: each gives the part that it makes of the
whole."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import SimulationError
from ascendsim.core.formats import Format
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.isa.effects import Box
from ascendsim.isa.instructions import Buffer
from ascendsim.isa.notes import Kernel, Part
from ascendsim.ops import default_opset
from ascendsim.passes.infer import infer
from ascendsim.runtime.plain import evaluate_plain
from ascendsim.runtime.tile_kernels import TileKernels, _row_of

Array = NDArray[Any]


class Constants:
    """Device memory that holds constants alone."""

    def dtype(self, tensor: Tensor) -> np.dtype[Any]:
        return tensor.element_type.numpy

    def read(self, tensor: Tensor) -> Array:
        assert tensor.constant is not None
        return tensor.constant.array()


def built(b: asim.GraphBuilder, result: Tensor, format: Format = Format.ND) -> Graph:
    b.output(result, "y")
    graph = b.build()
    infer(graph, default_opset())
    for tensor in graph.tensors.values():
        if format is not Format.NC1HWC0 or (tensor.shape is not None and len(tensor.shape) == 4):
            tensor.format = format
    return graph


def kernels(graph: Graph) -> TileKernels:
    return TileKernels(
        list(graph.topological()),
        default_opset(),
        Constants(),  # type: ignore[arg-type]
        lambda name: name,
    )


def whole_of(graph: Graph, inputs: dict[str, Array]) -> Array:
    return evaluate_plain(graph, default_opset(), inputs)["y"]


def part(name: str, over: str, array: Array, count: int = 0) -> Part:
    """A part in a box of as many dims as its array."""
    dims = tuple((size, 0) for size in array.shape)
    return Part(name, over, Box(Buffer.UB, "", DType.of(array.dtype), dims), count)


def given(rng: np.random.Generator, shape: tuple[int, ...], dtype: type = np.float32) -> Array:
    return rng.standard_normal(shape).astype(dtype)


def blocks_of(matrix: Array, block: int = 16) -> Array:
    """Rows and columns as blocks of columns, filled up with zeros."""
    rows, columns = matrix.shape
    filled = np.zeros((rows, -(-columns // block) * block), matrix.dtype)
    filled[:, :columns] = matrix
    return filled.reshape(rows, -1, block).transpose(1, 0, 2)


def test_rows_and_columns_of_matrices_with_a_value_a_row_a_column_and_one() -> None:
    rng, b = np.random.default_rng(0), asim.GraphBuilder(dtype=DType.FLOAT32)
    shapes = {"x": (5, 6, 10), "r": (5, 6, 1), "c": (10,), "s": ()}
    x, r, c, s = (b.input(name, shape) for name, shape in shapes.items())
    graph = built(b, b.op("Sub", b.op("Add", b.op("Mul", x, r), c), s))
    arrays = {name: given(rng, shape) for name, shape in shapes.items()}
    wanted, run = whole_of(graph, arrays).reshape(30, 10), kernels(graph)
    for rows, columns in (((0, 30), (0, 10)), ((7, 12), (0, 10)), ((4, 5), (3, 9)), ((29, 30), (9, 10))):
        cut = slice(*rows), slice(*columns)
        tile = arrays["x"].reshape(30, 10)[cut]
        lines = arrays["r"].reshape(30)[cut[0]], arrays["c"][cut[1]], arrays["s"].reshape(1)
        sources = (
            part("x", "all", tile),
            part("r", "row", lines[0], len(lines[0])),
            part("c", "col", lines[1], len(lines[1])),
            part("s", "one", lines[2], 1),
        )
        size = rows[1] - rows[0], columns[1] - columns[0]
        kernel = Kernel(part("y", "all", tile), sources, size[0], size[1], (rows[0], columns[0]))
        np.testing.assert_array_equal(run(kernel, [tile, *lines]), wanted[cut])


def test_lines_that_end_before_the_tile_read_as_zeros() -> None:
    """A value a column of 13, beside a tile of 16."""
    b = asim.GraphBuilder(dtype=DType.FLOAT16)
    graph = built(b, b.op("Add", b.input("x", (4, 13)), b.input("c", (13,))), Format.FRACTAL_NZ)
    tile, line = np.ones((1, 4, 16), np.float16), np.arange(13, dtype=np.float16)
    sources = part("x", "all", tile), part("c", "col", line, 16)
    found = kernels(graph)(Kernel(part("y", "all", tile), sources, 4, 16), [tile, line])
    np.testing.assert_array_equal(found, blocks_of(np.tile(line, (4, 1))) + 1)


@pytest.mark.parametrize("axis", [1, 2])
def test_rows_that_are_normalised_are_whole(axis: int) -> None:
    """Over the last axis or the last two, which are one row then, with a scale in the form of the row."""
    rng, b = np.random.default_rng(1), asim.GraphBuilder(dtype=DType.FLOAT32)
    x, g = b.input("x", (6, 4, 8)), b.input("g", (4, 8)[axis - 1 :])
    graph = built(b, b.op("LayerNormalization", x, g, axis=axis))
    arrays = {"x": given(rng, (6, 4, 8)), "g": given(rng, (4, 8)[axis - 1 :])}
    columns = 32 if axis == 1 else 8
    wanted, matrix = whole_of(graph, arrays).reshape(-1, columns), arrays["x"].reshape(-1, columns)
    line, run = arrays["g"].reshape(-1), kernels(graph)
    for first, end in ((0, len(matrix)), (1, 4), (5, 6)):
        tile = matrix[first:end]
        sources = part("x", "all", tile), part("g", "col", line, columns)
        kernel = Kernel(part("y", "all", tile), sources, end - first, columns, (first, 0), whole_rows=True)
        np.testing.assert_allclose(run(kernel, [tile, line]), wanted[first:end], rtol=1e-6, atol=1e-7)


def test_a_whole_row_is_as_many_of_the_last_axes_as_fill_it() -> None:
    def tensor(shape: tuple[int, ...], format: Format = Format.ND) -> Tensor:
        made = Tensor("x", DType.FLOAT16, shape)
        made.format = format
        return made

    for columns, wanted in ((8, (8, 3)), (48, (48, 2)), (240, (240, 1))):
        assert _row_of(tensor((3, 5, 6, 8)), columns) == wanted
    assert _row_of(tensor((3, 5, 6, 8), Format.FRACTAL_NZ), 16) == (8, 3)
    assert _row_of(tensor((3, 1, 8)), 8) == (8, 2)  # of equal rows the shortest
    for columns in (7, 720):
        with pytest.raises(
            SimulationError, match=rf"tensor 'x' must have rows of {columns}, not \(3, 5, 6, 8\)"
        ):
            _row_of(tensor((3, 5, 6, 8)), columns)


def test_padding_of_blocked_rows_takes_no_part_and_is_zero_behind() -> None:
    """Softmax of 13 columns in blocks of 16: what is behind them in the tile is any number."""
    rng, b = np.random.default_rng(2), asim.GraphBuilder(dtype=DType.FLOAT16)
    graph = built(b, b.op("Softmax", b.input("x", (5, 13)), axis=-1), Format.FRACTAL_NZ)
    values = given(rng, (5, 13), np.float16)
    tile = blocks_of(np.pad(values, ((0, 0), (0, 3)), constant_values=9))
    kernel = Kernel(part("y", "all", tile), (part("x", "all", tile),), 5, 16, whole_rows=True)
    wanted = whole_of(graph, {"x": values})
    np.testing.assert_allclose(kernels(graph)(kernel, [tile]), blocks_of(wanted), atol=1e-3)


def as_rows(image: Array) -> Array:
    """Positions of all images by channels."""
    return image.transpose(0, 2, 3, 1).reshape(-1, image.shape[1])


def test_maps_are_positions_by_channels() -> None:
    """A scale a channel, of which a tile may have some; a value a position; channels that are normalised."""
    rng, shape = np.random.default_rng(3), (2, 20, 3, 5)
    values = {"x": given(rng, shape), "c": given(rng, (1, 20, 1, 1)), "r": given(rng, (2, 1, 3, 5))}
    b = asim.GraphBuilder(dtype=DType.FLOAT32)
    x, c, r = b.input("x", shape), b.input("c", (1, 20, 1, 1)), b.input("r", (2, 1, 3, 5))
    graph = built(b, b.op("Add", b.op("Mul", x, c), r), Format.NC1HWC0)
    wanted = as_rows(whole_of(graph, values))
    matrix, row = as_rows(values["x"]), values["r"].reshape(-1)
    for first, end in ((0, 30), (4, 11)):
        tile = blocks_of(matrix[first:end, 16:])
        lines = values["c"].reshape(-1)[16:], row[first:end]
        sources = (
            part("x", "all", tile),
            part("c", "col", lines[0], 16),
            part("r", "row", lines[1], end - first),
        )
        kernel = Kernel(part("y", "all", tile), sources, end - first, 16, (first, 16))
        found = kernels(graph)(kernel, [tile, *lines])
        np.testing.assert_array_equal(found[0][:, :4], wanted[first:end, 16:])

    b = asim.GraphBuilder(dtype=DType.FLOAT32)
    graph = built(b, b.op("Softmax", b.input("x", shape), axis=1), Format.NC1HWC0)
    wanted = as_rows(whole_of(graph, {"x": values["x"]}))
    tile = blocks_of(np.pad(matrix, ((0, 0), (0, 12)), constant_values=9))
    kernel = Kernel(part("y", "all", tile), (part("x", "all", tile),), 30, 32, whole_rows=True)
    np.testing.assert_allclose(kernels(graph)(kernel, [tile]), blocks_of(wanted), rtol=1e-6)


def test_sums_of_planes_are_one_value_a_channel() -> None:
    rng, b = np.random.default_rng(4), asim.GraphBuilder(dtype=DType.FLOAT32)
    graph = built(b, b.op("GlobalAveragePool", b.input("x", (2, 32, 3, 5))), Format.NC1HWC0)
    image = given(rng, (2, 32, 3, 5))
    wanted = whole_of(graph, {"x": image}).reshape(2, 32)
    for number in range(2):
        tile = blocks_of(as_rows(image)[15 * number : 15 * number + 15, 16:])
        line = part("y", "col", np.zeros(16, np.float32))
        kernel = Kernel(line, (part("x", "all", tile),), 15, 16, (0, 32 * number + 16))
        np.testing.assert_allclose(kernels(graph)(kernel, [tile]), wanted[number, 16:], atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.int8])
@pytest.mark.parametrize("format", [Format.ND, Format.NC1HWC0])
def test_windows_see_the_rows_that_are_there(dtype: type, format: Format) -> None:
    """Rows of 3 x 3 windows, two apart, over maps of 7 rows: a tile begins and ends inside of maps. Whoever
    reads a row that is not there would see it in the result."""
    rng, (maps, channels) = np.random.default_rng(5), (3, 1) if format is Format.ND else (2, 16)
    b = asim.GraphBuilder(dtype=DType.of(np.dtype(dtype)))
    x = b.input("x", (maps, channels, 7, 9))
    graph = built(b, b.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2]), format)
    image: Array = (rng.standard_normal((maps, channels, 7, 9)) * 40).astype(dtype)
    high, wide = 3, 4
    wanted = whole_of(graph, {"x": image}).transpose(0, 2, 3, 1).reshape(maps * high, wide * channels)
    lines = image.transpose(0, 2, 3, 1).reshape(maps * 7, 9 * channels)
    ends = [(number // high) * 7 + number % high * 2 for number in range(maps * high)]
    run = kernels(graph)
    for first, end in ((0, maps * high), (1, 2), (2, 4), (4, maps * high), (3, 6)):
        under = ends[first], ends[end - 1] + 3
        tile = lines[slice(*under)]
        target = part("y", "all", wanted[first:end])
        kernel = Kernel(
            target, (part("x", "all", tile),), end - first, wide * channels, (first, 0), under=under
        )
        np.testing.assert_array_equal(run(kernel, [tile]), wanted[first:end])


def test_constants_of_the_operators_own_come_from_memory_and_other_tensors_must_be_there() -> None:
    b = asim.GraphBuilder(dtype=DType.FLOAT32)
    x, z = b.input("x", (4, 8)), b.input("z", (4, 8))
    summed = b.op("ReduceSum", x, np.array([1]), keepdims=1)
    graph = built(b, b.op("Add", summed, z))
    tile = np.arange(16, dtype=np.float32).reshape(2, 8)
    sources = part("x", "all", tile), part("z", "all", tile)
    kernel = Kernel(part("y", "all", tile), sources, 2, 8, whole_rows=True)
    np.testing.assert_array_equal(kernels(graph)(kernel, [tile, tile]), tile + tile.sum(1, keepdims=True))
    with pytest.raises(SimulationError, match="tensor 'z' is not among those that a tile brings"):
        kernels(graph)(Kernel(part("y", "all", tile), sources[:1], 2, 8, whole_rows=True), [tile])


def test_the_product_is_the_first_nodes_result_and_is_rounded_to_its_type() -> None:
    """What the Cube has made comes in float32, under no name."""
    b = asim.GraphBuilder(dtype=DType.FLOAT16)
    made = b.op("MatMul", b.input("a", (4, 8)), b.input("b", (8, 6)))
    graph = built(b, b.op("Sub", made, b.input("z", (4, 6))))
    product = np.full((4, 6), 2049.0, np.float32)  # between two numbers of float16
    other = np.zeros((4, 6), np.float16)
    sources = part("", "all", product), part("z", "all", other)
    found = kernels(graph)(Kernel(part("y", "all", other), sources, 4, 6), [product, other])
    np.testing.assert_array_equal(found, np.full((4, 6), 2048, np.float16))
    assert found.dtype == np.float16


def test_an_operator_with_a_body_is_computed_as_a_whole() -> None:
    """A Softmax of any tile of rows is that of the whole."""
    rng = np.random.default_rng(6)
    b = asim.GraphBuilder(dtype=DType.FLOAT16)
    x = b.input("x", (40, 24))
    for count in (1, 2):
        x = b.op("Softmax", b.op("Mul", x, np.float16(4)), axis=-1) if count else x
    graph = built(b, x)
    values = given(rng, (40, 24), np.float16)
    wanted = whole_of(graph, {"x": values})
    for first, end in pairwise((0, 3, 20, 40)):
        tile: Sequence[Array] = [values[first:end]]
        kernel = Kernel(
            part("y", "all", tile[0]), (part("x", "all", tile[0]),), end - first, 24, (first, 0), True
        )
        np.testing.assert_array_equal(kernels(graph)(kernel, tile), wanted[first:end])
