"""A cache that is returned under another name is written in place.

    cache (input) -> TensorScatter(new, starts) -> new cache (output)   =>   Scatter(cache, starts, new)

TensorScatter makes a second cache: all of it is copied to write a token. Where the old one is the caller's
and nobody else reads it, CANN's Scatter (aclnnInplaceScatterUpdate) writes the new entries where it lies; the
caller hands the same memory in and out, as onnxruntime's past_present_share_buffer and torch_npu's
scatter_update_ do. Values stay bit for bit. No pass of CANN does it: its users write the operator.
"""

from __future__ import annotations

import numpy as np

from ascendsim.graph.ir import Graph, Tensor
from ascendsim.passes.fusion.checks import not_static
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.rewriting.outputs import is_output
from ascendsim.passes.rewriting.pattern import Any, Match, Op
from ascendsim.passes.rewriting.replace import replace_root


class CacheScatterFusionPass(FusionRule):
    """Caches of inputs that are outputs again."""

    name = "CacheScatterFusionPass"
    patterns = {"CacheScatterFusionPass": Op("TensorScatter", Any("cache"), Any("fresh"), name="scatter")}

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Leaves caches that somebody else needs as they were."""
        node, cache = match.root, match.tensors["cache"]
        graph = node.graph
        assert graph is not None
        if not any(cache is one for one in graph.inputs):
            return "the cache is no input of the graph"
        if len(cache.uses) > 1 or is_output(graph, cache):
            return "the cache as it was has other readers"
        if not is_output(graph, node.output) and not any(
            use.node.op_type == "Identity" and is_output(graph, use.node.output) for use in node.output.uses
        ):
            return "the new cache is no output of the graph"
        if node.attr("mode", "linear") not in ("linear", b"linear"):
            return "new entries go round"
        return not_static([cache, match.tensors["fresh"]])

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        node, cache = match.root, match.tensors["cache"]
        made = context.add(
            graph,
            "Scatter",
            [cache, _starts(graph, match), match.tensors["fresh"]],
            name=graph.fresh(f"{node.name}_in_place"),
            like=node,
            domain="ascend",
            axis=int(node.attr("axis", -2)),
            reduce="update",
        )
        replace_root(graph, node, made.output)


def _starts(graph: Graph, match: Match) -> Tensor:
    """Where new entries begin in each sequence."""
    given = match.root.input(2)
    if given is not None:
        return given
    batch = match.tensors["cache"].static_shape[0]
    return graph.add_constant(graph.fresh(f"{match.root.name}_starts"), np.zeros(batch, np.int64))


RULES = (CacheScatterFusionPass(),)
