"""Average pooling on the Cube: a depthwise convolution with a constant filter of coefficients.

    AveragePool(x)   =>   Conv(x, 1 / taps, group = C) [-> Mul(., taps / count)]

The Mul is there if windows at the border count fewer elements than inner ones (padding that is not counted,
sizes rounded up); its factors are as large as the result, batch and all, so that it works in the result's
format (canndev: avg_pool_v2_fusion_pass.cc, AddCoffe). AvgPoolFusionPass takes the AvgPool of TensorFlow and
ONNX, PoolingFusionPass the Pooling of Caffe. On chips with split cores the operator is AvgPoolV2, which
AvgPoolV2FusionPass takes (assumed: from the order of CANN's releases).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import reduce
from weakref import WeakValueDictionary

import numpy as np

from ascendsim.graph.ir import Array, Constant, Graph, Node, Tensor
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.fusion.rules.pooling.pad_windows import MAX_PAD, spatial, taps_inside
from ascendsim.passes.rewriting.pattern import Match, Op
from ascendsim.passes.rewriting.replace import replace_root

SPLIT = frozenset({"c220", "c310"})  # generations whose Cube and vector units are cores of their own
MAX_KERNEL = 255  # the image-to-column instruction holds kernel sizes in 8 bits


class AvgPoolFusionPass(FusionRule):
    """AvgPool becomes a depthwise convolution."""

    name = "AvgPoolFusionPass"
    patterns = {"AvgPoolFusionPass": Op("AveragePool", name="pool")}
    caffe = False
    split: bool | None = False  # whether it serves chips with split cores; None = all chips

    def find(self, graph: Graph, pattern: str) -> Iterator[Match]:
        """Poolings of the frameworks that this pass serves."""
        return (
            match
            for match in super().find(graph, pattern)
            if (match.root.origin.get("framework") == "caffe") is self.caffe
        )

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses what the Cube cannot do, and windows of one element."""
        pool = match.root
        data = pool.required(0)
        if self.split is not None and self.split is not (context.generation in SPLIT):
            return f"the operator is AvgPool{'' if self.split else 'V2'} on this chip"
        if not data.is_static or len(data.static_shape) != 4 or not data.element_type.is_float:
            return "the input is not a static map of floats"
        windows = _windows(pool)
        if all(window.kernel == 1 for window in windows):
            return "a window is one element"
        if any(
            window.kernel > MAX_KERNEL or max(window.before, window.after) > MAX_PAD for window in windows
        ):
            return f"a window or its padding is larger than {MAX_KERNEL}"
        return "a window holds padding alone" if any(window.counts.min() == 0 for window in windows) else None

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Puts convolution and factors in the pooling's place."""
        pool = match.root
        data, windows = pool.required(0), _windows(pool)
        channels, taps = data.static_shape[1], windows[0].kernel * windows[1].kernel
        shape = (channels, 1, *(window.kernel for window in windows))
        kind = data.element_type
        weight = graph.add_tensor(
            Tensor(
                graph.fresh(f"{pool.name}_coefficients"),
                kind,
                shape,
                constant=Constant(loader=lambda: np.full(shape, 1.0 / taps).astype(kind.numpy)),
            )
        )
        conv = context.add(
            graph,
            "Conv",
            [data, weight],
            name=f"{pool.name}_conv",
            like=pool,
            group=channels,
            kernel_shape=shape[2:],
            strides=tuple(window.stride for window in windows),
            dilations=tuple(window.dilation for window in windows),
            pads=(*(window.before for window in windows), *(window.after for window in windows)),
        )
        result = conv.output
        counts = reduce(np.multiply.outer, (window.counts for window in windows))
        if (counts != taps).any():
            whole = pool.output.static_shape
            factors = graph.add_tensor(
                Tensor(
                    graph.fresh(f"{pool.name}_factors"),
                    kind,
                    whole,
                    constant=_factors((taps / counts).astype(kind.numpy), whole),
                )
            )
            result = context.add(graph, "Mul", [result, factors], name=f"{pool.name}_mul", like=pool).output
        replace_root(graph, pool, result)


_known_factors: WeakValueDictionary[Hashable, Constant] = WeakValueDictionary()


def _factors(row: Array, whole: tuple[int, ...]) -> Constant:
    """Factors of one map, for all maps of a tensor; the same constant for all poolings that agree in both,
    since such tensors are as large as the maps.
    """
    key = (row.tobytes(), row.dtype, row.shape, whole)
    known = _known_factors.get(key)
    if known is None:
        known = Constant(loader=lambda: np.ascontiguousarray(np.broadcast_to(row, whole)))
        _known_factors[key] = known
    return known


class AvgPoolV2FusionPass(AvgPoolFusionPass):
    """AvgPoolV2 becomes a depthwise convolution."""

    name = "AvgPoolV2FusionPass"
    patterns = {"AvgPoolV2FusionPass": Op("AveragePool", name="pool")}
    split = True


class PoolingFusionPass(AvgPoolFusionPass):
    """Caffe's average Pooling becomes its cube form."""

    name = "PoolingFusionPass"
    patterns = {"PoolingMatrixFusionPass": Op("AveragePool", name="pool")}
    caffe = True
    split = None


@dataclass(frozen=True)
class _Window:
    """A pooling window along one axis.

    Attributes:
        before, after: Padding of a convolution with the same positions.
        counts: Elements that each position divides by.
    """

    kernel: int
    stride: int
    dilation: int
    before: int
    after: int
    counts: Array


def _windows(pool: Node) -> tuple[_Window, ...]:
    sizes, positions = pool.required(0).static_shape[2:], pool.output.static_shape[2:]
    axes = len(sizes)
    kernels, strides, dilations = (
        spatial(pool, name, axes) for name in ("kernel_shape", "strides", "dilations")
    )
    pads, mode = spatial(pool, "pads", 2 * axes, 0), pool.attr("auto_pad", "NOTSET")
    found = []
    for axis, size in enumerate(sizes):
        kernel, stride, dilation, output = kernels[axis], strides[axis], dilations[axis], positions[axis]
        # from the first tap of all windows to the last
        reach = (output - 1) * stride + dilation * (kernel - 1) + 1
        before, stated = (pads[axis], pads[axes + axis]) if mode == "NOTSET" else (0, 0)
        if mode in ("SAME_UPPER", "SAME_LOWER"):
            total = max(0, reach - size)
            before = total // 2 if mode == "SAME_UPPER" else total - total // 2
            stated = total - before
        counts = taps_inside(size, kernel, stride, dilation, before, output)
        if pool.attr(
            "count_include_pad", 0
        ):  # stated padding counts, what a rounded-up size reaches beyond it does not
            counts = taps_inside(size + before + stated, kernel, stride, dilation, 0, output)
        found.append(_Window(kernel, stride, dilation, before, max(0, reach - size - before), counts))
    return tuple(found)


RULES = (AvgPoolFusionPass(), AvgPoolV2FusionPass(), PoolingFusionPass())
