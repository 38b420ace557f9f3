"""`ascendsim quantize MODEL --data DATA --output FILE`: a float model becomes one in int8."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ascendsim.cli.common import add_soc_option, print_table
from ascendsim.cli.image_options import add_scaling_options
from ascendsim.cli.model_options import add_model_options, check_folder, load_graph
from ascendsim.cli.own import own_operators
from ascendsim.core.errors import InputError
from ascendsim.core.files import make_folder
from ascendsim.core.table import Table, cell_text
from ascendsim.images.forms import IMAGENET_MEAN, IMAGENET_STD, image_batches
from ascendsim.quantisation.thresholds import METHODS, PERCENTILE

if TYPE_CHECKING:
    from ascendsim.graph.ir import Graph

NAME = "quantize"
HELP = "quantise a float model to int8 with data of yours, and show what became of each layer"


def configure(parser: argparse.ArgumentParser) -> None:
    add_model_options(parser)
    text = "what the model sees in use: an .npz file of arrays by input name, or a folder of images"
    parser.add_argument("--data", metavar="PATH", help=text)
    parser.add_argument("--output", metavar="FILE", help="the quantised model, .onnx")
    text = "how the threshold of activations is chosen (default: kl)"
    parser.add_argument("--activation", choices=METHODS, default="kl", help=text)
    text = f"share of the elements that --activation percentile leaves whole (default: {PERCENTILE})"
    parser.add_argument("--percentile", type=float, default=PERCENTILE, metavar="P", help=text)
    text = "a step for each output channel of weights, or one for all (default: channel)"
    parser.add_argument("--weight_steps", choices=("channel", "tensor"), default="channel", help=text)
    text = 'nodes that stay in floating point, by name or pattern ("/head/*"); may be repeated'
    parser.add_argument("--skip", action="append", default=[], metavar="NAME", help=text)
    text = "pairs of QuantizeLinear and DequantizeLinear, or CANN's operators (default: qdq)"
    parser.add_argument("--form", choices=("qdq", "ascend"), default="qdq", help=text)
    add_scaling_options(parser)
    text = "also run the network with one layer in int8 at a time, and list the worst first"
    parser.add_argument("--sensitivity", action="store_true", help=text)
    text = "read T and the share clipped (with --data) of a model that is int8 already; writes nothing"
    parser.add_argument("--thresholds", action="store_true", help=text)
    text = "chip whose times the table shows (default: Ascend310)"
    add_soc_option(parser, default="Ascend310", help=text)


def run(args: argparse.Namespace) -> int:
    from ascendsim.api.quantizing import quantize
    from ascendsim.soc.loading import load as load_soc

    if args.thresholds:
        return _thresholds(args)
    for option, value in (("--data", args.data), ("--output", args.output)):
        if value is None:
            raise InputError(f"option {option}", "is missing", remedy="see `ascendsim quantize --help`")
    path = Path(args.output)
    check_folder(str(path.parent))
    soc = load_soc(args.soc_version)
    graph = load_graph(args)
    result = quantize(
        graph,
        _data(graph, args),
        activation=args.activation,
        percentile=args.percentile,
        weights="max" if args.weight_steps == "channel" else "max-per-tensor",
        skip=args.skip,
        form=args.form,
        operators=own_operators(args),
    )
    _print(result.table(soc))
    for name, why in result.plan.kept.items():
        print(f"in floating point: {name} ({why})")
    if args.sensitivity:
        _print(result.sensitivity())
    print(result)
    before, after = result.times(soc)
    print(f"{soc.name}: {before:,.1f} us in float16, {after:,.1f} us in int8")
    make_folder(path.parent)
    print(f"wrote {result.save(path)}")
    return 0


def _thresholds(args: argparse.Namespace) -> int:
    """What an int8 model says of itself, and what data lose in it."""
    from ascendsim.api.quantized_ranges import thresholds

    if args.output is not None:
        raise InputError("option --output", "does not go with --thresholds", args.output, "leave it out")
    graph = load_graph(args)
    data = None if args.data is None else _data(graph, args)
    _print(thresholds(graph, data, operators=own_operators(args)))
    return 0


def _print(table: Table) -> None:
    """Thresholds and steps span many orders of magnitude, so digits that count are shown, not decimals."""
    styles = [table.styles.get(column) for column in table.columns]
    rows = [[cell_text(cell, style) for cell, style in zip(row, styles, strict=True)] for row in table.rows]
    print_table(table.columns, rows)


def _data(graph: Graph, args: argparse.Namespace) -> str | Iterable[Any]:
    """The archive's path, or images batch by batch."""
    folder = Path(args.data)
    if folder.is_dir():
        return image_batches(graph, folder, args.mean or IMAGENET_MEAN, args.std or IMAGENET_STD)
    if args.mean or args.std:
        raise InputError("options --mean and --std", "are for folders of images", remedy="scale the arrays")
    return str(folder)
