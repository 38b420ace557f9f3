"""DimensionComputePass: Shape and Size fold as soon as the shape of their input is known, whatever its
values.
"""

from __future__ import annotations

from dataclasses import dataclass

from ascendsim.graph.ir import Constant, Node
from ascendsim.passes.engine.keeping import is_folded, keep_values, must_stay, set_exact_type
from ascendsim.passes.engine.node_pass import Site, standard
from ascendsim.passes.rewriting.folding import shape_values


@dataclass(frozen=True, slots=True)
class DimensionComputePass:
    """Folds Shape (the part that it is asked for must be static) and Size.

    Attributes:
        potential: Whether values are only kept beside the node (see `graph_engine.potential`).
    """

    potential: bool = False
    name: str = "DimensionComputePass"
    op_types: frozenset[tuple[str, str]] = standard("Shape", "Size")

    def run(self, node: Node, site: Site) -> bool:
        if is_folded(node) or must_stay(node):
            return False
        arrays = shape_values(node)
        if arrays is None:
            return False
        values = [Constant(array) for array in arrays]
        set_exact_type(node, values)
        keep_values(node, values, site, self.potential)
        return True
