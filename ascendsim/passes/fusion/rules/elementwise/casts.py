"""Casts that change nothing, and pairs of casts that one cast can do.

    Cast(x)               =>      x              if x has the target type already (CastRemoveFusionPass)
    Cast(Cast(x, t), u)   =>      Cast(x, u)     if {type of x, u} = {float16, int32} and t loses nothing
                                                 (CastCastFusionPass)
    Cast(x, float32)      =>      x              if the precision mode has made both sides float16
                                                 (ForceFp16CastFusionPass)

The last two run on the device graph, where float32 has become float16. All are exact: integers that
float32 in the middle would round are infinite in float16. CANN asks only that t is not bool and has no other
reader; here all types that lose values are refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph
from ascendsim.passes.fusion.checks import read_outside
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.rewriting.outputs import is_output
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


class ForceFp16CastFusionPass(FusionRule):
    """A cast of the user's to float32 that is none on a device that computes in float16."""

    name = "ForceFp16CastFusionPass"
    patterns = {"ForceFp16CastFusionPassPattern": Op("Cast", Any("x"), name="cast")}

    def find(self, graph: Graph, pattern: str) -> Iterator[Match]:
        """The user's casts, not those that the precision mode put in."""
        return (match for match in super().find(graph, pattern) if "inserted" not in match.root.origin)

    def check(self, match: Match, context: FusionContext) -> str | None:
        x, result = match.tensors["x"], match.root.output
        if result.origin_dtype is not DType.FLOAT32:
            return "the cast is not one to float32"
        if not x.dtype is result.dtype is DType.FLOAT16:
            return "the cast changes the device's type"
        if x.producer is None or is_output(match.root.graph, result):
            return "the graph's inputs and outputs keep their types"
        return None

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        replace_root(graph, match.root, match.tensors["x"])


RULES = (CastRemoveFusionPass(), CastCastFusionPass(), ForceFp16CastFusionPass())
