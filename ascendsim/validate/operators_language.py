"""Graphs of one operator of a language model's training step (PyTorch), from the rows of a profile."""

from __future__ import annotations

import math

from ascendsim.core.dtypes import DType
from ascendsim.validate.operators_bench import Bench, OneOperator
from ascendsim.validate.operators_rows import OperatorRow
from ascendsim.validate.operators_training import Builder


def _root_norm(row: OperatorRow, bench: Bench) -> OneOperator:
    given = bench.made(row.inputs[0].shape, row.inputs[0].dtype)
    scale = bench.stored(row.inputs[1].shape, row.inputs[1].dtype or DType.FLOAT32)
    return bench.finish(*bench.builder.ops("RmsNorm", given, scale, outputs=2, domain="ascend"))


def _root_norm_gradient(row: OperatorRow, bench: Bench) -> OneOperator:
    made = bench.builder.ops("RmsNormGrad", *bench.all_made(), outputs=2, domain="ascend")
    return bench.finish(*made)


def _norm(row: OperatorRow, bench: Bench) -> OneOperator:
    given = bench.kept(row.inputs[0].shape, row.inputs[0].dtype or DType.FLOAT32)
    return bench.finish(bench.builder.op("LpNormV2", given, domain="ascend"))


def _rotated(row: OperatorRow, bench: Bench) -> OneOperator:
    """Cosines and sines are the same in all layers, so they were made long ago."""
    data = bench.made(row.inputs[0].shape, row.inputs[0].dtype)
    angles = [bench.stored(o.shape, o.dtype or DType.FLOAT32) for o in row.inputs[1:3]]
    return bench.finish(bench.builder.op(row.op_type, data, *angles, domain="ascend"))


def _gated(row: OperatorRow, bench: Bench) -> OneOperator:
    return bench.finish(bench.builder.op("SwiGlu", *bench.all_made(), domain="ascend"))


def _gated_gradient(row: OperatorRow, bench: Bench) -> OneOperator:
    """The forward pass kept the gate and its partner; only the gradient has just been made."""
    gradient, kept = row.inputs
    made = bench.made(gradient.shape, gradient.dtype)
    given = bench.stored(kept.shape, kept.dtype or DType.FLOAT32)
    return bench.finish(bench.builder.op("SwiGluGrad", made, given, domain="ascend"))


def _adam_w(row: OperatorRow, bench: Bench) -> OneOperator:
    """Weight, moments, gradient; the number of the step is of int64."""
    *weights, step = row.inputs
    tensors = [bench.kept(o.shape, o.dtype or DType.FLOAT32) for o in weights]
    count = bench.stored(step.shape, step.dtype or DType.INT64)
    made = bench.builder.ops("ApplyAdamWV2", *tensors, count, outputs=3, domain="ascend")
    return bench.finish(*made)


def _muls(row: OperatorRow, bench: Bench) -> OneOperator:
    given = bench.made(row.inputs[0].shape, row.inputs[0].dtype)
    return bench.finish(bench.builder.op("Muls", given, domain="ascend", value=0.5))


def _attention(row: OperatorRow, bench: Bench) -> OneOperator:
    """Causal attention over (sequence, batch, heads x size), heads by the statistics' shape."""
    return bench.finish(*_scores(row, bench, row.outputs[0].shape), macs=_attention_macs(row, 2))


def _scores(row: OperatorRow, bench: Bench, statistics: tuple[int, ...]):  # type: ignore[no-untyped-def]
    query, key, value = [bench.made(o.shape, o.dtype) for o in row.inputs[:3]]
    mask = bench.stored((2048, 2048), DType.BOOL)
    size = query.static_shape[-1] // statistics[1]
    return bench.builder.ops(
        "FlashAttentionScore",
        query,
        key,
        value,
        None,
        None,
        None,
        mask,
        outputs=4,
        domain="ascend",
        head_num=statistics[1],
        input_layout="SBH",
        sparse_mode=2,
        scale_value=size**-0.5,
    )


def _attention_macs(row: OperatorRow, products: int) -> int:
    queries, batch, width = row.inputs[0].shape
    return products * batch * queries * row.inputs[1].shape[0] * width // 2


def _attention_gradient(row: OperatorRow, bench: Bench) -> OneOperator:
    query, key, value, dy = [bench.made(o.shape, o.dtype) for o in row.inputs[:4]]
    statistics = next(o.shape for o in row.inputs if len(o.shape) == 4)
    heads = statistics[1]
    tops = [bench.stored(statistics, DType.FLOAT32) for _ in range(2)]
    mask = bench.stored((2048, 2048), DType.BOOL)
    kept = bench.stored(row.inputs[0].shape, row.inputs[0].dtype or DType.FLOAT16)
    made = bench.builder.ops(
        "FlashAttentionScoreGrad",
        *(query, key, value, dy, None, None, None, mask, *tops, None, kept),
        outputs=4,
        domain="ascend",
        head_num=heads,
        input_layout="SBH",
        sparse_mode=2,
        scale_value=(query.static_shape[-1] // heads) ** -0.5,
    )
    return bench.finish(*made[:3], macs=_attention_macs(row, 5))


def _range(row: OperatorRow, bench: Bench) -> OneOperator:
    count = math.prod(row.outputs[0].shape)
    return bench.finish(bench.builder.op("Expand", bench.builder.constant(1.0), [count]))


def _largest(row: OperatorRow, bench: Bench) -> OneOperator:
    given = bench.made(row.inputs[0].shape, row.inputs[0].dtype)
    return bench.finish(bench.builder.op("ArgMax", given, axis=-1, keepdims=0))


LANGUAGE: dict[str, Builder] = {
    "ApplyAdamWV2": _adam_w,
    "ArgMaxWithValue": _largest,
    "FlashAttentionScore": _attention,
    "FlashAttentionScoreGrad": _attention_gradient,
    "LpNormV2": _norm,
    "Muls": _muls,
    "RmsNorm": _root_norm,
    "RmsNormGrad": _root_norm_gradient,
    "RotaryPositionEmbedding": _rotated,
    "RotaryPositionEmbeddingGrad": _rotated,
    "SwiGlu": _gated,
    "SwiGluGrad": _gated_gradient,
}
