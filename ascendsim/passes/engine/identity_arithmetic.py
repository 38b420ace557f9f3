"""IdentityArithmeticPass: x * 1, x / 1, x - 0, integer x + 0, x and true, x or false, Where(true, x, _)
become x.

Only where every bit of the result is that of x: the result has x's shape and element type (the other operand
may broadcast, x may not), and zeros keep their signs. -0.0 + 0.0 is 0.0, so a float x + 0.0 stays; x + (-0.0)
and x - 0.0 go. NaN stays NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ascendsim.graph.ir import Array, Node, Tensor
from ascendsim.passes.engine.edits import bypass, is_standard, same_type, small_value
from ascendsim.passes.engine.node_pass import Site, again_around, standard


def _one(array: Array) -> bool:
    return bool(np.all(array == 1))


def _added_zero(array: Array) -> bool:
    return bool(np.all(array == 0)) and (
        array.dtype.kind in "iub" or bool(np.all(np.signbit(array.astype(np.float64))))
    )


def _subtracted_zero(array: Array) -> bool:
    return bool(np.all(array == 0)) and (
        array.dtype.kind in "iub" or not np.any(np.signbit(array.astype(np.float64)))
    )


# Operator -> (ports that may hold the neutral constant, whether an array is neutral there)
NEUTRAL: dict[str, tuple[tuple[int, ...], Callable[[Array], bool]]] = {
    "Add": ((0, 1), _added_zero),
    "Sub": ((1,), _subtracted_zero),
    "Mul": ((0, 1), _one),
    "Div": ((1,), _one),
    "Pow": ((1,), _one),
    "And": ((0, 1), lambda array: bool(np.all(array))),
    "Or": ((0, 1), lambda array: not np.any(array)),
    "Xor": ((0, 1), lambda array: not np.any(array)),
}


@dataclass(frozen=True, slots=True)
class IdentityArithmeticPass:
    """Removes one operator that gives back one of its operands."""

    name: str = "IdentityArithmeticPass"
    op_types: frozenset[tuple[str, str]] = standard("Where", *NEUTRAL)

    def run(self, node: Node, site: Site) -> bool:
        source = self._source(node, site)
        if source is None or not same_type(source, node.output):
            return False
        again_around(node, site)
        if not bypass(node, source):
            return False
        site.tally.count(f"removed {node.op_type}")
        return True

    def _source(self, node: Node, site: Site) -> Tensor | None:
        if is_standard(node, "Where"):
            condition = small_value(node.input(0))
            if condition is None or condition.size == 0 or bool(condition.all()) is not bool(condition.any()):
                return None
            return node.required(1 if condition.all() else 2)
        if node.input_count != 2:
            return None
        ports, is_neutral = NEUTRAL[node.op_type]
        for port in ports:
            array = small_value(node.input(port))
            if array is None or array.size == 0:
                continue
            if is_neutral(array):
                return node.input(1 - port)
            if node.op_type == "Add" and np.all(array == 0):
                site.tally.note(f"{node.name}: x + 0.0 stays, it would turn -0.0 into 0.0")
        return None
