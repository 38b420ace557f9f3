"""Gradients of convolutions and pooling, and the pooling that notes where its maxima are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ascendsim.frontends.torch.call import Call, rank
from ascendsim.frontends.torch.families.linear import each
from ascendsim.frontends.torch.families.reduce import windows
from ascendsim.graph.ir import Tensor


def convolution(
    call: Call,
    dy: Tensor,
    x: Tensor,
    weight: Tensor,
    _bias_sizes: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    _output_padding: Sequence[int],
    groups: int,
    mask: Sequence[bool],
) -> list[Tensor | None]:
    """Of x, weight and bias, as far as they are asked for.

    A transposed convolution is the gradient of a plain one: of it, x follows by the plain convolution of dy,
    and in the gradient of the filter x and dy change places.
    """
    if rank(x) == 3:
        return _as_image(
            call,
            dy,
            x,
            weight,
            _bias_sizes,
            stride,
            padding,
            dilation,
            transposed,
            _output_padding,
            groups,
            mask,
        )
    steps, pads, gaps = (each(one, rank(x) - 2) for one in (stride, padding, dilation))
    options: dict[str, Any] = {"strides": steps, "pads": (*pads, *pads), "dilations": gaps}
    volumes = rank(x) == 5
    depthwise = not (transposed or volumes) and groups > 1 and groups == x.static_shape[1]
    prefix = "Conv3D" if volumes else "DepthwiseConv2D" if depthwise else "Conv2D"
    spread: dict[str, Any] = {} if depthwise else {"groups": int(groups)}
    dx = dw = db = None
    if mask[0] and transposed:
        dx = call.op("Conv", dy, weight, group=int(groups), **options)
    elif mask[0]:
        sizes = x.static_shape
        dx = call.chip(f"{prefix}BackpropInput", weight, dy, input_size=sizes, **options, **spread)[0]
    if mask[1]:
        images = (dy, x) if transposed else (x, dy)
        sizes = weight.static_shape
        dw = call.chip(f"{prefix}BackpropFilter", *images, filter_size=sizes, **options, **spread)[0]
        dw = call.of_type(dw, weight.dtype)
    if mask[2]:
        db = call.chip("BiasAddGrad", dy, data_format="NCHW")[0]
    return [dx, dw, db]


def _as_image(
    call: Call, dy: Tensor, x: Tensor, weight: Tensor, bias_sizes: Any, *options: Any
) -> list[Tensor | None]:
    """In one dimension: images one row high."""
    stride, padding, dilation, transposed, output_padding, groups, mask = options
    wide: list[Any] = [call.op("Unsqueeze", one, [2]) for one in (dy, x, weight)]
    sizes = [(1, *stride), (0, *padding), (1, *dilation)]
    wide += [bias_sizes, *sizes, transposed, (0, *output_padding), groups, mask]
    dx, dw, db = convolution(call, *wide)
    return [*(None if one is None else call.op("Squeeze", one, [2]) for one in (dx, dw)), db]


def max_pool_with_indices(
    call: Call,
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> list[Tensor]:
    """The largest values, and where in the plane they are; the gradient takes CANN's mask of bits in its
    place.
    """
    options = {**windows(x, kernel, stride, padding, ceil_mode), "dilations": each(dilation, 2)}
    y, mask = call.chip("MaxPoolWithArgmax", x, outputs=2, **options)
    flat = call.ops("MaxPool", x, outputs=2, **options)[1]  # positions in the whole tensor; dead if unread
    height, width = x.static_shape[2:]
    indices = call.op("Mod", flat, call.array(height * width, "plane"))
    call.facts[indices] = mask
    return [y, indices]


def max_pool(
    call: Call,
    dy: Tensor,
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    indices: Tensor,
) -> Tensor:
    """Dy where the largest values were; without the mask (the forward pass is another graph) it is made
    anew.
    """
    options = {**windows(x, kernel, stride, padding, ceil_mode), "dilations": each(dilation, 2)}
    mask = call.facts.get(indices)
    if mask is None:
        mask = call.chip("MaxPoolWithArgmax", x, outputs=2, **options)[1]
    return call.chip("MaxPoolGradWithArgmax", x, dy, mask, **options)[0]


def average_pool(
    call: Call,
    dy: Tensor,
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> Tensor:
    """Dy spread over each window."""
    if divisor is not None:
        raise call.unsupported("needs no divisor_override", divisor)
    options = windows(x, kernel, stride, padding, ceil_mode)
    options["count_include_pad"] = int(count_include_pad)
    return call.chip("AvgPoolV2Grad", dy, orig_input_shape=x.static_shape, **options)[0]


def adaptive_average_pool(call: Call, dy: Tensor, x: Tensor) -> Tensor:
    """The same with windows that follow from the sizes."""
    return call.chip("AdaptiveAvgPool2dGrad", dy, orig_input_shape=x.static_shape)[0]
