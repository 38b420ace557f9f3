"""Keys: what differs has different keys, what is equal has one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.keys import changed_in, found_in, key_of


@dataclass(frozen=True)
class Place:
    name: str
    size: float = 0.0


@dataclass(frozen=True)
class Other:
    name: str
    size: float = 0.0


@dataclass(frozen=True)
class Road:
    ends: tuple[Place, ...]
    toll: Place | None = None


DIFFERENT: list[object] = [
    1,
    1.0,
    True,
    np.float16(1),
    np.float32(1),
    0,
    0.0,
    -0.0,
    False,
    None,
    "1",
    b"1",
    DType.FLOAT16,
    (),
    (1,),
    (1.0,),
    (True,),
    ((1,),),
    (1, 2),
    (2, 1),
    {},
    {"a": 1},
    {"a": 2},
    {"b": 1},
    Place("a"),
    Place("b"),
    Other("a"),
    Place("a", -0.0),
    np.array([1, 2]),
    np.array([1, 2], np.int32),
    np.array([[1, 2]]),
    np.array([1, 3]),
    np.array(1),
]


def test_what_differs_has_different_keys() -> None:
    keys = {key_of(value): value for value in DIFFERENT}
    assert len(keys) == len(DIFFERENT)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (float("nan"), float("nan")),
        ([1, (2, 3)], (1, [2, 3])),
        ({"a": 1, "b": [2]}, {"b": [2], "a": 1}),
        (Road((Place("a"), Place("b"))), Road((Place("a"), Place("b")))),
        (np.arange(8)[::2], np.array([0, 2, 4, 6])),
    ],
)
def test_what_is_equal_has_one_key(one: object, other: object) -> None:
    assert {key_of(one): "known"}[key_of(other)] == "known"


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(AssertionError):
        key_of({1, 2})


def test_everything_of_a_type_is_found_in_order_and_can_be_changed() -> None:
    road = Road((Place("a", 1), Place("b", 2)), Place("toll", 3))
    assert [place.name for place in found_in((road, 7, Place("end")), Place)] == ["a", "b", "toll", "end"]
    changed = changed_in((road, 7), Place, lambda place: replace(place, name=place.name.upper()))
    assert changed == (Road((Place("A", 1), Place("B", 2)), Place("TOLL", 3)), 7)
    assert road.ends[0].name == "a"
