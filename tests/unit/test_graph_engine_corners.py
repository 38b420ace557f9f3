"""Passes of the graph engine where tensors are empty, results are several, or types are not the user's: one
condition at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.ops import default_opset
from tests.support.evaluate import evaluate
from tests.support.fusing import build

OPSET = default_opset()


def after(graph: Graph, *passes: str) -> list[str]:
    """Operators behind passes; values and shapes stay."""
    made = asim.optimize(graph, passes=list(passes)).graph
    arrays = {
        tensor.name: np.arange(tensor.elements).reshape(tensor.static_shape).astype(tensor.element_type.numpy)
        for tensor in graph.inputs
    }
    for one, other in zip(evaluate(graph, OPSET, arrays), evaluate(made, OPSET, arrays), strict=True):
        assert one.shape == other.shape
        np.testing.assert_array_equal(one, other)
    return [node.op_type for node in made.topological()]


def squeezed(shape: tuple[int, ...], gone: int, new: int) -> Graph:
    return build(
        lambda b: b.op(
            "Neg", b.op("Unsqueeze", b.op("Squeeze", b.op("Abs", b.input("x", shape)), [gone]), [new])
        )
    )


@pytest.mark.parametrize(
    ("graph", "kinds"),
    [
        (squeezed((1, 4, 3), 0, 2), ["Abs", "Reshape", "Neg"]),
        (squeezed((1, 4, 3), 0, 0), ["Abs", "Neg"]),
        (squeezed((1, 0, 3), 0, 2), ["Abs", "Reshape", "Neg"]),
        (squeezed((1, 0, 3), 0, 0), ["Abs", "Neg"]),
    ],
)
def test_neighbours_that_only_adjust_dimensions(graph: Graph, kinds: list[str]) -> None:
    assert after(graph, "DimensionAdjustPass") == kinds


def turned(shape: tuple[int, ...], perm: tuple[int, ...] | None) -> Graph:
    more = {} if perm is None else {"perm": perm}
    return build(lambda b: b.op("Neg", b.op("Transpose", b.op("Abs", b.input("x", shape)), **more)))


@pytest.mark.parametrize(
    ("graph", "kind"),
    [
        (turned((1, 4, 3), (1, 0, 2)), "Reshape"),
        (turned((1, 4, 3), (1, 2, 0)), "Reshape"),
        (turned((1, 4, 3), (2, 0, 1)), "Transpose"),
        (turned((2, 4, 3), (0, 1, 2)), "Reshape"),
        (turned((1, 0, 3), (1, 0, 2)), "Transpose"),
        (turned((4, 1), None), "Reshape"),
        (turned((4, 3), None), "Transpose"),
    ],
)
def test_transposes_that_keep_the_order_are_reshapes(graph: Graph, kind: str) -> None:
    assert after(graph, "Dim1TransposeToSqueezePass") == ["Abs", kind, "Neg"]


def dropped(
    mask: bool = False, training: Any = None, ratio: Any = 0.5, run: bool = False
) -> Callable[[GraphBuilder], Any]:
    def body(b: GraphBuilder) -> list[Tensor]:
        x = b.op("Abs", b.input("x", (4,)))
        flag = (
            b.input("t", (), DType.BOOL)
            if run
            else None
            if training is None
            else b.constant(np.array(training))
        )
        y, kept = b.ops("Dropout", x, b.constant(np.float32(ratio)), flag, outputs=2)
        return [b.op("Neg", y), *([b.op("Not", kept)] if mask else [])]

    return body


@pytest.mark.parametrize(
    ("body", "stays"),
    [
        (dropped(), False),
        (dropped(training=False), False),
        (dropped(mask=True), True),
        (dropped(mask=True, training=False), True),
    ],
)
def test_dropout_without_training_goes_unless_its_mask_is_read(body: Any, stays: bool) -> None:
    assert ("Dropout" in after(build(body), "DropOutPass")) is stays


def test_dropout_that_may_train_stays() -> None:
    for body in (dropped(training=True), dropped(run=True)):
        made = asim.optimize(build(body), passes=["DropOutPass"]).graph
        assert "Dropout" in {node.op_type for node in made.nodes}


def casts(*kinds: DType, start: DType = DType.FLOAT16, shown: bool = False, read: bool = False) -> Graph:
    def body(b: GraphBuilder) -> list[Tensor]:
        x = b.op("Abs", b.input("x", (4,), start))
        made = []
        for kind in kinds:
            x = b.op("Cast", x, to=kind)
            made.append(x)
        results = [b.op("Neg", x)]
        if shown:
            results.append(made[0])
        if read:
            results.append(b.op("Abs", made[0]))
        return results

    return build(body)


HALF, FLOAT, DOUBLE, INT = DType.FLOAT16, DType.FLOAT32, DType.FLOAT64, DType.INT32


UNDONE, JOINED = "TransOpSymmetryEliminationPass", "TransOpWithoutReshapeFusionPass"


@pytest.mark.parametrize(
    ("graph", "undone", "joined"),
    [
        (casts(FLOAT, HALF), 0, 1),
        (casts(FLOAT, DOUBLE), 2, 1),
        (casts(FLOAT, DOUBLE, HALF), 3, 1),
        (casts(HALF, FLOAT, start=FLOAT), 2, 2),
        (casts(INT, FLOAT, start=FLOAT), 2, 2),
        (casts(FLOAT, INT, start=INT), 2, 2),
        (casts(DOUBLE, INT, start=INT), 0, 1),
        (casts(FLOAT, HALF, shown=True), 1, 2),
        (casts(FLOAT, HALF, read=True), 1, 2),
        (casts(FLOAT, DOUBLE, read=True), 2, 2),
        (casts(FLOAT, DOUBLE, shown=True), 2, 2),
    ],
)
def test_casts_that_lose_nothing_go(graph: Graph, undone: int, joined: int) -> None:
    """How many are left by the pass that removes neighbours, and by the one that joins them."""
    assert after(graph, UNDONE).count("Cast") == undone
    assert after(graph, JOINED).count("Cast") == joined


def transposes(first: tuple[int, ...], second: tuple[int, ...], shown: bool = False) -> Graph:
    def body(b: GraphBuilder) -> list[Tensor]:
        one = b.op("Transpose", b.op("Abs", b.input("x", (2, 3, 4))), perm=first)
        return [b.op("Neg", b.op("Transpose", one, perm=second)), *([one] if shown else [])]

    return build(body)


@pytest.mark.parametrize(
    ("graph", "undone", "joined"),
    [
        (transposes((1, 0, 2), (1, 0, 2)), 0, 1),
        (transposes((1, 2, 0), (2, 0, 1)), 0, 1),
        (transposes((1, 2, 0), (1, 2, 0)), 2, 1),
        (transposes((1, 0, 2), (0, 2, 1)), 2, 1),
        (transposes((1, 0, 2), (1, 0, 2), shown=True), 1, 2),
        (transposes((1, 0, 2), (0, 2, 1), shown=True), 2, 2),
    ],
)
def test_transposes_that_follow_each_other(graph: Graph, undone: int, joined: int) -> None:
    assert after(graph, UNDONE).count("Transpose") == undone
    assert after(graph, JOINED).count("Transpose") == joined
