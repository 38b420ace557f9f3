"""Values of a compiled graph: in the order of the machine, from checked inputs; inputs where the user has
none."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Graph, Node, Tensor
from ascendsim.isa.program import MemoryPlan, Program, Region, Task, TaskKind
from ascendsim.ops import default_opset
from ascendsim.ops.fused.bounded import run_bounded
from ascendsim.passes.infer import infer
from ascendsim.runtime.device_memory import DeviceMemory
from ascendsim.runtime.evaluate import checked_inputs, evaluate, random_inputs
from ascendsim.runtime.plain import evaluate_plain

X = np.array([-1, 0, 3], np.float32)


def chain() -> tuple[Graph, MemoryPlan]:
    """y = sigmoid(relu(x)), each tensor at an address of its own."""
    graph = Graph("chain")
    x = graph.add_input("x", DType.FLOAT32, (3,))
    r = graph.add_node("Relu", [x], ["r"], name="relu").output
    y = graph.add_node("Sigmoid", [r], ["y"], name="sigmoid").output
    for tensor in (x, r, y):
        tensor.dtype = tensor.origin_dtype = DType.FLOAT32
        tensor.shape = (3,)
    graph.outputs.append(y)
    plan = MemoryPlan(
        {name: Region(name, 512 * place, 12, "activation") for place, name in enumerate("xry")}, 1536, 0
    )
    return graph, plan


def tasks_of(*nodes: tuple[str, ...]) -> tuple[Task, ...]:
    return tuple(
        Task(10 + number, names[0], TaskKind.AI_CORE, fused=names) for number, names in enumerate(nodes)
    )


def outputs(program: Program, graph: Graph, order: list[int], **more: Any) -> list[float]:
    return [
        float(value)
        for value in evaluate(graph, program, default_opset(), order, {"x": X}, values="float32", **more)["y"]
    ]


WANTED = [0.5, 0.5, float(1 / (1 + np.exp(np.float32(-3))))]


def test_each_node_is_computed_when_the_last_of_its_tasks_ends() -> None:
    graph, plan = chain()
    two_tasks = Program(tasks_of(("relu",), ("relu",), ("sigmoid",)), plan)
    assert outputs(two_tasks, graph, [10, 11, 12]) == pytest.approx(WANTED)
    assert np.isnan(
        outputs(two_tasks, graph, [10, 12, 11])
    ).all()  # the first of the two alone leaves nothing to read
    assert outputs(Program(tasks_of(("relu",), ("sigmoid",)), plan), graph, [10, 11]) == pytest.approx(WANTED)
    assert np.isnan(outputs(Program(tasks_of(("sigmoid",), ("relu",)), plan), graph, [10, 11])).all()


def test_what_fused_nodes_hand_to_each_other_never_gets_to_memory() -> None:
    graph, plan = chain()
    fused = Program(
        tasks_of(("relu", "sigmoid")), replace(plan, regions={name: plan.regions[name] for name in "xy"})
    )
    assert outputs(fused, graph, [10]) == pytest.approx(WANTED)


def test_progress_and_memory_that_is_used_again() -> None:
    graph, plan = chain()
    program, seen = Program(tasks_of(("relu",), ("sigmoid",)), plan), list[tuple[int, int]]()
    memory = DeviceMemory(graph, plan, "float32")
    assert outputs(
        program, graph, [10, 11], progress=lambda *at: seen.append(at), memory=memory
    ) == pytest.approx(WANTED)
    assert seen == [(1, 2), (2, 2)]
    # computed there and nowhere else
    assert memory.read(graph.tensors["y"]).tolist() == pytest.approx(WANTED)

    def again(x: np.ndarray) -> np.ndarray:
        return evaluate(graph, program, default_opset(), [10, 11], {"x": x}, values="float32", memory=memory)[
            "y"
        ]

    first, second = again(X), again(-X)
    assert first.tolist() == pytest.approx(WANTED)  # outputs are copies
    assert second.tolist() == pytest.approx((1 / (1 + np.exp(-np.maximum(-X, 0)))).tolist())


def test_what_no_task_wrote_is_nan_in_every_evaluation() -> None:
    graph, plan = chain()
    program = Program(tasks_of(("relu",), ("sigmoid",)), plan)
    memory = DeviceMemory(graph, plan, "float32")
    for _ in range(2):
        assert np.isnan(outputs(program, graph, [10], memory=memory)).all()


def test_runs_of_open_shapes_count_their_steps() -> None:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ends[:1], ends[1:])
    model = asim.compile(
        asim.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)),
        soc="Ascend310P3",
    )
    seen: list[tuple[int, int]] = []
    result = asim.run(model, {"x": np.ones((2, 4), np.float32)}, progress=lambda *at: seen.append(at))
    assert seen[0] == (1, 0)
    assert seen[-1] == (len(result.trace.tasks), len(result.trace.tasks))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, r"input 'x' is missing; the model wants float32\[2, 3\]; pass"),
        ({"x": np.ones((2, 3), np.float32), "z": X}, r"input 'z' is not an input of the model"),
        ({"x": np.ones((3, 2), np.float32)}, r"input 'x' must have shape \[2, 3\], not \[3, 2\]"),
        (
            {"x": np.ones((2, 3))},
            r"input 'x' must be of type float32, not float64; convert it with .astype\('float32'\)",
        ),
    ],
)
def test_inputs_are_checked(inputs: dict[str, Any], message: str) -> None:
    graph = Graph("g")
    graph.add_input("x", DType.FLOAT16, (2, 3)).origin_dtype = DType.FLOAT32
    with pytest.raises(asim.InputError) as caught:
        checked_inputs(graph, inputs)
    assert caught.match(message.split("; pass")[0])
    assert checked_inputs(
        graph, {"x": np.ones((2, 3), np.float32).tolist()} | {"x": np.ones((2, 3), np.float32)}
    )["x"].shape == (2, 3)


def test_random_inputs_are_seeded_and_valid_for_their_type() -> None:
    graph = Graph("g")
    floats = graph.add_input("floats", DType.FLOAT16, (64, 64))
    floats.origin_dtype = DType.FLOAT32
    graph.add_input("flags", DType.BOOL, (64,))
    graph.add_input("ids", DType.INT64, (256,))
    image = graph.add_input("image", DType.UINT8, (256, 16))
    graph.add_node("Aipp", [image], 1, name="aipp")
    arrays = random_inputs(graph)
    assert {name: (array.dtype, array.shape) for name, array in arrays.items()} == {
        "floats": (np.dtype(np.float32), (64, 64)),
        "flags": (np.dtype(bool), (64,)),
        "ids": (np.dtype(np.int64), (256,)),
        "image": (np.dtype(np.uint8), (256, 16)),
    }
    assert abs(arrays["floats"].mean()) < 0.1
    assert 0.9 < arrays["floats"].std() < 1.1
    assert (arrays["ids"].min(), arrays["ids"].max()) == (0, 1)
    assert set(arrays["flags"].tolist()) == {False, True}
    assert (arrays["image"].min(), arrays["image"].max()) == (0, 255)
    again, other = random_inputs(graph), random_inputs(graph, 1)
    assert all(np.array_equal(array, again[name]) for name, array in arrays.items())
    assert not np.array_equal(other["floats"], arrays["floats"])


def test_tensors_without_a_type_of_the_models_own_have_the_devices() -> None:
    """As after a pass that made them before their type was known."""
    graph = Graph("g")
    late = graph.add_tensor(Tensor("late", None, (5,)))
    graph.inputs.append(late)
    node = graph.add_node("Neg", [late], ["negative"])
    for tensor in graph.tensors.values():
        tensor.dtype, tensor.shape = DType.INT32, (5,)
        assert tensor.origin_dtype is None
    graph.outputs.append(node.output)
    arrays = random_inputs(graph)
    assert arrays["late"].dtype == np.int32
    assert checked_inputs(graph, arrays)["late"] is arrays["late"]
    for device in (False, True):
        found = evaluate_plain(graph, default_opset(), arrays, device)["negative"]
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, -arrays["late"])


def test_random_inputs_that_the_host_has_no_memory_for_are_refused() -> None:
    """As many bytes as the arrays would have, in the types of the model: 2^40 of 4 and 2^40 of 1."""
    graph = Graph("g")
    graph.add_input("floats", DType.FLOAT16, (1 << 20, 1 << 20)).origin_dtype = DType.FLOAT32
    graph.add_input("flags", DType.BOOL, (1 << 40,))
    with pytest.raises(asim.InputError, match=r"random inputs need 5,120\.0 GiB"):
        random_inputs(graph)


@pytest.mark.parametrize(("room", "bounded"), [(11, 2), (12, 0)])
def test_a_large_operator_is_computed_in_slices_although_nothing_is_fused_with_it(
    room: int, bounded: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three floats each; what an operator uses besides them is bounded by the size of a slice."""
    counted: list[str] = []

    def run_counted(nodes: Sequence[Node], *given: Any, **more: Any) -> Any:
        counted.extend(node.name for node in nodes)
        return run_bounded(nodes, *given, **more)

    module = import_module("ascendsim.runtime.evaluate")  # the package has a function of this name
    monkeypatch.setattr(module, "ROOM", room)
    monkeypatch.setattr(module, "run_bounded", run_counted)
    graph, plan = chain()
    one_by_one = Program(tasks_of(("relu",), ("sigmoid",)), plan)
    assert outputs(one_by_one, graph, [10, 11]) == pytest.approx(WANTED)
    assert len(counted) == bounded


def test_a_large_operator_of_several_is_computed_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """It bounds what it needs itself, and knows the place of its result."""
    module = import_module("ascendsim.runtime.evaluate")
    monkeypatch.setattr(module, "ROOM", 0)

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a body is not computed in slices from outside")

    monkeypatch.setattr(module, "run_bounded", refuse)
    graph, plan = chain()
    known = default_opset()
    places = []

    class Own:
        """The operators, each with a body of its own."""

        def get(self, node: Node) -> Any:
            definition = known.get(node)

            def body(one: Node, arrays: Any, dtype_of: Any, place_of: Any, seen: Any) -> Any:
                places.append(place_of(one.output) is not None)
                return definition.compute(one, arrays, [dtype_of(one.output)])

            return replace(definition, compute_body=body)

    program = Program(tasks_of(("relu",), ("sigmoid",)), plan)
    found = evaluate(graph, program, Own(), [10, 11], {"x": X}, values="float32")  # type: ignore[arg-type]
    assert found["y"].tolist() == pytest.approx(WANTED)
    assert places == [True, True]


def test_results_that_have_no_address_are_dropped() -> None:
    """The second result of an operator, which nobody reads."""
    graph = Graph("two")
    x = graph.add_input("x", DType.FLOAT32, (1, 3))
    k = graph.add_constant("k", np.array([2]))
    node = graph.add_node("TopK", [x, k], ["most", "where"], name="topk")
    graph.outputs.append(node.outputs[0])
    infer(graph, default_opset())
    regions = [Region("x", 0, 12, "input"), Region("most", 512, 8, "activation"), Region("k", 0, 8, "weight")]
    plan = MemoryPlan({region.name: region for region in regions}, 1024, 0)
    program = Program(tasks_of(("topk",)), plan)
    found = evaluate(graph, program, default_opset(), [10], {"x": X[None]}, values="float32")
    assert found["most"].tolist() == [[3, 0]]


def test_without_a_device_a_result_is_let_go_after_its_last_reader() -> None:
    graph = Graph("three")
    tensor = graph.add_input("x", DType.FLOAT32, (3,))
    for number in range(3):
        tensor = graph.add_node("Relu", [tensor], [f"y{number}"], name=f"relu{number}").output
        tensor.dtype, tensor.shape = DType.FLOAT32, (3,)
    graph.outputs.append(tensor)
    held: list[weakref.ref[Any]] = []
    alive: list[list[bool]] = []

    def see(_tensor: Tensor, array: Array) -> None:
        held.append(weakref.ref(array))
        alive.append([one() is not None for one in held])

    evaluate_plain(graph, default_opset(), {"x": X}, see=see)
    assert alive == [[True], [True, True], [False, True, True]]
