"""Split + convolutions + Concat, grouped convolutions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Tensor
from ascendsim.passes.fusion.rules.conv.conv_group import GroupConv2DFusionPass
from ascendsim.passes.fusion.rules.conv.conv_split_concat import ASplitConv2dConcatPass
from tests.support.fusing import build, fused, random


def branches(
    b: GraphBuilder,
    count: int = 3,
    group: int = 1,
    biases: Sequence[int] = (),
    order: Sequence[int] | None = None,
    axis: int = 1,
) -> Tensor:
    """Split of 4 * count channels, a convolution to 6 channels each, Concat; branches in `biases` have a
    bias."""
    parts = b.ops("Split", b.input("x", (2, 4 * count, 5, 5)), outputs=count, axis=1, num_outputs=count)
    results = []
    for number in range(count):
        weight = b.constant(random(6, 4 // group, 3, 3, seed=number), "w")
        bias = b.constant(random(6, seed=number), "b") if number in biases else None
        part = parts[number if order is None else order[number]]
        results.append(b.op("Conv", part, weight, bias, group=group, pads=(1, 1, 1, 1)))
    return b.op("Concat", *results, axis=axis)


@pytest.mark.parametrize("biases", [(), (0, 1, 2), (1,)])
@pytest.mark.parametrize("group", [1, 2])
def test_branches_become_a_grouped_convolution(biases: Sequence[int], group: int) -> None:
    result = fused(build(lambda b: branches(b, 3, group, biases)), ASplitConv2dConcatPass())
    assert result.counts == {"ASplitConv2dConcatPass": (1, 1)}
    assert result.operators == {"Conv": 1}
    (conv,) = result.graph.nodes
    assert conv.attr("group") == 3 * group
    assert conv.required(1).shape == (18, 4 // group, 3, 3)
    assert (conv.input(2) is not None) is bool(biases)
    assert result.error <= 1e-6


def test_refusals_of_branches() -> None:
    def reason(body: object) -> str:
        result = fused(build(body), ASplitConv2dConcatPass())  # type: ignore[arg-type]
        assert result.effected("ASplitConv2dConcatPass") == 0
        return result.reason

    def uneven(b: GraphBuilder) -> Tensor:
        parts = b.ops("Split", b.input("x", (1, 7, 5, 5)), [3, 4], outputs=2, axis=1)
        return b.op(
            "Concat", *(b.op("Conv", part, random(6, part.static_shape[1], 3, 3)) for part in parts), axis=1
        )

    def differing(b: GraphBuilder) -> Tensor:
        parts = b.ops("Split", b.input("x", (1, 8, 5, 5)), outputs=2, axis=1, num_outputs=2)
        first = b.op("Conv", parts[0], random(6, 4, 3, 3), pads=(1, 1, 1, 1))
        return b.op(
            "Concat",
            first,
            b.op("Conv", parts[1], random(6, 4, 3, 3), pads=(2, 2, 2, 2), dilations=(2, 2)),
            axis=1,
        )

    def a_part_read_twice(b: GraphBuilder) -> list[Tensor]:
        joined = branches(b, 2)
        split = next(node for node in b.graph.nodes if node.op_type == "Split")
        return [joined, b.op("Relu", split.outputs[0])]

    def a_result_read_twice(b: GraphBuilder) -> list[Tensor]:
        joined = branches(b, 2)
        conv = next(node for node in b.graph.nodes if node.op_type == "Conv")
        return [joined, b.op("Relu", conv.output)]

    assert (
        reason(lambda b: branches(b, 3, order=(1, 0, 2))) == "the convolutions do not take the parts in order"
    )
    assert reason(lambda b: branches(b, 2, axis=0)) == "split or concat is not along the channels"
    assert reason(uneven) == "the parts of the split differ in size"
    assert reason(differing) == "the convolutions differ"
    assert reason(a_part_read_twice) == "a part of the split has other readers"
    assert reason(a_result_read_twice) == "the result of the convolution has other readers"


def test_other_concats_do_not_match() -> None:
    def body(b: GraphBuilder) -> Tensor:
        x = b.input("x", (1, 4, 5, 5))
        return b.op(
            "Concat", b.op("Conv", x, random(6, 4, 3, 3)), b.op("Conv", x, random(6, 4, 3, 3, seed=1)), axis=1
        )

    assert fused(build(body), ASplitConv2dConcatPass()).counts == {}


def grouped(b: GraphBuilder, group: int, channels: int = 8) -> Tensor:
    return b.op(
        "Conv", b.input("x", (2, 8, 5, 5)), random(channels, 8 // group, 3, 3), random(channels), group=group
    )


def test_groups_stay_together_by_default() -> None:
    result = fused(build(lambda b: grouped(b, 2)), GroupConv2DFusionPass())
    assert result.counts == {"GroupConv2DFusionPass": (1, 0)}
    assert result.reason == "the groups are packed into one filter"


def test_groups_are_cut_where_the_profile_says_so() -> None:
    result = fused(
        build(lambda b: grouped(b, 4)), GroupConv2DFusionPass(), ASplitConv2dConcatPass(), group_conv="split"
    )
    assert result.operators == {"Split": 1, "Conv": 4, "Concat": 1}
    assert result.reason == "the profile runs the groups of a convolution one by one"
    assert result.error <= 1e-6


def test_depthwise_and_plain_convolutions_are_left() -> None:
    result = fused(build(lambda b: grouped(b, 8, 16)), GroupConv2DFusionPass(), group_conv="split")
    assert result.reason == "it is a depthwise convolution, which has an operator of its own"
    assert fused(build(lambda b: grouped(b, 1)), GroupConv2DFusionPass()).counts == {}
