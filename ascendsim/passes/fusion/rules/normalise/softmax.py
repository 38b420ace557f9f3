"""SoftmaxV2 over a short last axis: between two transposes it works along a long contiguous one.

    SoftmaxV2(x, axis=2)      =>      TransposeD(0, 2, 1) -> SoftmaxV2(axis=1) -> TransposeD(0, 2, 1)

Listed are the class scores of SSD (8732 anchors, 21 classes) and a segmentation volume with last dimensions
224, 224, 160, 4, whose last two axes change places. Exact. Source: the rule reference, atlasrr_30_0008; older
code adds 8732 x 81 with at least 8 rows, which the reference does not list. The reference lists the chips
too; Ascend 310 is not among them.

softmaxTransFusionPass does the same to any shape with a last axis below 16 and one before it that is more
than ten times as long and below 600,000, on all chips: two classes of a detector's anchors, for example.
Source: canndev, softmax_transpose_fusion_pass.cc (public copy of 2022). Its second limit, 25 times as long
where the data are a feature map in blocks, is left out: such data have no short last axis.
"""

from __future__ import annotations

import math

from ascendsim.graph.ir import Graph
from ascendsim.passes.fusion.checks import not_static
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.rewriting.pattern import Any, Match, Op
from ascendsim.passes.rewriting.replace import replace_root

LISTED = {3: (8732, 21), 5: (224, 224, 160, 4)}  # last dimensions by rank
# 910, A2, A3, 310P, 200I/500 A2
CHIPS = frozenset({"Ascend910", "Ascend910B", "Ascend910_93", "Ascend310P", "Ascend310B"})
LARGEST = 2**31 - 1
SHORT = 16  # the last axis is shorter,
TIMES = 10  # the one before it longer by this factor,
LONG = 600_000  # and shorter than this


class _BetweenTransposes(FusionRule):
    """Two transposes round a softmax over the last axis."""

    def check(self, match: Match, context: FusionContext) -> str | None:
        x = match.tensors["x"]
        reason = not_static([x])
        if reason is not None:
            return reason
        shape = x.static_shape
        reason = self._refusal(shape, context)
        if reason is None and int(match.root.attr("axis", -1)) % len(shape) != len(shape) - 1:
            return "the axis is not the last one"
        return reason

    def _refusal(self, shape: tuple[int, ...], context: FusionContext) -> str | None:
        raise NotImplementedError

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        root, rank = match.root, len(match.tensors["x"].static_shape)
        turn = (*range(rank - 2), rank - 1, rank - 2)
        before = context.add(
            graph,
            "Transpose",
            [match.tensors["x"]],
            name=f"{root.name}_transposeD_layer",
            like=root,
            perm=turn,
        )
        softmax = context.add(
            graph, "Softmax", [before.output], name=f"{root.name}_turned", like=root, axis=rank - 2
        )
        after = context.add(
            graph, "Transpose", [softmax.output], name=f"{root.name}_transposeD1_layer", like=root, perm=turn
        )
        replace_root(graph, root, after.output)


class SoftmaxFusionPass(_BetweenTransposes):
    """Of listed shapes."""

    name = "SoftmaxFusionPass"
    patterns = {"SoftmaxFusionPass": Op("Softmax", Any("x"), name="softmax")}

    def _refusal(self, shape: tuple[int, ...], context: FusionContext) -> str | None:
        listed = LISTED.get(len(shape))
        if listed is None or shape[-len(listed) :] != listed:
            return "the shape is not one of those listed"
        if math.prod(shape) > LARGEST:
            return "there are more elements than an int32 counts"
        return None if context.soc in CHIPS else f"{context.soc} is not among the chips of the rule"


class SoftmaxTransFusionPass(_BetweenTransposes):
    """Of short rows."""

    name = "softmaxTransFusionPass"
    patterns = {"softmaxTransFusionPass": Op("Softmax", Any("x"), name="softmax")}

    def _refusal(self, shape: tuple[int, ...], context: FusionContext) -> str | None:
        if len(shape) < 2:
            return "there is no axis before the last one"
        if shape[-1] >= SHORT:
            return f"the last axis is not below {SHORT}"
        if not TIMES * shape[-1] < shape[-2] < LONG:
            return f"the axis before it is not between {TIMES} times as long and {LONG}"
        return None


RULES = (SoftmaxFusionPass(), SoftmaxTransFusionPass())
