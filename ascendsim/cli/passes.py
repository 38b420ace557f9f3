"""`ascendsim passes list` and `ascendsim passes show NAME`: what rewrites graphs, in which order, and what
each pass does.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from ascendsim.cli.common import print_table
from ascendsim.cli.model_options import ENGINE, SWITCHES, add_compile_options, compile_settings
from ascendsim.compiler.options import FUSION_LEVELS, GRAPH_KERNEL
from ascendsim.core.errors import InputError, suggest

NAME = "passes"
HELP = "list all passes (graph engine, graph fusion, UB fusion) or describe one"


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|show")
    listing = actions.add_parser("list", help="every pass with its family, stage, state and summary")
    listing.add_argument(
        "--all", action="store_true", help="list CANN's passes too that have no counterpart here"
    )
    listing.add_argument(
        "--fusion",
        choices=(*FUSION_LEVELS, GRAPH_KERNEL),
        default="all",
        help="how much is fused (default: all)",
    )
    add_compile_options(listing, (*SWITCHES, *ENGINE))
    show = actions.add_parser("show", help="what one pass does, when it runs, and where it comes from")
    show.add_argument("name", help="name of a pass")


def run(args: argparse.Namespace) -> int:
    if args.action == "show":
        _show(args.name)
        return 0
    rows = [*_engine_rows(args), *_fusion_rows(args)]
    print_table(("family", "stage", "pass", "state", "what it does, or why not"), rows)
    print(f"{len(rows)} passes, {sum(row[3] == 'on' for row in rows)} on")
    return 0


def _engine_rows(args: argparse.Namespace) -> Iterator[tuple[str, str, str, str, str]]:
    from ascendsim.ops import default_opset
    from ascendsim.passes.engine import EngineSettings
    from ascendsim.passes.engine.catalogue import built_passes, ge_passes

    settings = EngineSettings.of(None, (), args.oo_level, **compile_settings(args, ENGINE))
    built = built_passes(default_opset())
    for item in built:
        why = settings.why_not(item.name)
        yield ("graph engine", " ".join(item.stages), item.name, "off" if why else "on", why or item.summary)
    if args.all:
        known = {item.name for item in built}
        for fact in ge_passes():
            if fact.name not in known:
                known.add(fact.name)
                yield ("graph engine", fact.stage, fact.name, "-", fact.semantics or "no counterpart here")


def _fusion_rows(args: argparse.Namespace) -> Iterator[tuple[str, str, str, str, str]]:
    from ascendsim.compiler.fusion import pass_states
    from ascendsim.compiler.options import CompileOptions
    from ascendsim.compiler.settings import Settings
    from ascendsim.passes.fusion.catalogue import find_fact

    chosen = compile_settings(args, (*SWITCHES, *ENGINE))
    settings = Settings.of(CompileOptions(fusion=args.fusion, **chosen)).fusion
    for state in pass_states(settings, everything=args.all):
        family, _, kind = state.kind.partition(" ")
        fact = find_fact(state.name, "graph" if family == "graph" else "ub")
        text = _short(fact.pattern) if fact is not None and state.state == "on" else state.why
        yield (f"{family} fusion", kind, state.name, state.state, text)


def _short(text: str, length: int = 90) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 3] + "..."


def _show(name: str) -> None:
    from ascendsim.ops import default_opset
    from ascendsim.passes.engine.catalogue import built_passes, ge_passes
    from ascendsim.passes.fusion.catalogue import all_facts
    from ascendsim.passes.fusion.closing import closes_by
    from ascendsim.passes.fusion.rules import all_rules, plugin_rules

    brought = {rule.name: rule for rule in plugin_rules()}
    if name in brought:
        text = (brought[name].__doc__ or "").strip()
        print(f"{name}\ngraph fusion, of an installed package (see `ascendsim plugins list`)\n\n{text}")
        return
    built = {item.name: item for item in built_passes(default_opset())}
    engine = [fact for fact in ge_passes() if fact.name == name]
    fusion = [fact for fact in all_facts() if fact.name == name]
    if name not in built and not engine and not fusion:
        known = {*built, *(fact.name for fact in ge_passes()), *(fact.name for fact in all_facts())}
        raise InputError(f"pass {name!r}", "is not known", remedy=suggest(name, known))
    print(name)
    if name in built:
        print(
            f"graph engine, runs in {', '.join(built[name].stages)}: "
            f"{built[name].summary}\n\n{built[name].description}"
        )
    for ge in engine:
        print(
            f"GE: number {ge.order}, stage {ge.stage}{': ' + ge.semantics if ge.semantics else ''} "
            f"({ge.source})"
        )
    if engine and name not in built:
        print("has no counterpart here")
    rules = {rule.name: rule for rule in all_rules()}
    for fact in fusion:
        print(
            f"{fact.family} fusion, {fact.kind}; switchable: {fact.switchable}; by default "
            f"{'on' if fact.default else 'off'}"
        )
        print(f"closed by: {closes_by(fact)}")
        print(f"pattern: {fact.pattern}")
        if fact.family == "graph":
            rule = rules.get(name)
            print((rule.__doc__ or "").strip() if rule is not None else "has no rule here")
