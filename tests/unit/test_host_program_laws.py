"""The program of all that a host ran: sound memory, work that is bound once, looks that are not lost."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ascendsim as asim
from ascendsim.isa.checks import check_program
from ascendsim.isa.program import Program, Region
from tests.support.gate import in_turn

SOC = "Ascend310P3"
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def line(name: str, kind: int, shape: Any) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def constant(name: str, value: Any, dtype: Any = np.float32) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(value, dtype), name)


def model(graph: onnx.GraphProto) -> onnx.ModelProto:
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def changing_loop(rows: int, trips: int, shrinks: bool) -> onnx.ModelProto:
    """v = Sigmoid(v) * w, then one row less (or the first once more) in every trip."""
    change = (
        [helper.make_node("Slice", ["p", "one", "far", "zero"], ["vo"], name="less")]
        if shrinks
        else [
            helper.make_node("Slice", ["p", "zero", "one", "zero"], ["row"], name="row"),
            helper.make_node("Concat", ["p", "row"], ["vo"], axis=0, name="more"),
        ]
    )
    nodes = [
        helper.make_node("Sigmoid", ["v"], ["s"], name="sigmoid"),
        helper.make_node("MatMul", ["s", "w"], ["p"], name="product"),
        *change,
        helper.make_node("ReduceMax", ["p"], ["m"], name="max", keepdims=0),
        helper.make_node("Identity", ["c"], ["co"]),
    ]
    weights = [
        constant("w", np.random.default_rng(0).standard_normal((24, 24))),
        *(constant(name, [value], np.int64) for name, value in (("zero", 0), ("one", 1), ("far", 99))),
    ]
    body = helper.make_graph(
        nodes,
        "body",
        [line("i", INT64, []), line("c", BOOL, []), line("v", FLOAT, [None, 24])],
        [line("co", BOOL, []), line("vo", FLOAT, [None, 24]), line("m", FLOAT, [])],
        weights,
    )
    return model(
        helper.make_graph(
            [
                helper.make_node("Relu", ["x"], ["r"], name="relu"),
                helper.make_node("Loop", ["trips", "", "r"], ["y", "ms"], name="loop", body=body),
                helper.make_node("MatMul", ["y", "u"], ["z"], name="last"),
            ],
            "g",
            [line("x", FLOAT, [rows, 24])],
            [line("z", FLOAT, None), line("ms", FLOAT, None)],
            [
                constant("trips", trips, np.int64),
                constant("u", np.random.default_rng(1).standard_normal((24, 40))),
            ],
        )
    )


def ran(proto: onnx.ModelProto, **options: Any) -> asim.Result:
    compiled = asim.compile(asim.load(proto), soc=SOC, **options)
    (name,) = [value.name for value in proto.graph.input]
    shape = [item.dim_value for item in proto.graph.input[0].type.tensor_type.shape.dim]
    return asim.run(compiled, {name: np.random.default_rng(2).standard_normal(shape).astype(np.float32)})


MODELS = {
    "shrinking": changing_loop(7, 4, shrinks=True),
    "growing": changing_loop(7, 4, shrinks=False),
    "once": changing_loop(40, 1, shrinks=True),
    "never": changing_loop(7, 0, shrinks=False),
}


def apart(one: Region, other: Region) -> bool:
    return one.offset + one.bytes <= other.offset or other.offset + other.bytes <= one.offset


@pytest.mark.parametrize(("name", "fusion"), in_turn([*MODELS], ["off", "all"]))
def test_every_block_stays_inside_its_regions(name: str, fusion: str) -> None:
    """A buffer that holds values of several sizes has room for the largest."""
    result = ran(MODELS[name], fusion=fusion)
    program: Program = result.model.program
    check_program(program, result.model.soc)
    for task in program.tasks:
        for access in task.accesses:
            assert access.unique_bytes <= program.memory.regions[access.region].bytes


@pytest.mark.parametrize(("name", "fusion"), in_turn([*MODELS], ["off", "all"]))
def test_constants_and_what_pieces_hand_on_lie_apart_from_all_else(name: str, fusion: str) -> None:
    """Owners of bytes begin at multiples of 512; what pieces have for themselves is shared."""
    program: Program = ran(MODELS[name], fusion=fusion).model.program
    plan = program.memory
    last = max(0, len(program.tasks) - 1)
    for key, region in plan.regions.items():
        assert region.name == key
        assert region.alias_of is None or region.alias_of in plan.regions
        assert (region.first, region.last) == (0, last)  # they hold their bytes as long as the program runs
    owners = [region for region in plan.regions.values() if region.alias_of is None]
    weights = [region for region in owners if region.kind == "weight"]
    others = [region for region in owners if region.kind != "weight"]
    assert all(region.offset % 512 == 0 and region.offset >= 0 for region in owners)
    assert all(apart(one, other) for one, other in combinations(weights, 2))
    assert all(region.offset >= plan.peak_bytes for region in weights)
    assert all(region.offset + region.bytes <= plan.peak_bytes for region in others)
    assert plan.weight_bytes == sum(-(-region.bytes // 512) * 512 for region in weights)
    written = [
        {access.region for access in task.accesses if access.write} - {region.name for region in weights}
        for task in program.tasks
    ]
    ends = [region for region in others if region.kind in ("input", "output")]
    assert {region.kind for region in ends} == {"input", "output"}
    for end in ends:
        for other in others:
            assert other is end or apart(end, other), (end.name, other.name)
    assert any(written)


def steady(trips: int) -> onnx.ModelProto:
    """A loop of one shape."""
    nodes = [
        helper.make_node("Sigmoid", ["v"], ["s"], name="sigmoid"),
        helper.make_node("ReduceMean", ["s"], ["m"], name="mean", axes=[1]),
        helper.make_node("Sub", ["s", "m"], ["vo"], name="sub"),
        helper.make_node("Identity", ["c"], ["co"]),
    ]
    body = helper.make_graph(
        nodes,
        "body",
        [line("i", INT64, []), line("c", BOOL, []), line("v", FLOAT, [6, 24])],
        [line("co", BOOL, []), line("vo", FLOAT, [6, 24])],
    )
    loop = helper.make_node("Loop", ["trips", "", "x"], ["y"], name="loop", body=body)
    ends = [line("x", FLOAT, [6, 24])], [line("y", FLOAT, [6, 24])]
    return model(helper.make_graph([loop], "g", *ends, [constant("trips", trips, np.int64)]))


def test_iterations_are_bound_once_for_each_pair_of_buffers() -> None:
    """More of them need no more regions and no more programs of blocks: the machine looks them up."""
    few, many = (ran(steady(trips), fusion="off").model.program for trips in (4, 12))
    assert len(many.tasks) > len(few.tasks)
    assert many.memory.regions.keys() == few.memory.regions.keys()
    assert many.memory.peak_bytes == few.memory.peak_bytes
    blocks = [{id(group.block) for task in item.tasks for group in task.groups} for item in (few, many)]
    assert len(blocks[0]) == len(blocks[1])


def looking_past_a_reshape() -> onnx.ModelProto:
    """y = Relu(Reshape(Relu(x), s)) where a branch, chosen by values, only gives another shape."""
    branches = [
        helper.make_graph(
            [helper.make_node("Reshape", ["r", f"{name}_shape"], [f"{name}_y"], name=f"{name}_reshape")],
            name,
            [],
            [line(f"{name}_y", FLOAT, [4, 6])],
            [constant(f"{name}_shape", [4, 6], np.int64)],
        )
        for name in ("then", "else")
    ]
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="first"),
        helper.make_node("ReduceSum", ["r"], ["sum"], name="sum", keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["c"], name="greater"),
        helper.make_node("If", ["c"], ["y"], name="if", then_branch=branches[0], else_branch=branches[1]),
        helper.make_node("Relu", ["y"], ["z"], name="relu"),
    ]
    ends = [line("x", FLOAT, [2, 12])], [line("z", FLOAT, [4, 6])]
    return model(helper.make_graph(nodes, "g", *ends, [constant("zero", 0)]))


def test_a_decision_before_a_piece_without_tasks_is_paid_by_the_next_one() -> None:
    program = ran(looking_past_a_reshape(), fusion="off").model.program
    assert not any("reshape" in task.name for task in program.tasks)
    paid = {task.name: task.decisions for task in program.tasks if task.decisions}
    assert sum(paid.values()) == 1
    assert next(iter(paid)).startswith("relu")


@pytest.mark.parametrize("same", [False, True])
def test_constants_without_values_are_known_by_their_names(tmp_path: Path, same: bool) -> None:
    """Time needs no values; two names are two constants, whatever a lost file may have held."""
    rows = "n"
    graphs = []
    for name in ("then", "else"):
        weight = "w" if same else f"{name}_w"
        stored = constant(weight, np.ones((24, 24)))
        stored.ClearField("raw_data")
        stored.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "lost.bin"), ("offset", "0"), ("length", str(24 * 24 * 4))):
            entry = stored.external_data.add()
            entry.key, entry.value = key, value
        product = helper.make_node("MatMul", ["x", weight], [f"{name}_y"], name="product")
        graphs.append(
            helper.make_graph([product], name, [], [line(f"{name}_y", FLOAT, [rows, 24])], [stored])
        )
    nodes = [
        helper.make_node("If", ["c"], ["y"], name="one", then_branch=graphs[0], else_branch=graphs[1]),
        helper.make_node("If", ["c"], ["z"], name="two", then_branch=graphs[0], else_branch=graphs[1]),
        helper.make_node("Add", ["y", "z"], ["s"], name="sum"),
    ]
    ends = [line("x", FLOAT, [rows, 24]), line("c", BOOL, [])], [line("s", FLOAT, [rows, 24])]
    path = tmp_path / "lost.onnx"
    path.write_bytes(model(helper.make_graph(nodes, "g", *ends)).SerializeToString())
    compiled = asim.compile(asim.load(path), soc=SOC)
    result = asim.simulate(compiled, shapes={"x": (5, 24)}, branches={"one": "then", "two": "else"})
    plan = result.model.program.memory
    weights = [region for region in plan.regions.values() if region.kind == "weight" and not region.alias_of]
    assert len([region for region in weights if region.bytes >= 24 * 24 * 2]) == (1 if same else 2)


def test_every_turn_of_a_loop_knows_the_nodes_of_the_model_it_comes_from() -> None:
    """By these names reports are cut, and overflows are told."""
    nodes = ran(MODELS["growing"], fusion="all").model.graph.nodes
    named = Counter(name for node in nodes for name in node.origin.get("source_names", ()))
    assert named["sigmoid"] == named["product"] == named["more"] == 4
    assert {"precision", "layout"} <= {node.origin.get("inserted") for node in nodes}
