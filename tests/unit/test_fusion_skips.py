"""Patterns that a graph cannot hold are not looked for, which changes nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph, Node
from ascendsim.ops import default_opset
from ascendsim.passes.fusion.rule import FusionRule
from ascendsim.passes.fusion.rules import all_rules
from ascendsim.passes.fusion.rules.edges import FORMS, parse_edges, pattern_of_edges
from ascendsim.passes.fusion.rules.json_rules import JsonRule
from ascendsim.passes.rewriting.pattern import Any, Op, compiled
from tests.support.gate import every

MODELS = Path(__file__).parents[1] / "data" / "models"


def nodes_of_all_types() -> list[Node]:
    """Every operator behind a Sqrt, with one tensor, the same tensor twice, and a constant."""
    graph = Graph("all")
    x = graph.add_node("Sqrt", [graph.add_input("x", DType.FLOAT32, (4,))]).output
    two = graph.add_constant("two", np.array([2], np.float32))
    operators = {(operator.domain, operator.name) for operator in default_opset()}
    return [
        graph.add_node(name, inputs, domain=domain)
        for domain, name in sorted(operators)
        for inputs in ([x], [x, x], [x, two])
    ]


@pytest.mark.parametrize("kind", FORMS)
def test_all_operators_that_stand_for_a_type_are_listed(kind: str) -> None:
    (types,) = pattern_of_edges(parse_edges(f"a -> {kind}#N:0; {kind}#N:0 -> out")).needs
    standing = {node.op_type for node in nodes_of_all_types() if FORMS[kind].form(node) is not None}
    assert standing
    assert standing <= set(types)


def test_every_operator_of_a_tree_is_needed() -> None:
    pattern = Op("Relu", Op("Add|Sub", Any("x"), Op("Conv"), name="sum"))
    assert list(compiled(pattern).needs) == [("Relu",), ("Add", "Sub"), ("Conv",)]


def test_rules_that_search_themselves_are_asked() -> None:
    own = [
        rule
        for rule in all_rules()
        if type(rule).find is not FusionRule.find and not isinstance(rule, JsonRule)
    ]
    assert own
    assert all(not list(rule.needs(pattern)) for rule in own for pattern in rule.patterns)


@pytest.mark.parametrize("name", every(3, ["bert_tiny_s64", "resnet18", "ghostnet"]))
def test_asking_all_rules_finds_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = asim.load(MODELS / f"{name}.onnx")
    found = asim.compile(graph).fusion
    for kind in (FusionRule, JsonRule):
        monkeypatch.setattr(kind, "needs", lambda self, pattern: ())
    assert found == asim.compile(graph).fusion
    assert found.records
