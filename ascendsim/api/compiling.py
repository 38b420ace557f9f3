"""`compile`: a graph and a chip become a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

from ascendsim import soc as chips
from ascendsim.api.buffers import BufferReport, fuse_l1_and_l2
from ascendsim.api.fusion import FusionSettings
from ascendsim.api.graph_kernel import GraphKernelFlow, graph_saver
from ascendsim.api.memory import MemoryReport
from ascendsim.api.naming import tasks_named
from ascendsim.api.optimizing import new_engine
from ascendsim.api.options import profile_options
from ascendsim.api.scheduling import Scheduling
from ascendsim.api.tilings import tilings_of
from ascendsim.core.arguments import checked
from ascendsim.core.collection import without_collection
from ascendsim.core.errors import InputError
from ascendsim.core.files import path_option
from ascendsim.frontends.aipp import read_aipp_file
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Graph
from ascendsim.graph.sorting import STABLE
from ascendsim.isa.listing import listing
from ascendsim.isa.program import Program, Task
from ascendsim.lower import LowerOptions, lower_graph
from ascendsim.ops import default_opset
from ascendsim.ops.aicpu import aicpu_types
from ascendsim.ops.fused_chain import chain_work
from ascendsim.opset import OpSet
from ascendsim.passes.aipp import insert_aipp
from ascendsim.passes.control_flow import is_dynamic
from ascendsim.passes.fusion.report import FusionReport
from ascendsim.passes.fusion.rule import FusionRule
from ascendsim.passes.gears import GearOption
from ascendsim.passes.graph_engine import EngineReport, select_outputs
from ascendsim.passes.layout import AssignFormats
from ascendsim.passes.manager import PassManager
from ascendsim.passes.output_type import output_types
from ascendsim.passes.precision import ApplyPrecision
from ascendsim.soc import SocSpec

if TYPE_CHECKING:
    from ascendsim.passes.graph_kernel import GraphKernelReport


@dataclass(frozen=True, slots=True)
class CompiledModel:
    """A graph compiled for a chip.

    Attributes:
        graph: The device graph: precision and formats assigned, Cast and TransData nodes in place.
        program: Tasks and memory plan.
        soc: The chip, overrides applied.
        opset: Operators that the graph was compiled with.
        source: The graph as the user gave it.
        fusion: What fusion matched and changed, and which passes were off.
        graph_kernel: The composites of graph-kernel fusion and their price; None in other flows.
        buffers: What L1 and L2 fusion did: convolutions joined through L1, tensors in L2, blocks cut into smaller batches.
        optimized: What the graph engine did.
        lowering: How the device graph was lowered.
    """

    graph: Graph
    program: Program
    soc: SocSpec
    opset: OpSet
    source: Graph
    fusion: FusionReport = field(default_factory=FusionReport)
    graph_kernel: GraphKernelReport | None = None
    buffers: BufferReport = field(default_factory=BufferReport)
    optimized: EngineReport = field(default_factory=EngineReport)
    lowering: LowerOptions = field(default_factory=LowerOptions)

    @checked()
    def tasks_of(self, node: str) -> tuple[Task, ...]:
        """The tasks that run a node, a fused operator, a scope or what matches a shell pattern; see `api.naming.tasks_named`.

        Raises:
            GraphError: If nothing has that name (suggests the nearest one).
        """
        return tasks_named(self.graph, self.program, node)

    @property
    def memory(self) -> MemoryReport:
        """Where everything lies in device memory, against the largest live set and other planners."""
        return MemoryReport.of(self.source.name, self.graph, self.program)

    @checked()
    def listing(self, node: str) -> str:
        """The block programs of a node (any name that `tasks_of` takes), to be read by a person."""
        tasks = self.tasks_of(node)
        if not tasks:
            return f"node {node} runs no task: its output is its input's memory under another shape\n"
        parts = []
        for task in tasks:
            parts.append(f"task {task.id} {task.name} ({task.kind.value}, {task.block_dim} blocks)\n")
            if not task.groups:
                parts.append(f"  {task.cpu_us:.3f} us of one AI CPU core\n")
            for number, group in enumerate(task.groups):
                parts.append(f"block group {number}: {group.count} x {group.block.core.value}\n{listing(group.block)}")
        return "".join(parts)

    def __repr__(self) -> str:
        return f"CompiledModel({self.source.name!r}, soc={self.soc.name}, {len(self.program.tasks)} tasks)"


@without_collection
@checked(
    graph="asim.load and asim.GraphBuilder make one",
    soc="`ascendsim soc list` shows the names of chips",
    passes="write passes=[MyRule()]",
    set='write set={"l2.size": "16MiB"}',
    options='write options={"aicpu_pow": True}',
)
def compile(
    graph: Graph,
    soc: str | PathLike[str] | SocSpec = "Ascend310",
    *,
    set: Mapping[str, str | int | float] | None = None,
    precision_mode: str = "force_fp16",
    aicore_num: int | None = None,
    fusion: str = "all",
    fusion_switch_file: str | PathLike[str] | None = None,
    passes: Sequence[FusionRule] = (),
    optimization_switch: str | None = None,
    oo_level: str = "O3",
    buffer_optimize: str = "l2_optimize",
    output_type: str | None = None,
    schedule: str = "sink",
    enable_single_stream: bool = False,
    multi_stream_parallel_mode: str = "",
    topo_sorting_mode: int = STABLE,
    disable_reuse_memory: bool = False,
    insert_op_conf: str | PathLike[str] | None = None,
    dynamic_batch_size: GearOption | None = None,
    dynamic_image_size: GearOption | None = None,
    dynamic_dims: GearOption | None = None,
    options: Mapping[str, bool | int | str] | None = None,
    graph_kernel_flags: str | Mapping[str, Any] | None = None,
    save_graphs: str | PathLike[str] | None = None,
    optimize: bool | Sequence[str] = True,
    outputs: Sequence[str] | str | None = None,
    oo_constant_folding: bool = True,
    oo_dead_code_elimination: bool = True,
) -> CompiledModel:
    """Compiles a graph for a chip: fusion, precision, formats, tiling, tasks and memory plan. The graph itself stays as it is.

    Args:
        graph: From `load` or `GraphBuilder`. If it has control flow or open shapes, the result is a `DynamicModel`, which compiles the
            pieces of the graph when their shapes are known; see `api.dynamic`.
        soc: Name of a chip (`ascendsim soc list`), path of a chip's TOML file, or a `SocSpec`.
        set: Changes to the chip by dotted key, for example `{"l2.size": "16MiB"}`.
        precision_mode: ATC's option: "force_fp16", "allow_fp32_to_fp16", "must_keep_origin_dtype", "force_fp32",
            "cube_fp16in_fp32out", "allow_mix_precision".
        aicore_num: Number of AI Cores to use (ATC's option); all by default.
        fusion: How much is fused, each level with those before it: "off", "graph", "ub", "all"; or "graph-kernel", MindSpore's flow,
            which makes composites of basic operators in place of UB fusion.
        fusion_switch_file: File that switches passes on and off, in CANN's form (ATC's option).
        passes: Graph-fusion passes of your own, instances of `FusionRule` subclasses.
        optimization_switch: "PassA:on;PassB:off", stronger than the file (ATC's option).
        oo_level: "O3", or "O1" for only those passes that CANN needs to work (ATC's option).
        buffer_optimize: "l2_optimize", "l1_optimize" or "off_optimize" (ATC's option); counts at fusion="all".
            As in CANN, l1_optimize equals off_optimize, unless the option `l1_fusion` joins convolutions through L1.
        output_type: Element type of floating-point outputs: "FP16", "FP32", or "node:index:type;..." (ATC's option).
        insert_op_conf: File of static AIPP operators (ATC's option): the inputs that it names become uint8 images, converted on the way
            into the first convolution; see `frontends.aipp`.
        schedule: Who launches tasks: "sink" = the device, the graph with all its tasks lies there; "host" = the host, task by task;
            "eager" = a framework that calls operator by operator, so nothing is fused whatever `fusion` says.
        dynamic_batch_size: Gears, input shapes that are compiled into one model: batch sizes, "1,2,4,8" or [1, 2, 4, 8] (ATC's option).
        dynamic_image_size: Gears: heights and widths, "416,416;832,832" (ATC's option).
        dynamic_dims: Gears: all open dimensions, "20,20;40,40" (ATC's option).
        enable_single_stream: All tasks on one stream (ATC's option). By default the AI CPU gets a stream of its own where it can run
            beside the AI Cores.
        multi_stream_parallel_mode: "LoadBalance:N", "MainStream:N" (independent branches on N streams) or "cv" (Cube and Vector
            operators on a stream each); ATC's option.
        topo_sorting_mode: Order of operators: 0 breadth first, 1 depth first, 2 reverse depth first, 3 as the model lists them
            (ATC's option).
        disable_reuse_memory: Every tensor has memory of its own (ATC's option).
        options: How the release behaves where releases differ, for example `{"aicpu_pow": True}`; see `api.options`.
        graph_kernel_flags: MindSpore's flags of graph-kernel fusion, "--opt_level=2 ..." or a mapping; see `passes.graph_kernel.flags`.
        save_graphs: Folder for Graphviz files: the graph after each fusion pass that changed it, and after the stages of graph-kernel
            fusion under MindSpore's names.
        optimize: Whether the graph engine optimises the graph around graph fusion, or names of its passes (`ascendsim passes list`).
            Composite JSON and schedule="eager" are left as they are.
        outputs: What to keep, "node:index" or tensor names, in this order (ATC's --out_nodes); all outputs by default.
        oo_constant_folding: Whether constants are folded (ATC's option).
        oo_dead_code_elimination: Whether branches of constant conditions are resolved (ATC's option).

    Raises:
        SocError: If the chip or a change is not valid, or the chip lacks figures that a run needs.
        CompileError: If the graph cannot be lowered for the chip.
        InputError: If a fusion option, the switch file or a pass breaks a rule.
        PassError: If a pass failed.
    """
    given = dict(locals())  # pieces of a dynamic model are compiled with the same options
    spec = soc if isinstance(soc, SocSpec) and not set and aicore_num is None else _chip(soc, dict(set or {}), aicore_num)
    chips.require_runnable(spec)
    scheduling = Scheduling.of(schedule, enable_single_stream, multi_stream_parallel_mode, topo_sorting_mode, disable_reuse_memory)
    opset = default_opset()
    engine = new_engine(opset, optimize, oo_level, oo_constant_folding, oo_dead_code_elimination)
    if schedule == "eager" or graph.metadata.get("format") == "composite":
        engine.stop()
    device = copy_graph(graph)
    if insert_op_conf is not None:
        insert_aipp(device, read_aipp_file(path_option("insert_op_conf", insert_op_conf)))
    if outputs is not None:
        select_outputs(device, outputs)
    result_types = output_types(device, output_type)
    engine.prepare(device)
    gears = {"dynamic_batch_size": dynamic_batch_size, "dynamic_image_size": dynamic_image_size, "dynamic_dims": dynamic_dims}
    if any(value is not None for value in gears.values()) or is_dynamic(device):
        from ascendsim.api.gears import compile_open

        engine.finish(device)
        done = {"soc": spec, "set": None, "aicore_num": None, "outputs": None, "insert_op_conf": None, **dict.fromkeys(gears)}
        return replace(compile_open(device, spec, gears, {**given, **done}, compile), optimized=engine.report, source=graph)
    chosen = profile_options(options)
    fusion = scheduling.fusion_level(fusion)
    composites = GraphKernelFlow.of(fusion, graph_kernel_flags, save_graphs)
    level = fusion if composites is None else composites.graph_level(graph)
    settings = replace(
        FusionSettings.of(level, fusion_switch_file, passes, optimization_switch, oo_level, buffer_optimize, asked=fusion),
        options=chosen,
        dump=None if save_graphs is None else graph_saver(save_graphs),
    )
    report = settings.new_report()
    settings.fuse(device, spec, opset, report)
    engine.finish(device)
    if composites is not None:
        composites.mark(device)
    precision = ApplyPrecision(opset, precision_mode, frozenset(spec.cube.cycles_per_block), result_types)
    PassManager((precision, AssignFormats(opset, spec, int(chosen["format_reach"]))), check="last").run(device)
    settings.fuse(device, spec, opset, report, second_round=True)
    lowering = LowerOptions(aicpu_types=aicpu_types(spec.short_name), flags=chosen, chain=chain_work, tilings=tilings_of(spec, chosen))
    lowering = replace(lowering, memory=scheduling.memory, streams=scheduling.streams)
    made: GraphKernelReport | None = None
    if composites is None:
        settings.fuse_buffers(device, spec, opset, report, lowering)
    else:
        device, made = composites.fuse(device, spec, opset, lowering)
    scheduling.sort(device)
    if settings.level.buffers:
        program, placed = fuse_l1_and_l2(device, spec, opset, lowering, buffer_optimize)
    else:
        program, placed = lower_graph(device, spec, opset, options=lowering), BufferReport()
    program = replace(program, mode=scheduling.mode)
    return CompiledModel(
        device, program, spec, opset, graph, report, made, placed, engine.report, replace(lowering, known=None, tilings=None)
    )


def _chip(soc: str | PathLike[str] | SocSpec, overrides: dict[str, str | int | float], aicore_num: int | None) -> SocSpec:
    if isinstance(soc, SocSpec):
        raise InputError(
            "option set", "needs the chip by name or file", "a SocSpec", "apply the changes with ascendsim.soc.load(name, overrides)"
        )
    if aicore_num is not None:
        available = chips.load(soc).ai_cores
        if not 1 <= aicore_num <= available:
            raise InputError("option aicore_num", f"must be between 1 and {available} on this chip", aicore_num)
        overrides["ai_cores"] = aicore_num
    return chips.load(soc, overrides or None)
