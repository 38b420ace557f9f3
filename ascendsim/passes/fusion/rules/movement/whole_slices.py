"""A slice of everything is its input.

    Slice(x, all of it, step 1)      =>      x

Exact. The graph engine leaves such slices, which models have where a size of training does not matter any
more.
"""

from __future__ import annotations

from ascendsim.graph.ir import Graph
from ascendsim.passes.fusion.checks import known_values, not_static
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.rewriting.pattern import Any, Match, Op
from ascendsim.passes.rewriting.replace import replace_root

STEPS = 4  # input port


class StridedSliceRemovePass(FusionRule):
    """A slice that takes every element in order."""

    name = "StridedSliceRemovePass"
    patterns = {"StridedSliceRemovePass": Op("Slice", Any("x"), name="slice")}

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses parts, and steps that turn the order round."""
        x, result, steps = match.tensors["x"], match.root.output, match.root.input(STEPS)
        reason = not_static([x, result])
        if reason is not None:
            return reason
        if x.static_shape != result.static_shape:
            return "the slice is a part"
        if x.dtype is not result.dtype or x.origin_dtype is not result.origin_dtype:
            return "the slice has another type than its input"
        values = None if steps is None else known_values(steps)
        if steps is not None and (values is None or (values < 0).any()):
            return "the slice may turn the order round"
        return None

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Lets readers read the whole."""
        replace_root(graph, match.root, match.tensors["x"])


RULES = (StridedSliceRemovePass(),)
