"""`ascendsim compare MODEL ...`: several models, or one compiled in several ways (fusion levels, chips,
batches, modes), in one table and one picture.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ascendsim.cli.common import print_table
from ascendsim.cli.compared_files import arrays_for, load_one, one_file
from ascendsim.cli.dynamic_options import add_choice_options, choices, gear_settings
from ascendsim.cli.model_options import (
    add_chip_options,
    add_model_options,
    check_folder,
    chip_settings,
    has_values,
    model_path,
    print_warnings,
    progress,
)
from ascendsim.cli.report_option import add_report_option, check_report_option, write_report
from ascendsim.cli.values_time import values_told
from ascendsim.cli.variants import Variant, add_variant_options, batches, parts, switch_files, variants_of
from ascendsim.core.errors import InputError
from ascendsim.core.files import make_folder

if TYPE_CHECKING:
    from ascendsim.api.comparing import Comparison
    from ascendsim.api.result import Result
    from ascendsim.compiler.model import CompiledModel
    from ascendsim.core.table import Cell, Table
    from ascendsim.graph.ir import Array, Graph
    from ascendsim.profiling.interval import DurationInterval

_COLUMNS = 6  # more variants than this are rows of the printed table instead of columns

NAME = "compare"
HELP = "compare models, or fusion levels, chips, batches, modes of one: one table, one picture"


def configure(parser: argparse.ArgumentParser) -> None:
    add_model_options(parser)
    text = "more models: float and int8, before and after a change, two exports"
    parser.add_argument("others", nargs="*", metavar="model", help=text)
    add_chip_options(parser)
    add_variant_options(parser)
    values = (
        "compute the outputs as the device does, in the model's own types, or not at all (default: "
        "device if the model has its weights)"
    )
    parser.add_argument("--values", choices=("device", "float32", "off"), help=values)
    add_choice_options(parser)
    ablate = (
        "switch the passes that did something on and off one at a time and show what each contributes "
        "(one fusion level, default: all)"
    )
    parser.add_argument("--ablate", action="store_true", help=ablate)
    text = (
        "switch the graph engine's techniques on one after another over host scheduling (constant folding, "
        "fusion, sinking, memory reuse, streams) and show what each adds"
    )
    parser.add_argument("--build_up", action="store_true", help=text)
    text = (
        "the same from a graph that is optimised and fused already: sinking, memory reuse and several "
        "streams, with what they add together"
    )
    parser.add_argument("--build_up_fused", action="store_true", help=text)
    parser.add_argument(
        "--output",
        metavar="DIR",
        help="folder for compare.csv and compare.png, ablation.csv, or build_up.csv and build_up.png",
    )
    add_report_option(parser)


def run(args: argparse.Namespace) -> int:
    started = time.perf_counter()
    check_folder(args.output)
    args.build_up = args.build_up or args.build_up_fused
    if args.report is not None and (args.build_up or args.ablate):
        raise InputError(
            "option --report", "shows variants side by side", remedy="leave out --ablate, --build_up"
        )
    check_report_option(args.report)
    if args.build_up:
        _build_up(args)
    elif args.ablate:
        _ablate(args)
    elif any(value is not None for value in gear_settings(args).values()):
        _compare_gears(args)
    else:
        _compare(args)
    print(f"took {time.perf_counter() - started:.1f} s")
    return 0


def _compare(args: argparse.Namespace) -> None:
    from ascendsim.api.comparing import compare

    variants = variants_of(args)
    with values_told():
        results = dict(_results(args, variants))
    comparison = compare(results)
    print_comparison(comparison)
    if args.output is not None:
        for path in comparison.save(Path(args.output)):
            print(f"wrote {path}")
    write_report(comparison, args.report)


def _results(args: argparse.Namespace, variants: Sequence[Variant]) -> Iterator[tuple[str, Result]]:
    """Runs of the variants, one after another; a graph is loaded once a file and batch."""
    from ascendsim.api.compiling import compile
    from ascendsim.api.running import random_inputs, run, simulate

    graphs: dict[tuple[str | None, int | None], Graph] = {}
    shown: set[str] = set()
    first: tuple[CompiledModel, dict[str, Array]] | None = None
    for variant in variants:
        key = (variant.file, variant.batch)
        if key not in graphs:
            graphs[key] = load_one(args, *key)
        graph = graphs[key]
        values = args.values or (
            "device" if has_values(graph) and len({v.batch for v in variants}) == 1 else "off"
        )
        model = compile(graph, **variant.options)
        print_warnings(warning for warning in model.fusion.warnings if warning not in shown)
        shown.update(model.fusion.warnings)
        with progress(variant.name) as show:
            if values == "off":
                yield variant.name, simulate(model, **choices(args), progress=show)
                continue
            arrays: dict[str, Array] | None = random_inputs(model, args.seed)
            if first is None:
                first = model, random_inputs(model, args.seed)
            if variant.file != variants[0].file:
                arrays = arrays_for(*first, model)
            if arrays is None:
                said = f"{variant.name} takes other inputs than {variants[0].name}: outputs are not compared"
                print_warnings([said])
                yield variant.name, simulate(model, **choices(args), progress=show)
                continue
            yield variant.name, run(model, arrays, values=values, progress=show)  # type: ignore[arg-type]


def _one_variant(args: argparse.Namespace, option: str) -> tuple[Graph, dict[str, Any]]:
    """The graph and the options for `compile` where lists make no sense.

    Raises:
        InputError: If a list names more than one.
    """
    one_file(args, option)
    chips, sizes = parts(args.soc_version, "--soc_version"), batches(args.batch)
    levels = parts(args.fusion, "--fusion") if args.fusion is not None else ("all",)
    modes = parts(args.mode, "--mode")
    if len(chips) * len(sizes) * len(levels) * len(modes) * len(switch_files(args)) > 1:
        rule = "takes one fusion level, switch file, chip, batch and mode"
        raise InputError(f"option {option}", rule, remedy="leave the others out")
    graph = load_one(args, model_path(args), sizes[0])
    return graph, {**chip_settings(args), "soc": chips[0], "fusion": levels[0], "schedule": modes[0]}


def _compare_gears(args: argparse.Namespace) -> None:
    from ascendsim.api.comparing_gears import compare_gears

    option = next(name for name, value in gear_settings(args).items() if value is not None)
    graph, settings = _one_variant(args, f"--{option}")
    comparison = compare_gears(graph, **settings)
    hosted = any(figure.name.startswith("host ") for figure in comparison.figures)
    more = ", and with open shapes that the host schedules" if hosted else " (this chip runs no open shapes)"
    print(f"each gear in the model with gears, as a static model of its own{more}")
    print_comparison(comparison)
    if args.output is not None:
        for path in comparison.save(Path(args.output)):
            print(f"wrote {path}")
    write_report(comparison, args.report)


def _ablate(args: argparse.Namespace) -> None:
    from ascendsim.api.ablation import ablate

    graph, settings = _one_variant(args, "--ablate")
    with progress("switching passes off", "passes") as show:
        found = ablate(graph, **settings, **choices(args), progress=show)
    print(f"{graph.name} on {settings['soc']}, fusion {settings['fusion']}: what each pass contributes")
    table = found.table()
    print_table(table.columns, _cells(table))
    if args.output is not None:
        target = make_folder(args.output)
        table.to_csv(target / "ablation.csv")
        print(f"wrote {target / 'ablation.csv'}")


def _build_up(args: argparse.Namespace) -> None:
    from ascendsim.api.building_up import SWITCHED, build_up
    from ascendsim.compiler.options import default_of

    if args.ablate:
        raise InputError("option --build_up", "goes without --ablate")
    graph, settings = _one_variant(args, "--build_up")
    chosen = {name: value for name, value in settings.items() if name not in SWITCHED}
    for name in SWITCHED & settings.keys():
        if settings[name] != default_of(name):
            raise InputError(f"option {name}", "is switched step by step", remedy="leave it out")
    start = "fused" if args.build_up_fused else "host"
    found = build_up(graph, **chosen, **choices(args), start=start)
    table = found.table()
    print(f"{found.network} on {found.soc}: what each technique of the graph engine adds")
    print_table(table.columns, _cells(table))
    if args.build_up_fused:
        together = found.gain("sinking", "several streams")
        print(f"sinking, memory reuse and several streams together: {together:+.1%} throughput")
    if args.output is not None:
        target = make_folder(args.output)
        table.to_csv(target / "build_up.csv")
        print(f"wrote {target / 'build_up.csv'}")
        print(f"wrote {found.plot().save(target / 'build_up.png')}")


def print_comparison(comparison: Comparison) -> None:
    """Prints the table, one column a variant as long as that is narrow; then why differences of values are
    missing, if they are.
    """
    print(", ".join(dict.fromkeys(result.model.source.name for result in comparison.results.values())))
    table = comparison.table()
    # the notes on values and the interval stand below, and what nothing is known of nowhere
    left_out = {"Values", "Likely from(us)", "Likely to(us)"}
    shown = [
        index
        for index, column in enumerate(table.columns)
        if column not in left_out and any(cell is not None for cell in table.column(column))
    ]
    figures = [table.columns[index] for index in shown]
    rows = [[row[index] for index in shown] for row in _cells(table)]
    if len(rows) <= _COLUMNS:
        names, *columns = zip(figures, *rows, strict=True)
        print_table(names, columns)
    else:
        print_table(figures, rows)
    print("Launch(us): of all tasks added up, which overlap: no part of the time")
    for line in _likely_lines(comparison):
        print(line)
    for line in dict.fromkeys(_notes(comparison)):
        print(line)
    reasons = {
        figure.difference.note: figure.name
        for figure in reversed(comparison.figures)
        if figure.difference.absolute is None
    }
    for reason, name in reasons.items():
        print(f"outputs not compared ({name}): {reason}")


def _notes(comparison: Comparison) -> Iterator[str]:
    """What the figures of variants do not say by themselves."""
    figures = comparison.figures
    kept = [f.name for f in figures if f.ddr_write_bytes < _output_bytes(comparison.results[f.name])]
    if kept:
        yield f"DDR write of {', '.join(kept)}: results that L2 holds are still there at the end"
    for name, result in comparison.results.items():
        if result.model.buffers.whole:
            yield f"{name}: {result.model.buffers.whole}"


def _output_bytes(result: Result) -> int:
    """Bytes of the results that a run leaves on the device, those of known sizes."""
    outputs = result.profile.graph.outputs
    return sum(tensor.storage_bytes for tensor in outputs if tensor.is_static and tensor.dtype is not None)


def _likely_lines(comparison: Comparison) -> list[str]:
    """Where a real chip is likely to be done: one line for all variants with the same factors, of the one
    that rests on measurements if there is one.
    """
    groups: dict[tuple[str, str], list[tuple[str, DurationInterval]]] = {}
    for figure in comparison.figures:
        likely, us = figure.likely, figure.duration_us
        if likely is not None and us:
            factors = (f"{likely.low_us / us:.2f}", f"{likely.high_us / us:.2f}")
            groups.setdefault(factors, []).append((figure.name, likely))
    lines = []
    for (low, high), members in groups.items():
        name, likely = min(members, key=lambda member: len(member[1].note))  # the others quote its note
        ends = str(likely).removeprefix("likely ")
        of = "" if len(groups) == 1 else f" of {', '.join(other for other, _ in members)}"
        lines.append(
            f"likely ({likely.share:.0%}): {low} to {high} times the time{of}, {name} {ends} ({likely.note})"
        )
    return lines


def _cells(table: Table) -> list[list[str]]:
    """Cells as people read them: fewer decimals for larger numbers, "-" for missing ones."""
    from ascendsim.core.table import GENERAL

    return [
        [
            _cell(cell, table.styles.get(column) == GENERAL)
            for column, cell in zip(table.columns, row, strict=True)
        ]
        for row in table
    ]


def _cell(cell: Cell, general: bool) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.3g}" if general else f"{cell:.2f}" if abs(cell) < 100 else f"{cell:,.1f}"
    return str(cell)
