"""Convolutions over the whole input become fully connected layers; the operator itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.errors import GraphError
from ascendsim.machine import run as run_machine
from ascendsim.passes.fusion.engine import run_rules
from ascendsim.passes.fusion.report import FusionReport
from ascendsim.passes.fusion.rules.conv.conv_fully_connected import ConvToFullyConnectionFusionPass
from tests.support.fusing import CHANGED_ALGEBRA, build, context, fused, random
from tests.support.single_node import make_node, run

RULE = ConvToFullyConnectionFusionPass()


def covering(
    n: int = 3, c: int = 20, m: int = 32, size: int = 4, bias: bool = True, **attributes: Any
) -> Any:
    operands = (random(m, c, size, size), random(m) if bias else None)
    return lambda b: b.op("Relu", b.op("Conv", b.input("x", (n, c, size, size)), *operands, **attributes))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("size", [1, 4])
def test_covering_convolution_becomes_a_product(bias: bool, size: int) -> None:
    result = fused(build(covering(size=size, bias=bias, strides=(2, 2))), RULE)
    assert result.operators == {"FullyConnection": 1, "Relu": 1}
    assert result.error <= CHANGED_ALGEBRA


def test_refusals() -> None:
    def reason(body: Any, generation: str = "v100") -> str:
        result = fused(build(body), RULE, generation=generation)
        assert result.effected(RULE.name) == 0
        return result.reason

    assert (
        reason(lambda b: b.op("Conv", b.input("x", (1, 4, 5, 5)), random(6, 4, 3, 3)))
        == "the filter is not as large as the input"
    )
    assert reason(covering(pads=(1, 1, 1, 1), dilations=(1, 1))) == "the convolution pads"
    assert reason(covering(auto_pad="SAME_UPPER")) == "the convolution pads"
    assert (
        reason(lambda b: b.op("Conv", b.input("x", (1, 4, 1, 1)), random(6, 2, 1, 1), group=2))
        == "the convolution has groups"
    )
    assert reason(covering(m=30), "c220") == "the filters are no multiple of 16"

    def silu(b: Any) -> Any:
        conv = b.op("Conv", b.input("x", (1, 4, 1, 1)), random(6, 4, 1, 1))
        return b.op("Mul", conv, b.op("Sigmoid", conv))

    assert reason(silu) == "the convolution has several readers"
    quantised = lambda b: b.op(
        "QuantizeLinear",
        b.op("Conv", b.input("x", (1, 4, 1, 1)), random(6, 4, 1, 1)),
        0.1,
        np.zeros((), np.int8),
    )
    assert reason(quantised) == "the result is quantised"


def test_yolov5s_matches_all_convolutions_and_changes_none() -> None:
    report = FusionReport()
    run_rules(asim.load("tests/data/models/yolov5s.onnx"), [RULE], context(), report)
    assert report.totals("graph") == {RULE.name: (60, 0)}


def test_operator_equals_the_product_in_float16_with_one_rounding() -> None:
    x, w, bias = (
        random(2, 5, 3, 3, dtype=np.float16),
        random(7, 5, 3, 3, dtype=np.float16),
        random(7, dtype=np.float16),
    )
    (result,) = run("FullyConnection", [x, w, bias], domain="ascend")
    wide = x.reshape(2, -1).astype(np.float32) @ w.reshape(7, -1).astype(np.float32).T + bias.astype(
        np.float32
    )
    np.testing.assert_array_equal(result, wide.astype(np.float16).reshape(2, 7, 1, 1))
    with pytest.raises(GraphError, match="filter as large as the input"):
        make_node("FullyConnection", [x, random(7, 5, 2, 3, dtype=np.float16)], domain="ascend")


@pytest.mark.parametrize("chip", ["Ascend310", "Ascend310P3", "Ascend910A", "Ascend910B1"])
@pytest.mark.parametrize("shape", [(1, 64, 1), (5, 20, 3)])
def test_a_batch_shares_the_rows_of_the_cube(chip: str, shape: tuple[int, int, int]) -> None:
    n, c, size = shape
    graph = build(covering(n, c, 48, size))
    durations = {}
    for switch in ("off", "on"):
        model = asim.compile(graph, chip, fusion="graph", optimization_switch=f"{RULE.name}:{switch}")
        durations[switch] = run_machine(model.program, model.soc).duration_us
    assert sum(node.op_type == "FullyConnection" for node in model.graph.nodes) == 1
    assert durations["on"] <= 1.05 * durations["off"]
