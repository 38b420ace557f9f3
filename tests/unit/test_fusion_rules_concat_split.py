"""Limits of Concat and Split: nested ones join, long ones become trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Tensor
from ascendsim.passes.fusion.rule import FusionRule
from ascendsim.passes.fusion.rules.movement.concat_tree import ZConcatExt2FusionPass, ZConcatv2dFusionPass
from ascendsim.passes.fusion.rules.movement.split_tree import ZSplitVDFusionPass, ZSplitVDFusionPassV2
from tests.support.fusing import EXACT, Fused, build, fused

FLAT, TREE = ZConcatv2dFusionPass(), ZConcatExt2FusionPass()
SPLIT_FLAT, SPLIT_TREE = ZSplitVDFusionPassV2(), ZSplitVDFusionPass()


def refused(body: Any, rule: FusionRule, **more: Any) -> str:
    result = fused(build(body), rule, **more)
    assert result.effected(rule.name) == 0
    return result.reason


def joined(b: GraphBuilder, count: int) -> Tensor:
    x = b.input("x", (2, 3, 4))
    return b.op("Concat", *(b.op("Add", x, float(number)) for number in range(count)), axis=-1)


def most(result: Fused) -> int:
    return max(max(node.input_count, len(node.outputs)) for node in result.graph.nodes)


@pytest.mark.parametrize(
    ("count", "generation", "concats", "limit"),
    [(100, "v100", 3, 63), (64, "v100", 2, 63), (50, "m200", 4, 21)],
)
def test_long_concats_become_trees(count: int, generation: str, concats: int, limit: int) -> None:
    result = fused(build(lambda b: joined(b, count)), TREE, FLAT, generation=generation)
    assert result.operators["Concat"] == concats
    assert most(result) == limit
    assert result.counts[TREE.name] == (1, 1)
    assert result.error == EXACT


def test_trees_of_three_levels() -> None:
    result = fused(build(lambda b: joined(b, 450)), TREE, generation="m200")
    assert result.operators["Concat"] == 22 + 1 + 1  # 450 -> 22 (one of 9) -> 2 (21 joined and 1) -> 1
    assert most(result) == 21
    assert result.error == EXACT


def test_concats_within_the_limit_stay() -> None:
    assert refused(lambda b: joined(b, 63), TREE) == "the operator takes 63 inputs"
    assert fused(build(lambda b: joined(b, 21)), TREE).counts == {}


def nested(b: GraphBuilder, axes: Sequence[int] = (1, 1, 1), shared: bool = False) -> list[Tensor]:
    x = b.input("x", (2, 3, 4))
    parts = [b.op("Add", x, float(number)) for number in range(4)]
    first = b.op("Concat", parts[0], parts[1], axis=axes[0])
    second = b.op("Concat", parts[2], first, axis=axes[1]) if axes[0] == axes[1] else first
    third = b.op("Concat", first if shared else second, second, axis=axes[2])
    return [third, b.op("Relu", first)] if shared else [third]


def test_nested_concats_become_one() -> None:
    result = fused(build(nested), FLAT)
    assert result.operators == {"Add": 4, "Concat": 1}
    assert result.counts[FLAT.name] == (2, 2)
    assert (
        result.graph.node(next(n.name for n in result.graph.nodes if n.op_type == "Concat")).input_count == 6
    )
    assert result.error == EXACT


def test_negative_axes_are_the_same_axis() -> None:
    assert fused(build(lambda b: nested(b, (1, -2, 1))[0]), FLAT).operators["Concat"] <= 2


def test_refusals_of_nested_concats() -> None:
    assert refused(lambda b: nested(b, (2, 1, 1)), FLAT) == "the axes differ"
    assert refused(lambda b: nested(b, shared=True), FLAT) == "an inner result has other readers"

    def long(b: GraphBuilder) -> Tensor:
        return b.op(
            "Concat", joined(b, 62), b.op("Relu", b.graph.inputs[0]), b.op("Abs", b.graph.inputs[0]), axis=2
        )

    assert refused(long, FLAT) == "there would be more than 63 inputs"


def cut(b: GraphBuilder, sizes: Sequence[int]) -> list[Tensor]:
    x = b.input("x", (2, sum(sizes)))
    parts = b.ops("Split", x, list(sizes), outputs=len(sizes), axis=1)
    return [b.op("Relu", parts[0]), *parts[1:-1], b.op("Abs", parts[-1])]


@pytest.mark.parametrize(
    ("count", "generation", "splits", "limit"),
    [(100, "v100", 3, 63), (64, "v100", 2, 63), (450, "m200", 24, 21)],
)
def test_long_splits_become_trees(count: int, generation: str, splits: int, limit: int) -> None:
    sizes = [1 + number % 3 for number in range(count)]
    result = fused(build(lambda b: cut(b, sizes)), SPLIT_TREE, SPLIT_FLAT, generation=generation)
    assert result.operators["Split"] == splits
    assert most(result) <= limit
    assert result.error == EXACT


def test_splits_within_the_limit_stay() -> None:
    assert refused(lambda b: cut(b, [1] * 63), SPLIT_TREE) == "the operator takes 63 outputs"


def cut_twice(b: GraphBuilder, axis: int = 1, shared: bool = False) -> list[Tensor]:
    first = b.ops("Split", b.input("x", (4, 12)), [5, 3, 4], outputs=3, axis=1)
    second = b.ops("Split", first[2], outputs=2, axis=axis, num_outputs=2)
    third = b.ops("Split", first[0], [2, 3], outputs=2, axis=-1)
    result = [b.op("Relu", second[0]), second[1], first[1], b.op("Abs", third[0]), b.op("Neg", third[1])]
    return [*result, b.op("Exp", first[2])] if shared else result


def test_nested_splits_become_one() -> None:
    result = fused(build(cut_twice), SPLIT_FLAT)
    assert result.operators["Split"] == 1
    assert result.counts == {SPLIT_FLAT.name: (1, 1)}
    (split,) = (node for node in result.graph.nodes if node.op_type == "Split")
    assert [part.shape for part in split.outputs] == [(4, 2), (4, 3), (4, 3), (4, 2), (4, 2)]
    assert result.error == EXACT


def test_refusals_of_nested_splits() -> None:
    assert refused(lambda b: cut_twice(b, axis=0), SPLIT_FLAT) == "the axes differ"
    assert refused(lambda b: cut_twice(b, shared=True), SPLIT_FLAT) == "a part has other readers"

    def long(b: GraphBuilder) -> list[Tensor]:
        first = b.ops("Split", b.input("x", (2, 70)), [40, 30], outputs=2, axis=1)
        return [
            t
            for part, count in zip(first, (40, 30), strict=True)
            for t in b.ops("Split", part, [1] * count, outputs=count, axis=1)
        ]

    assert refused(long, SPLIT_FLAT) == "there would be more than 63 outputs"
