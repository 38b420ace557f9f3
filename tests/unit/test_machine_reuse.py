"""Footprints of blocks and how often DRAM delivers what a task reads repeatedly."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from ascendsim.isa.footprint import Footprint, Stream, footprint
from ascendsim.isa.instructions import Affine, Buffer, Loop, Move, Operand, Pipe, Statement
from ascendsim.isa.program import Access, Block
from ascendsim.machine.reuse import fetched_bytes, rewritten
from tests.support.toy_programs import gm

KIB = 1024


def load(region: str, *variables: str) -> Move:
    """1 KiB, which each loop moves by 1 KiB."""
    return load_at(region, 0, **dict.fromkeys(variables, 1))


def load_at(region: str, base: int, **steps: int) -> Move:
    """1 KiB from a base on, which loops move by their steps, all in KiB."""
    offset = Affine(base * KIB, tuple((name, step * KIB) for name, step in steps.items()))
    return Move(Pipe.MTE2, Operand(Buffer.L1, "l", KIB), gm(region, KIB, offset), 1, KIB)


def block(*body: Statement) -> Footprint:
    return footprint(Block(body))


def matmul() -> Footprint:
    """For each of 4 rows of tiles all of b (10 KiB) passes, and the row of a (1 KiB) stays."""
    return block(Loop("m", 4, (load("a", "m"), Loop("n", 10, (load("b", "n"),)))))


def ragged_matmul() -> Footprint:
    """The same, and then a fifth row of tiles by itself, for which all of b passes once more."""
    columns = Loop("n", 10, (load("b", "n"),))
    return block(Loop("m", 4, (load("a", "m"), columns)), load_at("a", 4), columns)


def fetched(
    blocks: list[tuple[Footprint, int]], unique: Mapping[str, int], capacity: int, cores: int = 1
) -> dict[str, Fraction]:
    accesses = [Access(name, size * KIB, 0, False) for name, size in unique.items()]
    return {name: size / KIB for name, size in fetched_bytes(blocks, accesses, capacity * KIB, cores).items()}


def test_a_footprint_tells_new_bytes_from_old_ones() -> None:
    print_of = matmul()
    assert print_of.trips == (4, 10)
    piece = (0, 1, KIB, 0)
    assert print_of.streams == (
        Stream("a", False, piece, (0,), (KIB,)),
        Stream("b", False, piece, (0, 1), (0, KIB)),
    )
    assert print_of.touched() == {"a": 4 * KIB, "b": 10 * KIB}
    assert print_of.working_sets([0, 1]) == {0: {"a": KIB, "b": 10 * KIB}, 1: {"b": KIB}}


def test_loops_that_never_run_leave_no_trace() -> None:
    assert block(Loop("i", 0, (load("a", "i"),))) == Footprint((), ())


def test_bytes_that_stay_until_the_next_visit_are_fetched_once() -> None:
    assert fetched([(matmul(), 1)], {"a": 4, "b": 10}, capacity=11) == {"a": 4, "b": 10}


def test_bytes_that_are_pushed_out_before_the_next_visit_are_fetched_again() -> None:
    assert fetched([(matmul(), 1)], {"a": 4, "b": 10}, capacity=10) == {"a": 4, "b": 40}


def test_an_inner_loop_over_the_same_tile_hits_whatever_the_size_of_the_region() -> None:
    program = block(Loop("i", 100, (Loop("again", 5, (load("a", "i"),)),)))
    assert fetched([(program, 1)], {"a": 100}, capacity=2) == {"a": 100}


def test_cores_side_by_side_share_a_fetch() -> None:
    # Four cores with rows of a of their own, all of b each: b passes once for all of them, four times over.
    assert fetched([(matmul(), 4)], {"a": 16, "b": 10}, capacity=14, cores=4) == {"a": 16, "b": 10}
    assert fetched([(matmul(), 4)], {"a": 16, "b": 10}, capacity=13, cores=4) == {"a": 16, "b": 40}


def test_a_single_byte_is_shared_too() -> None:
    one = Move(Pipe.MTE2, Operand(Buffer.L1, "l", 1), gm("flag", 1), 1, 1)
    accesses = [Access("flag", 1, 0, False)]
    assert fetched_bytes([(block(one), 4)], accesses, KIB, 4) == {"flag": 1}


def test_bytes_that_are_listed_but_never_touched_are_fetched_once_at_most() -> None:
    """Three trips over all of b, each of which pushes out the 1 KiB of a that is touched, of 4 listed."""
    program = block(Loop("i", 3, (load("a"), Loop("n", 10, (load("b", "n"),)))))
    assert fetched([(program, 1)], {"a": 1, "b": 10}, capacity=5) == {"a": 3, "b": 30}
    assert fetched([(program, 1)], {"a": 4, "b": 10}, capacity=5) == {"a": 4, "b": 30}


def test_later_rounds_fetch_again_what_a_round_pushes_out() -> None:
    program = block(Loop("i", 10, (load("b", "i"),)))
    assert fetched([(program, 4)], {"b": 10}, capacity=10, cores=2) == {"b": 10}
    assert fetched([(program, 4)], {"b": 10}, capacity=9, cores=2) == {"b": 20}
    assert fetched([(program, 4)], {"b": 10}, capacity=9, cores=4) == {"b": 10}


def test_results_take_room_but_are_not_fetched() -> None:
    store = Move(
        Pipe.MTE3,
        gm("c", 5 * KIB, Affine(0, (("m", 5 * KIB),))),
        Operand(Buffer.UB, "u", 5 * KIB),
        1,
        5 * KIB,
    )
    program = block(Loop("m", 4, (Loop("n", 10, (load("b", "n"),)), store)))
    accesses = [Access("b", 10 * KIB, 0, False), Access("c", 20 * KIB, 0, True)]
    assert fetched_bytes([(program, 1)], accesses, 15 * KIB, 1) == {"b": 10 * KIB}
    assert fetched_bytes([(program, 1)], accesses, 14 * KIB, 1) == {"b": 40 * KIB}


def test_what_passes_again_for_rows_that_are_left_over_is_touched_once() -> None:
    print_of = ragged_matmul()
    assert print_of.touched() == print_of.read() == {"a": 5 * KIB, "b": 10 * KIB}
    assert print_of.earlier() == [None, None, None, 1]
    revisit = ({"a": KIB, "b": 10 * KIB}, {"a": KIB, "b": 10 * KIB})
    assert print_of.revisits() == [None, None, None, revisit]


def test_rows_that_are_left_over_are_one_turn_more() -> None:
    assert fetched([(ragged_matmul(), 1)], {"a": 5, "b": 10}, capacity=11) == {"a": 5, "b": 10}
    assert fetched([(ragged_matmul(), 1)], {"a": 5, "b": 10}, capacity=10) == {"a": 5, "b": 50}


def test_columns_of_cores_are_not_shared_because_rows_are_left_over() -> None:
    # Two cores with all of a and half of 20 KiB of b each: a turn touches 1 + 2 x 10 KiB.
    assert fetched([(ragged_matmul(), 2)], {"a": 5, "b": 20}, capacity=21, cores=2) == {"a": 5, "b": 20}
    assert fetched([(ragged_matmul(), 2)], {"a": 5, "b": 20}, capacity=20, cores=2) == {"a": 5, "b": 100}


def test_loops_over_few_and_over_many_bytes_of_one_region_are_told_apart() -> None:
    both = block(
        Loop("i", 2, (Loop("n", 5, (load_at("b", 0, n=1),)),)),
        Loop("j", 2, (Loop("m", 20, (load_at("b", 5, m=1),)),)),
    )
    accesses = [Access("b", 25 * KIB, 0, False)]
    assert fetched_bytes([(both, 1)], accesses, 10 * KIB, 1) == {"b": (5 + 2 * 20) * KIB}


def test_only_what_comes_in_between_pushes_out() -> None:
    """Two passes over each of four rows hit if a row fits, two passes over all rows only if all fit."""
    rows = block(
        Loop("i", 4, tuple(Loop(name, 10, (load_at("x", 0, i=10, **{name: 1}),)) for name in ("j", "k")))
    )
    assert fetched([(rows, 1)], {"x": 40}, capacity=10) == {"x": 40}
    assert fetched([(rows, 1)], {"x": 40}, capacity=9) == {"x": 80}
    everything = block(*(Loop(name, 40, (load("x", name),)) for name in ("j", "k")))
    assert fetched([(everything, 1)], {"x": 40}, capacity=40) == {"x": 40}
    assert fetched([(everything, 1)], {"x": 40}, capacity=39) == {"x": 80}


def test_the_order_of_loops_does_not_make_other_bytes() -> None:
    """Columns after rows: between the visits lies all, not one row."""
    tiles = load_at("x", 0, i=4, j=1), load_at("x", 0, j=4, i=1)
    program = block(Loop("i", 4, tuple(Loop("j", 4, (tile,)) for tile in tiles)))
    assert program.touched() == {"x": 16 * KIB}
    assert program.working_sets([0]) == {0: {"x": 8 * KIB}}
    assert fetched([(program, 1)], {"x": 16}, capacity=16) == {"x": 16}
    assert fetched([(program, 1)], {"x": 16}, capacity=15) == {"x": 32}


def test_cores_without_a_block_hold_nothing() -> None:
    """One block keeps a tile of a and all of b, whatever the number of cores beside it."""
    wanted = {"a": 4, "b": 10}
    for cores in (1, 2, 8):
        assert fetched([(matmul(), 1)], wanted, 11, cores) == wanted


def test_what_a_task_reads_of_its_own_results_is_fetched_when_it_was_pushed_out() -> None:
    """A ring of 4 KiB, which is filled before it is read; five turns around it."""
    store = Move(Pipe.MTE3, gm("ring", KIB, Affine(0, (("n", KIB),))), Operand(Buffer.UB, "u", KIB), 1, KIB)
    ring = block(Loop("turn", 5, (Loop("n", 4, (store, load("ring", "n"), load("x", "turn", "n"))),)))
    written, read, other = (
        Access("ring", 4 * KIB, 0, True),
        Access("ring", 0, 0, False),
        Access("x", 8 * KIB, 0, False),
    )
    accesses = [written, read, other]
    kept, lost = (fetched_bytes([(ring, 1)], accesses, capacity * KIB, 1) for capacity in (64, 2))
    assert kept["ring"] == 0
    assert kept["x"] == lost["x"]
    assert lost["ring"] > 4 * KIB


def test_a_ring_is_written_over_in_time_if_a_trip_around_it_fits() -> None:
    """Each of two cores stores 2 KiB of scratch memory a trip, and reads 3 KiB that move on."""
    store = Move(Pipe.MTE3, gm("ring", 2 * KIB, Affine()), Operand(Buffer.UB, "u", 2 * KIB), 1, 2 * KIB)
    result = Move(Pipe.MTE3, gm("c", KIB, Affine(0, (("m", KIB),))), Operand(Buffer.UB, "u", KIB), 1, KIB)
    trip = (load_at("a", 0, m=3), load_at("a", 1, m=3), load_at("a", 2, m=3), store, result)
    program = block(Loop("m", 8, trip))
    accesses = [
        Access("a", 48 * KIB, 0, False),
        Access("ring", 4 * KIB, 0, True),
        Access("c", 16 * KIB, 0, True),
    ]
    assert rewritten([(program, 2)], accesses, 12 * KIB, 2) == {"ring", "c"}
    assert rewritten([(program, 2)], accesses, 12 * KIB - 1, 2) == {"c"}  # nobody comes back to results
    assert rewritten([(program, 2)], accesses, 6 * KIB, 1) == {"ring", "c"}
