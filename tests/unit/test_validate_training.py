"""Training steps against published measurements."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import ascendsim as asim
from ascendsim.cli.main import main
from ascendsim.core.dtypes import DType
from ascendsim.validate import training
from ascendsim.validate.step_loops import SUNK, Loop, drop_gradients
from ascendsim.validate.training import (
    StepPoint,
    measured_profiles,
    run_step,
    simulated_profile,
    training_points,
    training_predictions,
    unusable_steps,
)

pytestmark = pytest.mark.usefixtures("untimed_tiles")


def _small(batch: int, group: str = "910A", loop: Loop = SUNK) -> StepPoint:
    return StepPoint(group, "Ascend910A", "lenet5", "lenet5.onnx", batch, 1e4, False, loop=loop)


def test_one_device_counts_before_eight() -> None:
    points = {(point.model, point.batch): point.throughput for point in training_points()}
    assert points["resnet50", 256] == 2115  # rows of eight devices: 2075 and 2169.5 for each
    assert points["densenet121", 32] == 760
    assert points["resnet101", 32] == 1056.1  # eight devices only
    assert len(points) == 10


def test_eager_steps_stand_apart() -> None:
    both = training_points(("910A", "910A eager"))
    eager = {(point.model, point.batch): point for point in both if point.group == "910A eager"}
    assert eager["mobilenet_v1", 256].throughput == pytest.approx((2284.98 + 2401.673) / 2)
    assert len(both) == len(training_points()) + len(eager)
    others = {(point.model, point.batch): point.file for point in both if point.file != f"{point.model}.onnx"}
    assert others == {
        ("vgg16", 64): "published/vgg16_bn.onnx",
        ("densenet121", 32): "published/densenet121_mindspore.onnx",
        ("densenet121", 256): "published/densenet121_pairs.onnx",
        ("mobilenet_v2", 512): "published/mobilenet_v2.onnx",
        ("mobilenet_v3_large", 128): "published/mobilenet_v3_large.onnx",
        ("resnet50_v1b", 256): "resnet50.onnx",
        ("resnet50_v1c", 256): "published/resnet50_v1c.onnx",
        ("resnet50_v1d", 256): "published/resnet50_v1d.onnx",
    }
    assert eager["resnet50", 512].throughput == 1680  # the other row has parts of its loss on the host


def test_steps_that_are_not_scored_say_why() -> None:
    eager = {(one.network, one.throughput): one.why for one in unusable_steps(("910A eager",))}
    assert {"alexnet", "resnet50", "wide_resnet101_2"} < {name for name, _ in eager}
    assert "times the 8" in eager["alexnet", 9408.206]  # 1,176 images a second by itself
    assert "four workers" in eager["wide_resnet101_2", 465.977]
    assert [one.network for one in unusable_steps()] == ["squeezenet1_0", "unet"]
    assert ("alexnet", 128) not in {(point.model, point.batch) for point in training_points(("910A eager",))}


def test_densenet_of_both_zoos_joins_maps_in_pairs(models_dir: Path) -> None:
    """torchvision's newest has one Concat of all maps so far before each layer."""
    for name, pools in (("mindspore", {"MaxPool": 4}), ("pairs", {"MaxPool": 1, "AveragePool": 3})):
        graph = asim.load(models_dir / "published" / f"densenet121_{name}.onnx")
        joined = [node for node in graph.nodes if node.op_type == "Concat" and len(node.inputs) > 1]
        assert {len(node.inputs) for node in joined} == {2}
        assert len(joined) == 58
        assert joined[-1].output.shape == (1, 1024, 7, 7)
        assert {kind: sum(node.op_type == kind for node in graph.nodes) for kind in pools} == pools


def test_vgg16_of_64_images_has_normalisation_and_no_biases(models_dir: Path) -> None:
    """As MindSpore's zoo trains it on CIFAR-10."""
    graph = asim.load(models_dir / "published" / "vgg16_bn.onnx")
    kinds = Counter(node.op_type for node in graph.nodes)
    assert (kinds["Conv"], kinds["BatchNormalization"]) == (13, 13)
    assert all(len(node.inputs) == 2 for node in graph.nodes if node.op_type == "Conv")
    assert graph.outputs[0].shape == (1, 10)


def test_profiles_have_the_published_totals() -> None:
    profiles = measured_profiles()
    assert [profile.batch for profile in profiles] == [16, 32, 64]
    totals = [profile.total_us / 1e3 for profile in profiles]
    assert totals == pytest.approx([21.2, 28.8, 47.3], abs=0.05)
    assert all(profile.kinds["BNTrainingUpdateGrad"][0] == 53 for profile in profiles)
    transformer = measured_profiles("vit")
    assert [profile.batch for profile in transformer] == [64, 128, 256]
    totals = [profile.total_us / 1e3 for profile in transformer]
    assert totals == pytest.approx([94.0, 138.9, 251.6], abs=0.1)


def test_a_step_is_simulated(models_dir: Path) -> None:
    points = (_small(16), _small(256))
    own, base = zip(*training_predictions(points, models_dir), strict=True)
    assert 1 < own[1].throughput / own[0].throughput < 16
    result, roofline = run_step(models_dir / "lenet5.onnx", 16, "Ascend910A")
    assert own[0].throughput == pytest.approx(16e6 / result.duration_us)
    assert base[0].throughput == pytest.approx(16e6 / roofline)
    assert {row[0] for row in result.training_shares()} >= {"forward", "backward", "update"}


def test_steps_of_the_eager_group_are_launched_operator_by_operator(models_dir: Path) -> None:
    loop = Loop(eager=True)
    ((own, _),) = training_predictions([_small(16, training.EAGER, loop)], models_dir)
    result, _ = run_step(models_dir / "lenet5.onnx", 16, "Ascend910A", loop)
    assert own.throughput == pytest.approx(16e6 / result.duration_us)
    assert result.schedule == "eager"
    assert not any(len(view.nodes) > 1 for view in result.profile.tasks)


def test_every_eager_step_says_how_its_script_runs_it() -> None:
    loops = {(point.model, point.batch): point.loop for point in training_points(("910A eager",))}
    assert all(loop.eager and "loss" in loop.waits for loop in loops.values())
    assert [model for (model, _), loop in loops.items() if not loop.combined] == ["googlenet"]
    assert [model for (model, _), loop in loops.items() if loop.apart] == ["wide_resnet50_2"]
    assert loops["resnet18", 256] == Loop(
        True, "pinned", bytes=True, combined=True, half=True, waits=("loss",), accuracy=True, averaged=True
    )
    assert loops["resnet50_v1b", 256].waits == ("loss", "backward")
    assert loops["mobilenet_v3_large", 128].waits == ("loss", "accuracy_1", "accuracy_5")
    assert not loops["vgg16", 256].half
    assert loops["wide_resnet50_2", 256].memory == "pageable"
    assert ("se_resnet50", 128) not in loops  # who launches shares his core with who loads images
    assert {replace(point.loop, step="") for point in training_points()} == {SUNK}


def _kinds(models_dir: Path, loop: Loop) -> tuple[Counter[str], float]:
    result, _ = run_step(models_dir / "lenet5.onnx", 64, "Ascend910A", loop)
    return Counter(node.op_type for view in result.profile.tasks for node in view.nodes), result.duration_us


def test_fused_optimisers_save_launches(models_dir: Path) -> None:
    (apart, slow), (whole, quick) = (
        _kinds(models_dir, Loop(eager=True, combined=combined)) for combined in (False, True)
    )
    assert apart["Sub"] == whole["AccumulateGrad"] == 10
    assert whole["Sub"] == 1
    assert whole.total() < apart.total()
    assert quick < slow


def test_images_of_bytes_are_copied_and_made_numbers_of(models_dir: Path) -> None:
    plain, _ = _kinds(models_dir, Loop(eager=True, memory="pinned"))
    raw, _ = _kinds(models_dir, Loop(eager=True, memory="pinned", bytes=True))
    assert raw - plain == Counter(Cast=1, Sub=1, Div=1)
    result, _ = run_step(models_dir / "lenet5.onnx", 64, "Ascend910A", Loop(True, "pinned", True))
    copies = [view for view in result.profile.tasks if view.nodes[0].op_type == "MemcpyAsync"]
    images = next(view for view in copies if "input" in view.nodes[0].name)
    assert images.nodes[0].required(0).logical_bytes == 64 * 28 * 28  # a byte each


def test_nobody_takes_gradients_out_of_a_step(models_dir: Path) -> None:
    """Filters' gradients would have to leave their format for it."""
    graph = asim.load(models_dir / "resnet18.onnx", batch=32)
    step = asim.training_step(graph, loss="cross_entropy", optimizer=training.MOMENTUM)
    turned = []
    for drop in (False, True):
        if drop:
            drop_gradients(step.graph)
        model = asim.compile(step.graph, "Ascend910A", precision_mode="allow_mix_precision")
        turned.append(sum(node.op_type == "TransData" for node in model.graph.nodes))
    assert turned[0] - turned[1] == 20  # convolutions
    assert {f"{name}.updated" for name in step.parameters} <= {tensor.name for tensor in step.graph.outputs}


def test_a_profile_names_what_is_fused(models_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "structure", lambda _file, folder: folder / "lenet5.onnx")
    profile = simulated_profile(4, models_dir)
    fused = [name for name in profile.kinds if name.startswith("FusionOp_")]
    assert fused
    assert profile.kinds["Conv2DBackpropFilter"][0] >= 1
    result, _ = run_step(models_dir / "lenet5.onnx", 4, training.PROFILED_SOC)
    assert profile.total_us == pytest.approx(sum(result.profile.us(v.duration) for v in result.profile.tasks))
    assert sum(count for count, _ in profile.kinds.values()) == len(result.profile.tasks)


def test_the_command_prints_scores(
    models_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(training, "training_points", lambda _groups: (_small(8), _small(64)))
    table = tmp_path / "training.csv"
    assert main(["validate", "training", "--models", str(models_dir), "--csv", str(table)]) == 0
    assert "Spearman" in capsys.readouterr().out
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [row["batch"] for row in rows] == ["8", "64"]
    assert [float(row["error"]) for row in rows] == pytest.approx(
        [float(row["simulated_per_s"]) / 1e4 - 1 for row in rows], abs=1e-3
    )


def test_bad_options(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["validate", "training", "--networks", "resnet51"]) == 2
    assert "did you mean resnet50" in capsys.readouterr().err
    assert main(["validate", "training", "--groups", "910"]) == 2
    assert main(["validate", "training", "--max_batch", "1"]) == 2
    assert main(["validate", "training", "--models", str(tmp_path)]) == 2
    assert "--models" in capsys.readouterr().err


def test_a_network_in_half_precision_keeps_its_weights_and_their_update(models_dir: Path) -> None:
    loop = Loop(eager=True, combined=True, half=True)
    result, _ = run_step(models_dir / "se_resnet50.onnx", 2, "Ascend910A", loop)
    nodes = [node for view in result.profile.tasks for node in view.nodes]
    maps = [node for node in nodes if node.op_type == "Sigmoid"]  # mixed precision has them in float32
    assert {node.output.element_type for node in maps} == {DType.FLOAT16}
    update = [node for node in nodes if node.name.startswith("Optimizer/")]
    assert {node.output.element_type for node in update} == {DType.FLOAT32}
