"""LinearAttention against its quadratic form, and its state handed over between calls."""

from __future__ import annotations

import numpy as np
import pytest

from ascendsim.core.errors import GraphError
from ascendsim.opset.work import SequenceWork, VectorWork
from tests.support.single_node import infer, lower, run

RANDOM = np.random.default_rng(9)
HEADS = {"q_num_heads": 4, "kv_num_heads": 2}


def inputs(steps: int = 6) -> list[np.ndarray | None]:
    query, key, value = (
        RANDOM.standard_normal((2, steps, width)).astype(np.float32) for width in (4 * 8, 2 * 8, 2 * 5)
    )
    decay, beta = (
        -RANDOM.random((2, steps, 2)).astype(np.float32),
        RANDOM.random((2, steps, 2)).astype(np.float32),
    )
    return [query, key / 3, value, None, decay, beta]


def test_the_linear_rule_is_attention_without_softmax() -> None:
    query, key, value, *_ = inputs()
    assert query is not None
    assert key is not None
    assert value is not None
    q, k, v = (
        query.reshape(2, 6, 4, 8),
        key.reshape(2, 6, 2, 8).repeat(2, axis=2),
        value.reshape(2, 6, 2, 5).repeat(2, axis=2),
    )
    scores = np.tril(np.einsum("bthk,bshk->bhts", q, k))
    expected = np.einsum("bhts,bshv->bthv", scores, v).reshape(2, 6, 20) / np.sqrt(8)
    result = run("LinearAttention", [query, key, value], 2, update_rule="linear", **HEADS)[0]
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
def test_two_halves_with_the_state_between_equal_the_whole(rule: str) -> None:
    arrays = inputs()
    whole, end = run("LinearAttention", arrays, 2, update_rule=rule, **HEADS)
    first, state = run(
        "LinearAttention", [None if a is None else a[:, :4] for a in arrays], 2, update_rule=rule, **HEADS
    )
    rest = [None if a is None else a[:, 4:] for a in arrays]
    rest[3] = state
    second, last = run("LinearAttention", rest, 2, update_rule=rule, **HEADS)
    np.testing.assert_allclose(np.concatenate([first, second], axis=1), whole, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(last, end, rtol=1e-5, atol=1e-6)


def test_the_delta_rule_stores_what_it_reads_back() -> None:
    key = np.zeros((1, 1, 4), np.float32)
    key[..., 2] = 1  # unit length
    value, beta = np.arange(3, dtype=np.float32).reshape(1, 1, 3), np.ones((1, 1, 1), np.float32)
    past = RANDOM.standard_normal((1, 1, 4, 3)).astype(np.float32)
    heads = {"q_num_heads": 1, "kv_num_heads": 1, "scale": 1.0}
    result = run("LinearAttention", [key, key, value, past, None, beta], 2, update_rule="delta", **heads)[0]
    np.testing.assert_allclose(result, value, atol=1e-6)


def test_shapes_refusals_and_work() -> None:
    shapes = infer(
        "LinearAttention",
        [("n", "t", 32), ("n", "t", 16), ("n", "t", 10)],
        outputs=2,
        update_rule="linear",
        **HEADS,
    )
    assert shapes == [("n", "t", 20), ("n", 2, 8, 5)]
    with pytest.raises(GraphError, match="input 4 for update_rule gated"):
        run("LinearAttention", inputs()[:3], 2, update_rule="gated", **HEADS)
    with pytest.raises(GraphError, match="multiple of kv_num_heads"):
        run("LinearAttention", inputs()[:3], 2, update_rule="linear", q_num_heads=3, kv_num_heads=2)
    work = lower("LinearAttention", inputs(), 2, update_rule="gated_delta", **HEADS)
    assert isinstance(work, SequenceWork)
    (step,) = work.parts
    assert isinstance(step, VectorWork)
    assert (work.repeat, step.rows, step.cols) == (6, 2 * 2 * 8, 5)
