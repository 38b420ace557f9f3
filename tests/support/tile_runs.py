"""Tasks run by the blocks that were timed, beside what their operators give from the same inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ascendsim as asim
from ascendsim.api.tile_values import tiles_of
from ascendsim.compiler.model import CompiledModel
from ascendsim.runtime import checked_inputs
from ascendsim.runtime.device_memory import DeviceMemory
from ascendsim.runtime.evaluate import compute_nodes


@dataclass(frozen=True)
class TaskRun:
    """One tensor that a task makes.

    Attributes:
        task: Number of the task.
        name: Operators, joined by "+".
        lacks: Why its blocks cannot be run; "" if they were.
        tiles, operators: Its values either way.
        moved: Bytes that the task moves, as they are timed and as its blocks move them; of the first tensor.
    """

    task: int
    name: str
    lacks: str
    tiles: NDArray[Any]
    operators: NDArray[Any]
    moved: tuple[int, int] = (0, 0)

    @property
    def equal(self) -> bool:
        """Whether both have the same values; NaN is equal to NaN."""
        return np.array_equal(self.tiles, self.operators, equal_nan=self.tiles.dtype.kind == "f")

    @property
    def difference(self) -> float:
        """The largest difference, as a share of the largest value."""
        given, wanted = self.tiles.astype(np.float64), self.operators.astype(np.float64)
        largest = float(np.abs(wanted).max(initial=0.0))
        return float(np.abs(given - wanted).max(initial=0.0)) / largest if largest else 0.0


def task_runs(model: CompiledModel, seed: int = 0) -> Iterator[TaskRun]:
    """Every task of a model on AI Cores, each from what the operators before it have made."""
    tiles = tiles_of(model)
    memory = DeviceMemory(model.graph, model.program.memory, "device")
    for name, array in checked_inputs(model.graph, asim.random_inputs(model, seed)).items():
        tensor = model.graph.tensors[name]
        memory.write(tensor, np.asarray(array, memory.dtype(tensor)))
    left = {task.nodes: 0 for task in model.program.tasks}
    for task in model.program.tasks:
        left[task.nodes] += 1
    for task in model.program.tasks:
        nodes = tiles.nodes(task.id)
        lacks = tiles.lacks(task.id)
        found = {} if lacks else tiles.run(task.id, memory)
        left[task.nodes] -= 1
        if not left[task.nodes]:
            compute_nodes(nodes, model.opset, memory)
        name = "+".join(node.op_type for node in nodes)
        if lacks and task.kind.on_cores:
            yield TaskRun(task.id, name, lacks, np.zeros(0), np.zeros(0))
        for number, (tensor, array) in enumerate(found.items()):
            moved = tiles.moved[task.id] if number == 0 else (0, 0)
            yield TaskRun(task.id, name, "", array, memory.read(tensor).copy(), moved)
