"""Quantisation passes and the chip's quantisation operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Tensor
from ascendsim.ops import default_opset
from ascendsim.passes.fusion.rule import FusionRule
from ascendsim.passes.fusion.rules.conv.concat_conv import ConvConcatFusionPass
from ascendsim.passes.fusion.rules.quant.concat_quant import ConcatQuantFusionPass
from ascendsim.passes.fusion.rules.quant.quant_conv import Conv2DQuantProcessFusionPass
from ascendsim.passes.fusion.rules.quant.quant_requant import V200NotRequantFusionPass, V200RequantFusionPass
from ascendsim.passes.fusion.rules.quant.quant_weights import (
    DeleteNoConstFolding,
    TfMergeSubFusionPass,
    TfMergeWeightQuantFusionPass,
    TfTagNoConstFoldingFusionPass,
)
from ascendsim.passes.rewriting.folding import fold
from tests.support.evaluate import evaluate
from tests.support.fusing import EXACT, Fused, build, fused, random
from tests.support.single_node import make_node, run

REQUANT, NOT_REQUANT = V200RequantFusionPass(), V200NotRequantFusionPass()


def integers(*shape: int, seed: int = 0, low: int = -100, high: int = 100, dtype: Any = np.int8) -> Any:
    return np.random.default_rng([seed, *shape]).integers(low, high, shape).astype(dtype)


def scales(count: int = 8, seed: int = 0) -> Any:
    return (random(count, seed=seed, positive=True) / 4000).astype(np.float32)


def chain(
    b: GraphBuilder,
    x: Tensor,
    relu: bool = True,
    offset: int = 0,
    channels: int = 8,
    seed: int = 0,
    bias: bool = True,
) -> Tensor:
    """Int8 convolution, dequantisation, Relu."""
    operands = [
        integers(channels, x.static_shape[1], 3, 3, seed=seed),
        integers(channels, dtype=np.int32) if bias else None,
    ]
    acc = b.op("QuantConv", x, *operands, domain="ascend", pads=(1, 1, 1, 1), offset_x=offset)
    y = b.op("AscendDequant", acc, scales(channels, seed), domain="ascend")
    return b.op("Relu", y) if relu else y


def int8_input(b: GraphBuilder) -> Tensor:
    return b.input("x", (2, 4, 6, 6), DType.INT8)


def quantised(b: GraphBuilder, x: Tensor, offset: float = 3.0) -> Tensor:
    return b.op("AscendQuant", x, domain="ascend", scale=16.0, offset=offset)


def refused(body: Any, rule: FusionRule, generation: str = "m200") -> str:
    graph = build(body)
    result = fused(graph, rule, generation=generation)
    assert result.effected(rule.name) == 0
    assert len(result.graph) == len(graph)
    return result.reason


# --------------------------------------------------------------------------------------------------------- op


def test_quantise_rounds_ties_to_even_and_saturates() -> None:
    (y,) = run(
        "AscendQuant",
        [np.array([0.25, 0.75, 1.25, -0.25, 100, -100], np.float32)],
        domain="ascend",
        scale=2.0,
        offset=0.0,
    )
    np.testing.assert_array_equal(y, [0, 2, 2, 0, 127, -128])
    (shifted,) = run(
        "AscendQuant", [np.array([0.25, -1], np.float16)], domain="ascend", scale=2.0, offset=5.0
    )
    np.testing.assert_array_equal(shifted, [6, 3])  # round(0.5 + 5) is even


def test_round_trip_errs_by_half_a_step() -> None:
    x = random(500) * 0.3
    (q,) = run("AscendQuant", [x], domain="ascend", scale=100.0, offset=0.0)
    (y,) = run(
        "AscendDequant", [q.astype(np.int32).reshape(1, -1), np.array([0.01], np.float32)], domain="ascend"
    )
    np.testing.assert_allclose(y.reshape(-1), x, atol=0.005 + 1e-6)


@pytest.mark.parametrize("prepared", [False, True])
def test_dequantise_by_channel(prepared: bool) -> None:
    acc, scale = integers(2, 8, 3, 3, dtype=np.int32, low=-30000, high=30000), scales()
    held = scale.view(np.uint32).astype(np.uint64) if prepared else scale
    (y,) = run("AscendDequant", [acc, held], domain="ascend", relu_flag=1, dtype=DType.FLOAT16)
    wanted = np.maximum(acc.astype(np.float32) * scale.reshape(-1, 1, 1), 0).astype(np.float16)
    np.testing.assert_array_equal(y, wanted)
    with pytest.raises(GraphError, match="int32 sums"):
        make_node("AscendDequant", [acc.astype(np.float32), scale], domain="ascend")


@pytest.mark.parametrize("folded", [0, 1])
def test_int8_convolution_equals_the_sum_over_shifted_integers(folded: int) -> None:
    x, w, bias = integers(2, 4, 5, 5), integers(6, 2, 3, 3, seed=1), integers(6, dtype=np.int32)
    (y,) = run(
        "QuantConv",
        [x, w, bias],
        domain="ascend",
        group=2,
        pads=(1, 1, 1, 1),
        offset_x=7,
        offset_in_bias=folded,
    )
    shifted = np.pad(x.astype(np.int64) - 7, ((0, 0), (0, 0), (1, 1), (1, 1)))
    image = (
        np.pad(x.astype(np.int64), ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=7) if folded else shifted
    )
    for n, m, i, j in np.ndindex(y.shape):
        group = image[n, m // 3 * 2 : m // 3 * 2 + 2, i : i + 3, j : j + 3]
        assert y[n, m, i, j] == (group * w[m]).sum() + bias[m]


# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relu", [False, True])
def test_dequant_and_quant_become_requant(relu: bool) -> None:
    graph = build(lambda b: quantised(b, chain(b, b.input("x", (2, 4, 6, 6), DType.INT8), relu)))
    result = fused(graph, REQUANT, generation="m200")
    assert result.operators == {"QuantConv": 1, "AscendRequant": 1}
    _differ_by_one_at_most(graph, result)


def test_requant_through_a_concat() -> None:
    def body(b: GraphBuilder) -> Tensor:
        x = b.input("x", (2, 4, 6, 6), DType.INT8)
        return quantised(b, b.op("Concat", chain(b, x), chain(b, x, relu=False, seed=1), axis=1))

    graph = build(body)
    result = fused(graph, REQUANT, generation="m200")
    assert result.operators == {"QuantConv": 2, "AscendRequant": 2, "Concat": 1}
    assert [node.attr("relu_flag") for node in result.graph.nodes if node.op_type == "AscendRequant"] == [
        1,
        0,
    ]
    _differ_by_one_at_most(graph, result)


def _differ_by_one_at_most(graph: Any, result: Fused) -> None:
    inputs = {tensor.name: integers(*tensor.static_shape) for tensor in graph.inputs}
    (old,), (new,) = (evaluate(item, default_opset(), inputs) for item in (graph, result.graph))
    gap = np.abs(old.astype(np.int32) - new.astype(np.int32))
    assert gap.max() <= 1
    assert (gap > 0).mean() < 0.01
    assert len(np.unique(old)) > 20  # not all saturated


def test_refusals_of_requant() -> None:
    assert (
        refused(lambda b: quantised(b, chain(b, int8_input(b))), REQUANT, "v100")
        == "the chip has no such requantisation (ISA V200)"
    )

    def variable(b: GraphBuilder) -> Tensor:
        return quantised(
            b,
            b.op(
                "AscendDequant",
                b.input("acc", (1, 8, 2, 2), DType.INT32),
                b.input("s", (8,)),
                domain="ascend",
            ),
        )

    def shared(b: GraphBuilder) -> list[Tensor]:
        data = int8_input(b)
        left, right = chain(b, data), chain(b, data, seed=1)
        return [quantised(b, b.op("Concat", left, right, axis=1)), b.op("Abs", left)]

    assert refused(variable, REQUANT) == "a scale is not constant"
    assert refused(shared, REQUANT) == "a dequantised tensor has other readers"


def test_scales_are_prepared_and_relus_taken_in() -> None:
    graph = build(lambda b: chain(b, b.input("x", (2, 4, 6, 6), DType.INT8)))
    result = fused(graph, NOT_REQUANT, generation="m200")
    assert result.operators == {"QuantConv": 1, "AscendDequant": 1}
    (dequant,) = (node for node in result.graph.nodes if node.op_type == "AscendDequant")
    assert dequant.required(1).dtype is DType.UINT64
    assert dequant.attr("relu_flag") == 1
    assert result.error == EXACT


def test_refusals_of_prepared_scales() -> None:
    def body(b: GraphBuilder) -> Tensor:
        return chain(b, int8_input(b), relu=False)

    assert refused(body, NOT_REQUANT, "m300") == "the chip has no such dequantisation (ISA V200, V210)"
    assert refused(lambda b: quantised(b, body(b)), NOT_REQUANT) == "the result is quantised again"
    variable = lambda b: b.op(
        "AscendDequant", b.input("a", (1, 8, 2, 2), DType.INT32), b.input("s", (8,)), domain="ascend"
    )
    assert refused(variable, NOT_REQUANT) == "the scale is not constant"


# ------------------------------------------------------------------------------------------------- weights an


@pytest.mark.parametrize("bias", [False, True])
def test_offsets_move_into_weights_and_bias(bias: bool) -> None:
    def body(b: GraphBuilder) -> Tensor:
        weight = b.op(
            "AscendWeightQuant",
            integers(6, 4, 3, 3, low=-60, high=60),
            integers(1, low=-9, high=9),
            domain="ascend",
        )
        given = integers(6, dtype=np.int32) if bias else None
        return b.op(
            "QuantConv",
            b.input("x", (2, 4, 6, 6), DType.INT8),
            weight,
            given,
            domain="ascend",
            offset_x=5,
            pads=(1, 0, 2, 1),
        )

    result = fused(build(body), Conv2DQuantProcessFusionPass())
    assert result.operators == {"QuantConv": 1}
    assert result.graph.nodes[0].attr("offset_in_bias") == 1
    changed = result.graph.nodes[0].required(2).constant
    assert changed is not None
    assert changed.array().any()


def test_offset_correction_keeps_every_sum() -> None:
    """By definition: the operator that holds the correction in its bias, fed with padding of the offset,
    gives the same integers."""
    x, w, bias = integers(1, 3, 5, 5), integers(4, 3, 3, 3), integers(4, dtype=np.int32)
    (before,) = run("QuantConv", [x, w, bias], domain="ascend", offset_x=-11, pads=(1, 1, 1, 1))
    corrected = (bias + 11 * w.reshape(4, -1).sum(axis=1, dtype=np.int64)).astype(np.int32)
    (after,) = run(
        "QuantConv", [x, w, corrected], domain="ascend", offset_x=-11, offset_in_bias=1, pads=(1, 1, 1, 1)
    )
    np.testing.assert_array_equal(before, after)


def test_marked_weights_stay_and_the_bias_knows_their_offset() -> None:
    """The host corrects the bias by the sums of what AscendWeightQuant will make of the weights."""

    def body(b: GraphBuilder) -> Tensor:
        return int8_layer(b, b.op("AscendWeightQuant", integers(6, 4, 3, 3), integers(1), domain="ascend"))

    tagged = fused(build(body), TfTagNoConstFoldingFusionPass())
    prepared = fused(tagged.graph, Conv2DQuantProcessFusionPass())
    assert prepared.operators["AscendWeightQuant"] == 1
    released = fused(prepared.graph, DeleteNoConstFolding())
    assert "AscendWeightQuant" not in released.operators
    at_once = fused(build(body), Conv2DQuantProcessFusionPass())
    biases = [
        node.required(2).constant
        for result in (released, at_once)
        for node in result.graph.nodes
        if node.op_type == "QuantConv"
    ]
    assert biases[0] is not None
    assert biases[1] is not None
    np.testing.assert_array_equal(biases[0].array(), biases[1].array())


def int8_layer(b: GraphBuilder, weight: Tensor) -> Tensor:
    x = quantised(b, b.input("x", (1, 4, 6, 6)))
    sums = b.op("QuantConv", x, weight, integers(6, dtype=np.int32), domain="ascend", offset_x=5)
    return b.op("AscendDequant", sums, scales(6), domain="ascend")


@pytest.mark.parametrize(("bias", "number"), [(False, 1), (True, 0)])
def test_chains_of_quantised_weights_have_canns_pattern_names(bias: bool, number: int) -> None:
    def body(b: GraphBuilder) -> Tensor:
        x = quantised(b, b.input("x", (1, 4, 6, 6)))
        weight = b.op("AscendWeightQuant", integers(6, 4, 3, 3), integers(1), domain="ascend")
        sums = b.op("QuantConv", x, weight, domain="ascend")
        sums = b.op("Add", sums, integers(6, 1, 1, dtype=np.int32)) if bias else sums
        return b.op("AscendDequant", sums, scales(6), domain="ascend")

    model = asim.compile(build(body), "Ascend910B1", fusion="graph")
    effects = {record.pattern: record.effected for record in model.fusion.records if record.effected}
    assert effects[f"tfTagNoConstFoldingFusion{number}"] == 1
    assert ("tfMergeWeightQuantFusion1" in effects) == bias
    assert effects["deleteNoConstFoldingFusion0"] == 1


def test_refusals_of_preparation() -> None:
    rule = Conv2DQuantProcessFusionPass()
    plain = lambda b: b.op("QuantConv", int8_input(b), integers(6, 4, 3, 3), domain="ascend")
    assert refused(plain, rule) == "there is nothing left to prepare"
    variable = lambda b: b.op(
        "QuantConv", int8_input(b), b.input("w", (6, 4, 3, 3), DType.INT8), domain="ascend", offset_x=1
    )
    assert refused(variable, rule) == "the filter is not constant"
    biased = lambda b: b.op(
        "QuantConv",
        int8_input(b),
        integers(6, 4, 3, 3),
        b.input("b", (6,), DType.INT32),
        domain="ascend",
        offset_x=1,
    )
    assert refused(biased, rule) == "the bias is not constant"


def test_subtractions_join_weights() -> None:
    def body(b: GraphBuilder, cast: bool) -> Tensor:
        weight: Any = b.constant(integers(6, 4, 3, 3) if cast else random(6, 4, 3, 3), "w")
        weight = b.op("Cast", weight, to=DType.FLOAT32) if cast else weight
        return b.op("Conv", b.input("x", (1, 4, 6, 6)), b.op("Sub", weight, random(6, 1, 1, 1)))

    for graph in (build(lambda b: body(b, False)), build(lambda b: body(b, True))):
        result = fused(graph, TfMergeSubFusionPass())
        assert result.operators == {"Conv": 1}
        assert result.error == EXACT
    growing = lambda b: b.op(
        "Conv", b.input("x", (1, 4, 6, 6)), b.op("Sub", random(1, 4, 3, 3), random(6, 1, 1, 1))
    )
    assert refused(growing, TfMergeSubFusionPass()) == "the weights are not a static array of floats"


def weight_quantised(b: GraphBuilder, second: Any) -> Tensor:
    w = b.op(
        "AscendWeightQuant",
        integers(6, 4, 3, 3, low=-50, high=50),
        integers(1, low=-9, high=9),
        domain="ascend",
    )
    return b.op("QuantConv", b.input("x", (1, 4, 6, 6), DType.INT8), b.op("Sub", w, second), domain="ascend")


def test_two_offsets_of_weights_become_one() -> None:
    result = fused(
        build(lambda b: weight_quantised(b, integers(6, 1, 1, 1, low=-9, high=9))),
        TfMergeWeightQuantFusionPass(),
    )
    assert result.operators == {"AscendWeightQuant": 1, "QuantConv": 1}
    assert result.error == EXACT
    far = lambda b: weight_quantised(b, integers(6, 1, 1, 1, low=100, high=127))
    assert refused(far, TfMergeWeightQuantFusionPass()) == "a difference leaves int8"


def biased(b: GraphBuilder, summand: Any, given: Any = None) -> Tensor:
    w = b.op("AscendWeightQuant", integers(6, 4, 3, 3, low=-50, high=50), integers(1), domain="ascend")
    return b.op(
        "Add", b.op("QuantConv", b.input("x", (1, 4, 6, 6), DType.INT8), w, given, domain="ascend"), summand
    )


def test_bias_behind_an_int8_convolution() -> None:
    rule = TfMergeWeightQuantFusionPass()
    result = fused(build(lambda b: biased(b, integers(1, 6, 1, 1, dtype=np.int32))), rule)
    assert result.operators == {"AscendWeightQuant": 1, "QuantConv": 1}
    assert result.error == EXACT
    row = integers(6, 1, 1, dtype=np.int32)
    assert (
        refused(lambda b: biased(b, row, integers(6, dtype=np.int32)), rule)
        == "the convolution has a bias already"
    )
    assert (
        refused(lambda b: biased(b, integers(1, dtype=np.int32)), rule)
        == "the summand is not one int32 value a channel"
    )


def test_marks_keep_quantisers_from_folding() -> None:
    graph = build(lambda b: weight_quantised(b, integers(1)))
    tagged = fused(graph, TfTagNoConstFoldingFusionPass())
    assert tagged.effected("TfTagNoConstFoldingFusionPass") == 1
    for state, folds in ((graph, True), (tagged.graph, False)):
        (node,) = (item for item in state.nodes if item.op_type == "AscendWeightQuant")
        assert (fold(node, default_opset().get(node)) is not None) is folds
    released = fused(tagged.graph, DeleteNoConstFolding())
    assert released.effected("DeleteNoConstFolding") == 1
    assert "AscendWeightQuant" not in released.operators  # it is computed once, like other constants
    assert released.error == EXACT
    assert refused(lambda b: weight_quantised(b, integers(1)), DeleteNoConstFolding()) == "it is not marked"


# ------------------------------------------------------------------------------------------------------------


def two_maps(b: GraphBuilder, channels: int = 32, axis: int = 1) -> Tensor:
    x = b.input("x", (2, channels, 6, 6))
    return b.op("Concat", b.op("Relu", x), b.op("Tanh", x), axis=axis)


@pytest.mark.parametrize("readers", [1, 2])
def test_quantisation_moves_before_a_concat(readers: int) -> None:
    def body(b: GraphBuilder) -> Tensor:
        joined = two_maps(b)
        results = [
            b.op(
                "AscendDequant",
                b.op("Cast", quantised(b, joined), to=DType.INT32),
                scales(1),
                domain="ascend",
            )
            for _ in range(readers)
        ]
        return results[0] if readers == 1 else b.op("Add", *results)

    result = fused(build(body), ConcatQuantFusionPass())
    assert result.operators["AscendQuant"] == 2
    assert result.effected("ConcatQuantFusionPass") == 1
    assert result.error == EXACT


def test_refusals_of_quantisation_before_a_concat() -> None:
    def differing(b: GraphBuilder) -> list[Tensor]:
        joined = two_maps(b)
        return [quantised(b, joined), quantised(b, joined, offset=4.0)]

    def equal(b: GraphBuilder) -> list[Tensor]:
        joined = two_maps(b)
        return [quantised(b, joined), quantised(b, joined)]

    rule = ConcatQuantFusionPass()
    assert refused(differing, rule) == "a reader of the concatenation quantises otherwise, or not at all"
    assert refused(equal, rule) == "several outputs of the graph would become one"
    assert (
        refused(lambda b: quantised(b, two_maps(b, 48)), rule)
        == "the channels of a part are no multiple of 32"
    )
    assert fused(build(lambda b: quantised(b, two_maps(b, 48, axis=2))), rule).effected(rule.name) == 1


# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chip", ["Ascend310", "Ascend310P3"])
def test_int8_network_runs_fused_and_unfused(chip: str) -> None:
    def body(b: GraphBuilder) -> Tensor:
        x = b.op("AscendQuant", b.input("x", (1, 32, 12, 12)), domain="ascend", scale=30.0, offset=3.0)
        left, right = (quantised(b, chain(b, x, channels=32, seed=seed, offset=3)) for seed in (0, 1))
        last = chain(b, b.op("Concat", left, right, axis=1), channels=32, seed=2, offset=3)
        return b.op("Add", last, 1.0)

    graph = build(body)
    inputs = {"x": random(1, 32, 12, 12)}
    plain, joined = (asim.compile(graph, chip, fusion=level) for level in ("off", "graph"))
    totals = joined.fusion.totals("graph")
    assert totals["Conv2DQuantProcessFusionPass"][1] == 3
    assert totals.get("V200RequantFusionPass", (0, 0))[1] == (2 if chip == "Ascend310P3" else 0)
    assert totals[ConvConcatFusionPass.name] == (1, 1)
    before, after = (asim.run(model, inputs) for model in (plain, joined))
    assert len(joined.program.tasks) < len(plain.program.tasks)
    assert after.duration_us < before.duration_us
    largest = float(np.abs(before.outputs["out0"]).max())
    np.testing.assert_allclose(after.outputs["out0"], before.outputs["out0"], atol=0.02 * largest)
