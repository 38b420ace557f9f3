"""Widening a group of feature maps: zeros in weights, bias and parameters, and a way out for readers that
cannot take more channels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ascendsim.graph.ir import Array, Constant, Graph, Node, Tensor, Use
from ascendsim.opset.facts import Facts
from ascendsim.passes.levers.channel_groups import ChannelClass, ChannelGroup, Kind, is_depthwise, kind_of
from ascendsim.passes.levers.lever import LeverContext
from ascendsim.passes.rewriting.outputs import hand_out, twin_of

_VARIANCE = 4  # port of BatchNormalization; ones, so that nothing is divided by zero


def widen(graph: Graph, group: ChannelGroup, context: LeverContext) -> None:
    """Gives every class of a group its new channels, in place."""
    for item in group.classes:
        if item.places is not None:
            _widen_class(graph, item, context)


def _widen_class(graph: Graph, item: ChannelClass, context: LeverContext) -> None:
    assert item.places is not None
    readers = {node: None for tensor in item.tensors for node in tensor.consumers}
    leaks = [(use.node, use.index) for _, use in item.leaks if use is not None]
    for node in item.makers:
        _spread(graph, node, 1, 0, places=item.places, total=item.total)
        _spread(graph, node, 2, 0, places=item.places, total=item.total)
    members = {tensor.producer: None for tensor in item.tensors if tensor.producer is not None}
    for node in members:
        if kind_of(node, context.opset) is Kind.SAME:
            _widen_inside(graph, node, context.opset.get(node).facts, item.places, item.total)
    for node in readers:
        if kind_of(node, context.opset) is Kind.CONV and (node, 0) not in leaks:
            _spread(graph, node, 1, 1, places=item.places, total=item.total)
    for tensor in item.tensors:
        shape = tensor.static_shape
        tensor.shape = (shape[0], item.total, *shape[2:])
    _close_leaks(graph, item, context)


def _widen_inside(graph: Graph, node: Node, facts: Facts, places: Sequence[int], total: int) -> None:
    """Parameters of an operator that keeps channels apart."""
    if node.op_type == "Conv" and is_depthwise(node):
        node.attributes["group"] = total
        _spread(graph, node, 1, 0, places=places, total=total)
        _spread(graph, node, 2, 0, places=places, total=total)
        return
    axes = facts.axes(node)
    for port, tensor in enumerate(node.inputs):
        if tensor is None or not tensor.is_constant:
            continue
        for axis, _ in axes.towards(port, 1):
            if tensor.static_shape[axis] != 1:
                variance = node.op_type == "BatchNormalization" and port == _VARIANCE
                _spread(graph, node, port, axis, places=places, total=total, fill=1.0 if variance else 0.0)
    told = None if facts.shape_port is None else node.input(facts.shape_port)
    if facts.shape_port is not None and told is not None and told.constant is not None and told.elements:
        made = told.constant.array().copy()
        named = node.attr("axes") or range(len(made))
        made[[axis == 1 for axis in named]] = total
        node.set_input(facts.shape_port, graph.add_constant(graph.fresh(f"{told.name}_wide"), made))


def _spread(
    graph: Graph, node: Node, port: int, axis: int, *, places: Sequence[int], total: int, fill: float = 0.0
) -> None:
    """Replaces a constant input by one that has its slices along an axis at new places, and `fill` between
    them.
    """
    old = node.input(port)
    if old is None or old.constant is None:
        return
    before, shape = old.constant, list(old.static_shape)
    shape[axis] = total

    def make() -> Array:
        values = before.array()
        result = np.full(shape, fill, values.dtype)
        result[(slice(None),) * axis + (list(places),)] = values
        return result

    constant = Constant(loader=make) if before.available else Constant(absent_because=before.absent_because)
    node.set_input(port, twin_of(graph, old, f"{old.name}_wide", shape=tuple(shape), constant=constant))


def _close_leaks(graph: Graph, item: ChannelClass, context: LeverContext) -> None:
    """Takes the added channels out again for readers that cannot have them."""
    by_tensor: dict[Tensor, list[Use | None]] = {}
    for tensor, use in item.leaks:
        by_tensor.setdefault(tensor, []).append(use)
    for tensor, uses in by_tensor.items():
        narrow = _narrowed(graph, tensor, item, context)
        for use in uses:
            if use is None:
                hand_out(graph, tensor, narrow, "before")
            else:
                use.node.set_input(use.index, narrow)


def _narrowed(graph: Graph, tensor: Tensor, item: ChannelClass, context: LeverContext) -> Tensor:
    assert item.places is not None
    if item.places == tuple(range(item.channels)):
        values = {"starts": [0], "ends": [item.channels], "axes": [1]}
        ports = [
            graph.add_constant(graph.fresh(f"{tensor.name}_{key}"), np.array(value, np.int64))
            for key, value in values.items()
        ]
        return context.add(graph, "Slice", tensor, *ports, stem=f"{tensor.name}_narrow")
    places = graph.add_constant(graph.fresh(f"{tensor.name}_places"), np.array(item.places, np.int64))
    return context.add(graph, "Gather", tensor, places, stem=f"{tensor.name}_narrow", axis=1)
