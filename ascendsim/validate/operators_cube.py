"""Graphs of one convolution or matrix product, from the rows of a profile.

Profiles print no attributes: the kernel follows from the weight, stride and padding from input and output,
and what is turned from the shapes of a product.
"""

from __future__ import annotations

import math
import re

from ascendsim.core.dtypes import DType
from ascendsim.validate.operators_bench import Bench, OneOperator, logical
from ascendsim.validate.operators_rows import OperatorRow


def convolution(row: OperatorRow, bench: Bench) -> OneOperator:
    """A convolution of one group; channels as padded, as the profile has them."""
    image, weight, out = logical(row.inputs[0]), row.inputs[1].shape, logical(row.outputs[0])
    kernel, stride, pad = _window(image, weight, out, row.inputs[0].shape[1])
    taps = bench.builder.weight("w", (out[1], image[1], kernel, kernel), dtype=DType.FLOAT32)
    bias = bench.builder.weight("b", (out[1],), dtype=DType.FLOAT32) if len(row.inputs) > 2 else None
    made = bench.made(image, DType.FLOAT32)
    result = bench.builder.op("Conv", made, taps, bias, strides=(stride, stride), pads=(pad,) * 4)
    return bench.finish(
        result, precision=_mode(row.inputs[0].dtype), macs=math.prod(out) * image[1] * kernel * kernel
    )


def convolution_gradient(row: OperatorRow, bench: Bench) -> OneOperator:
    """The gradient of a convolution's input is its transposed convolution."""
    maps = [o for o in row.inputs if o.format == "NC1HWC0"]
    weight = next(o for o in row.inputs if o.format.startswith("FRAC"))
    gradient, out = logical(maps[0]), logical(row.outputs[0])
    kernel, stride, pad = _window(out, weight.shape, gradient, row.outputs[0].shape[1])
    taps = bench.builder.weight("w", (gradient[1], out[1], kernel, kernel), dtype=DType.FLOAT32)
    made = bench.made(gradient, DType.FLOAT32)
    result = bench.builder.op("ConvTranspose", made, taps, strides=(stride, stride), pads=(pad,) * 4)
    return bench.finish(
        result, precision=_mode(maps[0].dtype), macs=math.prod(gradient) * out[1] * kernel * kernel
    )


def _mode(dtype: DType | None) -> str:
    return "cube_fp16in_fp32out" if dtype is DType.FLOAT16 else "must_keep_origin_dtype"


def _window(
    image: tuple[int, ...], weight: tuple[int, ...], out: tuple[int, ...], blocks: int
) -> tuple[int, int, int]:
    """Kernel, stride and padding of a square convolution: FRACTAL_Z has blocks x kernel^2 rows of
    fractals.
    """
    kernel = math.isqrt(weight[0] // blocks)
    stride = round(image[2] / out[2])
    pad = next(p for p in range(kernel) if (image[2] + 2 * p - kernel) // stride + 1 == out[2])
    return kernel, stride, pad


def product(row: OperatorRow, bench: Bench) -> OneOperator:
    """Left [m, k] (or turned) times right, which is a weight unless left is turned (then both are
    activations).
    """
    a, b, out = row.inputs[0], row.inputs[1], row.outputs[0].shape
    turned = a.shape[0] != out[0]
    depth = a.shape[0 if turned else 1]
    given = bench.made(a.shape, a.dtype)
    with_bias = len(row.inputs) > 2
    other = bench.made(b.shape, b.dtype) if turned else bench.builder.weight("w", b.shape, dtype=b.dtype)
    bias = bench.builder.weight("b", (out[1],), dtype=a.dtype) if with_bias else None
    stored_turned = b.shape == (out[1], depth) and (with_bias or b.shape != (depth, out[1]))
    result = bench.builder.op("Gemm", given, other, bias, transA=int(turned), transB=int(stored_turned))
    return bench.finish(result, macs=math.prod(out) * depth)


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
