"""ConstantFoldingPass: a node whose inputs are all constant is replaced by its value.

Small values are computed at once, by the operator's own value function in the model's own types, so they are
bit for bit what the node would have given. Values of whole weights (a transposed or cast weight matrix) are
computed when somebody asks for them: timing never does. Weights without values give constants without values;
what they cost on the chip is known all the same.

Left alone: operators without a host kernel (random generators, subgraphs; `OpDef.foldable`), nodes with the
attribute `no_const_folding`, quantisation of weights (folding it would undo it), and what would need much
more memory folded than as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ascendsim.core.errors import GraphError
from ascendsim.graph.ir import Array, Constant, Node, Tensor
from ascendsim.opset import OpDef
from ascendsim.passes.engine.keeping import is_folded, keep_values, set_exact_type
from ascendsim.passes.engine.node_pass import Site
from ascendsim.passes.rewriting.folding import KEEP, MAX_FOLDED_BYTES, fold_small, origin_bytes
from ascendsim.passes.rewriting.runner import RefusedError

# domain and name; graph fusion joins the last one with its convolution
QUANTISING = frozenset(
    {
        ("", "QuantizeLinear"),
        ("", "DequantizeLinear"),
        ("", "DynamicQuantizeLinear"),
        ("ascend", "AscendWeightQuant"),
    }
)
AT_ONCE_BYTES = 1 << 20  # operands of one node that are small enough to be computed with now


@dataclass(frozen=True, slots=True)
class ConstantFoldingPass:
    """Folds one node.

    Attributes:
        potential: Whether values are only kept beside the node (see `graph_engine.potential`).
    """

    potential: bool = False
    name: str = "ConstantFoldingPass"
    op_types: None = None

    def run(self, node: Node, site: Site) -> bool:
        if (
            any([t is not None and t.constant is None for t in node._inputs])
            or is_folded(node)
            or not node.outputs
        ):
            return False
        definition = site.opset.find(node.op_type, node.domain)
        if definition is None or not definition.foldable or node.subgraphs:
            raise RefusedError("no host kernel")
        if (node.domain, node.op_type) in QUANTISING:
            raise RefusedError("quantisation")
        marked = bool(node.attr(KEEP, 0))
        values = None if marked and not self.potential else self._values(node, definition, site)
        if values is not None:
            keep_values(node, values, site, self.potential)
        if marked:
            raise RefusedError("marked no_const_folding")
        return values is not None

    def _values(self, node: Node, definition: OpDef, site: Site) -> list[Constant] | None:
        operands = sum(origin_bytes(tensor) for tensor in node.inputs if tensor is not None)
        if operands <= AT_ONCE_BYTES:
            arrays = fold_small(node, definition)
            if arrays is not None:
                values = [Constant(array) for array in arrays]
                set_exact_type(node, values)
                return values
        if not all(
            tensor.is_static and tensor.origin_dtype is not None
            for tensor in (*node.outputs, *filter(None, node.inputs))
        ):
            return None
        results = sum(origin_bytes(tensor) for tensor in node.outputs)
        if results > operands + MAX_FOLDED_BYTES:
            site.tally.note(f"{node.name}: stays, its value takes {results} bytes and its inputs {operands}")
            raise RefusedError("larger folded")
        return _later(node, definition)


def _later(node: Node, definition: OpDef) -> list[Constant]:
    """Constants that compute the node's outputs when they are asked for; without values if an input has
    none.
    """
    inputs = tuple(None if tensor is None else tensor.constant for tensor in node.inputs)
    absent = next((item.absent_because for item in inputs if item is not None and not item.available), None)
    if absent is not None:
        return [Constant(absent_because=absent) for _ in node.outputs]
    stand_in = _stand_in(node)
    dtypes = [tensor.origin_dtype.numpy for tensor in node.outputs if tensor.origin_dtype is not None]
    shapes = [tensor.static_shape for tensor in node.outputs]
    held: list[Array] = []

    def compute() -> None:
        arrays = [None if item is None else item.array() for item in inputs]
        held.extend(_computed(stand_in, definition, arrays, dtypes))

    def loader(index: int) -> Array:
        if not held:
            compute()
        return held[index].reshape(shapes[index])

    return [Constant(loader=partial(loader, index), computed=True) for index in range(len(node.outputs))]


def _stand_in(node: Node) -> Node:
    """A node outside any graph with the type, name, attributes and port types of one that is about to go."""
    twin = Node(node.op_type, node.name, node.domain)
    twin.attributes.update(node.attributes)
    for index, tensor in enumerate(node.inputs):
        twin.set_input(index, None if tensor is None else _typed_like(tensor))
    for index, tensor in enumerate(node.outputs):
        copy = _typed_like(tensor)
        copy.producer, copy.index = twin, index
        twin.outputs.append(copy)
    return twin


def _typed_like(tensor: Tensor) -> Tensor:
    copy = Tensor(tensor.name, tensor.dtype, tensor.shape, tensor.format, tensor.constant)
    copy.origin_dtype = tensor.origin_dtype
    return copy


def _computed(
    node: Node, definition: OpDef, arrays: Sequence[Array | None], dtypes: Sequence[np.dtype[Any]]
) -> list[Array]:
    try:
        with np.errstate(all="ignore"):
            return [np.asarray(result) for result in definition.compute(node, arrays, dtypes)]
    except Exception as error:
        raise GraphError(
            f"node {node.name!r} ({node.op_type})",
            f"fails on its constant inputs: {error}",
            remedy="check the model",
        ) from error
