"""What may share the task of a segment operator: who reads and writes what, in which order steps run, and
each condition broken alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import CompileError
from ascendsim.core.formats import Format
from ascendsim.graph.ir import Node, Tensor
from ascendsim.lower.fused_segment import is_segment_work, join_segment
from ascendsim.opset.work import Copy, MoveWork, Ref, SequenceWork, Step, Stream, VectorWork, Work
from tests.support.fusing import build
from tests.support.lowering import ref

ROWS, WIDTH, SEGMENTS = 64, 128, 8
WIDE = DType.FLOAT32


def chain(before: int, behind: int) -> list[Node]:
    """Nodes of which only names, types of results and neighbours matter."""

    def body(b: asim.GraphBuilder) -> Tensor:
        y = b.input("x", (ROWS, WIDTH), DType.FLOAT16)
        for _ in range(before):
            y = b.op("Tanh", y)
        y = b.op(
            "UnsortedSegmentSum", y, b.constant(range(ROWS), "ids"), b.constant(8, "count"), domain="ascend"
        )
        for _ in range(behind):
            y = b.op("Abs", y)
        return y

    return list(build(body).topological())


def rows(name: str, dtype: DType = DType.FLOAT16) -> Ref:
    return ref(name, (ROWS, WIDTH), dtype=dtype)


def sums(name: str, dtype: DType = DType.FLOAT16) -> Ref:
    return ref(name, (SEGMENTS, WIDTH), dtype=dtype)


def elementwise(op: str, source: Ref, result: Ref, *more: Stream) -> VectorWork:
    return VectorWork(ROWS, WIDTH, (Step(op),), (Stream(source), *more), (Stream(result),))


def segment(source: Ref, result: Ref, *behind: VectorWork) -> SequenceWork:
    fill = VectorWork(SEGMENTS, WIDTH, (Step("vectordup"),), (), (Stream(result),))
    copy = Copy(source, result, source.bytes, 2 * WIDTH, 2 * WIDTH, 3 * result.bytes)
    return SequenceWork((fill, MoveWork((copy,), (Step("vadd"),), 4, (ref("ids", (ROWS,)),)), *behind))


def joined(nodes: list[Node], works: list[Work], shown: int | None = None) -> SequenceWork:
    """The work, if all but the last result stay inside; or one more is shown."""
    return join_segment(
        nodes, works, [node.output for place, node in enumerate(nodes[:-1]) if place != shown]
    )


def of(nodes: list[Node], place: int) -> str:
    return nodes[place].output.name


def test_what_segment_work_is() -> None:
    plain = segment(rows("x"), sums("y"))
    assert is_segment_work(plain)
    fill, move = plain.parts
    assert not is_segment_work(fill)
    assert not is_segment_work(replace(plain, repeat=2))
    assert not is_segment_work(replace(plain, parts=(fill,)))
    assert not is_segment_work(replace(plain, parts=(move, move)))
    assert not is_segment_work(replace(plain, parts=(fill, fill)))
    read = elementwise("vmuls", sums("a"), sums("y"))
    assert not is_segment_work(replace(plain, parts=(read, move)))


def test_rows_pass_all_steps_in_order_and_inner_tensors_are_nowhere() -> None:
    nodes = chain(2, 2)
    inner = [of(nodes, place) for place in range(4)]
    gain, bias = Stream(ref("gain", (WIDTH,)), "col"), Stream(ref("bias", (1,)), "one")
    works: list[Work] = [
        elementwise("vmul", rows("x", WIDE), rows(inner[0], WIDE), gain),
        elementwise("vconv", rows(inner[0], WIDE), rows(inner[1]), bias),
        segment(rows(inner[1]), sums(inner[2]), elementwise("vmuls", sums(inner[2]), sums(inner[2]))),
        elementwise("vabs", sums(inner[2]), sums(inner[3])),
        elementwise("vadd", sums(inner[3]), sums("y"), Stream(sums("z")), Stream(sums(inner[2]))),
    ]
    result = Ref.of(nodes[-1].output)
    fill, move, *behind = joined(nodes, works).parts
    assert isinstance(fill, VectorWork)
    assert isinstance(move, MoveWork)
    assert [stream.ref for stream in fill.outputs] == [result]
    assert [step.op for step in move.steps] == ["vmul", "vconv", "vadd"]
    assert [item.region for item in move.extra_inputs] == ["ids", "bias", "gain"]
    (copy,) = move.copies
    assert (copy.src, copy.dst, copy.bytes) == (rows("x", WIDE), result, 4 * ROWS * WIDTH)
    assert (copy.read_burst, copy.write_burst, copy.written) == (
        4 * WIDTH,
        2 * WIDTH,
        3 * 2 * SEGMENTS * WIDTH,
    )
    assert move.scalar_per_burst == 4
    assert [[step.op for step in part.steps] for part in behind if isinstance(part, VectorWork)] == [
        ["vmuls"],
        ["vabs"],
        ["vadd"],
    ]
    for part in behind:
        assert isinstance(part, VectorWork)
        assert [stream.ref for stream in part.outputs] == [result]
        assert {stream.ref.region for stream in part.inputs} <= {result.region, "z"}
    last = behind[-1]
    assert isinstance(last, VectorWork)
    assert [stream.ref.region for stream in last.inputs] == [result.region, "z", result.region]


def test_bytes_are_those_of_the_rows_that_come_in() -> None:
    """Where the segment operator alone reads float16, and what comes is float32; or no node is in front."""
    nodes = chain(0, 1)
    alone = segment(rows("x"), sums(of(nodes, 0)))
    (copy,) = joined(nodes, [alone, elementwise("vabs", sums(of(nodes, 0)), sums("y"))]).parts[1].copies  # type: ignore[union-attr]
    assert (copy.bytes, copy.read_burst) == (2 * ROWS * WIDTH, 2 * WIDTH)


HEAD, TAIL = cache(lambda: chain(1, 0)), cache(lambda: chain(0, 1))


@cache
def front() -> VectorWork:
    return elementwise("vmuls", rows("x"), rows(of(HEAD(), 0)))


@cache
def behind() -> VectorWork:
    return elementwise("vabs", sums(of(TAIL(), 0)), sums("y"))


ALONE, ONE, ELEMENTWISE = (
    "must hand its result",
    "must work on one tensor",
    "must have elementwise operators behind it",
)
REFUSED: dict[str, tuple[Callable[[], Work], str]] = {
    "in front: no vector work": (lambda: MoveWork(()), ALONE),
    "in front: a reduction": (lambda: replace(front(), reduces="rows"), ALONE),
    "in front: two results": (lambda: replace(front(), outputs=front().outputs * 2), ALONE),
    "in front: another tensor": (lambda: replace(front(), outputs=(Stream(rows("else")),)), ALONE),
    "in front: two tensors": (lambda: replace(front(), inputs=front().inputs * 2), ONE),
    "in front: none": (lambda: replace(front(), inputs=()), ONE),
    "in front: a smaller one": (lambda: replace(front(), inputs=(Stream(sums("s")),)), ONE),
    "behind: no vector work": (lambda: MoveWork(()), ELEMENTWISE),
    "behind: a reduction": (lambda: replace(behind(), reduces="cols"), ELEMENTWISE),
    "behind: two results": (lambda: replace(behind(), outputs=behind().outputs * 2), ELEMENTWISE),
}


@pytest.mark.parametrize("case", REFUSED)
def test_each_condition_broken_alone_is_refused(case: str) -> None:
    make, message = REFUSED[case]
    first = case.startswith("in front")
    nodes = HEAD() if first else TAIL()
    own = segment(rows(of(nodes, 0)), sums("y")) if first else segment(rows("x"), sums(of(nodes, 0)))
    joined(nodes, [front(), own] if first else [own, behind()])
    with pytest.raises(CompileError, match=message) as refusal:
        joined(nodes, [make(), own] if first else [own, make()])
    assert nodes[0].name in str(refusal.value)


@pytest.mark.parametrize(
    "result",
    [
        sums("s", WIDE),
        ref("s", (SEGMENTS, 2 * WIDTH)),
        replace(sums("s"), format=Format.FRACTAL_NZ),
    ],
)
def test_the_result_keeps_shape_type_and_format(result: Ref) -> None:
    with pytest.raises(CompileError, match="must keep shape, type and format"):
        joined(TAIL(), [segment(rows("x"), result), behind()])


def test_only_one_segment_operator_and_nothing_shown_in_between() -> None:
    own = segment(rows("x"), sums(of(TAIL(), 0)))
    with pytest.raises(CompileError, match="must be the only segment operator") as refusal:
        joined(TAIL(), [own, own])
    assert TAIL()[1].name in str(refusal.value)
    with pytest.raises(CompileError, match="must hand its result to its task alone") as refusal:
        joined(TAIL(), [own, behind()], shown=0)
    assert TAIL()[0].name in str(refusal.value)
