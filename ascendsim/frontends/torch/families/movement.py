"""Views, permutations, slices, joins and indexing; a view that changes nothing adds no node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.frontends.torch.call import Call, Value, axis_of, rank
from ascendsim.frontends.torch.families.elementwise import same
from ascendsim.graph.ir import Tensor

_END = 2**62  # sizes from here on mean "to the end"


def view(call: Call, x: Tensor, *_sizes: Any, **_options: Any) -> Tensor:
    """Other sizes for the same elements.

    Matrices that are read the other way round still are so behind it, where the product that wants them can
    see it: the exchange goes behind the view.
    """
    shape, flipped = call.shape(), _flipped(x)
    if flipped is None or not (x.is_static and len(shape) > 2 and shape[-2:] == x.static_shape[-2:]):
        return call.reshaped(x, shape)
    return _flip(call, call.reshaped(flipped, (*shape[:-2], shape[-1], shape[-2])))


def permute(call: Call, x: Tensor, order: Sequence[int]) -> Tensor:
    """Axes in another order."""
    axes = tuple(axis_of(x, axis) for axis in order)
    return x if axes == tuple(range(len(axes))) else call.op("Transpose", x, perm=axes)


def transpose(call: Call, x: Tensor, one: int = 0, other: int = 1) -> Tensor:
    """Two axes exchanged; of `t`, those of a matrix."""
    if rank(x) < 2:
        return x
    order = list(range(rank(x)))
    one, other = axis_of(x, one), axis_of(x, other)
    order[one], order[other] = order[other], order[one]
    if order == _exchanged(rank(x)):
        flipped = _flipped(x)  # back to where it came from
        turned = _turned_product(call, x) if flipped is None else flipped
        if turned is not None:
            return turned
    return permute(call, x, order)


def _turned_product(call: Call, x: Tensor) -> Tensor | None:
    """(A B)^T as B^T A^T, matrix by matrix, where nobody wants A B: products take factors the other way
    round for nothing, a transposed result costs a task.
    """
    made, source = x.producer, call.node.args[0]
    if made is not None and made.op_type == "Reshape" and len(source.users) == 1:
        made, source = made.required(0).producer, source.args[0]
    if made is None or made.op_type != "MatMul" or len(source.users) != 1 or not x.is_static:
        return None
    left, right = made.required(0), made.required(1)
    whole = made.output
    if not (rank(left) == rank(right) == rank(whole) > 2 and whole.is_static):
        return None
    if whole.static_shape[-2:] != x.static_shape[-2:]:
        return None
    factors = (_flipped(one) or _flip(call, one) for one in (right, left))
    return call.reshaped(call.op("MatMul", *factors), call.shape())


def _exchanged(count: int) -> list[int]:
    """The order of axes with the last two exchanged."""
    return [*range(count - 2), count - 1, count - 2]


def _flip(call: Call, x: Tensor) -> Tensor:
    return call.op("Transpose", x, perm=tuple(_exchanged(rank(x))))


def _flipped(x: Tensor) -> Tensor | None:
    """What matrices are the transposes of, if they are those of a value of the graph."""
    node = x.producer
    if node is None or node.op_type != "Transpose" or list(node.attr("perm", ())) != _exchanged(rank(x)):
        return None
    return node.required(0)


def expand(call: Call, x: Tensor, _sizes: Any, **_options: Any) -> Tensor:
    """Repeated along axes of size 1."""
    shape = call.shape()
    return x if x.shape == shape else call.op("Expand", x, call.dims(shape))


def repeat(call: Call, x: Tensor, times: Sequence[int]) -> Tensor:
    """Tiled."""
    wide = call.reshaped(x, (*(1,) * (len(times) - rank(x)), *x.static_shape))
    return call.op("Tile", wide, [int(count) for count in times])


def select(call: Call, x: Tensor, axis: int, index: Any) -> Tensor:
    """One place of an axis, which goes away."""
    place = call.array(index, "index") if type(index) is int else call.reshaped(call.dims([index]), ())
    return call.op("Gather", x, place, axis=axis_of(x, axis))


def sliced(call: Call, x: Tensor, axis: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Tensor:
    """Part of an axis."""
    if x.shape == call.shape():
        return x
    first, last = start or 0, _END if end is None else end
    return call.op("Slice", x, call.dims([first]), call.dims([last]), [axis_of(x, axis)], [int(step)])


def concat(call: Call, parts: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Parts one behind the other; PyTorch skips empty vectors."""
    kept = [call.of_type(part) for part in parts if part.shape != (0,)]
    return kept[0] if len(kept) == 1 else call.op("Concat", *kept, axis=axis_of(kept[0], axis))


def stack(call: Call, parts: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Parts beside each other along a new axis."""
    axis %= rank(parts[0]) + 1
    return call.op("Concat", *(call.op("Unsqueeze", call.of_type(part), [axis]) for part in parts), axis=axis)


def split(call: Call, x: Tensor, sizes: Any, axis: int = 0) -> list[Tensor]:
    """split, chunk, split_with_sizes: the parts are those of the result."""
    axis = axis_of(x, axis)
    lengths = [int(part.shape[axis]) for part in call.node.meta["val"]]
    if len(lengths) == 1:
        return [x]
    return call.ops("Split", x, lengths, outputs=len(lengths), axis=axis)


def unbind(call: Call, x: Tensor, axis: int = 0) -> list[Tensor]:
    """Every place of an axis."""
    axis = axis_of(x, axis)
    count = x.static_shape[axis]
    parts = call.ops("Split", x, [1] * count, outputs=count, axis=axis) if count > 1 else [x]
    return [call.op("Squeeze", part, [axis]) for part in parts]


def embedding(call: Call, weight: Tensor, indices: Tensor, *_gradient: Any) -> Tensor:
    """Rows of a table."""
    return call.op("Gather", weight, indices, axis=0)


def gather(call: Call, x: Tensor, axis: int, index: Tensor, **_options: Any) -> Tensor:
    """An element a place, by index along an axis."""
    return call.op("GatherElements", x, index, axis=axis_of(x, axis))


def index_select(call: Call, x: Tensor, axis: int, index: Tensor) -> Tensor:
    """Places of an axis by index."""
    return call.op("Gather", x, index, axis=axis_of(x, axis))


def index(call: Call, x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """Indexing by tensors: along one axis a Gather, along several neighbours a GatherND."""
    axes = _indexed(call, indices)
    if len(axes) == 1:
        return call.op("Gather", x, indices[axes[0]], axis=axes[0])
    front = [*axes, *(axis for axis in range(rank(x)) if axis not in axes)]
    moved = permute(call, x, front)
    result = call.op("GatherND", moved, _places(call, [indices[axis] for axis in axes]))
    return _into_place(call, result, axes, rank(result) - (rank(x) - len(axes)))


def index_put(
    call: Call,
    x: Tensor,
    indices: Sequence[Tensor | None],
    values: Tensor,
    accumulate: bool = False,
    *_unsafe: Any,
) -> Tensor:
    """Elements replaced, or added to, by index."""
    axes = _indexed(call, indices)
    others = [axis for axis in range(rank(x)) if axis not in axes]
    order = [*axes, *others]
    places = _places(call, [indices[axis] for axis in axes])
    rest = [x.static_shape[axis] for axis in others]
    chosen = places.static_shape[:-1]
    wide = [*x.static_shape[: axes[0]], *chosen, *x.static_shape[axes[-1] + 1 :]]
    updates = call.of_type(values)
    if updates.shape != tuple(wide):
        updates = call.op("Expand", updates, wide)
    lead = axes[0]
    back = [*range(lead, lead + len(chosen)), *range(lead), *range(lead + len(chosen), len(wide))]
    updates = call.reshaped(permute(call, updates, back), (*chosen, *rest))
    reduction = "add" if accumulate else "none"
    result = call.op("ScatterND", permute(call, x, order), places, updates, reduction=reduction)
    return permute(call, result, [int(place) for place in np.argsort(order)])


def _indexed(call: Call, indices: Sequence[Tensor | None]) -> list[int]:
    axes = [axis for axis, one in enumerate(indices) if one is not None]
    if axes != list(range(axes[0], axes[-1] + 1)):
        raise call.unsupported("needs indices for neighbouring axes", axes, "use permute before")
    if any(one is not None and one.dtype is DType.BOOL for one in indices):
        raise call.unsupported("gives a shape that depends on values", "a boolean index", "use torch.where")
    return axes


def _places(call: Call, indices: Sequence[Tensor | None]) -> Tensor:
    """Indices of several axes as one tensor of tuples."""
    given = [call.of_type(one, DType.INT64) for one in indices if one is not None]
    shape = np.broadcast_shapes(*(one.static_shape for one in given))
    wide = [one if one.shape == shape else call.op("Expand", one, list(shape)) for one in given]
    return call.op("Concat", *(call.op("Unsqueeze", one, [len(shape)]) for one in wide), axis=len(shape))


def _into_place(call: Call, x: Tensor, axes: Sequence[int], count: int) -> Tensor:
    """The axes of the indices where the first indexed axis was."""
    lead = axes[0]
    order = [*range(count, count + lead), *range(count), *range(count + lead, rank(x))]
    return permute(call, x, order)


def pad(call: Call, x: Tensor, sizes: Sequence[int], value: float = 0) -> Tensor:
    """A border of one value; negative sizes cut."""
    before, after = [0] * rank(x), [0] * rank(x)
    for place in range(len(sizes) // 2):
        before[rank(x) - 1 - place], after[rank(x) - 1 - place] = (
            int(sizes[2 * place]),
            int(sizes[2 * place + 1]),
        )
    return call.op("Pad", x, [*before, *after], call.of_type(value))


def pad_by(mode: str) -> Any:
    """A border of copies."""

    def convert(call: Call, x: Tensor, sizes: Sequence[int]) -> Tensor:
        before, after = [0] * rank(x), [0] * rank(x)
        for place in range(len(sizes) // 2):
            axis = rank(x) - 1 - place
            before[axis], after[axis] = int(sizes[2 * place]), int(sizes[2 * place + 1])
        return call.op("Pad", x, [*before, *after], mode=mode)

    return convert


def roll(call: Call, x: Tensor, shifts: Sequence[int], axes: Sequence[int] = ()) -> Tensor:
    """Axes turned round: two slices exchanged."""
    shape = x.static_shape
    if not axes:
        turned = roll(call, call.reshaped(x, (x.elements,)), shifts, (0,))
        return call.reshaped(turned, shape)
    for shift, axis in zip(shifts, axes, strict=True):
        axis = axis_of(x, axis)
        cut = (shape[axis] - shift) % shape[axis]
        if cut:
            front, back = call.ops("Split", x, [cut, shape[axis] - cut], outputs=2, axis=axis)
            x = call.op("Concat", back, front, axis=axis)
    return x


def flip(call: Call, x: Tensor, axes: Sequence[int]) -> Tensor:
    """Axes backwards."""
    places = [axis_of(x, axis) for axis in axes]
    return call.op("Slice", x, [-1] * len(places), [-_END] * len(places), places, [-1] * len(places))


def triangle(upper: int) -> Any:
    """Triu or tril."""

    def convert(call: Call, x: Tensor, diagonal: int = 0) -> Tensor:
        return call.op("Trilu", x, call.array(int(diagonal), "diagonal"), upper=upper)

    return convert


def as_strided(
    call: Call, x: Tensor, sizes: Sequence[int], strides: Sequence[int], offset: int | None = None
) -> Tensor:
    """A view by strides, as far as it is one of a whole contiguous tensor."""
    return _by_strides(call, x, sizes, strides, offset)[0]


def as_strided_scatter(
    call: Call,
    x: Tensor,
    source: Tensor,
    sizes: Sequence[int],
    strides: Sequence[int],
    offset: int | None = None,
) -> Tensor:
    """All elements replaced through such a view."""
    order = _by_strides(call, x, sizes, strides, offset)[1]
    return call.reshaped(permute(call, source, order), x.static_shape)


def _by_strides(
    call: Call, x: Tensor, sizes: Sequence[int], strides: Sequence[int], offset: int | None
) -> tuple[Tensor, list[int]]:
    """The view, and the order of its axes in memory."""
    order = sorted(range(len(sizes)), key=lambda axis: (-int(strides[axis]), -int(sizes[axis])))
    shape = [int(sizes[axis]) for axis in order]
    dense = [int(np.prod(shape[place + 1 :])) for place in range(len(shape))]
    own = [int(strides[axis]) for axis in order]
    fits = all(size == 1 or step == wanted for size, step, wanted in zip(shape, own, dense, strict=True))
    if offset or not fits or int(np.prod(shape)) != x.elements:
        raise call.unsupported("needs strides of all of a contiguous tensor", (list(sizes), list(strides)))
    inner = call.reshaped(x, shape)
    return permute(call, inner, [int(place) for place in np.argsort(order)]), order


def copied(call: Call, x: Tensor, source: Value, *_options: Any) -> Tensor:
    """What is copied over x: the source in type and shape of x."""
    value = call.of_type(source)
    return value if value.shape == call.shape() else call.op("Expand", value, call.dims(call.shape()))


def slice_scatter(
    call: Call, x: Tensor, source: Tensor, axis: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Tensor:
    """Part of an axis replaced: what lies before, the source, what lies behind."""
    axis = axis_of(x, axis)
    size = x.static_shape[axis]
    first, last, _ = slice(start, None if end is None or end >= _END else end).indices(size)
    if step != 1:
        raise call.unsupported("needs step 1", step)
    if (first, last) == (0, size):
        return same(call, source)
    cuts = [(0, first), None, (last, size)]
    parts = [
        source if cut is None else call.op("Slice", x, [cut[0]], [cut[1]], [axis])
        for cut in cuts
        if cut is None or cut[1] > cut[0]
    ]
    return call.op("Concat", *parts, axis=axis)


def select_scatter(call: Call, x: Tensor, source: Tensor, axis: int, place: int) -> Tensor:
    """One place of an axis replaced."""
    axis = axis_of(x, axis)
    place %= x.static_shape[axis]
    return slice_scatter(call, x, call.op("Unsqueeze", source, [axis]), axis, place, place + 1)
