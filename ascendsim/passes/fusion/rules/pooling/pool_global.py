"""Global average pooling is a mean over rows and columns.

GlobalAveragePool(x)      =>      ReduceMean(x, axes of space, keepdims)
"""

from __future__ import annotations

import numpy as np

from ascendsim.graph.ir import Graph
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.rewriting.pattern import Match, Op
from ascendsim.passes.rewriting.replace import replace_root


class Globalavgpoolpass(FusionRule):
    """GlobalAveragePool becomes ReduceMean."""

    name = "Globalavgpoolpass"
    patterns = {"Globalavgpoolpass": Op("GlobalAveragePool", name="pool")}

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Needs the rank."""
        return "the rank of the input is not known" if match.root.required(0).shape is None else None

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Puts the mean in the pooling's place."""
        pool = match.root
        rank = len(pool.required(0).shape or ())
        axes = graph.add_constant(graph.fresh(f"{pool.name}_axes"), np.arange(2, rank, dtype=np.int64))
        made = context.add(
            graph, "ReduceMean", [pool.required(0), axes], name=f"{pool.name}_mean", like=pool, keepdims=1
        )
        replace_root(graph, pool, made.output)


RULES = (Globalavgpoolpass(),)
