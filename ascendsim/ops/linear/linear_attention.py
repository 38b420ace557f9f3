"""LinearAttention: a state of outer products, updated token by token instead of a row of scores for each
token.

With decay a = exp(g) (1 where the rule has none), S' = a S: linear and gated: S = S' + k v^T; delta and
gated_delta: S = S' + b k (v - S'^T k)^T; the output is scale * S^T q. Source: the ONNX operator page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Dim, Node, Shape
from ascendsim.ops.shared.common import as_float32, finish, make_steps, on_ai_cpu
from ascendsim.ops.shared.dims import need_shape
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.axes import WHOLE, AxisMap, Label, Labels, Link, by_labels
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.work import LowerContext, NoTask, Over, Ref, SequenceWork, Stream, VectorWork, Work

# of query, key, value, decay, beta
_OVERS: tuple[tuple[int, Over], ...] = (
    (0, "row"),
    (1, "row"),
    (2, "col"),
    (4, "row"),
    (5, "one"),
)
Wanted = Sequence["np.dtype[Any]"]
# decays, corrects
_RULES = {
    "linear": (False, False),
    "gated": (True, False),
    "delta": (False, True),
    "gated_delta": (True, True),
}


def _heads(ctx: InferContext) -> tuple[int, int]:
    queries, keys = int(ctx.node.attr("q_num_heads", 0)), int(ctx.node.attr("kv_num_heads", 0))
    if keys < 1 or queries < keys or queries % keys:
        raise ctx.fail("needs q_num_heads to be a multiple of kv_num_heads", (queries, keys))
    return queries, keys


def _share(ctx: InferContext, dim: Dim, heads: int) -> int | None:
    if not isinstance(dim, int):
        return None
    if dim % heads:
        raise ctx.fail(f"needs a last axis that {heads} heads share", dim)
    return dim // heads


def _infer(ctx: InferContext) -> None:
    rule = ctx.node.attr("update_rule", "gated_delta")
    if rule not in _RULES:
        raise ctx.fail(f"needs an update_rule out of {', '.join(_RULES)}", repr(rule))
    for needed, port in zip(_RULES[rule], (4, 5), strict=True):
        if needed and not ctx.has(port):
            raise ctx.fail(f"needs input {port} for update_rule {rule}")
    query_heads, heads = _heads(ctx)
    shapes = [ctx.shape(port) or (None, None, None) for port in range(3)]
    if any(len(shape) != 3 for shape in shapes):
        raise ctx.fail("needs query, key and value of rank 3", shapes)
    batch, length, _ = shapes[0]
    for port in (1, 2):
        need_shape(ctx, port, (batch, length, None))
    keys, values = _share(ctx, shapes[1][2], heads), _share(ctx, shapes[2][2], heads)
    output: Shape = (batch, length, None if values is None else query_heads * values)
    ctx.set(0, ctx.dtype(0), output)
    ctx.set(1, ctx.dtype(3) if ctx.has(3) else ctx.dtype(0), (batch, heads, keys, values))


def _unpacked(array: Array, heads: int) -> Array:
    """(batch, time, heads * size) as (time, batch, heads, size), in float32 or wider."""
    wide = as_float32(array)
    return wide.reshape(*wide.shape[:2], heads, wide.shape[2] // heads).transpose(1, 0, 2, 3)


def _compute(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    query, key, value, past, decay, beta = (*inputs, None, None, None)[:6]
    query_heads, heads = int(node.attr("q_num_heads")), int(node.attr("kv_num_heads"))
    decays, corrects = _RULES[node.attr("update_rule", "gated_delta")]
    q, k, v = _unpacked(query, query_heads), _unpacked(key, heads), _unpacked(value, heads)
    steps, batch, _, size = k.shape
    scale = node.attr("scale", 0.0) or 1 / math.sqrt(max(1, q.shape[-1]))
    state = (
        np.zeros((batch, heads, size, v.shape[-1]), k.dtype)
        if past is None
        else as_float32(past).astype(k.dtype)
    )
    # last axis: one a key component, or one for all
    gates = np.exp(_unpacked(decay, heads)) if decays else None
    rates = np.broadcast_to(as_float32(beta).transpose(1, 0, 2), (steps, batch, heads)) if corrects else None
    group, outputs = query_heads // heads, []
    for step in range(steps):
        if gates is not None:
            state = gates[step][..., None] * state
        fresh = v[step]
        if rates is not None:
            fresh = rates[step][..., None] * (fresh - np.einsum("bhkv,bhk->bhv", state, k[step]))
        state = state + k[step][..., None] * fresh[:, :, None, :]
        asked = q[step].reshape(batch, heads, group, size)
        made = np.einsum("bhkv,bhgk->bhgv", state, asked)
        outputs.append(made.reshape(batch, query_heads * v.shape[-1]))
    result = (
        np.stack(outputs, axis=1) * np.asarray(scale, k.dtype)
        if outputs
        else np.zeros((batch, 0, query_heads * v.shape[-1]))
    )
    return [finish(array, dtype) for array, dtype in zip((result, state), wanted, strict=False)]


def _lower(node: Node, ctx: LowerContext) -> Work:
    """One pass over the state a token, vector work throughout: its products are outer products and reductions
    over rows.
    """
    tensors = {port: Ref.of(tensor) for port, tensor in enumerate(node.inputs) if tensor is not None}
    output = Ref.of(node.output)
    if output.bytes == 0:
        return NoTask()
    query_heads, heads = int(node.attr("q_num_heads")), int(node.attr("kv_num_heads"))
    batch, length, width = tensors[1].shape
    rows, cols = batch * width, tensors[2].shape[2] // heads  # state: batch * heads * key size, by value size
    inside = tensors[0].dtype
    if inside not in (DType.FLOAT16, DType.FLOAT32):
        return on_ai_cpu(node, 4.0 * cols)
    decays, corrects = _RULES[node.attr("update_rule", "gated_delta")]
    gates = (
        make_steps(["vexp"], inside if ctx.supports("vexp", inside) else DType.FLOAT16, "row")
        if decays
        else ()
    )
    correction = ["vmul", "vadd"] if corrects else []
    reading = ("vmul", query_heads // heads), ("vadd", query_heads // heads)
    steps = gates + make_steps([*(["vmul"] if decays else []), *correction, "vmul", "vadd", *reading], inside)
    states = [Ref.of(tensor) for tensor in node.outputs[1:]] or [
        tensors[port] for port in (3,) if port in tensors
    ]
    held = tuple(Stream(ref) for ref in states)
    given = tuple(Stream(tensors[port], over) for port, over in _OVERS if port in tensors)
    return SequenceWork(
        (VectorWork(rows, cols, steps, (*held, *given), (*held, Stream(output, "col")), reduces="rows"),),
        repeat=length,
    )


def _links(node: Node) -> AxisMap:
    """Sequences of a batch are independent; a token needs those before it."""
    inputs: dict[int, Labels] = {
        0: ("n", "t", "q"),
        1: ("n", "t", "k"),
        2: ("n", "t", "v"),
        4: ("n", "t", "decay"),
        5: ("n", "t", "beta"),
    }
    state = ("n", "head", "key", "value")
    special: dict[Label, Link] = dict.fromkeys(("t", "head", "key", "value"), WHOLE)
    return by_labels(node, {**inputs, 3: state}, {0: ("n", "t", "o"), 1: state}, special)


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "LinearAttention",
        _infer,
        _compute,
        _lower,
        most_inputs=6,
        facts=Facts(_links, Kind.REDUCTION, Precision.GRAY),
    ),
)
