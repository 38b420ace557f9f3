"""Gradients of convolutions, by CANN's Conv2DBackpropInput and Conv2DBackpropFilter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ascendsim.graph.ir import Node, Tensor
from ascendsim.training.backward import ASCEND, Backward, Rule

Grads = Sequence["Tensor | None"]
_WINDOW = ("strides", "pads", "dilations", "auto_pad")


def _window(node: Node) -> dict[str, Any]:
    return {name: node.attributes[name] for name in _WINDOW if name in node.attributes}


def _bias(step: Backward, port: int) -> Tensor | None:
    """One value an output channel: summed over images and positions."""
    return step.op("BiasAddGrad", step.grad, domain=ASCEND, data_format="NCHW") if step.needs(port) else None


def _check(step: Backward) -> None:
    rank = len(step.node.required(0).static_shape)
    if rank != 4:
        step.refuse("needs maps of rank 4", rank, "give a convolution over one axis a second one of size 1")


def _names(step: Backward, channels: int) -> tuple[str, str, dict[str, Any]]:
    """Operators of both gradients, with groups where the operator has them."""
    groups = int(step.node.attr("group", 1))
    depthwise = groups > 1 and groups == channels
    kind = "DepthwiseConv2D" if depthwise else "Conv2D"
    own = {} if depthwise else {"groups": groups}
    return f"{kind}BackpropInput", f"{kind}BackpropFilter", own


def _conv(step: Backward) -> Grads:
    _check(step)
    x, filters = step.node.required(0), step.node.required(1)
    to_input, to_filter, groups = _names(step, x.static_shape[1])
    window = {**_window(step.node), **groups}
    first = second = None
    if step.needs(0):
        size = x.static_shape
        first = step.op(to_input, filters, step.grad, domain=ASCEND, input_size=size, **window)
    if step.needs(1):
        size = filters.static_shape
        second = step.op(to_filter, x, step.grad, domain=ASCEND, filter_size=size, **window)
    return first, second, _bias(step, 2)


def _conv_transpose(step: Backward) -> Grads:
    """It is itself the gradient of a convolution from its output to its input."""
    _check(step)
    node, x, filters = step.node, step.node.required(0), step.node.required(1)
    if node.attr("auto_pad", "NOTSET") != "NOTSET" or node.attr("output_shape"):
        step.refuse(
            "needs its padding as numbers (pads)", remedy="give pads instead of auto_pad or output_shape"
        )
    _, to_filter, groups = _names(step, step.grad.static_shape[1])
    first = second = None
    if step.needs(0):
        first = step.op("Conv", step.grad, filters, group=int(node.attr("group", 1)), **_window(node))
    if step.needs(1):
        size, window = filters.static_shape, {**_window(node), **groups}
        second = step.op(to_filter, step.grad, x, domain=ASCEND, filter_size=size, **window)
    return first, second, _bias(step, 2)


RULES: dict[tuple[str, str], Rule] = {("", "Conv"): _conv, ("", "ConvTranspose"): _conv_transpose}
