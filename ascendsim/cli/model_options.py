"""Options that every command on a model shares: which model, which shapes, which chip. ATC's names where ATC
has the option.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ascendsim.cli.atc import MODES, add_atc_options, atc_settings
from ascendsim.cli.common import add_set_option, add_soc_option, parse_input_shape, parse_settings
from ascendsim.cli.dynamic_options import add_gear_options, gear_settings
from ascendsim.cli.own import add_operators_option, add_rules_option, own_operators, own_rules
from ascendsim.compiler.atc_options import FRAMEWORKS
from ascendsim.compiler.options import cli_options, default_of
from ascendsim.core.errors import InputError
from ascendsim.core.progress import bar

if TYPE_CHECKING:
    from ascendsim.compiler.model import CompiledModel
    from ascendsim.graph.ir import Graph


def add_model_options(parser: argparse.ArgumentParser, optional: bool = False) -> None:
    """Adds the model itself (which may be left out if it is `optional`) and how it is loaded."""
    parser.add_argument(
        "model",
        nargs="?",
        help="path of an .onnx, .prototxt or .mindir file" + (" (optional)" if optional else ""),
    )
    parser.add_argument("--model", dest="model_option", metavar="FILE", help="the same, as ATC writes it")
    frameworks = ", ".join(f"{number} {name}" for number, name in FRAMEWORKS.items())
    text = f"where the network comes from, by name or ATC's number: {frameworks} (default: by the file)"
    parser.add_argument("--framework", choices=(*FRAMEWORKS, *FRAMEWORKS.values()), help=text)
    parser.add_argument("--weight", metavar="FILE", help="the caffemodel of a prototxt of Caffe")
    text = (
        "ATC's layout of the inputs; taken so that its command lines work: ONNX operators say their "
        "layout themselves"
    )
    parser.add_argument("--input_format", choices=("NCHW", "ND", "NCDHW"), help=text)
    parser.add_argument(
        "--input_shape",
        metavar="NAME:DIMS",
        help='shapes of inputs, for example "input:8,3,224,224;mask:8,128"',
    )
    parser.add_argument(
        "--batch",
        type=positive,
        metavar="N",
        help="batch size of every input; baked-in batch sizes are rewritten",
    )
    text = 'what to keep, "node:index;node:index" or tensor names; all outputs by default'
    parser.add_argument("--out_nodes", metavar="NAMES", help=text)
    weights = "take weights from the file, or fill missing ones with seeded values (default: file)"
    parser.add_argument("--weights", choices=("file", "random"), default="file", help=weights)
    parser.add_argument(
        "--seed", type=natural, default=0, metavar="N", help="seed of random weights and inputs (default: 0)"
    )
    add_operators_option(parser)


SWITCHES = ("fusion_switch_file", "optimization_switch", "oo_level", "buffer_optimize")
ENGINE = ("oo_constant_folding", "oo_dead_code_elimination")


def add_chip_options(parser: argparse.ArgumentParser) -> None:
    """Adds the chip and how the model is compiled for it: the fields of `CompileOptions`."""
    add_compile_options(parser, tuple(cli_options()))
    add_set_option(parser)
    add_rules_option(parser)
    text = "how the release behaves where releases differ, for example aicpu_pow=on; may be repeated"
    parser.add_argument("--option", action="append", metavar="KEY=VALUE", help=text)
    add_gear_options(parser)
    add_atc_options(parser)


def add_compile_options(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """Adds options of `compile`, by the names of the fields of `CompileOptions`."""
    known = cli_options()
    for name in names:
        option, default = known[name], default_of(name)
        more: dict[str, Any] = {}
        if option.words:
            more = {
                "choices": sorted(option.words, reverse=option.words[0] != "0"),
                "default": None if default is None else option.words[default],
            }
        elif option.choices:
            choices = (*option.choices, *MODES) if option.name == "mode" else option.choices
            more = {"choices": choices, "default": default, "type": type(default)}
        else:
            more = {
                "default": default,
                "metavar": option.metavar,
                "type": positive if option.metavar == "N" else str,
            }
        if name == "soc":
            add_soc_option(parser, help=option.help, **more)
        else:
            parser.add_argument(f"--{option.name}", help=option.help, **more)


def compile_settings(args: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    """What the command line says of options of `compile`, as its keyword arguments."""
    known = cli_options()
    settings = {}
    for name in names:
        option, value = known[name], getattr(args, known[name].name)
        settings[name] = option.words.index(value) == 1 if option.words and value is not None else value
    return settings


def without_values(graph: Graph) -> str:
    """Why a model has no values, and what helps: names the file that is missing, or a tensor."""
    absent = [tensor for tensor in graph.constants if tensor.constant and not tensor.constant.available]
    reasons = dict.fromkeys(tensor.constant.absent_because for tensor in absent if tensor.constant)
    listed = "; ".join(list(reasons)[:3]) + ("; ..." if len(reasons) > 3 else "")
    return (
        f"{len(absent)} weights have no values, {absent[0].name!r} first ({listed}); --weights random fills "
        "them"
    )


def warnings_of(model: CompiledModel) -> tuple[str, ...]:
    """What a command says of a model beside its results: options without effect, memory that is too small."""
    complaint = model.capacity.complaint()
    return (*model.fusion.warnings, *([] if complaint is None else [complaint]))


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
        raise InputError(
            "option --model", "goes without a second model", repr(args.model), "name the model once"
        )
    path: str | None = args.model if args.model_option is None else args.model_option
    return path


def load_graph(args: argparse.Namespace, fold: bool = True) -> Graph:
    """Loads the model that the options name; without `fold` its shape arithmetic stays."""
    from ascendsim.api.loading import load

    path = model_path(args)
    if path is None:
        raise InputError("no model is given", remedy="name an .onnx file; --help lists the options")
    shapes = parse_input_shape(args.input_shape) or None
    return load(
        path,
        batch=args.batch,
        shapes=shapes,
        weights=args.weights,
        seed=args.seed,
        outputs=args.out_nodes,
        fold=fold,
        operators=own_operators(args),
        framework=FRAMEWORKS.get(args.framework, args.framework),
        weight=args.weight,
    )


def chip_settings(args: argparse.Namespace) -> dict[str, Any]:
    """Keyword arguments for `compile`."""
    from ascendsim.compiler.profile_options import parse_profile_options

    settings, warnings = atc_settings(args, compile_settings(args, tuple(cli_options())))
    print_warnings(warnings)
    return {
        **settings,
        "operators": own_operators(args),
        "passes": own_rules(args),
        "set": parse_settings(args.set),
        **gear_settings(args),
        "options": parse_profile_options(parse_settings(args.option, option="--option")),
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
    """A progress bar on standard error while the block runs; nothing (None) where standard error is no
    terminal.
    """
    if not sys.stderr.isatty():
        yield None
        return
    with bar(label, unit) as show:
        yield show


def check_folder(path: str | None, subject: str = "option --output") -> None:
    """Refuses an output folder that is a file or cannot be written, before any work is done; makes
    nothing.
    """
    if path is None:
        return
    if Path(path).exists() and not Path(path).is_dir():
        raise InputError(subject, "must be a folder", repr(path), "choose another name")
    existing = next(folder for folder in (Path(path), *Path(path).absolute().parents) if folder.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise InputError(
            f"{subject}: {str(existing)!r}",
            "is no folder that can be written",
            remedy="choose another folder",
        )
