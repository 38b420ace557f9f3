"""A general product comes apart into the product that the Cube does and what the vector unit adds.

    GEMM(a, b, c, alpha, beta)      =>      Add(Mul(MatMulV2(a, b), alpha), Mul(c, beta))

Chips whose results leave L0C through FIXPIPE have no GEMM operator. A Gemm with alpha = beta = 1 and one
value a column as c is no GEMM for CANN: its ONNX parser makes a MatMulV2 with bias of it, and it stays as it
is. Factors of 1 are left out. Each part rounds its own result in float16.

GemmSplitFusionPass, which CANN does not have and which is off by default, takes every Gemm apart on every
chip: a general product as a product and a sum of their own, as texts on computational graphs draw it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.passes.fusion.checks import not_static
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.fusion.rules.matmul.matmul_bias import make_product, transposed
from ascendsim.passes.rewriting.pattern import Match, Op
from ascendsim.passes.rewriting.replace import replace_root

# have the intrinsic fix_pipe_l0c2out
FIXPIPE_GENERATIONS = frozenset({"c220", "c310", "m300", "m310", "t300"})


class _GemmRule(FusionRule):
    """Takes a Gemm apart."""

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        gemm, third = match.root, match.root.input(2)
        product = make_product(
            graph, gemm, gemm.inputs[:2], transposed(gemm), context, f"{gemm.name}_matmul"
        ).output
        result = _scaled(graph, product, float(gemm.attr("alpha", 1.0)), gemm, context)
        if third is not None:
            summand = _scaled(graph, third, float(gemm.attr("beta", 1.0)), gemm, context)
            result = context.add(
                graph, "Add", [result, summand], name=f"{gemm.name}_matmul_add", like=gemm
            ).output
        replace_root(graph, gemm, result)


class GemmSplitFusionPass(_GemmRule):
    """Every Gemm into MatMul, Mul and Add."""

    name = "GemmSplitFusionPass"
    patterns = {"GemmSplitFusionPass": Op("Gemm", name="gemm")}

    def check(self, match: Match, context: FusionContext) -> str | None:
        gemm = match.root
        if gemm.input(2) is None and float(gemm.attr("alpha", 1.0)) == 1:
            return "there is nothing but a product"
        return not_static(gemm.inputs) or (
            None if gemm.output.element_type.is_float else "the product is one of integers"
        )


class GemmToMatmulFusionPass(_GemmRule):
    """GEMM into MatMulV2, Mul and Add."""

    name = "GemmToMatmulFusionPass"
    patterns = {"GemmToMatmulFusionPass": Op("Gemm", name="gemm")}

    def find(self, graph: Graph, pattern: str) -> Iterator[Match]:
        """Gemm nodes that are GEMM for CANN."""
        return (match for match in super().find(graph, pattern) if not _is_matmul(match.root))

    def check(self, match: Match, context: FusionContext) -> str | None:
        if context.generation not in FIXPIPE_GENERATIONS:
            return "the chip has no FIXPIPE and keeps GEMM"
        return not_static(match.root.inputs) or (
            None if match.root.output.element_type.is_float else "the product is one of integers"
        )


def _is_matmul(gemm: Node) -> bool:
    third = gemm.input(2)
    if float(gemm.attr("alpha", 1.0)) != 1:
        return False
    if third is None:
        return True
    shape = gemm.output.shape
    column = shape is not None and third.shape in (shape[-1:], (1, shape[-1]))
    return column and float(gemm.attr("beta", 1.0)) == 1


def _scaled(graph: Graph, tensor: Tensor, factor: float, like: Node, context: FusionContext) -> Tensor:
    if factor == 1:
        return tensor
    constant = graph.add_constant(
        graph.fresh(f"{like.name}_factor"), np.array(factor, tensor.element_type.numpy)
    )
    return context.add(graph, "Mul", [tensor, constant], name=f"{like.name}_matmul_mul", like=like).output


RULES = (GemmToMatmulFusionPass(), GemmSplitFusionPass())
