"""The graph: C = {N, E, I, O}, nodes, edges, input edges and output edges.

An edge is a `Use`: it joins an output port of one node to an input port of another, so two nodes may be
joined by several edges. Tensors keep their use lists, so a rewrite costs what it touches and not the size of
the graph. Operator names and semantics inside the graph are those of the newest ONNX opset (front ends
upgrade older forms).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import takewhile
from typing import Any, NamedTuple, Union

import numpy as np

from ascendsim.core.arguments import checked
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import FIXED_SHAPES, GraphError, suggest
from ascendsim.core.formats import Format, storage_bytes, storage_shape
from ascendsim.core.table import Table
from ascendsim.graph.constants import Array, Constant, Dim, Shape
from ascendsim.graph.ends import Ends
from ascendsim.graph.ordering import can_run, stable_order

__all__ = ["Array", "AttributeValue", "Constant", "Dim", "Graph", "Node", "Shape", "Tensor", "Use"]

AttributeValue = Union[
    int,
    float,
    str,
    tuple[int, ...],
    tuple[float, ...],
    tuple[str, ...],
    Array,
    "Graph",
    tuple["Graph", ...],
    DType,
]


class Use(NamedTuple):
    """One edge end: `node.inputs[index]` is the tensor."""

    node: Node
    index: int  # type: ignore[assignment]  # hides a method of tuples


class Tensor:
    """A value of the graph: produced by one node output, or a graph input, or a constant.

    Attributes:
        name: Unique in its graph.
        shape: Logical shape, ONNX axis order; None if even the rank is unknown.
        dtype: Element type on the device (passes may change it, see `origin_dtype`).
        origin_dtype: Element type of the user's model; `values="float32"` computes in it.
        format: Layout in global memory.
        constant: The value if this is a constant, else None.
        producer, index: The node output that makes it, else (None, 0).
        uses: Every (node, input port) that reads it, in insertion order.
    """

    __slots__ = ("_uses", "constant", "dtype", "format", "index", "name", "origin_dtype", "producer", "shape")

    def __init__(
        self,
        name: str,
        dtype: DType | None = None,
        shape: Shape | None = None,
        format: Format = Format.ND,
        constant: Constant | None = None,
    ) -> None:
        self.name, self.shape, self.format, self.constant = name, shape, format, constant
        self.dtype = dtype
        self.origin_dtype = dtype
        self.producer: Node | None = None
        self.index = 0
        self._uses: dict[tuple[Node, int], None] = {}  # the keys are uses

    @property
    def uses(self) -> tuple[Use, ...]:
        return tuple(self._uses)  # type: ignore[arg-type]

    @property
    def consumers(self) -> tuple[Node, ...]:
        """The distinct nodes that read it."""
        if len(self._uses) == 1:
            return tuple([reader for reader, _ in self._uses])
        return tuple(dict.fromkeys([reader for reader, _ in self._uses]))

    @property
    def is_constant(self) -> bool:
        return self.constant is not None

    @property
    def is_static(self) -> bool:
        """Whether every dimension is a number."""
        if self.shape is None:
            return False
        for dim in self.shape:  # noqa: SIM110 - a loop: this is asked a hundred times a node
            if type(dim) is not int:
                return False
        return True

    @property
    def static_shape(self) -> tuple[int, ...]:
        """The shape, all numbers.

        Raises:
            GraphError: If a dimension is unknown.
        """
        if not self.is_static:
            raise GraphError(
                f"tensor {self.name!r}",
                "needs a static shape",
                self.shape,
                FIXED_SHAPES,
            )
        return self.shape  # type: ignore[return-value]

    @property
    def element_type(self) -> DType:
        """The dtype.

        Raises:
            GraphError: If it is not known yet.
        """
        if self.dtype is None:
            raise GraphError(
                f"tensor {self.name!r}", "has no element type", remedy="run shape inference first"
            )
        return self.dtype

    @property
    def elements(self) -> int:
        """Logical element count."""
        return math.prod(self.static_shape)

    @property
    def logical_bytes(self) -> int:
        return self.elements * self.element_type.itemsize

    @property
    def storage_shape(self) -> tuple[int, ...]:
        return storage_shape(self.static_shape, self.format, self.element_type)

    @property
    def storage_bytes(self) -> int:
        """Bytes in global memory, padding of the format included."""
        return storage_bytes(self.static_shape, self.format, self.element_type)

    def __repr__(self) -> str:
        dims = "?" if self.shape is None else ",".join("?" if d is None else str(d) for d in self.shape)
        return f"%{self.name}: {self.dtype.value if self.dtype else '?'}[{dims}]"


class Node:
    """One use of an operator.

    Attributes:
        inputs: Tensors by port; None marks an optional input that is left out.
        outputs: Tensors by port; an output nobody asked for is still there (with a made-up name).
        attributes: Attribute values; `Graph` values are subgraphs (If, Loop).
        control, followers: Nodes that must finish before this one, or wait for it, though no data flows.
        origin: Free facts that a pass or report wants to keep: "framework", "source_names", "inserted" ...
    """

    __slots__ = (
        "_control",
        "_followers",
        "_inputs",
        "attributes",
        "domain",
        "graph",
        "name",
        "op_type",
        "origin",
        "outputs",
    )

    def __init__(self, op_type: str, name: str, domain: str = "") -> None:
        self.op_type, self.name, self.domain = op_type, name, domain
        self._inputs: list[Tensor | None] = []
        self.outputs: list[Tensor] = []
        self.attributes: dict[str, AttributeValue] = {}
        self._control: dict[Node, None] = {}
        self._followers: dict[Node, None] = {}
        self.origin: dict[str, Any] = {}
        self.graph: Graph | None = None

    @property
    def inputs(self) -> tuple[Tensor | None, ...]:
        return tuple(self._inputs)

    @property
    def input_count(self) -> int:
        return len(self._inputs)

    def input(self, index: int) -> Tensor | None:
        """The tensor at an input port, None where it is absent or left out."""
        return self._inputs[index] if 0 <= index < len(self._inputs) else None

    def required(self, index: int) -> Tensor:
        """The tensor at an input port that the operator cannot do without."""
        tensor = self.input(index)
        if tensor is None:
            raise GraphError(
                f"node {self.name!r} ({self.op_type})", f"needs input {index}", remedy="connect it"
            )
        return tensor

    @property
    def output(self) -> Tensor:
        """The first output."""
        return self.outputs[0]

    def set_input(self, index: int, tensor: Tensor | None) -> None:
        """Connects an input port (extending the list with absent inputs if needed) and keeps both use lists
        right.
        """
        self._changed()
        while index >= len(self._inputs):
            self._inputs.append(None)
        old = self._inputs[index]
        if old is not None:
            old._uses.pop((self, index), None)  # a plain tuple equals a use, and is made faster
        self._inputs[index] = tensor
        if tensor is not None:
            tensor._uses[Use(self, index)] = None

    def _connect(self, tensors: Iterable[Tensor | None]) -> None:
        """Connects the inputs of a node that has none yet."""
        self._inputs = list(tensors)
        for index, tensor in enumerate(self._inputs):
            if tensor is not None:
                tensor._uses[Use(self, index)] = None

    def truncate_inputs(self, count: int) -> None:
        """Drops input ports from `count` on."""
        for index in range(count, len(self._inputs)):
            self.set_input(index, None)
        del self._inputs[count:]

    @property
    def control(self) -> tuple[Node, ...]:
        return tuple(self._control)

    @property
    def followers(self) -> tuple[Node, ...]:
        return tuple(self._followers)

    def add_control(self, before: Node) -> None:
        """Adds a control edge: `before` must finish first."""
        self._changed()
        self._control[before] = None
        before._followers[self] = None

    def remove_control(self, before: Node) -> None:
        """Removes a control edge if it is there."""
        self._changed()
        self._control.pop(before, None)
        before._followers.pop(self, None)

    def _changed(self) -> None:
        if self.graph is not None:
            self.graph._order = None

    def attr(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)

    @property
    def subgraphs(self) -> tuple[tuple[str, Graph], ...]:
        """Subgraphs with the names of their attributes; an attribute holds one, or a tuple of them."""
        if not _holds(self):  # asked for all the time, and nearly always there is none
            return ()
        found: list[tuple[str, Graph]] = []
        for key, value in self.attributes.items():
            if isinstance(value, Graph):
                found.append((key, value))
            elif isinstance(value, tuple):
                found += [(key, item) for item in value if isinstance(item, Graph)]
        return tuple(found)

    def __repr__(self) -> str:
        return f"{self.op_type}({self.name})"


@dataclass(slots=True, eq=False)
class Graph:
    """C = {N, E, I, O}: nodes in insertion order, input and output tensors; edges live in the tensors' use
    lists.

    A subgraph may read tensors of the graph around it (outer scope); its outputs are its own tensors.
    """

    name: str = "graph"
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=Ends)
    metadata: dict[str, Any] = field(default_factory=dict)
    _nodes: dict[Node, None] = field(default_factory=dict)
    _tensors: dict[str, Tensor] = field(default_factory=dict)
    _node_names: dict[str, Node] = field(default_factory=dict)
    _counter: int = 0
    _order: list[Node] | None = None  # execution order, until something changes it
    # nodes that are there, numbered in the order in which they were added
    _added: dict[Node, int] = field(default_factory=dict)
    _additions: int = 0

    def __repr__(self) -> str:
        return f"Graph({self.name!r}, {len(self._nodes)} nodes, inputs={self.inputs}, outputs={self.outputs})"

    def operators(self) -> Table:
        """How often each operator is used, the most frequent first."""
        counts = Counter(node.op_type for node in self._nodes)
        rows = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return Table("operators", ("Operator", "Count"), tuple(rows))

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.operators().to_html()}"

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Nodes in insertion order (use `topological()` for execution order)."""
        return tuple(self._nodes)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Every tensor by name (treat as read-only)."""
        return self._tensors

    @property
    def constants(self) -> Iterator[Tensor]:
        return (t for t in self._tensors.values() if t.constant is not None)

    @property
    def holders(self) -> list[Node]:
        """Nodes that hold subgraphs, in insertion order."""
        return [node for node in self._nodes if node.attributes and _holds(node)]

    def __len__(self) -> int:
        return len(self._nodes)

    @checked()
    def node(self, name: str) -> Node:
        try:
            return self._node_names[name]
        except KeyError:
            raise GraphError(
                f"node {name!r}", "is not in the graph", remedy=suggest(name, self._node_names)
            ) from None

    @checked()
    def fresh(self, stem: str) -> str:
        """A tensor or node name that nothing in the graph has yet."""
        return self._fresh(stem)

    def _fresh(self, stem: str) -> str:
        name = stem
        while name in self._tensors or name in self._node_names:
            self._counter += 1
            name = f"{stem}_{self._counter}"
        return name

    @checked()
    def add_tensor(self, tensor: Tensor) -> Tensor:
        if tensor.name in self._tensors:
            raise GraphError(
                f"tensor {tensor.name!r}", "must be defined once", remedy="rename one of the two"
            )
        self._tensors[tensor.name] = tensor
        return tensor

    @checked()
    def add_input(self, name: str, dtype: DType, shape: Shape | None) -> Tensor:
        tensor = self.add_tensor(Tensor(name, dtype, shape))
        self.inputs.append(tensor)
        return tensor

    @checked()
    def add_constant(self, name: str, array: Any) -> Tensor:
        """Adds a constant from what NumPy makes an array of."""
        array = np.asarray(array)
        return self.add_tensor(
            Tensor(name, DType.of(array.dtype), tuple(array.shape), constant=Constant(array))
        )

    @checked()
    def add_node(
        self,
        op_type: str,
        inputs: Sequence[Tensor | None],
        outputs: int | Sequence[str | Tensor] = 1,
        name: str | None = None,
        domain: str = "",
        **attributes: AttributeValue,
    ) -> Node:
        """Appends a node; outputs are a count, names, or tensors that already belong to the graph and have no
        producer.
        """
        node = Node(
            op_type,
            name if name is not None and name not in self._node_names else self._fresh(name or op_type),
            domain,
        )
        node.attributes.update(attributes)
        wanted: Iterable[str | Tensor] = (
            (self._fresh(f"{node.name}_out") for _ in range(outputs)) if isinstance(outputs, int) else outputs
        )
        made: list[Tensor] = []
        for item in wanted:
            if isinstance(item, str):
                item = self.add_tensor(Tensor(item if item else self.fresh(f"{node.name}_unused")))
            made.append(item)
        return self._append(node, inputs, made)

    def _append(self, node: Node, inputs: Iterable[Tensor | None], outputs: list[Tensor]) -> Node:
        """Appends a node that has no edges yet and whose name is free."""
        node.graph, node.outputs = self, outputs
        node._connect(inputs)
        for index, tensor in enumerate(outputs):
            tensor.producer, tensor.index = node, index
        self._nodes[node] = None
        self._node_names[node.name] = node
        self._added[node] = self._additions
        self._additions += 1
        self._order = None
        return node

    @property
    def additions(self) -> int:
        """How many nodes were ever added."""
        return self._additions

    @checked()
    def added_since(self, additions: int) -> list[Node]:
        """Nodes that were added since the graph had so many additions, and are still there."""
        latest = takewhile(lambda node: self._added[node] >= additions, reversed(self._added))
        return list(latest)[::-1]

    @checked()
    def place_before(self, node: Node, anchor: Node) -> None:
        """Moves a node to just before another one in insertion order, by which ties in execution order are
        settled.
        """
        order: dict[Node, None] = {}
        for other in self._nodes:
            if other is anchor:
                order[node] = None
            if other is not node:
                order[other] = None
        self._nodes, self._order = order, None

    @checked()
    def replace_uses(self, old: Tensor, new: Tensor, outputs_too: bool = True) -> None:
        """Lets every reader of `old` read `new` (and the graph outputs too)."""
        for use in old.uses:
            use.node.set_input(use.index, new)
        if outputs_too and old in self.outputs:
            self.outputs[:] = [new if t is old else t for t in self.outputs]

    @checked()
    def remove_node(self, node: Node) -> None:
        """Removes a node whose outputs nobody reads, with its output tensors.

        Raises:
            GraphError: If an output is still read or is a graph output.
        """
        for tensor in node.outputs:
            if tensor._uses or tensor in self.outputs:
                raise GraphError(
                    f"node {node.name!r}",
                    f"cannot be removed: its output {tensor.name!r} is still used",
                    remedy="replace its uses first",
                )
        for tensor in node.outputs:
            self._tensors.pop(tensor.name, None)
            tensor.producer = None
        self._forget(node)

    @checked()
    def make_constant(self, node: Node, constants: Sequence[Constant]) -> None:
        """Replaces a node by the values of its outputs: each output tensor keeps its name and uses and
        becomes a constant.
        """
        for tensor, constant in zip(node.outputs, constants, strict=True):
            tensor.producer, tensor.constant = None, constant
        for before in node.control:  # who waited for the node waits for what it waited for
            for follower in node.followers:
                follower.add_control(before)
        self._forget(node)

    def _forget(self, node: Node) -> None:
        """Takes a node out, without the circles of references that would keep it and its tensors until the
        next collection.
        """
        self._order = None
        node.truncate_inputs(0)
        self._nodes.pop(node)
        self._added.pop(node)
        self._node_names.pop(node.name, None)
        for before in node.control:
            node.remove_control(before)
        for follower in node.followers:
            follower.remove_control(node)
        node.graph = None

    @checked()
    def remove_tensor(self, tensor: Tensor) -> None:
        """Forgets a tensor that nobody makes or reads (a dead constant)."""
        if tensor._uses or tensor.producer is not None or tensor in self.inputs or tensor in self.outputs:
            raise GraphError(f"tensor {tensor.name!r}", "cannot be removed: it is still used")
        self._tensors.pop(tensor.name, None)

    @checked()
    def reorder(self, order: Sequence[Node]) -> None:
        """Puts the nodes in another insertion order, which settles ties of execution order.

        Raises:
            GraphError: If `order` does not hold exactly the nodes of the graph.
        """
        if len(order) != len(self._nodes) or set(order) != set(self._nodes):
            raise GraphError(
                f"graph {self.name!r}",
                "can only be reordered with all of its nodes",
                f"{len(order)} of {len(self._nodes)}",
            )
        self._nodes, self._order = dict.fromkeys(order), None

    @checked()
    def rename_tensor(self, tensor: Tensor, name: str) -> None:
        if name in self._tensors and self._tensors[name] is not tensor:
            raise GraphError(f"tensor name {name!r}", "is taken")
        self._tensors.pop(tensor.name, None)
        tensor.name = name
        self._tensors[name] = tensor

    @checked()
    def predecessors(self, node: Node) -> list[Node]:
        """Nodes that must run before `node`: producers of its inputs, of what its subgraphs read from
        outside, and control edges.
        """
        return self._predecessors(node)

    def _predecessors(self, node: Node) -> list[Node]:
        found = _edges_to(node)
        for _, subgraph in node.subgraphs if node.attributes else ():
            for tensor in subgraph.captured():
                if tensor.producer is not None and tensor.producer.graph is self:
                    found.append(tensor.producer)
        return found

    def captured(self) -> Iterator[Tensor]:
        """Tensors of outer graphs that this subgraph (or one inside it) reads."""
        for node in self._nodes:
            for tensor in node._inputs:
                if tensor is not None and self._tensors.get(tensor.name) is not tensor:
                    yield tensor
            for _, subgraph in node.subgraphs:
                yield from (t for t in subgraph.captured() if self._tensors.get(t.name) is not t)

    @checked()
    def topological(self, anew: bool = False) -> list[Node]:
        """Nodes in execution order; ties keep insertion order.

        Args:
            anew: Whether to look at the edges even if no method of the graph or its nodes has changed
                anything since the last time.

        Raises:
            GraphError: If the graph has a cycle; names the nodes on it.
        """
        known = self._order
        if known is not None and not anew:
            return list(known)
        held = bool(self.holders)  # nearly always there are none, and edges are all there is to look at
        needs = self._predecessors if held else _edges_to
        if known is not None and can_run(known, needs):
            return list(known)
        if can_run(self._nodes, needs):
            order = list(self._nodes)
        else:
            order, stuck = stable_order(self._nodes, needs)
            if stuck:
                names = ", ".join(node.name for node in stuck[:8])
                raise GraphError(
                    f"graph {self.name!r}",
                    f"has a cycle through nodes {names}",
                    remedy="break one of these edges",
                )
        # What a subgraph reads from outside can change without notice.
        self._order = None if held else order
        return list(order)


def _holds(node: Node) -> bool:
    """Whether a node has subgraphs."""
    for value in node.attributes.values():
        kind = type(value)
        if kind is Graph or (kind is tuple and value and type(value[0]) is Graph):  # type: ignore[index]
            return True
    return False


def _edges_to(node: Node) -> list[Node]:
    """Where the data and control edges of a node come from."""
    found = [tensor.producer for tensor in node._inputs if tensor is not None and tensor.producer is not None]
    if node._control:
        found += node._control
    return found
