"""Graphs of one call of a framework that runs alone and warm, from rows that name its arguments.

All kernels of the call count. Inputs lie in memory, where L2 has them if they fit: the call ran before.
"""

from __future__ import annotations

import math
import re

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Tensor
from ascendsim.validate.operators_bench import Bench, OneOperator
from ascendsim.validate.operators_rows import OperatorRow
from ascendsim.validate.operators_training import Builder


def _given(row: OperatorRow, bench: Bench) -> list[Tensor]:
    return [bench.stored(o.shape, o.dtype or DType.FLOAT32) for o in row.inputs]


def _one(op: str, domain: str = "") -> Builder:
    def build(row: OperatorRow, bench: Bench) -> OneOperator:
        return bench.finish(bench.builder.op(op, *_given(row, bench), domain=domain))

    return build


_TIMES = re.compile(r"(\w+)\W(\d+)")  # kernels of a call and how often each runs
_FUSED = "AutomaticBufferFusionOp"


def _exponent(row: OperatorRow, bench: Bench) -> OneOperator:
    """A power of scale x + shift by the kernels that the call is said to run: products and a sum with
    numbers, each a kernel of its own, in front of Exp; or one that fusion made of them.
    """
    (made,) = _given(row, bench)
    if _FUSED in row.kernels:
        given = {name: float(row.attributes[name]) for name in ("scale", "shift")}
        product = bench.builder.op("Mul", made, given["scale"])
        total = bench.builder.op("Add", product, given["shift"])
        return bench.finish(bench.builder.op("Exp", total), fusion="ub")
    for kernel, times in _TIMES.findall(row.kernels):
        op = {"Mul": "Mul", "Muls": "Mul", "Add": "Add"}.get(kernel, "")
        for _ in range(int(times) if op else 0):
            made = bench.builder.op(op, made, bench.stored((), made.element_type))
    return bench.finish(bench.builder.op("Exp", made))


def _turned(row: OperatorRow, bench: Bench) -> OneOperator:
    return bench.finish(bench.builder.op("Transpose", *_given(row, bench), perm=row.attributes["perm"]))


def _largest(row: OperatorRow, bench: Bench) -> OneOperator:
    """CANN's kernel gives places as int32, which the call converts."""
    made = bench.builder.op("ArgMax", *_given(row, bench), axis=row.attributes["dim"], keepdims=0)
    return bench.finish(bench.builder.op("Cast", made, to=DType.INT32))


def _top(row: OperatorRow, bench: Bench) -> OneOperator:
    numbers = row.attributes
    made = bench.builder.ops(
        "TopK",
        *_given(row, bench),
        [numbers["k"]],
        outputs=2,
        axis=numbers["dim"],
        largest=int(numbers["largest"]),
    )
    return bench.finish(*made)


def _picked(row: OperatorRow, bench: Bench) -> OneOperator:
    return bench.finish(bench.builder.op("GatherElements", *_given(row, bench), axis=row.attributes["dim"]))


_MAPS_TURNED = 2  # of TransData: the image and the result


def _convolution(row: OperatorRow, bench: Bench) -> OneOperator:
    """The kernels that the call is said to run beside those of the convolution of maps in NC1HWC0: the filter
    turned, memory cleared, a bias converted.
    """
    image, weight, *bias = row.inputs
    numbers = row.attributes
    tensors = [bench.stored(image.shape, image.dtype or DType.FLOAT32)]
    tensors += [bench.stored(o.shape, o.dtype or DType.FLOAT32) for o in (weight, *bias)]
    result = bench.builder.op(
        "Conv",
        *tensors,
        strides=numbers["strides"],
        pads=numbers["pads"],
        dilations=numbers["dilations"],
    )
    macs = math.prod(result.static_shape) * math.prod(weight.shape[1:])
    times = {kernel: int(count) for kernel, count in _TIMES.findall(row.kernels)}
    more = []
    if times.get("TransData", 0) > _MAPS_TURNED:
        turned = {"src_format": "NCHW", "dst_format": "FRACTAL_Z"}
        more.append(bench.builder.op("TransData", tensors[1], domain="ascend", **turned))
    if times.get("MemSet"):
        memory = bench.stored(result.static_shape, result.element_type)
        more.append(bench.builder.op("AtomicAddrClean", memory, domain="ascend"))
    if times.get("Cast"):
        more.append(bench.builder.op("Cast", tensors[2], to=DType.FLOAT32))
    return bench.finish(result, *more, macs=macs)


def _root_norm(row: OperatorRow, bench: Bench) -> OneOperator:
    data, scale = _given(row, bench)
    axis = -len(scale.static_shape)
    return bench.finish(bench.builder.op("RMSNormalization", data, scale, axis=axis))


def _adam_w(row: OperatorRow, bench: Bench) -> OneOperator:
    w, *more = _given(row, bench)
    numbers = [bench.stored((), w.element_type) for _ in range(7)]
    gradient, *moments = more
    made = bench.builder.ops("ApplyAdamW", w, *moments, *numbers, gradient, outputs=3, domain="ascend")
    return bench.finish(*made)


def _shared_attention(row: OperatorRow, bench: Bench) -> OneOperator:
    """Queries, keys and values (batch, token, head, element); a causal call sees up to the last key."""
    query, key, value = _given(row, bench)
    _, queries, heads, size = query.static_shape
    causal, scale = bool(row.attributes["is_causal"]), float(row.attributes["scaleValue"])
    made = bench.builder.ops(
        "FusedInferAttentionScore",
        query,
        key,
        value,
        None,
        bench.stored((2048, 2048), DType.BOOL) if causal else None,
        outputs=2,
        domain="ascend",
        num_heads=heads,
        num_key_value_heads=key.static_shape[2],
        input_layout="BSND",
        sparse_mode=3 if causal else 0,
        scale=scale if scale > 0 else size**-0.5,
    )[0]
    keys = key.static_shape[1] - (queries - 1) / 2 * causal
    return bench.finish(made, macs=int(2 * math.prod(query.static_shape) * keys))


def _quantised_product(row: OperatorRow, bench: Bench) -> OneOperator:
    """What is no tensor of the call is named among its arguments, as null."""
    first, second, scale, *more = _given(row, bench)
    rest = iter(more)
    given = {
        name: None if name in row.attributes else next(rest) for name in ("offset", "pertoken_scale", "bias")
    }
    made = bench.builder.op(
        "QuantBatchMatmulV3",
        *(first, second, scale, given["offset"], given["bias"], given["pertoken_scale"]),
        domain="ascend",
        dtype=DType.of(row.attributes["output_dtype"]),
    )
    return bench.finish(made, macs=math.prod(made.static_shape) * first.static_shape[-1])


CALLS: dict[str, Builder] = {
    "apply_adam_w": _adam_w,
    "arg_max": _largest,
    "conv_2d": _convolution,
    "exp": _exponent,
    "gather": _picked,
    "gelu": _one("Gelu"),
    "gqa": _shared_attention,
    "mish": _one("Mish"),
    "quant_matmul": _quantised_product,
    "rms_norm": _root_norm,
    "sigmoid": _one("Sigmoid"),
    "top_k": _top,
    "transpose": _turned,
}
