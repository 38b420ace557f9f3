"""CANN's attention kernels of inference (domain "ascend"): PromptFlashAttention (all queries of a prompt),
IncreFlashAttention (one query a sequence, of a cache) and FusedInferAttentionScore, which does both.

    attention_out = softmax(scale query key' + pse_shift, masked) value

A bound of the scores (`softcap`) acts before anything is added to them.

Inputs stand in CANN's order (`ops.shared.inference_attention.PORTS`); the second result of
FusedInferAttentionScore is the logarithm of each row's sum of exponentials where `softmax_lse_flag` asks for
it. Queries that see no key give zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Dim, Node, Shape
from ascendsim.ops.shared.attention import follow, rounded
from ascendsim.ops.shared.common import as_float32, finish
from ascendsim.ops.shared.inference_attention import (
    PORTS,
    Sizes,
    Tokens,
    band_of,
    check,
    paged,
    ports_of,
    result_layout,
    sequences_of,
    sizes_of,
    slopes,
    stored_layout,
)
from ascendsim.ops.shared.inference_attention_work import inference_attention_work
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.attention import Band
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.structure import opaque

MOST_INPUTS = 26
ROWS, COLUMNS = 128, 1024  # of a block; values depend on them by the order of sums only
_BY_TOKEN = 1  # antiquant_mode: a scale a token; 0 a channel


def _infer(context: InferContext) -> None:
    sizes = check(context)
    node, dtype = context.node, context.dtype(0)
    wide = DType.FLOAT64 if dtype is DType.FLOAT64 else DType.FLOAT32
    if sizes is None:
        context.set(0, dtype, None)
        context.set(1, wide, None)
        return
    wide_row = sizes.width
    both = sizes.heads * wide_row if isinstance(wide_row, int) else None
    letters: dict[str, Dim] = {"B": sizes.batch, "S": sizes.queries, "N": sizes.heads, "D": wide_row}
    letters |= {"H": both, "T": sizes.queries}
    context.set(0, dtype, tuple(letters[letter] for letter in result_layout(node)))
    rows: Shape = (sizes.batch, sizes.heads, sizes.queries, 1)
    if stored_layout(node) == "TND":
        rows = (sizes.queries, sizes.heads, 1)
    context.set(1, wide, rows if int(node.attr("softmax_lse_flag", 0)) else (1,))


def _compute(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Array]:
    """Exact products of halves and float32 sums; weights are rounded to the queries' type before the second
    product, and the result once.
    """
    values = _Values(node, [*inputs, *[None] * (MOST_INPUTS - len(inputs))])
    made = values.results()
    return [finish(np.ascontiguousarray(array), dtype) for array, dtype in zip(made, wanted, strict=False)]


class _Values:
    """Computes one node."""

    def __init__(self, node: Node, inputs: Sequence[Any]) -> None:
        self.node, self.inputs, self.ports = node, inputs, ports_of(node)
        operands = [inputs[port] for port in (0, 1, 2, self.ports.query_rope, self.ports.key_rope)]
        operands = [array for port, array in enumerate(operands) if port < 3 or self.ports.query_rope > 0]
        sizes = sizes_of(node, [array.shape for array in operands if array is not None])
        assert isinstance(sizes, Sizes)
        self.sizes = sizes
        self.layout = stored_layout(node)
        lengths = [self._given(port) for port in (self.ports.query_lengths, self.ports.key_lengths)]
        own, theirs = (None if one is None else [int(n) for n in one.reshape(-1)] for one in lengths)
        self.tokens = sequences_of(node, sizes, own, theirs)
        self.scale = float(node.attr(self.ports.scale, 1.0))
        self.bound = float(node.attr("softcap", 0.0))

    def _given(self, port: int) -> Array | None:
        return self.inputs[port] if port >= 0 else None

    def results(self) -> tuple[Array, Array]:
        """attention_out and softmax_lse."""
        sizes, group = self.sizes, self.sizes.heads // self.sizes.shared
        query = self._by_heads(self.inputs[0], sizes.heads)
        kind = as_float32(query[:0]).dtype
        out = np.zeros((*query.shape[:-1], sizes.width), kind)
        logs = np.full(query.shape[:-1], np.inf, kind)
        for number, own in enumerate(self.tokens):
            at = self._place(number, own.first_query, own.queries)
            rows = as_float32(query[at])
            if self._given(self.ports.query_rope) is not None:
                rope = self._by_heads(self.inputs[self.ports.query_rope], sizes.heads)[at]
                rows = np.concatenate([rows, as_float32(rope)], axis=-1)
            keys, values = self._keys(number, own), self._stored(2, number, own)
            for head in range(sizes.shared if own.queries else 0):
                cut = slice(head * group, (head + 1) * group)
                made, sums = self._head(rows[cut], keys[head], values[head], number, cut, own)
                out[at][cut], logs[at][cut] = made, sums
        asked = int(self.node.attr("softmax_lse_flag", 0))
        return self._back(out), self._logs(logs) if asked else np.zeros(1, kind)

    def _head(
        self, query: Array, key: Array, value: Array, number: int, heads: slice, own: Tokens
    ) -> tuple[Array, Array]:
        """All rows that share a head of keys, row blocks by blocks of keys."""
        rows, queries = query.reshape(-1, query.shape[-1]), own.queries
        result = np.zeros((len(rows), value.shape[-1]), rows.dtype)
        peaks, totals = np.full(len(rows), -np.inf, rows.dtype), np.zeros(len(rows), rows.dtype)
        band = band_of(self.node, own)
        mask = self._steering(self.ports.mask, number, heads, own)
        shift = self._shift(number, heads, own)
        for first in range(0, len(rows), ROWS):
            cut = slice(first, min(len(rows), first + ROWS))
            at = np.arange(first, cut.stop) % queries
            start, end = band.columns(int(at.min()), int(at.max() - at.min()) + 1, own.keys)
            for column in range(start, end, COLUMNS):
                keys = slice(column, min(end, column + COLUMNS))
                scores = np.matmul(rows[cut], key[keys].T) * rows.dtype.type(self.scale)
                if self.bound:
                    scores = rows.dtype.type(self.bound) * np.tanh(scores / rows.dtype.type(self.bound))
                if shift is not None:
                    scores = scores + shift[cut, keys].astype(rows.dtype)
                hidden = _outside(band, at, np.arange(keys.start, keys.stop))
                if mask is not None:
                    hidden |= mask[cut, keys] != 0
                scores = np.where(hidden, rows.dtype.type(-np.inf), scores)
                weights = follow(scores, peaks[cut], totals[cut], result[cut])
                result[cut] += np.matmul(rounded(weights, self.inputs[0].dtype), value[keys])
        seen = totals > 0
        safe = np.where(seen, totals, 1)
        sums = np.where(seen, peaks + np.log(safe), np.inf)
        shape = query.shape[:2]
        return (result / safe[:, None]).reshape(*shape, -1), sums.reshape(shape)

    def _by_heads(self, array: Array, count: int) -> Array:
        """A view with axes batch, head, token, element; without a batch for TND."""
        if self.layout == "BSH":
            array = array.reshape(*array.shape[:2], count, array.shape[2] // count)
        return array if self.layout == "BNSD" else array.swapaxes(-3, -2)

    def _place(self, number: int, first: int, length: int) -> tuple[Any, ...]:
        """Where tokens of a sequence are in such a view."""
        tokens = slice(first, first + length)
        return (slice(None), tokens) if self.layout == "TND" else (number, slice(None), tokens)

    def _keys(self, number: int, own: Tokens) -> Array:
        keys = self._stored(1, number, own)
        if self._given(self.ports.key_rope) is None:
            return keys
        return np.concatenate([keys, self._stored(self.ports.key_rope, number, own)], axis=-1)

    def _stored(self, port: int, number: int, own: Tokens) -> Array:
        """Keys or values of a sequence: head, token, element."""
        array, sizes = self.inputs[port], self.sizes
        if not paged(self.node):
            found = self._by_heads(array, sizes.shared)[self._place(number, own.first_key, own.keys)]
        else:
            pages = self.inputs[self.ports.table][number, : -(-own.keys // sizes.page)]
            found = array[pages]
            if not sizes.inner:
                found = found.reshape(*found.shape[:2], sizes.shared, -1).swapaxes(1, 2)
            found = found.swapaxes(0, 1).reshape(sizes.shared, -1, found.shape[-1])[:, : own.keys]
        if array.dtype != np.int8:
            return as_float32(found)
        scale, offset = (self._scale(port, what, number, own) for what in ("scale", "offset"))
        wide = found.astype(np.float32) if offset is None else found + offset
        return np.asarray(wide * scale)

    def _scale(self, port: int, what: str, number: int, own: Tokens) -> Any:
        """Scales or offsets of keys (port 1) or values, in a shape that spreads over head, token, element."""
        name, ports = ("key", "value")[port - 1], self.ports
        both = self._given(ports.scales if what == "scale" else ports.offsets)
        if both is not None:
            one, mode = as_float32(both[port - 1]), int(self.node.attr("antiquant_mode", 0))
        else:
            single = self._given(getattr(ports, f"{name}_{what}"))
            if single is None:
                return None
            one, mode = as_float32(single), int(self.node.attr(f"{name}_antiquant_mode", 0))
        if mode == _BY_TOKEN:
            return one.reshape(-1, one.shape[-1])[number, : own.keys][None, :, None]
        return one.reshape(-1) if one.size == 1 else one.reshape(self.sizes.shared, 1, -1)

    def _steering(self, port: int, number: int, heads: slice, own: Tokens) -> Array | None:
        """A mask or shift of the rows that share a head of keys: row, key."""
        array = self._given(port)
        if array is None or (port == self.ports.mask and int(self.node.attr("sparse_mode", 0)) > 1):
            return None
        if array.ndim < 4:
            query = 1 if not self.ports.bands else array.shape[-2]
            array = array.reshape(-1, 1, query, array.shape[-1])
        whole = np.broadcast_to(
            array, (max(len(self.tokens), array.shape[0]), self.sizes.heads, *array.shape[2:])
        )
        kept = whole[number, heads, : own.queries, : own.keys]
        return kept.reshape(-1, own.keys)

    def _shift(self, number: int, heads: slice, own: Tokens) -> Array | None:
        """What is added to the scores of rows that share a head of keys: row, key."""
        if not slopes(self.node):
            return self._steering(self.ports.shift, number, heads, own)
        places = np.arange(own.keys - own.queries, own.keys)
        distance = np.abs(places[:, None] - np.arange(own.keys))
        each = as_float32(self.inputs[self.ports.shift])[heads]
        return np.asarray(-each[:, None, None] * distance).reshape(-1, own.keys)

    def _back(self, out: Array) -> Array:
        """Results in their layout."""
        layout = result_layout(self.node)
        placed = out if layout == "BNSD" else out.swapaxes(-3, -2)
        return placed.reshape(*placed.shape[:2], -1) if layout == "BSH" else placed

    def _logs(self, logs: Array) -> Array:
        return (logs.swapaxes(-2, -1) if self.layout == "TND" else logs)[..., None]


def _outside(band: Band, rows: Array, columns: Array) -> Array:
    distance = columns - rows[:, None]
    return np.asarray((distance < band.low) | (distance > band.high))


OPERATORS: tuple[OpDef, ...] = tuple(
    OpDef(
        name,
        _infer,
        _compute,
        inference_attention_work,
        Layout.ND,
        domain="ascend",
        most_inputs=MOST_INPUTS,
        facts=Facts(
            opaque(),
            Kind.MATMUL,
            Precision.ATTENTION_ONLY,
            operands=(0, 1, 2),
            parameters=tuple(
                port
                for port in (ports.mask, ports.query_lengths, ports.key_lengths, ports.table)
                if port >= 0
            ),
        ),
    )
    for name, ports in PORTS.items()
)
