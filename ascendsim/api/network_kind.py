"""What a user would call a network (residual CNN, vision transformer ...), read from its operators.

Errors of the simulator are alike within such kinds: what CANN's kernels for grouped convolutions or for
attention do inside is modelled well or badly for all of them. Names of networks play no part.
"""

from __future__ import annotations

import math

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.opset import OpSet
from ascendsim.opset.facts import Kind
from ascendsim.training import scopes

TRAINING = "training step"
QUANTISED = "quantised network"
RECURRENT = "recurrent network"
LANGUAGE_MODEL = "language model"
TEXT = "text encoder"
VISION = "vision transformer"
DENSE = "dense prediction CNN"
DEPTHWISE_SE = "depthwise CNN with squeeze-and-excitation"
SE = "CNN with squeeze-and-excitation"
GROUPED = "grouped CNN"
DEPTHWISE = "depthwise CNN"
BRANCHES = "multi-branch CNN"
RESIDUAL = "residual CNN"
PLAIN = "plain CNN"
OTHER = "other network"

KINDS = (
    PLAIN,
    RESIDUAL,
    BRANCHES,
    DEPTHWISE,
    GROUPED,
    SE,
    DEPTHWISE_SE,
    DENSE,
    VISION,
    TEXT,
    LANGUAGE_MODEL,
    RECURRENT,
    QUANTISED,
    TRAINING,
    OTHER,
)

_SEVERAL = 2  # one Add or Concat may be part of a head; the structure of a network repeats
_SHARE = 0.2  # of the convolutions, from which on their form gives the kind its name


def network_kind(graph: Graph, opset: OpSet) -> str:
    """One of `KINDS`.

    Args:
        graph: The user's network.
        opset: What its operators are for.
    """
    nodes = list(graph.nodes)
    types = {node.op_type for node in nodes}
    if any(node.name.partition("/")[0] == scopes.GRADIENTS for node in nodes):
        return TRAINING
    if any(_has_int8(node) for node in nodes):
        return QUANTISED
    if types & {"LSTM", "GRU", "RNN"}:
        return RECURRENT
    convolutions = [node for node in nodes if opset.get(node).facts.kind is Kind.CONVOLUTION]
    products = [node for node in nodes if opset.get(node).facts.kind is Kind.MATMUL]
    attention = [node for node in products if all(_computed(tensor) for tensor in node.inputs[:2])]
    if len(attention) >= _SEVERAL and len(products) > len(convolutions):
        if convolutions:
            return VISION
        return LANGUAGE_MODEL if _predicts_tokens(graph) else TEXT
    return _convolutional(graph, convolutions) if len(convolutions) >= _SEVERAL else OTHER


def _convolutional(graph: Graph, convolutions: list[Node]) -> str:
    if all(len(tensor.shape or ()) > 2 for tensor in graph.outputs):
        return DENSE
    depthwise = [node for node in convolutions if _channels_of_group(node) == 1]
    grouped = [node for node in convolutions if node not in depthwise and node.attr("group", 1) > 1]
    least = _SHARE * len(convolutions)
    if sum(_scales_channels(node) for node in graph.nodes) >= _SEVERAL:
        return DEPTHWISE_SE if len(depthwise) >= least else SE
    if len(grouped) >= least:
        return GROUPED
    if len(depthwise) >= least:
        return DEPTHWISE
    for op_type, kind in (("Concat", BRANCHES), ("Add", RESIDUAL)):
        if sum(_joins(node, op_type) for node in graph.nodes) >= _SEVERAL:
            return kind
    return PLAIN


def _channels_of_group(node: Node) -> int | None:
    """Input channels that a filter of a grouped convolution sees; None for one that is not grouped."""
    weight = node.required(1)
    return weight.static_shape[1] if weight.is_static and node.attr("group", 1) > 1 else None


def _scales_channels(node: Node) -> bool:
    """Whether each channel is multiplied by a number computed from all its pixels (squeeze and
    excitation).
    """
    if node.op_type != "Mul" or not _joins(node, "Mul"):
        return False
    sizes = [_pixels(tensor) for tensor in node.inputs if tensor is not None]
    return None not in sizes and sorted(size == 1 for size in sizes) == [False, True]


def _has_int8(node: Node) -> bool:
    return any(tensor is not None and tensor.dtype is DType.INT8 for tensor in (*node.inputs, *node.outputs))


def _joins(node: Node, op_type: str) -> bool:
    """Whether a node of this type brings together what two or more nodes have computed."""
    return node.op_type == op_type and sum(_computed(tensor) for tensor in node.inputs) >= _SEVERAL


def _computed(tensor: Tensor | None) -> bool:
    return tensor is not None and not tensor.is_constant


def _pixels(tensor: Tensor) -> int | None:
    """Product of the dimensions behind batch and channels; None where there are none, or open ones."""
    pixels = (tensor.shape or ())[2:]
    known = [size for size in pixels if isinstance(size, int)]
    return math.prod(known) if known and len(known) == len(pixels) else None


def _predicts_tokens(graph: Graph) -> bool:
    """Whether the last axis of an output is as long as a table of embeddings that tokens are looked up in."""
    looked_up = [node.required(0) for node in graph.nodes if node.op_type == "Gather"]
    tables = {
        table.static_shape[0] for table in looked_up if table.is_constant and len(table.static_shape) == 2
    }
    return any(tensor.shape and tensor.shape[-1] in tables for tensor in graph.outputs)
