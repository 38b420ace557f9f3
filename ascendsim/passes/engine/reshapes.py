"""ReshapeRemovePass, DimensionAdjustPass and Dim1TransposeToSqueezePass: operators that only rename
dimensions.

Reshape(Reshape(x))                          -> Reshape(x), or x if the shape is that of x again
Unsqueeze(Squeeze(x)), Squeeze(Reshape(x))   the same
Transpose that moves only dimensions of 1    -> Reshape, which costs nothing on the chip
"""

from __future__ import annotations

from dataclasses import dataclass

from ascendsim.graph.ir import Node
from ascendsim.passes.engine.edits import bypass, is_standard, make_reshape, only_reader, same_type
from ascendsim.passes.engine.no_use import RESHAPES, permutation
from ascendsim.passes.engine.node_pass import Site, again_around, standard
from ascendsim.passes.rewriting.removal import remove_unread


@dataclass(frozen=True, slots=True)
class JoinReshapes:
    """Makes one operator of two neighbours that rename dimensions, or none.

    Attributes:
        name: GE's name of the pass.
        op_types: Operators that the second of the two may be.
    """

    name: str
    op_types: frozenset[tuple[str, str]]

    def run(self, node: Node, site: Site) -> bool:
        first = node.required(0).producer
        if (
            first is None
            or first.graph is not node.graph
            or not is_standard(first, *RESHAPES)
            or not node.output.is_static
        ):
            return False
        if first.control:
            return False  # who reads the second operator waits for what the first one waits for
        source = first.required(0)
        if same_type(source, node.output):
            again_around(first, site)
            again_around(node, site)
            if not bypass(node, source):
                return False
            site.tally.count("removed pairs")
        else:
            if not only_reader(first.output) or first.followers:
                return False
            make_reshape(node, source)
            site.again(node)
            again_around(node, site)
            site.tally.count("joined pairs")
        remove_unread(first)
        return True


@dataclass(frozen=True, slots=True)
class Dim1TransposeToSqueezePass:
    """Turns a Transpose that keeps the order of all dimensions above 1 into a Reshape."""

    name: str = "Dim1TransposeToSqueezePass"
    op_types: frozenset[tuple[str, str]] = standard("Transpose")

    def run(self, node: Node, site: Site) -> bool:
        if not node.output.is_static or not node.required(0).is_static:
            return False
        perm, shape = permutation(node), node.required(0).static_shape
        if perm is None or node.output.elements == 0:
            return False
        moved = [axis for axis in perm if shape[axis] != 1]
        if moved != sorted(moved):
            return False
        make_reshape(node, node.required(0))
        site.again(node)
        again_around(node, site)
        site.tally.count("transposes without data movement")
        return True


RESHAPE_REMOVE = JoinReshapes("ReshapeRemovePass", standard("Reshape", "Flatten"))
DIMENSION_ADJUST = JoinReshapes("DimensionAdjustPass", standard("Squeeze", "Unsqueeze"))
