"""Convolutions of the parts of a Split, joined by a Concat, are one grouped convolution.

    Split(x) -> x0, x1, ...;  Concat(Conv(x0, w0), Conv(x1, w1), ...)   =>   Conv(x, concat(w0, w1, ...),
                              group = N)

Filters and biases are joined on the host (Concatv2HostCpuOp). One task is left of N + 2, and nothing is cut
or joined in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ascendsim.graph.ir import Array, Graph, Node, Tensor
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.fusion.rules.conv.conv_folding import lazy_constant, reader_refusal
from ascendsim.passes.rewriting.pattern import Match, Op
from ascendsim.passes.rewriting.removal import drop_constants
from ascendsim.passes.rewriting.replace import replace_root

PATTERN = "SplitConv2dConcatPass"
CHANNELS = 1  # axis


class ASplitConv2dConcatPass(FusionRule):
    """Split, N convolutions and Concat become one grouped convolution."""

    name = "ASplitConv2dConcatPass"
    patterns = {PATTERN: Op("Concat", name="concat")}  # any number of branches: `find` does the rest

    def find(self, graph: Graph, pattern: str) -> Iterator[Match]:
        """Concats whose inputs all come from convolutions of parts of one Split."""
        return (match for match in map(_match_at, graph.topological()) if match is not None)

    def again(self, graph: Graph, match: Match) -> Match | None:
        """The match as it stands now."""
        return _match_at(match.root) if match.root.graph is graph else None

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses parts that are not all used once and in order, and convolutions that differ."""
        split, concat, convs = match.nodes["split"], match.root, match.lists["convs"]
        if context.options.get("group_conv") == "split":
            return "the profile runs the groups of a convolution one by one"
        data, result = split.required(0), concat.output
        if not (data.is_static and result.is_static) or len(result.static_shape) != 4:
            return "the convolutions are not static ones of planes"
        if _axis(split) != CHANNELS or _axis(concat) != CHANNELS:
            return "split or concat is not along the channels"
        if [conv.required(0) for conv in convs] != split.outputs:
            return "the convolutions do not take the parts in order"
        if any(len(part.uses) != 1 for part in split.outputs):
            return "a part of the split has other readers"
        if len({part.shape for part in split.outputs}) != 1:
            return "the parts of the split differ in size"
        return _conv_refusal(convs)

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Joins filters and biases and puts the grouped convolution in the place of all."""
        split, convs = match.nodes["split"], match.lists["convs"]
        filters = [conv.required(1) for conv in convs]
        first = filters[0]
        shape = (sum(item.static_shape[0] for item in filters), *first.static_shape[1:])
        weight = lazy_constant(
            graph,
            f"{first.name}_joined",
            first.element_type,
            shape,
            filters,
            lambda *arrays: np.concatenate(arrays),
        )
        attributes: dict[str, Any] = dict(convs[0].attributes)
        attributes["group"] = int(convs[0].attr("group", 1)) * len(convs)
        inputs = [split.required(0), weight, _joined_bias(graph, convs)]
        made = context.add(
            graph, "Conv", inputs, name=f"{convs[0].name}_grouped", like=convs[0], **attributes
        )
        replace_root(graph, match.root, made.output)
        drop_constants(graph, filters)


def _match_at(root: Node) -> Match | None:
    if root.op_type != "Concat" or root.input_count < 2:
        return None
    convs = [tensor.producer for tensor in root.inputs if tensor is not None and tensor.producer is not None]
    if (
        len(convs) != root.input_count
        or len(set(convs)) != len(convs)
        or any(conv.op_type != "Conv" for conv in convs)
    ):
        return None
    splits = {conv.required(0).producer for conv in convs}
    (split, *others) = splits
    if others or split is None or split.op_type != "Split":
        return None
    return Match(
        PATTERN, root, {"split": split, "concat": root}, {}, (root, *convs, split), {"convs": tuple(convs)}
    )


def _axis(node: Node) -> int:
    return int(node.attr("axis", 0)) % 4


def _conv_refusal(convs: Sequence[Node]) -> str | None:
    first = convs[0]
    for conv in convs:
        reason = reader_refusal(conv)
        if reason is not None:
            return reason
        if not all(tensor is None or tensor.is_constant for tensor in conv.inputs[1:]):
            return "a filter or bias is not constant"
        if conv.attributes != first.attributes or conv.required(1).shape != first.required(1).shape:
            return "the convolutions differ"
    return None


def _joined_bias(graph: Graph, convs: Sequence[Node]) -> Tensor | None:
    """The biases in a row; zeros where a convolution has none, None if none has one."""
    biases = [conv.input(2) for conv in convs]
    given = [bias for bias in biases if bias is not None]
    if not given:
        return None
    each = convs[0].required(1).static_shape[0]

    def join(*arrays: Array) -> Array:
        values = iter(arrays)
        return np.concatenate([np.zeros(each) if bias is None else next(values) for bias in biases])

    return lazy_constant(
        graph, f"{given[0].name}_joined", given[0].element_type, (each * len(convs),), given, join
    )


RULES = (ASplitConv2dConcatPass(),)
