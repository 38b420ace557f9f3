"""Convolutions between a Split and a Concat read and write in place; neither Split nor Concat is left with a
task.

    Split -> Conv [-> Dequant] [-> Relu] ... -> Concat
    =>  Split, no task -> StridedRead -> Conv ... -> StridedWrite -> Concat, no task

Where each part is quantised on its way to its convolution, and all of them alike, the whole is quantised once
before the Split (exact: it works element by element).

Tried after ASplitConv2dConcatPass, which joins equal convolutions to one and so leaves this pass those that
differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.fusion.rules.movement.strided_chains import (
    convolution_chain,
    is_graph_output,
    read_in_place,
    slice_refusal,
    write_in_place,
)
from ascendsim.passes.rewriting.pattern import Match, Op
from ascendsim.passes.rewriting.replace import replace


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
        quants = _quantisers(split)
        if len({repr(sorted(quant.attributes.items())) for quant in quants}) > 1:
            return "the parts are quantised differently"
        if len(inputs) < 2 or len(inputs) != len(split.outputs):
            return "split and concatenation differ in the number of parts"
        if any(
            len(tensor.uses) != 1 or is_graph_output(tensor, concat.graph)
            for tensor in (*inputs, *split.outputs, *(quant.output for quant in quants))
        ):
            return "a part has other readers"
        data = split.required(0)
        if data.producer is None:
            return "the split reads an input of the graph or a constant"
        parts = [quant.output for quant in quants] or split.outputs
        reason = slice_refusal(data, parts, int(split.attr("axis", 0)))
        return reason or slice_refusal(concat.output, inputs, int(concat.attr("axis", 0)))

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Puts a StridedRead behind each part and a StridedWrite before each input."""
        split = _split_before(match.root)
        assert split is not None
        if quants := _quantisers(split):
            split = _quantised_before(graph, split, quants, context)
        read_in_place(graph, split, context)
        write_in_place(graph, match.root, context)


def _split_before(concat: Node) -> Node | None:
    """The Split whose parts the convolutions before a Concat read, each another one."""
    chains = [None if tensor is None else convolution_chain(tensor) for tensor in concat.inputs]
    parts = [_unquantised(chain[-1].required(0)) for chain in chains if chain is not None]
    if len(parts) != len(chains) or len(set(parts)) != len(parts):
        return None
    producers = {part.producer for part in parts}
    split = parts[0].producer if len(producers) == 1 else None
    return split if split is not None and split.op_type == "Split" and not split.attr("no_task", 0) else None


def _unquantised(data: Tensor) -> Tensor:
    """What a convolution reads, or what AscendQuant made that from."""
    quant = data.producer
    return quant.required(0) if quant is not None and quant.op_type == "AscendQuant" else data


def _quantisers(split: Node) -> tuple[Node, ...]:
    """The readers of a Split's parts if they are quantisers, one a part; else none."""
    readers = tuple(reader for part in split.outputs for reader in part.consumers)
    quantised = len(readers) == len(split.outputs) and all(node.op_type == "AscendQuant" for node in readers)
    return readers if quantised else ()


def _quantised_before(graph: Graph, split: Node, quants: Sequence[Node], context: FusionContext) -> Node:
    """Quantises the whole in place of its parts; the Split of bytes."""
    attributes: dict[str, Any] = dict(quants[0].attributes)
    form: dict[str, Any] = dict(split.attributes)
    name = f"{split.name}_quant"
    whole = context.add(
        graph, "AscendQuant", [split.required(0)], name=name, like=quants[0], domain="ascend", **attributes
    )
    made = context.add(
        graph,
        "Split",
        [whole.output, split.input(1)],
        len(split.outputs),
        name=f"{split.name}_int8",
        like=split,
        **form,
    )
    replace(
        graph,
        quants,
        [(quant.output, part) for quant, part in zip(quants, made.outputs, strict=True)],
        [whole],
    )
    return made


RULES = (SplitConvConcatFusionPass(),)
