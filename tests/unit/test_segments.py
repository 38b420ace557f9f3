"""Reductions of segments: values by loops, devices, and what the tuning guide says of L2 fusion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Tensor
from tests.support.fusing import build, random
from tests.support.gate import in_turn
from tests.support.single_node import infer, make_node, run

FOLDS: dict[str, Callable[[Any], Any]] = {
    "Sum": lambda rows: rows.sum(0),
    "Mean": lambda rows: rows.mean(0),
    "Max": lambda rows: rows.max(0),
    "Min": lambda rows: rows.min(0),
    "Prod": lambda rows: rows.prod(0),
}
RANDOM = np.random.default_rng(5)


def by_hand(kind: str, data: Any, ids: Any, count: int, empty: float) -> Any:
    """Segment by segment."""
    groups = [data[ids == segment] for segment in range(count)]
    return np.stack(
        [FOLDS[kind](rows) if len(rows) else np.full(data.shape[ids.ndim :], empty) for rows in groups]
    )


@pytest.mark.parametrize("kind", ["Max", "Min", "Prod"])
def test_ids_in_any_order(kind: str) -> None:
    data, ids = RANDOM.standard_normal((2, 3, 4)).astype(np.float32), np.array([[2, -1, 0], [2, 2, 0]])
    limits = np.finfo(np.float32)
    empty = {"Max": limits.min, "Min": limits.max, "Prod": 1}[kind]
    (found,) = run(f"UnsortedSegment{kind}", [data, ids, np.array(4)], 1, "ascend")
    np.testing.assert_allclose(found, by_hand(kind, data, ids, 4, empty), rtol=1e-6)


@pytest.mark.parametrize("kind", FOLDS)
def test_rising_ids(kind: str) -> None:
    data, ids = RANDOM.standard_normal((6, 3)).astype(np.float32), np.array([0, 0, 2, 3, 3, 3], np.int32)
    (found,) = run(f"Segment{kind}", [data, ids], 1, "ascend")
    np.testing.assert_allclose(found, by_hand(kind, data, ids, 4, kind == "Prod"), rtol=1e-5)


def test_empty_segments_of_float16_hold_its_limits() -> None:
    data = np.ones((1, 2), np.float16)
    (found,) = run("UnsortedSegmentMax", [data, np.array([1]), np.array(2)], 1, "ascend")
    assert found.dtype == np.float16
    assert found[0, 0] == np.finfo(np.float16).min


def test_the_number_of_segments_is_one_number() -> None:
    data, ids = np.ones((3, 2), np.float32), np.zeros(3, np.int32)
    for count in ([-1], [2, 3], []):
        with pytest.raises(GraphError, match="needs one number of segments that is not negative"):
            make_node("UnsortedSegmentSum", [data, ids, np.array(count, np.int64)], 1, "ascend")
    assert make_node("UnsortedSegmentSum", [data, ids, np.array([0])], 1, "ascend").output.shape == (0, 2)


def test_wrong_ids() -> None:
    data = np.ones((3, 2), np.float32)
    with pytest.raises(GraphError, match="needs ids that rise from 0 on"):
        run("SegmentSum", [data, np.array([1, 0, 1])], 1, "ascend")
    with pytest.raises(GraphError, match="needs ids below 2"):
        run("UnsortedSegmentMin", [data, np.array([0, 1, 2]), np.array(2)], 1, "ascend")
    with pytest.raises(GraphError, match="needs a list of ids"):
        infer("SegmentSum", [(2, 2), None], {1: [[0, 1], [1, 1]]}, domain="ascend")
    with pytest.raises(GraphError, match="needs ids of a shape that"):
        infer("SegmentMax", [(2, 3), None], {1: [0, 1, 1]}, domain="ascend")
    with pytest.raises(GraphError, match="needs ids of int32 or int64, not float32"):
        infer("SegmentMax", [(2, 3), (2,)], domain="ascend")


@pytest.mark.parametrize("chip", ["Ascend310", "Ascend910B1"])
@pytest.mark.parametrize("kind", ["UnsortedSegmentMax", "SegmentMean", "UnsortedSegmentSum"])
def test_on_the_device(kind: str, chip: str) -> None:
    ids = np.sort(RANDOM.integers(0, 8, 64)).astype(np.int32)
    ids[-1] = 7

    def body(b: GraphBuilder) -> Tensor:
        operands = [b.input("x", (64, 40)), b.constant(ids, "ids")]
        if kind.startswith("Un"):
            operands.append(b.constant(8, "count"))
        return b.op(kind, *operands, domain="ascend")

    x = random(64, 40)
    result = asim.run(asim.compile(build(body), chip), {"x": x})
    wanted = by_hand(kind.rpartition("Segment")[2], x.astype(np.float16).astype(np.float32), ids, 8, 0)
    np.testing.assert_allclose(result.outputs["out0"], wanted, atol=0.02)
    assert result.duration_us > 0


def test_more_rows_take_longer() -> None:
    def body(rows: int) -> Callable[[GraphBuilder], Tensor]:
        ids = np.arange(rows, dtype=np.int32) % 16
        return lambda b: b.op(
            "UnsortedSegmentMax",
            b.input("x", (rows, 128)),
            b.constant(ids, "ids"),
            b.constant(16, "count"),
            domain="ascend",
        )

    few, many = (asim.simulate(asim.compile(build(body(rows)))).duration_us for rows in (64, 4096))
    assert many > 2 * few


def test_segments_that_values_decide_wait_for_the_run() -> None:
    graph = build(
        lambda b: b.op(
            "SegmentSum", b.input("x", (4, 32)), b.input("ids", (4,), DType.INT32), domain="ascend"
        )
    )
    x, ids = random(4, 32), np.array([0, 1, 1, 2], np.int32)
    (result,) = asim.run(
        asim.compile(graph, soc="Ascend310P3"), {"x": x, "ids": ids}, values="float32"
    ).outputs.values()
    np.testing.assert_allclose(result, by_hand("Sum", x, ids, 3, 0), rtol=1e-6)


def test_a_reduction_hands_its_result_to_a_segment_operator_in_l2() -> None:
    """Tuning guide: L2 fusion joins "TBE AI Core operators (a reduction and a segment-wise operator)", which
    stay two tasks."""

    def body(b: GraphBuilder) -> Tensor:
        total = b.op("ReduceSum", b.input("x", (64, 8, 256)), b.constant([1], "axes"), keepdims=0)
        ids = b.constant(np.arange(64, dtype=np.int32) % 8, "ids")
        return b.op("UnsortedSegmentSum", total, ids, b.constant(8, "count"), domain="ascend")

    graph = build(body)
    fused = asim.compile(graph, "Ascend310", options={"l2_edges": "listed"})
    apart = asim.compile(graph, "Ascend310", fusion="ub", options={})
    assert len(fused.program.tasks) == len(apart.program.tasks)
    (total,) = (node.output.name for node in fused.graph.nodes if node.op_type == "ReduceSum")
    assert fused.buffers.l2 is not None
    placed = fused.buffers.l2.placed
    assert {item.region for item in placed if not item.weight} == {total}
    assert asim.simulate(fused).duration_us < asim.simulate(apart).duration_us


def chained(kind: str, before: int, behind: int) -> asim.Graph:
    """A segment operator between elementwise operators."""

    def body(b: GraphBuilder) -> Tensor:
        x = b.input("x", (64, 128), DType.FLOAT16)
        for _ in range(before):
            x = b.op("Tanh", x)
        operands = [x, b.constant(np.arange(64, dtype=np.int32) // 8, "ids")]
        if kind.startswith("Un"):
            operands.append(b.constant(8, "count"))
        y = b.op(kind, *operands, domain="ascend")
        for _ in range(behind):
            y = b.op("Abs", y)
        return y

    return build(body)


@pytest.mark.parametrize(
    ("around", "kind", "chip"),
    in_turn(
        [(1, 0), (0, 1), (2, 2), (3, 0)],
        ["UnsortedSegmentSum", "UnsortedSegmentMax", "SegmentMean"],
        ["Ascend310", "Ascend310P3", "Ascend910B1"],
    ),
)
def test_elementwise_operators_share_the_task(around: tuple[int, int], kind: str, chip: str) -> None:
    """Tuning guide: "Segment + elementwise is like Reduce + elementwise"."""
    before, behind = around
    graph = chained(kind, before, behind)
    off = "TbeSegmentElemwiseFusionPass:off;TbeEltwiseFusionPass:off;AutomaticUbFusion:off"
    fused = asim.compile(graph, chip, fusion="ub")
    apart = asim.compile(graph, chip, fusion="ub", optimization_switch=off)
    assert fused.fusion.totals("ub")["TbeSegmentElemwiseFusionPass"] == (1, 1)
    (scope,) = (s for s in fused.fusion.scopes if s.name == "TbeSegmentElemwiseFusionPass")
    assert sum(name.startswith(("Tanh", "Abs")) for name in scope.nodes) == before + behind
    assert len(fused.program.tasks) == len(apart.program.tasks) - before - behind
    x = {"x": random(64, 128, dtype=np.float16)}
    runs = [asim.run(model, x) for model in (fused, apart)]
    np.testing.assert_array_equal(runs[0].outputs["out0"], runs[1].outputs["out0"])
    # The sums take two blocks: three Tanh need about as long there as on eight with three cheap launches more
    even = before == 3 and chip == "Ascend310P3"
    assert runs[0].duration_us < (1.01 if even else 1) * runs[1].duration_us
    if before:
        assert scope.saved_bytes > 0


@pytest.mark.parametrize(("before", "behind"), [(5, 0), (0, 5), (3, 3)])
def test_no_more_than_four_share_the_task(before: int, behind: int) -> None:
    """Tuning guide, for Ascend 310: at most four elementwise operators."""
    model = asim.compile(chained("UnsortedSegmentSum", before, behind), "Ascend310", fusion="ub")
    (scope,) = (s for s in model.fusion.scopes if s.name == "TbeSegmentElemwiseFusionPass")
    assert sum(name.startswith(("Tanh", "Abs")) for name in scope.nodes) == 4


def test_what_others_read_is_stored() -> None:
    def body(b: GraphBuilder) -> list[Tensor]:
        x = b.op("Tanh", b.input("x", (64, 128), DType.FLOAT16))
        ids = b.constant(np.arange(64, dtype=np.int32) // 8, "ids")
        return [b.op("SegmentSum", x, ids, domain="ascend"), b.op("Softmax", x)]

    model = asim.compile(build(body), "Ascend310", fusion="ub")
    assert "TbeSegmentElemwiseFusionPass" not in {scope.name for scope in model.fusion.scopes}


def test_a_cast_in_front_shares_the_task_and_one_behind_does_not() -> None:
    """Rows may be narrowed on their way; sums that are added up in memory must have the result's type."""

    def body(kind: str) -> asim.Graph:
        def write(b: GraphBuilder) -> Tensor:
            x = b.input("x", (64, 128), DType.FLOAT16 if kind == "behind" else DType.FLOAT32)
            ids = b.constant(np.arange(64, dtype=np.int32) // 8, "ids")
            x = x if kind == "behind" else b.op("Cast", x, to=DType.FLOAT16)
            y = b.op("UnsortedSegmentSum", x, ids, b.constant(8, "count"), domain="ascend")
            return b.op("Cast", y, to=DType.FLOAT32) if kind == "behind" else y

        return build(write)

    counts = {
        kind: asim.compile(
            body(kind), "Ascend310", fusion="ub", precision_mode="must_keep_origin_dtype"
        ).fusion.totals("ub")["TbeSegmentElemwiseFusionPass"]
        for kind in ("front", "behind")
    }
    assert counts["front"][1] == 1
    assert counts["behind"][1] == 0
