"""`ascendsim fusion list [MODEL]`: every fusion pass, whether it runs and why, and what it did in a model."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ascendsim.cli.buffers import print_summary
from ascendsim.cli.common import print_table
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
from ascendsim.cli.own import own_rules

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
        "--refusals", action="store_true", help="say for each match that was left as it is why"
    )


def run(args: argparse.Namespace) -> int:
    from ascendsim.api.compiling import compile
    from ascendsim.compiler.fusion import FusionSettings, pass_states

    switches = (args.fusion_switch_file, own_rules(args), args.optimization_switch, args.oo_level)
    settings = FusionSettings.of(args.fusion, *switches, buffer_optimize=args.buffer_optimize)
    model = None if model_path(args) is None else compile(load_graph(args), **chip_settings(args))
    report = None if model is None else model.fusion
    print_warnings(settings.switches.warnings if report is None else report.warnings)
    states = pass_states(settings, report, args.all)
    shown = states if report is None else _most_effect_first(states, args.all)
    columns = ("pass", "kind", "state", "why", "matched", "effected")
    rows = [
        (item.name, item.kind, item.state, item.why, _count(item.matched), _count(item.effected))
        for item in shown
    ]
    print_table(columns, rows)
    if hidden := len(states) - len(shown):
        print(f"{hidden} others matched nothing: --all lists them")
    running = sum(item.state == "on" for item in states)
    print(f"{len(states)} passes, {running} on")
    if model is not None:
        print_summary(model)
    if args.refusals and report is not None:
        _print_refusals(report)
    return 0


def _most_effect_first(states: Sequence[PassState], everything: bool) -> list[PassState]:
    """Passes by what they did in a model, and of those that did nothing only the ones that the user switched
    or wrote, unless all are wanted.
    """
    wanted = [
        item
        for item in states
        if everything
        or item.matched
        or item.effected
        or item.why in USER_REASONS
        or item.kind == "graph custom"
    ]
    return sorted(wanted, key=lambda item: (-(item.effected or 0), -(item.matched or 0)))


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
