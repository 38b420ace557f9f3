"""Fused operators from the graph to the device: compiled, simulated and computed on several chips, against
the unfused graph."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Graph
from ascendsim.passes.fusion.rules.json_rules import JsonRule, json_rules
from tests.support.edge_graphs import step_inputs, write_edges
from tests.support.fusing import build, random
from tests.support.gate import every

MODELS = Path(__file__).parents[1] / "data" / "models"
CHIPS = ("Ascend310", "Ascend310P3", "Ascend910B4")

pytestmark = pytest.mark.usefixtures("untimed_tiles")


@cache
def compiled(graph: Graph, soc: str, fusion: str, precision_mode: str = "force_fp16") -> asim.CompiledModel:
    return asim.compile(graph, soc=soc, fusion=fusion, precision_mode=precision_mode)


def largest_difference(graph: Graph, soc: str, values: str, precision_mode: str = "force_fp16") -> float:
    """Largest difference of outputs, fused against unfused, in terms of their range."""
    models = [compiled(graph, soc, fusion, precision_mode) for fusion in ("off", "graph")]
    inputs = asim.random_inputs(models[0])
    results = [asim.run(model, inputs, values=values).outputs for model in models]  # type: ignore[arg-type]
    worst = 0.0
    for name, old in results[0].items():
        wide = [array.astype(np.float64) for array in (old, results[1][name])]
        worst = max(worst, float(np.abs(wide[0] - wide[1]).max() / max(np.ptp(wide[0]), 1e-30)))
    return worst


@pytest.mark.parametrize("soc", every(3, CHIPS))
def test_bert_runs_faster_with_the_same_values(soc: str) -> None:
    graph = asim.load(MODELS / "bert_tiny_s64_traced.onnx", weights="random")
    unfused, fused = (asim.simulate(compiled(graph, soc, fusion)) for fusion in ("off", "graph"))
    assert fused.duration_us < unfused.duration_us
    assert largest_difference(graph, soc, "float32") <= 1e-5
    # 12 products and 2 Gelus of two layers, each rounded once less
    assert largest_difference(graph, soc, "device") <= 2**-8


def training_step(name: str) -> Graph:
    rule = next(rule for rule in json_rules() if rule.name == name)
    assert isinstance(rule, JsonRule)

    def body(b: GraphBuilder) -> list:  # type: ignore[type-arg]
        made = write_edges(b, rule.edges, step_inputs(b, rule.edges, (64, 96)))
        return [made[result] for _, result in rule.edges.results]

    return build(body)


@pytest.mark.parametrize("soc", CHIPS)
@pytest.mark.parametrize(
    "name", ["AdamApplyOneRuleCond1", "LambNextMVWithDecayRuleCond1", "LambUpdateWithLrRuleCond1"]
)
def test_optimizer_steps_run_as_one_task(name: str, soc: str) -> None:
    graph = training_step(name)
    before, after = (compiled(graph, soc, fusion, "must_keep_origin_dtype") for fusion in ("off", "graph"))
    inner = [node for node in after.graph.nodes if node.op_type not in ("Abs", "Cast", "TransData")]
    assert len(inner) == 1
    assert len(after.tasks_of(inner[0].name)) == 1
    assert asim.simulate(after).duration_us < asim.simulate(before).duration_us
    assert largest_difference(graph, soc, "float32", "must_keep_origin_dtype") == 0


@pytest.mark.parametrize("soc", CHIPS)
def test_the_mask_of_relu_saves_traffic_between_convolutions(soc: str) -> None:
    """Forward and backward through a Relu whose neighbours are convolutions, so that maps are blocked."""

    def body(b: GraphBuilder) -> list:  # type: ignore[type-arg]
        x, grad = b.input("x", (1, 32, 16, 16)), b.input("grad", (1, 32, 16, 16))
        weights = [b.constant(random(32, 32, 3, 3, seed=seed) / 16, "w") for seed in (1, 2, 3)]
        y = b.op("Relu", b.op("Conv", x, weights[0], pads=(1, 1, 1, 1)))
        back = b.op("Conv", grad, weights[1], pads=(1, 1, 1, 1))
        return [b.op("Conv", y, weights[2], pads=(1, 1, 1, 1)), b.op("ReluGrad", back, y, domain="ascend")]

    graph = build(body)
    assert {"ReluV2", "ReluGradV2"} <= {node.op_type for node in compiled(graph, soc, "graph").graph.nodes}
    assert largest_difference(graph, soc, "device") == 0
    assert largest_difference(graph, soc, "float32") == 0


def test_two_casts_of_the_device_graph_become_one() -> None:
    """float32 between an int32 input and force_fp16's float16 leaves Cast pairs only where the user's model
    has them."""

    def body(b: GraphBuilder) -> list:  # type: ignore[type-arg]
        x = b.input("x", (4, 16), DType.FLOAT16)
        return [b.op("Cast", b.op("Cast", x, to=DType.FLOAT32), to=DType.INT32)]

    graph = build(body)
    fused = compiled(graph, "Ascend310", "graph", "must_keep_origin_dtype")
    assert [node.op_type for node in fused.graph.nodes] == ["Cast"]
    assert fused.fusion.totals("graph")["CastCastFusionPass"] == (1, 1)
    assert largest_difference(graph, "Ascend310", "device", "must_keep_origin_dtype") == 0
