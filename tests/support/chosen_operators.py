"""How operators whose templates make whole stages, or that ask for what no other work has, are shared among
the cores of whole chips, as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import AscendSimError
from ascendsim.graph.ir import Tensor
from ascendsim.lower.program import Lowering
from ascendsim.soc import load
from tests.support.chosen_shares import stage_text
from tests.support.listed_stages import asked

CHIPS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Ascend310", {}),
    ("Ascend310P3", {}),
    ("Ascend910A", {}),
    ("Ascend910B1", {}),
    ("Ascend910B", {}),
    ("Ascend910B4", {"vector_frequency_mhz": 700, "buffers.ub": 128 << 10}),
    ("Ascend910B1", {"vector_cores": 24}),
    ("Ascend910B1", {"vector_cores": 12}),
)
HALF, FULL = DType.FLOAT16, DType.FLOAT32


def operators(name: str) -> str:
    """A table of one of `OPERATORS` on all chips."""
    rows = []
    for make in (make for make in OPERATORS if make.__name__ == name):
        for chip, changes in CHIPS:
            soc = load(chip, changes)
            b = asim.GraphBuilder(dtype=HALF)
            try:
                made = make(b)
                b.output(made[0] if isinstance(made, tuple) else made, "y")
                work = asked(b.build(), soc)
                found = "".join(map(stage_text, Lowering(soc).stages(work)))
            except AscendSimError:
                found = "    refused\n"
            changed = "".join(f", {key} {value}" for key, value in changes.items())
            rows.append(f"{chip}{changed}: {make.__name__.replace('_', ' ')}\n{found}")
    return "".join(rows)


def _attention(b: asim.GraphBuilder, queries: int, keys: int, heads: int, **more: int) -> tuple[Tensor, ...]:
    q, k, v = (
        b.input(name, (2, heads, size, 128)) for name, size in (("q", queries), ("k", keys), ("v", keys))
    )
    mask = [b.input("mask", (2048, 2048), DType.BOOL)] if more else []
    given = (q, k, v, None, None, None, *mask)
    numbers: dict[str, Any] = {"scale_value": 0.1, "head_num": heads, "input_layout": "BNSD", **more}
    return tuple(b.ops("FlashAttentionScore", *given, outputs=4, domain="ascend", **numbers))[3:]


def attention_of_long_rows(b: asim.GraphBuilder) -> tuple[Tensor, ...]:
    return _attention(b, 1000, 1500, 5)


def attention_that_sees_what_came_before(b: asim.GraphBuilder) -> tuple[Tensor, ...]:
    return _attention(b, 700, 700, 16, sparse_mode=3)


def attention_of_few_rows(b: asim.GraphBuilder) -> tuple[Tensor, ...]:
    return _attention(b, 40, 90, 3)


def one_query(b: asim.GraphBuilder) -> tuple[Tensor, ...]:
    q = b.input("q", (5, 8, 1, 128))
    k, v = (b.input(name, (5, 2, 3000, 128)) for name in "kv")
    numbers: dict[str, Any] = {"num_heads": 8, "num_key_value_heads": 2, "input_layout": "BNSD", "scale": 0.1}
    return tuple(b.ops("FusedInferAttentionScore", q, k, v, outputs=2, domain="ascend", **numbers))


def weights_of_eight_bits(b: asim.GraphBuilder) -> Tensor:
    x, w = b.input("x", (70, 1000)), b.weight("w", (1000, 3000), dtype=DType.INT8)
    s = b.constant(np.ones(3000, np.float16), "s")
    return b.op("WeightQuantBatchMatmulV2", x, w, s, domain="ascend")


def product_of_bytes(b: asim.GraphBuilder) -> Tensor:
    x, w = b.input("x", (500, 1024), DType.INT8), b.weight("w", (1024, 2000), dtype=DType.INT8)
    s, t = b.constant(np.ones(2000, np.float32), "s"), b.input("t", (500,), FULL)
    return b.op("QuantBatchMatmulV3", x, w, s, None, None, t, domain="ascend", dtype=HALF)


def softmax(b: asim.GraphBuilder) -> Tensor:
    return b.op("Softmax", b.input("x", (3000, 700)), axis=-1)


def softmax_of_long_rows(b: asim.GraphBuilder) -> Tensor:
    return b.op("Softmax", b.input("x", (40, 90_000)), axis=-1)


def layer_norm(b: asim.GraphBuilder) -> Tensor:
    return b.op("LayerNormalization", b.input("x", (900, 768)), b.weight("g", (768,)), b.weight("c", (768,)))


def transpose(b: asim.GraphBuilder) -> Tensor:
    return b.op("Transpose", b.input("x", (30, 70, 90)), perm=[2, 0, 1])


def gather(b: asim.GraphBuilder) -> Tensor:
    return b.op("Gather", b.weight("w", (3000, 96)), b.input("i", (700,), DType.INT32))


def concat(b: asim.GraphBuilder) -> Tensor:
    return b.op("Concat", b.input("x", (50, 40, 30)), b.input("z", (50, 7, 30)), axis=1)


def argmax(b: asim.GraphBuilder) -> Tensor:
    return b.op("ArgMax", b.input("x", (90, 3000), FULL), axis=-1, keepdims=0)


def max_pool(b: asim.GraphBuilder) -> Tensor:
    return b.op("MaxPool", b.input("x", (3, 40, 57, 57)), kernel_shape=[3, 3], strides=[2, 2])


def resize(b: asim.GraphBuilder) -> Tensor:
    scales = b.constant(np.array([1, 1, 2, 2], np.float32))
    return b.op("Resize", b.input("x", (2, 20, 30, 30)), None, scales, mode="linear")


def sum_of_columns(b: asim.GraphBuilder) -> Tensor:
    return b.op("ReduceSum", b.input("x", (5000, 300)), np.array([0]), keepdims=0)


def sorted_rows(b: asim.GraphBuilder) -> tuple[Tensor, ...]:
    return tuple(b.ops("TopK", b.input("x", (60, 900)), np.array([20]), outputs=2))


def recurrent(b: asim.GraphBuilder) -> tuple[Tensor, ...]:
    w, r = b.weight("w", (1, 4 * 96, 64)), b.weight("r", (1, 4 * 96, 96))
    return tuple(b.ops("LSTM", b.input("x", (20, 8, 64)), w, r, outputs=3, hidden_size=96))


OPERATORS: tuple[Callable[[asim.GraphBuilder], Tensor | tuple[Tensor, ...]], ...] = (
    attention_of_long_rows,
    attention_that_sees_what_came_before,
    attention_of_few_rows,
    one_query,
    weights_of_eight_bits,
    product_of_bytes,
    softmax,
    softmax_of_long_rows,
    layer_norm,
    transpose,
    gather,
    concat,
    argmax,
    max_pool,
    resize,
    sum_of_columns,
    sorted_rows,
    recurrent,
)
