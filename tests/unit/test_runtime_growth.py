"""Loops whose lists grow: what stands still is compiled once, whatever the number of turns, and values stay
those of onnxruntime."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Constant, Graph, Node, Tensor
from ascendsim.lower.known_units import LoweredUnit
from ascendsim.lower.units import UnitLowering
from ascendsim.ops import default_opset
from ascendsim.passes.infer import infer
from ascendsim.runtime.control_flow import Value
from ascendsim.runtime.growth import growing_nodes
from tests.support.gate import in_turn

pytestmark = pytest.mark.usefixtures("untimed_tiles")

SOC = "Ascend310P3"
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
TURNS = 6
STATE = ("cell_product", "cell_sum", "cell_tanh", "cell_scale", "cell_next")


def line(name: str, kind: int, shape: Any) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def constant(name: str, value: Any) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(value), name)


def cell(source: str) -> list[onnx.NodeProto]:
    """The next state from a row of eight: five nodes whose shapes stand still."""
    return [
        helper.make_node("MatMul", [source, "weight"], ["product"], name="cell_product"),
        helper.make_node("Add", ["product", "state"], ["sum"], name="cell_sum"),
        helper.make_node("Tanh", ["sum"], ["tanh"], name="cell_tanh"),
        helper.make_node("Mul", ["tanh", "half"], ["scaled"], name="cell_scale"),
        helper.make_node("Sub", ["scaled", "state"], ["next"], name="cell_next"),
    ]


def attention(over: str) -> list[onnx.NodeProto]:
    """The mean of a list's rows, weighted by how near they are to the state."""
    return [
        helper.make_node("Transpose", [over], ["turned"], name="turned", perm=[1, 0]),
        helper.make_node("MatMul", ["state", "turned"], ["near"], name="near"),
        helper.make_node("Softmax", ["near"], ["weights"], name="weights", axis=1),
        helper.make_node("MatMul", ["weights", over], ["seen"], name="seen"),
    ]


LIST = helper.make_node("Concat", ["list", "next"], ["longer"], name="longer", axis=0)
PASS = helper.make_node("Identity", ["cond"], ["again"], name="pass")
STOP = [
    helper.make_node("ReduceSum", ["longer"], ["total"], name="total", keepdims=0),
    helper.make_node("Abs", ["total"], ["size"], name="size"),
    helper.make_node("Less", ["size", "limit"], ["again"], name="again"),
]
BODIES = {
    "list": [*cell("state"), LIST, PASS],
    "attention over the list": [*attention("list"), *cell("seen"), LIST, PASS],
    "a condition on the list": [*cell("state"), LIST, *STOP],
    "a bound that moves": [
        helper.make_node("Add", ["i", "one"], ["end"], name="end"),
        helper.make_node("Unsqueeze", ["i", "axis"], ["from"], name="from"),
        helper.make_node("Unsqueeze", ["end", "axis"], ["to"], name="to"),
        helper.make_node("Slice", ["rows", "from", "to"], ["row"], name="row"),
        *cell("row"),
        LIST,
        PASS,
    ],
}


def growing(body: list[onnx.NodeProto], turns: int = TURNS) -> onnx.ModelProto:
    """A loop that appends its state to a list, which starts with one row."""
    inputs = [
        line("i", INT64, []),
        line("cond", BOOL, []),
        line("state", FLOAT, [1, 8]),
        line("list", FLOAT, ["n", 8]),
    ]
    outputs = [line("again", BOOL, []), line("next", FLOAT, [1, 8]), line("longer", FLOAT, ["m", 8])]
    inner = helper.make_graph(body, "body", inputs, outputs)
    loop = helper.make_node(
        "Loop", ["turns", "true", "start", "start"], ["last", "all"], name="loop", body=inner
    )
    rng = np.random.default_rng(3)
    weights = [
        constant("weight", rng.standard_normal((8, 8)).astype(np.float32) / 3),
        constant("half", np.float32(0.5)),
        constant("limit", np.float32(1000)),
        constant("one", 1),
        constant("axis", [0]),
        constant("turns", turns),
        constant("fold", [2, 4]),
        constant("flat", [1, 8]),
        constant("true", True),
    ]
    given = [line("start", FLOAT, [1, 8]), line("rows", FLOAT, [TURNS, 8])]
    graph = helper.make_graph(
        [loop, helper.make_node("Relu", ["rows"], ["same"], name="same")],
        "growing",
        given,
        [line("last", FLOAT, [1, 8]), line("all", FLOAT, ["k", 8]), line("same", FLOAT, [TURNS, 8])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def given() -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(1)
    return {
        name: rng.standard_normal(shape).astype(np.float32)
        for name, shape in (("start", (1, 8)), ("rows", (TURNS, 8)))
    }


def times_compiled(model: asim.CompiledModel) -> Counter[str]:
    """In how many pieces each node of the body lies."""
    assert isinstance(model, asim.DynamicModel)
    return Counter(
        name
        for piece in model.pieces.compiled.values()
        for node in piece.compiled.graph.nodes
        for name in node.origin.get("names", (node.name,))
    )


def branch(kind: str) -> onnx.GraphProto:
    """A branch that reads the list from outside."""
    return helper.make_graph(
        [helper.make_node(kind, ["longer"], [f"{kind}_y"], name=kind)],
        kind,
        [],
        [line(f"{kind}_y", FLOAT, ["b", 8])],
    )


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (BODIES["list"], {"longer"}),
        (BODIES["a condition on the list"], {"longer", "total", "size", "again"}),
        # the bounds of the slice are other numbers in every turn, its shape is not
        (BODIES["a bound that moves"], {"longer", "row"}),
        (
            [
                *cell("state"),
                LIST,
                helper.make_node(
                    "If", ["cond"], ["way"], name="way", then_branch=branch("Relu"), else_branch=branch("Neg")
                ),
                helper.make_node("ReduceSum", ["way"], ["total"], name="total", keepdims=0),
                *STOP[1:],
            ],
            {"longer", "total", "size", "again"},
        ),
    ],
    ids=["list", "condition", "bound", "branch"],
)
def test_what_grows_is_found_from_shapes_and_bounds_and_runs_no_subgraphs(
    body: list[onnx.NodeProto], wanted: set[str]
) -> None:
    """With what is too small for a piece of its own."""
    graph = asim.load(growing(body))
    (loop,) = [node for node in graph.nodes if node.op_type == "Loop"]
    inner = loop.attributes["body"]
    assert isinstance(inner, Graph)
    start = Value(np.dtype(np.float32), (1, 8))
    rows = Value(np.dtype(np.float32), (TURNS, 8))
    values = {
        tensor: rows if tensor.constant is None else Value.of(tensor.constant.array())
        for tensor in inner.captured()
    }
    given = [Value.of(np.array(0)), Value.of(np.array(True)), start, start]
    values.update(zip(inner.inputs, given, strict=True))
    assert {node.name for node in growing_nodes(loop, inner, values, default_opset())} == wanted


def test_each_turn_gets_what_the_one_before_gave_at_its_place() -> None:
    """A number a turn, a condition of one element, then the variables: what is made of each of them alone
    stands still or grows as it does; a weight whose values nobody has stands still."""
    body, opset = Graph("body"), default_opset()
    number, going = body.add_input("i", DType.INT64, ()), body.add_input("c", DType.BOOL, ())
    rows, state = body.add_input("r", DType.FLOAT32, (8, "n")), body.add_input("s", DType.FLOAT32, (8, 1))
    ends = {}
    for tensor in (number, going, rows, state):
        end = tensor
        for step in range(4):  # as many as make a piece
            end = body.add_node(
                "Identity", [end], [f"{tensor.name}{step}"], name=f"{tensor.name}{step}"
            ).output
        ends[tensor.name] = end
    absent = body.add_tensor(
        Tensor("w", DType.FLOAT32, (8, 1), constant=Constant(absent_because="of its size"))
    )
    scaled = body.add_node("Mul", [ends["s"], absent], ["scaled"], name="scaled").output
    longer = body.add_node("Concat", [ends["r"], scaled], ["longer"], name="longer", axis=1).output
    axis = body.add_constant("axis", np.array([1]))
    most = body.add_node("ReduceMax", [longer, axis], ["most"], name="most").output
    for step in range(4):
        most = body.add_node("Neg", [most], [f"still{step}"], name=f"still{step}").output
    other = body.add_node("Neg", [longer], ["scanned"], name="scanned").output
    body.outputs += [ends["c"], longer, ends["s"], other, most]
    graph = Graph("loop")
    given = [graph.add_input(name, DType.FLOAT32, (8, 1)) for name in "rs"]
    loop = graph.add_node(
        "Loop", [None, None, *given], ["r_out", "s_out", "all", "each"], name="loop", body=body
    )
    start = Value(np.dtype(np.float32), (8, 1))
    counts = [Value.of(np.array(0)), Value.of(np.array(True)), start, start]
    found = growing_nodes(loop, body, dict(zip(body.inputs, counts, strict=True)), opset)
    assert {node.name for node in found} == {"r0", "r1", "r2", "r3", "longer", "most", "scanned"}


@pytest.mark.parametrize(("kind", "fusion"), in_turn([*BODIES], ["off", "all"]))
def test_what_stands_still_is_not_compiled_every_turn(kind: str, fusion: str) -> None:
    proto, inputs = growing(BODIES[kind]), given()
    model = asim.compile(asim.load(proto), soc=SOC, fusion=fusion)
    result = asim.run(model, inputs, values="float32")
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for found, wanted in zip(result.outputs.values(), session.run(None, inputs), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    if kind in ("list", "attention over the list"):  # what grows waits, but for no values
        assert sum(task.read_backs for task in result.model.program.tasks) == 0
    if fusion == "off":
        times = times_compiled(model)
        # once for the start in float32, once for the state as the device keeps it
        assert {times[name] for name in STATE} == {2}
        assert times["longer"] == TURNS


def test_a_piece_of_fewer_than_four_nodes_goes_with_what_grows() -> None:
    """As GE has it: a short chain is no model of its own."""
    short = [helper.make_node("Tanh", ["state"], ["next"], name="tanh"), LIST, PASS]
    model = asim.compile(asim.load(growing(short)), soc=SOC, fusion="off")
    asim.run(model, given())
    assert times_compiled(model)["tanh"] == times_compiled(model)["longer"] == TURNS


def test_what_asks_for_values_that_stand_still_does_not_grow() -> None:
    """A Reshape asks for its shape, which is the same in every turn."""
    folded = [
        helper.make_node("Reshape", ["state", "fold"], ["folded"], name="fold"),
        helper.make_node("Softmax", ["folded"], ["shares"], name="shares", axis=1),
        helper.make_node("Reshape", ["shares", "flat"], ["held"], name="flat"),
    ]
    model = asim.compile(asim.load(growing([*folded, *cell("held"), LIST, PASS])), soc=SOC, fusion="off")
    asim.run(model, given())
    times = times_compiled(model)
    assert times["shares"] == times["cell_tanh"] == 2
    assert times["longer"] == TURNS


def growing_while() -> Graph:
    """GE's While: a state of six steps, a list that gets it in every turn, a count that ends the loop."""

    def part(name: str) -> tuple[Graph, list[Tensor]]:
        graph = Graph(name)
        kinds: list[tuple[DType, Any]] = [
            (DType.FLOAT32, (1, 8)),
            (DType.FLOAT32, ("n", 8)),
            (DType.INT64, ()),
        ]
        return graph, [graph.add_input(f"{name}{n}", *kind) for n, kind in enumerate(kinds)]

    cond, (_, _, count) = part("cond")
    most = cond.add_constant("most", np.array(TURNS))
    cond.outputs.append(cond.add_node("Less", [count, most], ["go"]).output)
    body, (state, rows, count) = part("body")
    for number in range(6):
        state = body.add_node(
            "Tanh" if number % 2 else "Exp", [state], [f"s{number}"], name=f"n{number}"
        ).output
    longer = body.add_node("Concat", [rows, state], ["longer"], name="longer", axis=0).output
    one = body.add_constant("one", np.array(1))
    body.outputs += [state, longer, body.add_node("Add", [count, one], ["next"], name="next").output]
    graph = Graph("growing while")
    x, zero = graph.add_input("x", DType.FLOAT32, (1, 8)), graph.add_constant("zero", np.array(0))
    names = ["last", "all", "turns"]
    loop = graph.add_node("While", [x, x, zero], names, name="while", domain="ascend", cond=cond, body=body)
    graph.outputs += loop.outputs[:2]
    infer(graph, default_opset())
    return graph


def test_the_body_of_a_while_is_looked_at_though_its_condition_runs_first() -> None:
    model = asim.compile(growing_while(), soc=SOC, fusion="off")
    x = np.linspace(-1, 1, 8, dtype=np.float32)[None]
    found = asim.run(model, {"x": x}, values="float32").outputs
    wanted = [x]
    for _ in range(TURNS):
        state = wanted[-1]
        for number in range(6):
            state = np.tanh(state) if number % 2 else np.exp(state)
        wanted.append(state)
    np.testing.assert_allclose(found["all"], np.concatenate(wanted), rtol=1e-5)
    times = times_compiled(model)
    assert times["n0"] == times["n5"] == 2
    assert times["longer"] == TURNS


def test_a_loop_that_does_not_grow_is_not_cut() -> None:
    """The list takes the place of the list before: one piece a turn."""
    body = [*cell("list"), helper.make_node("Mul", ["next", "half"], ["longer"], name="longer"), PASS]
    model = asim.compile(asim.load(growing(body)), soc=SOC, fusion="off")
    asim.run(model, given())
    assert isinstance(model, asim.DynamicModel)
    together = [
        {"cell_next", "longer"} <= {node.name for node in piece.compiled.graph.nodes}
        for piece in model.pieces.compiled.values()
        if piece.prefix
    ]
    assert together
    assert all(together)


def test_pieces_look_up_what_others_have_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered: Counter[str] = Counter()
    lower = UnitLowering._lower_node

    def counting(self: UnitLowering, node: Node) -> LoweredUnit:
        lowered[node.name] += 1
        return lower(self, node)

    monkeypatch.setattr(UnitLowering, "_lower_node", counting)
    short = [helper.make_node("Exp", ["state"], ["next"], name="exp"), LIST, PASS]
    asim.run(asim.compile(asim.load(growing(short)), soc=SOC, fusion="off"), given())
    assert 0 < lowered["exp"] <= 2
    assert lowered["longer"] == TURNS
