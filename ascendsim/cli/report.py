"""`ascendsim report MODEL`: one HTML page on a run of a model, or on several variants of it."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from ascendsim.cli.dynamic_options import add_choice_options, choices
from ascendsim.cli.model_options import (
    add_chip_options,
    add_model_options,
    load_graph,
    print_warnings,
    progress,
    warnings_of,
)
from ascendsim.cli.report_option import check_report_option, write_report
from ascendsim.cli.variants import Variant, add_variant_options, variants_of

if TYPE_CHECKING:
    from ascendsim.api.result import Result
    from ascendsim.core.table import Table
    from ascendsim.graph.ir import Graph

NAME = "report"
HELP = "one HTML page on a run, or on variants: timeline, operators, changes, roofline, memory, graph"


def configure(parser: argparse.ArgumentParser) -> None:
    add_model_options(parser)
    add_chip_options(parser)
    add_variant_options(parser, default="all")
    add_choice_options(parser)
    parser.add_argument(
        "--output", default="report.html", metavar="FILE.html", help="the page (default: report.html)"
    )
    text = "ask the advisor about the last variant and show what its proposals gain"
    parser.add_argument("--advise", action="store_true", help=text)
    parser.add_argument(
        "--instructions",
        action="append",
        metavar="NODE",
        help="show every instruction of this operator; may be repeated",
    )


def run(args: argparse.Namespace) -> int:
    from ascendsim.api.comparing import compare

    started = time.perf_counter()
    check_report_option(args.output)
    variants = variants_of(args, least=1, levels=("all",))
    graphs: dict[int | None, Graph] = {}  # a graph is loaded once a batch
    results: dict[str, Result] = {}
    for variant in variants:
        if variant.batch not in graphs:
            graphs[variant.batch] = load_graph(argparse.Namespace(**{**vars(args), "batch": variant.batch}))
        results[variant.name] = _simulated(graphs[variant.batch], variant, args)
    findings = _findings(graphs[variants[-1].batch], variants[-1], args) if args.advise else None
    shown = compare(results) if len(results) > 1 else next(iter(results.values()))
    for name, result in results.items():
        tasks = len(result.trace.tasks)
        print(f"{name or result.model.source.name}: {result.duration_us:,.1f} us, {tasks:,} tasks")
    write_report(shown, args.output, findings)
    print(f"took {time.perf_counter() - started:.1f} s")
    return 0


def _simulated(graph: Graph, variant: Variant, args: argparse.Namespace) -> Result:
    from ascendsim.api.compiling import compile
    from ascendsim.api.running import simulate
    from ascendsim.compiler.model import CompiledModel

    model = compile(graph, **variant.options)
    print_warnings(warnings_of(model))
    if type(model) is CompiledModel:  # others have their tasks when they run
        for node in args.instructions or ():
            model.tasks_of(node)  # an unknown name is an error with a suggestion
    with progress(variant.name or "running") as show:
        recorded = frozenset(args.instructions or ())
        return simulate(model, **choices(args), instructions=recorded, progress=show)


def _findings(graph: Graph, variant: Variant, args: argparse.Namespace) -> Table:
    from ascendsim.advise import advise

    return advise(graph, **choices(args), **variant.options).table()
