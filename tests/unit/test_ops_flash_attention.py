"""FlashAttentionScore and its gradient: values against the formula over whole rows, masks, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.graph.ir import Graph
from ascendsim.ops import default_opset
from ascendsim.opset import InferContext
from tests.support.gate import in_turn
from tests.support.gradcheck import check_gradients
from tests.support.single_node import run

TO_LAYOUT = {
    "BNSD": lambda x: x,
    "BSND": lambda x: x.transpose(0, 2, 1, 3),
    "BSH": lambda x: x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1),
    "SBH": lambda x: x.transpose(2, 0, 1, 3).reshape(x.shape[2], x.shape[0], -1),
}
MASK = np.triu(np.ones((2048, 2048), np.bool_), 1)


def _operands(
    queries: int, keys: int, heads: int = 4, shared: int = 2, size: int = 16, width: int = 16
) -> Any:
    draw = np.random.default_rng([queries, keys]).standard_normal
    return draw((2, heads, queries, size)), draw((2, shared, keys, size)), draw((2, shared, keys, width))


def _formula(q: Any, k: Any, v: Any, allowed: Any = True, shift: Any = 0.0, scale: float = 0.25) -> Any:
    """The whole matrix of scores at once, in float64; rows that see nothing are 0."""
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = np.where(allowed, np.einsum("bnqd,bnkd->bnqk", q, k) * scale + shift, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = powers.sum(axis=-1, keepdims=True)
    return np.einsum("bnqk,bnkd->bnqd", powers / np.where(total > 0, total, 1), v), top, total


def _run(q: Any, k: Any, v: Any, *more: Any, layout: str = "BNSD", **options: Any) -> Any:
    given = [TO_LAYOUT[layout](x) for x in (q, k, v)]
    numbers = {"scale_value": 0.25, "head_num": q.shape[1], "input_layout": layout, "pse_type": 0}
    return run("FlashAttentionScore", [*given, *more], 4, "ascend", **{**numbers, **options})


@pytest.mark.parametrize("layout", [*TO_LAYOUT])
def test_layouts_and_shared_heads(layout: str) -> None:
    q, k, v = _operands(130, 70, width=24)
    wanted, top, total = _formula(q, k, v)
    maxima, sums, nothing, found = _run(q, k, v, layout=layout)
    np.testing.assert_allclose(found, TO_LAYOUT[layout](wanted), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(maxima, np.repeat(top, 8, axis=-1), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(sums, np.repeat(total, 8, axis=-1), rtol=1e-11, atol=1e-13)
    assert nothing.shape == (0,)


@pytest.mark.parametrize(
    ("dtype", "sizes"), in_turn(["float32", "float16", "bfloat16"], [(5, 1500), (300, 2100)])
)
def test_blocks_join_to_whole_rows(dtype: str, sizes: tuple[int, int]) -> None:
    """Scores rise from block to block, so that sums made before must shrink."""
    queries, keys = sizes
    kind = DType(dtype).numpy
    q, k, v = (x.astype(kind) for x in _operands(queries, keys))
    k = (k * np.linspace(0.1, 3, keys)[:, None]).astype(kind)
    wanted, *_ = _formula(*(x.astype(np.float64) for x in (q, k, v)))
    found = _run(q, k, v)[3].astype(np.float64)
    tolerance = {"float32": 2e-6, "float16": 2e-3, "bfloat16": 2e-2}[dtype]
    assert np.abs(found - wanted).max() <= tolerance * np.abs(wanted).max()


def _seen(queries: int, keys: int, low: float, high: float) -> Any:
    row, column = np.arange(queries)[:, None], np.arange(keys)
    return (column - row >= low) & (column - row <= high)


@pytest.mark.parametrize(
    ("options", "low", "high"),
    [
        ({"sparse_mode": 2}, -np.inf, 0),
        ({"sparse_mode": 3}, -np.inf, 30),
        ({"sparse_mode": 4, "pre_tockens": 20, "next_tockens": -3}, 30 - 20, 30 - 3),
        ({"sparse_mode": 4, "pre_tockens": 5}, 25, np.inf),
    ],
)
def test_bands_need_no_mask_values(options: dict[str, int], low: float, high: float) -> None:
    q, k, v = _operands(170, 200)
    wanted, *_ = _formula(q, k, v, _seen(170, 200, low, high))
    for mask in (MASK, np.zeros_like(MASK)):
        np.testing.assert_allclose(
            _run(q, k, v, None, None, None, mask, **options)[3], wanted, rtol=1e-11, atol=1e-13
        )


@pytest.mark.parametrize("shape", [(40, 60), (2, 1, 40, 60), (1, 1, 40, 60), (2, 4, 40, 60)])
def test_masks_forbid_within_a_band(shape: tuple[int, ...]) -> None:
    q, k, v = _operands(40, 60)
    mask = np.random.default_rng(2).random(shape) < 0.5
    mask[..., 7, :] = True  # a query that sees nothing
    banded = _seen(40, 60, -np.inf, 9) & ~mask
    found = _run(q, k, v, None, None, None, mask, next_tockens=9)
    wanted, _, total = _formula(q, k, v, banded)
    np.testing.assert_allclose(found[3], wanted, rtol=1e-11, atol=1e-14)
    assert (found[3][:, :, 7] == 0).all()
    np.testing.assert_allclose(
        found[1][..., :1], np.broadcast_to(total, (2, 4, 40, 1)), rtol=1e-11, atol=1e-13
    )
    whole, *_ = _formula(q, k, v, ~mask)
    found = _run(q, k, v, None, None, None, mask, next_tockens=9, sparse_mode=1)
    np.testing.assert_allclose(found[3], whole, rtol=1e-11, atol=1e-14)
    without, *_ = _formula(q, k, v)  # the band counts beside a mask only
    np.testing.assert_allclose(_run(q, k, v, next_tockens=9)[3], without, rtol=1e-11, atol=1e-13)


def test_a_shift_is_added_before_or_behind_the_factor() -> None:
    q, k, v = _operands(20, 30)
    shift = np.random.default_rng(3).standard_normal((1, 4, 20, 30))
    for kind, wanted in ((0, shift), (1, shift * 0.25)):
        found = _run(q, k, v, shift, pse_type=kind)[3]
        np.testing.assert_allclose(found, _formula(q, k, v, shift=wanted)[0], rtol=1e-11, atol=1e-13)


def test_dropout_takes_weights_and_leaves_their_sums() -> None:
    q, k, v = _operands(20, 30)
    bits = np.random.default_rng(4).random(2 * 4 * 20 * 30) < 0.75
    packed = np.packbits(bits, bitorder="little")
    found = _run(q, k, v, None, packed, keep_prob=0.75)
    eye = np.eye(30)[None, None].repeat(2, 0).repeat(2, 1)
    weights, _, total = _formula(q, k, eye)
    kept = weights * bits.reshape(weights.shape) / 0.75
    wanted = np.einsum("bnqk,bnkd->bnqd", kept, np.repeat(v, 2, axis=1))
    np.testing.assert_allclose(found[3], wanted, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(found[1][..., :1], total, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(
    ("layout", "options", "extra"),
    [
        ("BSND", {}, ()),
        ("SBH", {"sparse_mode": 3}, ("mask",)),
        ("BNSD", {"pse_type": 1}, ("shift",)),
        ("BSH", {"keep_prob": 0.5}, ("drop",)),
    ],
)
def test_gradients(layout: str, options: dict[str, Any], extra: tuple[str, ...]) -> None:
    """By the rule of reverse mode, against central differences; one head of keys serves two of queries."""
    draw = np.random.default_rng(5).standard_normal
    arrays = {
        "q": TO_LAYOUT[layout](draw((2, 2, 3, 4))),
        "k": TO_LAYOUT[layout](draw((2, 1, 5, 4))),
        "v": TO_LAYOUT[layout](draw((2, 1, 5, 4))),
    }
    if "shift" in extra:
        arrays["shift"] = draw((1, 2, 3, 5))
    bits = np.packbits(np.random.default_rng(6).random(64) < 0.5)
    numbers = {"scale_value": 0.5, "head_num": 2, "input_layout": layout, **options}

    def build(b: Any, *tensors: Any) -> Any:
        inputs = dict(zip(arrays, tensors, strict=True))
        more = [
            inputs.get("shift"),
            bits if "drop" in extra else None,
            None,
            MASK if "mask" in extra else None,
        ]
        operands = [inputs[name] for name in "qkv"]
        return b.ops("FlashAttentionScore", *operands, *more, outputs=4, domain="ascend", **numbers)[3]

    check_gradients(build, arrays)


def _infer(shapes: Any, name: str = "FlashAttentionScore", **options: Any) -> Any:
    graph = Graph()
    inputs = [
        None if shape is None else graph.add_input(f"x{at}", DType.FLOAT32, shape)
        for at, shape in enumerate(shapes)
    ]
    node = graph.add_node(name, inputs, [f"y{at}" for at in range(4)], domain="ascend", **options)
    default_opset().get(node).infer(InferContext(node))
    return [tensor.shape for tensor in node.outputs]


def test_shapes() -> None:
    options = {"head_num": 8, "input_layout": "SBH"}
    found = _infer([("s", 2, 512), ("t", 2, 128), ("t", 2, 128)], **options)
    assert found == [(2, 8, "s", 8), (2, 8, "s", 8), (0,), ("s", 2, 512)]
    rows = (2, 8, "s", 8)
    taken = [("s", 2, 512), ("t", 2, 128), ("t", 2, 128), ("s", 2, 512)]
    given = [*taken, None, None, None, None, rows, rows, None, ("s", 2, 512)]
    found = _infer(given, "FlashAttentionScoreGrad", **options)
    assert found[:3] == taken[:3]


@pytest.mark.parametrize(
    ("shapes", "options", "message"),
    [
        ([(4, 2, 60)] * 3, {}, "that 8 heads of queries and those of keys share"),
        ([(4, 2, 64), (5, 2, 24), (5, 2, 24)], {}, "multiple of those of keys"),
        ([(4, 2, 64), (5, 3, 64), (5, 3, 64)], {}, "keys of the queries' batch"),
        ([(4, 2, 64), (5, 2, 64), (6, 2, 64)], {}, "a value for each key"),
        ([(4, 2, 64)] * 3, {"input_layout": "TND"}, "out of BSH, SBH, BSND, BNSD"),
        ([(4, 2, 64)] * 3, {"head_num": 0}, "needs head_num"),
        ([(4, 2, 64)] * 3, {"sparse_mode": 5}, "sparse_mode of 0 to 4"),
        ([(4, 2, 64)] * 3, {"sparse_mode": 1}, "needs a mask for sparse_mode 1"),
        ([(4, 2, 64)] * 3, {"keep_prob": 0.0}, "keep_prob above 0"),
    ],
)
def test_what_cannot_be_is_refused(shapes: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        _infer(shapes, **{"head_num": 8, "input_layout": "SBH", **options})
