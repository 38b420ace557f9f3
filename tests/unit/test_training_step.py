"""Whole steps: inputs and outputs, loss scale, clipping, accumulation, batch normalisation, refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.errors import AscendSimError
from ascendsim.graph.ir import Graph
from ascendsim.graph.text import to_text
from ascendsim.ops import default_opset
from ascendsim.training.optimizers import Momentum
from ascendsim.training.scaling import FIRST_SCALE, GROWTH_INTERVAL
from ascendsim.training.step import TrainingStep
from tests.support.evaluate import evaluate

Array = np.ndarray[Any, np.dtype[Any]]
RNG = np.random.default_rng(5)
W1, W2 = RNG.standard_normal((3, 5)).astype(np.float32), RNG.standard_normal((5, 4)).astype(np.float32)
BATCH = RNG.standard_normal((6, 3)).astype(np.float32)
LABELS = np.array([0, 3, 1, 1, 2, 0], np.int32)
PLAIN = {"x": BATCH, "labels": LABELS, "learning_rate": np.float32(0.1)}
DESCENT = Momentum(momentum=0.0)


def _mlp() -> Graph:
    b = asim.GraphBuilder("mlp")
    x = b.input("x", (6, 3))
    hidden = b.op("Relu", b.op("MatMul", x, b.constant(W1, "w1")))
    b.output(b.op("MatMul", hidden, b.constant(W2, "w2")), "scores")
    return b.build()


def run(step: TrainingStep, carried: Mapping[str, Any] | None = None, **further: Any) -> dict[str, Array]:
    feed = {**step.initial(), **(carried or {}), **PLAIN, **further}
    names = [tensor.name for tensor in step.graph.inputs]
    values = evaluate(step.graph, default_opset(), {name: feed[name] for name in names})
    return {tensor.name: value for tensor, value in zip(step.graph.outputs, values, strict=True)}


def _by_hand(x: Array = BATCH, labels: Array = LABELS) -> tuple[float, dict[str, Array]]:
    """Loss and gradients of the network, in NumPy."""
    before = x.astype(np.float64) @ W1
    hidden = np.maximum(before, 0)
    scores = hidden @ W2
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = -np.log(chances[rows, labels]).mean()
    chances[rows, labels] -= 1
    slope = chances / len(labels)
    return loss, {"w1": x.T @ ((slope @ W2.T) * (before > 0)), "w2": hidden.T @ slope}


def _close(found: Array, wanted: Array) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)


def test_inputs_outputs_and_values() -> None:
    net = _mlp()
    before = to_text(net)
    step = asim.training_step(net, loss="cross_entropy", optimizer="adamw")
    assert to_text(net) == before
    state = ("beta1_power", "beta2_power", "w1.m", "w1.v", "w2.m", "w2.v")
    assert step.parameters == ("w1", "w2")
    assert step.state == state
    inputs = {tensor.name for tensor in step.graph.inputs}
    assert inputs == {"x", "labels", "learning_rate", "w1", "w2", *state}
    outputs = [tensor.name for tensor in step.graph.outputs]
    assert outputs[:3] == ["loss", "w1.grad", "w2.grad"]
    assert set(outputs[3:]) == {f"{name}.updated" for name in ("w1", "w2", *state)}
    found, (loss, gradients) = run(step), _by_hand()
    _close(found["loss"], np.array(loss))
    for name, gradient in gradients.items():
        _close(found[f"{name}.grad"], gradient)


def test_without_an_optimizer_there_are_gradients_only() -> None:
    step = asim.training_step(_mlp(), loss="cross_entropy")
    assert [tensor.name for tensor in step.graph.outputs] == ["loss", "w1.grad", "w2.grad"]
    assert step.state == ()


def test_steps_are_the_same_every_time() -> None:
    options: dict[str, Any] = {"loss": "cross_entropy", "optimizer": "lamb", "loss_scale": "dynamic"}
    texts = {to_text(asim.training_step(_mlp(), **options).graph) for _ in range(2)}
    assert len(texts) == 1


@pytest.mark.parametrize("scale", [None, 1024, 0.5, "dynamic"])
def test_the_loss_scale_leaves_the_gradients(scale: Any) -> None:
    step = asim.training_step(_mlp(), loss="cross_entropy", optimizer=DESCENT, loss_scale=scale)
    found, (loss, gradients) = run(step), _by_hand()
    _close(found["loss"], np.array(loss))
    for name, start in (("w1", W1), ("w2", W2)):
        _close(found[f"{name}.grad"], gradients[name])
        _close(found[f"{name}.updated"], start - 0.1 * gradients[name])
    assert ("overflow" in found) == (scale is not None)


def test_the_scale_reaches_the_gradients_before_the_update() -> None:
    """Half a step in float16 needs it there, not behind the sums."""
    step = asim.training_step(_mlp(), loss="cross_entropy", loss_scale=1024)
    plain = asim.training_step(_mlp(), loss="cross_entropy")
    scaled, usual = (
        {node.name: node for node in item.graph.nodes if node.name.startswith("Gradients/")}
        for item in (step, plain)
    )
    assert scaled.keys() == usual.keys()
    [seed] = [
        tensor for tensor in step.graph.tensors.values() if tensor.name.startswith("LossScale/loss_scale")
    ]
    assert all(reader.name.startswith("Gradients/") for reader in seed.consumers if reader.op_type != "Div")


@pytest.mark.parametrize("scale", [1024, "dynamic"])
def test_an_overflow_changes_nothing_but_the_scale(scale: Any) -> None:
    step = asim.training_step(_mlp(), loss="cross_entropy", optimizer="adam", loss_scale=scale)
    wild = BATCH.copy()
    wild[0, 0] = np.inf
    found, start = run(step, x=wild), step.initial()
    assert found["overflow"]
    for name in (*step.parameters, *step.state):
        if name not in ("loss_scale", "good_steps"):
            np.testing.assert_array_equal(found[f"{name}.updated"], start[name], err_msg=name)
    if scale == "dynamic":
        assert float(found["loss_scale.updated"]) == FIRST_SCALE / 2
        assert int(found["good_steps.updated"]) == 0


def test_a_dynamic_scale_grows_after_many_good_steps() -> None:
    step = asim.training_step(_mlp(), loss="cross_entropy", optimizer="adam", loss_scale="dynamic")
    good = np.int32(GROWTH_INTERVAL - 2)
    first = run(step, {"good_steps": good})
    assert (float(first["loss_scale.updated"]), int(first["good_steps.updated"])) == (FIRST_SCALE, good + 1)
    second = run(step, step.carried(first))
    assert (float(second["loss_scale.updated"]), int(second["good_steps.updated"])) == (2 * FIRST_SCALE, 0)


@pytest.mark.parametrize("scale", [None, 256])
def test_clipping_bounds_the_common_norm(scale: Any) -> None:
    _, gradients = _by_hand()
    norm = np.sqrt(sum((gradient**2).sum() for gradient in gradients.values()))
    for limit, share in ((norm / 4, 0.25), (norm * 2, 1.0)):
        step = asim.training_step(
            _mlp(), loss="cross_entropy", optimizer=DESCENT, grad_clip=float(limit), loss_scale=scale
        )
        found = run(step)
        for name, start in (("w1", W1), ("w2", W2)):
            _close(found[f"{name}.grad"], gradients[name] * share)
            _close(found[f"{name}.updated"], start - 0.1 * share * gradients[name])


@pytest.mark.parametrize("scale", [None, "dynamic"])
def test_accumulated_batches_make_one_update_of_their_mean(scale: Any) -> None:
    step = asim.training_step(_mlp(), loss="cross_entropy", optimizer=DESCENT, accumulate=2, loss_scale=scale)
    first = run(step)
    for name, start in (("w1", W1), ("w2", W2)):
        np.testing.assert_array_equal(first[f"{name}.updated"], start)
    second = run(step, step.carried(first), x=2 * BATCH)
    _, one = _by_hand()
    _, two = _by_hand(2 * BATCH)
    for name, start in (("w1", W1), ("w2", W2)):
        _close(second[f"{name}.updated"], start - 0.1 * (one[name] + two[name]) / 2)
        assert not second[f"{name}.sum.updated"].any()
    assert int(second["accumulated.updated"]) == 0
    if scale == "dynamic":
        assert [int(result["good_steps.updated"]) for result in (first, second)] == [0, 1]


def test_a_loss_of_ones_own() -> None:
    b = asim.GraphBuilder()
    x, w = b.input("x", (6, 3)), b.constant(W1, "w")
    b.output(b.op("ReduceMean", b.op("Tanh", b.op("MatMul", x, w)), keepdims=0), "mine")
    step = asim.training_step(b.build(), loss="mine", optimizer=DESCENT)
    slope = BATCH.T @ (1 - np.tanh(BATCH @ W1) ** 2) / 30
    _close(run(step)["w.updated"], W1 - 0.1 * slope)


@pytest.mark.parametrize(("shape", "axis"), [((2, 3, 4), 2), ((2, 4, 3, 2), 1)])
def test_classes_of_sequences_and_maps(shape: tuple[int, ...], axis: int) -> None:
    b = asim.GraphBuilder()
    w = RNG.standard_normal(shape).astype(np.float32)
    b.output(b.op("Add", b.input("x", shape), b.constant(w, "w")), "y")
    step = asim.training_step(b.build(), loss="cross_entropy")
    places = tuple(size for at, size in enumerate(shape) if at != axis)
    labels = RNG.integers(0, shape[axis], places).astype(np.int32)
    scores = np.moveaxis(w, axis, -1).astype(np.float64)
    logs = scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True))
    wanted = -np.take_along_axis(logs, labels[..., None], axis=-1).mean()
    _close(run(step, x=np.zeros(shape, np.float32), labels=labels)["loss"], np.array(wanted))


def test_batch_normalisation_takes_the_batch_and_keeps_running_values() -> None:
    b = asim.GraphBuilder()
    x = b.input("x", (4, 2, 3, 3))
    numbers = {name: b.constant(np.full(2, value, np.float32), name) for name, value in
               (("scale", 1.5), ("offset", 0.2), ("mean", 0.3), ("variance", 2.0))}  # fmt: skip
    y = b.op("BatchNormalization", x, *numbers.values(), momentum=0.8, epsilon=1e-3)
    b.output(b.op("ReduceMean", b.op("Mul", y, b.op("Relu", y)), keepdims=0), "loss")
    step = asim.training_step(b.build(), loss="loss", optimizer=DESCENT)
    assert set(step.parameters) == {"scale", "offset"}
    assert {"mean", "variance"} <= set(step.state)
    data = RNG.standard_normal((4, 2, 3, 3)) + 1
    mean, variance = data.mean(axis=(0, 2, 3)), data.var(axis=(0, 2, 3))
    found = run(step, x=data.astype(np.float32))
    _close(found["mean.updated"], 0.8 * 0.3 + 0.2 * mean)
    _close(found["variance.updated"], 0.8 * 2.0 + 0.2 * variance)
    normal = (data - mean[:, None, None]) / np.sqrt(variance[:, None, None] + 1e-3)
    made = normal * 1.5 + 0.2
    _close(found["loss"], (made * np.maximum(made, 0)).mean())
    slope = 2 * np.maximum(made, 0) / made.size
    _close(found["offset.grad"], slope.sum(axis=(0, 2, 3)))
    _close(found["scale.grad"], (slope * normal).sum(axis=(0, 2, 3)))


def test_parameters_are_chosen_by_name_or_pattern() -> None:
    for chosen, trained in ((["w2"], ("w2",)), (["w*"], ("w1", "w2"))):
        step = asim.training_step(_mlp(), loss="cross_entropy", optimizer="adam", parameters=chosen)
        assert step.parameters == trained
    one = asim.training_step(_mlp(), loss="cross_entropy", parameters=["w2"])
    assert "w1" not in {tensor.name for tensor in one.graph.inputs}


def _two_outputs() -> Graph:
    net = _mlp()
    net.outputs.append(net.node("Relu").output)
    return net


def _step(source: Any = None, **options: Any) -> Callable[[], Any]:
    return lambda: asim.training_step(
        _mlp() if source is None else source() if callable(source) else source,
        **{"loss": "cross_entropy", **options},
    )


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "scale": (_step(loss_scale=0), r"option loss_scale must be a positive number or \"dynamic\", not 0; "),
    "negative scale": (_step(loss_scale=-8.0), r"option loss_scale must be a positive number"),
    "word": (
        _step(loss_scale="auto"),
        r"option loss_scale must be a positive number or \"dynamic\", not 'auto'",
    ),
    "clip": (_step(grad_clip=0.0), r"option grad_clip must be a positive number, not 0.0"),
    "accumulate": (_step(accumulate=0), r"option accumulate must be a number of batches from 1 on, not 0"),
    "loss": (
        _step(loss="cross"),
        r"option loss must be cross_entropy, mse or an output of the graph, not 'cross'",
    ),
    "no loss": (_step(loss=None), r"option loss must be cross_entropy, mse or the name of an output"),
    "wide loss": (_step(loss="scores"), r"output 'scores' must be a single number to be differentiated"),
    "which output": (_step(_two_outputs), r"option output must say which output the loss cross_entropy"),
    "output": (_step(output="score"), r"option output must be an output of the graph, not 'score'.*scores"),
    "parameter": (_step(parameters=["w3"]), r"option parameters must be names of .* not 'w3'"),
    "source": (
        _step("net.onnx"),
        r"argument source must be a Graph or a Module, not 'net.onnx'; asim.load or",
    ),
    "examples": (_step(example_inputs=[1]), r"argument example_inputs is for models that are no graph"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    make, says = REFUSED[case]
    with pytest.raises(AscendSimError, match=says):
        make()


def test_the_shares_of_a_step() -> None:
    """Whatever fusion makes of it, each task belongs to one phase."""
    step = asim.training_step(_mlp(), loss="cross_entropy", optimizer="adam", loss_scale=8, grad_clip=1.0)
    counts = {}
    for fusion in ("off", "graph-kernel"):
        result = asim.simulate(asim.compile(step.graph, "Ascend910A", fusion=fusion))
        rows = {row["Phase"]: row for row in result.training_shares().records()}
        assert list(rows) == ["forward", "backward", "update"]
        times = [float(row["Task Duration(us)"] or 0) for row in result.op_summary().records()]
        assert sum(float(row["Total Time(us)"] or 0) for row in rows.values()) == pytest.approx(sum(times))
        assert sum(int(row["Tasks"] or 0) for row in rows.values()) == len(times)
        counts[fusion] = [int(row["Tasks"] or 0) for row in rows.values()]
    names = [str(row["Op Name"]) for row in asim.simulate(
        asim.compile(step.graph, "Ascend910A", fusion="off")).op_summary().records()]  # fmt: skip
    backward = sum(name.startswith("Gradients/") for name in names)
    update = sum(name.startswith(("LossScale/", "ClipGradients/", "Optimizer/")) for name in names)
    assert counts["off"] == [len(names) - backward - update, backward, update]
    assert min(counts["graph-kernel"]) > 0


def test_weights_without_values_are_named_when_they_are_asked_for() -> None:
    b = asim.GraphBuilder()
    b.output(b.op("MatMul", b.input("x", (6, 3)), b.weight("w", (3, 4))), "y")
    step = asim.training_step(b.build(), loss="cross_entropy", optimizer="adam")
    with pytest.raises(AscendSimError, match="has no values"):
        step.initial()
