"""Weight updates and classical models: ONNX's formulas worked out in float64, and onnxruntime where it has
the operator."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendsim.core.errors import GraphError
from ascendsim.opset.work import SequenceWork
from tests.support.single_node import infer, lower, run

TRAINING = "ai.onnx.preview.training"
RANDOM = np.random.default_rng(3)


def some(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("step", [0, 5])
def test_adam_updates_each_weight_by_its_own_state(step: int) -> None:
    weights, gradients, means, squares = ([some(3), some(2, 2)] for _ in range(4))
    squares = [np.abs(array) for array in squares]
    inputs = [np.array(0.1, np.float32), np.array(step), *weights, *gradients, *means, *squares]
    results = run("Adam", inputs, 6, TRAINING, alpha=0.9, beta=0.99, epsilon=1e-3, norm_coefficient=0.01)
    for number in range(2):
        w, g, v, h = (group[number].astype(np.float64) for group in (weights, gradients, means, squares))
        g = 0.01 * w + g
        v, h = 0.9 * v + 0.1 * g, 0.99 * h + 0.01 * g * g
        rate = 0.1 * np.sqrt(1 - 0.99**step) / (1 - 0.9**step) if step else 0.1
        for result, expected in zip(
            results[number::2], (w - rate * v / (np.sqrt(h) + 1e-3), v, h), strict=True
        ):
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("mode", ["standard", "nesterov"])
def test_momentum_of_the_first_step_takes_the_whole_gradient(mode: str) -> None:
    w, g, v = some(4), some(4), some(4)
    attributes = {"alpha": 0.9, "beta": 0.5, "norm_coefficient": 0.0, "mode": mode}
    new_w, new_v = run(
        "Momentum", [np.array(0.1, np.float32), np.array(0), w, g, v], 2, TRAINING, **attributes
    )
    np.testing.assert_allclose(new_v, 0.9 * v + g, rtol=1e-5)
    np.testing.assert_allclose(new_w, w - 0.1 * (g + 0.9 * new_v if mode == "nesterov" else new_v), rtol=1e-5)


def test_adagrad_makes_steps_shorter() -> None:
    w, g, h = some(4), some(4), np.abs(some(4))
    new_w, new_h = run(
        "Adagrad",
        [np.array(0.1, np.float32), np.array(2), w, g, h],
        2,
        TRAINING,
        decay_factor=0.5,
        epsilon=1e-6,
    )
    np.testing.assert_allclose(new_h, h + g * g, rtol=1e-5)
    np.testing.assert_allclose(new_w, w - 0.05 * g / np.sqrt(new_h), rtol=1e-4)


def test_an_update_is_one_vector_program_a_weight() -> None:
    work = lower(
        "Adam", [np.array(0.1, np.float32), np.array(1), *(some(2, 8) for _ in range(8))], 6, TRAINING
    )
    assert isinstance(work, SequenceWork)
    assert len(work.parts) == 2


def test_incomplete_groups_are_refused() -> None:
    with pytest.raises(GraphError, match="groups of 4 tensors"):
        run("Adam", [np.array(0.1, np.float32), np.array(1), some(2), some(2), some(2)], 1, TRAINING)


def test_binarizer() -> None:
    assert run("Binarizer", [np.array([-1, 0.5, 2], np.float32)], 1, "ai.onnx.ml", threshold=0.5)[
        0
    ].tolist() == [0, 0, 1]


@given(st.lists(st.integers(-3, 8), max_size=8))
def test_label_encoder_maps_or_falls_back(items: list[int]) -> None:
    table = {5: 1.5, 1: 2.5, 7: -1.0}
    attributes = {"keys_int64s": tuple(table), "values_floats": tuple(table.values()), "default_float": 9.0}
    result = run("LabelEncoder", [np.array(items, np.int64)], 1, "ai.onnx.ml", **attributes)[0]
    assert result.tolist() == [table.get(item, 9.0) for item in items]


def test_label_encoder_finds_nan() -> None:
    attributes = {"keys_floats": (1.0, float("nan")), "values_int64s": (10, 20)}
    assert run("LabelEncoder", [np.array([np.nan, 1, 2], np.float32)], 1, "ai.onnx.ml", **attributes)[
        0
    ].tolist() == [20, 10, -1]


def trees(**changes: object) -> dict[str, object]:
    """One split on feature 0 at 1.0 and one on feature 1 at 2.0, as two trees with leaves of weight 1, 2 and
    10, 20."""
    return {
        "tree_roots": (0, 1),
        "nodes_featureids": (0, 1),
        "nodes_modes": np.zeros(2, np.uint8),
        "nodes_splits": np.array([1, 2], np.float32),
        "nodes_truenodeids": (0, 2),
        "nodes_trueleafs": (1, 1),
        "nodes_falsenodeids": (1, 3),
        "nodes_falseleafs": (1, 1),
        "leaf_targetids": (0, 0, 0, 0),
        "leaf_weights": np.array([1, 2, 10, 20], np.float32),
        "n_targets": 1,
    } | changes


@pytest.mark.parametrize(
    ("aggregate", "expected"), [(0, [5.5, 6, 11]), (1, [11, 12, 22]), (2, [1, 2, 2]), (3, [10, 10, 20])]
)
def test_trees_aggregate_their_leaves(aggregate: int, expected: list[float]) -> None:
    data = np.array([[0, 0], [5, 0], [5, 5]], np.float32)
    result = run("TreeEnsemble", [data], 1, "ai.onnx.ml", **trees(aggregate_function=aggregate))[0]
    assert result.reshape(-1).tolist() == expected


def test_a_missing_value_follows_its_track() -> None:
    data = np.array([[np.nan, 0]], np.float32)
    assert run("TreeEnsemble", [data], 1, "ai.onnx.ml", **trees())[0].item() == 12
    assert (
        run("TreeEnsemble", [data], 1, "ai.onnx.ml", **trees(nodes_missing_value_tracks_true=(1, 0)))[
            0
        ].item()
        == 11
    )


def test_a_tree_that_loops_is_refused() -> None:
    with pytest.raises(GraphError, match="comes back to itself"):
        run(
            "TreeEnsemble",
            [np.zeros((1, 2), np.float32)],
            1,
            "ai.onnx.ml",
            **trees(nodes_truenodeids=(0, 1), nodes_trueleafs=(0, 0)),
        )


def test_tfidf_shape() -> None:
    attributes = {"pool_int64s": (1, 2), "ngram_counts": (0,), "ngram_indexes": (0, 3), "mode": "TF"}
    assert infer("TfIdfVectorizer", [("n", 5)], **attributes) == [("n", 4)]
