"""Types and shapes forward through the graph, with the folding of shape arithmetic on the way.

Exporters write chains such as Shape -> Gather -> Concat -> Reshape. For static inputs every link of such a
chain is known once the shapes before it are, so inference and folding go hand in hand, node by node in
execution order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import AscendSimError, GraphError
from ascendsim.graph.ir import Constant, Graph, Node
from ascendsim.opset import InferContext, OpDef, OpSet
from ascendsim.opset.definition import check_size
from ascendsim.passes.rewriting.folding import fold
from ascendsim.passes.rewriting.removal import remove_dead

MAX_BODY_VISITS = 1_000_000  # nodes in subgraphs, each time round: loops in loops multiply


class Inference:
    """Infers node by node; values that become known are kept aside until `finish` turns them into constants.

    While it runs, an output whose value is known carries it as `constant` besides its producer, so that shape
    rules see it.

    Args:
        opset: The operators. Nodes of others get no types (their outputs keep what they have).
        before: Called with each node before it is inferred; may change the node or insert others before it.
        after: Called with each node after it was inferred.
    """

    def __init__(
        self,
        opset: OpSet,
        before: Callable[[Node], None] | None = None,
        after: Callable[[Node], None] | None = None,
    ) -> None:
        self._opset, self._before, self._after = opset, before, after
        self._body_visits = 0

    def visit_all(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            self.visit(node)

    def visit(self, node: Node) -> None:
        """Infers one node; its predecessors must have been visited.

        Raises:
            GraphError: If a rule of the operator is broken; names the node.
        """
        if self._before is not None:
            self._before(node)
        self._infer(node)
        if self._after is not None:
            self._after(node)

    def _infer(self, node: Node) -> None:
        definition = self._opset.find(node.op_type, node.domain)
        if definition is None or not definition.infers_bodies:
            for _, subgraph in node.subgraphs:
                self.visit_all(subgraph.topological())
        if definition is None or not self.apply_rule(node, definition):
            return
        values = fold(node, definition)
        if values is None:
            return
        for tensor, value in zip(node.outputs, values, strict=False):
            tensor.constant = Constant(value)
            tensor.shape = tuple(value.shape)
            tensor.dtype = tensor.origin_dtype = DType.of(value.dtype)

    def apply_rule(self, node: Node, definition: OpDef) -> bool:
        """Sets types and shapes of a node's outputs by the operator's rule, values aside; False if an input
        has no type yet.

        Raises:
            GraphError: If a rule of the operator is broken; names the node.
        """
        if any(tensor is not None and tensor.origin_dtype is None for tensor in node.inputs):
            # nothing can be said behind an operator without a definition; loading lists all of those
            return False
        definition.check_inputs(node)
        _apply_rule(node, definition, self._infer_body)
        return True

    def _infer_body(self, body: Graph) -> None:
        """Infers a subgraph anew for a rule of control flow, which sets its input types.

        Raises:
            GraphError: If loops in loops go round too often.
        """
        self._body_visits += len(body)
        if self._body_visits > MAX_BODY_VISITS:
            raise GraphError(
                f"graph {body.name!r}",
                f"must settle within {MAX_BODY_VISITS} node visits",
                remedy="nest loops less deeply",
            )
        self.restart(body)
        self.visit_all(body.topological())

    def finish(self, graph: Graph) -> None:
        """Turns known values into constants and removes what nobody reads any more."""
        for node in graph.nodes:
            if node.outputs and all(tensor.constant is not None for tensor in node.outputs):
                graph.make_constant(
                    node, [tensor.constant for tensor in node.outputs if tensor.constant is not None]
                )
                continue
            for _, subgraph in node.subgraphs:
                self.finish(subgraph)
        remove_dead(graph)

    def forget_values(self, graph: Graph) -> None:
        """Forgets the values that were kept aside, so that nodes stay as they are; types and shapes stay
        too.
        """
        for node in graph.nodes:
            for tensor in node.outputs:
                tensor.constant = None
            for _, subgraph in node.subgraphs:
                self.forget_values(subgraph)

    def restart(self, graph: Graph) -> None:
        """Forgets the shapes and values that were inferred, so that other input shapes can be tried; types
        stay.
        """
        for node in graph.nodes:
            known = self._opset.find(node.op_type, node.domain) is not None
            for tensor in node.outputs:
                tensor.constant = None
                tensor.shape = None if known or tensor.shape is None else (None,) * len(tensor.shape)
            for _, subgraph in node.subgraphs:
                self.restart(subgraph)


def infer(graph: Graph, opset: OpSet) -> None:
    """Infers every type and shape of a graph in place and folds what is known.

    Nodes whose operator is not in `opset` keep the types that their outputs have. Shapes that depend on
    values or on symbols stay unknown or symbolic.

    Args:
        graph: With types and shapes of inputs and constants set.
        opset: The operators.

    Raises:
        GraphError: If an operator's rule is broken, or the graph has a cycle; names the node.
    """
    inference = Inference(opset)
    inference.visit_all(graph.topological())
    inference.finish(graph)


def _apply_rule(node: Node, definition: OpDef, infer_body: Callable[[Graph], None]) -> None:
    subject = f"node {node.name!r} ({node.op_type})"
    try:
        definition.infer(InferContext(node, infer_body))
    except AscendSimError:
        raise
    except (
        Exception
    ) as error:  # a malformed node can break a rule in any way: the user must hear which node it was
        raise GraphError(
            subject,
            f"is malformed: {type(error).__name__}: {error}",
            remedy="check its inputs and attributes",
        ) from error
    for tensor in node.outputs:
        check_size(tensor, f"output {tensor.name!r} of {subject}")
