"""Quantisation written into a graph with CANN's own operators (domain "ascend"): layers of integers between
AscendQuant and AscendDequant.

    data -> AscendQuant -> QuantConv(int8 weights, int32 bias) -> AscendDequant -> Relu ->
    data -> AscendQuant -> QuantMatMul(int8 weights, int32 bias) -> AscendDequant ->

Everything else stays in floating point; the passes of CANN make AscendRequant of what lies between two
layers. A file has them as CANN's quantiser AMCT deploys networks: in the standard domain, and layers of
integers under the names of ONNX's operators.
"""

from __future__ import annotations

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Array, AttributeValue, Graph, Node, Tensor
from ascendsim.opset import InferContext, OpSet
from ascendsim.passes.rewriting.replace import replace_root, replacing
from ascendsim.quantisation.pairs import Calibration, drop_unread, layer_weights
from ascendsim.quantisation.plan import Layer, Plan

DOMAIN = "ascend"
DEPLOYED = frozenset(["AscendQuant", "AscendDequant"])  # in the standard domain of files, not of ONNX


def refusal(node: Node) -> str:
    """Why a layer has no such form; empty if it has."""
    if node.op_type == "ConvTranspose":
        return "CANN's form has no ConvTranspose of integers"
    if node.op_type == "MatMul" and len(node.required(1).static_shape) != 2:
        return "its weights are no matrix"
    bias = node.input(2)
    if bias is not None and bias.elements != node.output.static_shape[1]:
        return "its bias is not one number a column"
    return ""


def as_deployed(graph: Graph) -> Graph:
    """A copy of such a graph as AMCT writes it, for a file."""
    made = copy_graph(graph)
    for node in made.nodes:
        if node.domain != DOMAIN:
            continue
        node.domain = ""
        if node.op_type == "AscendQuant":
            node.attributes.pop("dtype")
            node.attributes["dst_type"] = "INT8"
        elif node.op_type == "AscendDequant":
            node.attributes["dtype"] = 0  # float32
        else:
            product = "MatMul" if node.input(2) is None else "Gemm"
            node.op_type = "Conv" if node.op_type == "QuantConv" else product
    return made


def insert_ascend(graph: Graph, opset: OpSet, plan: Plan, found: Calibration, per_channel: bool) -> None:
    """Writes the layers of a plan into its graph, in place; what lies between them stays as it is.

    Args:
        graph: That of the plan, or a copy.
        opset: Operators.
        plan: What is quantised.
        found: T by group of tensors.
        per_channel: Whether weights have a step a column.
    """
    writer = _Writer(graph, opset)
    for layer in plan.layers:
        scale = found[plan.groups[layer.data]].scale
        node = graph.node(layer.name)
        with replacing(graph, (node,)):
            if layer.operator == "Conv":
                writer.conv(node, layer, scale, per_channel)
            else:
                writer.product(node, layer, scale, per_channel)
    drop_unread(graph)


class _Writer:
    def __init__(self, graph: Graph, opset: OpSet) -> None:
        self._graph, self._opset = graph, opset
        self._rounded: dict[tuple[str, float], Tensor] = {}

    def conv(self, node: Node, layer: Layer, scale: float, per_channel: bool) -> None:
        """A convolution of integers."""
        made = layer_weights(self._graph, layer, scale, per_channel)
        bias, weight = node.input(2), node.required(1)
        inputs = [self._integers(node.required(0), scale), self._held(weight.name, made.integers)]
        if made.bias is not None and bias is not None:
            inputs.append(self._held(bias.name, made.bias))
        sums = self._add("QuantConv", f"{node.name}_int8", inputs, DOMAIN, **node.attributes)
        self._replace(node, self._dequant(node, sums, made.bias_scale))

    def product(self, node: Node, layer: Layer, scale: float, per_channel: bool) -> None:
        """A product of integers. It is one of matrices, so further axes become rows."""
        data, weight, bias = node.required(0), node.required(1), node.input(2)
        made = layer_weights(self._graph, layer, scale, per_channel)
        integers, left = made.integers, self._integers(data, scale)
        if node.attr("transB", 0):
            integers = integers.T
        if node.attr("transA", 0):
            left = self._add("Transpose", f"{node.name}_rows", [left], perm=(1, 0))
        shape = node.output.static_shape
        many = len(shape) > 2
        if many:
            left = self._shaped(node, left, (-1, integers.shape[0]))
        inputs = [left, self._held(weight.name, np.ascontiguousarray(integers))]
        if made.bias is not None and bias is not None:
            inputs.append(self._held(bias.name, made.bias))
        sums = self._add("QuantMatMul", f"{node.name}_int8", inputs, DOMAIN)
        result = self._dequant(node, sums, made.bias_scale)
        self._replace(node, self._shaped(node, result, shape) if many else result)

    def _integers(self, tensor: Tensor, scale: float) -> Tensor:
        """A tensor in int8, made once for all layers that read it with this step."""
        key = tensor.name, scale
        if key not in self._rounded:
            factor = float(np.float32(1) / np.float32(scale))
            self._rounded[key] = self._add(
                "AscendQuant",
                f"{tensor.name}_AscendQuant",
                [tensor],
                DOMAIN,
                scale=factor,
                offset=0.0,
                dtype=DType.INT8,
            )
        return self._rounded[key]

    def _dequant(self, node: Node, sums: Tensor, scale: Array) -> Tensor:
        steps = scale[:1] if (scale == scale[0]).all() else scale
        registers = np.ascontiguousarray(steps).view(np.uint32).astype(np.uint64)
        held = self._held(f"{node.name}_deq_scale", registers)
        name = f"{node.name}_AscendDequant"
        return self._add("AscendDequant", name, [sums, held], DOMAIN, dtype=DType.FLOAT32)

    def _shaped(self, node: Node, tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
        held = self._graph.add_constant(self._graph.fresh(f"{node.name}_shape"), np.array(shape, np.int64))
        return self._add("Reshape", f"{node.name}_reshape", [tensor, held])

    def _held(self, name: str, array: Array) -> Tensor:
        return self._graph.add_constant(self._graph.fresh(f"{name}_int8"), array)

    def _add(
        self, op_type: str, name: str, inputs: list[Tensor], domain: str = "", **attributes: AttributeValue
    ) -> Tensor:
        node = self._graph.add_node(
            op_type, inputs, 1, name=self._graph.fresh(name), domain=domain, **attributes
        )
        self._opset.get(node).infer(InferContext(node))
        return node.output

    def _replace(self, node: Node, tensor: Tensor) -> None:
        """Lets a tensor stand for a node's result, under its name."""
        name = node.output.name
        replace_root(self._graph, node, tensor)
        if tensor.name != name:
            self._graph.rename_tensor(tensor, name)
