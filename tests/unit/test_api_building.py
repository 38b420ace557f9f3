"""The builder of the public interface."""

from __future__ import annotations

import numpy as np
import pytest

import ascendsim as asim


def test_a_built_graph_has_shapes_compiles_and_runs() -> None:
    b = asim.GraphBuilder("tiny")
    x = b.input("x", (2, 3, 8, 8))
    y = b.op("Conv", x, np.ones((4, 3, 3, 3), np.float32), strides=(2, 2))
    assert y.shape == (2, 4, 3, 3)
    b.output(b.op("Relu", b.op("Add", y, -5.0)), "y")
    model = asim.compile(b.build(), soc="Ascend310")
    outputs = asim.run(model, {"x": np.ones((2, 3, 8, 8), np.float32)}).outputs
    assert np.array_equal(outputs["y"], np.full((2, 4, 3, 3), 22, np.float32))


def test_mistakes_are_found_at_the_step_that_makes_them() -> None:
    b = asim.GraphBuilder()
    x = b.input("x", (2, 3))
    with pytest.raises(asim.GraphError, match="MatMul"):
        b.op("MatMul", x, np.ones((4, 5), np.float32))
    with pytest.raises(asim.UnsupportedOperatorError, match="Relo"):
        b.op("Relo", x)


def test_a_graph_shows_itself_in_one_line() -> None:
    b = asim.GraphBuilder("net")
    b.output(b.op("Relu", b.input("x", (2, "n"))), "y")
    assert repr(b.build()) == "Graph('net', 1 nodes, inputs=[%x: float32[2,n]], outputs=[%y: float32[2,n]])"


def test_a_shape_that_is_not_static_is_named_as_the_user_knows_it() -> None:
    b = asim.GraphBuilder("net")
    b.output(b.op("Relu", b.input("x", ("n", 4))), "y")
    model = asim.compile(b.build(), "Ascend310P3")
    said = r"input 'x' has the open shape \[n, 4\]; say which, .* shapes="
    with pytest.raises(asim.InputError, match=said):
        asim.simulate(model)
