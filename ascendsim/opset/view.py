"""What an operator sees of its node while it describes its work: the node itself, and of everything around it
only what a unit's key holds.

Networks repeat their layers, so the program of a node is made once and taken for every node with the same key
(`lower.unit_key`). That is right only if `lower` reads nothing that is not in the key. So it gets a view:
operator, attributes, tensors with types, shapes, formats and small constants; of neighbours their operator,
and whether the graph returns a result. All else raises an error.
"""

from __future__ import annotations

from typing import NoReturn

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import CompileError
from ascendsim.graph.ir import Array, Constant, Graph, Node, Tensor, Use

# operators ask for single values and for lists with one entry an axis; of larger constants only for index
# lists
FEW_VALUES = 16
INDICES = (DType.INT32, DType.INT64)


def values_are_seen(tensor: Tensor) -> bool:
    """Whether `lower` may read the values of a constant: they are few, or indices."""
    return tensor.is_static and (tensor.elements <= FEW_VALUES or tensor.origin_dtype in INDICES)


class Neighbour(Node):
    """A node beside the one that is lowered: only its operator is known."""

    __slots__ = ()

    def __init__(self, op_type: str, domain: str) -> None:
        self.op_type, self.domain = op_type, domain

    def _hidden(self) -> NoReturn:
        raise CompileError(
            f"a neighbour of type {self.op_type}",
            "shows its operator only to the `lower` of another one",
            remedy="put what is needed into an attribute of the node itself",
        )

    @property
    def attributes(self) -> NoReturn:  # type: ignore[override]
        self._hidden()

    @property
    def name(self) -> NoReturn:  # type: ignore[override]
        self._hidden()

    @property
    def inputs(self) -> NoReturn:
        self._hidden()

    @property
    def outputs(self) -> NoReturn:  # type: ignore[override]
        self._hidden()

    def input(self, index: int) -> NoReturn:
        self._hidden()

    def __repr__(self) -> str:
        return f"Neighbour({self.op_type})"


def view_of(node: Node) -> Node:
    """The view of a node that `OpDef.lower` gets."""
    seen: dict[Tensor, Tensor] = {}
    view = Node(node.op_type, node.name, node.domain)
    view.attributes, view.origin = node.attributes, node.origin
    view._inputs = [None if tensor is None else _tensor(tensor, seen) for tensor in node._inputs]
    view.outputs = [_tensor(tensor, seen) for tensor in node.outputs]
    view._control = {Neighbour("", ""): None} if node._control else {}
    if node.graph is not None:
        returned = node.graph.outputs
        view.graph = Graph(outputs=[seen[tensor] for tensor in node.outputs if tensor in returned])
    for tensor in node.outputs:
        readers = {(reader.op_type, reader.domain): None for reader, _ in tensor._uses}
        seen[tensor]._uses = {Use(Neighbour(*reader), -1): None for reader in readers}
        seen[tensor].producer, seen[tensor].index = view, tensor.index
    return view


def _tensor(tensor: Tensor, seen: dict[Tensor, Tensor]) -> Tensor:
    if tensor not in seen:
        copy = Tensor(tensor.name, tensor.dtype, tensor.shape, tensor.format, _constant(tensor))
        copy.origin_dtype = tensor.origin_dtype
        if tensor.producer is not None:
            copy.producer = Neighbour(tensor.producer.op_type, tensor.producer.domain)
        seen[tensor] = copy
    return seen[tensor]


def _constant(tensor: Tensor) -> Constant | None:
    constant = tensor.constant
    if constant is None or not constant.available or values_are_seen(tensor):
        return constant

    def hidden() -> Array:
        raise CompileError(
            f"constant {tensor.name!r}",
            f"hides its values from `lower`: it has more than {FEW_VALUES}",
            remedy="ask for its shape",
        )

    return Constant(loader=hidden)
