"""`ascendsim compile MODEL`: what a model becomes on a chip: tasks, blocks and readable block programs."""

from __future__ import annotations

import argparse

from ascendsim.cli.atc import add_mode_options, mode_refusal, run_mode
from ascendsim.cli.buffers import print_details, print_summary
from ascendsim.cli.common import print_table
from ascendsim.cli.composites import print_composites
from ascendsim.cli.dynamic_options import print_open_model
from ascendsim.cli.logs import add_log_option, logged, write_fusion, write_log
from ascendsim.cli.memory import print_memory, save_map
from ascendsim.cli.model_options import (
    add_chip_options,
    add_model_options,
    chip_settings,
    load_graph,
    print_warnings,
    warnings_of,
)
from ascendsim.cli.saved import target_of
from ascendsim.core.files import make_folder

NAME = "compile"
HELP = "compile a model for a chip and show its tasks or the program of one operator"


def configure(parser: argparse.ArgumentParser) -> None:
    add_model_options(parser, optional=True)
    add_chip_options(parser)
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument(
        "--listing",
        metavar="NODE",
        help="print the block programs of this operator instead of the task table",
    )
    shown.add_argument(
        "--buffers",
        action="store_true",
        help="print what L1 and L2 fusion did instead of the task table, and what they left",
    )
    shown.add_argument(
        "--memory", action="store_true", help="print where every tensor lies, and what other planners come to"
    )
    shown.add_argument(
        "--stages", action="store_true", help="print the stages of a compilation instead; needs no model"
    )
    parser.add_argument(
        "--stop_after",
        metavar="STAGE",
        help="stop behind a stage (--stages) and print the graph as it is there",
    )
    parser.add_argument(
        "--dump_stages", metavar="DIR", help="folder for the graph after each stage, as text and for Graphviz"
    )
    add_mode_options(parser)
    parser.add_argument(
        "--memory_map",
        metavar="FILE.png",
        help="draw the memory map, address against time (.png, .svg or .pdf)",
    )
    parser.add_argument(
        "--output",
        metavar="PATH",
        help="save the compiled model as PATH.asim, which ascendsim run takes in place of the network; "
        "fusion_result.json and plog/ are written beside it",
    )
    add_log_option(parser)


def run(args: argparse.Namespace) -> int:
    from ascendsim.api.compiling import compile

    if args.stages:
        return _print_stages()
    mode_refusal(args)
    if args.stop_after is not None or args.dump_stages is not None:
        return _stop(args)
    target = target_of(args.output)
    model = logged(args, lambda: compile(load_graph(args), **chip_settings(args)))
    print_warnings(warnings_of(model))
    write_log(args, model)
    if run_mode(args, model):
        return 0
    if target is not None:
        from ascendsim.api.saving import save

        make_folder(target.parent)
        print(f"wrote {save(model, target)}")
        write_fusion(model, target.parent)
    if args.memory_map is not None:
        print(f"wrote {save_map(model, args.memory_map)}")
    if args.memory:
        print_memory(model)
        return 0
    if args.listing is not None:
        print(model.listing(args.listing), end="")
        return 0
    if args.buffers:
        print_details(model)
        print_summary(model)
        return 0
    if print_open_model(model):
        return 0
    rows = []
    for task in model.program.tasks:
        head, last = model.graph.node(task.nodes[0]), model.graph.node(task.nodes[-1])
        shape = "x".join(map(str, last.output.static_shape)) or "scalar"
        moved = sum(access.moved_bytes for access in task.accesses)
        rows.append(
            (
                task.id,
                task.name,
                model.opset.cann_type(head),
                task.kind.value,
                task.block_dim,
                shape,
                last.output.format.value,
                f"{moved / 1024:,.1f}",
            )
        )
    print_table(("task", "operator", "type", "kind", "blocks", "output", "format", "moved KiB"), rows)
    memory = model.program.memory
    print(
        f"{len(rows)} tasks; weights {memory.weight_bytes / 2**20:.1f} MiB, other device memory at most "
        f"{memory.peak_bytes / 2**20:.1f} MiB"
    )
    if tilings := model.program.info.tilings:
        overruled = sum(option > 0 for option in tilings.values())
        print(
            f"tiles of {len(tilings)} tasks were timed; {overruled} have others than the closed form likes "
            f"best"
        )
    if model.optimized.removed_nodes:
        print(
            f"the graph engine removed {model.optimized.removed_nodes} nodes (ascendsim optimize shows how)"
        )
    print_summary(model)
    if model.graph_kernel is not None:
        print_composites(model.graph_kernel)
    return 0


def _print_stages() -> int:
    from ascendsim.compiler.pipeline import table

    stages = table()
    print_table(stages.columns, [tuple(map(str, row)) for row in stages.rows])
    return 0


def _stop(args: argparse.Namespace) -> int:
    """Runs the stages up to one, and prints the graph, or where the dumps are."""
    from ascendsim.compiler.compiling import compile_until
    from ascendsim.compiler.options import CompileOptions
    from ascendsim.graph.text import to_text

    work = compile_until(
        load_graph(args), CompileOptions(**chip_settings(args)), args.stop_after, args.dump_stages
    )
    print_warnings(work.fusion.warnings)
    print(
        to_text(work.graph)
        if args.dump_stages is None
        else f"wrote the graph after each stage to {args.dump_stages}"
    )
    return 0
