"""What rules around padding and windows share: the widths of a Pad, and how many taps of a window lie inside
the input.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ascendsim.graph.ir import Array, Node, Tensor

MAX_PAD = 255  # the image-to-column instruction holds padding widths in 8 bits


@dataclass(frozen=True, slots=True)
class Padding:
    """A constant Pad.

    Attributes:
        widths: (before, after) by axis.
        value: What is put there.
    """

    widths: tuple[tuple[int, int], ...]
    value: float


def constant_padding(pad: Node) -> Padding | str:
    """What a Pad node adds, or why that is not known."""
    if pad.attr("mode", "constant") != "constant":
        return f"the padding mode is {pad.attr('mode')}"
    data, widths, fill, axes = (pad.input(port) for port in range(4))
    if data is None or data.shape is None:
        return "the rank of the padded tensor is not known"
    if not all(
        tensor is None or (tensor.constant is not None and tensor.constant.available)
        for tensor in (widths, fill, axes)
    ):
        return "the padding is not constant"
    rank = len(data.shape)
    named = list(range(rank)) if axes is None else [int(axis) % rank for axis in _values(axes)]
    numbers = [] if widths is None else [int(number) for number in _values(widths)]
    by_axis = dict(zip(named, zip(numbers, numbers[len(named) :], strict=False), strict=True))
    return Padding(
        tuple(by_axis.get(axis, (0, 0)) for axis in range(rank)),
        0.0 if fill is None else float(_values(fill).ravel()[0]),
    )


def window_refusal(padding: Padding, window: Node) -> str | None:
    """Why a padding cannot become an attribute of the windows behind it, None if it can."""
    if any(width != (0, 0) for width in padding.widths[:2]):
        return "the padding is not along rows and columns alone"
    if any(side < 0 for width in padding.widths for side in width):
        return "the padding cuts"
    if window.attr("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return "the windows choose their padding by the input's size"
    if any(side > MAX_PAD for side in merged_pads(padding, window)):
        return f"the padding is wider than {MAX_PAD}"
    return None


def merged_pads(padding: Padding, window: Node) -> tuple[int, ...]:
    """The `pads` attribute of the windows with the padding added: all befores, then all afters."""
    spatial = padding.widths[2:]
    own = window.attr("pads", ()) if window.attr("auto_pad", "NOTSET") == "NOTSET" else ()
    added = [width[0] for width in spatial] + [width[1] for width in spatial]
    return tuple(int(mine) + more for mine, more in zip(own or (0,) * len(added), added, strict=True))


def taps_inside(size: int, kernel: int, stride: int, dilation: int, before: int, output: int) -> Array:
    """By output position along one axis: taps of its window that lie inside the input.

    Args:
        size: Of the input.
        kernel, stride, dilation: Of the window.
        before: Padding before the input.
        output: Number of positions.
    """
    start = np.arange(output) * stride - before
    first, end = (np.clip(-((start - bound) // dilation), 0, kernel) for bound in (0, size))
    return np.asarray(end - first)


def spatial(node: Node, name: str, axes: int, default: int = 1) -> tuple[int, ...]:
    """An attribute of one number a spatial axis."""
    return tuple(int(number) for number in node.attr(name, ()) or (default,) * axes)


def _values(tensor: Tensor) -> Array:
    assert tensor.constant is not None
    return tensor.constant.array()
