"""Shapes through subgraphs: branches merge, loops settle, as GE's shape_refiner.cc says."""

from __future__ import annotations

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.graph.branches import ROUNDS
from ascendsim.graph.ir import Graph, Node, Shape
from ascendsim.ops import default_opset
from ascendsim.ops.control.control_flow_shapes import larger_shape, merge_shapes
from ascendsim.passes.control_flow.sinking import host_reasons
from ascendsim.passes.infer import infer

FLOAT, BOOL = DType.FLOAT32, DType.BOOL


def subgraph(name: str, inputs: list[tuple[str, DType, Shape | None]]) -> Graph:
    graph = Graph(name)
    for item, dtype, shape in inputs:
        graph.add_input(f"{name}_{item}", dtype, shape or ())
    return graph


def condition(count: int = 1) -> Graph:
    """A condition that looks at no shape: its last input is a bool scalar."""
    cond = subgraph("cond", [(f"v{number}", FLOAT, None) for number in range(count)])
    zero = cond.add_constant("cond_true", np.array(True))
    cond.outputs.append(cond.add_node("Identity", [zero], ["cond_out"]).output)
    return cond


def while_node(body: Graph, shape: Shape, dtype: DType = FLOAT) -> tuple[Graph, Node]:
    graph = Graph("g")
    x = graph.add_input("x", dtype, shape)
    node = graph.add_node("While", [x], ["y"], name="while", domain="ascend", cond=condition(), body=body)
    graph.outputs.append(node.output)
    return graph, node


def body_of(*steps: tuple[str, object], constant: np.ndarray) -> Graph:
    """A body of one variable: operators that take the variable (or what is before) and the constant."""
    body = subgraph("body", [("x", FLOAT, None)])
    value, extra = body.inputs[0], body.add_constant("body_c", constant)
    for number, (op_type, attributes) in enumerate(steps):
        inputs = [value] if op_type == "Cast" else [value, extra]
        value = body.add_node(op_type, inputs, [f"body_{number}"], **attributes).output  # type: ignore[arg-type]
    body.outputs.append(value)
    return body


def test_a_variable_that_keeps_its_shape_stays_static() -> None:
    graph, node = while_node(body_of(("Add", {}), constant=np.ones((), np.float32)), (4, 8))
    infer(graph, default_opset())
    assert node.output.shape == (4, 8)
    assert node.output.dtype is FLOAT


def test_a_variable_that_grows_gets_an_open_dimension() -> None:
    graph, node = while_node(body_of(("Concat", {"axis": 0}), constant=np.ones((1, 8), np.float32)), (4, 8))
    infer(graph, default_opset())
    assert node.output.shape == (None, 8)


def test_a_variable_that_gets_another_axis_has_an_unknown_rank() -> None:
    graph, node = while_node(body_of(("Unsqueeze", {}), constant=np.array([0])), (4, 8))
    infer(graph, default_opset())
    assert node.output.shape is None


def test_the_body_is_inferred_again_with_the_open_dimension() -> None:
    """Its inner shapes must not stay those of the first round: Shape of the variable would fold to a wrong
    constant."""
    body = subgraph("body", [("x", FLOAT, None)])
    row = body.add_constant("row", np.ones((1, 8), np.float32))
    grown = body.add_node("Concat", [body.inputs[0], row], ["grown"], axis=0).output
    size = body.add_node("Shape", [grown], ["size"]).output
    body.outputs.append(body.add_node("Expand", [grown, size], ["out"]).output)
    graph, node = while_node(body, (4, 8))
    infer(graph, default_opset())
    assert node.output.shape == (None, None)
    assert [inner.op_type for inner in body.nodes] == ["Concat", "Shape", "Expand"]


def test_a_body_that_changes_the_type_is_an_error() -> None:
    graph, _ = while_node(body_of(("Cast", {"to": DType.FLOAT16}), constant=np.ones((), np.float32)), (4, 8))
    with pytest.raises(
        GraphError,
        match=(
            r"node 'while' \(While\) needs a body that keeps the type of loop variable 'body_x' "
            r"\(float32\)"
        ),
    ):
        infer(graph, default_opset())


def test_inputs_and_outputs_of_a_while_must_be_as_many() -> None:
    body = body_of(("Add", {}), constant=np.ones((), np.float32))
    graph, _ = while_node(body, (4, 8))
    body.outputs.append(body.outputs[0])
    with pytest.raises(GraphError, match=r"needs a subgraph with 1 outputs, not 2 in graph 'body'"):
        infer(graph, default_opset())
    other = Graph("g")
    x = other.add_input("x", FLOAT, (4,))
    node = other.add_node(
        "While",
        [x],
        ["y", "z"],
        name="while",
        domain="ascend",
        cond=condition(),
        body=body_of(("Add", {}), constant=np.ones((), np.float32)),
    )
    other.outputs.extend(node.outputs)
    with pytest.raises(GraphError, match=r"needs as many outputs as inputs, 1, not 2"):
        infer(other, default_opset())


def if_graph(
    then_shape: tuple[int, ...],
    else_shape: tuple[int, ...],
    cond: bool | None = None,
    else_type: type = np.float32,
) -> Node:
    graph = Graph("g")
    choice = graph.add_input("c", BOOL, ()) if cond is None else graph.add_constant("c", np.array(cond))
    branches = []
    for name, shape, kind in (("then", then_shape, np.float32), ("else", else_shape, else_type)):
        branch = Graph(name)
        value = branch.add_constant(f"{name}_c", np.ones(shape, kind))
        branch.outputs.append(branch.add_node("Relu", [value], [f"{name}_out"], no_const_folding=1).output)
        branches.append(branch)
    node = graph.add_node("If", [choice], ["y"], name="if", then_branch=branches[0], else_branch=branches[1])
    graph.outputs.append(node.output)
    infer(graph, default_opset())
    return node


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [((4, 8), (4, 8), (4, 8)), ((4, 8), (5, 8), (None, 8)), ((4, 8), (4,), None)],
)
def test_branches_merge(first: tuple[int, ...], second: tuple[int, ...], merged: Shape | None) -> None:
    assert if_graph(first, second).output.shape == merged
    assert merge_shapes(first, second) == merged


def test_a_known_condition_leaves_one_branch() -> None:
    assert if_graph((4, 8), (5,), cond=True).output.shape == (4, 8)
    assert if_graph((4, 8), (5,), cond=False).output.shape == (5,)


def test_branches_of_two_types_are_an_error() -> None:
    with pytest.raises(
        GraphError, match="needs one type for output 0 in all branches, not float32 and float16"
    ):
        if_graph((4,), (4,), else_type=np.float16)


def test_gears_take_the_largest_shape() -> None:
    assert larger_shape((1, 8), (4, 8)) == (4, 8)
    assert larger_shape((4, 8), (1, 8)) == (4, 8)
    assert larger_shape((None, 8), (4, 8)) == (None, 8)


def test_nested_growing_loops_settle() -> None:
    """Six loops in each other, all growing: the rounds multiply and still end."""
    body = body_of(("Concat", {"axis": 0}), constant=np.ones((1, 8), np.float32))
    for depth in range(6):
        outer = Graph(f"body{depth}")
        x = outer.add_input(f"x{depth}", FLOAT, (4, 8))
        inner = outer.add_node("While", [x], [f"y{depth}"], domain="ascend", cond=condition(), body=body)
        outer.outputs.append(inner.output)
        body = outer
    graph, node = while_node(body, (4, 8))
    infer(graph, default_opset())
    assert node.output.shape == (None, 8)


@pytest.mark.parametrize(
    ("condition", "first"),
    [(None, 5), (np.array(True), 5), (np.array(False), 0), ("unknown", None)],
    ids=["left out", "true", "false", "unknown"],
)
def test_what_a_counted_loop_collects_has_a_row_each_time(condition: object, first: int | None) -> None:
    graph = Graph("g")
    count = graph.add_constant("count", np.array(5))
    begins = graph.add_input("begins", BOOL, ()) if isinstance(condition, str) else None
    begins = graph.add_constant("begins", condition) if isinstance(condition, np.ndarray) else begins
    body = subgraph("body", [("i", DType.INT64, ()), ("c", BOOL, ()), ("x", FLOAT, None)])
    number, goes_on, x = body.inputs
    made = [body.add_node("Identity", [item]).output for item in (goes_on, x, x)]
    body.outputs.extend(made)
    inputs = [count, begins, graph.add_input("x", FLOAT, (2, 3))]
    node = graph.add_node("Loop", inputs, ["last", "all"], name="loop", body=body)
    graph.outputs.extend(node.outputs)
    infer(graph, default_opset())
    assert [tensor.shape for tensor in node.outputs] == [(2, 3), (first, 2, 3)]
    assert number.dtype is DType.INT64


def test_reasons_name_the_rounds_and_the_node_that_opens_a_shape() -> None:
    """Concat opens a dimension, Relu behind it only hands the shape on; a Transpose needs a round more."""
    body = subgraph("body", [("x", FLOAT, None)])
    more = body.add_constant("one", np.ones((1, 8), np.float32))
    grown = body.add_node("Concat", [body.inputs[0], more], ["grown"], name="grow", axis=0).output
    body.outputs.append(body.add_node("Relu", [grown], ["body_out"], name="relu").output)
    graph, _ = while_node(body, (4, 8))
    infer(graph, default_opset())
    (reason,) = host_reasons(graph)
    assert reason == (
        "node 'while' (While) gives 'y' the shape [-1, 8] (its body's shapes settle in 2 rounds; "
        "round 1: node 'grow' (Concat) makes 'body_x' [5, 8] of [4, 8], so [-1, 8])"
    )


@pytest.mark.parametrize(("shape", "rounds", "opened"), [((4, 4), 1, 0), ((4, 8), 2, 1)])
def test_rounds_end_with_one_that_opens_nothing(shape: Shape, rounds: int, opened: int) -> None:
    body = subgraph("body", [("x", FLOAT, None)])
    body.outputs.append(body.add_node("Transpose", [body.inputs[0]], ["body_out"], perm=(1, 0)).output)
    graph, _ = while_node(body, shape)
    infer(graph, default_opset())
    found = body.metadata[ROUNDS]
    assert (len(found), sum(map(bool, found)), found[-1]) == (rounds, opened, "")
    assert bool(host_reasons(graph)) == bool(opened)
