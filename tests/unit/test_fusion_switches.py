"""Switch files, --optimization_switch, --oo_level: what they say, what is refused, and which pass runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ascendsim.core.errors import InputError
from ascendsim.passes.fusion.catalogue import Family, all_facts
from ascendsim.passes.fusion.switch_file import MAX_BYTES, SwitchFile, parse_switch_text, read_switch_file
from ascendsim.passes.fusion.switches import Switches, parse_optimization_switch

SOFTMAX = "SoftmaxFusionPass"  # on by default, switchable
SPLIT = "SplitConvFusionPass"  # off by default, switchable
BIAS = "AABiasaddConvFusion"  # forbidden to close
CONCAT = "ZConcatExt2FusionPass"  # risky: closed only by --optimization_switch
VIRTUAL = "FusionVirtualOpSetSwitch"  # UB


def of_text(content: Any, **options: Any) -> Switches:
    text = content if isinstance(content, str) else json.dumps(content)
    return Switches(file=parse_switch_text(text), **options)


def graph_switch(**names: str) -> dict[str, Any]:
    return {"Switch": {"GraphFusion": names}}


# The switch examples of CANN's introduction to fusion: (GraphFusion, UBFusion) and the expected states.
EXAMPLES = [
    ({SOFTMAX: "on", "ZConcatExt2FusionPass": "on"}, {VIRTUAL: "on"}, "on", "on", "on"),
    ({"ALL": "off"}, {"ALL": "off"}, "off", "off", "off"),
    ({"ALL": "off", SOFTMAX: "on"}, {"ALL": "off", VIRTUAL: "on"}, "on", "off", "on"),
    ({"ALL": "on", SOFTMAX: "off"}, {"ALL": "on", VIRTUAL: "off"}, "off", "on", "off"),
]


@pytest.mark.parametrize(("graph", "ub", "softmax", "pooling", "virtual"), EXAMPLES)
def test_the_examples_of_the_introduction(
    graph: dict[str, str], ub: dict[str, str], softmax: str, pooling: str, virtual: str
) -> None:
    switches = of_text({"Switch": {"GraphFusion": graph, "UBFusion": ub}})
    assert switches.decide(SOFTMAX).state == softmax
    assert switches.decide("PoolingFusionPass").state == pooling
    assert switches.decide(VIRTUAL, "ub").state == virtual


def test_all_off_does_not_reach_what_must_not_be_closed() -> None:
    switches = of_text({"Switch": {"GraphFusion": {"ALL": "off"}, "UBFusion": {"ALL": "off"}}})
    for fact in all_facts():
        decision = switches.decide(fact.name, fact.family)
        if fact.kind != "MindSpore" and fact.switchable in ("yes", "flag"):
            assert not decision.on, fact
        elif fact.switchable in ("no", "risky"):
            assert decision.on, fact


def test_defaults_without_any_switch() -> None:
    switches = Switches()
    for fact in all_facts("graph"):
        assert switches.decide(fact.name, "graph").on == (fact.default or fact.switchable in ("no", "risky"))
    assert switches.decide("TheUsersOwnPass").state == "on"


def test_all_on_does_not_open_what_canns_configuration_lists_as_off() -> None:
    switches = of_text(graph_switch(ALL="on"))
    assert switches.decide(SPLIT).state == "off"
    assert switches.decide(SPLIT).why == "off by default in CANN's configuration"
    assert of_text(graph_switch(ALL="off", **{SPLIT: "on"})).decide(SPLIT).state == "on"


def test_the_old_form_holds_for_both_families() -> None:
    switches = of_text(f"{SOFTMAX}:off\n\n {VIRTUAL} : off \r\nPoolingFusionPass:on\n")
    assert switches.file.old
    assert switches.decide(SOFTMAX).state == "off"
    assert switches.decide(VIRTUAL, "ub").state == "off"
    assert switches.decide("PoolingFusionPass").state == "on"
    assert of_text("ALL:off").decide("ATbeMatmulElemwiseFusionPass", "ub").state == "off"


def test_families_do_not_mix() -> None:
    switches = of_text({"Switch": {"UBFusion": {"ALL": "off", SOFTMAX: "off"}}})
    assert switches.decide(SOFTMAX, "graph").state == "on"


def test_blanks_are_trimmed_and_case_matters() -> None:
    assert of_text({" Switch ": {" GraphFusion ": {f" {SOFTMAX} ": " off "}}}).decide(SOFTMAX).state == "off"
    assert of_text(graph_switch(softmaxfusionpass="off")).decide(SOFTMAX).state == "on"


STEPS = [
    ({"white_list": frozenset({"Other"})}, SOFTMAX, False, 0),
    ({"white_list": frozenset({"Other"})}, "TheUsersOwnPass", True, 9),
    ({"white_list": frozenset(), "option": {SOFTMAX: True}}, SOFTMAX, False, 0),
    ({"option": {SOFTMAX: False}, "file": SwitchFile(exceptional=frozenset({SOFTMAX}))}, SOFTMAX, False, 1),
    ({"option": {BIAS: False}}, BIAS, False, 1),
    ({"option": {CONCAT: False}}, CONCAT, False, 1),
    ({"option": {SOFTMAX: True}, "oo_level": "O1"}, SOFTMAX, True, 1),
    ({"oo_level": "O1", "file": SwitchFile(exceptional=frozenset({SOFTMAX}))}, SOFTMAX, True, 2),
    ({"oo_level": "O1"}, BIAS, True, 3),
    ({"oo_level": "O1", "option": {"forbidden_close_pass": False}}, BIAS, False, 3),
    ({"option": {"forbidden_close_pass": False}}, BIAS, False, 3),
    ({"option": {"forbidden_close_pass": False}}, SOFTMAX, True, 9),
    ({"oo_level": "O1"}, SOFTMAX, False, 4),
    ({"oo_level": "O1"}, "TheUsersOwnPass", False, 4),
    ({"file": SwitchFile({"graph": {BIAS: False, CONCAT: False}})}, BIAS, True, 5),
    ({"file": SwitchFile({"graph": {BIAS: False, CONCAT: False}})}, CONCAT, True, 5),
    ({"unlicensed": frozenset({SOFTMAX}), "file": SwitchFile({"graph": {SOFTMAX: True}})}, SOFTMAX, False, 6),
    ({"file": SwitchFile({"graph": {SOFTMAX: False}})}, SOFTMAX, False, 7),
    ({"single_operator": frozenset({SOFTMAX})}, SOFTMAX, True, 8),
    ({"single_operator": frozenset()}, SOFTMAX, False, 8),
    ({}, SOFTMAX, True, 9),
]


@pytest.mark.parametrize(("settings", "name", "on", "step"), STEPS)
def test_each_step_of_the_decision(settings: dict[str, Any], name: str, on: bool, step: int) -> None:
    decision = Switches(**settings).decide(name)
    assert (decision.on, decision.step) == (on, step)
    assert decision.why


BAD_JSON = [
    ("[]", "top level must be a JSON object"),
    ("3", "top level must be a JSON object"),
    ({"Swich": {}}, "unknown key 'Swich' at the top level.*did you mean Switch"),
    ({"Switch": []}, "Switch must be a JSON object"),
    ({"Switch": {"GraphFuson": {}}}, "unknown key 'GraphFuson' in Switch.*did you mean GraphFusion"),
    ({"Priority": {"Graph": {}}}, "unknown key 'Graph' in Priority"),
    (
        {"Switch": {"GraphFusion": {SOFTMAX: "On"}}},
        'SoftmaxFusionPass must be exactly "on" or "off".*not \'On\'',
    ),
    ({"Switch": {"GraphFusion": {SOFTMAX: True}}}, "must be exactly"),
    ({"Switch": {"GraphFusion": "off"}}, "Switch.GraphFusion must be a JSON object"),
    ({"ExceptionalPassOfO1Level": "A"}, "must be an array of pass names"),
    ({"ExceptionalPassOfO1Level": [1]}, "must be an array of pass names"),
    (
        {"Priority": {"GraphFusion": {"Middle": {"P": "1200"}}}},
        "unknown stage 'Middle'.*stages are Top, Main and Down",
    ),
    ({"Priority": {"GraphFusion": {"Main": []}}}, "Priority.GraphFusion.Main must be a JSON object"),
    (
        {"Priority": {"GraphFusion": {"Main": {"P": 1200}}}},
        "must be an integer written as a string.*not 1200",
    ),
    ({"Priority": {"GraphFusion": {"Main": {"P": "12.5"}}}}, "must be an integer written as a string"),
    (
        {"Priority": {"GraphFusion": {"Main": {"P": "99999999999999"}}}},
        "must be an integer written as a string",
    ),
    (
        {"Priority": {"GraphFusion": {"Main": {"P": "1200"}, "Top": {"P": "1"}}}},
        "gives pass 'P' two priorities",
    ),
    ("{" * 100000, "EM_INVALID_CONTENT"),
    ('{"Switch": ' * 100000, "must not be nested that deeply|must have the form"),
]


@pytest.mark.parametrize(("content", "message"), BAD_JSON)
def test_bad_content_is_refused_by_name(content: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        of_text(content)
    assert "EM_INVALID_CONTENT" in str(caught.value)


RANGES = [("Top", 0, 999), ("Main", 1000, 1999), ("Down", 2000, 2999)]


@pytest.mark.parametrize(("stage", "low", "high"), RANGES)
def test_priorities_stay_in_the_range_of_their_stage(stage: str, low: int, high: int) -> None:
    def read(value: int, family: str = "GraphFusion") -> Switches:
        return of_text({"Priority": {family: {stage: {"P": f" {value} "}}}})

    assert read(low).priority("P") == low
    assert read(high, "UBFusion").priority("P", "ub") == high
    assert read(high).priority("Q") is None
    for outside in (low - 1, high + 1):
        with pytest.raises(
            InputError, match=rf"must be in \[{low}, {high + 1}\) \[EM_INVALID_CONTENT\], not {outside}"
        ):
            read(outside)


BAD_OLD = [
    (f"{SOFTMAX} off", "line 1 must have the form Name:on or Name:off.*not 'SoftmaxFusionPass off'"),
    (f"{SOFTMAX}:maybe", "line 1: the value must be exactly"),
    (f"{SOFTMAX}:ON", "the value must be exactly"),
    (f"{SOFTMAX}:on\nA:on\n{SOFTMAX}:off", "names pass 'SoftmaxFusionPass' twice .line 3."),
    (":on", "line 1 must name a pass"),
]

RIGHT = """{"Switch": {"GraphFusion": {"A": "on", "B": "off"},
            "UBFusion": {"ALL": "off"}},
 "Priority": {"GraphFusion": {"Main": {"A": "1200"}}},
 "ExceptionalPassOfO1Level": ["A}"]}"""


@pytest.mark.parametrize(
    "place", [at for at, sign in enumerate(RIGHT) if sign in "{}[]" and RIGHT[at - 1] != "A"]
)
def test_a_missing_brace_or_bracket_is_named(place: int) -> None:
    """Whichever is left out, the message says that one is missing and never speaks of the old form."""
    of_text(RIGHT)
    with pytest.raises(InputError, match="is no JSON: .*EM_INVALID_CONTENT") as caught:
        of_text(RIGHT[:place] + RIGHT[place + 1 :])
    text = str(caught.value)
    assert "missing" in text
    assert "brace" in text or "bracket" in text
    assert "Name:on" not in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"Switch": {"GraphFusion": {"A": "on",}}}', "is no JSON: Expecting property name"),
        (
            '{"Switch": {"GraphFusion": {"A": "on" "B": "off"}}}',
            "is no JSON: Expecting ',' delimiter: line 1",
        ),
        ('"A":"on"', "is no JSON: Extra data.*the form is"),
        ('{"Switch": {"GraphFusion": {"A": "on"}}', "never closed: { of line 1 .*add the missing brace }"),
        (
            '"Switch": {"GraphFusion": {"A": "on"}}}',
            "the } of line 1 closes nothing .*brace is missing in front",
        ),
        (
            '{"ExceptionalPassOfO1Level": ["A"}',
            r"the \[ of line 1 is not closed before the } .*missing bracket \]",
        ),
    ],
)
def test_text_with_signs_of_json_is_told_of_json(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        of_text(text)
    assert "EM_INVALID_CONTENT" in str(caught.value)


@pytest.mark.parametrize(("text", "message"), BAD_OLD)
def test_bad_lines_of_the_old_form(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        of_text(text)
    assert "EM_INVALID_CONTENT" in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "empty.cfg").write_text(" \n")
    (tmp_path / "binary.cfg").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "huge.cfg").write_bytes(b"A:on\n" * (MAX_BYTES // 5 + 1))
    cases = {
        "missing.cfg": "EM_OPEN_FILE_FAILED",
        "": "EM_OPEN_FILE_FAILED",
        "empty.cfg": "is empty .EM_OPEN_FILE_FAILED",
    }
    cases |= {
        "binary.cfg": "must be UTF-8 text .EM_INVALID_CONTENT",
        "huge.cfg": "must not be larger than 1 MiB .EM_INVALID_CONTENT",
    }
    for name, message in cases.items():
        with pytest.raises(InputError, match=message):
            read_switch_file(tmp_path / name)
    with pytest.raises(InputError, match="EM_OPEN_FILE_FAILED"):
        read_switch_file("nul\0.cfg")


def test_a_switch_file_is_read_and_never_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "fusion_switch.cfg"
    path.write_text("\ufeff" + json.dumps(graph_switch(**{SOFTMAX: "off"})), encoding="utf-8")
    for name in ("FUSION_SWITCH_FILE", "ASCEND_FUSION_SWITCH_FILE", "fusion_switch_file"):
        monkeypatch.setenv(name, str(path))
    assert Switches.of().decide(SOFTMAX).on
    assert not Switches.of(path).decide(SOFTMAX).on


def test_unknown_names_are_warnings_with_suggestions(tmp_path: Path) -> None:
    path = tmp_path / "switch.cfg"
    graph = {"SoftmaxFusionPas": "off", "MyPass": "on", "ALL": "on", "AutomaticUbFusion": "off"}
    data = {
        "Switch": {"GraphFusion": graph},
        "Priority": {"GraphFusion": {"Top": {"Nowhere": "1"}}},
        "ExceptionalPassOfO1Level": ["Poolin"],
    }
    path.write_text(json.dumps(data))
    warnings = Switches.of(path, "PoolingFusionPas:off;forbidden_close_pass:on", custom=["MyPass"]).warnings
    assert warnings[:2] == (
        "fusion switch file: no fusion pass has the name 'SoftmaxFusionPas'; did you mean SoftmaxFusionPass?",
        "fusion switch file: pass 'AutomaticUbFusion' has no effect here; it belongs under UBFusion",
    )
    assert len(warnings) == 5
    for words, warning in zip(
        ("'Nowhere'", "'Poolin'", "did you mean PoolingFusionPass?"), warnings[2:], strict=True
    ):
        assert words in warning
    path.write_text(f"{SOFTMAX}:off\n{VIRTUAL}:on\nALL:on")
    assert Switches.of(path).warnings == ()


@pytest.mark.parametrize("form", ["json", "old"])
def test_a_pass_that_files_cannot_close_is_a_warning(form: str, tmp_path: Path) -> None:
    name = "FusedBatchnormFusionPass"
    path = tmp_path / "switch.cfg"
    path.write_text(json.dumps(graph_switch(**{name: "off"})) if form == "json" else f"{name}:off")
    kept = Switches.of(path)
    assert kept.decide(name).on
    assert kept.warnings == (
        f"fusion switch file: pass {name!r} stays on, files cannot close it; use --optimization_switch "
        f"{name}:off",
    )
    closed = Switches.of(path, f"{name}:off")
    assert not closed.decide(name).on
    assert closed.warnings == ()
    path.write_text(json.dumps(graph_switch(**{name: "on"})) if form == "json" else f"{name}:on")
    assert Switches.of(path).warnings == ()


BAD_OPTIONS = [
    ("PassA", "must have the form"),
    (":on", "must have the form"),
    ("PassA:yes", "PassA must be exactly"),
    ("PassA:on;PassA:off", "names pass 'PassA' twice"),
    ("ALL:off", "takes names of passes only.*use a switch file"),
]


@pytest.mark.parametrize(("text", "message"), BAD_OPTIONS)
def test_bad_optimization_switches(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_optimization_switch(text)


def test_an_empty_optimization_switch_is_none() -> None:
    assert parse_optimization_switch(None) == parse_optimization_switch(" ; ") == {}


def test_oo_level_has_two_values() -> None:
    with pytest.raises(InputError, match="option oo_level must be O1 or O3, not 'O2'"):
        Switches.of(oo_level="O2")


@pytest.mark.parametrize("family", ["graph", "ub"])
def test_o1_keeps_only_what_must_not_be_closed(family: Family) -> None:
    switches = Switches(oo_level="O1")
    assert {fact.name for fact in all_facts(family) if switches.decide(fact.name, family).on} == {
        fact.name for fact in all_facts(family) if fact.switchable in ("no", "risky")
    }
