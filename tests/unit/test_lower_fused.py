"""What may run on the Cube's result, piece by piece: each condition broken alone is refused, and all of them
together are not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import CompileError
from ascendsim.core.formats import Format
from ascendsim.graph.ir import Node
from ascendsim.lower.fused import join_epilogue, most_values
from ascendsim.opset.work import CubeWork, MoveWork, Step, Stream, VectorWork, Work
from ascendsim.soc import load
from tests.support.fusing import build, random
from tests.support.lowering import convolution, ref

COUPLED, SPLIT = load("Ascend310"), load("Ascend910B1")
HEAD: CubeWork = replace(convolution(32, 12, 32, 3, 1, 1), bias=None)
RESULT = replace(HEAD.out, region="z")
PLAIN = VectorWork(
    144, 32, (Step("vadd"),), (Stream(HEAD.out), Stream(replace(HEAD.out, region="other"))), (Stream(RESULT),)
)


def nodes(count: int = 2) -> list[Node]:
    """A convolution and elementwise nodes, of which only names and neighbours matter."""

    def body(b: asim.GraphBuilder) -> asim.Tensor:
        y = b.op("Conv", b.input("x", (1, 32, 12, 12)), random(32, 32, 3, 3), pads=[1, 1, 1, 1])
        for _ in range(count - 1):
            y = b.op("Relu", y)
        return y

    return list(build(body).topological())


def joined(*works: Work, soc: asim.SocSpec = COUPLED) -> CubeWork:
    found = nodes(1 + len(works))
    return join_epilogue(found, [HEAD, *works], [found[0].output], soc)


def test_an_elementwise_node_becomes_an_epilogue() -> None:
    work = joined(PLAIN)
    assert (work.epilogue, work.out) == (PLAIN.steps, RESULT)
    assert work.epilogue_inputs == (PLAIN.inputs[1],)
    assert [side.ref for side in work.side_outputs] == [HEAD.out]  # its name is not that of a tensor inside


def with_inputs(*streams: Stream) -> VectorWork:
    return replace(PLAIN, inputs=(Stream(HEAD.out), *streams))


def col(count: int) -> VectorWork:
    return replace(with_inputs(Stream(ref("s", (count,)), "col")), cols=count)


REFUSED: dict[str, Work] = {
    "movement": MoveWork(()),
    "reduction": replace(PLAIN, reduces="cols"),
    "scattered reads": replace(PLAIN, gather_bytes=64),
    "two results": replace(PLAIN, outputs=(Stream(RESULT), Stream(RESULT))),
    "a value a row": replace(PLAIN, outputs=(Stream(RESULT, "row"),)),
    "another format": replace(PLAIN, outputs=(Stream(replace(RESULT, format=Format.ND)),)),
    "another shape": replace(PLAIN, outputs=(Stream(replace(RESULT, shape=(1, 32, 6, 24))),)),
    "the result broadcast": replace(PLAIN, inputs=(Stream(HEAD.out, "col"),)),
    "an operand in another format": with_inputs(Stream(replace(HEAD.out, region="o", format=Format.ND))),
    "an operand of another shape": with_inputs(Stream(replace(HEAD.out, region="o", shape=(1, 32, 6, 24)))),
    "an operand a row": with_inputs(Stream(ref("o", (144,)), "row")),
    "fewer values than channels": col(16),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused(case: str) -> None:
    with pytest.raises(CompileError, match="must|has one"):
        joined(REFUSED[case])


def test_operands_that_fit() -> None:
    assert [stream.over for stream in joined(col(32)).epilogue_inputs] == ["col"]
    assert [stream.over for stream in joined(with_inputs(Stream(ref("s", (1,)), "one"))).epilogue_inputs] == [
        "one"
    ]
    other = Stream(replace(HEAD.out, region="o"))
    assert joined(with_inputs(other, other)).epilogue_inputs == (other,)  # two reads of one tensor


def sums(*steps: Step, outputs: int = 1, rows: int = 144, cols: int = 32, region: str = "y") -> VectorWork:
    results = tuple(
        Stream(ref(f"t{number}", (cols,), dtype=DType.FLOAT32), "col") for number in range(outputs)
    )
    return VectorWork(rows, cols, steps, (Stream(replace(HEAD.out, region=region)),), results, "rows")


ADD, WIDE = Step("vadd", DType.FLOAT32), Step("vconv", DType.FLOAT32)


def test_sums_of_columns_follow_the_result() -> None:
    work = joined(sums(WIDE, ADD))
    assert [(item.ref.region, item.steps, item.fold) for item in work.sums] == [("t0", (WIDE,), ADD)]
    two = joined(sums(WIDE, ADD, Step("vmul", DType.FLOAT32), ADD, outputs=2))
    assert [item.steps for item in two.sums] == [(WIDE,), (Step("vmul", DType.FLOAT32),)]


@pytest.mark.parametrize(
    "work",
    [
        sums(WIDE, ADD, WIDE),
        sums(ADD, outputs=2),
        sums(WIDE, ADD, cols=16),
        sums(WIDE, ADD, region="w"),
        sums(replace(ADD, over="col")),
    ],
)
def test_other_sums_are_refused(work: VectorWork) -> None:
    with pytest.raises(CompileError, match="must"):
        joined(work)


def test_nothing_follows_sums() -> None:
    with pytest.raises(CompileError, match="must not follow sums"):
        joined(sums(WIDE, ADD), PLAIN)


RELU = VectorWork(1, 144 * 32, (Step("vrelu"),), (Stream(HEAD.out),), (Stream(RESULT),))
SPLIT_CASES: list[tuple[tuple[Work, ...], bool]] = [
    ((RELU,), True),
    ((PLAIN,), False),
    ((replace(RELU, steps=(Step("vexp"),)),), False),
    ((replace(RELU, steps=(Step("vrelu"), Step("vrelu"))),), False),
    ((sums(WIDE, ADD),), False),
]


@pytest.mark.parametrize(("works", "fits"), SPLIT_CASES)
def test_fixpipe_takes_one_relu_and_no_more(works: tuple[Work, ...], fits: bool) -> None:
    found = nodes(1 + len(works))
    head = replace(HEAD, out=replace(HEAD.out, region=found[0].output.name))
    moved = [
        replace(work, inputs=tuple(Stream(head.out) if s.ref == HEAD.out else s for s in work.inputs))
        for work in works
    ]  # type: ignore[union-attr, type-var]
    if fits:
        assert join_epilogue(found, [head, *moved], [found[0].output], SPLIT).epilogue == (Step("vrelu"),)
        return
    with pytest.raises(CompileError, match=r"takes only what FIXPIPE does|must"):
        join_epilogue(found, [head, *moved], [found[0].output], SPLIT)


SHAPES: dict[str, tuple[Callable[[asim.GraphBuilder, asim.Tensor], asim.Tensor], int]] = {
    "chain": (lambda b, x: b.op("Relu", b.op("Exp", x)), 1),
    "swish": (lambda b, x: b.op("Mul", b.op("Sigmoid", x), x), 2),  # the sigmoid and what it was made of
    "two branches": (lambda b, x: b.op("Add", b.op("Mul", b.op("Exp", x), b.op("Tanh", x)), x), 3),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_values_that_are_needed_at_once(shape: str) -> None:
    make, most = SHAPES[shape]
    graph = build(lambda b: make(b, b.op("Abs", b.input("x", (4, 64)))))
    assert most_values(list(graph.topological())) == most
