"""Whole weight updates, norms and checks of overflow: formulas written in float64, over several steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascendsim.core.errors import GraphError
from ascendsim.opset.work import AiCpuWork, SequenceWork, VectorWork
from tests.support.operator_cases import work_of
from tests.support.single_node import infer, make_node, run

Array = Any
RANDOM = np.random.default_rng(23)
STEPS = 4


def _numbers(*values: float) -> list[Array]:
    return [np.float64(value) for value in values]


def _close(found: list[Array], wanted: list[Array]) -> None:
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("nesterov", [0, 1])
def test_momentum(nesterov: int) -> None:
    w, v = RANDOM.standard_normal((2, 5))
    for _ in range(STEPS):
        g = RANDOM.standard_normal(5)
        velocity = 0.9 * v + g
        wanted = w - 0.1 * (g + 0.9 * velocity if nesterov else velocity)
        found = run(
            "ApplyMomentum", [w, v, *_numbers(0.1), g, *_numbers(0.9)], 2, "ascend", use_nesterov=nesterov
        )
        _close(found, [wanted, velocity])
        w, v = found


def test_adam_and_adam_w_correct_their_bias() -> None:
    """Kingma and Ba's form: corrected moments; weight decay apart from the gradient (Loshchilov and
    Hutter).
    """
    beta1, beta2, rate, decay = 0.9, 0.99, 0.05, 0.1
    for decayed in (False, True):
        w, m, v = RANDOM.standard_normal(6), np.zeros(6), np.zeros(6)
        mean, square, weight = m, v, w
        for step in range(1, STEPS + 1):
            g = RANDOM.standard_normal(6)
            mean, square = beta1 * mean + 0.1 * g, beta2 * square + 0.01 * g**2
            m_hat, v_hat = mean / (1 - beta1**step), square / (1 - beta2**step)
            if decayed:
                powers = _numbers(beta1 ** (step - 1), beta2 ** (step - 1))
                numbers = [*powers, *_numbers(rate, decay, beta1, beta2, 1e-6)]
                weight = weight * (1 - rate * decay) - rate * m_hat / (np.sqrt(v_hat) + 1e-6)
                found = run("ApplyAdamW", [w, m, v, *numbers, g], 3, "ascend")
            else:
                numbers = _numbers(beta1**step, beta2**step, rate, beta1, beta2, 0.0)
                weight = weight - rate * m_hat / np.sqrt(v_hat)
                found = run("ApplyAdam", [w, m, v, *numbers, g], 3, "ascend")
            np.testing.assert_allclose(found[0], weight, rtol=1e-9)
            _close(found[1:], [mean, square])
            w, m, v = found


def test_epsilon_of_adam_is_added_to_the_uncorrected_root() -> None:
    """As TensorFlow's ApplyAdam: lr sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + epsilon)."""
    w, m, v, g = RANDOM.random((4, 5))
    numbers = _numbers(0.81, 0.9801, 0.05, 0.9, 0.99, 0.3)
    first, second = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g**2
    rate = 0.05 * np.sqrt(1 - 0.9801) / (1 - 0.81)
    for ahead in (0, 1):
        top = 0.9 * first + 0.1 * g if ahead else first
        found = run("ApplyAdam", [w, m, v, *numbers, g], 3, "ascend", use_nesterov=ahead)
        _close(found, [w - rate * top / (np.sqrt(second) + 0.3), first, second])


def test_adam_w_may_go_uphill() -> None:
    w, m, v, g = RANDOM.random((4, 5))
    numbers = _numbers(1.0, 1.0, 0.05, 0.0, 0.9, 0.99, 1e-6)
    up = run("ApplyAdamW", [w, m, v, *numbers, g], 3, "ascend", maximize=1)
    _close(up, run("ApplyAdamW", [w, m, v, *numbers, -g], 3, "ascend"))


def test_lamb_scales_adams_direction_by_the_ratio_of_norms() -> None:
    """You et al.: w - rate |w| / |u| u, with u = m_hat / (sqrt(v_hat) + e) + decay w."""
    w, m, v = RANDOM.standard_normal(6), np.zeros(6), np.zeros(6)
    mean, square, weight = m, v, w
    for step in range(1, STEPS + 1):
        g = RANDOM.standard_normal(6)
        mean, square = 0.9 * mean + 0.1 * g, 0.99 * square + 0.01 * g**2
        u = mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.99**step)) + 1e-6) + 0.01 * weight
        weight = weight - 0.1 * np.linalg.norm(weight) / np.linalg.norm(u) * u
        numbers = _numbers(0.9, 0.1, 0.99, 0.01, 1e-6, step, 1, 0.01)
        update, v, m = run("LambApplyOptimizerAssign", [g, v, m, w, *numbers], 3, "ascend")
        _close([update, m, v], [u, mean, square])
        norms = _numbers(np.linalg.norm(w), np.linalg.norm(update), 0.1)
        (w,) = run("LambApplyWeightAssign", [*norms, update, w], 1, "ascend")
        np.testing.assert_allclose(w, weight, rtol=1e-10)


@pytest.mark.parametrize("norms", [(0.0, 2.0), (2.0, 0.0), (0.0, 0.0)])
def test_lamb_without_a_norm_takes_the_plain_rate(norms: tuple[float, float]) -> None:
    w, u = RANDOM.standard_normal((2, 4))
    (found,) = run("LambApplyWeightAssign", [*_numbers(*norms, 0.1), u, w], 1, "ascend")
    np.testing.assert_allclose(found, w - 0.1 * u)


def test_updates_are_one_pass_over_their_tensors() -> None:
    w, number = np.ones((30, 40), np.float32), np.float32(0.1)
    node = make_node("ApplyMomentum", [w, w, number, w, number], 2, "ascend")
    work = work_of(node, "Ascend910A")
    assert isinstance(work, VectorWork)
    assert [stream.over for stream in work.inputs] == ["all", "all", "one", "all", "one"]
    assert [stream.ref.shape for stream in work.outputs] == [(30, 40)] * 2


# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("axes", "keep"), [((0,), 0), ((1, -1), 1), ((), 0)])
def test_sums_of_squares(axes: tuple[int, ...], keep: int) -> None:
    x = RANDOM.standard_normal((3, 4, 5))
    total, squares = run("SquareSumV2", [x], 2, "ascend", axis=axes, keep_dims=keep)
    wanted = np.linalg.norm(x.reshape(-1)) ** 2 if not axes else np.sum(x**2, axis=axes, keepdims=bool(keep))
    np.testing.assert_allclose(total, wanted)
    np.testing.assert_allclose(squares, x**2)
    np.testing.assert_allclose(run("L2Loss", [x], 1, "ascend")[0], np.linalg.norm(x.reshape(-1)) ** 2 / 2)


def test_sums_of_squares_of_float16_do_not_overflow_on_the_way() -> None:
    (half,) = run("L2Loss", [np.array([300], np.float16)], 1, "ascend")
    assert half == np.float16(45000)  # 300^2 is above 65504


def test_shapes_of_sums_of_squares() -> None:
    assert infer("SquareSumV2", [("n", 4)], outputs=2, domain="ascend", axis=(1,)) == [("n",), ("n", 4)]
    kept = infer("SquareSumV2", [("n", 4)], outputs=2, domain="ascend", axis=(0,), keep_dims=1)
    assert kept == [(1, 4), ("n", 4)]
    assert infer("L2Loss", [None], domain="ascend") == [()]
    with pytest.raises(GraphError, match="needs the attribute axis"):
        infer("SquareSumV2", [(2, 4)], outputs=2, domain="ascend")


def test_a_full_sum_and_its_squares_are_one_pass_that_cores_share() -> None:
    node = make_node("SquareSumV2", [np.ones((30, 40), np.float32)], 2, "ascend", axis=())
    work = work_of(node, "Ascend910A")
    assert isinstance(work, VectorWork)
    assert work.reduces == "none"
    assert [stream.over for stream in work.outputs] == ["one", "all"]


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_one_number_that_is_not_finite_is_found(bad: float, dtype: Any) -> None:
    good = [np.full((3, 4), np.finfo(dtype).max, dtype), np.zeros(5, dtype)]
    spoilt = [good[0], good[1].copy()]
    spoilt[1][3] = bad
    clear = np.zeros(8, np.float32)
    for tensors, finite in ((good, True), (spoilt, False)):
        (flag,) = run("AllFinite", tensors, 1, "ascend")
        np.testing.assert_array_equal(flag, [finite])
        np.testing.assert_array_equal(run("NonFiniteCheck", tensors, 1, "ascend")[0], [not finite])
        (status,) = run("NPUGetFloatStatus", [clear, *tensors], 1, "ascend")
        assert status.sum() == (not finite)


def test_the_status_stays_until_it_is_cleared() -> None:
    (status,) = run("NPUAllocFloatStatus", [], 1, "ascend")
    np.testing.assert_array_equal(status, np.zeros(8))
    (status,) = run("NPUGetFloatStatus", [status, np.array([np.inf])], 1, "ascend")
    (status,) = run("NPUGetFloatStatus", [status, np.array([1.0])], 1, "ascend")
    assert status[0] == 1
    (status,) = run("NPUClearFloatStatus", [status], 1, "ascend")
    np.testing.assert_array_equal(status, np.zeros(8))
    with pytest.raises(GraphError, match=r"needs input 0 of shape \(8,\)"):
        infer("NPUGetFloatStatus", [(4,)], domain="ascend")


def test_the_register_costs_no_pass_over_the_gradients() -> None:
    gradient = np.ones((64, 64), np.float32)
    status = work_of(
        make_node("NPUGetFloatStatus", [np.zeros(8, np.float32), gradient], 1, "ascend"), "Ascend910A"
    )
    assert isinstance(status, VectorWork)
    assert [stream.ref.bytes for stream in status.inputs] == [32]
    looked = work_of(make_node("AllFinite", [gradient, gradient], 1, "ascend"), "Ascend910B1")
    assert isinstance(looked, SequenceWork)
    assert not any(isinstance(part, AiCpuWork) for part in looked.parts)
    assert [part.rows * part.cols for part in looked.parts if isinstance(part, VectorWork)] == [4096, 4096]
    with pytest.raises(GraphError, match="needs tensors to look at"):
        infer("AllFinite", [], domain="ascend")
