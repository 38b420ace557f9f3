"""Activations against formulas in float64 and onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

from ascendsim.ops import default_opset
from ascendsim.opset.work import LowerContext, VectorWork
from tests.support.gate import in_one
from tests.support.half import emulate, every_half, ulps
from tests.support.single_node import make_node, run, with_onnxruntime


def softplus(x: Any) -> Any:
    return np.logaddexp(0, x)


FORMULAS: dict[str, tuple[dict[str, Any], Any]] = {
    "Relu": ({}, lambda x: np.maximum(x, 0)),
    "LeakyRelu": ({"alpha": 0.125}, lambda x: np.where(x < 0, 0.125 * x, x)),
    "Sigmoid": ({}, special.expit),
    "Tanh": ({}, np.tanh),
    "HardSigmoid": ({"alpha": 0.25, "beta": 0.5}, lambda x: np.clip(0.25 * x + 0.5, 0, 1)),
    "HardSwish": ({}, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    "Gelu": ({}, lambda x: x * special.ndtr(x)),
    "Swish": ({"alpha": 0.5}, lambda x: x * special.expit(0.5 * x)),
    "Elu": ({"alpha": 2.0}, lambda x: np.where(x < 0, 2 * np.expm1(x), x)),
    "Celu": ({"alpha": 2.0}, lambda x: np.maximum(x, 0) + np.minimum(2 * np.expm1(x / 2), 0)),
    "Selu": ({"alpha": 1.5, "gamma": 2.0}, lambda x: 2 * np.where(x > 0, x, 1.5 * np.expm1(x))),
    "Softplus": ({}, softplus),
    "Softsign": ({}, lambda x: x / (1 + np.abs(x))),
    "Mish": ({}, lambda x: x * np.tanh(softplus(x))),
    "ThresholdedRelu": ({"alpha": 1.5}, lambda x: np.where(x > 1.5, x, 0)),
    "Shrink": (
        {"lambd": 1.5, "bias": 0.5},
        lambda x: np.where(x < -1.5, x + 0.5, np.where(x > 1.5, x - 0.5, 0)),
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_float16_rounds_once(name: str) -> None:
    attributes, formula = FORMULAS[name]
    x = every_half()
    x = x[np.isfinite(x)]
    cancels = name == "Gelu"  # adds 1 to erf near -1, as its formula in basic operators
    assert ulps(run(name, [x], **attributes)[0], emulate(formula, x)).max() <= 1 + cancels


@in_one("name", FORMULAS)
@in_one("dtype", [np.float32, np.float64])
def test_wide_types(name: str, dtype: Any) -> None:
    attributes, formula = FORMULAS[name]
    x = np.linspace(-8, 8, 161).astype(dtype)
    np.testing.assert_allclose(
        run(name, [x], **attributes)[0], formula(x.astype(np.float64)), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize(
    ("name", "attributes", "opset"),
    [
        ("Gelu", {"approximate": "tanh"}, 20),
        ("Gelu", {}, 20),
        ("Selu", {}, 18),
        ("HardSigmoid", {}, 18),
        ("LeakyRelu", {}, 18),
        ("Celu", {}, 18),
    ],
)
def test_defaults_agree_with_onnxruntime(name: str, attributes: dict[str, Any], opset: int) -> None:
    x = np.linspace(-6, 6, 121, dtype=np.float32)
    np.testing.assert_allclose(
        run(name, [x], **attributes)[0],
        with_onnxruntime(name, [x], opset=opset, **attributes)[0],
        rtol=1e-5,
        atol=1e-6,
    )


def test_relu_of_integers_and_special_values() -> None:
    np.testing.assert_array_equal(run("Relu", [np.array([-3, 4], np.int32)])[0], np.array([0, 4], np.int32))
    x = np.array([np.nan, -np.inf, np.inf, -0.0], np.float32)
    np.testing.assert_array_equal(run("Relu", [x])[0], np.array([np.nan, 0, np.inf, 0], np.float32))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, np.float64])
def test_clip(dtype: Any) -> None:
    x, low, high = np.array([-5, -1, 0, 1, 5], dtype), np.array(-1, dtype), np.array(2, dtype)
    np.testing.assert_array_equal(run("Clip", [x, low, high])[0], np.array([-1, -1, 0, 1, 2], dtype))
    np.testing.assert_array_equal(run("Clip", [x, None, high])[0], np.array([-5, -1, 0, 1, 2], dtype))
    np.testing.assert_array_equal(run("Clip", [x, low])[0], np.array([-1, -1, 0, 1, 5], dtype))
    # low above high: high wins
    np.testing.assert_array_equal(run("Clip", [x, high, low])[0], np.full(5, -1, dtype))
    copy = run("Clip", [x])[0]
    np.testing.assert_array_equal(copy, x)
    assert not np.shares_memory(copy, x)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_prelu(dtype: Any) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 5)).astype(dtype)
    slope = np.array([[0.5], [0.25], [2]], dtype)
    np.testing.assert_array_equal(run("PRelu", [x, slope])[0], np.where(x < 0, x * slope, x))


def test_swiglu() -> None:
    a, b = np.random.default_rng(1).standard_normal((2, 4, 8)).astype(np.float16)
    assert ulps(run("SwiGLU", [a, b])[0], emulate(lambda u, v: u * special.expit(u) * v, a, b)).max() <= 1


def _steps(name: str, *inputs: Any, **attributes: Any) -> list[str]:
    node = make_node(name, inputs, known=False, **attributes)
    definition = default_opset().get(node)
    assert definition.lower is not None
    work = definition.lower(node, LowerContext(intrinsics={"vexp": ("float16",)}))
    assert isinstance(work, VectorWork)
    return [step.op for step in work.steps]


def test_lowering() -> None:
    x, one = np.ones((4, 4), np.float16), np.float16(1)
    assert _steps("Relu", x) == ["vrelu"]
    assert _steps("Sigmoid", x) == ["vmuls", "vexp", "vadds", "vrec"]
    assert _steps("Clip", x, one, one) == ["vmaxs", "vmins"]
    assert _steps("Clip", x, None, one) == ["vmins"]
    assert _steps("Gelu", x, approximate="tanh").count("vexp") == 2
    assert _steps("Gelu", x) == _steps("Gelu", x, approximate="tanh")
