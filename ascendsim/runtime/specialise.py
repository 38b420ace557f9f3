"""From a graph with open shapes to pieces with static ones: as much as can be compiled at once for the shapes
at hand, then a stop.

A `Part` is what is left to run of a graph (a model, a branch, a body). For the shapes (and some values) of
the tensors that it reads it has a `Plan`: one piece without control flow whose shapes are all static, made of
every node that depends on nothing else; then the node at which the host must step in, and the part behind it.
Plans are kept, so a loop body is looked at once for each shape. Where shapes grow from one turn of a loop to
the next (`runtime.growth`), what stands still and what grows go into pieces of their own, as GE's partitioner
puts nodes of known and of unknown shape into clusters of their own: the former are compiled once.

The host steps in at a node with subgraphs, and where the shape of a result depends on values: on values of
some inputs, which the shape rule asks for (Range, Reshape, Expand: their values become constants of the next
plan), or on all (NonZero: its result is computed to learn its shape).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GIVE_VALUES, GraphError, InputError
from ascendsim.core.keys import key_of
from ascendsim.graph.ir import Array, Constant, Graph, Node, Tensor
from ascendsim.opset import InferContext, OpSet
from ascendsim.passes.control_flow import is_control_flow
from ascendsim.passes.infer import Inference
from ascendsim.runtime.control_flow import Value

Lookup = Callable[[Tensor], Value]


@dataclass(eq=False, slots=True)
class Part:
    """What is left to run of a graph.

    Attributes:
        graph: The graph.
        nodes: In execution order.
        prefix: Of the names of its tasks: "loop/body/".
        pinned: Tensors whose values count, not only their shapes.
        forced: A node whose result must be computed to learn its shape.
        growing: Nodes that are another piece in every turn of a loop.
        aside: Nodes that wait until the others have run: those that grow, or those that do not.
        idle: Whether nothing could run while the others waited.
        plans: By signature.
        rests: What may be left, by what tells it apart; one for all parts of a graph, so that a rest that
            comes again in every turn of a loop is planned once.
    """

    graph: Graph
    nodes: tuple[Node, ...]
    prefix: str = ""
    pinned: frozenset[Tensor] = frozenset()
    forced: Node | None = None
    growing: frozenset[Node] = frozenset()
    aside: frozenset[Node] = frozenset()
    idle: bool = False
    plans: dict[Any, Plan] = field(default_factory=dict)
    rests: dict[Any, Part] = field(default_factory=dict)

    @classmethod
    def whole(cls, graph: Graph, prefix: str, growing: frozenset[Node]) -> Part:
        """All of a graph; what grows comes after what does not."""
        return cls(graph, tuple(graph.topological()), prefix, growing=growing, aside=growing)

    def reads(self) -> tuple[Tensor, ...]:
        """Tensors that are no constants and come from outside, in order: what the plan depends on."""
        made = {tensor for node in self.nodes for tensor in node.outputs}
        now = (node for node in self.nodes if node not in self.aside and not is_control_flow(node))
        read = (tensor for node in now for tensor in node.inputs if tensor is not None)
        return tuple(dict.fromkeys(t for t in read if not t.is_constant and t not in made))

    def rest(
        self,
        nodes: tuple[Node, ...],
        pinned: frozenset[Tensor],
        aside: frozenset[Node],
        forced: Node | None = None,
        idle: bool = False,
    ) -> Part:
        """What is left of it: nodes, with the fields of the same names."""
        key = (nodes, pinned, aside, forced, idle)
        if key not in self.rests:
            self.rests[key] = Part(
                self.graph, nodes, self.prefix, pinned, forced, self.growing, aside, idle, rests=self.rests
            )
        return self.rests[key]


@dataclass(frozen=True, eq=False, slots=True)
class Plan:
    """How a part goes on for given shapes.

    Attributes:
        graph: The piece to compile and run first: static, without control flow; None if there is nothing to
            run.
        inputs, outputs: Tensors of the part's graph behind the piece's inputs and outputs.
        known: Tensors whose values turned out to be constant.
        stop: The node at which the host steps in; None at the end.
        asked: Tensors whose values the shape of the stop's result depends on; None: on all, or it is control
            flow.
        rest: What is left then.
    """

    graph: Graph | None
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    known: Mapping[Tensor, Array]
    stop: Node | None = None
    asked: frozenset[Tensor] | None = None
    rest: Part | None = None


def plan_part(
    part: Part, value_of: Lookup, opset: OpSet, forced: tuple[tuple[int, ...], ...] | None = None
) -> Plan:
    """The plan of a part for the values at hand; made once for each signature.

    Args:
        part: What is to run.
        value_of: Value of a tensor that the part reads.
        opset: The operators.
        forced: Shapes of the outputs of `part.forced`.

    Raises:
        GraphError: If a shape rule is broken for these shapes.
        InputError: If a value is needed that nobody knows.
    """
    reads = part.reads()
    values = {tensor: value_of(tensor) for tensor in reads}
    key = (tuple(signature(value, tensor in part.pinned) for tensor, value in values.items()), forced)
    plan = part.plans.get(key)
    if plan is None:
        plan = part.plans[key] = _Specialiser(part, values, opset, forced).plan()
    return plan


def signature(value: Value, by_value: bool) -> Hashable:
    """What a plan knows of a value: type and shape, its bytes if they count."""
    return (
        value.shape,
        value.dtype.str,
        value.half,
        key_of(value.array) if by_value else None,
    )


class _Specialiser:
    """Makes one plan."""

    def __init__(
        self,
        part: Part,
        values: Mapping[Tensor, Value],
        opset: OpSet,
        forced: tuple[tuple[int, ...], ...] | None,
    ) -> None:
        self._part, self._opset, self._forced = part, opset, forced
        self._work = Graph(part.graph.name)
        self._inference = Inference(opset)
        self._twins: dict[Tensor, Tensor] = {}
        self._inputs: dict[Tensor, Tensor] = {}
        for tensor, value in values.items():
            twin = self._twin(tensor, value.shape)
            if value.half:
                twin.dtype = DType.FLOAT16
            if tensor in part.pinned and value.array is not None:
                twin.constant = Constant(value.array)
            else:
                self._inputs[twin] = tensor

    def plan(self) -> Plan:
        part = self._part
        blocked: dict[Node, frozenset[int]] = {}
        behind: set[Tensor] = set()
        waiting = False
        for node in part.nodes:
            waits = node in part.aside
            asked = frozenset[int]() if waits else self._add(node, behind)
            if asked is not None:
                blocked[node] = asked
                behind.update(node.outputs)
                waiting = waiting or waits
        outputs, known = self._results(blocked)
        work: Graph | None = self._finished(outputs)
        inputs = tuple(self._inputs[tensor] for tensor in self._work.inputs)
        if not len(self._work):
            work = None
        if waiting:
            return Plan(work, inputs, tuple(outputs), known, rest=self._turned(tuple(blocked)))
        stop = next(iter(blocked), None)
        if stop is None:
            return Plan(work, inputs, tuple(outputs), known)
        left = tuple(node for node in blocked if node is not stop or not is_control_flow(stop))
        if is_control_flow(stop):
            rest = part.rest(left, frozenset(), part.growing)
            return Plan(work, inputs, tuple(outputs), known, stop, None, rest)
        tensors = [stop.input(port) for port in sorted(blocked[stop])]
        asked_tensors = frozenset(
            t for t in tensors if t is not None and not t.is_constant and t not in part.pinned
        )
        if asked_tensors:
            rest = part.rest(left, part.pinned | asked_tensors, part.growing)
            return Plan(work, inputs, tuple(outputs), known, stop, asked_tensors, rest)
        if part.forced is stop:
            raise GraphError(
                f"node {stop.name!r} ({stop.op_type})",
                "gives results of unknown type",
                remedy="export the model again",
            )
        aside = self._others(left, part.growing) if stop in part.growing else part.growing
        rest = part.rest(left, part.pinned, aside, stop)
        return Plan(work, inputs, tuple(outputs), known, stop, None, rest)

    def _turned(self, left: tuple[Node, ...]) -> Part:
        """The nodes that waited go on and the others wait; if both could do nothing, none waits any more, so
        that the host steps in.
        """
        part = self._part
        idle = len(left) == len(part.nodes)
        aside = frozenset[Node]() if idle and part.idle else self._others(left, part.aside)
        return part.rest(left, part.pinned, aside, idle=idle)

    @staticmethod
    def _others(nodes: Iterable[Node], than: Collection[Node]) -> frozenset[Node]:
        """All that are not among some nodes and run no subgraphs."""
        return frozenset(node for node in nodes if node not in than and not is_control_flow(node))

    def _twin(self, tensor: Tensor, shape: tuple[int, ...] | None = None) -> Tensor:
        twin = self._twins.get(tensor)
        if twin is None:
            twin = Tensor(
                self._work.fresh(tensor.name),
                tensor.dtype,
                tensor.shape if shape is None else shape,
                constant=tensor.constant,
            )
            twin.origin_dtype = tensor.origin_dtype
            self._twins[tensor] = self._work.add_tensor(twin)
        return twin

    def _add(self, node: Node, behind: set[Tensor]) -> frozenset[int] | None:
        """Takes a node into the piece.

        Returns:
            None if that is possible, else the input ports whose values its result's shape depends on (none:
            not its own fault).
        """
        if is_control_flow(node) or any(tensor in behind for tensor in node.inputs if tensor is not None):
            return frozenset()
        twin = self._work.add_node(
            node.op_type,
            [None if tensor is None else self._twin(tensor) for tensor in node.inputs],
            [self._twin(tensor, None) for tensor in node.outputs],
            name=node.name,
            domain=node.domain,
        )
        twin.attributes.update(node.attributes)
        twin.origin.update(node.origin)
        for tensor in twin.outputs:
            tensor.shape = None
        self._inference.visit(twin)
        if node is self._part.forced and self._forced is not None:
            for tensor, shape in zip(twin.outputs, self._forced, strict=True):
                tensor.shape = shape
        if all(tensor.is_static and tensor.origin_dtype is not None for tensor in twin.outputs):
            return None
        context = InferContext(twin)
        self._opset.get(twin).infer(context)
        self._drop(twin, node)
        return frozenset(context.asked)

    def _drop(self, twin: Node, node: Node) -> None:
        self._work.remove_node(twin)
        for tensor in node.outputs:
            del self._twins[tensor]

    def _results(self, blocked: Iterable[Node]) -> tuple[list[Tensor], dict[Tensor, Array]]:
        """Tensors of the piece that somebody reads later, and those of them whose values are known
        already.
        """
        later = [tensor for node in blocked for tensor in (*node.inputs, *_captured(node))]
        wanted = [*self._part.graph.outputs, *later]
        outputs: list[Tensor] = []
        known: dict[Tensor, Array] = {}
        for tensor in dict.fromkeys(tensor for tensor in wanted if tensor is not None):
            twin = self._twins.get(tensor)
            if twin is None or twin.producer is None:
                continue
            if twin.constant is not None:
                known[tensor] = twin.constant.array()
            else:
                outputs.append(tensor)
        return outputs, known

    def _finished(self, outputs: Iterable[Tensor]) -> Graph:
        work = self._work
        work.inputs.extend(self._inputs)
        work.outputs.extend(self._twins[tensor] for tensor in outputs)
        self._inference.finish(work)
        for tensor in tuple(work.inputs):
            if not tensor.uses:
                work.inputs.remove(tensor)
                work.remove_tensor(tensor)
        return work


def _captured(node: Node) -> Iterable[Tensor]:
    return (tensor for _, subgraph in node.subgraphs for tensor in subgraph.captured())


def result_shapes(node: Node, value_of: Lookup, opset: OpSet) -> tuple[tuple[int, ...], ...]:
    """Shapes of a node's results, found by computing them.

    Raises:
        InputError: If an input has no values.
    """
    arrays: list[Array | None] = []
    for tensor in node.inputs:
        value = None if tensor is None else value_of(tensor)
        if value is not None and value.array is None:
            raise InputError(
                f"the shape of what node {node.name!r} ({node.op_type}) gives",
                "depends on values",
                remedy=GIVE_VALUES,
            )
        arrays.append(None if value is None else value.array)
    wanted = [(tensor.origin_dtype or DType.FLOAT32).numpy for tensor in node.outputs]
    with np.errstate(all="ignore"):
        results = opset.get(node).values(node, arrays, wanted)
    return tuple(np.asarray(result).shape for result in results[: len(node.outputs)])
