"""Models that the host runs: graphs with open shapes, and graphs with control flow.

`compile` gives a `DynamicModel` for them. Its pieces are compiled when their shapes come up and are kept, so
a second run with equal shapes compiles nothing. A graph whose shapes are all static in every branch and body
goes to the device as a whole ("sink"), where the task scheduler takes the decisions; all others are scheduled
by the host ("host"), which `reasons` explains.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ascendsim.compiler.composites import graph_saver
from ascendsim.compiler.dynamic_inputs import input_values, shapes_only
from ascendsim.compiler.model import CompiledModel
from ascendsim.compiler.settings import Settings
from ascendsim.core.arguments import checked
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import InputError
from ascendsim.core.files import file_stem
from ascendsim.graph.ir import Array, Graph, Tensor
from ascendsim.isa.program import MemoryPlan, Program, Task
from ascendsim.opset import OpSet
from ascendsim.passes.control_flow import host_reasons
from ascendsim.passes.fusion.report import FusionReport
from ascendsim.runtime.control_flow import Value
from ascendsim.runtime.host_program import timeline
from ascendsim.runtime.host_run import Choices, HostRun
from ascendsim.runtime.pieces import Pieces
from ascendsim.runtime.watch import Watch

CompilePiece = Callable[[Graph, Settings], CompiledModel]


@dataclass(frozen=True, slots=True)
class DynamicModel(CompiledModel):
    """A graph compiled as far as its shapes are known; the rest follows when they are.

    `source` is the user's graph, `graph` the one that runs, and `program` is empty; a result's `model` has
    what was really run.

    Attributes:
        pieces: What was compiled so far.
        schedule: "sink" or "host".
        reasons: Why the host has to schedule it; empty for "sink".
    """

    pieces: Pieces = field(default_factory=lambda: Pieces(OpSet(()), _nothing))
    schedule: str = "host"
    reasons: tuple[str, ...] = ()

    @checked()
    def tasks_of(self, node: str) -> tuple[Task, ...]:
        """Tasks are made when shapes are known and the way is clear, so a result has them.

        Raises:
            InputError: Always.
        """
        raise InputError(
            f"model {self.source.name!r}",
            "has tasks only when it runs",
            remedy="ask a result: result.model.tasks_of(...)",
        )

    @checked()
    def execute(
        self,
        inputs: Mapping[str, Value],
        values: Literal["device", "float32"] | None,
        choices: Choices,
        progress: Callable[[int, int], None] | None = None,
        watch: Watch | None = None,
    ) -> tuple[CompiledModel, dict[str, Array] | None]:
        """Runs the graph piece by piece.

        Args:
            inputs: By name, with or without values.
            values: How to compute; None = only types and shapes.
            choices: What to do where values would decide.
            progress: Called with (steps done, 0).
            watch: Sees the values.

        Returns:
            What ran as one compiled model, for the machine and the reports, and the outputs if they were
            computed.
        """
        run = HostRun(
            self.pieces,
            values,
            self.decided(inputs, choices),
            None if progress is None else lambda done: progress(done, 0),
            watch,
        )
        results = run.run(self.graph, [inputs[tensor.name] for tensor in self.graph.inputs])
        ends = {tensor.name: "input" for tensor in self.graph.inputs} | {
            value.home: "output" for value in results
        }
        graph, program = timeline(
            run.steps, self.source.name, self.soc.name, self.schedule, ends, self.arena()
        )
        own = [value_tensor(graph, name, value) for name, value in inputs.items()]
        graph.inputs[:] = [*own, *(tensor for tensor in graph.inputs if tensor not in own)]
        program = program.noting(host_reasons=self.reasons, gear=self.gear_of(inputs))
        done = executed_model(self, graph, program, self._report(run))
        known = all(value.array is not None for value in results)
        outputs = {
            t.name: v.array for t, v in zip(self.graph.outputs, results, strict=True) if v.array is not None
        }
        return done, outputs if known and values is not None else None

    @checked()
    def values_of(self, inputs: Mapping[str, Any]) -> dict[str, Value]:
        """The user's arrays as inputs of `graph`.

        Raises:
            InputError: If an input is missing, unknown, or of the wrong shape or type.
        """
        return input_values(self.graph, inputs)

    @checked()
    def shapes_of(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, Value]:
        """Inputs of `graph` without values, of its own shapes or those that the user gives.

        Raises:
            InputError: If a shape is open and not given, or does not fit.
        """
        return shapes_only(self.graph, self.opset, shapes)

    @checked()
    def decided(self, inputs: Mapping[str, Value], choices: Choices) -> Choices:
        """The user's choices and those that follow from the inputs."""
        return choices

    @checked()
    def gear_of(self, inputs: Mapping[str, Value]) -> str:
        """Which of its gears a run with these inputs takes; a model without gears has none."""
        return ""

    def arena(self) -> int:
        """Bytes that a run's memory for all but weights has at least."""
        return 0

    def _report(self, run: HostRun) -> FusionReport:
        """What fusion did in all pieces that ran."""
        total = FusionReport()
        for piece in dict.fromkeys(step.piece for step in run.steps):
            compiled = piece.compiled
            if isinstance(compiled, CompiledModel):
                total.records += compiled.fusion.records
                total.scopes += compiled.fusion.scopes
                total.switched_off.update(compiled.fusion.switched_off)
                total.warnings += [
                    warning for warning in compiled.fusion.warnings if warning not in total.warnings
                ]
        return total

    def __repr__(self) -> str:
        why = f" ({self.reasons[0]})" if self.reasons else ""
        return f"DynamicModel({self.source.name!r}, soc={self.soc.name}, schedule={self.schedule}{why})"


def executed_model(
    model: CompiledModel, graph: Graph, program: Program, report: FusionReport | None = None
) -> CompiledModel:
    """All that one run of a dynamic model executed, as one model: `program` has each task as often as it ran,
    `graph` each node once.
    """
    fusion = FusionReport() if report is None else report
    return CompiledModel(
        graph, program, model.soc, model.opset, model.source, model.options, fusion, planned=False
    )


def _nothing(graph: Graph, inner: Sequence[int]) -> CompiledModel:
    raise InputError(f"graph {graph.name!r}", "belongs to no model")


def value_tensor(graph: Graph, name: str, value: Value) -> Tensor:
    """The tensor of an input in the graph of what ran; a piece may have it under this name already."""
    known = graph.tensors.get(name)
    if known is not None and known in graph.inputs:
        return known
    return graph.add_tensor(Tensor(graph.fresh(name), DType.of(value.dtype), value.shape))


def compile_dynamic(graph: Graph, settings: Settings, compile_piece: CompilePiece) -> DynamicModel:
    """The model of a graph with open shapes or control flow.

    Args:
        graph: The user's graph, prepared.
        settings: Of the whole.
        compile_piece: Compiles a static graph without control flow.

    Raises:
        InputError: If an option does not go with such a graph.
    """
    options = settings.options
    if options.output_type is not None:
        raise InputError(
            "option output_type",
            "does not go with control flow or open shapes",
            options.output_type,
            "leave it out",
        )
    reasons = host_reasons(graph)
    schedule = "host" if options.schedule == "sink" and reasons else options.schedule
    whole = settings.scheduled(schedule)
    dumps = 0

    def compiled(piece: Graph, inner: Sequence[int]) -> CompiledModel:
        nonlocal dumps
        kept = ""
        if options.precision_mode == "force_fp16":  # the other modes decide operator by operator
            ends = [
                piece.outputs[number]
                for number in inner
                if piece.outputs[number].origin_dtype is DType.FLOAT32
                and not _kept(piece.outputs[number], settings)
            ]
            kept = ";".join(
                f"{end.producer.name}:{end.index}:FP16" for end in ends if end.producer is not None
            )
        own: dict[str, Any] = {"output_type": kept or None}
        if options.graphs_folder is not None:  # a folder for each piece
            dumps += 1
            own["save_graphs"] = Path(options.graphs_folder) / f"{dumps:03}_{file_stem(piece.name)}"
        return compile_piece(piece, whole.for_piece(**own))

    if options.graphs_folder is not None:
        graph_saver(options.graphs_folder)("whole_graph", graph)
    program = Program((), MemoryPlan({}, 0, 0), schedule)
    pieces = Pieces(settings.opset, compiled)
    return DynamicModel(
        graph,
        program,
        settings.soc,
        pieces.opset,
        graph,
        options,
        planned=False,
        pieces=pieces,
        schedule=schedule,
        reasons=reasons,
    )


def _kept(tensor: Tensor, settings: Settings) -> bool:
    """Whether what makes a tensor stays in float32."""
    return tensor.producer is not None and settings.keep.holds(tensor.producer, settings.opset)


def with_shapes(model: CompiledModel, shapes: Mapping[str, Sequence[int]] | None) -> Graph:
    """The model's graph, or one that has its inputs with the shapes that the user gives.

    Raises:
        InputError: If a shape is open and not given, or does not fit.
    """
    if not isinstance(model, DynamicModel):
        if shapes:
            raise InputError("option shapes", "goes with open shapes", remedy="this model has none")
        return model.graph
    inputs, values = Graph(model.source.name), model.shapes_of(shapes or {})
    for name, value in values.items():
        if value.array is None:  # else the model knows it itself: the gear
            inputs.add_input(name, DType.of(value.dtype), value.shape)
    return inputs
