"""Runs graph-fusion rules in CANN's order: for each pattern first all matches are found, then they are rewritten one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ascendsim.core.errors import AscendSimError, PassError
from ascendsim.graph.ir import Graph
from ascendsim.graph.verify import verify
from ascendsim.passes.fusion.report import FusionReport, PatternRecord, Refusal
from ascendsim.passes.fusion.rule import FusionContext, FusionRule


def run_rules(
    graph: Graph,
    rules: Sequence[FusionRule],
    context: FusionContext,
    report: FusionReport,
    after: Callable[[FusionRule, Graph], None] | None = None,
) -> None:
    """Applies rules in the given order, in place.

    Args:
        graph: With all shapes known.
        rules: Already ordered and switched.
        context: What the rules may ask.
        report: Receives one record a pattern that matched.
        after: Called after each rule that changed the graph (dumps).

    Raises:
        PassError: If a rule failed or left a broken graph; names it and the rules that had changed the graph before.
    """
    changed_before: list[str] = []
    for rule in rules:
        effected = 0
        for pattern in rule.patterns:
            record = _run_pattern(graph, rule, pattern, context, changed_before)
            effected += record.effected
            if record.matched:
                report.records.append(record)
        if effected:
            _verify(graph, rule, changed_before)
            changed_before.append(rule.name)
            if after is not None:
                after(rule, graph)


def _run_pattern(graph: Graph, rule: FusionRule, pattern: str, context: FusionContext, before: list[str]) -> PatternRecord:
    record = PatternRecord("graph", rule.name, pattern)
    matches = list(rule.find(graph, pattern))
    record.matched = len(matches)
    for found in matches:
        match = rule.again(graph, found)
        if match is None:
            record.refusals.append(Refusal(found.root.name, "an overlapping match was rewritten before"))
            continue
        reason = rule.check(match, context)
        if reason is not None:
            record.refusals.append(Refusal(match.root.name, reason))
            continue
        names = tuple(node.name for node in match.all_nodes)
        try:
            rule.rewrite(graph, match, context)
        except AscendSimError as error:
            remedy = f"rules that had changed the graph before: {', '.join(before) or 'none'}"
            raise PassError(f"fusion pass {rule.name!r}", f"failed at node {names[0]!r}: {error}", remedy=remedy) from error
        record.effected += 1
        record.fused.append(names)
    return record


def _verify(graph: Graph, rule: FusionRule, before: list[str]) -> None:
    try:
        verify(graph)
    except AscendSimError as error:
        remedy = f"this is a defect of the pass; changed before it: {', '.join(before) or 'none'}"
        raise PassError(f"fusion pass {rule.name!r}", f"left a broken graph: {error}", remedy=remedy) from error
