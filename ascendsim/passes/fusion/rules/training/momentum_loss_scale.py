"""The loss scale is taken out of a gradient inside the momentum update.

    Momentum(rate, count, w, Mul(g, s), v)              =>      FusedMulApplyMomentum(rate, count, w, g, v, s)
    ApplyMomentum(w, v, rate, Mul(g, s), momentum)      =>      the same with count 1

s is one number. Momentum is ONNX's (domain ai.onnx.preview.training) of one weight, ApplyMomentum CANN's.
float32 values stay; the scaled gradient makes no round trip through global memory. CANN's second form, with a
float16 copy of the weight, needs an environment variable and is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.passes.fusion.checks import read_outside, scalar
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.rewriting.pattern import Match, Op
from ascendsim.passes.rewriting.replace import replace

TRAINING, ASCEND = "ai.onnx.preview.training", "ascend"
GRADIENT = 3  # port of the only gradient, of ONNX's Momentum as of CANN's ApplyMomentum


class A_MomentumLossscaleFusionPass(FusionRule):  # noqa: N801 - the name that CANN has
    """Mul by the loss scale and Momentum."""

    name = "A_MomentumLossscaleFusionPass"
    patterns = {"MomentumLossscaleFusionPass": Op("Momentum", None, None, None, Op("Mul"))}

    def find(self, graph: Graph, pattern: str) -> Iterator[Match]:
        for node in graph.topological():
            match = _match(node, pattern)
            if match is not None:
                yield match

    def again(self, graph: Graph, match: Match) -> Match | None:
        return _match(match.root, match.pattern) if match.root.graph is graph else None

    def check(self, match: Match, context: FusionContext) -> str | None:
        root = match.root
        if root.input_count != 5:
            return "Momentum updates several weights"
        if _operands(match) is None:
            return "no factor of the gradient is one number"
        if root.domain == ASCEND:
            if scalar(root.required(4)) is None:
                return "the momentum is not one constant number"
            if root.required(2).elements != 1:
                return "the learning rate is not one number"
        return read_outside(match, root.outputs)

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        operands, root = _operands(match), match.root
        assert operands is not None
        gradient, scale = operands
        attributes: dict[str, Any] = dict(root.attributes)
        inputs: list[Tensor]
        if root.domain == ASCEND:
            weight, velocity, rate = (root.required(port) for port in range(3))
            mode = "nesterov" if attributes.pop("use_nesterov", 0) else "standard"
            attributes |= {"alpha": scalar(root.required(4)), "beta": 1.0, "mode": mode}
            count = graph.add_constant(graph.fresh(f"{root.name}_count"), np.array(1, np.int64))
            inputs = [rate, count, weight, gradient, velocity, scale]
        else:
            inputs = [*(root.required(port) for port in range(GRADIENT)), gradient, root.required(4), scale]
        made = context.add(
            graph,
            "FusedMulApplyMomentum",
            inputs,
            2,
            name=f"{root.name}_FusedMulApplyMomentum",
            like=root,
            domain=ASCEND,
            **attributes,
        )
        replace(graph, match.all_nodes, list(zip(root.outputs, made.outputs, strict=False)))


def _match(node: Node, pattern: str) -> Match | None:
    if (node.op_type, node.domain) not in (("Momentum", TRAINING), ("ApplyMomentum", ASCEND)):
        return None
    gradient = node.input(GRADIENT)
    mul = None if gradient is None else gradient.producer
    if mul is None or mul.op_type != "Mul" or mul.domain:
        return None
    return Match(pattern, node, {"momentum": node, "mul": mul}, {}, (node, mul))


def _operands(match: Match) -> tuple[Tensor, Tensor] | None:
    """Gradient and loss scale; the first factor of one element is the scale."""
    mul = match.nodes["mul"]
    for scale, gradient in ((mul.required(0), mul.required(1)), (mul.required(1), mul.required(0))):
        if scale.shape in ((), (1,)) and gradient.shape == mul.output.shape:
            return gradient, scale
    return None


RULES = (A_MomentumLossscaleFusionPass(),)
