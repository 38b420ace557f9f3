"""Values: every task's operators are computed in device memory, in the order in which the machine finished
the tasks.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ascendsim.core.errors import FIXED_SHAPES, InputError, SimulationError, suggest
from ascendsim.core.host_memory import require_host_memory
from ascendsim.core.threads import fixed_threads
from ascendsim.graph.ir import Array, Graph, Node
from ascendsim.isa.program import Program
from ascendsim.ops.fused.bounded import ROOM, run_bounded
from ascendsim.ops.fused.slices import bytes_of
from ascendsim.ops.shared.common import settled
from ascendsim.ops.shared.magnitudes import Magnitudes, left_float16
from ascendsim.opset import OpSet
from ascendsim.opset.axes import NOTHING_SAID
from ascendsim.runtime.device_memory import FLOAT16, DeviceMemory, Values
from ascendsim.runtime.status_register import with_register
from ascendsim.runtime.watch import Watch

if TYPE_CHECKING:
    from ascendsim.runtime.tiles import Tiles


class OtherShapesError(SimulationError):
    """Results of an operator have other shapes than the program was compiled for.

    Attributes:
        shapes: Of its results.
    """

    def __init__(self, node: Node, results: Sequence[Any]) -> None:
        self.shapes = tuple(np.shape(result) for result in results)
        super().__init__(
            f"results of node {node.name!r} ({node.op_type})",
            f"must have shapes {[list(tensor.static_shape) for tensor in node.outputs]}",
            f"{[list(shape) for shape in self.shapes]}",
            "check the shapes that the model declares for them",
        )


_DRAWN = 1 << 20  # random numbers at a time; they are the same however many that are


@fixed_threads()
def evaluate(
    graph: Graph,
    program: Program,
    opset: OpSet,
    order: Iterable[int],
    inputs: Mapping[str, Array],
    *,
    values: Values = "device",
    half: np.dtype[Any] = FLOAT16,
    progress: Callable[[int, int], None] | None = None,
    memory: DeviceMemory | None = None,
    watch: Watch | None = None,
    prefix: str = "",
    tiles: Tiles | None = None,
) -> dict[str, Array]:
    """Computes a compiled graph.

    Args:
        graph: The compiled graph that `program` was lowered from.
        order: Task ids in the order of their end.
        inputs: Arrays by graph input name, in the model's own types and logical shapes.
        values: "device" (float16 where the device has it) or "float32" (the model's own types).
        half: The chip's float16, which may saturate; it belongs to the memory where one is given.
        progress: Called with (tasks done, tasks in all).
        memory: Device memory of an earlier evaluation of the same program in the same order, to be used
            again. It is not wiped: what is read before it is written was NaN in the first evaluation.
        watch: Sees every result.
        prefix: In front of operators' names where the graph is a piece of the model.
        tiles: Runs the blocks of those tasks that say what they do; the others are computed by operators.

    Returns:
        Copies of the outputs by name.

    Raises:
        InputError: If an input is missing, unknown, or of the wrong shape or type.
        GraphError: If a weight has no values.
        OtherShapesError: If a result has another shape than the program was compiled for.
    """
    if memory is None:
        memory = DeviceMemory(graph, program.memory, values, half)
    arrays = checked_inputs(graph, inputs)
    for name, array in arrays.items():
        tensor = graph.tensors[name]
        memory.take(tensor, memory.taken(tensor, array))
    if watch is not None:
        watch.begin(graph, arrays, memory.dtype, prefix)
    nodes_of = {task.id: task.nodes for task in program.tasks}
    named = {node.name: node for node in graph.nodes}
    # a node that runs as several tasks has its values when the last of them ends
    unfinished = Counter(nodes_of.values())
    todo = list(order)
    for done, task in enumerate(todo):
        names = nodes_of[task]
        unfinished[names] -= 1
        if tiles is not None and not tiles.lacks(task):
            memory.write_all(tiles.run(task, memory))
        elif not unfinished[names]:
            compute_nodes([named[name] for name in names], opset, memory, watch)
        if progress is not None:
            progress(done + 1, len(todo))
    outputs = {tensor.name: memory.read(tensor).copy() for tensor in graph.outputs}
    memory.give_back()
    return outputs


def compute_nodes(
    nodes: Sequence[Node], opset: OpSet, memory: DeviceMemory, watch: Watch | None = None
) -> None:
    """Computes the nodes of one task from device memory into device memory; what several nodes hand to each
    other never gets there.
    """
    if len(nodes) == 1 and not (
        len(nodes[0].outputs) == 1
        and opset.get(nodes[0]).facts.axes(nodes[0]) is not NOTHING_SAID
        and bytes_of(nodes[0].outputs, memory.dtype) > ROOM
        and opset.get(nodes[0]).compute_body is None
    ):
        compute_node(nodes[0], opset, memory, watch)
        return
    inside = {tensor for node in nodes for tensor in node.outputs}
    arrays = {
        tensor: memory.read(tensor)
        for node in nodes
        for tensor in node.inputs
        if tensor is not None and tensor not in inside
    }
    outputs = [tensor for node in nodes for tensor in node.outputs if memory.holds(tensor)]
    seen: dict[Node, Magnitudes] = {}
    looked = None if watch is None and not memory.saturates else seen
    results = run_bounded(nodes, arrays, opset, memory.dtype, outputs, place_of=memory.place, seen=looked)
    if watch is not None:
        watch.chain(nodes, arrays, seen, results, memory.dtype)
    memory.overflowed |= memory.saturates and left_float16(seen, memory.dtype)
    memory.write_all(results)


def compute_node(node: Node, opset: OpSet, memory: DeviceMemory, watch: Watch | None = None) -> None:
    """Computes one node from device memory into device memory."""
    arrays = [None if tensor is None else memory.read(tensor) for tensor in node.inputs]
    inside: dict[Node, Magnitudes] | None = {} if memory.saturates else None
    with np.errstate(all="ignore"):  # overflow and NaN are values on the device, not events
        definition = opset.get(node)
        if definition.compute_body is not None:
            results = definition.compute_body(node, arrays, memory.dtype, memory.place, inside)
        else:
            results = definition.values(node, arrays, [memory.dtype(tensor) for tensor in node.outputs])
    held = [pair for pair in zip(node.outputs, results, strict=False) if pair[1] is not None]
    if any(memory.holds(tensor) and np.shape(array) != tensor.static_shape for tensor, array in held):
        raise OtherShapesError(node, results)
    if watch is not None:  # before results take the place of inputs
        watch.node(node, arrays, results, inside)
    made = {tensor: np.asarray(array) for tensor, array in held if memory.holds(tensor)}
    if inside is not None:
        kept = {tensor: settled(array, memory.dtype(tensor)) for tensor, array in made.items()}
        changed = any(not np.may_share_memory(kept[tensor], made[tensor]) for tensor in made)
        memory.overflowed |= changed or left_float16(inside, memory.dtype)
        made = with_register(node, kept, memory)
    memory.write_all(made)


def checked_inputs(graph: Graph, inputs: Mapping[str, Any]) -> dict[str, Array]:
    """The inputs as arrays, each with the name, shape and type that the graph asks for.

    Raises:
        InputError: Names the input, what is wanted and what came.
    """
    wanted = {tensor.name: tensor for tensor in graph.inputs}
    for name in inputs:
        if name not in wanted:
            raise InputError(f"input {name!r}", "is not an input of the model", remedy=suggest(name, wanted))
    arrays: dict[str, Array] = {}
    for name, tensor in wanted.items():
        dtype = (tensor.origin_dtype or tensor.element_type).numpy
        if name not in inputs:
            form = f"{dtype}{list(tensor.static_shape)}"
            raise InputError(
                f"input {name!r}", f"is missing; the model wants {form}", remedy=f"pass {{{name!r}: array}}"
            )
        array = np.asarray(inputs[name])
        if array.shape != tensor.static_shape:
            raise InputError(
                f"input {name!r}",
                f"must have shape {list(tensor.static_shape)}",
                list(array.shape),
                f"reshape it, or {FIXED_SHAPES}",
            )
        if array.dtype != dtype:
            raise InputError(
                f"input {name!r}",
                f"must be of type {dtype}",
                str(array.dtype),
                f"convert it with .astype({str(dtype)!r})",
            )
        arrays[name] = array
    return arrays


def random_inputs(graph: Graph, seed: int = 0) -> dict[str, Array]:
    """Seeded inputs for a model when the user has none.

    Floats are standard normal. Integers are 0 or 1, which is valid for token ids, masks and types alike;
    images for AIPP 0 to 255.
    """
    needed = sum(
        math.prod(t.static_shape) * (t.origin_dtype or t.element_type).itemsize for t in graph.inputs
    )
    require_host_memory("random inputs", needed, "run without values (--values off), or with smaller inputs")
    generator = np.random.default_rng(seed)
    arrays: dict[str, Array] = {}
    for tensor in graph.inputs:
        kind = tensor.origin_dtype or tensor.element_type
        shape = tensor.static_shape
        largest = 255 if any(node.op_type in ("Aipp", "AippConv") for node in tensor.consumers) else 1
        values = np.empty(shape, kind.numpy)
        flat = values.reshape(-1)
        for start in range(0, flat.size, _DRAWN):
            part = flat[start : start + _DRAWN]
            part[...] = (
                generator.standard_normal(part.size)
                if kind.is_float
                else generator.integers(0, largest + 1, part.size)
            )
        arrays[tensor.name] = values
    return arrays
