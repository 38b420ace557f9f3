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
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.opset import OpSet
from ascendsim.opset.facts import Elements, OpPattern
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
        moved = list(_moved(result, context.opset)) if x.origin_dtype is not result.origin_dtype else []
        if any(len(_typed(node, context.opset)) > 1 for node in moved):
            return "what moves the result moves others of the wide type with it"
        if any(is_output(match.root.graph, tensor) for node in moved for tensor in node.outputs):
            return "the graph's inputs and outputs keep their types"
        return None

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Where the cast was one in the model, what only moves its result moves the narrow type there too."""
        x = match.tensors["x"]
        for node in _moved(match.root.output, context.opset):
            for tensor in node.outputs:
                tensor.origin_dtype = x.origin_dtype
        replace_root(graph, match.root, x)


def _moved(tensor: Tensor, opset: OpSet) -> Iterator[Node]:
    """Operators that do nothing but move a tensor's elements, and those that move what these give."""
    for node in tensor.consumers:
        ports = _typed(node, opset)
        if ports and any(node.input(port) is tensor for port in ports):
            yield node
            for made in node.outputs:
                yield from _moved(made, opset)


def _typed(node: Node, opset: OpSet) -> tuple[int, ...]:
    """Inputs of an operator that keeps elements whose type is that of its results; none of others."""
    facts = opset.get(node).facts
    if facts.pattern is OpPattern.TRANSDATA:
        return (0,)
    if facts.elements is not Elements.KEPT:
        return ()
    ports = facts.typed or range(len(node.inputs))
    return tuple(port for port in ports if node.input(port) is not None)


RULES = (CastRemoveFusionPass(), CastCastFusionPass(), ForceFp16CastFusionPass())
