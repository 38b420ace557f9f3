"""Laws of the memory planners, on one stream and on several: nothing that may be alive at the same time
shares a byte."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendsim.lower.memory import Board, Piece, TaskOrder
from ascendsim.lower.memory.arrange import apart, best_fit, first_fit, place
from ascendsim.lower.memory.blocks import assign_blocks, binary_classes, max_classes
from ascendsim.lower.memory.pieces import Numbers

Planner = Callable[[Board], tuple[Numbers, int]]
PLANNERS: dict[str, Planner] = {
    "best fit": best_fit,
    "first fit": first_fit,
    "apart": apart,
    "binary-block": lambda board: assign_blocks(board, binary_classes(board.sizes.tolist())),
    "max-block": lambda board: assign_blocks(board, max_classes(board.sizes.tolist())),
}


@st.composite
def boards(draw: st.DrawFn) -> Board:
    streams = draw(st.lists(st.integers(0, 2), min_size=1, max_size=16))
    streams = [sorted(set(streams)).index(stream) for stream in streams]
    waits = [
        draw(st.lists(st.integers(0, task - 1), max_size=2)) if task else [] for task in range(len(streams))
    ]
    users = st.lists(st.integers(0, len(streams) - 1), min_size=1, max_size=4, unique=True)
    pieces = draw(st.lists(st.tuples(st.integers(0, 5000), users, st.booleans()), min_size=1, max_size=20))
    made = [
        Piece(f"p{number}", size, tuple(sorted(used)), whole and not number % 4)
        for number, (size, used, whole) in enumerate(pieces)
    ]
    return Board(made, TaskOrder(streams, waits))


def reachable(order: TaskOrder, waits: list[list[int]]) -> list[set[int]]:
    """By task, all tasks before it: by walking edges, to check the clocks."""
    last: dict[int, int] = {}
    before: list[set[int]] = []
    for task, stream in enumerate(order.stream.tolist()):
        direct = [*waits[task], *([last[stream]] if stream in last else [])]
        before.append(set(direct).union(*(before[other] for other in direct)))
        last[stream] = task
    return before


@given(st.lists(st.integers(0, 2), min_size=1, max_size=14), st.data())
def test_clocks_say_what_walking_along_edges_says(streams: list[int], data: st.DataObject) -> None:
    waits = [
        data.draw(st.lists(st.integers(0, task - 1), max_size=3)) if task else []
        for task in range(len(streams))
    ]
    order = TaskOrder(streams, waits)
    before = reachable(order, waits)
    for one in range(len(streams)):
        for other in range(len(streams)):
            assert order.happens_before(one, other) == (one in before[other])


def ordered(board: Board, one: Piece, other: Piece) -> bool:
    """Whether all uses of a piece happen before all uses of another one."""
    return not (one.whole or other.whole) and all(
        board.order.happens_before(u, v) for u in one.users for v in other.users
    )


@pytest.mark.parametrize("planner", PLANNERS)
@given(board=boards())
def test_pieces_that_may_be_alive_together_share_no_byte(planner: str, board: Board) -> None:
    offsets, peak = PLANNERS[planner](board)
    ends = offsets + board.sizes
    assert (offsets % 512 == 0).all()
    assert peak == max(ends) >= board.lower_bound()
    for number, one in enumerate(board.pieces):
        for earlier, other in enumerate(board.pieces[:number]):
            if not (ordered(board, one, other) or ordered(board, other, one)) and one.bytes and other.bytes:
                assert ends[number] <= offsets[earlier] or ends[earlier] <= offsets[number], (
                    planner,
                    one,
                    other,
                )


@given(board=boards(), ceiling=st.integers(0, 40), lowest=st.booleans(), data=st.data())
def test_what_lives_for_the_whole_run_lies_where_what_every_task_uses_would(
    board: Board, ceiling: int, lowest: bool, data: st.DataObject
) -> None:
    """Such pieces are kept as ranges that are taken, the others each by itself."""
    sequence = data.draw(st.permutations(range(len(board))))
    tasks = tuple(range(len(board.order)))
    used = Board(
        [replace(piece, users=tasks, whole=False) if piece.whole else piece for piece in board.pieces],
        board.order,
    )
    offsets, peak = place(board, sequence, ceiling * 512, lowest)
    others, other_peak = place(used, sequence, ceiling * 512, lowest)
    assert (offsets.tolist(), peak) == (others.tolist(), other_peak)


@given(board=boards())
def test_spans_that_are_apart_belong_to_pieces_that_never_meet(board: Board) -> None:
    spans = list(zip(*(ends.tolist() for ends in board.spans), strict=True))
    for number, one in enumerate(board.pieces):
        assert one.whole or (spans[number][0] <= one.users[0] and one.users[-1] <= spans[number][1])
        for earlier, other in enumerate(board.pieces[:number]):
            if spans[number][1] < spans[earlier][0]:
                assert ordered(board, one, other)


@given(board=boards())
def test_best_fit_is_not_worse_than_giving_each_its_own(board: Board) -> None:
    assert board.lower_bound() <= best_fit(board)[1] <= apart(board)[1]


@given(board=boards())
def test_live_bytes_are_those_of_pieces_used_before_and_after(board: Board) -> None:
    order = board.order
    for task, live in enumerate(board.live_bytes().tolist()):
        alive = [
            piece.whole
            or (
                any(user == task or order.happens_before(user, task) for user in piece.users)
                and any(user == task or order.happens_before(task, user) for user in piece.users)
            )
            for piece in board.pieces
        ]
        assert live == sum(size for size, there in zip(board.sizes.tolist(), alive, strict=True) if there)


@pytest.mark.parametrize("streams", [[], [0], [0, 1], [1, 0, 1]])
@pytest.mark.parametrize("planner", PLANNERS)
def test_nothing_to_place_takes_no_memory(planner: str, streams: list[int]) -> None:
    board = Board((), TaskOrder(streams, [[] for _ in streams]))
    offsets, end = PLANNERS[planner](board)
    assert (len(offsets), end, board.lower_bound()) == (0, 0, 0)
    assert board.live_bytes().tolist() == [0] * len(streams)
