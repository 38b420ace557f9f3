"""Matrix products take transposed operands as they are, and products of a vector become products of a matrix.

    MatMul(Transpose(a, last two axes), b)      =>      MatMul(a, b), a transposed by the Cube's load from L1
                                                        (BatchMatMulFusionPass)
    MatMul(x of shape (k,), b)                  =>      Reshape(MatMul(Reshape(x, (1, k)), b))
                                                        (BatchMatMulV2ReshapeFusionPass)

Exact up to the order of float32 sums. CANN's first pass also renames BatchMatMul of two matrices to MatMul:
here a product of two matrices is one from the start.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.passes.fusion.checks import not_float, not_static
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.fusion.rules.matmul.matmul_bias import give_type_of, make_product, transposed
from ascendsim.passes.rewriting.pattern import Match, Op
from ascendsim.passes.rewriting.replace import replace_root


class BatchMatMulFusionPass(FusionRule):
    """Transposes of the last two axes go into the product."""

    name = "BatchMatMulFusionPass"
    patterns = {"BatchMatMulFusion": Op("MatMul|Gemm|BatchMatMul", name="matmul")}

    def check(self, match: Match, context: FusionContext) -> str | None:
        matmul = match.root
        operands = [matmul.required(0), matmul.required(1)]
        reason = not_static(operands) or not_float(operands[1])
        if reason is not None:
            return reason
        if min(len(operand.static_shape) for operand in operands) < 2:
            return "an operand is a vector"
        if float(matmul.attr("alpha", 1.0)) != 1 or float(matmul.attr("beta", 1.0)) != 1:
            return "the product is scaled"
        if not any(_is_turn(operand, matmul) for operand in operands):
            return "no operand comes from a transpose of its last two axes alone"
        return None

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        matmul = match.root
        operands, turned = list(matmul.inputs), list(transposed(matmul))
        for port in (0, 1):
            operand = matmul.required(port)
            if _is_turn(operand, matmul) and operand.producer is not None:
                operands[port], turned[port] = operand.producer.required(0), not turned[port]
        made = make_product(graph, matmul, operands, (turned[0], turned[1]), context, f"{matmul.name}_turned")
        replace_root(graph, matmul, made.output)


class BatchMatMulV2ReshapeFusionPass(FusionRule):
    """A vector becomes a row or a column."""

    name = "BatchMatMulV2ReshapeFusionPass"
    patterns = {"BatchMatMulV2ReshapeFusionPass": Op("MatMul|BatchMatMul", name="matmul")}

    def find(self, graph: Graph, pattern: str) -> Iterator[Match]:
        """Products that are BatchMatMulV2 for CANN: all but those of two matrices."""
        return (match for match in super().find(graph, pattern) if not _of_matrices(match.root))

    def check(self, match: Match, context: FusionContext) -> str | None:
        operands = [match.root.required(0), match.root.required(1)]
        reason = not_static(operands)
        if reason is not None:
            return reason
        if match.root.output.elements == 0 or any(operand.elements == 0 for operand in operands):
            return "an operand is empty"
        return (
            None if any(len(operand.static_shape) == 1 for operand in operands) else "no operand is a vector"
        )

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        matmul = match.root
        left, right = matmul.required(0), matmul.required(1)
        if len(left.static_shape) == 1:
            left = _reshaped(graph, left, (1, left.static_shape[0]), matmul, context)
        if len(right.static_shape) == 1:
            right = _reshaped(graph, right, (right.static_shape[0], 1), matmul, context)
        product = context.add(graph, "MatMul", [left, right], name=f"{matmul.name}_matrix", like=matmul)
        give_type_of(matmul, product)
        replace_root(
            graph, matmul, _reshaped(graph, product.output, matmul.output.static_shape, matmul, context)
        )


def _reshaped(
    graph: Graph, tensor: Tensor, shape: tuple[int, ...], like: Node, context: FusionContext
) -> Tensor:
    wanted = graph.add_constant(graph.fresh(f"{tensor.name}_shape"), np.array(shape, np.int64))
    return context.add(graph, "Reshape", [tensor, wanted], name=f"{tensor.name}_Reshape", like=like).output


def _of_matrices(matmul: Node) -> bool:
    shapes = [matmul.required(port).shape for port in (0, 1)]
    return all(shape is not None and len(shape) == 2 for shape in shapes)


def _is_turn(tensor: Tensor, reader: Node) -> bool:
    """Whether a tensor is the transpose, for this reader alone, of the last two axes of another one; no
    control edge holds it.
    """
    node = tensor.producer
    if (
        node is None
        or node.op_type != "Transpose"
        or node.domain
        or not tensor.is_static
        or node.control
        or node.followers
    ):
        return False
    graph, rank = node.graph, len(tensor.static_shape)
    if (
        graph is None
        or any(tensor is output for output in graph.outputs)
        or len(tensor.uses) != 1
        or reader.graph is not graph
    ):
        return False
    order = tuple(node.attr("perm", tuple(reversed(range(rank)))))
    return rank >= 2 and order == (*range(rank - 2), rank - 1, rank - 2)


RULES = (BatchMatMulFusionPass(), BatchMatMulV2ReshapeFusionPass())
