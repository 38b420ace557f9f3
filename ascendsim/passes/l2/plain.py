"""Plain convolutional networks: those whose batches the compiler of the Ascend 310P is seen to cut.

Which operators its L2 fusion takes is not public. Throughput that was published for batches that L2 cannot
hold says it for networks as a whole: where maps meet nothing but convolutions, poolings and sums it rises up
to batch 32; where they are also joined (Concat), turned, or scaled by channel it falls from batch 8 on, and
so it does where groups of channels end inside of a fractal (RegNetX, groups of 24). One network contradicts:
SE-ResNet-50 is published as if it were cut, SE-ResNeXt-50 and EfficientNets, scaled alike, are not.
"""

from __future__ import annotations

from ascendsim.core.formats import FRACTAL_ROWS
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.opset import OpSet
from ascendsim.opset.facts import OpPattern
from ascendsim.opset.patterns import pattern_of

_CONVOLUTIONS = frozenset({OpPattern.CONVOLUTION, OpPattern.DEPTHWISE})
_POOLINGS = frozenset({OpPattern.POOL2D, OpPattern.MAX_POOL, OpPattern.COMM_REDUCE})
_TAKEN = _CONVOLUTIONS | _POOLINGS | {OpPattern.ELEMWISE, OpPattern.TRANSDATA}


def is_plain(graph: Graph, opset: OpSet) -> bool:
    """Whether maps (more than one position a channel) meet nothing but convolutions whose groups fill
    fractals, poolings, reductions and elementwise operators of equal shapes, and there is a convolution.
    """
    patterns = {node: pattern_of(node, opset) for node in graph.nodes if _reads_maps(node)}
    return any(pattern in _CONVOLUTIONS for pattern in patterns.values()) and all(
        _is_taken(node, pattern) for node, pattern in patterns.items()
    )


def _reads_maps(node: Node) -> bool:
    """Whether an operator reads more than one position a channel: what is left of maps at a network's end is
    taken by anything.
    """
    shapes = [tensor.shape or () for tensor in node.inputs if tensor is not None and not tensor.is_constant]
    return any(isinstance(dim, int) and dim > 1 for shape in shapes for dim in shape[2:])


def _is_taken(node: Node, pattern: OpPattern) -> bool:
    if pattern not in _CONVOLUTIONS:
        return pattern in _TAKEN
    groups = int(node.attr("group", 1))
    if groups == 1:
        return True
    widths = [_channels(maps) / groups for maps in (node.required(0), node.output)]
    return all(width and (not FRACTAL_ROWS % width or not width % FRACTAL_ROWS) for width in widths)


def _channels(maps: Tensor) -> int:
    """The channels of N, C, positions; 0 where they are not known."""
    shape = maps.shape or ()
    return shape[1] if len(shape) > 2 and isinstance(shape[1], int) else 0
