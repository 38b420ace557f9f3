"""What a rule of reverse mode works with: the node, the gradients of its outputs, and a pen."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np

from ascendsim.core.errors import GraphError
from ascendsim.graph.builder import GraphBuilder, Operand
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.opset import OpSet
from ascendsim.opset.axes import Relation
from ascendsim.passes.precision.lists import FORWARD
from ascendsim.passes.rewriting.replace import replace_outputs
from ascendsim.training.scopes import GRADIENTS

ASCEND = "ascend"
FIRST_ONLY = "can be differentiated by its first output only"


class Pen(GraphBuilder):
    """Adds nodes to a graph that is there already, with types and shapes.

    Args:
        graph: Changed in place.
        opset: Operators.
        scope: Prefix of the names of nodes and constants.
        **origin: What is noted in `Node.origin` of every node.
    """

    def __init__(self, graph: Graph, opset: OpSet, scope: str = "", **origin: Any) -> None:
        super().__init__(graph.name, partial(_settle, opset, origin))
        self.graph, self.opset = graph, opset
        if scope:
            self._scope.append(scope)


def _settle(opset: OpSet, origin: Mapping[str, Any], node: Node) -> None:
    node.origin.update(origin)
    opset.infer(node)


class Backward:
    """The backward step of one node.

    Attributes:
        node: A node of the forward graph; a rule may give it further outputs (`extra_outputs`).
        opset: Operators.
    """

    def __init__(
        self, node: Node, graph: Graph, opset: OpSet, grads: Sequence[Tensor | None], wanted: Collection[int]
    ) -> None:
        self.node, self.opset, self._graph = node, opset, graph
        origin = {FORWARD: (node.domain, node.op_type)}
        self._pen = Pen(graph, opset, f"{GRADIENTS}/{node.name}", **origin)
        self._grads, self._wanted = grads, wanted
        self._taken: set[int] = set()

    def needs(self, port: int) -> bool:
        """Whether anybody asks for the gradient of an input."""
        return port in self._wanted

    @property
    def grad(self) -> Tensor:
        """Gradient of the first output.

        Raises:
            GraphError: If only another output counts, which the rule does not know.
        """
        first = self.grad_of(0)
        if first is None:
            self.refuse(FIRST_ONLY)
        return first

    def grad_of(self, output: int) -> Tensor | None:
        """Gradient of an output; None if nothing depends on it."""
        self._taken.add(output)
        return self._grads[output] if output < len(self._grads) else None

    def check(self) -> None:
        """Refuses gradients that the rule did not ask for.

        Raises:
            GraphError: If there is one.
        """
        left = [output for output, grad in enumerate(self._grads) if grad is not None]
        if self._taken and not self._taken.issuperset(left):
            self.refuse(FIRST_ONLY, remedy="take the loss from its first output")

    def grad_or_zeros(self, output: int) -> Tensor:
        """Gradient of an output; zeros if nothing depends on it."""
        known = self.grad_of(output)
        result = self.node.outputs[output]
        return known if known is not None else self.full(result.static_shape, 0.0, result)

    def op(
        self,
        op_type: str,
        *inputs: Operand,
        domain: str = "",
        **attributes: Any,
    ) -> Tensor:
        """Adds a node under the name of the forward node and returns its first output."""
        return self.ops(op_type, 1, *inputs, domain=domain, **attributes)[0]

    def ops(
        self,
        op_type: str,
        outputs: int,
        *inputs: Operand,
        domain: str = "",
        **attributes: Any,
    ) -> list[Tensor]:
        """Like `op`, with several outputs."""
        return self._pen.ops(op_type, *inputs, outputs=outputs, domain=domain, **attributes)

    def constant(self, value: Any, like: Tensor) -> Tensor:
        """A constant of another tensor's type."""
        return self._pen.constant(np.asarray(value).astype((like.origin_dtype or like.element_type).numpy))

    def full(self, shape: Sequence[int], value: float, like: Tensor) -> Tensor:
        """A tensor with one number everywhere."""
        filled = np.full(1, value, (like.origin_dtype or like.element_type).numpy)
        return self.op("ConstantOfShape", list(shape), value=filled)

    def transposed(self, tensor: Tensor) -> Tensor:
        """The last two axes change places."""
        axes = list(range(len(tensor.static_shape)))
        return self.op("Transpose", tensor, perm=[*axes[:-2], axes[-1], axes[-2]])

    def reshaped(self, tensor: Tensor, shape: Sequence[int]) -> Tensor:
        """The same elements under another shape."""
        return tensor if tensor.static_shape == tuple(shape) else self.op("Reshape", tensor, list(shape))

    def folded(self, grad: Tensor, port: int) -> Tensor:
        """Gradient of an input that was repeated to the shape of the output: summed over all axes of the
        output to which the input has no axis of its own, as the operator's axes say.
        """
        tensor = self.node.required(port)
        if tensor.shape == grad.shape:
            return grad
        links = self.opset.get(self.node).facts.axes(self.node).of(port)
        own = {link.axis for link in links if link.relation is Relation.PARALLEL}
        axes = [axis for axis in range(len(grad.static_shape)) if axis not in own]
        if axes and math.prod(grad.static_shape[axis] for axis in axes) > 1:
            grad = self.op("ReduceSum", grad, axes, keepdims=0)
        return self.reshaped(grad, tensor.static_shape)

    def bias(self, grad: Tensor, port: int) -> Tensor:
        """As `folded`; of one value a column it is CANN's BiasAddGrad."""
        shape, rows = self.node.required(port).static_shape, math.prod(grad.static_shape[:-1])
        if rows > 1 and shape == grad.static_shape[-1:]:
            return self.op("BiasAddGrad", grad, domain=ASCEND)
        return self.folded(grad, port)

    def fitted(self, tensor: Tensor, shape: Sequence[int]) -> Tensor:
        """A sum over what was repeated to make the tensor's shape of a smaller one, from the right."""
        given = tensor.static_shape
        lead = len(given) - len(shape)
        axes = [
            axis for axis, size in enumerate(given) if size != 1 and (axis < lead or shape[axis - lead] == 1)
        ]
        summed = self.op("ReduceSum", tensor, axes, keepdims=0) if axes else tensor
        return self.reshaped(summed, shape)

    def extra_outputs(self, count: int) -> list[Tensor]:
        """Lets the forward node give `count` outputs, those that it had not yet among them."""
        node, graph = self.node, self._graph
        while len(node.outputs) < count:
            tensor = graph.add_tensor(Tensor(graph.fresh(f"{node.name}_out")))
            tensor.producer, tensor.index = node, len(node.outputs)
            node.outputs.append(tensor)
        self.opset.infer(node)
        return node.outputs

    def in_place_of_forward(
        self, op_type: str, outputs: int, *inputs: Operand, **attributes: Any
    ) -> list[Tensor]:
        """Puts an operator of CANN's training graphs in the place of the forward node: one that gives besides
        what the backward step wants to know. Its first outputs are those of the node.
        """
        node = self.node
        pen = Pen(self._graph, self.opset, **node.origin)
        name = f"{node.name}/{op_type}"
        made = pen.ops(op_type, *inputs, outputs=outputs, name=name, domain=ASCEND, **attributes)
        replace_outputs(self._graph, node, made[: len(node.outputs)])
        return made

    def refuse(self, rule: str, actual: object = None, remedy: str = "") -> NoReturn:
        """Says why this node cannot be differentiated.

        Raises:
            GraphError: Always.
        """
        raise GraphError(f"gradient of node {self.node.name!r} ({self.node.op_type})", rule, actual, remedy)

    def refuse_ports(self, *ports: int) -> None:
        """Refuses gradients of inputs that the rule does not give.

        Raises:
            GraphError: If one is asked for.
        """
        for port in ports:
            if self.needs(port):
                rule = f"is not known for input {port} ({self.node.required(port).name!r})"
                self.refuse(rule, remedy="leave it out of what is differentiated, or pass it as a constant")


Rule = Callable[[Backward], Sequence["Tensor | None"]]
_WITHOUT: dict[Rule, tuple[int, ...]] = {}


def without(*ports: int) -> Callable[[Rule], Rule]:
    """A decorator that says to which inputs a rule hands no gradient though they are floating-point."""

    def mark(rule: Rule) -> Rule:
        _WITHOUT[rule] = ports
        return rule

    return mark


def ports_without(rule: Rule) -> tuple[int, ...]:
    """Inputs to which a rule hands no gradient; all that hold integers are among them anyway."""
    return _WITHOUT.get(rule, ())
