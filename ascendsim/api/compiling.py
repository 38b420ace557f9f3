"""`compile`: a graph and a chip become a program."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

from ascendsim.compiler.compiling import compile_graph
from ascendsim.compiler.model import CompiledModel
from ascendsim.compiler.options import CompileOptions
from ascendsim.core.arguments import checked
from ascendsim.core.collection import without_collection
from ascendsim.core.errors import OptionWarning
from ascendsim.graph.ir import Graph
from ascendsim.graph.sorting import STABLE
from ascendsim.opset import OpDef
from ascendsim.passes.fusion.rule import FusionRule
from ascendsim.passes.gears import GearOption
from ascendsim.soc import SocSpec


@without_collection
@checked(
    graph="asim.load and asim.GraphBuilder make one",
    soc="`ascendsim soc list` shows the names of chips",
    passes="write passes=[MyRule()]",
    operators="write operators=[MY_OPERATOR]",
    set='write set={"l2.size": "16MiB"}',
    options='write options={"aicpu_pow": True}',
    enable_graph_kernel='write fusion="graph-kernel"',
    device_target='write soc="Ascend910A"',
    save_graphs_path="write save_graphs=FOLDER",
)
def compile(
    graph: Graph,
    soc: str | PathLike[str] | SocSpec = "Ascend310",
    *,
    set: Mapping[str, str | int | float] | None = None,
    precision_mode: str = "force_fp16",
    keep_dtype: str | PathLike[str] | Sequence[str] | None = None,
    modify_mixlist: str | PathLike[str] | Mapping[str, Mapping[str, Sequence[str]]] | None = None,
    op_select_implmode: str | None = None,
    optypelist_for_implmode: str | Sequence[str] | None = None,
    op_precision_mode: str | PathLike[str] | Mapping[str, str] | None = None,
    inf_nan_mode_enable: bool | None = None,
    aicore_num: int | None = None,
    fusion: str = "all",
    fusion_switch_file: str | PathLike[str] | None = None,
    passes: Sequence[FusionRule] = (),
    operators: Sequence[OpDef] = (),
    optimization_switch: str | None = None,
    oo_level: str = "O3",
    buffer_optimize: str = "l2_optimize",
    output_type: str | None = None,
    schedule: str = "sink",
    host_inputs: str = "device",
    host_reads: str | Sequence[str] = "",
    enable_single_stream: bool = False,
    multi_stream_parallel_mode: str = "",
    topo_sorting_mode: int = STABLE,
    disable_reuse_memory: bool = False,
    insert_op_conf: str | PathLike[str] | None = None,
    dynamic_batch_size: GearOption | None = None,
    dynamic_image_size: GearOption | None = None,
    dynamic_dims: GearOption | None = None,
    options: Mapping[str, bool | int | str] | None = None,
    release: str = "cann",
    cann: str | None = None,
    check: str = "chip",
    graph_kernel_flags: str | Mapping[str, Any] | None = None,
    save_graphs: bool | str | PathLike[str] | None = None,
    optimize: bool | Sequence[str] = True,
    outputs: Sequence[str] | str | None = None,
    oo_constant_folding: bool = True,
    oo_dead_code_elimination: bool = True,
) -> CompiledModel:
    """Compiles a graph for a chip: fusion, precision, formats, tiling, tasks and memory plan. The graph
    itself stays as it is.

    Args:
        graph: From `load` or `GraphBuilder`. If it has control flow or open shapes, the result is a
            `DynamicModel`, which compiles the pieces of the graph when their shapes are known; see
            `compiler.dynamic`.
        soc: Name of a chip (`ascendsim soc list`), path of a chip's TOML file, or a `SocSpec`.
        set: Changes to the chip by dotted key, for example `{"l2.size": "16MiB"}`.
        precision_mode: ATC's option: "force_fp16", "allow_fp32_to_fp16", "must_keep_origin_dtype",
            "force_fp32", "cube_fp16in_fp32out", "allow_mix_precision".
        keep_dtype: File of operators that stay in float32, or what would stand in its lines: names of
            operators, or "OpType::Type" (ATC's option).
        modify_mixlist: File that moves operator types between the lists of allow_mix_precision, or what would
            stand in it (ATC's option).
        op_select_implmode: Form of the kernels that have two, "high_precision" or "high_performance": of the
            types in `optypelist_for_implmode`, or of all with "_for_all" behind it (ATC's option).
        optypelist_for_implmode: Operator types, "Gelu,Sigmoid" or a list (ATC's option).
        op_precision_mode: File with the form of each type in lines "Gelu=high_performance", or a mapping
            (ATC's option).
        inf_nan_mode_enable: What becomes of float16 results beyond the type on chips that have both modes
            (CANN's environment variable): True = infinite and NaN, as IEEE 754 has it, False = saturation:
            the last number, and 0 for NaN. By default as the chip has it (docs/accuracy.md).
        aicore_num: Number of AI Cores to use (ATC's option); all by default.
        fusion: How much is fused, each level with those before it: "off", "graph", "ub", "all"; or
            "graph-kernel", MindSpore's flow, which makes composites of basic operators in place of UB fusion.
        fusion_switch_file: File that switches passes on and off, in CANN's form (ATC's option).
        passes: Graph-fusion passes of your own, instances of `FusionRule` subclasses.
        operators: Operators of your own, the same as for `load`.
        optimization_switch: "PassA:on;PassB:off", stronger than the file (ATC's option).
        oo_level: "O3", or "O1" for only those passes that CANN needs to work (ATC's option).
        buffer_optimize: "l2_optimize", "l1_optimize" or "off_optimize" (ATC's option); counts at
            fusion="all". As in CANN, l1_optimize equals off_optimize, unless the option `l1_fusion` joins
            convolutions through L1.
        output_type: Element type of floating-point outputs: "FP16", "FP32", or "node:index:type;..." (ATC's
            option).
        insert_op_conf: File of AIPP operators (ATC's option): the inputs that it names become uint8 images,
            converted on the way into the first convolution; see `frontends.aipp`. With dynamic ones the
            result is a `DynamicAippModel`.
        schedule: Who launches tasks: "sink" = the device, the graph with all its tasks lies there; "host" =
            the host, task by task; "eager" = a framework that calls operator by operator, so nothing is fused
            whatever `fusion` says.
        host_inputs: Where inputs lie when the graph is run: "device", or memory of the host, "pinned" or
            "pageable", out of which each is copied first, by a MEMCPY_ASYNC in front of the network. Goes
            with fixed shapes and without control flow.
        host_reads: Tensors that the host reads as soon as they are made, as `loss.item()` does: a
            MEMCPY_ASYNC behind each, and nothing is launched until it has ended. "loss", "loss,overflow" or
            ["loss", "overflow"]; goes with schedule "host" or "eager", and as host_inputs.
        dynamic_batch_size: Gears, input shapes that are compiled into one model: batch sizes, "1,2,4,8" or
            [1, 2, 4, 8] (ATC's option).
        dynamic_image_size: Gears: heights and widths, "416,416;832,832" (ATC's option).
        dynamic_dims: Gears: all open dimensions, "20,20;40,40" (ATC's option).
        enable_single_stream: All tasks on one stream (ATC's option). By default the AI CPU gets a stream of
            its own where it can run beside the AI Cores.
        multi_stream_parallel_mode: "LoadBalance:N", "MainStream:N" (independent branches on N streams) or
            "cv" (Cube and Vector operators on a stream each); ATC's option.
        topo_sorting_mode: Order of operators: 0 breadth first, 1 depth first, 2 reverse depth first, 3 as the
            model lists them (ATC's option).
        disable_reuse_memory: Every tensor has memory of its own (ATC's option).
        options: How the release behaves where releases differ, for example `{"aicpu_pow": True}`; see
            `compiler.profile_options`.
        release: "ddk" = all choices of `options` as the early release had them that the Ascend 310 tuning
            guide describes (docs/advise.md); `options` are stronger.
        cann: Version of CANN whose kernels and launches run and whose precision modes count, "5.0.2" or
            "7.0"; the newest by default. See `compiler.cann_versions`.
        check: What is an error: "chip", what the chip cannot do (what only ATC refuses is a warning), or
            "atc", both, all listed at once; see `compiler.atc_check`.
        graph_kernel_flags: MindSpore's flags of graph-kernel fusion, "--opt_level=2 ..." or a mapping; see
            `passes.graph_kernel.flags`.
        save_graphs: Folder for Graphviz files: the graph after each fusion pass that changed it, and after
            the stages of graph-kernel fusion under MindSpore's names. True = the working folder, as MindSpore
            has it.
        optimize: Whether the graph engine optimises the graph around graph fusion, or names of its passes
            (`ascendsim passes list`). Composite JSON and schedule="eager" are left as they are.
        outputs: What to keep, "node:index" or tensor names, in this order (ATC's --out_nodes); all outputs by
            default.
        oo_constant_folding: Whether constants are folded (ATC's option).
        oo_dead_code_elimination: Whether branches of constant conditions are resolved (ATC's option).

    Raises:
        SocError: If the chip or a change is not valid, or the chip lacks figures that a run needs.
        CompileError: If the graph cannot be lowered for the chip.
        ConversionError: If the chip cannot run the graph, or ATC refuses it and `check` is "atc".
        InputError: If a fusion option, the switch file or a pass breaks a rule.
        PassError: If a pass failed.

    Warns:
        OptionWarning: A switch names a pass that does not exist, an option has no effect, ATC would refuse
            the model, or it does not fit into the chip's memory (`model.capacity`).
    """
    given = dict(locals())
    model = compile_graph(given.pop("graph"), CompileOptions(**given))
    for text in model.fusion.warnings:
        warnings.warn(text, OptionWarning, stacklevel=4)  # the caller stands behind two decorators
    complaint = model.capacity.complaint()
    if complaint is not None:
        warnings.warn(complaint, OptionWarning, stacklevel=4)
    return model
