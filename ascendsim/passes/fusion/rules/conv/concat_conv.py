"""Convolutions write into the result of the Concat behind them, which then has nothing to do.

    Concat(Conv(x) [-> Relu], Conv(y) [-> Relu], ...)
    =>  Concat, no task, of StridedWrite(Conv(x) [-> Relu]), StridedWrite(Conv(y) [-> Relu]), ...

In NC1HWC0 the channels of a part are whole blocks, so a part is a piece of the result, and the store of the
task before it only needs another address. One task and one round trip of the whole result through memory are
saved. Values stay bit for bit.
"""

from __future__ import annotations

from ascendsim.graph.ir import Graph
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.fusion.rules.movement.strided_chains import (
    convolution_chain,
    is_graph_output,
    slice_refusal,
    write_in_place,
)
from ascendsim.passes.rewriting.pattern import Match, Op


class ConvConcatFusionPass(FusionRule):
    """Concat of convolutions without a task."""

    name = "ConvConcatFusionPass"
    patterns = {"ConvConcatFusionPass": Op("Concat", name="concat")}

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses inputs that are not made by convolutions for this Concat alone, and channels that break
        blocks.
        """
        concat = match.root
        if concat.attr("no_task", 0):
            return "the concatenation has no task already"
        inputs = [tensor for tensor in concat.inputs if tensor is not None]
        if len(inputs) < 2:
            return "the concatenation has one input"
        if any(convolution_chain(tensor) is None for tensor in inputs):
            return (
                "an input does not come from a convolution, or by way of an operator that cannot write "
                "with a stride"
            )
        if any(len(tensor.uses) != 1 or is_graph_output(tensor, concat.graph) for tensor in inputs):
            return "an input has other readers"
        return slice_refusal(concat.output, inputs, int(concat.attr("axis", 0)))

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Puts a StridedWrite before each input."""
        write_in_place(graph, match.root, context)


RULES = (ConvConcatFusionPass(),)
