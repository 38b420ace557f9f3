"""Control flow and open shapes on the simulated device: values, what runs, who schedules it and what that
costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph
from ascendsim.machine.block_key import block_key
from ascendsim.ops import default_opset
from ascendsim.passes.infer import infer

pytestmark = pytest.mark.usefixtures("untimed_tiles")

SOC = "Ascend310P3"
RNG = np.random.default_rng(7)


def value(name: str, shape: Any, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model(graph: onnx.GraphProto) -> onnx.ModelProto:
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def reference(proto: onnx.ModelProto, inputs: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, inputs))


def check(proto: onnx.ModelProto, inputs: dict[str, NDArray[Any]], **options: Any) -> asim.Result:
    """Runs a model in both kinds of values against onnxruntime; returns the exact run."""
    compiled = asim.compile(asim.load(proto), soc=SOC, **options)
    result = asim.run(compiled, inputs, values="float32")
    device = asim.run(compiled, inputs)
    for wanted, name in zip(reference(proto, inputs), result.outputs, strict=True):
        assert result.outputs[name].dtype == wanted.dtype
        assert result.outputs[name].shape == wanted.shape
        np.testing.assert_allclose(result.outputs[name], wanted, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(device.outputs[name], wanted, rtol=2e-2, atol=2e-2)
    assert device.duration_us == result.duration_us
    return result


def halving_loop(trips: int | None, growing: bool = False) -> onnx.ModelProto:
    """v = v / 2 (or with its first row once more) while its largest element is above 0.01; all values of v on
    the way."""
    half = numpy_helper.from_array(np.array(0.5, np.float32), "half")
    limit = numpy_helper.from_array(np.array(0.01, np.float32), "limit")
    nodes = [
        helper.make_node("Mul", ["v", "half"], ["w"], name="mul"),
        helper.make_node("ReduceMax", ["w"], ["m"], name="max", keepdims=0),
        helper.make_node("Greater", ["m", "limit"], ["co"], name="greater"),
        helper.make_node("Identity", ["m"], ["seen"]),
    ]
    if growing:
        first = [
            numpy_helper.from_array(np.array([at], np.int64), name) for name, at in (("zero", 0), ("one", 1))
        ]
        nodes += [
            helper.make_node("Slice", ["w", "zero", "one", "zero"], ["row"]),
            helper.make_node("Concat", ["w", "row"], ["vo"], axis=0),
        ]
    else:
        first, nodes = [], [*nodes, helper.make_node("Identity", ["w"], ["vo"])]
    shape = [None, 8] if growing else [4, 8]
    body = helper.make_graph(
        nodes,
        "body",
        [value("i", [], TensorProto.INT64), value("ci", [], TensorProto.BOOL), value("v", shape)],
        [value("co", [], TensorProto.BOOL), value("vo", shape), value("seen", [])],
        [half, limit, *first],
    )
    limits = [] if trips is None else [numpy_helper.from_array(np.array(trips, np.int64), "M")]
    loop = helper.make_node(
        "Loop", ["" if trips is None else "M", "", "r"], ["y", "ys"], name="loop", body=body
    )
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["r"], name="relu"), loop],
        "g",
        [value("x", [4, 8])],
        [value("y", None), value("ys", None)],
        limits,
    )
    return model(graph)


def two_branches(shape: Any = (4, 8)) -> onnx.ModelProto:
    """Relu(x) or Sigmoid(x) + x by the sign of the sum."""
    then = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["a"], name="relu")], "then", [], [value("a", shape)]
    )
    other = helper.make_graph(
        [
            helper.make_node("Sigmoid", ["x"], ["s"], name="sigmoid"),
            helper.make_node("Add", ["s", "x"], ["b"], name="add"),
        ],
        "else",
        [],
        [value("b", shape)],
    )
    zero = numpy_helper.from_array(np.array(0, np.float32), "zero")
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], name="sum", keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["c"], name="greater"),
        helper.make_node("If", ["c"], ["y"], name="if", then_branch=then, else_branch=other),
    ]
    return model(helper.make_graph(nodes, "g", [value("x", shape)], [value("y", shape)], [zero]))


def test_a_loop_ends_by_its_condition_or_its_limit() -> None:
    x = {"x": np.abs(RNG.standard_normal((4, 8))).astype(np.float32)}
    by_value = check(halving_loop(None), x)
    names = [record.name for record in by_value.trace.tasks]
    assert (
        sum(name.startswith("loop/body/") and "mul" in name for name in names)
        == by_value.outputs["ys"].shape[0]
        > 3
    )
    limited = check(halving_loop(3), x)
    assert limited.outputs["ys"].shape == (3,)


def test_a_loop_whose_variable_grows_compiles_each_shape_once() -> None:
    proto, x = halving_loop(None, growing=True), {"x": np.abs(RNG.standard_normal((4, 8))).astype(np.float32)}
    result = check(proto, x)
    assert result.outputs["y"].shape[0] == 4 + result.outputs["ys"].shape[0]
    assert result.schedule == "host"
    assert result.schedule_reasons == (
        "node 'loop' (Loop) gives 'y' the shape [-1, 8] (its body's shapes settle in 2 rounds; round 1: "
        "node 'vo' (Concat) makes 'v' [5, 8] of [4, 8], so [-1, 8])",
        "node 'loop' (Loop) gives 'ys' the shape [-1]",
    )


def test_a_branch_runs_and_the_other_does_not() -> None:
    proto, x = two_branches(), RNG.standard_normal((4, 8)).astype(np.float32)
    for sign, wanted, other in (
        (1, "if/then_branch/", "if/else_branch/"),
        (-1, "if/else_branch/", "if/then_branch/"),
    ):
        result = check(proto, {"x": (np.abs(x) * sign).astype(np.float32)})
        names = [record.name for record in result.trace.tasks]
        assert any(name.startswith(wanted) for name in names)
        assert not any(name.startswith(other) for name in names)
        assert result.schedule == "sink"
        assert result.schedule_reasons == ()


def test_open_shapes_make_the_host_look_at_the_condition() -> None:
    """The same network with an open batch: every task costs a launch, and the branch waits for device, copy
    and launch."""
    static = check(two_branches(), {"x": np.ones((4, 8), np.float32)})
    result = check(two_branches(("n", 8)), {"x": np.ones((4, 8), np.float32)})
    assert result.schedule == "host"
    assert result.schedule_reasons[0] == "input 'x' has the open shape [-1 (n), 8]"
    tasks = {task.id: task for task in result.model.program.tasks}
    looked = [record for record in result.trace.tasks if tasks[record.task].read_backs]
    assert [tasks[record.task].read_backs for record in looked] == [1]
    launch = result.model.soc.launch.host_launch_us
    assert result.trace.us(looked[0].start - looked[0].ready) == pytest.approx(2 * launch)
    assert result.duration_us > static.duration_us + len(tasks) * launch / 2


def test_decisions_on_the_device_cost_a_task_of_the_scheduler() -> None:
    result = check(two_branches(), {"x": np.ones((4, 8), np.float32)})
    tasks = {task.id: task for task in result.model.program.tasks}
    decided = [record for record in result.trace.tasks if tasks[record.task].decisions]
    assert len(decided) == 1
    launch = result.model.soc.launch
    assert result.trace.us(decided[0].start - decided[0].ready) == pytest.approx(
        2 * launch.task_gap_us + launch.task_launch_us
    )


def test_time_without_values_needs_to_be_told_the_way() -> None:
    branches = asim.compile(asim.load(two_branches()), soc=SOC)
    with pytest.raises(
        asim.InputError,
        match=(
            r"node 'if' \(If\) takes a branch that depends on values; .*branches=\{'if': 'then' or "
            r"'else'\}"
        ),
    ):
        asim.simulate(branches)
    by_value = asim.run(branches, {"x": np.ones((4, 8), np.float32)})
    assert asim.simulate(branches, branches={"if": "then"}).duration_us == by_value.duration_us
    with pytest.raises(
        asim.InputError, match=r"option branches of node 'if' must be one of then, else, not 'neither'"
    ):
        asim.simulate(branches, branches={"if": "neither"})
    with pytest.raises(
        asim.InputError,
        match=r"option branches: node 'fi' must be one of the model's If or Case nodes; known are if",
    ):
        asim.simulate(branches, branches={"fi": "then"})
    loop = asim.compile(asim.load(halving_loop(None)), soc=SOC)
    with pytest.raises(
        asim.InputError,
        match=r"node 'loop' \(Loop\) runs a number of iterations that depends on values; .*trips=",
    ):
        asim.simulate(loop)
    two, four = (asim.simulate(loop, trips={"loop": count}) for count in (2, 4))
    assert 0 < len(two.trace.tasks) < len(four.trace.tasks)
    limited = asim.compile(asim.load(halving_loop(3)), soc=SOC)
    # the model's limit
    assert asim.simulate(limited).duration_us == asim.simulate(limited, trips={"loop": 99}).duration_us
    with pytest.raises(asim.InputError, match="option trips: node 'loop' must be a number from 0"):
        asim.simulate(limited, trips={"loop": -1})


def test_a_thousand_iterations_cost_little_more_than_one() -> None:
    """Each iteration takes the same time on the device once L2 and buffers have settled."""
    loop = asim.compile(asim.load(halving_loop(None)), soc=SOC)
    few, many = (asim.simulate(loop, trips={"loop": count}) for count in (100, 1000))
    assert len(many.trace.tasks) - len(few.trace.tasks) == 900 * 3  # mul, max, greater
    assert many.duration_us - few.duration_us == pytest.approx(
        9 * (few.duration_us - asim.simulate(loop, trips={"loop": 0}).duration_us), rel=0.02
    )


def test_shapes_that_depend_on_values() -> None:
    """NonZero (on all values) and Range (on one number, read back): the rest of the graph waits for them."""
    one, two = (
        numpy_helper.from_array(np.array(item, np.int64), name) for name, item in (("start", 0), ("step", 2))
    )
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="relu"),
        helper.make_node("NonZero", ["r"], ["where"], name="nonzero"),
        helper.make_node("Cast", ["where"], ["places"], name="cast", to=TensorProto.FLOAT),
        helper.make_node("Size", ["where"], ["count"], name="size"),
        helper.make_node("Range", ["start", "count", "step"], ["numbers"], name="range"),
        helper.make_node("ReduceMax", ["k"], ["most"], name="most", keepdims=0),
        helper.make_node("Range", ["start", "most", "step"], ["others"], name="others"),
    ]
    outputs = [
        value("places", None),
        value("numbers", None, TensorProto.INT64),
        value("others", None, TensorProto.INT64),
    ]
    inputs = [value("x", [3, 5]), value("k", [4], TensorProto.INT64)]
    proto = model(helper.make_graph(nodes, "g", inputs, outputs, [one, two]))
    for _ in range(3):
        arrays = {"x": RNG.standard_normal((3, 5)).astype(np.float32), "k": RNG.integers(1, 20, 4)}
        result = check(proto, arrays)
        assert result.schedule == "host"
        assert "node 'nonzero' (NonZero) gives 'where' the shape [2, -1]" in result.schedule_reasons
    with pytest.raises(
        asim.InputError,
        match=r"the shape of what node 'nonzero' \(NonZero\) gives depends on values; give inputs",
    ):
        asim.simulate(asim.compile(asim.load(proto), soc=SOC))


def test_open_shapes_compile_once_a_shape() -> None:
    compiled = asim.compile(asim.load(two_branches(("n", 8))), soc=SOC)
    assert isinstance(compiled, asim.DynamicModel)
    for batch in (1, 5, 1, 5):
        asim.run(compiled, {"x": np.ones((batch, 8), np.float32)})
    assert len(compiled.pieces.compiled) == 2 * 2  # condition and branch, for two shapes
    with pytest.raises(asim.InputError, match=r"input 'x' must have shape \[n, 8\], not \[5, 9\]"):
        asim.run(compiled, {"x": np.ones((5, 9), np.float32)})
    with pytest.raises(asim.InputError, match=r"input 'x' has the open shape \[n, 8\]"):
        asim.random_inputs(compiled)
    assert asim.random_inputs(compiled, shapes={"x": (3, 8)})["x"].shape == (3, 8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shapes": {"y": (1,)}}, "option shapes: input 'y' is not an input of the model; known are x"),
        ({"shapes": {"x": (1, 8, 1)}}, r"option shapes: input 'x' must have shape \[n, 8\], not \[1, 8, 1\]"),
        ({"shapes": {"x": (0, 8)}}, r"option shapes: input 'x' must have shape \[n, 8\], not \[0, 8\]"),
        ({"shapes": {"x": "abc"}}, "option shapes: input 'x' must be a sequence of whole numbers, not 'abc'"),
        ({"shapes": {"x": (1.5, 8)}}, "option shapes: input 'x' must be a sequence of whole numbers"),
        ({"shapes": {"x": 4}}, "option shapes: input 'x' must be a sequence of whole numbers, not 4"),
        ({"shapes": [1, 8]}, "option shapes must be a dictionary by name, not list"),
        (
            {"shapes": {"x": (1, 8)}, "branches": "then"},
            "option branches must be a dictionary by name, not 'then'",
        ),
        (
            {"shapes": {"x": (1, 8)}, "trips": {"if": 3}},
            "option trips: node 'if' must be one of the model's Loop or While nodes",
        ),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    compiled = asim.compile(asim.load(two_branches(("n", 8))), soc=SOC)
    with pytest.raises(asim.InputError, match=message):
        asim.simulate(compiled, **options)
    static = asim.compile(asim.load(two_branches()), soc=SOC)
    with pytest.raises(asim.InputError):
        asim.simulate(static, **options)


def ge_graph(index: int) -> Graph:
    """GE's operators: y = Case(index, x) of three branches, then While(y): add 1 until the sum is above 100,
    then PartitionedCall."""
    graph = Graph("ge")
    x, number = graph.add_input("x", DType.FLOAT32, (2, 4)), graph.add_input("n", DType.INT32, ())

    def sub(name: str, build: Any) -> Graph:
        body = Graph(name)
        build(body, body.add_input(f"{name}_x", DType.FLOAT32, (2, 4)), name)
        return body

    def adding(amount: float) -> Any:
        def build(body: Graph, x: Any, name: str) -> None:
            constant = body.add_constant(f"{name}_c", np.array(amount, np.float32))
            body.outputs.append(body.add_node("Add", [x, constant], [f"{name}_y"]).output)

        return build

    def below(body: Graph, x: Any, name: str) -> None:
        total = body.add_node("ReduceSum", [x], [f"{name}_sum"], keepdims=0).output
        body.outputs.append(
            body.add_node(
                "Less", [total, body.add_constant(f"{name}_most", np.array(100, np.float32))], [f"{name}_go"]
            ).output
        )

    branches = tuple(sub(f"b{place}", adding(10.0**place)) for place in range(3))
    chosen = graph.add_node(
        "Case", [number, x], ["chosen"], name="case", domain="ascend", branches=branches
    ).output
    looped = graph.add_node(
        "While",
        [chosen],
        ["looped"],
        name="while",
        domain="ascend",
        cond=sub("go", below),
        body=sub("step", adding(1.0)),
    ).output
    called = graph.add_node(
        "PartitionedCall", [looped], ["y"], name="call", domain="ascend", f=sub("f", adding(0.5))
    )
    graph.outputs.append(called.output)
    infer(graph, default_opset())
    return graph


@pytest.mark.parametrize(("index", "amount"), [(0, 1), (1, 10), (2, 100), (7, 100)])
def test_operators_of_ge(index: int, amount: int) -> None:
    """An index beyond the last branch takes the last one."""
    x = RNG.standard_normal((2, 4)).astype(np.float32)
    compiled = asim.compile(ge_graph(index), soc=SOC)
    result = asim.run(compiled, {"x": x, "n": np.array(index, np.int32)}, values="float32")
    wanted = x + np.float32(amount)
    trips = 0
    while wanted.sum() < 100:
        wanted, trips = wanted + np.float32(1), trips + 1
    np.testing.assert_allclose(result.outputs["y"], wanted + np.float32(0.5), rtol=1e-6)
    assert sum(record.name.startswith("while/body/") for record in result.trace.tasks) == trips
    assert result.schedule == "sink"


def test_a_negative_index_is_an_error() -> None:
    compiled = asim.compile(ge_graph(0), soc=SOC)
    with pytest.raises(
        asim.GraphError,
        match=r"node 'case' \(Case\) needs a branch index that is not negative, not -1; branches: b0, b1, b2",
    ):
        asim.run(compiled, {"x": np.ones((2, 4), np.float32), "n": np.array(-1, np.int32)})


def test_options_that_do_not_go_with_open_shapes() -> None:
    with pytest.raises(
        asim.InputError, match="option output_type does not go with control flow or open shapes"
    ):
        asim.compile(asim.load(two_branches()), soc=SOC, output_type="FP16")
    static = asim.compile(asim.load(two_branches()), soc=SOC, schedule="host")
    assert asim.simulate(static, branches={"if": "then"}).schedule == "host"


@pytest.mark.parametrize("growing", [False, True])
def test_the_memory_of_a_run_holds_all_that_its_tasks_touch(growing: bool) -> None:
    """Buffers between pieces and constants lie apart from each other and from the arena that the pieces
    share."""
    program = check(halving_loop(None, growing), {"x": np.ones((4, 8), np.float32)}).model.program
    regions = program.memory.regions
    touched = {access.region for task in program.tasks for access in task.accesses}
    touched |= {
        operand for task in program.tasks for group in task.groups for operand in block_key(group.block)[1]
    }
    assert touched <= set(regions)
    assert all(region.name == name for name, region in regions.items())
    apart = [
        region
        for name, region in regions.items()
        if "/" not in name and region.alias_of is None and region.bytes
    ]
    assert {region.name for region in apart} >= {"x", "r"}
    for one in apart:
        for other in regions.values():
            shares = one is other or (other.alias_of is not None and root(regions, other) is one)
            assert (
                shares or one.offset + one.bytes <= other.offset or other.offset + other.bytes <= one.offset
            ), (one.name, other.name)
    ends = [region.offset + region.bytes for region in regions.values()]
    assert max(ends) <= program.memory.peak_bytes + program.memory.weight_bytes


def root(regions: Any, region: Any) -> Any:
    while region.alias_of is not None:
        region = regions[region.alias_of]
    return region


def test_every_report_takes_such_a_run(tmp_path: Any) -> None:
    result = check(halving_loop(3), {"x": np.ones((4, 8), np.float32)})
    assert {path.name for path in result.save(tmp_path)} >= {"op_summary.csv", "trace.json", "timeline.png"}
    assert "loop/body/" in (tmp_path / "op_summary.csv").read_text()
    assert result.summary().batch == 4
    assert result.model.tasks_of("loop/body/*")
    assert "loop/body" in result.model.listing("loop/body/*")
