"""Bodies of calls and branches that take the place of what holds them: names, edges, outputs; notes."""

from __future__ import annotations

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Graph, Node
from ascendsim.graph.verify import verify
from ascendsim.ops import default_opset
from ascendsim.passes.engine.cond_remove import CondRemovePass
from ascendsim.passes.engine.inlining import InlinePartitionedCallPass
from ascendsim.passes.engine.node_pass import MAX_NOTES, Tally
from ascendsim.passes.engine.traversal import Traversal
from ascendsim.passes.infer import infer
from tests.support.evaluate import evaluate
from tests.support.fusing import new_builder

OPSET = default_opset()
X = {"x": np.array([1.0, -2.0, 3.0], np.float32)}


def body_of(*results: str) -> Graph:
    """A body whose results are: its input, a weight, what a node makes, or what that one waits for."""
    body = Graph("body")
    given = body.add_input("given", DType.FLOAT32, (3,))
    weight = body.add_constant("weight", np.array([4, 5, 6], np.float32))
    first = body.add_node("Abs", [given], ["first"], name="first")
    last = body.add_node("Exp", [given], ["last"], name="last")
    last.add_control(first)
    made = {"given": given, "weight": weight, "first": first.output, "last": last.output}
    body.outputs.extend(made[name] for name in results)
    return body


def calling(*results: str) -> Graph:
    """A graph whose outputs are the results of a call, which waits for a node, and another for it."""
    b = GraphBuilder()
    x = b.input("x", (3,))
    before = b.op("Neg", x, name="before")
    parts = b.ops(
        "PartitionedCall", x, outputs=len(results), name="call", domain="ascend", f=body_of(*results)
    )
    after = b.op("Sin", x, name="after")
    b.graph.node("call").add_control(b.graph.node("before"))
    b.graph.node("after").add_control(b.graph.node("call"))
    for number, part in enumerate(parts):
        b.output(part, f"y{number}")
    b.output(before, "before_out")
    b.output(after, "after_out")
    infer(b.graph, OPSET)
    return b.graph


@pytest.mark.parametrize(
    ("results", "handed_on"),
    [
        (("last", "first"), 0),
        (("given", "last"), 1),
        (("weight", "last"), 0),
        (("last", "last"), 1),
        (("weight", "weight"), 1),
        (("given", "given"), 2),
    ],
)
def test_a_calls_results_keep_names_and_values(results: tuple[str, ...], handed_on: int) -> None:
    """What cannot be two results at once, or is none of the body's own, is handed on under its name."""
    graph = calling(*results)
    wanted = evaluate(graph, OPSET, X)
    names = [tensor.name for tensor in graph.outputs]
    assert InlinePartitionedCallPass().run(graph).counts == {"inlined calls": 1}
    verify(graph)
    assert [tensor.name for tensor in graph.outputs] == names
    for old, new in zip(wanted, evaluate(graph, OPSET, X), strict=True):
        np.testing.assert_array_equal(old, new)
    copies = [node for node in graph.nodes if node.op_type == "Identity"]
    assert len(copies) == handed_on
    for copy in copies:
        assert (copy.output.origin_dtype, copy.output.shape) == (DType.FLOAT32, (3,))


def test_a_calls_nodes_wait_as_the_call_did() -> None:
    graph = calling("first", "last", "given")
    InlinePartitionedCallPass().run(graph)
    first, last, before, after = (
        next(node for node in graph.nodes if node.op_type == kind) for kind in ("Abs", "Exp", "Neg", "Sin")
    )
    (copy,) = [node for node in graph.nodes if node.op_type == "Identity"]
    assert before in first.control
    assert first in last.control
    assert {first, last, copy} <= set(after.control)
    order = graph.topological()
    places = [order.index(node) for node in (before, first, last, after)]
    assert places == sorted(places)


def choosing(op_type: str, condition: object, branches: int) -> tuple[Graph, Node]:
    """A Case or an If whose branches each make another multiple of x."""
    b = new_builder()
    x = b.input("x", (3,))
    bodies = []
    for number in range(branches):
        body = Graph(f"branch{number}")
        given = [] if op_type == "If" else [body.add_input(f"given{number}", DType.FLOAT32, (3,))]
        factor = body.add_constant(f"factor{number}", np.float32(number + 1))
        made = body.add_node("Mul", [*(given or [x]), factor], [f"made{number}"], name=f"mul{number}")
        body.outputs.append(made.output)
        bodies.append(body)
    steering = b.constant(np.asarray(condition))
    if op_type == "If":
        y = b.op("If", steering, name="choice", else_branch=bodies[0], then_branch=bodies[1])
    else:
        y = b.op("Case", steering, x, name="choice", domain="ascend", branches=tuple(bodies))
    b.output(y, "y")
    return b.graph, b.graph.node("choice")


def visited(graph: Graph) -> Tally:
    """What the pass did in a graph."""
    traversal = Traversal(graph, [CondRemovePass()], OPSET)
    traversal.run()
    return traversal.tallies["CondRemovePass"]


@pytest.mark.parametrize(
    ("op_type", "condition", "branches", "factor"),
    [
        ("If", False, 2, 1),
        ("If", True, 2, 2),
        ("Case", np.int32(0), 3, 1),
        ("Case", np.int32(1), 3, 2),
        ("Case", np.int32(2), 3, 3),
        ("Case", np.int32(7), 3, 3),  # the last one, as GE has it
    ],
)
def test_a_known_condition_leaves_its_branch(
    op_type: str, condition: object, branches: int, factor: int
) -> None:
    graph, node = choosing(op_type, condition, branches)
    counts = visited(graph).counts
    assert node.op_type == "PartitionedCall"
    assert [tensor.name for tensor in node.inputs if tensor is not None] == ["x"] * (op_type == "Case")
    kind = "If branch removed" if op_type == "If" else "branch removed"
    assert counts == {kind: branches - 1, "calls made": 1}
    InlinePartitionedCallPass().run(graph)
    infer(graph, OPSET)
    np.testing.assert_array_equal(evaluate(graph, OPSET, X)[0], factor * X["x"])


def test_a_negative_number_chooses_no_branch() -> None:
    graph, node = choosing("Case", np.int32(-1), 2)
    result = visited(graph)
    assert node.op_type == "Case"
    assert list(result.notes) == ["choice: left, its condition -1 is negative"]


def test_notes_are_kept_once_each_and_counted_beyond_their_limit() -> None:
    tally = Tally.of("pass")
    for number in (*range(MAX_NOTES), 0, *range(MAX_NOTES, MAX_NOTES + 3)):
        tally.note(f"note {number}")
    assert len(tally.notes) == MAX_NOTES
    assert sum(tally.counts.values()) == 3
    assert [tally.refuse("node", "why"), tally.refuse("node", "why"), tally.refuse("other", "why")] == [
        True,
        False,
        True,
    ]
    assert [refusal.node for refusal in tally.refusals] == ["node", "other"]
