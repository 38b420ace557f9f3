"""Which operators bring elements from tensor to tensor as they are, so that their blocks can carry them."""

from __future__ import annotations

from dataclasses import replace

import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format
from ascendsim.graph.ir import Node
from ascendsim.ops import default_opset
from ascendsim.opset.work import Copy, MoveWork
from ascendsim.runtime.tile_moves import is_carried
from tests.support.lowering import ref

X, Y, Z = ref("x", (32, 16)), ref("y", (16, 32)), ref("z", (16, 32))
COPY = Copy(X, Y, X.bytes, 32, 64)


def node(operator: str) -> Node:
    builder = asim.GraphBuilder()
    builder.output(builder.op(operator, builder.input("x", (32, 16))), "y")
    return builder.build().nodes[0]


@pytest.mark.parametrize(
    ("copies", "carried"),
    [
        ((COPY,), True),
        ((COPY, replace(COPY, dst=Z)), True),
        ((COPY, COPY), False),  # whose elements are whose?
        ((replace(COPY, dst=ref("y", (16, 32), dtype=DType.FLOAT32)),), False),  # converted on the way
        ((replace(COPY, dst=ref("y", (16, 32), dtype=DType.INT16)),), True),
        ((replace(COPY, dst=ref("y", (16, 16, 1, 1), Format.FRACTAL_Z)),), False),
        ((replace(COPY, src=ref("x", (16, 16, 1, 1), Format.FRACTAL_Z)),), False),
    ],
)
def test_copies_are_carried_if_elements_stay_what_they_are(copies: tuple[Copy, ...], carried: bool) -> None:
    assert is_carried(node("Transpose"), MoveWork(copies), default_opset()) is carried


def test_an_operator_that_computes_carries_nothing() -> None:
    assert not is_carried(node("Relu"), MoveWork((COPY,)), default_opset())
