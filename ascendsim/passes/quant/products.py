"""Products of integers whose sums are scaled on the way out.

    QuantMatMul -> AscendDequant      =>      QGemm with a float result

Sums of integers leave L0C through the unit that scales them, so AscendDequant is no operator of its own; CANN
joins the two by TbeMatmulDequantFusionPass. The scale is the product of both steps, and stands as that of the
weights.
"""

from __future__ import annotations

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Graph, Node
from ascendsim.opset import InferContext, OpSet
from ascendsim.passes.fusion.rules.conv.conv_folding import lazy_constant
from ascendsim.passes.rewriting.outputs import is_output
from ascendsim.passes.rewriting.replace import replace_root, replacing
from ascendsim.passes.rewriting.report import PatternRecord

NAME = "QuantizedProducts"


def scale_products(graph: Graph, opset: OpSet) -> list[PatternRecord]:
    """Joins such pairs; one record if there are products of this kind.

    Args:
        graph: Changed in place; types and shapes known as far as they can be.
        opset: Operators.
    """
    record = PatternRecord("graph", NAME, "product_dequant")
    for node in list(graph.nodes):
        if node.domain != "ascend" or node.op_type != "QuantMatMul":
            continue
        record.matched += 1
        readers = node.output.uses
        dequant = readers[0].node if len(readers) == 1 and not is_output(graph, node.output) else None
        reason = "something else reads the sums" if dequant is None else _refusal(node, dequant)
        if dequant is None or reason is not None:
            record.refuse(node.name, reason or "")
            continue
        with replacing(graph, (dequant, node)):
            _join(graph, opset, node, dequant)
        record.effect((node.name, dequant.name))
    return [record] if record.matched else []


def _refusal(node: Node, dequant: Node) -> str | None:
    if dequant.op_type != "AscendDequant" or dequant.control or node.control:
        return "its sums are not scaled by an AscendDequant alone"
    if dequant.attr("relu_flag", 0) or dequant.output.element_type is not DType.FLOAT32:
        return "the result is cut at 0 or no float32"
    scale = dequant.required(1)
    return None if scale.is_constant and scale.is_static else "the scale is not constant"


def _join(graph: Graph, opset: OpSet, node: Node, dequant: Node) -> None:
    packed = dequant.required(1)

    def floats(array: Array) -> Array:
        return array.astype(np.uint32).view(np.float32) if array.dtype == np.uint64 else array

    scale = lazy_constant(graph, f"{packed.name}_floats", DType.FLOAT32, (packed.elements,), [packed], floats)
    one = graph.add_constant(graph.fresh(f"{node.name}_one"), np.float32(1))
    zero = graph.add_constant(graph.fresh(f"{node.name}_zero"), np.int8(node.attr("offset_x", 0)))
    none = graph.add_constant(graph.fresh(f"{node.name}_none"), np.int8(0))
    inputs = [node.required(0), one, zero, node.required(1), scale, none, node.input(2)]
    made = graph.add_node("QGemm", inputs, 1, name=f"{node.name}_scaled", domain="com.microsoft")
    graph.place_before(made, dequant)
    made.attributes.update({name: int(node.attr(name, 0)) for name in ("transA", "transB")}, alpha=1.0)
    made.origin.update(node.origin)
    opset.get(made).infer(InferContext(made))
    replace_root(graph, dequant, made.output)
