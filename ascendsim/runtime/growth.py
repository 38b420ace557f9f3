"""What grows in a loop: the nodes of a body that have other shapes in every turn.

Found before the loop runs, from the shapes with which it starts: the body is inferred for its first turns,
each with the shapes (and the values, as far as they are known without the device) that the turn before gives.
Nodes whose shapes, or whose inputs that decide shapes (the bounds of a Slice), differ between the second and
the third turn grow; the first turn is left out, since lists may start empty. Nothing depends on the answer
but how a body is cut into pieces: shapes of a piece are those of the run.

GE cuts graphs with open shapes likewise (DynamicShapePartitioner, dynamic_shape_partition.cc): nodes of known
shape form clusters, each compiled as a model of its own, and a cluster of fewer than four nodes (the default
of `--static_model_ops_lower_limit`) is run with its neighbours of unknown shape. Here all that can run before
the next growing node is one cluster, connected or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from ascendsim.core.errors import AscendSimError
from ascendsim.graph.ir import Constant, Graph, Node, Shape, Tensor
from ascendsim.opset import InferContext, OpSet
from ascendsim.passes.control_flow import is_control_flow
from ascendsim.passes.infer import Inference
from ascendsim.runtime.control_flow import Value

MOST_ELEMENTS = 1024  # of a value that is followed: counters, shapes and bounds, no data
TURNS = 3
LEAST_NODES = 4  # kDefaultMinKnownSubGraphClusterNum in GE's dynamic_shape_partition.cc


def growing_nodes(loop: Node, body: Graph, values: Mapping[Tensor, Value], opset: OpSet) -> frozenset[Node]:
    """Nodes of a loop's body that grow; none if all do, or if there can be no third turn.

    Args:
        loop: Loop or While.
        body: Its body.
        values: What the first turn gets: the body's inputs, and what it reads from outside.
        opset: The operators.
    """
    given = {tensor: _start(tensor, value) for tensor, value in values.items()}
    turns: list[_Turn] = []
    try:
        for number in range(TURNS):
            turns.append(_Turn(body, given, opset))
            given.update(zip(body.inputs, turns[-1].handed_on(loop, number), strict=True))
    except AscendSimError:  # shapes that no longer fit: the loop ends before
        return frozenset()
    before, after = turns[-2].twins, turns[-1].twins
    found = _with_small_clusters(
        list(before), {node for node in before if _differ(before[node], after[node], opset)}
    )
    return found if len(found) < len(before) else frozenset()


def _with_small_clusters(nodes: Sequence[Node], growing: set[Node]) -> frozenset[Node]:
    """Nodes that grow, and what would be too small a piece between them; `nodes` are in execution order."""
    while growing:
        layers: dict[Node, int] = {}  # even: stands still, odd: grows
        for node in nodes:
            grows = node in growing
            before = [
                layers[tensor.producer]
                for tensor in node.inputs
                if tensor is not None and tensor.producer in layers
            ]
            layer = max(before, default=0)
            layers[node] = layer if layer % 2 == grows else layer + 1
        sizes = Counter(layers.values())
        small = {node for node in nodes if node not in growing and sizes[layers[node]] < LEAST_NODES}
        if not small:
            break
        growing = growing | small
    return frozenset(growing)


def _start(tensor: Tensor, value: Value) -> Tensor:
    known = value.array if value.on_host and value.array is not None else None
    if known is not None and known.size > MOST_ELEMENTS:
        known = None
    return _like(tensor, value.shape, None if known is None else Constant(known))


def _like(tensor: Tensor, shape: Shape | None, constant: Constant | None) -> Tensor:
    made = Tensor(tensor.name, tensor.dtype, shape, constant=constant)
    made.origin_dtype = tensor.origin_dtype
    return made


class _Turn:
    """Shapes in one turn: a twin of every node, those aside that run subgraphs."""

    def __init__(self, body: Graph, given: Mapping[Tensor, Tensor], opset: OpSet) -> None:
        self._body, self._graph = body, Graph(body.name)
        self._tensors: dict[Tensor, Tensor] = {}
        for tensor, start in given.items():
            self._add(tensor, start.shape, start.constant)
        self.twins: dict[Node, Node] = {}
        inference = Inference(opset)
        for node in body.topological():
            if is_control_flow(node):
                for tensor in node.outputs:
                    self._add(tensor, tensor.shape)
                continue
            twin = self._graph.add_node(
                node.op_type,
                [None if tensor is None else self._twin(tensor) for tensor in node.inputs],
                [self._add(tensor, None) for tensor in node.outputs],
                name=node.name,
                domain=node.domain,
            )
            twin.attributes.update(node.attributes)
            inference.visit(twin)
            self.twins[node] = twin

    def _add(self, tensor: Tensor, shape: Shape | None, constant: Constant | None = None) -> Tensor:
        twin = _like(tensor, shape, constant)
        twin.name = self._graph.fresh(tensor.name)
        self._tensors[tensor] = self._graph.add_tensor(twin)
        return twin

    def _twin(self, tensor: Tensor) -> Tensor:
        return self._tensors.get(tensor) or self._add(tensor, tensor.shape, tensor.constant)

    def handed_on(self, loop: Node, number: int) -> list[Tensor]:
        """What the next turn gets; `number` counts turns from 0."""
        results = [self._twin(tensor) for tensor in self._body.outputs]
        if loop.op_type == "While":
            return results
        counter = self._body.inputs[0]
        count = Constant(np.full(counter.static_shape, number + 1, np.int64))
        variables = results[1 : len(self._body.inputs) - 1]
        return [_like(counter, counter.static_shape, count), results[0], *variables]


def _differ(one: Node, other: Node, opset: OpSet) -> bool:
    """Whether shapes of a node, or values that decide them, differ between two turns or are not known."""
    tensors, others = ((*node.inputs, *node.outputs) for node in (one, other))
    if [_shape(tensor) for tensor in tensors] != [_shape(tensor) for tensor in others]:
        return True
    if any(tensor is not None and not tensor.is_static for tensor in tensors):
        return True
    pairs = zip(one.inputs, other.inputs, strict=True)
    changed = [port for port, (a, b) in enumerate(pairs) if _bytes(a) != _bytes(b)]
    if not changed:
        return False
    context = InferContext(one)
    opset.get(one).infer(context)
    return not context.asked.isdisjoint(changed)


def _shape(tensor: Tensor | None) -> Shape | None:
    return None if tensor is None else tensor.shape


def _bytes(tensor: Tensor | None) -> bytes | None:
    constant = None if tensor is None else tensor.constant
    if constant is None or not constant.available or constant.array().size > MOST_ELEMENTS:
        return None
    return constant.array().tobytes()
