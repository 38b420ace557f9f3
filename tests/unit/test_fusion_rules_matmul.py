"""Rules for matrix products: bias, transposed operands, vectors, GEMM."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Tensor
from ascendsim.passes.fusion.rule import FusionRule
from ascendsim.passes.fusion.rules.matmul.batch_matmul import (
    BatchMatMulFusionPass,
    BatchMatMulV2ReshapeFusionPass,
)
from ascendsim.passes.fusion.rules.matmul.gemm_to_matmul import GemmToMatmulFusionPass
from ascendsim.passes.fusion.rules.matmul.matmul_bias import (
    MatMulBiasAddFusionPass,
    MatMulReshapeBiasAddFusionPass,
)
from ascendsim.passes.fusion.rules.matmul.matmul_cast import MatmulCastFusionPass
from tests.support.fusing import CHANGED_ALGEBRA, EXACT, build, fused, random
from tests.support.refusals import reasons

Body = Callable[[GraphBuilder], "Tensor | list[Tensor]"]


def weight(b: GraphBuilder, *shape: int, seed: int = 1) -> Tensor:
    return b.constant(random(*shape, seed=seed), "weight")


def refused(rule: FusionRule, body: Body, **options: object) -> str:
    result = fused(build(body), rule, **options)  # type: ignore[arg-type]
    matched, effected = result.counts[rule.name]
    assert matched
    assert not effected
    assert result.error == EXACT
    return result.reason


# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias_first", [False, True])
@pytest.mark.parametrize(
    ("shape", "operator"), [((6, 8), "Gemm"), ((2, 6, 8), "BatchMatMul"), ((2, 3, 6, 8), "BatchMatMul")]
)
def test_a_bias_goes_into_the_product(shape: tuple[int, ...], operator: str, bias_first: bool) -> None:
    def body(b: GraphBuilder) -> Tensor:
        product, bias = b.op("MatMul", b.input("x", shape), weight(b, 8, 5)), weight(b, 5, seed=2)
        return b.op("Add", bias, product) if bias_first else b.op("Add", product, bias)

    result = fused(build(body), MatMulBiasAddFusionPass())
    assert result.counts == {"MatMulBiasAddFusionPass": (1, 1)}
    assert result.operators == {operator: 1}
    assert result.error == EXACT


def test_what_a_rule_makes_is_named_after_the_operator_and_what_became_of_it() -> None:
    """Names keep the place of the operator; its last part stays readable where a picture shows no more."""

    def body(b: GraphBuilder) -> Tensor:
        product = b.op("MatMul", b.input("x", (6, 8)), weight(b, 8, 5), name="/encoder/dense/MatMul")
        return b.op("Add", product, weight(b, 5, seed=2), name="/encoder/dense/Add")

    (node,) = fused(build(body), MatMulBiasAddFusionPass()).graph.nodes
    assert node.name == "/encoder/dense/MatMul_bias"
    assert node.origin["source_names"] == ("/encoder/dense/MatMul", "/encoder/dense/Add")


def test_a_bias_that_is_computed_goes_into_the_product_too() -> None:
    def body(b: GraphBuilder) -> Tensor:
        return b.op(
            "Add",
            b.op("Gemm", b.input("x", (6, 8)), weight(b, 5, 8), transB=1),
            b.op("Exp", b.input("bias", (5,))),
        )

    result = fused(build(body), MatMulBiasAddFusionPass())
    assert result.operators == {"Exp": 1, "Gemm": 1}
    assert result.error <= CHANGED_ALGEBRA


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            lambda b, x: b.op("Add", b.op("MatMul", x, weight(b, 8, 5)), weight(b, 1)),
            "the summand is not one value a column",
        ),
        (
            lambda b, x: b.op("Add", b.op("MatMul", x, weight(b, 8, 5)), weight(b, 6, 5)),
            "the summand is not one-dimensional",
        ),
        (lambda b, x: b.op("Add", b.op("MatMul", x, weight(b, 8)), weight(b, 6)), "an operand is a vector"),
        (
            lambda b, x: b.op("Add", b.op("Gemm", x, weight(b, 8, 5), alpha=2.0), weight(b, 5)),
            "the product is scaled",
        ),
        (
            lambda b, x: b.op("Add", b.op("Gemm", x, weight(b, 8, 5), weight(b, 5)), weight(b, 5)),
            "the product has a bias already",
        ),
        (
            lambda b, x: (lambda m: [b.op("Add", m, weight(b, 5)), b.op("Relu", m)])(
                b.op("MatMul", x, weight(b, 8, 5), name="m")
            ),
            "m has a reader outside",
        ),
    ],
)
def test_other_summands_stay(body: Callable[..., Tensor], reason: str) -> None:
    assert refused(MatMulBiasAddFusionPass(), lambda b: body(b, b.input("x", (6, 8)))) == reason


@pytest.mark.parametrize(("generation", "effected"), [("v100", 0), ("c220", 1)])
def test_the_bias_rule_can_be_held_to_the_chips_of_the_reference(generation: str, effected: int) -> None:
    graph = build(lambda b: b.op("Add", b.op("MatMul", b.input("x", (6, 8)), weight(b, 8, 5)), weight(b, 5)))
    result = fused(graph, MatMulBiasAddFusionPass(), generation=generation, matmul_bias_chips="listed")
    assert result.effected("MatMulBiasAddFusionPass") == effected
    if not effected:
        assert result.reason == "the reference does not list Ascend310"


def reshaped(b: GraphBuilder, shape: list[int], bias: int, operand: tuple[int, ...] = (6, 8)) -> Tensor:
    product = b.op("MatMul", b.input("x", operand), weight(b, 8, 5))
    return b.op("Add", weight(b, bias, seed=2), b.op("Reshape", product, b.constant(shape, "shape")))


def test_a_bias_behind_a_reshape_goes_into_the_product() -> None:
    result = fused(build(lambda b: reshaped(b, [2, 3, 5], 5)), MatMulReshapeBiasAddFusionPass())
    assert result.counts == {"MatMulReshapeBiasAddFusionPass": (1, 1)}
    assert result.operators == {"Gemm": 1, "Reshape": 1}
    assert result.error == EXACT


@pytest.mark.parametrize(
    ("shape", "bias", "operand", "reason"),
    [
        ([5, 6], 6, (6, 8), "the summand is not one value a column"),
        ([2, 15, 1], 5, (6, 8), "the Reshape does not keep the last axis"),
        ([12, 5], 5, (2, 6, 8), "the product has batch axes"),
    ],
)
def test_other_reshapes_stay(shape: list[int], bias: int, operand: tuple[int, ...], reason: str) -> None:
    assert refused(MatMulReshapeBiasAddFusionPass(), lambda b: reshaped(b, shape, bias, operand)) == reason


# ---------------------------------------------------------------------------------------------------------- t


@pytest.mark.parametrize(("left", "right"), [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_transposes_of_the_last_two_axes_go_into_the_product(
    batch: tuple[int, ...], left: bool, right: bool
) -> None:
    rank = len(batch) + 2
    turn = (*range(rank - 2), rank - 1, rank - 2)

    def body(b: GraphBuilder) -> Tensor:
        x, y = (
            b.input("x", (*batch, *((8, 6) if left else (6, 8)))),
            b.input("y", (*batch, *((5, 8) if right else (8, 5)))),
        )
        x = b.op("Transpose", x, perm=turn) if left else x
        y = b.op("Transpose", y, perm=turn) if right else y
        return b.op("MatMul", x, y)

    result = fused(build(body), BatchMatMulFusionPass())
    assert result.counts == {"BatchMatMulFusionPass": (1, 1)}
    assert result.operators == {"BatchMatMul" if batch else "Gemm": 1}
    assert result.error <= CHANGED_ALGEBRA


def test_a_transposed_operand_of_gemm_is_turned_back() -> None:
    def body(b: GraphBuilder) -> Tensor:
        return b.op(
            "Gemm", b.input("x", (6, 8)), b.op("Transpose", b.input("y", (8, 5))), weight(b, 5), transB=1
        )

    result = fused(build(body), BatchMatMulFusionPass())
    assert result.operators == {"Gemm": 1}
    assert result.graph.nodes[0].attr("transB") == 0
    assert result.error <= CHANGED_ALGEBRA


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            lambda b: b.op(
                "MatMul", b.input("x", (3, 6, 8)), b.op("Transpose", b.input("y", (8, 3, 5)), perm=(1, 0, 2))
            ),
            "no operand comes from a transpose of its last two axes alone",
        ),
        (
            lambda b: b.op("MatMul", b.input("x", (8,)), b.op("Transpose", b.input("y", (5, 8)))),
            "an operand is a vector",
        ),
        (
            lambda b: b.op(
                "MatMul",
                b.input("x", (6, 8), "int32"),
                b.op("Transpose", b.input("y", (5, 8), "int32"), name="t"),
            ),
            "t_out is no float32 or float16 tensor",
        ),
        (
            lambda b: b.op("Gemm", b.input("x", (6, 8)), b.op("Transpose", b.input("y", (5, 8))), alpha=0.5),
            "the product is scaled",
        ),
        (
            lambda b: (lambda t: [b.op("MatMul", b.input("x", (6, 8)), t), b.op("Relu", t)])(
                b.op("Transpose", b.input("y", (5, 8)))
            ),
            "no operand comes from a transpose of its last two axes alone",
        ),
    ],
)
def test_other_operands_stay(body: Body, reason: str) -> None:
    assert refused(BatchMatMulFusionPass(), body) == reason


# ------------------------------------------------------------------------------------------------------- vect


@pytest.mark.parametrize(
    ("left", "right"), [((8,), (8, 5)), ((6, 8), (8,)), ((8,), (8,)), ((2, 6, 8), (8,)), ((8,), (3, 8, 5))]
)
def test_vectors_become_rows_and_columns(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    result = fused(
        build(lambda b: b.op("MatMul", b.input("x", left), b.input("y", right))),
        BatchMatMulV2ReshapeFusionPass(),
    )
    assert result.counts["BatchMatMulV2ReshapeFusionPass"][1] == 1
    assert result.operators == {"MatMul": 1, "Reshape": 1 + (len(left) == 1) + (len(right) == 1)}
    assert result.error <= CHANGED_ALGEBRA


def test_products_of_batches_keep_their_operands() -> None:
    graph = build(lambda b: b.op("MatMul", b.input("x", (2, 6, 8)), weight(b, 8, 5)))
    assert fused(graph, BatchMatMulV2ReshapeFusionPass()).reason == "no operand is a vector"
    matrices = build(lambda b: b.op("MatMul", b.input("x", (6, 8)), weight(b, 8, 5)))
    assert fused(matrices, BatchMatMulV2ReshapeFusionPass()).counts == {}  # that one is MatMulV2


@pytest.mark.parametrize(
    ("attributes", "third", "operators"),
    [
        ({"alpha": 0.5, "beta": 2.0, "transA": 1}, (5,), {"Gemm": 1, "Mul": 2, "Add": 1}),
        ({"alpha": 0.5, "transA": 1}, None, {"Gemm": 1, "Mul": 1}),
        ({"transA": 1}, (6, 5), {"Gemm": 1, "Add": 1}),
        ({"beta": 3.0, "transA": 1}, (6, 1), {"Gemm": 1, "Mul": 1, "Add": 1}),
    ],
)
def test_gemm_comes_apart_on_chips_with_fixpipe(
    attributes: dict[str, float], third: tuple[int, ...] | None, operators: dict[str, int]
) -> None:
    def body(b: GraphBuilder) -> Tensor:
        summand = None if third is None else weight(b, *third, seed=2)
        return b.op("Gemm", b.input("x", (8, 6)), weight(b, 8, 5), summand, **attributes)  # type: ignore[arg-type]

    result = fused(build(body), GemmToMatmulFusionPass(), generation="c220")
    assert result.counts == {"GemmToMatmulFusionPass": (1, 1)}
    assert result.operators == operators
    assert result.error <= CHANGED_ALGEBRA
    assert fused(build(body), GemmToMatmulFusionPass()).reason == "the chip has no FIXPIPE and keeps GEMM"


@pytest.mark.parametrize("third", [None, (5,), (1, 5)])
def test_a_gemm_that_is_a_product_with_bias_is_no_match(third: tuple[int, ...] | None) -> None:
    graph = build(
        lambda b: b.op(
            "Gemm", b.input("x", (6, 8)), weight(b, 8, 5), None if third is None else weight(b, *third)
        )
    )
    assert fused(graph, GemmToMatmulFusionPass(), generation="c220").counts == {}


def test_a_transpose_a_bias_and_a_product_become_one() -> None:
    def body(b: GraphBuilder) -> Tensor:
        turned = b.op("Transpose", b.constant(random(5, 8), "w"), perm=(1, 0))
        return b.op("Add", b.op("MatMul", b.input("x", (2, 6, 8)), turned), weight(b, 5, seed=4))

    result = fused(build(body), BatchMatMulFusionPass(), MatMulBiasAddFusionPass())
    assert result.operators == {"BatchMatMul": 1}
    node = result.graph.nodes[0]
    assert (node.attr("adj_x1"), node.attr("adj_x2"), node.input_count) == (0, 1, 3)
    assert result.error <= CHANGED_ALGEBRA


def test_shapes_must_be_known() -> None:
    def body(b: GraphBuilder) -> Tensor:
        return b.op("Add", b.op("MatMul", b.input("x", ("n", 8), "float32"), weight(b, 8, 5)), weight(b, 5))

    graph = build(body)
    assert reasons(graph, MatMulBiasAddFusionPass()) == ["the shape of MatMul_out is not static"]


def cast_product(
    b: GraphBuilder,
    given: DType = DType.FLOAT16,
    wanted: DType = DType.FLOAT32,
    shape: tuple[int, ...] = (6, 8),
) -> list[Tensor]:
    x, w = b.input("x", shape, given), b.constant(random(8, 5).astype(given.numpy), "w")
    return [b.op("Cast", b.op("MatMul", x, w, name="product"), to=wanted)]


@pytest.mark.parametrize("shape", [(6, 8), (2, 6, 8)])
def test_a_product_that_is_cast_gives_the_wide_type(shape: tuple[int, ...]) -> None:
    result = fused(build(lambda b: cast_product(b, shape=shape)), MatmulCastFusionPass(), generation="m200")
    assert result.counts == {"MatmulCastFusionPass": (1, 1)}
    assert result.operators == {"MatMul": 1}
    assert result.graph.nodes[0].output.dtype is DType.FLOAT32
    assert 0 < result.error < 2**-10  # what the rounding of the product was


@pytest.mark.parametrize(
    ("body", "generation", "reason"),
    [
        (cast_product, "v100", "the reference does not list Ascend310"),
        (cast_product, "c220", "the reference does not list Ascend910B"),
        (
            lambda b: cast_product(b, wanted=DType.INT32),
            "m200",
            "the cast is not one from float16 to float32",
        ),
        (
            lambda b: cast_product(b, DType.FLOAT32, DType.FLOAT16),
            "m200",
            "the cast is not one from float16 to float32",
        ),
    ],
)
def test_other_casts_and_chips_keep_their_cast(body: Body, generation: str, reason: str) -> None:
    assert fused(build(body), MatmulCastFusionPass(), generation=generation).reason == reason


def test_a_rounded_product_that_somebody_reads_stays() -> None:
    def body(b: GraphBuilder) -> list[Tensor]:
        (wide,) = cast_product(b)
        assert wide.producer is not None
        return [wide, b.op("Relu", wide.producer.required(0))]

    result = fused(build(body), MatmulCastFusionPass(), generation="m200")
    assert result.counts == {"MatmulCastFusionPass": (1, 0)}
    assert result.error == EXACT


@pytest.mark.parametrize("mode", ["must_keep_origin_dtype", "allow_fp32_to_fp16"])
@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend310P3"])
def test_the_chip_gives_the_sums_of_a_cast_product_as_they_are(chip: str, mode: str) -> None:
    x = random(6, 8, seed=3).astype(np.float16)
    exact = x.astype(np.float32) @ random(8, 5).astype(np.float16).astype(np.float32)
    error, tasks = {}, {}
    for state in ("on", "off"):
        model = asim.compile(
            build(cast_product),
            chip,
            fusion="graph",
            precision_mode=mode,
            optimization_switch=f"MatmulCastFusionPass:{state}",
        )
        (y,) = asim.run(model, {"x": x}).outputs.values()
        assert y.dtype == np.float32
        error[state], tasks[state] = float(np.abs(y - exact).max()), len(model.program.tasks)
    assert error["on"] < 1e-6 < 1e-4 < error["off"]
    assert tasks["on"] == tasks["off"] - 1
