"""Quantisation moves before a Concat, so that int8 parts are joined and each part's task can quantise on its
way out.

    AscendQuant(Concat(a, b, ...))      =>      Concat(AscendQuant(a), AscendQuant(b), ...)

Exact: quantisation works element by element.
"""

from __future__ import annotations

from typing import Any as AnyValue

from ascendsim.graph.ir import Graph
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.fusion.rules.movement.strided_chains import CHANNELS, is_graph_output
from ascendsim.passes.rewriting.pattern import Match, Op
from ascendsim.passes.rewriting.replace import replace_root

BLOCK = 32  # channels of an int8 block


class ConcatQuantFusionPass(FusionRule):
    """AscendQuant behind a Concat moves before it."""

    name = "ConcatQuantFusionPass"
    patterns = {
        "ConcatQuantFusionPass": Op("AscendQuant", Op("Concat", name="concat", shared=True), name="quant")
    }

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses readers that want something else, and channels that break blocks."""
        concat = match.nodes["concat"]
        if concat.attr("no_task", 0):
            return "the concatenation has no task"
        if is_graph_output(concat.output, concat.graph) or any(
            reader.op_type != "AscendQuant" or reader.attributes != match.root.attributes
            for reader in concat.output.consumers
        ):
            return "a reader of the concatenation quantises otherwise, or not at all"
        readers = concat.output.consumers
        if len(readers) > 1 and any(is_graph_output(reader.output, concat.graph) for reader in readers):
            return "several outputs of the graph would become one"
        if not concat.output.is_static:
            return "the shapes are not static"
        axis = int(concat.attr("axis", 0)) % len(concat.output.static_shape)
        sizes = [tensor.static_shape[axis] for tensor in concat.inputs if tensor is not None]
        return (
            f"the channels of a part are no multiple of {BLOCK}"
            if axis == CHANNELS and any(size % BLOCK for size in sizes)
            else None
        )

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Quantises every input; all equal readers take the one result."""
        concat, quant = match.nodes["concat"], match.root
        attributes: dict[str, AnyValue] = dict(quant.attributes)
        parts = [
            context.add(
                graph,
                "AscendQuant",
                [tensor],
                name=f"{quant.name}_part",
                like=quant,
                domain="ascend",
                **attributes,
            ).output
            for tensor in concat.inputs
        ]
        axis = int(concat.attr("axis", 0))
        made = context.add(graph, "Concat", parts, name=f"{concat.name}_int8", like=concat, axis=axis)
        for reader in concat.output.consumers:
            replace_root(graph, reader, made.output)


RULES = (ConcatQuantFusionPass(),)
