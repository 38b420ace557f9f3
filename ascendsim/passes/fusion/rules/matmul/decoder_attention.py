"""Attention of a decoder, written out, becomes CANN's kernel of inference.

    MatMul(Softmax(MatMul(q, k') scale + mask), v)   =>   FusedInferAttentionScore(q, k, v)

as ONNX's Attention (opset 23) is expanded and as PyTorch exports it: the factor before or behind the product,
on either operand; keys and values that several heads share expanded (Unsqueeze, Expand, Reshape); masks added
or chosen by Where; rows that see nothing set to zero. A constant mask becomes a sparse mode where it is a
triangle or a band. Transpositions between (batch, token, head) and (batch, head, token) go into the kernel
where all operands or all readers have one.

CANN has no such pass: its users write the kernel (torch_npu, MindIE). So attention as encoders have it (every
query sees all keys, each head has keys of its own, nothing is cached) stays products and Softmax, as in
profiles of BERT and ViT. The pass stands first, before others rewrite the products.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Graph, Node, Tensor
from ascendsim.passes.fusion.checks import known_values, read_outside
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.fusion.rules.matmul.attention_masks import Steering, steering_of
from ascendsim.passes.fusion.rules.matmul.written_attention import (
    PASSED,
    Attention,
    attention_at,
    permutation,
)
from ascendsim.passes.rewriting.pattern import Match, Op
from ascendsim.passes.rewriting.replace import replace_root

COMPRESSED = 2048  # rows and columns of the mask that kernels take with sparse modes 2 to 4
SIZE = 16  # sizes of heads are multiples of it
BY_HEADS = (0, 2, 1, 3)


class DecoderAttentionFusionPass(FusionRule):
    """Attention of decoders on chips whose cube and vector cores are apart."""

    name = "DecoderAttentionFusionPass"
    patterns = {"DecoderAttentionFusionPass": Op("Softmax", name="softmax")}

    def find(self, graph: Graph, pattern: str) -> Iterator[Match]:
        """All that looks like attention."""
        for node in graph.topological():
            found = attention_at(node) if node.op_type == "Softmax" and not node.domain else None
            if found is not None:
                yield _match(found, node)

    def again(self, graph: Graph, match: Match) -> Match | None:
        """The match as it stands now."""
        softmax = match.nodes["softmax"]
        found = attention_at(softmax) if softmax.graph is graph else None
        return None if found is None else _match(found, softmax)

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Leaves encoders, and what the kernel has no form for."""
        found = attention_at(match.nodes["softmax"])
        assert found is not None
        if context.generation != "c220":
            return "the chip has no such kernel"
        steering = steering_of(found)
        return (
            _shape_refusal(found)
            or (steering if isinstance(steering, str) else None)
            or _encoder_refusal(found, steering)
            or _guard_refusal(found, steering)
            or read_outside(match)
        )

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        found = attention_at(match.nodes["softmax"])
        assert found is not None
        steering = steering_of(found)
        assert isinstance(steering, Steering)
        root = found.root
        operands = [found.query.tensor, found.key.tensor, found.value.tensor]
        heads, shared = (one.static_shape[1] for one in operands[:2])
        turns = [_turn_before(one) for one in operands]
        readers = [use.node for use in root.output.uses]
        turned = bool(readers) and all(permutation(node) == BY_HEADS for node in readers)
        turned &= root.output not in graph.outputs
        layout = "BNSD_BSND" if turned else "BNSD"
        if turned and all(turn is not None for turn in turns):
            operands, layout = [turn for turn in turns if turn is not None], "BSND"
        mask = steering.mask
        if isinstance(mask, np.ndarray):
            mask = _constant(graph, root, mask, compressed=steering.band)
        elif mask is not None and steering.negated:
            mask = context.add(graph, "Not", [mask], name=graph.fresh(f"{root.name}_not"), like=root).output
        made = context.add(
            graph,
            "FusedInferAttentionScore",
            [*operands, _spread(graph, context, steering.shift, heads, found), mask],
            name=graph.fresh(f"{root.name}_attention"),
            like=root,
            domain="ascend",
            num_heads=heads,
            num_key_value_heads=shared,
            input_layout=layout,
            scale=found.scores.scale * found.query.scale * found.key.scale,
        )
        made.attributes.update(steering.options)
        if turned:
            for reader in readers:
                replace_root(graph, reader, made.output)
        else:
            replace_root(graph, root, made.output)


def _match(found: Attention, softmax: Node) -> Match:
    tensors = {"query": found.query.tensor, "key": found.key.tensor, "value": found.value.tensor}
    nodes = {"softmax": softmax, "product": found.scores.product}
    return Match(DecoderAttentionFusionPass.name, found.root, nodes, tensors, found.nodes)


def _turn_before(tensor: Tensor) -> Tensor | None:
    """What a transposition of tokens and heads makes a tensor of."""
    node = tensor.producer
    return node.required(0) if node is not None and permutation(node) == BY_HEADS else None


def _constant(graph: Graph, root: Node, values: Array, compressed: bool) -> Tensor:
    """The mask: a triangle that all nodes share where the kernel goes by its sparse mode."""
    if not compressed:
        return graph.add_constant(graph.fresh(f"{root.name}_mask"), np.ascontiguousarray(values))
    name = "ascend_attention_mask"
    known = next((tensor for tensor in graph.constants if tensor.name == name), None)
    if known is not None:
        return known
    return graph.add_constant(name, np.triu(np.ones((COMPRESSED, COMPRESSED), np.bool_), 1))


def _spread(
    graph: Graph, context: FusionContext, shift: Tensor | None, heads: int, found: Attention
) -> Tensor | None:
    """What is added to scores, for each head."""
    if shift is None or shift.static_shape[1] == heads:
        return shift
    batch, _, *rest = shift.static_shape
    shape = graph.add_constant(
        graph.fresh(f"{found.root.name}_heads"), np.array([batch, heads, *rest], np.int64)
    )
    return context.add(graph, "Expand", [shift, shape], like=found.root).output


def _shape_refusal(found: Attention) -> str | None:
    query, key, value = (one.tensor for one in (found.query, found.key, found.value))
    if not all(tensor.is_static for tensor in (query, key, value)):
        return "the sizes are not static"
    batch, heads, _, size = query.static_shape
    if (
        key.static_shape[0] != batch
        or key.static_shape[3] != size
        or value.static_shape[:3] != key.static_shape[:3]
    ):
        return "queries, keys and values do not fit together"
    if found.key.group != found.value.group or heads != key.static_shape[1] * found.key.group:
        return "keys and values are shared in another way"
    if size % SIZE or value.static_shape[3] % SIZE:
        return f"the size of a head is no multiple of {SIZE}"
    types = {tensor.dtype for tensor in (query, key, value)}
    if len(types) > 1 or not types <= {DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32}:
        return "queries, keys and values are not of one type of real numbers"
    return None


def _encoder_refusal(found: Attention, steering: Steering | str) -> str | None:
    cached = _from_cache(found.key.tensor)
    band = isinstance(steering, Steering) and steering.band
    if found.key.group > 1 or band or cached:
        return None
    return "it is attention of an encoder: each head has keys of its own, which all queries see"


def _from_cache(keys: Tensor) -> bool:
    """Whether keys are those of before and new ones."""
    node = keys.producer
    while node is not None and (node.op_type in PASSED or permutation(node) is not None):
        node = node.required(0).producer
    return node is not None and node.op_type in ("Concat", "TensorScatter", "ScatterND", "ScatterElements")


def _guard_refusal(found: Attention, steering: Steering | str) -> str | None:
    """The kernel gives zeros for rows that see nothing; a formula does so with a guard only."""
    if isinstance(steering, str):
        return None
    rows = None if found.guard is None else known_values(found.guard)
    if steering.empty is None:
        if found.guard is None:
            return None
        maker = found.guard.producer
        if rows is not None and not np.any(rows):
            return None
        return (
            None if maker is not None and maker.op_type == "Equal" else "rows are set to zero by another rule"
        )
    if rows is None and found.guard is not None:
        return "rows are set to zero by another rule"
    cleared = (
        np.zeros_like(steering.empty) if rows is None else np.any(rows, axis=tuple(range(rows.ndim - 2)))
    )
    if not np.array_equal(np.broadcast_to(cleared.reshape(-1), steering.empty.shape), steering.empty):
        return "some rows see nothing, and are not zero"
    return None


RULES = (DecoderAttentionFusionPass(),)
