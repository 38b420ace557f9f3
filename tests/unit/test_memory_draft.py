"""Regions before they have addresses: who owns bytes, in which order, and which results may lie where inputs
lay; classes of block sizes of tensors below one page."""

from __future__ import annotations

import pytest

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph
from ascendsim.lower.memory.blocks import binary_classes
from ascendsim.lower.memory.draft import Draft
from ascendsim.lower.memory.in_place import Takeover
from ascendsim.lower.memory.order import TaskOrder


def chain(*sizes: int) -> Graph:
    """x -> t0 -> t1 ... with so many bytes each."""
    graph = Graph("chain")
    tensor = graph.add_input("x", DType.INT8, (sizes[0],))
    for number, size in enumerate(sizes):
        tensor = graph.add_node("Relu", [tensor], [f"t{number}"], name=f"n{number}").output
        tensor.dtype, tensor.shape = DType.INT8, (size,)
    graph.outputs.append(tensor)
    return graph


def drafted(graph: Graph, uses: list[list[str]], **aliases: str) -> Draft:
    return Draft(graph, uses, aliases, {}, ())


def test_owners_come_by_first_use_and_name_and_unused_ones_with_those_of_the_first_task() -> None:
    draft = drafted(chain(4, 4, 4, 4), [["t1", "x"], ["t2", "t1"], ["t0"]])
    assert draft.users == {"t1": [0, 1], "x": [0], "t2": [1], "t0": [2]}
    assert draft.owners == ["t1", "t3", "x", "t2", "t0"]  # t3 is touched by nobody


def test_an_alias_lends_its_size_and_its_users_to_its_owner() -> None:
    draft = drafted(chain(4, 900, 30), [["x", "t0"], ["t1"], ["t2"]], t1="t0", t0="x")
    assert draft.owners == ["x", "t2"]
    assert (draft.bytes["x"], draft.users["x"]) == (900, [0, 1])
    assert [draft.kinds[name] for name in ("x", "t0", "t2")] == ["input", "activation", "output"]


@pytest.mark.parametrize(
    ("sizes", "aliases", "taken"),
    [
        ((1024, 1024, 1024, 1024), {}, True),
        ((1024, 1000, 1024, 1024), {}, True),  # as many pages
        ((1024, 1024, 1025, 1024), {}, False),
        ((1024, 1024, 1024, 1024), {"t2": "t1"}, False),  # the result is another tensor's already
        ((1024, 1024, 1024, 1024), {"t2": "t0"}, False),
    ],
)
def test_a_result_takes_the_place_of_an_activation_of_as_many_pages(
    sizes: tuple[int, ...], aliases: dict[str, str], taken: bool
) -> None:
    """t2 of t1, both inside of the graph, each read by the next task alone."""
    uses = [["x", "t0"], ["t0", "t1"], ["t1", "t2"], ["t2", "t3"]]
    draft = drafted(chain(*sizes), uses, **aliases)
    draft.take_over([Takeover(2, "t2", "t1")], TaskOrder([0, 0, 0, 0], [[], [0], [1], [2]]))
    assert draft.taken == ({"t2": "t1"} if taken else {})
    if taken:
        assert draft.place_of("t2") == "t1"
        (piece,) = [piece for piece in draft.pieces() if piece.name == "t1"]
        assert piece.users == (1, 2, 3)


@pytest.mark.parametrize(("result", "source"), [("t0", "x"), ("t3", "t2")])
def test_what_is_the_callers_stays_where_it_is(result: str, source: str) -> None:
    uses = [["x", "t0"], ["t0", "t1"], ["t1", "t2"], ["t2", "t3"]]
    draft = drafted(chain(8, 8, 8, 8), uses)
    task = int(result[1])
    draft.take_over([Takeover(task, result, source)], TaskOrder([0] * 4, [[]] * 4))
    assert not draft.taken


def test_an_input_that_is_read_later_or_given_away_already_is_not_taken() -> None:
    later = [["x", "t0"], ["t0", "t1"], ["t1", "t2"], ["t2", "t3", "t1"]]
    draft = drafted(chain(8, 8, 8, 8), later)
    draft.take_over([Takeover(2, "t2", "t1")], TaskOrder([0] * 4, [[]] * 4))
    assert not draft.taken
    twice = [["x", "t0"], ["t0", "t1", "t2"], ["t1", "t3"], ["t2", "t3"]]
    draft = drafted(chain(8, 8, 8, 8), twice)
    draft.take_over([Takeover(1, "t1", "t0"), Takeover(1, "t2", "t0")], TaskOrder([0] * 4, [[]] * 4))
    assert draft.taken == {"t1": "t0"}


@pytest.mark.parametrize(
    ("sizes", "classes"),
    [
        ([], []),
        ([0, 0], []),
        ([100], []),  # the lowest class is that of all that has none
        ([128, 128, 256, 256], []),
        ([512, 512, 1024, 1024], []),
        ([64, 64, 128, 128, 256, 256, 512, 512], [256, 512]),  # not above 128, not above 256
        ([64, 64, 129, 129, 257, 257, 512, 512], [129, 512]),
        ([600, 600, 2048, 2048, 4096, 4096], [2048, 4096]),
        ([600, 600, 2560, 2560, 4096, 4096], [2560, 4096]),  # a page more than the ceiling is still below
        ([600, 600, 2561, 2561, 4096, 4096], [4096]),
    ],
)
def test_a_size_at_a_ceiling_is_of_the_class_below(sizes: list[int], classes: list[int]) -> None:
    assert binary_classes(sizes) == classes
