"""Optimisers against formulas in NumPy over 20 steps, and what fusion makes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Graph
from ascendsim.ops import default_opset
from ascendsim.training.optimizers import Adam, AdamW, Lamb, Momentum, Optimizer
from ascendsim.training.step import TrainingStep
from tests.support.evaluate import evaluate

pytestmark = pytest.mark.usefixtures("untimed_tiles")

Array = np.ndarray[Any, np.dtype[Any]]
RATE, STEPS = 0.03, 20
START = np.random.default_rng(1).standard_normal((4, 3))
TARGETS = np.random.default_rng(2).standard_normal((STEPS, 2, 3))
DATA = np.random.default_rng(3).standard_normal((STEPS, 2, 4))


def _line() -> Graph:
    b = asim.GraphBuilder("line")
    x = b.input("x", (2, 4))
    b.output(b.op("MatMul", x, b.constant(START.astype(np.float32), "w")), "y")
    return b.build()


def _feed(step: TrainingStep, number: int, carried: dict[str, Any]) -> dict[str, Any]:
    batch = {"x": DATA[number].astype(np.float32), "labels": TARGETS[number].astype(np.float32)}
    return {**carried, **batch, "learning_rate": np.float32(RATE)}


def run_steps(step: TrainingStep, count: int = STEPS) -> Iterator[dict[str, Array]]:
    """Outputs of one step after the other."""
    carried = step.initial()
    for number in range(count):
        values = evaluate(step.graph, default_opset(), _feed(step, number, carried))
        outputs = {tensor.name: value for tensor, value in zip(step.graph.outputs, values, strict=True)}
        carried.update(step.carried(outputs))
        yield outputs


def _gradient(weight: Array, number: int) -> Array:
    """Of the mean of squares, by hand."""
    return DATA[number].T @ (DATA[number] @ weight - TARGETS[number]) * (2 / TARGETS[number].size)


def _momentum(w: Array, number: int, state: dict[str, Any]) -> Array:
    g = _gradient(w, number) + 0.1 * w
    state["v"] = 0.8 * state.get("v", 0) + g
    return w - RATE * state["v"]


def _nesterov(w: Array, number: int, state: dict[str, Any]) -> Array:
    g = _gradient(w, number)
    state["v"] = 0.9 * state.get("v", 0) + g
    return w - RATE * (g + 0.9 * state["v"])


def _moments(g: Array, number: int, state: dict[str, Any]) -> tuple[Array, Array]:
    """Corrected first and second moment."""
    state["m"] = 0.9 * state.get("m", 0) + 0.1 * g
    state["s"] = 0.99 * state.get("s", 0) + 0.01 * g**2
    return state["m"] / (1 - 0.9 ** (number + 1)), state["s"] / (1 - 0.99 ** (number + 1))


def _adam(w: Array, number: int, state: dict[str, Any]) -> Array:
    m, s = _moments(_gradient(w, number) + 0.1 * w, number, state)
    return w - RATE * m / (np.sqrt(s) + 1e-3)


def _adamw(w: Array, number: int, state: dict[str, Any]) -> Array:
    m, s = _moments(_gradient(w, number), number, state)
    return w * (1 - RATE * 0.1) - RATE * m / (np.sqrt(s) + 1e-3)


def _lamb(w: Array, number: int, state: dict[str, Any]) -> Array:
    m, s = _moments(_gradient(w, number), number, state)
    size = np.linalg.norm(m / np.sqrt(s + 1e-3) + 0.1 * w)
    trust = min(10.0, float(np.linalg.norm(w) / size))
    return w - RATE * trust * (m / (np.sqrt(s) + 1e-3) + 0.1 * w)


MOMENTS = {"beta2": 0.99, "epsilon": 1e-3, "weight_decay": 0.1}
CASES: dict[str, tuple[Optimizer, Callable[[Array, int, dict[str, Any]], Array]]] = {
    "momentum": (Momentum(0.8, weight_decay=0.1), _momentum),
    "nesterov": (Momentum(nesterov=True), _nesterov),
    "applied": (Momentum(0.8, weight_decay=0.1, applied=True), _momentum),
    "applied nesterov": (Momentum(nesterov=True, applied=True), _nesterov),
    "adam": (Adam(**MOMENTS), _adam),
    "adamw": (AdamW(**MOMENTS), _adamw),
    "lamb": (Lamb(**MOMENTS), _lamb),
}


@pytest.mark.parametrize("name", CASES)
def test_weights_follow_the_formula(name: str) -> None:
    optimizer, formula = CASES[name]
    step = asim.training_step(_line(), loss="mse", optimizer=optimizer)
    weight, state = START.copy(), {}
    for number, outputs in enumerate(run_steps(step)):
        np.testing.assert_allclose(outputs["w.grad"], _gradient(weight, number), rtol=1e-4, atol=1e-5)
        weight = formula(weight, number, state)
        np.testing.assert_allclose(outputs["w.updated"], weight, rtol=1e-4, atol=2e-5)
    assert np.abs(weight - START).max() > 0.05, "the weights have hardly moved"


def test_lamb_leaves_the_rate_where_a_norm_is_zero() -> None:
    b = asim.GraphBuilder("line")
    b.output(b.op("MatMul", b.input("x", (2, 4)), b.constant(np.zeros((4, 3), np.float32), "w")), "y")
    step = asim.training_step(b.build(), loss="mse", optimizer=Lamb(weight_decay=0.0))
    change = next(run_steps(step))["w.updated"]
    np.testing.assert_allclose(
        np.abs(change), RATE, rtol=1e-3
    )  # the first step of Adam has the size of the rate


FUSED = {
    "adam": {"AdamApplyOne"},
    "adamw": {"AdamApplyOneWithDecay"},
    "lamb": {"LambNextMVWithDecay", "LambUpdateWithLr"},
}


@pytest.mark.parametrize("name", FUSED)
def test_fusion_makes_whole_operators_of_an_update(name: str) -> None:
    """CANN's rule for Clip, which has fewer nodes, comes behind that of LAMB's ratio and its bounds."""
    step = asim.training_step(_line(), loss="mse", optimizer=name)
    model = asim.compile(step.graph, "Ascend910A", fusion="graph")
    counts = Counter(node.op_type for node in model.graph.nodes)
    assert {counts[operator] for operator in FUSED[name]} == {1}, counts
    assert not counts["ClipByValue"]


@pytest.mark.parametrize("applied", [False, True])
def test_the_update_takes_out_the_loss_scale(applied: bool) -> None:
    """Gradients that the step gives have the factor in them; weights move as without it."""
    optimizer = Momentum(0.8, weight_decay=0.1, applied=applied, loss_scale=64.0)
    weight, state = START.copy(), {}
    for number, outputs in enumerate(run_steps(asim.training_step(_line(), loss="mse", optimizer=optimizer))):
        np.testing.assert_allclose(outputs["w.grad"], 64 * _gradient(weight, number), rtol=1e-4, atol=1e-3)
        weight = _momentum(weight, number, state)
        np.testing.assert_allclose(outputs["w.updated"], weight, rtol=1e-4, atol=2e-5)


def test_scales_and_biases_may_be_kept_from_decaying() -> None:
    b = asim.GraphBuilder("line")
    y = b.op("MatMul", b.input("x", (2, 4)), b.constant(np.ones((4, 3), np.float32), "w"))
    b.output(b.op("Add", y, b.constant(np.ones(3, np.float32), "bias")), "y")
    steps = [
        asim.training_step(b.build(), loss="mse", optimizer=Momentum(weight_decay=0.1, decays_vectors=both))
        for both in (True, False)
    ]
    all_, some = (next(run_steps(step)) for step in steps)
    np.testing.assert_array_equal(all_["w.updated"], some["w.updated"])
    np.testing.assert_allclose(some["bias.updated"] - all_["bias.updated"], RATE * 0.1, rtol=1e-3)


def test_an_applied_update_is_mindspores_pair_of_tasks() -> None:
    """What decays is one FusedMulAddN, what is left one FusedMulApplyMomentum, with equal values."""
    optimizer = Momentum(weight_decay=0.1, applied=True, loss_scale=64.0)
    step = asim.training_step(_line(), loss="mse", optimizer=optimizer)
    model = asim.compile(step.graph, "Ascend910A", fusion="graph")
    counts = Counter(node.op_type for node in model.graph.nodes)
    assert (counts["FusedMulAddN"], counts["FusedMulApplyMomentum"], counts["ApplyMomentum"]) == (1, 1, 0)
    feed = _feed(step, 0, step.initial())
    plain = asim.compile(step.graph, "Ascend910A", fusion="off")
    expected = asim.run(plain, feed, values="float32").outputs
    for key, value in asim.run(model, feed, values="float32").outputs.items():
        np.testing.assert_array_equal(value, expected[key], err_msg=key)


@pytest.mark.parametrize("name", ["momentum", "adamw"])
def test_fused_updates_are_those_of_the_written_out_graph(name: str) -> None:
    step = asim.training_step(_line(), loss="mse", optimizer=name, loss_scale=8)
    feed = _feed(step, 0, step.initial())
    results = []
    for fusion in ("off", "all"):
        model = asim.compile(step.graph, "Ascend910A", fusion=fusion, precision_mode="allow_mix_precision")
        results.append(asim.run(model, feed, values="float32").outputs)
    for key, value in results[0].items():
        np.testing.assert_array_equal(value, results[1][key], err_msg=key)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Adam(beta1=1.0), "optimizer adam: beta1 must be a number from 0 to below 1, not 1.0"),
        (lambda: Momentum(weight_decay=-1), "weight_decay must be a number that is not negative, not -1"),
        (lambda: Lamb(epsilon=float("nan")), "optimizer lamb: epsilon"),
        (lambda: Momentum(loss_scale=0), "loss_scale must be a positive number, not 0"),
        (
            lambda: asim.training_step(
                _line(), loss="mse", optimizer=Momentum(loss_scale=2), loss_scale="dynamic"
            ),
            "cannot be given beside the optimiser's own loss_scale",
        ),
        (
            lambda: asim.training_step(_line(), loss="mse", optimizer="adamx"),
            "option optimizer must be one of momentum, adam, adamw, lamb, not 'adamx'",
        ),
        (lambda: asim.training_step(_line(), loss="mse", optimizer=3), "option optimizer must be a name"),
    ],
)
def test_bad_numbers_are_refused(make: Callable[[], object], says: str) -> None:
    with pytest.raises(InputError) as error:
        make()
    assert says in str(error.value)
