"""What a mask of written-out attention asks of CANN's kernel: a sparse mode where it is a triangle or a band,
else a mask of its own, or numbers that are added to scores.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ascendsim.graph.ir import Array, AttributeValue, Node, Tensor
from ascendsim.passes.fusion.checks import known_values, scalar
from ascendsim.passes.fusion.rules.matmul.written_attention import HIDDEN, PASSED, Attention

MOST_SHIFTED = 16  # queries for which a mask of numbers is worth repeating for each head


@dataclass(frozen=True, slots=True)
class Steering:
    """What a mask asks of the kernel.

    Attributes:
        mask: Where it forbids: a tensor, or values.
        shift: What is added to scores.
        options: Attributes.
        band: Whether it is a triangle or a band.
        empty: Rows that see nothing, where that is known.
        negated: Whether the tensor says where it allows.
    """

    mask: Tensor | Array | None = None
    shift: Tensor | None = None
    options: dict[str, AttributeValue] = field(default_factory=dict)
    band: bool = False
    empty: Array | None = None
    negated: bool = False


def steering_of(found: Attention) -> Steering | str:
    """What the mask asks of the kernel, or why that cannot be."""
    scores, rows, keys = found.scores, found.query.tensor, found.key.tensor
    if not (rows.is_static and keys.is_static):
        return "the sizes are not static"
    sizes = (rows.static_shape[0], rows.static_shape[2], keys.static_shape[2])
    chosen = scores.hidden if scores.hidden is not None else scores.shown
    if chosen is not None and scores.added is not None:
        return "there are two masks"
    if chosen is not None:
        values = known_values(chosen)
        if values is not None:
            return _of_values(values != 0 if scores.hidden is not None else values == 0, sizes)
        return _of_tensor(chosen, sizes, scores.shown is not None)
    if scores.added is None:
        return Steering()
    added, factor = scores.added
    values = known_values(added)
    if values is not None:
        wide = np.asarray(values).astype(np.float64)
        if np.all((wide == 0) | (wide <= HIDDEN)) and factor > 0:
            return _of_values(wide != 0, sizes)
    elif (maker := _origin(added)) is not None:
        yes, no = scalar(maker.required(1)), scalar(maker.required(2))
        if yes is not None and no is not None and {yes <= HIDDEN or yes, no <= HIDDEN or no} == {True, 0}:
            return _of_tensor(maker.required(0), sizes, negated=yes == 0)
    if factor != 1:
        return "sums with the mask are multiplied"
    if added.element_type is not rows.element_type:
        return "what is added has another type"
    heads = rows.static_shape[1]
    if len(added.static_shape if added.is_static else ()) != 4 or added.static_shape[2:] != sizes[1:]:
        return "what is added is no number for each query and key"
    if added.static_shape[0] not in (1, sizes[0]):
        return "what is added is of another batch"
    if added.static_shape[1] != heads and sizes[1] > MOST_SHIFTED:
        return "numbers that are added would have to be repeated for each head"
    return Steering(shift=added)


def _origin(tensor: Tensor) -> Node | None:
    """The Where that makes a mask."""
    node = tensor.producer
    while node is not None and node.op_type in PASSED:
        node = node.required(0).producer
    return node if node is not None and node.op_type == "Where" else None


def _of_tensor(mask: Tensor, sizes: tuple[int, int, int], negated: bool) -> Steering | str:
    shape = mask.static_shape if mask.is_static else ()
    batch, queries, keys = sizes
    if shape not in ((queries, keys), (batch, 1, queries, keys), (1, 1, queries, keys)):
        return "the mask is no value for each query and key"
    return Steering(mask, options={"sparse_mode": 1}, negated=negated)


def _of_values(hidden: Array, sizes: tuple[int, int, int]) -> Steering | str:
    """A constant mask: a sparse mode where it is a triangle or a band, else as it is."""
    batch, queries, keys = sizes
    wide = hidden.reshape((1,) * (4 - hidden.ndim) + hidden.shape)
    if wide.shape[1] != 1:
        return "heads have masks of their own"
    whole = np.broadcast_to(wide, (wide.shape[0], 1, queries, keys))
    empty: Array = np.asarray(np.any(whole.all(axis=-1), axis=(0, 1)))
    if not whole.any():
        return Steering(empty=empty)
    if len(whole) > 1:
        if len(whole) != batch:
            return "the mask is of another batch"
        return Steering(whole, options={"sparse_mode": 1}, empty=empty)
    seen = ~whole[0, 0]
    distance = np.arange(keys) - np.arange(queries)[:, None]
    corner = keys - queries
    low, high = (int(f(distance[seen])) for f in (np.min, np.max)) if seen.any() else (0, -1)
    if not np.array_equal(seen, (distance >= low) & (distance <= high)):
        return Steering(whole[0, 0], options={"sparse_mode": 1}, empty=empty)
    options: dict[str, AttributeValue] = {"sparse_mode": 3}
    if low > -queries + 1 or high != corner:
        options = {"sparse_mode": 4, "pre_tokens": corner - low, "next_tokens": high - corner}
    if low <= 1 - queries and high == 0 and corner:
        options = {"sparse_mode": 2}
    return Steering(whole[0, 0], options=options, band=True, empty=empty)
