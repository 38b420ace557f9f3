"""Rules around convolutions, poolings, concatenations and quantisation, all together, on the model
structures."""

from __future__ import annotations

from pathlib import Path

import pytest

import ascendsim as asim
from ascendsim.graph.ir import Graph
from ascendsim.passes.fusion.flow import fuse_graph
from ascendsim.passes.fusion.order import in_order
from ascendsim.passes.fusion.report import FusionReport
from ascendsim.passes.fusion.rule import FusionRule
from ascendsim.passes.fusion.rules import all_rules
from ascendsim.passes.fusion.switches import Switches
from tests.support.fusing import CHANGED_ALGEBRA, Fused, context, fused
from tests.support.gate import every

pytestmark = pytest.mark.usefixtures("untimed_tiles")

MODELS = Path("tests/data/models")
QUICK = ("lenet5", "squeezenet1_1", "ghostnet")
PREFIXES = ("batchnorm_", "concat_", "conv_", "fixpipe_", "pad_", "pool_", "quant_", "split_")


def mine() -> tuple[FusionRule, ...]:
    """The rules of these families in CANN's order."""
    rules = [rule for rule in all_rules() if type(rule).__module__.rpartition(".")[2].startswith(PREFIXES)]
    return in_order(rules, Switches())


def on_model(name: str) -> tuple[Graph, Fused]:
    graph = asim.load(MODELS / f"{name}.onnx", weights="random")
    return graph, fused(graph, *mine(), generation="c220")


@pytest.mark.parametrize("name", QUICK)
def test_values_stay_and_a_second_run_changes_nothing(name: str) -> None:
    graph, result = on_model(name)
    assert result.error <= CHANGED_ALGEBRA
    assert len(result.graph) < len(graph)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [path.stem for path in sorted(MODELS.glob("*.onnx")) if path.stem not in QUICK]
)
def test_values_stay_on_every_model(name: str) -> None:
    _, result = on_model(name)
    assert result.error <= CHANGED_ALGEBRA


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("resnet50", {"ConvBatchnormFusionPass": (53, 53), "Globalavgpoolpass": (1, 1)}),
        ("googlenet", {"ConvBatchnormFusionPass": (57, 57), "ConvConcatFusionPass": (9, 9)}),
        ("squeezenet1_1", {"ConvConcatFusionPass": (8, 8)}),
        ("mobilenet_v1", {"ConvBatchnormFusionPass": (27, 27)}),
        (
            "densenet121",
            {"ConvBatchnormFusionPass": (59, 59), "HostBNFusionPass": (62, 62), "AvgPoolFusionPass": (3, 3)},
        ),
        (
            "yolov5s",
            {
                "AConv2dMulFusion": (57, 0),
                "ConvToFullyConnectionFusionPass": (60, 0),
                "ConvConcatFusionPass": (14, 0),
                "SplitConvConcatFusionPass": (14, 0),
            },
        ),
    ],
)
def test_counts(name: str, wanted: dict[str, tuple[int, int]]) -> None:
    report = FusionReport()
    fuse_graph(asim.load(MODELS / f"{name}.onnx"), all_rules(), context(), Switches(), report)
    totals = report.totals("graph")
    assert {rule: totals[rule] for rule in wanted} == wanted


@pytest.mark.parametrize("name", every(2, ["resnet18", "squeezenet1_1"]))
def test_networks_without_weights_are_timed_fused(name: str) -> None:
    graph = asim.load(MODELS / f"{name}.onnx")
    assert not all(tensor.constant.available for tensor in graph.constants if tensor.constant is not None)
    plain, result = (
        asim.simulate(asim.compile(graph, "Ascend310", fusion=level)) for level in ("off", "graph")
    )
    assert result.duration_us < plain.duration_us
