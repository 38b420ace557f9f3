"""A plain evaluator of graphs in the model's own types: the operators' `compute`, one node after the other.

It knows no device, memory plan or task order, so tests of operators, front ends and passes need nothing below
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ascendsim.core.keys import key_of
from ascendsim.graph.ir import Array, Graph, Node, Tensor
from ascendsim.opset import OpSet
from ascendsim.runtime.control_flow import Value, is_control_flow, run_control


class Known:
    """Results of operators on arrays that nobody changes: graphs that differ in one thing share most of them.

    Arrays are told apart by identity, so whoever wants to share results gives the same ones (`arrays`).
    """

    def __init__(self) -> None:
        self._made: dict[Any, tuple[Sequence[Array | None], Sequence[Any]]] = {}
        self._arrays: dict[Any, list[Array]] = {}

    def arrays(self, key: object, make: Callable[[], list[Array]]) -> list[Array]:
        """The arrays that were made when this key was first asked for."""
        if key not in self._arrays:
            self._arrays[key] = make()
        return self._arrays[key]

    def compute(self, opset: OpSet, node: Node, arrays: Sequence[Array | None], dtypes: Any) -> Sequence[Any]:
        """As the operator computes it, or has computed it."""
        ends = [
            tensor and (tensor.dtype, tensor.origin_dtype, tensor.shape, tensor.format)
            for tensor in (*node.inputs, *node.outputs)
        ]
        asked = node.op_type, node.domain, key_of(node.attributes), tuple(ends), tuple(map(id, arrays))
        if asked not in self._made:
            self._made[asked] = arrays, opset.get(node).compute(node, arrays, dtypes)
        return self._made[asked][1]


def evaluate(
    graph: Graph, opset: OpSet, inputs: Mapping[str, Any], known: Known | None = None
) -> list[Array]:
    """Returns the graph's outputs in order, computed in the model's own types.

    Args:
        graph: Loaded and inferred.
        opset: Definitions of all its operators.
        inputs: Arrays by input name.
        known: Results that need not be computed again.
    """
    return _evaluate(graph, opset, [np.asarray(inputs[tensor.name]) for tensor in graph.inputs], {}, known)


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
    graph: Graph,
    opset: OpSet,
    inputs: Sequence[Array],
    around: Mapping[Tensor, Array],
    known: Known | None = None,
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
            elif known is not None:
                results = known.compute(opset, node, arrays, dtypes)
            else:
                results = opset.get(node).compute(node, arrays, dtypes)
        for tensor, result in zip(node.outputs, results, strict=False):
            if result is not None:
                values[tensor] = np.asarray(result)
    return [value(tensor) for tensor in graph.outputs]
