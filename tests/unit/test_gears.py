"""Dynamic gears: ATC's syntax and limits, the graph that GE makes, one arena, weights once, and any gear on
the loaded model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Graph
from ascendsim.graph.verify import verify
from ascendsim.ops import default_opset
from ascendsim.passes.gears import clone_gears, parse_gears, with_input_shapes

SOC = "Ascend310P3"


def inputs_of(*shapes: Any) -> Graph:
    graph = Graph("g")
    for number, shape in enumerate(shapes):
        graph.add_input(f"x{number}", DType.FLOAT32, shape)
    return graph


def network(shape: Any = ("n", 8)) -> Graph:
    """y = reshape(x @ w + b, (n, 2, 2)) by shape arithmetic, with weights of 8 KiB."""
    rng = np.random.default_rng(3)
    b = asim.GraphBuilder("net")
    x = b.input("x", shape)
    weight = b.constant(rng.standard_normal((8, 512)).astype(np.float32), "w")
    wide = b.op("MatMul", x, weight)
    size = b.op("Concat", b.op("Shape", wide, start=0, end=1), b.constant(np.array([2, 256]), "rest"), axis=0)
    b.output(b.op("Reshape", wide, size), "y")
    return b.build()


@pytest.mark.parametrize(
    ("kind", "value", "shapes", "gears", "dims"),
    [
        ("dynamic_batch_size", "1,2,4,8", [(None, 3, 4, 4), (None, 7)], ((1,), (2,), (4,), (8,)), (4, 4)),
        ("dynamic_batch_size", [1, 2, 4], [("n", 3)], ((1,), (2,), (4,)), (4,)),
        ("dynamic_image_size", "416,416;832,600", [(1, 3, None, None)], ((416, 416), (832, 600)), (832, 600)),
        (
            "dynamic_image_size",
            [(416, 416), (832, 600)],
            [(1, 3, None, None), (1, 3)],
            ((416, 416), (832, 600)),
            (832, 600),
        ),
        (
            "dynamic_dims",
            "20,20,1,1;40,40,2,2",  # ATC's example, with --input_shape="data:1,1,40,-1;label:1,-1;mask:-1,-1"
            [(1, 1, 40, None), (1, None), (None, None)],
            ((20, 20, 1, 1), (40, 40, 2, 2)),
            (40, 40, 2, 2),
        ),
    ],
)
def test_syntax(kind: Any, value: Any, shapes: list[Any], gears: Any, dims: tuple[int, ...]) -> None:
    settings = parse_gears(kind, value, inputs_of(*shapes))
    assert settings.gears == gears
    assert settings.dims(settings.gears[2 if len(gears) > 2 else 1]) == dims


@pytest.mark.parametrize(
    ("kind", "value", "shapes", "message"),
    [
        ("dynamic_batch_size", "4", [(None, 3)], r"needs at least 2 gears \(E10035\), not 1"),
        (
            "dynamic_batch_size",
            ",".join(map(str, range(1, 102))),
            [(None, 3)],
            "takes at most 100 gears, not 101",
        ),
        ("dynamic_dims", "1,2;3", [(None, None)], r"needs 2 numbers in every gear \(E10037\), not 3"),
        (
            "dynamic_image_size",
            "1,2;3,4,5",
            [(1, 3, None, None)],
            r"needs 2 numbers in every gear \(E10037\), not 3,4,5",
        ),
        ("dynamic_batch_size", "1,-2", [(None, 3)], r"needs numbers above 0 \(E10038\), not -2"),
        ("dynamic_batch_size", [0, 2], [(None, 3)], r"needs numbers above 0 \(E10038\), not 0"),
        ("dynamic_batch_size", "2,4,2", [(None, 3)], r"must not name a gear twice \(E10039\), not 2"),
        (
            "dynamic_batch_size",
            "1,2",
            [(1, 3)],
            r"needs open dimensions \(-1\) in the inputs \(E10046\), not x0: \[1, 3\]; mark them",
        ),
        (
            "dynamic_batch_size",
            "1,2",
            [(None, None)],
            r"sets dimension 0 only, so no other may be open \(E10046\)",
        ),
        (
            "dynamic_image_size",
            "1,2;3,4",
            [(1, 3, None, 4)],
            r"sets height and width of NCHW inputs: both must be open, and nothing else \(E10046\)",
        ),
        (
            "dynamic_image_size",
            "1,2;3,4",
            [(None, 3, None, None)],
            r"sets height and width of NCHW inputs: both must be open, and nothing else \(E10046\)",
        ),
        (
            "dynamic_dims",
            "1,2;3,4",
            [(None, 3)],
            r"needs as many numbers in a gear as dimensions are open, 1 \(E10046\), not 2",
        ),
        ("dynamic_batch_size", "1,b", [(None, 3)], r"must hold whole numbers, as in \"1,2,4,8\", not 'b'"),
        ("dynamic_batch_size", "", [(None, 3)], "must hold whole numbers"),
        ("dynamic_batch_size", [1.5, 2], [(None, 3)], "must hold whole numbers"),
        ("dynamic_dims", 7, [(None, 3)], "must be text such as"),
        ("dynamic_dims", b"1;2", [(None, 3)], "must be text such as"),
    ],
)
def test_limits(kind: Any, value: Any, shapes: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=f"^option {kind} {message}"):
        parse_gears(kind, value, inputs_of(*shapes))


def test_options_exclude_each_other() -> None:
    with pytest.raises(InputError, match="options dynamic_batch_size, dynamic_dims exclude each other"):
        asim.compile(network(), soc=SOC, dynamic_batch_size="1,2", dynamic_dims="1;2")


def test_the_graph_with_gears() -> None:
    graph = network()
    geared = clone_gears(graph, parse_gears("dynamic_batch_size", [4, 1, 2], graph), default_opset())
    verify(geared, default_opset())
    assert [(tensor.name, tensor.shape) for tensor in geared.inputs] == [
        ("x", (4, 8)),
        ("ascend_mbatch_shape_data", (1,)),
    ]
    assert [node.op_type for node in geared.topological()] == ["MapIndex", "Case"]
    case = geared.node("ascend_mbatch_case")
    branches = case.attributes["branches"]
    assert isinstance(branches, tuple)
    assert [branch.name for branch in branches] == [
        "ascend_mbatch_batch_0",
        "ascend_mbatch_batch_1",
        "ascend_mbatch_batch_2",
    ]
    assert [branch.inputs[0].shape for branch in branches] == [(4, 8), (1, 8), (2, 8)]
    assert [branch.outputs[0].shape for branch in branches] == [(4, 2, 256), (1, 2, 256), (2, 2, 256)]
    assert geared.outputs[0].shape == (4, 2, 256)
    # shape arithmetic is folded
    assert all({node.op_type for node in branch.nodes} == {"MatMul", "Reshape"} for branch in branches)
    weights = [tensor for tensor in geared.constants if tensor.static_shape == (8, 512)]
    assert len(weights) == 1
    assert len(weights[0].uses) == 3  # read by every copy
    assert not any(tensor.elements > 1000 for branch in branches for tensor in branch.constants)


def test_any_gear_runs_on_the_loaded_model() -> None:
    graph = network()
    model = asim.compile(graph, soc=SOC, dynamic_batch_size="1,2,8")
    assert isinstance(model, asim.GearedModel)
    assert (model.schedule, model.gears) == ("sink", ((1,), (2,), (8,)))
    compiled = len(model.pieces.compiled)
    for batch in (2, 8, 1, 2):
        inputs = asim.random_inputs(model, seed=batch, shapes={"x": (batch, 8)})
        static = asim.compile(with_input_shapes(graph, default_opset(), {"x": (batch, 8)}), soc=SOC)
        wanted = asim.run(static, inputs)
        result = asim.run(model, inputs)
        np.testing.assert_array_equal(result.outputs["y"], wanted.outputs["y"])
        names = [record.name for record in result.trace.tasks]
        assert names[0] == "ascend_mbatch_map_index"
        gear = {1: 0, 2: 1, 8: 2}[batch]
        assert all(name.startswith(f"ascend_mbatch_case/ascend_mbatch_batch_{gear}/") for name in names[1:])
        assert len(names) - 1 == len(wanted.trace.tasks)
        assert result.summary().batch == batch
        assert result.duration_us == asim.simulate(model, shapes={"x": (batch, 8)}).duration_us
    assert len(model.pieces.compiled) == compiled  # nothing was compiled after loading


def test_a_shape_that_is_no_gear_lists_the_gears() -> None:
    model = asim.compile(network(), soc=SOC, dynamic_batch_size="1,2,8")
    with pytest.raises(
        InputError,
        match=(
            r"the input shapes must be those of a gear \(1,2,8\), not x: \[3, 8\]; pad the inputs, or add "
            r"a gear"
        ),
    ):
        asim.run(model, {"x": np.zeros((3, 8), np.float32)})
    with pytest.raises(InputError, match=r"must be those of a gear \(1,2,8\)"):
        asim.simulate(model, shapes={"x": (4, 8)})


def test_the_gear_may_be_given_and_is_checked_against_the_arrays() -> None:
    model = asim.compile(network(), soc=SOC, dynamic_batch_size="1,2,8")
    inputs = asim.random_inputs(model, seed=1, shapes={"x": (2, 8)})
    name = model.graph.inputs[-1].name
    wanted = asim.run(model, inputs).outputs["y"]
    for gear in ([2], np.array([2], np.int32)):
        result = asim.run(model, inputs | {name: gear})
        np.testing.assert_array_equal(result.outputs["y"], wanted)
    for wrong, text in (
        ([8], r"must be the gear that the other inputs have, 2, not 8; pass \[2\]"),
        ([3], r"the gear that the other inputs have, 2, not 3"),
        (2, r"must be 1 whole numbers, one of the gears 1,2,8"),
        ([2.0], r"must be 1 whole numbers"),
    ):
        with pytest.raises(InputError, match=text):
            asim.run(model, inputs | {name: wrong})
    with pytest.raises(InputError, match=r"must be \[1\]"):
        asim.simulate(model, shapes={"x": (2, 8), name: (2,)})
    asim.simulate(model, shapes={"x": (2, 8), name: (1,)})


def test_memory_is_that_of_the_largest_gear_and_weights_lie_there_once() -> None:
    graph = network()
    model = asim.compile(graph, soc=SOC, dynamic_batch_size="1,2,64")
    static = asim.compile(with_input_shapes(graph, default_opset(), {"x": (64, 8)}), soc=SOC).program.memory
    few = 4096  # the index, the table of gears and the actual shape, 512 bytes each or less
    assert static.peak_bytes <= model.arena_bytes <= static.peak_bytes + few
    assert static.weight_bytes <= model.weight_bytes <= static.weight_bytes + few
    small = asim.simulate(model, shapes={"x": (1, 8)}).model.program.memory
    assert small.peak_bytes >= model.arena_bytes
    assert [row[0] for row in model.table().rows] == ["1", "2", "64"]


def test_gears_against_a_static_model_and_open_shapes() -> None:
    comparison = asim.compare_gears(network(), soc=SOC, dynamic_batch_size=[1, 8])
    times = {figure.name: figure.duration_us for figure in comparison.figures}
    assert list(times) == ["gear 1", "static 1", "host 1", "gear 8", "static 8", "host 8"]
    launch = asim.simulate(asim.compile(network((1, 8)), soc=SOC)).model.soc.launch
    for gear in (1, 8):
        static, geared, host = (times[f"{kind} {gear}"] for kind in ("static", "gear", "host"))
        assert static < geared < static + 12  # MapIndex and one decision
        assert host > geared
        assert host > launch.host_launch_us


def test_data_dependent_shapes_have_no_gears() -> None:
    b = asim.GraphBuilder("net")
    b.output(b.op("NonZero", b.input("x", ("n", 4))), "y")
    with pytest.raises(
        asim.CompileError, match=r"node 'NonZero' \(NonZero\) has a shape that depends on data under gear 1"
    ):
        asim.compile(b.build(), soc=SOC, dynamic_batch_size="1,2")
