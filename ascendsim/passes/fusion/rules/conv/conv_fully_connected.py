"""A convolution whose filter covers the whole input is a fully connected layer.

    Conv(x[N, C, H, W], w[M, C, H, W], b)      =>      FullyConnection(x, w, b)      result [N, M, 1, 1]

Every image is one row of a matrix product: nothing is unfolded, and the images of a batch share the Cube's
rows.
"""

from __future__ import annotations

from ascendsim.graph.ir import Graph, Node
from ascendsim.passes.fusion.rule import FusionContext
from ascendsim.passes.fusion.rules.conv.conv_folding import PLANE_CONVOLUTIONS, ConvRule
from ascendsim.passes.rewriting.pattern import Match, Op
from ascendsim.passes.rewriting.replace import replace_root

ALIGNED_ON_SPLIT_CORES = 16  # filters of float32 on chips with split cores


class ConvToFullyConnectionFusionPass(ConvRule):
    """Conv2D becomes FullyConnection."""

    name = "ConvToFullyConnectionFusionPass"
    patterns = {"ConvToFullyConnectionFusionPass": Op("Conv", name="conv")}
    kinds = PLANE_CONVOLUTIONS

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses windows that move, groups, padding, integers, and tails that want a convolution."""
        conv = match.root
        data, filters = conv.required(0), conv.required(1)
        if not (data.is_static and filters.is_static) or len(data.static_shape) != 4:
            return "the shapes are not static ones of planes"
        if not (data.element_type.is_float and filters.element_type.is_float):
            return "the element type is not a float"
        if int(conv.attr("group", 1)) != 1:
            return "the convolution has groups"
        if data.static_shape[1:] != filters.static_shape[1:]:
            return "the filter is not as large as the input"
        if any(int(side) for side in conv.attr("pads", ()) or ()) or conv.attr("auto_pad", "NOTSET") not in (
            "NOTSET",
            "VALID",
        ):
            return "the convolution pads"
        if (
            context.generation == "c220"
            and data.element_type.itemsize == 4
            and filters.static_shape[0] % ALIGNED_ON_SPLIT_CORES
        ):
            return f"the filters are no multiple of {ALIGNED_ON_SPLIT_CORES}"
        return _tail_refusal(conv)

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Puts the fully connected layer in the convolution's place."""
        conv = match.root
        made = context.add(
            graph, "FullyConnection", conv.inputs, name=f"{conv.name}_fc", like=conv, domain="ascend"
        )
        replace_root(graph, conv, made.output)


def _tail_refusal(conv: Node) -> str | None:
    graph = conv.graph
    if len(conv.output.uses) > 1:
        return "the convolution has several readers"
    if (
        not conv.output.uses
        and graph is not None
        and not any(tensor is conv.output for tensor in graph.outputs)
    ):
        return "nobody reads the convolution"
    if conv.attr("activation"):
        return "the convolution ends in an activation"
    if any(
        reader.op_type in ("AscendQuant", "AscendDequant", "AscendRequant", "QuantizeLinear")
        for reader in conv.output.consumers
    ):
        return "the result is quantised"
    return None


RULES = (ConvToFullyConnectionFusionPass(),)
