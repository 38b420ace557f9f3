"""Walks over block programs."""

from __future__ import annotations

from ascendsim.isa.instructions import Affine, Loop, Pipe, Scalar, SetFlag
from ascendsim.isa.walk import bounds, in_order, reads, static, times, writes
from tests.support.toy_programs import matmul_block

ONE, TWO = Scalar(1), Scalar(2)
NEST = (ONE, Loop("i", 2, (TWO, Loop("j", 3, (ONE,)), Loop("k", 0, (TWO,)))))


def test_the_static_walk_visits_the_text_once() -> None:
    assert [
        (item.cycles, [loop.variable for loop in around], times(around))
        for item, around in static(NEST)
        if isinstance(item, Scalar)
    ] == [
        (1, [], 1),
        (2, ["i"], 2),
        (1, ["i", "j"], 6),
    ]


def test_the_walk_in_order_binds_variables() -> None:
    seen = [(item.cycles, dict(variables)) for item, variables in in_order(NEST) if isinstance(item, Scalar)]
    assert seen[:3] == [(1, {}), (2, {"i": 0}), (1, {"i": 0, "j": 0})]
    assert len(seen) == 1 + 2 * (1 + 3)
    assert seen[-1] == (1, {"i": 1, "j": 2})


def test_both_walks_agree_on_the_number_of_instructions() -> None:
    body = matmul_block(3, 4).body
    assert (
        sum(times(around) for _, around in static(body))
        == sum(1 for _ in in_order(body))
        == 3 * (10 + 4 * 13)
    )


def test_bounds_are_reached() -> None:
    value, trips = Affine(5, (("i", 3), ("j", -2), ("k", 7))), {"i": 4, "j": 3, "k": 1}
    values = [value.at({"i": i, "j": j, "k": 0}) for i in range(4) for j in range(3)]
    assert bounds(value, trips) == (min(values), max(values))


def test_an_accumulating_mmad_reads_what_it_writes() -> None:
    mmad = next(
        item
        for item, _ in static(matmul_block(1, 1).body)
        if item.pipe is Pipe.M and not hasattr(item, "flag")
    )
    assert [operand.name for operand in reads(mmad)] == ["a0", "b0", "c0"]
    assert [operand.name for operand in writes(mmad)] == ["c0"]
    assert reads(SetFlag(Pipe.M, "f")) == writes(SetFlag(Pipe.M, "f")) == ()
