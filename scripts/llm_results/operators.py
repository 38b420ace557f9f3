"""Single operators: graphs of one kernel with the shapes of the published rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import ascendsim as asim
from ascendsim import soc as chips
from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Tensor
from ascendsim.llm.attention import COMPRESSED

DIE = "Ascend910_9391"  # a die of the 910C card whose rows these are
B16 = DType.BFLOAT16
Build = Callable[[asim.GraphBuilder], Tensor | Sequence[Tensor]]


def time_us(build: Build, chip: str = DIE, dtype: DType = B16, weights: str = "chip") -> float:
    """Time of a graph of one operator; `weights` says how those of products lie in memory."""
    builder = asim.GraphBuilder("row", dtype=dtype)
    made = build(builder)
    for number, tensor in enumerate([made] if isinstance(made, Tensor) else made):
        builder.output(tensor, f"y{number}")
    model = asim.compile(
        builder.build(),
        chip,
        precision_mode="must_keep_origin_dtype",
        # PyTorch calls the kernels that are installed
        options={"open_shape_kernels": "always", "weight_format": weights},
    )
    return asim.simulate(model).duration_us


def plain(
    op: str,
    *shapes: Sequence[int],
    outputs: int = 1,
    take: int = 0,
    domain: str = "ascend",
    **attributes: Any,
) -> Build:
    """An operator, of CANN if nothing is said, over inputs of some shapes."""

    def build(b: asim.GraphBuilder) -> Tensor:
        inputs = [b.input(f"x{number}", shape) for number, shape in enumerate(shapes)]
        return b.ops(op, *inputs, domain=domain, outputs=outputs, **attributes)[take]

    return build


def rms_norm(*shape: int) -> Build:
    """RmsNorm over the last axis."""
    return plain("RmsNorm", shape, shape[-1:], outputs=2)


def product(m: int, k: int, n: int) -> Build:
    """Rows times weights (n, k), which lie in device memory."""
    return lambda b: b.op("Gemm", b.input("x", (m, k)), b.weight("w", (n, k)), transB=1)


def quantised(m: int, k: int, n: int) -> Build:
    """Int8 rows, a scale each, times int8 weights (n, k), a scale a column."""

    def build(b: asim.GraphBuilder) -> Tensor:
        x, scale = b.input("x", (m, k), DType.INT8), b.input("scale", (m,), DType.FLOAT32)
        w, steps = b.weight("w", (n, k), dtype=DType.INT8), b.weight("s", (n,), dtype=DType.FLOAT32)
        operands = (x, w, steps, None, None, scale)
        return b.op("QuantBatchMatmulV3", *operands, domain="ascend", transpose_x2=1, dtype=27)

    return build


def attention(
    queries: Sequence[int],
    contexts: Sequence[int],
    heads: int = 4,
    shared: int = 1,
    size: int = 128,
    *,
    paged: bool = True,
    rope: int = 0,
    pool: int = 0,
) -> Build:
    """FusedInferAttentionScore over sequences with so many new tokens and tokens in all."""

    def build(b: asim.GraphBuilder) -> Tensor:
        rows = sum(queries)
        pages = [-(-length // 128) for length in contexts]
        held = max(pool, sum(pages))
        given: dict[int, Tensor] = {0: b.input("q", (rows, heads, size))}
        if paged:
            width = shared * size
            given |= {1: b.input("k", (held, 128, width)), 2: b.input("v", (held, 128, width))}
            table = np.zeros((len(contexts), max(pages)), np.int32)
            for number, count in enumerate(pages):
                table[number, :count] = np.arange(count) + sum(pages[:number])
            given[14] = b.constant(table, "table")
        else:
            given |= {1: b.input("k", (rows, shared, size)), 2: b.input("v", (rows, shared, size))}
        if rope:
            given |= {24: b.input("q_rope", (rows, heads, rope)), 25: b.input("k_rope", (held, 128, rope))}
            given[2] = given[1]
        given[5] = b.constant(np.cumsum(queries), "ends")
        given[6] = b.constant(np.array(contexts) if paged else np.cumsum(contexts), "lengths")
        prompt = max(queries) > 1
        if prompt:
            given[4] = b.constant(np.triu(np.ones(COMPRESSED, np.bool_), 1), "mask", DType.BOOL)
        inputs = [given.get(port) for port in range(max(given) + 1)]
        return b.op(
            "FusedInferAttentionScore",
            *inputs,
            domain="ascend",
            num_heads=heads,
            num_key_value_heads=shared,
            input_layout="TND",
            scale=size**-0.5,
            sparse_mode=3 if prompt else 0,
            block_size=128 if paged else 0,
        )

    return build


def cache(rows: int) -> Build:
    """Keys and values of new tokens into their places."""

    def build(b: asim.GraphBuilder) -> list[Tensor]:
        new = [b.input(name, (rows, 1, 128)) for name in ("k", "v")]
        pools = [b.input(f"{name}_cache", (max(2048, rows // 128 + 1), 128, 1, 128)) for name in ("k", "v")]
        return b.ops(
            "ReshapeAndCache",
            *new,
            *pools,
            b.input("slots", (rows,), DType.INT64),
            domain="ascend",
            outputs=2,
        )

    return build


def split(rows: int, heads: int = 4, shared: int = 1, size: int = 128) -> Build:
    """Split, norms of heads and rotation in one."""

    def build(b: asim.GraphBuilder) -> list[Tensor]:
        operands = [b.input("qkv", (rows, (heads + 2 * shared) * size))]
        operands += [b.input(name, (rows, size)) for name in ("cos", "sin")]
        operands += [b.weight(name, (size,)) for name in ("qw", "kw")]
        sizes = {"q_hidden_size": heads * size, "kv_hidden_size": shared * size, "head_dim": size}
        return b.ops("split_qkv_rmsnorm_rope", *operands, domain="ascend", outputs=3, eps=1e-6, **sizes)

    return build


def rotary(rows: int, heads: int, shared: int, size: int) -> Build:
    """Rotation of queries and keys at once."""
    shapes = ((1, rows, heads, size), (1, rows, shared, size), (1, rows, 1, size), (1, rows, 1, size))
    return lambda b: b.ops(
        "ApplyRotaryPosEmb",
        *(b.input(f"x{number}", shape) for number, shape in enumerate(shapes)),
        domain="ascend",
        outputs=2,
        layout=1,
    )


def both_norm(rows: int, width: int, bias: bool = False) -> Build:
    """A sum and its norm."""
    name, more = ("AddRmsNormBias", [(width,)]) if bias else ("AddRmsNorm", [])

    def build(b: asim.GraphBuilder) -> list[Tensor]:
        shapes = [(rows, width), (rows, width), (width,), *more]
        inputs = [b.input(f"x{number}", shape) for number, shape in enumerate(shapes)]
        made = b.ops(name, *inputs, domain="ascend", outputs=3)
        return [made[0], made[2]]

    return build


def gather(rows: int, width: int, count: int) -> Build:
    """Rows of a table."""
    return lambda b: b.op(
        "Gather", b.weight("table", (rows, width)), b.input("ids", (count,), DType.INT64), axis=0
    )


def masked_fill(*shape: int) -> Build:
    """MaskedFill is a choice between a number and the tensor."""
    return lambda b: b.op(
        "Where", b.input("mask", shape, DType.BOOL), b.constant(-1e4, dtype=B16), b.input("x", shape)
    )


def scaled(op: str, rows: int, width: int) -> Build:
    """Rows in int8 by given scales and offsets."""
    return lambda b: b.op(
        op, b.input("x", (rows, width)), b.weight("s", (width,)), b.weight("o", (width,)), domain="ascend"
    )


def dynamic(rows: int, width: int) -> Build:
    """Rows in int8 by their largest values."""
    return lambda b: b.ops("DynamicQuant", b.input("x", (rows, width)), domain="ascend", outputs=2)


def gating(rows: int, experts: int, active: int) -> Build:
    """A token's experts by the sigmoid of scores."""
    return lambda b: b.ops(
        "MoeGatingTopK", b.input("x", (rows, experts)), domain="ascend", outputs=3, k=active, norm_type=1
    )[:2]


def sort(rows: int, width: int) -> Build:
    """Rows in order."""
    return lambda b: b.ops(
        "Sort", b.input("x", (rows, width)), domain="ascend", outputs=2, axis=-1, descending=1
    )


def mean(*parts: Build) -> Callable[[], float]:
    """The mean of several kernels."""
    return lambda: sum(time_us(build) for build in parts) / len(parts)


def eager(count: int) -> Callable[[], float]:
    """Kernels that PyTorch hands over one by one, each shorter than that takes."""
    return lambda: count * chips.load(DIE).launch.eager_launch_us


def in_fractals(m: int, k: int, n: int) -> Callable[[], float]:
    """A product whose weights lie in FRACTAL_NZ."""
    return lambda: time_us(product(m, k, n), weights="FRACTAL_NZ")


VOCABULARY, SAMPLED = 151936, (1, 2, 4, 8, 16, 32)  # tokens of Qwen3; sequences of the scenarios, averaged
# Totals of steps are multiples of 4104 and what is left of such a prompt behind 2048 tokens, and 16 more:
# prompts of 4096 tokens with a template around them
PROMPT = 4104
PROMPTS = 8 * PROMPT  # tokens of a step in the middle of 24624 and 41040

ROWS: dict[str, Build | Callable[[], float]] = {
    "L104": rms_norm(136, 5120),
    "L105": in_fractals(136, 5120, 768),
    "L106": rms_norm(136, 4, 128),
    "L107": rms_norm(136, 1, 128),
    "L108": rotary(136, 4, 1, 128),
    "L109": in_fractals(136, 512, 5120),
    "L110": both_norm(136, 5120),
    "L111": in_fractals(136, 5120, 3200),
    "L112": plain("SwiGlu", (136, 3200)),
    "L113": in_fractals(136, 1600, 5120),
    "L114": lambda b: b.op("Add", b.input("x", (136, 5120)), b.input("y", (136, 5120))),
    "L115": product(1, 5120, 9496),
    "L116": attention([PROMPT] * 10, [PROMPT] * 10, paged=False),
    "L117": attention([PROMPT] * 6, [PROMPT] * 6, paged=False),
    "L118": attention([PROMPT, PROMPT, 16], [PROMPT, PROMPT, 16]),
    "L119": attention([PROMPT, PROMPT - 2048, 16], [PROMPT, PROMPT, 16]),
    "L120": attention([1] * 16, [4096] * 16),
    "L121": attention([8192] * 8, [8192] * 8),
    "L122": attention([1024] * 64, [1024] * 64),
    "L123": attention([1] * 2, [4096] * 2, 16, 1, 512, rope=64, pool=1135),
    "L124": attention([1] * 4, [4096] * 4, 16, 1, 512, rope=64, pool=1135),
    "L125": attention([1] * 5, [4096] * 5, 16, 1, 512, rope=64, pool=1135),
    "L126": mean(product(16, 5120, 768), product(16, 5120, 3200), product(16, 1600, 5120)),
    "L127": product(16, 512, 5120),
    "L128": attention([1] * 16, [4864] * 16),
    "L129": split(16),
    "L130": both_norm(16, 5120, bias=True),
    "L131": plain("SwiGlu", (16, 3200)),
    "L132": cache(16),
    "L133": mean(
        product(PROMPTS, 5120, 768),
        product(PROMPTS, 512, 5120),
        product(PROMPTS, 5120, 3200),
        product(PROMPTS, 1600, 5120),
    ),
    "L134": product(9, 5120, 9496),
    "L135": attention([PROMPT] * 8, [PROMPT] * 8, paged=False),
    "L136": split(PROMPTS),
    "L137": plain("SwiGlu", (PROMPTS, 3200)),
    "L138": both_norm(PROMPTS, 5120, bias=True),
    "L139": cache(PROMPTS),
    "L140": mean(
        quantised(4, 7168, 2112),
        quantised(4, 1536, 3072),
        quantised(4, 2048, 7168),
        quantised(4, 7168, 512),
        quantised(4, 256, 7168),
    ),
    "L141": attention([1] * 4, [4864] * 4, 16, 1, 512, rope=64, pool=1135),
    "L142": scaled("AscendQuantV2", 4, 7168),
    "L143": gating(8, 256, 8),
    "L153": mean(*(sort(rows, VOCABULARY) for rows in SAMPLED)),
    "L154": mean(*(plain("ArgMax", (rows, VOCABULARY), domain="", axis=-1, keepdims=0) for rows in SAMPLED)),
    "L155": mean(*(plain("Softmax", (rows, VOCABULARY), domain="", axis=-1) for rows in SAMPLED)),
    "L156": gather(16160, 7168, 1548),
    "L157": masked_fill(2, 129280),
    "L158": dynamic(1030, 2304),
    "L159": scaled("AscendQuantV2", 9, 2048),
    "L160": rms_norm(515, 1536),
    "L161": product(6, 512, 4096),
    "L162": attention([1] * 4, [4096] * 4, 16, 1, 512, rope=64, pool=1135),
    "L163": lambda b: b.op("Slice", b.input("x", (2048, 2112)), [0], [1536], [1]),
    "L191": lambda: max(eager(1)(), _matmul_fp32()),
    "L192": eager(6),  # square, mean, add, reciprocal root, two products
    "L193": eager(1),
}
UNSAID = {
    "L032": "no operator for the recurrent gated delta rule; its kernel is written in PyPTO",
    "L033": "no operator for the recurrent gated delta rule; its kernel is written in PyPTO",
}


def _matmul_fp32() -> float:
    build = plain_matmul(512)
    return time_us(build, "Ascend910B2", DType.FLOAT32)


def plain_matmul(size: int) -> Build:
    """A product of two square matrices."""
    return lambda b: b.op("MatMul", b.input("x", (size, size)), b.input("y", (size, size)))


def predict(row: str) -> float:
    """The time of a row in microseconds."""
    own: Any = ROWS[row]
    return time_us(own) if own.__code__.co_argcount else float(own())
