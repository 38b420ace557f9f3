"""Batch normalisation without a convolution: inference forms, split fusion in training, and the chip's
operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.passes.fusion.engine import run_rules
from ascendsim.passes.fusion.report import FusionReport
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.fusion.rules.conv.conv_scale import AConv2dMulFusion
from ascendsim.passes.fusion.rules.normalise.batchnorm_inference import (
    BatchNormBnInferFusionPass,
    HostBNFusionPass,
)
from ascendsim.passes.fusion.rules.normalise.split_batchnorm import FusedBatchnormFusionPass
from ascendsim.passes.rewriting.pattern import Any as AnyTensor
from ascendsim.passes.rewriting.pattern import Const, Match, Op
from ascendsim.passes.rewriting.replace import replace_root
from tests.support.fusing import CHANGED_ALGEBRA, EXACT, build, context, difference, fused, random
from tests.support.single_node import run

pytestmark = pytest.mark.usefixtures("untimed_tiles")

VALUES: tuple[Literal["device", "float32"], ...] = ("device", "float32")
SHAPES = [(2, 6, 5, 5), (3, 6), (2, 6, 4), (1, 6, 2, 3, 4)]


def normalised(
    b: GraphBuilder, shape: tuple[int, ...] = SHAPES[0], outputs: int = 1, **attributes: Any
) -> list[Tensor]:
    parameters = [random(6, seed=seed) for seed in range(3)]
    return b.ops(
        "BatchNormalization",
        b.input("x", shape),
        *parameters,
        random(6, seed=3, positive=True),
        outputs=outputs,
        **attributes,
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_inference_becomes_one_product_and_one_sum(shape: tuple[int, ...]) -> None:
    graph = build(lambda b: b.op("Relu", normalised(b, shape, epsilon=1e-3)[0]))
    first = fused(graph, BatchNormBnInferFusionPass())
    assert first.operators == {"BNInference": 1, "Relu": 1}
    assert first.error == EXACT
    both = fused(graph, BatchNormBnInferFusionPass(), HostBNFusionPass())
    assert both.operators == {"BNInferenceD": 1, "Relu": 1}
    assert both.error <= CHANGED_ALGEBRA


def test_refusals_of_inference() -> None:
    training = fused(build(lambda b: normalised(b, training_mode=1)[0]), BatchNormBnInferFusionPass())
    assert training.reason == "the normalisation is in training mode"

    def from_outside(b: GraphBuilder) -> Tensor:
        x, scale = b.input("x", (2, 6, 5, 5)), b.input("scale", (6,))
        return b.op("BatchNormalization", x, scale, random(6), random(6), random(6, positive=True))

    result = fused(build(from_outside), BatchNormBnInferFusionPass(), HostBNFusionPass())
    assert result.operators == {"BNInference": 1}
    assert result.reason == "a parameter of the normalisation is not constant"


def test_shape_only_parameters_join_without_values() -> None:
    def body(b: GraphBuilder) -> Tensor:
        return b.op(
            "BatchNormalization",
            b.input("x", (2, 6, 5, 5)),
            *(b.weight(f"p{number}", (6,)) for number in range(4)),
        )

    graph = build(body)
    run_rules(graph, [BatchNormBnInferFusionPass(), HostBNFusionPass()], context(), FusionReport())
    constant = graph.nodes[0].required(1).constant
    assert constant is not None
    assert not constant.available
    assert asim.simulate(asim.compile(graph, "Ascend310")).duration_us > 0


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_training_splits_in_two(outputs: int, shape: tuple[int, ...]) -> None:
    graph = build(lambda b: normalised(b, shape, outputs, training_mode=1, momentum=0.8, epsilon=1e-3))
    result = fused(graph, FusedBatchnormFusionPass())
    assert result.operators == {"BNTrainingReduce": 1, "BNTrainingUpdate": 1}
    assert result.error <= CHANGED_ALGEBRA


def test_inference_is_not_split() -> None:
    result = fused(build(lambda b: normalised(b)[0]), FusedBatchnormFusionPass())
    assert result.reason == "the normalisation is in inference mode"


@pytest.mark.parametrize("chip", ["Ascend310", "Ascend910A", "Ascend910B1"])
def test_sums_stay_in_float32_on_the_device(chip: str) -> None:
    """100 000 elements of 8 in a channel: their squares leave the range of float16 by far."""
    graph = build(lambda b: normalised(b, (4, 6, 32, 64), training_mode=1)[0])
    model = asim.compile(graph, chip, fusion="graph")
    sums = next(node for node in model.graph.nodes if node.op_type == "BNTrainingReduce")
    assert [tensor.dtype for tensor in sums.outputs] == [DType.FLOAT32, DType.FLOAT32]
    inputs = {"x": random(4, 6, 32, 64) * 4 + 8}
    device, exact = (asim.run(model, inputs, values=values).outputs["out0"] for values in VALUES)
    np.testing.assert_allclose(device, exact, atol=0.02 * np.abs(exact).max())
    plain = asim.run(asim.compile(graph, chip, fusion="off"), inputs, values="float32").outputs["out0"]
    np.testing.assert_allclose(exact, plain, atol=1e-5 * np.ptp(plain))


def test_operators_round_once() -> None:
    x = random(2, 6, 3, 3, dtype=np.float16)
    alpha, beta = random(6, dtype=np.float16), random(6, seed=1, dtype=np.float16)
    along = (-1, 1, 1)
    wide = x.astype(np.float32) * alpha.astype(np.float32).reshape(along) + beta.astype(np.float32).reshape(
        along
    )
    for operator in ("Scale", "BNInferenceD"):
        (result,) = run(operator, [x, alpha, beta], domain="ascend")
        np.testing.assert_array_equal(result, wide.astype(np.float16))
    (unshifted,) = run("Scale", [x.astype(np.float64), alpha.astype(np.float64)], domain="ascend")
    np.testing.assert_allclose(unshifted, x.astype(np.float64) * alpha.astype(np.float64).reshape(along))


# ------------------------------------------------------------------------------------------------- split fusi
# The figure of CANN's introduction: X between A on one side, B and C on the other; X -> X1, X2; A + X1 -> A1;
# X2 + B + C -> BC1.


class SplitNorm(FusionRule):
    """X: BNInferenceD(x, alpha, beta) -> X1: Mul(x, alpha), X2: Add(., beta)."""

    name = "SplitNorm"
    patterns: ClassVar[Mapping[str, Op]] = {
        "X": Op("BNInferenceD", Op("Conv", name="a"), Const("alpha"), Const("beta"), name="x")
    }

    def check(self, match: Match, context: FusionContext) -> str | None:
        return None

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        alpha, beta = (self._column(graph, match.tensors[name]) for name in ("alpha", "beta"))
        scaled = context.add(graph, "Mul", [match.nodes["a"].output, alpha], name="x1", like=match.root)
        shifted = context.add(graph, "Add", [scaled.output, beta], name="x2", like=match.root)
        replace_root(graph, match.root, shifted.output)

    @staticmethod
    def _column(graph: Graph, tensor: Tensor) -> Tensor:
        assert tensor.constant is not None
        return graph.add_constant(
            graph.fresh(f"{tensor.name}_column"), tensor.constant.array().reshape(-1, 1, 1)
        )


class JoinSums(FusionRule):
    """X2 + B + C: three summands become Sum."""

    name = "JoinSums"
    patterns: ClassVar[Mapping[str, Op]] = {
        "X2BC": Op(
            "Add",
            Op("Add", Op("Add", AnyTensor("x"), Const("beta"), name="x2"), AnyTensor("r"), name="b"),
            AnyTensor("s"),
            name="c",
        )
    }

    def check(self, match: Match, context: FusionContext) -> str | None:
        return None

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        inputs = [match.tensors[name] for name in ("x", "beta", "r", "s")]
        replace_root(graph, match.root, context.add(graph, "Sum", inputs, name="bc1", like=match.root).output)


def test_halves_of_a_split_operator_join_their_neighbours() -> None:
    def body(b: GraphBuilder) -> Tensor:
        a = b.op("Conv", b.input("x", (2, 4, 7, 7)), random(6, 4, 3, 3), pads=(1, 1, 1, 1), name="A")
        x = b.op(
            "BatchNormalization",
            a,
            random(6),
            random(6, seed=1),
            random(6, seed=2),
            random(6, seed=3, positive=True),
            name="X",
        )
        return b.op(
            "Add", b.op("Add", x, b.input("r", (2, 6, 7, 7)), name="B"), b.input("s", (2, 6, 7, 7)), name="C"
        )

    graph = build(body)
    whole = fused(graph, BatchNormBnInferFusionPass(), HostBNFusionPass())
    assert sorted(whole.operators.items()) == [("Add", 2), ("BNInferenceD", 1), ("Conv", 1)]
    alone = fused(whole.graph, SplitNorm())
    assert alone.operators == {"Conv": 1, "Mul": 1, "Add": 3}  # alone, the split costs an operator
    result = fused(whole.graph, SplitNorm(), AConv2dMulFusion(), JoinSums())
    assert result.operators == {"Conv": 1, "Sum": 1}
    assert result.counts == {"SplitNorm": (1, 1), "AConv2dMulFusion": (1, 1), "JoinSums": (1, 1)}
    assert difference(graph, result.graph) <= CHANGED_ALGEBRA
    (conv, joined) = result.graph.nodes
    assert set(conv.origin["source_names"]) == {"A", "X"}
    assert {"X", "B", "C"} <= set(joined.origin["source_names"])
