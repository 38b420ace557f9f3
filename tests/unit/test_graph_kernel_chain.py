"""Chains of vector operators: their common space, their work, and values with the same bits as one node after
the other."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendsim.core.dtypes import DType
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.ops import default_opset
from ascendsim.ops.fused.chain import chain_work
from ascendsim.ops.fused.chain_space import common_axes, grouped
from ascendsim.ops.fused.values import Pass, plan_chain, run_chain
from ascendsim.opset import InferContext
from ascendsim.opset.work import LowerContext, VectorWork

OPSET = default_opset()
CONTEXT = LowerContext()


def infer(node: Node) -> None:
    OPSET.get(node).infer(InferContext(node))


def builder(dtype: DType = DType.FLOAT32) -> GraphBuilder:
    return GraphBuilder("chain", infer=infer, dtype=dtype)


def work_of(graph: Graph, **options: bool) -> VectorWork | None:
    return chain_work(graph.topological(), OPSET, CONTEXT, **options)


def overs(work: VectorWork | None) -> dict[str, str]:
    assert work is not None
    return {stream.ref.region: stream.over for stream in (*work.inputs, *work.outputs)}


def softmax(b: GraphBuilder, x: Tensor, axis: int) -> Tensor:
    powers = b.op("Exp", b.op("Sub", x, b.op("ReduceMax", x, [axis])))
    return b.op("Div", powers, b.op("ReduceSum", powers, [axis]))


# --- space --------------------------------------------------------------------------------------------------


def test_shapes_of_one_size_have_axes_in_common() -> None:
    assert common_axes([(6, 4), (24,), (2, 3, 4)]) == (2, 3, 4)
    assert common_axes([(6, 4), (4, 6)]) is None
    assert common_axes([(1, 1)]) == ()
    assert grouped((6, 1, 4), (0, 1, 2), (2, 3, 4)) == [(0, 1), (), (2,)]
    assert grouped((4, 6), (0, 1, 2), (2, 3, 4)) is None


# --- work ---------------------------------------------------------------------------------------------------


def test_steps_follow_each_other_and_only_ends_are_streams() -> None:
    b = builder(DType.FLOAT16)
    x = b.input("x", (8, 100))
    b.output(b.op("Relu", b.op("Add", b.op("Mul", x, 2.0), 1.0)), "y")
    graph = b.build()
    work = work_of(graph, immediates=True)
    assert work is not None
    assert [step.op for step in work.steps] == ["vmul", "vadd", "vrelu"]
    assert overs(work) == {"x": "all", "y": "all"}
    assert (work.rows * work.cols, work.reduces, work.sweeps) == (800, "none", 1)
    assert len(overs(work_of(graph))) == 4  # constants that are read from memory


@pytest.mark.parametrize(
    ("shape", "small", "rows", "over"),
    [((6, 4, 8), (8,), 24, "col"), ((6, 4, 8), (6, 1, 1), 6, "row"), ((6, 4, 8), (4, 8), 6, "col")],
)
def test_a_small_operand_has_one_value_for_every_row_or_every_column(
    shape: tuple[int, ...], small: tuple[int, ...], rows: int, over: str
) -> None:
    """Whatever the shapes before and behind are, the cut is that of the sum by itself."""
    b = builder()
    x, y = b.input("x", (math.prod(shape),)), b.input("y", small)
    total = b.op("Add", b.op("Reshape", x, list(shape)), y)
    b.output(b.op("Reshape", total, [math.prod(shape[:-1]), shape[-1]]), "z")
    work = work_of(b.build())
    assert work is not None
    assert (work.rows, overs(work)["y"]) == (rows, over)


def test_the_cut_is_where_most_small_operands_fit() -> None:
    b = builder()
    x = b.input("x", (6, 4, 8))
    for number, shape in enumerate([(6, 1, 1), (8,), (6, 4, 1)]):
        x = b.op("Add", x, b.input(f"y{number}", shape))
    b.output(x, "z")
    work = work_of(b.build())
    assert work is not None
    assert (work.rows, overs(work)) == (24, {"x": "all", "y0": "row", "y1": "col", "y2": "row", "z": "all"})


def test_a_tensor_that_is_read_outside_is_written_once_and_still_used_inside() -> None:
    b = builder()
    x = b.input("x", (64,))
    half = b.op("Mul", x, 0.5)
    b.output(b.op("Abs", half), "y")
    b.output(half, "half")
    assert overs(work_of(b.build(), immediates=True)) == {"x": "all", "half": "all", "y": "all"}


def test_softmax_written_out_sweeps_a_row_three_times() -> None:
    b = builder()
    b.output(softmax(b, b.input("x", (24, 500)), 1), "y")
    work = work_of(b.build())
    assert work is not None
    assert (work.rows, work.cols, work.reduces, work.sweeps, work.gather_bytes) == (24, 500, "cols", 3, 0)
    assert overs(work) == {"x": "all", "y": "all"}


def test_reduced_values_become_rows_and_small_operators_work_on_them() -> None:
    b = builder()
    x = b.input("x", (4, 6, 32))
    mean = b.op("Mul", b.op("ReduceSum", x, [2]), 1 / 32)
    b.output(mean, "mean")
    b.output(b.op("Sub", b.op("Reshape", x, [24, 32]), b.op("Reshape", mean, [24, 1])), "centred")
    work = work_of(b.build(), immediates=True)
    assert overs(work) == {"x": "all", "mean": "row", "centred": "all"}
    assert work is not None
    assert [(step.op, step.over) for step in work.steps] == [
        ("vcadd", "all"),
        ("vmul", "row"),
        ("vsub", "all"),
    ]
    assert work.sweeps == 2


def test_values_that_live_at_once_need_room() -> None:
    b = builder()
    x = b.input("x", (1000,))
    parts = [b.op(op, x) for op in ("Abs", "Exp", "Sqrt")]
    b.output(b.op("Add", b.op("Mul", parts[0], parts[1]), parts[2]), "y")
    work = work_of(b.build())
    assert work is not None
    assert work.live_bytes == 4 * 4  # three parts and the product, while it is made


def test_columns_are_folded_in_one_pass_but_not_used_again() -> None:
    b = builder()
    x = b.input("x", (50, 64))
    total = b.op("ReduceSum", b.op("Mul", x, x), [0])
    b.output(b.op("Sqrt", total), "norm")
    work = work_of(b.build())
    assert work is not None
    assert (work.reduces, overs(work)) == ("rows", {"x": "all", "norm": "col"})
    b = builder()
    x = b.input("x", (50, 64))
    b.output(b.op("Sub", x, b.op("ReduceSum", x, [0])), "y")
    assert work_of(b.build()) is None


def refused() -> list[tuple[str, Callable[[GraphBuilder, Tensor], Tensor]]]:
    return [
        ("two directions", lambda b, x: b.op("Add", b.op("ReduceMax", x, [0]), b.op("ReduceSum", x, [1]))),
        ("transpose", lambda b, x: b.op("Abs", b.op("Transpose", x, perm=[1, 0]))),
        ("product", lambda b, x: b.op("Relu", b.op("MatMul", x, x))),
        (
            "shapes that do not nest",
            lambda b, x: b.op(
                "ReduceSum", b.op("Reshape", b.op("Sub", x, b.op("ReduceMax", x, [1])), [4, 9]), [1]
            ),
        ),
    ]


@pytest.mark.parametrize(("name", "make"), refused(), ids=[name for name, _ in refused()])
def test_what_has_no_space_in_common_is_refused(
    name: str, make: Callable[[GraphBuilder, Tensor], Tensor]
) -> None:
    b = builder()
    x = b.input("x", (6, 6))
    b.output(make(b, x), "y")
    assert work_of(b.build()) is None


def test_shapes_do_not_matter_where_nothing_broadcasts() -> None:
    b = builder()
    x = b.input("x", (6, 6))
    b.output(b.op("Exp", b.op("Reshape", b.op("Abs", x), [4, 9])), "y")
    assert overs(work_of(b.build())) == {"x": "all", "y": "all"}


def test_operators_of_the_ai_cpu_are_refused() -> None:
    b = builder()
    b.output(b.op("Abs", b.op("Exp", b.input("x", (8,)))), "y")
    graph = b.build()
    assert chain_work(graph.topological(), OPSET, LowerContext(aicpu_types=frozenset({"Exp"}))) is None


# --- values -------------------------------------------------------------------------------------------------

UNARY = (
    "Abs",
    "Neg",
    "Sqrt",
    "Exp",
    "Tanh",
    "Sigmoid",
    "Relu",
    "Reciprocal",
    "Erf",
    "Log",
    "Gelu",
    "HardSwish",
    "LeakyRelu",
)
BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min")


def one_by_one(graph: Graph, arrays: dict[Tensor, np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    values = dict(arrays)
    for node in graph.topological():
        with np.errstate(all="ignore"):
            results = OPSET.get(node).compute(
                node, [values[t] for t in node.inputs], [dtype_of(t) for t in node.outputs]
            )
        values.update(zip(node.outputs, results, strict=True))
    return [values[tensor] for tensor in outputs]


def dtype_of(tensor: Tensor) -> np.dtype:
    return tensor.element_type.numpy


def check_equal(graph: Graph, seed: int) -> None:
    generator = np.random.default_rng(seed)
    arrays = {t: generator.normal(0, 2, t.static_shape).astype(dtype_of(t)) for t in graph.inputs}
    arrays |= {t: t.constant.array() for t in graph.constants if t.constant is not None}
    fused = run_chain(graph.topological(), arrays, OPSET, dtype_of, graph.outputs)
    for tensor, expected in zip(graph.outputs, one_by_one(graph, arrays, graph.outputs), strict=True):
        got = fused[tensor]
        assert got.dtype == expected.dtype
        assert got.shape == expected.shape
        assert np.array_equal(got, expected, equal_nan=True), tensor


@settings(max_examples=40)
@given(st.data())
def test_fused_values_have_the_bits_of_single_operators(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([DType.FLOAT16, DType.FLOAT32]))
    b = builder(dtype)
    shape = (3, 5, 700)
    pool = [
        b.input("x", shape),
        b.input("row", (3, 5, 1)),
        b.input("column", (700,)),
        b.input("middle", (3, 1, 700)),
    ]
    full = [pool[0]]
    for _ in range(data.draw(st.integers(2, 9))):
        kind = data.draw(
            st.sampled_from(["unary", "binary", "select", "cast", "power", "sum", "reduce", "reshape"])
        )
        x = data.draw(st.sampled_from(full))
        other = data.draw(st.sampled_from([t for t in (*pool, *full) if t.dtype is x.dtype]))
        if kind == "unary":
            x = b.op(data.draw(st.sampled_from(UNARY)), x)
        elif kind == "binary":
            x = (
                b.op(data.draw(st.sampled_from(BINARY)), x, other)
                if data.draw(st.booleans())
                else b.op("Sub", other, x)
            )
        elif kind == "select":
            x = b.op(
                "Where",
                b.op(data.draw(st.sampled_from(["Greater", "LessOrEqual", "Equal"])), x, other),
                x,
                b.op("Neg", x),
            )
        elif kind == "cast":
            x = b.op("Cast", x, to=DType.FLOAT32 if x.dtype is DType.FLOAT16 else DType.FLOAT16)
        elif kind == "power":
            x = b.op("Pow", x, data.draw(st.sampled_from([2.0, 3.0, 0.5, -1.0, 1.0, 1.7])))
        elif kind == "sum":
            x = b.op("Sum", x, other, x)
        elif kind == "reduce":
            pool.append(b.op(data.draw(st.sampled_from(["ReduceMax", "ReduceSum"])), x, [2]))
            continue
        else:
            x = b.op("Reshape", b.op("Reshape", x, [15, 700]), list(shape))
        full.append(x)
    for number, tensor in enumerate(dict.fromkeys([full[-1], *full[1::3]])):
        if tensor.producer is not None:
            b.output(b.op("Identity", tensor), f"y{number}")
    if b.graph.outputs:
        check_equal(b.build(), data.draw(st.integers(0, 99)))


def test_members_without_an_instruction_stand_alone() -> None:
    b = builder()
    x = b.input("x", (40, 50))
    b.output(b.op("Mul", b.op("Log", b.op("Abs", x)), b.op("Add", b.op("Sqrt", b.op("Abs", x)), 1.0)), "y")
    graph = b.build()
    units = plan_chain(graph.topological(), OPSET, dtype_of)
    assert [unit.op_type if isinstance(unit, Node) else len(unit.nodes) for unit in units] == [4, "Log", 1]
    check_equal(graph, 0)


def test_an_elementwise_chain_is_one_pass() -> None:
    b = builder(DType.FLOAT16)
    x = b.input("x", (7, 300))
    b.output(b.op("Relu", b.op("Add", b.op("Mul", x, 2.0), x)), "y")
    (unit,) = plan_chain(b.build().topological(), OPSET, dtype_of)
    assert isinstance(unit, Pass)
    assert len(unit.nodes) == 3
