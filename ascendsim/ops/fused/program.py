"""Elementwise operators as instructions of the fused interpreter (`ascendsim_kernels.fused`).

What is not here (logarithms, powers of any exponent, integers, float64) is computed by its operator, one node
at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ascendsim.core.dtypes import saturates
from ascendsim.graph.ir import Node, Tensor
from ascendsim.ops.elementwise.arithmetic import KernelCompute, PairwiseCompute
from ascendsim.ops.fused.chain_space import RENAMING
from ascendsim.opset import OpSet

DTypeOf = Callable[[Tensor], "np.dtype[Any]"]
_FLOATS = frozenset({"float16", "float32"})
_CURVED = frozenset({"EXP", "SIGMOID", "TANH", "ERF", "GELU", "SWISH", "GELU_TANH"})
_COMPARISONS: Mapping[str, str] = {
    "Equal": "EQUAL",
    "Greater": "GREATER",
    "GreaterOrEqual": "GREATER_EQUAL",
    "Less": "LESS",
    "LessOrEqual": "LESS_EQUAL",
}
_LOGIC: Mapping[str, str] = {"And": "LOGICAL_AND", "Or": "LOGICAL_OR", "Xor": "LOGICAL_XOR"}
_POWERS: Mapping[float, str] = {2.0: "SQUARE", 3.0: "CUBE", 0.5: "SQRT", -1.0: "RECIPROCAL", 1.0: "COPY"}


@dataclass(frozen=True, slots=True)
class Micro:
    """One instruction before registers are given.

    Attributes:
        kind: Name in `fused.Kind`.
        op: Name in the kind's list of operations, "" where the kind says all.
        sources: Places among the node's operands, or -1 for the result of the instruction before.
        a, b: Parameters.
    """

    kind: str
    op: str = ""
    sources: tuple[int, ...] = (0,)
    a: float = 0.0
    b: float = 0.0


@dataclass(frozen=True, slots=True)
class Expression:
    """A node as instructions on its operands; none at all for a tensor under another name or another type of
    the same values.
    """

    operands: tuple[Tensor, ...]
    code: tuple[Micro, ...]


def renamed(node: Node) -> Tensor | None:
    """The tensor that a node gives another name to, else None."""
    if node.op_type in RENAMING and node.op_type != "Dropout":
        return node.required(0)
    return node.required(1) if (node.domain, node.op_type) == ("ascend", "Assign") else None


def expression(node: Node, opset: OpSet, dtype_of: DTypeOf) -> Expression | None:
    """The node as instructions; None if the interpreter does not have it for these types."""
    if len(node.outputs) != 1 or node.output.shape is None:
        return None
    inputs = [tensor for tensor in node.inputs if tensor is not None]
    out = dtype_of(node.output).name
    types = [dtype_of(tensor).name for tensor in inputs]
    micro: Sequence[Micro] | None
    operands = tuple(inputs)
    if node.op_type == "Cast":
        if not {*types, out} <= _FLOATS | {"bool"}:
            return None
        micro = [Micro("TRUTH")] if out == "bool" and types[0] != "bool" else []
    elif node.op_type == "Expand":
        operands, micro = operands[:1], [] if types[0] in _FLOATS | {"bool"} and types[0] == out else None
    elif node.op_type == "Where":
        micro = (
            [Micro("SELECT", sources=(0, 1, 2))]
            if types[0] == "bool" and types[1] == types[2] == out and out in _FLOATS
            else None
        )
    elif node.op_type in _COMPARISONS:
        micro = [Micro("COMPARE", _COMPARISONS[node.op_type], (0, 1))] if set(types) <= _FLOATS else None
    elif node.op_type in _LOGIC:
        micro = [Micro("COMPARE", _LOGIC[node.op_type], (0, 1))] if set(types) == {"bool"} else None
    elif not {*types, out} <= _FLOATS:
        return None
    else:
        operands, micro = _arithmetic(node, opset, operands, types[0] == out)
    if micro is None:
        return None
    overflow = "SATURATE" if saturates(dtype_of(node.output)) else "INFINITE"
    rounded = (
        [Micro("ROUND", overflow, sources=(-1,) if micro else (0,))]
        if out == "float16" and (micro or types[0] == "float32")
        else []
    )
    if node.op_type == "Where":
        rounded = []  # a choice, not arithmetic
    return Expression(operands, (*micro, *rounded))


def _arithmetic(
    node: Node, opset: OpSet, operands: tuple[Tensor, ...], same_type: bool
) -> tuple[tuple[Tensor, ...], Sequence[Micro] | None]:
    compute = opset.get(node).compute
    if isinstance(compute, PairwiseCompute):
        later = [Micro("BINARY", compute.kernel, (-1, place)) for place in range(2, len(operands))]
        return operands, [Micro("BINARY", compute.kernel, (0, 1)), *later] if len(operands) > 1 else None
    if isinstance(compute, KernelCompute) and len(operands) == 1:
        return operands, [_unary(compute.kernel, *compute.numbers(node))]
    if node.op_type == "Gelu":
        return operands, [_unary("GELU_TANH" if node.attr("approximate", "none") == "tanh" else "GELU")]
    if (node.domain, node.op_type) == ("ascend", "Rsqrt"):
        return operands, [_unary("SQRT"), Micro("PLAIN", "RECIPROCAL", (-1,))]
    if node.op_type == "Pow":
        exponent = _number(node, 1)
        op = (
            _POWERS.get(exponent)
            if exponent is not None
            and len(node.required(1).static_shape) <= len(node.required(0).static_shape)
            else None
        )
        micro = None if op is None else [Micro(op) if op in ("CUBE", "COPY") else _unary(op)]
        return operands[:1], micro
    if node.op_type == "Clip" and same_type:
        low = _number(node, 1) if node.input(1) is not None else -np.inf
        high = _number(node, 2) if node.input(2) is not None else np.inf
        return operands[:1], None if low is None or high is None else [_unary("CLIP", low, high)]
    return operands, None


def _unary(op: str, a: float = 0.0, b: float = 0.0) -> Micro:
    return Micro("CURVED" if op in _CURVED else "PLAIN", op, (0,), a, b)


def _number(node: Node, port: int) -> float | None:
    """A constant of one element."""
    tensor = node.input(port)
    if tensor is None or tensor.constant is None or not tensor.constant.available or tensor.elements != 1:
        return None
    return float(tensor.constant.array().item())
