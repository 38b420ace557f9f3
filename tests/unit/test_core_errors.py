"""The form of error messages: subject, rule, actual value, remedy."""

from __future__ import annotations

import pickle

import pytest

from ascendsim.core import errors
from ascendsim.core.errors import AscendSimError, GraphError, UnsupportedOperatorError, suggest


def test_message_has_four_parts() -> None:
    error = AscendSimError("option --batch", "must be positive", -1, "give 1 or more")
    assert str(error) == "option --batch must be positive, not -1; give 1 or more"
    assert (error.subject, error.rule, error.actual, error.remedy) == (
        "option --batch",
        "must be positive",
        -1,
        "give 1 or more",
    )


def test_parts_may_be_left_out() -> None:
    assert str(AscendSimError("chip 'X'", "is unknown")) == "chip 'X' is unknown"
    assert str(AscendSimError("nothing to do")) == "nothing to do"
    assert str(AscendSimError("count", "must be positive", 0)) == "count must be positive, not 0"


def test_every_error_belongs_to_the_tree() -> None:
    classes = [
        item
        for item in vars(errors).values()
        if isinstance(item, type) and issubclass(item, Exception) and not issubclass(item, Warning)
    ]
    assert len(classes) >= 8
    assert all(issubclass(item, AscendSimError) for item in classes)


def test_unsupported_operators_are_listed_at_once_and_sorted() -> None:
    error = UnsupportedOperatorError([("Zeta", "z1"), ("Loop", "b"), ("Loop", "a"), ("Loop", "a")])
    assert str(error).startswith("unsupported operators: Loop (nodes a, b); Zeta (nodes z1);")
    assert error.operators == [("Loop", "a"), ("Loop", "b"), ("Zeta", "z1")]
    assert isinstance(error, GraphError)


@pytest.mark.parametrize(
    "error",
    [AscendSimError("chip 'X'", "is unknown", 3, "take Y"), UnsupportedOperatorError([("Loop", "a")])],
)
def test_an_error_reaches_another_process_whole(error: AscendSimError) -> None:
    arrived = pickle.loads(pickle.dumps(error))
    assert type(arrived) is type(error)
    assert (str(arrived), vars(arrived)) == (str(error), vars(error))


@pytest.mark.parametrize(
    ("name", "remedy"), [("l2.sise", "did you mean l2.size?"), ("zzz", "known are a, l2.size")]
)
def test_suggestions(name: str, remedy: str) -> None:
    assert suggest(name, ["l2.size", "a"]) == remedy


def test_a_long_list_of_known_names_is_cut() -> None:
    text = suggest("?", [f"name{number:02}" for number in range(30)])
    assert text.endswith("name19 ...")
