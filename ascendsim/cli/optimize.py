"""`ascendsim optimize MODEL`: what the graph engine does to a model, pass by pass."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ascendsim.cli.model_options import (
    ENGINE,
    add_compile_options,
    add_model_options,
    compile_settings,
    load_graph,
)
from ascendsim.cli.own import own_operators
from ascendsim.cli.run import print_formatted
from ascendsim.compiler.options import OO_LEVELS
from ascendsim.core.files import make_folder, write_whole
from ascendsim.core.refusals import some
from ascendsim.graph.connection import parts_text

if TYPE_CHECKING:
    from ascendsim.api.optimizing import OptimizeResult
    from ascendsim.graph.ir import Graph

NAME = "optimize"
HELP = "optimise a model as the graph engine does, and show what each pass did"


def configure(parser: argparse.ArgumentParser) -> None:
    add_model_options(parser)
    add_compile_options(parser, ENGINE)
    parser.add_argument(
        "--oo_level",
        choices=OO_LEVELS,
        default="O3",
        help="O1: shapes, folding and dead edges only (default: O3)",
    )
    parser.add_argument(
        "--passes",
        metavar="NAMES",
        help='only these passes, "PassA;PassB" (ascendsim passes list); shapes always',
    )
    parser.add_argument(
        "--dump",
        metavar="DIR",
        help="folder for the graph before and after each pass: diff, Graphviz, pictures",
    )
    parser.add_argument(
        "--save",
        metavar="FILE",
        help="write the result as .onnx (needs weights: --weights random fills missing ones)",
    )
    parser.add_argument(
        "--im2col",
        action="store_true",
        help="first write convolutions as im2col and matrix products, as for a device that has none",
    )
    parser.add_argument(
        "--notes", action="store_true", help="print what passes say about what they left alone"
    )


def run(args: argparse.Namespace) -> int:
    from ascendsim.api.optimizing import optimize

    graph = load_graph(args, fold=False)
    if args.im2col:
        from ascendsim.api.im2col import im2col

        graph = im2col(graph, operators=own_operators(args))
    passes = (
        None
        if args.passes is None
        else tuple(filter(None, (name.strip() for name in args.passes.split(";"))))
    )
    result = optimize(
        graph,
        passes=passes,
        dump=args.dump,
        oo_level=args.oo_level,
        operators=own_operators(args),
        **compile_settings(args, ENGINE),
    )
    print_formatted(result.table())
    print(result)
    _print_edges(result)
    if args.notes:
        for name, note in result.report.notes():
            print(f"{name}: {note}")
    if args.dump is not None:
        print(f"wrote the graph before and after each pass to {args.dump}")
    if args.save is not None:
        _save(result.graph, Path(args.save))
    return 0


def _print_edges(result: OptimizeResult) -> None:
    """What is unusual about edges of the result: parts that none joins, and nodes joined more than once."""
    parts, several = result.parts, result.multi_edges
    if len(parts) > 1:
        print(f"{len(parts)} parts that no edge joins: {parts_text(parts)}")
    if several:
        named = [f"{maker} to {reader} ({count})" for (maker, reader), count in several.items()]
        print(f"joined by more than one edge: {some(named)}")


def _save(graph: Graph, path: Path) -> None:
    from ascendsim.frontends.onnx.export import export_onnx

    content = export_onnx(graph)
    make_folder(path.parent)
    print(f"wrote {write_whole(path, content)}")
