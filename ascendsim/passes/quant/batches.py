"""Products with a batch that stand as matrices between Reshapes.

    Reshape -> QGemm -> Reshape      =>      QGemm with a batch

Exporters and onnxruntime write a product of rows with a bias as Gemm, which takes matrices only, and put
Reshape around it where there is a batch. On the chip a product of [b, m, k] lies as its neighbours do, and
what follows it can share its task; a Reshape between them would cost two conversions of format.
"""

from __future__ import annotations

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.opset import InferContext, OpSet
from ascendsim.passes.rewriting.outputs import is_output
from ascendsim.passes.rewriting.removal import remove_dead_from
from ascendsim.passes.rewriting.replace import replace_root, replacing
from ascendsim.passes.rewriting.report import PatternRecord

NAME = "QuantizedBatches"


def unfold_batches(graph: Graph, opset: OpSet) -> list[PatternRecord]:
    """Takes the Reshapes around products away; one record if there are such.

    Args:
        graph: Changed in place; shapes known as far as they can be.
        opset: Operators.
    """
    record = PatternRecord("graph", NAME, "reshape_product_reshape")
    for node in list(graph.nodes):
        folds = _reshape(node.required(0).producer) if node.op_type == "QGemm" else None
        unfolds = _only_reshape(node.output) if folds is not None else None
        if folds is None or unfolds is None:
            continue
        record.matched += 1
        source, target = folds.required(0), unfolds.output
        rows = source.static_shape[:-1]
        if node.attr("transA", 0) or (*rows, node.output.static_shape[-1]) != target.static_shape:
            record.refuse(node.name, "the Reshapes do more than to fold a batch")
            continue
        if node.control or folds.control or unfolds.control:
            record.refuse(node.name, "a control edge holds it")
            continue
        with replacing(graph, (unfolds, node)):
            made = graph.add_node("QGemm", [source, *node.inputs[1:]], 1, name=f"{node.name}_batch")
            graph.place_before(made, unfolds)
            made.domain = node.domain
            made.attributes.update(node.attributes)
            made.origin.update(node.origin)
            opset.get(made).infer(InferContext(made))
            replace_root(graph, unfolds, made.output)
        remove_dead_from(folds)
        record.effect((folds.name, node.name, unfolds.name))
    return [record] if record.matched else []


def _reshape(node: Node | None) -> Node | None:
    """A Reshape of bytes of known shapes."""
    if node is None or node.op_type != "Reshape" or node.domain:
        return None
    known = node.required(0).is_static and node.output.is_static
    return node if known and node.output.element_type in (DType.INT8, DType.UINT8) else None


def _only_reshape(tensor: Tensor) -> Node | None:
    readers = tensor.consumers
    if len(readers) != 1 or is_output(tensor.producer.graph if tensor.producer else None, tensor):
        return None
    return _reshape(readers[0])
