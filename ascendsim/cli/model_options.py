"""Options that every command on a model shares: which model, which shapes, which chip. ATC's names where ATC has the option."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ascendsim.cli.common import add_set_option, parse_input_shape, parse_settings
from ascendsim.cli.dynamic_options import add_gear_options, gear_settings
from ascendsim.core.errors import InputError

if TYPE_CHECKING:
    from ascendsim.graph.ir import Graph

PRECISION_MODES = (
    "force_fp16",
    "allow_fp32_to_fp16",
    "must_keep_origin_dtype",
    "force_fp32",
    "cube_fp16in_fp32out",
    "allow_mix_precision",
)
# As ascendsim.api.fusion and ascendsim.passes.fusion.switches have them; written out so that --help loads neither.
FUSION_LEVELS = ("off", "graph", "ub", "all")
BUFFER_OPTIMIZE = ("l2_optimize", "l1_optimize", "off_optimize")
OO_LEVELS = ("O1", "O3")
MODES = ("sink", "host", "eager")  # ascendsim.isa.program has them


def add_model_options(parser: argparse.ArgumentParser, optional: bool = False) -> None:
    """Adds the model itself (which may be left out if it is `optional`) and how it is loaded."""
    parser.add_argument("model", nargs="?", help="path of an .onnx file" + (" (optional)" if optional else ""))
    parser.add_argument("--model", dest="model_option", metavar="FILE", help="the same, as ATC writes it")
    parser.add_argument("--framework", choices=("5",), help="ATC's number of the source framework: 5, ONNX")
    text = "ATC's layout of the inputs; taken so that its command lines work: ONNX operators say their layout themselves"
    parser.add_argument("--input_format", choices=("NCHW", "ND", "NCDHW"), help=text)
    parser.add_argument("--input_shape", metavar="NAME:DIMS", help='shapes of inputs, for example "input:8,3,224,224;mask:8,128"')
    parser.add_argument("--batch", type=positive, metavar="N", help="batch size of every input; baked-in batch sizes are rewritten")
    text = 'what to keep, "node:index;node:index" or tensor names; all outputs by default'
    parser.add_argument("--out_nodes", metavar="NAMES", help=text)
    weights = "take weights from the file, or fill missing ones with seeded values (default: file)"
    parser.add_argument("--weights", choices=("file", "random"), default="file", help=weights)
    parser.add_argument("--seed", type=natural, default=0, metavar="N", help="seed of random weights and inputs (default: 0)")


def add_chip_options(parser: argparse.ArgumentParser) -> None:
    """Adds the chip and how the model is compiled for it."""
    parser.add_argument(
        "--soc_version", default="Ascend310", metavar="CHIP", help="chip (ascendsim soc list) or chip file (default: Ascend310)"
    )
    parser.add_argument(
        "--precision_mode", choices=PRECISION_MODES, default="force_fp16", help="precision of the network (default: force_fp16)"
    )
    parser.add_argument("--aicore_num", type=positive, metavar="N", help="number of AI Cores to use (default: all)")
    add_set_option(parser)
    text = "how much is fused: off, graph, ub, all, each with those before it; or graph-kernel, MindSpore's flow (default: all)"
    parser.add_argument("--fusion", choices=(*FUSION_LEVELS, "graph-kernel"), default="all", help=text)
    parser.add_argument("--graph_kernel_flags", metavar="TEXT", help='flags of graph-kernel fusion: --graph_kernel_flags="--opt_level=1"')
    parser.add_argument("--save_graphs", metavar="DIR", help="folder for Graphviz files of the graph after every stage of fusion")
    text = "static AIPP operators: inputs become uint8 images that are converted in front of the first convolution"
    parser.add_argument("--insert_op_conf", metavar="FILE", help=text)
    parser.add_argument("--output_type", metavar="TYPE", help="type of floating-point outputs: FP16, FP32, or node:index:type;...")
    text = "who launches tasks: the device (sink), the host, or a framework operator by operator (eager) (default: sink)"
    parser.add_argument("--mode", choices=MODES, default="sink", help=text)
    parser.add_argument(
        "--enable_single_stream", choices=("true", "false"), default="false", help="all tasks on one stream (default: false)"
    )
    text = "streams for independent operators: cv, LoadBalance:N or MainStream:N (default: none)"
    parser.add_argument("--multi_stream_parallel_mode", default="", metavar="MODE", help=text)
    text = "order of operators: 0 breadth first, 1 depth first, 2 reverse depth first, 3 as the model lists them (default: 3)"
    parser.add_argument("--topo_sorting_mode", type=int, choices=(0, 1, 2, 3), default=3, help=text)
    text = "1 = every tensor has memory of its own (default: 0)"
    parser.add_argument("--disable_reuse_memory", choices=("0", "1"), default="0", help=text)
    text = "how the release behaves where releases differ, for example aicpu_pow=on; may be repeated"
    parser.add_argument("--option", action="append", metavar="KEY=VALUE", help=text)
    text = "whether the graph engine optimises the graph around fusion (default: on)"
    parser.add_argument("--optimize", choices=("on", "off"), default="on", help=text)
    add_engine_options(parser)
    add_switch_options(parser)
    add_gear_options(parser)


def add_switch_options(parser: argparse.ArgumentParser) -> None:
    """Adds ATC's options that switch fusion passes on and off."""
    parser.add_argument("--fusion_switch_file", metavar="FILE", help="fusion switch file, JSON as for ATC or lines Name:on")
    parser.add_argument("--optimization_switch", metavar="TEXT", help='passes by name, "PassA:on;PassB:off"; stronger than the file')
    parser.add_argument("--oo_level", choices=OO_LEVELS, default="O3", help="O1 runs only the passes that CANN needs to work (default: O3)")
    parser.add_argument(
        "--buffer_optimize", choices=BUFFER_OPTIMIZE, default="l2_optimize", help="data buffer optimisation (default: l2_optimize)"
    )


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """Adds ATC's options of the graph engine."""
    for option, text in (("constant_folding", "constants are folded"), ("dead_code_elimination", "branches of constant conditions go")):
        parser.add_argument(f"--oo_{option}", choices=("true", "false"), default="true", help=f"whether {text} (default: true)")


def engine_settings(args: argparse.Namespace) -> dict[str, Any]:
    """Keyword arguments for `optimize` and `compile`."""
    return {name: getattr(args, name) == "true" for name in ("oo_constant_folding", "oo_dead_code_elimination")}


def print_warnings(warnings: Iterable[str]) -> None:
    """Prints warnings to standard error, one line each."""
    for warning in warnings:
        print(f"ascendsim: warning: {warning}", file=sys.stderr)


def model_path(args: argparse.Namespace) -> str | None:
    """The model that the options name, by place or by ATC's --model; None if none does.

    Raises:
        InputError: If both name one.
    """
    if args.model is not None and args.model_option is not None:
        raise InputError("option --model", "goes without a second model", repr(args.model), "name the model once")
    path: str | None = args.model if args.model_option is None else args.model_option
    return path


def load_graph(args: argparse.Namespace, fold: bool = True) -> Graph:
    """Loads the model that the options name; without `fold` its shape arithmetic stays."""
    from ascendsim.api.loading import load

    path = model_path(args)
    if path is None:
        raise InputError("no model is given", remedy="name an .onnx file; --help lists the options")
    shapes = parse_input_shape(args.input_shape) or None
    return load(path, batch=args.batch, shapes=shapes, weights=args.weights, seed=args.seed, outputs=args.out_nodes, fold=fold)


def chip_settings(args: argparse.Namespace) -> dict[str, Any]:
    """Keyword arguments for `compile`."""
    from ascendsim.api.options import parse_profile_options

    return {
        "soc": args.soc_version,
        "set": parse_settings(args.set),
        "precision_mode": args.precision_mode,
        "aicore_num": args.aicore_num,
        "fusion": args.fusion,
        "fusion_switch_file": args.fusion_switch_file,
        "optimization_switch": args.optimization_switch,
        "oo_level": args.oo_level,
        "buffer_optimize": args.buffer_optimize,
        "insert_op_conf": args.insert_op_conf,
        "output_type": args.output_type,
        "schedule": args.mode,
        "enable_single_stream": args.enable_single_stream == "true",
        "multi_stream_parallel_mode": args.multi_stream_parallel_mode,
        "topo_sorting_mode": args.topo_sorting_mode,
        "disable_reuse_memory": args.disable_reuse_memory == "1",
        **gear_settings(args),
        "options": parse_profile_options(parse_settings(args.option, option="--option")),
        "graph_kernel_flags": args.graph_kernel_flags,
        "save_graphs": args.save_graphs,
        "optimize": args.optimize == "on",
        **engine_settings(args),
    }


def positive(text: str) -> int:
    """An integer above zero (argparse type)."""
    return _integer(text, 1)


def natural(text: str) -> int:
    """An integer of zero or above (argparse type)."""
    return _integer(text, 0)


def _integer(text: str, least: int) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18 or int(text) < least:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least {least}, not {text!r}")
    return int(text)


def has_values(graph: Graph) -> bool:
    """Whether every weight has its values."""
    return all(tensor.constant.available for tensor in graph.constants if tensor.constant is not None)


@contextmanager
def progress(label: str, unit: str = "tasks") -> Iterator[Callable[[int, int], None] | None]:
    """A progress bar on standard error while the block runs; nothing (None) where standard error is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task(label, total=None)

        def show(done: int, total: int) -> None:
            bars.update(bar, completed=done, total=total)

        yield show


def check_folder(path: str | None) -> None:
    """Refuses an output folder that is a file or cannot be written, before any work is done; makes nothing."""
    if path is None:
        return
    if Path(path).exists() and not Path(path).is_dir():
        raise InputError("option --output", "must be a folder", repr(path), "choose another name")
    existing = next(folder for folder in (Path(path), *Path(path).absolute().parents) if folder.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise InputError(f"option --output: {str(existing)!r}", "is no folder that can be written", remedy="choose another folder")
