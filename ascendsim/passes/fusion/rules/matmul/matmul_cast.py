"""A product gives the float32 sums of L0C as they are, where the model casts it to float32 at once.

    Cast(MatMul(a, b), float32)      =>      MatMul(a, b) of float32, not rounded to float16

Documented for Atlas inference products and Atlas training products. The casts are the user's: those of
mixed precision come later, behind the TransData of what the Cube stores in fractals, where neither CANN's
second run of the pass nor a second one here would see a product in front of them.
"""

from __future__ import annotations

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph
from ascendsim.passes.fusion.checks import read_outside
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.rewriting.pattern import Match, Op
from ascendsim.passes.rewriting.replace import replace_root

CHIPS = frozenset({"Ascend310P", "Ascend910"})
_PRODUCTS = "MatMul|Gemm|BatchMatMul"


class MatmulCastFusionPass(FusionRule):
    """A cast to float32 behind a product."""

    name = "MatmulCastFusionPass"
    patterns = {"MatMulCastFusion": Op("Cast", Op(_PRODUCTS, name="matmul", shared=True), name="cast")}

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses chips that are not listed, other types, other readers."""
        matmul, cast = match.nodes["matmul"], match.root
        if context.soc not in CHIPS:
            return f"the reference does not list {context.soc}"
        if (matmul.output.dtype, cast.output.dtype) != (DType.FLOAT16, DType.FLOAT32):
            return "the cast is not one from float16 to float32"
        return read_outside(match)

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Lets the product give the wide type."""
        result, taken = match.nodes["matmul"].output, match.root.output
        result.dtype, result.origin_dtype = taken.dtype, taken.origin_dtype
        replace_root(graph, match.root, result)


RULES = (MatmulCastFusionPass(),)
