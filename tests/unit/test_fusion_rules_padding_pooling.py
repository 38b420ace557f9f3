"""Padding before windows, average and global pooling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.formats import Format
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Tensor
from ascendsim.passes.fusion.rules.conv.pad_conv import PadConv2dFusionPass, PadDepthwiseConv2dFusionPass
from ascendsim.passes.fusion.rules.pooling.pad_pool import PadMaxPoolFusionPass
from ascendsim.passes.fusion.rules.pooling.pool_average import AvgPoolFusionPass, PoolingFusionPass
from ascendsim.passes.fusion.rules.pooling.pool_global import Globalavgpoolpass
from tests.support.fusing import CHANGED_ALGEBRA, EXACT, build, fused, random

AROUND = (0, 0, 1, 2, 0, 0, 3, 0)  # one row above, two columns before, three rows below


def padded(
    b: GraphBuilder, pads: Any = AROUND, value: Any = None, relu: bool = False, **attributes: Any
) -> Tensor:
    x = b.input("x", (2, 4, 7, 7))
    fill = None if value is None else np.float32(value)
    return b.op(
        "Pad",
        b.op("Relu", x) if relu else x,
        list(pads),
        None if fill is None else np.asarray(fill),
        **attributes,
    )


def reason(body: Any, rule: Any) -> str:
    result = fused(build(body), rule)
    assert result.effected(rule.name) == 0
    assert result.error == EXACT
    return result.reason


@pytest.mark.parametrize("value", [None, 0.0])
@pytest.mark.parametrize("own", [{}, {"pads": (1, 0, 0, 1)}, {"auto_pad": "VALID"}])
@pytest.mark.parametrize("group", [1, 4])
def test_zeros_move_into_the_convolution(value: float | None, own: dict[str, Any], group: int) -> None:
    rule = PadConv2dFusionPass() if group == 1 else PadDepthwiseConv2dFusionPass()
    other = PadDepthwiseConv2dFusionPass() if group == 1 else PadConv2dFusionPass()
    graph = build(
        lambda b: b.op(
            "Conv", padded(b, value=value), random(8, 4 // group, 3, 3), group=group, strides=(2, 1), **own
        )
    )
    result = fused(graph, rule, other)
    assert result.operators == {"Conv": 1}
    assert result.counts == {rule.name: (1, 1)}
    assert result.error == EXACT


def test_padding_by_named_axes() -> None:
    def body(b: GraphBuilder) -> Tensor:
        x = b.op("Pad", b.input("x", (1, 4, 7, 7)), [2, 1], None, [-1])
        return b.op("Conv", x, random(8, 4, 3, 3))

    result = fused(build(body), PadConv2dFusionPass())
    assert result.graph.nodes[0].attr("pads") == (0, 2, 0, 1)
    assert result.error == EXACT


def test_other_readers_keep_the_padding() -> None:
    def body(b: GraphBuilder) -> list[Tensor]:
        x = padded(b)
        return [b.op("Conv", x, random(8, 4, 3, 3)), b.op("Relu", x)]

    result = fused(build(body), PadConv2dFusionPass())
    assert result.operators == {"Pad": 1, "Conv": 1, "Relu": 1}
    assert result.error == EXACT


def test_refusals_of_padding() -> None:
    def conv(**more: Any) -> Any:
        own = more.pop("own", {})
        return lambda b: b.op("Conv", padded(b, **more), random(8, 4, 3, 3), **own)

    rule = PadConv2dFusionPass()
    assert reason(conv(value=1.0), rule) == "the padding is not zero"
    assert reason(conv(mode="edge"), rule) == "the padding mode is edge"
    assert reason(conv(pads=(0, 0, -1, 0, 0, 0, 1, 1)), rule) == "the padding cuts"
    assert (
        reason(conv(pads=(1, 0, 0, 0, 0, 0, 0, 0)), rule) == "the padding is not along rows and columns alone"
    )
    assert reason(conv(pads=(0, 0, 0, 256, 0, 0, 0, 0)), rule) == "the padding is wider than 255"
    assert (
        reason(conv(own={"auto_pad": "SAME_UPPER"}), rule)
        == "the windows choose their padding by the input's size"
    )


@pytest.mark.parametrize(
    ("value", "relu"), [(-np.inf, False), (np.finfo(np.float32).min, False), (0.0, True), (None, True)]
)
def test_padding_that_never_wins_moves_into_the_pooling(value: float | None, relu: bool) -> None:
    graph = build(
        lambda b: b.op(
            "MaxPool", padded(b, (0, 0, 1, 1, 0, 0, 1, 0), value, relu), kernel_shape=(3, 3), strides=(2, 2)
        )
    )
    result = fused(graph, PadMaxPoolFusionPass())
    assert "Pad" not in result.operators
    assert result.error == EXACT


def test_clipped_values_are_never_negative() -> None:
    def body(b: GraphBuilder, low: float) -> Tensor:
        x = b.op("Clip", b.input("x", (1, 4, 7, 7)), np.asarray(low, np.float32), np.asarray(6, np.float32))
        return b.op("MaxPool", b.op("Pad", x, [0, 0, 1, 1, 0, 0, 1, 1]), kernel_shape=(3, 3))

    assert fused(build(lambda b: body(b, 0.0)), PadMaxPoolFusionPass()).operators == {"Clip": 1, "MaxPool": 1}
    assert (
        reason(lambda b: body(b, -1.0), PadMaxPoolFusionPass()) == "the padding may be larger than an element"
    )


def test_refusals_of_padding_before_a_pooling() -> None:
    def pool(**more: Any) -> Any:
        own = {"kernel_shape": (3, 3), **more.pop("own", {})}
        return lambda b: b.op("MaxPool", padded(b, **{"value": -np.inf, **more}), **own)

    rule = PadMaxPoolFusionPass()
    assert reason(pool(value=0.0), rule) == "the padding may be larger than an element"
    assert (
        reason(pool(value=-np.inf, own={"ceil_mode": 1}), rule)
        == "the pooling gives positions, or rounds its size up"
    )
    assert (
        reason(pool(pads=(0, 0, 3, 0, 0, 0, 0, 0), value=0.0, relu=True), rule)
        == "a window holds padding alone"
    )


@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize(
    "own",
    [
        {"kernel_shape": (2, 2), "strides": (2, 2)},
        {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)},
        {"kernel_shape": (3, 2), "strides": (2, 1), "pads": (0, 1, 2, 0)},
        {"kernel_shape": (3, 3), "strides": (2, 2), "ceil_mode": 1},
        {"kernel_shape": (3, 3), "strides": (3, 3), "ceil_mode": 1, "pads": (1, 0, 1, 0)},
        {"kernel_shape": (4, 3), "strides": (2, 2), "auto_pad": "SAME_UPPER"},
        {"kernel_shape": (4, 3), "strides": (3, 2), "auto_pad": "SAME_LOWER"},
        {"kernel_shape": (2, 3), "dilations": (3, 1), "auto_pad": "VALID"},
    ],
)
def test_average_pooling_is_a_depthwise_convolution(include: int, own: dict[str, Any]) -> None:
    graph = build(lambda b: b.op("AveragePool", b.input("x", (2, 5, 8, 9)), count_include_pad=include, **own))
    result = fused(graph, AvgPoolFusionPass(), PoolingFusionPass())
    assert "AveragePool" not in result.operators
    assert result.operators["Conv"] == 1
    assert result.graph.nodes[0].attr("group") == 5
    assert result.counts == {"AvgPoolFusionPass": (1, 1)}
    assert result.error <= CHANGED_ALGEBRA


def test_factors_only_where_counts_differ() -> None:
    inner = build(
        lambda b: b.op("AveragePool", b.input("x", (1, 4, 8, 8)), kernel_shape=(2, 2), strides=(2, 2))
    )
    assert fused(inner, AvgPoolFusionPass()).operators == {"Conv": 1}
    border = build(
        lambda b: b.op("AveragePool", b.input("x", (1, 4, 8, 8)), kernel_shape=(3, 3), pads=(1, 1, 1, 1))
    )
    assert fused(border, AvgPoolFusionPass()).operators == {"Conv": 1, "Mul": 1}


def test_factors_lie_like_the_map_that_they_scale() -> None:
    """They are as large as the map (batch and channels), so that nothing is turned between convolutions."""

    def body(b: GraphBuilder) -> Tensor:
        x = b.op("Conv", b.input("x", (2, 16, 8, 8)), random(32, 16, 1, 1))
        pool = b.op("AveragePool", x, kernel_shape=(3, 3), pads=(1, 1, 1, 1))
        return b.op("Conv", pool, random(16, 32, 1, 1))

    graph = asim.compile(build(body), "Ascend310", options={"tiling": "closed_form"}).graph
    (product,) = [node for node in graph.nodes if node.op_type == "Mul"]
    assert {tensor.static_shape for tensor in product.inputs if tensor} == {(2, 32, 8, 8)}
    assert (product.required(0).format, product.output.format) == (Format.NC1HWC0,) * 2
    turned = [node.attr("dst_format") for node in graph.nodes if node.op_type == "TransData"]
    assert turned == ["NC1HWC0", "ND"]


def test_poolings_of_caffe_go_to_their_own_pass() -> None:
    graph = build(lambda b: b.op("AveragePool", b.input("x", (1, 4, 8, 8)), kernel_shape=(2, 2)))
    graph.nodes[0].origin["framework"] = "caffe"
    result = fused(graph, AvgPoolFusionPass(), PoolingFusionPass())
    assert result.counts == {"PoolingFusionPass": (1, 1)}
    assert result.graph.nodes[0].origin["framework"] == "caffe"


def test_refusals_of_average_pooling() -> None:
    rule = AvgPoolFusionPass()
    assert (
        reason(lambda b: b.op("AveragePool", b.input("x", (1, 4, 8, 8)), kernel_shape=(1, 1)), rule)
        == "a window is one element"
    )
    volume = lambda b: b.op("AveragePool", b.input("x", (1, 4, 8, 8, 8)), kernel_shape=(2, 2, 2))
    assert reason(volume, rule) == "the input is not a static map of floats"
    large = lambda b: b.op("AveragePool", b.input("x", (1, 1, 1, 300)), kernel_shape=(1, 256))
    assert reason(large, rule) == "a window or its padding is larger than 255"
    outside = lambda b: b.op(
        "AveragePool", b.input("x", (1, 1, 4, 4)), kernel_shape=(2, 2), pads=(2, 0, 0, 0)
    )
    assert reason(outside, rule) == "a window holds padding alone"


@pytest.mark.parametrize("shape", [(2, 4, 7, 7), (2, 4, 9), (1, 4, 3, 4, 5)])
def test_global_average_is_a_mean(shape: tuple[int, ...]) -> None:
    result = fused(build(lambda b: b.op("GlobalAveragePool", b.input("x", shape))), Globalavgpoolpass())
    assert result.operators == {"ReduceMean": 1}
    assert result.error <= CHANGED_ALGEBRA
