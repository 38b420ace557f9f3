"""Small kernels of language models against the formulas written out row by row, over shapes with tails."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ascendsim.core.errors import GraphError
from ascendsim.opset.work import AiCpuWork, MoveWork, SequenceWork, VectorWork
from tests.support.operator_cases import work_of
from tests.support.single_node import make_node, run

Array = NDArray[Any]
KINDS = ("float32", "float16")
CHIP = "Ascend910B1"


def some(*shape: int, seed: int = 0, kind: Any = np.float32) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(kind)


def op(name: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> list[Array]:
    return run(name, inputs, outputs, "ascend", **attributes)


def work(name: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
    return work_of(make_node(name, inputs, outputs, "ascend", known=False, **attributes), CHIP)


def root_norm(x: Array, gamma: Array, epsilon: float, beta: Array | None = None) -> Array:
    """Row by row with Python's own sums."""
    flat = x.reshape(-1, gamma.size).astype(np.float64)
    rows = [row / math.sqrt(math.fsum(v * v for v in row) / gamma.size + epsilon) for row in flat]
    made = np.array(rows) * gamma.reshape(-1) + (0 if beta is None else beta.reshape(-1))
    return made.reshape(x.shape)


def in_bytes(row: Array) -> tuple[Array, float]:
    """A row by the largest of it; ties of rounding go to the even number."""
    top = max(abs(float(value)) for value in row)
    scale = np.float32(top) / np.float32(127)
    return np.array([round(float(np.float32(v) / scale)) if top else 0 for v in row], np.int8), float(scale)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("shape", "axes"), [((3, 37), (37,)), ((2, 5, 16), (5, 16)), ((1, 1), (1,))])
def test_a_sum_and_its_norm(shape: tuple[int, ...], axes: tuple[int, ...], kind: str) -> None:
    """The sum is rounded to its type, and that is what is normalised."""
    x, y = some(*shape, kind=kind), some(*shape, seed=1, kind=kind)
    gamma, beta = some(*axes, seed=2, kind=kind), some(*axes, seed=3, kind=kind)
    added = (x.astype(np.float32) + y.astype(np.float32)).astype(kind)
    wanted = root_norm(added, gamma, 1e-3)
    exact = {"rtol": 1e-6, "atol": 1e-6} if kind == "float32" else {"rtol": 1e-3, "atol": 1e-3}
    found, rstd, handed = op("AddRmsNorm", x, y, gamma, outputs=3, epsilon=1e-3)
    np.testing.assert_array_equal(handed, added)
    np.testing.assert_allclose(found, wanted, **exact)
    np.testing.assert_allclose(found, rstd * added * gamma, **exact)
    assert rstd.shape == (*shape[: len(shape) - len(axes)], *(1,) * len(axes))
    biased = op("AddRmsNormBias", x, y, gamma, beta, outputs=3, epsilon=1e-3)
    np.testing.assert_allclose(biased[0], wanted + beta, **exact)
    # one after the other is the same, bit by bit
    alone = op("RmsNorm", added, gamma, outputs=2, epsilon=1e-3)
    np.testing.assert_array_equal(alone[0], found)
    np.testing.assert_array_equal(alone[1], rstd)


@pytest.mark.parametrize("kind", KINDS)
def test_norms_that_leave_as_bytes(kind: str) -> None:
    x, y, gamma = some(5, 34, kind=kind), some(5, 34, seed=1, kind=kind), some(34, seed=2, kind=kind)
    scale = np.abs(some(34, seed=3)) + 10
    zero = np.full(34, 3, np.float32)
    y1, y2, added = op("AddRmsNormQuant", x, y, gamma, 1 / scale, 2 / scale, zero, None, outputs=3)
    normed, _, again = op("AddRmsNorm", x, y, gamma, outputs=3)
    np.testing.assert_array_equal(added, again)
    wide = normed.astype(np.float32)
    np.testing.assert_array_equal(y1, np.clip(np.rint(wide / (1 / scale).astype(np.float32) + 3), -128, 127))
    np.testing.assert_array_equal(y2, np.clip(np.rint(wide / (2 / scale).astype(np.float32)), -128, 127))
    once = op("AddRmsNormQuant", x, y, gamma, scale, outputs=3, div_mode=0)
    np.testing.assert_array_equal(once[0], np.clip(np.rint(wide * scale.astype(np.float32)), -128, 127))
    assert once[1].shape == (0,)
    plain = op("RmsNorm", x, gamma, outputs=2)[0].astype(np.float32)
    (static,) = op("RmsNormQuant", x, gamma, None, scale.astype(np.float32), zero)
    np.testing.assert_array_equal(static, np.clip(np.rint(plain * scale.astype(np.float32) + 3), -128, 127))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(4, 37), (2, 3, 16), (1, 1)])
def test_rows_by_their_largest_value(shape: tuple[int, ...], kind: str) -> None:
    x, smooth = some(*shape, kind=kind) * 3, np.abs(some(shape[-1], seed=1, kind=kind)) + 1
    x.reshape(-1, shape[-1])[0] = 0
    for factor in (None, smooth):
        values, scales = op("DynamicQuant", x, factor, outputs=2)
        wide = x.astype(np.float32) * (1 if factor is None else factor.astype(np.float32))
        rows = [in_bytes(row) for row in wide.reshape(-1, shape[-1])]
        np.testing.assert_array_equal(values.reshape(-1, shape[-1]), [row for row, _ in rows])
        np.testing.assert_allclose(scales.reshape(-1), [scale for _, scale in rows], rtol=1e-6)
        assert scales.shape == shape[:-1]


def test_norms_by_their_largest_value_are_the_operators_one_by_one() -> None:
    x, y, gamma, beta = (
        some(*shape, seed=n, kind="float16") for n, shape in enumerate([(3, 34)] * 2 + [(34,)] * 2)
    )
    smooth = np.abs(some(34, seed=5)) + 1
    y1, y2, added, s1, s2 = op("AddRmsNormDynamicQuant", x, y, gamma, None, smooth, beta, outputs=5)
    normed, _, again = op("AddRmsNormBias", x, y, gamma, beta, outputs=3)
    np.testing.assert_array_equal(added, again)
    for made, factor in (((y1, s1), None), ((y2, s2), smooth)):
        for found, wanted in zip(made, op("DynamicQuant", normed, factor, outputs=2), strict=True):
            np.testing.assert_array_equal(found, wanted)
    alone = op("RmsNormDynamicQuant", added, gamma, None, beta, outputs=2)
    np.testing.assert_array_equal(alone[0], y1)
    assert [a.shape for a in op("AddRmsNormDynamicQuant", x, y, gamma, outputs=5)] == [
        *((3, 34), (0,), (3, 34)),
        *((3,), (0,)),
    ]


@pytest.mark.parametrize("mode", ["round", "floor", "ceil", "trunc"])
def test_static_bytes_round_as_they_are_told(mode: str) -> None:
    functions = {"round": round, "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc}
    x, scale, offset = some(3, 5, 8), np.array([9.0, 3, 1, 40, 80], np.float32), some(5, seed=1)
    (found,) = op("AscendQuantV2", x, scale, offset, axis=1, round_mode=mode)
    for place in np.ndindex(x.shape):
        value = np.float32(x[place] * scale[place[1]]) + offset[place[1]]
        assert found[place] == min(127, max(-128, functions[mode](float(value))))
    (twice,) = op("AscendQuantV2", x, scale[:1], sqrt_mode=1)
    (single,) = op("AscendQuantV2", x, scale[:1] * scale[:1])
    np.testing.assert_array_equal(twice, single)


@pytest.mark.parametrize("left", [0, 1])
def test_a_gate_between_two_products_of_bytes(left: int) -> None:
    sums = np.random.default_rng(0).integers(-3000, 3000, (5, 22)).astype(np.int32)
    weight, rows = np.abs(some(22)) * 0.01, np.abs(some(5, 1, seed=1)) + np.float32(0.5)
    whole = np.arange(22, dtype=np.int32)
    smooth = np.abs(some(11, seed=2)) + 1
    dynamic: dict[str, Any] = {"quant_mode": "dynamic", "activate_left": left}
    values, scales = op("DequantSwigluQuant", sums, weight, rows, whole, smooth, outputs=2, **dynamic)
    wide = (sums + whole).astype(np.float64) * weight * rows
    gate, other = (wide[:, :11], wide[:, 11:]) if left else (wide[:, 11:], wide[:, :11])
    made = gate * (0.5 + 0.5 * np.tanh(gate / 2)) * other * smooth
    np.testing.assert_allclose(scales, np.abs(made).max(axis=1) / 127, rtol=1e-5)
    np.testing.assert_allclose(values * scales[:, None], made, atol=float(scales.max()) * 0.501)
    single = np.array([0.25], np.float32), np.array([2.0], np.float32)
    static, empty = op("DequantSwigluQuant", sums, weight, rows, None, *single, outputs=2, activate_left=left)
    wide = sums * weight.astype(np.float64) * rows
    gate, other = (wide[:, :11], wide[:, 11:]) if left else (wide[:, 11:], wide[:, :11])
    made = np.clip(gate / (1 + np.exp(-gate)) * other / 0.25 + 2, -128, 127)
    assert np.abs(static - made).max() <= 0.5001
    assert empty.shape == (0,)


def test_gelu_gates_the_other_half() -> None:
    x = some(3, 6, 4).astype(np.float64)
    first, second = x[:, :3], x[:, 3:]
    for approximate, left in ((0, 0), (1, 1)):
        gate, other = (first, second) if left else (second, first)
        exact = np.vectorize(lambda v: v * 0.5 * math.erfc(-v / math.sqrt(2)))(gate)
        found, made = op("GeGluV2", x, outputs=2, dim=1, approximate=approximate, activate_left=left)
        np.testing.assert_allclose(made, exact, atol=1e-12 if not approximate else 1e-3)
        np.testing.assert_allclose(found, made * other, rtol=1e-12)


def test_gelu_by_erf_takes_the_steps_of_erf() -> None:
    """Each function has steps of its own: by tanh with two exponents, by erf as a quotient of polynomials."""

    def steps(approximate: int) -> list[tuple[str, int]]:
        made = work("GeGluV2", some(3, 8), outputs=2, approximate=approximate)
        assert isinstance(made, VectorWork)
        return [(step.op, step.count) for step in made.steps]

    assert ("vexp", 1) in steps(1)
    assert not [name for name, _ in steps(0) if name == "vexp"]
    assert sum(count for _, count in steps(0)) > sum(count for _, count in steps(1))


def turned(x: Array, angles: Array, mode: str) -> Array:
    """Pairs as complex numbers, times e^(i angle)."""
    if mode == "quarter":
        half = x.shape[-1] // 2
        parts = (turned(x[..., s], angles[..., s], "half") for s in (slice(half), slice(half, None)))
        return np.concatenate(list(parts), axis=-1)
    pairs = slice(0, None, 2) if mode == "interleave" else slice(0, x.shape[-1] // 2)
    others = slice(1, None, 2) if mode == "interleave" else slice(x.shape[-1] // 2, None)
    numbers = (x[..., pairs] + 1j * x[..., others]) * np.exp(1j * angles[..., pairs])
    result = np.empty_like(x)
    result[..., pairs], result[..., others] = numbers.real, numbers.imag
    return result


def angles_of(shape: tuple[int, ...], mode: str) -> Array:
    """Angles in full: both partners have the same."""
    size = shape[-1]
    if mode == "quarter":
        return np.concatenate([angles_of((*shape[:-1], size // 2), "half")] * 2, axis=-1)
    half = some(*shape[:-1], size // 2, seed=9).astype(np.float64)
    return np.repeat(half, 2, -1) if mode == "interleave" else np.concatenate([half, half], -1)


@pytest.mark.parametrize("mode", ["half", "interleave", "quarter"])
@pytest.mark.parametrize(
    ("layout", "query", "key", "angles"),
    [
        (1, (2, 3, 4, 12), (2, 3, 1, 12), (1, 3, 1, 12)),
        (2, (3, 2, 4, 12), (3, 2, 5, 12), (3, 2, 1, 12)),
        (3, (2, 4, 3, 12), (2, 1, 3, 12), (2, 1, 3, 12)),
        (4, (6, 4, 12), (6, 2, 12), (6, 1, 12)),
    ],
)
def test_queries_and_keys_are_turned_at_once(
    layout: int, query: Any, key: Any, angles: Any, mode: str
) -> None:
    q, k, a = some(*query).astype(np.float64), some(*key, seed=1).astype(np.float64), angles_of(angles, mode)
    made = op("ApplyRotaryPosEmb", q, k, np.cos(a), np.sin(a), outputs=2, layout=layout, rotary_mode=mode)
    for found, x in zip(made, (q, k), strict=True):
        np.testing.assert_allclose(found, turned(x, np.broadcast_to(a, x.shape), mode), rtol=1e-12)


@pytest.mark.parametrize("normed", [0, 1, 2])
def test_queries_keys_and_values_are_split_normalised_and_turned(normed: int) -> None:
    """Without weights, with them, and with what is added."""
    rows, head, heads, kept = 5, 10, 3, 2
    qkv, a = some(rows, (heads + 2 * kept) * head), angles_of((rows, 1, head), "half").astype(np.float32)
    factors = [some(head, seed=n) for n in range(4)][: 2 * normed]
    sizes = {"q_hidden_size": heads * head, "kv_hidden_size": kept * head, "head_dim": head, "eps": 1e-3}
    made = op("split_qkv_rmsnorm_rope", qkv, np.cos(a[:, 0]), np.sin(a[:, 0]), *factors, outputs=3, **sizes)
    for number, count in ((0, heads), (1, kept)):
        first = 0 if number == 0 else heads * head
        part = qkv[:, first : first + count * head].reshape(rows, count, head)
        if normed:
            part = root_norm(part, factors[number], 1e-3, factors[2 + number] if normed == 2 else None)
        wanted = turned(part.astype(np.float64), np.broadcast_to(a, part.shape), "half")
        np.testing.assert_allclose(made[number], wanted.reshape(rows, -1), atol=1e-5)
    np.testing.assert_array_equal(made[2], qkv[:, (heads + kept) * head :])


@pytest.mark.parametrize("kind", ["float16", "int8"])
def test_new_tokens_go_to_their_slots(kind: str) -> None:
    key, value = (np.arange(40).reshape(5, 2, 4) + first for first in (1, 60))
    pools = np.zeros((3, 4, 2, 4)), -np.ones((3, 4, 2, 4))
    given = [array.astype(kind) for array in (key, value, *pools)]
    slots = np.array([7, 0, -1, 11, 4], np.int64)
    keys, values = op("ReshapeAndCache", *given, slots, outputs=2)
    for pool, new, before in ((keys, key, pools[0]), (values, value, pools[1])):
        wanted = before.copy()
        for token, slot in enumerate(slots):
            if slot >= 0:
                wanted[slot // 4, slot % 4] = new[token]
        np.testing.assert_array_equal(pool, wanted.astype(kind))
    other = op("ScatterPaKvCache", given[0], given[2], slots, given[1], given[3], outputs=2)
    np.testing.assert_array_equal(other[0], keys)
    np.testing.assert_array_equal(other[1], values)
    with pytest.raises(GraphError, match="slots below 12"):
        op("ReshapeAndCache", *given, slots + 8, outputs=2)
    bytes = work("ReshapeAndCache", *given, slots, outputs=2)
    assert isinstance(bytes, MoveWork)
    assert sum(copy.bytes for copy in bytes.copies) == given[0].nbytes + given[1].nbytes  # not the pools


def test_scores_and_the_best_experts() -> None:
    x = some(6, 13).astype(np.float64)
    finished = np.array([False, True, False, False, False, False])
    y, experts, rows = op("MoeGatingTopKSoftmax", x, finished, outputs=3, k=4)
    for token, scores in enumerate(x):
        total = math.fsum(math.exp(s) for s in scores)
        best = sorted(range(13), key=lambda e: (-scores[e], e))[:4]
        np.testing.assert_allclose(y[token], [math.exp(scores[e]) / total for e in best], rtol=1e-12)
        assert list(experts[token]) == ([13] * 4 if finished[token] else best)
        assert list(rows[token]) == [token + 6 * choice for choice in range(4)]


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("norm", [0, 1])
def test_groups_of_experts(norm: int, mode: int) -> None:
    """DeepSeek's router: groups first, with a bias that says who is chosen and not how much he counts."""
    x, bias = some(5, 16).astype(np.float64), some(16, seed=1).astype(np.float64)
    more = {"k": 3, "k_group": 2, "group_count": 4, "group_select_mode": mode, "norm_type": norm}
    factor = {"routed_scaling_factor": 2.5, "eps": 1e-3, "out_flag": 1, "renorm": mode}
    y, experts, out = op("MoeGatingTopK", x, bias, outputs=3, **more, **factor)
    for token, scores in enumerate(x):
        total = math.fsum(math.exp(s) for s in scores)
        shares = [1 / (1 + math.exp(-s)) if norm else math.exp(s) / total for s in scores]
        ranked = [s + b for s, b in zip(shares, bias, strict=True)]
        groups = [sorted(ranked[4 * g : 4 * g + 4], reverse=True)[: 1 + mode] for g in range(4)]
        kept = sorted(range(4), key=lambda g: -sum(groups[g]))[:2]
        best = sorted((e for e in range(16) if e // 4 in kept), key=lambda e: -ranked[e])[:3]
        divisor = sum(shares[e] for e in best) + 1e-3 if norm or mode else 1
        assert list(experts[token]) == best
        np.testing.assert_allclose(y[token], [shares[e] / divisor * 2.5 for e in best], rtol=1e-6)
        np.testing.assert_allclose(out[token], shares, rtol=1e-6)


CHOSEN = np.array([[0, 2], [4, 1], [2, 4], [2, 0], [5, 2]], np.int32)


def test_tokens_sorted_by_expert_and_brought_back() -> None:
    x = some(5, 8)
    flags = {"expert_num": 6, "expert_tokens_count_or_cumsum_flag": 2}
    expanded, places, counts, empty = op("MoeInitRoutingV2", x, CHOSEN, outputs=4, **flags)
    pairs = sorted((int(e), 2 * t + c) for t, row in enumerate(CHOSEN) for c, e in enumerate(row))
    np.testing.assert_array_equal(expanded, [x[pair // 2] for _, pair in pairs])
    assert [int(places[pair]) for _, pair in pairs] == list(range(10))
    assert list(counts) == [2, 1, 4, 0, 2, 1]
    assert empty.shape == (0,)
    sums = op("MoeInitRoutingV2", x, CHOSEN, outputs=4, expert_num=6, expert_tokens_count_or_cumsum_flag=1)[2]
    assert list(sums) == [2, 3, 7, 7, 9, 10]
    few = op("MoeInitRoutingV2", x, CHOSEN, outputs=4, active_num=3)[0]
    np.testing.assert_array_equal(few, expanded[:3])
    # experts that do nothing, weights that add up to one: the tokens themselves
    shares = np.abs(some(5, 2, seed=1))
    shares /= shares.sum(1, keepdims=True)
    (back,) = op("MoeFinalizeRoutingV2", expanded, places, None, None, None, shares, drop_pad_mode=2)
    np.testing.assert_allclose(back, x, rtol=1e-5)
    by_choice = places.reshape(5, 2).T.reshape(-1)
    (turned_back,) = op("MoeFinalizeRoutingV2", expanded, by_choice, None, None, None, shares)
    np.testing.assert_array_equal(turned_back, back)
    bias, x1, x2 = some(6, 8, seed=2), some(5, 8, seed=3), some(5, 8, seed=4)
    all_given = (expanded, places, x1, x2, bias, shares, CHOSEN)
    (whole,) = op("MoeFinalizeRoutingV2", *all_given, drop_pad_mode=2)
    wanted = x + x1 + x2 + (bias[CHOSEN] * shares[..., None]).sum(1)
    np.testing.assert_allclose(whole, wanted, rtol=1e-4, atol=1e-5)


def test_experts_without_room_drop_tokens() -> None:
    x = some(5, 8)
    dropping = {"expert_num": 6, "expert_capacity": 2, "drop_pad_mode": 1}
    more = {"expert_tokens_before_capacity_flag": 1}
    expanded, places, empty, before = op("MoeInitRoutingV2", x, CHOSEN, outputs=4, **dropping, **more)
    assert list(before) == [2, 1, 4, 0, 2, 1]
    assert empty.shape == (0,)
    seen: dict[int, int] = {}
    for pair, expert in enumerate(CHOSEN.reshape(-1)):
        place = seen[int(expert)] = seen.get(int(expert), -1) + 1
        assert places[pair] == (expert * 2 + place if place < 2 else -1)
        if place < 2:
            np.testing.assert_array_equal(expanded[expert, place], x[pair // 2])
    np.testing.assert_array_equal(expanded[3], 0)
    ones = np.ones((5, 2), np.float32)
    (back,) = op("MoeFinalizeRoutingV2", expanded, places, None, None, None, ones, drop_pad_mode=3)
    kept = (places.reshape(5, 2) >= 0).sum(1, keepdims=True)
    np.testing.assert_allclose(back, x * kept, rtol=1e-6)


@pytest.mark.parametrize("descending", [0, 1])
@pytest.mark.parametrize(("shape", "axis"), [((3, 41), -1), ((2, 9, 5), 1)])
def test_sort_keeps_equal_values_in_order(shape: tuple[int, ...], axis: int, descending: int) -> None:
    x = np.round(some(*shape) * 2)
    values, order = op("Sort", x, outputs=2, axis=axis, descending=descending)
    ahead, places = np.moveaxis(values, axis, -1), np.moveaxis(order, axis, -1)
    for row, found, indices in zip(
        *(a.reshape(-1, shape[axis]) for a in (np.moveaxis(x, axis, -1), ahead, places)), strict=True
    ):
        wanted = sorted(range(len(row)), key=lambda i: (-row[i] if descending else row[i], i))
        assert list(indices) == wanted
        np.testing.assert_array_equal(found, row[wanted])


def test_long_rows_are_sorted_in_pieces_that_are_merged() -> None:
    """A vocabulary does not fit into UB: each pass leaves a quarter of the lists."""
    short, long = (work("Sort", np.zeros((2, size), np.float16), outputs=2) for size in (4096, 150_000))
    assert isinstance(short, VectorWork)
    assert isinstance(long, SequenceWork)
    parts = [part for part in long.parts if isinstance(part, VectorWork)]
    assert [part.rows for part in parts] == [74, 20, 6, 2, 1]
    assert all(part.rows * part.cols >= 300_000 for part in parts)


def test_works_move_what_they_must() -> None:
    """Both sums and their norm pass through UB once."""
    x, gamma = np.zeros((16, 64), np.float16), np.zeros(64, np.float16)
    made = work("AddRmsNorm", x, x, gamma, outputs=3)
    assert isinstance(made, VectorWork)
    assert [stream.over for stream in made.inputs] == ["all", "all", "col"]
    assert [stream.over for stream in made.outputs] == ["all", "row", "all"]
    ops = [step.op for step in made.steps]
    assert ops.count("vadd") == 1
    assert ops.count("vcadd") == 1
    bytes = work("AddRmsNormDynamicQuant", x, x, gamma, outputs=5)
    assert [step.op for step in bytes.steps].count("vcmax") == 1
    assert [stream.over for stream in bytes.outputs] == ["all", "all", "row"]
    fused = work(
        *("split_qkv_rmsnorm_rope", np.zeros((4, 64), np.float16), x[:4, :16], x[:4, :16]),
        *(gamma[:16], gamma[:16]),
        **{"outputs": 3, "q_hidden_size": 32, "kv_hidden_size": 16, "head_dim": 16},
    )
    assert fused.cores == "all"
    long = make_node(
        "AddRmsNorm", [x.astype(np.float64)] * 2 + [gamma.astype(np.float64)], 3, "ascend", False
    )
    assert isinstance(work_of(long, CHIP), AiCpuWork)


@pytest.mark.parametrize(
    ("name", "shapes", "outputs", "attributes", "text"),
    [
        ("AddRmsNorm", [(3, 4), (3, 5), (4,)], 3, {}, "needs input 1 of shape"),
        ("AddRmsNorm", [(3, 4), (3, 4), (3,)], 3, {}, "gamma of the shape of the last axes"),
        ("AddRmsNormQuant", [(3, 4), (3, 4), (4,), (3,)], 3, {}, "needs input 3 of shape"),
        ("DynamicQuant", [(3, 4), (3,)], 2, {}, "needs input 1 of shape"),
        ("DynamicQuant", [(3, 4)], 2, {"dst_type": 29}, "can give int8"),
        ("AscendQuantV2", [(3, 4), (3,)], 1, {}, "needs input 1 of shape"),
        ("AscendQuantV2", [(3, 4), (4,)], 1, {"round_mode": "up"}, "a round_mode out of"),
        ("DequantSwigluQuant", [(3, 5)], 2, {"quant_mode": "dynamic"}, "a last axis of even size"),
        ("DequantSwigluQuant", [(3, 4)], 2, {}, "needs quant_scale"),
        ("ApplyRotaryPosEmb", [(2, 3, 4, 6)] * 4, 2, {}, "needs input 2 of shape"),
        ("ApplyRotaryPosEmb", [(2, 3, 4, 6)] * 4, 2, {"layout": 5}, "a layout from 1 to 4"),
        ("MoeGatingTopK", [(3, 8)], 3, {"k": 3, "group_count": 4}, "equal groups"),
        ("MoeGatingTopKSoftmax", [(3, 8)], 3, {"k": 9}, "k from 1 to 8"),
        ("MoeFinalizeRoutingV2", [(6, 4), (6,), None, None, None, (4, 2)], 1, {}, "6 values as input 5"),
    ],
)
def test_what_does_not_fit_is_refused(
    name: str, shapes: list[Any], outputs: int, attributes: dict[str, Any], text: str
) -> None:
    inputs = [None if shape is None else np.zeros(shape, np.float32) for shape in shapes]
    if name.startswith("MoeFinalize"):
        inputs[1] = np.zeros(shapes[1], np.int32)
    with pytest.raises(GraphError, match=text):
        make_node(name, inputs, outputs, "ascend", False, **attributes)
