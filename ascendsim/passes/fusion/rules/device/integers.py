"""Sizes, axes and repeats of 64 bits become 32 bits, which is what operators on the device read.

    RefreshInt64ToInt32FusionPass      int64 constants that only steer operators      =>  int32

CANN counts one match a graph. Data of 64 bits keeps its type: it is the user's. Constants with a number that
32 bits do not hold stay.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.passes.fusion.checks import known_values
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.fusion.rules.forms.form import steering_ports
from ascendsim.passes.rewriting.outputs import is_output
from ascendsim.passes.rewriting.pattern import Match, Op

PATTERN = "RefreshInt64ToInt32FusionPass"
_LIMITS = np.iinfo(np.int32)


class RefreshInt64ToInt32FusionPass(FusionRule):
    """Narrower steering constants."""

    name = "RefreshInt64ToInt32FusionPass"
    patterns = {PATTERN: Op("*", name="node")}

    def find(self, graph: Graph, pattern: str) -> Iterator[Match]:
        """The graph as a whole, named by the first operator that reads an int64 constant."""
        readers = [node for node in graph.topological() if any(map(_wide, node.inputs))]
        if readers:
            yield Match(pattern, readers[0], {}, {}, (readers[0],), {"readers": tuple(readers)})

    def again(self, graph: Graph, match: Match) -> Match | None:
        """The match as it stands now."""
        return next(self.find(graph, match.pattern), None)

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses graphs whose int64 constants are all data."""
        return None if _narrowable(match, context) else "no constant of 64 bits steers an operator alone"

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Narrows the device's type; the model's stays."""
        for tensor in _narrowable(match, context):
            tensor.dtype = DType.INT32


def _wide(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.is_constant and tensor.dtype is DType.INT64


def _narrowable(match: Match, context: FusionContext) -> list[Tensor]:
    found = dict.fromkeys(
        tensor
        for node in match.lists["readers"]
        for tensor in node.inputs
        if tensor is not None and _wide(tensor)
    )
    return [tensor for tensor in found if _steers_alone(tensor, context) and _fits(tensor)]


def _steers_alone(tensor: Tensor, context: FusionContext) -> bool:
    nodes: list[tuple[Node, int]] = [(use.node, use.index) for use in tensor.uses]
    return not any(is_output(node.graph, tensor) for node, _ in nodes) and all(
        port in steering_ports(node, context) for node, port in nodes
    )


def _fits(tensor: Tensor) -> bool:
    values = known_values(tensor)
    return values is not None and bool(((values >= _LIMITS.min) & (values <= _LIMITS.max)).all())


RULES = (RefreshInt64ToInt32FusionPass(),)
