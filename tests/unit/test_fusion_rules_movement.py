"""Rules for transposes, reshapes, squeezes and casts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Tensor
from ascendsim.passes.fusion.rule import FusionRule
from ascendsim.passes.fusion.rules.elementwise.casts import CastCastFusionPass, CastRemoveFusionPass
from ascendsim.passes.fusion.rules.movement.squeeze_unsqueeze import SqueezeUnsqueezeFusionPass
from ascendsim.passes.fusion.rules.movement.transpose_reshape import (
    ReshapeTransposeFusionPass,
    TransposeReshapeFusionPass,
)
from ascendsim.passes.fusion.rules.movement.whole_slices import StridedSliceRemovePass
from ascendsim.passes.rewriting.pattern import Any, Op
from ascendsim.passes.rewriting.search import find_matches
from tests.support.fusing import EXACT, build, fused

Body = Callable[[GraphBuilder], "Tensor | list[Tensor]"]


def shape(b: GraphBuilder, *sizes: int) -> Tensor:
    return b.constant(list(sizes), "shape")


def refused(rule: FusionRule, body: Body) -> str:
    result = fused(build(body), rule)
    matched, effected = result.counts[rule.name]
    assert matched
    assert not effected
    assert result.error == EXACT
    return result.reason


def transpose_reshape(
    b: GraphBuilder, source: tuple[int, ...] = (2, 3, 16, 32), target: tuple[int, ...] = (32, 96)
) -> Tensor:
    return b.op(
        "Reshape", b.op("Transpose", b.input("x", source), perm=(0, 2, 1, 3), name="turn"), shape(b, *target)
    )


def reshape_transpose(b: GraphBuilder, source: tuple[int, ...] = (32, 96)) -> Tensor:
    return b.op("Transpose", b.op("Reshape", b.input("x", source), shape(b, 2, 16, 3, -1)), perm=(0, 2, 1, 3))


@pytest.mark.parametrize(
    ("rule", "body", "first"),
    [
        (TransposeReshapeFusionPass(), transpose_reshape, 1),
        (ReshapeTransposeFusionPass(), reshape_transpose, 0),
    ],
)
def test_a_transpose_and_a_reshape_become_one(rule: FusionRule, body: Body, first: int) -> None:
    result = fused(build(body), rule)
    assert result.counts == {rule.name: (1, 1)}
    assert result.operators == {"ConfusionTransposeD": 1}
    assert result.graph.nodes[0].attr("transpose_first") == first
    assert result.error == EXACT


def test_a_chain_of_both_is_fused_once_each() -> None:
    def body(b: GraphBuilder) -> Tensor:
        return b.op("Reshape", reshape_transpose(b), shape(b, 96, 32))

    result = fused(build(body), ReshapeTransposeFusionPass(), TransposeReshapeFusionPass())
    assert result.operators == {"ConfusionTransposeD": 1, "Reshape": 1}
    assert result.error == EXACT


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            lambda b: transpose_reshape(b, (2, 3, 4, 32), (2, 12, 32)),
            "the last dimensions of x are no multiples of 16",
        ),
        (
            lambda b: transpose_reshape(b, (2, 3, 16, 32), (3, 1024)),
            "the last dimensions of out0 are no multiples of 16",
        ),
        (
            lambda b: [transpose_reshape(b), b.op("Relu", b.graph.node("turn").output)],
            "turn has a reader outside",
        ),
    ],
)
def test_other_transposes_stay(body: Body, reason: str) -> None:
    assert refused(TransposeReshapeFusionPass(), body) == reason


def test_a_squeeze_that_is_taken_back_goes() -> None:
    def body(b: GraphBuilder) -> Tensor:
        squeezed = b.op("Squeeze", b.op("Abs", b.input("x", (2, 1, 4))), b.constant([1], "axes"))
        return b.op("Relu", b.op("Unsqueeze", squeezed, b.constant([-2], "axes")))

    result = fused(build(body), SqueezeUnsqueezeFusionPass())
    assert result.counts == {"SqueezeUnsqueezeFusionPass": (1, 1)}
    assert result.operators == {"Abs": 1, "Relu": 1}
    assert result.error == EXACT


def test_a_squeeze_with_other_readers_serves_them() -> None:
    def body(b: GraphBuilder) -> list[Tensor]:
        squeezed = b.op("Squeeze", b.op("Abs", b.input("x", (2, 1, 4))), b.constant([1], "axes"))
        return [b.op("Relu", b.op("Unsqueeze", squeezed, b.constant([1], "axes"))), b.op("Neg", squeezed)]

    result = fused(build(body), SqueezeUnsqueezeFusionPass())
    assert result.operators == {"Abs": 1, "Relu": 1, "Squeeze": 1, "Neg": 1}
    assert result.error == EXACT


def test_a_squeeze_of_another_axis_stays() -> None:
    def body(b: GraphBuilder) -> Tensor:
        return b.op(
            "Unsqueeze",
            b.op("Squeeze", b.input("x", (2, 1, 4)), b.constant([1], "axes")),
            b.constant([0], "axes"),
        )

    assert refused(SqueezeUnsqueezeFusionPass(), body) == "the pair changes the shape"


def test_a_cast_to_the_same_type_goes() -> None:
    graph = build(lambda b: b.op("Relu", b.op("Cast", b.input("x", (4,)), to=DType.FLOAT32)))
    result = fused(graph, CastRemoveFusionPass())
    assert result.counts == {"CastRemoveFusionPass": (1, 1)}
    assert result.operators == {"Relu": 1}
    assert result.error == EXACT


def test_casts_to_another_type_stay() -> None:
    assert (
        refused(CastRemoveFusionPass(), lambda b: b.op("Cast", b.input("x", (4,)), to=DType.INT32))
        == "the cast changes the type"
    )


def test_a_cast_that_the_device_alone_does_not_see_stays() -> None:
    """float32 in the model, float16 on the device at both ends: `values="float32"` still needs the cast."""
    graph = build(lambda b: b.op("Relu", b.op("Cast", b.input("x", (4,)), to=DType.FLOAT16)))
    graph.inputs[0].dtype = DType.FLOAT16
    assert fused(graph, CastRemoveFusionPass()).reason == "the cast changes the type"


def casts(b: GraphBuilder, source: DType, between: DType, target: DType) -> Tensor:
    return b.op("Cast", b.op("Cast", b.input("x", (4, 8), source), to=between, name="first"), to=target)


@pytest.mark.parametrize("ends", [(DType.FLOAT16, DType.INT32), (DType.INT32, DType.FLOAT16)])
def test_two_casts_between_float16_and_int32_become_one(ends: tuple[DType, DType]) -> None:
    result = fused(build(lambda b: casts(b, ends[0], DType.FLOAT32, ends[1])), CastCastFusionPass())
    assert result.counts == {"CastCastFusionPass": (1, 1)}
    assert result.operators == {"Cast": 1}
    assert result.error == EXACT


@pytest.mark.parametrize(
    ("types", "reason"),
    [
        ((DType.FLOAT32, DType.FLOAT16, DType.INT32), "the pair is not one between float16 and int32"),
        ((DType.FLOAT16, DType.BOOL, DType.INT32), "the type in between loses values (bool)"),
        ((DType.INT32, DType.INT8, DType.FLOAT16), "the type in between loses values (int8)"),
    ],
)
def test_other_pairs_of_casts_stay(types: tuple[DType, DType, DType], reason: str) -> None:
    assert refused(CastCastFusionPass(), lambda b: casts(b, *types)) == reason


def test_a_first_cast_with_another_reader_stays() -> None:
    def body(b: GraphBuilder) -> list[Tensor]:
        last = casts(b, DType.FLOAT16, DType.FLOAT32, DType.INT32)
        return [last, b.op("Relu", b.graph.node("first").output)]

    assert refused(CastCastFusionPass(), body) == "first has a reader outside"


@pytest.mark.parametrize(("step", "reason"), [(1, ""), (-1, "the slice may turn the order round")])
def test_a_slice_of_everything_goes_unless_it_turns_round(step: int, reason: str) -> None:
    ends = (0, 6) if step == 1 else (5, -7)

    def body(b: GraphBuilder) -> Tensor:
        x = b.op("Neg", b.input("x", (4, 6)))
        return b.op("Relu", b.op("Slice", x, *(np.array([one]) for one in (*ends, 1, step))))

    result = fused(build(body), StridedSliceRemovePass())
    assert result.error == EXACT
    assert ("Slice" in result.operators) == bool(reason)
    assert not reason or result.reason == reason


def test_one_node_may_stand_for_two_operators_of_a_tree() -> None:
    """Where the pattern reads the same twice, the graph may have computed it once."""
    tree = Op("Mul", Op("Neg", Any("x"), name="a"), Op("Neg", Any("x"), name="b"))
    once = build(lambda b: (lambda y: b.op("Mul", y, y))(b.op("Neg", b.input("x", (2,)))))
    twice = build(lambda b: (lambda x: b.op("Mul", b.op("Neg", x), b.op("Neg", x)))(b.input("x", (2,))))
    assert [len(match.all_nodes) for match in find_matches(once, "squared", tree)] == [2]
    assert [len(match.all_nodes) for match in find_matches(twice, "squared", tree)] == [3]
