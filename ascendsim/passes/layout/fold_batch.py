"""Folds the batch axes of a matrix product into its rows where the right operand serves all of them.

Before: y[197, 1, 2304] = MatMul(x[197, 1, 768], w[768, 2304]), 197 products of one row each, padded to 16
rows.
After:  y = Reshape(MatMul(Reshape(x, [197, 768]), w), [197, 1, 2304]), one product of 197 rows.
CANN's BatchMatMulV2ReshapeFusionPass (graph fusion, canndev) does so for many products of few rows only, by
the limits below. All others stay as they are, padded rows and all: their operands may stay in FRACTAL_NZ
through the operators around them.
"""

from __future__ import annotations

import math

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.passes.rewriting.outputs import set_aside
from ascendsim.passes.rewriting.replace import insert_after

LIMITS = ((50, 32), (4096, 64))  # at least so many products of at most so many rows


def fold_batches(graph: Graph) -> int:
    """Folds all such products.

    Returns:
        How many.
    """
    folded = 0
    for node in graph.nodes:
        if node.op_type in ("MatMul", "BatchMatMul") and _folds(node):
            _fold(graph, node)
            folded += 1
    return folded


def _folds(node: Node) -> bool:
    left, right = node.required(0), node.required(1)
    if node.attr("adj_x1", 0):
        return False  # rows of a transposed operand do not lie one behind the other
    if not (left.is_static and right.is_static) or len(right.static_shape) != 2 or len(left.static_shape) < 3:
        return False
    products, rows = math.prod(left.static_shape[:-2]), left.static_shape[-2]
    return left.elements > 0 and any(products >= least and rows <= most for least, most in LIMITS)


def _fold(graph: Graph, node: Node) -> None:
    left, result = node.required(0), node.output
    shape = result.static_shape
    rows = math.prod(shape[:-1])
    node.set_input(0, reshaped(graph, left, (rows, left.static_shape[-1]), graph.fresh(f"{left.name}_rows")))
    name = set_aside(graph, result, "rows")
    result.shape = (rows, shape[-1])
    unfolded = reshaped(graph, result, shape, name)
    insert_after(result, unfolded)
    graph.outputs[:] = [unfolded if tensor is result else tensor for tensor in graph.outputs]


def reshaped(graph: Graph, tensor: Tensor, shape: tuple[int, ...], name: str) -> Tensor:
    """A tensor of another shape by a Reshape that layout needs.

    Args:
        graph: Where it is added.
        tensor: What is reshaped.
        shape: The new shape.
        name: Of the result.
    """
    wanted = graph.add_constant(graph.fresh(f"{name}_shape"), np.asarray(shape, np.int64))
    node = graph.add_node("Reshape", [tensor, wanted], [name], name=graph.fresh(f"{name}_reshape"))
    node.origin["inserted"] = "layout"
    result = node.output
    result.shape, result.dtype, result.origin_dtype = (
        shape,
        tensor.dtype or DType.FLOAT32,
        tensor.origin_dtype,
    )
    return result
