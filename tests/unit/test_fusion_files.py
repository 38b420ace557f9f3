"""Switch files and result files of fusion at their limits, and the decision on a pass against its table."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ascendsim.core.errors import InputError
from ascendsim.passes.fusion.catalogue import FAMILIES, all_facts, find_fact
from ascendsim.passes.fusion.result_file import parse_result, read_result
from ascendsim.passes.fusion.switch_file import (
    BUILT_IN_RANGES,
    CUSTOM_RANGES,
    SwitchFile,
    check_priority,
    parse_switch_text,
    read_switch_file,
)
from ascendsim.passes.fusion.switches import Switches

# Decisions


def by_the_table(switches: Switches, name: str, family: Any) -> tuple[int, bool]:
    """The first line of the table of the graph engine that says something about a pass, and what it says."""
    known = find_fact(name, family)
    closed = known is not None and known.switchable in ("no", "risky")
    forbidden = switches.option.get("forbidden_close_pass")
    if switches.oo_level == "O1" and forbidden is None:
        forbidden = True  # ATC sets it
    entries = {**switches.file.switches.get(family, {})}
    if known is not None and not known.default:
        entries.setdefault(name, False)  # CANN's own configuration comes behind the file's
    single = None if switches.single_operator is None else name in switches.single_operator
    white = switches.white_list
    lines: list[bool | None] = [
        False if white is not None and known is not None and name not in white else None,
        switches.option.get(name),
        True if name in switches.file.exceptional else None,
        forbidden if closed else None,
        False if switches.oo_level == "O1" else None,
        True if closed else None,
        False if name in switches.unlicensed else None,
        entries.get(name, entries.get("ALL")),
        single,
        True,
    ]
    return next((step, on) for step, on in enumerate(lines) if on is not None)


def test_decisions_are_those_of_the_table() -> None:
    random, steps = Random(6), set()
    facts = [*all_facts("graph"), *all_facts("ub")]
    kinds = [
        next(f for f in facts if (f.switchable, f.default) == kind)
        for kind in sorted({(f.switchable, f.default) for f in facts})
    ]
    candidates = [*kinds, *random.sample(facts, 12)]
    for _ in range(600):
        fact = random.choice(candidates)
        name = random.choice((fact.name, fact.name, "MyPass"))
        mention = [name, "ALL", "OtherPass"]

        def some(mention: list[str] = mention) -> dict[str, bool]:
            return {one: random.random() < 0.5 for one in mention if random.random() < 0.4}

        def names(name: str = name) -> frozenset[str]:
            return frozenset(one for one in (name, "OtherPass") if random.random() < 0.4)

        option = {key: on for key, on in some().items() if key != "ALL"} if random.random() < 0.3 else {}
        if random.random() < 0.3:
            option["forbidden_close_pass"] = random.random() < 0.5
        exceptional = names() if random.random() < 0.3 else frozenset()
        switches = Switches(
            SwitchFile({family: some() for family in FAMILIES}, {}, exceptional),
            option,
            random.choice(("O1", "O3", "O3")),
            names() if random.random() < 0.2 else None,
            names() if random.random() < 0.2 else frozenset(),
            names() if random.random() < 0.3 else None,
        )
        for family in FAMILIES:
            found = switches.decide(name, family)
            assert (found.step, found.on) == by_the_table(switches, name, family), (name, family, switches)
            assert found.state == ("on" if found.on else "off")
            steps.add(found.step)
    assert steps == set(range(10))


# Switch files


def test_a_switch_file_may_be_1_mib_long(tmp_path: Path) -> None:
    path = tmp_path / "switch.cfg"
    line = "SoftmaxFusionPass:off\n"
    path.write_text(line + "\n" * ((1 << 20) - len(line)))
    assert read_switch_file(path).switches["graph"] == {"SoftmaxFusionPass": False}
    path.write_text(line + "\n" * ((1 << 20) - len(line) + 1))
    with pytest.raises(InputError, match="must not be larger than 1 MiB"):
        read_switch_file(path)
    path.write_bytes(b"\xef\xbb\xbf" + line.encode())  # a byte order mark
    assert read_switch_file(path).switches["ub"] == {"SoftmaxFusionPass": False}


@pytest.mark.parametrize("stage", ["Top", "Main", "Down"])
def test_priorities_have_ranges_of_their_own(stage: str) -> None:
    assert CUSTOM_RANGES == {"Top": (0, 1000), "Main": (1000, 2000), "Down": (2000, 3000)}
    assert BUILT_IN_RANGES == {"Top": (3000, 4000), "Main": (4000, 5000), "Down": (5000, 6000)}
    for ranges in (CUSTOM_RANGES, BUILT_IN_RANGES):
        low, high = ranges[stage]
        for value in (low, high - 1):
            check_priority(stage, value, ranges, "pass 'p'")
        for value in (low - 1, high):
            with pytest.raises(InputError, match=rf"stage {stage} must be in \[{low}, {high}\), not {value}"):
                check_priority(stage, value, ranges, "pass 'p'")
        for wrong in (float(low), True, str(low)):
            with pytest.raises(InputError, match="pass 'p': priority must be a whole number"):
                check_priority(stage, wrong, ranges, "pass 'p'")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="pass 'p': stage 'main' must be Top, Main or Down"):
        check_priority("main", 1000, CUSTOM_RANGES, "pass 'p'")


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("1500", True),
        ("+1500", True),
        ("000001500", True),
        ("0000001500", False),
        ("-1500", False),
        ("1_500", False),
        ("", False),
        ("1500.0", False),
        ("+-1500", False),
        ("\u0661\u0665\u0660\u0660", False),
    ],
)
def test_a_priority_is_a_number_of_nine_digits_at_most(text: str, fits: bool) -> None:
    data = json.dumps({"Priority": {"GraphFusion": {"Main": {"P": f" {text} "}}}})
    if fits:
        assert parse_switch_text(data).priorities == {"graph": {"P": 1500}}
    else:
        with pytest.raises(InputError, match=r"Priority\.GraphFusion\.Main\.P must be"):
            parse_switch_text(data)


def test_long_values_are_shown_in_part() -> None:
    for count, shown in ((58, "'" + "v" * 58 + "'"), (59, "'" + "v" * 56 + r"\.\.\.")):
        with pytest.raises(InputError, match=f"not {shown}$"):
            parse_switch_text(json.dumps({"Switch": {"UBFusion": {"P": "v" * count}}}))


def test_every_part_of_a_file_is_read() -> None:
    found = parse_switch_text(
        json.dumps(
            {
                "Switch": {"GraphFusion": {"A": "on", "": "off"}, "UBFusion": {"B": "off"}},
                "Priority": {"UBFusion": {"Top": {"B": "7", "": "8"}, "Down": {"C": "2001"}}},
                "ExceptionalPassOfO1Level": ["D", ""],
            }
        )
    )
    assert found == SwitchFile(
        {"graph": {"A": True}, "ub": {"B": False}}, {"ub": {"B": 7, "C": 2001}}, frozenset({"D"})
    )
    assert parse_switch_text("{}") == SwitchFile()
    assert parse_switch_text("A:on").switches == {"graph": {"A": True}, "ub": {"A": True}}
    for names in ("D", ["D", 3], {"D": 1}):
        with pytest.raises(InputError, match="ExceptionalPassOfO1Level must be an array of pass names"):
            parse_switch_text(json.dumps({"ExceptionalPassOfO1Level": names}))
    with pytest.raises(InputError, match="gives pass 'B' two priorities"):
        parse_switch_text('{"Priority": {"UBFusion": {"Top": {"B": "7"}, "Down": {" B": "2001"}}}}')


# Result files

COUNTS = {"P": {"match_times": "3", "effect_times": "2"}}


def test_the_layouts_of_a_result_file() -> None:
    one = {"session_and_graph_id": "0_1", "graph_fusion": COUNTS, "ub_fusion": {}}
    for data in (one, [one], {"session_and_graph_id_0_1": {"graph_fusion": COUNTS}}):
        (found,) = parse_result(data)
        assert (found.key, found.graph_fusion, found.ub_fusion) == ("0_1", {"P": (3, 2)}, {})
    assert parse_result([]) == parse_result({}) == ()
    for data in (3, "x", [3], {"other": {}}, {"session_and_graph_id_1": 3}, {**one, "graph_fusion": []}):
        with pytest.raises(InputError, match="has none of the known layouts"):
            parse_result(data)
    with pytest.raises(InputError, match="has none of the known layouts"):
        parse_result({**one, "session_and_graph_id": 3})


@pytest.mark.parametrize(("digits", "fits"), [(1, True), (18, True), (19, False)])
def test_counts_have_18_digits_at_most(digits: int, fits: bool) -> None:
    for key, other in product(("match_times", "effect_times"), repeat=2):
        if key == other:
            continue
        data = {"session_and_graph_id_0": {"ub_fusion": {"P": {key: "9" * digits, other: 1}}}}
        if fits:
            assert parse_result(data)[0].ub_fusion["P"][key == "effect_times"] == 10**digits - 1
        else:
            with pytest.raises(InputError, match=f"pass 'P' needs a whole number as {key}"):
                parse_result(data)


@pytest.mark.parametrize("value", ["", "-1", "1.0", "\u0663", None, [1], True])
def test_other_values_are_no_counts(value: Any) -> None:
    data = {"session_and_graph_id_0": {"graph_fusion": {"P": {"match_times": value, "effect_times": 1}}}}
    with pytest.raises(InputError, match="pass 'P' needs a whole number as match_times"):
        parse_result(data)


def test_result_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ascendsim.passes.fusion import result_file

    path = tmp_path / "fusion_result.json"
    content = json.dumps([{"session_and_graph_id": "0", "graph_fusion": COUNTS}]).encode()
    path.write_bytes(content)
    monkeypatch.setattr(result_file, "MAX_BYTES", len(content))
    assert read_result(path)[0].graph_fusion == {"P": (3, 2)}
    path.write_bytes(content + b" ")
    with pytest.raises(InputError, match="must not be larger than"):
        read_result(path)
