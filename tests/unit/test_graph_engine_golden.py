"""Each pass of the graph engine as text: a small graph before it, and after it alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.graph.text import to_text
from ascendsim.ops import default_opset
from ascendsim.passes.engine import pass_names

Body = Callable[[GraphBuilder, Tensor], Tensor]


def branch(name: str, x: Tensor, op_type: str) -> Graph:
    body = Graph(name)
    node = body.add_node(op_type, [x], [f"{name}_out"], name=f"{name}_node")
    node.output.dtype, node.output.origin_dtype, node.output.shape = x.dtype, x.origin_dtype, x.shape
    body.outputs.append(node.output)
    return body


def conditional(b: GraphBuilder, x: Tensor) -> Tensor:
    return b.op(
        "If",
        np.array(True),
        name="if",
        then_branch=branch("then", x, "Exp"),
        else_branch=branch("else", x, "Neg"),
    )


def switched(b: GraphBuilder, x: Tensor) -> Tensor:
    no, yes = b.ops("Switch", x, np.array(True), outputs=2, name="switch", domain="ascend")
    return b.op(
        "Merge", b.op("Neg", no, name="dead"), b.op("Exp", yes, name="alive"), name="merge", domain="ascend"
    )


def call(b: GraphBuilder, x: Tensor) -> Tensor:
    return b.op("PartitionedCall", name="call", domain="ascend", f=branch("body", x, "Exp"))


def twice(b: GraphBuilder, x: Tensor) -> Tensor:
    half = b.constant(0.5)
    return b.op(
        "Sub",
        *(b.op("Exp", b.op("Mul", x, half, name=f"mul{n}"), name=f"exp{n}") for n in (0, 1)),
        name="sub",
    )


def equal_numbers(b: GraphBuilder, x: Tensor) -> Tensor:
    return b.op("Add", b.op("Mul", x, 2.0, name="mul"), 2.0, name="add")


def equal_weights(b: GraphBuilder, x: Tensor) -> Tensor:
    first = b.op("Add", x, b.constant(np.arange(6, dtype=np.float32).reshape(2, 3), "w1"), name="first")
    return b.op("Add", first, b.constant(np.arange(6, dtype=np.float32).reshape(2, 3), "w2"), name="second")


def dead(b: GraphBuilder, x: Tensor) -> Tensor:
    b.op("Exp", x, name="dead")
    return x


BODIES: dict[str, Body] = {
    "CondRemovePass": conditional,
    "SwitchDeadBranchElimination": switched,
    "MergePass": lambda b, x: b.op("Merge", None, b.op("Exp", x, name="exp"), name="merge", domain="ascend"),
    "ReplaceWithEmptyConstPass": lambda b, x: b.op(
        "Concat", b.op("Exp", b.op("Slice", x, [0], [0], [0])), x, axis=0, name="concat"
    ),
    "DimensionComputePass": lambda b, x: b.op(
        "Mul", x, b.op("Cast", b.op("Size", x, name="size"), to=DType.FLOAT32), name="mul"
    ),
    "ConstantFoldingPass": lambda b, x: b.op(
        "Mul", x, b.op("Add", b.constant(2.0), b.constant(3.0), name="five"), name="mul"
    ),
    "InlinePartitionedCallPass": call,
    "NoUseReshapeRemovePass": lambda b, x: b.op("Reshape", x, [2, -1], name="same"),
    "DropOutPass": lambda b, x: b.op("Dropout", x, name="dropout"),
    "UnchangedTransposeRemovePass": lambda b, x: b.op("Transpose", x, perm=[0, 1], name="same"),
    "StopGradientPass": lambda b, x: b.op("StopGradient", x, domain="ascend", name="stop"),
    "IdentityPass": lambda b, x: b.op("Identity", x, name="same"),
    "PrunePass": dead,
    "TransOpWithoutReshapeFusionPass": lambda b, x: b.op(
        "Cast", b.op("Cast", x, to=DType.FLOAT64), to=DType.FLOAT16
    ),
    "ConstantFuseSamePass": equal_numbers,
    "CommonSubexpressionEliminationPass": twice,
    "AddNPass": lambda b, x: b.op("Sum", x, name="sum"),
    "CastRemovePass": lambda b, x: b.op("Cast", x, to=DType.FLOAT32, name="same"),
    "NoUseMovementRemovePass": lambda b, x: b.op(
        "Pad", b.op("Expand", x, [2, 1], name="expand"), [0, 0, 0, 0], name="pad"
    ),
    "IdentityArithmeticPass": lambda b, x: b.op("Sub", b.op("Mul", x, 1.0, name="mul"), 0.0, name="sub"),
    "ReshapeRemovePass": lambda b, x: b.op(
        "Reshape", b.op("Flatten", x, axis=0, name="flat"), [3, 2], name="reshape"
    ),
    "TransOpSymmetryEliminationPass": lambda b, x: b.op(
        "Transpose", b.op("Transpose", x, perm=[1, 0], name="there"), perm=[1, 0], name="back"
    ),
    "DimensionAdjustPass": lambda b, x: b.op(
        "Squeeze", b.op("Unsqueeze", x, [0, 1], name="wider"), [1], name="narrower"
    ),
    "Dim1TransposeToSqueezePass": lambda b, x: b.op(
        "Transpose", b.op("Unsqueeze", x, [1], name="wider"), perm=[1, 0, 2], name="moved"
    ),
    "RemoveSameConstPass": equal_weights,
}


@pytest.mark.parametrize("name", BODIES)
def test_a_pass_alone(name: str, golden: Callable[[str, str], None]) -> None:
    b = asim.GraphBuilder("small")
    b.output(b.op("Relu", BODIES[name](b, b.input("x", (2, 3))), name="relu"), "y")
    graph = b.graph
    result = asim.optimize(graph, passes=[name])
    assert to_text(result.graph) != to_text(graph)
    golden(f"graph_engine/{name}.txt", f"# before\n{to_text(graph)}# after\n{to_text(result.graph)}")


def test_every_pass_that_rewrites_has_a_text() -> None:
    """Those without one: shapes and values alone, constants nobody reads, and markers that differ in their
    name only."""
    rest = set(pass_names(default_opset())) - set(BODIES)
    same_as_stop_gradient = {
        "PrintOpPass",
        "PreventGradientPass",
        "PlaceholderWithDefaultPass",
        "SnapshotPass",
        "GuaranteeConstPass",
    }
    assert rest == same_as_stop_gradient | {
        "InferShapePass",
        "InferValueRangePass",
        "ConvertPotentialConstantToOfficialPass",
        "UnusedConstPass",
    }
