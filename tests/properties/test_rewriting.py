"""Laws of rewriting on any graph with any control edges: values, the order that edges ask for, names, and
whom a node stands for.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ascendsim.graph.ir import Graph
from ascendsim.graph.text import to_text
from ascendsim.graph.verify import verify
from ascendsim.passes.fusion.engine import run_rules
from ascendsim.passes.fusion.report import FusionReport
from ascendsim.passes.fusion.rule import FusionContext
from ascendsim.passes.rewriting.pattern import Match
from tests.properties.test_fusion_engine import STEPS, random_graph, values
from tests.support.toy_rules import DropNeutral, JoinRelu, named, toy_context

EDGES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=5)


def tied(steps: list[tuple[str, int, float]], edges: list[tuple[int, int]]) -> Graph:
    """A random graph whose nodes wait for earlier ones."""
    graph = random_graph(steps)
    order = graph.topological()
    for one, other in edges:
        before, after = sorted((one % len(order), other % len(order)))
        if before != after:
            order[after].add_control(order[before])
    return graph


def order_of(graph: Graph) -> dict[str, set[str]]:
    """For each node the names of all that must run before it."""
    found: dict[str, set[str]] = {}
    for node in graph.topological():
        before = graph.predecessors(node)
        found[node.name] = {item.name for item in before}.union(*(found[item.name] for item in before))
    return found


@given(STEPS, EDGES)
def test_values_names_and_order_stay(
    steps: list[tuple[str, int, float]], edges: list[tuple[int, int]]
) -> None:
    graph = tied(steps, edges)
    before, order, names = values(graph), order_of(graph), [tensor.name for tensor in graph.outputs]
    report = FusionReport()
    run_rules(graph, [JoinRelu(), DropNeutral(), named(JoinRelu, "Again")], toy_context(), report)

    verify(graph)
    after, left = values(graph), order_of(graph)
    assert [tensor.name for tensor in graph.outputs] == names
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array)
    for name in order.keys() & left.keys():
        assert order[name] & left.keys() <= left[name], "a node does not wait any more"
        assert left[name] & order.keys() <= order[name], "a node waits for what it did not wait for"
    taken = {name for record in report.records for names in record.fused for name in names}
    for node in graph.nodes:
        if node.name not in order and node.op_type == "Relu":
            assert set(node.origin["source_names"]) <= order.keys() & taken
    assert order.keys() - left.keys() <= taken
    for record in report.records:
        assert record.matched == record.effected + len(record.refusals)
        assert len(record.fused) == record.effected


class Reluctant(JoinRelu):
    """Finds, and never wants to."""

    name = "Reluctant"

    def check(self, match: Match, context: FusionContext) -> str | None:
        return "no"


@given(STEPS, EDGES)
def test_refusals_leave_the_graph(steps: list[tuple[str, int, float]], edges: list[tuple[int, int]]) -> None:
    graph = tied(steps, edges)
    text, additions = to_text(graph), graph.additions
    origins = {node.name: dict(node.origin) for node in graph.nodes}
    report = FusionReport()
    run_rules(graph, [Reluctant()], toy_context(), report)
    assert (to_text(graph), graph.additions) == (text, additions)
    assert {node.name: dict(node.origin) for node in graph.nodes} == origins
    assert all(record.effected == 0 < record.matched == len(record.refusals) for record in report.records)
