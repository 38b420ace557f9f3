"""Graph fusion of a whole model: which rules run, in which order, on the graph and on every subgraph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from ascendsim.graph.ir import Graph
from ascendsim.passes.fusion.engine import run_rules
from ascendsim.passes.fusion.order import in_order, phase_of
from ascendsim.passes.fusion.report import FusionReport
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.fusion.switches import Switches

Dump = Callable[[str, Graph], None]


def fuse_graph(
    graph: Graph,
    rules: Sequence[FusionRule],
    context: FusionContext,
    switches: Switches,
    report: FusionReport,
    dump: Dump | None = None,
    *,
    second_round: bool = False,
) -> None:
    """Runs the rules that are on, in CANN's order, in place. Each group of rules handles the graph, then
    every subgraph.

    Args:
        graph: With all shapes known.
        rules: CANN's rules and the user's own, in any order; those of the other round are skipped.
        context: What the rules may ask.
        switches: Decide which rules run.
        report: Receives the records, and the rules that are off with the reason.
        dump: Called with the name of a pass and the graph after each pass that changed it.
        second_round: Runs the rules for the device graph (formats chosen, Cast and TransData in place)
            instead of those for the user's.

    Raises:
        PassError: If a rule failed or left a broken graph.
    """
    mine = [rule for rule in in_order(rules, switches) if phase_of(rule).second_round == second_round]
    running = []
    for rule in mine:
        decision = switches.decide(rule.name, "graph")
        if decision.on:
            running.append(rule)
        else:
            report.switched_off[rule.name] = decision.why
    after = None if dump is None else (lambda rule, root: dump(rule.name, root))
    for _, group in groupby(running, key=phase_of):
        together = tuple(group)
        run_rules(graph, together, context, report, after)
        for subgraph in _subgraphs(graph):
            run_rules(subgraph, together, context, report, after, root=graph)


def _subgraphs(graph: Graph) -> Iterator[Graph]:
    """Every subgraph, outer ones first."""
    for node in graph.holders:
        for _, subgraph in node.subgraphs:
            yield subgraph
            yield from _subgraphs(subgraph)
