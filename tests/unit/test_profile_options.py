"""Profile options: the values that each takes, how a command line spells them, and where they count."""

from __future__ import annotations

import pytest

from ascendsim.api.compiling import compile
from ascendsim.compiler.fusion import FusionLevel
from ascendsim.compiler.profile_options import (
    PROFILE_OPTIONS,
    Value,
    parse_profile_options,
    profile_options,
    without_effect,
)
from ascendsim.core.errors import InputError
from ascendsim.models.seed_examples import conv_bias

# name: default, other values (docs/fusion.md and the help of `compile`), a value next to them, and the level
TABLE: dict[str, tuple[Value, list[Value], list[Value], str]] = {
    "aicpu_pow": (False, [True], [0, 1, "maybe"], ""),
    "open_shape_kernels": ("unsunk", ["always", "never"], ["sink", True], ""),
    "format_reach": (0, [1, 2, 3, 4], [-1, 5, True, "5", "-1"], ""),
    "weight_format": ("chip", ["FRACTAL_NZ"], ["ND", ""], ""),
    "group_conv": ("packed", ["split"], ["whole"], "graph"),
    "ub_limits": ("chip", ["Ascend310", "MindSpore", "documents"], ["ascend310"], "ub"),
    "ub_conv": ("profile", [1, 16], [0, 17, True], "ub"),
    "ub_conv_inputs": ("any", ["one"], ["two", 1], "ub"),
    "ub_elementwise": ("profile", [1, 32], [0, 33], "ub"),
    "ub_reduce": ("profile", [1, 16], [0, 17], "ub"),
    "ub_segment": ("profile", [1, 16], [0, 17], "ub"),
    "ub_automatic": ("profile", [2, 64], [1, 65], "ub"),
    "l1_fusion": (False, [True], [1], "all"),
    "l2_edges": ("every", ["listed"], ["none"], "all"),
    "l2_batch": ("chip", ["whole", "split"], [1], "all"),
    "mul_add_names": ("bert", ["any"], [""], "graph"),
    "matmul_bias_chips": ("all", ["listed"], [""], "graph"),
    "transpose_white_list": (True, [False], [0, 1, "no"], ""),
    "tiling": ("verified", ["closed_form"], [""], ""),
}


def test_defaults() -> None:
    plain = {name: default for name, (default, *_) in TABLE.items()}
    assert profile_options(None) == profile_options({}) == plain
    assert [type(value) for value in profile_options(None).values()] == [type(v) for v in plain.values()]


@pytest.mark.parametrize("name", TABLE)
def test_an_option_takes_its_values_and_none_beside_them(name: str) -> None:
    default, others, beside, _ = TABLE[name]
    for value in (default, *others):
        assert profile_options({name: value}) == {**profile_options(None), name: value}
    for value in beside:
        with pytest.raises(InputError, match=rf"profile option {name} must be one of .*, not "):
            profile_options({name: value})


@pytest.mark.parametrize("name", TABLE)
def test_an_option_says_that_it_has_no_effect_below_its_level(name: str) -> None:
    default, others, _, level = TABLE[name]
    levels = [item.name.lower() for item in FusionLevel]
    assert levels == ["off", "graph", "ub", "all"]
    for place, reached in enumerate(levels):
        chosen = profile_options({name: others[0]})
        said = list(without_effect(chosen, reached, levels, "fusion=asked"))
        idle = bool(level) and place < levels.index(level)
        assert len(said) == idle, (name, reached)
        assert not idle or said == [
            f"profile option {name} has no effect with fusion=asked: it counts from fusion={level} on"
        ]
        assert list(without_effect(profile_options({name: default}), reached, levels, "fusion=asked")) == []
        assert list(without_effect({}, reached, levels, "fusion=asked")) == []


@pytest.mark.parametrize("name", TABLE)
def test_python_takes_the_words_of_the_command_line(name: str) -> None:
    """Whatever `--option NAME=WORD` means, `options={NAME: WORD}` means the same."""
    default, others, *_ = TABLE[name]
    for value in (default, *others):
        words = {True: ["on", "true", "ON", "1"], False: ["off", "false", "Off", "0"]}
        for word in words[value] if isinstance(value, bool) else [str(value)]:
            meant = profile_options(parse_profile_options({name: word}))
            assert profile_options({name: word}) == meant == profile_options({name: value})
            assert type(profile_options({name: word})[name]) is type(value)


def test_a_word_for_the_default_is_no_option_without_effect() -> None:
    graph = conv_bias()
    said = compile(graph, fusion="off", options={"l1_fusion": "off", "ub_conv": "profile"}).fusion.warnings
    assert said == []
    told = compile(graph, fusion="off", options={"l1_fusion": "on"}).fusion.warnings
    assert told == ["profile option l1_fusion has no effect with fusion=off: it counts from fusion=all on"]


def test_spellings_of_a_command_line() -> None:
    for text, value in (
        ("on", True),
        ("TRUE", True),
        ("1", True),
        ("off", False),
        ("False", False),
        ("0", False),
    ):
        for name in ("aicpu_pow", "l1_fusion"):
            found = parse_profile_options({name: text})[name]
            assert found is value, text
    assert parse_profile_options({"aicpu_pow": "maybe"}) == {"aicpu_pow": "maybe"}
    assert parse_profile_options({"format_reach": "3", "ub_conv": "16"}) == {"format_reach": 3, "ub_conv": 16}
    assert parse_profile_options({"format_reach": "-3", "ub_conv": "profile"}) == {
        "format_reach": "-3",
        "ub_conv": "profile",
    }
    assert parse_profile_options({"ub_conv": "9" * 9}) == {"ub_conv": 999_999_999}
    assert parse_profile_options({"ub_conv": "9" * 10}) == {"ub_conv": "9" * 10}  # no endless arithmetic
    assert parse_profile_options({"group_conv": "1", "nope": "1"}) == {"group_conv": "1", "nope": "1"}
    with pytest.raises(InputError, match="profile option 'tilings' does not exist; did you mean tiling"):
        profile_options({"tilings": "verified"})
    assert set(TABLE) == set(PROFILE_OPTIONS)
