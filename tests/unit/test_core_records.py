"""Data classes that are made quickly are what `dataclass` makes of them."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace

import pytest

from ascendsim.core.records import quickly_made
from ascendsim.isa.instructions import ZERO, Affine, Buffer, Move, Operand, Pipe


@dataclass(frozen=True, slots=True)
class Plain:
    first: int
    second: str = "b"
    third: tuple[int, ...] = ()


@quickly_made
@dataclass(frozen=True, slots=True)
class Quick:
    first: int
    second: str = "b"
    third: tuple[int, ...] = ()


def test_arguments_go_where_they_went_before() -> None:
    for given, named in (
        ((1,), {}),
        ((1, "c"), {}),
        ((1,), {"third": (2,)}),
        ((), {"first": 1, "second": "d"}),
    ):
        quick, plain = Quick(*given, **named), Plain(*given, **named)  # type: ignore[arg-type]
        assert [getattr(quick, one.name) for one in fields(Plain)] == [
            getattr(plain, one.name) for one in fields(Plain)
        ]
        assert repr(quick) == repr(plain).replace("Plain", "Quick")
        assert quick == Quick(*given, **named)  # type: ignore[arg-type]
        assert hash(quick) == hash(plain)
    assert inspect.signature(Quick).parameters.keys() == inspect.signature(Plain).parameters.keys()


def test_wrong_calls_are_refused_and_values_stay() -> None:
    for given, named in (((), {}), ((1, "b", (), 4), {}), ((1,), {"fourth": 4}), ((1,), {"first": 1})):
        with pytest.raises(TypeError, match=r"Quick\.__init__"):
            Quick(*given, **named)  # type: ignore[arg-type]
    with pytest.raises(FrozenInstanceError):
        Quick(1).first = 2  # type: ignore[misc]


def test_copies_are_equal() -> None:
    quick = Quick(1, third=(2, 3))
    assert quick == replace(quick) == copy.deepcopy(quick) == pickle.loads(pickle.dumps(quick))
    assert replace(quick, second="c") == Quick(1, "c", (2, 3))


@pytest.mark.parametrize("odd", [field(default_factory=list), field(kw_only=True), field(init=False)])
def test_fields_of_other_kinds_are_refused(odd: object) -> None:
    record = dataclass(frozen=True, slots=True)(
        type("Odd", (), {"__annotations__": {"odd": object}, "odd": odd})
    )
    with pytest.raises(TypeError, match="Odd.odd must be a plain field"):
        quickly_made(record)


def test_instructions_are_made_by_their_slots() -> None:
    here = Operand(Buffer.UB, "x", 32)
    assert (here.offset, here.slot) == (ZERO, ZERO)
    move = Move(Pipe.MTE2, here, Operand(Buffer.GM, "t", 32, Affine(4)), 1, 32, aligned=False)
    assert (move.kind, move.aligned, move.cached, move.effect) == ("copy", False, True, None)
    assert replace(move, bursts=2).bytes == 64
