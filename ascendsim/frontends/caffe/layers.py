"""Layers of Caffe in ONNX's operators.

What differs from ONNX: pooling rounds sizes up, and its averages count padding, not what lies beyond; the
statistics of BatchNorm are sums, divided by the factor in its third blob; Scale and Bias broadcast from an
axis on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from ascendsim.core.errors import InputError
from ascendsim.frontends.caffe.interp import interp
from ascendsim.frontends.caffe.writer import Dims, WriteLayer, Writer

_SAME = {
    "TanH": "Tanh",
    "Sigmoid": "Sigmoid",
    "AbsVal": "Abs",
    "BNLL": "Softplus",
    "Exp": "Exp",
    "Log": "Log",
}


def _pair(layer: Any, parameter: Any, name: str, default: int) -> tuple[int, int]:
    """Height and width of a kernel, stride or padding, in any of Caffe's three ways."""
    short = name.removesuffix("_size")
    if parameter.HasField(f"{short}_h") or parameter.HasField(f"{short}_w"):
        return int(getattr(parameter, f"{short}_h")), int(getattr(parameter, f"{short}_w"))
    value = getattr(parameter, name)
    if isinstance(value, int):
        return (value, value) if parameter.HasField(name) else (default, default)
    values = list(value) or [default]
    if len(values) > 2:
        raise InputError(f"layer {layer.name!r}", f"needs one or two numbers as {name}", values)
    return int(values[0]), int(values[-1])


def _convolution(writer: Writer, layer: Any) -> None:
    p, x = layer.convolution_param, writer.source(layer)
    n, c, h, w = writer.maps(layer, x)
    kernel, stride, pad = (
        _pair(layer, p, name, default) for name, default in (("kernel_size", 0), ("stride", 1), ("pad", 0))
    )
    dilation = (int(p.dilation[0]), int(p.dilation[-1])) if p.dilation else (1, 1)
    m, group, back = int(p.num_output), int(p.group), layer.type == "Deconvolution"
    if not (m and min(kernel) and group) or c % group or m % group:
        raise InputError(f"layer {layer.name!r}", "has no valid num_output, kernel_size or group", m)
    filters = (c, m // group, *kernel) if back else (m, c // group, *kernel)
    inputs = [x, writer.weight(layer, 0, filters)]
    if p.bias_term:
        inputs.append(writer.weight(layer, 1, (m,)))
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    if back:
        sides = [s * (size - 1) + r - 2 * q for size, s, r, q in zip((h, w), stride, reach, pad, strict=True)]
    else:
        sides = [
            (size + 2 * q - r) // s + 1 for size, s, r, q in zip((h, w), stride, reach, pad, strict=True)
        ]
    if min(sides) < 1:
        raise InputError(f"layer {layer.name!r}", "has a kernel that is larger than its input", list(kernel))
    kind = "ConvTranspose" if back else "Conv"
    writer.emit(
        layer, kind, inputs, (n, m, *sides), kernel_shape=kernel, strides=stride, pads=(*pad, *pad),
        dilations=dilation, group=group,
    )  # fmt: skip


def _pooling(writer: Writer, layer: Any) -> None:
    p, x = layer.pooling_param, writer.source(layer)
    n, c, h, w = writer.maps(layer, x)
    if p.pool not in (0, 1):
        raise InputError(f"layer {layer.name!r}", "must pool MAX or AVE", "STOCHASTIC")
    if p.global_pooling:
        kind = "GlobalAveragePool" if p.pool else "GlobalMaxPool"
        writer.emit(layer, kind, [x], (n, c, 1, 1))
        return
    kernel, stride, pad = (
        _pair(layer, p, name, default) for name, default in (("kernel_size", 0), ("stride", 1), ("pad", 0))
    )
    if not min(kernel):
        raise InputError(f"layer {layer.name!r}", "needs a kernel_size")
    up = p.round_mode == 0
    sides = []
    for size, k, s, q in zip((h, w), kernel, stride, pad, strict=True):
        steps = (size + 2 * q - k) / s
        side = (math.ceil(steps) if up else math.floor(steps)) + 1
        sides.append(side - (q > 0 and (side - 1) * s >= size + q))  # the last window starts inside
    more: dict[str, Any] = {"count_include_pad": 1} if p.pool else {}
    kind = "AveragePool" if p.pool else "MaxPool"
    writer.emit(
        layer, kind, [x], (n, c, *sides), kernel_shape=kernel, strides=stride, pads=(*pad, *pad),
        ceil_mode=int(up), **more,
    )  # fmt: skip


def _inner_product(writer: Writer, layer: Any) -> None:
    p, x = layer.inner_product_param, writer.source(layer)
    dims, m = writer.shapes[x], int(p.num_output)
    axis = p.axis % len(dims)
    k = math.prod(dims[axis:])
    rows = math.prod(dims[:axis])
    flat = writer.emit(layer, "Flatten", [x], (rows, k), "flat", axis=axis)
    inputs = [flat, writer.weight(layer, 0, (k, m) if p.transpose else (m, k))]
    if p.bias_term:
        inputs.append(writer.weight(layer, 1, (m,)))
    transposed = int(not p.transpose)
    if axis == 1:
        writer.emit(layer, "Gemm", inputs, (rows, m), transB=transposed)
        return
    made = writer.emit(layer, "Gemm", inputs, (rows, m), "product", transB=transposed)
    shape = writer.constant(layer, "shape", np.array([*dims[:axis], m], np.int64))
    writer.emit(layer, "Reshape", [made, shape], (*dims[:axis], m))


def _lrn(writer: Writer, layer: Any) -> None:
    p, x = layer.lrn_param, writer.source(layer)
    if p.norm_region != 0:
        raise InputError(f"layer {layer.name!r}", "must normalise ACROSS_CHANNELS", "WITHIN_CHANNEL")
    writer.emit(layer, "LRN", [x], writer.shapes[x], size=p.local_size, alpha=p.alpha, beta=p.beta, bias=p.k)


def _relu(writer: Writer, layer: Any) -> None:
    slope, x = layer.relu_param.negative_slope, writer.source(layer)
    kind, more = ("LeakyRelu", {"alpha": slope}) if slope else ("Relu", {})
    writer.emit(layer, kind, [x], writer.shapes[x], **more)


def _prelu(writer: Writer, layer: Any) -> None:
    x = writer.source(layer)
    shared = layer.prelu_param.channel_shared
    dims = writer.shapes[x] if shared else writer.with_channels(layer, x)
    slope = writer.weight(layer, 0, (1,) if shared else (dims[1], *(1,) * (len(dims) - 2)))
    writer.emit(layer, "PRelu", [x, slope], dims)


def _elu(writer: Writer, layer: Any) -> None:
    x = writer.source(layer)
    writer.emit(layer, "Elu", [x], writer.shapes[x], alpha=layer.elu_param.alpha)


def _batch_norm(writer: Writer, layer: Any) -> None:
    x = writer.source(layer)
    dims = writer.with_channels(layer, x)
    c = dims[1]
    ones, zeros = (
        writer.constant(layer, what, np.full(c, value, np.float32))
        for what, value in (("one", 1), ("zero", 0))
    )
    statistics = [writer.weight(layer, number, (c,)) for number in (0, 1)]
    blobs = writer.blobs.get(layer.name, ())
    factor = float((blobs[2].data or blobs[2].double_data)[0]) if len(blobs) > 2 else 1.0
    if blobs and factor != 1:
        for proto in writer.constants[-2:]:
            values = numpy_helper.to_array(proto) * np.float32(1 / factor if factor else 0)
            proto.CopyFrom(numpy_helper.from_array(values, proto.name))
    inputs = [x, ones, zeros, *statistics]
    writer.emit(layer, "BatchNormalization", inputs, dims, epsilon=layer.batch_norm_param.eps)


def _scale(writer: Writer, layer: Any) -> None:
    """Scale and Bias: the second operand is a blob or the layer's own, and broadcasts from an axis on."""
    p = layer.scale_param if layer.type == "Scale" else layer.bias_param
    x = writer.source(layer)
    dims = writer.shapes[x]
    axis = p.axis % len(dims)
    if len(layer.bottom) > 1:
        other = writer.source(layer, 1)
        width = len(writer.shapes[other])
        shape = (*writer.shapes[other], *(1,) * (len(dims) - axis - width))
        target = writer.constant(layer, "shape", np.array(shape, np.int64))
        operand = writer.emit(layer, "Reshape", [other, target], shape, "operand")
        number = 0
    else:
        width = len(dims) - axis if p.num_axes == -1 else p.num_axes
        shape = (*dims[axis : axis + width], *(1,) * (len(dims) - axis - width))
        operand, number = writer.weight(layer, 0, shape), 1
    if layer.type == "Bias":
        writer.emit(layer, "Add", [x, operand], dims)
        return
    if not p.bias_term:
        writer.emit(layer, "Mul", [x, operand], dims)
        return
    scaled = writer.emit(layer, "Mul", [x, operand], dims, "scaled")
    writer.emit(layer, "Add", [scaled, writer.weight(layer, number, shape)], dims)


def _eltwise(writer: Writer, layer: Any) -> None:
    p = layer.eltwise_param
    sources = [writer.source(layer, port) for port in range(len(layer.bottom))]
    dims = writer.shapes[sources[0]]
    if len(sources) < 2 or any(writer.shapes[name] != dims for name in sources):
        raise InputError(f"layer {layer.name!r}", "needs two or more blobs of one shape", list(layer.bottom))
    if p.operation == 1 and p.coeff:
        if len(p.coeff) != len(sources):
            raise InputError(f"layer {layer.name!r}", "needs a coeff for each blob", len(p.coeff))
        for number, value in enumerate(p.coeff):
            if value != 1:
                factor = writer.constant(layer, f"coeff{number}", np.float32(value))
                sources[number] = writer.emit(layer, "Mul", [sources[number], factor], dims, f"times{number}")
    kind = {0: "Mul", 1: "Add", 2: "Max"}[p.operation]
    total = sources[0]
    for number, name in enumerate(sources[1:]):
        last = number == len(sources) - 2
        total = writer.emit(layer, kind, [total, name], dims, "" if last else f"step{number}")


def _concat(writer: Writer, layer: Any) -> None:
    p = layer.concat_param
    sources = [writer.source(layer, port) for port in range(len(layer.bottom))]
    dims = list(writer.shapes[sources[0]])
    axis = (p.axis if p.HasField("axis") else p.concat_dim) % len(dims)
    dims[axis] = sum(writer.shapes[name][axis] for name in sources)
    writer.emit(layer, "Concat", sources, tuple(dims), axis=axis)


def _slice(writer: Writer, layer: Any) -> None:
    p, x = layer.slice_param, writer.source(layer)
    dims = writer.shapes[x]
    axis = (p.axis if p.HasField("axis") else p.slice_dim) % len(dims)
    count = len(layer.top)
    points = list(p.slice_point) or [dims[axis] * item // count for item in range(1, count)]
    sizes = np.diff([0, *points, dims[axis]]).astype(np.int64)
    if len(sizes) != count or (sizes < 1).any():
        raise InputError(f"layer {layer.name!r}", f"needs {count - 1} rising slice_point", points)
    made = [writer.fresh(layer, port) for port in range(count)]
    inputs = [x, writer.constant(layer, "sizes", sizes)]
    writer.nodes.append(helper.make_node("Split", inputs, made, name=layer.name, axis=axis))
    for blob, name, size in zip(layer.top, made, sizes, strict=True):
        writer.names[blob] = name
        writer.shapes[name] = (*dims[:axis], int(size), *dims[axis + 1 :])


def _softmax(writer: Writer, layer: Any) -> None:
    x = writer.source(layer)
    dims = writer.shapes[x]
    writer.emit(layer, "Softmax", [x], dims, axis=layer.softmax_param.axis % len(dims))


def _reshaped(writer: Writer, layer: Any, x: str, dims: Dims) -> None:
    shape = writer.constant(layer, "shape", np.array(dims, np.int64))
    writer.emit(layer, "Reshape", [x, shape], dims)


def _flatten(writer: Writer, layer: Any) -> None:
    p, x = layer.flatten_param, writer.source(layer)
    dims = writer.shapes[x]
    first, last = p.axis % len(dims), p.end_axis % len(dims)
    flat = (*dims[:first], math.prod(dims[first : last + 1]), *dims[last + 1 :])
    if first == 1 and len(flat) == 2:
        writer.emit(layer, "Flatten", [x], flat, axis=1)
    else:
        _reshaped(writer, layer, x, flat)


def _reshape(writer: Writer, layer: Any) -> None:
    p, x = layer.reshape_param, writer.source(layer)
    dims = writer.shapes[x]
    if p.axis != 0 or p.num_axes != -1:
        raise InputError(f"layer {layer.name!r}", "must reshape all axes", f"axis {p.axis}")
    wanted = [dims[at] if dim == 0 else int(dim) for at, dim in enumerate(p.shape.dim)]
    rest = math.prod(dim for dim in wanted if dim > 0)
    shape = tuple(math.prod(dims) // rest if dim == -1 else dim for dim in wanted)
    if math.prod(shape) != math.prod(dims):
        raise InputError(f"layer {layer.name!r}", f"must keep {math.prod(dims)} elements", wanted)
    _reshaped(writer, layer, x, shape)


def _power(writer: Writer, layer: Any) -> None:
    p, x = layer.power_param, writer.source(layer)
    steps = [
        (kind, value)
        for kind, value, neutral in (("Mul", p.scale, 1), ("Add", p.shift, 0), ("Pow", p.power, 1))
        if value != neutral
    ]
    dims = writer.shapes[x]
    if not steps:
        writer.emit(layer, "Identity", [x], dims)
    for number, (kind, value) in enumerate(steps):
        operand = writer.constant(layer, kind.lower(), np.float32(value))
        x = writer.emit(layer, kind, [x, operand], dims, "" if number == len(steps) - 1 else kind.lower())


def _reduction(writer: Writer, layer: Any) -> None:
    p, x = layer.reduction_param, writer.source(layer)
    dims = writer.shapes[x]
    axis = p.axis % len(dims)
    kind = {1: "ReduceSum", 2: "ReduceL1", 3: "ReduceSumSquare", 4: "ReduceMean"}[p.operation]
    axes = list(range(axis, len(dims)))
    step = "" if p.coeff == 1 else "sum"
    if kind == "ReduceSum":  # the only one that reads its axes in this operator set
        operands = [x, writer.constant(layer, "axes", np.array(axes, np.int64))]
        made = writer.emit(layer, kind, operands, dims[:axis], step, keepdims=0)
    else:
        made = writer.emit(layer, kind, [x], dims[:axis], step, axes=axes, keepdims=0)
    if step:
        factor = writer.constant(layer, "coeff", np.float32(p.coeff))
        writer.emit(layer, "Mul", [made, factor], dims[:axis])


def _permute(writer: Writer, layer: Any) -> None:
    x = writer.source(layer)
    dims, order = writer.shapes[x], [int(axis) for axis in layer.permute_param.order]
    order += [axis for axis in range(len(dims)) if axis not in order]
    if sorted(order) != list(range(len(dims))):
        raise InputError(f"layer {layer.name!r}", "must order the axes of its blob", order)
    writer.emit(layer, "Transpose", [x], tuple(dims[axis] for axis in order), perm=order)


def _proposal(writer: Writer, layer: Any) -> None:
    """ATC's own layer; the second blob, how many boxes there are, only where the network names it."""
    p = layer.proposal_param
    if len(layer.bottom) != 3:
        rule = "needs three blobs: scores, changes of boxes, sizes of images"
        raise InputError(f"layer {layer.name!r}", rule, list(layer.bottom))
    sources = [writer.source(layer, port) for port in range(3)]
    images = writer.shapes[sources[0]][0]
    shapes = [(images, 5, int(p.post_nms_topn)), (images, 8)][: len(layer.top)]
    made = [writer.fresh(layer, port) for port in range(len(shapes))]
    writer.nodes.append(
        helper.make_node(
            "Proposal", sources, made, name=layer.name, domain="ascend", feat_stride=p.feat_stride,
            base_size=p.base_size, min_size=p.min_size, ratio=list(p.ratio) or [0.5, 1.0, 2.0],
            scale=list(p.scale) or [8.0, 16.0, 32.0], pre_nms_topn=p.pre_nms_topn,
            post_nms_topn=p.post_nms_topn, iou_threshold=p.iou_threshold,
        )
    )  # fmt: skip
    for blob, name, dims in zip(layer.top, made, shapes, strict=False):
        writer.names[blob], writer.shapes[name] = name, dims


def _same(writer: Writer, layer: Any) -> None:
    x = writer.source(layer)
    writer.emit(layer, _SAME[layer.type], [x], writer.shapes[x])


def _identity(writer: Writer, layer: Any) -> None:
    """Dropout, and Split, whose blobs are one tensor."""
    x = writer.names[layer.bottom[0]]
    for blob in layer.top:
        writer.names[blob] = x


LAYERS: Mapping[str, WriteLayer] = {
    "BatchNorm": _batch_norm,
    "Bias": _scale,
    "Concat": _concat,
    "Convolution": _convolution,
    "ConvolutionDepthwise": _convolution,
    "Deconvolution": _convolution,
    "Dropout": _identity,
    "ELU": _elu,
    "Eltwise": _eltwise,
    "Flatten": _flatten,
    "InnerProduct": _inner_product,
    "Interp": interp,
    "LRN": _lrn,
    "PReLU": _prelu,
    "Permute": _permute,
    "Pooling": _pooling,
    "Power": _power,
    "Proposal": _proposal,
    "ReLU": _relu,
    "Reduction": _reduction,
    "Reshape": _reshape,
    "Scale": _scale,
    "Slice": _slice,
    "Softmax": _softmax,
    "Split": _identity,
    **dict.fromkeys(_SAME, _same),
}
