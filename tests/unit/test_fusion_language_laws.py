"""What the rules for a language model's layer ask, one condition at a time: a graph that misses just that one
stays as it is, with the reason; at its limit the rule acts and values stay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Tensor
from ascendsim.passes.fusion.rule import FusionRule
from ascendsim.passes.fusion.rules import all_rules
from tests.support.fusing import build, fused, random
from tests.support.language_graphs import LANGUAGE

RULES = {rule.name: rule for rule in all_rules()}
Body = Callable[[GraphBuilder], Any]
ROWS = (2, 3, 8)


def outcome(rule: FusionRule, body: Body, generation: str = "c220") -> str | None:
    """Why a rule does not act on a graph; None if it does, and then values stay."""
    result = fused(build(body), rule, generation=generation)
    _matched, effected = result.counts.get(rule.name, (0, 0))
    if effected:
        assert result.error <= 2e-3
        return None
    return result.reason if result.reasons else "not recognised"


NOWHERE = "CANN has no such kernel on this chip"
CHIPS = {  # generations that have the kernel, and a reason that stands before it on others
    "AddRmsNormDynamicQuantFusionPass": ("c220",),
    "RmsNormDynamicQuantFusionPass": ("c220",),
    **dict.fromkeys(
        (
            "RmsNormFusionPass",
            "AddRmsNormFusionGraphPass",
            "AddRmsNormQuantFusionPass",
            "SwiGluFusionPass",
            "GateUpSwiGluFusionPass",
            "RotaryPositionEmbeddingFusionPass",
            "ApplyRotaryPosEmbFusionPass",
            "RotaryEmbeddingFusionPass",
        ),
        ("c220", "m200"),
    ),
}


@pytest.mark.parametrize("name", CHIPS)
@pytest.mark.parametrize("generation", ["c220", "m200", "v100", "m300"])
def test_kernels_are_those_of_the_chip(name: str, generation: str) -> None:
    found = outcome(RULES[name], LANGUAGE[name], generation)
    assert found == (None if generation in CHIPS[name] else NOWHERE)


# ---- norms


def norm(
    b: GraphBuilder,
    axes: Any = (-1,),
    gamma: tuple[int, ...] = (8,),
    two: float = 2.0,
    epsilon: Any = 1e-3,
    keepdims: int = 1,
    power: float | None = None,
    one: float = 1.0,
    shape: tuple[int, ...] = ROWS,
    kind: Any = np.float32,
    gammas: Any = np.float32,
) -> Tensor:
    x = b.op("Neg", b.input("x", shape, DType.of(np.dtype(kind))))
    over = b.input("axes", (1,), DType.INT64) if axes is None else b.constant(list(axes), "axes")
    mean = b.op("ReduceMean", b.op("Pow", x, b.constant(kind(two), "two")), over, keepdims=keepdims)
    held = b.input("e", ()) if epsilon is None else b.constant(np.asarray(epsilon, kind), "epsilon")
    shifted = b.op("Add", mean, held)
    if power is not None:
        inverse = b.op("Pow", shifted, b.constant(kind(power), "minus_half"))
    else:
        inverse = b.op("Div", b.constant(kind(one), "one"), b.op("Sqrt", shifted))
    return b.op("Mul", b.constant(random(*gamma, dtype=gammas), "gamma"), b.op("Mul", x, inverse))


LAST, WIDTH = "the mean is not over the last axes", "gamma is not one value for each normalised element"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, None),
        ({"axes": (2,)}, None),
        ({"axes": (1, 2), "gamma": (3, 8)}, None),
        ({"axes": (2, 1), "gamma": (3, 8)}, None),
        ({"axes": (0, 1, 2), "gamma": ROWS}, None),
        ({"axes": (1,), "gamma": (8,)}, LAST),
        ({"axes": (0, 2), "gamma": (8,)}, LAST),
        ({"axes": (1, 2), "gamma": (8,)}, WIDTH),
        ({"gamma": (1,)}, WIDTH),
        ({"gamma": (3, 8)}, WIDTH),
        ({"gamma": (1, 8)}, WIDTH),
        ({"gamma": (4, 1, 1, 8)}, "the result has another shape"),
        ({"two": 3.0}, "two is not the number 2"),
        ({"one": 2.0}, "one is not the number 1"),
        ({"power": -0.5}, None),
        ({"power": -1.0}, "minus_half is not the number -0.5"),
        ({"epsilon": None}, "not recognised"),
        ({"epsilon": [1e-3]}, None),
        ({"epsilon": [[1e-3]] * 3}, "epsilon is not one known number"),
        ({"kind": np.float16, "gammas": np.float16}, None),
        ({"kind": np.float64, "gammas": np.float64}, "Neg_out is no float32, float16 or bfloat16 tensor"),
    ],
)
def test_norms(options: dict[str, Any], reason: str | None) -> None:
    found = outcome(RULES["RmsNormFusionPass"], lambda b: norm(b, **options))
    assert found == reason or (
        reason is not None and reason.startswith("Neg_out") and "is no float32" in str(found)
    )


def test_a_mean_that_drops_its_axes_is_no_norm_of_rows() -> None:
    found = outcome(RULES["RmsNormFusionPass"], lambda b: norm(b, keepdims=0, shape=(8, 8)))
    assert found == "the mean drops its axes"


def added(
    b: GraphBuilder, gamma: tuple[int, ...] = (8,), other: tuple[int, ...] = ROWS, **attributes: Any
) -> Any:
    total = b.op("Add", b.op("Neg", b.input("x", ROWS)), b.input("y", other))
    return [b.op("RMSNormalization", total, random(*gamma), **attributes), b.op("Neg", total)]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, None),
        ({"axis": 2}, None),
        ({"axis": 1, "gamma": (3, 8)}, None),
        ({"axis": -2, "gamma": (3, 8)}, None),
        ({"other": (3, 8)}, "the sum repeats an operand"),
        ({"other": (1, 3, 8)}, "the sum repeats an operand"),
        ({"other": (8,)}, "the sum repeats an operand"),
        ({"gamma": (1,)}, WIDTH),
        ({"axis": 1, "gamma": (1, 8)}, WIDTH),
        ({"stash_type": 1}, None),
        ({"stash_type": 10}, "its statistics are not float32"),
    ],
)
def test_norms_behind_sums(options: dict[str, Any], reason: str | None) -> None:
    assert outcome(RULES["AddRmsNormFusionGraphPass"], lambda b: added(b, **options)) == reason


def scaled(
    b: GraphBuilder,
    scale: tuple[int, ...] = (1,),
    offset: tuple[int, ...] | None = (1,),
    gamma: tuple[int, ...] = (8,),
    shape: tuple[int, ...] = ROWS,
    **attributes: Any,
) -> Any:
    y, _, total = b.ops(
        "AddRmsNorm", b.op("Neg", b.input("x", shape)), b.input("y", shape), random(*gamma, positive=True),
        outputs=3, domain="ascend",
    )  # fmt: skip
    ports = [random(*scale, positive=True) * 20]
    if offset is not None:
        ports.append(np.full(offset, 3, np.float32))
    return [b.op("AscendQuantV2", y, *ports, domain="ascend", **attributes), b.op("Neg", total)]


NEAREST = "the kernel rounds to the nearest number and scales once"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, None),
        ({"offset": None}, None),
        ({"scale": (8,), "offset": (8,)}, None),
        ({"scale": (8,), "offset": None}, None),
        ({"scale": (8,), "offset": None, "axis": -1}, None),
        ({"scale": (8,), "offset": None, "axis": 2}, None),
        ({"scale": (3,), "offset": None, "axis": 1}, "is not one value a column"),
        ({"scale": (8,), "offset": None, "axis": 1, "shape": (2, 8, 8)}, "scales lie along another axis"),
        ({"round_mode": "floor"}, NEAREST),
        ({"round_mode": "round"}, None),
        ({"sqrt_mode": 1}, NEAREST),
        ({"sqrt_mode": 0}, None),
    ],
)
def test_norms_that_leave_by_known_scales(options: dict[str, Any], reason: str | None) -> None:
    found = outcome(RULES["AddRmsNormQuantFusionPass"], lambda b: scaled(b, **options))
    assert found == reason or (reason is not None and found is not None and found.endswith(reason))


def by_rows(
    b: GraphBuilder, axis: int = -1, gamma: tuple[int, ...] = (8,), summed: bool = True, port: int = 0
) -> Any:
    x = b.op("Neg", b.input("x", ROWS))
    if summed:
        made = b.ops(
            "AddRmsNorm", x, b.input("y", ROWS), random(*gamma, positive=True), outputs=3, domain="ascend"
        )
        return [*b.ops("DynamicQuant", made[port], outputs=2, domain="ascend"), b.op("Neg", made[2])]
    y = b.op("RMSNormalization", x, random(*gamma, positive=True), axis=axis)
    return b.ops("DynamicQuant", y, outputs=2, domain="ascend")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, None),
        ({"gamma": (3, 8)}, "rows of the norm are not those of the scales"),
        ({"port": 2}, "what is made int8 is not the norm"),
    ],
)
def test_norms_that_leave_by_the_largest_of_each_row(options: dict[str, Any], reason: str | None) -> None:
    found = outcome(RULES["AddRmsNormDynamicQuantFusionPass"], lambda b: by_rows(b, **options))
    assert found == reason or (reason is not None and "port" in options and found == "not recognised")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, None),
        ({"axis": 2}, None),
        ({"axis": 1, "gamma": (3, 8)}, "rows of the norm are not those of the scales"),
        ({"gamma": (1,)}, WIDTH),
    ],
)
def test_norms_without_a_sum_that_leave_as_bytes(options: dict[str, Any], reason: str | None) -> None:
    body = lambda b: by_rows(b, summed=False, **options)
    found = fused(build(body), RULES["RmsNormDynamicQuantFusionPass"], generation="c220")
    assert (found.reasons or [None])[0] == reason


# ---- gates


def halves(
    b: GraphBuilder,
    form: str = "swish",
    sizes: Any = None,
    axis: int = -1,
    kind: DType = DType.FLOAT32,
    count: int = 2,
    **attributes: Any,
) -> Tensor:
    x = b.op("Neg", b.input("x", (4, 6, 8), kind))
    if sizes is None:
        first, second, *_ = b.ops("Split", x, outputs=count, axis=axis, num_outputs=count)
    else:
        held = b.input("sizes", (2,), DType.INT64) if sizes == "run" else b.constant(np.array(sizes))
        first, second = b.ops("Split", x, held, outputs=2, axis=axis)
    if form == "glu":
        return b.op("SwiGLU", first, second, **attributes)
    gated = (
        b.op("Swish", first, **attributes) if form == "swish" else b.op("Mul", first, b.op("Sigmoid", first))
    )
    return b.op("Mul", gated, second)


@pytest.mark.parametrize("form", ["swish", "glu", "sigmoid"])
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, None),
        ({"axis": 1}, None),
        ({"axis": 0}, None),
        ({"sizes": (4, 4)}, None),
        ({"count": 4}, "the parts are not two halves"),
        ({"kind": DType.FLOAT64}, "is no float32, float16 or bfloat16 tensor"),
        ({"alpha": 1.0}, None),
        ({"alpha": 0.5}, "the gate has a factor"),
    ],
)
def test_gates_of_halves(form: str, options: dict[str, Any], reason: str | None) -> None:
    if form == "sigmoid" and "alpha" in options:
        return
    if form == "glu" and options.get("count") == 4:
        reason = "the parts are not two halves"
    found = outcome(RULES["SwiGluFusionPass"], lambda b: halves(b, form, **options))
    assert found == reason or (reason is not None and found is not None and found.endswith(reason))


def products(
    b: GraphBuilder,
    shape: tuple[int, ...] = (2, 3, 6),
    gate: tuple[int, ...] = (6, 8),
    up: tuple[int, ...] = (6, 8),
    kinds: tuple[Any, Any] = (np.float32, np.float32),
    **attributes: Any,
) -> Tensor:
    x = b.op("Neg", b.input("x", shape))
    first, second = (
        b.op("MatMul", x, b.constant(random(*one, seed=place, dtype=kind)))
        for place, (one, kind) in enumerate(zip((gate, up), kinds, strict=True))
    )
    return b.op("Mul", b.op("Swish", first, **attributes), second)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, None),
        ({"shape": (3, 6)}, None),
        ({"shape": (6,)}, "the weights are no matrices"),
        ({"gate": (2, 6, 8), "up": (2, 6, 8)}, "the weights are no matrices"),
        ({"up": (2, 6, 8)}, "the weights are no matrices"),
        ({"up": (6, 1)}, "the products have different widths"),
        ({"alpha": 2.0}, "the gate has a factor"),
        ({"alpha": 1.0}, None),
    ],
)
def test_gates_of_two_products(options: dict[str, Any], reason: str | None) -> None:
    assert outcome(RULES["GateUpSwiGluFusionPass"], lambda b: products(b, **options)) == reason


# ---- rotary embedding

PARTS = "the parts are not halves of the last axis"
ANGLES = "cosines and sines are not one for each element of the last axis"


def turned(
    b: GraphBuilder,
    shape: tuple[int, ...] = (2, 3, 4, 8),
    bounds: Any = ((0, 4), (4, 8)),
    axis: int = 3,
    steps: int | None = None,
    joined: int = -1,
    cosine: tuple[int, ...] = (2, 1, 4, 8),
    sine: tuple[int, ...] | None = None,
    parts: Any = None,
) -> Tensor:
    x = b.op("Neg", b.input("x", shape))
    if parts is not None:
        first, second, *_ = b.ops("Split", x, b.constant(np.array(parts)), outputs=len(parts), axis=axis)
    else:
        more = [] if steps is None else [b.constant([steps], "steps")]
        first, second = (
            b.op("Slice", x, *(b.constant([item], "bound") for item in (start, end, axis)), *more)
            for start, end in bounds
        )
    partner = b.op("Concat", b.op("Neg", second), first, axis=joined)
    angles = [b.input("cos", cosine), b.input("sin", cosine if sine is None else sine)]
    return b.op("Add", b.op("Mul", x, angles[0]), b.op("Mul", partner, angles[1]))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, None),
        ({"joined": 3}, None),
        ({"axis": -1}, None),
        ({"steps": 1}, None),
        ({"bounds": ((-8, -4), (-4, 99))}, None),
        ({"bounds": ((-99, 4), (4, 2**31 - 1))}, None),
        ({"bounds": ((0, 4), (0, 4))}, PARTS),
        ({"bounds": ((4, 8), (0, 4))}, PARTS),
        ({"bounds": ((0, 2), (2, 8))}, PARTS),
        ({"axis": 2, "joined": 2, "shape": (2, 3, 8, 8), "cosine": (2, 1, 8, 8)}, PARTS),
        ({"parts": (4, 4)}, None),
        ({"parts": (4, 4), "axis": -1}, None),
        ({"parts": (2, 6)}, PARTS),
        ({"parts": (4, 4), "axis": 2, "joined": 2, "shape": (2, 3, 8, 8), "cosine": (2, 1, 8, 8)}, PARTS),
        ({"cosine": (4, 8)}, None),
        ({"cosine": (8,)}, None),
        ({"cosine": (2, 3, 4, 8)}, None),
        ({"cosine": (1, 1, 1, 1)}, ANGLES),
        ({"cosine": (2, 1, 4, 1)}, ANGLES),
        ({"cosine": ()}, ANGLES),
        ({"sine": (1, 1, 4, 8)}, ANGLES),
        ({"cosine": (1, 2, 3, 4, 8)}, ANGLES),
        ({"shape": (1, 3, 4, 8), "cosine": (2, 1, 4, 8)}, "cosines and sines repeat the tensor"),
    ],
)
def test_halves_that_change_places(options: dict[str, Any], reason: str | None) -> None:
    assert outcome(RULES["RotaryPositionEmbeddingFusionPass"], lambda b: turned(b, **options)) == reason


MORE = "they differ in more than the number of heads"


def pair(
    b: GraphBuilder,
    query: tuple[int, ...] = (2, 3, 4, 8),
    key: tuple[int, ...] = (2, 3, 2, 8),
    angles: tuple[int, ...] = (2, 3, 1, 8),
    own: bool = False,
    modes: tuple[int, int] = (0, 0),
) -> list[Tensor]:
    shared = [b.input(name, angles) for name in ("cos", "sin")]
    others = [b.input(f"own_{name}", angles) for name in ("cos", "sin")] if own else shared
    return [
        b.op("RotaryPositionEmbedding", b.op("Neg", b.input(name, shape)), *held, domain="ascend", mode=mode)
        for name, shape, held, mode in zip(("q", "k"), (query, key), (shared, others), modes, strict=True)
    ]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, None),
        ({"angles": (1, 3, 1, 8)}, None),
        ({"query": (6, 4, 8), "key": (6, 2, 8), "angles": (6, 1, 8)}, None),
        ({"query": (6, 4, 8), "key": (6, 2, 8), "angles": (1, 1, 8)}, MORE),
        (
            {"query": (2, 4, 3, 8), "key": (2, 2, 3, 8), "angles": (2, 1, 3, 8)},
            "the kernel wants positions before heads",
        ),
        ({"key": (1, 3, 2, 8), "angles": (1, 3, 1, 8)}, MORE),
        ({"angles": (2, 1, 1, 8)}, MORE),
        ({"own": True}, "not recognised"),
        ({"modes": (0, 1)}, "not recognised"),
    ],
)
def test_queries_and_keys_by_the_same_angles(options: dict[str, Any], reason: str | None) -> None:
    found = outcome(RULES["ApplyRotaryPosEmbFusionPass"], lambda b: pair(b, **options))
    assert found == reason or (reason is not None and found is not None and found.startswith(reason))


def embedded(
    b: GraphBuilder,
    query: tuple[int, ...] = (2, 3, 32),
    key: tuple[int, ...] = (2, 3, 16),
    heads: tuple[int, int] = (4, 2),
    half: int = 4,
    partly: int = 0,
    interleaved: tuple[int, int] = (0, 0),
) -> list[Tensor]:
    caches = [b.constant(random(5, half, seed=place), "cache") for place in (1, 2)]
    places = b.constant(np.array([[0, 3, 2], [4, 1, 1]]), "places")
    results = []
    for name, shape, count, turn in zip(("q", "k"), (query, key), heads, interleaved, strict=True):
        more: dict[str, Any] = {"num_heads": count} if len(shape) == 3 else {}
        more |= {"rotary_embedding_dim": partly} if partly else {}
        x = b.op("Neg", b.input(name, shape))
        results.append(b.op("RotaryEmbedding", x, *caches, places, interleaved=turn, **more))
    return results


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, None),
        ({"heads": (4, 2), "interleaved": (1, 1)}, None),
        ({"interleaved": (0, 1)}, "not recognised"),
        ({"partly": 8}, None),
        ({"partly": 4, "half": 2}, "a part of each head stays as it is"),
        ({"key": (2, 2, 3, 8)}, MORE),
    ],
)
def test_queries_and_keys_of_onnx(options: dict[str, Any], reason: str | None) -> None:
    assert outcome(RULES["RotaryEmbeddingFusionPass"], lambda b: embedded(b, **options)) == reason


def test_each_layers_queries_and_keys_are_a_pair() -> None:
    """A pair stands as long as both do, whatever became of another one."""

    def body(b: GraphBuilder) -> Any:
        results = pair(b)
        shared = [b.graph.tensors[name] for name in ("cos", "sin")]
        for number in range(2):
            results += [
                b.op(
                    "RotaryPositionEmbedding",
                    b.op("Abs", b.input(f"{name}{number}", shape)),
                    *shared,
                    domain="ascend",
                )
                for name, shape in (("q", (2, 3, 4, 8)), ("k", (2, 3, 2, 8)))
            ]
        return results

    result = fused(build(body), RULES["ApplyRotaryPosEmbFusionPass"], generation="c220")
    assert result.counts == {"ApplyRotaryPosEmbFusionPass": (3, 3)}
    assert result.operators["ApplyRotaryPosEmb"] == 3


# ---- norms with centres


def centred(b: GraphBuilder, axes: tuple[Any, Any] = ((-1,), (-1,)), shape: tuple[int, ...] = (6,)) -> Tensor:
    """Each mean over axes, or over all (None)."""
    x = b.op("Neg", b.input("x", shape))
    first, second = (None if one is None else b.constant(list(one), "axes") for one in axes)
    moved = b.op("Sub", x, b.op("ReduceMean", x, first))
    variance = b.op("ReduceMean", b.op("Pow", moved, 2.0), second)
    normal = b.op("Div", moved, b.op("Sqrt", b.op("Add", variance, b.constant(np.float32(1e-3)))))
    gamma = shape[-1:] if axes[0] == (-1,) else shape
    return b.op("Add", b.op("Mul", normal, random(*gamma)), random(*gamma, seed=1))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, None),
        ({"axes": (None, None)}, None),
        ({"axes": (None, None), "shape": (3, 6)}, None),
        ({"axes": ((0, 1), None), "shape": (3, 6)}, None),
        ({"axes": ((-1,), None), "shape": (3, 6)}, "the means are not over the same known axes"),
        ({"axes": (None, (-1,)), "shape": (3, 6)}, "the means are not over the same known axes"),
        ({"axes": ((0,), (0,)), "shape": (6, 6)}, "the means are not over the last axes"),
    ],
)
def test_norms_with_centres(options: dict[str, Any], reason: str | None) -> None:
    assert outcome(RULES["LayerNormONNXFusionPass"], lambda b: centred(b, **options)) == reason


# ---- convolutions that are products


@pytest.mark.parametrize(
    ("shape", "filters", "more", "reason"),
    [
        ((3, 4, 5, 5), (6, 4, 5, 5), {}, None),
        ((3, 4, 1, 1), (6, 4, 1, 1), {}, None),
        ((3, 4, 5), (6, 4, 5), {}, "the shapes are not static ones of planes"),
        ((3, 4, 5, 5), (6, 4, 5, 4), {}, "the filter is not as large as the input"),
        ((3, 4, 5, 5), (6, 2, 5, 5), {"group": 2}, "the convolution has groups"),
        ((3, 4, 5, 5), (6, 4, 5, 5), {"pads": (0, 0, 0, 0)}, None),
        ((3, 4, 5, 5), (6, 4, 5, 5), {"pads": (1, 0, 0, 0)}, "the convolution pads"),
        ((3, 4, 5, 5), (6, 4, 5, 5), {"auto_pad": "VALID"}, None),
        ((3, 4, 5, 5), (6, 4, 5, 5), {"auto_pad": "SAME_UPPER"}, "the convolution pads"),
    ],
)
def test_convolutions_of_one_place_are_products(
    shape: Any, filters: Any, more: Any, reason: str | None
) -> None:
    body = lambda b: b.op("Conv", b.op("Neg", b.input("x", shape)), random(*filters), **more)
    assert outcome(RULES["ConvToFullyConnectionFusionPass"], body, "v100") == reason
