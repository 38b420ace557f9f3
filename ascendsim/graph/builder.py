"""Building graphs in Python.

b = GraphBuilder("tiny", infer=default_opset().infer)
x = b.input("x", (1, 3, 8, 8))
w = b.constant(weights, "w")
y = b.op("Conv", x, w, strides=(1, 1))
b.output(b.op("Relu", y), "y")
graph = b.build()
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, SupportsIndex, Union

import numpy as np

from ascendsim.core.arguments import checked
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.graph.ir import Array, AttributeValue, Constant, Dim, Graph, Node, Shape, Tensor
from ascendsim.graph.verify import verify

Operand = Union[Tensor, "Array", np.generic, float, int, bool, Sequence[Any], None]


class GraphBuilder:
    """Builds a graph step by step; every step returns the tensor that it made.

    Args:
        name: Of the graph.
        infer: Called with each new node: sets types and shapes of its outputs (for example
            `lambda node: opset.get(node).infer(InferContext(node))`). None leaves them unknown.
        dtype: Element type of inputs, weights and plain numbers that do not say otherwise.
    """

    def __init__(
        self, name: str = "graph", infer: Callable[[Node], None] | None = None, dtype: DType = DType.FLOAT32
    ) -> None:
        self.graph = Graph(name)
        self.dtype = dtype
        self._infer = infer
        self._scope: list[str] = []

    @checked()
    def input(self, name: str, shape: Sequence[Dim], dtype: DType | str | None = None) -> Tensor:
        """Adds a graph input; a dimension may be a number, a symbol or None."""
        kind = self.dtype if dtype is None else DType.of(dtype)
        return self.graph.add_input(name, kind, _shape(shape))

    @checked()
    def constant(self, value: Any, name: str = "constant", dtype: DType | str | None = None) -> Tensor:
        """Adds a constant from an array, a number or a list (integers become int64, floats the builder's
        type).
        """
        array = np.asarray(value)
        if dtype is not None:
            array = array.astype(DType.of(dtype).numpy)
        elif not isinstance(value, (np.ndarray, np.generic)):
            array = array.astype(
                self.dtype.numpy
                if array.dtype.kind == "f"
                else np.bool_
                if array.dtype.kind == "b"
                else np.int64
            )
        return self.graph.add_constant(self.graph.fresh(self._scoped(name)), array)

    @checked()
    def weight(
        self,
        name: str,
        shape: Sequence[int],
        fill: Callable[[], Array] | None = None,
        dtype: DType | str | None = None,
    ) -> Tensor:
        """Adds a constant whose values come later: from `fill` when they are asked for, or never (shape-only,
        enough for timing).
        """
        kind = self.dtype if dtype is None else DType.of(dtype)
        constant = (
            Constant(loader=fill) if fill is not None else Constant(absent_because="built without values")
        )
        return self.graph.add_tensor(
            Tensor(self.graph.fresh(self._scoped(name)), kind, _shape(shape), constant=constant)
        )

    @checked()
    def op(
        self,
        op_type: str,
        *inputs: Operand,
        outputs: Sequence[str] | None = None,
        name: str | None = None,
        domain: str = "",
        **attributes: AttributeValue | list[int] | list[float] | None,
    ) -> Tensor:
        """Adds a node and returns its first output.

        Args:
            op_type: Operator in its newest ONNX form.
            inputs: Tensors; arrays, numbers and lists become constants; None leaves an optional input out. A
                float takes the type of the first tensor among the inputs (write 2.0, not 2); if that is no
                type of floats and cannot hold it, of the first tensor of floats, else the builder's. An
                integer takes that of the first tensor if it is an integer type, else int64.
            outputs: Names of the outputs, if the node has several or the name matters; one made-up name by
                default.
            name: Of the node; by default the operator's, numbered.
            domain: Of the operator.
            attributes: By ONNX name; lists become tuples, None leaves an attribute out.
        """
        return self._ops(op_type, inputs, outputs, name, domain, attributes)[0]

    @checked()
    def ops(
        self,
        op_type: str,
        *inputs: Operand,
        outputs: Sequence[str] | int | None = None,
        name: str | None = None,
        domain: str = "",
        **attributes: AttributeValue | list[int] | list[float] | None,
    ) -> list[Tensor]:
        """Like `op`, for a node with several outputs (`outputs` names or counts them); returns all of
        them.
        """
        return self._ops(op_type, inputs, outputs, name, domain, attributes)

    def _ops(
        self,
        op_type: str,
        inputs: Sequence[Operand],
        outputs: Sequence[str] | int | None,
        name: str | None,
        domain: str,
        attributes: Mapping[str, AttributeValue | list[int] | list[float] | None],
    ) -> list[Tensor]:
        tensors = [
            item if isinstance(item, Tensor) else self._operand(item, op_type, inputs) for item in inputs
        ]
        wanted: Sequence[str] | int = 1 if outputs is None else outputs
        node = self.graph.add_node(op_type, tensors, wanted, self._scoped(name or op_type), domain)
        for key, value in attributes.items():
            if value is not None:
                node.attributes[key] = tuple(value) if isinstance(value, list) else value
        if self._infer is not None:
            self._infer(node)
        return node.outputs

    @checked()
    def output(self, tensor: Tensor, name: str | None = None) -> Tensor:
        """Marks a graph output; `name` renames the tensor (inputs keep their names)."""
        if name is not None and name != tensor.name:
            if tensor in self.graph.inputs:
                raise GraphError(
                    f"input {tensor.name!r}",
                    f"cannot be renamed to output {name!r}",
                    remedy="pass it through an Identity node",
                )
            self.graph.rename_tensor(tensor, name)
        self.graph.outputs.append(tensor)
        return tensor

    @checked()
    def scope(self, name: str) -> _Scope:
        """A `with` block in which names of nodes and constants get the prefix `name/`."""
        return _Scope(self._scope, name)

    @property
    def prefix(self) -> str:
        """What names get in the scopes that are open: theirs, each with a slash."""
        return self._scoped("")

    def build(self) -> Graph:
        """The finished graph, verified.

        Raises:
            GraphError: If a rule of the IR is broken.
        """
        verify(self.graph)
        return self.graph

    def _operand(self, item: Any, op_type: str, inputs: Sequence[Operand]) -> Tensor | None:
        """An input that is no tensor: a constant, whose type may follow a tensor among the inputs."""
        if item is None:
            return None
        kinds = [other.dtype for other in inputs if isinstance(other, Tensor)]
        whole = type(item) is int or (isinstance(item, float) and item.is_integer())
        kind = None
        if whole and kinds and kinds[0] is not None and kinds[0].is_integer:
            kind = kinds[0]
        elif isinstance(item, float):
            kind = next((each for each in kinds if each is not None and each.is_float), None)
        return self.constant(item, f"{op_type}_constant", kind)

    def _scoped(self, name: str) -> str:
        return "/".join((*self._scope, name))


def _shape(dims: Sequence[Dim]) -> Shape:
    """A shape with numbers of Python's own, whatever the user has them from."""
    return tuple(operator.index(dim) if isinstance(dim, SupportsIndex) else dim for dim in dims)


class _Scope:
    """Context manager of `GraphBuilder.scope`."""

    def __init__(self, stack: list[str], name: str) -> None:
        self._stack, self._name = stack, name

    def __enter__(self) -> None:
        self._stack.append(self._name)

    def __exit__(self, *error: object) -> None:
        self._stack.pop()
