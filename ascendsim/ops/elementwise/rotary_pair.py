"""Rotary position embedding of queries and keys at once (domain "ascend").

    ApplyRotaryPosEmb(query, key, cos, sin) -> query, key          CANN's prototype; in place there
    split_qkv_rmsnorm_rope(qkv, cos, sin, q_weight, k_weight, q_bias, k_bias) -> q, k, v
        vLLM-Ascend's kernel: rows of queries, keys and values are split, heads of the first two normalised
        (without weights they are not) and turned by the angles of the row

layout of ApplyRotaryPosEmb: 1 = BSND, 2 = SBND, 3 = BNSD, of query and key; 4 = TND. cos and sin have 1 head
and the last axis in full, and the batch may be 1. rotary_mode: "half", "interleave", "quarter" (halves of
halves).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Dim, Node, Shape
from ascendsim.ops.normalise.normalisation_work import row_statistics
from ascendsim.ops.shared.common import (
    StepSpec,
    as_float32,
    computing_type,
    finish,
    make_steps,
    on_ai_cpu,
    own_type,
    rounded_within,
    runs_on_ai_core,
    with_numpy,
)
from ascendsim.ops.shared.dims import need_shape
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.axes import NOTHING_SAID, WHOLE, AxisMap, Labels, Link, by_labels, rank_of
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.work import LowerContext, NoTask, Ref, Step, Stream, VectorWork, Work

_LAYOUTS: dict[int, tuple[str, ...]] = {
    1: ("b", "s", "n", "d"),
    2: ("s", "b", "n", "d"),
    3: ("b", "n", "s", "d"),
    4: ("t", "n", "d"),
}
_PARTS = {"half": 1, "quarter": 2, "interleave": 0}  # pieces of which the halves change places


def _axes(node: Node) -> tuple[str, ...]:
    return _LAYOUTS.get(int(node.attr("layout", 1)), ())


def _infer(context: InferContext) -> None:
    node, axes = context.node, _axes(context.node)
    mode = node.attr("rotary_mode", "half")
    if mode not in _PARTS:
        raise context.fail(f"needs a rotary_mode out of {', '.join(_PARTS)}", repr(mode))
    if not axes:
        raise context.fail("needs a layout from 1 to 4", node.attr("layout"))
    query = context.shape(0)
    if query is not None and len(query) != len(axes):
        raise context.fail(
            f"needs tensors of rank {len(axes)} for layout {node.attr('layout', 1)}", list(query)
        )
    if query is not None:
        size, multiple = query[-1], 2 * max(1, _PARTS[str(mode)])
        if isinstance(size, int) and size % multiple:
            raise context.fail(f"needs a last axis divisible by {multiple}", size)
        need_shape(
            context, 1, tuple(None if axis == "n" else dim for axis, dim in zip(axes, query, strict=True))
        )
        for port in (2, 3):
            _check_angles(context, port, axes, query)
        for port, name in ((0, "query"), (1, "key")):
            given = context.shape(port)
            if given is not None and given[axes.index("n")] == 0:
                rule = f"needs at least one head in {name} (axis {axes.index('n')})"
                raise context.fail(rule, f"shape {list(given)}", "leave the operator out")
    for port in (0, 1):
        context.set(port, context.dtype(port), context.shape(port))


def _check_angles(context: InferContext, port: int, axes: tuple[str, ...], query: Shape) -> None:
    wanted: list[Dim] = [1 if axis == "n" else dim for axis, dim in zip(axes, query, strict=True)]
    angles = context.shape(port)
    if angles is not None and "b" in axes and len(angles) == len(axes) and angles[axes.index("b")] == 1:
        wanted[axes.index("b")] = 1
    need_shape(context, port, tuple(wanted))


def partner(data: Array, mode: str) -> Array:
    """What each component is turned with, with its sign."""
    if mode == "interleave":
        return np.stack([-data[..., 1::2], data[..., 0::2]], axis=-1).reshape(data.shape)
    pieces = np.split(data, 2 * _PARTS[mode], axis=-1)
    return np.concatenate(
        [part for at in range(0, len(pieces), 2) for part in (-pieces[at + 1], pieces[at])], axis=-1
    )


def _compute(node: Node, query: Array, key: Array, cosine: Array, sine: Array) -> tuple[Array, Array]:
    mode = str(node.attr("rotary_mode", "half"))
    return tuple(data * cosine + partner(data, mode) * sine for data in (query, key))


def _turning(mode: str) -> tuple[StepSpec, ...]:
    """Partners change places (two copies, or picked one by one), half of them change sign."""
    return ("vgather" if mode == "interleave" else "vadds", "vmuls", ("vmul", 2), "vadd")


def _lower(node: Node, context: LowerContext) -> Work:
    """All heads of a position share its angles, which are read once: a row is a position, with the heads of
    both tensors.
    """
    query, key, cosine = (node.required(port) for port in range(3))
    mode = str(node.attr("rotary_mode", "half"))
    if query.elements + key.elements == 0:
        return NoTask()
    inside = computing_type(query.element_type, context, wide=True)
    swaps = mode != "interleave" or context.supports("vgather", inside)
    if not swaps or not runs_on_ai_core(node):
        return on_ai_cpu(node, 5.0)
    axes = _axes(node)
    rows = query.elements // (query.static_shape[-1] * query.static_shape[axes.index("n")])
    steps = list(make_steps(_turning(mode), inside))
    convert = [Step("vconv", inside)] if inside is not query.element_type else []
    inputs = (query, key, cosine, node.required(3))
    by_head = axes.index("n") < len(axes) - 2  # positions of a head lie together
    piece = query.static_shape[-1] * query.element_type.itemsize
    return VectorWork(
        rows,
        (query.elements + key.elements) // rows,
        (*convert, *steps, *convert),
        tuple(Stream(Ref.of(tensor)) for tensor in inputs),
        tuple(Stream(Ref.of(tensor)) for tensor in node.outputs),
        gather_bytes=piece if by_head else 0,
        cores="shares",
    )


def _links(node: Node) -> AxisMap:
    axes = _axes(node)
    links: dict[tuple[int, int], tuple[Link, ...]] = {}
    for number in (0, 1):
        links |= by_labels(node, {2: axes, 3: axes}, {number: axes}).links
        links |= by_labels(node, {number: axes}, {number: axes}, {"d": WHOLE}).links
    return AxisMap(links)


# ---- split_qkv_rmsnorm_rope


def _sizes(context: InferContext) -> tuple[int, int, int]:
    """Columns of queries, of keys and of a head."""
    names = ("q_hidden_size", "kv_hidden_size", "head_dim")
    queries, keys, head = (int(context.node.attr(name, 0)) for name in names)
    if head < 2 or head % 2 or queries < head or keys < head or queries % head or keys % head:
        raise context.fail(
            "needs q_hidden_size and kv_hidden_size in multiples of an even head_dim", (queries, keys, head)
        )
    return queries, keys, head


def _infer_split(context: InferContext) -> None:
    queries, keys, head = _sizes(context)
    data = context.shape(0)
    rows = data[0] if data else None
    need_shape(context, 0, (None, queries + 2 * keys))
    for port in (1, 2):
        need_shape(context, port, (rows, head))
    for port in range(3, 7):
        if context.has(port):
            need_shape(context, port, (head,))
    for number, size in enumerate((queries, keys, keys)):
        context.set(number, context.dtype(0), (rows, size))


def _split(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Array]:
    """Normalised heads are rounded before they are turned, as the kernel does."""
    qkv, cosine, sine, *parameters = (*inputs, *(None,) * 7)[:7]
    queries, keys, head = (int(node.attr(name)) for name in ("q_hidden_size", "kv_hidden_size", "head_dim"))
    epsilon = float(node.attr("eps", 1e-6))
    results = []
    with np.errstate(all="ignore"):
        angles = [as_float32(array)[:, None] for array in (cosine, sine)]
        for number, (first, size) in enumerate(((0, queries), (queries, keys))):
            heads = as_float32(qkv[:, first : first + size]).reshape(len(qkv), size // head, head)
            weight, bias = parameters[number], parameters[2 + number]
            if weight is not None:
                wide = heads.astype(np.float64)
                wide = wide / np.sqrt(np.mean(wide * wide, axis=-1, keepdims=True) + epsilon)
                wide = wide * as_float32(weight)
                wide = wide if bias is None else wide + as_float32(bias)
                heads = as_float32(rounded_within(wide, own_type(qkv, wanted)))
            turned = heads * angles[0] + partner(heads, "half") * angles[1]
            results.append(finish(turned.reshape(len(qkv), size), wanted[number]))
    return [*results, np.ascontiguousarray(qkv[:, queries + keys :])]


def _lower_split(node: Node, context: LowerContext) -> Work:
    """A core takes one row after the other. Products and sums that turn bfloat16 go by float32 and back each
    time.
    """
    data = node.required(0)
    if data.elements == 0:
        return NoTask()
    if not runs_on_ai_core(node):
        return on_ai_cpu(node, 12.0)
    rows, cols = data.static_shape
    inside = computing_type(data.element_type, context, wide=True)
    convert = [Step("vconv", inside)] if inside is not data.element_type else []
    steps = list(convert)
    if node.input(3) is not None:
        steps += [*row_statistics(node, context, centred=False), *make_steps(["vmul"], inside)]
        steps += make_steps(["vadd"] if node.input(5) is not None else [], inside)
        steps += [*convert, *convert]
    apart = 3 if data.element_type is DType.BFLOAT16 else 0  # conversions around each product and sum
    steps += [*make_steps(_turning("half"), inside), *convert * max(1, 3 * apart)]
    parameters = [tensor for tensor in node.inputs[3:] if tensor is not None]
    angles = [Stream(Ref.of(node.required(port))) for port in (1, 2)]
    return VectorWork(
        rows,
        cols,
        tuple(steps),
        (Stream(Ref.of(data)), *angles, *(Stream(Ref.of(tensor), "col") for tensor in parameters)),
        tuple(Stream(Ref.of(tensor)) for tensor in node.outputs),
        reduces="cols",
        sweeps=3,
        in_turn=True,
        cores="all",
    )


def _split_links(node: Node) -> AxisMap:
    """Rows are independent of one another."""
    if rank_of(node, 0) != 2:
        return NOTHING_SAID
    row = ("t", "c")
    outputs: dict[int, Labels] = dict.fromkeys(range(3), row)
    return by_labels(node, {0: row, 1: row, 2: row}, outputs, {"c": WHOLE})


_FACTS = Facts(_links, Kind.ELEMENTWISE, Precision.GRAY)

OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "ApplyRotaryPosEmb",
        _infer,
        with_numpy(_compute),
        _lower,
        domain="ascend",
        most_inputs=4,
        facts=_FACTS,
    ),
    OpDef(
        "split_qkv_rmsnorm_rope",
        _infer_split,
        _split,
        _lower_split,
        domain="ascend",
        most_inputs=7,
        facts=Facts(_split_links, Kind.REDUCTION, Precision.BLACK),
    ),
)
