"""The host runs a graph with control flow or open shapes: piece after piece, branch by branch, iteration by
iteration.

A piece is compiled the first time that its shapes come up and then kept (`compile_piece`). What the run
leaves behind is the list of its `Step`s, from which `runtime.timeline` makes one program for the machine;
values are computed on the way, each piece in device memory of its own, since they decide what runs next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GIVE_VALUES, InputError
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.isa.program import owner_of
from ascendsim.passes.control_flow import is_control_flow
from ascendsim.runtime.control_flow import MAX_ITERATIONS, Value, run_control
from ascendsim.runtime.device_memory import DeviceMemory, Values
from ascendsim.runtime.evaluate import OtherShapesError, evaluate
from ascendsim.runtime.pieces import Piece, Pieces
from ascendsim.runtime.specialise import Part, Plan, plan_part, result_shapes
from ascendsim.runtime.watch import Watch


@dataclass(frozen=True, eq=False, slots=True)
class Step:
    """One execution of a piece.

    Attributes:
        sources: Names of the buffers that hold its inputs.
        results: Names of the buffers that take its outputs.
        looks: How many values of the device the host had to look at before this step.
        decisions: How many branches were chosen and loops tested before it.
    """

    piece: Piece
    sources: tuple[str, ...]
    results: tuple[str, ...]
    looks: int
    decisions: int


@dataclass(frozen=True, slots=True)
class Choices:
    """How a run goes on where values would decide and there are none.

    Attributes:
        branches: Branch by node name: "then" or "else" for If, a number for Case.
        trips: Number of iterations by name of a Loop or While.
        other: Number of the branch that all other nodes take (the last one if they have fewer), whose loops
            run once; None: an error.
    """

    branches: Mapping[str, str | int] = field(default_factory=dict)
    trips: Mapping[str, int] = field(default_factory=dict)
    other: int | None = None


class HostRun:
    """One execution.

    Args:
        pieces: Of the model.
        values: How values are computed; None: not at all, shapes and time only.
        choices: What to do where values would decide.
        progress: Called with the number of steps so far.
        watch: Sees the values.
    """

    def __init__(
        self,
        pieces: Pieces,
        values: Values | None,
        choices: Choices,
        progress: Callable[[int], None] | None = None,
        watch: Watch | None = None,
    ) -> None:
        self._pieces, self._values, self._choices, self._progress = pieces, values, choices, progress
        self._watch = watch
        self.steps: list[Step] = []
        self._looks = self._decisions = 0
        self._ends: set[Tensor] = set()  # tensors that are outputs of the model

    def run(self, graph: Graph, inputs: Sequence[Value]) -> list[Value]:
        """Runs a model on its inputs and returns its outputs; `steps` then has what ran."""
        named = [replace(value, home=tensor.name) for tensor, value in zip(graph.inputs, inputs, strict=True)]
        self._ends = set(graph.outputs)
        values = _Scope(self, graph, named, "").finish()
        for number, (tensor, value) in enumerate(zip(graph.outputs, values, strict=True)):
            if value.half:
                values[number] = self.execute(self._pieces.cast(tensor, value.shape), "", [value])[0]
        return values

    def look(self) -> None:
        """The host waits for the device and reads a value back."""
        self._looks += 1

    def enter(self, node: Node, branch: Graph) -> None:
        """A branch runs: what it gives may be an output of the model, in contrast to what a loop's body
        gives, with which it goes on.
        """
        if node.op_type in ("If", "Case", "PartitionedCall"):
            given = zip(node.outputs, branch.outputs, strict=False)
            self._ends.update(inner for outer, inner in given if outer in self._ends)

    def decided(self, on_host: bool) -> None:
        """A branch was chosen or a loop tested."""
        self._decisions += 1
        self._looks += not on_host

    def choose(self, node: Node, names: Sequence[str]) -> int:
        """The branch that the user asked for."""
        chosen = self._choices.branches.get(node.name)
        if chosen is None and self._choices.other is not None:
            return min(self._choices.other, len(names) - 1)
        short = [name.removesuffix("_branch") for name in names]
        if chosen is None:
            listed = (
                " or ".join(repr(name) for name in short)
                if node.op_type == "If"
                else f"a number from 0 to {len(names) - 1}"
            )
            raise InputError(
                f"node {node.name!r} ({node.op_type})",
                "takes a branch that depends on values",
                remedy=f"give inputs, or say which: branches={{{node.name!r}: {listed}}}, --branch "
                f"{node.name}={short[0] if node.op_type == 'If' else 0}",
            )
        if chosen in names or chosen in short:
            return names.index(str(chosen)) if chosen in names else short.index(str(chosen))
        if isinstance(chosen, int) and 0 <= chosen < len(names):
            return chosen
        raise InputError(
            f"option branches of node {node.name!r}", f"must be one of {', '.join(short)}", repr(chosen)
        )

    def count(self, node: Node, limit: int | None) -> int:
        """The number of iterations that the user asked for; else as many as the model itself allows, if it
        says.
        """
        wanted = self._choices.trips.get(node.name)
        if wanted is None and self._choices.other is not None:
            return 1 if limit is None else min(1, limit)
        if wanted is None and limit is not None and limit <= MAX_ITERATIONS:
            return max(0, limit)
        if wanted is None:
            raise InputError(
                f"node {node.name!r} ({node.op_type})",
                "runs a number of iterations that depends on values",
                remedy=f"give inputs, or say how many: trips={{{node.name!r}: 10}}, --trips {node.name}=10",
            )
        return wanted if limit is None else min(wanted, max(0, limit))

    def execute(self, plan: Plan, prefix: str, values: Sequence[Value]) -> list[Value]:
        """Runs a plan's piece and returns its outputs."""
        piece = self._pieces.piece(plan, prefix, self._ends)
        graph = piece.compiled.graph
        sources = tuple(value.home for value in values)
        results = _result_homes(piece, sources)
        arrays = {tensor.name: value.array for tensor, value in zip(graph.inputs, values, strict=True)}
        if self._values is None or any(array is None for array in arrays.values()):
            self._ran(piece, sources, results)
            return [
                Value(
                    (tensor.origin_dtype or tensor.element_type).numpy,
                    tensor.static_shape,
                    home=home,
                    half=_is_half(tensor),
                )
                for tensor, home in zip(graph.outputs, results, strict=True)
            ]
        if self._values not in piece.memory:
            compiled = piece.compiled
            piece.memory[self._values] = DeviceMemory(
                graph, compiled.program.memory, self._values, compiled.float16
            )
        order = [task.id for task in piece.compiled.program.tasks]
        known = {name: array for name, array in arrays.items() if array is not None}
        found = evaluate(
            graph,
            piece.compiled.program,
            self._pieces.opset,
            order,
            known,
            values=self._values,
            memory=piece.memory[self._values],
            watch=self._watch,
            prefix=piece.prefix,
        )
        self._ran(piece, sources, results)
        outputs = []
        for tensor, home in zip(graph.outputs, results, strict=True):
            array = found[tensor.name].astype((tensor.origin_dtype or tensor.element_type).numpy, copy=False)
            outputs.append(Value(array.dtype, array.shape, array, home=home, half=_is_half(tensor)))
        return outputs

    def _ran(self, piece: Piece, sources: tuple[str, ...], results: tuple[str, ...]) -> None:
        """Notes that a piece ran."""
        self.steps.append(Step(piece, sources, results, self._looks, self._decisions))
        self._looks = self._decisions = 0
        if self._progress is not None:
            self._progress(len(self.steps))


class _Scope:
    """A graph while it runs: the values of its tensors, and the scope around it."""

    def __init__(
        self,
        owner: HostRun,
        graph: Graph,
        inputs: Sequence[Value],
        prefix: str,
        around: _Scope | None = None,
        growing: frozenset[Node] = frozenset(),
    ) -> None:
        self._owner, self._graph, self.prefix, self._around = owner, graph, prefix, around
        self._growing = growing
        self._values: dict[Tensor, Value] = {}
        for tensor, value in zip(graph.inputs, inputs, strict=True):
            self._bind(tensor, value)

    def finish(self) -> list[Value]:
        """Runs the graph to its end and returns its outputs."""
        owner = self._owner
        part: Part | None = owner._pieces.part(self._graph, self.prefix, self._growing)
        forced: tuple[tuple[int, ...], ...] | None = None
        while part is not None:
            plan = plan_part(part, self._value, owner._pieces.opset, forced)
            if plan.graph is not None:
                given = [self._value(tensor) for tensor in plan.inputs]
                try:
                    results = owner.execute(plan, self.prefix, given)
                except OtherShapesError as other:
                    again = _as_on_device(part, other, forced)
                    if again is None:
                        raise
                    forced = again
                    continue
                self._values.update(zip(plan.outputs, results, strict=True))
            forced = None
            for tensor, array in plan.known.items():
                self._bind(tensor, Value.of(array))
            stop = plan.stop
            if stop is not None and is_control_flow(stop):
                self._run_node(stop)
            elif stop is not None:
                if plan.asked is None:
                    forced = result_shapes(stop, self._value, owner._pieces.opset)
                self._look_at(plan.asked if plan.asked is not None else stop.inputs, stop)
            part = plan.rest
        return [self._value(tensor) for tensor in self._graph.outputs]

    def _look_at(self, tensors: Sequence[Tensor | None] | frozenset[Tensor], node: Node) -> None:
        values = [self._value(tensor) for tensor in tensors if tensor is not None]
        if any(value.array is None for value in values):
            raise InputError(
                f"the shape of what node {node.name!r} ({node.op_type}) gives",
                "depends on values",
                remedy=GIVE_VALUES,
            )
        if not all(value.on_host for value in values):
            self._owner.look()

    def _run_node(self, node: Node) -> None:
        inputs = [None if tensor is None else self._value(tensor) for tensor in node.inputs]
        for tensor, value in zip(
            node.outputs, run_control(node, inputs, _NodeHost(self._owner, self, node)), strict=False
        ):
            self._bind(tensor, value)

    def _value(self, tensor: Tensor) -> Value:
        if tensor.constant is not None:
            return _constant(tensor)
        scope: _Scope | None = self
        while scope is not None:
            if tensor in scope._values:
                return scope._values[tensor]
            scope = scope._around
        raise KeyError(tensor.name)

    def _bind(self, tensor: Tensor, value: Value) -> None:
        self._values[tensor] = value if value.home else replace(value, home=f"{self.prefix}{tensor.name}")


def _as_on_device(
    part: Part, found: OtherShapesError, forced: tuple[tuple[int, ...], ...] | None
) -> tuple[tuple[int, ...], ...] | None:
    """The shapes that results depending on all values of an input have on the device, where those values are
    rounded; None if it was told them already.
    """
    if part.forced is None or forced is None:
        return None
    shapes = found.shapes[: len(part.forced.outputs)]
    return None if shapes == forced else shapes


class _NodeHost:
    """Runs the subgraphs of one node, and takes its decisions."""

    def __init__(self, owner: HostRun, scope: _Scope, node: Node) -> None:
        self._owner, self._scope, self._node = owner, scope, node
        self._growing: frozenset[Node] | None = None  # of the body, from its first turn on

    def run(self, body: Graph, inputs: Sequence[Value], name: str) -> list[Value]:
        self._owner.enter(self._node, body)
        if self._growing is None and name == "body":  # a While asks its condition first
            turns = self._node.op_type in ("Loop", "While")
            pieces, scope = self._owner._pieces, self._scope
            self._growing = pieces.growth(self._node, body, inputs, scope._value) if turns else frozenset()
        prefix = f"{self._scope.prefix}{self._node.name}/{name}/"
        growing = (self._growing if name == "body" else None) or frozenset[Node]()
        return _Scope(self._owner, body, inputs, prefix, self._scope, growing).finish()

    def decided(self, node: Node, on_host: bool) -> None:
        self._owner.decided(on_host)

    def branch(self, node: Node, names: Sequence[str]) -> int:
        return self._owner.choose(node, names)

    def trips(self, node: Node, limit: int | None) -> int:
        return self._owner.count(node, limit)


def _is_half(tensor: Tensor) -> bool:
    return tensor.dtype is DType.FLOAT16 and tensor.origin_dtype is DType.FLOAT32


def _constant(tensor: Tensor) -> Value:
    constant = tensor.constant
    array = constant.array() if constant is not None and constant.available else None
    return Value(
        (tensor.origin_dtype or tensor.element_type).numpy,
        tensor.static_shape,
        array,
        on_host=True,
        home=f"{tensor.name}",
    )


def _result_homes(piece: Piece, sources: Sequence[str]) -> tuple[str, ...]:
    """Buffers for the outputs of a piece: that of an input if they share its memory, else one that no input
    is in.

    A loop variable so changes between two buffers from one iteration to the next, and nothing is copied.
    """
    regions = piece.compiled.program.memory.regions
    graph = piece.compiled.graph
    home_of = {tensor.name: home for tensor, home in zip(graph.inputs, sources, strict=True)}
    homes: list[str] = []
    for tensor in graph.outputs:
        name = owner_of(regions, tensor.name, through_slices=False)
        own = f"{piece.prefix}{tensor.name}"
        while own in home_of.values():
            own += "'"
        homes.append(home_of.setdefault(name, own))
    return tuple(homes)
