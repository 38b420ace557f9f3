"""Values tile by tile: the blocks that were timed run on the bytes of their tensors (`values="tile"`).

A task's tensors are laid out as their formats store them, its blocks run one after the other (`tile.noted`),
and what they have stored is read back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from ascendsim.core.errors import SimulationError
from ascendsim.core.formats import Format
from ascendsim.graph.ir import Array, Graph, Node, Tensor
from ascendsim.isa.instructions import Buffer, Move
from ascendsim.isa.listing import instruction_name, listing
from ascendsim.isa.notes import without_notes
from ascendsim.isa.program import Block, Program, Task
from ascendsim.isa.walk import static
from ascendsim.lower import LowerOptions
from ascendsim.lower.engine import work_of
from ascendsim.opset import OpSet
from ascendsim.opset.work import CubeWork, LowerContext, MoveWork, Work
from ascendsim.runtime.device_memory import DeviceMemory
from ascendsim.runtime.storage import Filters, logical, stored
from ascendsim.runtime.tile_kernels import TileKernels
from ascendsim.runtime.tile_moves import TileMoves, is_carried
from ascendsim.soc import SocSpec

Lacking = Literal["refuse", "operators"]  # what becomes of tasks that do not say what they do


class Tiles:
    """The tasks of a model with notes.

    Args:
        graph: The compiled graph.
        program: As it was timed.
        noted: The same with notes.
        opset: Operators.
        soc: The chip.
        options: How the graph was lowered.

    Attributes:
        moved: By task that has run: bytes between global memory and the cores, as they are timed and as the
            blocks have moved them.
    """

    def __init__(
        self,
        graph: Graph,
        program: Program,
        noted: Program,
        opset: OpSet,
        soc: SocSpec,
        options: LowerOptions,
    ) -> None:
        self._graph, self._opset, self._soc = graph, opset, soc
        self._tasks = {task.id: task for task in noted.tasks}
        self._timed = {task.id: task for task in program.tasks}
        self._nodes = {node.name: node for node in graph.nodes}
        self._context = LowerContext.of(soc, options.aicpu_types, options.flags)
        count: dict[tuple[str, ...], int] = {}
        for task in program.tasks:
            count[task.nodes] = count.get(task.nodes, 0) + 1
        self._several = {names for names, number in count.items() if number > 1}
        self._known: dict[int, str] = {}
        self.moved: dict[int, tuple[int, int]] = {}

    def nodes(self, task: int) -> list[Node]:
        """What a task runs."""
        return [self._nodes[name] for name in self._tasks[task].nodes]

    def lacks(self, task: int) -> str:
        """Why a task cannot be run tile by tile; "" if it can."""
        if task not in self._known:
            self._known[task] = self._reason(self._tasks[task])
        return self._known[task]

    def _reason(self, task: Task) -> str:
        if not task.kind.on_cores:
            return "does not run on AI Cores"
        if task.nodes in self._several:
            return "runs as several tasks"
        work = self._work(task)
        node = self._nodes[task.nodes[0]]
        if isinstance(work, MoveWork) and (len(task.nodes) > 1 or not is_carried(node, work, self._opset)):
            return "does not move elements as they are"
        if isinstance(work, CubeWork) and work.conv is not None and node.op_type != "Conv":
            return "has filters in an order of its own"
        if isinstance(work, CubeWork) and work.epilogue and not self._soc.split_cores:
            return "computes behind the product in the Cube's own operator"
        for group in task.groups:
            found = next(without_notes(group.block.template.body), None)
            if found is not None or len(group.origins) != group.count:
                what = (
                    "blocks"
                    if found is None
                    else f"{found.pipe.value} instruction {instruction_name(found)!r}"
                )
                return f"has no note for its {what}"
        return ""

    def _work(self, task: Task) -> Work:
        return work_of(self._nodes[task.nodes[0]], self._opset, self._context)

    def run(self, number: int, memory: DeviceMemory) -> dict[Tensor, Array]:
        """What a task makes of the tensors in device memory, which stays as it is.

        Raises:
            SimulationError: A block does what it must not, or leaves a part of a result out.
        """
        from ascendsim.tile.evaluate import GlobalMemory  # these bring numba
        from ascendsim.tile.noted import NotedTask

        task = self._tasks[number]
        timed = self._timed[number]
        for own, other in zip(task.groups, timed.groups, strict=True):
            if own.count != other.count or listing(own.block) != listing(other.block):
                raise SimulationError(
                    f"task {task.name!r}", "must have the blocks that were timed", remedy="please report this"
                )
        named = task.groups[0].block.region  # equal units share the notes of the first of them
        read, written = _regions([group.block.template for group in task.groups])
        wanted = {access.region for access in timed.accesses if access.write}
        for name in wanted - {named(name) for name in written}:
            raise SimulationError(f"tensor {name!r}", "must be stored as a whole", "no block stores it")
        tensors = {name: self._graph.tensors[named(name)] for name in (*read, *written)}
        filters = self._filters(task)
        arrays: dict[str, Array] = {}
        for name in read:
            tensor = tensors[name]
            arrays[name] = stored(memory.read(tensor), tensor.format, filters.get(tensor.name))
        for name in written:
            blank = np.zeros(tensors[name].storage_bytes, np.uint8).view(memory.dtype(tensors[name]))
            arrays[name] = blank.reshape(tensors[name].storage_shape)
        outside = GlobalMemory(arrays.items())
        for name, bits in zip(outside.names, outside.defined, strict=True):
            if name in written:
                bits[:] = 0
        nodes = self.nodes(number)
        work = self._work(task)
        copies = work.copies if isinstance(work, MoveWork) else ()
        runner = NotedTask(
            self._soc,
            outside,
            TileKernels(nodes, self._opset, memory, named),
            TileMoves(nodes[0], copies, self._opset, memory, named),
            memory.saturates,
        )
        for group in task.groups:
            for origin in group.origins:
                runner.run(group.block.template, origin)
        self.moved[number] = runner.timed, runner.moved
        defined = dict(zip(outside.names, outside.defined, strict=True))
        return {tensors[name]: _result(tensors[name], arrays[name], defined[name]) for name in written}

    def _filters(self, task: Task) -> Mapping[str, Filters]:
        work = self._work(task)
        if not isinstance(work, CubeWork) or work.b.format is not Format.FRACTAL_Z:
            return {}
        return {work.b.region: Filters.of(work)}


def _regions(blocks: Sequence[Block]) -> tuple[list[str], list[str]]:
    """Regions of global memory that blocks read, and those that they write."""
    read: dict[str, None] = {}
    written: dict[str, None] = {}
    for block in blocks:
        for instruction, _ in static(block.body):
            if isinstance(instruction, Move):
                for operand, found in ((instruction.src, read), (instruction.dst, written)):
                    if operand.buffer is Buffer.GM:
                        found[operand.name] = None
    return list(read), list(written)


def _result(tensor: Tensor, array: Array, defined: Array) -> Array:
    """The values of a tensor that blocks have stored.

    Raises:
        SimulationError: They have left out some.
    """
    flags = np.unpackbits(defined.view(np.uint8), bitorder="little", count=array.nbytes)
    whole = flags.reshape(*array.shape, array.itemsize).all(axis=-1).astype(array.dtype)
    if not logical(whole, tensor.static_shape, tensor.format).all():
        missing = int((logical(whole, tensor.static_shape, tensor.format) == 0).sum())
        raise SimulationError(
            f"tensor {tensor.name!r}",
            "must be stored as a whole",
            f"{missing} of {tensor.elements} elements are not",
            "please report this",
        )
    return np.ascontiguousarray(logical(array, tensor.static_shape, tensor.format))
