"""Random generators: repeatable, of the asked distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.graph.ir import Graph
from ascendsim.ops import default_opset
from ascendsim.opset import InferContext
from tests.support.single_node import make_node, run


def test_moments() -> None:
    uniform = run("RandomUniform", [], shape=(100, 100), low=-1.0, high=3.0, seed=1.0)[0]
    assert uniform.dtype == np.float32
    assert uniform.min() >= -1
    assert uniform.max() <= 3
    assert abs(uniform.mean() - 1) < 0.05
    normal = run("RandomNormalLike", [np.zeros((100, 100), np.float64)], mean=5.0, scale=2.0)[0]
    assert normal.dtype == np.float64
    assert abs(normal.mean() - 5) < 0.1
    assert abs(normal.std() - 2) < 0.1


def test_seed_and_name_decide() -> None:
    def draw(name: str, **attributes: Any) -> list[float]:
        graph = Graph()
        node = graph.add_node("RandomUniform", [], name=name, shape=(4,), **attributes)
        definition = default_opset().get(node)
        definition.infer(InferContext(node))
        return [float(v) for v in definition.compute(node, [], [np.dtype(np.float32)])[0]]

    assert draw("a") == draw("a") != draw("b")
    assert draw("a", seed=2.0) == draw("b", seed=2.0) != draw("a", seed=3.0)


def test_bernoulli_and_multinomial() -> None:
    chances = np.array([0.0, 1.0, 0.25] * 4000, np.float32)
    found = run("Bernoulli", [chances], dtype=DType.INT32)[0].reshape(-1, 3).mean(axis=0)
    assert found[:2].tolist() == [0, 1]
    assert abs(found[2] - 0.25) < 0.03
    drawn = run("Multinomial", [np.log(np.array([[0.1, 0.9], [0.5, 0.5]], np.float32))], sample_size=4000)[0]
    assert drawn.shape == (2, 4000)
    np.testing.assert_allclose(drawn.mean(axis=1), [0.9, 0.5], atol=0.03)


def test_errors() -> None:
    with pytest.raises(GraphError, match="shape of numbers"):
        make_node("RandomUniform", [], shape=(-1,))
    with pytest.raises(GraphError, match="matrix of logarithms"):
        make_node("Multinomial", [np.zeros(3, np.float32)])
    assert all(not operator.foldable for operator in default_opset() if "Random" in operator.name)
