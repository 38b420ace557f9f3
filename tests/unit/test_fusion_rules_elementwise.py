"""Rules for elementwise operators: squares, products with sums, LeakyRelu, reciprocals, Gelu and Swish."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.passes.fusion.rule import FusionRule
from ascendsim.passes.fusion.rules.elementwise.gelu import GeluFusionPass, GeluONNXFusionPass
from ascendsim.passes.fusion.rules.elementwise.mul_add import MulAddFusionPass, MulAddNPass
from ascendsim.passes.fusion.rules.elementwise.mul_maximum import MulMaximumFusionPass
from ascendsim.passes.fusion.rules.elementwise.realdiv_muls import RealDiv2MulsFusionPass
from ascendsim.passes.fusion.rules.elementwise.square import MulSquareFusionPass, Pow2SquareFusionPass
from ascendsim.passes.fusion.rules.elementwise.swish import HardSwishFusionPass, SwishFusionPass
from tests.support.fusing import CHANGED_ALGEBRA, EXACT, build, fused, random
from tests.support.refusals import reasons

SHAPE = (2, 3, 8)
Body = Callable[[GraphBuilder], "Tensor | list[Tensor]"]


def number(b: GraphBuilder, value: float, *shape: int) -> Tensor:
    return b.constant(np.full(shape, value, np.float32), "number")


def refusal(rule: FusionRule, body: Body) -> str:
    result = fused(build(body), rule)
    matched, effected = result.counts[rule.name]
    assert matched
    assert not effected
    assert result.error == EXACT
    return result.reason


# ------------------------------------------------------------------------------------------------------------


def test_a_product_with_itself_becomes_a_square() -> None:
    def body(b: GraphBuilder) -> list[Tensor]:
        x, y = b.input("x", SHAPE), b.input("y", SHAPE)
        return [b.op("Mul", x, x), b.op("Mul", x, y)]

    result = fused(build(body), MulSquareFusionPass())
    assert result.counts == {"MulSquareFusionPass": (2, 1)}
    assert result.operators == {"Square": 1, "Mul": 1}
    assert result.reason == "the factors are two tensors"
    assert result.error == EXACT


def test_a_product_of_integers_wider_than_32_bits_stays() -> None:
    def body(b: GraphBuilder) -> Tensor:
        x = b.input("x", SHAPE, "int64")
        return b.op("Mul", x, x)

    assert refusal(MulSquareFusionPass(), body) == "x is no float32 or float16 tensor"


def test_a_second_power_becomes_a_square() -> None:
    result = fused(build(lambda b: b.op("Pow", b.input("x", SHAPE), 2.0)), Pow2SquareFusionPass())
    assert result.counts == {"Pow2SquareFusionPass": (1, 1)}
    assert result.operators == {"Square": 1}
    assert result.error == EXACT


@pytest.mark.parametrize(
    ("exponent", "reason"),
    [
        (np.float32(3), "the exponent is not the constant 2"),
        (np.array([2, 3], np.float32).repeat(4), "the exponent is not the constant 2"),
        (np.int64(2), "the exponent is no float"),
        (np.full((1, 1, 1, 1), 2, np.float32), "the exponent broadcasts the result"),
    ],
)
def test_other_powers_stay(exponent: np.ndarray, reason: str) -> None:
    assert (
        refusal(
            Pow2SquareFusionPass(),
            lambda b: b.op("Pow", b.input("x", SHAPE), b.constant(np.asarray(exponent))),
        )
        == reason
    )


# ---------------------------------------------------------------------------------------------------- product


def mul_add(name: str, readers: int = 1, product_first: bool = True) -> Graph:
    def body(b: GraphBuilder) -> list[Tensor]:
        x, y, z = (b.input(key, SHAPE) for key in "xyz")
        product = b.op("Mul", x, y, name=name)
        total = b.op("Add", product, z) if product_first else b.op("Add", z, product)
        return [total, *(b.op("Relu", product) for _ in range(readers - 1))]

    return build(body)


@pytest.mark.parametrize(("product_first", "matched"), [(True, 1), (False, 2)])
def test_a_product_and_a_sum_of_bert_become_one(product_first: bool, matched: int) -> None:
    """With the product at the second port both of CANN's patterns match; the first one rewrites."""
    result = fused(mul_add("bert/attention/mul", product_first=product_first), MulAddFusionPass())
    assert result.counts == {"MulAddFusionPass": (1, 1)}
    assert result.operators == {"FusedMulAdd": 1}
    assert result.error == EXACT
    assert fused(mul_add("net/mul", product_first=product_first), MulAddFusionPass()).counts == {
        "MulAddFusionPass": (matched, 0)
    }


@pytest.mark.parametrize(
    ("name", "readers", "reason"),
    [
        ("conv/mul", 1, "the multiplication is not one of a BERT network by its name"),
        ("bert/adam/mul", 1, "the multiplication is not one of a BERT network by its name"),
        ("bert/mul", 2, "the product has more than one reader"),
    ],
)
def test_other_products_with_sums_stay(name: str, readers: int, reason: str) -> None:
    assert fused(mul_add(name, readers), MulAddFusionPass()).reason == reason


def test_an_option_lifts_the_restriction_to_bert() -> None:
    result = fused(mul_add("decoder/mul"), MulAddFusionPass(), mul_add_names="any")
    assert result.operators == {"FusedMulAdd": 1}
    assert result.error == EXACT


def test_a_summand_that_is_one_of_several_results_stays() -> None:
    def body(b: GraphBuilder) -> list[Tensor]:
        x = b.input("x", (2, 8))
        first, second = b.ops("Split", b.input("y", (4, 8)), outputs=2, axis=0, num_outputs=2)
        return [b.op("Add", b.op("Mul", x, x, name="bert/mul"), first), second]

    assert refusal(MulAddFusionPass(), body) == "the summand is one of several results of its operator"


def test_a_product_that_is_a_graph_output_stays() -> None:
    def body(b: GraphBuilder) -> list[Tensor]:
        x, y = b.input("x", SHAPE), b.input("y", SHAPE)
        product = b.op("Mul", x, y, name="bert/mul")
        return [b.op("Add", product, y), product]

    assert refusal(MulAddFusionPass(), body) == "bert/mul makes a graph output"


def test_a_scaled_summand_of_addn_is_scaled_inside() -> None:
    def body(b: GraphBuilder) -> Tensor:
        x, y = b.input("x", SHAPE), b.input("y", SHAPE)
        return b.op("Sum", b.op("Mul", number(b, 0.3, 1), x), y)

    result = fused(build(body), MulAddNPass())
    assert result.counts == {"MulAddNPass": (1, 1)}
    assert result.operators == {"FusedMulAddN": 1}
    assert result.error == EXACT


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (lambda b, x, y: b.op("Sum", b.op("Mul", x, number(b, 2)), y, y), "AddN has not two inputs"),
        (lambda b, x, y: b.op("Sum", b.op("Mul", x, y), y), "no factor is one constant number"),
        (
            lambda b, x, y: b.op("Sum", b.op("Mul", x, number(b, 2)), number(b, 1, 8)),
            "the summands differ in shape",
        ),
        (
            lambda b, x, y: (lambda m: [b.op("Sum", m, y), b.op("Relu", m)])(b.op("Mul", x, number(b, 2))),
            "the product has more than one reader",
        ),
    ],
)
def test_other_sums_of_products_stay(body: Callable[..., Tensor], reason: str) -> None:
    assert refusal(MulAddNPass(), lambda b: body(b, b.input("x", SHAPE), b.input("y", SHAPE))) == reason


# ----------------------------------------------------------------------------------------------- LeakyRelu, r


@pytest.mark.parametrize("alpha", [0.1, -0.5, 0.0])
def test_the_larger_of_x_and_a_fraction_of_it_is_leaky_relu(alpha: float) -> None:
    def body(b: GraphBuilder) -> Tensor:
        x = b.input("x", SHAPE)
        return b.op("Max", b.op("Mul", x, number(b, alpha)), x)

    result = fused(build(body), MulMaximumFusionPass())
    assert result.counts == {"MulMaximumFusionPass": (1, 1)}
    assert result.operators == {"LeakyRelu": 1}
    assert result.error == EXACT


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (lambda b, x: b.op("Max", b.op("Mul", x, number(b, 1)), x), "alpha is 1, not less than 1"),
        (lambda b, x: b.op("Max", b.op("Mul", x, number(b, 0.1, 8)), x), "alpha is no scalar"),
        (lambda b, x: b.op("Max", b.op("Mul", x, b.weight("alpha", ())), x), "alpha has no known value"),
        (lambda b, x: b.op("Max", b.op("Mul", x, number(b, 0.1)), x, x), "Maximum has not two inputs"),
        (
            lambda b, x: (lambda m: [b.op("Max", m, x), b.op("Relu", m)])(
                b.op("Mul", x, number(b, 0.1), name="m")
            ),
            "m has a reader outside",
        ),
    ],
)
def test_other_maxima_stay(body: Callable[..., Tensor], reason: str) -> None:
    graph = build(lambda b: body(b, b.input("x", SHAPE)))
    assert set(reasons(graph, MulMaximumFusionPass())) == {reason}


@pytest.mark.parametrize("divisor", [8.0, 3.0, -0.7])
def test_a_division_by_a_number_becomes_a_product(divisor: float) -> None:
    result = fused(
        build(lambda b: b.op("Div", b.input("x", SHAPE), number(b, divisor, 1))), RealDiv2MulsFusionPass()
    )
    assert result.counts == {"RealDiv2MulsFusionPass": (1, 1)}
    assert result.operators == {"Muls": 1}
    assert result.error <= (EXACT if divisor == 8 else CHANGED_ALGEBRA)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (lambda b: b.op("Div", b.input("x", SHAPE), number(b, 1e-7)), "the divisor is too near to 0"),
        (lambda b: b.op("Div", b.input("x", SHAPE), number(b, 2, 8)), "the divisor is not one known number"),
        (
            lambda b: b.op("Div", b.input("x", SHAPE), b.op("Exp", b.input("y", ()))),
            "the divisor is not one known number",
        ),
        (
            lambda b: b.op("Div", b.input("x", SHAPE, "int32"), b.constant(np.int32(2))),
            "the operands are not float32",
        ),
        (lambda b: b.op("Div", b.input("x", (8,)), number(b, 2, 1, 1)), "the divisor broadcasts the result"),
    ],
)
def test_other_divisions_stay(body: Body, reason: str) -> None:
    assert refusal(RealDiv2MulsFusionPass(), body) == reason


# ------------------------------------------------------------------------------------------------------------


def erf_gelu(
    b: GraphBuilder, form: str = "half_at_x", root: float = 2**0.5, one: float = 1, half: float = 0.5
) -> Tensor:
    x = b.op("Abs", b.input("x", SHAPE))
    factor = b.op("Add", b.op("Erf", b.op("Div", x, number(b, root))), number(b, one))
    if form == "half_at_x":
        return b.op("Mul", b.op("Mul", x, number(b, half)), factor)
    if form == "half_outside":
        return b.op("Mul", b.op("Mul", x, factor), number(b, half))
    raise AssertionError(form)


def tanh_gelu(
    b: GraphBuilder,
    form: str = "half_at_x",
    power: float = 3,
    cubic: float = 0.044715,
    scale: float = (2 / np.pi) ** 0.5,
    one: float = 1,
) -> Tensor:
    x = b.op("Neg", b.input("x", SHAPE))
    inner = b.op("Add", x, b.op("Mul", b.op("Pow", x, power), number(b, cubic)))
    factor = b.op("Add", b.op("Tanh", b.op("Mul", inner, number(b, scale))), number(b, one))
    if form == "half_at_x":
        return b.op("Mul", b.op("Mul", x, number(b, 0.5)), factor)
    return b.op("Mul", x, b.op("Mul", factor, number(b, 0.5)))


@pytest.mark.parametrize("form", ["half_at_x", "half_outside"])
def test_gelu_is_recognised_in_its_form_with_erf(form: str) -> None:
    result = fused(build(lambda b: erf_gelu(b, form)), GeluONNXFusionPass())
    assert result.counts == {"GeluONNXFusionPass": (1, 1)}
    assert result.operators == {"Abs": 1, "Gelu": 1}
    assert result.graph.outputs[0].producer.attr("approximate") == "none"  # type: ignore[union-attr]
    assert result.error <= CHANGED_ALGEBRA


@pytest.mark.parametrize("form", ["half_at_x", "half_at_factor"])
def test_gelu_is_recognised_in_its_form_with_tanh(form: str) -> None:
    result = fused(build(lambda b: tanh_gelu(b, form)), GeluFusionPass())
    assert result.counts == {"GeluFusionPass": (1, 1)}
    assert result.operators == {"Neg": 1, "Gelu": 1}
    assert result.graph.outputs[0].producer.attr("approximate") == "tanh"  # type: ignore[union-attr]
    assert result.error <= CHANGED_ALGEBRA


@pytest.mark.parametrize(
    ("rule", "body", "reason"),
    [
        (GeluONNXFusionPass(), lambda b: erf_gelu(b, root=1.5), "root is 1.5, not 1.41421"),
        (GeluONNXFusionPass(), lambda b: erf_gelu(b, one=2), "one is 2, not 1"),
        (GeluONNXFusionPass(), lambda b: erf_gelu(b, half=0.25), "half is 0.25, not 0.5"),
        (GeluFusionPass(), lambda b: tanh_gelu(b, power=2), "the power is no cube"),
        (GeluFusionPass(), lambda b: tanh_gelu(b, cubic=0.05), "cube_factor is 0.05, not 0.044715"),
        (GeluFusionPass(), lambda b: tanh_gelu(b, scale=0.8), "scale is 0.8, not 0.797885"),
        (GeluFusionPass(), lambda b: tanh_gelu(b, one=0), "one is 0, not 1"),
    ],
)
def test_gelu_with_other_constants_stays(rule: FusionRule, body: Body, reason: str) -> None:
    assert refusal(rule, body) == reason


def test_gelu_whose_parts_are_read_elsewhere_stays() -> None:
    def body(b: GraphBuilder) -> list[Tensor]:
        result = erf_gelu(b)
        erf = next(node for node in b.graph.nodes if node.op_type == "Erf")
        return [result, b.op("Relu", erf.output)]

    assert refusal(GeluONNXFusionPass(), body) == "Erf has a reader outside"


# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [None, 1.702])
def test_swish_is_recognised(alpha: float | None) -> None:
    def body(b: GraphBuilder) -> Tensor:
        x = b.input("x", SHAPE)
        inner = x if alpha is None else b.op("Mul", x, number(b, alpha))
        return b.op("Mul", b.op("Sigmoid", inner), x)

    result = fused(build(body), SwishFusionPass())
    assert result.counts == {"SwishFusionPass": (1, 1)}
    assert result.operators == {"Swish": 1}
    assert result.error <= CHANGED_ALGEBRA


def test_swish_needs_a_number_and_a_sigmoid_of_its_own() -> None:
    def vector(b: GraphBuilder) -> Tensor:
        x = b.input("x", SHAPE)
        return b.op("Mul", b.op("Sigmoid", b.op("Mul", x, number(b, 2, 8))), x)

    def shared(b: GraphBuilder) -> list[Tensor]:
        x = b.input("x", SHAPE)
        gate = b.op("Sigmoid", x)
        return [b.op("Mul", x, gate), gate]

    assert refusal(SwishFusionPass(), vector) == "alpha is not one known number"
    assert refusal(SwishFusionPass(), shared) == "Sigmoid makes a graph output"


def hard_swish(b: GraphBuilder, form: str, three: float = 3.0) -> Tensor:
    x = b.input("x", SHAPE)
    if form == "hard_sigmoid":
        return b.op("Mul", x, b.op("HardSigmoid", x, alpha=1 / 6, beta=0.5))
    gate = b.op("Clip", b.op("Add", x, number(b, three)), number(b, 0), number(b, 6))
    if form == "gate":
        return b.op("Mul", x, b.op("Div", gate, number(b, 6)))
    return b.op("Div", b.op("Mul", x, gate), number(b, 6))


@pytest.mark.parametrize("form", ["hard_sigmoid", "gate", "product"])
def test_hard_swish_is_recognised(form: str) -> None:
    result = fused(build(lambda b: hard_swish(b, form)), HardSwishFusionPass())
    assert result.counts == {"HardSwishFusionPass": (1, 1)}
    assert result.operators == {"HardSwish": 1}
    assert result.error <= CHANGED_ALGEBRA


def test_hard_swish_with_other_constants_stays() -> None:
    def coefficients(b: GraphBuilder) -> Tensor:
        x = b.input("x", SHAPE)
        return b.op("Mul", x, b.op("HardSigmoid", x, alpha=0.2, beta=0.5))

    assert refusal(HardSwishFusionPass(), coefficients) == "the coefficients are 0.2 and 0.5, not 1/6 and 1/2"
    assert refusal(HardSwishFusionPass(), lambda b: hard_swish(b, "gate", three=2)) == "three is 2, not 3"


# ------------------------------------------------------------------------------------------------------------


def yolo_decoder(b: GraphBuilder) -> list[Tensor]:
    """Three detection heads as YOLOv5 6.x decodes them: (2 xy + grid) stride and (2 wh)^2 anchors."""
    boxes = []
    for head in range(3):
        scores = b.op("Sigmoid", b.input(f"head{head}", (1, 3, 4, 4, 7)))
        xy, wh, rest = b.ops("Split", scores, b.constant([2, 2, 3], "sizes"), outputs=3, axis=4)
        grid, anchors = (
            b.constant(random(1, 3, 4, 4, 2, seed=head), "grid"),
            b.constant(random(1, 3, 4, 4, 2, seed=9 + head), "anchors"),
        )
        moved = b.op("Mul", b.op("Add", b.op("Mul", xy, number(b, 2)), grid), number(b, 8))
        size = b.op("Mul", b.op("Pow", b.op("Mul", wh, number(b, 2)), 2.0), anchors)
        boxes.append(b.op("Concat", moved, size, rest, axis=4))
    return boxes


def test_the_decoder_of_yolov5_adds_what_cann_counts_beyond_the_body() -> None:
    """CANN counted MulSquare 69/0, MulAdd 17/0, Pow2Square 3/3; the body has 57 and 14 and none
    (test_fusion_rules_models)."""
    result = fused(build(yolo_decoder), MulAddFusionPass(), MulSquareFusionPass(), Pow2SquareFusionPass())
    assert result.counts == {
        "MulAddFusionPass": (17 - 14, 0),
        "MulSquareFusionPass": (69 - 57, 0),
        "Pow2SquareFusionPass": (3, 3),
    }
    assert result.error == EXACT
