"""Changing the batch size of a model whose exporter baked it into constants.

The graph is inferred twice: with the old batch (the reference) and with the new one. Between the two, the
dimension that changed tells where each tensor carries the batch; `rewrites` adapts the constants that hold
the old size. What an operator then does along that axis is checked: once something was rewritten, a graph in
which samples meet, or the batch gets lost, is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from ascendsim.core.errors import AscendSimError, GraphError
from ascendsim.frontends.onnx.batch_change import BatchAxis, mixes, reshaped
from ascendsim.frontends.onnx.rewrites import MEANT_AS_WRITTEN, REWRITES, Rewriter
from ascendsim.frontends.onnx.shapes import ShapePlan
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Array, Graph, Node, Shape, Tensor
from ascendsim.opset import OpSet
from ascendsim.passes.infer import Inference

MAX_TRIALS = 16  # combinations tried where a reshape leaves open which dimension takes the batch
MAX_OPEN = 4  # such reshapes (of distinct shapes) that are varied

_RESHAPES = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze"})
_REMEDY = "export the model with this batch size or with a dynamic batch dimension"


def with_batch(graph: Graph, opset: OpSet, plan: ShapePlan) -> Graph:
    """A graph with other input shapes, inferred.

    Args:
        graph: Raw from the importer; it is used up.
        opset: The operators.
        plan: Input shapes with the old and the new batch (`plan.batches` is not None).

    Raises:
        GraphError: If the batch size cannot be changed; names the node.
    """
    assert plan.batches is not None
    _apply_shapes(graph, opset, plan.reference)
    Inference(opset).visit_all(graph.topological())
    shapes = {name: tensor.shape for name, tensor in graph.tensors.items()}
    values = {
        t.name: t.constant.array()
        for t in graph.constants
        if t.producer is not None and t.constant is not None
    }
    first: AscendSimError | None = None
    open_choices: dict[object, int] = {}
    combinations: list[tuple[int, ...]] = [()]
    for trial in range(MAX_TRIALS):
        if trial >= len(combinations):
            break
        choices = dict(zip(open_choices, combinations[trial], strict=False))
        flow = BatchFlow(copy_graph(graph), opset, shapes, values, plan, choices)
        try:
            return flow.run()
        except AscendSimError as error:
            first = first or error
        if trial == 0:
            open_choices = dict(list(flow.open_choices.items())[:MAX_OPEN])
            combinations = list(product(*(range(count) for count in open_choices.values())))
    raise GraphError(
        f"batch size {plan.batches[1]}", f"cannot be given to the model: {first}", remedy=_REMEDY
    )


def _apply_shapes(graph: Graph, opset: OpSet, shapes: Mapping[str, Shape]) -> None:
    Inference(opset).restart(graph)
    for tensor in graph.inputs:
        tensor.shape = shapes.get(tensor.name, tensor.shape)


class BatchFlow:
    """One attempt: infers a copy of the graph with the new batch, rewriting what holds the old one.

    Args:
        graph: The copy.
        opset: The operators.
        shapes, values: Of the reference, by tensor name.
        plan: Input shapes, old and new batch.
        choices: Which candidate to take, for reshapes that leave a choice (the first one by default).

    Attributes:
        open_choices: Reshapes that left a choice, and how many candidates each has.
    """

    def __init__(
        self,
        graph: Graph,
        opset: OpSet,
        shapes: dict[str, Shape | None],
        values: Mapping[str, Array],
        plan: ShapePlan,
        choices: Mapping[object, int],
    ) -> None:
        assert plan.batches is not None
        self._graph, self._opset, self._plan = graph, opset, plan
        self._old, self._new = plan.batches
        self._choices = choices
        self._problems: list[GraphError] = []
        self._rewriter = Rewriter(
            graph,
            Inference(opset),
            dict(shapes),
            values=values,
            batches=plan.batches,
            choices=choices,
            dynamic=plan.dynamic,
        )
        self.open_choices = self._rewriter.open_choices

    def run(self) -> Graph:
        """Infers the copy and returns it (values not yet folded for good)."""
        _apply_shapes(self._graph, self._opset, self._plan.wanted)
        for tensor in self._graph.inputs:
            axis = self._changed_axis(tensor)
            if axis is not None:
                self._rewriter.axes[tensor] = BatchAxis(axis)
        Inference(self._opset, self._before, self._after).visit_all(self._graph.topological())
        if self._choices:
            self._check_outputs()
        if self._problems and self._rewriter.count:
            raise self._problems[0]
        return self._graph

    def _check_outputs(self) -> None:
        """A choice that is not the plain one must at least bring the batch to the front of every output."""
        for tensor in self._graph.outputs:
            place = self._rewriter.axes.get(tensor)
            if place not in (None, BatchAxis(0)) and tensor.producer is not None:
                self._problem(
                    tensor.producer, f"gives output {tensor.name!r}, in which the batch is not in front"
                )

    def _before(self, node: Node) -> None:
        rule = REWRITES.get(node.op_type)
        if self._plan.dynamic and node.op_type in MEANT_AS_WRITTEN:
            return
        if rule is not None and not node.domain and node.graph is self._graph:
            rule(self._rewriter, node)

    def _after(self, node: Node) -> None:
        axes = self._rewriter.axes
        sources = [(port, t, axes[t]) for port, t in enumerate(node.inputs) if t is not None and t in axes]
        if not sources or node.graph is not self._graph:
            return
        for port, _, place in sources:
            followed = node.op_type in _RESHAPES or port in self._rewriter.indexed.get(node, ())
            if not followed and mixes(node, port, place.axis, self._opset):
                self._problem(node, f"combines samples of the batch along axis {place.axis} of input {port}")
                return
        for tensor in node.outputs:
            if tensor.constant is None:
                self._place_output(node, tensor, sources)

    def _place_output(self, node: Node, tensor: Tensor, sources: list[tuple[int, Tensor, BatchAxis]]) -> None:
        """Finds where an output carries the batch and notes it, or notes a problem."""
        axis = self._changed_axis(tensor)
        if axis is None:
            if tensor.is_static and not self._unused(tensor):
                self._problem(
                    node,
                    f"gives output {tensor.name!r} of shape {list(tensor.shape or ())}, in which the batch "
                    f"is not found",
                )
            return
        shape = self._rewriter.old_shape(tensor)
        if node.op_type in _RESHAPES:
            data, place = sources[0][1], sources[0][2]
            stride = place.stride(self._rewriter.old_shape(data))
            fitting = [item for item in reshaped(shape, stride, self._old) if item.axis == axis]
        else:
            leading = [item for item in sources if item[0] not in self._rewriter.indexed.get(node, ())]
            inners = {item.inner for _, _, item in leading}
            fitting = [BatchAxis(axis, inner) for inner in inners] if len(inners) == 1 else []
        if len(fitting) != 1 or shape[axis] % (self._old * fitting[0].inner):
            self._problem(node, f"moves the batch in output {tensor.name!r} to where it cannot be followed")
            return
        self._rewriter.axes[tensor] = fitting[0]

    def _changed_axis(self, tensor: Tensor) -> int | None:
        """The one axis that grew by the change of the batch; None if none did or several."""
        old, new = self._rewriter.shapes.get(tensor.name), tensor.shape
        if old is None or new is None or len(old) != len(new):
            return None
        changed = [
            axis
            for axis, (a, b) in enumerate(zip(old, new, strict=True))
            if isinstance(a, int) and isinstance(b, int) and a != b
        ]
        if len(changed) != 1:
            return None
        (axis,) = changed
        before, after = old[axis], new[axis]
        assert isinstance(before, int)
        assert isinstance(after, int)
        return axis if after * self._old == before * self._new else None

    def _unused(self, tensor: Tensor) -> bool:
        return not tensor.uses and tensor not in self._graph.outputs

    def _problem(self, node: Node, rule: str) -> None:
        self._problems.append(GraphError(f"node {node.name!r} ({node.op_type})", rule))
