"""Layout trick: channel shuffles go into the filters of the convolutions beside them.

Conv(W) -> Relu -> Reshape [N, g, C/g, H, W] -> Transpose -> Reshape [N, C, H, W] -> Conv(V)
becomes Conv(W with its filters in the new order) -> Relu -> Conv(V)

Reshape and Transpose of five axes have no blocked format, so a shuffle costs a TransData on each side and
three operators between. A shuffle is a permutation of channels: a convolution without groups in front of it
can make them in that order, one behind it can read them in that order. What else forces TransData is listed
with the reason why nothing is done about it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ascendsim.graph.ir import Array, Graph, Node, Tensor
from ascendsim.opset import OpSet
from ascendsim.opset.facts import Kind
from ascendsim.passes.fusion.rules.conv.conv_folding import lazy_constant
from ascendsim.passes.layout.causes import GRAPH_INPUT, GRAPH_OUTPUT
from ascendsim.passes.levers.lever import Lever, LeverContext, Relation, Site
from ascendsim.passes.rewriting.outputs import is_output
from ascendsim.passes.rewriting.replace import replace_root

_CHANNELS = 1  # axis of NCHW


class ChannelShuffle(Lever):
    """Folds channel shuffles into convolutions."""

    name = "channel-shuffle"
    title = "channel shuffles into the filters beside them"

    def sites(self, graph: Graph, context: LeverContext) -> tuple[Site, ...]:
        """Every shuffle of channels, and what else of the model forces TransData."""
        shuffles = [found for node in graph.topological() if (found := _shuffle(node)) is not None]
        inside = {node.name for shuffle in shuffles for node in shuffle.nodes}
        others = (
            Site((name,), _declined(kind)) for name, kind in context.forced.items() if name not in inside
        )
        return (*(_site(shuffle, context.opset) for shuffle in shuffles), *others)

    def rewrite(self, graph: Graph, site: Site, context: LeverContext) -> None:
        """Folds one shuffle."""
        shuffle = _shuffle(graph.node(site.nodes[2]))
        assert shuffle is not None
        maker = _maker(shuffle, context.opset)
        if maker is not None:
            for port in (1, 2):
                _reorder(graph, maker, port, 0, shuffle.order)
        else:
            for reader in _readers(shuffle, context.opset) or ():
                _reorder(graph, reader, 1, 1, np.argsort(shuffle.order))
        replace_root(graph, shuffle.nodes[-1], shuffle.source)


@dataclass(frozen=True, slots=True)
class _Shuffle:
    """Reshape, Transpose, Reshape: channel `order[j]` of the source becomes channel j."""

    nodes: tuple[Node, Node, Node]
    order: Array

    @property
    def source(self) -> Tensor:
        return self.nodes[0].required(0)

    @property
    def result(self) -> Tensor:
        return self.nodes[2].output


def _shuffle(last: Node) -> _Shuffle | None:
    """The shuffle that a Reshape ends, if it does."""
    turn = _maker_of(last, "Reshape")
    first = None if turn is None else _maker_of(turn, "Transpose")
    if turn is None or first is None or first.op_type != "Reshape" or first.domain:
        return None
    source, split = first.required(0), first.output
    if not (source.is_static and split.is_static and last.output.is_static):
        return None
    shape, parts = source.static_shape, split.static_shape
    if len(shape) != 4 or last.output.static_shape != shape or len(parts) < 5:
        return None
    axes = tuple(int(axis) for axis in turn.attr("perm", ()) or range(len(parts))[::-1])
    kept = (0, len(parts) - 2, len(parts) - 1)
    if (parts[0], *parts[-2:]) != (shape[0], *shape[2:]) or any(axes[axis] != axis for axis in kept):
        return None
    order = np.arange(shape[_CHANNELS]).reshape(parts[1:-2])
    return _Shuffle((first, turn, last), order.transpose([axis - 1 for axis in axes[1:-2]]).reshape(-1))


def _maker_of(node: Node, op_type: str) -> Node | None:
    """What alone makes the first input of a node of a type, for it alone."""
    if node.op_type != op_type or node.domain or node.graph is None:
        return None
    tensor = node.required(0)
    if len(tensor.uses) != 1 or is_output(node.graph, tensor):
        return None
    return tensor.producer


def _site(shuffle: _Shuffle, opset: OpSet) -> Site:
    names = tuple(node.name for node in shuffle.nodes)
    if _maker(shuffle, opset) is not None:
        reason = "the convolution in front can make the channels in this order: no Reshape, no TransData"
        return Site(names, reason, Relation.EXACT)
    if _readers(shuffle, opset):
        reason = "the convolutions behind can read the channels in this order: no Reshape, no TransData"
        return Site(names, reason, Relation.EXACT)
    return Site(names, "it shuffles channels, but no convolution without groups makes or reads them alone")


def _maker(shuffle: _Shuffle, opset: OpSet) -> Node | None:
    """The convolution in front, if nobody else sees the order of its channels."""
    tensor = shuffle.source
    while True:
        node = tensor.producer
        if node is None or node.graph is None or len(tensor.uses) != 1 or is_output(node.graph, tensor):
            return None
        if _is_plain_conv(node):
            bias = node.input(2)
            return node if bias is None or bias.is_constant else None
        if not _keeps_channels(node, opset):
            return None
        tensor = node.required(0)


def _readers(shuffle: _Shuffle, opset: OpSet) -> list[Node] | None:
    """The convolutions behind, if they are all that sees the order of the channels."""
    found: list[Node] = []
    tensors = [shuffle.result]
    while tensors:
        tensor = tensors.pop()
        assert tensor.producer is not None
        graph = tensor.producer.graph
        if graph is None or not tensor.uses or is_output(graph, tensor):
            return None
        for use in tensor.uses:
            if use.index == 0 and _is_plain_conv(use.node):
                found.append(use.node)
            elif use.index == 0 and _keeps_channels(use.node, opset):
                tensors.append(use.node.output)
            else:
                return None
    return found


def _is_plain_conv(node: Node) -> bool:
    if node.op_type != "Conv" or node.domain or int(node.attr("group", 1)) != 1:
        return False
    return node.required(1).is_constant and len(node.required(1).static_shape) == 4


def _keeps_channels(node: Node, opset: OpSet) -> bool:
    """Whether an operator does the same to every channel."""
    others = [tensor for tensor in node.inputs[1:] if tensor is not None]
    if opset.get(node).facts.kind is not Kind.ELEMENTWISE or len(node.outputs) != 1:
        return False
    alone = all(tensor.is_constant and tensor.elements == 1 for tensor in others)
    return alone and node.output.shape == node.required(0).shape


def _reorder(graph: Graph, node: Node, port: int, axis: int, order: Array) -> None:
    """Gives a convolution its constant with the slices along an axis in another order."""
    old = node.input(port)
    if old is None:
        return
    name = f"{old.name}_shuffled"
    new = lazy_constant(
        graph, name, old.element_type, old.static_shape, [old], lambda array: np.take(array, order, axis)
    )
    node.set_input(port, new)
    if not old.uses and not is_output(graph, old):
        graph.remove_tensor(old)


def _declined(kind: str) -> str:
    if kind == GRAPH_INPUT:
        return (
            "the host gives the input row by row; ATC's --is_input_adjust_hw_layout lets it give NC1HWC0, "
            "which is not simulated"
        )
    if kind == GRAPH_OUTPUT:
        return (
            "the host takes the output row by row; ATC's --is_output_adjust_hw_layout lets it take NC1HWC0, "
            "which is not simulated"
        )
    if "next to" in kind:
        return f"{kind}: one of the two operators has to change, which is a change of the network"
    return (
        f"{kind} has no blocked format here and is no shuffle of channels; leave it out or move it to an end"
    )
