"""Losses and their gradients against formulas written in float64 and central differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.errors import GraphError
from ascendsim.opset.work import AiCpuWork, ScalarWork, SequenceWork, VectorWork
from tests.support.operator_cases import work_of
from tests.support.single_node import infer, lower, make_node, run

Array = Any
RANDOM = np.random.default_rng(11)


def _log_softmax(x: Array, axis: int = -1) -> Array:
    top = x.max(axis=axis, keepdims=True)
    return x - top - np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True))


def _slopes(function: Any, x: Array) -> Array:
    """Central differences of a number by each element."""
    result = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[place] = 1e-6
        result[place] = (function(x + step) - function(x - step)) / 2e-6
    return result


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_log_softmax_grad_is_the_slope_of_log_softmax(axis: int) -> None:
    x, dy = RANDOM.standard_normal((3, 5)), RANDOM.standard_normal((3, 5))
    (found,) = run("LogSoftmaxGrad", [dy, _log_softmax(x, axis)], 1, "ascend", axis=axis)
    wanted = _slopes(lambda at: float(np.sum(dy * _log_softmax(at, axis))), x)
    np.testing.assert_allclose(found, wanted, atol=1e-8)


def _nll(logs: Array, labels: Array, weight: Array, reduction: str, ignored: int) -> tuple[Array, float]:
    """One label after the other."""
    losses, total = np.zeros(labels.shape), 0.0
    for place in np.ndindex(labels.shape):
        label = labels[place]
        if label != ignored:
            losses[place] = -weight[label] * logs[(place[0], label, *place[1:])]
            total += weight[label]
    if reduction == "none":
        return losses, total
    return np.float64(losses.sum() / (total if reduction == "mean" else 1)), total


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("ignored", [-100, 2])
def test_nll_loss_and_its_gradient(reduction: str, ignored: int) -> None:
    logs, weight = RANDOM.standard_normal((2, 4, 3)), RANDOM.random(4) + 0.5
    labels = np.array([[2, 0, 3], [1, 2, 2]], np.int32)
    more = {"reduction": reduction, **({} if ignored == -100 else {"ignore_index": ignored})}
    wanted, total = _nll(logs, labels, weight, reduction, ignored)
    loss, weights = run("NLLLoss", [logs, labels, weight], 2, "ascend", **more)
    np.testing.assert_allclose(loss, wanted, rtol=1e-12)
    np.testing.assert_allclose(weights, total, rtol=1e-12)
    dy = RANDOM.standard_normal(np.shape(wanted))
    given = [logs, dy, labels, weight, np.float64(total)]
    (found,) = run("NLLLossGrad", given, 1, "ascend", **more)
    slopes = _slopes(lambda at: float(np.sum(dy * _nll(at, labels, weight, reduction, ignored)[0])), logs)
    np.testing.assert_allclose(found, slopes, atol=1e-8)


def test_a_batch_whose_labels_are_all_ignored_has_no_gradient() -> None:
    logs, labels = np.ones((2, 4), np.float32), np.full(2, -100)
    loss, total = run("NLLLoss", [logs, labels, np.ones(4, np.float32)], 2, "ascend")
    assert np.isnan(loss)
    assert total == 0
    given = [logs, np.float32(1), labels, np.ones(4, np.float32), np.float32(0)]
    np.testing.assert_array_equal(run("NLLLossGrad", given, 1, "ascend")[0], np.zeros((2, 4)))


def test_labels_that_are_no_class_are_refused() -> None:
    with pytest.raises(GraphError, match="needs labels from 0 to 3, not 4"):
        run("NLLLoss", [np.ones((2, 4)), np.array([0, 4])], 2, "ascend")
    with pytest.raises(GraphError, match="needs integer labels"):
        infer("NLLLoss", [(2, 4), (2,)], outputs=2, domain="ascend")


def test_cross_entropy_gives_loss_and_gradient_at_once() -> None:
    scores, labels = RANDOM.standard_normal((3, 5)) * 3, np.array([4, 0, 2])
    hot = np.eye(5)[labels]
    smooth = 0.9 * hot + 0.02
    for target in (hot, smooth):
        loss, slope = run("SoftmaxCrossEntropyWithLogits", [scores, target], 2, "ascend")
        np.testing.assert_allclose(loss, -(target * _log_softmax(scores)).sum(axis=1), rtol=1e-12)
        wanted = _slopes(lambda at, target=target: float(-(target * _log_softmax(at)).sum()), scores)
        np.testing.assert_allclose(slope, wanted, atol=1e-8)
    loss, slope = run("SparseSoftmaxCrossEntropyWithLogits", [scores, labels], 2, "ascend")
    np.testing.assert_allclose(loss, -_log_softmax(scores)[np.arange(3), labels], rtol=1e-12)
    wanted = _slopes(lambda at: float(-(hot * _log_softmax(at)).sum()), scores)
    np.testing.assert_allclose(slope, wanted, atol=1e-8)


def test_cross_entropy_of_large_scores_is_finite() -> None:
    scores = np.array([[1e4, 0, -1e4]], np.float32)
    loss, slope = run("SparseSoftmaxCrossEntropyWithLogits", [scores, np.array([1])], 2, "ascend")
    np.testing.assert_array_equal(loss, [1e4])
    np.testing.assert_array_equal(slope, [[1, -1, 0]])


def test_sigmoid_cross_entropy_and_its_gradient() -> None:
    x, target, dy = RANDOM.standard_normal(9) * 4, RANDOM.random(9), RANDOM.standard_normal(9)

    def loss_of(at: Array) -> Array:
        share = 1 / (1 + np.exp(-at))
        return -target * np.log(share) - (1 - target) * np.log(1 - share)

    (loss,) = run("SigmoidCrossEntropyWithLogits", [x, target], 1, "ascend")
    np.testing.assert_allclose(loss, loss_of(x), rtol=1e-10)
    (slope,) = run("SigmoidCrossEntropyWithLogitsGrad", [x, target, dy], 1, "ascend")
    np.testing.assert_allclose(slope, _slopes(lambda at: float(np.sum(dy * loss_of(at))), x), atol=1e-8)
    far = np.array([-1e3, 1e3], np.float32)
    (loss,) = run("SigmoidCrossEntropyWithLogits", [far, np.array([0, 0], np.float32)], 1, "ascend")
    np.testing.assert_array_equal(loss, [0, 1e3])


def test_sigmoid_cross_entropy_with_weights() -> None:
    x, target = RANDOM.standard_normal((5, 4)) * 4, RANDOM.random((5, 4))
    weight, positive = RANDOM.random((5, 1)) + 0.5, RANDOM.random(4) + 0.5
    share = 1 / (1 + np.exp(-x))
    wanted = weight * (-positive * target * np.log(share) - (1 - target) * np.log(1 - share))
    name = "SigmoidCrossEntropyWithLogitsV2"
    for reduction, value in (("none", wanted), ("sum", wanted.sum()), ("mean", wanted.mean())):
        (loss,) = run(name, [x, target, weight, positive], 1, "ascend", reduction=reduction)
        np.testing.assert_allclose(loss, value, rtol=1e-10)
    far = np.array([-1e3, 1e3], np.float32)
    (loss,) = run(name, [far, np.array([1, 0], np.float32)], 1, "ascend", reduction="none")
    np.testing.assert_array_equal(loss, [1e3, 1e3])
    with pytest.raises(GraphError, match=r"needs input 3 to broadcast to \(5, 4\)"):
        make_node(name, [x, target, weight, np.ones(3)], 1, "ascend")


def test_shapes_of_losses() -> None:
    given = [np.ones((2, 4, 5)), np.ones((2, 5), np.int64)]
    for reduction, wanted in (("none", (2, 5)), ("mean", ()), ("sum", ())):
        node = make_node("NLLLoss", given, 2, "ascend", reduction=reduction)
        assert [tensor.shape for tensor in node.outputs] == [wanted, ()]
    made = infer("SoftmaxCrossEntropyWithLogits", [("n", 7), (None, 7)], outputs=2, domain="ascend")
    assert made == [("n",), ("n", 7)]
    with pytest.raises(GraphError, match=r"needs scores of shape \(batch, classes\)"):
        infer("SoftmaxCrossEntropyWithLogits", [(2, 3, 4), (2, 3, 4)], outputs=2, domain="ascend")


def test_work_of_losses() -> None:
    """A row is read three times if it does not fit; gradients of picked losses are zeros and a store a
    label.
    """
    scores = np.ones((6, 9), np.float32)
    node = make_node("SoftmaxCrossEntropyWithLogits", [scores, scores], 2, "ascend")
    dense = work_of(node, "Ascend910B1")
    assert isinstance(dense, VectorWork)
    assert (dense.rows, dense.cols, dense.reduces, dense.sweeps) == (6, 9, "cols", 3)
    assert [stream.over for stream in dense.outputs] == ["row", "all"]
    given = [scores, np.float32(1), np.ones(6, np.int64), np.ones(9, np.float32), np.float32(6)]
    picked = work_of(make_node("NLLLossGrad", given, 1, "ascend"), "Ascend910B1")
    assert isinstance(picked, SequenceWork)
    fill, stores = picked.parts
    assert isinstance(fill, VectorWork)
    assert fill.rows * fill.cols == 54
    assert isinstance(stores, ScalarWork)
    assert stores.elements == 6


def test_losses_of_doubles_run_on_the_ai_cpu_and_labels_may_be_any_integers() -> None:
    scores, labels = np.ones((4, 10), np.float32), np.zeros(4, np.int64)
    assert isinstance(lower("SoftmaxCrossEntropyLoss", [scores, labels]), SequenceWork)
    weights = np.ones(10, np.float64)
    assert isinstance(lower("SoftmaxCrossEntropyLoss", [scores, labels, weights]), AiCpuWork)


@pytest.mark.parametrize("reduction", ["sum", "mean", "none"])
@pytest.mark.parametrize("fusion", ["off", "all"])
def test_losses_of_independent_classes_are_reduced_as_they_say_whoever_reduces_them(
    reduction: str, fusion: str
) -> None:
    rng = np.random.default_rng(0)
    x, target = rng.normal(size=(4, 16)).astype(np.float32), rng.random((4, 16)).astype(np.float32)
    builder = asim.GraphBuilder()
    inputs = [builder.input("x", x.shape), builder.input("target", target.shape)]
    builder.output(
        builder.op("SigmoidCrossEntropyWithLogitsV2", *inputs, domain="ascend", reduction=reduction), "loss"
    )
    model = asim.compile(
        builder.build(), "Ascend910A", fusion=fusion, precision_mode="must_keep_origin_dtype"
    )
    each = np.maximum(x, 0) - x * target + np.log1p(np.exp(-np.abs(x)))
    wanted = {"sum": each.sum(), "mean": each.mean(), "none": each}[reduction]
    found = asim.run(model, {"x": x, "target": target}).outputs["loss"]
    np.testing.assert_allclose(found, wanted, rtol=1e-4)
    kinds = [node.op_type for node in model.graph.nodes if node.op_type.startswith("Reduce")]
    expected = {"sum": ["ReduceSum"], "mean": ["ReduceMean"], "none": []}[reduction]
    assert kinds == (expected if fusion == "all" else [])
