"""Attention of onnxruntime (domain "com.microsoft"), as CANN's kernel of inference and what stands around it.

    GroupQueryAttention     rotary embedding of queries and new keys; new keys and values behind those of
                            before, or into a cache that is as long as it may get; FusedInferAttentionScore
    MultiHeadAttention      the same without the embedding; biases, masks of keys, numbers that are added

Lengths come from `seqlens_k` (the last token's place in each sequence). A cache that keeps its size
(past_present_share_buffer) is written with TensorScatter, one that grows with Concat; which it is says the
total length if that is a constant, else the shape that the file declares for the new cache.
"""

from __future__ import annotations

import math

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.frontends.onnx.upgrade import Draft, Emitter
from ascendsim.graph.ir import AttributeValue, Tensor

KERNEL = "FusedInferAttentionScore"
_BY_HEADS = (0, 2, 1, 3)
_SIDE = 2048  # of the mask that kernels take with sparse modes
_TO_THE_END = np.iinfo(np.int64).max


class _Writer:
    """Writes what stands around a kernel."""

    def __init__(self, draft: Draft, emitter: Emitter) -> None:
        self.draft, self.emitter = draft, emitter
        self.heads = int(draft.pop("num_heads", 0))
        if self.heads < 1:
            raise GraphError(draft.subject, "needs num_heads of 1 or more", self.heads)

    def input(self, port: int) -> Tensor | None:
        return self.draft.inputs[port] if port < len(self.draft.inputs) else None

    def output(self, port: int) -> str:
        return self.draft.outputs[port] if port < len(self.draft.outputs) else ""

    def op(
        self, op_type: str, *inputs: Tensor | None, stem: str = "", **attributes: AttributeValue
    ) -> Tensor:
        name = f"{self.draft.name}/{stem or op_type.lower()}"
        return self.emitter.emit(op_type, list(inputs), name, "", **attributes)

    def ints(self, values: object, stem: str = "sizes") -> Tensor:
        return self.emitter.constant(np.array(values, np.int64), f"{self.draft.name}/{stem}")

    def refuse(self, given: object, what: str) -> None:
        """Refuses what the kernel has no form for."""
        if given:
            raise GraphError(self.draft.subject, f"has no form with {what} here", remedy="export it without")

    def length(self, tensor: Tensor, axis: int) -> int | None:
        """A known size."""
        size = None if tensor.shape is None else tensor.shape[axis]
        return size if isinstance(size, int) else None

    def by_heads(self, tensor: Tensor, heads: int) -> Tensor:
        """(batch, token, heads x element) with heads in front of tokens."""
        apart = self.op("Reshape", tensor, self.ints([0, 0, heads, -1]))
        return self.op("Transpose", apart, perm=_BY_HEADS)

    def sliced(self, tensor: Tensor, start: int, end: int, axis: int, stem: str) -> Tensor:
        bounds = (self.ints([bound]) for bound in (start, end, axis))
        return self.op("Slice", tensor, *bounds, stem=stem)

    def finish(self, inputs: list[Tensor | None], flat: bool, options: dict[str, AttributeValue]) -> None:
        """The kernel; on tensors by heads with a Reshape behind it."""
        draft, kernel = self.draft, dict[str, AttributeValue](num_heads=self.heads, **options)
        while inputs[-1] is None:
            inputs.pop()
        kernel["input_layout"] = "BSH" if flat else "BNSD_BSND"
        draft.attributes.clear()
        draft.outputs = draft.outputs[:1]
        if flat:
            draft.op_type, draft.domain, draft.inputs = KERNEL, "ascend", inputs
            draft.attributes.update(kernel)
            return
        made = self.emitter.emit(KERNEL, inputs, f"{draft.name}/attention", "ascend", **kernel)
        draft.op_type, draft.domain = "Reshape", ""
        draft.inputs = [made, self.ints([0, 0, -1])]

    def triangle(self, queries: int | None) -> Tensor | None:
        """The mask that kernels take with sparse modes; none for single queries."""
        if queries == 1:
            return None
        above = np.triu(np.ones((_SIDE, _SIDE), np.bool_), 1)
        return self.emitter.constant(above, f"{self.draft.name}/mask")

    def added(self, bias: Tensor | None) -> Tensor | None:
        """Numbers that are added to scores, for each head."""
        if bias is None or self.length(bias, 1) == self.heads:
            return bias
        if bias.shape is None or not bias.is_static:
            raise GraphError(self.draft.subject, "needs an attention_bias of known shape")
        batch, _, *rest = bias.static_shape
        return self.op("Expand", bias, self.ints([batch, self.heads, *rest]), stem="bias")


def grouped(draft: Draft, emitter: Emitter) -> None:
    """GroupQueryAttention.

    Raises:
        GraphError: Names what there is no form for.
    """
    w = _Writer(draft, emitter)
    shared = int(draft.pop("kv_num_heads", 0)) or w.heads
    bound = float(draft.pop("softcap", 0.0))
    w.refuse(int(draft.pop("smooth_softmax", 0)) == 1, "smooth_softmax")
    w.refuse(w.input(11) is not None, "head_sink")
    window, scale = int(draft.pop("local_window_size", -1)), float(draft.pop("scale", 0.0))
    query, key, value = _projections(w, shared)
    size = _head_size(w, query, w.heads)
    past, queries = w.input(3), w.length(query, 1)
    if past is not None and w.length(past, 2) == 0:
        past = None
    if int(draft.pop("do_rotary", 0)):
        places = _places(w, past is not None, queries)
        turned = int(draft.pop("rotary_interleaved", 0))
        query, key = (
            w.op(
                "RotaryEmbedding",
                one,
                *(w.input(port) for port in (7, 8)),
                places,
                stem=f"rotary_{name}",
                num_heads=heads,
                interleaved=turned,
            )
            for one, heads, name in ((query, w.heads, "q"), (key, shared, "k"))
        )
    lengths = _lengths(w, 1)
    options: dict[str, AttributeValue] = {
        "num_key_value_heads": shared,
        "scale": scale or 1 / math.sqrt(size),
    }
    options["sparse_mode"] = 2 if past is None else 3
    if bound:
        options["softcap"] = bound
    if window > 0:
        options |= {"sparse_mode": 4, "pre_tokens": window - 1, "next_tokens": 0}
    shift, mask = w.added(w.input(10)), w.triangle(queries)
    if past is None:
        for port, one in ((1, key), (2, value)):
            if w.output(port):
                emitter.give(w.output(port), w.by_heads(one, shared))
        w.finish([query, key, value, shift, mask, None, lengths], True, options)
        return
    rows = w.by_heads(query, w.heads)
    caches = [_behind(w, port, w.by_heads(one, shared), queries) for port, one in ((3, key), (4, value))]
    w.finish([rows, *caches, shift, mask, None, lengths], False, options)


def _projections(w: _Writer, shared: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values, (batch, token, heads x element) each; they may come in one."""
    query, key, value = w.draft.data(), w.input(1), w.input(2)
    if key is not None and value is not None:
        return query, key, value
    size = _head_size(w, query, w.heads + 2 * shared)
    ends = np.cumsum([0, w.heads * size, shared * size, shared * size]).tolist()
    found = [
        w.sliced(query, start, end, 2, name)
        for start, end, name in zip(ends, ends[1:], ("query", "key", "value"), strict=False)
    ]
    return found[0], found[1], found[2]


def _head_size(w: _Writer, tensor: Tensor, heads: int) -> int:
    wide = w.length(tensor, -1)
    if not wide or wide % heads:
        raise GraphError(w.draft.subject, f"needs a last axis that {heads} heads share", tensor.shape)
    return wide // heads


def _lengths(w: _Writer, more: int) -> Tensor:
    """Tokens of each sequence, with `more` than the last one's place."""
    last = w.op("Cast", w.draft.data(5), stem="last", to=DType.INT64)
    flat = w.op("Reshape", last, w.ints([-1]), stem="last_each")
    return w.op("Add", flat, w.ints([more], "more"), stem="lengths")


def _places(w: _Writer, behind: bool, queries: int | None) -> Tensor:
    """Where tokens of the queries stand in their sequences."""
    given = w.input(9)
    if given is not None:
        return given
    batch = w.length(w.draft.data(), 0)
    if queries is None or batch is None:
        raise GraphError(w.draft.subject, "needs position_ids where batch and length are open")
    steps = np.arange(queries, dtype=np.int64)
    if not behind:
        return w.ints(np.broadcast_to(steps, (batch, queries)), "places")
    first = w.op("Unsqueeze", _lengths(w, 1 - queries), w.ints([1]), stem="first")
    return w.op("Add", first, w.ints(steps[None]), stem="places")


def _behind(w: _Writer, port: int, fresh: Tensor, queries: int | None) -> Tensor:
    """The cache with new keys or values, which is an output too."""
    past, name = w.draft.data(port), w.output(port - 2)
    room, total = w.length(past, 2), w.input(6)
    known = None if total is None or total.constant is None else int(total.constant.array().reshape(-1)[0])
    declared = w.emitter.declared(name) if name else None
    kept = room is not None and declared is not None and len(declared) == 4 and declared[2] == room
    if known is not None:
        kept = room is not None and room >= known
    if not kept:
        made = w.op("Concat", past, fresh, stem=f"cache_{port}", axis=2)
    else:
        if queries is None:
            raise GraphError(
                w.draft.subject, "needs queries of known length with a cache that keeps its size"
            )
        made = w.op("TensorScatter", past, fresh, _lengths(w, 1 - queries), stem=f"cache_{port}", axis=2)
    if name:
        w.emitter.give(name, made)
    return made


def many_headed(draft: Draft, emitter: Emitter) -> None:
    """MultiHeadAttention.

    Raises:
        GraphError: Names what there is no form for.
    """
    w = _Writer(draft, emitter)
    key, value = w.input(1), w.input(2)
    if key is None or value is None:
        raise GraphError(draft.subject, "needs queries, keys and values apart", remedy="export it unpacked")
    w.refuse(w.input(8) is not None or w.input(9) is not None, "a cache of beams")
    query, scale = draft.data(), float(draft.pop("scale", 0.0))
    causal = int(draft.pop("unidirectional", 0))
    size = _head_size(w, query, w.heads)
    if w.input(3) is not None:
        query, key, value = _biased(w, (query, key, value))
    options: dict[str, AttributeValue] = {"scale": scale or 1 / math.sqrt(size)}
    queries, mask, lengths = w.length(query, 1), None, None
    padding = w.input(4)
    if padding is not None and padding.shape is not None and len(padding.shape) == 1:
        lengths = w.op("Cast", padding, stem="lengths", to=DType.INT64)
    elif padding is not None:
        w.refuse(causal, "both key_padding_mask and unidirectional")
        mask, options["sparse_mode"] = _hidden(w, padding, queries), 1
    if causal:
        mask, options["sparse_mode"] = w.triangle(queries), 3
    shift, past = w.added(w.input(5)), w.input(6)
    flat = past is None and key.shape is not None and len(key.shape) == 3
    if flat and not (w.output(1) or w.output(2)):
        w.finish([query, key, value, shift, mask, None, lengths], True, options)
        return
    caches = []
    for port, one in ((1, key), (2, value)):
        made = one if one.shape is not None and len(one.shape) == 4 else w.by_heads(one, w.heads)
        before = w.input(port + 5)
        if before is not None:
            made = w.op("Concat", before, made, stem=f"cache_{port}", axis=2)
        if w.output(port):
            emitter.give(w.output(port), made)
        caches.append(made)
    w.finish([w.by_heads(query, w.heads), *caches, shift, mask, None, lengths], False, options)


def _biased(w: _Writer, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Each with its part of the bias."""
    bias, found, start = w.draft.data(3), [], 0
    for tensor, name in zip(given, ("query", "key", "value"), strict=True):
        wide = w.length(tensor, -1)
        if wide is None or tensor.shape is None or len(tensor.shape) != 3:
            raise GraphError(w.draft.subject, "needs inputs of rank 3 and known width with a bias")
        part = w.sliced(bias, start, start + wide, 0, f"bias_{name}")
        found.append(w.op("Add", tensor, part, stem=f"biased_{name}"))
        start += wide
    return tuple(found)


def _hidden(w: _Writer, padding: Tensor, queries: int | None) -> Tensor:
    """Where a mask of keys forbids, for each query."""
    if padding.shape is None or len(padding.shape) != 2 or queries is None:
        raise GraphError(
            w.draft.subject, "takes a key_padding_mask of rank 1 or 2, with queries of known length"
        )
    whole = w.op("Cast", padding, stem="padding", to=DType.INT64)
    hidden = w.op("Equal", whole, w.ints([0]), stem="hidden")
    apart = w.op("Unsqueeze", hidden, w.ints([1, 2]), stem="hidden_each")
    return w.op("Expand", apart, w.ints([1, 1, queries, 1]), stem="hidden_all")
