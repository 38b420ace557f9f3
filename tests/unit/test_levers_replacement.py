"""Levers that replace operators and types: Pow by Mul, 64-bit types by 32-bit ones, float32 outputs by
float16 ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import PassError
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Array, Graph, Tensor
from ascendsim.graph.text import to_text
from ascendsim.ops import default_opset
from ascendsim.passes.levers import (
    LEVERS,
    HalfOutputs,
    Lever,
    LeverContext,
    NarrowTypes,
    PowToMul,
    Relation,
    Site,
    apply_lever,
    find_sites,
)
from ascendsim.passes.levers.pow_to_mul import products
from tests.support.evaluate import evaluate as evaluate_list
from tests.support.fusing import build, random


def evaluate(graph: Graph, inputs: dict[str, Array]) -> dict[str, Array]:
    """Outputs by name."""
    return dict(
        zip(
            (tensor.name for tensor in graph.outputs),
            evaluate_list(graph, default_opset(), inputs),
            strict=True,
        )
    )


def everywhere(graph: Graph) -> LeverContext:
    """A context in which every operator runs on the AI CPU."""
    return LeverContext(default_opset(), frozenset(node.name for node in graph.nodes))


def operators(graph: Graph) -> list[str]:
    return [node.op_type for node in graph.topological()]


def power(exponent: float, dtype: DType = DType.FLOAT32, before: str = "") -> Graph:
    def body(b: GraphBuilder) -> Tensor:
        x = b.input("x", (4, 8), dtype)
        x = b.op(before, x) if before else x
        return b.op("Pow", x, np.asarray(exponent, dtype.numpy), name="power")

    return build(body)


@pytest.mark.parametrize(
    ("exponent", "wanted"),
    [
        (1.0, ["Identity"]),
        (2.0, ["Mul"]),
        (3.0, ["Mul", "Mul"]),
        (4.0, ["Mul", "Mul"]),
        (7.0, ["Mul", "Mul", "Mul", "Mul"]),
        (0.5, ["Sqrt"]),
        (-1.0, ["Identity", "Reciprocal"]),
        (-2.0, ["Mul", "Reciprocal"]),
        (2.5, ["Mul", "Sqrt", "Mul"]),
        (-0.5, ["Sqrt", "Reciprocal"]),
    ],
)
def test_pow_becomes_products(exponent: float, wanted: list[str]) -> None:
    graph = power(exponent)
    before = to_text(graph)
    changed = apply_lever(graph, PowToMul(), everywhere(graph))
    assert operators(changed.graph) == wanted
    assert [site.relation for site in changed.sites] == [Relation.EXACT]
    assert to_text(graph) == before  # the user's graph stays
    x = random(4, 8, positive=True)
    (old,), (new,) = evaluate(graph, {"x": x}).values(), evaluate(changed.graph, {"x": x}).values()
    np.testing.assert_allclose(new, old, rtol=2e-6)
    assert [tensor.name for tensor in changed.graph.outputs] == ["out0"]


def test_products_are_counted_as_they_are_made() -> None:
    for exponent in range(1, 65):
        graph = power(float(exponent))
        assert operators(apply_lever(graph, PowToMul(), everywhere(graph)).graph).count("Mul") == products(
            exponent
        )


def test_negative_bases_keep_their_sign() -> None:
    graph = power(3.0)
    x = random(4, 8)
    (result,) = evaluate(apply_lever(graph, PowToMul(), everywhere(graph)).graph, {"x": x}).values()
    np.testing.assert_allclose(result, x**3, rtol=1e-6)


def test_general_powers_of_positive_bases_go_through_the_logarithm() -> None:
    graph = power(1.7, before="Exp")
    changed = apply_lever(graph, PowToMul(), everywhere(graph))
    assert operators(changed.graph) == ["Exp", "Log", "Mul", "Exp"]
    assert changed.sites[0].relation is Relation.APPROXIMATE
    x = random(4, 8)
    (old,), (new,) = evaluate(graph, {"x": x}).values(), evaluate(changed.graph, {"x": x}).values()
    np.testing.assert_allclose(new, old, rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: power(1.7), "x^1.7 is no short product and the base may be negative"),
        (lambda: power(65.0), "x^65 is no short product and the base may be negative"),
        (lambda: power(float("nan")), "x^nan is no short product and the base may be negative"),
        (lambda: power(-2, DType.INT32), "x^-2 of integers is no product"),
        (lambda: power(1.7, before="Sin"), "the base may be negative"),
        (
            lambda: build(lambda b: b.op("Pow", b.input("x", (3,)), b.input("y", (3,)))),
            "the exponent is not one known number",
        ),
        (
            lambda: build(lambda b: b.op("Pow", b.input("x", (3,)), np.full((2, 3), 2, np.float32))),
            "broadcasts the base",
        ),
    ],
)
def test_pow_that_cannot_be_replaced_says_why(make: Callable[[], Graph], reason: str) -> None:
    graph = make()
    (site,) = find_sites(graph, PowToMul(), everywhere(graph))
    assert not site.possible
    assert reason in site.reason
    assert operators(apply_lever(graph, PowToMul(), everywhere(graph)).graph) == operators(graph)


def test_int64_input_behind_a_cast_becomes_int32() -> None:
    graph = build(
        lambda b: b.op("Cast", b.op("Unsqueeze", b.input("mask", (2, 5), "int64"), [1]), to=DType.FLOAT32)
    )
    changed = apply_lever(graph, NarrowTypes(), everywhere(graph))
    assert [tensor.dtype for tensor in changed.graph.inputs] == [DType.INT32]
    assert changed.sites[0].relation is Relation.EXACT
    assert "input mask must then be given as int32" in changed.sites[0].reason
    mask = np.array([[1, 0, 1, 1, 0], [0, 0, 1, 0, 1]])
    old = evaluate(graph, {"mask": mask})["out0"]
    np.testing.assert_array_equal(evaluate(changed.graph, {"mask": mask.astype(np.int32)})["out0"], old)


def test_a_group_with_arithmetic_and_constants_changes_as_a_whole() -> None:
    def body(b: GraphBuilder) -> Tensor:
        wide = b.op("Cast", b.input("x", (6,)), to=DType.INT64)
        total = b.op("Add", wide, np.array(7, np.int64))
        return b.op("Where", b.op("Less", total, np.array(9, np.int64)), total, b.op("Neg", wide))

    graph = build(body)
    changed = apply_lever(graph, NarrowTypes(), everywhere(graph))
    assert changed.sites[0].relation is Relation.APPROXIMATE  # sums may leave 32 bits
    assert {tensor.dtype for node in changed.graph.nodes[:-1] for tensor in node.outputs} == {
        DType.INT32,
        DType.BOOL,
    }
    assert changed.graph.outputs[0].dtype is DType.INT64  # restored by a Cast, under its own name
    x = np.array([-3, 0, 1, 2, 5, 100], np.float32)
    np.testing.assert_array_equal(
        evaluate(changed.graph, {"x": x})["out0"], evaluate(graph, {"x": x})["out0"]
    )


def test_float64_becomes_float32() -> None:
    graph = build(
        lambda b: b.op("Cast", b.op("Mul", b.input("x", (5,), "float64"), np.full(5, 0.1)), to=DType.FLOAT32)
    )
    changed = apply_lever(graph, NarrowTypes(), everywhere(graph))
    assert changed.sites[0].relation is Relation.APPROXIMATE
    assert changed.graph.inputs[0].dtype is DType.FLOAT32
    x = random(5, dtype=np.float64)
    new = evaluate(changed.graph, {"x": x.astype(np.float32)})["out0"]
    np.testing.assert_allclose(new, evaluate(graph, {"x": x})["out0"], rtol=1e-6)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (lambda b: b.op("Add", b.input("x", (2,), "int64"), np.array(2**40)), "does not fit into 32 bits"),
        (
            lambda b: b.op("BitwiseAnd", b.input("x", (2,), "int64"), np.array(3)),
            "BitwiseAnd BitwiseAnd works in int64 only",
        ),
        (
            lambda b: b.op("Add", b.input("x", (2,), "int64"), b.weight("w", (2,), dtype="int64")),
            "are not at hand",
        ),
    ],
)
def test_types_that_must_stay_say_why(body: object, reason: str) -> None:
    graph = build(body)  # type: ignore[arg-type]
    (site,) = find_sites(graph, NarrowTypes(), everywhere(graph))
    assert not site.possible
    assert reason in site.reason


def test_only_operators_of_the_ai_cpu_are_narrowed() -> None:
    graph = build(lambda b: b.op("Cast", b.input("x", (2,), "int64"), to=DType.FLOAT32))
    assert find_sites(graph, NarrowTypes(), LeverContext(default_opset())) == ()


def test_float16_outputs_are_an_option_of_the_compiler() -> None:
    graph = build(
        lambda b: (b.op("Relu", b.input("x", (2, 3))), b.op("Cast", b.input("z", (2,)), to=DType.INT32))
    )
    (site,) = find_sites(graph, HalfOutputs(), everywhere(graph))
    assert site.node == "Relu"
    assert HalfOutputs.settings == {"output_type": "FP16"}
    assert to_text(apply_lever(graph, HalfOutputs(), everywhere(graph)).graph) == to_text(graph)


class Broken(Lever):
    """A lever that leaves a graph without outputs."""

    name, title = "broken", ""

    def sites(self, graph: Graph, context: LeverContext) -> tuple[Site, ...]:
        return (Site(("Relu",), "", Relation.EXACT),)

    def rewrite(self, graph: Graph, site: Site, context: LeverContext) -> None:
        graph.outputs.clear()


def test_a_lever_that_breaks_the_graph_is_named() -> None:
    graph = build(lambda b: b.op("Relu", b.input("x", (2, 3))))
    with pytest.raises(PassError, match="^lever broken failed on 'graph': .*; leave this lever out$"):
        apply_lever(graph, Broken(), everywhere(graph))


def test_names_are_unique() -> None:
    assert len({lever.name for lever in LEVERS}) == len(LEVERS)
