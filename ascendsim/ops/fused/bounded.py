"""Values of a group of nodes in bounded memory: what the nodes hand to each other is made slice by slice and
never held whole, results go straight to their place.

Groups that are small anyway are computed in one go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ascendsim.core.errors import SimulationError
from ascendsim.graph.ir import Array, Graph, Node, Tensor
from ascendsim.ops.fused.program import DTypeOf, renamed
from ascendsim.ops.fused.slices import Cut, Slicing, Stage, bytes_of
from ascendsim.ops.fused.values import run_chain
from ascendsim.ops.shared.magnitudes import Magnitudes
from ascendsim.opset import OpSet

ROOM = 32 << 20  # bytes of one slice of all tensors of a stage: below what malloc gives back to the system

PlaceOf = Callable[[Tensor], "Array | None"]


def run_bounded(
    nodes: Sequence[Node],
    arrays: Mapping[Tensor, Array],
    opset: OpSet,
    dtype_of: DTypeOf,
    outputs: Sequence[Tensor],
    *,
    place_of: PlaceOf = lambda _tensor: None,
    room: int = ROOM,
    seen: dict[Node, Magnitudes] | None = None,
) -> dict[Tensor, Array]:
    """Computes a group of nodes; the same bits as `run_chain`.

    Args:
        nodes: In execution order.
        arrays: Values of every tensor that comes from outside, constants included, in the types of
            `dtype_of`.
        opset: Operators.
        dtype_of: NumPy type of any tensor in this run.
        outputs: Whose values are wanted.
        place_of: Where an output belongs, None where no matter; it may lie where inputs lie. Results are
            there already where that was possible, else they are arrays of their own.
        room: Bytes that may be used besides inputs and outputs, as far as axes can be cut.
        seen: As in `run_chain`.

    Returns:
        Values by tensor.
    """
    made = [tensor for node in nodes if renamed(node) is None for tensor in node.outputs]
    if bytes_of(made, dtype_of) <= room or not all(tensor.is_static for tensor in made):
        return run_chain(nodes, arrays, opset, dtype_of, outputs, seen)
    return _Run(nodes, arrays, opset, dtype_of, outputs, place_of=place_of, room=room, seen=seen).values_of(
        outputs
    )


class _Run:
    """State of one run: the values that are held whole."""

    def __init__(
        self,
        nodes: Sequence[Node],
        arrays: Mapping[Tensor, Array],
        opset: OpSet,
        dtype_of: DTypeOf,
        outputs: Sequence[Tensor],
        *,
        place_of: PlaceOf,
        room: int,
        seen: dict[Node, Magnitudes] | None,
    ) -> None:
        self._opset, self._dtype_of, self._seen = opset, dtype_of, seen
        self._sources = {node.output: source for node in nodes if (source := renamed(node)) is not None}
        self._given, self._values = arrays, dict(arrays)
        self._places: dict[Tensor, Array] = {}
        for tensor in outputs:  # of several outputs with one value the first one's place is taken
            place = place_of(tensor)
            if place is not None:
                root = self._root(tensor)
                self._places.setdefault(root, place.reshape(root.static_shape))
        slicing = Slicing(nodes, opset, dtype_of, room)
        self._read = [self._needs(stage) for stage in slicing.stages]
        for number, stage in enumerate(slicing.stages):
            self._later = {self._root(tensor) for tensors in self._read[number + 1 :] for tensor in tensors}
            wanted = self._later | {self._root(tensor) for tensor in outputs}
            kept = [
                tensor
                for node in stage.nodes
                for tensor in node.outputs
                if tensor not in self._sources and tensor in wanted
            ]
            cut = slicing.cut(stage)
            if cut is None:
                given = {tensor: self._value(tensor) for tensor in self._read[number]}
                self._values.update(run_chain(stage.nodes, given, opset, dtype_of, kept, seen))
            elif kept:
                self._in_slices(stage, cut, self._read[number], kept)
            for tensor in [held for held in self._values if held not in wanted]:
                del self._values[tensor]

    def values_of(self, outputs: Sequence[Tensor]) -> dict[Tensor, Array]:
        """Values by output."""
        return {tensor: self._value(tensor) for tensor in outputs}

    def _root(self, tensor: Tensor) -> Tensor:
        while tensor in self._sources:
            tensor = self._sources[tensor]
        return tensor

    def _value(self, tensor: Tensor) -> Array:
        return self._values[self._root(tensor)].reshape(tensor.static_shape)

    def _needs(self, stage: Stage) -> list[Tensor]:
        """What a stage reads of what it does not make."""
        inside = {tensor for node in stage.nodes for tensor in node.outputs}
        return list(
            dict.fromkeys(
                tensor
                for node in stage.nodes
                for tensor in ([renamed(node)] if renamed(node) is not None else node.inputs)
                if tensor is not None and tensor not in inside
            )
        )

    def _in_slices(self, stage: Stage, cut: Cut, read: Sequence[Tensor], kept: Sequence[Tensor]) -> None:
        targets = {tensor: self._target(tensor, cut, read) for tensor in kept}
        sources = {tensor: self._value(tensor) for tensor in read}
        twins: dict[int, dict[Tensor, Tensor]] = {}
        for number, (first, last) in enumerate(zip(cut.bounds, cut.bounds[1:], strict=False)):
            if last - first not in twins:
                twins[last - first] = _small_copy(stage.nodes, cut, number)
            twin = twins[last - first]
            nodes = [twin[node.outputs[0]].producer for node in stage.nodes]
            origin = {copy: tensor for tensor, copy in twin.items()}
            seen: dict[Node, Magnitudes] | None = None if self._seen is None else {}
            results = run_chain(
                [node for node in nodes if node is not None],
                {
                    twin[tensor]: np.ascontiguousarray(source[cut.slices(tensor, number)])
                    for tensor, source in sources.items()
                },
                self._opset,
                lambda tensor, origin=origin: self._dtype_of(origin[tensor]),  # type: ignore[misc]
                [twin[tensor] for tensor in kept],
                seen,
            )
            if seen is not None:
                self._note(stage.nodes, nodes, seen)
            _store(results, targets, twin, cut, number)
        self._values.update(targets)

    def _note(
        self, nodes: Sequence[Node], twins: Sequence[Node | None], seen: Mapping[Node, Magnitudes]
    ) -> None:
        """Adds what a slice held to what the others hold."""
        if self._seen is None:
            return
        for node, twin in zip(nodes, twins, strict=True):
            held = None if twin is None else seen.get(twin)
            if held is not None:
                known = self._seen.get(node)
                self._seen[node] = held if known is None else known.joined(held)

    def _target(self, tensor: Tensor, cut: Cut, read: Sequence[Tensor]) -> Array:
        """Where the slices of a result go: to its place, if nothing that is read there afterwards is lost."""
        place = self._places.get(tensor)
        if place is None or place.dtype != self._dtype_of(tensor):
            return np.empty(tensor.static_shape, self._dtype_of(tensor))
        lost = [held for held in self._later if held in self._values and _meet(self._values[held], place)]
        moved = [
            other
            for other in read
            if _meet(value := self._value(other), place)
            and not (
                value.ctypes.data == place.ctypes.data
                and value.dtype.itemsize == place.dtype.itemsize
                and value.shape == place.shape
                and value.flags.c_contiguous
                and place.flags.c_contiguous
                and cut.axes.get(other) == cut.axes[tensor]
            )
        ]
        return place if not lost and not moved else np.empty(tensor.static_shape, self._dtype_of(tensor))


def _meet(a: Array, b: Array) -> bool:
    return bool(np.may_share_memory(a, b))


def _store(
    results: Mapping[Tensor, Array],
    targets: Mapping[Tensor, Array],
    twin: Mapping[Tensor, Tensor],
    cut: Cut,
    number: int,
) -> None:
    """Puts the results of a slice where they belong; one may be a view of what another one overwrites."""
    several = len(targets) > 1
    for tensor in targets:
        result = results[twin[tensor]]
        if result.shape != cut.shape(tensor, number):
            raise SimulationError(
                f"a slice of tensor {tensor.name!r}",
                f"must have shape {list(cut.shape(tensor, number))}",
                list(result.shape),
                "its operator's axes and its kernel disagree; please report this",
            )
    held = [
        (
            target[cut.slices(tensor, number)],
            results[twin[tensor]].copy()
            if several and any(_meet(results[twin[tensor]], other) for other in targets.values())
            else results[twin[tensor]],
        )
        for tensor, target in targets.items()
    ]
    for part, result in held:
        part[...] = result


def _small_copy(nodes: Sequence[Node], cut: Cut, number: int) -> dict[Tensor, Tensor]:
    """Copies of nodes on the shapes of a slice: the copy of each tensor that they have."""
    graph = Graph("slice")
    twins: dict[Tensor, Tensor] = {}

    def twin(tensor: Tensor) -> Tensor:
        if tensor not in twins:
            copy = Tensor(graph.fresh(tensor.name), tensor.dtype, cut.shape(tensor, number), tensor.format)
            copy.origin_dtype = tensor.origin_dtype
            copy.constant = tensor.constant if tensor not in cut.axes else None
            twins[tensor] = graph.add_tensor(copy)
        return twins[tensor]

    for node in nodes:
        inner = graph.add_node(
            node.op_type,
            [None if tensor is None else twin(tensor) for tensor in node.inputs],
            [twin(tensor) for tensor in node.outputs],
            name=node.name,
            domain=node.domain,
        )
        inner.attributes.update(node.attributes)
    return twins
