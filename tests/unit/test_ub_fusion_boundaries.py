"""Limits of UB fusion at n and n + 1, with the numbers of the published rules (see `ub_fusion/limits.py`)
written down by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Tensor
from tests.support.fusing import build, random
from tests.support.ub import MAP, ROWS, conv, matmul
from tests.unit.test_ub_fusion_near_misses import Body, on_device, scopes

CHAINS_OFF = ("TbeEltwiseFusionPass", "TbeMultiOutputFusionPass")
#            profile: elementwise behind a convolution, nodes of a chain
LENGTHS = {"Ascend310": (3, 5), "MindSpore": (3, 6), "documents": (5, 6)}
# profile: elementwise operators before a reduction, behind it, in all; the same of a segment operator
AROUND = {
    "Ascend310": ((4, 4, 4), (4, 4, 4)),
    "MindSpore": ((3, 3, 6), (3, 3, 6)),
    "documents": ((6, 5, 11), (3, 3, 6)),
}


def chained(b: GraphBuilder, x: Tensor, count: int) -> Tensor:
    for number in range(count):
        x = b.op(("Exp", "Abs")[number % 2], x)
    return x


def rows(b: GraphBuilder, name: str = "x") -> Tensor:
    return b.input(name, ROWS, "float16")


def members(body: Body, profile: str, off: Sequence[str] = ()) -> list[list[str]]:
    """Operators of each scope."""
    text = scopes(on_device(build(body)), profile, off)
    return (
        []
        if text == "nothing"
        else [item.split("(")[1].rstrip(")").split(", ") for item in text.split("; ") if "(" in item]
    )


@pytest.mark.parametrize("profile", LENGTHS)
@pytest.mark.parametrize("surplus", [-1, 0, 1, 2])
def test_elementwise_operators_behind_a_convolution(profile: str, surplus: int) -> None:
    most = LENGTHS[profile][0]
    groups = members(lambda b: chained(b, conv(b, b.input("x", MAP, "float16"), 32), most + surplus), profile)
    assert [len(group) for group in groups] == [1 + most + min(surplus, 0), *([2] if surplus == 2 else [])]


@pytest.mark.parametrize("profile", LENGTHS)
def test_one_operator_behind_a_convolution_is_enough(profile: str) -> None:
    assert members(lambda b: b.op("Exp", conv(b, b.input("x", MAP, "float16"), 32)), profile) == [
        ["Conv", "Exp"]
    ]
    assert members(lambda b: b.op("Exp", conv(b, b.input("x", MAP, "float16"), 32, groups=32)), profile) == [
        ["Conv", "Exp"]
    ]
    assert members(lambda b: b.op("Exp", matmul(b, rows(b), 32)), profile) == [["MatMul", "Exp"]]


@pytest.mark.parametrize("profile", LENGTHS)
@pytest.mark.parametrize("surplus", [-1, 0, 1, 2])
def test_nodes_of_a_chain(profile: str, surplus: int) -> None:
    most = LENGTHS[profile][1]
    groups = members(lambda b: chained(b, rows(b), most + surplus), profile)
    assert [len(group) for group in groups] == [most + min(surplus, 0), *([2] if surplus == 2 else [])]


def test_two_nodes_make_a_chain_and_one_does_not() -> None:
    for profile in LENGTHS:
        assert members(lambda b: chained(b, rows(b), 2), profile) == [["Exp", "Abs"]]
        assert members(lambda b: chained(b, rows(b), 1), profile) == []


def reduction(b: GraphBuilder, x: Tensor) -> Tensor:
    return b.op("ReduceSum", x, b.constant([1], "axes"))


def segment(b: GraphBuilder, x: Tensor) -> Tensor:
    return b.op(
        "ScatterND",
        x,
        b.constant(np.arange(8).reshape(8, 1), "at"),
        b.input("u", (8, 48), "float16"),
        reduction="add",
    )


@pytest.mark.parametrize("profile", AROUND)
@pytest.mark.parametrize(("middle", "place"), [("ReduceSum", 0), ("ScatterND", 1)])
@pytest.mark.parametrize("surplus", [-1, 0, 1])
def test_operators_around_a_reduction_or_a_segment_operator(
    profile: str, middle: str, place: int, surplus: int
) -> None:
    before, behind, total = AROUND[profile][place]
    make = reduction if middle == "ReduceSum" else segment

    def sides(first: int, last: int) -> tuple[int, int] | None:
        """How many operators before and behind share the task of the one in the middle."""
        groups = members(lambda b: chained(b, make(b, chained(b, rows(b), first)), last), profile)
        mine = next((group for group in groups if middle in group), None)
        return None if mine is None else (mine.index(middle), len(mine) - 1 - mine.index(middle))

    assert sides(0, behind + surplus) == (0, behind + min(surplus, 0))
    alone = sides(before + surplus, 0)
    if profile == "MindSpore":  # takes no reduction at the end of a chain
        assert alone is None
    else:
        assert alone == (before + min(surplus, 0), 0)
    first = min(before, total - 1)
    room = total - first
    assert sides(first, min(behind, room) + surplus) == (first, min(behind, room) + min(surplus, 0))


@pytest.mark.parametrize(
    ("count", "sizes"), [(2, [2]), (27, [27]), (28, [28]), (29, [28]), (30, [28, 2]), (57, [28, 28])]
)
def test_nodes_of_an_automatic_scope(count: int, sizes: list[int]) -> None:
    assert [
        len(group) for group in members(lambda b: chained(b, rows(b), count), "documents", CHAINS_OFF)
    ] == sizes


@pytest.mark.parametrize(("count", "joined"), [(2, True), (6, True), (7, False)])
def test_summands_of_an_automatic_scope(count: int, joined: bool) -> None:
    groups = members(
        lambda b: b.op("Sum", *(chained(b, rows(b, f"x{n}"), 2) for n in range(count))),
        "documents",
        CHAINS_OFF,
    )
    assert any("Sum" in group for group in groups) is joined


@pytest.mark.parametrize(("count", "joined"), [(5, True), (6, True), (7, False)])
def test_readers_of_a_tensor_inside_an_automatic_scope(count: int, joined: bool) -> None:
    def body(b: GraphBuilder) -> list[Tensor]:
        x = chained(b, rows(b), 2)
        return [b.op(name, x) for name in ("Neg", "Relu", "Abs", "Sigmoid", "Tanh", "Sqrt", "Log")[:count]]

    (group,) = members(body, "documents", CHAINS_OFF)
    assert len(group) == (2 + count if joined else 2)


@pytest.mark.parametrize(("count", "size"), [(2, 4), (3, 4)])
def test_mindspore_takes_four_nodes_of_which_the_third_is_read_elsewhere(count: int, size: int) -> None:
    def body(b: GraphBuilder) -> list[Tensor]:
        third = chained(b, rows(b), 3)
        return [chained(b, third, count - 1), b.op("Softmax", third)]

    groups = members(body, "MindSpore")
    assert len(groups[0]) == size


@pytest.mark.parametrize(("profile", "most"), [("Ascend310", 5), ("documents", 6)])
@pytest.mark.parametrize("surplus", [-1, 0, 1])
def test_nodes_of_a_chain_whose_first_result_is_read_elsewhere(profile: str, most: int, surplus: int) -> None:
    def body(b: GraphBuilder) -> list[Tensor]:
        first = b.op("Neg", rows(b))
        return [chained(b, first, most + surplus - 1), b.op("Softmax", first)]

    assert [len(group) for group in members(body, profile)] == [most + min(surplus, 0)]


@pytest.mark.parametrize("profile", LENGTHS)
def test_a_second_operand_from_elsewhere(profile: str) -> None:
    """Elementwise operators behind a convolution read it alone, but for the one that adds the other
    branch."""

    def body(b: GraphBuilder, count: int) -> Tensor:
        x = conv(b, b.input("x", MAP, "float16"), 32)
        for number in range(count):
            x = b.op("Add", x, b.op("Softmax", b.input(f"y{number}", MAP, "float16"), axis=1))
        return b.op("Relu", x)

    assert members(lambda b: body(b, 1), profile) == [["Conv", "Add", "Relu"]]
    assert not any("Conv" in group for group in members(lambda b: body(b, 2), profile))


def test_a_constant_of_one_element_is_no_operand_from_elsewhere() -> None:
    def body(b: GraphBuilder, *shape: int) -> Tensor:
        return b.op(
            "Exp", b.op("Mul", conv(b, b.input("x", MAP, "float16"), 32), random(*shape, dtype=np.float16))
        )

    assert members(lambda b: body(b), "Ascend310") == [["Conv", "Mul", "Exp"]]
    assert members(lambda b: body(b, 1), "Ascend310") == [["Conv", "Mul", "Exp"]]
    assert members(lambda b: body(b, 32, 1, 1), "Ascend310") == [["Mul", "Exp"]]
