"""ConstantFuseSamePass and RemoveSameConstPass: constants of equal bytes become one.

ConstantFuseSame joins single elements, and here small integer vectors too: ONNX has as inputs what GE has as
attributes (axes, shapes, paddings), and nodes are only found equal if these are one constant.

RemoveSameConst compares all constants of equal shape, element types and format (`graph.same_values`).

Values that a computation makes when they are asked for (seeded random weights, folded ones) stand for weights
that nobody has yet; they are left alone until somebody computes them, and so are weights without values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ascendsim.graph.ir import Graph, Tensor
from ascendsim.graph.same_values import same_values
from ascendsim.passes.rewriting.passes import PassResult
from ascendsim.passes.rewriting.removal import all_graphs

SMALL_VECTOR = 16  # elements of an integer constant that ConstantFuseSame still joins


@dataclass(frozen=True, slots=True)
class ConstantFuseSamePass:
    """Joins equal constants of one element, and equal integer vectors of up to `SMALL_VECTOR` elements."""

    name: str = "ConstantFuseSamePass"

    def run(self, graph: Graph) -> PassResult:
        return _run(graph, _is_small)


@dataclass(frozen=True, slots=True)
class RemoveSameConstPass:
    """Joins equal constants of any size."""

    name: str = "RemoveSameConstPass"

    def run(self, graph: Graph) -> PassResult:
        return _run(graph, lambda tensor: True)


def _is_small(tensor: Tensor) -> bool:
    return tensor.elements == 1 or (
        tensor.elements <= SMALL_VECTOR and (tensor.origin_dtype is None or not tensor.origin_dtype.is_float)
    )


def _run(graph: Graph, wanted: Callable[[Tensor], bool]) -> PassResult:
    joined = saved = 0
    for scope in all_graphs(graph):
        outputs = set(scope.outputs)
        candidates = [
            tensor
            for tensor in scope.constants
            if tensor.producer is None and _at_hand(tensor) and wanted(tensor)
        ]
        for group in same_values(candidates):
            keep = next((tensor for tensor in group if tensor in outputs), group[0])
            for tensor in group:
                if tensor is keep or tensor in outputs:
                    continue
                joined, saved = joined + 1, saved + tensor.logical_bytes
                scope.replace_uses(tensor, keep)
                scope.remove_tensor(tensor)
    return PassResult.of({"removed constants": joined, "saved bytes": saved})


def _at_hand(tensor: Tensor) -> bool:
    constant = tensor.constant
    return (
        constant is not None
        and constant.available
        and tensor.is_static
        and (constant.loaded or not constant.computed)
    )
