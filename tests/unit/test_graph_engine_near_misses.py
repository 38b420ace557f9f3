"""Each pass of the graph engine on the graph that it is for and on all graphs that differ from it in one
thing.

Laws: every bit of the values stays, the graph stays valid, an order that control edges ask for stays. What a
pass does is a golden text (tests/golden/graph_engine_near_misses). A legitimate reason to renew one is a pass
that is meant to remove something else; read every change that moves from one group to another.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Array, Graph
from ascendsim.graph.text import to_text
from ascendsim.graph.verify import verify
from ascendsim.ops import default_opset
from ascendsim.passes.engine.prune import PrunePass
from ascendsim.passes.engine.settings import DEAD_EDGES, FOLDING
from ascendsim.passes.engine.stages import all_stages
from ascendsim.passes.engine.traversal import Traversal
from tests.support.evaluate import evaluate
from tests.support.fusing import new_builder
from tests.support.near_misses import (
    control_edges,
    has_values,
    near_misses,
    operators_changed,
    order_is_kept,
    sorted_outcomes,
)
from tests.unit.test_graph_engine_golden import BODIES, Body

OPSET = default_opset()
STAGES = all_stages(OPSET)
NO_BRANCHES = {
    name: body for name, body in BODIES.items() if name not in ("CondRemovePass", "InlinePartitionedCallPass")
}
FORMS: dict[str, tuple[str, Body]] = {
    "Dropout in training": (
        "DropOutPass",
        lambda b, x: b.op("Dropout", x, 0.5, np.array(False), name="dropout"),
    ),
    "Flatten": ("NoUseReshapeRemovePass", lambda b, x: b.op("Flatten", x, axis=1, name="flat")),
    "Concat of one": ("NoUseMovementRemovePass", lambda b, x: b.op("Concat", x, axis=0, name="concat")),
    "Split in one": ("NoUseMovementRemovePass", lambda b, x: b.op("Split", x, [2], axis=0, name="split")),
    "whole Slice": (
        "NoUseMovementRemovePass",
        lambda b, x: b.op("Slice", x, [0], [3], [1], [1], name="slice"),
    ),
    "Tile once": ("NoUseMovementRemovePass", lambda b, x: b.op("Tile", x, [1, 1], name="tile")),
    "Pad by nothing": ("NoUseMovementRemovePass", lambda b, x: b.op("Pad", x, [0, 0, 0, 0], name="pad")),
    "x + (-0.0)": ("IdentityArithmeticPass", lambda b, x: b.op("Add", x, -0.0, name="add")),
    "x + 0.0": ("IdentityArithmeticPass", lambda b, x: b.op("Add", 0.0, x, name="add")),
    "x / 1": ("IdentityArithmeticPass", lambda b, x: b.op("Div", x, 1.0, name="div")),
    "x to the power 1": ("IdentityArithmeticPass", lambda b, x: b.op("Pow", x, 1.0, name="pow")),
    "Where true": (
        "IdentityArithmeticPass",
        lambda b, x: b.op("Where", np.array([True]), x, 2.0, name="where"),
    ),
    "Where false": (
        "IdentityArithmeticPass",
        lambda b, x: b.op("Where", np.array([[False], [False]]), 2.0, x, name="where"),
    ),
    "x and true": (
        "IdentityArithmeticPass",
        lambda b, x: b.op("And", b.op("Greater", x, 0.0), np.array(True), name="and"),
    ),
    "x or false": (
        "IdentityArithmeticPass",
        lambda b, x: b.op("Or", np.array(False), b.op("Greater", x, 0.0), name="or"),
    ),
    "x xor false": (
        "IdentityArithmeticPass",
        lambda b, x: b.op("Xor", b.op("Greater", x, 0.0), np.array(False), name="xor"),
    ),
    "transposes that turn three axes": (
        "TransOpWithoutReshapeFusionPass",
        lambda b, x: b.op(
            "Transpose",
            b.op("Transpose", b.op("Unsqueeze", x, [0]), perm=[1, 2, 0]),
            perm=[0, 2, 1],
            name="last",
        ),
    ),
    "Cast there and back": (
        "TransOpSymmetryEliminationPass",
        lambda b, x: b.op("Cast", b.op("Cast", x, to=DType.FLOAT64), to=DType.FLOAT32),
    ),
    "Squeeze behind Unsqueeze": (
        "DimensionAdjustPass",
        lambda b, x: b.op("Squeeze", b.op("Unsqueeze", x, [1]), [1], name="squeeze"),
    ),
    "equal sums": (
        "CommonSubexpressionEliminationPass",
        lambda b, x: b.op("Mul", b.op("Add", x, x), b.op("Add", x, x), name="mul"),
    ),
    "equal transposes": (
        "CommonSubexpressionEliminationPass",
        lambda b, x: b.op(
            "Concat", *(b.op("Transpose", x, perm=[1, 0], name=f"turn{n}") for n in (0, 1)), axis=0
        ),
    ),
    "Shape of a part": (
        "DimensionComputePass",
        lambda b, x: b.op(
            "Reshape", x, b.op("Concat", b.op("Shape", x, start=1, name="shape"), b.constant([2]), axis=0)
        ),
    ),
    "Merge of two": (
        "MergePass",
        lambda b, x: b.op("Merge", b.op("Exp", x, name="exp"), None, name="merge", domain="ascend"),
    ),
    "Switch false": (
        "SwitchDeadBranchElimination",
        lambda b, x: (
            lambda sides: b.op("Merge", b.op("Neg", sides[0]), b.op("Exp", sides[1]), domain="ascend")
        )(b.ops("Switch", x, np.array(False), outputs=2, domain="ascend")),
    ),
    "Transpose of ones": (
        "Dim1TransposeToSqueezePass",
        lambda b, x: b.op("Transpose", b.op("Unsqueeze", x, [0, 2]), perm=[1, 0, 3, 2]),
    ),
}
CASES: dict[str, tuple[str, Body]] = {**{name: (name, body) for name, body in NO_BRANCHES.items()}, **FORMS}


def small(body: Body, shape: tuple[int, ...] = (2, 3)) -> Graph:
    b = new_builder()
    made = body(b, b.input("x", shape))
    b.output(
        b.op("Relu", made, name="relu") if made.element_type.is_float else b.op("Not", made, name="not"), "y"
    )
    return b.graph


def values(graph: Graph) -> list[Array]:
    """Outputs on inputs with zeros of both signs, infinities and NaN among them."""
    generator, arrays = np.random.default_rng(7), {}
    for tensor in graph.inputs:
        kind = tensor.element_type
        array: Any = generator.standard_normal(tensor.static_shape) * 3
        array = np.where(
            generator.random(array.shape) < 0.3,
            generator.choice([0.0, -0.0, np.inf, np.nan], array.shape),
            array,
        )
        arrays[tensor.name] = (array if kind.is_float else np.where(np.isfinite(array), array, 0)).astype(
            kind.numpy
        )
    with np.errstate(all="ignore"):
        return evaluate(graph, default_opset(), arrays)


def outcome(name: str, graph: Graph) -> str:
    """What a pass does with a graph, in words; asserts the laws."""
    result = asim.optimize(graph, passes=[name])
    after = result.graph
    verify(after)
    if to_text(after) == to_text(graph):
        return "nothing"
    if name not in FOLDING | DEAD_EDGES:  # what is known from the start, or never runs, waits for nothing
        assert order_is_kept(graph, after, {node.name for node in graph.nodes})
    assert [tensor.name for tensor in after.outputs] == [tensor.name for tensor in graph.outputs]
    if has_values(graph):
        for old, new in zip(values(graph), values(after), strict=True):
            assert (old.dtype, old.shape, old.tobytes()) == (new.dtype, new.shape, new.tobytes())
    counts = ", ".join(
        f"{kind}: {number}" for kind, number in result.report.totals().get(name, {}).items() if number
    )
    return "; ".join(filter(None, [operators_changed(graph, after), counts, control_edges(after)]))


@cache
def variants(name: str) -> tuple[tuple[str, Graph], ...]:
    """A case and what differs from it in one thing, made once for all laws, which leave it as it is."""
    return tuple(near_misses(small(CASES[name][1])))


@pytest.mark.parametrize("name", CASES)
def test_what_a_pass_asks_for(golden: Callable[[str, str], None], name: str) -> None:
    outcomes = [(label, outcome(CASES[name][0], variant)) for label, variant in variants(name)]
    assert outcomes[0][0] == "as it is"
    golden(
        f"graph_engine_near_misses/{name.replace(' ', '_').replace('/', 'by')}.txt", sorted_outcomes(outcomes)
    )


@pytest.mark.parametrize("name", CASES)
def test_a_pass_says_whether_it_changed_the_graph(name: str) -> None:
    """The engine goes on until nothing says so: a change that nobody tells of would end it too early."""
    changes = set()
    for _, variant in variants(name):
        for stage in STAGES:
            for item in stage.all_passes:
                if item.name != CASES[name][0]:
                    continue
                after = copy_graph(variant)
                if item in stage.node_passes:
                    changed = Traversal(after, [item], OPSET).run()
                else:
                    changed = item.run(after).changed
                known = {tensor.name for tensor in after.constants if tensor.producer is not None}
                assert changed is (to_text(after) != to_text(variant) or bool(known))
                changes.add(changed)
    assert True in changes


def test_one_dead_node_is_a_change() -> None:
    graph = small(lambda b, x: x)
    dead = graph.add_node("Exp", [graph.inputs[0]], 1, name="dead")
    dead.output.dtype, dead.output.origin_dtype, dead.output.shape = DType.FLOAT32, DType.FLOAT32, (2, 3)
    assert PrunePass().run(graph).changed
    assert [node.name for node in graph.nodes] == ["relu"]
    assert not PrunePass().run(graph).changed
