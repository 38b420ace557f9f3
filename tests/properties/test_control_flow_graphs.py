"""Random networks of branches and loops in each other: values equal onnxruntime's, time does not depend on
how values are computed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Union

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import ascendsim as asim
from ascendsim.graph.ir import Graph, Node
from ascendsim.graph.verify import verify
from ascendsim.ops import default_opset
from ascendsim.passes.infer import infer

SHAPE = (3, 8)


@dataclass(frozen=True)
class Step:
    """One operator on the value, with a number of its own."""

    kind: str
    number: float


@dataclass(frozen=True)
class Branch:
    """One of two blocks, by the sign of the value's sum."""

    then: tuple[Any, ...]
    other: tuple[Any, ...]


@dataclass(frozen=True)
class Repeat:
    """A block so many times, or fewer if the largest element falls to a limit; stacks the means if asked
    to."""

    body: tuple[Any, ...]
    trips: int
    by_value: bool


@dataclass(frozen=True)
class Rows:
    """Scan over the rows with a state of one row; gives the stacked states."""

    back: bool


Statement = Union[Step, Branch, Repeat, Rows]

STEPS = st.builds(
    Step,
    st.sampled_from(["Add", "Mul", "Max", "Relu", "Tanh", "Neg", "MatMul", "Captured"]),
    st.floats(-2, 2, width=16).filter(lambda number: number == 0 or abs(number) > 1e-3),
)


def blocks(depth: int) -> st.SearchStrategy[tuple[Statement, ...]]:
    choices: list[st.SearchStrategy[Any]] = [STEPS, st.builds(Rows, st.booleans())]
    if depth:
        inner = blocks(depth - 1)
        choices += [
            st.builds(Branch, inner, inner),
            st.builds(Repeat, inner, st.integers(0, 3), st.booleans()),
        ]
    return st.lists(st.one_of(choices), min_size=1, max_size=3).map(tuple)


@dataclass
class Writer:
    """Writes blocks as ONNX graphs with names that are unique in the model."""

    count: int = 0
    weights: list[onnx.TensorProto] = field(default_factory=list)

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def constant(self, values: Any) -> str:
        name = self.name("c")
        self.weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def block(self, statements: tuple[Statement, ...], value: str, nodes: list[onnx.NodeProto]) -> str:
        for statement in statements:
            value = self.statement(statement, value, nodes)
        return value

    def node(
        self, nodes: list[onnx.NodeProto], kind: str, inputs: list[str], outputs: int = 1, **attributes: Any
    ) -> list[str]:
        names = [self.name("t") for _ in range(outputs)]
        nodes.append(helper.make_node(kind, inputs, names, name=self.name(kind.lower()), **attributes))
        return names

    def statement(self, statement: Statement, value: str, nodes: list[onnx.NodeProto]) -> str:
        if isinstance(statement, Step):
            if statement.kind in ("Relu", "Tanh", "Neg"):
                return self.node(nodes, statement.kind, [value])[0]
            if statement.kind == "MatMul":
                weight = np.random.default_rng(self.count).standard_normal((8, 8)).astype(np.float32) / 3
                return self.node(nodes, "MatMul", [value, self.constant(weight)])[0]
            if statement.kind == "Captured":
                return self.node(nodes, "Add", [value, "x"])[0]  # a tensor of the outermost graph
            return self.node(nodes, statement.kind, [value, self.constant(np.float32(statement.number))])[0]
        if isinstance(statement, Branch):
            total = self.node(nodes, "ReduceSum", [value], keepdims=0)[0]
            positive = self.node(nodes, "Greater", [total, self.constant(np.float32(0))])[0]
            branches = {
                name: self.graph(block, value)
                for name, block in (("then_branch", statement.then), ("else_branch", statement.other))
            }
            return self.node(nodes, "If", [positive], **branches)[0]
        if isinstance(statement, Repeat):
            return self.repeat(statement, value, nodes)
        return self.rows(statement, value, nodes)

    def graph(self, block: tuple[Statement, ...], value: str) -> onnx.GraphProto:
        inner: list[onnx.NodeProto] = []
        result = self.block(block, value, inner)
        return helper.make_graph(inner, self.name("branch"), [], [tensor(result)])

    def repeat(self, statement: Repeat, value: str, nodes: list[onnx.NodeProto]) -> str:
        inner: list[onnx.NodeProto] = []
        before, going, number = self.name("v"), self.name("g"), self.name("i")
        after = self.block(statement.body, before, inner)
        if statement.by_value:
            largest = self.node(inner, "ReduceMax", [after], keepdims=0)[0]
            on = self.node(inner, "Greater", [largest, self.constant(np.float32(-0.5))])[0]
        else:
            on = self.node(inner, "Identity", [going])[0]
        body = helper.make_graph(
            inner,
            self.name("body"),
            [tensor(number, (), TensorProto.INT64), tensor(going, (), TensorProto.BOOL), tensor(before)],
            [tensor(on, (), TensorProto.BOOL), tensor(after)],
        )
        return self.node(nodes, "Loop", [self.constant(np.int64(statement.trips)), "", value], body=body)[0]

    def rows(self, statement: Rows, value: str, nodes: list[onnx.NodeProto]) -> str:
        state, row = self.name("s"), self.name("r")
        inner: list[onnx.NodeProto] = []
        total = self.node(inner, "Add", [state, row])[0]
        scaled = self.node(inner, "Mul", [total, self.constant(np.float32(0.5))])[0]
        copy = self.node(inner, "Identity", [scaled])[0]
        line = SHAPE[1:]
        body = helper.make_graph(
            inner,
            self.name("body"),
            [tensor(state, line), tensor(row, line)],
            [tensor(scaled, line), tensor(copy, line)],
        )
        start = self.constant(np.zeros(line, np.float32))
        back = [int(statement.back)]
        options = {"num_scan_inputs": 1, "scan_input_directions": back, "scan_output_directions": back}
        return self.node(nodes, "Scan", [start, value], 2, body=body, **options)[1]


def tensor(name: str, shape: Any = (None, 8), kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model_of(block: tuple[Statement, ...], open_rows: bool) -> onnx.ModelProto:
    writer, nodes = Writer(), list[onnx.NodeProto]()
    result = writer.block(block, "x", nodes)
    rows: Any = ("n", 8) if open_rows else SHAPE
    graph = helper.make_graph(nodes, "random", [tensor("x", rows)], [tensor(result, rows)], writer.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def loops_as_whiles(graph: Graph) -> None:
    """Replaces every Loop of a graph, and of the subgraphs inside it, by GE's While over (iteration,
    condition, value)."""
    for node in graph.nodes:
        for _, inner in node.subgraphs:
            loops_as_whiles(inner)
        if node.op_type == "Loop":
            one_as_while(graph, node)


def one_as_while(graph: Graph, loop: Node) -> None:
    body = loop.attributes.pop("body")
    assert isinstance(body, Graph)
    one = body.add_constant(body.fresh("one"), np.array(1, np.int64))
    body.outputs.insert(0, body.add_node("Add", [body.inputs[0], one], [body.fresh("next")]).output)
    cond = Graph(graph.fresh("cond"))
    ports = [
        cond.add_input(f"{cond.name}_{place}", tensor.element_type, tensor.shape or ())
        for place, tensor in enumerate(body.inputs)
    ]
    most = loop.required(0).constant
    assert most is not None
    below = cond.add_node(
        "Less", [ports[0], cond.add_constant(f"{cond.name}_most", most.array())], [f"{cond.name}_below"]
    ).output
    cond.outputs.append(cond.add_node("And", [below, ports[1]], [f"{cond.name}_on"]).output)
    start = [
        graph.add_constant(graph.fresh("start"), np.array(0, np.int64)),
        graph.add_constant(graph.fresh("going"), np.array(True)),
        loop.required(2),
    ]
    names = [graph.fresh(f"{loop.name}_{port}") for port in range(3)]
    node = graph.add_node(
        "While", start, names, name=graph.fresh("while"), domain="ascend", cond=cond, body=body
    )
    graph.place_before(node, loop)
    graph.replace_uses(loop.output, node.outputs[2])
    graph.remove_node(loop)


def agrees(block: tuple[Statement, ...], seed: int, open_rows: bool, whiles: bool = False) -> None:
    proto = model_of(block, open_rows)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    graph = asim.load(proto)
    if whiles:
        loops_as_whiles(graph)
        infer(graph, default_opset())
        verify(graph)
    model = asim.compile(graph, soc="Ascend310P3")
    plain = asim.compile(graph, soc="Ascend310P3", optimize=False, fusion="off")
    for rows in (3, 5) if open_rows else (3,):
        x: dict[str, NDArray[Any]] = {
            "x": np.random.default_rng(seed).standard_normal((rows, 8)).astype(np.float32)
        }
        (wanted,) = session.run(None, x)
        result = asim.run(model, x, values="float32")
        np.testing.assert_allclose(next(iter(result.outputs.values())), wanted, rtol=1e-4, atol=1e-4)
        assert result.schedule == ("host" if open_rows else "sink")  # whatever the values decide
        assert asim.run(model, x, values="float32").duration_us == result.duration_us
        unfused = asim.run(plain, x, values="float32")
        np.testing.assert_allclose(next(iter(unfused.outputs.values())), wanted, rtol=1e-4, atol=1e-4)


@settings(max_examples=3, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(blocks(2), st.integers(0, 1000), st.booleans())
def test_random_networks_agree_with_onnxruntime(
    block: tuple[Statement, ...], seed: int, open_rows: bool
) -> None:
    agrees(block, seed, open_rows)


@settings(max_examples=2, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(blocks(2), st.integers(0, 1000), st.booleans())
def test_loops_written_as_whiles_agree_with_onnxruntime(
    block: tuple[Statement, ...], seed: int, open_rows: bool
) -> None:
    agrees(block, seed, open_rows, whiles=True)


@pytest.mark.slow
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(blocks(3), st.integers(0, 1000), st.booleans(), st.booleans())
def test_many_random_networks_agree_with_onnxruntime(
    block: tuple[Statement, ...], seed: int, open_rows: bool, whiles: bool
) -> None:
    agrees(block, seed, open_rows, whiles)
