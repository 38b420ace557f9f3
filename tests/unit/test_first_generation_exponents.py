"""Exponents of the chips for inference: far slower than those of Ascend910B, whose table is published."""

from __future__ import annotations

import pytest

import ascendsim as asim
from ascendsim.graph.ir import Graph


def one(op: str, *shape: int, **attributes: object) -> Graph:
    b = asim.GraphBuilder(op)
    b.output(b.op(op, b.input("x", shape, "float16"), **attributes), "y")
    return b.build()


@pytest.mark.parametrize(
    ("op", "shape", "published"), [("Softmax", (48, 256, 256), 233.0), ("Gelu", (768, 4304), 352.0)]
)
def test_kernels_of_a_profile_of_310p3(op: str, shape: tuple[int, ...], published: float) -> None:
    """pi0.5 on Ascend310P3 (APXinf-robo@efc73c0b), mean of 27 calls each. These kernels are newer than ours
    and may do more; with the exponents of Ascend910B they would take 67 and 92 us here.
    """
    graph = one(op, *shape, **({"axis": -1} if op == "Softmax" else {}))
    time = asim.simulate(asim.compile(graph, "Ascend310P3")).duration_us
    assert 0.6 * published < time < published


def test_a_sigmoid_is_bound_by_its_exponent() -> None:
    relu, sigmoid = (
        asim.simulate(asim.compile(one(op, 8, 96, 112, 112), "Ascend310P3")).duration_us
        for op in ("Relu", "Sigmoid")
    )
    assert sigmoid > 1.6 * relu  # 22 cycles a repeat against 1
