"""Casts that change nothing, and pairs of casts that one cast can do.

    Cast(x)               =>      x              if x has the target type already (CastRemoveFusionPass)
    Cast(Cast(x, t), u)   =>      Cast(x, u)     if {type of x, u} = {float16, int32} and t loses nothing
                                                 (CastCastFusionPass)

The second one runs on the device graph, where float32 has become float16. Both are exact: integers that
float32 in the middle would round are infinite in float16. CANN asks only that t is not bool and has no other
reader; here all types that lose values are refused.
"""

from __future__ import annotations

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph
from ascendsim.passes.fusion.checks import read_outside
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.rewriting.pattern import Any, Match, Op
from ascendsim.passes.rewriting.removal import remove_dead_from
from ascendsim.passes.rewriting.replace import replace_root

_PAIRS = ((DType.FLOAT16, DType.INT32), (DType.INT32, DType.FLOAT16))
_WIDE = (DType.FLOAT32, DType.FLOAT64, DType.INT64)  # lose nothing that arrives at the other end


class CastRemoveFusionPass(FusionRule):
    """A cast to the type that is there already."""

    name = "CastRemoveFusionPass"
    patterns = {"CastRemoveFusionPass": Op("Cast", Any("x"), name="cast")}

    def check(self, match: Match, context: FusionContext) -> str | None:
        x, result = match.tensors["x"], match.root.output
        if x.dtype is not result.dtype or x.origin_dtype is not result.origin_dtype:
            return "the cast changes the type"
        return None

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        replace_root(graph, match.root, match.tensors["x"])


class CastCastFusionPass(FusionRule):
    """Two casts between float16 and int32."""

    name = "CastCastFusionPass"
    patterns = {
        "CastCastFusionPass": Op("Cast", Op("Cast", Any("x"), name="first", shared=True), name="second")
    }

    def check(self, match: Match, context: FusionContext) -> str | None:
        source, between, target = match.tensors["x"], match.nodes["first"].output, match.root.output
        if (source.dtype, target.dtype) not in _PAIRS:
            return "the pair is not one between float16 and int32"
        if between.dtype not in _WIDE:
            return f"the type in between loses values ({between.element_type.value})"
        return read_outside(match)

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        first = match.nodes["first"]
        match.root.set_input(0, match.tensors["x"])
        remove_dead_from(first)


RULES = (CastRemoveFusionPass(), CastCastFusionPass())
