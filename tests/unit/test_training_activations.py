"""Gradients of activations against central differences of the functions themselves, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ascendsim.core.errors import GraphError
from ascendsim.opset.work import SequenceWork, VectorWork
from tests.support.operator_cases import work_of
from tests.support.single_node import infer, make_node, run

Array = Any
X = np.linspace(-7.03, 7.05, 150)  # off every corner below by more than the step of the differences
DY = np.random.default_rng(5).standard_normal(X.shape)


def _sigmoid(x: Array) -> Array:
    return 0.5 * (1 + np.tanh(0.5 * x))


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf)(x)


def _elu(x: Array, alpha: float, scale: float, steep: float) -> Array:
    return scale * np.where(x > 0, x, alpha * np.expm1(steep * x))


# operator, attributes, function, what the operator reads: dy, x, y = f(x)
CASES: list[tuple[str, dict[str, Any], Callable[[Array], Array], str]] = [
    ("GeluGrad", {}, lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))), "dxy"),
    (
        "GeluGrad",
        {"approximate": "tanh"},
        lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        "dxy",
    ),
    (
        "FastGeluGrad",
        {},
        lambda x: x / (1 + np.exp(-1.702 * np.abs(x))) * np.exp(0.851 * (x - np.abs(x))),
        "dx",
    ),
    ("TanhGrad", {}, np.tanh, "yd"),
    ("SigmoidGrad", {}, _sigmoid, "yd"),
    ("SiluGrad", {}, lambda x: x * _sigmoid(x), "dx"),
    ("SwishGrad", {"scale": 1.5}, lambda x: x * _sigmoid(1.5 * x), "dxy"),
    ("HardSwishGrad", {}, lambda x: x * np.clip(x + 3, 0, 6) / 6, "dx"),
    ("HardSigmoidGrad", {}, lambda x: np.clip(x * 0.16666666 + 0.5, 0, 1), "dx"),
    ("HardSigmoidGrad", {"alpha": 0.3, "beta": 0.25}, lambda x: np.clip(0.3 * x + 0.25, 0, 1), "dx"),
    ("HardtanhGrad", {}, lambda x: np.clip(x, -1, 1), "yd"),
    ("HardtanhGrad", {"min_val": -2.5, "max_val": 0.5}, lambda x: np.clip(x, -2.5, 0.5), "yd"),
    ("LeakyReluGrad", {"negative_slope": 0.2}, lambda x: np.where(x > 0, x, 0.2 * x), "dx"),
    ("LeakyReluGrad", {}, lambda x: np.maximum(x, 0), "dx"),
    ("Relu6Grad", {}, lambda x: np.clip(x, 0, 6), "dx"),
    ("ThresholdGradV2D", {"threshold": 0.5}, lambda x: np.where(x > 0.5, x, 0.5), "dx"),
    ("EluGrad", {}, lambda x: _elu(x, 1, 1, 1), "dy"),
    ("EluGradV2", {}, lambda x: _elu(x, 1, 1, 1), "dx"),
    (
        "EluGradV2",
        {"alpha": 0.5, "scale": 1.25, "input_scale": 0.75},
        lambda x: _elu(x, 0.5, 1.25, 0.75),
        "dx",
    ),
    (
        "EluGradV2",
        {"alpha": 0.5, "scale": 1.25, "input_scale": 0.75, "is_result": 1},
        lambda x: _elu(x, 0.5, 1.25, 0.75),
        "dy",
    ),
    ("SoftplusGrad", {}, lambda x: np.logaddexp(x, 0), "dx"),
    (
        "SoftplusV2Grad",
        {"beta": 2.0, "threshold": 3.0},
        lambda x: np.where(2 * x > 3, x, np.logaddexp(2 * x, 0) / 2),
        "dx",
    ),
    ("SqrtGrad", {}, lambda x: np.sqrt(np.abs(x)), "yd"),
    ("ReciprocalGrad", {}, lambda x: 1 / x, "yd"),
]


@pytest.mark.parametrize(("name", "attributes", "function", "order"), CASES)
def test_the_gradient_is_the_slope_of_the_function(
    name: str, attributes: dict[str, Any], function: Callable[[Array], Array], order: str
) -> None:
    x = np.abs(X) + 0.5 if name == "SqrtGrad" else X
    step = 1e-6
    slope = (function(x + step) - function(x - step)) / (2 * step)
    given = {"d": DY, "x": x, "y": function(x)}
    (found,) = run(name, [given[letter] for letter in order], 1, "ascend", **attributes)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, DY * slope, rtol=2e-7, atol=2e-9)


@pytest.mark.parametrize(
    ("name", "given", "attributes", "wanted"),
    [
        ("Relu6Grad", [0.0, 6.0], {}, [0, 0]),
        ("HardtanhGrad", [-1.0, 1.0], {}, [0, 0]),
        ("LeakyReluGrad", [0.0], {"negative_slope": 0.25}, [0.25]),
        ("HardSigmoidGrad", [-2.0, 2.0], {"alpha": 0.25, "beta": 0.5}, [0, 0]),
        ("ThresholdGradV2D", [0.5], {"threshold": 0.5}, [0]),
        ("HardSwishGrad", [-3.0, 3.0], {}, [0, 1]),
        ("EluGradV2", [0.0], {"alpha": 0.5, "scale": 3.0}, [1.5]),
    ],
)
def test_corners_take_the_side_that_pytorch_takes(
    name: str, given: list[float], attributes: dict[str, float], wanted: list[float]
) -> None:
    """The figures are torch's (2.13) for a gradient of 1."""
    arrays = [np.ones(len(given), np.float32), np.array(given, np.float32)]
    (found,) = run(name, arrays[::-1] if name == "HardtanhGrad" else arrays, 1, "ascend", **attributes)
    np.testing.assert_array_equal(found, wanted)


def test_gradients_far_out_are_finite() -> None:
    far = np.array([-1e4, -200, 200, 1e4], np.float32)
    for name in ("SiluGrad", "FastGeluGrad", "SoftplusGrad"):
        np.testing.assert_array_equal(run(name, [np.ones(4, np.float32), far], 1, "ascend")[0], [0, 0, 1, 1])
    for form in ("none", "tanh"):
        found = run("GeluGrad", [np.ones(4, np.float32), far, far], 1, "ascend", approximate=form)[0]
        np.testing.assert_array_equal(found, [0, 0, 1, 1])


def test_shapes_go_through_and_must_agree() -> None:
    assert infer("SiluGrad", [("n", None), (2, 3)], domain="ascend") == [("n", None)]
    with pytest.raises(GraphError, match="needs input 2 of shape"):
        infer("GeluGrad", [(2, 3), (2, 3), (3, 2)], domain="ascend")
    with pytest.raises(GraphError, match="needs the attribute threshold"):
        infer("ThresholdGradV2D", [(2,), (2,)], domain="ascend")


def test_gradients_compute_in_float32_where_the_chip_can() -> None:
    half = [np.ones((4, 32), np.float16)] * 2
    for chip, wanted in (("Ascend310", {"float16"}), ("Ascend910B1", {"float32"})):
        work = work_of(make_node("SiluGrad", half, 1, "ascend"), chip)
        assert isinstance(work, VectorWork)
        assert {step.dtype.value for step in work.steps} == wanted
        assert sum(step.op == "vconv" for step in work.steps) == (3 if wanted == {"float32"} else 0)


@pytest.mark.parametrize(
    ("shape", "weights"), [((2, 3, 4), (3,)), ((2, 3, 4), (1,)), ((2, 3), ()), ((5,), (5,))]
)
def test_prelu_grad_is_the_slope_by_features_and_by_weights(
    shape: tuple[int, ...], weights: tuple[int, ...]
) -> None:
    generator = np.random.default_rng(2)
    x, dy, a = (generator.standard_normal(size) for size in (shape, shape, weights))
    rest = (1,) * max(0, len(shape) - 2)

    def total(x: Array, a: Array) -> float:
        return float(np.sum(dy * np.where(x > 0, x, x * (a.reshape(*a.shape, *rest) if a.size > 1 else a))))

    dx, da = run("PReluGrad", [dy, x, a], 2, "ascend")
    for found, which in ((dx, 0), (da, 1)):
        given = [x, a]
        wanted = np.zeros(given[which].shape)
        for place in np.ndindex(wanted.shape):
            step = np.zeros(wanted.shape)
            step[place] = 1e-6
            ends = [[*given[:which], given[which] + sign * step, *given[which + 1 :]] for sign in (1, -1)]
            wanted[place] = (total(*ends[0]) - total(*ends[1])) / 2e-6
        np.testing.assert_allclose(found, wanted, atol=1e-8)


def test_prelu_grad_reads_a_row_a_channel() -> None:
    given = [np.ones((2, 3, 40), np.float32)] * 2
    work = work_of(make_node("PReluGrad", [*given, np.ones(3, np.float32)], 2, "ascend"), "Ascend910B1")
    assert isinstance(work, SequenceWork)
    slopes, sums = work.parts
    assert isinstance(slopes, VectorWork)
    assert slopes.rows * slopes.cols == 240
    assert isinstance(sums, VectorWork)
    assert (sums.rows, sums.cols, sums.reduces) == (6, 40, "cols")
    with pytest.raises(GraphError, match="needs one weight or one a channel"):
        infer("PReluGrad", [(2, 3), (2, 3), (2,)], outputs=2, domain="ascend")
