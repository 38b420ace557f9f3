"""Models with dynamic gears: a few known input shapes in one compiled model, loaded once; a run takes the
gear that its inputs fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ascendsim.compiler.dynamic import CompilePiece, DynamicModel, compile_dynamic, executed_model
from ascendsim.compiler.dynamic_inputs import input_values, shapes_only
from ascendsim.compiler.model import CompiledModel
from ascendsim.compiler.settings import Settings
from ascendsim.core.arguments import checked
from ascendsim.core.errors import AscendSimError, InputError
from ascendsim.core.table import Table
from ascendsim.graph.ir import Array, Graph
from ascendsim.isa.program import Task
from ascendsim.passes.control_flow import control_flow_nodes
from ascendsim.passes.gears import CASE, SHAPE_DATA, GearSettings, clone_gears, parse_gears
from ascendsim.runtime.control_flow import Value
from ascendsim.runtime.host_program import timeline
from ascendsim.runtime.host_run import Choices, HostRun, Step


@dataclass(frozen=True, slots=True)
class GearedModel(DynamicModel):
    """A model with one static copy of the network for each gear.

    `graph` is the one with MapIndex, Case and the copies.

    Attributes:
        network: The graph that was copied, with open dimensions.
        settings: The gears.
        gear_bytes: By gear: bytes of device memory for inputs, outputs, activations and workspaces, and for
            weights.
        loaded: The tasks of all gears, one gear after the other.
    """

    network: Graph = field(default_factory=Graph)
    settings: GearSettings = field(default_factory=lambda: GearSettings("dynamic_dims", (), ()))
    gear_bytes: Mapping[tuple[int, ...], tuple[int, int]] = field(default_factory=dict)
    loaded: CompiledModel | None = None

    @property
    def gears(self) -> tuple[tuple[int, ...], ...]:
        """The gears, in the user's order."""
        return self.settings.gears

    @property
    def arena_bytes(self) -> int:
        """Device memory for activations, inputs and outputs: that of the largest gear, since one runs at a
        time.
        """
        return max(arena for arena, _ in self.gear_bytes.values())

    @property
    def weight_bytes(self) -> int:
        """Device memory for weights; what the gears have in common lies there once."""
        return self.program.memory.weight_bytes

    @checked()
    def tasks_of(self, node: str) -> tuple[Task, ...]:
        """The tasks of all gears that run a node; names as a run of the gear has them:
        "ascend_mbatch_case/ascend_mbatch_batch_0/conv".
        """
        assert self.loaded is not None
        return self.loaded.tasks_of(node)

    @checked()
    def shapes_of_gear(self, gear: Sequence[int]) -> dict[str, tuple[int, ...]]:
        """Input shapes under a gear, by name."""
        return self.settings.shapes(self.network, gear)

    def table(self) -> Table:
        """One row a gear: its input shapes, and the device memory that it alone would take."""
        rows = []
        for gear, (arena, weights) in self.gear_bytes.items():
            shapes = "; ".join(f"{name}: {list(shape)}" for name, shape in self.shapes_of_gear(gear).items())
            rows.append((",".join(map(str, gear)), shapes, arena / 2**20, weights / 2**20))
        return Table("gears", ("Gear", "Inputs", "Memory(MiB)", "Weights(MiB)"), tuple(rows))

    @checked()
    def values_of(self, inputs: Mapping[str, Any]) -> dict[str, Value]:
        """The user's arrays and the extra input, which says which gear they are of; who gives it too has it
        checked against the arrays.

        Raises:
            InputError: If an input does not fit, or the gear that is given is not that of the arrays.
        """
        rest = {name: array for name, array in inputs.items() if name != SHAPE_DATA}
        values = self._with_gear(input_values(self.network, rest))
        if SHAPE_DATA in inputs:
            _same_gear(np.asarray(inputs[SHAPE_DATA]), _gear(values), self.settings.text())
        return values

    @checked()
    def shapes_of(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, Value]:
        """Inputs without values; without shapes those of the largest gear."""
        if not shapes:
            gear = max(self.gear_bytes, key=lambda gear: self.gear_bytes[gear][0])
            shapes = self.shapes_of_gear(gear)
        extra, wanted = shapes.get(SHAPE_DATA), (len(self.gears[0]),)
        if extra is not None and tuple(extra) != wanted:
            raise InputError(f"option shapes: input {SHAPE_DATA!r}", f"must be {list(wanted)}", repr(extra))
        shapes = {name: shape for name, shape in shapes.items() if name != SHAPE_DATA}
        return self._with_gear(shapes_only(self.network, self.opset, shapes))

    def _with_gear(self, values: dict[str, Value]) -> dict[str, Value]:
        number = self.settings.find(self.network, {name: value.shape for name, value in values.items()})
        actual = np.array(self.gears[number], np.int32)
        return {**values, SHAPE_DATA: Value(actual.dtype, actual.shape, actual)}

    @checked()
    def decided(self, inputs: Mapping[str, Value], choices: Choices) -> Choices:
        """The gear that the inputs say."""
        return replace(choices, branches={**choices.branches, CASE: self.gears.index(_gear(inputs))})

    @checked()
    def gear_of(self, inputs: Mapping[str, Value]) -> str:
        """The gear that runs, and all there are."""
        return ",".join(map(str, _gear(inputs))) + f" of {self.settings.text()}"

    def arena(self) -> int:
        """Bytes that a run's arena has at least."""
        return self.arena_bytes

    def __repr__(self) -> str:
        return (
            f"GearedModel({self.source.name!r}, soc={self.soc.name}, "
            f"{self.settings.kind}={self.settings.text()})"
        )


def _same_gear(given: Array, gear: tuple[int, ...], gears: str) -> None:
    subject, actual = f"input {SHAPE_DATA!r}", ",".join(map(str, gear))
    if given.dtype.kind not in "iu" or given.shape != (len(gear),):
        raise InputError(
            subject,
            f"must be {len(gear)} whole numbers, one of the gears {gears}",
            f"{given.dtype}{list(given.shape)}",
        )
    if tuple(given.tolist()) != gear:
        raise InputError(
            subject,
            f"must be the gear that the other inputs have, {actual}",
            ",".join(map(str, given.tolist())),
            f"pass [{actual}], or leave it out: run fills it in",
        )


def _gear(inputs: Mapping[str, Value]) -> tuple[int, ...]:
    actual = inputs[SHAPE_DATA].array
    assert actual is not None
    return tuple(actual.tolist())


def compile_gears(graph: Graph, settings: Settings, compile_piece: CompilePiece) -> GearedModel:
    """Compiles a graph once for every gear.

    Args:
        graph: With open dimensions in its inputs.
        settings: Of the whole; the gear option that it holds says which gears.
        compile_piece: Compiles a static graph.

    Raises:
        InputError: If the option breaks ATC's rules; has ATC's error code.
        CompileError: If shapes inside the network depend on data.
    """
    ((kind, value),) = settings.gears.items()
    gears = parse_gears(kind, value, graph, settings.soc.launch.max_gears)
    geared = clone_gears(graph, gears, settings.opset)
    base = compile_dynamic(geared, settings, compile_piece)
    names = ("program", "soc", "opset", "options", "fusion", "planned", "pieces", "schedule", "reasons")
    model = GearedModel(
        graph=geared,
        source=graph,
        network=graph,
        settings=gears,
        **{name: getattr(base, name) for name in names},
    )
    return _loaded(model)


def _loaded(model: GearedModel) -> GearedModel:
    """Compiles every gear and adds up the memory of the whole."""
    steps: list[Step] = []
    memory = {}
    for gear in model.gears:
        shapes = model.shapes_of_gear(gear)
        values = model._with_gear(shapes_only(model.network, model.opset, shapes))
        run = _any_way(model, values)
        _, program = timeline(run, model.source.name, model.soc.name, model.schedule, {})
        memory[gear] = (program.memory.peak_bytes, program.memory.weight_bytes)
        steps += run
    graph, program = timeline(steps, model.source.name, model.soc.name, model.schedule, {})
    loaded = executed_model(model, graph, program)
    return replace(model, gear_bytes=memory, program=replace(program, tasks=()), loaded=loaded)


def _any_way(model: GearedModel, values: Mapping[str, Value]) -> list[Step]:
    """Steps of a gear with every branch of the network taken once, one way after the other; a branch that
    does not fit is left out.
    """
    most = max((len([*node.subgraphs]) for node in control_flow_nodes(model.network)), default=1)
    steps: list[Step] = []
    failure: AscendSimError | None = None
    for way in range(most):
        run = HostRun(model.pieces, None, replace(model.decided(values, Choices()), other=way))
        try:
            run.run(model.graph, [values[tensor.name] for tensor in model.graph.inputs])
        except AscendSimError as error:
            failure = error
            continue
        steps += run.steps
    if not steps and failure is not None:
        raise failure
    return steps
