"""`ascendsim run MODEL`: compile a model for a chip, run it, say where the time goes and write tables,
picture and trace.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ascendsim.cli.common import parse_settings, print_table
from ascendsim.cli.dynamic_options import add_choice_options, add_gear_choice, choices, run_shapes
from ascendsim.cli.image_options import add_scaling_options
from ascendsim.cli.logs import add_log_option, logged, write_log
from ascendsim.cli.model_options import (
    add_chip_options,
    add_model_options,
    check_folder,
    chip_settings,
    has_values,
    load_graph,
    positive,
    print_warnings,
    progress,
    warnings_of,
    without_values,
)
from ascendsim.cli.report_option import add_report_option, check_report_option, write_report
from ascendsim.cli.saved import saved_model
from ascendsim.cli.values_time import values_told
from ascendsim.core import plugins
from ascendsim.core.errors import InputError, suggest

if TYPE_CHECKING:
    from ascendsim.api.result import Result
    from ascendsim.api.tile_values import TileCoverage
    from ascendsim.compiler.model import CompiledModel
    from ascendsim.core.table import Table
    from ascendsim.graph.ir import Array
    from ascendsim.profiling.export import Export

NAME = "run"
HELP = "run a model on a chip: where the time goes, and the outputs"


def configure(parser: argparse.ArgumentParser) -> None:
    add_model_options(parser)
    add_chip_options(parser)
    values = (
        "compute the outputs as the device does, in the model's own types, by the blocks that were timed "
        "(tile), or not at all (default: device if the model has its weights)"
    )
    parser.add_argument("--values", choices=("device", "float32", "tile", "off"), help=values)
    text = (
        "with --values tile: tasks whose blocks do not say what they do are an error, or computed by their "
        "operators (default: refuse)"
    )
    parser.add_argument("--lacking", choices=("refuse", "operators"), help=text)
    parser.add_argument(
        "--input",
        action="append",
        metavar="NAME=FILE.npy",
        help="values of an input; others are random; may be repeated",
    )
    text = (
        "a folder of images, or one, in place of the input that takes them; DVPP prepares them while the "
        "network works on those before"
    )
    parser.add_argument("--images", metavar="DIR", help=text)
    add_scaling_options(parser)
    text = "how images of other proportions come to the network's size (default: stretch)"
    parser.add_argument("--fit", choices=("stretch", "crop"), help=text)
    output = "folder for tables (.csv), timeline.png, trace.json, fusion results and log, outputs.npz"
    parser.add_argument("--output", metavar="DIR", help=output)
    text = (
        "write the run for other tools too, into the folder of --output: forms out of msprof, ascend_pt, "
        "kineto and opprof, separated by commas"
    )
    parser.add_argument("--export", metavar="FORMS", help=text)
    add_report_option(parser)
    add_log_option(parser)
    add_gear_choice(parser)
    add_choice_options(parser)
    parser.add_argument(
        "--top", type=positive, default=10, metavar="N", help="operators in the printed table (default: 10)"
    )
    text = (
        "shortcuts that the machine takes, out of fast_forward,groups,replay,solo, or none; the result is "
        "the same (default: all)"
    )
    parser.add_argument("--shortcuts", metavar="LIST", help=text)
    parser.add_argument(
        "--instructions",
        action="append",
        metavar="NODE",
        help="record every instruction of this operator in the trace; may be repeated",
    )


def run(args: argparse.Namespace) -> int:
    from ascendsim.api.compiling import compile
    from ascendsim.compiler.model import CompiledModel

    started = time.perf_counter()
    check_folder(args.output)
    check_report_option(args.report)
    model = saved_model(args) or logged(args, lambda: compile(load_graph(args), **chip_settings(args)))
    values = args.values or ("device" if has_values(model.source) else "off")
    print_warnings(warnings_of(model))
    if type(model) is CompiledModel:  # others have their tasks when they run
        for node in args.instructions or ():
            model.tasks_of(node)  # an unknown name is an error with a suggestion
    if args.images is None and (args.mean or args.std or args.fit):
        raise InputError("options --mean, --std and --fit", "are for images", remedy="add --images DIR")
    if args.lacking and values != "tile":
        raise InputError("option --lacking", "is for values tile by tile", remedy="add --values tile")
    forms = _forms(args)
    with values_told():
        result = _execute(model, args, values)
    write_log(args, result.model)  # open models are compiled piece by piece while they run
    print_result(result, args.top)
    if result.image_run is not None:
        print_formatted(
            _columns(
                result.images()[: args.top], "Image", "Decoder", "Decoded(us)", "Ready(us)", "Latency(us)"
            )
        )
        print()
    if args.values is None and values == "off":
        print(f"no values: {without_values(model.source)}")
    if values != "off":
        _print_outputs(result, values)
        if values == "tile":
            _print_tiles(result.tile_coverage())
        if line := result.numerics_line():
            print(f"numbers: {line}")
    if args.output is not None:
        for path in _write(result, Path(args.output), values):
            print(f"wrote {path}")
        if forms:
            _print_export(result.export(args.output, *forms))
    write_report(result, args.report)
    print(f"took {time.perf_counter() - started:.1f} s")
    return 0


def _forms(args: argparse.Namespace) -> tuple[str, ...]:
    """The forms of --export, before the run, so that a slip costs no time."""
    if args.export is None:
        return ()
    from ascendsim.profiling.export import check_forms

    if args.output is None:
        raise InputError("option --export", "needs a folder", remedy="add --output DIR")
    forms = tuple(args.export.split(","))
    check_forms(forms)
    if "opprof" in forms and not args.instructions:
        raise InputError("option --export opprof", "needs instructions", remedy="add --instructions NODE")
    return forms


def _print_export(written: Export) -> None:
    for path in written.paths:
        print(f"wrote {path}")
    print(f"exported {len(written.files)} files, {written.bytes / 1e6:.1f} MB")
    for lack in written.lacking:
        print(f"no data for {lack}")


def print_result(result: Result, top: int) -> None:
    """Prints the totals and the operators that take the most time."""
    from ascendsim.profiling.metrics import BOUND_PAGE

    total, memory = result.summary(), result.model.program.memory
    batch, runs = f"batch {total.batch}", result.model.program.info.runs
    if result.image_run is not None:
        batch = f"{total.batch} images in {runs} batch{'es' if runs > 1 else ''}"
    print(f"{total.model} on {total.soc}, {batch}: {total.tasks} tasks")
    print(
        f"device time {total.duration_us:,.1f} us = {total.cycles:,} cycles, {total.samples_per_s:,.1f} "
        f"samples/s"
    )
    likely = result.duration_interval()
    print(f"{likely} ({likely.share:.0%}: {likely.note})")
    print(
        f"Cube {total.achieved_tflops:.2f} of {total.peak_tflops:.1f} TFLOP/s "
        f"({percent(total.achieved_tflops, total.peak_tflops)}), "
        f"DDR {total.ddr_bytes / 1e6:,.1f} MB ({total.ddr_utilisation:.0%} of its bandwidth), "
        f"device memory {memory.peak_bytes / 2**20:.1f} MiB + weights {memory.weight_bytes / 2**20:.1f} MiB"
    )
    if extended_by := plugins.versions():
        print("extended by " + ", ".join(f"{name} {version}" for name, version in extended_by.items()))
    if gear := result.model.program.info.gear:
        print(f"gear {gear}")
    if result.model.buffers.whole:
        print(result.model.buffers.whole)
    if result.schedule_reasons:
        print("scheduled by the host, task by task: " + "; ".join(result.schedule_reasons))
    print(
        "time of tasks by the engine that does their work: "
        + ", ".join(f"{engine} {share:.0%}" for engine, share in total.engine_shares.items())
    )
    print()
    _print_types(result, top)
    print()
    print_formatted(result.top_operators(top))
    print("Share(%): of the time of all tasks added up; Of peak(%): of the Cube's rate, or of the memory's")
    print(
        "Bound by: what keeps the operator from being faster; latency: nothing is near its limit, pipes wait"
    )
    print(f"for each other; Busiest pipe: the one nearest to its limit (what to do about each: {BOUND_PAGE})")
    print()
    if total.assumed:
        print(f"{len(total.assumed)} figures of the chip are assumed (ascendsim soc show {total.soc})")


def _print_types(result: Result, top: int) -> None:
    """One line an operator type, those with the most time first; the rest in one."""
    table = result.op_statistic()
    rows = table.records()
    shown = table[:top]
    print_formatted(
        _columns(shown, "OP Type", "Core Type", "Count", "Total Time(us)", "Max Time(us)", "Ratio(%)")
    )
    if rest := rows[top:]:
        print(f"{len(rest)} more types: {sum(float(row['Ratio(%)'] or 0) for row in rest):.1f} % of the time")


def print_formatted(table: Table) -> None:
    """Prints a report table: floats with one to two decimals, missing cells as "-"."""
    print_table(table.columns, [[_cell(cell) for cell in row] for row in table.rows])


def _columns(table: Table, *names: str) -> Table:
    """Some columns of a table."""
    from ascendsim.core.table import Table

    return Table(table.name, names, tuple(tuple(row[name] for name in names) for row in table.records()))


def percent(part: float, whole: float) -> str:
    """A share in percent.

    >>> percent(1, 8)
    '12.5%'
    """
    return f"{100 * part / whole:.1f}%" if whole else "-"


def _cell(cell: str | int | float | None) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.2f}" if abs(cell) < 100 else f"{cell:.1f}"
    return str(cell)


def _execute(model: CompiledModel, args: argparse.Namespace, values: str) -> Result:
    from ascendsim.api import running
    from ascendsim.images.forms import IMAGENET_MEAN, IMAGENET_STD

    recorded = frozenset(args.instructions or ())
    shortcuts = (
        running.SHORTCUTS
        if args.shortcuts is None
        else tuple(name for name in args.shortcuts.split(",") if name != "none")
    )
    given = _given(model, args)
    with progress("running") as show:
        if values == "off":
            return running.simulate(
                model,
                images=args.images,
                shapes=_shapes(model, args, given),
                **choices(args),
                instructions=recorded,
                progress=show,
                shortcuts=shortcuts,
            )
        return running.run(
            model,
            _inputs(model, args, given),
            images=args.images,
            mean=args.mean or IMAGENET_MEAN,
            std=args.std or IMAGENET_STD,
            fit=args.fit or "stretch",
            values=values,  # type: ignore[arg-type]
            lacking=args.lacking or "refuse",
            instructions=recorded,
            progress=show,
            shortcuts=shortcuts,
        )


def _given(model: CompiledModel, args: argparse.Namespace) -> dict[str, Array]:
    """The arrays of --input.

    Raises:
        InputError: If one is of no input, or its file cannot be read.
    """
    from ascendsim.accuracy.dumps import read_array

    arrays: dict[str, Array] = {}
    known = dict.fromkeys(tensor.name for tensor in (*model.source.inputs, *model.graph.inputs))
    for name, path in parse_settings(args.input, option="--input", form="NAME=FILE.npy").items():
        if name not in known:
            raise InputError(f"input {name!r}", "is not an input of the model", remedy=suggest(name, known))
        arrays[name] = read_array(path)
    return arrays


def _shapes(
    model: CompiledModel, args: argparse.Namespace, given: Mapping[str, Array]
) -> dict[str, tuple[int, ...]] | None:
    """The input shapes of the run: of the gear that is named, or as the arrays say."""
    from ascendsim.compiler.dynamic_inputs import shapes_of_arrays
    from ascendsim.compiler.gears import GearedModel

    graph = model.network if isinstance(model, GearedModel) else model.graph
    return run_shapes(model, args) or shapes_of_arrays(graph, given) or None


def _inputs(model: CompiledModel, args: argparse.Namespace, given: Mapping[str, Array]) -> dict[str, Array]:
    from ascendsim.api.image_runs import other_inputs
    from ascendsim.api.running import random_inputs

    arrays = random_inputs(model, args.seed, shapes=_shapes(model, args, given))
    if args.images is not None:
        arrays = {name: arrays[name] for name in other_inputs(model)}
    return arrays | dict(given)


def _print_outputs(result: Result, values: str) -> None:
    print(f"outputs ({values} values):")
    for name, array in result.outputs.items():
        shape = ",".join(map(str, array.shape))
        spread = f"from {array.min():.6g} to {array.max():.6g}" if array.size else "empty"
        print(
            f"  {name} {array.dtype}[{shape}] {spread}"
            + (f", largest at {int(array.argmax())}" if array.size else "")
        )


def _print_tiles(found: TileCoverage) -> None:
    """How much was computed by blocks, and what was not."""
    print(found)
    if found.lacking:
        listed = ", ".join(f"{name} ({count})" for name, count in found.lacking.items())
        print(f"computed by their operators: {listed}")


def _write(result: Result, folder: Path, values: str) -> list[Path]:
    from ascendsim.accuracy.dumps import write_arrays
    from ascendsim.core.files import remove_file

    written = list(result.save(folder))
    if values != "off":
        written.append(write_arrays(folder / "outputs.npz", result.outputs))
    else:
        remove_file(folder / "outputs.npz")  # those of an earlier run are not of this one
    return written
