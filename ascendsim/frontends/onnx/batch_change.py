"""Where the samples of a batch lie in a tensor, and what operators do along that axis.

The axis that carries the batch has outer * batch * inner elements: index = (o * batch + sample) * inner + i.
Plain feature maps have outer = inner = 1; [batch * heads, length, width] has inner = heads; rows merged by
Reshape may have outer > 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ascendsim.graph.ir import Node
from ascendsim.opset import OpSet
from ascendsim.opset.axes import Relation


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
    """Every axis of `shape` that can carry a batch whose samples lie `stride` elements apart, outermost
    first.

    Row-major order fixes the stride; where dimensions of one element or merged ones leave a choice, there are
    several.

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

    A dimension that is the batch and nothing else comes first: exporters write it down. Otherwise the batch
    was merged with a neighbour: rows of a matrix (rank 2) merge with what stands before, as in [length *
    batch, width]; tensors of higher rank merge with what follows, as in [length, batch * heads, width].
    """
    plain = [item for item in candidates if item.inner == 1 and shape[item.axis] == batch]
    merged = [item for item in candidates if item not in plain]
    return plain + (merged if len(shape) <= 2 else merged[::-1])


def mixes(node: Node, port: int, axis: int, opset: OpSet) -> bool:
    """Whether an operator combines elements of different samples if the batch lies on `axis` of input `port`.

    Operators that do not say how they read an input get the benefit of the doubt, and so do those that pick
    slices by values into an axis of their own: the shapes of what they make still have to show the batch.
    """
    links = opset.get(node).facts.axes(node).of(port)
    if axis >= len(links) or links[axis].by_slices or links[axis].relation is Relation.UNREAD:
        return False
    return links[axis].relation is not Relation.CHOSEN or links[axis].axis is not None
