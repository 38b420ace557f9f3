"""Keys and values of new tokens written into a paged cache (domain "ascend").

    ReshapeAndCache(key, value, key_cache, value_cache, slot_mapping) -> key_cache, value_cache       (ATB)
    ScatterPaKvCache(key, key_cache, slot_mapping, value, value_cache) -> key_cache, value_cache      (CANN)

A cache is a pool of blocks, [blocks, block_size, heads, size]; token t of [tokens, heads, size] goes to the
place slot_mapping[t] of all blocks' places in a row, and nowhere where that is negative (padding). Both
kernels change the caches in place: no byte of them moves but those of the new tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ascendsim.core.errors import GraphError
from ascendsim.graph.ir import Array, Node
from ascendsim.ops.shared.bursts import SCALAR_CYCLES_PER_INDEX
from ascendsim.ops.shared.dims import need_shape
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.axes import CHOSEN, AxisMap, Label, Labels, Link, by_labels
from ascendsim.opset.facts import movement
from ascendsim.opset.work import Copy, LowerContext, MoveWork, NoTask, Ref, Work


@dataclass(frozen=True, slots=True)
class _Ports:
    """Where an operator has its inputs: what is new, and the caches that it goes to."""

    news: tuple[int, int]
    caches: tuple[int, int]
    slots: int


_FORMS = {
    "ReshapeAndCache": _Ports((0, 1), (2, 3), 4),
    "ScatterPaKvCache": _Ports((0, 3), (1, 4), 2),
}


def _pairs(node: Node) -> list[tuple[int, int, int]]:
    """Output, new tensor, cache of those that the node has."""
    form = _FORMS[node.op_type]
    return [
        (number, new, cache)
        for number, (new, cache) in enumerate(zip(form.news, form.caches, strict=True))
        if node.input(cache) is not None
    ]


def _infer(context: InferContext) -> None:
    node, form = context.node, _FORMS[context.node.op_type]
    slots = context.shape(form.slots)
    if not context.dtype(form.slots).is_integer:
        raise context.fail(f"needs integers as input {form.slots}", context.dtype(form.slots).value)
    for number, new, cache in _pairs(node):
        shape, given = context.shape(cache), context.shape(new)
        if shape is not None and len(shape) != 4:
            raise context.fail("needs caches [blocks, block_size, heads, size]", list(shape))
        if given is not None and len(given) != 3:
            raise context.fail("needs new keys and values [tokens, heads, size]", list(given))
        if given is not None:
            need_shape(context, form.slots, given[:1])
        if shape is not None:
            need_shape(context, new, (None if slots is None else slots[0], *shape[2:]))
        if context.dtype(new) is not context.dtype(cache):
            raise context.fail(
                f"needs {context.dtype(cache).value} as input {new}, the cache's type",
                context.dtype(new).value,
            )
        context.set(number, context.dtype(cache), shape)


def _compute(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Array]:
    slots = inputs[_FORMS[node.op_type].slots].astype(np.int64)
    taken = slots >= 0
    results = []
    for _, new, cache in _pairs(node):
        result = inputs[cache].copy()
        places = result.reshape(-1, *result.shape[2:])
        if slots.size and slots.max() >= len(places):
            raise GraphError(
                f"node {node.name!r} ({node.op_type})", f"needs slots below {len(places)}", int(slots.max())
            )
        places[slots[taken]] = inputs[new][taken]
        results.append(result)
    return results


def _lower(node: Node, _context: LowerContext) -> Work:
    """A burst, and an address from the slot, for each token; each is a core's, while there are some (ATB,
    reshape_and_cache_tiling.cpp).
    """
    copies = []
    for number, new, _ in _pairs(node):
        source, target = Ref.of(node.required(new)), Ref.of(node.outputs[number])
        if source.bytes and target.bytes:
            run = math.prod(source.shape[1:]) * source.dtype.itemsize
            copies.append(Copy(source, target, source.bytes, run, run))
    if not copies:
        return NoTask()
    slots = Ref.of(node.required(_FORMS[node.op_type].slots))
    return MoveWork(
        tuple(copies),
        scalar_per_burst=SCALAR_CYCLES_PER_INDEX,
        extra_inputs=(slots,),
        pieces=math.prod(slots.shape),
    )


def _links(node: Node) -> AxisMap:
    """Heads and components stay where they are; slots say which places are written."""
    cache_axes: Labels = ("block", "place", "head", "size")
    links: dict[tuple[int, int], tuple[Link, ...]] = {}
    for number, new, cache in _pairs(node):
        inputs: dict[int, Labels] = {cache: cache_axes, new: ("token", "head", "size")}
        special: dict[Label, Link] = dict.fromkeys(("token", "block", "place"), CHOSEN)
        links |= by_labels(node, inputs, {number: cache_axes}, special).links
    return AxisMap(links)


OPERATORS: tuple[OpDef, ...] = tuple(
    OpDef(
        name,
        _infer,
        _compute,
        _lower,
        domain="ascend",
        most_inputs=5,
        facts=movement(_links, indices=(form.slots,), kept=(*form.news, *form.caches)),
    )
    for name, form in _FORMS.items()
)
