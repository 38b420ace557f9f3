"""Constants behind convolutions: bias, factor, scale and batch normalisation fold into filter and bias."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.passes.fusion.engine import run_rules
from ascendsim.passes.fusion.report import FusionReport
from ascendsim.passes.fusion.rule import FusionRule
from ascendsim.passes.fusion.rules.conv.conv_batchnorm import ConvBatchnormFusionPass
from ascendsim.passes.fusion.rules.conv.conv_bias import AABiasaddConvFusion, TBEConvAddFusion
from ascendsim.passes.fusion.rules.conv.conv_scale import AConv2dMulFusion, ConvScaleFusionPass
from tests.support.fusing import CHANGED_ALGEBRA, build, context, fused, random


def convolved(
    b: GraphBuilder, bias: bool = False, group: int = 1, channels: int = 6, rank: int = 4, **attributes: Any
) -> Tensor:
    """A convolution of a (2, 4, 7, ...) input to `channels` channels."""
    x = b.input("x", (2, 4, *(7,) * (rank - 2)))
    weight = b.constant(random(channels, 4 // group, *(3,) * (rank - 2)), "w")
    return b.op(
        "Conv",
        x,
        weight,
        b.constant(random(channels, seed=1), "b") if bias else None,
        group=group,
        **attributes,
    )


def normalised(b: GraphBuilder, x: Tensor, channels: int = 6, **attributes: Any) -> Tensor:
    parameters = [b.constant(random(channels, seed=seed), f"p{seed}") for seed in range(3)]
    return b.op(
        "BatchNormalization",
        x,
        *parameters,
        b.constant(random(channels, seed=3, positive=True), "var"),
        **attributes,
    )


def by_channel(channels: int = 6, seed: int = 9, axes: int = 2) -> Any:
    return random(channels, *(1,) * axes, seed=seed)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("group", "channels", "rank"), [(1, 6, 4), (4, 8, 4), (2, 6, 4), (1, 6, 5), (1, 6, 3)]
)
def test_batchnorm_moves_into_the_convolution(bias: bool, group: int, channels: int, rank: int) -> None:
    graph = build(
        lambda b: b.op(
            "Relu", normalised(b, convolved(b, bias, group, channels, rank), channels, epsilon=1e-3)
        )
    )
    result = fused(graph, ConvBatchnormFusionPass())
    assert result.operators == {"Conv": 1, "Relu": 1}
    assert result.counts == {"ConvBatchnormFusionPass": (1, 1)}
    assert result.error <= CHANGED_ALGEBRA


@pytest.mark.parametrize("swapped", [False, True])
def test_biasadd_becomes_the_bias(swapped: bool) -> None:
    def body(b: GraphBuilder) -> Tensor:
        conv = convolved(b)
        bias = b.constant(by_channel(), "bias")
        return b.op("Add", bias, conv) if swapped else b.op("Add", conv, bias)

    result = fused(build(body), AABiasaddConvFusion())
    assert result.operators == {"Conv": 1}
    assert result.error <= 1e-6


@pytest.mark.parametrize("shape", [(6, 1, 1), (1, 6, 1, 1), (), (1,), (1, 1, 1, 1)])
@pytest.mark.parametrize("rule", [TBEConvAddFusion(), AConv2dMulFusion()])
def test_constants_by_channel_and_scalars_fold(shape: tuple[int, ...], rule: FusionRule) -> None:
    operator = "Add" if isinstance(rule, TBEConvAddFusion) else "Mul"
    result = fused(
        build(lambda b: b.op(operator, convolved(b, bias=True), b.constant(random(*shape), "c"))), rule
    )
    assert result.operators == {"Conv": 1}
    assert result.error <= CHANGED_ALGEBRA


def test_factor_without_bias_adds_none() -> None:
    result = fused(
        build(lambda b: b.op("Mul", convolved(b), b.constant(by_channel(), "c"))), AConv2dMulFusion()
    )
    assert result.graph.nodes[0].input(2) is None


@pytest.mark.parametrize("bias", [False, True])
def test_scale_layer_folds(bias: bool) -> None:
    def body(b: GraphBuilder) -> Tensor:
        scaled = b.op("Mul", b.constant(by_channel(seed=4), "f"), convolved(b, bias))
        return b.op("Add", scaled, b.constant(by_channel(seed=5), "s"))

    result = fused(build(body), ConvScaleFusionPass())
    assert result.operators == {"Conv": 1}
    assert result.error <= CHANGED_ALGEBRA


def refused(body: Any, rule: FusionRule) -> str:
    graph = build(body)
    result = fused(graph, rule)
    assert result.effected(rule.name) == 0
    assert len(result.graph) == len(graph)
    return result.reason


def test_refusals_of_factors() -> None:
    def silu(b: GraphBuilder) -> Tensor:
        conv = convolved(b)
        return b.op("Mul", conv, b.op("Sigmoid", conv))

    assert refused(silu, AConv2dMulFusion()) == "the factor is not constant"
    whole = lambda b: b.op("Mul", convolved(b), b.constant(random(1, 6, 5, 5), "c"))
    assert refused(whole, AConv2dMulFusion()) == "the factor is not one value a channel"
    columns = lambda b: b.op("Mul", convolved(b, channels=5), b.constant(random(5), "c"))
    assert refused(columns, AConv2dMulFusion()) == "the factor is not one value a channel"
    wider = lambda b: b.op("Mul", convolved(b), b.constant(random(1, 1, 1, 1, 1), "c"))
    assert refused(wider, AConv2dMulFusion()) == "the factor is not one value a channel"


def test_refusals_of_the_convolution() -> None:
    def read_twice(b: GraphBuilder) -> list[Tensor]:
        conv = convolved(b)
        return [b.op("Mul", conv, b.constant(by_channel(), "c")), b.op("Relu", conv)]

    def an_output(b: GraphBuilder) -> list[Tensor]:
        conv = convolved(b)
        return [b.op("Mul", conv, b.constant(by_channel(), "c")), conv]

    def filter_from_outside(b: GraphBuilder) -> Tensor:
        conv = b.op("Conv", b.input("x", (1, 4, 7, 7)), b.input("w", (6, 4, 3, 3)))
        return b.op("Mul", conv, b.constant(by_channel(), "c"))

    def bias_from_outside(b: GraphBuilder) -> Tensor:
        conv = b.op(
            "Conv", b.input("x", (1, 4, 7, 7)), b.constant(random(6, 4, 3, 3), "w"), b.input("b", (6,))
        )
        return b.op("Mul", conv, b.constant(by_channel(), "c"))

    assert refused(read_twice, AConv2dMulFusion()) == "the result of the convolution has other readers"
    assert refused(an_output, AConv2dMulFusion()) == "the result of the convolution has other readers"
    assert refused(filter_from_outside, AConv2dMulFusion()) == "the filter is not constant"
    assert refused(bias_from_outside, AConv2dMulFusion()) == "the bias is not constant"


def test_refusals_of_biasadd() -> None:
    with_bias = lambda b: b.op("Add", convolved(b, bias=True), b.constant(by_channel(), "c"))
    assert refused(with_bias, AABiasaddConvFusion()) == "the convolution has a bias already"
    scalar = lambda b: b.op("Add", convolved(b), b.constant(random(1), "c"))
    assert refused(scalar, AABiasaddConvFusion()) == "the summand is not one value a channel"
    residual = lambda b: b.op("Add", convolved(b, pads=(1, 1, 1, 1)), b.input("r", (2, 6, 7, 7)))
    assert refused(residual, AABiasaddConvFusion()) == "the summand is not constant"


def test_refusals_of_batchnorm() -> None:
    def from_outside(b: GraphBuilder) -> Tensor:
        conv = convolved(b)
        values = [b.constant(random(6, seed=seed, positive=True), "p") for seed in range(3)]
        return b.op("BatchNormalization", conv, b.input("scale", (6,)), *values)

    assert (
        refused(from_outside, ConvBatchnormFusionPass()) == "a parameter of the normalisation is not constant"
    )
    training = lambda b: normalised(b, convolved(b), training_mode=1)
    assert refused(training, ConvBatchnormFusionPass()) == "the normalisation is in training mode"


def test_depthwise_is_no_conv2d() -> None:
    graph = build(lambda b: b.op("Mul", convolved(b, group=4, channels=4), b.constant(by_channel(4), "c")))
    assert fused(graph, AConv2dMulFusion()).counts == {}


def test_constants_without_values_fold_without_values() -> None:
    def body(b: GraphBuilder) -> Tensor:
        conv = b.op("Conv", b.input("x", (1, 4, 7, 7)), b.weight("w", (6, 4, 3, 3)))
        parameters = [b.weight(f"p{number}", (6,)) for number in range(4)]
        return b.op("BatchNormalization", conv, *parameters)

    graph = build(body)
    run_rules(graph, [ConvBatchnormFusionPass()], context(), FusionReport())
    (conv,) = graph.nodes
    constants = [tensor.constant for tensor in conv.inputs[1:] if tensor is not None]
    assert [constant.available for constant in constants if constant] == [False, False]
    assert conv.required(2).shape == (6,)


def test_values_are_not_computed_before_they_are_asked_for() -> None:
    asked: list[str] = []

    def filled(b: GraphBuilder, name: str, *shape: int) -> Tensor:
        def fill() -> Any:
            asked.append(name)
            return random(*shape, positive=True)

        return b.weight(name, shape, fill)

    def body(b: GraphBuilder) -> Tensor:
        conv = b.op("Conv", b.input("x", (1, 4, 7, 7)), filled(b, "w", 6, 4, 3, 3))
        return b.op("Mul", conv, filled(b, "c", 6, 1, 1))

    graph = build(body)
    run_rules(graph, [AConv2dMulFusion()], context(), FusionReport())
    assert asked == []
    value = graph.nodes[0].required(1).constant
    assert value is not None
    np.testing.assert_allclose(
        value.array(), random(6, 4, 3, 3, positive=True) * random(6, 1, 1, positive=True)[:, None], rtol=1e-6
    )
    assert asked == ["w", "c"]


def test_float16_constants_are_rounded_once() -> None:
    weight, factor = random(6, 4, 1, 1, dtype=np.float16), random(6, 1, 1, seed=1, dtype=np.float16)
    graph: Graph = build(
        lambda b: b.op(
            "Mul",
            b.op("Conv", b.input("x", (1, 4, 3, 3), DType.FLOAT16), b.constant(weight, "w")),
            b.constant(factor, "c"),
        )
    )
    run_rules(graph, [AConv2dMulFusion()], context(), FusionReport())
    folded = graph.nodes[0].required(1)
    assert folded.constant is not None
    exact = weight.astype(np.float64) * factor.astype(np.float64)[:, None]
    np.testing.assert_array_equal(folded.constant.array(), exact.astype(np.float16))


def test_resnet50_has_53_pairs() -> None:
    graph = asim.load("tests/data/models/resnet50.onnx")
    report = FusionReport()
    run_rules(graph, [ConvBatchnormFusionPass()], context(), report)
    assert report.totals("graph") == {"ConvBatchnormFusionPass": (53, 53)}
    assert not any(node.op_type == "BatchNormalization" for node in graph.nodes)


def test_yolov5s_has_57_products_of_a_convolution_and_its_sigmoid() -> None:
    graph = asim.load("tests/data/models/yolov5s.onnx")
    report = FusionReport()
    run_rules(graph, [AConv2dMulFusion()], context(), report)
    assert report.totals("graph") == {"AConv2dMulFusion": (57, 0)}
