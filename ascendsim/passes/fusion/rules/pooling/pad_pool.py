"""A Pad before a maximum pooling becomes the pooling's own padding, which never wins against an element.

    Pad(x, c) -> MaxPool(.)      =>      MaxPool(x, pads = own + added)

Legal if c can win against no element of any window: c = -infinity or the lowest number, or c = 0 and x >= 0
(behind a Relu, as TensorFlow's ResNet has it), and every window holds at least one element of x.
"""

from __future__ import annotations

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.opset.facts import Sign
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.fusion.rules.pooling.pad_windows import (
    Padding,
    constant_padding,
    merged_pads,
    spatial,
    taps_inside,
    window_refusal,
)
from ascendsim.passes.rewriting.pattern import Match, Op
from ascendsim.passes.rewriting.removal import remove_dead_from


class PadMaxPoolFusionPass(FusionRule):
    """Pad + MaxPool becomes one pooling."""

    name = "PadMaxPoolFusionPass"
    patterns = {"PaddMaxPoolFusionPass": Op("MaxPool", Op("Pad", name="pad", shared=True), name="pool")}

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses padding that may show in a result."""
        pad, pool = match.nodes["pad"], match.root
        padding = constant_padding(pad)
        if isinstance(padding, str):
            return padding
        data = pad.required(0)
        if not data.is_static or not data.element_type.is_float:
            return "the input is not a static one of floats"
        if len(pool.outputs) > 1 or pool.attr("ceil_mode", 0):
            return "the pooling gives positions, or rounds its size up"
        lowest = float(np.finfo(np.float16 if data.element_type is DType.FLOAT16 else np.float32).min)
        if padding.value > lowest and (padding.value or context.opset.sign_of(data) is Sign.ANY):
            return "the padding may be larger than an element"
        reason = window_refusal(padding, pool)
        return reason or (
            None if _every_window_meets(padding, pool, data) else "a window holds padding alone"
        )

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Widens the pooling's own padding; other readers of the Pad keep it."""
        pad, pool = match.nodes["pad"], match.root
        padding = constant_padding(pad)
        assert not isinstance(padding, str)
        pads = merged_pads(padding, pool)
        pool.attributes.pop("auto_pad", None)
        pool.attributes["pads"] = pads
        pool.set_input(0, pad.required(0))
        remove_dead_from(pad)


def _every_window_meets(padding: Padding, pool: Node, data: Tensor) -> bool:
    """Whether every window holds an element of the input that is not padded."""
    sizes = data.static_shape[2:]
    axes, pads = len(sizes), merged_pads(padding, pool)
    kernel, strides, dilations = (
        spatial(pool, name, axes) for name in ("kernel_shape", "strides", "dilations")
    )
    positions = pool.output.static_shape[2:]
    return all(
        taps_inside(
            sizes[axis], kernel[axis], strides[axis], dilations[axis], pads[axis], positions[axis]
        ).min()
        > 0
        for axis in range(axes)
    )


RULES = (PadMaxPoolFusionPass(),)
