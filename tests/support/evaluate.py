"""A plain evaluator of graphs in the model's own types: the operators' `compute`, one node after the other.

It knows no device, memory plan or task order, so tests of operators, front ends and passes need nothing below
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ascendsim.graph.ir import Array, Graph, Node, Tensor
from ascendsim.opset import OpSet
from ascendsim.runtime.control_flow import Value, is_control_flow, run_control


def evaluate(graph: Graph, opset: OpSet, inputs: Mapping[str, Any]) -> list[Array]:
    """Returns the graph's outputs in order, computed in the model's own types.

    Args:
        graph: Loaded and inferred.
        opset: Definitions of all its operators.
        inputs: Arrays by input name.
    """
    return _evaluate(graph, opset, [np.asarray(inputs[tensor.name]) for tensor in graph.inputs], {})


class _Evaluator:
    """Runs subgraphs by evaluating them; values are always there, so nothing is ever asked."""

    def __init__(self, opset: OpSet, around: Mapping[Tensor, Array]) -> None:
        self.opset, self.around = opset, around

    def run(self, body: Graph, inputs: Sequence[Value], name: str) -> list[Value]:
        arrays = [item.array for item in inputs if item.array is not None]
        return [Value.of(array) for array in _evaluate(body, self.opset, arrays, self.around)]

    def decided(self, node: Node, on_host: bool) -> None:
        """Nothing takes time here."""

    def branch(self, node: Node, names: Sequence[str]) -> int:
        raise AssertionError(node)

    def trips(self, node: Node, limit: int | None) -> int:
        raise AssertionError(node)


def _evaluate(
    graph: Graph, opset: OpSet, inputs: Sequence[Array], around: Mapping[Tensor, Array]
) -> list[Array]:
    values: dict[Tensor, Array] = {**around, **dict(zip(graph.inputs, inputs, strict=True))}

    def value(tensor: Tensor) -> Array:
        return tensor.constant.array() if tensor.constant is not None else values[tensor]

    for node in graph.topological():
        arrays = [None if tensor is None else value(tensor) for tensor in node.inputs]
        dtypes = [(tensor.origin_dtype or tensor.element_type).numpy for tensor in node.outputs]
        with np.errstate(all="ignore"):
            if is_control_flow(node):
                held = [None if array is None else Value.of(array) for array in arrays]
                results: Sequence[Any] = [
                    item.array for item in run_control(node, held, _Evaluator(opset, values))
                ]
            else:
                results = opset.get(node).compute(node, arrays, dtypes)
        for tensor, result in zip(node.outputs, results, strict=False):
            if result is not None:
                values[tensor] = np.asarray(result)
    return [value(tensor) for tensor in graph.outputs]
