"""The operators' own kernels on one tile of their tensors.

A tile is rows x columns of the iteration space; operators see it as a smaller tensor of the rank that they
know: N x C x 1 x 1 of a feature map, the last two axes of a matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.core.errors import SimulationError
from ascendsim.core.formats import Format
from ascendsim.graph.ir import Node, Tensor
from ascendsim.isa.notes import Arrays, Kernel, Part, as_matrix, from_matrix
from ascendsim.ops.shared.common import finish
from ascendsim.opset import OpSet

Array = NDArray[Any]
DTypeOf = Callable[[Tensor], "np.dtype[Any]"]


class TileKernels:
    """What the nodes of a task compute, tile by tile.

    Args:
        nodes: In execution order; the first one's product is made by the Cube where a part has no name.
        opset: Operators.
        dtype_of: NumPy type of a tensor.
    """

    def __init__(self, nodes: Sequence[Node], opset: OpSet, dtype_of: DTypeOf) -> None:
        self._nodes, self._opset, self._dtype_of = nodes, opset, dtype_of
        tensors = [tensor for node in nodes for tensor in (*node.inputs, *node.outputs) if tensor is not None]
        self._tensors = {tensor.name: tensor for tensor in tensors}
        self._maker = {tensor.name: node for node in nodes for tensor in node.outputs}

    def __call__(self, kernel: Kernel, arrays: Arrays) -> Array:
        """A part of the output."""
        like = self._tensors[kernel.target.region]
        known: dict[str, Array] = {}
        for part, array in zip(kernel.sources, arrays, strict=True):
            tensor = self._tensors[part.region] if part.region else self._nodes[0].output
            known[tensor.name] = self._given(part, as_matrix(array), tensor, like)
        with np.errstate(all="ignore"):
            made = self._made(like, known)
        return from_matrix(made.reshape(kernel.rows, kernel.columns), kernel.target.box)

    def _given(self, part: Part, array: Array, tensor: Tensor, like: Tensor) -> Array:
        array = finish(array, self._dtype_of(tensor))
        map_like = like.format is Format.NC1HWC0 and len(like.static_shape) == 4
        if part.over == "all":
            rows, columns = array.shape
            rank = len(like.static_shape)
            return (
                array.reshape(rows, columns, 1, 1)
                if map_like
                else array.reshape((1,) * (rank - 2) + array.shape)
            )
        if part.over == "one":
            return array.reshape(tensor.static_shape)
        whole = np.zeros(part.count, array.dtype)
        whole[: len(array)] = array
        rank = len(tensor.static_shape)
        shape = [1] * rank
        axis = next((axis for axis, size in enumerate(tensor.static_shape) if size > 1), 0)
        shape[axis] = part.count
        return whole.reshape(shape)

    def _made(self, tensor: Tensor, known: dict[str, Array]) -> Array:
        if tensor.name in known:
            return known[tensor.name]
        node = self._maker.get(tensor.name)
        if node is None:
            raise SimulationError(
                f"tensor {tensor.name!r}",
                "is not among those that a tile brings",
                remedy="please report this",
            )
        inputs = [None if one is None else self._made(one, known) for one in node.inputs]
        definition = self._opset.get(node)
        if definition.compute_body is not None:
            results = definition.compute_body(node, inputs, self._dtype_of, lambda _: None)
        else:
            results = definition.compute(node, inputs, [self._dtype_of(one) for one in node.outputs])
        for one, result in zip(node.outputs, results, strict=False):
            known[one.name] = finish(np.asarray(result), self._dtype_of(one))
        return known[tensor.name]
