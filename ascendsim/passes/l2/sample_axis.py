"""Which tensors hold the batch along their outermost axis, and which operators work on every sample by
itself.

A tensor with factor f has f rows of its outermost axis for every sample, one sample behind the other (f > 1
after a Reshape that joins the batch with another axis). An operator can run on a part of the batch if its
outputs hold the batch like that and row i of them needs no other row of its batched inputs: then running it
on slices gives the slices of its result. Operators say so themselves (`opset.axes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ascendsim.core.formats import Format
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.opset import OpSet
from ascendsim.opset.axes import AxisMap
from ascendsim.opset.facts import Facts

_SLICEABLE = frozenset({Format.ND, Format.NCHW, Format.NC1HWC0})


@dataclass(frozen=True, slots=True)
class BatchAxis:
    """What of a graph holds the batch.

    Attributes:
        batch: Samples.
        factors: By tensor name: rows of the outermost axis for one sample.
        nodes: Names of the nodes that can run on a part of the batch.
        shape_ports: By name of such a node: port of the input that holds the shape of its result, if it has
            one.
    """

    batch: int
    factors: Mapping[str, int] = field(default_factory=dict)
    nodes: frozenset[str] = frozenset()
    shape_ports: Mapping[str, int] = field(default_factory=dict)

    def rows(self, tensor: Tensor, batch: int) -> tuple[int, ...]:
        """Shape of a tensor at another batch."""
        factor = self.factors.get(tensor.name)
        shape = tensor.static_shape
        return shape if factor is None else (factor * batch, *shape[1:])


def find_batch(graph: Graph, opset: OpSet) -> BatchAxis:
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
    nodes, shape_ports = set(), {}
    for node in graph.topological():
        facts = opset.get(node).facts
        factor = _factor(node, facts, factors, batch)
        if factor is not None:
            nodes.add(node.name)
            if facts.shape_port is not None and node.input(facts.shape_port) is not None:
                shape_ports[node.name] = facts.shape_port
            factors.update({tensor.name: factor for tensor in node.outputs})
    return BatchAxis(batch, factors, frozenset(nodes), shape_ports)


def can_be_cut(tensor: Tensor) -> bool:
    """Whether slices of a tensor along the outermost axis lie in memory in one piece."""
    return tensor.format in _SLICEABLE or (
        tensor.format is Format.FRACTAL_NZ and len(tensor.static_shape) > 2
    )


def _factor(node: Node, facts: Facts, factors: Mapping[str, int], batch: int) -> int | None:
    """Rows a sample of a node's outputs, None if it cannot run on a part of the batch."""
    cut = [port for port, tensor in enumerate(node.inputs) if tensor is not None and tensor.name in factors]
    if not cut or node.control or node.subgraphs:
        return None
    if not all(tensor.is_static and tensor.static_shape for tensor in node.outputs):
        return None
    if facts.shape_port is not None and not _can_be_fitted(node.input(facts.shape_port)):
        return None
    axes = facts.axes(node)
    found = {
        _rows(axes, port, output, factors[node.required(port).name])
        for port in cut
        for output in range(len(node.outputs))
    }
    if len(found) != 1 or not all(
        _serves_all_samples(node, port, axes, facts) for port in range(node.input_count) if port not in cut
    ):
        return None
    factor = found.pop()
    return (
        factor
        if factor and all(tensor.static_shape[0] == factor * batch for tensor in node.outputs)
        else None
    )


def _rows(axes: AxisMap, port: int, output: int, factor: int) -> int | None:
    """Rows a sample of an output, made from `factor` rows a sample of an input; None if rows of several
    samples may meet.
    """
    link = axes.link(port, 0, output)
    if link.axis != 0 or not link.by_slices or factor % link.take:
        return None
    return factor // link.take * link.make


def _serves_all_samples(node: Node, port: int, axes: AxisMap, facts: Facts) -> bool:
    """Whether an input without the batch is the same for every sample."""
    tensor = node.input(port)
    if tensor is None or port in facts.parameters or (tensor.is_static and tensor.elements == 1):
        return True
    said = all((port, output) in axes.links for output in range(len(node.outputs)))
    return said and not any(
        dim != 1 and link.axis == 0
        for output in range(len(node.outputs))
        for dim, link in zip(tensor.static_shape, axes.of(port, output), strict=True)
    )


def _can_be_fitted(shape: Tensor | None) -> bool:
    """Whether the shape that a node is given is known, so that another one can take its place."""
    return shape is None or (shape.constant is not None and shape.constant.available)
