"""Computing at compile time what depends on constants alone, and what depends on shapes alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import AscendSimError, GraphError
from ascendsim.graph.ir import Array, Node, Tensor
from ascendsim.opset import OpDef

MAX_FOLDED_BYTES = 1 << 20  # results of one node: shape arithmetic and masks fold, weights do not
KEEP = "no_const_folding"  # attribute of nodes that must stay though their inputs are constant
# operands of one node: a lookup in a table folds, arithmetic on whole weights does not
MAX_SOURCE_BYTES = 64 << 20


def fold(node: Node, definition: OpDef) -> list[Array] | None:
    """The values of a node's outputs if they can be known now, else None.

    Shape and Size of a static tensor are known; other operators are computed in the model's own types if they
    are foldable, all inputs have values, and the outputs are small (at most 1 MiB in all).

    Raises:
        GraphError: If the operator fails on its constants; names the node.
    """
    if not node.domain and node.op_type in ("Shape", "Size"):
        return shape_values(node)
    return None if node.attr(KEEP, 0) else fold_small(node, definition)


def fold_small(node: Node, definition: OpDef) -> list[Array] | None:
    """The values of a foldable node whose inputs all have values and whose outputs are small, else None.

    Raises:
        GraphError: If the operator fails on its constants; names the node.
    """
    if not definition.foldable or node.subgraphs or not _operands_known(node) or not _results_small(node):
        return None
    arrays = [None if t is None or t.constant is None else t.constant.array() for t in node.inputs]
    dtypes: list[np.dtype[Any]] = [(t.origin_dtype or t.element_type).numpy for t in node.outputs]
    try:
        with np.errstate(all="ignore"):
            results = definition.compute(node, arrays, dtypes)
    except AscendSimError:
        raise
    except Exception as error:
        raise GraphError(
            f"node {node.name!r} ({node.op_type})",
            f"fails on its constant inputs: {error}",
            remedy="check the model",
        ) from error
    return [np.asarray(result) for result in results] if _complete(node, results) else None


def shape_values(node: Node) -> list[Array] | None:
    """The value of a Shape or Size if the dimensions that it asks for are numbers; None for other
    operators.
    """
    if node.domain or node.op_type not in ("Shape", "Size"):
        return None
    data = node.required(0)
    if data.shape is None:
        return None
    if node.op_type == "Size":
        return [np.array(data.elements, np.int64)] if data.is_static else None
    dims = data.shape[slice(node.attr("start", 0), node.attr("end"))]
    if not all(isinstance(dim, int) for dim in dims):
        return None
    return [np.array(dims, np.int64)]


def _operands_known(node: Node) -> bool:
    total = 0
    for tensor in node.inputs:
        if tensor is None:
            continue
        if tensor.constant is None or not tensor.constant.available or not tensor.is_static:
            return False
        total += origin_bytes(tensor)
    return total <= MAX_SOURCE_BYTES


def _results_small(node: Node) -> bool:
    """Whether every output has a known type and all of them together are small; unknown sizes count as small
    if operands are.
    """
    total = 0
    for tensor in node.outputs:
        if tensor.origin_dtype is None:
            return False
        if tensor.is_static:
            total += origin_bytes(tensor)
        elif sum(origin_bytes(t) for t in node.inputs if t is not None) > MAX_FOLDED_BYTES:
            return False
    return total <= MAX_FOLDED_BYTES


def origin_bytes(tensor: Tensor) -> int:
    """Bytes of a static tensor in the type of the user's model (four an element where that is not known)."""
    return math.prod(tensor.static_shape) * (tensor.origin_dtype or DType.FLOAT32).itemsize


def _complete(node: Node, results: Any) -> bool:
    return len(results) >= len(node.outputs) and all(
        result is not None for result in results[: len(node.outputs)]
    )
