"""A plain evaluator of graphs in the model's own types: the operators' `compute`, one node after the other.

It knows no device, memory plan or task order, so tests of operators, front ends and passes need nothing below them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ascendsim.graph.ir import Array, Graph, Tensor
from ascendsim.opset import OpSet


def evaluate(graph: Graph, opset: OpSet, inputs: Mapping[str, Any]) -> list[Array]:
    """Returns the graph's outputs in order, computed in the model's own types.

    Args:
        graph: Loaded and inferred.
        opset: Definitions of all its operators.
        inputs: Arrays by input name.
    """
    values: dict[Tensor, Array] = {tensor: np.asarray(inputs[tensor.name]) for tensor in graph.inputs}

    def value(tensor: Tensor) -> Array:
        return tensor.constant.array() if tensor.constant is not None else values[tensor]

    for node in graph.topological():
        arrays = [None if tensor is None else value(tensor) for tensor in node.inputs]
        dtypes = [(tensor.origin_dtype or tensor.element_type).numpy for tensor in node.outputs]
        with np.errstate(all="ignore"):
            results = opset.get(node).compute(node, arrays, dtypes)
        for tensor, result in zip(node.outputs, results, strict=False):
            if result is not None:
                values[tensor] = np.asarray(result)
    return [value(tensor) for tensor in graph.outputs]
