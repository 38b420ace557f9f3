"""The operators' own kernels on one tile of their tensors.

A tile is rows x columns of the iteration space; operators see it as a smaller tensor of the rank that they
know: N x C x 1 x 1 of a feature map, the last two axes of a matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.core.errors import SimulationError
from ascendsim.core.formats import Format, ceil_div
from ascendsim.graph.ir import Node, Tensor
from ascendsim.isa.notes import Arrays, Kernel, Part, as_matrix, from_matrix
from ascendsim.ops.shared.common import rounded_within
from ascendsim.opset import OpSet
from ascendsim.runtime.device_memory import DeviceMemory

Array = NDArray[Any]


class TileKernels:
    """What the nodes of a task compute, tile by tile.

    Args:
        nodes: In execution order; the first one's product is made by the Cube where a part has no name.
        opset: Operators.
        memory: Says which types tensors have, and holds constants that no block reads (axes).
        named: Tensors by the names that notes have for them.
    """

    def __init__(
        self, nodes: Sequence[Node], opset: OpSet, memory: DeviceMemory, named: Callable[[str], str]
    ) -> None:
        self._nodes, self._opset, self._memory, self._named = nodes, opset, memory, named
        self._dtype_of = memory.dtype
        tensors = [tensor for node in nodes for tensor in (*node.inputs, *node.outputs) if tensor is not None]
        self._tensors = {tensor.name: tensor for tensor in tensors}
        self._maker = {tensor.name: node for node in nodes for tensor in node.outputs}

    def __call__(self, kernel: Kernel, arrays: Arrays) -> Array:
        """A part of the output."""
        like = self._tensor(kernel.target.region)
        known: dict[str, Array] = {}
        for part, array in zip(kernel.sources, arrays, strict=True):
            tensor = self._tensor(part.region) if part.region else self._nodes[0].output
            dtype = self._dtype_of(tensor)
            known[tensor.name] = rounded_within(self._given(kernel, part, array, tensor), dtype)
        with np.errstate(all="ignore"):
            made = self._made(like, known)
        if kernel.under:
            return from_matrix(_rows_of(like, made, kernel), kernel.target.box)
        if kernel.target.over == "col":
            return made.reshape(kernel.columns)
        made = made.reshape(kernel.rows, -1)
        whole = np.zeros((kernel.rows, kernel.columns), made.dtype)
        whole[:, : made.shape[1]] = made  # zeros behind the last column of a blocked tensor
        return from_matrix(whole, kernel.target.box)

    def _tensor(self, name: str) -> Tensor:
        return self._tensors[self._named(name)]

    def _given(self, kernel: Kernel, part: Part, array: Array, tensor: Tensor) -> Array:
        """A part of an input as a smaller tensor."""
        shape = tensor.static_shape
        if part.over == "one":
            return array.reshape(shape)
        if kernel.under:
            return _maps(tensor, array, kernel.under)
        if part.over != "all":
            whole = np.zeros(part.count, array.dtype)
            whole[: len(array)] = array
            return self._line(kernel, part, whole, tensor)
        if array.ndim == 1:
            return array
        matrix = as_matrix(array)
        if kernel.target.over == "col":  # all positions of some channels
            return matrix.T.reshape(1, -1, *shape[2:])
        if _is_map(tensor):
            columns = shape[1] if kernel.whole_rows else matrix.shape[1]
            return matrix[:, :columns].reshape(-1, columns, 1, 1)
        if kernel.whole_rows:
            columns, first = _row_of(tensor, matrix.shape[1])
            return matrix[:, :columns].reshape(-1, *(1,) * (first - 1), *shape[first:])
        return matrix.reshape((1,) * (len(shape) - 2) + matrix.shape)

    def _line(self, kernel: Kernel, part: Part, values: Array, tensor: Tensor) -> Array:
        """One value a row or a column of the tile."""
        shape = tensor.static_shape
        like = self._tensor(kernel.target.region)
        if part.over == "row":
            return values.reshape(-1, *(1,) * (max(len(like.static_shape), 2) - 1 if _is_map(like) else 1))
        if kernel.whole_rows and math.prod(shape) <= len(values):
            return values[: math.prod(shape)].reshape(shape)
        if not _is_map(like):
            return values
        lines = [1] * len(shape)
        lines[next((axis for axis, size in enumerate(shape) if size > 1), 0)] = len(values)
        return values.reshape(lines)

    def _made(self, tensor: Tensor, known: dict[str, Array]) -> Array:
        if tensor.name in known:
            return known[tensor.name]
        node = self._maker.get(tensor.name)
        if tensor.is_constant:
            return self._memory.read(tensor)
        if node is None:
            raise SimulationError(
                f"tensor {tensor.name!r}",
                "is not among those that a tile brings",
                remedy="please report this",
            )
        inputs = [None if one is None else self._made(one, known) for one in node.inputs]
        definition = self._opset.get(node)
        if definition.compute_body is not None:
            results = definition.compute_body(node, inputs, self._dtype_of, lambda _: None, None)
        else:
            results = definition.compute(node, inputs, [self._dtype_of(one) for one in node.outputs])
        for one, result in zip(node.outputs, results, strict=False):
            known[one.name] = rounded_within(np.asarray(result), self._dtype_of(one))
        return known[tensor.name]


def _maps(tensor: Tensor, rows: Array, under: tuple[int, int]) -> Array:
    """The maps that some rows are of; all other rows have a value that spoils what is made of them."""
    height = _height(tensor)
    first, end = under[0] // height, ceil_div(under[1], height)
    spoilt = np.inf if rows.dtype.kind == "f" else np.iinfo(rows.dtype).max
    whole = np.full(((end - first) * height, rows.shape[1]), spoilt, rows.dtype)
    whole[under[0] - first * height : under[1] - first * height] = rows
    if not _is_map(tensor):
        return whole.reshape(end - first, 1, *tensor.static_shape[2:])
    lines = whole.reshape(end - first, height, tensor.static_shape[3], -1)
    return lines.transpose(0, 3, 1, 2)


def _rows_of(tensor: Tensor, maps: Array, kernel: Kernel) -> Array:
    """Rows of a tile, of all rows of the maps that they are of."""
    lines = maps.transpose(0, 2, 3, 1) if _is_map(tensor) else maps
    first = kernel.first[0] % _height(tensor)
    return lines.reshape(-1, kernel.columns)[first : first + kernel.rows]


def _height(tensor: Tensor) -> int:
    """Rows of a map."""
    return math.prod(tensor.static_shape[2:-1])


def _is_map(tensor: Tensor) -> bool:
    """Whether its rows are positions and its columns channels."""
    return tensor.format is Format.NC1HWC0 and len(tensor.static_shape) == 4


def _row_of(tensor: Tensor, columns: int) -> tuple[int, int]:
    """Columns of a row without padding, and from which axis on they are."""
    shape = tensor.static_shape
    if tensor.format is Format.FRACTAL_NZ:
        return shape[-1], len(shape) - 1
    for axis in range(len(shape) - 1, 0, -1):
        if math.prod(shape[axis:]) == columns:
            return columns, axis
    raise SimulationError(
        f"tensor {tensor.name!r}", f"must have rows of {columns}", shape, "please report this"
    )
