"""UB fusion on real networks: values bit by bit, bytes as predicted and never more, CANN's own counts of
YOLOv5s.

Programs, bytes and times are checked for every network on three chips. Values are computed for networks that
differ in what is fused (residual sums, depthwise and grouped convolutions, Sigmoid and Mul, Concat,
attention, LSTM), on one chip for each profile of limits: scopes, and so values, depend on nothing else of a
chip with one core type. The other networks are larger ones of the same kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

import ascendsim as asim
from ascendsim.compiler.model import CompiledModel
from ascendsim.passes.fusion.switches import Switches
from ascendsim.passes.ub import PROFILES, ub_passes
from tests.support.gate import case, in_turn
from tests.support.ub import Fused, check_programs, check_tasks, same_values

MODELS = Path(__file__).parents[1] / "data" / "models"
CHIPS = ("Ascend310", "Ascend310P3", "Ascend910A")
SMALL = ("lenet5", "bert_tiny_s64", "squeezenet1_1")
WITH_VALUES = (
    "resnet18",
    "se_resnet50",
    "squeezenet1_1",
    "googlenet",
    "densenet121",
    "ghostnet",
    "shufflenet_v1",
    "efficientnet_b1",
    "vit_b_16",
    "yolov5s",
    "llama_mini",
    "lstm_lm",
)
ALL = sorted(path.stem for path in MODELS.glob("*.onnx"))


BY_FORMULA = {"tiling": "closed_form"}  # the report counts bytes with these tilings, before tilings are timed


def compiled(name: str, chip: str, values: bool = False, options: Mapping[str, str] | None = None) -> Fused:
    """The network with graph fusion alone, and with UB fusion."""
    graph = asim.load(MODELS / f"{name}.onnx", weights="random" if values else "file")
    before, after = (
        asim.compile(graph, soc=chip, fusion=level, options=options) for level in ("graph", "ub")
    )
    return Fused(before, after, after.fusion)


def check_times(fused: Fused) -> None:
    """Fewer tasks, and no more time."""
    if fused.report.scopes:
        assert len(fused.after.program.tasks) < len(fused.before.program.tasks)
        assert asim.simulate(fused.after).duration_us < asim.simulate(fused.before).duration_us


@pytest.mark.parametrize(
    ("name", "chip"),
    [
        *in_turn(SMALL[:2], CHIPS),
        *(case(SMALL[2], chip, quick=False) for chip in CHIPS),
    ],
)
def test_small_networks_keep_their_values(name: str, chip: str) -> None:
    fused = compiled(name, chip, values=True, options=BY_FORMULA)
    check_programs(fused)
    check_tasks(fused)
    check_times(fused)
    assert same_values(fused)


@pytest.mark.slow
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", [name for name in ALL if name not in SMALL])
def test_all_networks_move_less_and_take_less_time(name: str, chip: str) -> None:
    check_programs(compiled(name, chip, options=BY_FORMULA))
    fused = compiled(name, chip)
    check_tasks(fused)
    check_times(fused)


@pytest.mark.slow
@pytest.mark.parametrize("chip", ["Ascend310", "Ascend310P3"])
@pytest.mark.parametrize("name", WITH_VALUES)
def test_networks_of_each_kind_keep_their_values(name: str, chip: str) -> None:
    assert same_values(compiled(name, chip, values=True))


@pytest.mark.slow
@pytest.mark.parametrize("chip", CHIPS)
def test_yolov5s_has_the_counts_of_cann(chip: str) -> None:
    by_formula = compiled("yolov5s", chip, options=BY_FORMULA)
    check_programs(by_formula)
    fused = by_formula if chip == CHIPS[0] else compiled("yolov5s", chip)
    check_tasks(fused)
    check_times(fused)
    assert fused.counts["TbeConvSigmoidMulQuantFusionPass"] == (57, 57)


def test_resnet50_runs_one_task_a_convolution() -> None:
    fused = compiled("resnet50", "Ascend310", options=BY_FORMULA)
    check_programs(fused)
    convolutions = [node.name for node in fused.after.graph.nodes if node.op_type == "Conv"]
    relus = [node.name for node in fused.after.graph.nodes if node.op_type == "Relu"]
    in_scopes = {name for scope in fused.report.scopes for name in scope.nodes}
    assert len(convolutions) == 53
    assert in_scopes.issuperset(relus)
    assert fused.counts == {"TbeConvDoubleInFusionPass": (16, 16), "TbeConvCommonRules0FusionPass": (33, 33)}


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_profiles_differ_and_all_keep_their_promise(profile: str) -> None:
    graph = asim.load(MODELS / "bert_tiny_s64.onnx", weights="random")
    before = asim.compile(graph, soc="Ascend310", fusion="graph", options=BY_FORMULA)
    after: CompiledModel = asim.compile(
        graph, soc="Ascend310", fusion="ub", options={"ub_limits": profile, **BY_FORMULA}
    )
    fused = Fused(before, after, after.fusion)
    check_programs(fused)
    assert same_values(fused)
    assert fused.counts
    assert set(fused.counts) <= set(ub_passes(PROFILES[profile], Switches()))
