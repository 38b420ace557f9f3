"""Quantisation written into a graph as pairs of QuantizeLinear and DequantizeLinear around its operators.

    data -> QuantizeLinear -> DequantizeLinear -+
    int8 weights -> DequantizeLinear -----------+-> Conv -> Relu -> QuantizeLinear -> DequantizeLinear ->
    int32 bias -> DequantizeLinear -------------+

onnxruntime and this project read this form and make operators of integers of it, ATC does so behind AMCT's
convert_qat_model, some forms of it (`passes.quant.amct_forms`). A run of the graph as it stands says in
floating point what those compute.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ascendsim.graph.ir import Array, AttributeValue, Graph, Node, Tensor
from ascendsim.opset import InferContext, OpSet
from ascendsim.quantisation.calibrate import Calibrated
from ascendsim.quantisation.plan import Layer, Plan, constants_between
from ascendsim.quantisation.thresholds import STEPS
from ascendsim.quantisation.weights import Weights, quantise_weights

Calibration = Mapping[str, Calibrated]


def insert_pairs(graph: Graph, opset: OpSet, plan: Plan, found: Calibration, per_channel: bool) -> None:
    """Writes a plan into its graph, in place.

    Args:
        graph: That of the plan, or a copy.
        opset: Operators.
        plan: What is quantised.
        found: T by group of tensors.
        per_channel: Whether weights have a step a column.
    """
    writer = _Writer(graph, opset)
    for name, group in plan.groups.items():
        writer.pair(graph.tensors[name], found[group].scale)
    for node, port, tensor in list(constants_between(graph, plan)):
        array = values_of(tensor)
        scale = float(np.float32(np.abs(array).max(initial=0.0) / STEPS)) or 1.0
        integers = np.clip(np.rint(array / np.float32(scale)), -STEPS, STEPS).astype(np.int8)
        node.set_input(port, writer.constant(f"{tensor.name}_{node.name}", integers, np.float32(scale)))
    for layer in plan.layers:
        writer.layer(layer, found[plan.groups[layer.data]].scale, per_channel)
    drop_unread(graph)


def insert_one(graph: Graph, opset: OpSet, layer: Layer, scale: float, per_channel: bool) -> None:
    """Puts a single layer into int8: its data and its weights, nothing else."""
    writer = _Writer(graph, opset)
    node = graph.node(layer.name)
    node.set_input(0, writer.rounded(graph.tensors[layer.data], scale))
    writer.layer(layer, scale, per_channel)
    drop_unread(graph)


def values_of(tensor: Tensor) -> Array:
    """Values of a constant."""
    assert tensor.constant is not None
    return tensor.constant.array()


def layer_weights(graph: Graph, layer: Layer, scale: float, per_channel: bool) -> Weights:
    """A layer's weights and bias in integers."""
    node = graph.node(layer.name)
    bias = node.input(2)
    columns = node.output.static_shape[1] if layer.axis is None else layer.columns
    held = None if bias is None or bias.elements != columns else values_of(bias)
    axis = layer.axis if per_channel else None
    return quantise_weights(values_of(node.required(1)), axis, scale, held, columns)


def drop_unread(graph: Graph) -> None:
    """Forgets constants that nobody reads any more."""
    for tensor in list(graph.constants):
        if not tensor.uses and tensor not in graph.outputs:
            graph.remove_tensor(tensor)


class _Writer:
    """Adds nodes of quantisation to a graph."""

    def __init__(self, graph: Graph, opset: OpSet) -> None:
        self._graph, self._opset = graph, opset

    def layer(self, layer: Layer, scale: float, per_channel: bool) -> None:
        """Gives a layer integer constants."""
        node = self._graph.node(layer.name)
        made = layer_weights(self._graph, layer, scale, per_channel)
        axis = layer.axis or 0
        weight, bias = node.required(1), node.input(2)
        node.set_input(1, self.constant(weight.name, made.integers, made.scale, axis))
        if made.bias is not None and bias is not None:
            node.set_input(2, self.constant(bias.name, made.bias, made.bias_scale, 0))

    def pair(self, tensor: Tensor, scale: float) -> None:
        """Rounds a tensor for all its readers; an output of the network keeps its name."""
        readers, is_output = tensor.uses, tensor in self._graph.outputs
        result = self.rounded(tensor, scale)
        for use in readers:
            use.node.set_input(use.index, result)
        if is_output:
            name = tensor.name
            self._graph.rename_tensor(tensor, self._graph.fresh(f"{name}_float"))
            self._graph.rename_tensor(result, name)
            self._graph.outputs[:] = [result if item is tensor else item for item in self._graph.outputs]

    def rounded(self, tensor: Tensor, scale: float) -> Tensor:
        """A tensor after its way through int8."""
        step = self._held(f"{tensor.name}_scale", np.float32(scale))
        zero = self._held(f"{tensor.name}_zero_point", np.int8(0))
        integers = self._node("QuantizeLinear", tensor.name, (tensor, step, zero))
        return self._node("DequantizeLinear", tensor.name, (integers, step, zero))

    def constant(self, name: str, integers: Array, scale: Array | np.float32, axis: int = 0) -> Tensor:
        """Integers and their steps as a tensor of floats."""
        held = self._held(f"{name}_quantized", integers)
        step = self._held(f"{name}_scale", np.asarray(scale))
        axes: dict[str, AttributeValue] = {"axis": axis} if np.ndim(scale) else {}
        return self._node("DequantizeLinear", name, (held, step), **axes)

    def _held(self, name: str, array: Array | np.generic) -> Tensor:
        return self._graph.add_constant(self._graph.fresh(name), array)

    def _node(self, op_type: str, about: str, inputs: tuple[Tensor, ...], **attributes: Any) -> Tensor:
        graph, name = self._graph, self._graph.fresh(f"{about}_{op_type}")
        node: Node = graph.add_node(op_type, inputs, 1, name=name, **attributes)
        node.origin["source_names"] = (name,)
        self._opset.get(node).infer(InferContext(node))
        return node.output
