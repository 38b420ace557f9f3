"""Shape arithmetic that inference rules share: axes, products and ratios of dimensions that may be symbols or
unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from ascendsim.graph.ir import Dim, Shape
from ascendsim.opset import InferContext


def wrapped_axis(ctx: InferContext, axis: int, rank: int) -> int:
    """`axis` counted from the front.

    Raises:
        GraphError: If it lies outside [-rank, rank).
    """
    if not -rank <= axis < rank:
        raise ctx.fail(f"needs an axis from {-rank} to {rank - 1}", axis)
    return axis % rank


def wrapped_axes(ctx: InferContext, axes: Iterable[int], rank: int) -> tuple[int, ...]:
    """Axes counted from the front, in their order.

    Raises:
        GraphError: If one lies outside [-rank, rank) or is named twice.
    """
    wrapped = tuple(wrapped_axis(ctx, axis, rank) for axis in axes)
    if len(set(wrapped)) != len(wrapped):
        raise ctx.fail("needs distinct axes", wrapped)
    return wrapped


def known_ints(ctx: InferContext, index: int) -> tuple[int, ...] | None:
    """An input's values as integers if they are known, else None (also if the input is left out)."""
    value = ctx.value(index)
    if value is not None and value.dtype.kind == "f" and not np.isfinite(value).all():
        raise ctx.fail(f"needs whole numbers as input {index}", value.reshape(-1).tolist())
    return None if value is None else tuple(map(int, value.reshape(-1).tolist()))


def vector_length(ctx: InferContext, index: int) -> int | None:
    """Number of elements of a one-dimensional input, if it is known (the rank of a result whose shape is
    not).
    """
    shape = ctx.shape(index)
    length = shape[0] if shape is not None and len(shape) == 1 else None
    return length if isinstance(length, int) else None


def need_vectors(ctx: InferContext, ports: Iterable[int]) -> None:
    """Refuses inputs (if they are there) that are known not to have one axis."""
    for port in ports:
        shape = ctx.shape(port) if ctx.has(port) else None
        if shape is not None and len(shape) != 1:
            raise ctx.fail(f"needs a list of numbers as input {port}", f"shape {list(shape)}")


def need_numbers(ctx: InferContext, ports: Iterable[int]) -> None:
    """Refuses inputs (if they are there) that are known to hold more or less than one number."""
    for port in ports:
        shape = ctx.shape(port) if ctx.has(port) else None
        if shape is not None and any(isinstance(dim, int) and dim != 1 for dim in shape):
            raise ctx.fail(f"needs one number as input {port}", f"shape {list(shape)}")


def may_equal(first: Shape | None, second: Shape | None) -> bool:
    """Whether two shapes may be the same: their ranks and all dimensions that are numbers on both sides
    agree.

    >>> may_equal((2, "n"), (2, 3)), may_equal((2, 3), (2, 4)), may_equal((2,), (2, 1)), may_equal(None, (2,))
    (True, False, False, True)
    """
    if first is None or second is None:
        return True
    pairs = zip(first, second, strict=False)
    return len(first) == len(second) and all(
        a == b for a, b in pairs if isinstance(a, int) and isinstance(b, int)
    )


def need_shape(ctx: InferContext, port: int, wanted: Shape | None) -> None:
    """Refuses an input (if it is there) that cannot have the wanted shape."""
    if ctx.has(port) and not may_equal(ctx.shape(port), wanted):
        raise ctx.fail(f"needs input {port} of shape {wanted}", ctx.shape(port))


def need_rank(ctx: InferContext, port: int, least: int) -> None:
    """Refuses an input (if it is there) with fewer axes."""
    shape = ctx.shape(port) if ctx.has(port) else None
    if shape is not None and len(shape) < least:
        raise ctx.fail(f"needs input {port} of rank {least} or more", list(shape))


def need_channels(ctx: InferContext, ports: Iterable[int], axis: int = 1) -> None:
    """Refuses inputs that cannot be vectors with one value for each index of an axis of input 0."""
    shape = ctx.shape(0)
    for port in ports:
        need_shape(ctx, port, (shape[axis] if shape is not None and axis < len(shape) else None,))


def need_within(ctx: InferContext, port: int, shape: Shape | None) -> None:
    """Refuses an input (if it is there) that does not broadcast to a shape without making it larger."""
    part = ctx.shape(port) if ctx.has(port) else None
    if part is None or shape is None:
        return
    pairs = zip(reversed(part), reversed(shape), strict=False)
    if len(part) > len(shape) or any(
        a not in (1, b) for a, b in pairs if isinstance(a, int) and isinstance(b, int)
    ):
        raise ctx.fail(f"needs input {port} to broadcast to {shape}", part)


def unknown_shape(rank: int | None) -> Shape | None:
    """A shape of unknown dimensions, None if even the rank is unknown."""
    return None if rank is None else (None,) * rank


def product(dims: Iterable[Dim]) -> Dim:
    """Product of dimensions: a number, a lone symbol, or None.

    >>> product((2, 3)), product(("n", 1)), product(("n", 2)), product(("n", 0))
    (6, 'n', None, 0)
    """
    return ratio(tuple(dims), ())


def ratio(over: Sequence[Dim], under: Sequence[Dim]) -> Dim:
    """prod(over) / prod(under), with equal symbols cancelled; None where that is no number and no lone
    symbol.

    >>> ratio(("n", 4, 6), (8,)), ratio(("n", 12), ("n", 3)), ratio(("n", 5), (5,))
    (None, 4, 'n')
    """
    if any(dim is None for dim in (*over, *under)):
        return 0 if 0 in over and 0 not in under and None not in under else None
    symbols: list[str] = []
    if any(isinstance(dim, str) for dim in (*over, *under)):
        above, below = (Counter(dim for dim in dims if isinstance(dim, str)) for dims in (over, under))
        if below - above:
            return None
        symbols = list((above - below).elements())
    number, divisor = 1, 1
    for dim in over:
        number *= dim if isinstance(dim, int) else 1
    for dim in under:
        divisor *= dim if isinstance(dim, int) else 1
    if divisor == 0 or number % divisor:
        return None
    if number == 0:
        return 0
    if not symbols:
        return number // divisor
    return symbols[0] if len(symbols) == 1 and number == divisor else None


def total(dims: Iterable[Dim]) -> Dim:
    """Sum of dimensions if all are numbers (or one symbol among zeros), else None.

    >>> total((2, 3)), total(("n", 0)), total(("n", 1))
    (5, 'n', None)
    """
    parts = [dim for dim in dims if dim != 0]
    if len(parts) == 1:
        return parts[0]
    result = 0
    for part in parts:
        if not isinstance(part, int):
            return None
        result += part
    return result


def merged(ctx: InferContext, first: Dim, second: Dim) -> Dim:
    """The dimension that two tensors share; a number beats a symbol, a symbol beats an unknown.

    Raises:
        GraphError: If both are numbers and differ.
    """
    if isinstance(first, int) and isinstance(second, int) and first != second:
        raise ctx.fail("needs equal dimensions", f"{first} and {second}")
    if isinstance(first, int) or second is None:
        return first
    return second if isinstance(second, int) or first is None else first
