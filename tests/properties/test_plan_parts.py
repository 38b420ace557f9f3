"""Graphs of open shapes cut into static pieces, without a device: random graphs run plan by plan with plain
values, against onnxruntime."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.graph.verify import verify
from ascendsim.ops import default_opset
from ascendsim.runtime.control_flow import Value
from ascendsim.runtime.growth import _with_small_clusters
from ascendsim.runtime.plain import evaluate_plain
from ascendsim.runtime.specialise import Part, Plan, plan_part, result_shapes

Array = NDArray[Any]
FLOAT = TensorProto.FLOAT
WIDTH = 4
VALUES = ("Slice", "NonZero", "Unique")  # operators whose shapes depend on values
CONSTANTS = {
    "zero": np.array([0]),
    "one": np.array([1]),
    "fold": np.array([-1, WIDTH]),
    "small": np.float32(0.1),
    "scales": np.arange(WIDTH, dtype=np.float32).reshape(1, -1),
    "three": np.array([3.0], np.float32),
}


@dataclass
class Writer:
    """Writes a random network; tensors of `rows` of one number have as many rows."""

    random: Random
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=lambda: {"x": 0})

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [f"{name}_y"], name=name, **attributes))
        return f"{name}_y"

    def plain(self) -> None:
        """One whose shape follows from shapes."""
        source = self.random.choice([*self.rows][-4:])
        same = [name for name, rows in self.rows.items() if rows == self.rows[source]]
        kind = self.random.choice(["Relu", "Neg", "Add", "Sub", "Shape"])
        if kind == "Shape":
            made = self.add("Reshape", source, self.add("Shape", source))
        else:
            made = self.add(kind, source, *([self.random.choice(same)] if kind in ("Add", "Sub") else []))
        self.rows[made] = self.rows[source]

    def by_value(self) -> None:
        """Rows up to a number that is computed, those with a number above a limit, or one for each of the
        different largest numbers."""
        source = self.random.choice([*self.rows][-3:])
        kind = self.random.choice(VALUES)
        if kind == "Unique":
            most = self.add("ReduceMax", source, axes=[1], keepdims=0)
            made = self.add("Mul", self.add("Unsqueeze", self.add("Unique", most), "one"), "scales")
        elif kind == "Slice":
            size = self.add("Abs", self.add("ReduceSum", source, keepdims=0))
            many = self.add("Cast", self.add("Min", size, "three"), to=TensorProto.INT64)
            made = self.add("Slice", source, "zero", self.add("Add", many, "one"), "zero")
        else:
            most = self.add("ReduceMax", source, axes=[1], keepdims=0)
            found = self.add("NonZero", self.add("Greater", most, "small"))
            made = self.add("Gather", source, self.add("Squeeze", found, "zero"), axis=0)
        self.rows[made] = max(self.rows.values()) + 1

    def model(self, outputs: int) -> onnx.ModelProto:
        ends = self.random.sample(list(self.rows)[1:], outputs)
        graph = helper.make_graph(
            self.nodes,
            "g",
            [helper.make_tensor_value_info("x", FLOAT, ["n", WIDTH])],
            [helper.make_tensor_value_info(name, FLOAT, [None, None]) for name in dict.fromkeys(ends)],
            [numpy_helper.from_array(array, name) for name, array in CONSTANTS.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def random_model(seed: int, by_value: int, size: int = 12) -> onnx.ModelProto:
    random = Random(seed)
    writer = Writer(random)
    for step in range(size):
        if by_value and step % (size // by_value) == 2:
            writer.by_value()
        else:
            writer.plain()
    return writer.model(2)


@dataclass
class Run:
    """A graph run plan by plan.

    Attributes:
        plans: In the order in which they ran.
        values: Of all tensors that anybody has seen.
    """

    graph: Graph
    plans: list[Plan] = field(default_factory=list)
    values: dict[Tensor, Value] = field(default_factory=dict)

    def value(self, tensor: Tensor) -> Value:
        return Value.of(tensor.constant.array()) if tensor.constant is not None else self.values[tensor]

    def whole(self, part: Part, x: Array) -> list[Array]:
        opset = default_opset()
        self.values = {self.graph.inputs[0]: Value.of(x)}
        forced: Any = None
        rest: Part | None = part
        while rest is not None:
            plan = plan_part(rest, self.value, opset, forced)
            assert plan_part(rest, self.value, opset, forced) is plan  # made once
            self.plans.append(plan)
            forced = None
            if plan.graph is not None:
                given = {
                    own.name: np.asarray(self.value(tensor).array)
                    for own, tensor in zip(plan.graph.inputs, plan.inputs, strict=True)
                }
                found = evaluate_plain(plan.graph, opset, given)
                for own, tensor in zip(plan.graph.outputs, plan.outputs, strict=True):
                    assert found[own.name].shape == own.static_shape
                    self.values[tensor] = Value.of(found[own.name])
            self.values |= {tensor: Value.of(array) for tensor, array in plan.known.items()}
            if plan.stop is not None and plan.asked is None:
                forced = result_shapes(plan.stop, self.value, opset)
            rest = plan.rest
            assert len(self.plans) < 60
        return [np.asarray(self.value(tensor).array) for tensor in self.graph.outputs]


def names(plan: Plan) -> list[str]:
    return [node.name for node in plan.graph.nodes] if plan.graph is not None else []


def expected(proto: onnx.ModelProto, x: Array) -> list[Array]:
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return [np.asarray(array) for array in session.run(None, {"x": x})]


def some_rows(seed: int, rows: int = 5) -> Array:
    return np.random.default_rng(seed).standard_normal((rows, WIDTH)).astype(np.float32)


def check_pieces(run: Run, graph: Graph) -> None:
    """No node runs twice; pieces take what they use and give what is used."""
    by_name = {node.name: node for node in graph.nodes}
    ran: Counter[str] = Counter()
    known = {*graph.inputs}
    for plan in run.plans:
        there = known.union(*(by_name[name].outputs for name in ran))
        known |= plan.known.keys()
        ran.update(names(plan))
        if plan.graph is not None:
            verify(plan.graph)
            assert all(tensor.is_static for tensor in plan.graph.tensors.values())
            assert all(tensor.uses for tensor in plan.graph.inputs)
            assert there >= set(plan.inputs)
            readers = {
                reader.name
                for tensor in plan.outputs
                for reader in tensor.consumers
                if reader.name not in ran
            }
            assert all(
                tensor in graph.outputs or readers & {reader.name for reader in tensor.consumers}
                for tensor in plan.outputs
            )
        if plan.rest is None:
            assert plan.stop is None
    assert set(ran.values()) == {1}


def test_pieces_of_graphs_whose_shapes_depend_on_values_compute_what_onnxruntime_does() -> None:
    stops: Counter[str] = Counter()
    for seed in range(10):
        proto = random_model(seed, by_value=1 + seed % 3)
        graph = asim.load(proto)
        part = Part.whole(graph, "here/", frozenset())
        for turn in range(2):
            x = some_rows(seed + turn)
            run = Run(graph)
            for found, wanted in zip(run.whole(part, x), expected(proto, x), strict=True):
                np.testing.assert_array_equal(found, wanted)
            check_pieces(run, graph)
            open_nodes = [node.op_type for node in graph.nodes if node.op_type in VALUES]
            assert len(run.plans) == 1 + sum(plan.stop is not None for plan in run.plans)
            assert len(run.plans) <= 1 + len(open_nodes)
            again = Run(graph)
            again.whole(part, x)
            assert all(one is two for one, two in zip(run.plans, again.plans, strict=True))
            for plan in run.plans:
                if plan.stop is None:
                    continue
                stops[plan.stop.op_type] += 1
                assert plan.rest is not None
                assert plan.rest.prefix == "here/"
                assert (
                    plan.asked
                    == {  # which values the device finds there no rule can say: they are computed
                        "Slice": {plan.stop.input(2)},
                        "NonZero": None,
                        "Unique": None,
                    }[plan.stop.op_type]
                )
    assert min(stops[kind] for kind in VALUES) > 5


def test_a_graph_that_depends_on_no_value_is_one_piece_for_each_shape() -> None:
    for seed in range(6):
        proto = random_model(seed, by_value=0)
        graph = asim.load(proto)
        part = Part.whole(graph, "", frozenset())
        for rows in (3, 5, 3):
            run = Run(graph)
            x = some_rows(seed, rows)
            for found, wanted in zip(run.whole(part, x), expected(proto, x), strict=True):
                np.testing.assert_array_equal(found, wanted)
            check_pieces(run, graph)
            assert len(run.plans) == 1
        assert len(part.plans) == 2
        half = {graph.inputs[0]: Value(np.dtype(np.float32), (3, WIDTH), half=True)}
        plan = plan_part(part, half.__getitem__, default_opset())
        assert plan.graph is not None
        assert [(tensor.dtype, tensor.origin_dtype) for tensor in plan.graph.inputs] == [
            (DType.FLOAT16, DType.FLOAT32)
        ]
        assert len(part.plans) == 3


def test_what_grows_and_what_does_not_are_never_in_one_piece() -> None:
    """In as few pieces as that takes, and those that stand still are worth one of their own."""
    merged: Counter[bool] = Counter()
    for seed in range(30):
        random = Random(seed)
        proto = random_model(seed, by_value=seed % 2, size=14)
        graph = asim.load(proto)
        order = list(graph.topological())
        share = random.choice([0.1, 0.3, 0.6])
        growing = frozenset(node for node in order if random.random() < share)
        clusters = _with_small_clusters(order, {*growing})
        assert clusters >= growing
        assert _with_small_clusters(order, {*clusters}) == clusters
        x = some_rows(seed)
        wanted = expected(proto, x)
        smallest = {}
        for chosen in (growing, clusters):
            grow = {node.name for node in chosen}
            run = Run(graph)
            for found, exact in zip(run.whole(Part.whole(graph, "", chosen), x), wanted, strict=True):
                np.testing.assert_array_equal(found, exact)
            check_pieces(run, graph)
            assert all(len({name in grow for name in names(plan)}) < 2 for plan in run.plans)
            if any(plan.stop is not None for plan in run.plans):
                continue
            kinds = [names(plan)[0] in grow for plan in run.plans if names(plan)]
            assert all(one != other for one, other in pairwise(kinds))
            still = [plan for plan in run.plans if names(plan) and names(plan)[0] not in grow]
            smallest[chosen] = min((len(names(plan)) for plan in still), default=99)
        if smallest.keys() == {growing, clusters}:
            assert smallest[clusters] >= 4 or not growing
            assert clusters == growing or smallest[growing] < 4
            merged[clusters != growing] += 1
    assert min(merged[False], merged[True]) > 0
