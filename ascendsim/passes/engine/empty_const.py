"""ReplaceWithEmptyConstPass: a node whose outputs all have no elements is replaced by empty constants."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ascendsim.graph.ir import Constant, Node
from ascendsim.passes.engine.keeping import is_folded, keep_values, must_stay
from ascendsim.passes.engine.node_pass import Site


@dataclass(frozen=True, slots=True)
class ReplaceWithEmptyConstPass:
    """There is nothing to compute where every output has a dimension 0, whatever the operator and its inputs.

    Attributes:
        potential: Whether values are only kept beside the node (see `graph_engine.potential`).
    """

    potential: bool = False
    name: str = "ReplaceWithEmptyConstPass"
    op_types: None = None

    def run(self, node: Node, site: Site) -> bool:
        values = []
        for tensor in node.outputs:
            if tensor.origin_dtype is None or not tensor.is_static or 0 not in tensor.static_shape:
                return False
            values.append(Constant(np.empty(tensor.static_shape, tensor.origin_dtype.numpy)))
        if not values or is_folded(node) or must_stay(node):
            return False
        keep_values(node, values, site, self.potential)
        return True
