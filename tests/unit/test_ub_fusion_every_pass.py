"""Every UB-fusion pass of tier 1 makes a task of several operators when a model is compiled; those that never
do are named with the reason.

The list of passes is that of the data files, so a pass without an example fails. Where an earlier pass takes
the same operators, that one is switched off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Tensor
from ascendsim.passes.fusion.catalogue import all_facts
from tests.support.fusing import build, random
from tests.unit.test_fusion_every_pass import (
    MAP,
    conv,
    dequantised,
    image,
    int8,
    int8_conv,
    matmul,
    norm,
    quantised,
)

Body = Callable[[GraphBuilder], "Tensor | Sequence[Tensor]"]
# Passes that match and leave the operators apart, with the reason
APART = {
    "MatmulTransdataFusionPass": "it rearranges data",
    "TbeSegmentElemwiseFusionPass": "it has several parts",
}
# Passes that have nothing to match: products are FRACTAL_NZ and what follows them is row-major, so a
# TransData stands between
UNMATCHED = ("MatmulConfusiontransposeUbFusion", "MatmulReduceSumUbFusion")
WANTED = [
    fact.name
    for fact in all_facts("ub")
    if fact.tier == 1 and fact.kind == "FE" and fact.name not in (*APART, *UNMATCHED)
]


def scaled(b: GraphBuilder, x: Tensor) -> Tensor:
    return b.op("AscendDequant", x, random(32, positive=True) / 4000, domain="ascend")


def other(b: GraphBuilder) -> Tensor:
    return b.input("other", (1, 32, 8, 8))


def gated(b: GraphBuilder, x: Tensor) -> Tensor:
    return b.op("Mul", x, b.op("Sigmoid", x))


def batched(b: GraphBuilder) -> Tensor:
    return b.op("MatMul", b.input("x", (3, 32, 64)), b.input("y", (3, 64, 48)))


def residual(b: GraphBuilder) -> Tensor:
    return b.op("Relu", b.op("Add", norm(b, conv(b), training_mode=1)[0], other(b)))


def several(b: GraphBuilder) -> list[Tensor]:
    y = b.op("Relu", conv(b))
    return [b.op("Exp", y), b.op("Softmax", y, axis=1)]


def scattered(b: GraphBuilder) -> Tensor:
    total = b.op(
        "ScatterND",
        b.input("x", (64, 32)),
        b.constant(np.arange(8).reshape(8, 1), "at"),
        b.input("y", (8, 32)),
        reduction="add",
    )
    return b.op("Relu", total)


def diamond(b: GraphBuilder) -> Tensor:
    x = b.op("Exp", b.input("x", (64, 64)))
    return b.op("Add", b.op("Sqrt", b.op("Abs", x)), b.op("Tanh", b.op("Neg", x)))


def products(b: GraphBuilder) -> Tensor:
    x = b.op("MatMulInteger", b.op("Cast", b.input("x", (32, 64)), to=DType.INT8), int8(64, 32))
    return b.op("AscendDequant", x, np.array([0.01], np.float32), domain="ascend")


def transposed(b: GraphBuilder) -> Tensor:
    return b.op("Transpose", b.op("Reshape", matmul(b), b.constant([2, 16, 48], "shape")), perm=(1, 0, 2))


EXAMPLES: dict[str, Body] = {
    "ATbeMatmulElemwiseFusionPass": lambda b: b.op("Exp", matmul(b)),
    "AutomaticUbFusion": diamond,
    "BNUpdateEltwiseFusionPass": lambda b: b.op("Relu", norm(b, conv(b), training_mode=1)[0]),
    "BnupdateEltwiseFusionPass": lambda b: b.op("Relu", norm(b, conv(b), training_mode=1)[0]),
    "FusionVirtualOpSetSwitch": lambda b: [
        b.op("Relu", p) for p in b.ops("Split", image(b, 4, 16), outputs=2, axis=0, num_outputs=2)
    ],
    "TbeBatchMatmulElementWiseFusionPass": lambda b: b.op("Exp", b.op("Abs", batched(b))),
    "TbeConv2DEltwisePass": lambda b: b.op("Add", b.op("Relu", conv(b)), other(b)),
    "TbeConvBnreduceFusionPass": lambda b: norm(b, conv(b), training_mode=1),
    "TbeConvCommonRules0FusionPass": lambda b: b.op("Relu", conv(b)),
    "TbeConvCommonRules2FusionPass": several,
    "TbeConvDequantQuantFusionPass": lambda b: quantised(b, scaled(b, int8_conv(b, pads=(1, 1, 1, 1)))),
    "TbeConvDequantVaddReluFusionPass": lambda b: b.op(
        "Relu", b.op("Add", scaled(b, int8_conv(b, pads=(1, 1, 1, 1))), other(b))
    ),
    "TbeConvDoubleInFusionPass": lambda b: b.op("Relu", b.op("Add", conv(b), other(b))),
    "TbeConvRequantFusionPass": lambda b: quantised(b, dequantised(b)),
    "TbeDepthwiseConvElemwiseFusionPass": lambda b: b.op("Relu", conv(b, channels=16, group=16)),
    "TbeDxElemwisePass": lambda b: b.op("Relu", b.op("ConvTranspose", image(b), random(16, 32, 3, 3))),
    "TbeEltwiseFusionPass": lambda b: b.op("Abs", b.op("Exp", b.input("x", (64, 64)))),
    "TbeEltwiseQuantFusionPass": lambda b: quantised(b, b.op("Relu", b.input("x", MAP))),
    "TbeFullyconnectionElemwiseDequantFusionPass": lambda b: b.op("Relu", matmul(b)),
    "TbeMatmulDequantFusionPass": products,
    "TbeMultiOutputFusionPass": lambda b: (lambda y: [b.op("Abs", b.op("Exp", y)), b.op("Softmax", y)])(
        b.op("Neg", b.input("x", (64, 64)))
    ),
    "TbePool2dQuantFusionPass": lambda b: quantised(
        b, b.op("MaxPool", image(b, 1, 32, 8, 8), kernel_shape=(2, 2), strides=(2, 2))
    ),
    "TbeReduceElemwiseFusionPass": lambda b: b.op(
        "Relu", b.op("ReduceSum", b.input("x", (64, 64)), b.constant([1], "axes"))
    ),
}
CHIPS = {
    name: "Ascend310"
    for name in (
        "TbeConvDequantQuantFusionPass",
        "TbeConvDequantVaddReluFusionPass",
        "TbeEltwiseQuantFusionPass",
    )
}
OFF = {
    "AutomaticUbFusion": ("TbeEltwiseFusionPass", "TbeMultiOutputFusionPass"),
    "BnupdateEltwiseFusionPass": ("BNUpdateEltwiseFusionPass",),
}
LEFT: dict[str, Body] = {
    "MatmulConfusiontransposeUbFusion": transposed,
    "MatmulReduceSumUbFusion": lambda b: b.op("ReduceSum", batched(b), b.constant([0], "axes")),
    "MatmulTransdataFusionPass": matmul,
    "TbeSegmentElemwiseFusionPass": scattered,
}


@pytest.mark.parametrize("name", WANTED)
def test_a_pass_makes_a_task_of_several_operators(name: str) -> None:
    off = ";".join(f"{item}:off" for item in OFF.get(name, ()))
    model = asim.compile(
        build(EXAMPLES[name]),
        soc=CHIPS.get(name, "Ascend310P3"),
        fusion="ub",
        optimization_switch=off or None,
    )
    matched, effected = model.fusion.totals("ub").get(name, (0, 0))
    fired = [record.name for record in model.fusion.scopes]
    assert matched >= effected >= 1, (
        fired,
        [refusal.reason for record in model.fusion.records for refusal in record.refusals],
    )


@pytest.mark.parametrize("name", LEFT)
def test_a_pass_leaves_its_operators_apart(name: str) -> None:
    model = asim.compile(build(LEFT[name]), soc="Ascend310P3", fusion="ub")
    matched, effected = model.fusion.totals("ub").get(name, (0, 0))
    assert effected == 0
    assert (matched == 0) is (name in UNMATCHED)
    reasons = {
        refusal.reason
        for record in model.fusion.records
        for refusal in record.refusals
        if record.name == name
    }
    assert bool(reasons) is (name in APART)
    assert all(APART.get(name, "") in reason for reason in reasons)
    if name in UNMATCHED:
        assert any(
            reader.op_type == "TransData"
            for node in model.graph.nodes
            if "MatMul" in node.op_type
            for reader in node.output.consumers
        )


def test_no_example_is_superfluous() -> None:
    assert [name for name in (*EXAMPLES, *CHIPS, *OFF) if name not in WANTED] == []
    assert set(LEFT) == {*APART, *UNMATCHED}
