"""What scripts do in a training step beside the network."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.api.result import Result
from ascendsim.graph.ir import Graph
from ascendsim.training.optimizers import Momentum
from ascendsim.training.step import TrainingStep
from ascendsim.validate.step_loops import (
    BACKWARD,
    Loop,
    average_accuracy,
    measure_accuracy,
    unscale_apart,
    watch_overflow,
)
from ascendsim.validate.training import run_step

CHIP, IMAGES = "Ascend910A", 16


def lenet(models_dir: Path) -> Graph:
    return asim.load(models_dir / "lenet5.onnx", batch=IMAGES, weights="random")


def step_of(graph: Graph) -> TrainingStep:
    return asim.training_step(graph, loss="cross_entropy", optimizer=Momentum(0.9), combined=True)


def given(step: TrainingStep) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    images = rng.standard_normal((IMAGES, 1, 28, 28)).astype(np.float32)
    return {**step.initial(), "input": images, "labels": rng.integers(0, 10, IMAGES).astype(np.int32)}


def values(step: TrainingStep, more: Mapping[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
    feed = {**given(step), "learning_rate": np.full((), 0.1, np.float32), **(more or {})}
    outputs = asim.run(asim.compile(step.graph, CHIP, schedule="eager"), feed).outputs
    assert outputs is not None
    return dict(outputs)


def test_accuracy_is_the_share_of_right_guesses(models_dir: Path) -> None:
    graph = lenet(models_dir)
    step = step_of(graph)
    measure_accuracy(step.graph, graph.outputs[0].name)
    found = values(step)
    fed = given(step)
    plain = asim.run(asim.compile(graph, CHIP), {"input": fed["input"]}).outputs
    assert plain is not None
    order = np.argsort(-next(iter(plain.values())).astype(np.float64), axis=1, kind="stable")
    for most in (1, 5):
        right = (order[:, :most] == fed["labels"][:, None]).any(axis=1)
        assert found[f"accuracy_{most}"] == pytest.approx(100 * right.mean(), abs=1e-3)
    assert found["accuracy_5"] > found["accuracy_1"]


def test_scripts_count_read_the_loss_and_average(models_dir: Path) -> None:
    graph = lenet(models_dir)
    step = step_of(graph)
    measure_accuracy(step.graph, graph.outputs[0].name)
    average_accuracy(step.graph)
    model = asim.compile(step.graph, CHIP, schedule="eager", host_reads="loss")
    names = [task.name for task in model.program.tasks]
    counts, averages = (
        [place for place, name in enumerate(names) if name.startswith(scope)]
        for scope in ("Accuracy/", "Averages/")
    )
    first = names.index("Gradients/Loss/SoftmaxCrossEntropyWithLogits/Mul")
    assert max(counts) < names.index("loss_memcpy") < min(averages) < max(averages) < first
    assert len(averages) == 6


def test_an_average_is_over_all_images_so_far(models_dir: Path) -> None:
    graph = lenet(models_dir)
    step = step_of(graph)
    measure_accuracy(step.graph, graph.outputs[0].name)
    average_accuracy(step.graph)
    before, images = np.full(1, 100.0 * IMAGES, np.float32), np.full(1, 2.0 * IMAGES, np.float32)
    found = values(step, {"accuracy_1.sum": before, "accuracy_5.sum": before, "images_so_far": images})
    for most in (1, 5):
        wanted = (100 + found[f"accuracy_{most}"]) / 2
        assert found[f"accuracy_{most}.average"] == pytest.approx(wanted, abs=0.05)
        assert found[f"accuracy_{most}.sum.updated"] == pytest.approx(wanted * 2 * IMAGES, abs=2)


def test_gradients_are_unscaled_one_by_one(models_dir: Path) -> None:
    whole, apart = step_of(lenet(models_dir)), step_of(lenet(models_dir))
    unscale_apart(apart.graph, 1024.0)
    gradients = values(whole)["weights.velocity.updated"]
    assert np.abs(gradients).max() > 0.1
    np.testing.assert_array_equal(gradients / 1024, values(apart)["weights.velocity.updated"])
    tasks = asim.compile(apart.graph, CHIP, schedule="eager").program.tasks
    assert sum(task.name.startswith("Unscale/") for task in tasks) == 10  # weights and biases


def test_the_flag_of_overflow_comes_when_all_gradients_are_there(models_dir: Path) -> None:
    step = step_of(lenet(models_dir))
    watch_overflow(step.graph)
    program = asim.compile(step.graph, CHIP, schedule="eager", host_reads=BACKWARD).program
    names = [task.name for task in program.tasks]
    at = names.index(f"{BACKWARD}_memcpy")
    assert program.tasks[at].host_waits
    assert all(place < at for place, name in enumerate(names) if name.endswith("AccumulateGrad"))
    assert all(place > at for place, name in enumerate(names) if name.startswith("Optimizer/"))


def run(models_dir: Path, loop: Loop) -> Result:
    return run_step(models_dir / "lenet5.onnx", 64, CHIP, loop)[0]


def test_each_wait_and_each_number_of_a_script_takes_time(models_dir: Path) -> None:
    loops = [
        Loop(eager=True, combined=True),
        Loop(eager=True, combined=True, waits=("loss",)),
        Loop(eager=True, combined=True, waits=("loss", BACKWARD)),
        Loop(eager=True, combined=True, waits=("loss", BACKWARD), accuracy=True),
        Loop(eager=True, combined=True, waits=("loss", BACKWARD), accuracy=True, averaged=True),
        Loop(True, combined=True, waits=("loss", BACKWARD), accuracy=True, averaged=True, apart=True),
    ]
    times = [run(models_dir, loop).duration_us for loop in loops]
    assert times == sorted(times)
    assert len(set(times)) == len(times)
