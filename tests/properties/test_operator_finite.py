"""Operators that say that finite arguments give finite results (`Facts.finite`) are held to it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import ascendsim as asim
from ascendsim.graph.ir import Array
from ascendsim.ops import default_opset
from ascendsim.opset import OpDef
from ascendsim.opset.facts import Kind
from tests.support.gate import in_one

EDGES = np.array([-65504, -2, -1, -0.5, 0, 0.5, 1, 2, 65504], np.float32)
PAIRS = [side.reshape(-1) for side in np.meshgrid(EDGES, EDGES)]


def on_edges(definition: OpDef) -> Sequence[Array] | None:
    """What an operator makes of numbers at the edges of float16; None if it is no function of one or two
    lists of float32.
    """
    builder = asim.GraphBuilder()
    arrays = PAIRS[: definition.most_inputs]
    try:
        inputs = [builder.input(f"x{port}", array.shape) for port, array in enumerate(arrays)]
        result = builder.op(definition.name, *inputs, domain=definition.domain)
        assert result.producer is not None
        return definition.compute(result.producer, arrays, [np.dtype(np.float32)])
    except (TypeError, ValueError, asim.GraphError):
        return None


SAID = {
    definition.name: definition
    for definition in default_opset()
    if definition.facts.kind is Kind.ELEMENTWISE
    and definition.facts.finite
    and definition.most_inputs in (1, 2)
}


def test_functions_of_lists_are_found() -> None:
    assert {"Add", "Relu", "Sigmoid", "Tanh", "Abs"} <= SAID.keys()
    assert all(on_edges(SAID[name]) is not None for name in ("Add", "Relu", "Sigmoid", "Tanh", "Abs"))


@in_one("name", sorted(SAID))
def test_finite_arguments_give_finite_results(name: str) -> None:
    values = on_edges(SAID[name])
    if values is not None:  # windows, generators and operators of integers have no such arguments
        assert np.isfinite(values[0].astype(np.float32)).all()
