"""A transpose next to a reshape becomes one operator that reads and writes once.

    Reshape(Transpose(x))      =>      ConfusionTransposeD(x, transpose_first)
                                       (TransposeReshapeFusionPass)
    Transpose(Reshape(x))      =>      ConfusionTransposeD(x)
                                       (ReshapeTransposeFusionPass)

Exact. CANN's kernel for it works on fractals, so the last two dimensions (or the only one) at both ends must
be multiples of 16. Where Reshape costs nothing, as in this simulator, what is saved is an operator and not a
transfer.
"""

from __future__ import annotations

from ascendsim.core.formats import FRACTAL_ROWS
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.passes.fusion.checks import not_static, read_outside
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.rewriting.pattern import Any, Match, Op
from ascendsim.passes.rewriting.replace import replace_root


class _ConfusionRule(FusionRule):
    transpose_first: bool

    def check(self, match: Match, context: FusionContext) -> str | None:
        x, result = match.tensors["x"], match.root.output
        return (
            not_static([x, match.nodes["reshape"].output, result])
            or _unaligned(x)
            or _unaligned(result)
            or read_outside(match)
        )

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        transpose, reshape, root = match.nodes["transpose"], match.nodes["reshape"], match.root
        rank = len(transpose.required(0).static_shape)
        made = context.add(
            graph,
            "ConfusionTransposeD",
            [match.tensors["x"]],
            name=f"{root.name}_ConfusionTranspose",
            like=root,
            domain="ascend",
            perm=tuple(transpose.attr("perm", tuple(reversed(range(rank))))),
            shape=reshape.output.static_shape,
            transpose_first=int(self.transpose_first),
        )
        replace_root(graph, root, made.output)


class TransposeReshapeFusionPass(_ConfusionRule):
    """TransposeD, then Reshape."""

    name = "TransposeReshapeFusionPass"
    transpose_first = True
    patterns = {
        "TransposeReshapeFusionPass": Op(
            "Reshape", Op("Transpose", Any("x"), name="transpose", shared=True), Any("shape"), name="reshape"
        )
    }


class ReshapeTransposeFusionPass(_ConfusionRule):
    """Reshape, then TransposeD."""

    name = "ReshapeTransposeFusionPass"
    transpose_first = False
    patterns = {
        "ReshapeTransposeFusionPass": Op(
            "Transpose", Op("Reshape", Any("x"), Any("shape"), name="reshape", shared=True), name="transpose"
        )
    }


def _unaligned(tensor: Tensor) -> str | None:
    shape = tensor.static_shape
    if not shape or any(size % FRACTAL_ROWS for size in shape[-2:]):
        return f"the last dimensions of {tensor.name} are no multiples of {FRACTAL_ROWS}"
    return None


RULES = (TransposeReshapeFusionPass(), ReshapeTransposeFusionPass())
