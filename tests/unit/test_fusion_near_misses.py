"""Every graph-fusion rule on the graph that it is for and on all graphs that differ from it in one thing.

Laws: whatever a rule does, values stay, the graph stays valid, an order that control edges ask for stays, and
a match that is left has a reason. What each rule does is a golden text (tests/golden/fusion_rules): what is
new in the graph after it, then what comes of each change. A legitimate reason to renew one is a rule that is
meant to accept or refuse something else; read every change that moves from one group to another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.graph.text import to_text
from ascendsim.graph.verify import verify
from ascendsim.passes.fusion.engine import run_rules
from ascendsim.passes.fusion.report import FusionReport
from ascendsim.passes.fusion.rule import FusionRule
from ascendsim.passes.fusion.rules import all_rules
from ascendsim.passes.fusion.rules.json_rules import JsonRule
from tests.support.evaluate import Known
from tests.support.fusing import build, context, difference, fused
from tests.support.gate import slow
from tests.support.language_graphs import LANGUAGE_FORMS
from tests.support.near_misses import (
    control_edges,
    has_values,
    near_misses,
    operators_changed,
    order_is_kept,
    sorted_outcomes,
)
from tests.unit.test_fusion_every_pass import (
    CHIPS,
    SETTINGS,
    branches,
    conv,
    dequantised,
    example,
    image,
    int8_conv,
    many,
    norm,
    parts,
    quantised,
    random,
)
from tests.unit.test_fusion_rules_elementwise import erf_gelu, hard_swish, tanh_gelu
from tests.unit.test_fusion_rules_normalisation import onnx_norm, tensorflow_norm

Golden = Callable[[str, str], None]
Body = Callable[[GraphBuilder], "Tensor | Sequence[Tensor]"]
GENERATIONS = {"Ascend310": "v100", "Ascend910B1": "c220", "Ascend310P3": "m200"}
ALL_RULES = {rule.name: rule for rule in all_rules()}
OWN_RULES = [name for name, rule in ALL_RULES.items() if not isinstance(rule, JsonRule)]
# Of the rules of CANN's table, which share all their code, those that differ most in what else must hold
TABLE_RULES = ["ClipFusionRule0", "LayerNormGradFusionRule", "SquareSumV1"]
BEFORE = {  # rules whose results another one takes
    "LayerNormGradFusionPass": "LayerNormGradFusionRule",
    "HostBNFusionPass": "BatchNormBnInferFusionPass",
    "DeleteNoConstFolding": "TfTagNoConstFoldingFusionPass",
    "FIXPIPEAPREQUANTFUSIONPASS": "FixPipeAbilityProcessPass",
    "FIXPIPEFUSIONPASS": "FixPipeAbilityProcessPass",
}
# Rules for graphs that only a compilation makes, with formats and device types (test_fusion_rules_forms)
ON_DEVICE = ("CubeTransFixpipeFusionPass", "ForceFp16CastFusionPass")


def swish(b: GraphBuilder, scaled: bool) -> Tensor:
    x = b.input("x", (4, 16))
    return b.op("Mul", b.op("Sigmoid", b.op("Mul", x, b.constant(np.float32(1.5))) if scaled else x), x)


def gemm(b: GraphBuilder, *third: int, **attributes: float) -> Tensor:
    return b.op("Gemm", b.input("x", (8, 6)), random(8, 5), random(*third, seed=2), transA=1, **attributes)


def concatenated(b: GraphBuilder, axis: int) -> Tensor:
    """Two dequantised convolutions, one with a Relu, joined and quantised."""
    first, second = dequantised(b), b.graph.nodes[0]
    other = b.op(
        "AscendDequant",
        b.op("QuantConv", *second.inputs, domain="ascend"),
        random(32, positive=True) / 4000,
        domain="ascend",
    )
    return quantised(b, b.op("Concat", first, other, axis=axis))


def gradient_of_the_activation(b: GraphBuilder) -> list[Tensor]:
    y = b.op("Relu", b.input("x", (1, 4, 2, 2)))
    return [y, b.op("ReluGrad", b.op("Exp", y), y, domain="ascend")]


def padding(b: GraphBuilder, channels: int, mode: str = "constant", value: float | None = None) -> Tensor:
    pads = b.op(
        "Pad", image(b), [0, 0, 1, 2, 0, 0, 0, 1], None if value is None else np.float32(value), mode=mode
    )
    return conv(b, pads, channels=channels, pads=(0, 0, 0, 0), group=16 if channels == 16 else 1)


# Further forms of what a rule takes
FORMS: dict[str, tuple[str, Body]] = {
    "ABiasaddConv with one number": (
        "TBEConvAddFusion",
        lambda b: b.op("Add", conv(b), b.constant(np.float32(2))),
    ),
    "AConv2dMul of volumes": (
        "AConv2dMulFusion",
        lambda b: b.op(
            "Mul", b.op("Conv", b.input("x", (1, 4, 3, 3, 3)), random(6, 4, 2, 2, 2)), random(6, 1, 1, 1)
        ),
    ),
    "ConvScale of Caffe": (
        "ConvScaleFusionPass",
        lambda b: b.op("Scale", conv(b), random(32), random(32, seed=2), domain="ascend"),
    ),
    "ConvBatchnorm depthwise": (
        "ConvBatchnormFusionPass",
        lambda b: norm(b, conv(b, channels=16, group=16, bias=False)),
    ),
    "Gelu with the half at the factor": ("GeluFusionPass", lambda b: tanh_gelu(b, "half_at_factor")),
    "Gelu with the half outside": ("GeluONNXFusionPass", lambda b: erf_gelu(b, "half_outside")),
    "Swish": ("SwishFusionPass", lambda b: swish(b, scaled=False)),
    "Swish with a factor": ("SwishFusionPass", lambda b: swish(b, scaled=True)),
    "HardSwish": ("HardSwishFusionPass", lambda b: hard_swish(b, "hard_sigmoid")),
    "HardSwish as a gate": ("HardSwishFusionPass", lambda b: hard_swish(b, "gate")),
    "HardSwish as a product": ("HardSwishFusionPass", lambda b: hard_swish(b, "product")),
    "LayerNorm of ONNX without factors": ("LayerNormONNXFusionPass", lambda b: onnx_norm(b, "plain")),
    "LayerNorm of ONNX with a Cast": ("LayerNormONNXFusionPass", lambda b: onnx_norm(b, "cast")),
    "LayerNorm over two axes": ("LayerNormONNXFusionPass", lambda b: onnx_norm(b, over=(1, 2), gamma=(5, 8))),
    "LayerNorm of TensorFlow": (
        "LayerNormFusionPass",
        lambda b: tensorflow_norm(b, shared=False, product=True),
    ),
    "Gemm with both factors": ("GemmToMatmulFusionPass", lambda b: gemm(b, 5, alpha=0.5, beta=2.0)),
    "Gemm with a matrix": ("GemmToMatmulFusionPass", lambda b: gemm(b, 6, 5)),
    "Gemm with bias": (
        "MatMulBiasAddFusionPass",
        lambda b: b.op("Add", b.op("Gemm", b.input("x", (8, 6)), random(8, 5), transA=1), random(5)),
    ),
    "a vector times matrices": (
        "BatchMatMulV2ReshapeFusionPass",
        lambda b: b.op("MatMul", b.input("x", (3, 6, 8)), b.input("y", (8,))),
    ),
    "Concat of dequantised parts": ("V200RequantFusionPass", lambda b: concatenated(b, 1)),
    "Relu whose gradient depends on it": ("DreluFusionPass", gradient_of_the_activation),
    "Pad of unequal sides": ("PadConv2dFusionPass", lambda b: padding(b, 32)),
    "Pad with a value": ("PadConv2dFusionPass", lambda b: padding(b, 32, value=0.0)),
    "Concat of 22": ("ZConcatExt2FusionPass", lambda b: many(b, 22)),
    "Concat of 64": ("ZConcatExt2FusionPass", lambda b: many(b, 64)),
    "Split in 64": ("ZSplitVDFusionPass", lambda b: parts(b, 64)),
    "AveragePool with steps": (
        "AvgPoolFusionPass",
        lambda b: b.op(
            "AveragePool",
            image(b),
            kernel_shape=(2, 3),
            strides=(2, 1),
            pads=(0, 1, 1, 1),
            count_include_pad=1,
        ),
    ),
    "mean of several axes": (
        "AReduceMeanFusionPass",
        lambda b: b.op(
            "Relu", b.op("ReduceMean", image(b, 4, 1, 16, 1), b.constant([1, -1], "axes"), keepdims=1)
        ),
    ),
    **{name: (rule, body) for name, (rule, body) in LANGUAGE_FORMS.items()},
    "convolutions of two sizes": ("ASplitConv2dConcatPass", lambda b: branches(b, (3, 5))),
    "a convolution of groups": (
        "ConvToFullyConnectionFusionPass",
        lambda b: conv(b, size=8, pads=(0, 0, 0, 0), group=2),
    ),
    "weights and a bias of TensorFlow": (
        "TfMergeWeightQuantFusionPass",
        lambda b: b.op(
            "Add",
            int8_conv(
                b,
                b.op(
                    "AscendWeightQuant",
                    np.ones((32, 16, 3, 3), np.int8),
                    np.ones(1, np.int8),
                    domain="ascend",
                ),
            ),
            np.arange(32, dtype=np.int32).reshape(32, 1, 1),
        ),
    ),
}
CASES: dict[str, tuple[str, Body | None]] = {
    name: (name, None)
    for name in (*OWN_RULES, *TABLE_RULES)
    if not name.endswith("SwishFusionPass") and name not in ON_DEVICE
}


def outcome(rule: FusionRule, graph: Graph, generation: str, known: Known, **options: object) -> str:
    """What a rule does with a graph, in words; asserts the laws."""
    after, report = copy_graph(graph), FusionReport()
    run_rules(after, [rule], context(generation, **options), report)
    matched, effected = report.totals("graph").get(rule.name, (0, 0))
    reasons = [refusal.reason for record in report.records for refusal in record.refusals]
    assert len(reasons) == matched - effected
    assert all(reasons)
    if not effected:
        assert to_text(after) == to_text(graph)
        return f"refused: {'; '.join(sorted(set(reasons)))}" if matched else "no match"
    verify(after)
    taken = {name for record in report.records for names in record.fused for name in names}
    assert order_is_kept(graph, after, taken)
    if has_values(graph):
        coarse = any(tensor.dtype is DType.FLOAT16 for tensor in graph.tensors.values())
        assert difference(graph, after, known=known) < (2e-3 if coarse else 1e-4)
    words = [operators_changed(graph, after), *(f"left: {reason}" for reason in sorted(set(reasons)))]
    edges = control_edges(after)
    return "; ".join([*words, edges] if edges else words)


# One part more than the rule's own example has: as many changes again, and each of a graph of 64 parts
LONG = ("Concat of 64", "Split in 64")


@pytest.mark.parametrize("name", [*CASES, *(name for name in FORMS if name not in LONG), *slow(*LONG)])
def test_what_a_rule_asks_for(golden: Golden, name: str) -> None:
    rule_name, body = {**CASES, **FORMS}[name]
    rule, options = ALL_RULES[rule_name], SETTINGS.get(rule_name, {}).get("options", {})
    generation = GENERATIONS[CHIPS.get(rule_name, "Ascend310")]
    graph = example(rule_name) if body is None else build(body)
    if rule_name in BEFORE:
        graph = fused(graph, ALL_RULES[BEFORE[rule_name]], generation=generation).graph
    before, after = (
        to_text(item).splitlines()
        for item in (graph, fused(graph, rule, generation=generation, **options).graph)
    )
    made = "\n".join(line.strip() for line in after if line not in before)
    known = Known()
    outcomes = [
        (label, outcome(rule, variant, generation, known, **options))
        for label, variant in near_misses(graph, known=known)
    ]
    assert outcomes[0][0] == "as it is"
    golden(f"fusion_rules/{name.replace(' ', '_')}.txt", f"{made}\n\n{sorted_outcomes(outcomes)}")
