"""Attention as it is written out in operators: two products and a Softmax with what stands between them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ascendsim.graph.ir import Node, Tensor
from ascendsim.passes.fusion.checks import scalar

HIDDEN = -1e4  # scores below this are no scores: their exponentials are 0 beside any other
SWAPPED = (0, 1, 3, 2)
PASSED = ("Cast", "Identity")


@dataclass(frozen=True, slots=True)
class Scores:
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
class Operand:
    """Where an operand of a product comes from."""

    tensor: Tensor
    scale: float = 1.0
    swapped: bool = False
    group: int = 1


@dataclass(frozen=True, slots=True)
class Attention:
    """An attention that was found."""

    root: Node
    scores: Scores
    query: Operand
    key: Operand
    value: Operand
    guard: Tensor | None  # rows for which it is true are zeros
    nodes: tuple[Node, ...]


def attention_at(softmax: Node) -> Attention | None:
    """The attention around a Softmax of rows."""
    if softmax.graph is None or softmax.required(0).shape is None:
        return None
    rank = len(softmax.required(0).shape or ())
    if rank != 4 or int(softmax.attr("axis", -1)) % rank != rank - 1:
        return None
    behind = _behind(softmax)
    scores = _scores(Scores(softmax), softmax.required(0))
    if behind is None or scores is None:
        return None
    root, guard, passed = behind
    query = _operand(Operand(scores.product.required(0)))
    key = _operand(Operand(scores.product.required(1)))
    value = _operand(Operand(root.required(1)))
    if not key.swapped or query.swapped or value.swapped or value.scale != 1 or query.group != 1:
        return None
    nodes = (root, *passed, softmax, *scores.nodes, scores.product)
    return Attention(root, scores, query, key, value, guard, nodes)


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
        elif reader.op_type not in PASSED or not reader.output.element_type.is_float:
            return None
        passed.append(reader)
        tensor = reader.output


def _is_zero(tensor: Tensor) -> bool:
    maker = tensor.producer
    if maker is not None and maker.op_type in ("CastLike", *PASSED):
        tensor = maker.required(0)
    return scalar(tensor) == 0


def _scores(found: Scores, tensor: Tensor) -> Scores | None:
    """What lies between a product and a tensor, from the latter's maker backwards."""
    node = tensor.producer
    if node is None or node.domain:
        return None
    if node.op_type == "MatMul":
        return replace(found, product=node)
    found = replace(found, nodes=(*found.nodes, node))
    if node.op_type in PASSED:
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


def _operand(found: Operand) -> Operand:
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
    elif permutation(node) == SWAPPED and not found.swapped and found.group == 1:
        return _operand(replace(found, tensor=node.required(0), swapped=True))
    elif node.op_type == "Reshape" and found.group == 1:
        ours = _repeated(node)
        if ours is not None:
            group = found.tensor.static_shape[1] // ours.static_shape[1]
            return _operand(replace(found, tensor=ours, group=group))
    return found


def permutation(node: Node | None) -> tuple[int, ...] | None:
    """The order of axes that a Transpose makes; None for other nodes."""
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
