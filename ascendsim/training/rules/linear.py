"""Gradients of matrix products: products again, with an operand transposed.

y = a b:    da = dy b^T,    db = a^T dy
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ascendsim.graph.ir import Tensor
from ascendsim.training.backward import Backward, Rule

Grads = Sequence["Tensor | None"]


def _matmul(step: Backward) -> Grads:
    a, b = step.node.required(0), step.node.required(1)
    left, right = a.static_shape, b.static_shape
    if len(left) == 1 or len(right) == 1:
        return _with_vector(step, a, b)
    first = second = None
    if len(right) == 2:  # one matrix for the whole stack: all rows of the stack at once
        rows = (math.prod(left[:-1]), left[-1])
        grad = step.reshaped(step.grad, (rows[0], right[1]))
        if step.needs(0):
            first = step.reshaped(step.op("Gemm", grad, b, transB=1), left)
        if step.needs(1):
            second = step.op("Gemm", step.reshaped(a, rows), grad, transA=1)
        return first, second
    if step.needs(0):
        first = step.fitted(step.op("MatMul", step.grad, step.transposed(b)), left)
    if step.needs(1):
        second = step.fitted(step.op("MatMul", step.transposed(a), step.grad), right)
    return first, second


def _with_vector(step: Backward, a: Tensor, b: Tensor) -> Grads:
    """A vector is a matrix of one row in front, of one column behind."""
    left, right, grad = a.static_shape, b.static_shape, step.grad
    stack = grad.static_shape
    if len(left) == len(right) == 1:
        return [step.op("Mul", grad, other) if step.needs(port) else None for port, other in ((0, b), (1, a))]
    first = second = None
    if len(left) == 1:
        row = step.reshaped(grad, (*stack[:-1], 1, stack[-1]))
        if step.needs(0):
            product = step.op("MatMul", row, step.transposed(b))
            first = step.op("ReduceSum", product, list(range(len(right) - 1)), keepdims=0)
        if step.needs(1):
            second = step.op("MatMul", step.reshaped(a, (left[0], 1)), row)
        return first, second
    column = step.reshaped(grad, (*stack, 1))
    if step.needs(0):
        first = step.op("MatMul", column, step.reshaped(b, (1, right[0])))
    if step.needs(1):
        product = step.op("MatMul", step.transposed(a), column)
        second = step.op("ReduceSum", product, [*range(len(left) - 2), len(left) - 1], keepdims=0)
    return first, second


def _gemm(step: Backward) -> Grads:
    """Y = alpha a b + beta c; transposed operands swap their parts."""
    node = step.node
    a, b = node.required(0), node.required(1)
    ta, tb = int(node.attr("transA", 0)), int(node.attr("transB", 0))
    alpha, beta = float(node.attr("alpha", 1.0)), float(node.attr("beta", 1.0))
    first = second = third = None
    if step.needs(0):
        if ta:
            first = step.op("Gemm", b, step.grad, transA=tb, transB=1, alpha=alpha)
        else:
            first = step.op("Gemm", step.grad, b, transB=1 - tb, alpha=alpha)
    if step.needs(1):
        if tb:
            second = step.op("Gemm", step.grad, a, transA=1, transB=ta, alpha=alpha)
        else:
            second = step.op("Gemm", a, step.grad, transA=1 - ta, alpha=alpha)
    if step.needs(2):
        share = step.grad if beta == 1.0 else step.op("Mul", step.grad, beta)
        third = step.bias(share, 2)
    return first, second, third


RULES: dict[tuple[str, str], Rule] = {("", "MatMul"): _matmul, ("", "Gemm"): _gemm}
