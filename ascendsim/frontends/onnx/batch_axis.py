"""Where the samples of a batch lie in a tensor, and what operators do along that axis.

The axis that carries the batch has outer * batch * inner elements: index = (o * batch + sample) * inner + i. Plain feature maps
have outer = inner = 1; [batch * heads, length, width] has inner = heads; rows merged by Reshape may have outer > 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ascendsim.graph.ir import Node


@dataclass(frozen=True, slots=True)
class BatchAxis:
    """Position of the batch: `axis` of the tensor, `inner` elements of that axis within one sample."""

    axis: int
    inner: int = 1

    def outer(self, shape: tuple[int, ...], batch: int) -> int:
        """Blocks of whole batches along the axis of a tensor of this shape."""
        return shape[self.axis] // (batch * self.inner)

    def stride(self, shape: tuple[int, ...]) -> int:
        """Elements from one sample to the next in row-major order."""
        return self.inner * math.prod(shape[self.axis + 1 :])


def reshaped(shape: tuple[int, ...], stride: int, batch: int) -> list[BatchAxis]:
    """Every axis of `shape` that can carry a batch whose samples lie `stride` elements apart, outermost first.

    Row-major order fixes the stride; where dimensions of one element or merged ones leave a choice, there are several.

    >>> reshaped((197, 1, 768), 768, 1)
    [BatchAxis(axis=0, inner=1), BatchAxis(axis=1, inner=1), BatchAxis(axis=2, inner=768)]
    >>> reshaped((2, 64, 12, 64), 64 * 768, 2)
    [BatchAxis(axis=0, inner=1)]
    """
    found: list[BatchAxis] = []
    if stride == 0 or 0 in shape:
        return found
    for axis, size in enumerate(shape):
        right = math.prod(shape[axis + 1 :])
        inner = stride // right
        if stride % right == 0 and size % (batch * inner) == 0:
            found.append(BatchAxis(axis, inner))
    return found


def preferred(candidates: list[BatchAxis], shape: tuple[int, ...], batch: int) -> list[BatchAxis]:
    """Candidates for a reshape that an exporter wrote for a fixed batch, most plausible first.

    A dimension that is the batch and nothing else comes first: exporters write it down. Otherwise the batch was merged with a
    neighbour: rows of a matrix (rank 2) merge with what stands before, as in [length * batch, width]; tensors of higher rank
    merge with what follows, as in [length, batch * heads, width].
    """
    plain = [item for item in candidates if item.inner == 1 and shape[item.axis] == batch]
    merged = [item for item in candidates if item not in plain]
    return plain + (merged if len(shape) <= 2 else merged[::-1])


_ALONG_AXIS = {
    "Softmax": -1, "LogSoftmax": -1, "Hardmax": -1, "ArgMax": 0, "ArgMin": 0, "TopK": -1, "Concat": 0, "Split": 0, "LpNormalization": -1,
    "Unique": 0, "Compress": 0, "GatherElements": 0, "ScatterElements": 0,
}  # fmt: skip
_FROM_AXIS = {"LayerNormalization": -1, "RMSNormalization": -1}
_ALL_BUT_FIRST = frozenset({
    "Conv", "ConvTranspose", "ConvInteger", "QLinearConv", "DeformConv", "AveragePool", "MaxPool", "LpPool", "GlobalAveragePool",
    "GlobalMaxPool", "GlobalLpPool", "InstanceNormalization", "GroupNormalization", "BatchNormalization", "LRN", "DepthToSpace",
    "SpaceToDepth", "Col2Im", "GridSample",
})  # fmt: skip
_MATRIX = frozenset({"MatMul", "MatMulInteger", "QLinearMatMul"})
_RECURRENT = frozenset({"LSTM", "GRU", "RNN"})


def mixes(node: Node, port: int, axis: int) -> bool:
    """Whether an operator combines elements of different samples if the batch lies on `axis` of input `port`.

    Operators without an entry work element by element, or only move data.
    """
    data = node.required(port)
    rank = len(data.shape or ())
    op = node.op_type
    if op in _ALONG_AXIS and (port == 0 or op == "Concat"):
        return bool(axis == int(node.attr("axis", _ALONG_AXIS[op])) % rank)
    if op in _FROM_AXIS and port == 0:
        return bool(axis >= int(node.attr("axis", _FROM_AXIS[op])) % rank)
    if op.startswith("Reduce") and port == 0:
        return _reduces(node, axis, rank)
    if op in ("CumSum", "CumProd") and port == 0:
        which = node.required(1).constant
        return which is None or not which.available or int(which.array()) % rank == axis
    if op in _ALL_BUT_FIRST and port == 0:
        return axis != 0
    if op in _MATRIX:
        return rank >= 2 and (axis == rank - 1 if data is node.required(0) and port == 0 else axis == rank - 2)
    if op == "Gemm" and port < 2:
        transposed = bool(node.attr("transA" if port == 0 else "transB", 0))
        return axis == (1 if port == 0 else 0) - (1 if transposed and port == 0 else 0) + (1 if transposed and port == 1 else 0)
    if op in _RECURRENT and port == 0:
        return axis != (0 if node.attr("layout", 0) else 1)
    return False


def _reduces(node: Node, axis: int, rank: int) -> bool:
    axes = node.input(1)
    if axes is None or axes.elements == 0:
        return not node.attr("noop_with_empty_axes", 0)
    if axes.constant is None or not axes.constant.available:
        return True
    return any(int(item) % rank == axis for item in axes.constant.array().reshape(-1))
