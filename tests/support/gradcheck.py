"""Gradients of a graph against central differences of its values, in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.ops import default_opset
from ascendsim.training.reverse import gradient
from tests.support.evaluate import evaluate

Array = np.ndarray[Any, np.dtype[Any]]
Build = Callable[..., "Tensor | Sequence[Tensor]"]


def loss_graph(build: Build, inputs: Mapping[str, Array], seed: int = 0) -> Graph:
    """A graph of some inputs whose one output weighs all elements of what `build` makes of them."""
    rng = np.random.default_rng(seed)
    b = asim.GraphBuilder("checked", dtype=DType.FLOAT64)
    tensors = [b.input(name, array.shape, DType.of(array.dtype)) for name, array in inputs.items()]
    made = build(b, *tensors)
    total = None
    for result in [made] if isinstance(made, Tensor) else made:
        weighed = b.op("Mul", result, rng.uniform(0.5, 1.5, result.static_shape))
        part = b.op("ReduceSum", weighed, keepdims=0)
        total = part if total is None else b.op("Add", total, part)
    assert total is not None
    b.output(total, "loss")
    return b.build()


def central_differences(
    graph: Graph, inputs: Mapping[str, Array], name: str, step: float = 1e-6, most: int = 400
) -> Array:
    """Slopes of the first output along every element of an input."""
    opset, result = default_opset(), np.zeros(inputs[name].shape)
    assert result.size <= most, "too many elements for a quick test"

    def value(place: tuple[int, ...], by: float) -> float:
        moved = {**inputs, name: inputs[name].copy()}
        moved[name][place] += by
        return float(evaluate(graph, opset, moved)[0].reshape(()))

    for place in np.ndindex(*result.shape):
        result[place] = (value(place, step) - value(place, -step)) / (2 * step)
    return result


def check_gradients(
    build: Build, inputs: Mapping[str, Array], tolerance: float = 1e-6, step: float = 1e-6, seed: int = 0
) -> Graph:
    """Compares the gradients by all floating-point inputs; returns the graph with gradients."""
    graph = loss_graph(build, inputs, seed)
    names = [name for name, array in inputs.items() if array.dtype.kind == "f"]
    both = gradient(graph, "loss", names)
    assert [output.name for output in both.outputs] == ["loss", *(f"{name}.grad" for name in names)]
    values = evaluate(both, default_opset(), inputs)
    for name, found in zip(names, values[1:], strict=True):
        wanted = central_differences(graph, inputs, name, step)
        assert found.shape == wanted.shape
        assert found.dtype == inputs[name].dtype
        scale = max(1.0, float(np.abs(wanted).max(initial=0)))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * scale, err_msg=name)
    return both
