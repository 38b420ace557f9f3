"""Programs of scopes: what moves, what is refused, how the pipes overlap, how tasks are reported."""

from __future__ import annotations

import numpy as np
import pytest

import ascendsim as asim
from ascendsim import soc as chips
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import CompileError, GraphError
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.graph.scopes import SCOPE, internal_tensors, units_in_order
from ascendsim.lower import LowerOptions, scope_lowering
from ascendsim.lower.fused import FusedScope
from ascendsim.ops import default_opset
from ascendsim.ops.fused.chain import chain_work
from ascendsim.opset.work import CubeWork
from ascendsim.passes.layout import AssignFormats
from ascendsim.passes.precision.assign import ApplyPrecision
from ascendsim.profiling import ProfiledRun
from ascendsim.profiling.fusion_op import fusion_op
from tests.support.fusing import build, random
from tests.support.lowering import moved, verify
from tests.support.ub import Fused, conv, matmul, same_values, ub

MAP = (1, 32, 12, 12)


def scope(graph: Graph, *types: str, chip: str = "Ascend310P3") -> FusedScope:
    """The program of all nodes of these types."""
    soc = chips.load(chip)
    ApplyPrecision(default_opset(), "force_fp16").run(graph)
    AssignFormats(default_opset(), soc).run(graph)
    lowering = scope_lowering(soc, default_opset(), LowerOptions(chain=chain_work))
    return lowering.settled([node for node in graph.topological() if node.op_type in types])


def gate(scale: np.ndarray) -> Graph:
    """A convolution times an array."""
    return build(lambda b: b.op("Mul", conv(b, b.input("x", MAP), 32), scale))


def test_a_value_a_channel_is_read_by_column() -> None:
    found = scope(gate(random(1, 32, 1, 1)), "Conv", "Mul")
    assert isinstance(found.work, CubeWork)
    assert [stream.over for stream in found.work.epilogue_inputs] == ["col"]
    assert found.saved_bytes == 2 * 32 * 12 * 12 * 2


def test_a_full_operand_is_read_once_beside_the_tiles() -> None:
    found = scope(
        build(lambda b: b.op("Mul", conv(b, b.input("x", MAP), 32), b.input("y", MAP))), "Conv", "Mul"
    )
    (name,) = [stream.ref.region for stream in found.work.epilogue_inputs]  # type: ignore[union-attr]
    assert moved([found.stage])[name, False] == 32 * 12 * 12 * 2
    assert found.operand_bytes == 0


@pytest.mark.parametrize("chip", ["Ascend310", "Ascend910A"])
def test_other_operands_are_not_read_more_often_for_the_sake_of_an_epilogue(chip: str) -> None:
    """Tiles that are chosen with a view to it could be smaller, and weights come again with every tile: then
    those without it are taken."""
    retried = 0
    for channels, size, outputs, kernel in (
        (64, 56, 64, 3),
        (128, 28, 128, 3),
        (16, 55, 64, 3),
        (64, 56, 256, 1),
    ):

        def body(b: GraphBuilder, shape: tuple[int, ...] = (channels, size, outputs, kernel)) -> Tensor:
            made = conv(b, b.input("x", (1, shape[0], shape[1], shape[1])), shape[2], kernel=shape[3])
            return b.op("Relu", b.op("Add", made, b.input("y", made.static_shape)))

        found = scope(build(body), "Conv", "Add", "Relu", chip=chip)
        assert found.operand_bytes <= 0
        assert isinstance(found.work, CubeWork)
        retried += found.work.plain_tiling
    assert retried


def test_operands_that_lie_across_tiles_are_refused() -> None:
    def body(b: GraphBuilder) -> Tensor:
        rows = b.op("Conv", b.input("x", (1, 16, 100)), random(32, 16, 1))
        return b.op("Mul", rows, random(32, 1))

    with pytest.raises(CompileError, match="must be full, one value or one value a channel"):
        scope(build(body), "Conv", "Mul")


def test_a_map_in_another_format_is_refused() -> None:
    with pytest.raises(CompileError, match="must have format NC1HWC0"):
        scope(gate(random(1, 1, 12, 12)), "Conv", "Mul")


def test_two_readers_of_one_operand_read_it_once() -> None:
    def body(b: GraphBuilder) -> Tensor:
        x = b.input("x", MAP)
        y = b.input("y", MAP)
        return b.op("Sub", b.op("Add", conv(b, x, 32), y), y)

    found = scope(build(body), "Conv", "Add", "Sub")
    assert found.operand_bytes == -32 * 12 * 12 * 2


def test_side_output_of_the_product_itself() -> None:
    def body(b: GraphBuilder) -> list[Tensor]:
        y = conv(b, b.input("x", MAP), 32)
        return [b.op("Relu", y), b.op("Softmax", y, axis=1)]

    for chip in ("Ascend310", "Ascend310P3", "Ascend910A"):
        found = scope(build(body), "Conv", "Relu", chip=chip)
        verify([found.stage], chips.load(chip))
        assert isinstance(found.work, CubeWork)
        assert [side.after for side in found.work.side_outputs] == [0]
        assert not found.internal
        assert found.saved_bytes == 32 * 12 * 12 * 2, "the read"


def test_many_values_at_once_take_more_room_but_fit() -> None:
    def body(b: GraphBuilder) -> Tensor:
        y = conv(b, b.input("x", (1, 64, 56, 56)), 64)
        a, c, d = b.op("Exp", y), b.op("Abs", y), b.op("Neg", y)
        return b.op("Add", b.op("Add", a, c), b.op("Mul", d, y))

    graph = build(body)
    found = scope(graph, "Conv", "Exp", "Abs", "Neg", "Add", "Mul")
    assert isinstance(found.work, CubeWork)
    assert found.work.epilogue_values == 4
    verify([found.stage], chips.load("Ascend310P3"))


@pytest.mark.parametrize(
    ("types", "rule"),
    [
        (("Relu", "Conv"), "has one Cube operator, in front"),
        (("Conv", "Softmax"), "must be elementwise to run on the Cube's result"),
        (("Softmax", "Transpose"), "it rearranges data"),
        (("Exp", "Reshape"), "not NoTask|must be one program"),
    ],
)
def test_what_has_no_program(types: tuple[str, ...], rule: str) -> None:
    def body(b: GraphBuilder) -> Tensor:
        x = b.op("Relu", b.input("x", MAP))
        y = b.op("Softmax", conv(b, x, 32), axis=1)
        z = b.op("Exp", b.op("Transpose", y, perm=(0, 2, 3, 1)))
        return b.op("Reshape", z, np.array([12, 384]))

    with pytest.raises(CompileError, match=rule):
        scope(build(body), *types)


def test_no_program_without_something_that_joins_vector_work() -> None:
    graph = build(lambda b: b.op("Abs", b.op("Exp", b.input("x", (8, 64), "float16"))))
    lowering = scope_lowering(chips.load("Ascend310"), default_opset(), LowerOptions())
    with pytest.raises(CompileError, match="must join to one program"):
        lowering.lower(graph.topological())


def test_program_is_the_same_in_the_pass_and_in_the_end() -> None:
    fused = ub(build(lambda b: b.op("Relu", conv(b, b.input("x", MAP), 32))))
    (task,) = fused.fused_tasks
    again = scope(build(lambda b: b.op("Relu", conv(b, b.input("x", MAP), 32))), "Conv", "Relu")
    assert task.groups == again.stage.groups


def test_units_run_after_what_they_need() -> None:
    def body(b: GraphBuilder) -> Tensor:
        x = b.input("x", (8, 64))
        late = b.op("Neg", b.op("Exp", x, name="early"), name="late")
        return b.op("Add", b.op("Abs", x, name="first"), late, name="second")

    graph = build(body)
    for name in ("first", "second"):
        graph.node(name).origin[SCOPE] = 0
    assert [[node.name for node in unit] for unit in units_in_order(graph)] == [
        ["early"],
        ["late"],
        ["first", "second"],
    ]
    assert [tensor.name for tensor in internal_tensors([graph.node("first"), graph.node("second")])] == [
        graph.node("first").output.name
    ]


def test_scopes_that_wait_for_each_other_are_an_error() -> None:
    def body(b: GraphBuilder) -> list[Tensor]:
        x = b.input("x", (8, 64))
        one, two = b.op("Exp", x, name="a"), b.op("Abs", x, name="b")
        return [b.op("Neg", two, name="c"), b.op("Sqrt", one, name="d")]

    graph = build(body)
    for name, number in (("a", 0), ("c", 0), ("b", 1), ("d", 1)):
        graph.node(name).origin[SCOPE] = number
    with pytest.raises(GraphError, match="must not wait for each other"):
        units_in_order(graph)


def chain_of_convolutions(b: GraphBuilder, images: int) -> Tensor:
    y = b.input("x", (images, 64, 56, 56))
    for _ in range(2):
        y = conv(b, y, 64)
        y = b.op("Mul", b.op("Sigmoid", y), y)
    return y


@pytest.mark.parametrize("chip", ["Ascend310", "Ascend310P3", "Ascend910A"])
def test_epilogue_runs_beside_the_cube(chip: str) -> None:
    fused = ub(build(lambda b: chain_of_convolutions(b, chips.load(chip).ai_cores)), chip)
    result = asim.simulate(fused.after)
    tasks = {task.id for task in fused.fused_tasks}
    for record in result.trace.tasks:
        if record.task in tasks:
            busy = [ticks / record.block_ticks for ticks in record.busy.values()]
            assert sum(busy) > 1.5, "several pipes at once"
            assert max(busy) > 0.6, "the slowest pipe hardly waits"
    assert result.duration_us < asim.simulate(fused.before).duration_us


def reported() -> Fused:
    return ub(build(lambda b: b.op("Tanh", matmul(b, b.input("x", (64, 48), "float16"), 80))))


def test_reports_name_all_nodes_of_a_task() -> None:
    fused = reported()
    trace = asim.simulate(fused.after).trace
    run = ProfiledRun(fused.after.graph, fused.after.program, trace, fused.after.soc, fused.after.opset)
    (view,) = [view for view in run.tasks if len(view.nodes) > 1]
    assert (view.name, view.op_type) == ("MatMul+Tanh", "MatMulV2")
    assert {tensor.name for tensor in view.outputs()} == {fused.after.graph.node("Tanh").output.name}
    table = fusion_op(run)
    (row,) = table.rows
    assert row[table.columns.index("Original Ops")] == "MatMul;Tanh"
    product = fused.after.graph.node("Tanh").output
    assert row[table.columns.index("Memory Output(KB)")] == product.storage_bytes / 1024, (
        "what is between the two takes no memory"
    )


def test_tasks_are_found_by_each_of_their_nodes() -> None:
    fused = reported()
    assert fused.after.tasks_of("MatMul") == fused.after.tasks_of("Tanh") == tuple(fused.fused_tasks)
    assert "task" in fused.after.listing("Tanh")
    one = asim.simulate(fused.after, instructions={"Tanh"})
    assert {record.task for record in one.trace.instructions} == {fused.fused_tasks[0].id}


def test_grouped_and_batched_forms_keep_values() -> None:
    def body(b: GraphBuilder) -> list[Tensor]:
        x = b.input("x", (2, 24, 9, 7))
        grouped = b.op("Relu", conv(b, x, 48, groups=4))
        scaled = b.op("Mul", conv(b, x, 24), b.op("Sigmoid", b.op("ReduceMean", x, np.array([2, 3]))))
        wide = b.op("Cast", b.op("LeakyRelu", conv(b, x, 40, kernel=1), alpha=0.1), to=DType.FLOAT32)
        return [grouped, scaled, wide]

    for chip in ("Ascend310", "Ascend310P3"):
        fused = ub(build(body), chip)
        assert len(fused.scopes) >= 2
        assert same_values(fused)


@pytest.mark.parametrize(("rows", "tasks"), [(512, 2), (1, 1)])
def test_nothing_works_behind_a_sum_that_cores_share(rows: int, tasks: int) -> None:
    """Parts of it meet in global memory, and no core knows when the last one has come."""
    b = asim.GraphBuilder()
    total = b.op("ReduceSum", b.input("x", (rows, 1024)), keepdims=0)
    b.output(b.op("Relu", total), "y")
    model = asim.compile(b.build(), soc="Ascend910A", fusion="ub", precision_mode="must_keep_origin_dtype")
    assert len(model.program.tasks) == tasks
    reasons = [str(refusal.reason) for record in model.fusion.records for refusal in record.refusals]
    assert any("must be whole before anything works on it" in reason for reason in reasons) == (tasks > 1)
