"""Graphs of one convolution or matrix product, from the rows of a profile.

Profiles print no attributes: the kernel follows from the weight, stride and padding from input and output,
and what is turned from the shapes of a product.
"""

from __future__ import annotations

import math
import re

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Tensor
from ascendsim.validate.operators_bench import Bench, OneOperator, logical
from ascendsim.validate.operators_rows import Operand, OperatorRow


def convolution(row: OperatorRow, bench: Bench) -> OneOperator:
    """A convolution of one group; channels as padded, as the profile has them."""
    result, macs = convolved(row, bench)
    return bench.finish(result, precision=_mode(row), macs=macs)


def convolved(row: OperatorRow, bench: Bench) -> tuple[Tensor, int]:
    """A row's convolution and its multiply-adds."""
    image, weight, out = logical(row.inputs[0]), row.inputs[1].shape, logical(row.outputs[0])
    kernel, stride, pad = _window(image, weight, out, row.inputs[0].shape[1])
    kind = _kind(row)
    taps = bench.builder.weight("w", (out[1], image[1], kernel, kernel), dtype=kind)
    bias = bench.builder.weight("b", (out[1],), dtype=kind) if len(row.inputs) > 2 else None
    made = bench.made(image, kind)
    result = bench.builder.op("Conv", made, taps, bias, strides=(stride, stride), pads=pad)
    return result, math.prod(out) * image[1] * kernel * kernel


def convolution_gradient(row: OperatorRow, bench: Bench) -> OneOperator:
    """The gradient of a convolution's input."""
    result, macs = gradient_of_image(row, bench)
    return bench.finish(result, precision=_mode(row), macs=macs)


def gradient_of_image(row: OperatorRow, bench: Bench) -> tuple[Tensor, int]:
    """A row's gradient of a convolution's input, and its multiply-adds."""
    maps = [o for o in row.inputs if o.format == "NC1HWC0"]
    weight = next(o for o in row.inputs if o.format.upper().startswith("FRAC"))
    gradient, out = logical(maps[0]), logical(row.outputs[0])
    kernel, stride, pad = _window(out, weight.shape, gradient, row.outputs[0].shape[1])
    kind = _kind(row)
    taps = bench.builder.weight("w", (gradient[1], out[1], kernel, kernel), dtype=kind)
    made = bench.made(gradient, kind)
    result = bench.builder.op(
        "Conv2DBackpropInput",
        *(taps, made),
        domain="ascend",
        input_size=out,
        strides=(stride, stride),
        pads=pad,
    )
    return result, math.prod(gradient) * out[1] * kernel * kernel


def filter_gradient(row: OperatorRow, bench: Bench) -> OneOperator:
    """The gradient of a convolution's filters, from the gradient of its result and its image."""
    made_by, stored = operands_of(row)[:2]
    filters = row.outputs[0].shape
    if logical(made_by)[1] != filters[1] * filters[2]:  # PyTorch's profile has the image first
        made_by, stored = stored, made_by
    channels = logical(stored)[1]
    return _gradient_of_filters("Conv2DBackpropFilter", made_by, stored, filters, channels, bench)


def depthwise_filter_gradient(row: OperatorRow, bench: Bench) -> OneOperator:
    """The gradient of filters that have one channel each, from its image and the gradient of its result."""
    stored, made_by = operands_of(row)[:2]
    filters = row.outputs[0].shape
    return _gradient_of_filters("DepthwiseConv2DBackpropFilter", made_by, stored, filters, 1, bench)


def _gradient_of_filters(
    operator: str, made_by: Operand, stored: Operand, filters: tuple[int, ...], channels: int, bench: Bench
) -> OneOperator:
    """The gradient of filters of so many channels each, in fractals as a profile has them."""
    out, image = logical(made_by), logical(stored)
    kernel, stride, pad = _window(image, filters, out, stored.shape[1])
    kind = made_by.dtype or DType.FLOAT16
    made = bench.builder.op(
        operator,
        *(bench.stored(image, kind), bench.made(out, kind)),
        domain="ascend",
        filter_size=[out[1], channels, kernel, kernel],
        strides=(stride, stride),
        pads=pad,
    )
    return bench.finish(made, macs=math.prod(out) * channels * kernel * kernel)


def _kind(row: OperatorRow) -> DType:
    """Type of the operands; float32 where float16 ones have a float32 result, and the precision mode is to
    convert them.
    """
    before, after = operands_of(row)[0].dtype, row.outputs[0].dtype
    return before if before is after and before is not None else DType.FLOAT32


def _mode(row: OperatorRow) -> str:
    same = operands_of(row)[0].dtype is row.outputs[0].dtype
    return "must_keep_origin_dtype" if same else "cube_fp16in_fp32out"


def operands_of(row: OperatorRow) -> list[Operand]:
    """A row's tensors without the lists of sizes among them."""
    return [operand for operand in row.inputs if operand.dtype is not DType.INT32]


def _window(
    image: tuple[int, ...], weight: tuple[int, ...], out: tuple[int, ...], blocks: int
) -> tuple[int, int, tuple[int, int, int, int]]:
    """Kernel, stride and padding of a square convolution: FRACTAL_Z has blocks x kernel^2 rows of fractals.

    Padding is the same on all sides if it can be; else what does not come out even is at the end. The stride
    is the one nearest to the quotient of the maps' sizes for which padding below twice the kernel explains
    them; a result of one position says nothing of it, and has 1 if it can.

    Raises:
        ValueError: No square window makes a map of this size out of the other.
    """
    kernel = math.isqrt(weight[0] // blocks)

    def fits(side: int, padding: int, stride: int) -> bool:
        return (image[side] + padding - kernel) // stride + 1 == out[side]

    likely = 1 if out[2] == out[3] == 1 else max(1, round(image[2] / out[2]))
    for stride in sorted(range(1, image[2] + 1), key=lambda stride: abs(stride - likely)):
        totals = [p for p in range(2 * kernel) if fits(2, p, stride) and fits(3, p, stride)]
        if totals:
            total = next((p for p in totals if p % 2 == 0), totals[0])
            top = total // 2
            return kernel, stride, (top, top, total - top, total - top)
    raise ValueError(f"no window of {kernel} x {kernel} makes {out} of {image}")


def product(row: OperatorRow, bench: Bench) -> OneOperator:
    """A matrix product, with a bias where the row has a third input."""
    result, macs = multiplied(row, bench, len(row.inputs) > 2)
    return bench.finish(result, precision=_mode(row), macs=macs)


def multiplied(row: OperatorRow, bench: Bench, with_bias: bool) -> tuple[Tensor, int]:
    """A row's product of left [m, k] (or turned) and right, which is a weight unless left is turned (then
    both are activations), and its multiply-adds.
    """
    a, b, out = (logical(operand) for operand in (*row.inputs[:2], row.outputs[0]))
    turned = a[0] != out[0]
    depth = a[0 if turned else 1]
    kind = _kind(row)
    given = bench.made(a, kind)
    other = bench.made(b, kind) if turned else bench.builder.weight("w", b, dtype=kind)
    bias = bench.builder.weight("b", (out[1],), dtype=kind) if with_bias else None
    stored_turned = b == (out[1], depth) and (with_bias or b != (depth, out[1]))
    result = bench.builder.op("Gemm", given, other, bias, transA=int(turned), transB=int(stored_turned))
    return result, math.prod(out) * depth


_SIZES = re.compile(r"M=(\d+) N=(\d+) K=(\d+)|(\d+)x(\d+) @ \d+x(\d+)|(\d+),(\d+);\d+,(\d+) \(B transposed\)")


def sample_product(row: OperatorRow, bench: Bench) -> OneOperator:
    """A stand-alone float16 product; "B transposed" means that B is stored as [n, k]."""
    found = _SIZES.search(row.case)
    if found is None:
        raise ValueError(f"line {row.line}: no sizes in {row.case!r}")
    sizes = [int(text) for text in found.groups() if text]
    m, n, k = (sizes[0], sizes[1], sizes[2]) if row.case.startswith("M=") else (sizes[0], sizes[2], sizes[1])
    turned = "transposed" in row.case
    a, b = bench.made((m, k), DType.FLOAT16), bench.made((n, k) if turned else (k, n), DType.FLOAT16)
    return bench.finish(bench.builder.op("Gemm", a, b, transB=int(turned)), macs=m * n * k)


def sample_groups(row: OperatorRow, bench: Bench) -> OneOperator:
    """A stand-alone product of int8 in equal groups, with a scale a row and one a column."""
    (rows, k), (groups, _, n) = (operand.shape for operand in row.inputs)
    x, weight = (bench.made(operand.shape, DType.INT8) for operand in row.inputs)
    scale, tokens = (bench.stored(shape, DType.FLOAT32) for shape in ((groups, n), (rows,)))
    ends = bench.builder.constant(np.arange(1, groups + 1) * (rows // groups), "ends")
    made = bench.builder.op(
        "GroupedMatmul", x, weight, None, scale, None, None, None, ends, tokens, domain="ascend"
    )
    return bench.finish(made, macs=rows * n * k)
