"""Values tile by tile: which tasks of a model say what their blocks do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ascendsim.compiler.model import CompiledModel
from ascendsim.compiler.noted import noted_program
from ascendsim.core.errors import FIXED_SHAPES, InputError
from ascendsim.core.table import Table
from ascendsim.isa.program import Task
from ascendsim.runtime.tiles import Lacking, Tiles
from ascendsim.trace.records import Trace


@dataclass(frozen=True, slots=True)
class TileCoverage:
    """How much of the work on AI Cores can be evaluated tile by tile.

    Attributes:
        tasks, bytes, time: Shares from 0 to 1: of tasks, of bytes that they move, of their time.
        table: One line a kind of operator and reason: how many tasks, their bytes and time, and what they
            lack ("" = nothing).
    """

    tasks: float
    bytes: float
    time: float
    table: Table

    @property
    def lacking(self) -> dict[str, int]:
        """Tasks that cannot be evaluated, by operator."""
        found: dict[str, int] = {}
        for row in self.table.records():
            if row["Lacks"]:
                found[str(row["OP Type"])] = found.get(str(row["OP Type"]), 0) + int(row["Tasks"] or 0)
        return found

    def __str__(self) -> str:
        return (
            f"effects: {self.tasks:.0%} of the tasks on AI Cores, {self.bytes:.0%} of their bytes, "
            f"{self.time:.0%} of their time"
        )


def tiles_of(model: CompiledModel) -> Tiles:
    """What runs the blocks of a model.

    Raises:
        InputError: If the model has open shapes or control flow.
    """
    if type(model) is not CompiledModel:
        rule = "must have fixed shapes and no control flow for values tile by tile"
        raise InputError(f"model {model.source.name!r}", rule, remedy=FIXED_SHAPES)
    return Tiles(model.graph, model.program, noted_program(model), model.opset, model.soc, model.lowering)


def check_lacking(tiles: Tiles, model: CompiledModel, lacking: Lacking) -> None:
    """Refuses a model with tasks that do not say what they do, unless operators may compute these.

    Raises:
        InputError: Names the operators.
    """
    if lacking == "operators":
        return
    missing: dict[str, int] = {}
    for task in model.program.tasks:
        if task.kind.on_cores and tiles.lacks(task.id):
            name = _name(tiles, task)
            missing[name] = missing.get(name, 0) + 1
    if missing:
        listed = ", ".join(f"{name} ({count})" for name, count in sorted(missing.items()))
        raise InputError(
            "values tile by tile",
            "need tasks that say what their blocks do",
            f"these do not: {listed}",
            'pass lacking="operators" to compute them by their operators',
        )


def coverage(model: CompiledModel, trace: Trace) -> TileCoverage:
    """What can be evaluated of a run.

    Raises:
        InputError: If the model has open shapes or control flow.
    """
    tiles = tiles_of(model)
    time = {record.task: record.end - record.start for record in trace.tasks}
    on_cores = [task for task in model.program.tasks if task.kind.on_cores]
    lines: dict[tuple[str, str], list[float]] = {}
    for task in on_cores:
        line = lines.setdefault((_name(tiles, task), tiles.lacks(task.id)), [0, 0, 0.0])
        line[0] += 1
        line[1] += _bytes(task)
        line[2] += time[task.id] * trace.tick_seconds * 1e6

    def share(measure: Callable[[Task], float]) -> float:
        total = sum(map(measure, on_cores))
        return sum(measure(task) for task in on_cores if not tiles.lacks(task.id)) / total if total else 1.0

    rows = [(name, int(line[0]), int(line[1]), line[2], why) for (name, why), line in lines.items()]
    rows.sort(key=lambda row: (bool(row[4]), -row[3]))
    table = Table("tile_coverage", ("OP Type", "Tasks", "Bytes", "Time(us)", "Lacks"), tuple(rows))
    return TileCoverage(
        share(lambda task: 1.0), share(_bytes), share(lambda task: float(time[task.id])), table
    )


def _name(tiles: Tiles, task: Task) -> str:
    return "+".join(node.op_type for node in tiles.nodes(task.id))


def _bytes(task: Task) -> float:
    return float(sum(access.moved_bytes for access in task.accesses))
