"""Weights, state and gradients in one buffer each: the same numbers, an Add a weight, and a short update."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.errors import GraphError, InputError
from ascendsim.graph.ir import Graph
from ascendsim.training.optimizers import AdamW, Momentum
from ascendsim.training.step import TrainingStep

pytestmark = pytest.mark.usefixtures("untimed_tiles")

BATCH = 4
IMAGES = np.random.default_rng(0).standard_normal((BATCH, 1, 28, 28)).astype(np.float32)
LABELS = np.array([3, 1, 2, 9], np.int32)


@pytest.fixture
def lenet(models_dir: Path) -> Graph:
    return asim.load(models_dir / "lenet5.onnx", weights="random", batch=BATCH)


def trained(step: TrainingStep, soc: str, schedule: str, steps: int = 3) -> dict[str, Any]:
    """What a step carries on after a few of them."""
    model = asim.compile(step.graph, soc, schedule=schedule)
    batch = {"input": IMAGES, "labels": LABELS, "learning_rate": np.float32(0.01)}
    held: dict[str, Any] = step.initial()
    for _ in range(steps):
        held.update(step.carried(asim.run(model, {**batch, **held}).outputs))
    return held


@pytest.mark.parametrize(
    ("optimizer", "slots"),
    [
        (Momentum(0.9, weight_decay=0.01, nesterov=True, loss_scale=8.0), ("velocity",)),
        ("adam", ("m", "v")),
        (AdamW(weight_decay=0.1), ("m", "v")),
    ],
)
@pytest.mark.parametrize("where", [("Ascend910A", "eager"), ("Ascend910B1", "sink")])
def test_numbers_are_those_of_weights_apart(
    lenet: Graph, optimizer: Any, slots: tuple[str, ...], where: tuple[str, str]
) -> None:
    apart = asim.training_step(lenet, loss="cross_entropy", optimizer=optimizer)
    whole = asim.training_step(lenet, loss="cross_entropy", optimizer=optimizer, combined=True)
    wanted, found = trained(apart, *where), trained(whole, *where)
    assert set(whole.places) == set(apart.parameters)
    for name, place in whole.places.items():
        np.testing.assert_array_equal(place.of(found["weights"]), wanted[name])
        for slot in slots:
            state = place.of(found[f"weights.{slot}"])
            np.testing.assert_array_equal(state, wanted[f"{name}.{slot}"])


def test_gradients_are_bounded_by_the_norm_of_all(lenet: Graph) -> None:
    steps = [
        asim.training_step(lenet, loss="cross_entropy", optimizer="adam", grad_clip=0.1, combined=combined)
        for combined in (False, True)
    ]
    wanted, found = (trained(step, "Ascend910A", "eager") for step in steps)
    for name, place in steps[1].places.items():
        np.testing.assert_allclose(place.of(found["weights"]), wanted[name], rtol=1e-5, atol=1e-7)


def test_weights_fill_the_buffer_and_whole_blocks_come_first(lenet: Graph) -> None:
    step = asim.training_step(lenet, loss="cross_entropy", optimizer="adam", combined=True)
    places = sorted(step.places.values(), key=lambda place: place.start)
    ends = [place.start + place.size for place in places]
    assert [place.start for place in places] == [0, *ends[:-1]]
    assert step.graph.tensors["weights"].elements == ends[-1]
    begun = [place.start % 8 for place in places if place.size % 8 == 0]
    assert set(begun) == {0}
    ragged = [place.size % 8 > 0 for place in places]
    assert ragged == sorted(ragged)


def tasks(graph: Graph, combined: bool) -> Counter[str]:
    optimizer = Momentum(0.9, weight_decay=1e-4)
    step = asim.training_step(graph, loss="cross_entropy", optimizer=optimizer, combined=combined)
    result = asim.simulate(asim.compile(step.graph, "Ascend910A", schedule="eager"))
    return Counter(
        view.nodes[0].op_type if view.nodes else view.op_type
        for view in result.profile.tasks
        if any(
            node.name.startswith(("Optimizer", "Weights")) or "Accumulate" in node.name for node in view.nodes
        )
    )


def test_a_gradient_is_one_task_and_the_update_a_few(models_dir: Path) -> None:
    counts = {}
    for name in ("lenet5.onnx", "resnet18.onnx"):
        graph = asim.load(models_dir / name)
        counts[name] = tasks(graph, combined=True)
        assert not counts[name].keys() & {"Split", "Concat", "Reshape"}
    weights = {name: count.pop("AccumulateGrad") for name, count in counts.items()}
    assert weights == {"lenet5.onnx": 10, "resnet18.onnx": 62}
    products = {name: count.pop("TransData") for name, count in counts.items()}
    assert products == {"lenet5.onnx": 3, "resnet18.onnx": 1}  # gradients of matrices come in fractals
    assert counts["lenet5.onnx"] == counts["resnet18.onnx"] == Counter(Mul=3, Add=2, Sub=1)
    assert tasks(asim.load(models_dir / "resnet18.onnx"), combined=False).total() == 62 * 6


def test_what_the_buffer_cannot_be(lenet: Graph) -> None:
    def refused(match: str, **options: Any) -> None:
        with pytest.raises(InputError, match=match):
            asim.training_step(lenet, loss="cross_entropy", combined=True, **options)

    refused("needs one optimiser")
    refused("must not be lamb", optimizer="lamb")
    refused("treat all weights alike", optimizer=Momentum(weight_decay=0.1, decays_vectors=False))
    lenet.add_input("weights", lenet.inputs[0].element_type, (1,))
    refused("needs the name 'weights'", optimizer="adam")


def test_structures_without_values_have_times_and_no_first_weights(models_dir: Path) -> None:
    graph = asim.load(models_dir / "resnet18.onnx")
    step = asim.training_step(graph, loss="cross_entropy", optimizer="momentum", combined=True)
    with pytest.raises(GraphError, match="has no values"):
        step.initial()
