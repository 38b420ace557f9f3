"""The algebraic fusion rules on real networks: values, idempotence, and what they find there."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Graph
from ascendsim.graph.text import to_text
from ascendsim.graph.verify import verify
from ascendsim.ops import default_opset
from ascendsim.passes.fusion.engine import run_rules
from ascendsim.passes.fusion.order import in_order, phase_of
from ascendsim.passes.fusion.report import FusionReport
from ascendsim.passes.fusion.rule import FusionRule
from ascendsim.passes.fusion.rules import all_rules
from ascendsim.passes.fusion.switches import Switches
from ascendsim.runtime.evaluate import random_inputs
from tests.support.evaluate import evaluate
from tests.support.fusing import CHANGED_ALGEBRA, context

MODELS = Path(__file__).parents[1] / "data" / "models"
MODULES = frozenset(
    [
        "batch_matmul",
        "casts",
        "gelu",
        "gemm_to_matmul",
        "layer_norm",
        "layer_norm_grad",
        "matmul_bias",
        "mul_add",
        "mul_maximum",
        "realdiv_muls",
        "reduce_mean",
        "softmax",
        "softmax_grad",
        "square",
        "squeeze_unsqueeze",
        "swish",
        "transpose_reshape",
        "json_rules",
    ]
)
QUICK = ("bert_tiny_s64_traced", "lenet5")
SLOW = sorted(path.stem for path in MODELS.glob("*.onnx") if path.stem not in QUICK)


@cache
def rules() -> tuple[FusionRule, ...]:
    """All rules of these families for the first round, Swish included, in CANN's order; but GemmSplit, which
    takes apart what MatMulBiasAdd joins."""
    found = [
        rule
        for rule in all_rules()
        if type(rule).__module__.rpartition(".")[2] in MODULES and rule.name != "GemmSplitFusionPass"
    ]
    ordered = in_order(found, Switches())
    return tuple(rule for rule in ordered if not phase_of(rule).second_round)


def load(name: str) -> Graph:
    return asim.load(MODELS / f"{name}.onnx", weights="random")


def apply(graph: Graph, these: Sequence[FusionRule], generation: str = "v100") -> FusionReport:
    report = FusionReport()
    run_rules(graph, these, context(generation), report)
    return report


def counts(name: str, *these: str) -> dict[str, tuple[int, int]]:
    """Counts of rules by name, without Swish."""
    chosen = [rule for rule in rules() if rule.name in these]
    return apply(load(name), chosen).totals("graph")


def keeps_values(name: str) -> None:
    before = load(name)
    after = copy_graph(before)
    first = apply(after, rules())
    verify(after)
    text = to_text(after)
    again = apply(after, rules())
    assert to_text(after) == text
    assert not any(record.effected for record in again.records)
    if not any(
        record.effected for record in first.records
    ):  # many convolutional networks hold nothing for these rules
        assert text == to_text(before)
        return
    inputs = random_inputs(before)
    for old, new in zip(
        evaluate(before, default_opset(), inputs), evaluate(after, default_opset(), inputs), strict=True
    ):
        assert (old.shape, old.dtype) == (new.shape, new.dtype)
        wide = [array.astype(np.float64) for array in (old, new)]
        assert np.abs(wide[0] - wide[1]).max() <= CHANGED_ALGEBRA * max(np.ptp(wide[0]), 1e-30)


@pytest.mark.parametrize("name", QUICK)
def test_values_of_small_networks_stay(name: str) -> None:
    keeps_values(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_values_of_all_networks_stay(name: str) -> None:
    keeps_values(name)


def test_bert_gets_its_gelu_and_its_biases() -> None:
    """Two layers: Gelu in its form with erf, six products with bias each; its five LayerNormalization nodes
    are whole from the start."""
    graph = load("bert_tiny_s64_traced")
    report = apply(graph, rules())
    totals = report.totals("graph")
    assert totals["GeluONNXFusionPass"] == (2, 2)
    assert totals["MatMulBiasAddFusionPass"] == (12, 12)
    kinds = [node.op_type for node in graph.nodes]
    assert [kinds.count(kind) for kind in ("Erf", "Gelu", "LayerNormalization", "BatchMatMul")] == [
        0,
        2,
        5,
        12,
    ]


def test_llama_gets_the_parts_of_its_rms_norm_that_cann_has_rules_for() -> None:
    """CANN's table has no pass that makes RmsNorm of its parts; the powers become squares."""
    graph = load("llama_mini")
    totals = apply(graph, rules()).totals("graph")
    assert totals["Pow2SquareFusionPass"] == (9, 9)
    assert totals["SwishFusionPass"] == (4, 4)
    assert "Pow" not in {node.op_type for node in graph.nodes}


@pytest.mark.parametrize(("name", "swishes", "left"), [("efficientnet_b1", 69, 23), ("yolov5s", 57, 3)])
def test_swish_is_found_where_a_switch_asks_for_it(name: str, swishes: int, left: int) -> None:
    """What is left are gates of squeeze-and-excitation, and the scores of the heads."""
    graph = load(name)
    assert apply(graph, rules()).totals("graph")["SwishFusionPass"] == (swishes, swishes)
    assert sum(node.op_type == "Sigmoid" for node in graph.nodes) == left


def test_swish_is_off_unless_a_switch_names_it(tmp_path: Path) -> None:
    graph = load("lenet5")
    assert asim.compile(graph, fusion="graph").fusion.switched_off["SwishFusionPass"]
    switch = tmp_path / "fusion_switch.cfg"
    switch.write_text('{"Switch": {"GraphFusion": {"SwishFusionPass": "on"}}}')
    assert (
        "SwishFusionPass"
        not in asim.compile(graph, fusion="graph", fusion_switch_file=switch).fusion.switched_off
    )


def test_counts_on_yolov5s_are_those_of_cann_up_to_its_decoder() -> None:
    """CANN counted 69/0, 17/0, 3/3 and 3/0 on a YOLOv5s with decoder (tests/data/fusion); the decoder adds
    12, 3 and 3.

    The three transposes behind reshapes stand at the heads in both: their last dimensions are no multiples of
    16.
    """
    passes = ("MulSquareFusionPass", "MulAddFusionPass", "Pow2SquareFusionPass", "ReshapeTransposeFusionPass")
    assert counts("yolov5s", *passes) == {
        "MulSquareFusionPass": (57, 0),
        "MulAddFusionPass": (14, 0),
        "ReshapeTransposeFusionPass": (3, 0),
    }
