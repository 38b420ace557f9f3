"""Convolutions through FIXPIPE on chips that have it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.passes.fusion.rule import FusionRule
from ascendsim.passes.fusion.rules.conv.conv_fully_connected import ConvToFullyConnectionFusionPass
from ascendsim.passes.fusion.rules.conv.conv_scale import AConv2dMulFusion
from ascendsim.passes.fusion.rules.conv.fixpipe_conv import RULES
from tests.support.fusing import CHANGED_ALGEBRA, EXACT, build, fused, random
from tests.support.single_node import run

RULE, REQUANT, FUSION = RULES


def float_network(b: GraphBuilder) -> Tensor:
    x = b.op(
        "Relu",
        b.op("Conv", b.input("x", (1, 32, 14, 14)), random(32, 32, 3, 3) / 16, random(32), pads=(1, 1, 1, 1)),
    )
    y = b.op("Conv", x, random(32, 32, 1, 1) / 6)
    return b.op("Add", b.op("Mul", y, b.op("Sigmoid", y)), x)


def int8_network(b: GraphBuilder) -> Tensor:
    q = b.op("AscendQuant", b.input("x", (1, 32, 14, 14)), domain="ascend", scale=30.0, offset=0.0)
    weight = np.random.default_rng(0).integers(-100, 100, (32, 32, 3, 3)).astype(np.int8)
    acc = b.op("QuantConv", q, weight, domain="ascend", pads=(1, 1, 1, 1))
    y = b.op("AscendDequant", acc, random(32, positive=True) / 40000, domain="ascend")
    return b.op("Add", b.op("Relu", y), 1.0)


@pytest.mark.parametrize(
    ("body", "stages", "counts"),
    [
        (float_network, ["relu", "store"], {RULE: (2, 2), REQUANT: (2, 0), FUSION: (2, 1)}),
        (int8_network, ["dequant+relu"], {RULE: (1, 1), REQUANT: (1, 1), FUSION: (1, 0)}),
    ],
)
def test_convolutions_take_in_what_fixpipe_does(
    body: Any, stages: list[str], counts: dict[FusionRule, tuple[int, int]]
) -> None:
    result = fused(build(body), *RULES, generation="c220")
    assert result.counts == {rule.name: count for rule, count in counts.items()}
    assert [node.attr("fixpipe") for node in result.graph.nodes if "Conv" in node.op_type] == stages
    assert not {"Relu", "AscendDequant"} & set(result.operators)
    assert result.error == EXACT


def test_fully_connected_layers_take_in_a_relu() -> None:
    def body(b: GraphBuilder) -> Tensor:
        conv = b.op("Conv", b.input("x", (3, 16, 4, 4)), random(32, 16, 4, 4) / 16, random(32))
        return b.op("Relu", conv)

    result = fused(build(body), ConvToFullyConnectionFusionPass(), *RULES, generation="c220")
    assert result.operators == {"FullyConnection": 1}
    assert result.graph.nodes[0].attr("fixpipe") == "relu"
    assert result.error <= CHANGED_ALGEBRA


def test_refusals() -> None:
    plain = fused(build(float_network), RULE)
    assert plain.reason == "the chip has no FIXPIPE"
    once = fused(build(float_network), RULE, generation="c220")
    again = fused(once.graph, RULE, generation="c220")
    assert again.reason == "the convolution has its stage already"
    assert fused(build(float_network), FUSION, generation="c220").reason == "the convolution has no stage"
    assert fused(build(float_network), REQUANT).reason == "the chip has no FIXPIPE"


def test_a_result_that_others_read_keeps_its_relu() -> None:
    def body(b: GraphBuilder) -> list[Tensor]:
        conv = b.op("Conv", b.input("x", (1, 4, 5, 5)), random(4, 4, 1, 1))
        return [b.op("Relu", conv), b.op("Tanh", conv)]

    result = fused(build(body), *RULES, generation="c220")
    assert result.operators == {"Conv": 1, "Relu": 1, "Tanh": 1}
    assert result.graph.nodes[0].attr("fixpipe") == "store"


def test_nothing_folds_behind_an_activation() -> None:
    def body(b: GraphBuilder) -> Tensor:
        conv = b.op("Conv", b.input("x", (1, 4, 5, 5)), random(4, 4, 1, 1), activation="relu")
        return b.op("Mul", conv, random(4, 1, 1))

    assert fused(build(body), AConv2dMulFusion()).reason == "the convolution ends in an activation"


def test_relu_inside_is_relu_behind() -> None:
    x, w = random(1, 4, 5, 5, dtype=np.float16), random(4, 4, 3, 3, dtype=np.float16)
    (inside,) = run("Conv", [x, w], activation="relu")
    (plain,) = run("Conv", [x, w])
    np.testing.assert_array_equal(inside, np.maximum(plain, np.float16(0)))


@pytest.mark.parametrize("body", [float_network, int8_network])
@pytest.mark.parametrize("chip", ["Ascend910B1", "Ascend310B1"])
def test_on_the_device_tasks_go_and_values_stay(body: Any, chip: str) -> None:
    graph: Graph = build(body)
    inputs = {"x": random(1, 32, 14, 14)}
    models = {
        s: asim.compile(graph, chip, fusion="graph", optimization_switch=f"{RULE.name}:{s}")
        for s in ("off", "on")
    }
    results = {state: asim.run(model, inputs) for state, model in models.items()}
    off, on = results["off"].outputs["out0"], results["on"].outputs["out0"]
    np.testing.assert_array_equal(off, on)
    assert len(models["on"].program.tasks) < len(models["off"].program.tasks)
    assert results["on"].duration_us < results["off"].duration_us
    assert all(
        tensor.dtype is not DType.INT32
        for tensor in models["on"].graph.tensors.values()
        if tensor.producer is not None
    )


@pytest.mark.slow
def test_yolov5s_sends_60_convolutions_through_fixpipe() -> None:
    yolov5s = asim.load("tests/data/models/yolov5s.onnx")
    model = asim.compile(yolov5s, "Ascend910B1", fusion="graph", options={"tiling": "closed_form"})
    assert model.fusion.totals("graph")[RULE.name] == (60, 60)
    assert model.fusion.totals("graph")[FUSION.name] == model.fusion.totals("graph")[REQUANT.name] == (60, 0)
    assert sum(node.attr("fixpipe") == "store" for node in model.graph.nodes) == 60
