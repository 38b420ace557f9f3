"""Operators that say that finite arguments give finite results (`Facts.finite`) are held to it."""

from __future__ import annotations

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.ops import default_opset
from ascendsim.opset import OpDef
from ascendsim.opset.facts import Kind

EDGES = np.array([-65504, -2, -1, -0.5, 0, 0.5, 1, 2, 65504], np.float32)
PAIRS = [side.reshape(-1) for side in np.meshgrid(EDGES, EDGES)]
SAID = [
    definition
    for definition in default_opset()
    if definition.facts.kind is Kind.ELEMENTWISE
    and definition.facts.finite
    and definition.most_inputs in (1, 2)
]


@pytest.mark.parametrize("definition", SAID, ids=lambda definition: definition.name)
def test_finite_arguments_give_finite_results(definition: OpDef) -> None:
    builder = asim.GraphBuilder()
    arrays = PAIRS[: definition.most_inputs]
    try:
        inputs = [builder.input(f"x{port}", array.shape) for port, array in enumerate(arrays)]
        result = builder.op(definition.name, *inputs, domain=definition.domain)
        assert result.producer is not None
        values = definition.compute(result.producer, arrays, [np.dtype(np.float32)])
    except (TypeError, ValueError, asim.GraphError):
        pytest.skip("no function of one or two lists of float32")
    assert np.isfinite(values[0].astype(np.float32)).all()
