"""Gradients of convolutions, by CANN's Conv2DBackpropInput and Conv2DBackpropFilter, and those of volumes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ascendsim.graph.ir import Node, Tensor
from ascendsim.training.backward import ASCEND, Backward, Rule

Grads = Sequence["Tensor | None"]
_WINDOW = ("strides", "pads", "dilations", "auto_pad")


def _window(node: Node) -> dict[str, Any]:
    """Attributes of a window of two dimensions or three."""
    window = {name: node.attributes[name] for name in _WINDOW if name in node.attributes}
    if len(node.required(0).static_shape) == 3:
        window |= {name: _row(window[name], int(name != "pads")) for name in window.keys() - {"auto_pad"}}
    return window


def _bias(step: Backward, port: int) -> Tensor | None:
    """One value an output channel: summed over images and positions."""
    if not step.needs(port):
        return None
    dy = _as_map(step, step.grad)
    return step.op("BiasAddGrad", dy, domain=ASCEND, data_format="NCHW")


def _check(step: Backward) -> None:
    rank = len(step.node.required(0).static_shape)
    if rank not in (3, 4, 5):
        step.refuse("is known for one to three dimensions", f"{rank - 2} dimensions")


def _as_map(step: Backward, tensor: Tensor) -> Tensor:
    """One row of a map where there is one dimension only, as CANN makes Conv1D a Conv2D."""
    shape = tensor.static_shape
    return step.reshaped(tensor, (*shape[:2], 1, shape[2])) if len(shape) == 3 else tensor


def _row(values: Any, first: int) -> tuple[int, ...]:
    """A window's numbers with those of the axis in front: none is moved, none added."""
    half = len(values) // 2
    return (first, *values) if len(values) == 1 else (first, *values[:half], first, *values[half:])


def _names(step: Backward, channels: int) -> tuple[str, str, dict[str, Any]]:
    """Operators of both gradients, with groups where the operator has them."""
    groups, volumes = int(step.node.attr("group", 1)), len(step.node.required(0).static_shape) == 5
    depthwise = groups > 1 and groups == channels and not volumes
    kind = "Conv3D" if volumes else "DepthwiseConv2D" if depthwise else "Conv2D"
    own = {} if depthwise else {"groups": groups}
    return f"{kind}BackpropInput", f"{kind}BackpropFilter", own


def _conv(step: Backward) -> Grads:
    _check(step)
    shapes = [step.node.required(port).static_shape for port in (0, 1)]
    x, filters = (_as_map(step, step.node.required(port)) for port in (0, 1))
    dy = _as_map(step, step.grad)
    to_input, to_filter, groups = _names(step, shapes[0][1])
    window = {**_window(step.node), **groups}
    first = second = None
    if step.needs(0):
        made = step.op(to_input, filters, dy, domain=ASCEND, input_size=x.static_shape, **window)
        first = step.reshaped(made, shapes[0])
    if step.needs(1):
        made = step.op(to_filter, x, dy, domain=ASCEND, filter_size=filters.static_shape, **window)
        second = step.reshaped(made, shapes[1])
    return first, second, _bias(step, 2)


def _conv_transpose(step: Backward) -> Grads:
    """It is itself the gradient of a convolution from its output to its input."""
    _check(step)
    node, shapes = step.node, [step.node.required(port).static_shape for port in (0, 1)]
    if node.attr("auto_pad", "NOTSET") != "NOTSET" or node.attr("output_shape"):
        step.refuse(
            "needs its padding as numbers (pads)", remedy="give pads instead of auto_pad or output_shape"
        )
    x, filters, dy = (_as_map(step, one) for one in (node.required(0), node.required(1), step.grad))
    _, to_filter, groups = _names(step, dy.static_shape[1])
    window = _window(node)
    first = second = None
    if step.needs(0):
        made = step.op("Conv", dy, filters, group=int(node.attr("group", 1)), **window)
        first = step.reshaped(made, shapes[0])
    if step.needs(1):
        size = filters.static_shape
        made = step.op(to_filter, dy, x, domain=ASCEND, filter_size=size, **window, **groups)
        second = step.reshaped(made, shapes[1])
    return first, second, _bias(step, 2)


RULES: dict[tuple[str, str], Rule] = {("", "Conv"): _conv, ("", "ConvTranspose"): _conv_transpose}
