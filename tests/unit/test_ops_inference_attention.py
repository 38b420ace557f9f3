"""Attention kernels of inference: values against the formula, lengths, pages, bytes, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.graph.ir import Graph
from ascendsim.ops import default_opset
from ascendsim.opset import InferContext
from tests.support.single_node import run

LENGTHS, KEY_LENGTHS, TABLE = 5, 6, 14
TO_LAYOUT = {
    "BNSD": lambda x: x,
    "BNSD_BSND": lambda x: x,
    "BSND": lambda x: x.transpose(0, 2, 1, 3),
    "BSH": lambda x: x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1),
}
RNG = np.random.default_rng(7)


def _operands(batch: int, queries: int, keys: int, heads: int = 4, shared: int = 2, size: int = 16) -> Any:
    draw = np.random.default_rng([batch, queries, keys]).standard_normal
    shapes = ((batch, heads, queries, size), (batch, shared, keys, size), (batch, shared, keys, size + 8))
    return [draw(shape) for shape in shapes]


def _formula(q: Any, k: Any, v: Any, allowed: Any = True, shift: Any = 0.0, scale: float = 0.25) -> Any:
    """The whole matrix of scores at once, in float64; rows that see nothing are 0."""
    group = q.shape[-3] // k.shape[-3]
    k, v = np.repeat(k, group, axis=-3), np.repeat(v, group, axis=-3)
    scores = np.where(allowed, q @ k.swapaxes(-1, -2) * scale + shift, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(total > 0, total, 1) @ v, top + np.log(np.where(total > 0, total, 1))


def _fused(*inputs: Any, heads: int = 4, shared: int = 2, layout: str = "BNSD", **more: Any) -> Any:
    """`more` names ports by number ("p14") and attributes."""
    given = [*inputs, *[None] * (26 - len(inputs))]
    for port in [name for name in more if name[0] == "p" and name[1:].isdigit()]:
        given[int(port[1:])] = more.pop(port)
    numbers = {"num_heads": heads, "num_key_value_heads": shared, "input_layout": layout, "scale": 0.25}
    return run("FusedInferAttentionScore", given, 2, "ascend", **{**numbers, **more})


def _close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("layout", [*TO_LAYOUT])
@pytest.mark.parametrize(("queries", "keys"), [(1, 70), (130, 1100)])
def test_layouts_and_sums(layout: str, queries: int, keys: int) -> None:
    q, k, v = _operands(2, queries, keys)
    wanted, logs = _formula(q, k, v)
    found, sums = _fused(*(TO_LAYOUT[layout](x) for x in (q, k, v)), layout=layout, softmax_lse_flag=1)
    _close(found, TO_LAYOUT[layout.rpartition("_")[2]](wanted))
    _close(sums, logs)
    assert _fused(*(TO_LAYOUT[layout](x) for x in (q, k, v)), layout=layout)[1].shape == (1,)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_narrow_types_round_weights_and_results_only(dtype: str) -> None:
    kind = DType(dtype).numpy
    q, k, v = (x.astype(kind) for x in _operands(1, 5, 2100))
    wanted, _ = _formula(*(x.astype(np.float64) for x in (q, k, v)))
    found = _fused(q, k, v)[0].astype(np.float64)
    tolerance = {"float32": 2e-6, "float16": 2e-3, "bfloat16": 2e-2}[dtype]
    assert np.abs(found - wanted).max() <= tolerance * np.abs(wanted).max()


def _seen(queries: int, keys: int, low: float, high: float) -> Any:
    distance = np.arange(keys) - np.arange(queries)[:, None]
    return (distance >= low) & (distance <= high)


@pytest.mark.parametrize(
    ("options", "low", "high"),
    [
        ({"sparse_mode": 2}, lambda corner: -np.inf, lambda corner: 0),
        ({"sparse_mode": 3}, lambda corner: -np.inf, lambda corner: corner),
        (
            {"sparse_mode": 4, "pre_tokens": 6, "next_tokens": 2},
            lambda corner: corner - 6,
            lambda corner: corner + 2,
        ),
    ],
)
def test_bands_go_by_each_sequences_own_lengths(options: Any, low: Any, high: Any) -> None:
    q, k, v = _operands(3, 20, 40)
    queries, keys = [20, 7, 12], [40, 13, 30]
    found, _ = _fused(q, k, v, p5=np.array(queries), p6=np.array(keys), **options)
    for at, (own, theirs) in enumerate(zip(queries, keys, strict=True)):
        corner = theirs - own
        allowed = _seen(own, theirs, low(corner), high(corner))
        wanted, _ = _formula(q[at, :, :own], k[at, :, :theirs], v[at, :, :theirs], allowed)
        _close(found[at, :, :own], wanted)
        assert not found[at, :, own:].any()


def test_ragged_sequences_one_behind_the_other() -> None:
    q, k, v = (x[0].swapaxes(0, 1) for x in _operands(1, 30, 50))
    ends, key_ends = [9, 9, 30], [14, 20, 50]
    found, sums = _fused(
        q, k, v, p5=np.array(ends), p6=np.array(key_ends), layout="TND", sparse_mode=3, softmax_lse_flag=1
    )
    for first, end, key, key_end in ((0, 9, 0, 14), (9, 30, 20, 50)):
        own = (x.swapaxes(0, 1) for x in (q[first:end], k[key:key_end], v[key:key_end]))
        allowed = _seen(end - first, key_end - key, -np.inf, key_end - key - end + first)
        wanted, logs = _formula(*own, allowed)
        _close(found[first:end], wanted.swapaxes(0, 1))
        _close(sums[first:end], logs.swapaxes(0, 1))


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_pages_of_a_pool(inner: bool, packed: bool) -> None:
    """Pages lie anywhere, the last of a sequence holds few tokens, what is behind them is never read."""
    page, lengths = 16, [37, 16, 5]
    q, k, v = _operands(3, 1, 48)
    table = np.full((3, 3), -1, np.int32)
    order = iter(RNG.permutation(9))
    pools = [np.full((9, 2, page, x.shape[-1]), np.nan) for x in (k, v)]
    for at, length in enumerate(lengths):
        for number in range(-(-length // page)):
            table[at, number] = place = next(order)
            for pool, x in zip(pools, (k, v), strict=True):
                part = x[at, :, number * page : min(length, (number + 1) * page)]
                pool[place, :, : part.shape[1]] = part
    if not inner:
        pools = [pool.swapaxes(1, 2).reshape(9, page, -1) for pool in pools]
    own = {"layout": "TND", "p5": np.array([1, 2, 3])} if packed else {}
    given = q[:, :, 0] if packed else q
    found, _ = _fused(given, *pools, p6=np.array(lengths), p14=table, block_size=page, **own)
    for at, length in enumerate(lengths):
        wanted, _ = _formula(q[at], k[at, :, :length], v[at, :, :length])
        _close(found[at], wanted[:, 0] if packed else wanted)


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("apart", [False, True])
def test_bytes_of_keys_and_values(mode: int, apart: bool) -> None:
    q, *_ = _operands(2, 1, 30)
    k, v = (RNG.integers(-128, 128, (2, 2, 30, 16), np.int8) for _ in range(2))
    shape = (2, 16) if mode == 0 else (2, 30)
    scales, offsets = ((RNG.random((2, *shape)) + low).astype(np.float32) for low in (0.01, -2))
    wide = (2, 1, 16) if mode == 0 else (2, 1, 30, 1)
    spread = [
        (x + own.reshape(wide)) * scale.reshape(wide)
        for x, own, scale in zip((k, v), offsets, scales, strict=True)
    ]
    q = q.astype(np.float32) * np.float32(0.05)
    wanted, _ = _formula(q.astype(np.float64), *(x.astype(np.float64) for x in spread))
    if apart:
        more = {"p17": scales[0], "p18": offsets[0], "p19": scales[1], "p20": offsets[1]}
        more |= {"key_antiquant_mode": mode, "value_antiquant_mode": mode}
    else:
        more = {"p12": scales, "p13": offsets, "antiquant_mode": mode}
    found, _ = _fused(q, k, v, **more)
    np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-3)


def test_rotated_parts_of_latent_keys() -> None:
    """Values are the latent part of the keys, one head of which serves all."""
    q, k, _ = _operands(2, 1, 50, heads=8, shared=1, size=32)
    q_rope, k_rope = RNG.standard_normal((2, 8, 1, 8)), RNG.standard_normal((2, 1, 50, 8))
    wanted, _ = _formula(np.concatenate([q, q_rope], -1), np.concatenate([k, k_rope], -1), k)
    found, _ = _fused(q, k, k, heads=8, shared=1, p24=q_rope, p25=k_rope)
    _close(found, wanted)


@pytest.mark.parametrize("shape", [(6, 40), (2, 6, 40), (2, 1, 6, 40), (1, 1, 6, 40)])
def test_masks_as_given(shape: tuple[int, ...]) -> None:
    q, k, v = _operands(2, 6, 40)
    mask = RNG.random(shape) < 0.5
    mask[..., 3, :] = True  # a query that sees nothing
    spread = mask.reshape(-1, 1, 6, 40)
    for own in (k, v):
        assert own.shape[2] == 40
    found, sums = _fused(q, k, v, None, mask, sparse_mode=1, softmax_lse_flag=1)
    _close(found, _formula(q, k, v, ~spread)[0])
    assert not found[:, :, 3].any()
    assert np.isinf(sums[:, :, 3]).all()


def test_a_shift_is_added_behind_the_factor() -> None:
    q, k, v = _operands(2, 6, 40)
    shift = RNG.standard_normal((1, 4, 6, 40))
    _close(_fused(q, k, v, shift)[0], _formula(q, k, v, shift=shift)[0])


def test_the_kernels_of_one_phase_are_the_same() -> None:
    """A step of decoding by IncreFlashAttention, a prompt by PromptFlashAttention."""
    q, k, v = _operands(2, 1, 40)
    numbers = {"num_heads": 4, "num_key_value_heads": 2, "input_layout": "BNSD", "scale_value": 0.25}
    mask = RNG.random((2, 40)) < 0.5
    found = run("IncreFlashAttention", [q, k, v, None, mask, np.array([40, 31])], 1, "ascend", **numbers)[0]
    allowed = ~mask[:, None, None] & (np.arange(40) < np.array([40, 31]).reshape(2, 1, 1, 1))
    _close(found, _formula(q, k, v, allowed)[0])
    q, k, v = _operands(2, 6, 40)
    triangle = np.zeros((6, 40), bool)
    found = run("PromptFlashAttention", [q, k, v, None, triangle], 1, "ascend", **numbers)[0]
    _close(found, _formula(q, k, v, _seen(6, 40, -np.inf, 0))[0])  # next_tokens is 0 by default


def _infer(shapes: Any, lengths: Any = None, **options: Any) -> Any:
    graph = Graph()
    types = {5: DType.INT64, 6: DType.INT64, 14: DType.INT32}
    inputs: list[Any] = [
        None if shape is None else graph.add_input(f"x{at}", types.get(at, DType.FLOAT16), shape)
        for at, shape in enumerate(shapes)
    ]
    for port, values in (lengths or {}).items():
        inputs += [None] * (port + 1 - len(inputs))
        inputs[port] = graph.add_constant(f"x{port}", np.array(values))
    node = graph.add_node("FusedInferAttentionScore", inputs, ["y0", "y1"], domain="ascend", **options)
    definition = default_opset().get(node)
    definition.check_inputs(node)
    definition.infer(InferContext(node))
    return [tensor.shape for tensor in node.outputs]


def test_shapes() -> None:
    numbers = {"num_heads": 8, "num_key_value_heads": 2, "softmax_lse_flag": 1}
    shapes = [("b", "s", 128), ("b", "t", 32), ("b", "t", 32)]
    assert _infer(shapes, **numbers) == [("b", "s", 128), ("b", 8, "s", 1)]
    packed = [("t", 8, 16), (9, 32, 32), (9, 32, 32), None, None, None, None, *[None] * 7, (4, 5)]
    found = _infer(packed, {5: [1], 6: [1]}, input_layout="TND", **numbers)
    assert found == [("t", 8, 16), ("t", 8, 1)]
    swapped = [(2, 8, 5, 16), (2, 2, 7, 16), (2, 2, 7, 24)]
    assert _infer(swapped, input_layout="BNSD_BSND", **numbers)[0] == (2, 5, 8, 24)


@pytest.mark.parametrize(
    ("shapes", "lengths", "options", "message"),
    [
        (
            [(2, 5, 128)] * 3,
            {},
            {"num_heads": 8, "num_key_value_heads": 3},
            "multiple of num_key_value_heads",
        ),
        ([(2, 5, 128)] * 3, {}, {"input_layout": "SBH"}, "out of BSH, BSND"),
        ([(2, 5, 128), (2, 5, 64), (2, 5, 128)], {}, {}, "keys of the queries' batch and size"),
        ([(2, 5, 128)] * 3, {6: [5, 5, 5]}, {}, "a length for each of 2 sequences"),
        ([(2, 5, 128)] * 3, {6: [5, 6]}, {}, "lengths from 0 to 5"),
        ([(7, 8, 16)] * 3, {}, {"input_layout": "TND"}, "actual_seq_lengths for layout TND"),
        ([(7, 8, 16)] * 3, {5: [4, 3]}, {"input_layout": "TND"}, "ends of sequences that rise"),
        (
            [(2, 8, 1, 16), (9, 3, 32, 16), (9, 3, 32, 16), *[None] * 11, (2, 4)],
            {6: [3, 3]},
            {"input_layout": "BNSD"},
            "with num_key_value_heads = 8 heads",
        ),
        ([(2, 5, 128)] * 3, {}, {"sparse_mode": 5}, "sparse_mode of 0 to 4"),
        ([(2, 5, 128)] * 3, {}, {"sparse_mode": 1}, "needs a mask for sparse_mode 1"),
        ([(2, 5, 128)] * 3 + [None] * 4 + [(1,)], {}, {}, "has no form with dequant_scale1"),
        ([(2, 5, 128)] * 3 + [None] * 9 + [(2, 128)], {}, {}, "with int8, and only then"),
    ],
)
def test_what_cannot_be_is_refused(shapes: Any, lengths: Any, options: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        _infer(shapes, lengths, **{"num_heads": 8, **options})
