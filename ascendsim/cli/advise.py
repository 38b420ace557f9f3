"""`ascendsim advise MODEL`: what makes a model slow, what changing it would bring, and the changed model."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ascendsim.cli.common import print_table
from ascendsim.cli.dynamic_options import add_choice_options, choices
from ascendsim.cli.model_options import (
    add_chip_options,
    add_model_options,
    check_folder,
    chip_settings,
    load_graph,
    natural,
    without_values,
)
from ascendsim.cli.run import print_formatted
from ascendsim.core.errors import InputError
from ascendsim.core.files import file_stem, make_folder, write_whole

if TYPE_CHECKING:
    from ascendsim.advise import Advice
    from ascendsim.graph.ir import Graph

NAME = "advise"
HELP = "say what makes a model slow and what changing it would bring"


def configure(parser: argparse.ArgumentParser) -> None:
    add_model_options(parser)
    add_chip_options(parser)
    text = (
        "pull a proposed lever (by name, or `exact` for all that keep the values) and write the model to "
        "--output; may be repeated"
    )
    add_choice_options(parser)
    parser.add_argument("--apply", action="append", metavar="LEVER", help=text)
    parser.add_argument(
        "--output",
        metavar="DIR",
        help="folder for advice.csv, alternatives.csv, slow_operators.csv, transdata.csv, "
        "op_statistic_tasks.csv, ai_core_metrics.csv, aipp.cfg for images, the changed model (.onnx, .txt)",
    )
    trials = "levers with at most that many sites are tried at each site alone (default: 8)"
    parser.add_argument("--trials", type=natural, default=8, metavar="N", help=trials)
    parser.add_argument("--all", action="store_true", help="list as well what cannot be done or does not pay")


def run(args: argparse.Namespace) -> int:
    from ascendsim.advise import advise
    from ascendsim.advise.alternatives import aipp_text, is_image
    from ascendsim.api.compiling import compile
    from ascendsim.api.running import simulate

    check_folder(args.output)
    if args.apply and args.output is None:
        raise InputError("option --apply", "needs a folder to write the model to", remedy="add --output DIR")
    settings, chosen = chip_settings(args), choices(args)

    def at_batch(size: int) -> Graph:
        return load_graph(argparse.Namespace(**{**vars(args), "batch": size}))

    if sys.stderr.isatty():
        print("simulating the model, levers and at most six alternatives ...", file=sys.stderr)
    advice = advise(load_graph(args), trials=args.trials, at_batch=at_batch, **chosen, **settings)
    _print(advice, args.all)
    if args.output is None:
        return 0
    folder = make_folder(args.output)
    tables = (
        advice.table(),
        advice.operators,
        advice.transdata,
        advice.declined_table(),
        advice.alternatives(),
        advice.statistic,
        advice.metrics,
    )
    for table in tables:
        table.to_csv(folder / f"{table.name}.csv")
        print(f"wrote {folder / table.name}.csv")
    image = next((tensor for tensor in advice.graph.inputs if is_image(tensor)), None)
    if image is not None:
        print(f"wrote {write_whole(folder / 'aipp.cfg', aipp_text(image).encode())} (fill in the means)")
    if args.apply:
        names = () if args.apply == ["exact"] else args.apply
        changed, more = advice.apply(*names), advice.settings(*names)
        after = simulate(compile(changed, **(settings | more)), **chosen).duration_us
        print(
            f"{', '.join(args.apply)}: {advice.duration_us:,.1f} us -> {after:,.1f} us "
            f"({advice.duration_us / after:.2f}x)"
        )
        for option, value in more.items():
            if option == "options":
                said = [f"option {name}={'on' if given is True else given}" for name, given in value.items()]
            else:
                said = [f"{option} {value}"]
            for words in said:
                print(f"compile it with --{words}")
        _write(changed, folder)
    return 0


def _print(advice: Advice, everything: bool) -> None:
    print(f"{advice.graph.name} on {advice.soc}: {advice.duration_us:,.1f} us")
    print("\nslow operators:")
    shown = [
        (
            r["Type"],
            r["Count"],
            f"{r['Time(us)']:.1f}",
            f"{r['Share(%)']:.1f}",
            _first_ids(str(r["Task IDs"])),
            r["Engine"],
            r["Findings"],
        )
        for r in advice.operators.records()
    ]
    heads = ("type", "count", "us", "share %", "task ids", "engine", "findings")
    print_table(heads, shown)  # type: ignore[arg-type]
    if advice.transdata.rows:
        print("\nwhat forces TransData:")
        print_formatted(advice.transdata)
    print("\nproposals:")
    if advice.proposals:
        print_formatted(advice.table())
    else:
        print("no change of the graph brings a gain")
    if advice.others:
        print("\nother ways to run it (throughput over that of now; latency is of one execution):")
        print_formatted(advice.alternatives())
    if everything and advice.declined:
        print("\ndeclined:")
        print_formatted(advice.declined_table())


def _first_ids(ids: str, most: int = 3) -> str:
    """The first task ids of an operator type, the first of all being what one looks up.

    >>> _first_ids("4;9;12;40"), _first_ids("4;9")
    ('4;9;12;...', '4;9')
    """
    parts = ids.split(";")
    return ";".join(parts[:most]) + (";..." if len(parts) > most else "")


def _write(graph: Graph, folder: Path) -> None:
    from ascendsim.frontends.onnx.export import export_onnx
    from ascendsim.graph.text import to_text

    stem = f"{file_stem(graph.name, 'graph')}_changed"
    print(f"wrote {write_whole(folder / f'{stem}.txt', to_text(graph).encode())}")
    if not all(tensor.constant is not None and tensor.constant.available for tensor in graph.constants):
        print(f"no .onnx: {without_values(graph)}")
        return
    print(f"wrote {write_whole(folder / f'{stem}.onnx', export_onnx(graph))}")
