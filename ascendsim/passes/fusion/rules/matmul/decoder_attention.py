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
from dataclasses import dataclass, field, replace

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, AttributeValue, Graph, Node, Tensor
from ascendsim.passes.fusion.checks import known_values, read_outside, scalar
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.rewriting.pattern import Match, Op
from ascendsim.passes.rewriting.replace import replace_root

HIDDEN = -1e4  # scores below this are no scores: their exponentials are 0 beside any other
COMPRESSED = 2048  # rows and columns of the mask that kernels take with sparse modes 2 to 4
MOST_SHIFTED = 16  # queries for which a mask of numbers is worth repeating for each head
SIZE = 16  # sizes of heads are multiples of it
SWAPPED, BY_HEADS = (0, 1, 3, 2), (0, 2, 1, 3)
_PASSED = ("Cast", "Identity")


@dataclass(frozen=True, slots=True)
class _Scores:
    """How scores are made of a product.

    Attributes:
        product: The product.
        scale: What it is multiplied by.
        added: What is added, and by what sums are multiplied then.
        hidden: Where true, nothing is seen.
        shown: Where false, nothing is seen.
        nodes: Between product and Softmax, that with them.
    """

    product: Node
    scale: float = 1.0
    added: tuple[Tensor, float] | None = None
    hidden: Tensor | None = None
    shown: Tensor | None = None
    nodes: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class _Operand:
    """Where an operand of a product comes from."""

    tensor: Tensor
    scale: float = 1.0
    swapped: bool = False
    group: int = 1


@dataclass(frozen=True, slots=True)
class _Attention:
    """An attention that was found."""

    root: Node
    scores: _Scores
    query: _Operand
    key: _Operand
    value: _Operand
    guard: Tensor | None  # rows for which it is true are zeros
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class _Steering:
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


class DecoderAttentionFusionPass(FusionRule):
    """Attention of decoders on chips whose cube and vector cores are apart."""

    name = "DecoderAttentionFusionPass"
    patterns = {"DecoderAttentionFusionPass": Op("Softmax", name="softmax")}

    def find(self, graph: Graph, pattern: str) -> Iterator[Match]:
        """All that looks like attention."""
        for node in graph.topological():
            found = _at(node) if node.op_type == "Softmax" and not node.domain else None
            if found is not None:
                yield _match(found, node)

    def again(self, graph: Graph, match: Match) -> Match | None:
        """The match as it stands now."""
        softmax = match.nodes["softmax"]
        found = _at(softmax) if softmax.graph is graph else None
        return None if found is None else _match(found, softmax)

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Leaves encoders, and what the kernel has no form for."""
        found = _at(match.nodes["softmax"])
        assert found is not None
        if context.generation != "c220":
            return "the chip has no such kernel"
        steering = _steering(found)
        return (
            _shape_refusal(found)
            or (steering if isinstance(steering, str) else None)
            or _encoder_refusal(found, steering)
            or _guard_refusal(found, steering)
            or read_outside(match)
        )

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        found = _at(match.nodes["softmax"])
        assert found is not None
        steering = _steering(found)
        assert isinstance(steering, _Steering)
        root = found.root
        operands = [found.query.tensor, found.key.tensor, found.value.tensor]
        heads, shared = (one.static_shape[1] for one in operands[:2])
        turns = [_turn_before(one) for one in operands]
        readers = [use.node for use in root.output.uses]
        turned = bool(readers) and all(_perm(node) == BY_HEADS for node in readers)
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


def _match(found: _Attention, softmax: Node) -> Match:
    tensors = {"query": found.query.tensor, "key": found.key.tensor, "value": found.value.tensor}
    nodes = {"softmax": softmax, "product": found.scores.product}
    return Match(DecoderAttentionFusionPass.name, found.root, nodes, tensors, found.nodes)


# ------------------------------------------------------------------------------------------------- finding it


def _at(softmax: Node) -> _Attention | None:
    """The attention around a Softmax of rows."""
    if softmax.graph is None or softmax.required(0).shape is None:
        return None
    rank = len(softmax.required(0).shape or ())
    if rank != 4 or int(softmax.attr("axis", -1)) % rank != rank - 1:
        return None
    behind = _behind(softmax)
    scores = _scores(_Scores(softmax), softmax.required(0))
    if behind is None or scores is None:
        return None
    root, guard, passed = behind
    query = _operand(_Operand(scores.product.required(0)))
    key = _operand(_Operand(scores.product.required(1)))
    value = _operand(_Operand(root.required(1)))
    if not key.swapped or query.swapped or value.swapped or value.scale != 1 or query.group != 1:
        return None
    nodes = (root, *passed, softmax, *scores.nodes, scores.product)
    return _Attention(root, scores, query, key, value, guard, nodes)


def _behind(softmax: Node) -> tuple[Node, Tensor | None, tuple[Node, ...]] | None:
    """The product that takes the weights, what sets rows of them to zero, and what lies between."""
    tensor, guard, passed = softmax.output, None, list[Node]()
    while True:
        likes = [use for use in tensor.uses if use.node.op_type == "CastLike" and use.index == 1]
        readers = [use for use in tensor.uses if use not in likes]
        if len(readers) != 1:
            return None
        passed += [use.node for use in likes]  # they ask for its type only
        ((reader, port),) = readers
        if reader.op_type == "MatMul" and port == 0:
            return reader, guard, tuple(reversed(passed))
        if reader.op_type == "Where" and port == 2 and guard is None and _is_zero(reader.required(1)):
            guard = reader.required(0)
        elif reader.op_type not in _PASSED or not reader.output.element_type.is_float:
            return None
        passed.append(reader)
        tensor = reader.output


def _is_zero(tensor: Tensor) -> bool:
    maker = tensor.producer
    if maker is not None and maker.op_type in ("CastLike", *_PASSED):
        tensor = maker.required(0)
    return scalar(tensor) == 0


def _scores(found: _Scores, tensor: Tensor) -> _Scores | None:
    """What lies between a product and a tensor, from the latter's maker backwards."""
    node = tensor.producer
    if node is None or node.domain:
        return None
    if node.op_type == "MatMul":
        return replace(found, product=node)
    found = replace(found, nodes=(*found.nodes, node))
    if node.op_type in _PASSED:
        return _scores(found, node.required(0)) if tensor.element_type.is_float else None
    if node.op_type in ("Mul", "Div"):
        data, factor = _scaled(node)
        return None if data is None else _scores(replace(found, scale=found.scale * factor), data)
    if node.op_type == "Add" and found.added is None:
        for ours, other in ((0, 1), (1, 0)):
            added = (node.required(other), found.scale)
            rest = _scores(replace(found, added=added), node.required(ours))
            if rest is not None:
                return rest
    if node.op_type == "Where" and found.hidden is None and found.shown is None:
        for ours, name in ((1, "shown"), (2, "hidden")):
            low = scalar(node.required(3 - ours))
            if low is not None and low <= HIDDEN:
                where = {name: node.required(0)}
                return _scores(replace(found, **where), node.required(ours))  # type: ignore[arg-type]
    return None


def _scaled(node: Node) -> tuple[Tensor | None, float]:
    """The tensor that is multiplied, or divided, by one number, and the factor."""
    factor = scalar(node.required(1))
    if factor is not None and node.op_type == "Div":
        return (node.required(0), 1 / factor) if factor else (None, 1.0)
    if factor is not None:
        return node.required(0), factor
    factor = scalar(node.required(0)) if node.op_type == "Mul" else None
    return (None, 1.0) if factor is None else (node.required(1), factor)


def _operand(found: _Operand) -> _Operand:
    """Goes back from an operand of a product over factors, a transposition and repeated heads."""
    node = found.tensor.producer
    if node is None or node.domain or len(found.tensor.static_shape if found.tensor.is_static else ()) != 4:
        return found
    if node.op_type in ("Mul", "Div"):
        ours, factor = _scaled(node)
        if ours is not None and ours.shape == found.tensor.shape:
            return _operand(replace(found, tensor=ours, scale=found.scale * factor))
    elif node.op_type == "Identity":
        return _operand(replace(found, tensor=node.required(0)))
    elif _perm(node) == SWAPPED and not found.swapped and found.group == 1:
        return _operand(replace(found, tensor=node.required(0), swapped=True))
    elif node.op_type == "Reshape" and found.group == 1:
        ours = _repeated(node)
        if ours is not None:
            group = found.tensor.static_shape[1] // ours.static_shape[1]
            return _operand(replace(found, tensor=ours, group=group))
    return found


def _perm(node: Node | None) -> tuple[int, ...] | None:
    if node is None or node.op_type != "Transpose":
        return None
    return tuple(int(axis) for axis in node.attr("perm", ()))


def _repeated(reshape: Node) -> Tensor | None:
    """What Unsqueeze, Expand and Reshape repeat for each head of a group."""
    expand = reshape.required(0).producer
    unsqueeze = expand.required(0).producer if expand is not None and expand.op_type == "Expand" else None
    if unsqueeze is None or unsqueeze.op_type not in ("Unsqueeze", "Reshape"):
        return None
    assert expand is not None
    given, wide, made = unsqueeze.required(0), expand.output, reshape.output
    if not all(tensor.is_static for tensor in (given, wide, made)) or len(given.static_shape) != 4:
        return None
    batch, heads, *rest = given.static_shape
    group = made.static_shape[1] // max(1, heads)
    wanted = (batch, heads, group, *rest), (batch, heads * group, *rest), (batch, heads, 1, *rest)
    have = wide.static_shape, made.static_shape, expand.required(0).static_shape
    return given if have == wanted else None


def _turn_before(tensor: Tensor) -> Tensor | None:
    """What a transposition of tokens and heads makes a tensor of."""
    node = tensor.producer
    return node.required(0) if node is not None and _perm(node) == BY_HEADS else None


# ----------------------------------------------------------------------------------------------- what it asks


def _steering(found: _Attention) -> _Steering | str:
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
        return _Steering()
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
    return _Steering(shift=added)


def _origin(tensor: Tensor) -> Node | None:
    """The Where that makes a mask."""
    node = tensor.producer
    while node is not None and node.op_type in _PASSED:
        node = node.required(0).producer
    return node if node is not None and node.op_type == "Where" else None


def _of_tensor(mask: Tensor, sizes: tuple[int, int, int], negated: bool) -> _Steering | str:
    shape = mask.static_shape if mask.is_static else ()
    batch, queries, keys = sizes
    if shape not in ((queries, keys), (batch, 1, queries, keys), (1, 1, queries, keys)):
        return "the mask is no value for each query and key"
    return _Steering(mask, options={"sparse_mode": 1}, negated=negated)


def _of_values(hidden: Array, sizes: tuple[int, int, int]) -> _Steering | str:
    """A constant mask: a sparse mode where it is a triangle or a band, else as it is."""
    batch, queries, keys = sizes
    wide = hidden.reshape((1,) * (4 - hidden.ndim) + hidden.shape)
    if wide.shape[1] != 1:
        return "heads have masks of their own"
    whole = np.broadcast_to(wide, (wide.shape[0], 1, queries, keys))
    empty: Array = np.asarray(np.any(whole.all(axis=-1), axis=(0, 1)))
    if not whole.any():
        return _Steering(empty=empty)
    if len(whole) > 1:
        if len(whole) != batch:
            return "the mask is of another batch"
        return _Steering(whole, options={"sparse_mode": 1}, empty=empty)
    seen = ~whole[0, 0]
    distance = np.arange(keys) - np.arange(queries)[:, None]
    corner = keys - queries
    low, high = (int(f(distance[seen])) for f in (np.min, np.max)) if seen.any() else (0, -1)
    if not np.array_equal(seen, (distance >= low) & (distance <= high)):
        return _Steering(whole[0, 0], options={"sparse_mode": 1}, empty=empty)
    options: dict[str, AttributeValue] = {"sparse_mode": 3}
    if low > -queries + 1 or high != corner:
        options = {"sparse_mode": 4, "pre_tokens": corner - low, "next_tokens": high - corner}
    if low <= 1 - queries and high == 0 and corner:
        options = {"sparse_mode": 2}
    return _Steering(whole[0, 0], options=options, band=True, empty=empty)


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
    graph: Graph, context: FusionContext, shift: Tensor | None, heads: int, found: _Attention
) -> Tensor | None:
    """What is added to scores, for each head."""
    if shift is None or shift.static_shape[1] == heads:
        return shift
    batch, _, *rest = shift.static_shape
    shape = graph.add_constant(
        graph.fresh(f"{found.root.name}_heads"), np.array([batch, heads, *rest], np.int64)
    )
    return context.add(graph, "Expand", [shift, shape], like=found.root).output


# ------------------------------------------------------------------------------------------------- refusals


def _shape_refusal(found: _Attention) -> str | None:
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


def _encoder_refusal(found: _Attention, steering: _Steering | str) -> str | None:
    cached = _from_cache(found.key.tensor)
    band = isinstance(steering, _Steering) and steering.band
    if found.key.group > 1 or band or cached:
        return None
    return "it is attention of an encoder: each head has keys of its own, which all queries see"


def _from_cache(keys: Tensor) -> bool:
    """Whether keys are those of before and new ones."""
    node = keys.producer
    while node is not None and (node.op_type in _PASSED or _perm(node) is not None):
        node = node.required(0).producer
    return node is not None and node.op_type in ("Concat", "TensorScatter", "ScatterND", "ScatterElements")


def _guard_refusal(found: _Attention, steering: _Steering | str) -> str | None:
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
