"""Rules that adapt baked batch sizes, one an operator.

A rule looks at a node whose inputs have been inferred with the new batch and changes its constant operands,
or puts Expand nodes before operands that hold the same values for every sample. It changes nothing unless the
old constants say what the new ones must be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from ascendsim.core.errors import GraphError
from ascendsim.frontends.onnx.batch_change import BatchAxis, preferred, reshaped
from ascendsim.graph.ir import Array, Graph, Node, Shape, Tensor
from ascendsim.passes.infer import Inference

_TO_THE_END = np.iinfo(np.int64).max


class Rewriter:
    """What the rules share: the reference, where tensors carry the batch, and ways to put nodes and constants
    into the graph.

    Attributes:
        shapes: Of the reference by tensor name; rules add their own tensors.
        axes: Where tensors carry the batch.
        indexed: Input ports whose batch axis a rule has made harmless (a gather along it), by node.
        dynamic: Whether the model leaves its batch open, so that whatever is valid is meant.
        open_choices: Reshapes that left a choice, with the number of candidates.
        count: Number of rewrites.
    """

    def __init__(
        self,
        graph: Graph,
        inference: Inference,
        shapes: dict[str, Shape | None],
        *,
        values: Mapping[str, Array],
        batches: tuple[int, int],
        choices: Mapping[object, int],
        dynamic: bool,
    ) -> None:
        self.graph, self.shapes, self.dynamic = graph, shapes, dynamic
        self.axes: dict[Tensor, BatchAxis] = {}
        self.indexed: dict[Node, tuple[int, ...]] = {}
        self.open_choices: dict[object, int] = {}
        self.count = 0
        self.old, self.new = batches
        self._inference, self._values, self._choices = inference, values, choices

    def old_shape(self, tensor: Tensor) -> tuple[int, ...]:
        """Shape in the reference, unknown dimensions as 0 (they fit nowhere)."""
        return tuple(dim if isinstance(dim, int) else 0 for dim in self.shapes.get(tensor.name) or ())

    def place(self, node: Node, port: int) -> tuple[Tensor, BatchAxis] | None:
        """An input and where it carries the batch; None if it does not."""
        tensor = node.input(port)
        return None if tensor is None or tensor not in self.axes else (tensor, self.axes[tensor])

    def baked(self, tensor: Tensor | None) -> Array | None:
        """Values of an operand that are the same as in the reference: nothing in the graph adapts them to the
        batch.
        """
        if tensor is None or tensor.constant is None or not tensor.constant.available:
            return None
        values = tensor.constant.array()
        if tensor.producer is None:
            return values
        old = self._values.get(tensor.name)
        return values if old is not None and np.array_equal(old, values) else None

    def choose(self, key: object, candidates: list[BatchAxis]) -> BatchAxis:
        """One of several candidates (best first), as this attempt has it."""
        if len(candidates) > 1:
            self.open_choices[key] = len(candidates)
        return candidates[self._choices.get(key, 0)]

    def replace(self, node: Node, port: int, values: Array) -> Tensor:
        """Gives a node a constant operand of its own."""
        tensor = self.graph.add_constant(self.graph.fresh(f"{node.name}/batch"), values)
        node.set_input(port, tensor)
        self.count += 1
        return tensor

    def spread(self, node: Node, port: int, axis: int, outer: int = 1, inner: int = 1) -> None:
        """Repeats an operand that holds the same values for all samples along an axis of outer * (one batch)
        * inner elements.

        Raises:
            GraphError: If the operand was baked for several samples, which may differ.
        """
        tensor = node.required(port)
        shape = tensor.static_shape
        if self.old != 1:
            rule = f"has an operand {tensor.name!r} that was made for a batch of {self.old}"
            raise GraphError(f"node {node.name!r} ({node.op_type})", rule)
        before = self.old_shape(tensor) or shape
        split = (*shape[:axis], outer, 1, inner, *shape[axis + 1 :])
        wide = (*shape[:axis], outer, self.new, inner, *shape[axis + 1 :])
        if outer == inner == 1:
            tensor = self._emit(node, "Expand", tensor, (*shape[:axis], self.new, *shape[axis + 1 :]))
        else:
            tensor = self._emit(node, "Reshape", tensor, split)
            tensor = self._emit(node, "Expand", tensor, wide)
            tensor = self._emit(
                node, "Reshape", tensor, (*shape[:axis], outer * self.new * inner, *shape[axis + 1 :])
            )
        self.shapes[tensor.name] = before
        self.axes[tensor] = BatchAxis(axis, inner)
        node.set_input(port, tensor)
        self.count += 1

    def _emit(self, node: Node, op_type: str, data: Tensor, shape: tuple[int, ...]) -> Tensor:
        name = self.graph.fresh(f"{node.name}/batch")
        target = self.graph.add_constant(name, np.array(shape, np.int64))
        made = self.graph.add_node(op_type, [data, target], [self.graph.fresh(f"{name}/out")], name)
        made.origin["framework"] = "onnx"
        self._inference.visit(made)
        return made.output


Rule = Callable[[Rewriter, Node], None]


def _reshape(batch: Rewriter, node: Node) -> None:
    """The target holds the old batch, alone or merged with a neighbour."""
    found, target = batch.place(node, 0), batch.baked(node.input(1))
    if found is None or target is None:
        return
    data, place = found
    resolved = _resolved(target, data.static_shape, bool(node.attr("allowzero", 0)))
    if batch.dynamic and math.prod(resolved) == data.elements:
        return
    before, after = batch.old_shape(data), batch.old_shape(node.output)
    candidates = preferred(reshaped(after, place.stride(before), batch.old), after, batch.old)
    if not candidates:
        raise GraphError(
            f"node {node.name!r} (Reshape)",
            f"turns {list(before)} into {list(after)}, which splits the batch",
        )
    chosen = batch.choose((before, place, after), candidates)
    wanted = list(after)
    wanted[chosen.axis] = after[chosen.axis] // batch.old * batch.new
    if resolved != wanted:
        batch.replace(node, 1, np.array(wanted, np.int64))


def _resolved(target: Array, shape: tuple[int, ...], allow_zero: bool) -> list[int]:
    """The shape that a target gives: 0 copies a dimension, -1 takes what is left."""
    dims = [int(item) for item in target.reshape(-1)]
    if not allow_zero:
        dims = [shape[axis] if dim == 0 and axis < len(shape) else dim for axis, dim in enumerate(dims)]
    rest = math.prod(dim for dim in dims if dim != -1)
    return [math.prod(shape) // rest if dim == -1 and rest else dim for dim in dims]


def _expand(batch: Rewriter, node: Node) -> None:
    """A target that holds the old batch where the data has it."""
    found, target = batch.place(node, 0), batch.baked(node.input(1))
    if found is None or target is None:
        return
    data, place = found
    axis = place.axis - len(data.static_shape) + len(target)
    old, new = batch.old_shape(data)[place.axis], data.static_shape[place.axis]
    if axis >= 0 and int(target[axis]) == old and old not in (1, new):
        wanted = target.copy()
        wanted[axis] = new
        batch.replace(node, 1, wanted)


def _concat(batch: Rewriter, node: Node) -> None:
    """Operands that are the same for every sample (a class token) are repeated."""
    ports = range(node.input_count)
    found = next((item for item in (batch.place(node, port) for port in ports) if item is not None), None)
    if found is None:
        return
    shape, place = batch.old_shape(found[0]), found[1]
    for port in ports:
        tensor = node.required(port)
        if tensor not in batch.axes and tensor.is_static and len(tensor.static_shape) == len(shape):
            batch.spread(node, port, place.axis, place.outer(shape, batch.old), place.inner)


def _elementwise(batch: Rewriter, node: Node) -> None:
    """An operand that is the same for every sample, where the batch is merged with other dimensions, is
    repeated.
    """
    found = next(
        (item for item in (batch.place(node, port) for port in range(node.input_count)) if item is not None),
        None,
    )
    if found is None:
        return
    shape, place = batch.old_shape(found[0]), found[1]
    size = shape[place.axis]
    if size == 1:
        return  # broadcasting repeats it
    for port in range(node.input_count):
        tensor = node.input(port)
        if tensor is None or tensor in batch.axes or not tensor.is_static:
            continue
        axis = place.axis - len(shape) + len(tensor.static_shape)
        if axis >= 0 and tensor.static_shape[axis] == size:
            batch.spread(node, port, axis, place.outer(shape, batch.old), place.inner)


def _recurrent(batch: Rewriter, node: Node) -> None:
    """Initial states and lengths of one sample are repeated."""
    if batch.place(node, 0) is None:
        return
    axis = 0 if node.attr("layout", 0) else 1
    for port, where in ((4, 0), (5, axis), (6, axis)):
        tensor = node.input(port)
        if tensor is not None and tensor not in batch.axes:
            batch.spread(node, port, where)


def _slice(batch: Rewriter, node: Node) -> None:
    """A slice that took the whole batch takes the whole new one."""
    found = batch.place(node, 0)
    starts, ends = batch.baked(node.input(1)), batch.baked(node.input(2))
    if found is None or starts is None or ends is None:
        return
    data, place = found
    given = node.input(3)
    axes = batch.baked(given) if given is not None else np.arange(len(starts))
    steps = batch.baked(node.input(4)) if node.input(4) is not None else np.ones(len(starts), np.int64)
    if axes is None or steps is None:
        return
    rank, size = len(data.static_shape), batch.old_shape(data)[place.axis]
    for index, axis in enumerate(axes):
        if int(axis) % rank != place.axis:
            continue
        start, end = int(starts[index]), int(ends[index])
        if int(steps[index]) != 1 or start not in (0, -size) or not (end >= size):
            raise GraphError(
                f"node {node.name!r} (Slice)",
                f"takes part of the axis of {size} elements that holds the batch",
            )
        if end < data.static_shape[place.axis] or start != 0:
            new_starts, new_ends = starts.astype(np.int64), ends.astype(np.int64)
            new_starts[index], new_ends[index] = 0, _TO_THE_END
            batch.replace(node, 1, new_starts)
            batch.replace(node, 2, new_ends)
            for port in (3, 4):
                operand = batch.baked(node.input(port))
                if operand is not None:
                    batch.replace(node, port, operand.astype(np.int64))


def _resize(batch: Rewriter, node: Node) -> None:
    """Sizes that hold the old batch."""
    found, sizes = batch.place(node, 0), batch.baked(node.input(3))
    if found is None or sizes is None or node.attr("axes") is not None:
        return
    data, place = found
    if int(sizes[place.axis]) == batch.old_shape(data)[place.axis]:
        wanted = sizes.copy()
        wanted[place.axis] = data.static_shape[place.axis]
        batch.replace(node, 3, wanted)


def _gather(batch: Rewriter, node: Node) -> None:
    """Constant indices along the axis of the batch stay within each sample, for every sample."""
    found = batch.place(node, 0)
    if found is None:
        return
    data, place = found
    axis = int(node.attr("axis", 0)) % len(data.static_shape)
    indices = batch.baked(node.input(1))
    if axis != place.axis or indices is None or indices.ndim == 0:
        return
    size = batch.old_shape(data)[axis]
    base = _of_one_sample(batch, node, np.where(indices < 0, indices + size, indices), place)
    _set_indices(
        batch,
        node,
        np.concatenate([_shifted(batch, base, sample, place) for sample in range(batch.new)]),
        len(base),
    )


def _gather_nd(batch: Rewriter, node: Node) -> None:
    """Like Gather; one component of the indices goes along the axis of the batch."""
    found = batch.place(node, 0)
    if found is None:
        return
    data, place = found
    leading = int(node.attr("batch_dims", 0))
    if place.axis < leading:
        if node.required(1) not in batch.axes:
            batch.spread(node, 1, place.axis)
        return
    indices = batch.baked(node.input(1))
    if indices is None or leading or indices.ndim < 2 or place.axis >= indices.shape[-1]:
        return
    size = batch.old_shape(data)[place.axis]
    component = np.where(
        indices[..., place.axis] < 0, indices[..., place.axis] + size, indices[..., place.axis]
    )
    base = _of_one_sample(batch, node, component, place)
    others = indices[: len(base)]
    if any(
        not np.array_equal(np.delete(block, place.axis, -1), np.delete(others, place.axis, -1))
        for block in np.split(indices, batch.old)
    ):
        raise GraphError(
            f"node {node.name!r} (GatherND)", "has indices that differ between the samples of the old batch"
        )
    parts = []
    for sample in range(batch.new):
        part = others.copy()
        part[..., place.axis] = _shifted(batch, base, sample, place)
        parts.append(part)
    _set_indices(batch, node, np.concatenate(parts), len(base))


def _of_one_sample(batch: Rewriter, node: Node, indices: Array, place: BatchAxis) -> Array:
    """The indices of the first sample, if those of the others are the same, shifted by the sample."""
    subject = f"node {node.name!r} ({node.op_type})"
    if len(indices) % batch.old:
        raise GraphError(
            subject, f"has indices along the batch that are not a multiple of {batch.old}", len(indices)
        )
    blocks = np.split(indices, batch.old)
    for sample, block in enumerate(blocks):
        if not np.array_equal(block, blocks[0] + sample * place.inner):
            raise GraphError(subject, "has indices that differ between the samples of the old batch")
    base = blocks[0]
    if np.any(base // place.inner % batch.old):
        raise GraphError(subject, "has indices that reach into other samples of the batch")
    return base


def _shifted(batch: Rewriter, base: Array, sample: int, place: BatchAxis) -> Array:
    """Indices of the first sample of the old batch as those of a sample of the new batch."""
    outer, rest = np.divmod(base, batch.old * place.inner)
    return np.asarray((outer * batch.new + sample) * place.inner + rest)


def _set_indices(batch: Rewriter, node: Node, indices: Array, per_sample: int) -> None:
    tensor = batch.replace(node, 1, indices)
    batch.shapes[tensor.name] = (per_sample * batch.old, *indices.shape[1:])
    batch.axes[tensor] = BatchAxis(0, per_sample)
    batch.indexed[node] = (0,)


def _gather_elements(batch: Rewriter, node: Node) -> None:
    """Indices that are the same for every sample are repeated."""
    found = batch.place(node, 0)
    if found is None or node.required(1) in batch.axes:
        return
    shape, place = batch.old_shape(found[0]), found[1]
    for port in range(1, node.input_count):
        batch.spread(node, port, place.axis, place.outer(shape, batch.old), place.inner)


# Valid at any batch: a model that leaves its batch open means them as they are.
MEANT_AS_WRITTEN = frozenset({"Slice", "Resize", "Gather", "GatherND", "GatherElements", "ScatterElements"})

REWRITES: dict[str, Rule] = {
    "Reshape": _reshape,
    "Expand": _expand,
    "Concat": _concat,
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent),
    "Slice": _slice,
    "Resize": _resize,
    "Gather": _gather,
    "GatherND": _gather_nd,
    "GatherElements": _gather_elements,
    "ScatterElements": _gather_elements,
    **dict.fromkeys(
        ("Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "Where", "And", "Or", "Xor", "Equal",
         "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "PRelu", "Mod", "Sum", "Mean"),
        _elementwise,
    ),
}  # fmt: skip
