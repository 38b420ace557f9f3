"""Which tensors hold the batch along their outermost axis, and which operators work on every sample by itself.

A tensor with factor f has f rows of its outermost axis for every sample, one sample behind the other (f > 1 after a Reshape that
joins the batch with another axis). An operator can run on a part of the batch if its outputs hold the batch like that and row i
of them needs no other row of its batched inputs: then running it on slices gives the slices of its result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ascendsim.core.formats import Format
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.passes.fusion.checks import numbers

_ELEMENTWISE = frozenset(
    {
        "Abs",
        "Add",
        "And",
        "Cast",
        "Ceil",
        "Celu",
        "Clip",
        "Cos",
        "Div",
        "Dropout",
        "Elu",
        "Equal",
        "Erf",
        "Exp",
        "Floor",
        "FusedMulAdd",
        "Gelu",
        "Greater",
        "GreaterOrEqual",
        "HardSigmoid",
        "HardSwish",
        "Identity",
        "LeakyRelu",
        "Less",
        "LessOrEqual",
        "Log",
        "Max",
        "Mean",
        "Min",
        "Mish",
        "Mul",
        "Muls",
        "Neg",
        "Not",
        "Or",
        "PRelu",
        "Pow",
        "Reciprocal",
        "Relu",
        "ReluV2",
        "Round",
        "Rsqrt",
        "Selu",
        "Shrink",
        "Sigmoid",
        "Sign",
        "Sin",
        "Softplus",
        "Softsign",
        "Sqrt",
        "Square",
        "Sub",
        "Sum",
        "Swish",
        "Tanh",
        "ThresholdedRelu",
        "TransData",
        "Where",
        "Xor",
    }
)
# input 0 is cut, all others must be without the batch
_PER_SAMPLE = frozenset(
    {
        "AveragePool",
        "BNInference",
        "BNInferenceD",
        "BatchNormalization",
        "Conv",
        "ConvTranspose",
        "DepthToSpace",
        "FullyConnection",
        "GlobalAveragePool",
        "GlobalLpPool",
        "GlobalMaxPool",
        "GroupNormalization",
        "InstanceNormalization",
        "LRN",
        "LpPool",
        "MaxPool",
        "Scale",
        "SpaceToDepth",
        "StridedRead",
        "StridedWrite",
    }
)
_ONE_AXIS = {"Softmax": -1, "LogSoftmax": -1, "LpNormalization": -1, "Concat": None, "Split": 0}  # default of `axis`
_REDUCTIONS = frozenset(
    {
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "ReduceProd",
        "ReduceSum",
        "ReduceSumSquare",
    }
)
_SLICEABLE = frozenset({Format.ND, Format.NCHW, Format.NC1HWC0})


@dataclass(frozen=True, slots=True)
class BatchAxis:
    """What of a graph holds the batch.

    Attributes:
        batch: Samples.
        factors: By tensor name: rows of the outermost axis for one sample.
        nodes: Names of the nodes that can run on a part of the batch.
    """

    batch: int
    factors: Mapping[str, int] = field(default_factory=dict)
    nodes: frozenset[str] = frozenset()

    def rows(self, tensor: Tensor, batch: int) -> tuple[int, ...]:
        """Shape of a tensor at another batch."""
        factor = self.factors.get(tensor.name)
        shape = tensor.static_shape
        return shape if factor is None else (factor * batch, *shape[1:])


def find_batch(graph: Graph) -> BatchAxis:
    """Follows the batch from the inputs of a graph through its operators.

    The batch is the outermost axis of the inputs; there is none if they disagree, or if it is 1.
    """
    sizes = {tensor.static_shape[0] for tensor in graph.inputs if tensor.is_static and tensor.static_shape}
    if len(sizes) != 1 or any(not tensor.is_static or not tensor.static_shape for tensor in graph.inputs):
        return BatchAxis(1)
    batch = sizes.pop()
    if batch < 2:
        return BatchAxis(1)
    factors = {tensor.name: 1 for tensor in graph.inputs}
    nodes = set()
    for node in graph.topological():
        factor = _factor(node, factors, batch)
        if factor is not None:
            nodes.add(node.name)
            factors.update({tensor.name: factor for tensor in node.outputs})
    return BatchAxis(batch, factors, frozenset(nodes))


def can_be_cut(tensor: Tensor) -> bool:
    """Whether slices of a tensor along the outermost axis lie in memory in one piece."""
    return tensor.format in _SLICEABLE or (tensor.format is Format.FRACTAL_NZ and len(tensor.static_shape) > 2)


def _factor(node: Node, factors: Mapping[str, int], batch: int) -> int | None:
    """Rows a sample of a node's outputs, None if it cannot run on a part of the batch."""
    inputs = [tensor for tensor in node.inputs if tensor is not None]
    cut = [tensor for tensor in inputs if tensor.name in factors]
    if not cut or node.control or node.subgraphs:
        return None
    if not all(tensor.is_static and tensor.static_shape for tensor in node.outputs):
        return None
    rows = {tensor.static_shape[0] for tensor in node.outputs}
    if len(rows) != 1 or min(rows) < 1 or min(rows) % batch:
        return None
    factor = rows.pop() // batch
    return factor if _by_sample(node, cut, factors, factor) else None


def _by_sample(node: Node, cut: list[Tensor], factors: Mapping[str, int], factor: int) -> bool:
    kind, first = node.op_type, node.input(0)
    same = all(factors[tensor.name] == factor for tensor in cut)
    if kind in _ELEMENTWISE:
        return same and _broadcasts(node, factors)
    if first is None or first.name not in factors:
        return False
    if kind in ("Reshape", "Flatten"):
        return len(cut) == 1 and (kind == "Reshape" or int(node.attr("axis", 1)) >= 1)
    if not same:
        return False
    only_first = len(cut) == sum(1 for use in first.uses if use.node is node) == 1
    if kind in _PER_SAMPLE:
        if kind in ("BatchNormalization",) and (len(node.outputs) > 1 or node.attr("training_mode", 0)):
            return False
        return only_first and (kind != "FullyConnection" or int(node.attr("axis", 1)) >= 1)
    rank = len(first.static_shape)
    if kind in _ONE_AXIS:
        return int(node.attr("axis", _ONE_AXIS[kind])) % rank != 0 and all(len(tensor.static_shape) == rank for tensor in cut)
    if kind in ("LayerNormalization", "RMSNormalization"):
        return only_first and int(node.attr("axis", -1)) % rank != 0
    if kind == "Transpose":
        order = node.attr("perm")
        return order is not None and int(order[0]) == 0
    if kind in ("MatMul", "BatchMatMul", "Gemm"):
        return _product(node, factors)
    return only_first and _with_axes(node, rank)


def _broadcasts(node: Node, factors: Mapping[str, int]) -> bool:
    """Whether inputs without the batch serve every sample alike, and those with it have it outermost in the result."""
    shape = node.output.static_shape
    for tensor in node.inputs:
        if tensor is None:
            continue
        if tensor.name in factors:
            if len(tensor.static_shape) != len(shape):
                return False
        elif len(tensor.static_shape) == len(shape) and tensor.static_shape[0] != 1:
            return False
    return True


def _product(node: Node, factors: Mapping[str, int]) -> bool:
    """Rows of the left operand are samples; or both operands are stacks of matrices, one or more a sample."""
    left, right = node.required(0), node.required(1)
    rank = len(left.static_shape)
    if rank < 2 or (rank == 2 and (node.attr("transA", 0) or node.attr("transpose_x1", 0) or node.attr("adj_x1", 0))):
        return False
    if right.name in factors:
        return rank > 2 and len(right.static_shape) == rank
    if rank > 2 and len(right.static_shape) >= rank and right.static_shape[0] != 1:
        return False
    others = [tensor for tensor in node.inputs[2:] if tensor is not None]
    return all(tensor.name not in factors and (len(tensor.static_shape) < rank or tensor.static_shape[0] == 1) for tensor in others)


def _with_axes(node: Node, rank: int) -> bool:
    """Operators whose axes are in an input or an attribute: reductions, padding, slicing, resizing, squeezing."""
    kind = node.op_type
    if kind == "Resize":
        scales = numbers(node.input(2))
        return node.input(3) is None and scales is not None and len(scales) == rank and scales[0] == 1
    if kind == "Pad":
        pads = numbers(node.input(1))
        return node.input(3) is None and pads is not None and len(pads) == 2 * rank and pads[0] == 0 and pads[rank] == 0
    axes = numbers(node.input(3 if kind == "Slice" else 1))
    if kind in _REDUCTIONS or kind in ("Slice", "Squeeze"):
        return bool(axes) and axes is not None and all(int(axis) % rank != 0 for axis in axes)
    if kind == "Unsqueeze":
        wide = len(node.output.static_shape)
        return axes is not None and all(int(axis) % wide != 0 for axis in axes)
    return False
