"""Graphs of one operator, from the rows of a profile.

A profile prints stored shapes. Operators that do not care about the layout get them as they are (a Cast of an NC1HWC0 tensor is a Cast
of a tensor of rank 5); convolutions and pooling get the logical shape back and the compiler puts the layout on again. Attributes that
profiles do not print follow from the shapes (kernel from the weight, stride and padding from input and output).

Inputs that another operator made a moment ago lie in L2 if they fit. In rows of a network's profile every activation is therefore the
output of an operator in front (a Neg), whose time is not counted; weights, activations that the forward pass kept for a gradient, and
the inputs of stand-alone samples come from DRAM.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from ascendsim.api.building import GraphBuilder
from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format, storage_bytes
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.validate.operators_rows import Operand, OperatorRow

_GRADIENTS = "ai.onnx.preview.training"


@dataclass(frozen=True, slots=True)
class OneOperator:
    """A graph to time one operator in.

    Attributes:
        graph: The operator, and what makes its inputs.
        node: Its name.
        precision: Precision mode to compile with.
        placed: Formats are in the graph already: lower it as it is.
        macs: Useful multiply-adds on the Cube.
    """

    graph: Graph
    node: str
    precision: str = "must_keep_origin_dtype"
    placed: bool = False
    macs: int = 0


@dataclass(slots=True)
class _Bench:
    """A builder that knows where inputs come from."""

    row: OperatorRow
    builder: GraphBuilder = field(default_factory=lambda: GraphBuilder("operator"))

    def made(self, shape: tuple[int, ...], dtype: DType | None, format: Format = Format.ND) -> Tensor:
        """An input that an operator in front made; a plain graph input for samples and types that no vector operator negates."""
        kind = dtype or DType.FLOAT32
        given = self.stored(shape, kind, format)
        if not self.row.profiled or kind not in (DType.FLOAT32, DType.FLOAT16, DType.INT32):
            return given
        made = self.builder.op("Neg", given)
        made.format = format
        return made

    def stored(self, shape: tuple[int, ...], dtype: DType, format: Format = Format.ND) -> Tensor:
        """An input that lies in DRAM."""
        given = self.builder.input(f"in{len(self.builder.graph.inputs)}", shape, dtype)
        given.format = format
        return given

    def finish(self, *outputs: Tensor, precision: str = "must_keep_origin_dtype", placed: bool = False, macs: int = 0) -> OneOperator:
        for tensor in outputs:
            self.builder.output(tensor)
        node = outputs[0].producer
        assert node is not None
        return OneOperator(self.builder.build(), node.name, precision, placed, macs)


def one_operator(row: OperatorRow) -> OneOperator | str:
    """The graph of a row, or the reason why there is none."""
    build = _BUILDERS.get(row.op_type)
    return build(row, _Bench(row)) if build is not None else "no operator of this project does this"


def _elementwise(op: str) -> _Builder:
    def build(row: OperatorRow, bench: _Bench) -> OneOperator:
        tensors = [bench.made(o.shape, o.dtype) for o in row.inputs]
        return bench.finish(bench.builder.op(op, *tensors))

    return build


def _cast(row: OperatorRow, bench: _Bench) -> OneOperator:
    source, target = row.inputs[0], row.outputs[0]
    assert target.dtype is not None
    return bench.finish(bench.builder.op("Cast", bench.made(source.shape, source.dtype), to=target.dtype))


def _relu_grad(row: OperatorRow, bench: _Bench) -> OneOperator:
    """The gradient has just been made, the activation was kept since the forward pass."""
    gradient, kept = row.inputs
    assert kept.dtype is not None
    made = bench.made(gradient.shape, gradient.dtype)
    return bench.finish(bench.builder.op("ReluGrad", made, bench.stored(kept.shape, kept.dtype), domain="ascend"))


def _relu_v2(row: OperatorRow, bench: _Bench) -> OneOperator:
    return bench.finish(*bench.builder.ops("ReluV2", bench.made(_logical(row.inputs[0]), row.inputs[0].dtype), outputs=2, domain="ascend"))


def _copy(row: OperatorRow, bench: _Bench) -> OneOperator:
    """TensorMove: GM to UB to GM, the work of a Concat of one part."""
    source = row.inputs[0]
    return bench.finish(bench.builder.op("Concat", bench.made(source.shape, source.dtype), axis=0))


def _filled(row: OperatorRow, bench: _Bench) -> OneOperator:
    """A memory range set to one value: Fill, OnesLike, AtomicAddrClean (whose row has the range as input)."""
    target = row.outputs[0] if row.outputs else row.inputs[0]
    like = bench.builder.constant(1.0, dtype=target.dtype)
    return bench.finish(bench.builder.op("Expand", like, list(target.shape)))


def _expand(row: OperatorRow, bench: _Bench) -> OneOperator:
    source = row.inputs[0]
    return bench.finish(bench.builder.op("Expand", bench.made(source.shape, source.dtype), list(row.outputs[0].shape)))


def _transpose(row: OperatorRow, bench: _Bench) -> OneOperator:
    source, target = row.inputs[0].shape, row.outputs[0].shape
    orders = itertools.permutations(range(len(source)))
    order = next(o for o in orders if tuple(source[axis] for axis in o) == target)
    return bench.finish(bench.builder.op("Transpose", bench.made(source, row.inputs[0].dtype), perm=order))


def _reduce(op: str) -> _Builder:
    def build(row: OperatorRow, bench: _Bench) -> OneOperator:
        """Axes are those that explain the output's shape, the first ones if several do."""
        source, target = row.inputs[0].shape, row.outputs[0].shape
        keeps = len(target) == len(source) > 1
        axes = next(
            chosen
            for count in range(1, len(source) + 1)
            for chosen in itertools.combinations(range(len(source)), count)
            if _reduced(source, chosen, keeps) == (target if keeps or target != (1,) else ())
        )
        made = bench.made(source, row.inputs[0].dtype)
        return bench.finish(bench.builder.op(op, made, list(axes), keepdims=int(keeps)))

    return build


def _reduced(shape: tuple[int, ...], axes: tuple[int, ...], keeps: bool) -> tuple[int, ...]:
    return tuple(1 if axis in axes else size for axis, size in enumerate(shape) if keeps or axis not in axes)


def _momentum(row: OperatorRow, bench: _Bench) -> OneOperator:
    """Weight, velocity and gradient of a row are its first, second and fourth input."""
    weight, velocity, _, gradient = row.inputs[:4]
    tensors = [bench.made(o.shape, o.dtype) for o in (weight, gradient, velocity)]
    rate, count = bench.builder.constant(0.1), bench.builder.constant(1)
    updated = bench.builder.ops(
        "Momentum", rate, count, *tensors, outputs=2, domain=_GRADIENTS, alpha=0.9, beta=1.0, mode="standard", norm_coefficient=0.0
    )
    return bench.finish(*updated)


def _max_pool(row: OperatorRow, bench: _Bench) -> OneOperator:
    """Windows of the networks in the data: LeNet-5 2x2 (halves exactly), AlexNet 3x3; both with stride 2."""
    source, target = _logical(row.inputs[0]), _logical(row.outputs[0])
    kernel = 2 if source[2] == 2 * target[2] else 3
    pooled = bench.builder.ops("MaxPool", bench.made(source, row.inputs[0].dtype), outputs=2, kernel_shape=(kernel, kernel), strides=(2, 2))
    return bench.finish(*pooled)


def _conv(row: OperatorRow, bench: _Bench) -> OneOperator:
    image, weight, out = _logical(row.inputs[0]), row.inputs[1].shape, _logical(row.outputs[0])
    kernel, stride, pad = _window(image, weight, out, row.inputs[0].shape[1])
    taps = bench.builder.weight("w", (out[1], image[1], kernel, kernel), dtype=DType.FLOAT32)
    bias = bench.builder.weight("b", (out[1],), dtype=DType.FLOAT32) if len(row.inputs) > 2 else None
    made = bench.made(image, DType.FLOAT32)
    result = bench.builder.op("Conv", made, taps, bias, strides=(stride, stride), pads=(pad,) * 4)
    return bench.finish(result, precision=_mode(row.inputs[0].dtype), macs=math.prod(out) * image[1] * kernel * kernel)


def _conv_gradient(row: OperatorRow, bench: _Bench) -> OneOperator:
    """The gradient of a convolution's input is its transposed convolution."""
    maps = [o for o in row.inputs if o.format == "NC1HWC0"]
    weight = next(o for o in row.inputs if o.format.startswith("FRAC"))
    gradient, out = _logical(maps[0]), _logical(row.outputs[0])
    kernel, stride, pad = _window(out, weight.shape, gradient, row.outputs[0].shape[1])
    taps = bench.builder.weight("w", (gradient[1], out[1], kernel, kernel), dtype=DType.FLOAT32)
    made = bench.made(gradient, DType.FLOAT32)
    result = bench.builder.op("ConvTranspose", made, taps, strides=(stride, stride), pads=(pad,) * 4)
    return bench.finish(result, precision=_mode(maps[0].dtype), macs=math.prod(gradient) * out[1] * kernel * kernel)


def _mode(dtype: DType | None) -> str:
    return "cube_fp16in_fp32out" if dtype is DType.FLOAT16 else "must_keep_origin_dtype"


def _window(image: tuple[int, ...], weight: tuple[int, ...], out: tuple[int, ...], blocks: int) -> tuple[int, int, int]:
    """Kernel, stride and padding of a square convolution: FRACTAL_Z has blocks x kernel^2 rows of fractals."""
    kernel = math.isqrt(weight[0] // blocks)
    stride = round(image[2] / out[2])
    pad = next(p for p in range(kernel) if (image[2] + 2 * p - kernel) // stride + 1 == out[2])
    return kernel, stride, pad


def _matmul(row: OperatorRow, bench: _Bench) -> OneOperator:
    """Left [m, k] (or turned) times right, which is a weight unless left is turned (then both are activations)."""
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


def _sample_matmul(row: OperatorRow, bench: _Bench) -> OneOperator:
    """A stand-alone float16 product; "B transposed" means that B is stored as [n, k]."""
    found = _SIZES.search(row.case)
    if found is None:
        raise ValueError(f"line {row.line}: no sizes in {row.case!r}")
    sizes = [int(text) for text in found.groups() if text]
    m, n, k = (sizes[0], sizes[1], sizes[2]) if row.case.startswith("M=") else (sizes[0], sizes[2], sizes[1])
    turned = "transposed" in row.case
    a, b = bench.made((m, k), DType.FLOAT16), bench.made((n, k) if turned else (k, n), DType.FLOAT16)
    return bench.finish(bench.builder.op("Gemm", a, b, transB=int(turned)), macs=m * n * k)


def _one_hot(row: OperatorRow, bench: _Bench) -> OneOperator:
    values = bench.builder.constant([0.0, 1.0])
    return bench.finish(bench.builder.op("OneHot", bench.made(row.inputs[0].shape, DType.INT32), row.outputs[0].shape[-1], values))


def _top_k(row: OperatorRow, bench: _Bench) -> OneOperator:
    made = bench.made(row.inputs[0].shape, row.inputs[0].dtype)
    return bench.finish(*bench.builder.ops("TopK", made, [row.outputs[0].shape[-1]], outputs=2))


def _nll_loss(row: OperatorRow, bench: _Bench) -> OneOperator:
    tensors = [bench.made(o.shape, o.dtype) for o in row.inputs]
    return bench.finish(bench.builder.op("NegativeLogLikelihoodLoss", *tensors))


_LAYOUTS = {"FRACTAL_Z": Format.FRACTAL_Z, "NC1HWC0": Format.NC1HWC0, "FRACTAL_NZ": Format.FRACTAL_NZ}


def _trans_data(row: OperatorRow, bench: _Bench) -> OneOperator | str:
    """Formats are what is asked for here, so the graph is lowered as it is. The row-major side has the logical shape."""
    source, target = row.inputs[0], row.outputs[0]
    before, after = _LAYOUTS.get(source.format, Format.ND), _LAYOUTS.get(target.format, Format.ND)
    shape, blocked = (source.shape, target) if before is Format.ND else (target.shape, source)
    assert source.dtype is not None
    if storage_bytes(shape, before if before is not Format.ND else after, source.dtype) != math.prod(blocked.shape) * source.dtype.itemsize:
        return "its blocked form has other sizes than C0 = 32 bytes gives (float32 in blocks of 16)"
    made = bench.made(shape, source.dtype, before)
    turned = bench.builder.op("TransData", made, domain="ascend", src_format=before.value, dst_format=after.value)
    return bench.finish(turned, placed=True)


def _nd_to_nz(row: OperatorRow, bench: _Bench) -> OneOperator:
    made = bench.made(row.inputs[0].shape, DType.FLOAT16)
    turned = bench.builder.op("TransData", made, domain="ascend", src_format="ND", dst_format="FRACTAL_NZ")
    return bench.finish(turned, placed=True)


def _logical(operand: Operand) -> tuple[int, ...]:
    """(N, C, H, W) of an NC1HWC0 shape, channels as padded."""
    if operand.format != "NC1HWC0":
        return operand.shape
    n, c1, h, w, c0 = operand.shape
    return (n, c1 * c0, h, w)


_Builder = Callable[[OperatorRow, _Bench], "OneOperator | str"]
_BUILDERS: dict[str, _Builder] = {
    "Add": _elementwise("Add"),
    "AssignAdd": _elementwise("Add"),
    "Mul": _elementwise("Mul"),
    "RealDiv": _elementwise("Div"),
    "Equal": _elementwise("Equal"),
    "Relu": _elementwise("Relu"),
    "ReluGrad": _relu_grad,
    "LogSoftmaxV2": _elementwise("LogSoftmax"),
    "Cast": _cast,
    "ReluV2": _relu_v2,
    "TensorMove": _copy,
    "AtomicAddrClean": _filled,
    "Fill": _filled,
    "OnesLike": _filled,
    "BroadcastTo": _expand,
    "Transpose": _transpose,
    "ReduceSum": _reduce("ReduceSum"),
    "ReduceMeanD": _reduce("ReduceMean"),
    "BiasAddGrad": _reduce("ReduceSum"),
    "ApplyMomentumD": _momentum,
    "MaxPoolWithArgmax": _max_pool,
    "MaxPoolWithArgmaxV1": _max_pool,
    "Conv2D": _conv,
    "Conv2DBackpropInput": _conv_gradient,
    "Conv2DBackpropInputD": _conv_gradient,
    "MatMulV2": _matmul,
    "MatMulV3": _matmul,
    "MatMul": _sample_matmul,
    "Matmul": _sample_matmul,
    "OneHotD": _one_hot,
    "TopKV2": _top_k,
    "NLLLoss": _nll_loss,
    "TransData": _trans_data,
    "ND2NZ": _nd_to_nz,
}
