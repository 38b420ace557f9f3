"""Rotary position embedding from its parts, and of queries and keys at once.

    x cos + Concat(-x2, x1) sin, x1 and x2 the halves of x    =>    RotaryPositionEmbedding(x, cos, sin)
    RotaryPositionEmbedding of two tensors, same angles       =>    ApplyRotaryPosEmb of both
    RotaryEmbedding of two tensors, same caches and places    =>    ApplyRotaryPosEmb of both, behind a Gather
                                                                    of the caches that serves all layers

Passes of this project: frameworks for language models call these kernels by name. Values stay as they are;
sums are rounded once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.passes.fusion.checks import closes_cycle, not_static, numbers, read_outside
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.fusion.rules.language.checks import no_kernel, no_real
from ascendsim.passes.rewriting.pattern import Any, Const, Match, Op, Term
from ascendsim.passes.rewriting.replace import replace, replace_root

_BSND, _BNSD, _TND = 1, 3, 4  # layouts of ApplyRotaryPosEmb


# ---- from its parts


def _turned(first: Term, second: Term) -> Op:
    partner = Op("Concat", Op("Neg", second, name="negated"), first, name="partner")
    return Op(
        "Add",
        Op("Mul", Any("x"), Any("cos"), commutative=True, name="straight"),
        Op("Mul", partner, Any("sin"), commutative=True, name="across"),
        commutative=True,
        name="root",
    )


def _piece(which: str) -> Op:
    bounds = [Const(f"{which}_{bound}") for bound in ("start", "end", "axis")]
    return Op("Slice", Any("x"), *bounds, name=which)


class RotaryPositionEmbeddingFusionPass(FusionRule):
    """Halves that change places, one of them with another sign."""

    name = "RotaryPositionEmbeddingFusionPass"
    patterns = {
        "RotaryPositionEmbeddingFusionPassSlice": _turned(_piece("first"), _piece("second")),
        "RotaryPositionEmbeddingFusionPassSplit": _turned(
            Op("Split", Any("x"), name="halves"), Op("Split", Any("x"), name="halves", output=1)
        ),
    }

    def check(self, match: Match, context: FusionContext) -> str | None:
        x, cosine, sine = (match.tensors[name] for name in ("x", "cos", "sin"))
        return (
            no_kernel(context)
            or not_static([x, cosine, sine])
            or no_real(x, cosine, sine)
            or _halves_refusal(match)
            or _angles_refusal(x, cosine, sine)
            or read_outside(match)
        )

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        root, x = match.root, match.tensors["x"]
        angles = [
            _ranked(graph, match.tensors[name], len(x.static_shape), context, root) for name in ("cos", "sin")
        ]
        made = context.add(
            graph,
            "RotaryPositionEmbedding",
            [x, *angles],
            name=f"{root.name}_RotaryMul",
            like=root,
            domain="ascend",
        )
        replace_root(graph, root, made.output)


def _halves_refusal(match: Match) -> str | None:
    shape = match.tensors["x"].static_shape
    rank, size = len(shape), shape[-1] if shape else 0
    if int(match.nodes["partner"].attr("axis", 0)) % max(1, rank) != rank - 1 or size % 2:
        return "the parts are not halves of the last axis"
    split = match.nodes.get("halves")
    if split is not None:
        sizes = [part.static_shape[-1] for part in split.outputs if part.is_static]
        along = int(split.attr("axis", 0)) % rank == rank - 1
        return None if along and sizes == [size // 2] * 2 else "the parts are not halves of the last axis"
    for name, wanted in (("first", (0, size // 2)), ("second", (size // 2, size))):
        bounds = [numbers(match.tensors[f"{name}_{bound}"]) for bound in ("start", "end", "axis")]
        steps = match.nodes[name].input(4)
        if any(values is None or len(values) != 1 for values in bounds) or (
            steps is not None and numbers(steps) != [1]
        ):
            return "the parts are not halves of the last axis"
        start, end, axis = (int(values[0]) for values in bounds if values is not None)
        found = tuple(max(0, min(size, bound + size if bound < 0 else bound)) for bound in (start, end))
        if axis % rank != rank - 1 or found != wanted:
            return "the parts are not halves of the last axis"
    return None


def _angles_refusal(x: Tensor, cosine: Tensor, sine: Tensor) -> str | None:
    shape, angles = x.static_shape, cosine.static_shape
    padded = (1,) * (len(shape) - len(angles)) + angles
    if sine.shape != angles or len(angles) > len(shape) or not angles or angles[-1] != shape[-1]:
        return "cosines and sines are not one for each element of the last axis"
    if any(own not in (1, size) for own, size in zip(padded, shape, strict=True)):
        return "cosines and sines repeat the tensor"
    return None


def _ranked(graph: Graph, angles: Tensor, rank: int, context: FusionContext, like: Node) -> Tensor:
    """Angles with as many axes as what they turn."""
    shape = angles.static_shape
    if len(shape) == rank:
        return angles
    target = graph.add_constant(
        graph.fresh(f"{like.name}_shape"), np.array((1,) * (rank - len(shape)) + shape, np.int64)
    )
    return context.add(graph, "Reshape", [angles, target], name=f"{angles.name}_ranked", like=like).output


# ---- queries and keys


class _PairRule(FusionRule):
    """Two operators of one type that read the same angles, neighbours in the order of execution."""

    op_type: str

    def find(self, graph: Graph, pattern: str) -> Iterator[Match]:
        """Neighbours, each node in one pair at most."""
        waiting: dict[tuple[object, ...], Node] = {}
        for node in graph.topological():
            if node.op_type != self.op_type:
                continue
            key = (
                *(id(tensor) for tensor in node.inputs[1:4]),
                node.attr("mode", 0),
                node.attr("interleaved", 0),
            )
            first = waiting.pop(key, None)
            if first is None:
                waiting[key] = node
                continue
            pair = sorted((first, node), key=lambda one: -one.output.elements if one.output.is_static else 0)
            yield _pair(pattern, pair)

    def again(self, graph: Graph, match: Match) -> Match | None:
        """Pairs do not overlap: one stands as long as both nodes do."""
        return match if all(node.graph is graph for node in match.nodes.values()) else None

    def check(self, match: Match, context: FusionContext) -> str | None:
        query, key = match.nodes["query"], match.nodes["key"]
        tensors = [tensor for node in (query, key) for tensor in node.inputs if tensor is not None]
        return (
            no_kernel(context)
            or not_static(tensors)
            or no_real(query.required(0), key.required(0), query.required(1), query.required(2))
            or self.refusal(query, key)
            or self.layout_refusal(query, key, context)
            or closes_cycle(match, [query.required(0), key.required(0)])
        )

    def refusal(self, query: Node, key: Node) -> str | None:
        """Why two operators do not fit into one kernel."""
        raise NotImplementedError

    def layout_refusal(self, query: Node, key: Node, context: FusionContext) -> str | None:
        """Heads before positions are for chips with c310 cores (ops-transformer, README of the kernel)."""
        taken = context.generation == "c310" or self.layout(query, key) != _BNSD
        return None if taken else "the kernel wants positions before heads on this chip"

    def layout(self, query: Node, key: Node) -> int | None:
        """How the tensors lie."""
        raise NotImplementedError


def _pair(pattern: str, pair: Sequence[Node]) -> Match:
    query, key = pair
    return Match(pattern, query, {"query": query, "key": key}, {}, (query, key))


class ApplyRotaryPosEmbFusionPass(_PairRule):
    """Cosines and sines in full."""

    name = "ApplyRotaryPosEmbFusionPass"
    op_type = "RotaryPositionEmbedding"
    patterns = {"ApplyRotaryPosEmbFusionPass": Op("RotaryPositionEmbedding", name="query")}

    def refusal(self, query: Node, key: Node) -> str | None:
        """Heads may differ in number, all else is the same."""
        return None if _layout(query, key) is not None else "they differ in more than the number of heads"

    def layout(self, query: Node, key: Node) -> int | None:
        """By the axis along which angles are the same."""
        return _layout(query, key)

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        query, key = match.nodes["query"], match.nodes["key"]
        mode = "interleave" if query.attr("mode", 0) else "half"
        made = context.add(
            graph,
            "ApplyRotaryPosEmb",
            [query.required(0), key.required(0), query.required(1), query.required(2)],
            2,
            name=f"{query.name}_ApplyRotaryPosEmb",
            like=query,
            domain="ascend",
            layout=_layout(query, key) or _BSND,
            rotary_mode=mode,
        )
        replace(graph, [query, key], [(query.output, made.outputs[0]), (key.output, made.outputs[1])])


def _layout(query: Node, key: Node) -> int | None:
    """Where two tensors of rank 3 or 4 have their heads: the axis along which angles are the same, and along
    which alone the tensors may differ.
    """
    shapes = [node.required(0).static_shape for node in (query, key)]
    angles = query.required(1).static_shape
    for layout, heads in ((_BSND, 2), (_BNSD, 1), (_TND, 1)):
        rank = 3 if layout == _TND else 4
        if any(len(shape) != rank for shape in (*shapes, angles)) or angles[heads] != 1:
            continue
        rest = [
            tuple(size for axis, size in enumerate(shape) if axis != heads) for shape in (*shapes, angles)
        ]
        batch_once = rank == 4 and rest[2][0] == 1
        if rest[0] == rest[1] and rest[2][batch_once:] == rest[0][batch_once:]:
            return layout
    return None


class RotaryEmbeddingFusionPass(_PairRule):
    """ONNX's operator, which has angles of half the size by position."""

    name = "RotaryEmbeddingFusionPass"
    op_type = "RotaryEmbedding"
    patterns = {"RotaryEmbeddingFusionPass": Op("RotaryEmbedding", name="query")}

    def refusal(self, query: Node, key: Node) -> str | None:
        """Whole heads, of which there may be fewer keys."""
        sizes = [_by_head(node) for node in (query, key)]
        first, second = sizes
        if first is None or second is None:
            return "the number of heads is not known"
        if first[:2] != second[:2] or first[3] != second[3] or _rank(query) != _rank(key):
            return "they differ in more than the number of heads"
        if any(int(node.attr("rotary_embedding_dim", 0)) not in (0, first[3]) for node in (query, key)):
            return "a part of each head stays as it is"
        caches = query.required(1).static_shape
        if caches[-1] * 2 != first[3]:
            return "caches are not those of half a head"
        wanted = 2 if query.input(3) is not None else 3
        return None if len(caches) == wanted else "caches have another rank"

    def layout(self, query: Node, key: Node) -> int | None:
        """Flat heads lie behind positions."""
        return _BSND if _rank(query) == 3 else _BNSD

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        query, key = match.nodes["query"], match.nodes["key"]
        sizes = _by_head(query)
        assert sizes is not None
        batch, length, _, head = sizes
        flat = _rank(query) == 3
        interleaved = bool(query.attr("interleaved", 0))
        shape = (batch, length, 1, head) if flat else (batch, 1, length, head)
        angles = [self._angles(graph, query, port, shape, interleaved, context) for port in (1, 2)]
        data = [self._heads(graph, node, flat, context) for node in (query, key)]
        made = context.add(
            graph,
            "ApplyRotaryPosEmb",
            [*data, *angles],
            2,
            name=f"{query.name}_ApplyRotaryPosEmb",
            like=query,
            domain="ascend",
            layout=_BSND if flat else _BNSD,
            rotary_mode="interleave" if interleaved else "half",
        )
        results = [
            _reshaped(graph, result, node.output.static_shape, context, node)
            for result, node in zip(made.outputs, (query, key), strict=True)
        ]
        replace(graph, [query, key], [(query.output, results[0]), (key.output, results[1])])

    def _angles(
        self,
        graph: Graph,
        node: Node,
        port: int,
        shape: tuple[int, ...],
        interleaved: bool,
        context: FusionContext,
    ) -> Tensor:
        """A cache by position, each angle for both partners. Equal ones of other layers are found to be the
        same by the graph engine.
        """
        angles, places = node.required(port), node.input(3)
        batch, head = shape[0], shape[-1]
        if places is not None:
            angles = context.add(
                graph, "Gather", [angles, places], name=f"{node.name}_at{port}", like=node, axis=0
            ).output
        length = shape[1] * shape[2]
        if interleaved:
            angles = _reshaped(graph, angles, (batch, length, head // 2, 1), context, node)
        twice = context.add(
            graph, "Concat", [angles, angles], name=f"{node.name}_both{port}", like=node, axis=-1
        )
        return _reshaped(graph, twice.output, shape, context, node)

    def _heads(self, graph: Graph, node: Node, flat: bool, context: FusionContext) -> Tensor:
        data, sizes = node.required(0), _by_head(node)
        assert sizes is not None
        return _reshaped(graph, data, sizes, context, node) if flat else data


def _rank(node: Node) -> int:
    return len(node.required(0).static_shape)


def _by_head(node: Node) -> tuple[int, int, int, int] | None:
    """Batch, length, heads and size of a head."""
    shape, heads = node.required(0).static_shape, int(node.attr("num_heads", 0))
    if len(shape) == 4:
        return shape[0], shape[2], shape[1], shape[3]
    if heads < 1 or shape[2] % heads:
        return None
    return shape[0], shape[1], heads, shape[2] // heads


def _reshaped(graph: Graph, data: Tensor, shape: Sequence[int], context: FusionContext, like: Node) -> Tensor:
    if data.shape == tuple(shape):
        return data
    target = graph.add_constant(graph.fresh(f"{like.name}_shape"), np.array(shape, np.int64))
    return context.add(
        graph, "Reshape", [data, target], name=graph.fresh(f"{like.name}_reshaped"), like=like
    ).output


RULES = (
    RotaryPositionEmbeddingFusionPass(),
    ApplyRotaryPosEmbFusionPass(),
    RotaryEmbeddingFusionPass(),
)
