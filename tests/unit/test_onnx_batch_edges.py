"""Other batches at the edges of the rules: indices that do not meet the batch, ranks that are not known."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ascendsim.core.errors import GraphError
from ascendsim.frontends.onnx import load_onnx
from ascendsim.ops import default_opset
from tests.support.onnx_models import model, node, value
from tests.unit.test_onnx_batch import independent

X = [value("x", (1, 4))]


@pytest.mark.parametrize("indices", [[[0], [2]], [[3], [3], [1]], [[-1], [0]]])
def test_components_that_do_not_reach_the_batch_stay(indices: list[list[int]]) -> None:
    """The batch lies on axis 1, indices pick rows."""
    nodes = [
        node("Transpose", "x", "t", perm=[1, 0]),
        node("GatherND", "t i", "g"),
        node("Transpose", "g", "y", perm=[1, 0]),
    ]
    graph = independent(model(nodes, X, ["y"], {"i": np.array(indices)}))
    assert graph.outputs[0].shape == (3, len(indices))


@pytest.mark.parametrize("first", [0, -1])
def test_a_component_for_the_batch_counts_from_either_end(first: int) -> None:
    indices = np.array([[[first, 0], [first, 3]]])
    graph = independent(model([node("GatherND", "x i", "y")], X, ["y"], {"i": indices}))
    assert graph.outputs[0].shape == (3, 2)


def test_indices_within_each_sample_are_spread_over_the_samples() -> None:
    indices = np.array([[[1], [3]]])
    graph = independent(model([node("GatherND", "x i", "y", batch_dims=1)], X, ["y"], {"i": indices}))
    assert graph.outputs[0].shape == (3, 2)


@pytest.mark.parametrize("axis", [1, -1])
def test_a_gather_beside_the_batch_stays(axis: int) -> None:
    graph = independent(model([node("Gather", "x i", "y", axis=axis)], X, ["y"], {"i": np.array([2, -1, 0])}))
    assert graph.outputs[0].shape == (3, 3)


@pytest.mark.parametrize("index", [[0], [-1]])
def test_a_gather_along_the_batch_follows_it(index: list[int]) -> None:
    graph = independent(model([node("Gather", "x i", "y", axis=0)], X, ["y"], {"i": np.array(index)}))
    assert graph.outputs[0].shape == (3, 4)


@pytest.mark.parametrize("op", ["Gather", "GatherND"])
def test_indices_that_differ_between_samples_are_refused(op: str) -> None:
    """Of two samples, the second one takes other places."""
    inputs = [value("x", (2, 4))]
    indices = np.array([0, 0]) if op == "Gather" else np.array([[[0, 1]], [[1, 2]]])
    with pytest.raises(GraphError, match=f"{op}"):
        load_onnx(
            model([node(op, "x i", "y")], inputs, ["y"], {"i": indices}), opset=default_opset(), batch=4
        )


def test_an_input_of_unknown_rank_stays_unknown() -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4))
    u = onnx.ValueInfoProto(name="u")
    u.type.tensor_type.elem_type = TensorProto.FLOAT
    outputs = [onnx.ValueInfoProto(name=name) for name in ("y", "z")]
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["u"], ["z"])]
    proto = helper.make_model(helper.make_graph(nodes, "g", [x, u], outputs))
    graph = load_onnx(proto, opset=default_opset(), batch=3)
    assert [tensor.shape for tensor in graph.inputs] == [(3, 4), None]
    assert [tensor.shape for tensor in graph.outputs] == [(3, 4), None]


def test_elements_that_an_input_picks_are_not_repeated() -> None:
    """They have the batch themselves; those of a constant are the same for every sample."""
    places = value("i", (1, 2), TensorProto.INT64)
    graph = load_onnx(
        model([node("GatherElements", "x i", "y", axis=1)], [*X, places], ["y"]),
        opset=default_opset(),
        batch=3,
    )
    assert [len(graph.nodes), graph.outputs[0].shape] == [1, (3, 2)]
    held = {"i": np.array([[3, 0]])}
    graph = independent(model([node("GatherElements", "x i", "y", axis=1)], X, ["y"], held))
    assert graph.outputs[0].shape == (3, 2)
