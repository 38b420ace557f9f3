"""Sliding windows: the attributes that convolutions and poolings share, and the sizes that follow from
them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ascendsim.core.formats import ceil_div
from ascendsim.graph.ir import Array, Dim, Node, Shape
from ascendsim.opset.axes import WHOLE, Link, Relation
from ascendsim.opset.definition import InferContext

if TYPE_CHECKING:
    from ascendsim_kernels.windows import Window

MAX_SPATIAL_AXES = 3
_SAME = ("SAME_UPPER", "SAME_LOWER")


@dataclass(frozen=True, slots=True)
class Axis:
    """A window along one axis: `before` and `after` are padding, `output` is None if the input size is
    unknown.
    """

    kernel: int
    stride: int
    dilation: int
    before: int
    after: int
    output: int | None

    @property
    def span(self) -> int:
        """Input positions from the first to the last tap."""
        return self.dilation * (self.kernel - 1) + 1


def spatial_ints(
    node: Node, name: str, axes: int, default: int, least: int, count: int | None = None
) -> tuple[int, ...]:
    """An attribute with `count` numbers (one a spatial axis unless told), or defaults.

    Raises:
        GraphError: If it has another length, or a number below `least`.
    """
    count = axes if count is None else count
    values = tuple(int(v) for v in node.attr(name, ()) or (default,) * count)
    if len(values) != count:
        raise InferContext(node).fail(f"needs {count} numbers in {name} for {axes} spatial axes", len(values))
    if any(v < least for v in values):
        raise InferContext(node).fail(f"needs numbers >= {least} in {name}", values)
    return values


def slide(node: Node, sizes: Shape, kernel: tuple[int, ...], rounds_up: bool = False) -> tuple[Axis, ...]:
    """Windows of a node over spatial `sizes` (numbers or unknown), from strides, dilations, pads and
    auto_pad.

    Output sizes follow ONNX: floor or (ceil_mode) ceil of (size + pads - span) / stride, plus one; in ceil
    mode a last window that would start behind the input and its front padding is dropped.

    Raises:
        GraphError: If an attribute does not fit, or the window is larger than the padded input.
    """
    axes = len(sizes)
    context = InferContext(node)
    if not 1 <= axes <= MAX_SPATIAL_AXES:
        raise context.fail(f"supports 1 to {MAX_SPATIAL_AXES} spatial axes", axes)
    if len(kernel) != axes or any(k < 1 for k in kernel):
        raise context.fail(f"needs a kernel of {axes} positive sizes", kernel)
    strides = spatial_ints(node, "strides", axes, 1, 1)
    dilations = spatial_ints(node, "dilations", axes, 1, 1)
    pads = spatial_ints(node, "pads", axes, 0, 0, 2 * axes)
    mode = node.attr("auto_pad", "NOTSET")
    result = []
    for axis, size in enumerate(sizes):
        before, after = (pads[axis], pads[axes + axis]) if mode == "NOTSET" else (0, 0)
        span = dilations[axis] * (kernel[axis] - 1) + 1
        output: int | None = None
        if isinstance(size, int):
            if mode in _SAME:
                output = ceil_div(size, strides[axis])
                total = max(0, (output - 1) * strides[axis] + span - size)
                before = total // 2 if mode == "SAME_UPPER" else total - total // 2
                after = total - before
            else:
                room = size + before + after - span
                if room < 0:
                    raise context.fail(
                        f"needs a padded input of at least {span} along spatial axis {axis}",
                        size + before + after,
                    )
                output = (ceil_div(room, strides[axis]) if rounds_up else room // strides[axis]) + 1
                if rounds_up and (output - 1) * strides[axis] >= size + before:
                    output -= 1
        result.append(Axis(kernel[axis], strides[axis], dilations[axis], before, after, output))
    return tuple(result)


def outputs(axes: tuple[Axis, ...]) -> tuple[Dim, ...]:
    """Output sizes, None where unknown."""
    return tuple(axis.output for axis in axes)


def static_outputs(axes: tuple[Axis, ...]) -> tuple[int, ...]:
    """Output sizes of windows over an input of known size."""
    return tuple(axis.output for axis in axes if axis.output is not None)


def kernel_window(axes: tuple[Axis, ...]) -> Window:
    """The form that the kernels take: three axes, those that the problem lacks in front."""
    from ascendsim_kernels.windows import Window

    def triple(values: list[int], fill: int) -> tuple[int, int, int]:
        padded = [fill] * (3 - len(values)) + values
        return (padded[0], padded[1], padded[2])

    return Window(
        kernel=triple([a.kernel for a in axes], 1),
        stride=triple([a.stride for a in axes], 1),
        dilation=triple([a.dilation for a in axes], 1),
        before=triple([a.before for a in axes], 0),
        output=triple(list(static_outputs(axes)), 1),
    )


def as_volume(array: Array, leading: int) -> Array:
    """The array with its spatial axes (those behind `leading`) brought to three, sizes 1 in front."""
    spatial = array.shape[leading:]
    return array.reshape(array.shape[:leading] + (1,) * (3 - len(spatial)) + spatial)


def taps(axes: tuple[Axis, ...]) -> int:
    """Input positions under one window."""
    return math.prod(axis.kernel for axis in axes)


def window_links(node: Node, axes: Sequence[Axis]) -> tuple[Link, ...]:
    """How positions of a result hang together with those of the input; where padding follows from a size that
    is not known, nobody can tell.
    """
    padded_alike = node.attr("auto_pad", "NOTSET") in _SAME
    return tuple(
        [
            WHOLE
            if padded_alike and axis.output is None
            else Link(Relation.WINDOW, None, stride=axis.stride, before=axis.before, reach=axis.span)
            for axis in axes
        ]
    )
