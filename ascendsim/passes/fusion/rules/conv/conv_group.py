"""A grouped convolution on a chip without grouped filters: one convolution a group.

    Conv(x, w, group = g)   =>   Concat(Conv(x0, w0), ..., Conv(x(g-1), w(g-1)))   with x0 ... = Split(x)

By default groups stay together: depthwise convolutions have an operator of their own (DepthwiseConv2D), and
others are packed side by side into one filter matrix, so that the Cube's 16 x 16 blocks fill
(`ops/shared/cube.py`, enlarged groups). Compilers before packing cut the graph instead; the profile flag
`group_conv = "split"` does as they did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ascendsim.graph.ir import Array, Graph, Tensor
from ascendsim.passes.fusion.rule import FusionContext
from ascendsim.passes.fusion.rules.conv.conv_folding import (
    PLANE_CONVOLUTIONS,
    ConvRule,
    conv_kind,
    lazy_constant,
)
from ascendsim.passes.rewriting.pattern import Match, Op
from ascendsim.passes.rewriting.removal import drop_constants
from ascendsim.passes.rewriting.replace import replace_root


class GroupConv2DFusionPass(ConvRule):
    """Grouped convolutions: depthwise, packed, or (by profile) cut into one a group."""

    name = "GroupConv2DFusionPass"
    patterns = {"Conv2DGroupFusionPass": Op("Conv", name="conv")}
    kinds = PLANE_CONVOLUTIONS

    def find(self, graph: Graph, pattern: str) -> Iterator[Match]:
        """Convolutions of more than one group."""
        return (match for match in super().find(graph, pattern) if int(match.root.attr("group", 1)) > 1)

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Cuts only where the profile wants it, and never depthwise convolutions."""
        conv = match.root
        if conv_kind(conv) == "DepthwiseConv2D":
            return "it is a depthwise convolution, which has an operator of its own"
        if context.options.get("group_conv", "packed") != "split":
            return "the groups are packed into one filter"
        if not all(tensor is None or tensor.is_constant for tensor in conv.inputs[1:]):
            return "filter or bias is not constant"
        return None if conv.required(0).is_static else "the input is not static"

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Cuts input, filter and bias, and joins the results."""
        conv = match.root
        groups = int(conv.attr("group", 1))
        data, filters, bias = conv.required(0), conv.required(1), conv.input(2)
        parts = context.add(
            graph, "Split", [data], groups, name=f"{conv.name}_split", like=conv, axis=1, num_outputs=groups
        )
        attributes: dict[str, Any] = {**conv.attributes, "group": 1}
        results = []
        for number, part in enumerate(parts.outputs):
            operands = [
                part,
                _slice(graph, filters, number, groups),
                None if bias is None else _slice(graph, bias, number, groups),
            ]
            results.append(
                context.add(
                    graph, "Conv", operands, name=f"{conv.name}_group", like=conv, **attributes
                ).output
            )
        joined = context.add(graph, "Concat", results, name=f"{conv.name}_concat", like=conv, axis=1)
        replace_root(graph, conv, joined.output)
        drop_constants(graph, (filters, bias))


def _slice(graph: Graph, tensor: Tensor, number: int, groups: int) -> Tensor:
    """One group's share of a constant along its first axis."""
    count, *rest = tensor.static_shape
    each = count // groups
    return lazy_constant(
        graph,
        f"{tensor.name}_group",
        tensor.element_type,
        (each, *rest),
        [tensor],
        _part(slice(number * each, (number + 1) * each)),
    )


def _part(rows: slice) -> Callable[..., Array]:
    return lambda array: array[rows]


RULES = (GroupConv2DFusionPass(),)
