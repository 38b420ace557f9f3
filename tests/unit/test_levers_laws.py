"""Narrower types operator by operator: which operands carry the type, which values fit, and that results
stay."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.ops import default_opset
from ascendsim.passes.levers import LeverContext, NarrowTypes, PowToMul, Relation, apply_lever, find_sites
from tests.support.evaluate import evaluate
from tests.support.fusing import build, random

Body = Callable[[GraphBuilder, Tensor], Tensor]
OPSET = default_opset()
AXIS = np.array([1])

# Operators that hand values on: each on x[2, 3] of 64 bits
MOVES: dict[str, Body] = {
    "Identity": lambda b, x: b.op("Identity", x),
    "Reshape": lambda b, x: b.op("Reshape", x, np.array([3, 2])),
    "Flatten": lambda b, x: b.op("Flatten", x),
    "Squeeze": lambda b, x: b.op("Squeeze", b.op("Unsqueeze", x, AXIS), AXIS),
    "Unsqueeze": lambda b, x: b.op("Unsqueeze", x, AXIS),
    "Transpose": lambda b, x: b.op("Transpose", x),
    "Slice": lambda b, x: b.op("Slice", x, np.array([1]), np.array([3]), AXIS),
    "Split": lambda b, x: b.ops("Split", x, np.array([1, 2]), outputs=2, axis=1)[1],
    "Expand": lambda b, x: b.op("Expand", x, np.array([2, 2, 3])),
    "Tile": lambda b, x: b.op("Tile", x, np.array([1, 2])),
    "Gather": lambda b, x: b.op("Gather", x, np.array([1, 0]), axis=1),
    "GatherElements": lambda b, x: b.op("GatherElements", x, np.array([[0, 1, 1]])),
    "GatherND": lambda b, x: b.op("GatherND", x, np.array([[1, 2]])),
    "Concat": lambda b, x: b.op("Concat", x, np.array([[7], [8]]), axis=1),
    "Where": lambda b, x: b.op("Where", np.array([True, False, True]), x, np.array(5)),
    "Max": lambda b, x: b.op("Max", x, np.array(1)),
    "Min": lambda b, x: b.op("Min", x, np.array(1)),
    "ReduceMax": lambda b, x: b.op("ReduceMax", x, AXIS),
    "ReduceMin": lambda b, x: b.op("ReduceMin", x, AXIS),
}
ARITHMETIC: dict[str, Body] = {
    **{
        name: lambda b, x, name=name: b.op(name, x, np.array([3, 1, 2]))
        for name in ("Add", "Sub", "Mul", "Div", "Mod")
    },  # type: ignore[misc]
    "Abs": lambda b, x: b.op("Abs", x),
    "Neg": lambda b, x: b.op("Neg", x),
    "Sum": lambda b, x: b.op("Sum", x, x),
    "ReduceSum": lambda b, x: b.op("ReduceSum", x, AXIS),
    "CumSum": lambda b, x: b.op("CumSum", x, np.array(1)),
}
COMPARE: dict[str, Body] = {
    name: lambda b, x, name=name: b.op(name, x, np.array(1))
    for name in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
}  # type: ignore[misc]
REAL = (
    "Exp",
    "Log",
    "Sqrt",
    "Relu",
    "Sigmoid",
    "Tanh",
    "Erf",
    "Softmax",
    "ReduceMean",
    "Reciprocal",
    "Sin",
    "Cos",
)


def everywhere(graph: Graph) -> LeverContext:
    return LeverContext(OPSET, frozenset(node.name for node in graph.nodes))


def narrowed(body: Body, kind: DType = DType.INT64) -> tuple[Graph, Graph, Relation | None]:
    """The graph of an operator, and it after the lever; asserts that values stay."""
    graph = build(lambda b: body(b, b.input("x", (2, 3), kind)))
    rewritten = apply_lever(graph, NarrowTypes(), everywhere(graph))
    x = np.array([[-3, 0, 1], [2, 5, 100]]).astype(kind.numpy)
    (given,) = rewritten.graph.inputs
    (old,), (new,) = (
        evaluate(g, OPSET, {"x": x.astype(g.inputs[0].element_type.numpy)}) for g in (graph, rewritten.graph)
    )
    assert old.dtype == new.dtype
    np.testing.assert_allclose(new, old, rtol=1e-6)
    return graph, rewritten.graph, rewritten.sites[0].relation if given.dtype is not kind else None


@pytest.mark.parametrize("name", MOVES)
def test_what_hands_values_on_is_narrowed_exactly(name: str) -> None:
    graph, after, relation = narrowed(MOVES[name])
    assert relation is Relation.EXACT
    assert after.inputs[0].dtype is DType.INT32
    assert after.outputs[0].dtype is DType.INT64
    assert after.outputs[0].producer is not None
    assert after.outputs[0].producer.op_type == "Cast"
    kinds = {tensor.dtype for node in after.topological()[:-1] for tensor in node.outputs}
    assert kinds == {DType.INT32}, "but for the Cast at the end nothing is wide"
    assert len(after) == len(graph) + 1


@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_may_leave_32_bits(name: str) -> None:
    assert narrowed(ARITHMETIC[name])[2] is Relation.APPROXIMATE


@pytest.mark.parametrize("name", sorted(COMPARE))
def test_comparisons_end_a_group(name: str) -> None:
    _, after, relation = narrowed(COMPARE[name])
    assert relation is Relation.EXACT
    assert after.outputs[0].dtype is DType.BOOL
    assert not any(node.op_type == "Cast" for node in after.nodes)


@pytest.mark.parametrize("name", REAL)
def test_functions_of_floats_are_narrowed_in_float64_alone(name: str) -> None:
    axes = [np.array([1])] if name == "ReduceMean" else []
    graph = build(lambda b: b.op(name, b.input("x", (2, 3), DType.FLOAT64), *axes))
    (site,) = find_sites(graph, NarrowTypes(), everywhere(graph))
    assert site.relation is Relation.APPROXIMATE
    after = apply_lever(graph, NarrowTypes(), everywhere(graph)).graph
    x = random(2, 3, positive=True, dtype=np.float64)
    old, new = evaluate(graph, OPSET, {"x": x})[0], evaluate(after, OPSET, {"x": x.astype(np.float32)})[0]
    np.testing.assert_allclose(new, old, rtol=1e-5)


INDEXING: dict[str, Body] = {
    "Gather": lambda b, x: b.op("Gather", random(200, 2), x),
    "GatherElements": lambda b, x: b.op("GatherElements", random(2, 200), x, axis=1),
    "ScatterElements": lambda b, x: b.op("ScatterElements", random(2, 200), x, random(2, 3), axis=1),
    "OneHot": lambda b, x: b.op("OneHot", x, np.array(200, np.int32), np.array([0.0, 1.0], np.float32)),
}


@pytest.mark.parametrize("name", INDEXING)
def test_indices_may_have_either_type(name: str) -> None:
    graph = build(lambda b: INDEXING[name](b, b.op("Abs", b.input("x", (2, 3), DType.INT64))))
    after = apply_lever(graph, NarrowTypes(), everywhere(graph)).graph
    assert after.inputs[0].dtype is DType.INT32
    x = np.array([[-3, 0, 1], [2, 5, 100]])
    np.testing.assert_array_equal(
        evaluate(after, OPSET, {"x": x.astype(np.int32)})[0], evaluate(graph, OPSET, {"x": x})[0]
    )


def test_another_operand_of_an_indexing_operator_is_no_index() -> None:
    graph = build(
        lambda b: b.op(
            "ScatterElements", b.input("x", (2, 3), DType.INT64), np.array([[0]]), np.array([[5]]), name="s"
        )
    )
    (site,) = find_sites(graph, NarrowTypes(), everywhere(graph))
    assert site.reason.endswith("but ScatterElements s works in int64 only")


@pytest.mark.parametrize(
    ("value", "fits"),
    [(2**31 - 1, True), (2**31, False), (-(2**31), True), (-(2**31) - 1, False), (0, True)],
)
def test_constants_of_32_bits_fit(value: int, fits: bool) -> None:
    graph = build(lambda b: b.op("Max", b.input("x", (2,), DType.INT64), np.array([value, 0]), name="max"))
    (site,) = find_sites(graph, NarrowTypes(), everywhere(graph))
    assert site.possible is fits
    assert ("does not fit into 32 bits" in site.reason) is not fits


def test_empty_constants_and_floats_fit() -> None:
    empty = build(lambda b: b.op("Concat", b.input("x", (2,), DType.INT64), np.zeros(0, np.int64), axis=0))
    assert find_sites(empty, NarrowTypes(), everywhere(empty))[0].possible
    wide = build(lambda b: b.op("Mul", b.input("x", (2,), DType.FLOAT64), np.array(1e20)))
    assert find_sites(wide, NarrowTypes(), everywhere(wide))[0].possible


@pytest.mark.parametrize(
    ("kind", "narrow"),
    [(DType.UINT64, DType.INT32), (DType.UINT32, DType.INT32), (DType.FLOAT64, DType.FLOAT32)],
)
def test_other_wide_types(kind: DType, narrow: DType) -> None:
    graph = build(lambda b: b.op("Reshape", b.input("x", (2, 3), kind), np.array([6])))
    (site,) = find_sites(graph, NarrowTypes(), everywhere(graph))
    assert site.relation is (Relation.APPROXIMATE if kind is DType.FLOAT64 else Relation.EXACT)
    assert apply_lever(graph, NarrowTypes(), everywhere(graph)).graph.inputs[0].dtype is narrow


# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "exponent",
    [0.5, 1, 1.5, 2, 3, 5, 7, 10, 63, 63.5, 64, -0.5, -1, -3, -64, 64.5, 65, -64.5, 0, 0.25, np.inf],
)
def test_powers_that_are_products(exponent: float) -> None:
    """k and k + 1/2 up to 64; square-and-multiply has one product for each bit and each further 1."""
    graph = build(lambda b: b.op("Pow", b.input("x", (2, 3)), np.float32(exponent), name="power"))
    (site,) = find_sites(graph, PowToMul(), LeverContext(OPSET))
    possible = exponent != 0 and abs(exponent) <= 64 and abs(exponent) % 0.5 == 0
    assert site.possible is possible
    if possible:
        after = apply_lever(graph, PowToMul(), LeverContext(OPSET)).graph
        x = random(2, 3, positive=True)
        np.testing.assert_allclose(
            evaluate(after, OPSET, {"x": x})[0], x.astype(np.float64) ** exponent, rtol=5e-5
        )
        whole = int(abs(exponent))
        products = sum(node.op_type == "Mul" for node in after.nodes)
        wanted = max(0, len(f"{whole:b}") - 1 + f"{whole:b}".count("1") - 1) if whole else 0
        assert products == wanted + (whole > 0 and abs(exponent) % 1 != 0)
        assert sum(node.op_type == "Sqrt" for node in after.nodes) == (abs(exponent) % 1 != 0)
        assert sum(node.op_type == "Reciprocal" for node in after.nodes) == (exponent < 0)
