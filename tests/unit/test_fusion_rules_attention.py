"""Attention of decoders as CANN's kernel: what is found, what is left alone, equal values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.passes.fusion.rules.matmul.decoder_attention import DecoderAttentionFusionPass
from ascendsim.passes.fusion.rules.movement.cache_scatter import CacheScatterFusionPass
from tests.support.fusing import CHANGED_ALGEBRA, Fused, build, fused

pytestmark = pytest.mark.usefixtures("untimed_tiles")

RULE = DecoderAttentionFusionPass()
QUERIES, KEYS, HEADS, SHARED, SIZE = 6, 10, 4, 2, 16
LOW = -np.inf


def _seen(low: int = -99, high: int = 99, queries: int = QUERIES) -> Any:
    distance = np.arange(KEYS) - np.arange(queries)[:, None]
    return (distance >= low) & (distance <= high)


def _added(seen: Any, low: float = LOW) -> Any:
    return np.where(seen, 0, low).astype(np.float32)


def _repeated(b: GraphBuilder, heads: Tensor, count: int) -> Tensor:
    batch, own, length, size = heads.static_shape
    if own == count:
        return heads
    wide = b.op("Expand", b.op("Unsqueeze", heads, [2]), [batch, own, count // own, length, size])
    return b.op("Reshape", wide, [batch, count, length, size])


def _graph(
    mask: Callable[[GraphBuilder, Tensor], Tensor] | Any = None,
    *,
    queries: int = QUERIES,
    shared: int = SHARED,
    size: int = SIZE,
    scale: float = 0.25,
    both: bool = False,
    layout: str = "bnsd",
    cached: bool = False,
    after: Callable[[GraphBuilder, Tensor], Tensor] | None = None,
    also: bool = False,
) -> Graph:
    """A constant mask is added; others are put on the scores by a function."""

    def body(b: GraphBuilder) -> list[Tensor]:
        sizes = (("q", HEADS, queries), ("k", shared, KEYS), ("v", shared, KEYS))
        operands = []
        for name, heads, length in sizes:
            if layout == "bsnd":
                one = b.op("Transpose", b.input(name, (2, length, heads, size)), perm=(0, 2, 1, 3))
            else:
                one = b.input(name, (2, heads, length - cached, size))
                if cached and name != "q":
                    one = b.op("Concat", one, b.input(f"new_{name}", (2, heads, 1, size)), axis=2)
                elif cached:
                    one = b.op("Concat", one, b.input("more", (2, heads, 1, size)), axis=2)
            operands.append(one)
        q, k, v = operands[0], *(_repeated(b, one, HEADS) for one in operands[1:])
        turned = b.op("Transpose", k, perm=(0, 1, 3, 2))
        if both:  # as Attention of opset 23 is expanded
            q, turned = (b.op("Mul", one, float(np.sqrt(scale))) for one in (q, turned))
        scores = b.op("MatMul", q, turned)
        if not both:
            scores = b.op("Div", scores, 1 / scale)
        if callable(mask):
            scores = mask(b, scores)
        elif mask is not None:
            scores = b.op("Add", scores, b.constant(mask, "mask"))
        weights = b.op("Softmax", scores, axis=-1)
        results = [weights] if also else []
        if after is not None:
            weights = after(b, weights)
        y = b.op("MatMul", weights, v)
        if layout == "bsnd":
            y = b.op("Transpose", y, perm=(0, 2, 1, 3))
        return [y, *results]

    return build(body)


def _fused(graph: Graph, **options: Any) -> Fused:
    return fused(graph, RULE, generation="c220", **options)


def _attention(result: Fused) -> Any:
    (node,) = [node for node in result.graph.nodes if node.op_type == "FusedInferAttentionScore"]
    assert result.error < CHANGED_ALGEBRA
    return node


@pytest.mark.parametrize("both", [False, True])
def test_shared_heads_are_not_repeated_and_the_factor_goes_inside(both: bool) -> None:
    result = _fused(_graph(both=both))
    node = _attention(result)
    assert result.operators == {"FusedInferAttentionScore": 1}
    assert node.attr("scale") == pytest.approx(0.25)
    assert (node.attr("num_heads"), node.attr("num_key_value_heads")) == (HEADS, SHARED)


@pytest.mark.parametrize(
    ("seen", "mode", "more"),
    [
        (_seen(high=KEYS - QUERIES), 3, {}),
        (_seen(high=0), 2, {}),
        (_seen(-1, 2), 4, {"pre_tokens": 5, "next_tokens": -2}),
        (_seen() & (np.arange(KEYS) % 3 != 1), 1, {}),
    ],
)
@pytest.mark.parametrize("low", [LOW, -65504.0])
def test_constant_masks_become_sparse_modes(seen: Any, mode: int, more: Any, low: float) -> None:
    node = _attention(_fused(_graph(_added(seen, low))))
    assert node.attr("sparse_mode") == mode
    assert {name: node.attr(name) for name in more} == more
    assert node.required(4).static_shape == ((QUERIES, KEYS) if mode == 1 else (2048, 2048))


def test_a_mask_that_hides_nothing_goes() -> None:
    node = _attention(_fused(_graph(_added(_seen(high=KEYS - 1, queries=1)), queries=1)))
    assert node.input(4) is None


def test_two_layers_share_a_triangle() -> None:
    def body(b: GraphBuilder) -> Tensor:
        x = b.input("x", (2, HEADS, KEYS, SIZE))
        for layer in range(2):
            scores = b.op("MatMul", x, b.op("Transpose", x, perm=(0, 1, 3, 2)))
            scores = b.op("Add", scores, b.constant(_added(_seen(high=0, queries=KEYS)), f"m{layer}"))
            x = b.op("MatMul", b.op("Softmax", scores, axis=-1), x)
        return x

    result = _fused(build(body))
    assert result.operators == {"FusedInferAttentionScore": 2}
    assert len(list(result.graph.constants)) == 1


def _where(hidden: bool, computed: bool) -> Callable[[GraphBuilder, Tensor], Tensor]:
    """A mask of the user's: where it hides, or shows; on scores, or as what is added."""

    def put(b: GraphBuilder, scores: Tensor) -> Tensor:
        given = b.op("Cast", b.input("m", (2, 1, QUERIES, KEYS)), to=DType.BOOL)
        first = b.op("Greater", b.input("n", (2, 1, QUERIES, KEYS)), 0.3)
        low = b.constant(np.float32(LOW if computed else -1e9))
        cond = b.op("And", b.op("Not", first), given) if hidden else b.op("Or", first, b.op("Not", given))
        if computed:
            zero = b.constant(np.float32(0))
            return b.op("Add", scores, b.op("Where", cond, *((low, zero) if hidden else (zero, low))))
        return b.op("Where", cond, *((low, scores) if hidden else (scores, low)))

    return put


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("computed", [False, True])
def test_masks_of_a_run(hidden: bool, computed: bool) -> None:
    node = _attention(_fused(_graph(_where(hidden, computed))))
    assert node.attr("sparse_mode") == 1
    assert (node.required(4).producer.op_type == "Not") != hidden


@pytest.mark.parametrize("heads", [1, HEADS])
def test_numbers_that_are_added(heads: int) -> None:
    def put(b: GraphBuilder, scores: Tensor) -> Tensor:
        return b.op("Add", b.input("bias", (2, heads, QUERIES, KEYS)), scores)

    node = _attention(_fused(_graph(put)))
    assert node.required(3).static_shape == (2, HEADS, QUERIES, KEYS)


def test_transpositions_go_into_the_kernel() -> None:
    result = _fused(_graph(layout="bsnd"))
    assert _attention(result).attr("input_layout") == "BSND"
    assert result.operators == {"FusedInferAttentionScore": 1}


def test_a_cache_makes_a_decoder() -> None:
    result = _fused(_graph(shared=HEADS, cached=True))
    assert _attention(result).attr("num_key_value_heads") == HEADS


def test_rows_that_see_nothing_are_zeros() -> None:
    """As Attention of opset 23 has them: a guard behind Softmax."""
    seen = _seen(high=-2)  # the first two queries see nothing
    empty = ~seen.any(axis=-1, keepdims=True)

    def guarded(b: GraphBuilder, weights: Tensor) -> Tensor:
        return b.op("Where", b.constant(empty, "empty"), b.constant(np.float32(0)), weights)

    result = _fused(_graph(_added(seen), after=guarded))
    assert result.operators == {"FusedInferAttentionScore": 1}
    assert _fused(_graph(_added(seen))).reason == "some rows see nothing, and are not zero"


def _capped(b: GraphBuilder, scores: Tensor) -> Tensor:
    return b.op("Mul", b.op("Tanh", b.op("Mul", scores, 0.1)), 10.0)


def _per_head(b: GraphBuilder, scores: Tensor) -> Tensor:
    hidden = np.random.default_rng(1).random((1, HEADS, QUERIES, KEYS)) < 0.3
    return b.op("Add", scores, b.constant(_added(~hidden), "mask"))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            {"shared": HEADS},
            "it is attention of an encoder: each head has keys of its own, which all queries see",
        ),
        ({"size": 24}, "the size of a head is no multiple of 16"),
        ({"mask": _per_head}, "heads have masks of their own"),
        ({"also": True}, "softmax_1 makes a graph output"),
    ],
)
def test_what_stays(options: Any, reason: str) -> None:
    result = _fused(_graph(**options))
    assert "FusedInferAttentionScore" not in result.operators
    assert result.reason == reason or ("makes a graph output" in reason and "makes a graph" in result.reason)


def test_other_formulas_and_other_chips_are_left_alone() -> None:
    assert not _fused(_graph(_capped)).counts.get(RULE.name, (0, 0))[0]
    assert fused(_graph(), RULE, generation="m200").reason == "the chip has no such kernel"


def test_values_are_kept_whatever_is_in_the_mask() -> None:
    """A triangle for most, with a hole: it is no band, and the kernel gets it as it is."""
    seen = _seen(high=KEYS - QUERIES)
    seen[3, 1] = False
    assert _attention(_fused(_graph(_added(seen)))).attr("sparse_mode") == 1


CASES: list[tuple[Any, Any, dict[str, Any]]] = [
    ((2, 8, 1, 64), (2, 2, 1, 64), {"past": 100, "is_causal": 1}),
    ((2, 33, 512), (2, 33, 128), {"is_causal": 1, "q_num_heads": 8, "kv_num_heads": 2}),
    ((1, 4, 9, 32), (1, 2, 20, 32), {"scale": 0.3}),
]


@pytest.mark.parametrize(("query", "key", "options"), CASES)
def test_attention_of_opset_23_is_onnxruntimes(query: Any, key: Any, options: Any, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    given = {"q": query, "k": key, "v": key}
    past = options.get("past")
    if past:
        given |= dict.fromkeys(("pk", "pv"), (*key[:2], past, key[3]))
    names = ["q", "k", "v", *(["", "pk", "pv"] if past else [])]
    made = ["y", "nk", "nv"] if past else ["y"]
    more = {name: value for name, value in options.items() if name != "past"}
    half = onnx.TensorProto.FLOAT16
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Attention", names, made, **more)],
        "attention",
        [onnx.helper.make_tensor_value_info(name, half, shape) for name, shape in given.items()],
        [onnx.helper.make_tensor_value_info(name, half, None) for name in made],
    )
    path = tmp_path / "attention.onnx"
    opsets = [onnx.helper.make_opsetid("", 23)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    draw = np.random.default_rng(3).standard_normal
    feeds = {name: draw(shape).astype(np.float16) for name, shape in given.items()}
    wanted = onnxruntime.InferenceSession(str(path)).run(None, feeds)
    model = asim.compile(asim.load(path), "Ascend910B2")
    assert "FusedInferAttentionScore" in {node.op_type for node in model.graph.nodes}
    found = asim.run(model, feeds).outputs
    for name, array in zip(made, wanted, strict=True):
        np.testing.assert_allclose(found[name].astype(float), array.astype(float), atol=4e-3)


def _cache(*, others: bool = False, made: bool = False, kept: bool = True, mode: str = "linear") -> Graph:
    def body(b: GraphBuilder) -> list[Tensor]:
        half = DType.FLOAT16
        cache, fresh = b.input("cache", (2, 3, 12, 16), half), b.input("fresh", (2, 3, 2, 16), half)
        old = b.op("Abs", cache) if made else cache
        starts = b.constant(np.array([3, 10]), "starts")
        new = b.op("TensorScatter", old, fresh, starts, axis=2, mode=mode)
        results = [new] if kept else [b.op("Neg", new)]
        return [*results, b.op("Neg", cache)] if others else results

    return build(body)


def test_a_cache_that_comes_and_goes_is_written_in_place() -> None:
    result = fused(_cache(), CacheScatterFusionPass())
    assert result.operators == {"Scatter": 1}
    assert result.error == 0
    model = asim.compile(_cache(), "Ascend910B2")
    (task,) = model.program.tasks
    moved = {access.region: access.moved_bytes for access in task.accesses}
    assert moved["out0"] == moved["fresh"] == 2 * 3 * 2 * 16 * 2
    assert "cache" not in moved


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"others": True}, "the cache as it was has other readers"),
        ({"made": True}, "the cache is no input of the graph"),
        ({"kept": False}, "the new cache is no output of the graph"),
        ({"mode": "circular"}, "new entries go round"),
    ],
)
def test_other_caches_are_copied(options: Any, reason: str) -> None:
    result = fused(_cache(**options), CacheScatterFusionPass())
    assert "Scatter" not in result.operators
    assert result.reason == reason
