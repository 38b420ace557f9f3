"""`ascendsim plugins list`: the installed packages that extend the simulator, and what became of them."""

from __future__ import annotations

import argparse
import warnings

from ascendsim.cli.common import print_table
from ascendsim.core import plugins
from ascendsim.core.errors import PluginWarning

NAME = "plugins"
HELP = "list the installed packages that bring operators, fusion rules or chips"


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="list")
    text = (
        f"every plugin with what it brings; the variable {plugins.VARIABLE} is {' or '.join(plugins.MODES)}"
    )
    actions.add_parser("list", help="every plugin with what it brings", description=text)


def run(args: argparse.Namespace) -> int:
    from ascendsim.ops import opset_with_plugins
    from ascendsim.passes.fusion.rules import plugin_rules
    from ascendsim.soc.loading import plugin_chips

    if plugins.mode() == "off":
        print(f"plugins are off ({plugins.VARIABLE}=off)")
        return 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PluginWarning)  # the table says it
        opset_with_plugins(), plugin_rules(), plugin_chips()
    states = plugins.states()
    rows = [
        (
            state.plugin.group,
            state.plugin.name,
            f"{state.plugin.package} {state.plugin.version}",
            f"left out: {state.problem}" if state.problem else ", ".join(state.gives),
        )
        for state in states
    ]
    if rows:
        print_table(("group", "plugin", "package", "brings"), rows)
    broken = sum(bool(state.problem) for state in states)
    print(f"{len(rows)} plugins" + (f", {broken} left out" if broken else ""))
    return 1 if broken else 0
