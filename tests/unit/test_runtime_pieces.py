"""Static pieces of a graph with open shapes or control flow: what goes into them, in which order they run,
what memory they share."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import ascendsim as asim
from ascendsim.graph.verify import verify
from ascendsim.isa.program import Program, Region

SOC = "Ascend310P3"
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def line(name: str, kind: int, shape: Any) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: list[onnx.NodeProto],
    inputs: list[Any],
    outputs: list[Any],
    weights: Iterable[onnx.TensorProto] = (),
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def reference(proto: onnx.ModelProto, inputs: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
    return list(
        onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]).run(
            None, inputs
        )
    )


def agrees(compiled: Any, proto: onnx.ModelProto, inputs: dict[str, NDArray[Any]]) -> asim.Result:
    result = asim.run(compiled, inputs, values="float32")
    for name, wanted in zip(result.outputs, reference(proto, inputs), strict=True):
        assert (result.outputs[name].dtype, result.outputs[name].shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(result.outputs[name], wanted, rtol=1e-5, atol=1e-6)
    return result


def different_values() -> onnx.ModelProto:
    """Unique of Relu(x), all of its outputs, and work on what comes out: nobody knows how much before it is
    computed."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="relu"),
        helper.make_node("Unique", ["r"], ["u", "first", "inverse", "counts"], name="unique"),
        helper.make_node("Mul", ["u", "u"], ["squares"], name="square"),
        helper.make_node("Cast", ["counts"], ["c"], name="cast", to=FLOAT),
        helper.make_node("Mul", ["squares", "c"], ["y"], name="weighted"),
        helper.make_node("Sigmoid", ["x"], ["s"], name="sigmoid"),
    ]
    outputs = [line("y", FLOAT, ["u"]), line("inverse", INT64, ["i"]), line("s", FLOAT, [3, 4])]
    return model(nodes, [line("x", FLOAT, [3, 4])], outputs)


def test_a_result_is_computed_where_its_shape_depends_on_all_of_its_inputs() -> None:
    proto = different_values()
    compiled = asim.compile(asim.load(proto), soc=SOC, fusion="off")
    assert isinstance(compiled, asim.DynamicModel)
    compiles = []
    for levels in (2, 5, 2):
        x = np.random.default_rng(levels).integers(0, levels, (3, 4)).astype(np.float32)
        result = agrees(compiled, proto, {"x": x})
        compiles.append(len(compiled.pieces.compiled))
        tasks = result.model.program.tasks
        assert [task.read_backs for task in tasks if task.name == "unique"] == [1]
        assert sum(task.read_backs for task in tasks) == 1
        engines = result.model.program.info.engines
        assert {name: engines[name] for name in ("relu", "unique", "square")} == {
            "relu": "vector",
            "unique": "ai_cpu",
            "square": "vector",
        }
        assert all(node in engines for task in tasks for node in task.nodes)
        before = {task.name for task in tasks[: [task.name for task in tasks].index("unique")]}
        assert {"relu", "sigmoid"} <= before  # all that depends on nothing else goes first
    check_pieces(compiled)
    assert compiles == [2, 3, 3]  # what comes before once, the rest once for each number of values
    with pytest.raises(
        asim.InputError,
        match=r"the shape of what node 'unique' \(Unique\) gives depends on values; give inputs",
    ):
        asim.simulate(compiled)


def shape_by_value() -> onnx.ModelProto:
    """y = Reshape(Relu(x), s), z = Expand(k, t): shapes are values of the device, one of them computed."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="relu"),
        helper.make_node("Reshape", ["r", "s"], ["y"], name="reshape"),
        helper.make_node("Sigmoid", ["y"], ["v"], name="sigmoid"),
        helper.make_node("Add", ["s", "s"], ["t"], name="double"),
        helper.make_node("Expand", ["k", "t"], ["z"], name="expand"),
    ]
    inputs = [line("x", FLOAT, [2, 6]), line("s", INT64, [2]), line("k", FLOAT, [1, 1])]
    return model(nodes, inputs, [line("v", FLOAT, ["a", "b"]), line("z", FLOAT, ["c", "d"])])


def test_values_that_are_a_shape_are_read_back_once_and_remembered() -> None:
    proto = shape_by_value()
    compiled = asim.compile(asim.load(proto), soc=SOC)
    assert isinstance(compiled, asim.DynamicModel)
    counts = []
    for shape in ((3, 4), (12, 1), (3, 4)):
        inputs = {
            "x": np.arange(12, dtype=np.float32).reshape(2, 6) - 6,
            "s": np.array(shape),
            "k": np.full((1, 1), 2, np.float32),
        }
        result = agrees(compiled, proto, inputs)
        counts.append(len(compiled.pieces.compiled))
        assert result.schedule == "host"
    assert counts[0] < counts[1] == counts[2]
    check_pieces(compiled)


def test_a_number_that_the_host_counts_itself_is_not_read_back() -> None:
    """Sums of x[i:] in a loop: the shape asks for the number of the iteration, while x is on the device."""
    nodes = [
        helper.make_node("Slice", ["v", "i", "end"], ["part"], name="slice"),
        helper.make_node("ReduceSum", ["part"], ["total"], name="total", keepdims=0),
        helper.make_node("Relu", ["v"], ["vo"], name="relu"),
        helper.make_node("Identity", ["c"], ["co"]),
    ]
    results = [line("co", BOOL, []), line("vo", FLOAT, [6]), line("total", FLOAT, [])]
    end, trips = (
        numpy_helper.from_array(np.array(value), name) for name, value in (("end", [9]), ("trips", 4))
    )
    body = helper.make_graph(
        nodes, "body", [line("i", INT64, [1]), line("c", BOOL, []), line("v", FLOAT, [6])], results, [end]
    )
    loop = helper.make_node("Loop", ["trips", "", "x"], ["y", "totals"], name="loop", body=body)
    proto = model(
        [loop], [line("x", FLOAT, [6])], [line("y", FLOAT, [6]), line("totals", FLOAT, ["t"])], [trips]
    )
    result = agrees(asim.compile(asim.load(proto), soc=SOC), proto, {"x": np.arange(6, dtype=np.float32) - 2})
    assert result.schedule == "host"
    assert sum(task.read_backs for task in result.model.program.tasks) == 0


# ------------------------------------------------------------------------------------------------------ piece


def branches(open_rows: bool) -> onnx.ModelProto:
    """Two branches that multiply by the same weight and by one of their own, then a loop whose body has two
    ways side by side."""
    rows: Any = "n" if open_rows else 16
    random = np.random.default_rng(1)
    common = random.standard_normal((16, 16)).astype(np.float32)
    arrays = {"w_then": common, "w_else": common.copy(), "only": common[::-1].copy()}
    weights = {name: numpy_helper.from_array(array, name) for name, array in arrays.items()}

    def branch(name: str, weight: str, last: list[onnx.NodeProto], more: list[str]) -> onnx.GraphProto:
        nodes = [helper.make_node("MatMul", ["x", weight], [f"{name}_m"], name="product"), *last]
        return helper.make_graph(
            nodes,
            name,
            [],
            [line(f"{name}_y", FLOAT, [rows, 16])],
            [weights[item] for item in (weight, *more)],
        )

    then = branch("then", "w_then", [helper.make_node("Relu", ["then_m"], ["then_y"], name="relu")], [])
    other = branch(
        "else", "w_else", [helper.make_node("MatMul", ["else_m", "only"], ["else_y"], name="again")], ["only"]
    )
    body_nodes = [
        helper.make_node("Sigmoid", ["v"], ["left"], name="left"),
        helper.make_node("Tanh", ["v"], ["right"], name="right"),
        helper.make_node("Relu", ["v"], ["unused"], name="unused"),
        helper.make_node("Sub", ["left", "right"], ["vo"], name="join"),
        helper.make_node("Identity", ["c"], ["co"]),
    ]
    body = helper.make_graph(
        body_nodes,
        "body",
        [line("i", INT64, []), line("c", BOOL, []), line("v", FLOAT, [rows, 16])],
        [line("co", BOOL, []), line("vo", FLOAT, [rows, 16])],
    )
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], name="sum", keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["positive"], name="greater"),
        helper.make_node("If", ["positive"], ["y"], name="if", then_branch=then, else_branch=other),
        helper.make_node("Loop", ["trips", "", "y"], ["z"], name="loop", body=body),
    ]
    constants = [
        numpy_helper.from_array(np.array(0, np.float32), "zero"),
        numpy_helper.from_array(np.array(3, np.int64), "trips"),
    ]
    return model(nodes, [line("x", FLOAT, [rows, 16])], [line("z", FLOAT, [rows, 16])], constants)


def run_both(open_rows: bool, **options: Any) -> tuple[asim.DynamicModel, list[asim.Result]]:
    """Both branches of `branches`, one run each."""
    proto = branches(open_rows)
    compiled = asim.compile(asim.load(proto), soc=SOC, **options)
    assert isinstance(compiled, asim.DynamicModel)
    x = np.abs(np.random.default_rng(2).standard_normal((16, 16))).astype(np.float32)
    return compiled, [agrees(compiled, proto, {"x": sign * x}) for sign in (np.float32(1), np.float32(-1))]


def check_pieces(compiled: asim.DynamicModel) -> None:
    """Pieces are static, sound, and hold nothing that nobody reads."""
    for plan in compiled.pieces.compiled:
        graph = plan.graph
        assert graph is not None
        verify(graph)
        for tensor in graph.tensors.values():
            assert tensor.is_static
            assert tensor.uses or tensor.producer is not None or tensor in graph.outputs, (
                f"{tensor.name} in {graph.name}"
            )
        assert len(plan.outputs) == len(graph.outputs)
        if not graph.name.startswith(
            "z"
        ):  # the model's own output in its type, which stands in no plan of its graph
            assert [tensor.name for tensor in plan.inputs] == [tensor.name for tensor in graph.inputs]


@pytest.mark.parametrize("open_rows", [False, True])
def test_a_piece_holds_nothing_that_nobody_reads(open_rows: bool) -> None:
    compiled, _ = run_both(open_rows)
    assert len(compiled.pieces.compiled) >= 4
    check_pieces(compiled)


@pytest.mark.parametrize("open_rows", [False, True])
def test_an_output_of_the_model_gets_its_type_by_a_task_of_its_own_where_it_comes_out_of_a_loop(
    open_rows: bool,
) -> None:
    """Values go round the loop in half precision."""
    _, results = run_both(open_rows)
    program = results[0].model.program
    assert [access.unique_bytes for access in program.tasks[-1].accesses] == [16 * 16 * 2, 16 * 16 * 4]
    assert program.memory.regions[program.tasks[-1].accesses[-1].region].kind == "output"
    assert sum(task.name == program.tasks[-1].name for task in program.tasks) == 1


def test_time_without_values_needs_no_other_pieces_than_values_do() -> None:
    compiled, results = run_both(False)
    known = len(compiled.pieces.compiled)
    for way, result in zip(("then", "else"), results, strict=True):
        assert asim.simulate(compiled, branches={"if": way}).duration_us == result.duration_us
    assert len(compiled.pieces.compiled) == known


def ended_before(program: Program) -> list[set[int]]:
    """By task, all that have ended for sure when it starts: those before it in its stream, those it waits
    for, and theirs."""
    number = {task.id: place for place, task in enumerate(program.tasks)}
    last: dict[int, int] = {}
    known: list[set[int]] = []
    for place, task in enumerate(program.tasks):
        direct = [number[other] for other in task.waits_for] + (
            [last[task.stream]] if task.stream in last else []
        )
        known.append(set(direct).union(*(known[other] for other in direct)))
        last[task.stream] = place
    return known


@pytest.mark.parametrize("open_rows", [False, True])
def test_a_piece_starts_when_all_streams_of_the_one_before_have_ended(open_rows: bool) -> None:
    """Tasks of an iteration come after all of the iteration before, though they are on several streams."""
    _, results = run_both(open_rows, multi_stream_parallel_mode="LoadBalance:3", fusion="off")
    for result in results:
        program = result.model.program
        assert len({task.stream for task in program.tasks}) > 1
        known = ended_before(program)
        joins = [place for place, task in enumerate(program.tasks) if task.name.endswith("join")]
        assert len(joins) == 3
        starts = [0] + [place + 1 for place in joins]
        for first, second in pairwise(starts):
            piece = set(range(first, second))
            assert all(piece <= known[later] for later in range(second, len(program.tasks)))
            assert all(piece > known[own] & piece for own in piece)
        ends = {record.task: record.end for record in result.trace.tasks}
        for place, task in enumerate(program.tasks):
            record = next(item for item in result.trace.tasks if item.task == task.id)
            assert all(ends[program.tasks[other].id] <= record.start for other in known[place])


def test_equal_weights_of_several_pieces_lie_in_memory_once() -> None:
    compiled, results = run_both(False)
    size = 16 * 16 * 2
    for result, own in zip(results, (1, 2), strict=True):
        plan = result.model.program.memory
        weights = [
            region for region in plan.regions.values() if region.kind == "weight" and region.alias_of is None
        ]
        # w_then and w_else have the same values
        assert sum(region.bytes == size for region in weights) == own
        spans = sorted((region.offset, region.offset + region.bytes) for region in weights)
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert len(compiled.pieces.compiled) >= 4


@pytest.mark.parametrize("open_rows", [False, True])
def test_a_loop_variable_changes_between_two_buffers(open_rows: bool) -> None:
    """What an iteration reads and what it writes are never the same bytes, and no third buffer is needed."""
    _, results = run_both(open_rows, fusion="off")
    tasks = results[0].model.program.tasks
    homes = [
        (
            {access.region for access in task.accesses if not access.write},
            {access.region for access in task.accesses if access.write},
        )
        for task in tasks
        if task.name.startswith("loop/body/")
    ]
    written = [
        writes
        for (_, writes), task in zip(
            homes, [t for t in tasks if t.name.startswith("loop/body/")], strict=True
        )
        if task.name.endswith("join")
    ]
    regions = results[0].model.program.memory.regions
    assert len(written) == 3
    assert written[0] != written[1]
    assert written[0] == written[2]
    for reads, writes in homes:
        for read in reads:
            for write in writes:
                one, two = regions[read], regions[write]
                apart = one.offset + one.bytes <= two.offset or two.offset + two.bytes <= one.offset
                assert apart or two.in_place_of is not None, (read, write)


def test_what_an_iteration_has_for_itself_lies_in_the_same_place_in_every_one() -> None:
    """The buffers at its ends change from one iteration to the next, what is between them does not."""
    _, results = run_both(False, fusion="off")
    tasks = [task for task in results[0].model.program.tasks if task.name.startswith("loop/body/")]
    for name in ("left", "right"):
        places = [
            {access.region for access in task.accesses if access.write}
            for task in tasks
            if task.name.endswith(name)
        ]
        assert len(places) == 3
        assert places[0] == places[1] == places[2]


@pytest.mark.parametrize("fusion", ["off", "all"])
@pytest.mark.parametrize("open_rows", [False, True])
def test_pieces_share_one_arena_without_holes_and_keep_apart_what_they_had_apart(
    open_rows: bool, fusion: str
) -> None:
    compiled, results = run_both(open_rows, fusion=fusion)
    for result in results:
        regions, peak = result.model.program.memory.regions, result.model.program.memory.peak_bytes
        taken = {
            block
            for item in regions.values()
            if item.kind != "weight"
            for block in range(item.offset, item.offset + item.bytes, 512)
        }
        assert {block // 512 for block in taken} == set(range(peak // 512))
        compared = 0
        for piece in compiled.pieces.compiled.values():
            own = {
                name: item
                for name, item in piece.compiled.program.memory.regions.items()
                if item.kind != "weight"
            }
            for one, first in own.items():
                for other, second in own.items():
                    names = [f"{piece.prefix}{name}" for name in (one, other)]
                    if one == other or not regions.keys() >= set(names) or overlap(first, second):
                        continue
                    assert not overlap(*(regions[name] for name in names)), names
                    compared += 1
        assert compared > 4


def overlap(first: Region, second: Region) -> bool:
    return first.offset < second.offset + second.bytes and second.offset < first.offset + first.bytes


def test_inputs_that_are_left_out_stay_out_where_a_result_is_computed_for_its_shape() -> None:
    """NonMaxSuppression without a number of boxes at most, and without an overlap that is allowed."""
    rng = np.random.default_rng(4)
    corner = rng.uniform(0, 1, (1, 6, 2))
    inputs = {
        "boxes": np.concatenate([corner, corner + rng.uniform(0.1, 1, (1, 6, 2))], 2).astype(np.float32),
        "scores": rng.uniform(0, 1, (1, 2, 6)).astype(np.float32),
    }
    for left_out, count in ((["most", ""], 3), (["most", "overlap"], 9)):
        nodes = [
            helper.make_node(
                "NonMaxSuppression", ["boxes", "scores", *left_out, "least"], ["chosen"], name="nms"
            ),
            helper.make_node("Cast", ["chosen"], ["y"], name="cast", to=FLOAT),
        ]
        constants = {
            "most": np.array([count], np.int64),
            "overlap": np.array([0.9], np.float32),
            "least": np.array([0.3], np.float32),
        }
        weights = [
            numpy_helper.from_array(array, name)
            for name, array in constants.items()
            if name in [*left_out, "least"]
        ]
        ports = [line("boxes", FLOAT, [1, 6, 4]), line("scores", FLOAT, [1, 2, 6])]
        proto = model(nodes, ports, [line("y", FLOAT, ["n", 3])], weights)
        agrees(asim.compile(asim.load(proto), soc=SOC), proto, inputs)
