"""`im2col`: a convolution written out as copies of its input's windows and one matrix product.

    Conv(x, W)  =>  Reshape(MatMul(Reshape(W), Reshape(Concat(Slice(Pad(x)), ...))))

Every tap of the kernel is a strided Slice; side by side they are the columns of the product. The chip does
the same on the fly: load3d builds the columns in L0A, and they never exist in memory. As a graph they do,
kernel area times the input, and so one sees what a device without a convolution pays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np

from ascendsim.core.arguments import checked
from ascendsim.core.errors import InputError, suggest
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.ops import opset_with
from ascendsim.ops.linear.conv import conv_axes
from ascendsim.ops.shared.windows import Axis
from ascendsim.opset import OpDef
from ascendsim.passes.levers import Lever, LeverContext, Relation, Site, apply_lever
from ascendsim.passes.rewriting.replace import replace_root


@checked(graph="asim.load and asim.GraphBuilder make one", operators="write operators=[MY_OPERATOR]")
def im2col(graph: Graph, *, nodes: Sequence[str] | None = None, operators: Sequence[OpDef] = ()) -> Graph:
    """Writes convolutions as im2col and a matrix product, as for a device that has no convolution.

    An AI Core builds the columns while it loads (load3d), so that they take no memory; in the graph that this
    returns they are tensors. Values are the same up to the order of sums.

    Args:
        graph: From `load` or `GraphBuilder`; stays as it is.
        nodes: Names of the convolutions; all by default.
        operators: Operators of your own, the same as for `load`.

    Raises:
        InputError: If there is no convolution, a name is none, or one has open shapes.
    """
    context, lever = LeverContext(opset_with(operators)), _Im2col()
    sites = {site.node: site for site in lever.sites(graph, context)}
    if not sites:
        raise InputError(f"model {graph.name!r}", "has no Conv that could become a matrix product")
    for name in sites if nodes is None else nodes:
        if name not in sites:
            raise InputError(
                f"option nodes: {name!r}", "is no Conv of the model", remedy=suggest(name, sites)
            )
        if not sites[name].possible:
            raise InputError(f"node {name!r}", "cannot become a matrix product", remedy=sites[name].reason)
    return apply_lever(graph, lever, context, nodes).graph


class _Im2col(Lever):
    """The rewrite. It stands on no list of levers: nobody is advised to do it."""

    name = "im2col"
    title = "convolutions as columns and a matrix product"

    def sites(self, graph: Graph, context: LeverContext) -> tuple[Site, ...]:
        """Every Conv."""
        found = []
        for node in graph.topological():
            if node.op_type != "Conv" or node.domain:
                continue
            tensors = (node.required(0), node.required(1), node.output)
            if all(tensor.is_static for tensor in tensors):
                taps = math.prod(tensors[1].static_shape[2:])
                found.append(Site((node.name,), f"columns of {taps} times its input", Relation.EXACT))
            else:
                found.append(Site((node.name,), "give it fixed shapes (shapes=, --input_shape)"))
        return tuple(found)

    def rewrite(self, graph: Graph, site: Site, context: LeverContext) -> None:
        """Replaces one Conv."""
        node = graph.node(site.node)
        x, weight, bias = node.required(0), node.required(1), node.input(2)
        draft = _Draft(graph, context, node.name)
        images = x.static_shape[0]
        filters, depth, *kernel = weight.static_shape
        groups, places = int(node.attr("group", 1)), node.output.static_shape[2:]
        axes = conv_axes(node, x.static_shape, weight.static_shape)
        padded = x
        pads = [side for axis in axes for side in (axis.before, axis.after)]
        if any(pads):
            padded = draft.add("Pad", "pad", x, draft.numbers("pads", (0, 0, *pads[::2], 0, 0, *pads[1::2])))
        taps = [_tap(draft, padded, axes, places, at) for at in product(*map(range, kernel))]
        count, points = len(taps), math.prod(places)
        columns = taps[0]
        if count > 1:
            flat = [
                draft.shaped(f"tap{number}", tap, images, x.static_shape[1], 1, points)
                for number, tap in enumerate(taps)
            ]
            columns = draft.add("Concat", "columns", *flat, axis=2)
        columns = draft.shaped("im2col", columns, images, groups, depth * count, points)
        rows = draft.shaped("rows", weight, groups, filters // groups, depth * count)
        made = draft.shaped("map", draft.add("MatMul", "product", rows, columns), images, filters, *places)
        if bias is not None:
            column = draft.shaped("bias_column", bias, filters, *(1 for _ in places))
            made = draft.add("Add", "bias", made, column)
        replace_root(graph, node, made)


class _Draft:
    """Adds nodes whose names begin with that of the convolution."""

    def __init__(self, graph: Graph, context: LeverContext, stem: str) -> None:
        self._graph, self._context, self._stem = graph, context, stem

    def add(self, op_type: str, what: str, *inputs: Tensor, **attributes: object) -> Tensor:
        return self._context.add(self._graph, op_type, *inputs, stem=f"{self._stem}_{what}", **attributes)

    def numbers(self, what: str, values: Sequence[int]) -> Tensor:
        name = self._graph.fresh(f"{self._stem}_{what}")
        return self._graph.add_constant(name, np.array(values, np.int64))

    def shaped(self, what: str, tensor: Tensor, *shape: int) -> Tensor:
        return self.add("Reshape", what, tensor, self.numbers(f"{what}_shape", shape))


def _tap(
    draft: _Draft, padded: Tensor, axes: Sequence[Axis], places: Sequence[int], at: Sequence[int]
) -> Tensor:
    """What one tap of the kernel reads at all places."""
    starts = [axis.dilation * place for axis, place in zip(axes, at, strict=True)]
    steps = [axis.stride for axis in axes]
    ends = [s + (made - 1) * step + 1 for s, made, step in zip(starts, places, steps, strict=True)]
    if not any(starts) and set(steps) == {1} and tuple(ends) == padded.static_shape[2:]:
        return padded
    what = "tap_" + "_".join(map(str, at))
    spatial = range(2, 2 + len(places))
    bounds = (("starts", starts), ("ends", ends), ("axes", list(spatial)), ("steps", steps))
    return draft.add("Slice", what, padded, *(draft.numbers(f"{what}_{name}", item) for name, item in bounds))
