"""Cases of the small kernels of language models: norms, gates, angles, int8, caches, experts, sampling."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.own_cases import Cases, some


def add_language(cases: Cases) -> None:
    """Those of this file."""
    for write in (_norms, _quantised, _turned, _caches, _experts, _sorted):
        write(cases)


def _norms(cases: Cases) -> None:
    for shape, axes in (((3, 5, 36), (36,)), ((3, 4, 18), (4, 18)), ((7, 20), (20,))):
        x, y = some(*shape), some(*shape, seed=1)
        gamma, beta = some(*axes, seed=2), some(*axes, seed=3)
        scale, zero = some(*axes, positive=True, seed=4) * np.float32(20), some(*axes, seed=5)
        cases.ascend("AddRmsNorm", x, y, gamma, outputs=3, epsilon=1e-3)
        cases.ascend("AddRmsNormBias", x, y, gamma, beta, outputs=3)
        cases.ascend("RmsNormQuant", x, gamma, beta, scale, zero)
        cases.ascend("AddRmsNormQuant", x, y, gamma, 1 / scale, None, zero, outputs=3)
        two = (scale, scale * np.float32(0.5), zero, zero)
        cases.ascend("AddRmsNormQuant", x, y, gamma, *two, beta, outputs=3, div_mode=0)
        cases.ascend("RmsNormDynamicQuant", x, gamma, scale, outputs=2)
        cases.ascend("AddRmsNormDynamicQuant", x, y, gamma, outputs=5)
        cases.ascend("AddRmsNormDynamicQuant", x, y, gamma, scale, zero, beta, outputs=5)
    cases.ascend("AddRmsNorm", x, y, gamma, outputs=3)
    cases.ascend("RmsNormQuant", x, gamma, None, np.array([30], np.float32), epsilon=1e-2)
    for approximate, left in ((0, 0), (1, 1)):
        cases.ascend("GeGluV2", some(3, 20, 8), outputs=2, dim=1, approximate=approximate, activate_left=left)
    cases.ascend("GeGluV2", some(3, 34), outputs=2)


def _quantised(cases: Cases) -> None:
    x = some(3, 5, 36) * np.float32(7)
    cases.ascend("DynamicQuant", x, outputs=2)
    cases.ascend("DynamicQuant", x, some(36, positive=True), outputs=2)
    cases.ascend("DynamicQuant", x.astype(np.float16), outputs=2)
    for axis, size in ((-1, 36), (1, 5), (0, 3)):
        scale, offset = some(size, positive=True) * np.float32(9), some(size, seed=1)
        cases.ascend("AscendQuantV2", x, scale, offset, axis=axis, round_mode="floor")
        cases.ascend("AscendQuantV2", x, scale, axis=axis, sqrt_mode=1)
    cases.ascend(
        "AscendQuantV2", x, np.array([9], np.float32), np.array([2.5], np.float32), round_mode="ceil"
    )
    sums, columns = some(6, 20, dtype=np.int32) * 300, some(20, positive=True) * np.float32(0.01)
    rows, smooth = some(6, 1, positive=True), some(10, positive=True, seed=1)
    dynamic: dict[str, Any] = {"outputs": 2, "quant_mode": "dynamic"}
    whole, real = some(20, dtype=np.int32), some(20, seed=2)
    cases.ascend("DequantSwigluQuant", sums, columns, rows, whole, smooth, **dynamic)
    cases.ascend("DequantSwigluQuant", sums, columns, rows, real, **dynamic, activate_left=1)
    cases.ascend("DequantSwigluQuant", some(3, 5, 36), None, None, None, some(18, positive=True), **dynamic)
    single = np.array([0.02], np.float32), np.array([3], np.float32)
    cases.ascend("DequantSwigluQuant", sums, columns, None, None, *single, outputs=2)


def _turned(cases: Cases) -> None:
    shapes: dict[int, tuple[tuple[int, ...], ...]] = {
        1: ((2, 3, 4, 12), (2, 3, 1, 12), (2, 3, 1, 12)),
        2: ((3, 2, 4, 12), (3, 2, 5, 12), (3, 1, 1, 12)),
        3: ((2, 4, 3, 12), (2, 1, 3, 12), (1, 1, 3, 12)),
        4: ((6, 4, 12), (6, 2, 12), (6, 1, 12)),
    }
    for layout, (query, key, angles) in shapes.items():
        for mode in ("half", "interleave", "quarter"):
            parts = some(*query), some(*key, seed=1), some(*angles, seed=2), some(*angles, seed=3)
            cases.ascend("ApplyRotaryPosEmb", *parts, outputs=2, layout=layout, rotary_mode=mode)
    cases.ascend("ApplyRotaryPosEmb", *(some(*shape) for shape in shapes[1]), some(2, 3, 1, 12), outputs=2)
    sizes = {"q_hidden_size": 24, "kv_hidden_size": 12, "head_dim": 6}
    given = some(5, 48), some(5, 6, seed=1), some(5, 6, seed=2)
    factors = [some(6, seed=number) for number in range(3, 7)]
    cases.ascend("split_qkv_rmsnorm_rope", *given, *factors[:2], outputs=3, **sizes, eps=1e-3)
    cases.ascend("split_qkv_rmsnorm_rope", *given, *factors, outputs=3, **sizes)
    cases.ascend("split_qkv_rmsnorm_rope", *given, outputs=3, **sizes)


def _caches(cases: Cases) -> None:
    for dtype in (np.float16, np.int8):
        new = some(5, 2, 6, dtype=dtype), some(5, 2, 8, dtype=dtype, seed=1)
        pools = some(3, 4, 2, 6, dtype=dtype, seed=2), some(3, 4, 2, 8, dtype=dtype, seed=3)
        slots = np.array([7, 0, -1, 11, 4], np.int32)
        cases.ascend("ReshapeAndCache", *new, *pools, slots, outputs=2)
        cases.ascend("ScatterPaKvCache", new[0], pools[0], slots, new[1], pools[1], outputs=2)


def _experts(cases: Cases) -> None:
    x = some(7, 24)
    cases.ascend("MoeGatingTopKSoftmax", x, outputs=3, k=3)
    cases.ascend("MoeGatingTopKSoftmax", some(2, 5, 24), some(2, 5, dtype=bool), outputs=3)
    groups = {"k": 4, "k_group": 2, "group_count": 4}
    for mode in (0, 1):
        more = {**groups, "group_select_mode": mode, "norm_type": mode, "out_flag": mode}
        factor = {"routed_scaling_factor": 2.5, "eps": 1e-3, "renorm": 1 - mode}
        cases.ascend("MoeGatingTopK", x, some(24, seed=1), outputs=3, **more, **factor)
    cases.ascend("MoeGatingTopK", x, outputs=3)
    chosen = np.array([[0, 2], [4, 1], [2, 4], [2, 0], [5, 2]], np.int32)
    tokens = some(5, 10)
    counted = {"expert_num": 6, "expert_tokens_count_or_cumsum_flag": 1}
    cases.ascend("MoeInitRoutingV2", tokens, chosen, outputs=4)
    cases.ascend("MoeInitRoutingV2", tokens, chosen, outputs=4, active_num=7, **counted)
    dropping = {"expert_num": 6, "expert_capacity": 2, "drop_pad_mode": 1}
    dropping["expert_tokens_before_capacity_flag"] = 1
    cases.ascend("MoeInitRoutingV2", tokens, chosen, outputs=4, **dropping)
    places = np.array([3, 9, 0, 7, 2, 5, 1, 8, 6, 4], np.int32)
    x1, x2, bias, scales = some(5, 8), some(5, 8, seed=1), some(6, 8, seed=2), some(5, 2, seed=3)
    rows = some(10, 8, seed=4)
    cases.ascend("MoeFinalizeRoutingV2", rows, places, x1, x2, bias, scales, chosen, drop_pad_mode=2)
    cases.ascend("MoeFinalizeRoutingV2", rows, places, None, None, None, scales)
    lost = np.where(places == 7, -1, places).astype(np.int32)
    cases.ascend("MoeFinalizeRoutingV2", some(6, 2, 8), lost, x1, None, None, scales, chosen, drop_pad_mode=3)


def _sorted(cases: Cases) -> None:
    tied = np.round(some(4, 40) * 2) / np.float32(2)
    cases.ascend("Sort", tied, outputs=2)
    cases.ascend("Sort", tied.astype(np.float16), outputs=2, descending=1)
    cases.ascend("Sort", some(3, 34, 5, dtype=np.int32), outputs=2, axis=1, descending=1)
