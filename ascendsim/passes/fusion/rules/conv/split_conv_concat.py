"""Convolutions between a Split and a Concat read and write in place; neither Split nor Concat is left with a
task.

    Split -> Conv [-> Dequant] [-> Relu] ... -> Concat
    =>  Split, no task -> StridedRead -> Conv ... -> StridedWrite -> Concat, no task

Tried after ASplitConv2dConcatPass, which joins equal convolutions to one and so leaves this pass those that
differ.
"""

from __future__ import annotations

from ascendsim.graph.ir import Graph, Node
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.fusion.rules.movement.strided_chains import (
    convolution_chain,
    is_graph_output,
    read_in_place,
    slice_refusal,
    write_in_place,
)
from ascendsim.passes.rewriting.pattern import Match, Op


class SplitConvConcatFusionPass(FusionRule):
    """Split and Concat around convolutions without tasks."""

    name = "SplitConvConcatFusionPass"
    patterns = {"SplitConvConcatFusionPass": Op("Concat", name="concat")}

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses everything but as many convolutions as the Split has parts, each between one part and one
        input.
        """
        concat = match.root
        if concat.attr("no_task", 0):
            return "the concatenation has no task already"
        split = _split_before(concat)
        if split is None:
            return "the inputs do not come from convolutions of the parts of one split"
        inputs = [tensor for tensor in concat.inputs if tensor is not None]
        if len(inputs) < 2 or len(inputs) != len(split.outputs):
            return "split and concatenation differ in the number of parts"
        if any(
            len(tensor.uses) != 1 or is_graph_output(tensor, concat.graph)
            for tensor in (*inputs, *split.outputs)
        ):
            return "a part has other readers"
        data = split.required(0)
        if data.producer is None:
            return "the split reads an input of the graph or a constant"
        reason = slice_refusal(data, split.outputs, int(split.attr("axis", 0)))
        return reason or slice_refusal(concat.output, inputs, int(concat.attr("axis", 0)))

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Puts a StridedRead behind each part and a StridedWrite before each input."""
        split = _split_before(match.root)
        assert split is not None
        read_in_place(graph, split, context)
        write_in_place(graph, match.root, context)


def _split_before(concat: Node) -> Node | None:
    """The Split whose parts the convolutions before a Concat read, each another one."""
    chains = [None if tensor is None else convolution_chain(tensor) for tensor in concat.inputs]
    parts = [chain[-1].required(0) for chain in chains if chain is not None]
    if len(parts) != len(chains) or len(set(parts)) != len(parts):
        return None
    producers = {part.producer for part in parts}
    split = parts[0].producer if len(producers) == 1 else None
    return split if split is not None and split.op_type == "Split" and not split.attr("no_task", 0) else None


RULES = (SplitConvConcatFusionPass(),)
