"""Runs the stages of the pipeline on a graph."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike

from ascendsim.compiler.atc_check import check_conversion
from ascendsim.compiler.composites import graph_saver
from ascendsim.compiler.dynamic import compile_dynamic
from ascendsim.compiler.dynamic_aipp import dynamic_aipp_model
from ascendsim.compiler.gears import compile_gears
from ascendsim.compiler.model import CompiledModel
from ascendsim.compiler.options import CompileOptions
from ascendsim.compiler.pipeline import PREPARATION, STAGES, Compilation, is_single_kernel, run_stages, up_to
from ascendsim.compiler.settings import Settings
from ascendsim.core.errors import InputError
from ascendsim.core.threads import fixed_threads
from ascendsim.graph.connection import connected_parts, parts_text
from ascendsim.graph.ir import Graph
from ascendsim.graph.verify import verify
from ascendsim.passes.aipp import AippSettings, DynamicAipp
from ascendsim.passes.control_flow import is_dynamic


@fixed_threads()
def compile_graph(graph: Graph, options: CompileOptions) -> CompiledModel:
    """Compiles a graph; see `api.compiling.compile`.

    Raises:
        SocError, CompileError, InputError, PassError, UnsupportedOperatorError: As there.
    """
    _check_graph(graph)
    settings = Settings.of(options, is_single_kernel(graph))
    dynamic = [item for item in settings.aipp if isinstance(item, DynamicAipp)]
    if not dynamic:
        return _compiled(graph, settings)
    if settings.gears:
        rule = "does not go with gears, as here the network's inputs are of one size"
        raise InputError("option insert_op_conf: aipp_mode dynamic", rule, ", ".join(settings.gears))
    static = [item for item in settings.aipp if isinstance(item, AippSettings)]
    return dynamic_aipp_model(
        graph, dynamic, static, lambda aipp: _compiled(graph, replace(settings, aipp=aipp))
    )


def _compiled(graph: Graph, settings: Settings) -> CompiledModel:
    work = Compilation.of(graph, settings)
    settings.check_names(graph, work.opset)
    run_stages(work, PREPARATION)
    work.fusion.warnings += check_conversion(graph, work.graph, settings)
    work.fusion.warnings += _unconnected(work.graph)
    if not settings.gears and not is_dynamic(work.graph):
        run_stages(work, STAGES[len(PREPARATION) :])
        return work.model()
    for option in ("host_inputs", "host_reads"):
        value = getattr(settings.options, option)
        if value != getattr(CompileOptions, option):
            rule, remedy = (
                "goes with fixed shapes and without control flow",
                "compile the graph for the shapes of a run",
            )
            raise InputError(f"option {option}", rule, repr(value), remedy)
    work.engine.finish(work.graph)
    compile_open = compile_gears if settings.gears else compile_dynamic
    model = compile_open(work.graph, settings, compile_piece)
    model.fusion.warnings += work.fusion.warnings
    return replace(model, optimized=work.engine.report, source=graph)


def _unconnected(graph: Graph) -> list[str]:
    """A computational graph is connected; GE compiles one that is not, so this is a warning."""
    parts = () if is_single_kernel(graph) else connected_parts(graph)
    if len(parts) < 2:
        return []
    rest = "they run as one model all the same; compile them apart to time each"
    return [f"graph {graph.name!r} has {len(parts)} parts that no edge joins: {parts_text(parts)}; {rest}"]


def compile_piece(graph: Graph, settings: Settings) -> CompiledModel:
    """Compiles a part of a graph with open shapes or control flow, whose shapes are known by now, with
    options that were checked.
    """
    work = Compilation.of(graph, settings)
    run_stages(work, STAGES)
    return work.model()


def compile_until(
    graph: Graph,
    options: CompileOptions,
    stop_after: str | None = None,
    dump: str | PathLike[str] | None = None,
) -> Compilation:
    """Runs the stages up to and with one and hands out everything that there is by then.

    Args:
        graph: With static shapes and without control flow.
        options: As for `compile`.
        stop_after: Name of the last stage (`pipeline.table()`); None = all.
        dump: Folder that receives the graph after each stage as Graphviz file and text.

    Raises:
        InputError: If there is no such stage, or the graph is not static.
    """
    _check_graph(graph)
    stages = up_to(stop_after)
    work = Compilation.of(graph, Settings.of(options, is_single_kernel(graph)))
    work.settings.check_names(graph, work.opset)
    described = any(isinstance(item, DynamicAipp) for item in work.settings.aipp)
    if work.settings.gears or described or is_dynamic(graph):
        rule = "goes with fixed shapes, static AIPP and without control flow"
        raise InputError("option stop_after", rule, graph.name)
    run_stages(work, stages, None if dump is None else graph_saver(dump, as_text=True))
    return work


def _check_graph(graph: object) -> None:
    if not isinstance(graph, Graph):
        raise InputError(
            "compile",
            "takes a graph from asim.load or GraphBuilder",
            type(graph).__name__,
            "load the model first",
        )
    if not graph.outputs:
        verify(graph)  # says so of the user's graph, before passes are thought to have lost them
