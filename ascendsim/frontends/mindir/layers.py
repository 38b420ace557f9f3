"""Primitives of layers: products, convolutions, pooling, norms, softmax."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ascendsim.frontends.mindir.writer import Call, WriteCall

_PAD_MODES: Mapping[Any, str] = {0: "pad", 1: "same", 2: "valid"}  # numbers where the mode is an input


def _mode(call: Call, port: int = -1) -> str:
    held = call.value(port, "pad_mode", "valid")
    mode = _PAD_MODES.get(held, held)
    if not isinstance(mode, str) or mode.lower() not in _PAD_MODES.values():
        raise call.wrong("has a pad_mode that is not known", str(held))
    return mode.lower()


def _channels_first(call: Call, port: int = -1) -> None:
    held = call.value(port, "format", "NCHW")
    if held not in (0, "NCHW", "NCDHW"):
        raise call.wrong("must have the format NCHW", str(held))


def _plane(call: Call, name: str, port: int = -1, default: Any = None) -> tuple[int, int]:
    """Height and width of a kernel or stride; what stands before them belongs to axes that stay."""
    values = call.integers(port, name, default)
    values = values * 2 if len(values) == 1 else values
    if any(item != 1 for item in values[:-2]) or min(values[-2:], default=0) < 1:
        raise call.wrong(f"needs a {name} of two positive numbers", list(values))
    return values[-2], values[-1]


def _sides(call: Call) -> tuple[int, int, int, int]:
    """Padding on top, at the bottom, left and right."""
    found = call.integers(-1, "pad", (0, 0, 0, 0))
    found = found * 4 if len(found) == 1 else found
    if len(found) != 4 or min(found) < 0:
        raise call.wrong("needs four paddings", list(found))
    return found[0], found[1], found[2], found[3]


def _filters(call: Call) -> dict[str, Any]:
    """What convolutions have in common."""
    _channels_first(call)
    if len(call.ref(0).dims) != 4 or len(call.ref(1).dims) != 4:
        raise call.wrong("needs tensors of four axes")
    return {
        "kernel_shape": call.ref(1).dims[2:],
        "strides": _plane(call, "stride", default=1),
        "dilations": _plane(call, "dilation", default=1),
        "group": call.integer(-1, "group", 1),
    }


def _conv(call: Call) -> Any:
    attributes, mode = _filters(call), _mode(call)
    if mode == "same":
        attributes["auto_pad"] = "SAME_UPPER"
    elif mode == "pad":
        top, bottom, left, right = _sides(call)
        attributes["pads"] = (top, left, bottom, right)
    return call.emit("Conv", [call.tensor(0), call.tensor(1)], **attributes)


def _conv_transposed(call: Call) -> Any:
    """The size of the result is given; padding follows from it as for the convolution that it turns round."""
    attributes, mode = _filters(call), _mode(call)
    size, made = call.ref(0).dims[2:], call.form.dims[2:]
    if len(made) != 2 or min(*size, *made) < 0:
        raise call.wrong("needs known sizes")
    top, bottom, left, right = _sides(call) if mode == "pad" else (0, 0, 0, 0)
    begin, end, more = [top, left], [bottom, right], []
    for at, (inside, outside) in enumerate(zip(size, made, strict=True)):
        reach = attributes["dilations"][at] * (attributes["kernel_shape"][at] - 1) + 1
        whole = attributes["strides"][at] * (inside - 1) + reach
        if mode == "same":
            over = max(whole - outside, 0)
            begin[at], end[at] = over // 2, over - over // 2
        more.append(outside - (whole - begin[at] - end[at]))
    return call.emit(
        "ConvTranspose", [call.tensor(0), call.tensor(1)], pads=(*begin, *end), output_padding=more,
        **attributes,
    )  # fmt: skip


def _pool(call: Call) -> Any:
    _channels_first(call, 4)
    attributes: dict[str, Any] = {
        "kernel_shape": _plane(call, "kernel_size", 1),
        "strides": _plane(call, "strides", 2),
    }
    mode = _mode(call, 3)
    if mode == "pad":
        raise call.wrong("must pool with pad_mode same or valid", mode)
    if mode == "same":
        attributes["auto_pad"] = "SAME_UPPER"
    return call.emit("MaxPool" if call.kind == "MaxPool" else "AveragePool", [call.tensor(0)], **attributes)


def _flat_pool(call: Call) -> Any:
    """Pools of three axes, which MindSpore takes for padded pools of two; the depth must be 1."""
    average, x = call.kind == "AvgPool3D", call.ref(0)
    if len(x.dims) != 5 or x.dims[2] != 1:
        raise call.wrong("must pool a depth of 1", list(x.dims))
    _channels_first(call)
    pads = call.integers(-1, "pad_list" if average else "pads", 0)
    pads = pads * 3 if len(pads) == 1 else pads
    pads = pads if len(pads) == 6 else tuple(side for side in pads for _ in range(2))
    if len(pads) != 6 or min(pads) < 0 or any(pads[:2]):
        raise call.wrong("needs paddings of height and width", list(pads))
    attributes: dict[str, Any] = {
        "kernel_shape": _plane(call, "kernel_size" if average else "ksize"),
        "strides": _plane(call, "strides"),
        "pads": (pads[2], pads[4], pads[3], pads[5]),
        "ceil_mode": int(bool(call.value(-1, "ceil_mode", False))),
    }
    if average:
        if call.value(-1, "divisor_override", 0):
            raise call.wrong("must not override its divisor")
        attributes["count_include_pad"] = int(bool(call.value(-1, "count_include_pad", True)))
    elif any(item != 1 for item in call.integers(-1, "dilation", 1)):
        attributes["dilations"] = _plane(call, "dilation")
    flat, axes = call.step("Squeeze", [x.name, call.list([2])]), call.list([2])
    made = call.step("AveragePool" if average else "MaxPool", [flat], **attributes)
    deep = call.emit("Unsqueeze", [made, axes])
    return deep if average else (deep, None)


def _product(call: Call) -> Any:
    """MatMul of two axes or more; either operand may be turned."""
    names, flags = [], [False, False]
    if call.kind != "MatMulExt":
        flags = [bool(call.value(2, "transpose_a", False)), bool(call.value(3, "transpose_b", False))]
    if any(flags) and [len(call.ref(port).dims) for port in (0, 1)] == [2, 2]:
        return call.emit("Gemm", [call.tensor(0), call.tensor(1)], transA=int(flags[0]), transB=int(flags[1]))
    for port, flag in enumerate(flags):
        rank = len(call.ref(port).dims)
        turned = [*range(rank - 2), rank - 1, rank - 2]
        names.append(call.step("Transpose", [call.tensor(port)], perm=turned) if flag else call.tensor(port))
    return call.emit("MatMul", names)


def _bias_add(call: Call) -> Any:
    """A bias of channels, the second axis."""
    x, bias = call.ref(0), call.tensor(1)
    if len(x.dims) > 2:
        bias = call.step("Reshape", [bias, call.list([-1, *(1,) * (len(x.dims) - 2)])])
    return call.emit("Add", [x.name, bias])


def _batch_norm(call: Call) -> Any:
    if call.value(5, "is_training", False):
        raise call.wrong("must not be in training", True)
    _channels_first(call, 8)
    made = call.emit(
        "BatchNormalization",
        [call.tensor(port) for port in range(5)],
        epsilon=call.number(6, "epsilon", 1e-5),
    )
    return (made, None, None, None, None)


def _layer_norm(call: Call) -> Any:
    rank, axis = len(call.ref(0).dims), call.integer(3, "begin_norm_axis", 1)
    if not -rank <= axis < rank or len(call.ref(1).dims) != rank - axis % rank:
        raise call.wrong("must scale the axes that it normalises", axis)
    made = call.emit(
        "LayerNormalization",
        [call.tensor(port) for port in range(3)],
        axis=axis,
        epsilon=call.number(5, "epsilon", 1e-7),
    )
    return (made, None, None)


def _group_norm(call: Call) -> Any:
    made = call.emit(
        "GroupNormalization",
        [call.tensor(port) for port in (0, 2, 3)],
        num_groups=call.integer(1, "num_groups"),
        epsilon=call.number(4, "eps", 1e-5),
    )
    return (made, None, None)


def _softmax(call: Call) -> Any:
    kind = "Softmax" if call.kind == "Softmax" else "LogSoftmax"
    return call.emit(kind, [call.tensor(0)], axis=call.integer(1, "axis", -1))


LAYERS: Mapping[str, WriteCall] = {
    "AvgPool": _pool,
    "AvgPool3D": _flat_pool,
    "BatchMatMul": _product,
    "BatchNorm": _batch_norm,
    "BiasAdd": _bias_add,
    "Conv2D": _conv,
    "Conv2DTranspose": _conv_transposed,
    "GroupNorm": _group_norm,
    "LayerNorm": _layer_norm,
    "LogSoftmax": _softmax,
    "MatMul": _product,
    "MatMulExt": _product,
    "MaxPool": _pool,
    "MaxPool3DWithArgmax": _flat_pool,
    "Softmax": _softmax,
}
