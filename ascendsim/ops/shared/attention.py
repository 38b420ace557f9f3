"""What both directions of CANN's attention kernel share: layouts, heads, and which keys a query sees.

Layouts are those of CANN: BSH, SBH (heads side by side in the last axis), BSND and BNSD. Fewer heads of keys
and values than of queries serve several of them each (grouped queries), without copies. `sparse_mode` says
how masks are meant: 0 a mask as given, within a band of `pre_tockens` before and `next_tockens` behind the
diagonal; 1 the whole mask as given; 2 and 3 causal from the upper left or the lower right corner; 4 a band
from the lower right one. Masks of modes 2 to 4 have 2048 x 2048 values whatever the sizes are, which nobody
reads. True forbids.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Dim, Node, Shape
from ascendsim.ops.shared.common import settled
from ascendsim.ops.shared.dims import may_equal
from ascendsim.opset import InferContext
from ascendsim.opset.attention import Band

UNBOUNDED = 2147483647  # of pre_tockens and next_tockens: no limit on that side
LANES = 8  # values of a row's maximum and sum, all equal: a block of 32 bytes
COMPRESSED = (2048, 2048)  # masks of sparse modes 2 to 4
_ORDERS = {"BSH": "bsnd", "SBH": "sbnd", "BSND": "bsnd", "BNSD": "bnsd"}  # once heads have an axis
_MASKED = (0, 1)  # sparse modes whose masks are read


@dataclass(frozen=True, slots=True)
class Heads:
    """Sizes of an attention; None where a dimension is not known.

    Attributes:
        count, shared: Heads of queries, and of keys and values.
        size, width: Elements of a query or key, and of a value.
    """

    batch: Dim
    count: int
    shared: Dim
    queries: Dim
    keys: Dim
    size: Dim
    width: Dim

    @property
    def static(self) -> tuple[int, int, int, int, int, int, int]:
        """All sizes, which are known."""
        found = (self.batch, self.count, self.shared, self.queries, self.keys, self.size, self.width)
        assert all(isinstance(dim, int) for dim in found)
        return found  # type: ignore[return-value]


def heads_of(node: Node, query: Shape, key: Shape, value: Shape) -> Heads | str:
    """Sizes by the shapes of the operands, or which rule they break."""
    count, layout = int(node.attr("head_num", 0)), layout_of(node)
    if layout not in _ORDERS:
        return f"needs an input_layout out of {', '.join(_ORDERS)}"
    if count < 1:
        return "needs head_num, the heads of the queries"
    if any(len(shape) != len(layout) for shape in (query, key, value)):
        return f"needs query, key and value of rank {len(layout)} for layout {layout}"
    axis = {letter: place for place, letter in enumerate(layout)}
    batch, queries, keys = query[axis["B"]], query[axis["S"]], key[axis["S"]]
    if "N" in axis:
        if not may_equal((query[axis["N"]],), (count,)):
            return f"needs queries with head_num = {count} heads"
        size, shared, width = query[axis["D"]], key[axis["N"]], value[axis["D"]]
    else:
        size = _share(query[axis["H"]], count)
        shared = _share(key[axis["H"]], size) if isinstance(size, int) else None
        width = _share(value[axis["H"]], shared) if isinstance(shared, int) else None
        if 0 in (size, shared, width):
            return f"needs last axes that {count} heads of queries and those of keys share"
    if isinstance(shared, int) and (shared < 1 or count % shared):
        return "needs heads of queries that are a multiple of those of keys"
    key_shape, value_shape = list(query), list(key)
    key_shape[axis["S"]] = keys
    key_shape[axis["N" if "N" in axis else "H"]] = key[axis["N" if "N" in axis else "H"]]
    last = len(layout) - 1
    value_shape[last] = value[last]
    if not may_equal(key, tuple(key_shape)) or not may_equal(value, tuple(value_shape)):
        return "needs keys of the queries' batch and size, and a value for each key"
    return Heads(batch, count, shared, queries, keys, size, width)


def _share(dim: Dim, parts: int) -> Dim:
    """Elements of one of several equal parts; 0 if there are none."""
    if not isinstance(dim, int):
        return None
    return 0 if parts < 1 or dim % parts else dim // parts


def layout_of(node: Node) -> str:
    """`input_layout` of a node."""
    layout = node.attr("input_layout", "")
    return layout.decode() if isinstance(layout, bytes) else str(layout)


def static_heads(node: Node) -> Heads:
    """Sizes of a node whose shapes have been checked."""
    found = heads_of(node, *(node.required(port).static_shape for port in range(3)))
    assert isinstance(found, Heads)
    return found


def check_operands(context: InferContext, shift: int, drop: int, mask: int) -> Heads | None:
    """Sizes; None where ranks are not known. Other arguments are ports of what steers scores.

    Raises:
        GraphError: Names the rule that is broken.
    """
    node = context.node
    mode = int(node.attr("sparse_mode", 0))
    if mode not in range(5):
        raise context.fail("needs a sparse_mode of 0 to 4", mode)
    if not 0 < float(node.attr("keep_prob", 1.0)) <= 1:
        raise context.fail("needs a keep_prob above 0 and not above 1", node.attr("keep_prob"))
    if int(node.attr("pse_type", 1)) not in (0, 1):
        raise context.fail("needs a pse_type of 0 or 1", node.attr("pse_type"))
    dtypes = {context.dtype(port) for port in range(3)}
    if len(dtypes) > 1 or not all(dtype.is_float for dtype in dtypes):
        raise context.fail("needs query, key and value of one type of real numbers")
    shapes = [context.shape(port) for port in range(3)]
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes):
        return None
    heads = heads_of(node, *known)
    if isinstance(heads, str):
        raise context.fail(heads, f"shapes {', '.join(str(shape) for shape in known)}")
    square = (heads.queries, heads.keys)
    wide = ((heads.batch, heads.count, *square), (1, heads.count, *square))
    if context.has(shift) and not any(may_equal(context.shape(shift), one) for one in wide):
        raise context.fail(f"needs a real_shift of shape {wide[0]}", context.shape(shift))
    if context.has(mask):
        plain = (
            (square, (heads.batch, 1, *square), (1, 1, *square), *wide) if mode in _MASKED else (COMPRESSED,)
        )
        if not any(may_equal(context.shape(mask), one) for one in plain):
            raise context.fail(f"needs a mask of shape {plain[0]}", context.shape(mask))
        if context.dtype(mask) not in (DType.BOOL, DType.UINT8):
            raise context.fail("needs a mask of bool or uint8", context.dtype(mask).value)
    elif mode == 1:
        raise context.fail("needs a mask for sparse_mode 1")
    if context.has(drop) and context.dtype(drop) is not DType.UINT8:
        raise context.fail("needs a dropout mask of uint8", context.dtype(drop).value)
    return heads


def stored(layout: str, batch: Dim, count: Dim, length: Dim, size: Dim) -> Shape:
    """Shape of a tensor of heads in a layout."""
    both = count * size if isinstance(count, int) and isinstance(size, int) else None
    return tuple({"B": batch, "S": length, "N": count, "D": size, "H": both}[axis] for axis in layout)


def by_heads(array: Array, layout: str, count: int) -> Array:
    """A view with axes batch, head, token, element."""
    if "N" not in layout:
        array = array.reshape(*array.shape[:2], count, array.shape[2] // count)
    return array.transpose([_ORDERS[layout].index(letter) for letter in "bnsd"])


def from_heads(array: Array, layout: str) -> Array:
    """The same back in a layout."""
    placed = array.transpose(["bnsd".index(letter) for letter in _ORDERS[layout]])
    return placed if "N" in layout else placed.reshape(*placed.shape[:2], -1)


def outside(band: Band, rows: range, columns: range) -> Array | None:
    """Which of some scores are outside of the band; None if none is."""
    distance = np.arange(columns.start, columns.stop) - np.arange(rows.start, rows.stop)[:, None]
    found = (distance < band.low) | (distance > band.high)
    return found if found.any() else None


def band_of(node: Node, mask: bool, queries: int, keys: int) -> Band:
    """The band that the attributes ask for; `mask`: whether there is a mask."""
    mode = int(node.attr("sparse_mode", 0))
    before, behind = (float(int(node.attr(name, UNBOUNDED))) for name in ("pre_tockens", "next_tockens"))
    low = -math.inf if before >= UNBOUNDED else -before
    high = math.inf if behind >= UNBOUNDED else behind
    corner = keys - queries
    if mode == 0:
        return Band(low, high) if mask else Band()
    return (Band(), Band(high=0), Band(high=corner), Band(low + corner, high + corner))[mode - 1]


@dataclass(frozen=True)
class Block:
    """Some queries of a head, and some of the keys that they see.

    Attributes:
        head: Number in the batch, and of the head.
        rows, columns: Queries and keys.
    """

    head: tuple[int, int]
    rows: range
    columns: range

    @property
    def queries(self) -> tuple[int, int, slice]:
        """Where its queries are in an array of batch, heads and queries."""
        return (*self.head, slice(self.rows.start, self.rows.stop))

    @property
    def keys(self) -> slice:
        """Where its keys are among those of the head."""
        return slice(self.columns.start, self.columns.stop)


@dataclass(frozen=True, slots=True)
class Steering:
    """What is done to scores of one node between product and softmax.

    Attributes:
        scale: Factor of the products.
        shift: What is added, with axes batch, head, query, key; None = nothing.
        scaled_shift: Whether the factor is for the sum.
        mask: True forbids, of the same axes.
        kept: Whether a weight survives dropout, likewise.
        keep: The share that survives.
    """

    band: Band
    scale: float
    shift: Array | None
    scaled_shift: bool
    mask: Array | None
    kept: Array | None
    keep: float

    @classmethod
    def of(
        cls, node: Node, sizes: Sequence[int], shift: Array | None, drop: Array | None, mask: Array | None
    ) -> Steering:
        """What a node's attributes and inputs say; sizes are batch, heads, queries and keys."""
        batch, count, queries, keys = sizes
        whole = (batch, count, queries, keys)
        read = mask is not None and int(node.attr("sparse_mode", 0)) in _MASKED
        kept = None
        keep = float(node.attr("keep_prob", 1.0))
        if drop is not None and keep < 1:
            bits = np.unpackbits(drop.reshape(-1), count=math.prod(whole), bitorder="little")
            kept = bits.reshape(whole).astype(bool)
        return cls(
            band_of(node, mask is not None, queries, keys),
            float(node.attr("scale_value", 1.0)),
            None if shift is None else np.broadcast_to(shift, whole),
            int(node.attr("pse_type", 1)) == 1,
            np.broadcast_to(np.asarray(mask) != 0, whole) if read else None,
            kept,
            keep,
        )

    def blocks(self, sizes: Sequence[int], most: tuple[int, int]) -> Iterator[Block]:
        """Blocks in which something may be seen, head by head and rows by rows.

        Args:
            sizes: Batch, heads, queries and keys.
            most: Queries and keys of a block.
        """
        batch, count, queries, keys = sizes
        for head in np.ndindex(batch, count):
            for first in range(0, queries, most[0]):
                rows = range(first, min(queries, first + most[0]))
                start, end = self.band.columns(first, len(rows), keys)
                for column in range(start, end, most[1]):
                    yield Block((head[0], head[1]), rows, range(column, min(end, column + most[1])))

    def scores(self, products: Array, at: Block) -> Array:
        """Scores of a block: scaled, shifted, minus infinity where nothing may be seen."""
        block = (*at.queries, at.keys)
        factor = products.dtype.type(self.scale)
        if self.shift is None:
            products = products * factor
        else:
            shift = self.shift[block].astype(products.dtype)
            products = (products + shift) * factor if self.scaled_shift else products * factor + shift
        for forbidden in (
            outside(self.band, at.rows, at.columns),
            None if self.mask is None else self.mask[block],
        ):
            if forbidden is not None:
                products = np.asarray(np.where(forbidden, products.dtype.type(-np.inf), products))
        return products

    def dropped(self, weights: Array, at: Block) -> Array:
        """Weights, or their gradients, after dropout."""
        if self.kept is None:
            return weights
        kept = self.kept[(*at.queries, at.keys)]
        scaled = weights * weights.dtype.type(1 / self.keep)
        return np.asarray(np.where(kept, scaled, weights.dtype.type(0)))


def rounded(array: Array, dtype: np.dtype[Any]) -> Array:
    """Values as the Cube takes them: rounded to the operands' type, held in a wider one."""
    return array if dtype == array.dtype else settled(array.astype(dtype), dtype).astype(array.dtype)


def follow(scores: Array, peaks: Array, totals: Array, sums: Array) -> Array:
    """Takes a block into running maxima, sums and weighted sums; returns its exponentials."""
    if scores.dtype == np.float32:
        from ascendsim_kernels.attention import follow_block

        scores = np.ascontiguousarray(scores)
        follow_block(scores, peaks, totals, sums)
        return scores
    higher = np.maximum(peaks, scores.max(axis=-1))
    safe = np.where(np.isfinite(higher), higher, 0)
    powers, shrink = np.exp(scores - safe[:, None]), np.exp(peaks - safe)
    peaks[:] = higher
    totals[:] = totals * shrink + powers.sum(axis=-1)
    sums *= shrink[:, None]
    return np.asarray(powers)
