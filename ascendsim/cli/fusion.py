"""`ascendsim fusion list [MODEL]`: every fusion pass, whether it runs and why, and what it did in a model."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ascendsim.cli.buffers import print_summary
from ascendsim.cli.common import print_table
from ascendsim.cli.composites import print_composites, print_outside
from ascendsim.cli.model_options import (
    add_chip_options,
    add_model_options,
    chip_settings,
    load_graph,
    model_path,
    print_warnings,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ascendsim.compiler.fusion import PassState
    from ascendsim.passes.fusion.report import FusionReport

NAME = "fusion"
# why a pass is on or off that somebody named
USER_REASONS = ("--optimization_switch", "switch file", "ExceptionalPassOfO1Level in the switch file")
HELP = "list the fusion passes: whether each runs and why, and what it did in a model"


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="list")
    listing = actions.add_parser(
        "list", help="every pass with kind, state and reason; with a model what it matched and effected"
    )
    add_model_options(listing, optional=True)
    add_chip_options(listing)
    text = "list passes too that found nothing in the model, and CANN's passes that have no rule here"
    listing.add_argument("--all", action="store_true", help=text)
    listing.add_argument(
        "--sort",
        choices=("name", "effect", "order"),
        help="by name, by what a pass did in the model, or in the order of execution (default: by name, with "
        "a model by effect)",
    )
    listing.add_argument(
        "--refusals", action="store_true", help="say for each match that was left as it is why"
    )


def run(args: argparse.Namespace) -> int:
    from ascendsim.api.compiling import compile
    from ascendsim.compiler.fusion import pass_states
    from ascendsim.compiler.options import CompileOptions
    from ascendsim.compiler.settings import Settings

    chosen = chip_settings(args)
    settings = Settings.of(CompileOptions(**chosen)).fusion
    model = None if model_path(args) is None else compile(load_graph(args), **chosen)
    report = None if model is None else model.fusion
    print_warnings(settings.new_report().warnings if report is None else report.warnings)
    states = pass_states(settings, report, args.all)
    shown = states if report is None else _of_interest(states, args.all)
    sort = args.sort or ("name" if report is None else "effect")
    if args.sort or report is not None:
        shown = sorted(shown, key=_SORTS[sort])
    columns = [("pass", [item.name for item in shown])]
    columns += [("kind", [item.kind for item in shown]), ("state", [item.state for item in shown])]
    if sort == "order":
        columns.insert(0, ("order", [_count(item.order) for item in shown]))
    if sort != "order" or report is None:  # names stay whole: there is no room for everything
        columns += [("why", [item.why for item in shown])]
    if report is not None:
        columns += [("matched", [_count(item.matched) for item in shown])]
        columns += [("effected", [_count(item.effected) for item in shown])]
    print_table([head for head, _ in columns], zip(*(cells for _, cells in columns), strict=True))
    if hidden := len(states) - len(shown):
        print(f"{hidden} others matched nothing: --all lists them")
    running = sum(item.state == "on" for item in states)
    print(f"{len(states)} passes, {running} on")
    if model is not None:
        print_summary(model)
        if model.graph_kernel is not None:
            print_composites(model.graph_kernel)
            print_outside(model.graph_kernel)
    if args.refusals and report is not None:
        _print_refusals(report)
    return 0


_SORTS: dict[str, Callable[[PassState], Any]] = {
    "name": lambda item: (item.kind.partition(" ")[0], item.name),
    "effect": lambda item: (-(item.effected or 0), -(item.matched or 0)),
    "order": lambda item: (item.order is None, item.order or 0),
}


def _of_interest(states: Sequence[PassState], everything: bool) -> Sequence[PassState]:
    """Passes that did something in a model, and of the others the ones that the user switched or wrote,
    unless all are wanted.
    """
    return [
        item
        for item in states
        if everything
        or item.matched
        or item.effected
        or item.why in USER_REASONS
        or item.kind == "graph custom"
    ]


def _print_refusals(report: FusionReport) -> None:
    """One line a pass and reason: how many nodes, and the first of them."""
    nodes: dict[tuple[str, str, str], list[str]] = {}
    for record in report.records:
        for refusal in record.refusals:
            nodes.setdefault((record.name, record.pattern, refusal.reason), []).append(refusal.node)
    rows = [
        (name, pattern, reason, len(names), names[0] if len(names) == 1 else f"{names[0]}, ...")
        for (name, pattern, reason), names in nodes.items()
    ]
    print()
    print_table(("pass", "pattern", "why it was left", "nodes", "first"), rows)


def _count(count: int | None) -> str:
    return "-" if count is None else str(count)
