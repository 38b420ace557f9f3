"""What DecoderAttentionFusionPass asks of attention, one condition at a time: whatever it takes keeps its
values, and what misses one condition stays as it was, with the reason or unrecognised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Tensor
from ascendsim.passes.fusion.rules.matmul.decoder_attention import DecoderAttentionFusionPass
from tests.support.fusing import CHANGED_ALGEBRA, Fused, build, fused

RULE = DecoderAttentionFusionPass()
BATCH, HEADS, QUERIES, KEYS, SIZE = 2, 4, 6, 10, 16
LOW = -np.inf
TRIANGLE = np.tri(QUERIES, KEYS, KEYS - QUERIES, dtype=bool)
ENCODER = "it is attention of an encoder: each head has keys of its own, which all queries see"
Step = Callable[[GraphBuilder, Tensor], Tensor]


def same(_b: GraphBuilder, x: Tensor) -> Tensor:
    return x


def triangle(b: GraphBuilder, scores: Tensor) -> Tensor:
    """What makes it attention of a decoder."""
    rows, keys = scores.static_shape[2:]
    mask = np.where(np.tri(rows, keys, keys - rows, dtype=bool), 0, LOW).astype(np.float32)
    return b.op("Add", scores, b.constant(mask, "mask"))


def tried(
    put: Step = triangle,
    *,
    query: Step = same,
    key: Step = same,
    value: Step = same,
    weights: Step = same,
    result: Step = same,
    heads: int = HEADS,
    queries: int = QUERIES,
    size: int = SIZE,
    width: int = SIZE,
    axis: int = -1,
    kind: DType = DType.FLOAT32,
    batch: int = BATCH,
    also: bool = False,
) -> Fused:
    def body(b: GraphBuilder) -> list[Tensor]:
        q = query(b, b.input("q", (batch, HEADS, queries, size), kind))
        k = key(b, b.input("k", (batch, heads, KEYS, size), kind))
        v = value(b, b.input("v", (batch, heads, KEYS, width), kind))
        turned = b.op("Transpose", k, perm=(0, 1, 3, 2)) if k.static_shape[2] == KEYS else k
        scores = put(b, b.op("MatMul", q, turned))
        y = b.op("MatMul", weights(b, b.op("Softmax", scores, axis=axis)), v)
        return [result(b, y), *([y] if also else [])]

    return fused(build(body), RULE, generation="c220")


def taken(found: Fused) -> Any:
    assert found.error < CHANGED_ALGEBRA
    (node,) = [node for node in found.graph.nodes if node.op_type == "FusedInferAttentionScore"]
    return node


def left(found: Fused, reason: str | None) -> None:
    """None: it is not even recognised."""
    assert "FusedInferAttentionScore" not in found.operators
    assert found.reasons == ([] if reason is None else [reason])


def added(*shape: int, kind: DType = DType.FLOAT32, factor: float = 1.0) -> Step:
    """Numbers of a run are added, and the sum is multiplied."""

    def put(b: GraphBuilder, scores: Tensor) -> Tensor:
        total = b.op("Add", scores, b.input("bias", shape, kind))
        return total if factor == 1 else b.op("Mul", total, factor)

    return put


def numbers(array: Any, factor: float = 1.0) -> Step:
    def put(b: GraphBuilder, scores: Tensor) -> Tensor:
        total = b.op("Add", scores, b.constant(np.asarray(array, np.float32), "mask"))
        return total if factor == 1 else b.op("Mul", total, factor)

    return put


def chosen(*shape: int, shown: bool = True, low: float = LOW, constant: Any = None) -> Step:
    """Where on scores, by a condition of a run or by a constant."""

    def put(b: GraphBuilder, scores: Tensor) -> Tensor:
        if constant is None:
            condition = b.op("Greater", b.input("n", shape), -1.0)
        else:
            condition = b.constant(constant, "seen")
        hidden = b.constant(np.float32(low), "low")
        return b.op("Where", condition, *((scores, hidden) if shown else (hidden, scores)))

    return put


def made(yes: float, no: float, cast: bool = False, queries: int = QUERIES) -> Step:
    """A mask of numbers that a Where makes in the run."""

    def put(b: GraphBuilder, scores: Tensor) -> Tensor:
        border = 1.0 if yes < no else -1.0  # few are hidden: some of each row are seen
        condition = b.op("Greater", b.input("n", (BATCH, 1, queries, KEYS)), border)
        kind = np.float16 if cast else np.float32
        mask = b.op("Where", condition, b.constant(kind(yes)), b.constant(kind(no)))
        return b.op("Add", scores, b.op("Cast", mask, to=DType.FLOAT32) if cast else mask)

    return put


# ---- what is added


@pytest.mark.parametrize(("queries", "takes"), [(16, True), (17, False)])
def test_numbers_are_repeated_for_each_head_of_up_to_16_queries(queries: int, takes: bool) -> None:
    found = tried(
        added(BATCH, 1, queries, KEYS), heads=HEADS // 2, key=repeated, value=repeated, queries=queries
    )
    if takes:
        assert taken(found).required(3).static_shape == (BATCH, HEADS, queries, KEYS)
    else:
        left(found, "numbers that are added would have to be repeated for each head")
    whole = added(BATCH, HEADS, queries, KEYS)
    taken(tried(whole, heads=HEADS // 2, key=repeated, value=repeated, queries=queries))


def repeated_for(b: GraphBuilder, x: Tensor, count: int) -> Tensor:
    batch, heads, length, size = x.static_shape
    wide = b.op("Expand", b.op("Unsqueeze", x, [2]), [batch, heads, count, length, size])
    return b.op("Reshape", wide, [batch, count * heads, length, size])


def repeated(b: GraphBuilder, x: Tensor) -> Tensor:
    """Two heads of queries share one of keys."""
    return repeated_for(b, x, 2)


SHARED: dict[str, Any] = {"heads": HEADS // 2, "key": repeated, "value": repeated}


@pytest.mark.parametrize(
    ("put", "reason"),
    [
        (added(1, HEADS, QUERIES, KEYS), None),
        (added(QUERIES, KEYS), "what is added is no number for each query and key"),
        (added(BATCH, 1, 1, KEYS), "what is added is no number for each query and key"),
        (added(BATCH, 1, QUERIES, 1), "what is added is no number for each query and key"),
        (added(BATCH, HEADS, QUERIES, KEYS, factor=2.0), "sums with the mask are multiplied"),
        (numbers(TRIANGLE - 1.0), "what is added is no number for each query and key"),
        (made(0, LOW), None),
        (made(0, LOW, cast=True), None),
        (made(-1e4, 0), None),
        (made(0, -9e3, queries=17), "numbers that are added would have to be repeated for each head"),
        (made(1, LOW, queries=17), "numbers that are added would have to be repeated for each head"),
    ],
)
def test_what_may_be_added(put: Step, reason: str | None) -> None:
    queries = 17 if reason is not None and "repeated" in reason else QUERIES
    found = tried(put, queries=queries, **SHARED)
    taken(found) if reason is None else left(found, reason)


def test_numbers_of_another_type_are_not_added() -> None:
    def put(b: GraphBuilder, scores: Tensor) -> Tensor:
        half = b.op("Cast", scores, to=DType.FLOAT16)
        total = b.op("Add", half, b.input("bias", (BATCH, HEADS, QUERIES, KEYS), DType.FLOAT16))
        return b.op("Cast", total, to=DType.FLOAT32)

    left(tried(put, **SHARED), "what is added has another type")


def test_integers_between_are_no_scores() -> None:
    def put(b: GraphBuilder, scores: Tensor) -> Tensor:
        return b.op("Cast", b.op("Cast", scores, to=DType.INT32), to=DType.FLOAT32)

    left(tried(put, **SHARED), None)


@pytest.mark.parametrize(("factor", "reason"), [(2.0, None), (-1.0, "sums with the mask are multiplied")])
def test_a_mask_of_minus_infinity_may_be_multiplied_by_what_is_above_0(
    factor: float, reason: str | None
) -> None:
    mask = np.where(TRIANGLE, 0, LOW if factor > 0 else -1e5)
    found = tried(numbers(mask, factor))
    if reason is None:
        assert taken(found).attr("sparse_mode") == 3
    else:
        left(found, reason)


# ---- masks


@pytest.mark.parametrize(
    ("put", "reason"),
    [
        (chosen(QUERIES, KEYS), None),
        (chosen(BATCH, 1, QUERIES, KEYS), None),
        (chosen(1, 1, QUERIES, KEYS, shown=False), None),
        (chosen(BATCH, 1, 1, KEYS), "the mask is no value for each query and key"),
        (chosen(1, QUERIES, KEYS), "the mask is no value for each query and key"),
        (chosen(BATCH, HEADS, QUERIES, KEYS), "the mask is no value for each query and key"),
        (chosen(QUERIES, KEYS, low=-1e4), None),
        (chosen(1, constant=np.array([True])), None),
        (chosen(1, constant=TRIANGLE), None),
        (chosen(1, constant=~TRIANGLE, shown=False), None),
        (
            chosen(1, constant=TRIANGLE[None, None] & np.ones((1, HEADS, 1, 1), bool)),
            "heads have masks of their own",
        ),
    ],
)
def test_what_may_hide_scores(put: Step, reason: str | None) -> None:
    found = tried(put, **SHARED)
    taken(found) if reason is None else left(found, reason)


def test_scores_that_are_replaced_by_a_number_that_counts_are_another_formula() -> None:
    left(tried(chosen(QUERIES, KEYS, low=-9e3), **SHARED), None)


def test_two_masks_are_one_too_many() -> None:
    def put(b: GraphBuilder, scores: Tensor) -> Tensor:
        return chosen(QUERIES, KEYS)(b, triangle(b, scores))

    left(tried(put), "there are two masks")
    left(tried(lambda b, scores: chosen(1, constant=TRIANGLE)(b, chosen(QUERIES, KEYS)(b, scores))), None)
    left(tried(lambda b, scores: triangle(b, added(BATCH, HEADS, QUERIES, KEYS)(b, scores))), None)


def test_each_item_of_a_batch_may_have_a_mask_of_its_own() -> None:
    masks = np.stack([TRIANGLE, np.ones_like(TRIANGLE)])[:, None]
    node = taken(tried(numbers(np.where(masks, 0, LOW)), **SHARED))
    assert node.attr("sparse_mode") == 1
    assert node.required(4).static_shape == (BATCH, 1, QUERIES, KEYS)


@pytest.mark.parametrize("seen", [np.zeros_like(TRIANGLE), TRIANGLE & (np.arange(QUERIES) != 2)[:, None]])
def test_rows_that_see_nothing_need_a_guard(seen: Any) -> None:
    put = numbers(np.where(seen, 0, -1e30))
    left(tried(put, **SHARED), "some rows see nothing, and are not zero")

    def guarded(empty: Any) -> Step:
        return lambda b, w: b.op("Where", b.constant(empty, "empty"), b.constant(np.float32(0)), w)

    empty = ~seen.any(-1, keepdims=True)
    taken(tried(numbers(np.where(seen, 0, LOW)), weights=guarded(empty), **SHARED))
    wrong = empty.copy()
    wrong[0] ^= True
    left(tried(put, weights=guarded(wrong), **SHARED), "some rows see nothing, and are not zero")


def test_guards_of_a_run() -> None:
    def guard(b: GraphBuilder, weights: Tensor) -> Tensor:
        empty = b.op("Greater", b.input("g", (BATCH, 1, QUERIES, 1)), 9.0)
        return b.op("Where", empty, b.constant(np.float32(0)), weights)

    for put in (triangle, chosen(QUERIES, KEYS)):
        left(tried(put, weights=guard, **SHARED), "rows are set to zero by another rule")

    def of_ones(b: GraphBuilder, weights: Tensor) -> Tensor:
        empty = b.op("Greater", b.input("g", (BATCH, 1, QUERIES, 1)), 9.0)
        return b.op("Where", empty, b.constant(np.float32(1)), weights)

    left(tried(weights=of_ones), None)


def test_a_guard_that_clears_nothing_does_no_harm() -> None:
    def guard(b: GraphBuilder, weights: Tensor) -> Tensor:
        none = b.constant(np.zeros((1, 1, QUERIES, 1), np.bool_), "none")
        return b.op("Where", none, b.constant(np.float32(0)), weights)

    taken(tried(chosen(QUERIES, KEYS), weights=guard, **SHARED))

    def some(b: GraphBuilder, weights: Tensor) -> Tensor:
        rows = np.zeros((1, 1, QUERIES, 1), np.bool_)
        rows[0, 0, 1] = True
        return b.op("Where", b.constant(rows, "rows"), b.constant(np.float32(0)), weights)

    left(tried(chosen(QUERIES, KEYS), weights=some, **SHARED), "rows are set to zero by another rule")


# ---- operands


def cached(b: GraphBuilder, x: Tensor) -> Tensor:
    front, back = b.op("Slice", x, [0], [KEYS - 1], [2]), b.op("Slice", x, [KEYS - 1], [KEYS], [2])
    return b.op("Concat", front, back, axis=2)


def turned(b: GraphBuilder, x: Tensor) -> Tensor:
    return b.op("Transpose", x, perm=(0, 1, 3, 2))


@pytest.mark.parametrize(
    ("options", "scale"),
    [
        ({"query": lambda b, x: b.op("Mul", x, 0.5)}, 0.5),
        ({"query": lambda b, x: b.op("Mul", b.constant(np.float32(0.5)), x)}, 0.5),
        ({"key": lambda b, x: b.op("Div", x, 4.0)}, 0.25),
        ({"query": lambda b, x: b.op("Identity", x)}, 1.0),
        ({"put": lambda b, x: triangle(b, b.op("Div", x, 8.0))}, 0.125),
        ({"put": lambda b, x: triangle(b, b.op("Mul", b.constant(np.float32(8)), x))}, 8.0),
        ({"put": lambda b, x: triangle(b, b.op("Identity", x))}, 1.0),
        ({"axis": 3}, 1.0),
    ],
)
def test_factors_and_what_does_nothing_go_into_the_kernel(options: Any, scale: float) -> None:
    found = tried(**options)
    assert taken(found).attr("scale") == pytest.approx(scale)
    assert found.operators == {"FusedInferAttentionScore": 1}


@pytest.mark.parametrize(
    "options",
    [
        {"axis": 2},
        {"query": lambda b, x: turned(b, b.op("Identity", turned(b, x)))},
        {"value": lambda b, x: b.op("Mul", x, 2.0)},
        {"put": lambda b, x: triangle(b, b.op("Div", b.constant(np.float32(8)), x))},
        {"put": lambda b, x: triangle(b, b.op("Tanh", x))},
        {"weights": lambda b, w: b.op("Mul", w, 0.5)},
        {"weights": lambda b, w: b.op("Cast", b.op("Cast", w, to=DType.INT32), to=DType.FLOAT32)},
    ],
    ids=", ".join,
)
def test_other_formulas_are_not_recognised(options: Any) -> None:
    left(tried(**options), None)


def test_operands_that_are_turned_once_more() -> None:
    """Queries of whole heads that come turned, and values that are read turned, are another product."""

    def twice(b: GraphBuilder, x: Tensor) -> Tensor:
        return turned(b, b.op("Relu", turned(b, x)))

    left(tried(query=twice), None)
    left(tried(value=twice), None)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"size": 24}, "the size of a head is no multiple of 16"),
        ({"width": 24}, "the size of a head is no multiple of 16"),
        ({"size": 48, "width": 32}, None),
        ({"kind": DType.FLOAT64}, "queries, keys and values are not of one type of real numbers"),
        ({"put": same}, ENCODER),
        ({"put": same, **SHARED}, None),
        ({"put": same, "key": lambda b, x: b.op("Identity", cached(b, x)), "value": cached}, None),
        ({"also": True}, None),
    ],
)  # fmt: skip
def test_what_the_kernel_asks_of_operands(options: Any, reason: str | None) -> None:
    found = tried(**options)
    taken(found) if reason is None else left(found, reason)


def by_heads(b: GraphBuilder, x: Tensor) -> Tensor:
    return b.op("Transpose", x, perm=(0, 2, 1, 3))


def test_the_layout_follows_who_turns_what() -> None:
    node = taken(tried(result=by_heads))
    assert node.attr("input_layout") == "BNSD_BSND"
    assert taken(tried()).attr("input_layout") == "BNSD"
    node = taken(tried(result=by_heads, also=True))
    assert node.attr("input_layout") == "BNSD"
    other = taken(tried(result=lambda b, y: b.op("Transpose", y, perm=(0, 2, 3, 1))))
    assert other.attr("input_layout") == "BNSD"
    one = tried(result=by_heads, query=lambda b, x: by_heads(b, by_heads_input(b, x)))
    assert taken(one).attr("input_layout") == "BNSD_BSND"


def by_heads_input(b: GraphBuilder, x: Tensor) -> Tensor:
    return b.op("Relu", b.op("Transpose", x, perm=(0, 2, 1, 3)))


def test_keys_and_values_are_shared_alike() -> None:
    """One head for all is shared where it is repeated, not where a product spreads it."""

    def four(b: GraphBuilder, x: Tensor) -> Tensor:
        return repeated_for(b, x, HEADS)

    taken(tried(heads=1, key=four, value=four))
    for options in ({"key": four}, {"value": four}, {}):
        left(tried(heads=1, **options), "keys and values are shared in another way")
    two = {"heads": HEADS, "value": lambda b, x: repeated(b, b.op("Slice", x, [0], [2], [1]))}
    left(tried(**two), "queries, keys and values do not fit together")
