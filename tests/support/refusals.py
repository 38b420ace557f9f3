"""Why a graph-fusion rule refuses, for graphs that cannot be evaluated (constants without values, unknown
shapes)."""

from __future__ import annotations

from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Graph
from ascendsim.passes.fusion.engine import run_rules
from ascendsim.passes.fusion.report import FusionReport
from ascendsim.passes.fusion.rule import FusionRule
from tests.support.fusing import context


def reasons(graph: Graph, rule: FusionRule, generation: str = "v100") -> list[str]:
    """Runs a rule that must match and refuse every match; returns the reasons."""
    report = FusionReport()
    run_rules(copy_graph(graph), [rule], context(generation), report)
    assert report.records
    assert not any(record.effected for record in report.records)
    return [refusal.reason for record in report.records for refusal in record.refusals]
