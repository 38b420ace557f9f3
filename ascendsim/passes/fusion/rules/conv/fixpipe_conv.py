"""Convolutions leave through FIXPIPE on chips that have it: conversion, dequantisation and a Relu are done as
the result is stored.

    Conv | FullyConnection | QuantConv      =>  the same (fixpipe = store)
    QuantConv -> AscendDequant [-> Relu]    =>  QuantConv(x, w, bias, scale)(relu_flag)
    ... [-> Relu | Clip] -> AscendQuant     =>  the same with quant_scale and quant_offset, in int8
    Conv | FullyConnection -> Relu          =>  the same (activation = relu)

A Clip is a Relu where it begins at 0 and ends beyond the largest byte.

The first (FixPipeAbilityProcessPass) marks every convolution, or fully connected layer that one became, with
what its stage does; the others (FIXPIPEAPREQUANTFUSIONPASS, FIXPIPEFUSIONPASS), which run behind it, give the
stage what follows. Patterns are not public; the counts of published compilations (60 of 60 convolutions for
each pass; no effect of the latter two where SiLU follows) say that they look at them all.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ascendsim.graph.ir import Graph, Node
from ascendsim.passes.fusion.checks import scalar
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.fusion.rules.movement.strided_chains import is_graph_output
from ascendsim.passes.rewriting.pattern import Match, Op
from ascendsim.passes.rewriting.replace import replace_root

# generations whose chip files state FIXPIPE buffers
WITH_FIXPIPE = frozenset({"m300", "m310", "t300", "c220", "c310"})
STAGES = {"AscendDequant": "dequant", "AscendQuant": "quant"}
_CONVOLUTIONS = "Conv|FullyConnection|QuantConv"


class FixPipeAbilityProcessPass(FusionRule):
    """Marks convolutions."""

    name = "FixPipeAbilityProcessPass"
    patterns = {"FixPipeAbilityProcessPass": Op(_CONVOLUTIONS, name="conv")}

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses chips without the stage, and convolutions that have it."""
        if context.generation not in WITH_FIXPIPE:
            return "the chip has no FIXPIPE"
        return "the convolution has its stage already" if match.root.attr("fixpipe") else None

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Marks the convolution."""
        match.root.attributes["fixpipe"] = "store"


class FixpipeTail(FusionRule):
    """Gives the stage what follows the convolution; `of_integers` says whose."""

    of_integers = False

    def find(self, graph: Graph, pattern: str) -> Iterator[Match]:
        """Every convolution, with what follows it."""
        return (self._with_tail(match) for match in super().find(graph, pattern))

    def again(self, graph: Graph, match: Match) -> Match | None:
        """The match as it stands now."""
        found = super().again(graph, match)
        return None if found is None else self._with_tail(found)

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses convolutions without the stage, and tails that it does not do."""
        if context.generation not in WITH_FIXPIPE:
            return "the chip has no FIXPIPE"
        if not match.root.attr("fixpipe"):
            return "the convolution has no stage"
        return None if match.lists["tail"] else "nothing follows that the stage does"

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Takes the tail in."""
        conv, done = match.root, []
        for node in match.lists["tail"]:
            stage = STAGES.get(node.op_type, "relu")
            if stage == "dequant":
                conv.set_input(3, node.required(1))
                conv.attributes["dtype"] = node.attr(
                    "dtype", node.output.origin_dtype or node.output.element_type
                )
                conv.attributes["relu_flag"] = int(node.attr("relu_flag", 0))
            elif stage == "quant":
                conv.attributes["dtype"] = node.output.element_type
                conv.attributes["quant_scale"] = float(node.attr("scale", 1.0))
                conv.attributes["quant_offset"] = float(node.attr("offset", 0.0))
            elif conv.op_type == "QuantConv":
                conv.attributes["relu_flag"] = 1
            else:
                conv.attributes["activation"] = "relu"
            result, taken = conv.output, node.output
            result.dtype, result.origin_dtype, result.format = taken.dtype, taken.origin_dtype, taken.format
            done.append(stage)
            replace_root(graph, node, result)
        conv.attributes["fixpipe"] = "+".join(done)

    def _with_tail(self, match: Match) -> Match:
        conv = match.root
        mine = (conv.op_type == "QuantConv") is self.of_integers
        tail = _tail(conv) if mine else ()
        return Match(match.pattern, conv, match.nodes, match.tensors, (conv, *tail), {"tail": tail})


class FixpipeRequantFusionPass(FixpipeTail):
    """Dequantisation and a Relu behind a convolution of integers."""

    name = "FIXPIPEAPREQUANTFUSIONPASS"
    patterns = {"FIXPIPEAPREQUANTFUSIONPASS": Op(_CONVOLUTIONS, name="conv")}
    of_integers = True


class FixpipeFusionPass(FixpipeTail):
    """A Relu behind a convolution of floats."""

    name = "FIXPIPEFUSIONPASS"
    patterns = {"FIXPIPEFUSIONPASS": Op(_CONVOLUTIONS, name="conv")}


def _tail(conv: Node) -> tuple[Node, ...]:
    """What FIXPIPE can do of what follows: AscendDequant behind integers, then a Relu; each must be the only
    reader.
    """
    if conv.attr("activation") or conv.input(3) is not None:
        return ()
    if conv.op_type != "QuantConv":
        relu = _reader(conv, "Relu")
        return () if relu is None or not _same_form(conv, relu) else (relu,)
    dequant = _reader(conv, "AscendDequant")
    if dequant is None or not dequant.required(1).is_constant:
        return ()
    if dequant.output.format is not conv.output.format:
        return ()
    relu = _reader(dequant, "Relu")
    cut = relu or _reader(dequant, "Clip")
    quant = _reader(cut or dequant, "AscendQuant")
    if quant is not None and (
        float(quant.attr("scale", 1.0)) <= 0 or quant.output.format is not conv.output.format
    ):
        quant = None
    if relu is None and cut is not None and not (quant is not None and _is_relu(cut, quant)):
        cut = quant = None
    if cut is not None and not _same_form(dequant, cut):
        cut = quant = None
    return tuple(node for node in (dequant, cut, quant) if node is not None)


def _reader(node: Node, op_type: str) -> Node | None:
    """The operator of a type that alone reads a node's result, as its data."""
    readers = node.output.uses
    if len(readers) != 1 or is_graph_output(node.output, node.graph):
        return None
    reader = readers[0].node
    return reader if reader.op_type == op_type and readers[0].index == 0 else None


def _same_form(before: Node, reader: Node) -> bool:
    """Whether the reader's result can be stored where its input would be."""
    return (reader.output.dtype, reader.output.format) == (before.output.dtype, before.output.format)


def _is_relu(clip: Node, quant: Node) -> bool:
    """Whether a Clip in front of bytes cuts below 0 and nothing else that bytes can hold."""
    low, high = (scalar(tensor) for tensor in (clip.input(1), clip.input(2)))
    if low != 0:
        return False
    largest = np.iinfo(quant.output.element_type.numpy).max
    return clip.input(2) is None or (
        high is not None
        and high * float(quant.attr("scale", 1.0)) + float(quant.attr("offset", 0.0)) >= largest
    )


RULES = (FixPipeAbilityProcessPass(), FixpipeRequantFusionPass(), FixpipeFusionPass())
