"""Resizing of images, and its gradient."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.frontends.torch.call import Call, Converter
from ascendsim.frontends.torch.symbols import is_symbol
from ascendsim.graph.ir import Tensor

Scale = float | None
Options = dict[str, Any]


def _nearest(exact: bool) -> Options:
    if exact:
        return {"coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_ceil"}
    return {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


def _linear(corners: bool) -> Options:
    return {"coordinate_transformation_mode": "align_corners" if corners else "half_pixel"}


def _resized(call: Call, x: Tensor, mode: str, options: Options, scales: Sequence[Scale]) -> Tensor:
    given, made = (x.shape or ())[2:], call.shape()[2:]
    if None in scales:
        return call.op("Resize", x, None, None, call.dims(call.shape()), mode=mode, **options)
    factors = [_factor(size, result, scale) for size, result, scale in zip(given, made, scales, strict=True)]
    return call.op(
        "Resize", x, None, call.array([1, 1, *factors], "scales", np.float32), mode=mode, **options
    )


def _factor(size: Any, made: Any, scale: Scale) -> Any:
    """A scale in float32, which floors to the size that PyTorch has made of it."""
    factor = np.float32(scale)
    if not (is_symbol(size) or is_symbol(made)) and math.floor(size * float(factor)) < made:
        return np.nextafter(factor, np.float32(np.inf))
    return factor


def _gradient(
    call: Call, dy: Tensor, name: str, sizes: Sequence[int], options: Options, scales: Sequence[Scale]
) -> Tensor:
    stated: Options = {} if None in scales else {"scales": tuple(scales)}
    shape = tuple(-1 if is_symbol(size) and not place else int(size) for place, size in enumerate(sizes))
    return call.chip(f"{name}Grad", dy, orig_input_shape=shape, **options, **stated)[0]


def nearest(exact: bool = False) -> Converter:
    """upsample_nearest2d: the output point's number divided by the scale, rounded down; or its middle's."""

    def convert(call: Call, x: Tensor, _size: Any, *scales: Scale) -> Tensor:
        return _resized(call, x, "nearest", _nearest(exact), _pair(scales))

    return convert


def nearest_gradient(exact: bool = False) -> Converter:
    """What it adds to each point."""

    def convert(call: Call, dy: Tensor, _size: Any, sizes: Sequence[int], *scales: Scale) -> Tensor:
        return _gradient(call, dy, "ResizeNearestNeighborV2", sizes, _nearest(exact), _pair(scales))

    return convert


def bilinear(call: Call, x: Tensor, _size: Any, corners: bool, *scales: Scale) -> Tensor:
    """upsample_bilinear2d; aligned corners need no scales, the sizes say all."""
    return _resized(call, x, "linear", _linear(corners), (None,) if corners else _pair(scales))


def bilinear_gradient(
    call: Call, dy: Tensor, _size: Any, sizes: Sequence[int], corners: bool, *scales: Scale
) -> Tensor:
    """What it adds to each point."""
    known = (None,) if corners else _pair(scales)
    return _gradient(call, dy, "ResizeBilinearV2", sizes, _linear(corners), known)


def _pair(scales: Sequence[Any]) -> tuple[Scale, ...]:
    """Scales of both axes; `vec` overloads have them in a list."""
    if len(scales) == 1 and scales[0] is not None:
        return tuple(scales[0])
    return tuple(scales) if len(scales) == 2 else (None, None)
