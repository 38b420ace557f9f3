"""The operator table: one `OpDef` an operator, collected in an `OpSet`.

An operator is a vertical slice: shape rule, values, and the work it asks of the chip. Names and semantics are
those of the newest ONNX opset; chip-side helpers (TransData ...) have domain "ascend".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import AscendSimError, GraphError, UnsupportedOperatorError
from ascendsim.core.formats import Format
from ascendsim.graph.ir import Array, Graph, Node, Shape, Tensor
from ascendsim.opset.expansion import Expand
from ascendsim.opset.facts import Facts, Sign
from ascendsim.opset.view import view_of
from ascendsim.opset.work import LowerContext, Work

MAX_ELEMENTS = 1 << 40  # of one tensor; larger ones cannot be meant
MAX_AXES = 64  # NumPy has no more


def check_size(tensor: Tensor, subject: str) -> None:
    """Refuses a tensor of more than `MAX_AXES` axes, whose known dimensions make more than `MAX_ELEMENTS`
    elements (a dimension of 0 counts as 1), or that has a negative one.

    Raises:
        GraphError: Of the subject.
    """
    dims = [dim for dim in tensor.shape or () if isinstance(dim, int)]
    if tensor.shape is not None and len(tensor.shape) > MAX_AXES:
        raise GraphError(
            subject, f"must have at most {MAX_AXES} axes", len(tensor.shape), "join some of them"
        )
    if any(dim < 0 for dim in dims):
        rule = "must have no negative dimension"
    elif math.prod([dim or 1 for dim in dims]) > MAX_ELEMENTS:
        rule = f"must have at most {MAX_ELEMENTS} elements"
    else:
        return
    raise GraphError(subject, rule, list(tensor.shape or ()), "check the input shapes")


class Layout(Enum):
    """Which format an operator wants for its feature inputs and gives to its outputs."""

    FEATURE = "feature"  # NC1HWC0 for rank-4 tensors: convolution, pooling, batch norm, resize
    MATMUL = "matmul"  # FRACTAL_NZ on v100/m200/m300, ND where the MTE converts on the fly (c220)
    FOLLOW = "follow"  # elementwise: whatever its inputs have, if all agree or broadcast along whole blocks
    ND = "nd"  # row-major


class InferContext:
    """Types of a node's inputs, values of those that are known, and the place to put the outputs' types.

    Args:
        node: The node.
        infer_body: Infers a subgraph anew from the types that its inputs have now. Without it subgraphs keep
            what they have.

    Attributes:
        asked: Input ports whose values the rule has asked for: what the output shapes depend on besides the
            input shapes.
    """

    def __init__(self, node: Node, infer_body: Callable[[Graph], None] | None = None) -> None:
        self.node = node
        self.asked: set[int] = set()
        self._infer_body = infer_body

    def infer_body(self, body: Graph) -> None:
        """Infers a subgraph of the node from the types that its inputs have now."""
        if self._infer_body is not None:
            self._infer_body(body)

    def fail(self, rule: str, actual: object = None, remedy: str = "") -> GraphError:
        """An error that names the node; raise it."""
        return GraphError(f"node {self.node.name!r} ({self.node.op_type})", rule, actual, remedy)

    def has(self, index: int) -> bool:
        return self.node.input(index) is not None

    def tensor(self, index: int) -> Tensor:
        return self.node.required(index)

    def shape(self, index: int) -> Shape | None:
        """Shape of an input; None if even its rank is unknown. Dimensions may be numbers, symbols or None."""
        return self.tensor(index).shape

    def dtype(self, index: int) -> DType:
        """Type of an input in the user's model."""
        tensor = self.tensor(index)
        if tensor.origin_dtype is None:
            raise self.fail(f"needs the element type of input {tensor.name!r}")
        return tensor.origin_dtype

    def value(self, index: int) -> Array | None:
        """Values of an input if it is a constant with values (shape arithmetic), else None."""
        self.asked.add(index)
        tensor = self.node.input(index)
        if tensor is None or tensor.constant is None or not tensor.constant.available:
            return None
        return tensor.constant.array()

    def set(self, index: int, dtype: DType, shape: Shape | None) -> None:
        """Sets type and shape of an output (outputs that the model left out are skipped)."""
        if index < len(self.node.outputs):
            tensor = self.node.outputs[index]
            tensor.origin_dtype = tensor.dtype = dtype
            tensor.shape = shape


Infer = Callable[[InferContext], None]
Compute = Callable[[Node, Sequence[Any], Sequence["np.dtype[Any]"]], Sequence[Any]]
Lower = Callable[[Node, LowerContext], Work]
ComputeBody = Callable[
    [
        Node,
        Sequence[Any],
        Callable[[Tensor], "np.dtype[Any]"],
        Callable[[Tensor], "Array | None"],
        "dict[Node, Any] | None",
    ],
    Sequence[Any],
]


@dataclass(frozen=True, slots=True)
class OpDef:
    """One operator.

    Attributes:
        infer: Shape and type rule. Must accept unknown dimensions (and give unknown ones).
        compute: (node, input arrays with None for absent ones, NumPy dtypes wanted for the outputs) -> output
            arrays. Driven by dtypes: float16 arrays mean device arithmetic (Cube: exact products, float32
            accumulation, one rounding; Vector: float32 inside one operator, rounded to float16 at its end).
            Overflow gives infinities, which who runs it saturates where the chip does. Never changes its
            inputs.
        lower: Describes the work; None = runs on the AI CPU, one operation per output element.
        layout: Format wish.
        cann: Operator type that CANN's tools print ("Conv2D"); empty = the ONNX name.
        cann_of: The same where it depends on the node (DepthwiseConv2D, Conv3D); wins over `cann`.
        mindspore: Its name in MindSpore's lists of what graph-kernel fusion takes (a function of the node
            where that depends on it); empty = the ONNX name.
        expand: Writes a node out in basic operators where graph-kernel fusion may take it apart (see
            `opset.expansion`); None = it stays whole.
        foldable: Whether it may be computed at compile time from constants (False for random generators).
        in_blocks: For Layout.FOLLOW: whether this node can work in a blocked format that its inputs have (a
            Concat of channels only if the parts fill whole blocks); None = the rule for elementwise
            operators.
        compute_body: For operators that are made of a subgraph: (node, input arrays, NumPy type of any tensor
            in this run, where an output of the node belongs or None, a dictionary that takes what the body's
            results held or None) -> output arrays, which may lie there already. The runtime takes it instead
            of `compute`, since a body's inner types depend on the run.
        infers_bodies: Whether `infer` has the node's subgraphs inferred itself (control flow: their input
            types come from the node).
        facts: What other layers ask about it: how axes hang together, kind, precision; every operator says
            it.
        in_place: Whether an output may take the address of an input that nobody needs any more and that has
            its shape, format and width: element i of the result is made from element i of that input.
        steered_by: Input ports whose values it cannot be lowered without (the axes of a reduction). While one
            of them is unknown, so are the output shapes, whatever a file declares: the node then waits for
            the values of a run.
        most_inputs: How many inputs a node may have at most; None = any number.
    """

    name: str
    infer: Infer
    compute: Compute
    lower: Lower | None = None
    layout: Layout = Layout.ND
    cann: str = ""
    domain: str = ""
    mindspore: str | Callable[[Node], str] = ""
    expand: Expand | None = None
    foldable: bool = True
    cann_of: Callable[[Node], str] | None = None
    in_blocks: Callable[[Node, Format], bool] | None = None
    compute_body: ComputeBody | None = None
    infers_bodies: bool = False
    in_place: bool = False
    steered_by: tuple[int, ...] = ()
    most_inputs: int | None = 1
    facts: Facts = field(kw_only=True)

    def work(self, node: Node, context: LowerContext) -> Work | None:
        """What the node asks of the chip, by `lower`, which sees a view of the node (`opset.view`); None = it
        runs on the AI CPU.
        """
        return None if self.lower is None else self.lower(view_of(node), context)

    def values(
        self, node: Node, inputs: Sequence[Array | None], wanted: Sequence[np.dtype[Any]]
    ) -> Sequence[Any]:
        """What `compute` gives. Whatever goes wrong in it says which node it was.

        Raises:
            GraphError: If the values do not fit the operator.
        """
        try:
            return self.compute(node, inputs, wanted)
        except (AscendSimError, MemoryError):
            raise
        except Exception as error:
            forms = [None if array is None else f"{array.dtype}{list(array.shape)}" for array in inputs]
            raise GraphError(
                f"node {node.name!r} ({node.op_type})",
                f"fails on inputs {', '.join(map(str, forms))}: {type(error).__name__}: {error}",
                remedy="check its inputs and attributes",
            ) from error

    @property
    def mindspore_name(self) -> str:
        """The name under which MindSpore's lists have it, whatever the node."""
        return self.mindspore if isinstance(self.mindspore, str) and self.mindspore else self.name

    @property
    def key(self) -> tuple[str, str]:
        return (self.domain, self.name)

    def check_inputs(self, node: Node) -> None:
        """Makes sure that a node has no more inputs than the operator takes, and none that cannot be meant;
        what is left out at the end does not count.

        Raises:
            GraphError: If it has more, or one from outside of more than `MAX_ELEMENTS` elements.
        """
        for tensor in node.inputs:
            if tensor is not None and tensor.producer is None:
                check_size(tensor, f"{'weight' if tensor.is_constant else 'input'} {tensor.name!r}")
        if self.most_inputs is None or node.input_count <= self.most_inputs:
            return
        given = max((port + 1 for port, tensor in enumerate(node.inputs) if tensor is not None), default=0)
        if given > self.most_inputs:
            rule = f"takes at most {self.most_inputs} input{'s' * (self.most_inputs != 1)}"
            raise GraphError(
                f"node {node.name!r} ({node.op_type})", rule, given, "leave out the further ones"
            )


class OpSet:
    """Operators by (domain, name); immutable after construction."""

    def __init__(self, operators: Iterable[OpDef]) -> None:
        self._table: dict[tuple[str, str], OpDef] = {}
        for operator in operators:
            if operator.key in self._table:
                raise ValueError(f"operator {operator.key} is defined twice")
            self._table[operator.key] = operator

    def __contains__(self, node: Node) -> bool:
        return (node.domain, node.op_type) in self._table

    def __iter__(self) -> Iterator[OpDef]:
        return iter(self._table.values())

    def __len__(self) -> int:
        return len(self._table)

    def get(self, node: Node) -> OpDef:
        """The definition of a node's operator.

        Raises:
            UnsupportedOperatorError: If there is none.
        """
        try:
            return self._table[(node.domain, node.op_type)]
        except KeyError:
            raise UnsupportedOperatorError([(self.written(node), node.name)]) from None

    @staticmethod
    def written(node: Node) -> str:
        """A node's operator as messages write it: the domain first where it has one."""
        return f"{node.domain}::{node.op_type}" if node.domain else node.op_type

    def waits_for_values(self, node: Node) -> bool:
        """Whether a node can be lowered only when a run gives the values of some of its inputs
        (`OpDef.steered_by`).
        """
        definition = self._table.get((node.domain, node.op_type))
        steering = [node.input(port) for port in definition.steered_by] if definition is not None else []
        return any(tensor is not None and tensor.constant is None for tensor in steering)

    def sign_of(self, tensor: Tensor) -> Sign:
        """What is known of the sign of a tensor's elements from the operator that makes it."""
        maker = tensor.producer
        return Sign.ANY if maker is None else self.get(maker).facts.sign_of(maker)

    def infer(self, node: Node) -> None:
        """Sets types and shapes of a node's outputs by its operator's rule.

        Raises:
            UnsupportedOperatorError: If there is no such operator.
            GraphError: If the inputs do not fit it.
        """
        definition = self.get(node)
        definition.check_inputs(node)
        definition.infer(InferContext(node))

    def find(self, name: str, domain: str = "") -> OpDef | None:
        return self._table.get((domain, name))

    def mindspore_type(self, node: Node) -> str:
        """Operator type as MindSpore's lists of graph-kernel fusion have it."""
        definition = self._table.get((node.domain, node.op_type))
        if definition is None:
            return node.op_type
        stated = definition.mindspore
        return definition.mindspore_name if isinstance(stated, str) else stated(node)

    def on_ai_cpu(self, node: Node, rules: Collection[str]) -> bool:
        """Whether CANN runs a node on the AI CPU of a chip.

        Args:
            node: Of a graph.
            rules: CANN operator types, and "Mul:int16" for those of an element type: of the data that it
                works on, and of the result where an attribute says it (Cast).
        """
        name = self.cann_type(node)
        if name in rules:
            return True
        definition = self._table.get((node.domain, node.op_type))
        tensors = [] if definition is None else definition.facts.data(node)
        tensors += node.outputs if "to" in node.attributes else []
        return any(tensor.dtype is not None and f"{name}:{tensor.dtype.value}" in rules for tensor in tensors)

    def cann_type(self, node: Node) -> str:
        """Operator type as CANN's tools print it."""
        definition = self._table.get((node.domain, node.op_type))
        if definition is not None and definition.cann_of is not None:
            return definition.cann_of(node)
        return definition.cann if definition is not None and definition.cann else node.op_type
