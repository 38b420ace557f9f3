"""The graph engine on random graphs: values under ==, names and types of the interface, a second run that
changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ascendsim as asim
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Graph
from ascendsim.graph.text import to_text
from ascendsim.graph.verify import verify
from ascendsim.passes.infer import Inference
from tests.support.evaluate import evaluate
from tests.support.random_networks import OPSET, inputs_for, networks


def check(graph: Graph, seed: int) -> None:
    text = to_text(graph)
    result = asim.optimize(graph)
    assert to_text(graph) == text, "the given graph changed"
    verify(result.graph, OPSET)
    for before, after in zip(graph.inputs, result.graph.inputs, strict=True):
        assert (before.name, before.dtype, before.shape) == (after.name, after.dtype, after.shape)
    assert result.after.nodes <= result.before.nodes + branch_nodes(graph)
    inputs = inputs_for(graph, seed)
    expected, got = evaluate(graph, OPSET, inputs), evaluate(result.graph, OPSET, inputs)
    for tensor, after, old, new in zip(graph.outputs, result.graph.outputs, expected, got, strict=True):
        assert tensor.name == after.name
        assert (old.dtype, old.shape) == (new.dtype, new.shape)
        assert after.dtype is tensor.dtype
        assert np.array_equal(old, new, equal_nan=old.dtype.kind == "f"), tensor.name
        assert (
            np.array_equal(np.signbit(old), np.signbit(new)) or old.dtype.kind != "f" or np.isnan(old).any()
        ), tensor.name
    again = asim.optimize(result.graph)
    assert to_text(again.graph) == to_text(result.graph), "a second run changed something"


def branch_nodes(graph: Graph) -> int:
    """Outputs that branches hand on may need an Identity each."""
    return sum(len(node.outputs) for node in graph.nodes if any(True for _ in node.subgraphs))


@settings(max_examples=25)
@given(networks(), st.integers(0, 99))
def test_values_stay_and_a_second_run_changes_nothing(graph: Graph, seed: int) -> None:
    check(graph, seed)


@pytest.mark.slow
@settings(max_examples=2500)
@given(networks(), st.integers(0, 99))
def test_values_stay_and_a_second_run_changes_nothing_long(graph: Graph, seed: int) -> None:
    check(graph, seed)


def opened(graph: Graph, data: st.DataObject) -> tuple[Graph, dict[str, tuple[int, ...]]]:
    """The graph with some dimensions of its inputs left open, and the sizes that they had."""
    sizes = {tensor.name: tensor.static_shape for tensor in graph.inputs}
    inference = Inference(OPSET)
    inference.restart(graph)
    for number, tensor in enumerate(graph.inputs):
        kept = data.draw(
            st.lists(st.booleans(), min_size=len(tensor.static_shape), max_size=len(tensor.static_shape))
        )
        tensor.shape = tuple(
            dim if keep else f"d{number}_{axis}"
            for axis, (dim, keep) in enumerate(zip(tensor.static_shape, kept, strict=True))
        )
    inference.visit_all(graph.topological())
    inference.forget_values(graph)
    return graph, sizes


def check_open(graph: Graph, data: st.DataObject) -> None:
    graph, sizes = opened(graph, data)
    result = asim.optimize(graph)
    verify(result.graph, OPSET)
    twin = copy_graph(graph)
    for tensor in twin.inputs:
        tensor.shape = sizes[tensor.name]
    inputs = inputs_for(twin, 0)
    for old, new in zip(evaluate(graph, OPSET, inputs), evaluate(result.graph, OPSET, inputs), strict=True):
        assert (old.dtype, old.shape) == (new.dtype, new.shape)
        assert np.array_equal(old, new, equal_nan=old.dtype.kind == "f")
    for tensor, array in zip(result.graph.outputs, evaluate(result.graph, OPSET, inputs), strict=True):
        if tensor.shape is not None:  # whatever was inferred is true
            assert len(tensor.shape) == array.ndim
            assert all(
                dim == size
                for dim, size in zip(tensor.shape, array.shape, strict=True)
                if isinstance(dim, int)
            )
    assert to_text(asim.optimize(result.graph).graph) == to_text(result.graph)


@settings(max_examples=25)
@given(networks(), st.data())
def test_open_shapes(graph: Graph, data: st.DataObject) -> None:
    check_open(graph, data)


@pytest.mark.slow
@settings(max_examples=1500)
@given(networks(), st.data())
def test_open_shapes_long(graph: Graph, data: st.DataObject) -> None:
    check_open(graph, data)


@settings(max_examples=25)
@given(networks(branches=False), st.data())
def test_pruning_to_one_output_gives_that_output(graph: Graph, data: st.DataObject) -> None:
    tensors = [tensor for node in graph.nodes for tensor in node.outputs]
    wanted = data.draw(st.sampled_from(tensors))
    result = asim.optimize(graph, outputs=[f"{wanted.producer.name}:{wanted.index}"])
    graph.outputs[:] = [wanted]
    inputs = inputs_for(graph, 0)
    (expected,), (got,) = (evaluate(item, OPSET, inputs) for item in (graph, result.graph))
    assert np.array_equal(expected, got, equal_nan=expected.dtype.kind == "f")
