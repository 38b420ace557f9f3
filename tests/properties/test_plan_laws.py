"""Plans of graphs whose shapes depend on values, followed piece by piece, against a plain model: a node runs
as soon as all that it reads is there and the shape of its result is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import ascendsim as asim
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.graph.verify import verify
from ascendsim.ops import default_opset
from ascendsim.runtime.control_flow import Value
from ascendsim.runtime.specialise import Part, Plan, plan_part, result_shapes

OPSET = default_opset()


def random_graph(random: Random) -> Graph:
    """Vectors: Relu and Concat keep lengths known, Unique gives as many as there are different values, Expand
    and Slice as many as a number says."""
    vectors, numbers, nodes = ["x0", "x1"], ["s0", "s1"], []
    for place in range(random.randint(3, 10)):
        kind = random.choice(("Relu", "Concat", "Unique", "Expand", "Slice", "Add", "Add", "Shape"))
        into, name = vectors, f"n{place}"
        read = random.choices(vectors, k=2 if kind == "Concat" else 1)
        if kind == "Add":
            into, read = numbers, random.choices(numbers, k=2)
        elif kind == "Shape":
            into = numbers
        elif kind == "Expand":
            read = ["one", random.choice(numbers)]
        elif kind == "Slice":
            read = [*read, random.choice(numbers), "far"]
        options = {"axis": 0} if kind == "Concat" else {}
        nodes.append(helper.make_node(kind, read, [f"t{place}"], name=name, **options))
        into.append(f"t{place}")
    used = {name for node in nodes for name in node.input}
    ends = [name for name in (*vectors, *numbers) if name.startswith("t")]
    ends = [name for name in ends if name not in used or random.random() < 0.2]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in ("x0", "x1")]
    inputs += [helper.make_tensor_value_info("one", TensorProto.FLOAT, [1])]
    inputs += [helper.make_tensor_value_info(name, TensorProto.INT64, [1]) for name in ("s0", "s1")]
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64 if name in numbers else TensorProto.FLOAT, None)
        for name in ends
    ]
    far = numpy_helper.from_array(np.array([99]), "far")
    proto = helper.make_graph(nodes, "g", inputs, outputs, [far])
    return asim.load(helper.make_model(proto, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))


@dataclass
class Turn:
    """What the plain model lets run at once, where it stops and which values it asks for then."""

    nodes: set[str]
    stop: str | None = None
    asked: set[str] | None = None


@dataclass
class Plain:
    """The plain model."""

    graph: Graph
    known: set[str] = field(default_factory=set)  # numbers that the host has seen, or can tell from these

    def turns(self) -> list[Turn]:
        left, found, computed = list(self.graph.topological()), [], ""
        while True:
            late: list[Any] = []
            for node in left:
                (result,) = node.outputs
                read = [tensor.name for tensor in node.inputs if tensor is not None]
                waits = any(name in {out.name for other in late for out in other.outputs} for name in read)
                if node.op_type == "Unique":
                    waits |= node.name != computed
                if node.op_type in ("Expand", "Slice"):
                    waits |= read[1] not in self.known and not node.inputs[1].is_constant
                told = node.op_type == "Add" and all(
                    tensor.is_constant or tensor.name in self.known for tensor in node.inputs
                )
                if not waits and (told or node.op_type == "Shape"):
                    self.known.add(result.name)
                if waits:
                    late.append(node)
            turn = Turn({node.name for node in left if node not in late})
            found.append(turn)
            if not late:
                return found
            stop, left, computed = late[0], late, ""
            turn.stop = stop.name
            if stop.op_type in ("Expand", "Slice"):
                turn.asked = {stop.inputs[1].name}
                self.known |= turn.asked
            else:
                computed = stop.name


def computed(graph: Graph, held: dict[Tensor, Any]) -> list[Any]:
    """The outputs of a static piece, whose results have the shapes that it says."""
    held = held | {t: t.constant.array() for t in graph.tensors.values() if t.constant is not None}
    for node in graph.topological():
        arrays = [None if tensor is None else held[tensor] for tensor in node.inputs]
        wanted = [tensor.origin_dtype.numpy for tensor in node.outputs if tensor.origin_dtype]
        for tensor, array in zip(node.outputs, OPSET.get(node).compute(node, arrays, wanted), strict=False):
            assert array.shape == tensor.shape
            held[tensor] = array
    return [held[tensor] for tensor in graph.outputs]


def followed(graph: Graph, values: dict[str, np.ndarray[Any, Any]]) -> list[Plan]:
    """All plans, one after the other; what each gives is computed node by node."""
    held: dict[Tensor, Value] = {tensor: Value.of(values[tensor.name]) for tensor in graph.inputs}

    def value_of(tensor: Tensor) -> Value:
        return Value.of(tensor.constant.array()) if tensor.constant is not None else held[tensor]

    part: Part | None = Part.whole(graph, "", frozenset())
    plans, forced = [], None
    while part is not None:
        plan = plan_part(part, value_of, OPSET, forced)
        assert plan_part(part, value_of, OPSET, forced) is plan, "planned once"
        plans.append(plan)
        for tensor, array in plan.known.items():
            held[tensor] = Value.of(array)
        if plan.graph:
            given = [held[tensor].array for tensor in plan.inputs]
            assert [array.shape for array in given] == [tensor.shape for tensor in plan.graph.inputs]
            results = computed(plan.graph, dict(zip(plan.graph.inputs, given, strict=True)))
            held.update(zip(plan.outputs, map(Value.of, results), strict=True))
        forced = result_shapes(plan.stop, value_of, OPSET) if plan.stop and plan.asked is None else None
        part = plan.rest
    assert all(tensor in held or tensor.is_constant for tensor in graph.outputs)
    return plans


def test_each_piece_is_all_that_can_run() -> None:
    stops = asked = known = 0
    for seed in range(16):
        random = Random(seed)
        graph = random_graph(random)
        arrays = np.random.default_rng(seed)
        values: dict[str, Any] = {
            name: arrays.integers(0, 3, 3).astype(np.float32) for name in ("x0", "x1")
        } | {"one": np.ones(1, np.float32), "s0": np.array([2]), "s1": np.array([3])}
        plain = Plain(graph)
        turns, plans = plain.turns(), followed(graph, values)
        folded = {tensor.name for plan in plans for tensor in plan.known}
        made: set[str] = set()
        for turn, plan in zip(turns, plans, strict=True):
            names = {node.name for node in plan.graph.nodes} if plan.graph else set()
            folding = {node.name for node in graph.nodes if node.op_type in ("Add", "Shape")}
            assert names - folding == turn.nodes - folding, seed
            assert names <= turn.nodes
            assert not names & made, "runs once"
            made |= names
            assert (plan.stop.name if plan.stop else None) == turn.stop
            assert (plan.asked is None) == (turn.asked is None)
            assert {tensor.name for tensor in plan.asked or ()} == (turn.asked or set())
            stops += plan.stop is not None
            asked += plan.asked is not None
            if plan.graph:
                verify(plan.graph)
                assert all(tensor.uses or tensor in plan.graph.outputs for tensor in plan.graph.inputs)
                later = {t for node in graph.nodes if node.name not in made for t in node.inputs}
                needed = [t for t in plan.outputs if t in later or t in graph.outputs]
                assert needed == list(plan.outputs), "what nobody reads stays inside"
                assert len({t.name for t in plan.outputs}) == len(plan.outputs)
            else:
                assert not plan.inputs
                assert not plan.outputs
        known += len(folded)
        assert folded <= plain.known
        assert all(node.name in made or node.op_type in ("Add", "Shape") for node in graph.nodes)
    assert stops > 20
    assert asked > 5
    assert known > 0
