"""The table of CANN's passes, and that every rule stands in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ascendsim.passes.fusion.rules.movement
from ascendsim.core.errors import InputError
from ascendsim.passes.fusion.catalogue import all_facts, fact, find_fact
from ascendsim.passes.fusion.order import Phase
from ascendsim.passes.fusion.rules import all_rules
from ascendsim.passes.fusion.switch_file import BUILT_IN_RANGES

EXAMPLE = Path(__file__).parents[1] / "data" / "fusion" / "fusion_result_example.json"


def test_the_table_is_complete() -> None:
    graph, ub = all_facts("graph"), all_facts("ub")
    assert (len(graph), len(ub), len(all_facts())) == (503, 132, 635)
    assert sum(item.tier == 1 for item in graph) == 65
    assert sum(item.is_rule for item in graph) == 37
    assert [sum(item.seed for item in family) for family in (graph, ub)] == [17, 1]
    # 22 of CANN, Swish and GemmSplit; 4, and the name of older releases for the common rules
    assert [sum(not item.default for item in family) for family in (graph, ub)] == [24, 5]
    assert len({item.name for item in graph}) == len(graph)


def test_listed_priorities_lie_in_their_stage() -> None:
    listed = [item for item in all_facts() if item.priority is not None]
    assert len(listed) == 174 + 79 + 10  # of this project, for language models
    for item in listed:
        low, high = BUILT_IN_RANGES[item.stage]
        assert item.priority is not None
        assert low <= item.priority < high, item.name
    assert all(not item.stage for item in all_facts() if item.priority is None)


def test_every_phase_of_the_table_exists() -> None:
    for item in all_facts("graph"):
        assert Phase.of(item.phase).label == (item.phase or "main")
    assert fact("CastCastFusionPass").phase == "second-round"


def test_a_name_of_two_sources_means_canns_own() -> None:
    assert fact("BnupdateEltwiseFusionPass", "ub").kind == "FE"
    assert fact("TbeConvCommonRules0FusionPass").family == "graph"
    assert fact("TbeConvCommonRules0FusionPass", "ub").family == "ub"


def test_an_unknown_name_gets_a_suggestion() -> None:
    assert find_fact("SoftmaxFusionPas") is None
    with pytest.raises(
        InputError, match="fusion pass 'SoftmaxFusionPas' is not known; did you mean SoftmaxFusionPass?"
    ):
        fact("SoftmaxFusionPas")


def test_the_passes_of_a_real_log_are_known() -> None:
    (sections,) = json.loads(EXAMPLE.read_text(encoding="utf-8")).values()
    unknown = [name for name in sections["graph_fusion"] if find_fact(name, "graph") is None]
    unknown += [name for name in sections["ub_fusion"] if find_fact(name, "ub") is None]
    assert unknown == []


def test_every_rule_is_listed_once_and_known() -> None:
    names = [rule.name for rule in all_rules()]
    assert len(set(names)) == len(names)
    assert [name for name in names if find_fact(name, "graph") is None] == []


def test_a_new_rule_is_one_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "from tests.support.toy_rules import JoinRelu\n\nRULES = (JoinRelu(),)\n"
    (tmp_path / "brand_new.py").write_text(text, encoding="utf-8")
    before = {rule.name for rule in all_rules()}
    room = ascendsim.passes.fusion.rules.movement
    monkeypatch.setattr(room, "__path__", [*room.__path__, str(tmp_path)])
    all_rules.cache_clear()
    try:
        assert {rule.name for rule in all_rules()} - before == {"JoinRelu"}
    finally:
        all_rules.cache_clear()
