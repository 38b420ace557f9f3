"""The stages of a compilation, in their order: the one place that says what happens when.

A stage works on a `Compilation`, which holds the graph as it is by then and what was found out on the way.
`table()` prints the stages; `docs/architecture.md` has that table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ascendsim.compiler.before import UnitsBefore
from ascendsim.compiler.buffers import BufferReport, fuse_l1_and_l2
from ascendsim.compiler.cann_versions import cube_in_float16
from ascendsim.compiler.model import CompiledModel
from ascendsim.compiler.profile_options import takes_open_shapes
from ascendsim.compiler.settings import Settings
from ascendsim.compiler.tilings import tilings_of
from ascendsim.core.errors import CompileError, InputError, UnsupportedOperatorError, suggest
from ascendsim.core.formats import Format
from ascendsim.core.table import Table
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Graph, Node
from ascendsim.isa.program import Program
from ascendsim.lower import LowerOptions, lower_graph
from ascendsim.ops.fused.chain import chain_work
from ascendsim.ops.shared.aicpu import ai_cpu_rules
from ascendsim.opset import OpSet
from ascendsim.opset.lower_context import FORM, OPEN_SHAPES
from ascendsim.passes.aipp import insert_aipp
from ascendsim.passes.engine import GraphEngine, select_outputs
from ascendsim.passes.fusion.report import FusionReport
from ascendsim.passes.host_inputs import copy_inputs
from ascendsim.passes.host_reads import read_tensors
from ascendsim.passes.layout import AssignFormats
from ascendsim.passes.precision.assign import ApplyPrecision
from ascendsim.passes.precision.float_status import read_status
from ascendsim.passes.precision.integer_sums import join_integer_products
from ascendsim.passes.precision.output_type import output_types
from ascendsim.passes.quant.batches import unfold_batches
from ascendsim.passes.quant.early import quantise_early, quantise_what_leaves
from ascendsim.passes.quant.products import scale_products
from ascendsim.passes.quant.qdq import join_quantised
from ascendsim.passes.quant.roundings import leave_out_roundings
from ascendsim.passes.rewriting.passes import run_passes

if TYPE_CHECKING:
    from ascendsim.core.dtypes import DType
    from ascendsim.passes.graph_kernel import GraphKernelReport


@dataclass(slots=True)
class Compilation:
    """A graph on its way through the stages.

    Attributes:
        source: The user's graph, which stays as it is.
        settings: The options, checked.
        graph: The graph as the stages so far left it.
        engine: The graph engine, with its report.
        fusion: What fusion did.
        result_types: Type asked for of each output.
        lowering: How the graph is lowered.
        composites: What graph-kernel fusion made.
        buffers: What L1 and L2 fusion did.
        program: The program, after the last stage.
    """

    source: Graph
    settings: Settings
    graph: Graph
    engine: GraphEngine
    fusion: FusionReport
    result_types: tuple[DType | None, ...] = ()
    lowering: LowerOptions = field(default_factory=LowerOptions)
    composites: GraphKernelReport | None = None
    buffers: BufferReport = field(default_factory=BufferReport)
    program: Program | None = None

    @classmethod
    def of(cls, graph: Graph, settings: Settings) -> Compilation:
        """The start: a copy of the user's graph.

        Raises:
            UnsupportedOperatorError: If operators are unknown; lists all of them.
        """
        opset = settings.opset
        check_operators(graph, opset)
        engine = GraphEngine(opset, settings.engine)
        if settings.scheduling.mode == "eager" or is_single_kernel(graph):
            engine.stop()
        chip, profile, scheduling = settings.soc, settings.profile, settings.scheduling
        on_cpu = ai_cpu_rules(chip.kernels.ai_cpu_table)
        flags = {
            **profile,
            **{f"{FORM}{name}": form for name, form in settings.forms.items()},
            OPEN_SHAPES: takes_open_shapes(profile, scheduling.mode),
        }
        lowering = LowerOptions(
            aicpu_types=on_cpu,
            flags=flags,
            chain=chain_work,
            memory=scheduling.memory,
            streams=scheduling.streams,
            known=settings.units,
            before=UnitsBefore(chip, opset, on_cpu, flags),
            tilings=tilings_of(chip, profile),
        )
        return cls(
            graph, settings, copy_graph(graph), engine, settings.fusion.new_report(), lowering=lowering
        )

    @property
    def opset(self) -> OpSet:
        """Operators, the user's own among them."""
        return self.settings.opset

    def model(self) -> CompiledModel:
        """What the stages have made.

        Raises:
            CompileError: If the last stage has not run.
        """
        if self.program is None:
            raise CompileError(
                f"graph {self.source.name!r}", "has no program before the last stage", remedy="run all stages"
            )
        return CompiledModel(
            self.graph,
            self.program,
            self.settings.soc,
            self.opset,
            self.source,
            self.settings.options,
            self.fusion,
            self.composites,
            self.buffers,
            self.engine.report,
            replace(self.lowering, known=None, tilings=None),
        )


@dataclass(frozen=True, slots=True)
class Stage:
    """One step.

    Attributes:
        name: What users call it.
        takes, gives: What the graph is before and after.
        run: Does it, in place.
    """

    name: str
    takes: str
    gives: str
    run: Callable[[Compilation], None]


def check_operators(graph: Graph, opset: OpSet) -> None:
    """Makes sure that all operators of a graph are known.

    Raises:
        UnsupportedOperatorError: If not; lists all that are unknown.
    """
    unknown = [(OpSet.written(node), node.name) for node in _all_nodes(graph) if node not in opset]
    if unknown:
        raise UnsupportedOperatorError(unknown)


def is_single_kernel(graph: Graph) -> bool:
    """Whether a graph is a composite file: one kernel, which stays as it was generated."""
    return bool(graph.metadata.get("format") == "composite")


def _ends(work: Compilation) -> None:
    options = work.settings.options
    if work.settings.aipp:
        insert_aipp(work.graph, work.settings.aipp)
    if options.outputs is not None:
        select_outputs(work.graph, options.outputs)
    work.result_types = output_types(work.graph, options.output_type)
    if not is_single_kernel(work.graph):
        join_integer_products(work.graph)
        work.fusion.records.extend(join_quantised(work.graph, work.opset))
        work.fusion.records.extend(scale_products(work.graph, work.opset))
        work.fusion.records.extend(unfold_batches(work.graph, work.opset))
        if work.settings.fusion.level.graph:
            work.fusion.records.extend(quantise_early(work.graph, work.opset))
            work.fusion.records.extend(leave_out_roundings(work.graph, work.opset))
        if work.settings.soc.kernels.overflow_register:
            read_status(work.graph, work.opset)


def _engine_before(work: Compilation) -> None:
    work.engine.prepare(work.graph)


def _graph_fusion(work: Compilation) -> None:
    work.settings.fusion.fuse(work.graph, work.settings.soc, work.opset, work.fusion)


def _engine_after(work: Compilation) -> None:
    work.engine.finish(work.graph)


def _composite_marks(work: Compilation) -> None:
    if work.settings.composites is not None:
        work.settings.composites.mark(work.graph, work.opset)


def _types_and_formats(work: Compilation) -> None:
    soc, settings = work.settings.soc, work.settings
    precision = ApplyPrecision(
        work.opset,
        settings.options.precision_mode,
        frozenset(soc.cube.cycles_per_block),
        cube_in_float16(settings.options.cann),
        work.result_types,
        settings.keep,
        settings.mix,
    )
    in_fractals = settings.profile["weight_format"] == Format.FRACTAL_NZ.value
    formats = AssignFormats(work.opset, soc, int(settings.profile["format_reach"]), in_fractals)
    run_passes(work.graph, (precision, formats), check="last")


def _device_fusion(work: Compilation) -> None:
    copy_inputs(work.graph, work.settings.options.host_inputs, work.settings.soc.launch)
    read_tensors(work.graph, work.settings.options.host_reads, work.settings.soc.launch)
    work.fusion.records.extend(quantise_what_leaves(work.graph, work.opset))
    work.settings.fusion.fuse(work.graph, work.settings.soc, work.opset, work.fusion, second_round=True)


def _tasks(work: Compilation) -> None:
    settings = work.settings
    if settings.composites is not None:
        work.graph, work.composites = settings.composites.fuse(
            work.graph, settings.soc, work.opset, work.lowering
        )
    settings.fusion.join_tasks(work.graph, settings.soc, work.opset, work.fusion, work.lowering)


def _order(work: Compilation) -> None:
    work.settings.scheduling.sort(work.graph)


def _lower(work: Compilation) -> None:
    settings = work.settings
    if settings.fusion.level.l1_and_l2:
        buffers = settings.options.buffer_optimize
        program, work.buffers = fuse_l1_and_l2(work.graph, settings.soc, work.opset, work.lowering, buffers)
    else:
        program = lower_graph(work.graph, settings.soc, work.opset, options=work.lowering)
    work.program = replace(program, mode=settings.scheduling.mode)


# What runs for every graph; one with open shapes or control flow leaves the pipeline behind these, its pieces
# run through all stages.
PREPARATION: tuple[Stage, ...] = (
    Stage(
        "ends",
        "the user's graph",
        "images by AIPP in front, the outputs that are asked for, operators between quantised tensors, "
        "the chip's check for overflow",
        _ends,
    ),
    Stage("engine", "operators of the model", "constants folded, common and dead parts gone", _engine_before),
)
STAGES: tuple[Stage, ...] = (
    *PREPARATION,
    Stage("graph-fusion", "operators of the model", "operators of CANN, joined by algebra", _graph_fusion),
    Stage("engine-after", "what fusion left", "the same, cleaned up", _engine_after),
    Stage(
        "composite-marks", "operators", "marks of what graph-kernel fusion may take (fusion=graph-kernel)",
        _composite_marks,
    ),
    Stage(
        "types-and-formats", "the model's types", "the device's, Cast and TransData in between",
        _types_and_formats,
    ),
    Stage(
        "device-fusion", "types and formats",
        "copies from the host and to it; rules that look at types have run", _device_fusion,
    ),
    Stage("tasks", "one operator a task", "composites (fusion=graph-kernel), scopes of UB fusion", _tasks),
    Stage("order", "any order", "the order of execution", _order),
    Stage("program", "tasks", "tiles, L1 and L2 fusion, streams, memory plan: the program", _lower),
)  # fmt: skip


def run_stages(
    work: Compilation, stages: tuple[Stage, ...], dump: Callable[[str, Graph], None] | None = None
) -> None:
    """Runs stages one after the other.

    Args:
        work: Changed in place.
        stages: In order.
        dump: Called with "<number>_<stage>" and the graph after each.
    """
    for stage in stages:
        stage.run(work)
        if dump is not None:
            dump(f"{STAGES.index(stage):02}_{stage.name}", work.graph)


def up_to(name: str | None) -> tuple[Stage, ...]:
    """The stages up to and with one; all for None.

    Raises:
        InputError: If there is no such stage.
    """
    names = [stage.name for stage in STAGES]
    if name is not None and name not in names:
        raise InputError("option stop_after", "must name a stage", repr(name), suggest(str(name), names))
    return STAGES if name is None else STAGES[: names.index(name) + 1]


def table() -> Table:
    """The stages, to be printed."""
    return Table(
        "stages",
        ("Stage", "Takes", "Gives"),
        tuple((stage.name, stage.takes, stage.gives) for stage in STAGES),
    )


def _all_nodes(graph: Graph) -> list[Node]:
    return [
        inner
        for node in graph.nodes
        for inner in (node, *(n for _, body in node.subgraphs for n in _all_nodes(body)))
    ]
