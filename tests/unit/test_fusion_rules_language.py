"""Rules that make kernels of a language model's layer: forms that they take, what they leave and why."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.graph.builder import GraphBuilder
from ascendsim.passes.fusion.rule import FusionRule
from ascendsim.passes.fusion.rules.language.gates import GateUpSwiGluFusionPass, SwiGluFusionPass
from ascendsim.passes.fusion.rules.language.norms import (
    AddRmsNormDynamicQuantFusionPass,
    AddRmsNormFusionGraphPass,
    AddRmsNormQuantFusionPass,
    RmsNormDynamicQuantFusionPass,
    RmsNormFusionPass,
)
from ascendsim.passes.fusion.rules.language.rotary import (
    ApplyRotaryPosEmbFusionPass,
    RotaryEmbeddingFusionPass,
    RotaryPositionEmbeddingFusionPass,
)
from tests.support.fusing import CHANGED_ALGEBRA, EXACT, Fused, build, context, fused, random
from tests.support.language_graphs import (
    Body,
    added_norm,
    decomposed_norm,
    embedded_pair,
    gate,
    quantised_norm,
    rotated,
    scaled_norm,
    turned_pair,
    two_products,
)

pytestmark = pytest.mark.usefixtures("untimed_tiles")

ROUNDED = 2e-3  # float16


def taken(rule: FusionRule, body: Body, error: float = CHANGED_ALGEBRA, generation: str = "c220") -> Fused:
    result = fused(build(body), rule, generation=generation)
    assert result.counts == {rule.name: (1, 1)}, result.reasons
    assert result.error <= error
    return result


def refused(rule: FusionRule, body: Body, generation: str = "c220") -> str:
    result = fused(build(body), rule, generation=generation)
    matched, effected = result.counts[rule.name]
    assert matched
    assert not effected
    return result.reason


@pytest.mark.parametrize("cast", [False, True])
@pytest.mark.parametrize("square", ["Pow", "Mul"])
@pytest.mark.parametrize("inverse", ["quotient", "reciprocal", "fraction", "power"])
def test_norms_in_all_forms(square: str, inverse: str, cast: bool) -> None:
    result = taken(
        RmsNormFusionPass(), lambda b: decomposed_norm(b, square, inverse, cast), ROUNDED if cast else 1e-5
    )
    assert result.operators == {"Neg": 1, "RMSNormalization": 1}
    node = result.graph.outputs[0].producer
    assert node is not None
    assert (node.attr("axis"), node.attr("epsilon")) == (-1, pytest.approx(1e-3))


def test_a_widened_tensor_may_have_other_readers() -> None:
    def body(b: GraphBuilder) -> Any:
        made = decomposed_norm(b, cast=True)
        return [made, b.op("Neg", next(node.output for node in b.graph.nodes if node.op_type == "Cast"))]

    assert taken(RmsNormFusionPass(), body, ROUNDED).operators["Cast"] == 1


def test_the_norm_takes_its_residual_sum() -> None:
    for handed_on in (True, False):
        result = taken(AddRmsNormFusionGraphPass(), lambda b, on=handed_on: added_norm(b, on))
        assert result.operators["AddRmsNorm"] == 1
        assert not {"Add", "RMSNormalization"} & set(result.operators)


def test_sums_that_the_kernel_does_not_make_stay() -> None:
    rule = AddRmsNormFusionGraphPass()

    def repeated(b: GraphBuilder) -> Any:
        total = b.op("Add", b.input("x", (2, 8)), b.input("y", (1, 8)))
        return b.op("RMSNormalization", total, random(8))

    def narrow(b: GraphBuilder) -> Any:
        total = b.op("Add", b.input("x", (2, 8)), b.input("y", (2, 8)))
        return b.op("RMSNormalization", total, random(1))

    def circular(b: GraphBuilder) -> Any:
        total = b.op("Add", b.input("x", (1, 8)), b.input("y", (1, 8)))
        return b.op("RMSNormalization", total, b.op("Reshape", total, b.constant([8], "shape")))

    assert refused(rule, repeated) == "the sum repeats an operand"
    assert refused(rule, narrow) == "gamma is not one value for each normalised element"
    assert "before and after" in refused(rule, circular)
    assert refused(rule, added_norm, "v100") == "CANN has no such kernel on this chip"
    assert refused(rule, lambda b: added_norm(b, stash_type=11)) == "its statistics are not float32"


@pytest.mark.parametrize("smooth", [False, True])
def test_norms_leave_as_bytes(smooth: bool) -> None:
    one = taken(AddRmsNormDynamicQuantFusionPass(), lambda b: quantised_norm(b, True, smooth), EXACT)
    assert one.operators == {"Neg": 2, "AddRmsNormDynamicQuant": 1}
    two = taken(RmsNormDynamicQuantFusionPass(), lambda b: quantised_norm(b, False, smooth), 1 / 127)
    assert two.operators == {"Neg": 1, "RmsNormDynamicQuant": 1}
    assert taken(AddRmsNormQuantFusionPass(), scaled_norm, EXACT).operators == {
        "Neg": 2,
        "AddRmsNormQuant": 1,
    }
    assert refused(AddRmsNormDynamicQuantFusionPass(), lambda b: quantised_norm(b, True), "m200")


def test_norms_that_others_read_stay_floats() -> None:
    def body(b: GraphBuilder) -> Any:
        made = quantised_norm(b, True)
        norm = next(node for node in b.graph.nodes if node.op_type == "AddRmsNorm")
        return [*made, b.op("Neg", norm.outputs[0])]

    def statistics(b: GraphBuilder) -> Any:
        made = quantised_norm(b, True)
        norm = next(node for node in b.graph.nodes if node.op_type == "AddRmsNorm")
        return [*made, b.op("Neg", norm.outputs[1])]

    assert refused(AddRmsNormDynamicQuantFusionPass(), body).endswith("has a reader outside")
    assert refused(AddRmsNormDynamicQuantFusionPass(), statistics).endswith("has a reader outside")


@pytest.mark.parametrize("form", ["sigmoid", "swish", "glu"])
def test_halves_gate_each_other(form: str) -> None:
    assert taken(SwiGluFusionPass(), lambda b: gate(b, form)).operators == {"MatMul": 1, "SwiGlu": 1}


@pytest.mark.parametrize("form", ["sigmoid", "swish", "glu"])
def test_products_of_gate_and_partner_become_one(form: str) -> None:
    result = taken(GateUpSwiGluFusionPass(), lambda b: two_products(b, form))
    assert result.operators == {"Neg": 1, "MatMul": 1, "SwiGlu": 1}
    product = next(node for node in result.graph.nodes if node.op_type == "MatMul")
    assert product.required(1).static_shape == (6, 16)


def test_products_that_do_not_fit_stay_two() -> None:
    def computed(b: GraphBuilder) -> Any:
        x = b.op("Neg", b.input("x", (3, 6)))
        first, second = (b.op("MatMul", x, b.input(name, (6, 8))) for name in "vw")
        return b.op("Mul", b.op("Swish", first), second)

    def seen(b: GraphBuilder) -> Any:
        made = two_products(b)
        return [made, b.op("Neg", next(n.output for n in b.graph.nodes if n.op_type == "MatMul"))]

    rule = GateUpSwiGluFusionPass()
    assert refused(rule, lambda b: two_products(b, "swish", width=1)) == "the products have different widths"
    assert refused(rule, seen).endswith("has a reader outside")
    assert "SwiGlu" not in fused(build(computed), rule, generation="c220").operators


def test_gates_of_two_tensors_stay_apart() -> None:
    def unequal(b: GraphBuilder) -> Any:
        parts = b.ops("Split", b.input("x", (4, 16)), [8, 8, 0], outputs=3, axis=-1)
        return b.op("Mul", b.op("Swish", parts[0]), parts[1])

    def scaled(b: GraphBuilder) -> Any:
        first, second = b.ops("Split", b.input("x", (4, 16)), outputs=2, axis=-1, num_outputs=2)
        return b.op("Mul", b.op("Swish", first, alpha=1.7), second)

    def apart(b: GraphBuilder) -> Any:
        return b.op("Mul", b.op("Swish", b.input("x", (4, 8))), b.input("y", (4, 8)))

    assert refused(SwiGluFusionPass(), unequal) == "the parts are not two halves"
    assert refused(SwiGluFusionPass(), scaled) == "the gate has a factor"
    assert fused(build(apart), SwiGluFusionPass(), generation="c220").counts in (
        {},
        {"SwiGluFusionPass": (0, 0)},
    )


@pytest.mark.parametrize("slices", [True, False])
def test_rotate_half_is_recognised(slices: bool) -> None:
    result = taken(RotaryPositionEmbeddingFusionPass(), lambda b: rotated(b, slices), EXACT)
    assert result.operators == {"Neg": 1, "RotaryPositionEmbedding": 1}


def test_angles_get_the_rank_of_what_they_turn() -> None:
    def body(b: GraphBuilder) -> Any:
        x = b.input("x", (2, 3, 4))
        first, second = b.ops("Split", x, outputs=2, axis=-1, num_outputs=2)
        partner = b.op("Concat", b.op("Neg", second), first, axis=2)
        return b.op("Add", b.op("Mul", x, random(3, 4)), b.op("Mul", partner, random(3, 4, seed=1)))

    assert taken(RotaryPositionEmbeddingFusionPass(), body, EXACT).operators["Reshape"] == 2


@pytest.mark.parametrize("bounds", [((0, 3), (3, 8)), ((0, 4), (4, 7)), ((1, 4), (4, 8))])
def test_pieces_that_are_no_halves_stay(bounds: Any) -> None:
    def body(b: GraphBuilder) -> Any:
        x = b.input("x", (2, 8))
        first, second = (
            b.op("Slice", x, *(b.constant([item], "bound") for item in (*pair, 1))) for pair in bounds
        )
        partner = b.op("Concat", b.op("Neg", second), first, axis=1)
        size = partner.static_shape[1]
        angles = [random(2, size, seed=seed) for seed in (1, 2)]
        straight = b.op("Mul", x, angles[0]) if size == 8 else b.op("Mul", x, random(2, 8))
        crossed = b.op("Mul", partner, angles[1])
        return b.op("Add", straight, crossed) if size == 8 else [straight, crossed]

    rule = RotaryPositionEmbeddingFusionPass()
    result = fused(build(body), rule, generation="c220")
    assert result.effected(rule.name) == 0
    assert "RotaryPositionEmbedding" not in result.operators


@pytest.mark.parametrize("layout", [1, 3, 4])
@pytest.mark.parametrize("mode", [0, 1])
def test_queries_and_keys_share_a_kernel(layout: int, mode: int) -> None:
    result = taken(ApplyRotaryPosEmbFusionPass(), lambda b: turned_pair(b, layout, mode), EXACT, "c310")
    assert result.operators == {"Neg": 2, "ApplyRotaryPosEmb": 1}
    node = next(node for node in result.graph.nodes if node.op_type == "ApplyRotaryPosEmb")
    assert node.attr("layout") == layout
    heads = 1 if layout in (3, 4) else 2
    assert [tensor.static_shape[heads] for tensor in node.outputs] == [4, 2]  # queries come first


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("places", [True, False])
def test_caches_by_position_become_angles(flat: bool, interleaved: int, places: bool) -> None:
    body = partial(embedded_pair, flat=flat, interleaved=interleaved, places=places)
    result = taken(RotaryEmbeddingFusionPass(), body, EXACT, "c310")
    assert "RotaryEmbedding" not in result.operators
    assert result.operators["ApplyRotaryPosEmb"] == 1


def test_heads_before_positions_are_not_for_every_chip() -> None:
    reason = "the kernel wants positions before heads on this chip"
    assert refused(ApplyRotaryPosEmbFusionPass(), lambda b: turned_pair(b, layout=3)) == reason
    assert refused(RotaryEmbeddingFusionPass(), embedded_pair) == reason
    for layout in (1, 4):
        taken(ApplyRotaryPosEmbFusionPass(), partial(turned_pair, layout=layout), EXACT)
    taken(RotaryEmbeddingFusionPass(), partial(embedded_pair, flat=True), EXACT)


def test_pairs_wait_for_nobody_behind_them() -> None:
    """The second tensor is made of the first one's result: no pair."""

    def body(b: GraphBuilder) -> Any:
        angles = [b.input(name, (2, 3, 1, 8)) for name in ("cos", "sin")]
        x = b.op("RotaryPositionEmbedding", b.input("x", (2, 3, 4, 8)), *angles, domain="ascend")
        return b.op("RotaryPositionEmbedding", b.op("Neg", x), *angles, domain="ascend")

    assert "before and after" in refused(ApplyRotaryPosEmbFusionPass(), body)


def layer(b: GraphBuilder) -> Any:
    """Norm, products, angles and gate of one layer, as a file without any of CANN's operators has them."""
    x, y = b.input("x", (6, 32)), b.input("y", (6, 32))

    def norm(x: Any) -> Any:
        mean = b.op("ReduceMean", b.op("Pow", x, 2.0), b.constant([-1], "axes"))
        root = b.op("Sqrt", b.op("Add", mean, b.constant(np.float32(1e-5))))
        return b.op("Mul", b.op("Div", x, root), random(32, positive=True))

    normed = norm(b.op("Add", x, y))
    made = b.op("MatMul", normed, random(32, 48))
    first, second = b.ops("Split", made, outputs=2, axis=-1, num_outputs=2)
    return b.op("Mul", b.op("Mul", first, b.op("Sigmoid", first)), second)


def test_a_layer_becomes_kernels_when_it_is_compiled() -> None:
    """The norm is recognised first, then takes its sum; float16 values stay near those of the file."""
    model = asim.compile(build(layer), soc="Ascend910B1")
    kinds = [node.op_type for node in model.graph.nodes]
    assert kinds.count("AddRmsNorm") == kinds.count("SwiGlu") == 1
    assert not {"ReduceMean", "Sigmoid", "RMSNormalization"} & set(kinds)
    given = {name: random(6, 32, seed=seed) for seed, name in enumerate("xy")}
    plain = asim.run(asim.compile(build(layer), soc="Ascend910B1", fusion="off"), given, values="float32")
    made = asim.run(model, given)
    np.testing.assert_allclose(made.outputs["out0"], plain.outputs["out0"], rtol=3e-2, atol=3e-2)


def test_heads_of_another_size_are_no_pair() -> None:
    """Even if the same angles turn as much of them."""

    def body(b: GraphBuilder) -> Any:
        caches = [b.constant(random(5, 4, seed=n), "cache") for n in (1, 2)]
        at = b.constant(np.array([[0, 3, 2], [4, 1, 1]]), "places")
        inputs = [b.input(name, (2, 4, 3, size)) for name, size in (("query", 8), ("key", 16))]
        return [b.op("RotaryEmbedding", b.op("Neg", x), *caches, at, rotary_embedding_dim=8) for x in inputs]

    reason = refused(RotaryEmbeddingFusionPass(), body, "c310")
    assert reason == "they differ in more than the number of heads"


def test_flat_heads_whose_number_is_unknown_are_no_pair() -> None:
    """A graph may say so later; without a number no head can be told from the next."""
    graph = build(lambda b: embedded_pair(b, flat=True))
    for node in graph.nodes:
        node.attributes.pop("num_heads", None)
    (match,) = RotaryEmbeddingFusionPass().find(graph, "RotaryEmbeddingFusionPass")
    assert RotaryEmbeddingFusionPass().check(match, context("c310")) == "the number of heads is not known"
