"""Classical machine learning on numbers: Binarizer, LabelEncoder, TreeEnsemble (domain "ai.onnx.ml") and
TfIdfVectorizer.

All of it runs on the AI CPU, except Binarizer, which is a compare and a select. Strings are not supported.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.graph.ir import Array, Dim, Node
from ascendsim.ops.shared.common import as_float32, elementwise_lower, finish, on_ai_cpu
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.axes import AxisMap, by_labels, rank_of
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.structure import ELEMENTWISE, elementwise
from ascendsim.opset.work import LowerContext, Work

Wanted = Sequence["np.dtype[Any]"]
ML = "ai.onnx.ml"


def _same(ctx: InferContext) -> None:
    ctx.set(0, ctx.dtype(0), ctx.shape(0))


def _binarize(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    return [(as_float32(inputs[0]) > node.attr("threshold", 0.0)).astype(wanted[0])]


def _mapping(node: Node) -> tuple[Array, Array, Array]:
    """Keys, values and default of a LabelEncoder."""

    def given(stem: str) -> Array | None:
        tensor = node.attr(f"{stem}_tensor")
        if tensor is not None:
            return np.asarray(tensor).reshape(-1)
        for name, dtype in (("int64s", np.int64), ("floats", np.float32)):
            if node.attr(f"{stem}_{name}") is not None:
                return np.asarray(node.attr(f"{stem}_{name}"), dtype)
        return None

    keys, values = given("keys"), given("values")
    if keys is None or values is None or keys.size != values.size:
        raise GraphError(
            f"node {node.name!r} (LabelEncoder)",
            "needs as many numeric keys as values",
            remedy="strings are not supported",
        )
    default = node.attr("default_tensor")
    if default is None:
        default = (
            node.attr("default_int64", -1) if values.dtype == np.int64 else node.attr("default_float", -0.0)
        )
    return keys, values, np.asarray(default, values.dtype).reshape(-1)


def _encoder_infer(ctx: InferContext) -> None:
    ctx.set(0, DType.of(_mapping(ctx.node)[1].dtype), ctx.shape(0))


def _encode(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    keys, values, default = _mapping(node)
    order = np.argsort(keys, kind="stable")
    data = inputs[0].astype(keys.dtype)
    places = order[np.minimum(np.searchsorted(keys, data, sorter=order), keys.size - 1)]
    found = (
        (keys[places] == data) | (np.isnan(keys[places]) & np.isnan(data))
        if keys.dtype.kind == "f"
        else keys[places] == data
    )
    return [np.where(found, values[places], default[0]).astype(wanted[0])]


def _search_lower(node: Node, _ctx: LowerContext) -> Work:
    return on_ai_cpu(node, 8)


def _trees_infer(ctx: InferContext) -> None:
    source = ctx.shape(0)
    if source is not None and len(source) != 2:
        raise ctx.fail("needs a matrix, one row a sample", f"shape {list(source)}")
    rows: Dim = source[0] if source else None
    _check_trees(ctx.node, source[1] if source else None, ctx)
    ctx.set(0, ctx.dtype(0), (rows, int(ctx.node.attr("n_targets", 1))))


def _check_trees(node: Node, features: Dim, ctx: InferContext) -> None:
    """Refuses lists of nodes and leaves that do not fit each other, and places that are not there."""
    names = ("nodes_truenodeids", "nodes_falsenodeids", "nodes_trueleafs", "nodes_falseleafs")
    ids = np.asarray(node.attr("nodes_featureids", ()), np.int64)
    sizes = {name: np.size(node.attr(name, ())) for name in (*names, "nodes_modes", "nodes_splits")}
    if "nodes_missing_value_tracks_true" in node.attributes:
        sizes["nodes_missing_value_tracks_true"] = np.size(node.attr("nodes_missing_value_tracks_true"))
    for name, size in sizes.items():
        if size != ids.size:
            raise ctx.fail(f"needs as many {name} as nodes_featureids ({ids.size})", size)
    targets = np.asarray(node.attr("leaf_targetids", ()), np.int64)
    leaves = np.size(node.attr("leaf_weights", ()))
    if targets.size != leaves:
        raise ctx.fail("needs as many leaf_targetids as leaf_weights", f"{targets.size} and {leaves}")
    _inside(ctx, "leaf_targetids", targets, int(node.attr("n_targets", 1)))
    _inside(ctx, "tree_roots", np.asarray(node.attr("tree_roots", ()), np.int64), ids.size)
    _inside(ctx, "nodes_modes", np.asarray(node.attr("nodes_modes", ()), np.int64), 7)
    if isinstance(features, int):
        _inside(ctx, "nodes_featureids", ids, features)
    for place, leaf in zip(names[:2], names[2:], strict=True):
        ends = np.asarray(node.attr(leaf, ()), np.int64) != 0
        targets = np.asarray(node.attr(place, ()), np.int64)
        _inside(ctx, place, targets[ends], leaves)
        _inside(ctx, place, targets[~ends], ids.size)


def _inside(ctx: InferContext, name: str, values: Array, count: int) -> None:
    bad = values[(values < 0) | (values >= count)]
    if bad.size:
        raise ctx.fail(f"needs {name} from 0 to {count - 1}", int(bad[0]))


def _members(node: Node) -> list[frozenset[float]]:
    """The sets of BRANCH_MEMBER nodes, in the order of these nodes; the attribute separates them by NaN."""
    flat = node.attr("membership_values")
    sets: list[frozenset[float]] = []
    current: list[float] = []
    for value in [] if flat is None else np.asarray(flat).reshape(-1).tolist():
        if math.isnan(value):
            sets.append(frozenset(current))
            current = []
        else:
            current.append(value)
    return [*sets, frozenset(current)] if current else sets


def _goes_true(mode: int, values: Array, split: Any, members: frozenset[float]) -> Array:
    if mode == 6:
        return np.isin(values, sorted(members))
    compare = (np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal)[mode]
    return np.asarray(compare(values, split))


def _leaves(node: Node, data: Array, root: int) -> Array:
    """The leaf that each row of `data` ends in, down from one root; all rows go one level a step."""
    names = (
        "nodes_featureids",
        "nodes_truenodeids",
        "nodes_falsenodeids",
        "nodes_trueleafs",
        "nodes_falseleafs",
    )
    feature, if_true, if_false, true_leaf, false_leaf = (
        np.asarray(node.attr(name), np.int64) for name in names
    )
    modes, splits = np.asarray(node.attr("nodes_modes")), np.asarray(node.attr("nodes_splits"))
    missing = np.asarray(node.attr("nodes_missing_value_tracks_true", (0,) * feature.size), np.bool_)
    sets = iter(_members(node))
    members = [next(sets, frozenset()) if mode == 6 else frozenset[float]() for mode in modes]
    place, done = np.full(len(data), root), np.zeros(len(data), np.bool_)
    for _ in range(feature.size):  # no path is longer than there are nodes
        for at in np.unique(place[~done]):
            rows = np.flatnonzero(~done & (place == at))
            values = data[rows, feature[at]]
            goes = _goes_true(int(modes[at]), values, splits[at], members[at]) | (
                np.isnan(values) & missing[at]
            )
            place[rows] = np.where(goes, if_true[at], if_false[at])
            done[rows] = np.where(goes, true_leaf[at], false_leaf[at]) != 0
        if done.all():
            return place
    raise GraphError(f"node {node.name!r} (TreeEnsemble)", "must hold trees: a path comes back to itself")


def _trees(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    data = as_float32(inputs[0])
    targets, weights = (
        np.asarray(node.attr("leaf_targetids"), np.int64),
        np.asarray(node.attr("leaf_weights"), data.dtype),
    )
    last = int(np.max(node.attr("nodes_featureids"), initial=0))
    if last >= data.shape[1]:
        raise GraphError(
            f"node {node.name!r} (TreeEnsemble)", f"needs more than {last} features", data.shape[1]
        )
    roots, aggregate = node.attr("tree_roots"), int(node.attr("aggregate_function", 1))
    count = int(node.attr("n_targets", 1))
    start = {2: np.inf, 3: -np.inf}.get(aggregate, 0.0)
    result = np.full((len(data), count), start, data.dtype)
    rows = np.arange(len(data))
    for root in roots:
        leaves = _leaves(node, data, int(root))
        combine = {2: np.minimum, 3: np.maximum}.get(aggregate, np.add)
        result[rows, targets[leaves]] = combine(result[rows, targets[leaves]], weights[leaves])
    result = np.where(np.isinf(result), 0, result) if aggregate in (2, 3) else result
    if aggregate == 0:
        result = result / len(roots)
    return [finish(_transformed(node, result), wanted[0])]


def _transformed(node: Node, scores: Array) -> Array:
    transform = int(node.attr("post_transform", 0))
    if transform == 0:
        return scores
    if transform == 2:
        return np.asarray(1 / (1 + np.exp(-scores)))
    if transform in (1, 3):
        present = scores != 0 if transform == 3 else np.ones(scores.shape, np.bool_)
        spread = np.exp(scores - scores.max(axis=1, keepdims=True)) * present
        total = spread.sum(axis=1, keepdims=True)
        return np.asarray(np.divide(spread, total, out=np.zeros_like(spread), where=total != 0))
    raise GraphError(f"node {node.name!r} (TreeEnsemble)", "needs post_transform 0 to 3", transform)


def _trees_lower(node: Node, _ctx: LowerContext) -> Work:
    depth = max(
        1.0,
        math.log2(1 + len(node.attr("nodes_featureids", ())) / max(1, len(node.attr("tree_roots", (0,))))),
    )
    return on_ai_cpu(node, 4 * depth * len(node.attr("tree_roots", (0,))))


def _tfidf_infer(ctx: InferContext) -> None:
    source, indexes = ctx.shape(0), ctx.node.attr("ngram_indexes", ())
    if ctx.node.attr("pool_int64s") is None:
        raise ctx.fail("needs pool_int64s", remedy="strings are not supported")
    if source is not None and len(source) not in (1, 2):
        raise ctx.fail("needs items of rank 1 or 2", f"shape {list(source)}")
    _check_grams(ctx)
    size = max(indexes, default=-1) + 1
    ctx.set(0, DType.FLOAT32, None if source is None else (*source[:-1], size))


def _check_grams(ctx: InferContext) -> None:
    """Refuses a pool that does not fall into n-grams of the lengths that its counts say."""
    node = ctx.node
    pool, indexes, starts = (node.attr(name, ()) for name in ("pool_int64s", "ngram_indexes", "ngram_counts"))
    grams = 0
    for length, (first, last) in enumerate(zip(starts, (*starts[1:], len(pool)), strict=False), 1):
        if not 0 <= first <= last or (last - first) % length:
            raise ctx.fail("needs ngram_counts that cut pool_int64s into n-grams", starts)
        grams += (last - first) // length
    if grams != len(indexes) or min(indexes, default=0) < 0:
        raise ctx.fail(f"needs {grams} ngram_indexes of 0 or more, one an n-gram", indexes)
    weights = node.attr("weights") or indexes
    if len(weights) != len(indexes):
        raise ctx.fail(f"needs {len(indexes)} weights, one an n-gram", len(weights))


def _pool(node: Node) -> dict[tuple[int, ...], int]:
    """Position in ngram_indexes by n-gram, of the lengths that are asked for."""
    pool, starts = node.attr("pool_int64s"), (*node.attr("ngram_counts"), len(node.attr("pool_int64s")))
    found: dict[tuple[int, ...], int] = {}
    number = 0
    for length in range(1, len(starts)):
        for at in range(starts[length - 1], starts[length], length):
            if node.attr("min_gram_length") <= length <= node.attr("max_gram_length"):
                found[tuple(pool[at : at + length])] = number
            number += 1
    return found


def _tfidf(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    """Counts n-grams with 0 to max_skip_count items left out between neighbours (1-grams once only)."""
    pool, indexes = _pool(node), node.attr("ngram_indexes")
    weights = node.attr("weights") or (1.0,) * len(indexes)
    data = inputs[0] if inputs[0].ndim == 2 else inputs[0].reshape(1, -1)
    counts = np.zeros((len(data), len(indexes)))
    lengths = sorted({len(gram) for gram in pool})
    for row, items in enumerate(data.tolist()):
        for length in lengths:
            for gap in range(1, (int(node.attr("max_skip_count")) if length > 1 else 0) + 2):
                for start in range(len(items) - (length - 1) * gap):
                    number = pool.get(tuple(items[start : start + length * gap : gap][:length]))
                    if number is not None:
                        counts[row, number] += 1
    mode = node.attr("mode")
    scores = (
        counts if mode == "TF" else np.asarray(weights) * (np.minimum(counts, 1) if mode == "IDF" else counts)
    )
    result = np.zeros((len(data), max(indexes, default=-1) + 1))
    result[:, list(indexes)] = scores
    return [result.astype(wanted[0]).reshape((*inputs[0].shape[:-1], result.shape[1]))]


def _row_links(node: Node) -> AxisMap:
    """Rows of features are looked at one by one."""
    rank = rank_of(node, 0) or 0
    return by_labels(node, {0: ("n", "feature")[2 - rank :]}, {0: ("n", "result")[2 - rank :]})


_FACTS = Facts(_row_links, Kind.OTHER, Precision.GRAY)

OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "Binarizer",
        _same,
        _binarize,
        elementwise_lower(["vcmpv_gt", "vsel"]),
        Layout.FOLLOW,
        domain=ML,
        facts=ELEMENTWISE,
    ),
    OpDef(
        "LabelEncoder",
        _encoder_infer,
        _encode,
        _search_lower,
        domain=ML,
        facts=Facts(elementwise(), Kind.OTHER, Precision.GRAY),
    ),
    OpDef("TreeEnsemble", _trees_infer, _trees, _trees_lower, domain=ML, facts=_FACTS),
    OpDef("TfIdfVectorizer", _tfidf_infer, _tfidf, _search_lower, facts=_FACTS),
)
