"""Rules for means, layer normalisation, softmax and their gradients."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Tensor
from ascendsim.passes.fusion.rule import FusionRule
from ascendsim.passes.fusion.rules.normalise.layer_norm import LayerNormFusionPass, LayerNormONNXFusionPass
from ascendsim.passes.fusion.rules.normalise.reduce_mean import OneElementRule
from ascendsim.passes.fusion.rules.normalise.softmax import SoftmaxFusionPass, SoftmaxTransFusionPass
from ascendsim.passes.fusion.rules.training.layer_norm_grad import LayerNormGradFusionPass
from ascendsim.passes.fusion.rules.training.softmax_grad import (
    SoftmaxGradFusionPass,
    ZConfusionSoftmaxGradFusionPass,
)
from tests.support.fusing import CHANGED_ALGEBRA, EXACT, Fused, build, fused, random

SHAPE = (2, 5, 8)
Body = Callable[[GraphBuilder], "Tensor | list[Tensor]"]


def number(b: GraphBuilder, value: float, *shape: int) -> Tensor:
    return b.constant(np.full(shape, value, np.float32), "number")


def axes(b: GraphBuilder, *values: int) -> Tensor:
    return b.constant(np.array(values, np.int64), "axes")


def refused(rule: FusionRule, body: Body, **options: object) -> str:
    result = fused(build(body), rule, **options)  # type: ignore[arg-type]
    matched, effected = result.counts[rule.name]
    assert matched
    assert not effected
    return result.reason


# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("keep", "operators"), [(1, {"Abs": 1}), (0, {"Abs": 1, "Reshape": 1})])
def test_a_mean_of_single_elements_goes(keep: int, operators: dict[str, int]) -> None:
    graph = build(
        lambda b: b.op("ReduceMean", b.op("Abs", b.input("x", (2, 1, 4, 1))), axes(b, 1, -1), keepdims=keep)
    )
    result = fused(graph, OneElementRule("Mean"))
    assert result.counts == {"AReduceMeanFusionPass": (1, 1)}
    assert result.operators == operators
    assert result.error == EXACT


def test_a_mean_of_single_elements_of_an_input_leaves_an_identity_at_an_output() -> None:
    result = fused(
        build(lambda b: b.op("ReduceMean", b.input("x", (2, 1)), axes(b, 1))), OneElementRule("Mean")
    )
    assert result.operators == {"Identity": 1}


def test_other_means_stay() -> None:
    assert refused(OneElementRule("Mean"), lambda b: b.op("ReduceMean", b.input("x", SHAPE), axes(b, 1))) == (
        "an axis has more elements than one"
    )


# ---------------------------------------------------------------------------------------------------------- l


def onnx_norm(
    b: GraphBuilder,
    form: str = "affine",
    over: tuple[int, ...] = (-1,),
    power: float = 2,
    gamma: tuple[int, ...] = (8,),
    var_axes: tuple[int, ...] | None = None,
    keep: int = 1,
) -> Tensor:
    x = b.op("Neg", b.input("x", SHAPE))
    centred = b.op("Sub", x, b.op("ReduceMean", x, axes(b, *over), keepdims=keep), name="centred")
    squared_of = b.op("Cast", centred, to=centred.element_type) if form == "cast" else centred
    variance = b.op("ReduceMean", b.op("Pow", squared_of, power), axes(b, *(var_axes or over)), keepdims=keep)
    normal = b.op("Div", centred, b.op("Sqrt", b.op("Add", variance, number(b, 1e-5))))
    if form == "plain":
        return normal
    scaled = b.op("Mul", b.constant(random(*gamma, seed=1), "gamma"), normal)
    return b.op("Add", scaled, b.constant(random(*gamma, seed=2), "beta"))


def tensorflow_norm(b: GraphBuilder, shared: bool, product: bool) -> Tensor:
    x = b.op("Neg", b.input("x", SHAPE))
    mean = b.op("ReduceMean", x, axes(b, -1))
    centred = b.op("Sub", x, mean)
    difference = centred if shared else b.op("Sub", x, mean)
    squares = b.op("Mul", difference, difference) if product else b.op("Pow", difference, 2.0)
    variance = b.op("Add", b.op("ReduceMean", squares, axes(b, -1)), number(b, 1e-6))
    factor = b.op("Mul", b.op("Reciprocal", b.op("Sqrt", variance)), b.constant(random(8, seed=1), "gamma"))
    return b.op("Add", b.op("Mul", factor, centred), b.constant(random(8, seed=2), "beta"))


def normalised(result: Fused, rule: str, axis: int = -1) -> None:
    assert result.counts == {rule: (1, 1)}
    assert result.operators == {"Neg": 1, "LayerNormalization": 1}
    assert result.graph.outputs[0].producer.attr("axis") == axis  # type: ignore[union-attr]
    assert result.error <= CHANGED_ALGEBRA


@pytest.mark.parametrize("form", ["affine", "plain", "cast"])
def test_layer_norm_of_onnx_exporters_is_recognised(form: str) -> None:
    normalised(
        fused(build(lambda b: onnx_norm(b, form)), LayerNormONNXFusionPass()), "LayerNormONNXFusionPass"
    )


def test_layer_norm_over_several_axes_is_recognised() -> None:
    result = fused(build(lambda b: onnx_norm(b, over=(1, 2), gamma=(5, 8))), LayerNormONNXFusionPass())
    normalised(result, "LayerNormONNXFusionPass", axis=-2)


def test_epsilon_of_the_graph_is_kept() -> None:
    result = fused(build(onnx_norm), LayerNormONNXFusionPass())
    assert result.graph.outputs[0].producer.attr("epsilon") == pytest.approx(1e-5)  # type: ignore[union-attr]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("product", [False, True])
def test_layer_norm_of_tensorflow_is_recognised(shared: bool, product: bool) -> None:
    normalised(
        fused(build(lambda b: tensorflow_norm(b, shared, product)), LayerNormFusionPass()),
        "LayerNormFusionPass",
    )


def test_a_second_copy_of_the_parts_stays_a_second_norm() -> None:
    def body(b: GraphBuilder) -> list[Tensor]:
        first = onnx_norm(b)
        return [first, b.op("Add", first, tensorflow_norm_of(b, first))]

    def tensorflow_norm_of(b: GraphBuilder, x: Tensor) -> Tensor:
        mean = b.op("ReduceMean", x, axes(b, -1))
        centred = b.op("Sub", x, mean)
        variance = b.op(
            "Add", b.op("ReduceMean", b.op("Mul", centred, centred), axes(b, -1)), number(b, 1e-6)
        )
        factor = b.op(
            "Mul", b.op("Reciprocal", b.op("Sqrt", variance)), b.constant(random(8, seed=1), "gamma")
        )
        return b.op("Add", b.op("Mul", factor, centred), b.constant(random(8, seed=2), "beta"))

    result = fused(build(body), LayerNormONNXFusionPass(), LayerNormFusionPass())
    assert result.counts == {"LayerNormONNXFusionPass": (1, 1), "LayerNormFusionPass": (1, 1)}
    assert result.error <= CHANGED_ALGEBRA


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (lambda b: onnx_norm(b, "plain", power=3), "the power is no square"),
        (lambda b: onnx_norm(b, "plain", var_axes=(1,)), "the means are not over the same known axes"),
        (lambda b: onnx_norm(b, "plain", over=(1,)), "the means are not over the last axes"),
    ],
)
def test_other_norms_stay(body: Body, reason: str) -> None:
    assert refused(LayerNormONNXFusionPass(), body) == reason


def test_scales_of_another_shape_leave_the_affine_part_outside() -> None:
    """The pattern with gamma and beta is refused, the plain one takes the rest."""
    result = fused(build(lambda b: onnx_norm(b, gamma=(1,))), LayerNormONNXFusionPass())
    assert result.counts == {"LayerNormONNXFusionPass": (2, 1)}
    assert result.reasons == ["gamma is not one value for each normalised element"]
    assert result.operators == {"Neg": 1, "LayerNormalization": 1, "Mul": 1, "Add": 1}
    assert result.error <= CHANGED_ALGEBRA


def test_a_norm_whose_mean_is_read_elsewhere_stays() -> None:
    def body(b: GraphBuilder) -> list[Tensor]:
        result = onnx_norm(b, "plain")
        return [result, b.op("Relu", b.graph.node("centred").output)]

    assert refused(LayerNormONNXFusionPass(), body) == "centred has a reader outside"


# ------------------------------------------------------------------------------------------------------ norm


def test_the_gradient_of_layer_norm_comes_apart() -> None:
    def body(b: GraphBuilder) -> list[Tensor]:
        x, dy, mean = b.input("x", SHAPE), b.input("dy", SHAPE), b.input("mean", (2, 5, 1))
        inverse, gamma = (
            b.constant(random(2, 5, 1, positive=True), "inverse"),
            b.constant(random(8, seed=3), "gamma"),
        )
        return b.ops("LayerNormGrad", dy, x, inverse, mean, gamma, outputs=3, domain="ascend")

    result = fused(build(body), LayerNormGradFusionPass())
    assert result.counts == {"LayerNormGradFusionPass": (1, 1)}
    assert result.operators == {"LayerNormXBackpropV2": 1, "LayerNormBetaGammaBackpropV2": 1}
    assert result.error <= CHANGED_ALGEBRA


# ------------------------------------------------------------------------------------------------------------


def test_a_softmax_of_ssd_is_turned() -> None:
    result = fused(
        build(lambda b: b.op("Softmax", b.input("x", (2, 8732, 21)), axis=-1)),
        SoftmaxFusionPass(),
        generation="m200",
    )
    assert result.counts == {"SoftmaxFusionPass": (1, 1)}
    assert result.operators == {"Transpose": 2, "Softmax": 1}
    assert result.error <= 1e-7  # the sums of a column are added in another order


@pytest.mark.parametrize(
    ("shape", "axis", "generation", "reason"),
    [
        ((2, 8732, 81), -1, "m200", "the shape is not one of those listed"),
        ((2, 8732, 21), 1, "m200", "the axis is not the last one"),
        ((2, 8732, 21), 2, "v100", "Ascend310 is not among the chips of the rule"),
    ],
)
def test_other_softmaxes_stay(shape: tuple[int, ...], axis: int, generation: str, reason: str) -> None:
    graph = build(lambda b: b.op("Softmax", b.input("x", shape), axis=axis))
    assert fused(graph, SoftmaxFusionPass(), generation=generation).reason == reason


@pytest.mark.parametrize("shape", [(4420, 2), (1, 4420, 2), (3, 151, 15), (1, 599_999, 1)])
def test_a_softmax_of_short_rows_is_turned(shape: tuple[int, ...]) -> None:
    graph = build(lambda b: b.op("Softmax", b.input("x", shape), axis=len(shape) - 1))
    result = fused(graph, SoftmaxTransFusionPass(), generation="v100")
    assert result.counts == {"softmaxTransFusionPass": (1, 1)}
    assert result.operators == {"Transpose": 2, "Softmax": 1}
    assert result.error <= 1e-7


@pytest.mark.parametrize(
    ("shape", "axis", "reason"),
    [
        ((1, 4420, 16), -1, "the last axis is not below 16"),
        ((1, 150, 15), -1, "the axis before it is not between 10 times as long and 600000"),
        ((1, 600_000, 1), -1, "the axis before it is not between 10 times as long and 600000"),
        ((8,), -1, "there is no axis before the last one"),
        ((1, 16, 4, 8400), 1, "the last axis is not below 16"),  # YOLOv8's, as a published log counts it
        ((1, 4420, 2), 1, "the axis is not the last one"),
    ],
)
def test_softmaxes_of_longer_rows_stay(shape: tuple[int, ...], axis: int, reason: str) -> None:
    graph = build(lambda b: b.op("Softmax", b.input("x", shape), axis=axis))
    assert fused(graph, SoftmaxTransFusionPass()).reason == reason


def softmax_gradient(
    b: GraphBuilder,
    whole: bool = True,
    over: int = -1,
    keep: int = 1,
    shape: tuple[int, ...] = SHAPE,
    y_shape: tuple[int, ...] = (),
) -> Tensor:
    y, grad = b.input("y", y_shape or shape), b.op("Neg", b.input("grad", shape))
    total = b.op("ReduceSum", b.op("Mul", y, grad), axes(b, over), keepdims=keep)
    difference = b.op("Sub", grad, total)
    return b.op("Mul", difference, y) if whole else difference


@pytest.mark.parametrize("over", [-1, 1])
def test_the_gradient_of_softmax_is_one_operator_on_a2(over: int) -> None:
    result = fused(
        build(lambda b: softmax_gradient(b, over=over)), SoftmaxGradFusionPass(), generation="c220"
    )
    assert result.counts == {"SoftmaxGradFusionPass": (1, 1)}
    assert result.operators == {"Neg": 1, "SoftmaxGrad": 1}
    assert result.error <= CHANGED_ALGEBRA


def test_the_gradient_of_softmax_is_two_operators_elsewhere() -> None:
    result = fused(build(softmax_gradient), SoftmaxGradFusionPass(), ZConfusionSoftmaxGradFusionPass())
    assert result.counts == {"SoftmaxGradFusionPass": (1, 0), "ZConfusionSoftmaxGradFusionPass": (1, 1)}
    assert result.reasons == ["the reference does not list Ascend310"]
    assert result.operators == {"Neg": 1, "ConfusionSoftmaxGrad": 1, "Mul": 1}
    assert result.error <= CHANGED_ALGEBRA


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (lambda b: softmax_gradient(b, False, over=1), "the sum is not over the last axis, which stays"),
        (lambda b: softmax_gradient(b, False, shape=(1, 30001)), "the last axis is longer than 30000"),
        (lambda b: softmax_gradient(b, False, y_shape=(1, 1, 8)), "the factors differ in shape"),
    ],
)
def test_other_differences_stay(body: Body, reason: str) -> None:
    assert refused(ZConfusionSoftmaxGradFusionPass(), body) == reason


def test_softmax_gradients_over_single_elements_or_dropped_axes_stay() -> None:
    single = build(lambda b: softmax_gradient(b, shape=(4, 1)))
    assert (
        fused(single, SoftmaxGradFusionPass(), generation="c220").reason == "the summed axis has one element"
    )
    dropped = build(lambda b: softmax_gradient(b, over=0, keep=0, shape=(1, 8)))
    assert (
        fused(dropped, SoftmaxGradFusionPass(), generation="c220").reason
        == "the sum is not over one known axis that stays"
    )
