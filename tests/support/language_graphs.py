"""Parts of a language model's layer as files have them, for the rules that make kernels of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Tensor
from tests.support.fusing import random

Body = Callable[[GraphBuilder], "Tensor | Sequence[Tensor]"]
ROWS = (2, 3, 8)


def decomposed_norm(
    b: GraphBuilder, square: str = "Pow", inverse: str = "fraction", cast: bool = False
) -> Tensor:
    """Root-mean-square normalisation as exporters write it; LLaMA's with Casts around the float32 part."""
    kind = DType.FLOAT16 if cast else DType.FLOAT32
    given = b.op("Neg", b.input("x", ROWS, kind))
    x = b.op("Cast", given, to=DType.FLOAT32) if cast else given
    squares = b.op("Mul", x, x) if square == "Mul" else b.op("Pow", x, 2.0)
    shifted = b.op("Add", b.op("ReduceMean", squares, b.constant([-1], "axes")), b.constant(np.float32(1e-3)))
    if inverse == "power":
        normal = b.op("Mul", x, b.op("Pow", shifted, -0.5))
    else:
        root = b.op("Sqrt", shifted)
        if inverse == "quotient":
            normal = b.op("Div", x, root)
        elif inverse == "reciprocal":
            normal = b.op("Mul", x, b.op("Reciprocal", root))
        else:
            normal = b.op("Mul", x, b.op("Div", b.constant(np.float32(1)), root))
    if cast:
        normal = b.op("Cast", normal, to=kind)
    return b.op("Mul", b.constant(random(8, dtype=kind.numpy), "gamma"), normal)


def added_norm(b: GraphBuilder, handed_on: bool = True, **attributes: float) -> list[Tensor]:
    """The residual connection, whose sum goes on beside the norm."""
    total = b.op("Add", b.op("Neg", b.input("x", ROWS)), b.op("Abs", b.input("y", ROWS)))
    norm = b.op("RMSNormalization", total, random(8, positive=True), epsilon=1e-3, **attributes)
    return [b.op("Relu", norm), *([b.op("Neg", total)] if handed_on else [])]


def quantised_norm(b: GraphBuilder, summed: bool, smooth: bool = False) -> list[Tensor]:
    """What makes a norm int8 row by row."""
    gamma = random(8, positive=True)
    x = b.op("Neg", b.input("x", ROWS))
    factors = [random(8, seed=1, positive=True)] if smooth else []
    if not summed:
        norm = b.op("RMSNormalization", x, gamma)
        return b.ops("DynamicQuant", norm, *factors, outputs=2, domain="ascend")
    y, _, total = b.ops("AddRmsNorm", x, b.input("y", ROWS), gamma, outputs=3, domain="ascend")
    return [*b.ops("DynamicQuant", y, *factors, outputs=2, domain="ascend"), b.op("Neg", total)]


def scaled_norm(b: GraphBuilder) -> list[Tensor]:
    """What makes a norm int8 by one known scale."""
    x = b.op("Neg", b.input("x", ROWS))
    y, _, total = b.ops(
        "AddRmsNorm", x, b.input("y", ROWS), random(8, positive=True), outputs=3, domain="ascend"
    )
    scale = np.array([20], np.float32), np.array([3], np.float32)
    return [b.op("AscendQuantV2", y, *scale, domain="ascend"), b.op("Neg", total)]


def gate(b: GraphBuilder, form: str = "sigmoid") -> Tensor:
    """Two products in one, whose first half gates the second."""
    x = b.op("MatMul", b.input("x", (4, 6)), random(6, 16))
    first, second = b.ops("Split", x, outputs=2, axis=-1, num_outputs=2)
    if form == "glu":
        return b.op("SwiGLU", first, second)
    gated = b.op("Swish", first) if form == "swish" else b.op("Mul", first, b.op("Sigmoid", first))
    return b.op("Mul", gated, second)


def two_products(b: GraphBuilder, form: str = "sigmoid", width: int = 8) -> Tensor:
    """Gate and partner by products of their own, as PyTorch's models have them."""
    x = b.op("Neg", b.input("x", (2, 3, 6)))
    first, second = b.op("MatMul", x, random(6, 8)), b.op("MatMul", x, random(6, width, seed=1))
    if form == "glu":
        return b.op("SwiGLU", first, second)
    gated = b.op("Swish", first) if form == "swish" else b.op("Mul", first, b.op("Sigmoid", first))
    return b.op("Mul", gated, second)


def rotated(b: GraphBuilder, slices: bool = True) -> Tensor:
    """Rotate-half as transformers has it."""
    x = b.op("Neg", b.input("x", (2, 3, 4, 8)))
    if slices:
        first, second = (
            b.op("Slice", x, *(b.constant([item], "bound") for item in (start, end, 3)))
            for start, end in ((0, 4), (4, 2**31 - 1))
        )
    else:
        first, second = b.ops("Split", x, outputs=2, axis=3, num_outputs=2)
    partner = b.op("Concat", b.op("Neg", second), first, axis=-1)
    cosine, sine = b.input("cos", (2, 1, 4, 8)), b.input("sin", (2, 1, 4, 8))
    return b.op("Add", b.op("Mul", x, cosine), b.op("Mul", partner, sine))


def turned_pair(b: GraphBuilder, layout: int = 1, mode: int = 0) -> list[Tensor]:
    """Queries and keys by the same angles."""
    shapes = {
        1: ((2, 3, 4, 8), (2, 3, 2, 8), (1, 3, 1, 8)),
        3: ((2, 4, 3, 8), (2, 2, 3, 8), (2, 1, 3, 8)),
        4: ((6, 4, 8), (6, 2, 8), (6, 1, 8)),
    }[layout]
    angles = [b.input(name, shapes[2]) for name in ("cos", "sin")]
    return [
        b.op(
            "RotaryPositionEmbedding", b.op("Neg", b.input(name, shape)), *angles, domain="ascend", mode=mode
        )
        for name, shape in zip(("key", "query"), (shapes[1], shapes[0]), strict=True)
    ]


def embedded_pair(
    b: GraphBuilder, flat: bool = False, interleaved: int = 0, places: bool = True
) -> list[Tensor]:
    """The same with ONNX's operator."""
    shape = (5, 4) if places else (2, 3, 4)
    caches = [b.constant(random(*shape, seed=n), "cache") for n in (1, 2)]
    at = [b.constant(np.array([[0, 3, 2], [4, 1, 1]]), "places")] if places else []
    results = []
    for name, heads in (("query", 4), ("key", 2)):
        x = b.op("Neg", b.input(name, (2, 3, heads * 8) if flat else (2, heads, 3, 8)))
        attributes = {"num_heads": heads} if flat else {}
        results.append(b.op("RotaryEmbedding", x, *caches, *at, interleaved=interleaved, **attributes))
    return results


def shared_attention(b: GraphBuilder) -> Tensor:
    """Two heads of keys for four of queries, as ONNX's Attention is written out."""
    q, k, v = (b.input(name, (1, heads, 6, 16)) for name, heads in (("q", 4), ("k", 2), ("v", 2)))
    wide = [b.op("Expand", b.op("Unsqueeze", one, [2]), [1, 2, 2, 6, 16]) for one in (k, v)]
    key, value = (b.op("Reshape", one, [1, 4, 6, 16]) for one in wide)
    scores = b.op("MatMul", q, b.op("Transpose", key, perm=(0, 1, 3, 2)))
    return b.op("MatMul", b.op("Softmax", b.op("Mul", scores, 0.25), axis=-1), value)


def kept_cache(b: GraphBuilder) -> Tensor:
    """A token behind those of a cache that keeps its size."""
    cache, fresh = b.input("cache", (2, 2, 16, 16)), b.input("fresh", (2, 2, 1, 16))
    return b.op("TensorScatter", cache, b.op("Neg", fresh), b.constant(np.array([4, 9])), axis=2)


# The example of each rule
LANGUAGE: dict[str, Body] = {
    "RmsNormFusionPass": decomposed_norm,
    "AddRmsNormFusionGraphPass": added_norm,
    "AddRmsNormDynamicQuantFusionPass": lambda b: quantised_norm(b, summed=True),
    "RmsNormDynamicQuantFusionPass": lambda b: quantised_norm(b, summed=False),
    "AddRmsNormQuantFusionPass": scaled_norm,
    "SwiGluFusionPass": gate,
    "GateUpSwiGluFusionPass": two_products,
    "RotaryPositionEmbeddingFusionPass": rotated,
    "ApplyRotaryPosEmbFusionPass": turned_pair,
    "RotaryEmbeddingFusionPass": lambda b: embedded_pair(b, flat=True),
    "DecoderAttentionFusionPass": shared_attention,
    "CacheScatterFusionPass": kept_cache,
}
# Further forms
LANGUAGE_FORMS: dict[str, tuple[str, Body]] = {
    "RmsNorm with Casts": ("RmsNormFusionPass", lambda b: decomposed_norm(b, "Mul", "power", cast=True)),
    "Swish of halves": ("SwiGluFusionPass", lambda b: gate(b, "swish")),
    "rotary halves by Split": ("RotaryPositionEmbeddingFusionPass", lambda b: rotated(b, slices=False)),
    "RotaryEmbedding of neighbours": (
        "RotaryEmbeddingFusionPass",
        lambda b: embedded_pair(b, flat=True, interleaved=1),
    ),
}
