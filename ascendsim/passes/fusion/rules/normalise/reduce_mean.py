"""A mean, sum, product, maximum or minimum over axes of size 1 is its input.

    ReduceMean(x, axes of size 1)      =>      x                     if the axes stay
                                       =>      Reshape(x, shape)     if they are dropped

Exact. CANN joins both ends without a Reshape; the tensors' shapes stand in its operators, here they stand in
the tensors.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ascendsim.graph.ir import Graph
from ascendsim.passes.fusion.checks import known_values, not_static
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.rewriting.pattern import Any, Match, Op, Pattern
from ascendsim.passes.rewriting.replace import replace_root


class OneElementRule(FusionRule):
    """A reduction of one element each.

    Args:
        kind: What follows Reduce in the operator's name.
    """

    def __init__(self, kind: str) -> None:
        self.name = f"AReduce{kind}FusionPass"  # type: ignore[misc]  # one class serves five passes
        self.patterns: Mapping[str, Op | Pattern] = {  # type: ignore[misc]
            self.name: Op(f"Reduce{kind}", Any("x"), name="reduction")
        }

    def check(self, match: Match, context: FusionContext) -> str | None:
        x, axes = match.tensors["x"], match.root.input(1)
        reason = not_static([x])
        if reason is not None:
            return reason
        if x.element_type is not match.root.output.element_type:
            return "the result has another type than its input"  # a reduction may add up in float32
        if axes is not None and known_values(axes) is None:
            return "the axes are not known"
        return None if x.elements == match.root.output.elements else "an axis has more elements than one"

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        root, x = match.root, match.tensors["x"]
        shape = root.output.static_shape
        if x.shape != shape:
            wanted = graph.add_constant(graph.fresh(f"{root.name}_shape"), np.array(shape, np.int64))
            x = context.add(graph, "Reshape", [x, wanted], name=f"{root.name}_Reshape", like=root).output
        replace_root(graph, root, x)


RULES = tuple(OneElementRule(kind) for kind in ("Mean", "Sum", "Prod", "Max", "Min"))
