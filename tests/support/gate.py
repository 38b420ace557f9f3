"""Which part of a suite the gate runs; the rest is marked slow.

Breadth is worth having, but a second and third chip or network on the same way finds little that the first
does not. What these functions leave to the gate is chosen by place: it is the same on every run.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import settings

# On these chips only: it takes seconds a chip. Others have it with other tests, and smaller networks here.
LARGE = {"squeezenet1_1": ("Ascend910B1",)}


def case(name: str, chip: str, *values: object, quick: bool = True, id: str | None = None) -> Any:
    """Parameters of a test of a network on a chip: of the gate if the network is one of the quick ones, and
    the chip one of those on which it runs there.
    """
    short = quick and chip in LARGE.get(name, (chip,))
    return pytest.param(name, chip, *values, marks=() if short else pytest.mark.slow, id=id)


def examples(times: float) -> settings:
    """So many times the profile's number of random examples, in the gate as in the long run: fewer where one
    takes long, more where it takes nothing.
    """
    return settings(max_examples=max(1, round(times * settings.default.max_examples)))


def in_one(names: str, cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As `parametrize` with one test for all cases: for many that take less than pytest does for a test.

    What fails is named in a note. For tests without fixtures that skip nothing.
    """
    keys, held = names.split(", "), list(cases)
    assert held, "a test of no cases cannot fail"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        def whole(**others: object) -> None:  # of an `in_one` around this one
            for case in held:
                values = dict(zip(keys, case if len(keys) > 1 else (case,), strict=True))
                try:
                    test(**values, **others)
                except BaseException as error:
                    error.add_note(f"with {values}")
                    raise

        whole.__name__, whole.__doc__, whole.__module__ = test.__name__, test.__doc__, test.__module__
        return whole

    return decorate


def slow(*values: object) -> list[Any]:
    """Parameters that are not of the gate."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


def every(step: int, values: Iterable[object]) -> list[Any]:
    """Parameters of which the gate takes the first and each `step`-th after it."""
    return [
        pytest.param(value, marks=pytest.mark.slow if place % step else ())
        for place, value in enumerate(values)
    ]


def in_turn(*axes: Sequence[object]) -> list[Any]:
    """All combinations of the values of several parameters, of which the gate takes so many that each value
    is in one of them: the first of all, the second of all, ..., a shorter axis over and over.
    """
    most = max(map(len, axes))
    taken = {tuple(place % len(axis) for axis in axes) for place in range(most)}
    return [
        pytest.param(
            *(axis[place] for axis, place in zip(axes, places, strict=True)),
            marks=() if places in taken else pytest.mark.slow,
        )
        for places in itertools.product(*(range(len(axis)) for axis in axes))
    ]
