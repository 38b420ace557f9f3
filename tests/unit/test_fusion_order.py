"""The order of passes: groups, priorities, the unlisted ones, users' passes and the switch file's word."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from ascendsim.core.errors import InputError
from ascendsim.passes.fusion import order as fusion_order
from ascendsim.passes.fusion.catalogue import all_facts, fact
from ascendsim.passes.fusion.order import DOWN_OFFSET, Phase, check_custom, in_order, phase_of, places
from ascendsim.passes.fusion.plog import read_plog
from ascendsim.passes.fusion.rule import FusionRule
from ascendsim.passes.fusion.rules import all_rules
from ascendsim.passes.fusion.switch_file import parse_switch_text
from ascendsim.passes.fusion.switches import Switches
from tests.support.toy_rules import JoinRelu, named

LOG = Path(__file__).parents[1] / "data" / "fusion" / "plog_introduction.log"


def rules(*names: str, **attributes: Any) -> list[FusionRule]:
    return [named(JoinRelu, name, **attributes) for name in names]


def order(items: list[FusionRule], switches: Switches | None = None) -> list[str]:
    return [rule.name for rule in in_order(items, switches or Switches())]


def test_the_order_of_the_introductions_log() -> None:
    logged = list(dict.fromkeys(line.name for line in read_plog(LOG.read_text(encoding="utf-8"))))
    assert len(logged) == 10
    shuffled = random.Random(7).sample(logged, len(logged))
    assert shuffled != logged
    assert order(rules(*shuffled)) == logged


def test_top_main_unlisted_down() -> None:
    listed = ["AABiasaddConvFusion", "LayerNormV4FusionPass", "ZConcatExt2FusionPass", "ConvConcatFusionPass"]
    unlisted = ["PoolingFusionPass", "SoftmaxFusionPass", "ClipFusionRule0"]
    assert fact("LayerNormV4FusionPass").priority == 4000
    assert order(rules(*unlisted, *listed)) == [
        "LayerNormV4FusionPass",
        "AABiasaddConvFusion",
        "PoolingFusionPass",
        "SoftmaxFusionPass",
        "ClipFusionRule0",  # a rule, 9000 + n, behind all unlisted passes, 8000 + n
        "ZConcatExt2FusionPass",
        "ConvConcatFusionPass",
    ]


def test_numbers_of_unlisted_passes_follow_the_alphabet() -> None:
    at = places(
        rules(
            "ZzFirst", "AaSecond", "PoolingFusionPass", "ConvToFullyConnectionFusionPass", "ClipFusionRule0"
        ),
        Switches(),
    )
    names = ("AaSecond", "ZzFirst", "ConvToFullyConnectionFusionPass", "PoolingFusionPass", "ClipFusionRule0")
    assert [at[name].priority for name in names] == [6000, 6001, 8000, 8001, 9000]


def test_rules_of_many_nodes_come_first() -> None:
    names = ("SquareSumV1", "ClipFusionRule1", "LambUpdateWithLrRuleCond1", "AdamApplyOneRuleCond2")
    items = [rule for rule in all_rules() if rule.name in (*names, "ClipFusionRule0")]
    assert order(items) == [
        "AdamApplyOneRuleCond2",
        "LambUpdateWithLrRuleCond1",
        "ClipFusionRule0",
        "ClipFusionRule1",
        "SquareSumV1",
    ]
    assert [place.priority for place in places(items, Switches()).values()].count(9000) == 1


def test_users_passes_stand_where_they_say() -> None:
    own = [
        named(JoinRelu, f"My{stage}", stage=stage, priority=priority)
        for stage, priority in (("Down", 2999), ("Main", 1000), ("Top", 0))
    ]
    both = [*own, *rules("MyUnlisted", "AABiasaddConvFusion", "ZConcatExt2FusionPass", "PoolingFusionPass")]
    expected = [
        "MyTop",
        "MyMain",
        "AABiasaddConvFusion",
        "MyUnlisted",
        "PoolingFusionPass",
        "MyDown",
        "ZConcatExt2FusionPass",
    ]
    assert order(both) == expected
    assert places(both, Switches())["MyDown"].priority == 2999 + DOWN_OFFSET


def test_the_switch_file_may_move_passes() -> None:
    data = {
        "Priority": {
            "GraphFusion": {
                "Top": {"PoolingFusionPass": "5"},
                "Down": {"AABiasaddConvFusion": "2001", "Mine": "2000"},
            }
        }
    }
    switches = Switches(file=parse_switch_text(json.dumps(data)))
    items = [
        *rules("AABiasaddConvFusion", "SoftmaxFusionPass", "PoolingFusionPass"),
        named(JoinRelu, "Mine", stage="Top", priority=1),
    ]
    assert order(items, switches) == ["PoolingFusionPass", "SoftmaxFusionPass", "Mine", "AABiasaddConvFusion"]


def test_the_usual_order_is_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not so where a file moves passes, or a user brings some."""
    asked: list[int] = []

    def counted(rules: Any, switches: Switches) -> Any:
        asked.append(len(rules))
        return places(rules, switches)

    monkeypatch.setattr(fusion_order, "places", counted)
    listed = rules("SoftmaxFusionPass", "PoolingFusionPass")
    assert order(listed) == order(listed) == order(listed, Switches(oo_level="O1"))
    assert asked == [2]
    moved = json.dumps({"Priority": {"GraphFusion": {"Top": {order(listed)[1]: "5"}}}})
    assert order(listed, Switches(parse_switch_text(moved))) == order(listed)[::-1]
    mine = [*listed, named(JoinRelu, "Mine", stage="Top", priority=0)]
    assert order(mine)[0] == "Mine"
    mine[-1].priority = 2999
    assert order(mine)[-1] == "Mine"
    assert asked == [2, 2, 3, 3]


def test_groups_come_before_priorities() -> None:
    names = [
        "CastCastFusionPass",
        "FixPipeAbilityProcessPass",
        "softmaxTransFusionPass",
        "ConvConcatFusionPass",
        "TfTagNoConstFoldingFusionPass",
    ]
    assert order(rules(*names)) == names[::-1]
    phases = [phase_of(rule) for rule in rules(*names)]
    assert phases == [
        Phase.SECOND_ROUND,
        Phase.AFTER_OP_JUDGE,
        Phase.BEFORE_TRANSNODE,
        Phase.MAIN,
        Phase.PREPARE,
    ]
    assert [phase.second_round for phase in phases] == [True, True, False, False, False]
    assert phase_of(named(JoinRelu, "Mine", second_round=True)) is Phase.SECOND_ROUND


def test_the_order_does_not_depend_on_how_rules_are_listed() -> None:
    everything = rules(*(item.name for item in all_facts("graph")))
    first = order(everything)
    for seed in range(3):
        assert order(random.Random(seed).sample(everything, len(everything))) == first
    assert order(list(all_rules())) == order(list(reversed(all_rules())))


def test_order_is_ascending_within_a_group() -> None:
    everything = rules(*(item.name for item in all_facts("graph")))
    at = places(everything, Switches())
    keys = [at[name].key for name in order(everything)]
    assert keys == sorted(keys)
    main = [at[name].priority for name in order(everything) if at[name].phase is Phase.MAIN]
    assert main == sorted(main)


BAD = [
    (
        {"stage": "Top", "priority": 1000},
        r"pass 'Mine': priority of stage Top must be in \[0, 1000\), not 1000",
    ),
    ({"stage": "Main", "priority": 999}, r"must be in \[1000, 2000\), not 999"),
    ({"stage": "Down", "priority": 5000}, r"must be in \[2000, 3000\), not 5000"),
    ({"stage": "Middle", "priority": 1}, "stage 'Middle' must be Top, Main or Down"),
    ({"stage": "Top"}, "needs both `stage` and `priority`, or neither"),
    ({"stage": "Main", "priority": "1500"}, "priority must be a whole number, not '1500'"),
    ({"patterns": {}}, "needs `patterns`, a mapping of names to patterns"),
    ({"priority": 5}, "needs both `stage` and `priority`, or neither"),
]


@pytest.mark.parametrize(("attributes", "message"), BAD)
def test_stage_and_priority_of_a_users_pass_are_checked(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_custom([named(JoinRelu, "Mine", **attributes)], ())


def test_users_passes_are_checked() -> None:
    assert [rule.name for rule in check_custom(rules("One", "Two"), ["Three"])] == ["One", "Two"]
    with pytest.raises(
        InputError,
        match="takes instances of FusionRule subclasses, not JoinRelu; write JoinRelu.. with parentheses",
    ):
        check_custom([JoinRelu], ())
    with pytest.raises(
        InputError, match="takes instances of FusionRule subclasses, not int; derive it from FusionRule"
    ):
        check_custom([3], ())
    with pytest.raises(InputError, match="pass 'One' has a name that is taken"):
        check_custom(rules("One", "One"), ())
    with pytest.raises(InputError, match="pass 'SoftmaxFusionPass' has a name that is taken"):
        check_custom(rules("SoftmaxFusionPass"), ())
    with pytest.raises(InputError, match="needs a `name` of letters, digits and underscores, not 'a b'"):
        check_custom(rules("a b"), ())
    with pytest.raises(InputError, match="pass 'ALL' has a name that is taken"):
        check_custom(rules("ALL"), ())
    with pytest.raises(InputError, match="pass FusionRule needs a `name`"):
        check_custom([FusionRule()], ())
