"""Tokens sorted by expert, and the experts' results brought back (domain "ascend", CANN's prototypes).

    MoeInitRoutingV2(x, expert_idx) -> expanded_x, expanded_row_idx, tokens, tokens_before_capacity
        x [tokens, h], expert_idx [tokens, k]. The pairs of token and choice are sorted by expert, those of
        one expert by their place; expanded_row_idx says for each pair, token after token, its place behind
        that, and expanded_x holds the tokens in that order. drop_pad_mode 1: expert_capacity places an
        expert instead, [experts, capacity, h], zeros where nobody came and -1 for who found no place.
        active_num: the first so many rows of expanded_x alone
    MoeFinalizeRoutingV2(expanded_x, expanded_row_idx, x1, x2, bias, scales, expert_idx) -> y
        y = x1 + x2 + sum over choices of scales (row + bias of the expert); x1, x2, bias and scales may
        lack. drop_pad_mode 0 and 1: the places of all first choices lie before those of all second ones;
        2 and 3: token after token, as MoeInitRoutingV2 has them. 1 and 3: places of -1 count as zeros

expert_tokens_count_or_cumsum_flag says what tokens are: 1 = of all experts up to each, 2 = of each one.
Outputs that are not asked for are empty.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.core.formats import Format
from ascendsim.graph.ir import Array, Dim, Node
from ascendsim.ops.reduce.sort import sorted_rows
from ascendsim.ops.shared.bursts import SCALAR_CYCLES_PER_INDEX
from ascendsim.ops.shared.common import as_float32, computing_type, finish, make_steps, on_ai_cpu
from ascendsim.ops.shared.dims import need_shape, product
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.axes import CHOSEN, AxisMap, Label, Link, by_labels
from ascendsim.opset.facts import Facts, Kind, Precision, movement
from ascendsim.opset.work import (
    Copy,
    LowerContext,
    MoveWork,
    NoTask,
    Ref,
    SequenceWork,
    Step,
    Stream,
    VectorWork,
    Work,
    workspace_of,
)

Wanted = Sequence["np.dtype[Any]"]
_CUMSUM, _COUNT = 1, 2


def _number(context: InferContext, name: str, least: int) -> int:
    value = int(context.node.attr(name, 0))
    if value < least:
        raise context.fail(f"needs {name} of {least} or more", value)
    return value


def _drops(node: Node) -> bool:
    return int(node.attr("drop_pad_mode", 0)) == 1


def _infer_init(context: InferContext) -> None:
    node, data, chosen = context.node, context.shape(0), context.shape(1)
    for shape, what in ((data, "x [tokens, h]"), (chosen, "expert_idx [tokens, k]")):
        if shape is not None and len(shape) != 2:
            raise context.fail(f"needs {what}", list(shape))
    if not context.dtype(1).is_integer:
        raise context.fail("needs integers as input 1", context.dtype(1).value)
    if data is not None:
        need_shape(context, 1, (data[0], None))
    if node.attr("drop_pad_mode", 0) not in (0, 1):
        raise context.fail("needs drop_pad_mode 0 or 1", node.attr("drop_pad_mode"))
    flag = int(node.attr("expert_tokens_count_or_cumsum_flag", 0))
    if flag not in (0, _CUMSUM, _COUNT):
        raise context.fail("needs expert_tokens_count_or_cumsum_flag 0, 1 or 2", flag)
    drops, before = _drops(node), bool(node.attr("expert_tokens_before_capacity_flag", 0))
    experts = _number(context, "expert_num", int(drops or bool(flag)))
    capacity, active = _number(context, "expert_capacity", int(drops)), _number(context, "active_num", 0)
    pairs: Dim = None if chosen is None else product(chosen)
    width: Dim = None if data is None else data[1]
    rows = min(active, pairs) if active and isinstance(pairs, int) else pairs
    context.set(0, context.dtype(0), (experts, capacity, width) if drops else (rows, width))
    context.set(1, DType.INT32, (pairs,))
    context.set(2, DType.INT32, (experts,) if flag and not drops else (0,))
    context.set(3, DType.INT32, (experts,) if before and drops else (0,))


def _init(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    x, chosen = inputs
    flat = chosen.reshape(-1).astype(np.int64)
    experts, k = int(node.attr("expert_num", 0)), chosen.shape[1]
    if experts and flat.size and not 0 <= flat.min() <= flat.max() < experts:
        raise GraphError(
            f"node {node.name!r} (MoeInitRoutingV2)", f"needs experts below {experts}", int(flat.max())
        )
    order = np.argsort(flat, kind="stable")
    counts = np.bincount(flat, minlength=experts) if experts else np.zeros(0, np.int64)
    places = np.empty(len(flat), np.int64)
    places[order] = np.arange(len(flat))
    if _drops(node):
        capacity = int(node.attr("expert_capacity", 0))
        within = places - (np.cumsum(counts) - counts)[flat]
        places = np.where(within < capacity, flat * capacity + within, -1)
        expanded = np.zeros((experts * capacity, x.shape[1]), x.dtype)
        kept = places >= 0
        expanded[places[kept]] = x[np.arange(len(flat))[kept] // k]
        expanded = expanded.reshape(experts, capacity, -1)
    else:
        active = int(node.attr("active_num", 0))
        expanded = x[order[: active or None] // k]
    flag, nothing = int(node.attr("expert_tokens_count_or_cumsum_flag", 0)), np.zeros(0, np.int64)
    tokens = nothing if not flag or _drops(node) else counts if flag == _COUNT else np.cumsum(counts)
    before = counts if _drops(node) and node.attr("expert_tokens_before_capacity_flag", 0) else nothing
    return [
        np.asarray(a).astype(kind)
        for a, kind in zip((expanded, places, tokens, before), wanted, strict=False)
    ]


def _lower_init(node: Node, context: LowerContext) -> Work:
    """Pairs of expert and place are sorted, their places scattered back one by one, and rows of x copied."""
    data, chosen, target = node.required(0), Ref.of(node.required(1)), node.output
    pairs = math.prod(chosen.shape)
    if pairs == 0 or data.elements == 0:
        return NoTask()
    places, source, result = Ref.of(node.outputs[1]), Ref.of(data), Ref.of(target)
    order = Ref(workspace_of(f"{node.name}/order"), (pairs,), DType.INT32, Format.ND, 4 * pairs)
    sorting = sorted_rows(1, pairs, chosen, [order], context) if chosen.dtype.itemsize <= 4 else None
    if sorting is None or result.bytes == 0:
        return on_ai_cpu(node, 4.0)
    run = data.static_shape[1] * source.dtype.itemsize
    counted = [Ref.of(tensor) for tensor in node.outputs[2:] if tensor.elements]
    scattering = MoveWork(
        (
            Copy(order, places, order.bytes, order.bytes, 4),
            *(Copy(order, c, c.bytes, c.bytes, 4) for c in counted),
        ),
        scalar_per_burst=SCALAR_CYCLES_PER_INDEX,
    )
    expanding = MoveWork(
        (Copy(source, result, result.bytes, run, run),),
        scalar_per_burst=SCALAR_CYCLES_PER_INDEX,
        extra_inputs=(order,),
    )
    room = order.bytes + sorting.room
    return SequenceWork((*sorting.parts, scattering, expanding), workspace_bytes=room)


# ---- MoeFinalizeRoutingV2

_X1, _X2, _BIAS, _SCALES, _EXPERTS = 2, 3, 4, 5, 6  # ports


def _infer_finalize(context: InferContext) -> None:
    mode, data, places = context.node.attr("drop_pad_mode", 0), context.shape(0), context.shape(1)
    if mode not in range(4):
        raise context.fail("needs drop_pad_mode from 0 to 3", mode)
    rank = 3 if mode in (1, 3) else 2
    if data is not None and len(data) != rank:
        raise context.fail(f"needs expanded_x of rank {rank} with drop_pad_mode {mode}", list(data))
    width = None if data is None else data[-1]
    pairs = places[0] if places is not None and len(places) == 1 else None
    given = next((context.shape(port) for port in (_X1, _SCALES, _EXPERTS) if context.has(port)), None)
    tokens: Dim = (
        given[0] if given else None if any(context.has(p) for p in (_X1, _SCALES, _EXPERTS)) else pairs
    )
    need_shape(context, 1, (None,))
    for port in (_X1, _X2):
        need_shape(context, port, (tokens, width))
    for port in (_SCALES, _EXPERTS):
        need_shape(context, port, (tokens, None))
        shape = context.shape(port) if context.has(port) else None
        if (
            shape is not None
            and isinstance(pairs, int)
            and isinstance(product(shape), int)
            and product(shape) != pairs
        ):
            raise context.fail(f"needs {pairs} values as input {port}, one a place", list(shape))
    need_shape(context, _BIAS, (None, width))
    if context.has(_X2) and not context.has(_X1):
        raise context.fail("needs x1 where x2 is", None)
    if context.has(_BIAS) and not context.has(_EXPERTS):
        raise context.fail("needs expert_idx with bias", None)
    context.set(0, context.dtype(0), (tokens, width))


def _finalize(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    expanded, places, x1, x2, bias, scales, experts = (*inputs, *(None,) * 7)[:7]
    rows = as_float32(expanded).reshape(math.prod(expanded.shape[:-1]), expanded.shape[-1])
    tokens = next((len(array) for array in (x1, scales, experts) if array is not None), len(places))
    mode = int(node.attr("drop_pad_mode", 0))
    at = places.astype(np.int64)
    at = at.reshape(tokens, -1) if mode >= 2 else at.reshape(-1, tokens).T
    if at.size and at.max() >= len(rows):
        raise GraphError(
            f"node {node.name!r} (MoeFinalizeRoutingV2)", f"needs places below {len(rows)}", int(at.max())
        )
    picked = np.where((at >= 0)[..., None], rows[np.maximum(at, 0)], np.float32(0))
    if bias is not None:
        picked = picked + as_float32(bias)[experts]
    if scales is not None:
        picked = picked * as_float32(scales)[..., None]
    result = picked.sum(axis=1, dtype=np.float32)
    for array in (x1, x2):
        if array is not None:
            result = result + as_float32(array)
    return [finish(result, wanted[0])]


def _lower_finalize(node: Node, context: LowerContext) -> Work:
    """A token's rows come one by one from wherever they are, and are added up in UB."""
    target, source = node.output, node.required(0)
    if target.elements == 0:
        return NoTask()
    tokens, width = target.static_shape
    choices = node.required(1).elements // tokens
    inside = computing_type(target.element_type, context, wide=True)
    convert = [Step("vconv", inside)] if inside is not target.element_type else []
    each: list[Step] = [*convert]
    each += make_steps(["vadd"] if node.input(_BIAS) is not None else [], inside)
    each += make_steps(["vmuls"] if node.input(_SCALES) is not None else [], inside)
    each += make_steps(["vadd"], inside)
    steps = [*each * choices]
    bias = node.input(_BIAS)
    inputs = [
        Stream(replace(Ref.of(given), bytes=choices * target.elements * given.element_type.itemsize))
        for given in (source, bias)
        if given is not None  # a row a choice, whatever there is besides
    ]
    for port in (_X1, _X2):
        tensor = node.input(port)
        if tensor is not None:
            inputs.append(Stream(Ref.of(tensor)))
            steps += [*convert, *make_steps(["vadd"], inside)]
    for port in (1, _SCALES, _EXPERTS):
        tensor = node.input(port)
        if tensor is not None:
            inputs.append(Stream(Ref.of(tensor)))
    return VectorWork(
        tokens,
        width,
        (*steps, *convert),
        tuple(inputs),
        (Stream(Ref.of(target)),),
        gather_bytes=width * source.element_type.itemsize,
        cores="shares",
    )


def _init_links(node: Node) -> AxisMap:
    """Columns stay where they are; which row goes where depends on values."""
    made = ("expert", "place", "h") if _drops(node) else ("row", "h")
    return by_labels(node, {0: ("token", "h")}, {0: made}, {"token": CHOSEN})


def _finalize_links(node: Node) -> AxisMap:
    rank = 3 if int(node.attr("drop_pad_mode", 0)) in (1, 3) else 2
    rows = ("expert", "place", "h") if rank == 3 else ("row", "h")
    chosen: dict[Label, Link] = dict.fromkeys(("row", "expert", "place"), CHOSEN)
    inputs = {0: rows, _X1: ("token", "h"), _X2: ("token", "h"), _BIAS: ("expert", "h")}
    inputs |= {_SCALES: ("token", "choice"), _EXPERTS: ("token", "choice")}
    return by_labels(node, inputs, {0: ("token", "h")}, chosen)


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "MoeInitRoutingV2",
        _infer_init,
        _init,
        _lower_init,
        domain="ascend",
        most_inputs=2,
        facts=movement(_init_links, indices=(1,), kept=(0,)),
    ),
    OpDef(
        "MoeFinalizeRoutingV2",
        _infer_finalize,
        _finalize,
        _lower_finalize,
        domain="ascend",
        most_inputs=7,
        facts=Facts(_finalize_links, Kind.REDUCTION, Precision.GRAY, indices=(1, 6)),
    ),
)
