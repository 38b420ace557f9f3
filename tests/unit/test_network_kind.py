"""Kinds of networks, read from their operators."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.api import network_kind as kinds
from ascendsim.api.network_kind import network_kind
from ascendsim.graph.ir import Graph
from ascendsim.ops import default_opset

NETWORKS = [  # the gate takes the first of each
    (kinds.PLAIN, "alexnet vgg16 vgg16_bn lenet5"),
    (kinds.RESIDUAL, "resnet18 resnet50_folded wide_resnet50_2"),
    (kinds.BRANCHES, "googlenet squeezenet1_1 densenet121"),
    (kinds.DEPTHWISE, "mobilenet_v1 mnasnet1_0"),
    (kinds.GROUPED, "regnetx_1_6gf resnext50_32x4d shufflenet_v1"),
    (kinds.SE, "se_resnet50 se_resnext50_32x4d"),
    (kinds.DEPTHWISE_SE, "efficientnet_b1 mobilenet_v3_small ghostnet"),
    (kinds.DENSE, "yolov3 yolov5s unet"),
    (kinds.VISION, "vit_s_16 deit_small swin_t"),
    (kinds.TEXT, "bert_tiny_s64 bert_tiny_s64_traced"),
    (kinds.LANGUAGE_MODEL, "llama_mini"),
    (kinds.RECURRENT, "lstm_lm"),
]


@pytest.mark.parametrize(("kind", "networks"), NETWORKS)
def test_real_networks(kind: str, networks: str, models_dir: Path) -> None:
    check(kind, networks.split()[:1], models_dir)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "networks"), NETWORKS)
def test_more_real_networks(kind: str, networks: str, models_dir: Path) -> None:
    check(kind, networks.split()[1:], models_dir)


def check(kind: str, networks: Sequence[str], models_dir: Path) -> None:
    for name in networks:
        graph = asim.load(models_dir / f"{name}.onnx", batch=1)
        graph.name = "network"  # it plays no part
        assert network_kind(graph, default_opset()) == kind, name


def _lone(op_type: str, **shapes: tuple[int, ...]) -> Graph:
    builder = asim.GraphBuilder()
    tensors = [builder.input(name, shape) for name, shape in shapes.items()]
    builder.output(builder.op(op_type, *tensors), "y")
    return builder.build()


def test_a_lone_operator_is_no_kind_of_network() -> None:
    assert network_kind(_lone("MatMul", a=(16, 16), b=(16, 16)), default_opset()) == kinds.OTHER
    assert network_kind(_lone("Relu", x=(1, 3, 8, 8)), default_opset()) == kinds.OTHER


def test_training_steps_and_quantised_networks_are_kinds_of_their_own(models_dir: Path) -> None:
    graph = asim.load(models_dir / "lenet5.onnx", weights="random")
    step = asim.training_step(graph, loss="cross_entropy")
    assert network_kind(step.graph, default_opset()) == kinds.TRAINING
    images = np.random.default_rng(1).normal(size=(4, 1, 28, 28)).astype(np.float32)
    small = asim.quantize(graph, images).graph
    assert network_kind(small, default_opset()) == kinds.QUANTISED
