"""Interp, the layer of the DeepLab and PSPNet forks of Caffe: bilinear interpolation with aligned corners.

Point i of the output lies at i * (src - 1) / (dst - 1) of the input, which is ONNX's Resize with
align_corners. The size of the output is said in one of five ways; pad_beg and pad_end, both <= 0, cut rows
and columns off before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ascendsim.core.errors import InputError
from ascendsim.frontends.caffe.writer import Dims, Writer


def interp(writer: Writer, layer: Any) -> None:
    """Writes the layer as Slice (where it cuts) and Resize.

    Raises:
        InputError: If paddings are positive or leave nothing, or no size of the output is said.
    """
    x = writer.source(layer)
    dims = writer.shapes[x]
    if len(dims) != 4:
        raise InputError(f"layer {layer.name!r}", "must read a blob of four axes", list(dims))
    inside = _inside(layer, dims)
    sides = _sides(writer, layer, inside)
    if min(sides) < 1:
        raise InputError(f"layer {layer.name!r}", "must make a map of at least one point", list(sides))
    p = layer.interp_param
    if p.pad_beg or p.pad_end:
        starts = writer.constant(layer, "starts", np.array([-p.pad_beg] * 2, np.int64))
        ends = writer.constant(layer, "ends", np.array([d + p.pad_end for d in dims[2:]], np.int64))
        axes = writer.constant(layer, "axes", np.array([2, 3], np.int64))
        x = writer.emit(layer, "Slice", [x, starts, ends, axes], (*dims[:2], *inside), "cut")
    out = (*dims[:2], *sides)
    sizes = writer.constant(layer, "sizes", np.array(out, np.int64))
    writer.emit(
        layer,
        "Resize",
        [x, "", "", sizes],
        out,
        mode="linear",
        coordinate_transformation_mode="align_corners",
    )


def _inside(layer: Any, dims: Dims) -> tuple[int, int]:
    """Height and width that are left of the input."""
    p = layer.interp_param
    if max(p.pad_beg, p.pad_end) > 0:
        raise InputError(
            f"layer {layer.name!r}", "must have pad_beg and pad_end <= 0 (it cuts)", [p.pad_beg, p.pad_end]
        )
    left = [size + p.pad_beg + p.pad_end for size in dims[2:]]
    if min(left) < 1:
        raise InputError(f"layer {layer.name!r}", "cuts more than its blob has", list(dims[2:]))
    return left[0], left[1]


def _sides(writer: Writer, layer: Any, inside: tuple[int, int]) -> tuple[int, int]:
    """Height and width of the output, in the order in which the forks look: a second blob of that size,
    factors, height and width.
    """
    p = layer.interp_param
    factors = [name for name in ("shrink_factor", "zoom_factor") if p.HasField(name)]
    for name in factors:
        if getattr(p, name) < 1:
            raise InputError(f"layer {layer.name!r}", f"must have a {name} >= 1", getattr(p, name))
    if len(layer.bottom) > 1:
        other = writer.shapes[writer.source(layer, 1)]
        if len(other) != 4:
            raise InputError(
                f"layer {layer.name!r}", "must take its size from a blob of four axes", list(other)
            )
        return other[2], other[3]
    sized = p.HasField("height") or p.HasField("width")
    if sized and len(factors) != 1:
        return int(p.height), int(p.width)
    if not factors:
        rule = "needs height and width, zoom_factor or shrink_factor"
        raise InputError(
            f"layer {layer.name!r}", rule, remedy="write interp_param { height: 350 width: 350 }"
        )
    sides = []
    for size in inside:
        size = (size - 1) // p.shrink_factor + 1 if "shrink_factor" in factors else size
        sides.append(size + (size - 1) * (p.zoom_factor - 1))
    return sides[0], sides[1]
