"""Products of bytes whose sums an AscendDequant scales become one task, with the values that they had."""

from __future__ import annotations

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph
from ascendsim.ops import default_opset
from ascendsim.passes.quant.products import scale_products
from tests.support.evaluate import evaluate

RNG = np.random.default_rng(5)
A = RNG.integers(-9, 9, (4, 6), np.int8)
WEIGHTS = RNG.integers(-9, 9, (6, 5), np.int8)
BIAS = RNG.integers(-99, 99, 5).astype(np.int32)
SCALE = np.array([0.5, 0.25, 2.0, 1.0, 0.125], np.float32)


def product(
    turned: bool = False, offset: int = 0, packed: bool = False, relu: int = 0, read: bool = False
) -> Graph:
    b = asim.GraphBuilder()
    weights = b.constant(WEIGHTS.T.copy() if turned else WEIGHTS)
    attributes = {"transB": int(turned), "offset_x": offset}
    x = b.input("x", A.shape, DType.INT8)
    sums = b.op("QuantMatMul", x, weights, b.constant(BIAS), domain="ascend", **attributes)
    scale = b.constant(SCALE.view(np.uint32).astype(np.uint64) if packed else SCALE)
    real = b.op("AscendDequant", sums, scale, domain="ascend", dtype=0, relu_flag=relu)
    b.output(b.op("Neg", real), "y")
    if read:
        b.output(b.op("Cast", sums, to=DType.FLOAT32), "sums")
    return b.build()


def kinds(graph: Graph) -> list[str]:
    return [node.op_type for node in graph.topological()]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("offset", [0, 3])
@pytest.mark.parametrize("packed", [False, True])
def test_a_scaled_product_is_one_task_with_the_values_of_two(turned: bool, offset: int, packed: bool) -> None:
    graph = product(turned, offset, packed)
    (before,) = evaluate(graph, default_opset(), {"x": A})
    (record,) = scale_products(graph, default_opset())
    assert (record.matched, record.effected) == (1, 1)
    assert kinds(graph) == ["QGemm", "Neg"]
    (after,) = evaluate(graph, default_opset(), {"x": A})
    np.testing.assert_allclose(after, before, rtol=1e-6)
    by_hand = ((A.astype(np.int64) - offset) @ WEIGHTS + BIAS) * SCALE
    np.testing.assert_allclose(after, -by_hand, rtol=1e-6)


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ({"read": True}, "something else reads the sums"),
        ({"relu": 1}, "the result is cut at 0 or no float32"),
    ],
)
def test_what_cannot_be_one_task_stays_as_it_is(form: dict[str, int], reason: str) -> None:
    graph = product(**form)  # type: ignore[arg-type]
    before = kinds(graph)
    (record,) = scale_products(graph, default_opset())
    assert (record.matched, record.effected) == (1, 0)
    assert [refusal.reason for refusal in record.refusals] == [reason]
    assert kinds(graph) == before


def test_other_networks_have_no_record() -> None:
    b = asim.GraphBuilder()
    b.output(b.op("MatMul", b.input("a", (4, 6)), b.input("b", (6, 5))))
    assert scale_products(b.build(), default_opset()) == []
