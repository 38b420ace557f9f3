"""Runs graph-fusion rules in CANN's order: for each pattern first all matches are found, then they are
rewritten one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ascendsim.graph.ir import Graph
from ascendsim.passes.fusion.catalogue import find_fact
from ascendsim.passes.fusion.report import FusionReport
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.rewriting.control import ControlEdges
from ascendsim.passes.rewriting.passes import verify_after
from ascendsim.passes.rewriting.pattern import Match
from ascendsim.passes.rewriting.replace import replacing
from ascendsim.passes.rewriting.report import PatternRecord
from ascendsim.passes.rewriting.runner import Blame, rewrite_found


def run_rules(
    graph: Graph,
    rules: Sequence[FusionRule],
    context: FusionContext,
    report: FusionReport,
    after: Callable[[FusionRule, Graph], None] | None = None,
    root: Graph | None = None,
) -> None:
    """Applies rules in the given order, in place.

    What a rewrite makes keeps the names of all operators that it stands for in `origin["source_names"]`. The
    graph is verified after each rule of a user that changed it, and at the end.

    Args:
        graph: With all shapes known.
        rules: Already ordered and switched.
        context: What the rules may ask.
        report: Receives one record a pattern that matched.
        after: Called with the rule and the root graph after each rule that changed something (dumps).
        root: The outermost graph if `graph` is a subgraph of it.

    Raises:
        PassError: If a rule failed or left a broken graph; names it and the rules that had changed the graph
            before.
    """
    changed_before: list[str] = []
    checked = 0  # how many of them the last verification covered
    root = root or graph
    present = {node.op_type for node in graph.nodes}
    for rule in rules:
        effected = 0
        for pattern in rule.patterns:
            if any(present.isdisjoint(types) for types in rule.needs(pattern)):
                continue
            record = _run_pattern(graph, rule, pattern, context, changed_before)
            effected += record.effected
            if record.matched:
                report.records.append(record)
        if effected:
            present = {node.op_type for node in graph.nodes}
            changed_before.append(rule.name)
            if find_fact(rule.name, "graph") is None:
                _verify(root, changed_before, checked)
                checked = len(changed_before)
            if after is not None:
                after(rule, root)
    if checked < len(changed_before):
        _verify(root, changed_before, checked)


def _run_pattern(
    graph: Graph, rule: FusionRule, pattern: str, context: FusionContext, before: list[str]
) -> PatternRecord:
    """Finds and rewrites one pattern; says in which pass and where something went wrong."""

    def check(match: Match) -> str | None:
        return ControlEdges.of(match.all_nodes).refusal() or rule.check(match, context)

    def rewrite(match: Match) -> None:
        with replacing(graph, match.all_nodes):
            rule.rewrite(graph, match, context)

    looking = f"when looking for pattern {pattern!r}"
    remedy = f"rules that had changed the graph before: {', '.join(before) or 'none'}"
    with Blame(f"fusion pass {rule.name!r}", looking, remedy) as blame:
        found = blame.at(list(rule.find(graph, pattern)))
        record = PatternRecord("graph", rule.name, pattern)
        return rewrite_found(record, found, check, rewrite, partial(rule.again, graph))


def _verify(graph: Graph, changed: Sequence[str], checked: int) -> None:
    """Verifies a graph; the culprit is one of the rules that changed it since `checked` of them had."""
    before, suspects = changed[:checked], changed[checked:]
    several = f"one of the fusion passes {', '.join(suspects)}"
    subject = f"fusion pass {suspects[0]!r}" if len(suspects) == 1 else several
    remedy = f"this is a defect of the pass; changed before it: {', '.join(before) or 'none'}"
    verify_after(graph, subject, remedy)
