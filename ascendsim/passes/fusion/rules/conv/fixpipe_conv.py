"""Convolutions leave through FIXPIPE on chips that have it: conversion, dequantisation and a Relu are done as
the result is stored.

    Conv | FullyConnection [-> Relu]              =>  Conv | FullyConnection (fixpipe, activation = relu)
    QuantConv -> AscendDequant [-> Relu]          =>  QuantConv(x, w, bias, scale)(fixpipe, relu_flag)

Every convolution, or fully connected layer that one became, is marked with what its stage does, also where
that is the plain conversion. The pattern is not public; the counts of a published compilation (60 of 60
convolutions) say that it takes them all.
"""

from __future__ import annotations

from collections.abc import Iterator

from ascendsim.graph.ir import Graph, Node
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.fusion.rules.movement.strided_chains import is_graph_output
from ascendsim.passes.rewriting.pattern import Match, Op
from ascendsim.passes.rewriting.replace import replace_root

# generations whose chip files state FIXPIPE buffers
WITH_FIXPIPE = frozenset({"m300", "m310", "t300", "c220", "c310"})
PATTERN = "FixPipeAbilityProcessPass"


class FixPipeAbilityProcessPass(FusionRule):
    """Marks convolutions and gives them what FIXPIPE can do of what follows."""

    name = "FixPipeAbilityProcessPass"
    patterns = {PATTERN: Op("Conv|FullyConnection|QuantConv", name="conv")}

    def find(self, graph: Graph, pattern: str) -> Iterator[Match]:
        """Every convolution, with what follows it."""
        return (_with_tail(match) for match in super().find(graph, pattern))

    def again(self, graph: Graph, match: Match) -> Match | None:
        """The match as it stands now."""
        found = super().again(graph, match)
        return None if found is None else _with_tail(found)

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses chips without the stage, and convolutions that have it."""
        if context.generation not in WITH_FIXPIPE:
            return "the chip has no FIXPIPE"
        return "the convolution has its stage already" if match.root.attr("fixpipe") else None

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Takes the tail in and marks the convolution."""
        conv, done = match.root, []
        for node in match.lists["tail"]:
            if node.op_type == "AscendDequant":
                conv.set_input(3, node.required(1))
                conv.attributes["dtype"] = node.attr(
                    "dtype", node.output.origin_dtype or node.output.element_type
                )
                conv.attributes["relu_flag"] = int(node.attr("relu_flag", 0))
            elif conv.op_type == "QuantConv":
                conv.attributes["relu_flag"] = 1
            else:
                conv.attributes["activation"] = "relu"
            result, taken = conv.output, node.output
            result.dtype, result.origin_dtype, result.format = taken.dtype, taken.origin_dtype, taken.format
            done.append("dequant" if node.op_type == "AscendDequant" else "relu")
            replace_root(graph, node, result)
        conv.attributes["fixpipe"] = "+".join(done) or "store"


def _with_tail(match: Match) -> Match:
    conv, tail = match.root, _tail(match.root)
    return Match(match.pattern, conv, match.nodes, match.tensors, (conv, *tail), {"tail": tail})


def _tail(conv: Node) -> tuple[Node, ...]:
    """What FIXPIPE can do of what follows: AscendDequant behind integers, then a Relu; each must be the only
    reader.
    """
    tail: list[Node] = []
    wanted = ["AscendDequant", "Relu"] if conv.op_type == "QuantConv" else ["Relu"]
    if conv.attr("activation") or conv.input(3) is not None:
        return ()
    node = conv
    for operator in wanted:
        readers = node.output.uses
        if len(readers) != 1 or is_graph_output(node.output, node.graph):
            break
        reader = readers[0].node
        if reader.op_type != operator or readers[0].index != 0 or not _fits(node, reader):
            break
        tail.append(reader)
        node = reader
    return tuple(tail)


def _fits(before: Node, reader: Node) -> bool:
    """Whether the reader's result can be stored where its input would be: a constant scale, or the same type
    and format.
    """
    if reader.op_type == "AscendDequant":
        return reader.required(1).is_constant and reader.output.format is before.output.format
    return (reader.output.dtype, reader.output.format) == (before.output.dtype, before.output.format)


RULES = (FixPipeAbilityProcessPass(),)
