"""`ascendsim op TYPE SHAPE ...`: one operator on a chip, by its type and the shapes of its inputs."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ascendsim.cli.common import parse_settings
from ascendsim.cli.model_options import (
    add_chip_options,
    check_folder,
    chip_settings,
    positive,
    print_warnings,
    progress,
    warnings_of,
)
from ascendsim.cli.own import add_operators_option, own_operators
from ascendsim.cli.report_option import add_report_option, check_report_option, write_report
from ascendsim.cli.run import print_result
from ascendsim.core.errors import InputError
from ascendsim.passes.layout.causes import TRANSDATA

if TYPE_CHECKING:
    from ascendsim.api.result import Result
    from ascendsim.graph.ir import Node
    from ascendsim.profiling.metrics import TaskMetrics

NAME = "op"
HELP = "run one operator, by its type and the shapes of its inputs"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("operator", metavar="TYPE", help="its type, as ascendsim ops list has it: MatMul")
    text = (
        "shapes of its inputs in order: 1024x1024 or 1024,1024, with a type 1024x1024:int8, of a constant "
        "64x64x3x3:weight, - for one that is left out, scalar for no dimensions"
    )
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help=text)
    text = "element type of the inputs that may have it (default: float16)"
    parser.add_argument("--dtype", default="float16", metavar="TYPE", help=text)
    text = "attribute as ONNX has it, for example pads=1,1,1,1; may be repeated"
    parser.add_argument("--attr", action="append", metavar="NAME=VALUE", help=text)
    text = "an input that is known numbers, by name or place, for example axes=1; may be repeated"
    parser.add_argument("--input", action="append", metavar="NAME=NUMBERS", help=text)
    add_operators_option(parser)
    add_chip_options(parser)
    parser.set_defaults(precision_mode="must_keep_origin_dtype")  # the kernel in the type that is asked for
    output = "folder for tables (.csv), timeline.png, trace.json"
    parser.add_argument("--output", metavar="DIR", help=output)
    parser.add_argument("--timeline", metavar="FILE", help="the picture alone: .png, .svg or .pdf")
    add_report_option(parser)
    text = "record every instruction in the trace"
    parser.add_argument("--instructions", action="store_true", help=text)
    text = "operators in the printed table (default: 10)"
    parser.add_argument("--top", type=positive, default=10, metavar="N", help=text)


def run(args: argparse.Namespace) -> int:
    from ascendsim.api.compiling import compile
    from ascendsim.api.running import simulate
    from ascendsim.api.single_operator import complete, operator_graph

    started = time.perf_counter()
    check_folder(args.output)
    check_report_option(args.report)
    given = parse_settings(args.input, option="--input", form="NAME=NUMBERS")
    with complete(args.operator):
        graph = operator_graph(
            args.operator,
            args.shapes,
            dtype=args.dtype,
            attributes=parse_settings(args.attr, option="--attr", form="NAME=VALUE"),
            values={name: _numbers(name, text) for name, text in given.items()},
            operators=own_operators(args),
        )
        model = compile(graph, **chip_settings(args))
        print_warnings(warnings_of(model))
        with progress("running") as show:
            result = simulate(model, instructions=args.instructions, progress=show)
    print(_line(args.operator, result))
    print_result(result, args.top)
    if args.output is not None:
        for path in result.save(Path(args.output)):
            print(f"wrote {path}")
    if args.timeline is not None:
        print(f"wrote {result.plot_timeline().save(args.timeline)}")
    write_report(result, args.report)
    print(f"took {time.perf_counter() - started:.1f} s")
    return 0


def _line(name: str, result: Result) -> str:
    """The operator's own tasks, without conversions of types and formats in front of it and behind."""
    from ascendsim.profiling.metrics import task_metrics

    bare = name.rpartition("::")[2]
    found = [task_metrics(result.profile, view) for view in result.profile.tasks]
    around = [one for one in found if _converts(one, bare)]
    own = [one for one in found if one not in around]
    if not own:
        return f"{name} alone runs no task: nothing moves"
    main = max(own, key=lambda one: one.time_us)
    said = f"{name} alone {sum(one.time_us for one in own):,.2f} us, {_rate(main)}, bound by {main.bound}"
    for is_kind, words in ((_casts, "Casts"), (_relays, TRANSDATA)):
        took = sum(one.time_us for one in around if any(map(is_kind, one.view.nodes)))
        share = took / sum(one.time_us for one in found)
        said += f"; {words} {took:,.2f} us ({share:.0%})"
    return said


def _converts(one: TaskMetrics, name: str) -> bool:
    """Whether a task only changes types or formats for the operator."""
    return all((_casts(node) or _relays(node)) and node.name != name for node in one.view.nodes)


def _casts(node: Node) -> bool:
    """Whether a node gives its data another type."""
    return "to" in node.attributes


def _relays(node: Node) -> bool:
    """Whether a node gives its data another format."""
    return node.op_type == TRANSDATA


def _rate(one: TaskMetrics) -> str:
    """What a task achieved: of the Cube where it multiplies there, else of the memory that is busier."""
    if one.tflops:
        return f"{one.tflops:.3g} TFLOP/s ({one.of_peak:.0%} of the Cube's)"
    if one.ddr_utilisation >= one.l2_utilisation:
        return f"{one.ddr_gb_per_s:,.1f} GB/s of DDR ({one.ddr_utilisation:.0%} of its bandwidth)"
    return f"{one.l2_gb_per_s:,.1f} GB/s of L2 ({one.l2_utilisation:.0%} of its bandwidth)"


def _numbers(name: str, text: str) -> bool | list[int | float] | int | float:
    """The numbers of an option: one alone, or a list; true and false are numbers too.

    Raises:
        InputError: If one is none.

    >>> _numbers("axes", "1,2"), _numbers("min", "-0.5"), _numbers("axes", "1,"), _numbers("mode", "true")
    ([1, 2], -0.5, [1], True)
    """
    if text in ("true", "false"):
        return text == "true"
    try:
        found = [
            float(part) if any(letter in part for letter in ".en") else int(part)
            for part in (piece.strip() for piece in text.split(","))
            if part
        ]
    except ValueError:
        found = []
    if not found:
        raise InputError(f"option --input: {name}", "must be numbers, separated by commas", repr(text))
    return found if "," in text else found[0]
