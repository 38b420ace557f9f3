"""Values of a graph without a device: operator after operator, each result dropped after its last reader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.threads import fixed_threads
from ascendsim.graph.ir import Array, Graph, Tensor
from ascendsim.ops.shared.common import settled
from ascendsim.opset import OpSet
from ascendsim.runtime.device_memory import FLOAT16, constant_values
from ascendsim.runtime.evaluate import checked_inputs

See = Callable[[Tensor, Array], None]


@fixed_threads()
def evaluate_plain(
    graph: Graph,
    opset: OpSet,
    inputs: Mapping[str, Array],
    device: bool = False,
    half: np.dtype[Any] = FLOAT16,
    see: See | None = None,
) -> dict[str, Array]:
    """Computes a static graph without control flow.

    Args:
        graph: The user's graph, or one with the device's types.
        opset: Operators.
        inputs: Arrays by graph input name.
        device: Whether to compute in the device's types instead of the model's own.
        half: The device's float16, which may saturate.
        see: Called with every result.

    Returns:
        Outputs by name.

    Raises:
        InputError: If an input is missing, unknown, or of the wrong shape or type.
        GraphError: If a weight has no values.
    """

    def dtype_of(tensor: Tensor) -> np.dtype[Any]:
        kind = tensor.element_type if device else tensor.origin_dtype or tensor.element_type
        return half if device and kind is DType.FLOAT16 else kind.numpy

    values: dict[Tensor, Array] = {}
    for name, array in checked_inputs(graph, inputs).items():
        tensor = graph.tensors[name]
        with np.errstate(all="ignore"):
            values[tensor] = settled(np.asarray(array, dtype_of(tensor)), dtype_of(tensor))
    left = Counter(tensor for node in graph.nodes for tensor in node.inputs if tensor is not None)
    left.update(graph.outputs)

    def value(tensor: Tensor) -> Array:
        return constant_values(tensor, dtype_of(tensor)) if tensor.is_constant else values[tensor]

    for node in graph.topological():
        given = [None if tensor is None else value(tensor) for tensor in node.inputs]
        definition = opset.get(node)
        with np.errstate(all="ignore"):
            if definition.compute_body is not None:
                results = definition.compute_body(node, given, dtype_of, lambda _tensor: None, None)
            else:
                results = definition.compute(node, given, [dtype_of(tensor) for tensor in node.outputs])
        for tensor, result in zip(node.outputs, results, strict=False):
            if result is not None:
                values[tensor] = settled(np.asarray(result), dtype_of(tensor))
                if see is not None:
                    see(tensor, values[tensor])
        left.subtract(tensor for tensor in node.inputs if tensor is not None)
        for used in (*node.inputs, *node.outputs):
            if used is not None and left[used] <= 0:
                values.pop(used, None)
    return {tensor.name: value(tensor) for tensor in graph.outputs}
