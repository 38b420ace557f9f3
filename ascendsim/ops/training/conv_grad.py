"""Gradients of convolutions (domain "ascend"), for y = Conv(x, filter) in two dimensions, and in three.

    Conv2DBackpropInput(filter, out_backprop)          -> gradient of x, whose shape `input_size` says
    Conv2DBackpropFilter(x, out_backprop)              -> gradient of the filter, whose shape `filter_size`
                                                          says; float32 whatever the operands are
    DepthwiseConv2DBackpropInput, DepthwiseConv2DBackpropFilter       the same with as many groups as x has
                                                                      channels
    Conv3DBackpropInput, Conv3DBackpropFilter          those of volumes; depth taps of the filter are products
                                                       one after the other

`strides`, `pads`, `dilations`, `auto_pad` and `groups` are those of the convolution, spelt as ONNX does; -1
as the first number of `input_size` is the batch of out_backprop. The gradient of x is a transposed
convolution, that of the filter a product whose k are all positions of all images (`opset.work.FilterWork`):
cores take parts of them and add up their results in memory, which is set to zero first (CANN:
AtomicAddrClean).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import c0, ceil_div
from ascendsim.graph.ir import Dim, Node, Shape
from ascendsim.ops.linear.conv_transpose import spread, spreading_work
from ascendsim.ops.shared.bursts import clear_work
from ascendsim.ops.shared.common import as_float32, finish, on_ai_cpu, runs_on_ai_core
from ascendsim.ops.shared.cube import cube_type, enlarged_groups, geometry
from ascendsim.ops.shared.dims import may_equal, need_rank
from ascendsim.ops.shared.windows import Axis, as_volume, kernel_window, outputs, slide, taps
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.axes import NOTHING_SAID, AxesRule, AxisMap, Link, Relation, by_labels, shape_of
from ascendsim.opset.facts import Facts, Kind, OpPattern, Precision
from ascendsim.opset.work import FilterWork, LowerContext, NoTask, Ref, SequenceWork, Work

DOMAIN = "ascend"
_RANK = 4  # of images; that of volumes is one more
Wanted = Sequence["np.dtype[Any]"]
Groups = Callable[[Node, "Shape | None", "Shape | None"], "int | None"]


def _sizes(context: InferContext, name: str, rank: int) -> tuple[int, ...]:
    sizes = tuple(int(size) for size in context.node.attr(name, ()) or ())
    least = (-1 if name == "input_size" else 1, *(1,) * (rank - 1))
    if len(sizes) != rank or any(size < low or not size for size, low in zip(sizes, least, strict=True)):
        raise context.fail(f"needs {rank} positive sizes in {name}", sizes or None)
    return sizes


def _stated_groups(node: Node, _image: Shape | None, _filters: Shape | None) -> int:
    return int(node.attr("groups", 1))


def _a_group_a_channel(_node: Node, image: Shape | None, _filters: Shape | None) -> int | None:
    channels = None if image is None else image[1]
    return channels if isinstance(channels, int) else None


def _check(
    context: InferContext,
    image: Shape | None,
    filters: Shape | None,
    gradient: Shape | None,
    groups: int | None,
    rank: int,
) -> None:
    """Whether the three belong to one convolution, as far as they are known.

    Raises:
        GraphError: If not.
    """
    for shape in (image, filters, gradient):
        if shape is not None and len(shape) != rank:
            raise context.fail(f"needs maps and filters of rank {rank}", list(shape))
    if groups is not None and groups < 1:
        raise context.fail("needs positive groups", groups)
    if filters is not None and groups is not None and isinstance(filters[0], int) and filters[0] % groups:
        raise context.fail(f"needs output channels that are a multiple of groups {groups}", filters[0])
    wanted: list[Dim] = [
        None if image is None else image[0],
        None if filters is None else filters[0],
        *(None,) * (rank - 2),
    ]
    if image is not None and filters is not None:
        channels = filters[1] * groups if isinstance(filters[1], int) and groups is not None else None
        if not may_equal((image[1],), (channels,)):
            raise context.fail(f"needs {channels} channels in x (those of the filter x groups)", image[1])
        kernel = [size for size in filters[2:] if isinstance(size, int)]
        if len(kernel) == rank - 2:
            wanted[2:] = outputs(slide(context.node, image[2:], tuple(kernel)))
    if not may_equal(gradient, tuple(wanted)):
        raise context.fail(f"needs an out_backprop of shape {tuple(wanted)}", list(gradient or ()))


def _infer_input(groups_of: Groups, rank: int) -> Callable[[InferContext], None]:
    def infer(context: InferContext) -> None:
        filters, gradient = context.shape(0), context.shape(1)
        image: Shape = _sizes(context, "input_size", rank)
        if image[0] == -1:
            image = (None if gradient is None else gradient[0], *image[1:])
        _check(context, image, filters, gradient, groups_of(context.node, image, filters), rank)
        context.set(0, context.dtype(1), image)

    return infer


def _infer_filter(groups_of: Groups, rank: int) -> Callable[[InferContext], None]:
    def infer(context: InferContext) -> None:
        need_rank(context, 0, 2)  # the second are channels, of which groups are made
        filters, image = _sizes(context, "filter_size", rank), context.shape(0)
        groups = groups_of(context.node, image, filters)
        _check(context, image, filters, context.shape(1), groups, rank)
        context.set(0, DType.FLOAT32, filters)

    return infer


def _windows(node: Node, image: Sequence[int], filters: Sequence[int]) -> tuple[Axis, ...]:
    return slide(node, tuple(image[2:]), tuple(filters[2:]))


def _groups(node: Node, groups_of: Groups, image: Sequence[int], filters: Sequence[int]) -> int:
    groups = groups_of(node, tuple(image), tuple(filters))
    assert groups is not None  # shapes are known
    return groups


def _input_values(groups_of: Groups) -> Callable[[Node, Sequence[Any], Wanted], Sequence[Any]]:
    def compute(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Any]:
        filters, gradient = inputs
        image = (len(gradient), *(int(size) for size in node.attr("input_size")[1:]))
        axes, groups = (
            _windows(node, image, filters.shape),
            _groups(node, groups_of, image, filters.shape),
        )
        return [finish(spread(as_float32(gradient), as_float32(filters), axes, groups, image[2:]), wanted[0])]

    return compute


def _filter_values(groups_of: Groups) -> Callable[[Node, Sequence[Any], Wanted], Sequence[Any]]:
    def compute(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Any]:
        from ascendsim_kernels.conv_grad import filter_gradient

        image, gradient = inputs
        filters = tuple(int(size) for size in node.attr("filter_size"))
        axes = _windows(node, image.shape, filters)
        window, groups = kernel_window(axes), _groups(node, groups_of, image.shape, filters)
        maps = [np.ascontiguousarray(as_volume(as_float32(array), 2)) for array in (image, gradient)]
        result = filter_gradient(maps[0], maps[1], window, groups)
        return [finish(result.reshape(filters), wanted[0])]

    return compute


def _lower_input(groups_of: Groups) -> Callable[[Node, LowerContext], Work]:
    def lower(node: Node, context: LowerContext) -> Work:
        filters, gradient, image = node.required(0), node.required(1), node.output.static_shape
        axes = _windows(node, image, filters.static_shape)
        groups = _groups(node, groups_of, image, filters.static_shape)
        return spreading_work(node, gradient, filters, None, axes, groups)

    return lower


def _lower_filter(groups_of: Groups) -> Callable[[Node, LowerContext], Work]:
    def lower(node: Node, context: LowerContext) -> Work:
        """Zeros, then the product with groups packed as `enlarged_groups` says; one for each depth tap, which
        reads other planes of the map.
        """
        image, gradient, output = node.required(0), node.required(1), node.output
        filters = output.static_shape
        positions = math.prod(gradient.static_shape) // max(1, gradient.static_shape[1])
        if output.elements == 0:
            return NoTask()
        if not runs_on_ai_core(node):
            return on_ai_cpu(node, float(max(1, positions)))
        target = Ref.of(output)
        zeros = clear_work(target, context)
        if positions == 0 or image.elements == 0:
            return zeros
        groups = _groups(node, groups_of, image.static_shape, filters)
        axes = _windows(node, image.static_shape, filters)
        channels, made = filters[1], filters[0] // groups
        dtype = cube_type(image.element_type)
        packed = enlarged_groups(groups, channels, made, c0(dtype))
        conv = geometry(image.static_shape, axes, packed * channels)
        product = FilterWork(
            m=packed * made,
            n=taps(axes[-2:]) * packed * channels,
            conv=replace(conv, kernel_d=1),
            gradient=Ref.of(gradient),
            image=Ref.of(image),
            out=target,
            batch=ceil_div(groups, packed),
            dtype=dtype,
            useful_macs=positions * math.prod(filters) // conv.kernel_d,
            depthwise=channels == 1 and groups > 1,
        )
        return SequenceWork((zeros, *(product,) * conv.kernel_d))

    return lower


def _places(rank: int, *names: str) -> tuple[str, ...]:
    """Names of the axes behind the first two."""
    return names[5 - rank :]


def _input_axes(groups_of: Groups, rank: int) -> AxesRule:
    """Batch parallel, output channels reduced (within a group), positions spread over those of x."""

    def rule(node: Node) -> AxisMap:
        filters, image = shape_of(node, 0), node.output.shape
        groups = None if image is None else groups_of(node, image, filters)
        if groups is None:
            return NOTHING_SAID
        links = by_labels(
            node,
            {
                0: ("o", "c" if groups == 1 else "of a group", *_places(rank, "kd", "kh", "kw")),
                1: ("n", "o", *_places(rank, "z", "y", "x")),
            },
            {0: ("n", "c", *_places(rank, "d", "h", "w"))},
        ).links
        return AxisMap(_in_groups(_in_groups(links, node, 1, (1, 1), groups), node, 0, (0, 1), groups))

    return rule


def _filter_axes(groups_of: Groups, rank: int) -> AxesRule:
    """Output channels of the filter are those of the gradient, input channels those of x (within a group)."""

    def rule(node: Node) -> AxisMap:
        groups = groups_of(node, shape_of(node, 0), node.output.shape)
        if groups is None:
            return NOTHING_SAID
        image = ("n", "c" if groups == 1 else "all", *_places(rank, "d", "h", "w"))
        filters = ("o", "c", *_places(rank, "kd", "kh", "kw"))
        given = {0: image, 1: ("n", "o", *_places(rank, "z", "y", "x"))}
        links = by_labels(node, given, {0: filters}).links
        return AxisMap(_in_groups(links, node, 0, (1, 0), groups))

    return rule


Links = Mapping[tuple[int, int], tuple[Link, ...]]


def _in_groups(links: Links, node: Node, port: int, axes: tuple[int, int], groups: int) -> Links:
    """The links with an axis of an input (the first of `axes`) as groups of one of the result."""
    given, made, own = shape_of(node, port), node.output.shape, links.get((port, 0))
    if groups == 1 or given is None or made is None or own is None:
        return links
    inside, result = given[axes[0]], made[axes[1]]
    if not isinstance(inside, int) or not isinstance(result, int) or inside % groups or result % groups:
        return links
    link = Link(Relation.GROUP, axes[1], inside // groups, result // groups)
    return {**links, (port, 0): (*own[: axes[0]], link, *own[axes[0] + 1 :])}


def _pair(prefix: str, groups_of: Groups, rank: int = _RANK) -> tuple[OpDef, OpDef]:
    return (
        OpDef(
            f"{prefix}BackpropInput",
            _infer_input(groups_of, rank),
            _input_values(groups_of),
            _lower_input(groups_of),
            Layout.FEATURE,
            domain=DOMAIN,
            most_inputs=2,
            facts=Facts(
                _input_axes(groups_of, rank),
                Kind.CONVOLUTION,
                Precision.WHITE,
                pattern=OpPattern.CONV_BACKPROP,
                operands=(1, 0),
                maps=(1,),
            ),
        ),
        OpDef(
            f"{prefix}BackpropFilter",
            _infer_filter(groups_of, rank),
            _filter_values(groups_of),
            _lower_filter(groups_of),
            Layout.FEATURE,
            domain=DOMAIN,
            most_inputs=2,
            facts=Facts(
                _filter_axes(groups_of, rank),
                Kind.CONVOLUTION,
                Precision.PRODUCT_SUMS,
                pattern=OpPattern.OPAQUE,
                operands=(0, 1),
                maps=(0, 1),
                makes_filters=True,
            ),
        ),
    )


OPERATORS: tuple[OpDef, ...] = (
    *_pair("Conv2D", _stated_groups),
    *_pair("DepthwiseConv2D", _a_group_a_channel),
    *_pair("Conv3D", _stated_groups, _RANK + 1),
)
