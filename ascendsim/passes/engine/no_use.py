"""NoUseReshapeRemovePass, UnchangedTransposeRemovePass, CastRemovePass, AddNPass and other operators that
change nothing.

Each of them is decided by types, shapes and attributes: the output has the input's shape and element type,
and the operator cannot have changed an element.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ascendsim.graph.ir import Node
from ascendsim.passes.engine.edits import same_type, small_value
from ascendsim.passes.engine.node_pass import Site, replace_by, standard

RESHAPES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")


def permutation(node: Node) -> tuple[int, ...] | None:
    """The axes of a Transpose; None if they are not known."""
    perm = node.attr("perm")
    if perm is not None:
        return tuple(int(axis) for axis in perm)
    shape = node.required(0).shape
    return None if shape is None else tuple(range(len(shape)))[::-1]


def _same_order(node: Node) -> bool:
    perm = permutation(node)
    return perm is not None and perm == tuple(range(len(perm)))


def _whole(node: Node) -> bool:
    """Whether a Slice walks forwards; with the input's shape it takes all of it then."""
    if node.input(4) is None:
        return True
    steps = small_value(node.input(4))
    return steps is not None and bool(np.all(steps > 0))


def _single(node: Node) -> bool:
    return sum(tensor is not None for tensor in node.inputs) == 1


def _pads_nothing(node: Node) -> bool:
    """Whether no side is padded or cut: equal shapes alone may mean that one side grew by what the other
    lost.
    """
    pads = small_value(node.input(1))
    return pads is not None and not pads.any()


# Pass -> operators -> what besides equal types says that nothing changes
_RULES: dict[str, dict[str, Callable[[Node], bool]]] = {
    "NoUseReshapeRemovePass": dict.fromkeys(RESHAPES, lambda _node: True),
    "UnchangedTransposeRemovePass": {"Transpose": _same_order},
    "CastRemovePass": {
        "Cast": lambda _node: True,
        "CastLike": lambda _node: True,
        "BitCast": lambda _node: True,
    },
    "AddNPass": {"Sum": _single},
    "NoUseMovementRemovePass": {
        "Expand": lambda _node: True,
        "Tile": lambda _node: True,
        "Slice": _whole,
        "Pad": _pads_nothing,
        "Concat": _single,
        "Split": lambda node: len(node.outputs) == 1,
    },
}


@dataclass(frozen=True, slots=True)
class RemoveUnchanging:
    """Removes operators that change nothing.

    Attributes:
        name: Of the pass; decides which operators. All but NoUseMovementRemovePass are GE's.
    """

    name: str

    @property
    def op_types(self) -> frozenset[tuple[str, str]]:
        """The operators that it may remove."""
        return standard(*_RULES[self.name])

    def run(self, node: Node, site: Site) -> bool:
        rules = _RULES[self.name]
        if node.input(0) is None or not node.outputs:
            return False
        source = node.required(0)
        if not same_type(source, node.output) or not rules[node.op_type](node):
            return False
        return replace_by(node, source, site)


NO_USE_RESHAPE, UNCHANGED_TRANSPOSE, CAST_REMOVE, ADD_N, NO_USE_MOVEMENT = (
    RemoveUnchanging(name) for name in _RULES
)
