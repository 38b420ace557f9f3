"""Which subgraph runs how often on what, who is asked and what the host looks at: every rule of control flow
against a plain reading."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph, Node
from ascendsim.runtime.control_flow import MAX_ITERATIONS, Value, run_control
from tests.support.gate import in_one

UNKNOWN = Value(np.dtype(bool), ())


@dataclass
class Script:
    """A host whose subgraphs are functions, and which notes what it is asked.

    Attributes:
        bodies: Results of a subgraph by its name, from its inputs.
        answer: Branch or number of iterations that it gives.
        log: "then", "body" and so on for what ran, True or False for a decision with or without a look,
            ("trips", limit) for questions.
    """

    bodies: dict[str, Callable[[Sequence[Value]], list[Value]]]
    answer: int = 0
    log: list[Any] = field(default_factory=list)
    given: list[list[Value]] = field(default_factory=list)

    def run(self, body: Graph, inputs: Sequence[Value], name: str) -> list[Value]:
        self.log.append(name)
        self.given.append(list(inputs))
        return self.bodies[name](inputs)

    def decided(self, node: Node, on_host: bool) -> None:
        self.log.append(on_host)

    def branch(self, node: Node, names: Sequence[str]) -> int:
        self.log.append(("branch", *names))
        return self.answer

    def trips(self, node: Node, limit: int | None) -> int:
        self.log.append(("trips", limit))
        return self.answer


def number(value: float, on_host: bool = True) -> Value:
    array = np.array(value, np.float32)
    return Value(array.dtype, array.shape, array, on_host)


def truth(value: bool | None, on_host: bool = False) -> Value:
    return UNKNOWN if value is None else Value(np.dtype(bool), (), np.array(value), on_host)


def body_of(inputs: int, outputs: int, name: str = "body", own_condition: bool = True) -> Graph:
    """A body whose results are made of its inputs; only its form counts here."""
    graph = Graph(name)
    for place in range(inputs):
        graph.add_input(
            f"{name}_i{place}", (DType.INT64, DType.BOOL)[place] if place < 2 else DType.FLOAT32, ()
        )
    for place in range(outputs):
        source = graph.inputs[1 if own_condition and place == 0 else min(place + 1, inputs - 1)]
        op = "Identity" if not (place == 0 and not own_condition) else "Not"
        graph.outputs.append(
            graph.add_node(op, [graph.inputs[1] if op == "Not" else source], [f"{name}_o{place}"]).output
        )
        graph.outputs[-1].dtype, graph.outputs[-1].shape = graph.inputs[-1].dtype, ()
    return graph


def node_of(op_type: str, **attributes: Any) -> Node:
    return Graph("g").add_node(op_type, [], 1, name="n", **attributes)


# ------------------------------------------------------------------------------------------------------------


def plain_loop(
    limit: Any, first: Value | None, later: list[bool | None], endless: bool, answer: int
) -> tuple[int, list[Any]]:
    """Iterations of a Loop and what its host notes. `limit`: None, a number or "unknown"; `later`: what the
    body says in each trip."""
    log: list[Any] = []
    asked = False
    if limit == "unknown":
        log += [("trips", None), False]
        asked = True
    trips = 0
    says: bool | None = True if first is None else None if first.array is None else bool(first.array)
    known_to_host = first is None or first.on_host
    while not isinstance(limit, int) or trips < limit:
        log.append(known_to_host)
        if says is None and not asked:
            log.append(("trips", limit if isinstance(limit, int) else None))
            asked = True
        if says is False or (asked and trips >= answer):
            break
        log.append("body")
        if not endless:
            says, known_to_host = later[min(trips, len(later) - 1)], False
        trips += 1
    return trips, log


CONDITIONS = {
    "none": None,
    "true": truth(True, True),
    "false": truth(False, True),
    "device": truth(True),
    "no": truth(False),
    "unknown": UNKNOWN,
}


@in_one("endless", [False, True])
@in_one("first", CONDITIONS)
@in_one("limit", [None, 0, 1, 3, "unknown"])
def test_a_loop_ends_by_its_limit_its_condition_or_the_hosts_answer(
    limit: Any, first: str, endless: bool
) -> None:
    patterns: list[list[bool | None]] = [
        [False],
        [True, False],
        [True, True, True, False],
        [None],
        [True, None],
    ]
    for later, answer in product(patterns, (0, 1, 2)):
        if limit is None and endless and first not in ("false", "no", "unknown"):
            continue  # would never end
        if limit is None and not endless and first in ("none", "true", "device") and later[-1] is True:
            continue
        trips, log = plain_loop(limit, CONDITIONS[first], later, endless, answer)
        seen: list[int] = []

        def body(
            inputs: Sequence[Value], later: list[bool | None] = later, seen: list[int] = seen
        ) -> list[Value]:
            trip = inputs[0].array
            assert trip is not None
            seen.append(int(trip))
            state = inputs[2].array
            assert state is not None
            return [
                truth(later[min(len(seen) - 1, len(later) - 1)]),
                number(float(state) * 2 + 1),
                number(float(state)),
            ]

        host = Script({"body": body}, answer)
        given = {None: None, "unknown": Value(np.dtype(np.int64), ())}
        most = given[limit] if limit in given else Value.of(np.array(limit, np.int64))
        node = node_of("Loop", body=body_of(3, 3, own_condition=endless))
        state, stack = run_control(node, [most, CONDITIONS[first], number(1)], host)
        assert host.log == log
        assert seen == list(range(trips))
        assert state.array == 2 ** (trips + 1) - 1
        assert stack.shape == (trips,)
        assert stack.array is not None
        assert stack.array.tolist() == [2 ** (trip + 1) - 1 for trip in range(trips)]


def test_the_host_of_a_loop_knows_the_number_of_the_iteration_and_its_own_condition() -> None:
    host = Script({"body": lambda inputs: [truth(True), inputs[2]]})
    node = node_of("Loop", body=body_of(3, 2, own_condition=False))
    run_control(node, [Value.of(np.array(2)), None, number(0, False)], host)
    (trip, condition, state), (_, second, _) = host.given
    assert (trip.on_host, condition.on_host, state.on_host) == (True, True, False)
    assert (condition.array, second.on_host) == (np.array(True), False)


@pytest.mark.parametrize("shape", [(), (1,)])
def test_the_number_of_the_iteration_has_the_shape_that_the_body_wants(shape: tuple[int, ...]) -> None:
    body = body_of(2, 1)
    body.inputs[0].shape = shape
    host = Script({"body": lambda inputs: [truth(True)]})
    run_control(node_of("Loop", body=body), [Value.of(np.array(2))], host)
    assert [(given[0].shape, given[0].dtype) for given in host.given] == [(shape, np.dtype(np.int64))] * 2


def test_absent_inputs_of_a_loop_may_be_left_out() -> None:
    host = Script({"body": lambda inputs: [truth(False)]})
    assert run_control(node_of("Loop", body=body_of(2, 1, own_condition=False)), [], host) == []
    assert host.log == [True, "body", False]


@pytest.mark.parametrize("op_type", ["Loop", "While"])
def test_a_loop_that_never_ends_is_an_error(op_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_ITERATIONS == 100_000
    monkeypatch.setattr("ascendsim.runtime.control_flow.MAX_ITERATIONS", 7)
    host = Script(
        {"body": lambda inputs: [truth(True)] * (op_type == "Loop"), "cond": lambda inputs: [truth(True)]}
    )
    node = node_of(op_type, body=body_of(2, 1), cond=body_of(2, 1, "cond"))
    with pytest.raises(asim.GraphError, match="must end within 7 iterations"):
        run_control(node, [], host)
    assert host.log.count("body") == 7
    seven = Script({"body": lambda inputs: [truth(True)]})
    run_control(node_of("Loop", body=body_of(2, 1)), [Value.of(np.array(7))], seven)
    assert seven.log.count("body") == 7


# ------------------------------------------------------------------------------------------------- While, If,


@pytest.mark.parametrize("answer", [0, 1, 3])
@pytest.mark.parametrize("says", [[False], [True, True, False], [None], [True, None], [True, None, False]])
@pytest.mark.parametrize("on_host", [False, True])
def test_a_while_tests_before_each_iteration(says: list[bool | None], answer: int, on_host: bool) -> None:
    found: list[Any] = []
    asked = False
    trips = 0
    while True:
        say = says[min(trips, len(says) - 1)]
        found += ["cond", on_host if say is not None else False]
        if say is None and not asked:
            found.append(("trips", None))
            asked = True
        if say is False or (say is None and trips >= answer):
            break
        found.append("body")
        trips += 1
    tests = iter(range(100))
    host = Script(
        {
            "cond": lambda inputs: [truth(says[min(next(tests), len(says) - 1)], on_host)],
            "body": lambda inputs: [number(float(inputs[0].array or 0) + 1)],
        },
        answer,
    )
    (state,) = run_control(
        node_of("While", cond=body_of(3, 1, "cond"), body=body_of(3, 1)), [number(0)], host
    )
    assert host.log == found
    assert state.array == trips


@pytest.mark.parametrize(
    ("condition", "answer", "branch"),
    [(True, 1, "then_branch"), (False, 0, "else_branch"), (None, 0, "then_branch"), (None, 1, "else_branch")],
)
@pytest.mark.parametrize("on_host", [False, True])
def test_an_if_runs_one_branch_on_nothing(
    condition: bool | None, answer: int, branch: str, on_host: bool
) -> None:
    host = Script(
        {name: lambda inputs, name=name: [number(len(name))] for name in ("then_branch", "else_branch")},
        answer,
    )  # type: ignore[misc]
    node = node_of("If", then_branch=Graph("t"), else_branch=Graph("e"))
    (result,) = run_control(node, [truth(condition, on_host)], host)
    question = [("branch", "then_branch", "else_branch")] if condition is None else []
    assert host.log == [*question, on_host and condition is not None, branch]
    assert host.given == [[]]
    assert result.array == len(branch)


@pytest.mark.parametrize(
    ("index", "answer", "branch"),
    [(0, 2, "b0"), (1, 0, "b1"), (2, 0, "b2"), (3, 0, "b2"), (None, 1, "b1"), (None, 0, "b0")],
)
@pytest.mark.parametrize("on_host", [False, True])
def test_a_case_runs_the_branch_of_its_index_on_the_other_inputs(
    index: int | None, answer: int, branch: str, on_host: bool
) -> None:
    branches = tuple(Graph(f"b{place}") for place in range(3))
    host = Script({item.name: lambda inputs: list(inputs) for item in branches}, answer)
    chosen = (
        Value(np.dtype(np.int32), ())
        if index is None
        else Value(np.dtype(np.int32), (1,), np.array([index], np.int32), on_host)
    )
    results = run_control(node_of("Case", branches=branches), [chosen, number(5), number(6)], host)
    question = [("branch", "b0", "b1", "b2")] if index is None else []
    assert host.log == [*question, on_host and index is not None, branch]
    assert [result.array for result in results] == [5, 6]


def test_a_call_decides_nothing() -> None:
    host = Script({"f": lambda inputs: list(inputs)})
    (result,) = run_control(node_of("PartitionedCall", f=Graph("f")), [number(4)], host)
    assert (host.log, result.array) == (["f"], 4)


@pytest.mark.parametrize(
    ("op_type", "attributes", "inputs", "message"),
    [
        ("If", {}, [truth(True)], r"node 'n' \(If\) needs a subgraph in attribute then_branch"),
        (
            "PartitionedCall",
            {"f": Graph("f")},
            [None],
            r"node 'n' \(PartitionedCall\) needs a value for every input of its subgraph",
        ),
        (
            "If",
            {},
            [Value.of(np.ones(2, bool))],
            r"a condition or number of iterations must be one element, not \[2\]",
        ),
        (
            "Case",
            {"branches": (Graph("b0"),)},
            [Value.of(np.array(-1))],
            "needs a branch index that is not negative, not -1",
        ),
    ],
)
def test_rules_that_can_be_broken(
    op_type: str, attributes: dict[str, Any], inputs: list[Value | None], message: str
) -> None:
    with pytest.raises(asim.GraphError, match=message):
        run_control(node_of(op_type, **attributes), inputs, Script({}))


# ------------------------------------------------------------------------------------------------------------


def scan_model(
    axes: Sequence[int], back: Sequence[int], out_axes: Sequence[int], out_back: Sequence[int]
) -> onnx.ModelProto:
    """One state and two scanned inputs, two stacked outputs: s' = s + a + b, and a * s, b - s."""
    line = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Add", ["s", "a"], ["t"]),
        helper.make_node("Add", ["t", "b"], ["so"]),
        helper.make_node("Mul", ["a", "s"], ["p"]),
        helper.make_node("Sub", ["b", "s"], ["q"]),
    ]
    body = helper.make_graph(
        nodes,
        "body",
        [line(name, TensorProto.FLOAT, [2, 4]) for name in "sab"],
        [line(name, TensorProto.FLOAT, [2, 4]) for name in ("so", "p", "q")],
    )
    options: dict[str, Any] = {"num_scan_inputs": 2, "body": body}
    for name, items in (
        ("scan_input_axes", axes),
        ("scan_input_directions", back),
        ("scan_output_axes", out_axes),
        ("scan_output_directions", out_back),
    ):
        if items:
            options[name] = list(items)
    node = helper.make_node("Scan", ["s0", "x", "y"], ["s", "ps", "qs"], name="scan", **options)
    shapes = [[2, 4] for _ in range(2)]
    for number, shape in enumerate(shapes):
        shape.insert(axes[number] % 3 if axes else 0, 3)
    inputs = [
        line("s0", TensorProto.FLOAT, [2, 4]),
        *(line(name, TensorProto.FLOAT, shape) for name, shape in zip("xy", shapes, strict=True)),
    ]
    graph = helper.make_graph(
        [node], "g", inputs, [line(name, TensorProto.FLOAT, None) for name in ("s", "ps", "qs")]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize(
    ("axes", "back", "out_axes", "out_back"),
    [
        ((), (), (), ()),
        ((1, 2), (0, 1), (2, 0), (1, 0)),
        ((-1, 0), (1, 0), (-1, -2), (0, 1)),
        ((2, -2), (1, 1), (1, 1), (1, 1)),
    ],
)
def test_scan_cuts_and_stacks_along_any_axis_in_any_direction(
    axes: Any, back: Any, out_axes: Any, out_back: Any
) -> None:
    proto = scan_model(axes, back, out_axes, out_back)
    random = np.random.default_rng(3)
    shapes = [[item.dim_value for item in port.type.tensor_type.shape.dim] for port in proto.graph.input]
    inputs = {
        name: random.standard_normal(shape).astype(np.float32)
        for name, shape in zip(("s0", "x", "y"), shapes, strict=True)
    }
    wanted = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]).run(
        None, inputs
    )
    result = asim.run(asim.compile(asim.load(proto), soc="Ascend310P3"), inputs, values="float32")
    for name, reference in zip(("s", "ps", "qs"), wanted, strict=True):
        np.testing.assert_allclose(result.outputs[name], reference, rtol=1e-5, atol=1e-6)
    assert sum(task.read_backs for task in result.model.program.tasks) == 0
    assert sum(task.decisions for task in result.model.program.tasks) == 3


def test_an_axis_counts_from_the_back_of_a_vector_too() -> None:
    body = Graph("body")
    body.outputs.append(body.add_input("p", DType.FLOAT32, ()))
    node = node_of("Scan", body=body, num_scan_inputs=1, scan_input_axes=(-1,), scan_output_axes=(-1,))
    (result,) = run_control(node, [Value.of(np.arange(3.0))], Script({"body": list}))
    assert result.array is not None
    assert result.array.tolist() == [0, 1, 2]


def test_an_axis_counts_from_the_back_of_what_an_iteration_gives() -> None:
    """Whatever the body knew of its rank before."""
    body = Graph("body")
    piece = body.add_input("p", DType.FLOAT32, (2,))
    piece.shape = None
    body.outputs.append(piece)
    node = node_of("Scan", body=body, num_scan_inputs=1, scan_output_axes=(-1,))
    (result,) = run_control(node, [Value.of(np.arange(6.0).reshape(3, 2))], Script({"body": list}))
    assert result.array is not None
    assert result.array.tolist() == [[0, 2, 4], [1, 3, 5]]


def test_scan_knows_its_number_of_iterations_without_a_look() -> None:
    half = Value(np.dtype(np.float32), (3, 2), None, False, half=True)
    line = Value(np.dtype(np.float32), (2,))
    host = Script({"body": lambda inputs: [inputs[0], inputs[1]]})
    body = Graph("body")
    node = node_of("Scan", body=body, num_scan_inputs=1)
    body.outputs += [body.add_input("a", DType.FLOAT32, (2,)), body.add_input("b", DType.FLOAT32, (2,))]
    state, stack = run_control(node, [line, half], host)
    assert host.log == [True, "body"] * 3
    assert (state, stack.shape, stack.array, stack.half) == (line, (3, 2), None, True)
    assert all(piece.shape == (2,) and piece.half for _, piece in host.given)
    other = Value(np.dtype(np.float32), (4, 2))
    with pytest.raises(
        asim.GraphError, match=r"node 'n' \(Scan\) needs one length for all scanned inputs, not \[3, 4\]"
    ):
        run_control(node_of("Scan", body=body, num_scan_inputs=2), [half, other], host)


@pytest.mark.parametrize(("axis", "shape"), [(0, (0, 5, 0)), (1, (5, 0, 0)), (2, (5, 0, 0)), (-1, (5, 0, 0))])
def test_no_iteration_gives_an_empty_result_of_the_bodys_shape(axis: int, shape: tuple[int, ...]) -> None:
    """Open dimensions of the body's result count 0."""
    body = Graph("body")
    piece = body.add_input("p", DType.FLOAT16, (5, None))
    piece.origin_dtype = DType.FLOAT64
    body.outputs.append(piece)
    node = node_of("Scan", body=body, num_scan_inputs=1, scan_output_axes=(axis,))
    (result,) = run_control(node, [Value(np.dtype(np.float64), (0, 5, 7))], Script({}))
    assert result.array is not None
    assert (result.shape, result.array.shape, result.dtype) == (shape, shape, np.dtype(np.float64))


def test_results_of_all_iterations_must_have_one_shape() -> None:
    sizes = iter((2, 3))
    host = Script({"body": lambda inputs: [truth(True), Value.of(np.zeros(next(sizes), np.float32))]})
    node = node_of("Loop", body=body_of(2, 2))
    with pytest.raises(
        asim.GraphError, match=r"needs scan output 'body_o1' of one shape, not \[\(2,\), \(3,\)\]"
    ):
        run_control(node, [Value.of(np.array(2))], host)


def test_a_stack_is_known_if_all_of_it_is_and_half_if_all_of_it_is() -> None:
    pieces = iter(
        [
            Value(np.dtype(np.float32), (1,), np.ones(1, np.float32), half=True),
            Value(np.dtype(np.float32), (1,), None, half=False),
        ]
    )
    host = Script({"body": lambda inputs: [truth(True), next(pieces)]})
    (stack,) = run_control(node_of("Loop", body=body_of(2, 2)), [Value.of(np.array(2))], host)
    assert (stack.shape, stack.array, stack.half) == ((2, 1), None, False)
