"""What nodes with subgraphs mean: which subgraph runs how often, on what, and what becomes of its results.

The rules are those of the ONNX operators (If, Loop, Scan) and of GE's functional operators (PartitionedCall,
Case, While). How a subgraph runs is left to the caller, the `Host`; a value may be known by its type and
shape alone, and then the host is asked how it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ascendsim.core.errors import GraphError
from ascendsim.graph.ir import Array, Graph, Node
from ascendsim.ops.control.control_flow_shapes import goes_on
from ascendsim.passes.control_flow import is_control_flow as is_control_flow

MAX_ITERATIONS = (
    100_000  # of one loop: some minutes and gigabytes of records; more is a condition that never comes true
)


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor at run time.

    Attributes:
        dtype: Element type in the user's model.
        shape: Its shape now.
        array: Its values; None if only type and shape are known (timing without values).
        on_host: Whether the host knows the values without asking the device: constants, numbers of
            iterations.
        home: Name of the piece of device memory that holds it; empty until somebody needs one.
        half: Whether the device holds float32 values of the model in float16.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    array: Array | None = None
    on_host: bool = False
    home: str = ""
    half: bool = False

    @staticmethod
    def of(array: Any) -> Value:
        """The value of an array that the host has."""
        held = np.asarray(array)
        return Value(held.dtype, held.shape, held, on_host=True)


class Host(Protocol):
    """Who runs subgraphs and takes decisions."""

    def run(self, body: Graph, inputs: Sequence[Value], name: str) -> list[Value]:
        """Runs a subgraph under a name and returns its outputs."""
        ...

    def decided(self, node: Node, on_host: bool) -> None:
        """A branch was chosen or a loop tested; `on_host`: without a look at values of the device."""
        ...

    def branch(self, node: Node, names: Sequence[str]) -> int:
        """Number of the branch that runs where the condition has no value."""
        ...

    def trips(self, node: Node, limit: int | None) -> int:
        """Number of iterations where conditions have no value; `limit` is what the model allows at most, if
        that is known.
        """
        ...


def run_control(node: Node, inputs: Sequence[Value | None], host: Host) -> list[Value]:
    """Runs the subgraphs of a node.

    Args:
        node: If, Loop, Scan, PartitionedCall, Case or While.
        inputs: Its inputs by port.
        host: Runs the subgraphs, and is asked where a condition or a number of iterations has no value.

    Returns:
        Its outputs.

    Raises:
        GraphError: If a rule of the operator is broken (a branch index below 0, results of another shape each
            iteration).
    """
    return _RULES[node.op_type](node, inputs, host)


def _if(node: Node, inputs: Sequence[Value | None], host: Host) -> list[Value]:
    names = ("then_branch", "else_branch")
    condition = _scalar(inputs[0])
    chosen = names[host.branch(node, names) if condition is None else 0 if condition else 1]
    host.decided(node, _known(inputs[0]))
    return host.run(_graph(node, chosen), (), chosen)


def _case(node: Node, inputs: Sequence[Value | None], host: Host) -> list[Value]:
    """An index beyond the last branch means the last one, as GE has it."""
    branches = node.attributes["branches"]
    assert isinstance(branches, tuple)
    names = [branch.name for branch in branches if isinstance(branch, Graph)]
    index = _scalar(inputs[0])
    number = host.branch(node, names) if index is None else min(int(index), len(branches) - 1)
    if number < 0:
        raise GraphError(
            f"node {node.name!r} (Case)",
            "needs a branch index that is not negative",
            number,
            f"branches: {', '.join(names)}",
        )
    branch = branches[number]
    assert isinstance(branch, Graph)
    host.decided(node, _known(inputs[0]))
    return host.run(branch, _given(node, inputs[1:]), branch.name)


def _call(node: Node, inputs: Sequence[Value | None], host: Host) -> list[Value]:
    return host.run(_graph(node, "f"), _given(node, inputs), "f")


def _while(node: Node, inputs: Sequence[Value | None], host: Host) -> list[Value]:
    cond, body = _graph(node, "cond"), _graph(node, "body")
    state, trip = _given(node, inputs), 0
    planned: int | None = None
    while True:
        _check_iterations(node, trip)
        found = host.run(cond, state, "cond")[0]
        host.decided(node, found.on_host)
        condition = _scalar(found)
        if condition is None:
            planned = host.trips(node, None) if planned is None else planned
            condition = trip < planned
        if not condition:
            return state
        state = host.run(body, state, "body")
        trip += 1


def _loop(node: Node, inputs: Sequence[Value | None], host: Host) -> list[Value]:
    """Iterations end when their number is reached or the condition is false; a host that knows both
    beforehand never looks.
    """
    body, state = _graph(node, "body"), _given(node, inputs[2:])
    limit, condition = (inputs[port] if port < len(inputs) else None for port in (0, 1))
    bound = _scalar(limit)
    endless = goes_on(body)
    stacks: list[list[Value]] = [[] for _ in body.outputs[1 + len(state) :]]
    planned: int | None = None
    if limit is not None and bound is None:
        planned = host.trips(node, None)
        host.decided(node, False)
    trip = 0
    while bound is None or trip < int(bound):
        _check_iterations(node, trip)
        going = True if condition is None else _scalar(condition)
        host.decided(node, _known(condition))
        if going is None and planned is None:
            planned = host.trips(node, None if bound is None else int(bound))
        if (going is not None and not going) or (planned is not None and trip >= planned):
            break
        number = Value.of(np.full(body.inputs[0].static_shape, trip, np.int64))
        outputs = host.run(body, [number, condition or Value.of(np.array(True)), *state], "body")
        if not endless:
            condition = outputs[0]
        state = outputs[1 : 1 + len(state)]
        for stack, item in zip(stacks, outputs[1 + len(state) :], strict=True):
            stack.append(item)
        trip += 1
    pieces = [_stacked(node, stack, 0, body, 1 + len(state) + index) for index, stack in enumerate(stacks)]
    return [*state, *pieces]


def _scan(node: Node, inputs: Sequence[Value | None], host: Host) -> list[Value]:
    """The number of iterations is a dimension, so no value is ever looked at."""
    body, values = _graph(node, "body"), _given(node, inputs)
    count = int(node.attr("num_scan_inputs"))
    first = len(values) - count
    state, scanned = values[:first], values[first:]
    axes = [_axis(node, "scan_input_axes", index, len(value.shape)) for index, value in enumerate(scanned)]
    back = [bool(_item(node, "scan_input_directions", index)) for index in range(count)]
    lengths = {value.shape[axis] for value, axis in zip(scanned, axes, strict=True)}
    if len(lengths) != 1:
        raise GraphError(
            f"node {node.name!r} (Scan)", "needs one length for all scanned inputs", sorted(lengths)
        )
    length = lengths.pop()
    _check_iterations(node, length - 1)
    stacks: list[list[Value]] = [[] for _ in body.outputs[first:]]
    for trip in range(length):
        places = [length - 1 - trip if backwards else trip for backwards in back]
        slices = [
            _slice(value, axis, place) for value, axis, place in zip(scanned, axes, places, strict=True)
        ]
        host.decided(node, True)
        outputs = host.run(body, [*state, *slices], "body")
        state = outputs[:first]
        for stack, item in zip(stacks, outputs[first:], strict=True):
            stack.append(item)
    results = []
    for index, stack in enumerate(stacks):
        ordered = stack[::-1] if _item(node, "scan_output_directions", index) else stack
        rank = 1 + len(stack[0].shape if stack else body.outputs[first + index].shape or ())
        results.append(
            _stacked(node, ordered, _axis(node, "scan_output_axes", index, rank), body, first + index)
        )
    return [*state, *results]


_RULES: dict[str, Callable[[Node, Sequence[Value | None], Host], list[Value]]] = {
    "If": _if,
    "Case": _case,
    "PartitionedCall": _call,
    "While": _while,
    "Loop": _loop,
    "Scan": _scan,
}


def _graph(node: Node, name: str) -> Graph:
    graph = node.attributes.get(name)
    if not isinstance(graph, Graph):
        raise GraphError(f"node {node.name!r} ({node.op_type})", f"needs a subgraph in attribute {name}")
    return graph


def _given(node: Node, inputs: Sequence[Value | None]) -> list[Value]:
    given = [value for value in inputs if value is not None]
    if len(given) < len(inputs):
        raise GraphError(
            f"node {node.name!r} ({node.op_type})", "needs a value for every input of its subgraph"
        )
    return given


def _scalar(value: Value | None) -> Any:
    """The one element of a value; None if it is absent or not known."""
    if value is None or value.array is None:
        return None
    if value.array.size != 1:
        raise GraphError("a condition or number of iterations", "must be one element", list(value.shape))
    return value.array.item()


def _known(value: Value | None) -> bool:
    """Whether the host needs not look at the device for a value."""
    return value is None or value.on_host


def _item(node: Node, name: str, index: int) -> int:
    items = node.attr(name, ())
    return int(items[index]) if index < len(items) else 0


def _axis(node: Node, name: str, index: int, rank: int) -> int:
    return _item(node, name, index) % rank


def _slice(value: Value, axis: int, place: int) -> Value:
    shape = (*value.shape[:axis], *value.shape[axis + 1 :])
    return Value(
        value.dtype,
        shape,
        None if value.array is None else np.take(value.array, place, axis),
        half=value.half,
    )


def _stacked(node: Node, items: Sequence[Value], axis: int, body: Graph, output: int) -> Value:
    """Results of all iterations as one tensor; without iterations an empty one."""
    if not items:
        tensor = body.outputs[output]
        dims = [dim if isinstance(dim, int) else 0 for dim in tensor.shape or ()]
        return Value.of(
            np.zeros((*dims[:axis], 0, *dims[axis:]), (tensor.origin_dtype or tensor.element_type).numpy)
        )
    shapes = {item.shape for item in items}
    if len(shapes) > 1:
        raise GraphError(
            f"node {node.name!r} ({node.op_type})",
            f"needs scan output {body.outputs[output].name!r} of one shape",
            sorted(shapes),
        )
    first = items[0]
    arrays = [item.array for item in items if item.array is not None]
    shape = (*first.shape[:axis], len(items), *first.shape[axis:])
    known = np.stack(arrays, axis) if len(arrays) == len(items) else None
    return Value(first.dtype, shape, known, half=all(item.half for item in items))


def _check_iterations(node: Node, trip: int) -> None:
    if trip >= MAX_ITERATIONS:
        raise GraphError(
            f"node {node.name!r} ({node.op_type})",
            f"must end within {MAX_ITERATIONS} iterations",
            remedy="check its condition, or the axis that it scans",
        )
