"""Rules for training: optimizer steps and gradients from CANN's edges, masks of Relu, loss scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import pytest

from ascendsim.core.errors import InputError
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.passes.fusion.catalogue import fact
from ascendsim.passes.fusion.rules.edges import parse_edges, pattern_of_edges
from ascendsim.passes.fusion.rules.elementwise.square import MulSquareFusionPass
from ascendsim.passes.fusion.rules.json_rules import TARGETS, JsonRule, json_rules
from ascendsim.passes.fusion.rules.training.drelu import DreluFusionPass
from ascendsim.passes.fusion.rules.training.momentum_loss_scale import TRAINING, A_MomentumLossscaleFusionPass
from ascendsim.passes.rewriting.search import find_matches
from tests.support.edge_graphs import step_inputs, write_edges
from tests.support.fusing import CHANGED_ALGEBRA, EXACT, build, fused, random

SHAPE = (4, 16)
RULES = {rule.name: cast(JsonRule, rule) for rule in json_rules()}
STEPS = [
    name
    for name, rule in RULES.items()
    if rule.operator not in ("ClipByValue", "SquareSumV1", "LayerNormGrad", "LayerNormGrad,Add")
]


def step(
    rule: JsonRule,
    more: Callable[[GraphBuilder, dict[str, Tensor], dict[str, Tensor]], list[Tensor]] | None = None,
) -> Graph:
    """The graph of a rule's edges, its results as outputs and perhaps others."""

    def body(b: GraphBuilder) -> list[Tensor]:
        inputs = step_inputs(b, rule.edges, SHAPE)
        made = write_edges(b, rule.edges, inputs)
        return [*(made[name] for _, name in rule.edges.results), *(more(b, inputs, made) if more else [])]

    return build(body)


# -----------------------------------------------------------------------------------------------------------


def test_every_rule_names_an_operator_and_its_inputs() -> None:
    assert len(RULES) == 37
    for rule in RULES.values():
        assert fact(rule.name, "graph").is_rule
        names = {name.removeprefix("Constant").split("_sw")[0] for name in rule.edges.inputs}
        wanted = set(TARGETS[rule.operator].inputs)
        assert wanted <= names, rule.name
        if not rule.operator.startswith("LayerNormGrad"):
            assert wanted == names, rule.name


def test_edges_are_read() -> None:
    pattern = parse_edges(
        "x -> Square#S:0; S#S:-1 -> Constant#K:-1; Square#S:0 -> Mul#M:1; Constant#K:0 -> Mul#M:0; Mul#M:0 "
        "-> y"
    )
    assert pattern.types == {"S": "Square", "M": "Mul"}
    assert pattern.inputs == ("x",)
    assert pattern.constants == {"K"}
    assert pattern.operands[("M", 1)] == "S"
    assert pattern.results == (("y", "M"),)
    assert pattern.root == "M"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x -> Mul#M:0 -> y", "must read `source -> target`"),
        ("x => Mul#M:0", "must read `source -> target`"),
        ("x -> Mul#M:0; y -> Mul#M:0", "feeds an input port that is fed already"),
        ("x -> FooGrad#F:0; FooGrad#F:0 -> y", "names operators without a form.*FooGrad"),
    ],
)
def test_malformed_edges_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_edges(text)


def test_ports_count() -> None:
    edges = "a -> Sub#S:0; b -> Sub#S:1; Sub#S:0 -> Mul#M:1; a -> Mul#M:0; Mul#M:0 -> out"
    pattern = pattern_of_edges(parse_edges(edges))

    def body(b: GraphBuilder, turned: bool) -> Tensor:
        x = b.input("x", SHAPE)
        difference = b.op("Sub", x, b.input("y", SHAPE))
        return b.op("Mul", difference, x) if turned else b.op("Mul", x, difference)

    assert len(list(find_matches(build(lambda b: body(b, False)), "p", pattern))) == 1
    assert not list(find_matches(build(lambda b: body(b, True)), "p", pattern))


# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STEPS)
def test_a_step_becomes_one_operator_with_the_same_bits(name: str) -> None:
    rule = RULES[name]
    result = fused(step(rule), rule)
    assert result.counts == {name: (1, 1)}
    assert result.operators[rule.operator] == 1
    assert set(result.operators) == {"Abs", rule.operator}
    assert result.error == EXACT


@pytest.mark.parametrize("name", ["AdamApplyOneRuleCond1", "LambNextRightRuleCond1"])
def test_a_step_whose_squares_are_known_already_is_found(name: str) -> None:
    """CANN's passes run before its JSON rules, so Mul(g, g) is a Square by then."""
    result = fused(step(RULES[name]), MulSquareFusionPass(), RULES[name])
    assert result.effected(name) == 1
    assert result.error == EXACT


def test_all_conditions_of_an_operator_together_find_each_step_once() -> None:
    rules = [rule for rule in RULES.values() if rule.operator == "AdamApplyOne"]
    for rule in rules:
        result = fused(step(rule), *rules)
        assert sum(effected for _, effected in result.counts.values()) == 1
        assert result.effected(rule.name) == 1


def test_results_may_be_read_inside_and_outside() -> None:
    rule = RULES["AdamApplyOneRuleCond1"]
    result = fused(
        step(rule, lambda b, _, made: [b.op("Relu", made["Add1"]), b.op("Neg", made["Sub0"])]), rule
    )
    assert result.counts == {rule.name: (1, 1)}
    assert result.error == EXACT


def test_an_inner_result_that_is_read_elsewhere_keeps_the_step() -> None:
    rule = RULES["AdamApplyOneRuleCond1"]
    result = fused(step(rule, lambda b, _, made: [b.op("Relu", made["Truediv0"])]), rule)
    assert result.counts == {rule.name: (1, 0)}
    assert result.reason == "Truediv0 has a reader outside"


def test_a_step_that_waits_for_its_own_result_stays() -> None:
    """The new second moment decides the learning rate, outside the step: one operator would wait for
    itself."""
    rule = RULES["AdamApplyOneRuleCond1"]

    def body(b: GraphBuilder) -> list[Tensor]:
        inputs = step_inputs(b, rule.edges, SHAPE)
        made = write_edges(b, rule.edges, inputs)
        made["Mul4"].producer.set_input(0, b.op("Exp", made["Add1"], name="rate"))  # type: ignore[union-attr]
        b.graph.remove_node(inputs["Input4"].producer)  # type: ignore[arg-type]
        return [made[name] for _, name in rule.edges.results]

    result = fused(build(body), rule)
    assert result.counts == {rule.name: (1, 0)}
    assert result.reason == "Add1 would have to run before and after the fused operator"


def test_constants_that_a_rule_has_twice_must_have_one_value() -> None:
    rule = RULES["LambNextMVRuleCond4_1"]

    def body(b: GraphBuilder) -> list[Tensor]:
        inputs = {**step_inputs(b, rule.edges, SHAPE), "Add2_y_sw1": b.constant(np.float32(7), "other")}
        for name in [
            name
            for name, tensor in b.graph.tensors.items()
            if tensor.is_constant and name.startswith("Add2_y_sw1")
        ]:
            b.graph.remove_tensor(b.graph.tensors[name])
        made = write_edges(b, rule.edges, inputs)
        return [made[name] for _, name in rule.edges.results]

    result = fused(build(body), rule)
    assert result.counts == {rule.name: (1, 0)}
    assert result.reason == "the constants Add2_y differ"


def test_inputs_that_broadcast_the_results_keep_the_step() -> None:
    rule = RULES["LambNextRightRuleCond1"]

    def body(b: GraphBuilder) -> list[Tensor]:
        inputs = {**step_inputs(b, rule.edges, (16,)), "Add2_y": b.constant(random(4, 16), "wide")}
        for name in [
            name
            for name, tensor in b.graph.tensors.items()
            if tensor.is_constant and name.startswith("Add2_y")
        ]:
            b.graph.remove_tensor(b.graph.tensors[name])
        made = write_edges(b, rule.edges, inputs)
        return [made[name] for _, name in rule.edges.results]

    assert fused(build(body), rule).reason == "the results differ in shape"


# ------------------------------------------------------------------------------------------------ clip and su


def clip(b: GraphBuilder, low: float, high: float, turned: bool, shape: tuple[int, ...] = ()) -> Tensor:
    least, most = (
        b.constant(np.full(shape, low, np.float32), "low"),
        b.constant(np.full(shape, high, np.float32), "high"),
    )
    inner = b.op("Min", b.input("x", SHAPE), most)
    return b.op("Max", least, inner) if turned else b.op("Max", inner, least)


@pytest.mark.parametrize(("name", "turned"), [("ClipFusionRule0", False), ("ClipFusionRule1", True)])
def test_minimum_and_maximum_become_a_clip(name: str, turned: bool) -> None:
    result = fused(build(lambda b: clip(b, -0.5, 0.7, turned)), RULES[name])
    assert result.counts == {name: (1, 1)}
    assert result.operators == {"Clip": 1}
    assert result.error == EXACT


def test_other_pairs_of_bounds_stay() -> None:
    rule = RULES["ClipFusionRule0"]
    assert (
        fused(build(lambda b: clip(b, 1, 0, False)), rule).reason
        == "the lower bound 1 is above the upper one 0"
    )
    assert (
        fused(build(lambda b: clip(b, 0, 1, False, (16,))), rule).reason == "a bound is not one known number"
    )
    assert (
        fused(build(lambda b: clip(b, 0, 1, False, (1, 1, 1))), rule).reason
        == "a bound broadcasts the result"
    )


@pytest.mark.parametrize("keep", [0, 1])
def test_a_sum_of_squares_is_one_operator(keep: int) -> None:
    def body(b: GraphBuilder) -> Tensor:
        x = b.input("x", SHAPE)
        return b.op("ReduceSum", b.op("Mul", x, x), b.constant([1], "axes"), keepdims=keep)

    result = fused(build(body), MulSquareFusionPass(), RULES["SquareSumV1"])
    assert result.effected("SquareSumV1") == 1
    assert result.operators == {"ReduceSumSquare": 1}
    assert result.error <= CHANGED_ALGEBRA


def waiting(b: GraphBuilder) -> list[Tensor]:
    """A sum of squares that starts when another operator has finished, and one that waits for it."""
    x = b.input("x", SHAPE)
    before = b.op("Neg", b.input("first", (4,)), name="before")
    total = b.op("ReduceSum", b.op("Mul", x, x, name="squares"), b.constant([1], "axes"), name="total")
    after = b.op("Abs", before, name="after")
    b.graph.node("total").add_control(b.graph.node("before"))
    b.graph.node("after").add_control(b.graph.node("total"))
    return [total, after]


def test_control_edges_go_over_to_what_takes_the_place_of_their_node() -> None:
    """CANN has a rule of its own for a sum that a control edge holds."""
    result = fused(build(waiting), RULES["SquareSumV1"], RULES["SquareSumV1_2"])
    assert result.counts == {"SquareSumV1_2": (1, 1)}
    made = next(node for node in result.graph.nodes if node.op_type == "ReduceSumSquare")
    assert [node.name for node in made.control] == ["before"]
    assert result.graph.node("after").control == (made,)
    free = build(
        lambda b: b.op("ReduceSum", b.op("Mul", x := b.input("x", SHAPE), x), b.constant([1], "axes"))
    )
    assert fused(free, RULES["SquareSumV1"], RULES["SquareSumV1_2"]).counts == {"SquareSumV1": (1, 1)}


def test_a_match_that_a_control_edge_would_close_to_a_circle_stays() -> None:
    """Squares, then another operator, then the sum: one operator could not run before and after it."""

    def body(b: GraphBuilder) -> list[Tensor]:
        results = waiting(b)
        b.graph.node("before").add_control(b.graph.node("squares"))
        return results

    result = fused(build(body), RULES["SquareSumV1_2"])
    assert result.counts == {"SquareSumV1_2": (1, 0)}
    assert result.reason == "a control edge lets squares run before and after other nodes of the match"


# ------------------------------------------------------------------------------------------------- layer norm


def norm_gradient(
    b: GraphBuilder,
    count: float = 16,
    doubled: float = 2,
    axis: int = 1,
    product: bool = True,
    more: str = "",
) -> list[Tensor]:
    """What TensorFlow's gradient of layer normalisation over the last axis computes, as CANN's rule has
    it."""
    rows, cols = SHAPE
    dy, x = b.input("dy", SHAPE), b.input("x", SHAPE)
    inverse, mean = b.op("Exp", b.input("i", (rows, 1))), b.op("Neg", b.input("m", (rows, 1)))
    gamma = b.constant(random(cols, seed=5), "gamma")
    factor = b.op("Mul", inverse, gamma) if product else b.op("Sub", inverse, gamma)
    columns, others = b.constant([axis], "columns"), b.constant([0], "rows")
    column, repeats = b.constant([rows, 1], "column"), b.constant([1, cols], "repeats")
    negative = b.op("Neg", dy)
    gradient = b.op("Sum", b.op("Mul", dy, x), b.op("Mul", mean, negative))
    to_mean = b.op("Reshape", b.op("ReduceSum", b.op("Mul", negative, factor), columns, keepdims=0), column)
    to_inverse = b.op("Reshape", b.op("ReduceSum", b.op("Mul", gradient, gamma), columns, keepdims=0), column)
    to_variance = b.op("RsqrtGrad", inverse, to_inverse, domain="ascend")
    number = b.constant(np.float32(count), "count")
    shared = b.op("Div", b.op("Tile", to_mean, repeats), number)
    spread = b.op(
        "Mul", b.constant(np.float32(doubled), "two"), b.op("Div", b.op("Tile", to_variance, repeats), number)
    )
    part = b.op("Mul", spread, b.op("Sub", x, mean))
    terms = [b.op("Mul", dy, factor), part, shared]
    other = [b.op("Abs", b.input("other", SHAPE))] if more else []
    dx = b.op("Sum", *((*other, *terms) if more == "first" else (*terms, *other)))
    dgamma = b.op("ReduceSum", b.op("Mul", inverse, gradient), others, keepdims=0)
    return [dx, dgamma, b.op("ReduceSum", dy, others, keepdims=0)]


def test_the_gradient_of_layer_norm_is_found_in_its_parts() -> None:
    rule = RULES["LayerNormGradFusionRule"]
    result = fused(build(norm_gradient), rule)
    assert result.counts == {rule.name: (1, 1)}
    assert result.operators == {"Exp": 1, "Neg": 1, "LayerNormGrad": 1}
    assert result.error <= CHANGED_ALGEBRA


def test_the_gradient_of_a_residual_branch_is_added_behind() -> None:
    rule = RULES["LayerNormGradFusionRule2"]
    result = fused(
        build(lambda b: norm_gradient(b, more="first")),
        *(RULES[name] for name in RULES if name.startswith("LayerNormGrad")),
    )
    assert result.counts == {rule.name: (1, 1)}
    assert result.operators == {"Exp": 1, "Neg": 1, "Abs": 1, "LayerNormGrad": 1, "Add": 1}
    assert result.error <= CHANGED_ALGEBRA


def test_a_sum_of_more_than_the_edges_name_stays() -> None:
    """The fourth summand is at the end, where no rule has it: three of four would lose it."""
    graph = build(lambda b: norm_gradient(b, more="last"))
    assert fused(graph, *(RULES[name] for name in RULES if name.startswith("LayerNormGrad"))).counts == {}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            lambda b: norm_gradient(b, count=8),
            "the sums are not divided by the number of normalised elements, or not doubled",
        ),
        (
            lambda b: norm_gradient(b, doubled=3),
            "the sums are not divided by the number of normalised elements, or not doubled",
        ),
        (
            lambda b: norm_gradient(b, product=False),
            "Mul_1 is not the product of gamma and the inverse deviation",
        ),
    ],
)
def test_other_gradients_stay(body: Callable[[GraphBuilder], list[Tensor]], reason: str) -> None:
    assert fused(build(body), RULES["LayerNormGradFusionRule"]).reason == reason


# ---------------------------------------------------------------------------------------------------- Relu an


def relu_gradient(
    b: GraphBuilder, gradients: int = 1, shape: tuple[int, ...] = (2, 12, 4, 4)
) -> list[Tensor]:
    y = b.op("Relu", b.input("x", shape))
    return [
        y,
        *(b.op("ReluGrad", b.input(f"dy{number}", shape), y, domain="ascend") for number in range(gradients)),
    ]


@pytest.mark.parametrize("shape", [(2, 12, 4, 4), (3, 7), (9,)])
def test_the_gradient_of_relu_reads_a_mask(shape: tuple[int, ...]) -> None:
    result = fused(build(lambda b: relu_gradient(b, shape=shape)), DreluFusionPass())
    assert result.counts == {"DreluFusionPass": (1, 1)}
    assert result.operators == {"ReluV2": 1, "ReluGradV2": 1}
    assert result.error == EXACT


def test_a_relu_with_two_gradients_stays() -> None:
    assert (
        fused(build(lambda b: relu_gradient(b, 2)), DreluFusionPass()).reason
        == "the activation serves several gradients"
    )
    scalar = build(lambda b: relu_gradient(b, shape=()))
    assert fused(scalar, DreluFusionPass()).reason == "the activation is a scalar"


def momentum(
    b: GraphBuilder, weights: int = 1, scale: tuple[int, ...] = (), mode: str = "standard"
) -> list[Tensor]:
    rate, count = b.constant(np.float32(0.1), "rate"), b.constant(3, "count")
    w, v = ([b.input(f"{key}{number}", SHAPE) for number in range(weights)] for key in "wv")
    factor = b.constant(np.full(scale, 0.125, np.float32), "scale")
    g = [b.op("Mul", b.input(f"g{number}", SHAPE), factor) for number in range(weights)]
    attributes = {"alpha": 0.9, "beta": 0.7, "norm_coefficient": 0.01, "mode": mode}
    return b.ops("Momentum", rate, count, *w, *g, *v, outputs=2 * weights, domain=TRAINING, **attributes)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["standard", "nesterov"])
def test_the_loss_scale_goes_into_the_update(mode: str) -> None:
    result = fused(build(lambda b: momentum(b, mode=mode)), A_MomentumLossscaleFusionPass())
    assert result.counts == {"A_MomentumLossscaleFusionPass": (1, 1)}
    assert result.operators == {"FusedMulApplyMomentum": 1}
    assert result.error == EXACT


def test_other_updates_stay() -> None:
    # port 3 is the second weight
    assert fused(build(lambda b: momentum(b, 2)), A_MomentumLossscaleFusionPass()).reasons == []
    vector = build(lambda b: momentum(b, scale=(16,)))
    assert fused(vector, A_MomentumLossscaleFusionPass()).reason == "no factor of the gradient is one number"

    def several(b: GraphBuilder) -> list[Tensor]:
        x, y = b.input("x", SHAPE), b.input("y", SHAPE)
        made = b.op("Mul", x, b.constant(np.float32(2), "s"))
        inputs = [b.constant(np.float32(0.1), "r"), b.constant(1, "t"), x, made, y, x, y, x]
        return b.ops(
            "Momentum",
            *inputs,
            outputs=4,
            domain=TRAINING,
            alpha=0.9,
            beta=0.7,
            norm_coefficient=0.0,
            mode="standard",
        )

    assert fused(build(several), A_MomentumLossscaleFusionPass()).reason == "Momentum updates several weights"


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("nesterov", [0, 1])
def test_canns_own_update_takes_the_loss_scale_in_too(constant: bool, nesterov: int) -> None:
    """The momentum becomes an attribute, so it must be a constant."""

    def body(b: GraphBuilder) -> list[Tensor]:
        w, v, g = (b.input(name, SHAPE) for name in "wvg")
        scaled = b.op("Mul", g, b.constant(np.float32(0.3), "scale"))
        mu = b.constant(np.float32(0.9), "mu") if constant else b.input("mu", ())
        inputs = (w, v, b.input("rate", ()), scaled, mu)
        return b.ops("ApplyMomentum", *inputs, outputs=2, domain="ascend", use_nesterov=nesterov)

    result = fused(build(body), A_MomentumLossscaleFusionPass())
    if constant:
        assert result.operators == {"FusedMulApplyMomentum": 1}
        assert result.error == EXACT
    else:
        assert result.reason == "the momentum is not one constant number"
