"""CANN's operators of language models' training steps: against PyTorch's functions written out, differences
of the forward operators, and what they ask of the chip."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.opset.work import AiCpuWork, SequenceWork, VectorWork
from tests.support.operator_cases import work_of
from tests.support.single_node import infer, make_node, run

Array = NDArray[Any]


def _some(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def _op(name: str, *inputs: Array, outputs: int = 1, **attributes: Any) -> list[Array]:
    return run(name, inputs, outputs, "ascend", **attributes)


def _slope(forward: Callable[[Array], Array], dy: Array, at: Array) -> Array:
    """Differences of sum(dy * forward) around each element."""
    result = np.zeros_like(at)
    for place in np.ndindex(at.shape):
        step = np.zeros_like(at)
        step[place] = 1e-5
        result[place] = ((forward(at + step) - forward(at - step)) * dy).sum() / 2e-5
    return result


@pytest.mark.parametrize(("shape", "dim"), [((3, 4, 6), -1), ((4, 3), 0), ((2, 6, 3), 1)])
def test_swiglu_gates_by_the_first_half(shape: tuple[int, ...], dim: int) -> None:
    x = _some(*shape)
    ahead = np.moveaxis(x, dim, 0)
    gate, other = ahead[: len(ahead) // 2], ahead[len(ahead) // 2 :]
    wanted = np.moveaxis(other * gate * (0.5 + 0.5 * np.tanh(gate / 2)), 0, dim)
    (found,) = _op("SwiGlu", x, dim=dim)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    dy = _some(*wanted.shape, seed=1)
    (dx,) = _op("SwiGluGrad", dy, x, dim=dim)
    np.testing.assert_allclose(dx, _slope(lambda at: _op("SwiGlu", at, dim=dim)[0], dy, x), atol=1e-8)


def test_swiglu_needs_two_halves() -> None:
    with pytest.raises(GraphError, match="an even size along dim"):
        infer("SwiGlu", [(2, 5)], domain="ascend")
    with pytest.raises(GraphError, match="needs input 0 of shape"):
        infer("SwiGluGrad", [(2, 6), (2, 6)], domain="ascend")


def test_swiglu_reads_both_halves_in_pieces() -> None:
    """Bytes of a row's half lie together; gradients have two results an element, each rounded."""
    x = np.zeros((8, 64), np.float16)
    forward = work_of(make_node("SwiGlu", [x], domain="ascend", known=False), "Ascend910B4")
    assert isinstance(forward, VectorWork)
    assert (forward.rows, forward.cols, forward.gather_bytes) == (8, 32, 64)
    assert [step.op for step in forward.steps].count("vconv") == 3
    node = make_node("SwiGluGrad", [x[:, :32], x], domain="ascend", known=False)
    backward = work_of(node, "Ascend910B4")
    assert isinstance(backward, VectorWork)
    assert [step.op for step in backward.steps].count("vconv") == 5
    along = work_of(make_node("SwiGlu", [x], domain="ascend", known=False, dim=0), "Ascend910B4")
    assert isinstance(along, VectorWork)
    assert (along.rows, along.cols) == (1, 256)


def _as_complex(x: Array, angles: Array, interleaved: bool) -> Array:
    """Pairs as complex numbers, times e^(i angle): what rotary embedding means."""
    half = x.shape[-1] // 2
    pairs = x[..., 0::2] + 1j * x[..., 1::2] if interleaved else x[..., :half] + 1j * x[..., half:]
    turned = pairs * np.exp(1j * angles)
    result = np.empty_like(x)
    if interleaved:
        result[..., 0::2], result[..., 1::2] = turned.real, turned.imag
    else:
        result[..., :half], result[..., half:] = turned.real, turned.imag
    return result


@pytest.mark.parametrize("mode", [0, 1])
def test_rotary_position_embedding_turns_pairs(mode: int) -> None:
    x, angles = _some(5, 2, 3, 8), _some(5, 1, 1, 4, seed=1)
    full = np.repeat(angles, 2, axis=-1) if mode else np.concatenate([angles, angles], axis=-1)
    (found,) = _op("RotaryPositionEmbedding", x, np.cos(full), np.sin(full), mode=mode)
    np.testing.assert_allclose(found, _as_complex(x, angles, bool(mode)), rtol=1e-12)


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("shape", [(3, 1, 1, 4), (1, 2, 1, 4), (3, 2, 2, 4)])
def test_rotary_gradients_are_differences(mode: int, shape: tuple[int, ...]) -> None:
    """Cosines and sines are any numbers here, those of a pair too."""
    x, cosine, sine = _some(3, 2, 2, 4), _some(*shape, seed=1), _some(*shape, seed=2)
    dy, name = _some(3, 2, 2, 4, seed=3), "RotaryPositionEmbedding"
    made = _op(f"{name}Grad", dy, cosine, sine, x, outputs=3, mode=mode)
    forward: list[Callable[[Array], Array]] = [
        lambda at: _op(name, at, cosine, sine, mode=mode)[0],
        lambda at: _op(name, x, at, sine, mode=mode)[0],
        lambda at: _op(name, x, cosine, at, mode=mode)[0],
    ]
    for found, function, at in zip(made, forward, (x, cosine, sine), strict=True):
        np.testing.assert_allclose(found, _slope(function, dy, at), atol=1e-8)
    short = _op(f"{name}Grad", dy, cosine, sine, outputs=3, mode=mode)
    np.testing.assert_array_equal(short[0], made[0])
    assert [array.shape for array in short[1:]] == [(0,), (0,)]


def test_rotary_refuses_what_does_not_fit() -> None:
    name = "RotaryPositionEmbedding"
    for shapes, text in (
        ([(2, 5), (2, 5), (2, 5)], "a last axis of even size"),
        ([(2, 4), (2, 2), (2, 2)], "the last in full"),
        ([(2, 4), (3, 4), (3, 4)], "the last in full"),
        ([(2, 4), (2, 4), (1, 4)], "needs input 2"),
    ):
        with pytest.raises(GraphError, match=text):
            infer(name, shapes, domain="ascend")
    with pytest.raises(GraphError, match="mode 0"):
        infer(name, [(2, 4)] * 3, domain="ascend", mode=2)
    with pytest.raises(GraphError, match="needs input 3"):
        infer(f"{name}Grad", [(2, 4), (1, 4), (1, 4), (1, 4)], outputs=3, domain="ascend")


def test_neighbours_change_places_where_the_chip_can() -> None:
    inputs = [np.zeros((4, 32), np.float16)] * 3
    chips, kinds = ("Ascend310", "Ascend910B4"), (AiCpuWork, VectorWork)
    for name in ("RotaryPositionEmbedding", "RotaryPositionEmbeddingGrad"):
        for chip, kind in zip(chips, kinds, strict=True):
            assert isinstance(work_of(make_node(name, inputs, 1, "ascend", False, mode=1), chip), kind)
            assert isinstance(work_of(make_node(name, inputs, 1, "ascend", False), chip), VectorWork)


def test_sums_of_angles_are_work_of_their_own() -> None:
    half = np.zeros((16, 4, 32), np.float16)
    inputs = [half, half[:, :1], half[:, :1], half]
    node = make_node("RotaryPositionEmbeddingGrad", inputs, 3, "ascend", False)
    work = work_of(node, "Ascend910B4")
    assert isinstance(work, SequenceWork)
    sums = work.parts[1]
    assert isinstance(sums, VectorWork)
    assert (sums.rows, sums.cols, sums.reduces, sums.gather_bytes) == (4, 512, "rows", 64)
    only = make_node("RotaryPositionEmbeddingGrad", inputs[:3], 1, "ascend", False)
    assert isinstance(work_of(only, "Ascend910B4"), VectorWork)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, 0.5, 0.0, np.inf, -np.inf])
def test_norms_are_numpys(p: float) -> None:
    x = _some(4, 6)
    x[1, 2] = 0
    np.testing.assert_allclose(
        _op("LpNormV2", x, axes=(1,), p=p)[0], np.linalg.norm(x, p, axis=1), rtol=1e-12
    )
    whole = _op("LpNormV2", x, p=p, keepdim=1)[0]
    np.testing.assert_allclose(whole, [[np.linalg.norm(x.reshape(-1), p)]], rtol=1e-12)


def test_norms_of_no_elements() -> None:
    assert _op("LpNormV2", np.zeros((0,)))[0] == 0
    with pytest.raises(GraphError, match="for no elements"):
        infer("LpNormV2", [(0,)], domain="ascend", p=-np.inf)


def test_adam_w_is_pytorchs_over_several_steps() -> None:
    """torch.optim.AdamW: weights decay first, moments are corrected by the number of the step."""
    w, m, v = _some(6), np.zeros(6), np.zeros(6)
    rates = {"lr": 0.05, "beta1": 0.8, "beta2": 0.95, "weight_decay": 0.1, "eps": 1e-3}
    weight, mean, square = w, m, v
    for step in range(1, 5):
        g = _some(6, seed=step)
        weight = weight * (1 - 0.05 * 0.1)
        mean, square = mean + 0.2 * (g - mean), square + 0.05 * (g * g - square)
        root = np.sqrt(square) / np.sqrt(1 - 0.95**step) + 1e-3
        weight = weight - 0.05 / (1 - 0.8**step) * mean / root
        w, m, v = _op("ApplyAdamWV2", w, m, v, g, np.array([step]), outputs=3, **rates)
        np.testing.assert_allclose(w, weight, rtol=1e-6)
        np.testing.assert_allclose([m, v], [mean, square], rtol=1e-6)
    up = _op("ApplyAdamWV2", w, m, v, g, np.array([5]), outputs=3, maximize=1, **rates)
    np.testing.assert_array_equal(up, _op("ApplyAdamWV2", w, m, v, -g, np.array([5]), outputs=3, **rates))


def test_amsgrad_keeps_the_largest_root() -> None:
    w, m, v, g = (_some(6, seed=number) ** 2 for number in range(4))
    top, step = np.array([0, 0, 0, 1e4, 1e4, 1e4]), np.array([2])
    rates = {"lr": 0.05, "beta1": 0.8, "beta2": 0.95, "weight_decay": 0.0, "eps": 0.0}
    plain = _op("ApplyAdamWV2", w, m, v, g, step, outputs=3, **rates)
    made = _op("ApplyAdamWV2", w, m, v, g, step, top, outputs=4, amsgrad=1, **rates)
    np.testing.assert_array_equal(made[0][:3], plain[0][:3])
    np.testing.assert_allclose(made[0][3:], (w - 0.05 * plain[1] / (1 - 0.8**2) / 100)[3:], rtol=1e-6)
    np.testing.assert_array_equal(made[3][3:], top[3:])
    np.testing.assert_allclose(made[3][:3], plain[2][:3] / (1 - 0.95**2), rtol=1e-6)
    with pytest.raises(GraphError, match="max_grad_norm with amsgrad"):
        infer("ApplyAdamWV2", [(6,)] * 4 + [(1,)], outputs=4, domain="ascend", amsgrad=1)
    with pytest.raises(GraphError, match="one number of the step"):
        infer("ApplyAdamWV2", [(6,)] * 4 + [(2,)], outputs=3, domain="ascend")


def test_rms_norm_hands_on_what_its_gradient_takes() -> None:
    x, gamma, dy = _some(3, 4, 5), _some(4, 5, seed=1), _some(3, 4, 5, seed=2)
    y, rstd = _op("RmsNorm", x, gamma, outputs=2, epsilon=1e-3)
    rows = np.stack([row / np.sqrt(np.vdot(row, row) / 20 + 1e-3) * gamma for row in x])
    np.testing.assert_allclose(y, rows, rtol=1e-12)
    assert (rstd.shape, rstd.dtype) == ((3, 1, 1), np.float32)
    dx, _ = _op("RmsNormGrad", dy, x, rstd, gamma, outputs=2)
    np.testing.assert_allclose(
        dx, _slope(lambda at: _op("RmsNorm", at, gamma, epsilon=1e-3)[0], dy, x), atol=1e-6
    )
    with pytest.raises(GraphError, match="gamma of the shape of the last axes"):
        infer("RmsNorm", [(3, 4), (3,)], outputs=2, domain="ascend")
    half = make_node("RmsNorm", [x.astype(np.float16), gamma.astype(np.float16)], 2, "ascend", False)
    work = work_of(half, "Ascend910B4")
    assert isinstance(work, VectorWork)
    assert [(out.over, out.ref.dtype) for out in work.outputs] == [
        ("all", DType.FLOAT16),
        ("row", DType.FLOAT32),
    ]


@pytest.mark.parametrize("mode", [0, 1])
def test_gradients_of_rotary_embeddings_are_their_adjoints(mode: int) -> None:
    """The result is linear in data, cosines and sines each: what a change of one adds to the loss is its
    gradient times the change.
    """
    random = np.random.default_rng(2)
    x, dy, change = (random.standard_normal((3, 2, 8)).astype(np.float32) for _ in range(3))
    cosine, sine, other = (random.standard_normal((3, 1, 8)).astype(np.float32) for _ in range(3))

    def loss(data: Any, c: Any, s: Any) -> float:
        (made,) = run("RotaryPositionEmbedding", [data, c, s], domain="ascend", mode=mode)
        return float((dy * made).sum())

    given = run("RotaryPositionEmbeddingGrad", [dy, cosine, sine, x], outputs=3, domain="ascend", mode=mode)
    zeros = np.zeros_like(cosine)
    wanted = [loss(change, cosine, sine), loss(x, other, zeros), loss(x, zeros, other)]
    found = [float((one * by).sum()) for one, by in zip(given, (change, other, other), strict=True)]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
