"""Which operators run on a part of the batch, and blocks cut into smaller batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.errors import CompileError
from ascendsim.core.formats import Format
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.graph.scopes import units_in_order
from ascendsim.graph.verify import verify
from ascendsim.lower import lower_graph
from ascendsim.ops import default_opset
from ascendsim.passes.l2 import BLOCK, BatchBlock, at_batch, cut_blocks, find_batch, refusal
from tests.support.batched import residual_net
from tests.support.fusing import build, new_builder, random
from tests.support.gate import in_turn

B = 4
Body = Callable[..., Tensor]


def splits(body: Body, *shape: int) -> bool:
    """Whether the last operator of a graph on x[4, ...] can run on a part of the batch."""
    graph = build(lambda b: body(b, b.input("x", (B, *shape))))
    return graph.topological()[-1].name in find_batch(graph, default_opset()).nodes


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        (lambda b, x: b.op("Relu", x), (3,)),
        (lambda b, x: b.op("Add", x, random(3)), (3,)),
        (lambda b, x: b.op("Add", x, random(1, 3)), (3,)),
        (lambda b, x: b.op("Conv", x, random(2, 3, 1, 1)), (3, 4, 4)),
        (lambda b, x: b.op("MaxPool", x, kernel_shape=[2, 2]), (3, 4, 4)),
        (lambda b, x: b.op("Softmax", x, axis=-1), (3,)),
        (lambda b, x: b.op("Concat", x, x, axis=1), (3,)),
        (lambda b, x: b.op("Transpose", x, perm=[0, 2, 1]), (3, 2)),
        (lambda b, x: b.op("Reshape", x, np.array([B * 3, 2])), (3, 2)),
        (lambda b, x: b.op("Flatten", x), (3, 2)),
        (lambda b, x: b.op("Gemm", x, random(3, 5), random(5)), (3,)),
        (lambda b, x: b.op("MatMul", x, b.op("Transpose", x, perm=[0, 2, 1])), (3, 2)),
        (lambda b, x: b.op("MatMul", x, random(2, 5)), (3, 2)),
        (lambda b, x: b.op("ReduceMean", x, np.array([1]), keepdims=0), (3, 2)),
        (lambda b, x: b.op("LayerNormalization", x, random(2), random(2)), (3, 2)),
        (lambda b, x: b.op("Pad", x, np.array([0, 1, 0, 1])), (3,)),
        (lambda b, x: b.op("Slice", x, np.array([1]), np.array([3]), np.array([1])), (3,)),
    ],
)
def test_operators_that_work_by_sample_can_be_cut(body: Body, shape: tuple[int, ...]) -> None:
    assert splits(body, *shape)


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        (lambda b, x: b.op("Add", x, random(B, 3)), (3,)),
        (lambda b, x: b.op("Softmax", x, axis=0), (3,)),
        (lambda b, x: b.op("Concat", x, x, axis=0), (3,)),
        (lambda b, x: b.op("Transpose", x, perm=[1, 0]), (B,)),
        (lambda b, x: b.op("Reshape", x, np.array([2, 6])), (3,)),
        (lambda b, x: b.op("Gemm", x, random(5, B), transA=1, transB=1), (3,)),
        (lambda b, x: b.op("MatMul", random(B, B), x), (3,)),
        (lambda b, x: b.op("ReduceMean", x, np.array([0]), keepdims=1), (3,)),
        (lambda b, x: b.op("ReduceMean", x, keepdims=0), (3,)),
        (lambda b, x: b.op("Pad", x, np.array([1, 0, 1, 0])), (3,)),
        (lambda b, x: b.op("Slice", x, np.array([1]), np.array([3]), np.array([0])), (3,)),
        (lambda b, x: b.op("CumSum", x, np.array(0)), (3,)),
    ],
)
def test_operators_that_mix_samples_cannot(body: Body, shape: tuple[int, ...]) -> None:
    assert not splits(body, *shape)


def test_there_is_no_batch_if_inputs_disagree() -> None:
    def body(b: object) -> Tensor:
        return b.op("Concat", b.input("x", (4, 3)), b.input("y", (2, 3)), axis=0)  # type: ignore[attr-defined]

    assert find_batch(build(body), default_opset()).batch == 1
    assert find_batch(residual_net(1), default_opset()).batch == 1


def compiled(graph: Graph) -> asim.CompiledModel:
    return asim.compile(graph, "Ascend310", fusion="ub")


def cut(model: asim.CompiledModel, first: int, end: int, batch: int) -> asim.CompiledModel:
    """The model with some units run in passes."""
    graph = copy_graph(model.graph)
    names = tuple(node.name for unit in units_in_order(graph)[first:end] for node in unit)
    cut_blocks(graph, find_batch(graph, default_opset()), [BatchBlock(names, batch)])
    verify(graph)
    return replace(model, graph=graph, program=lower_graph(graph, model.soc, model.opset))


@pytest.mark.parametrize(("batch", "values"), in_turn([1, 2, 4], ["device", "float32"]))
def test_a_cut_block_gives_the_same_values(batch: int, values: str) -> None:
    whole = compiled(residual_net())
    parts = cut(whole, 1, 7, batch)
    inputs = asim.random_inputs(whole)
    before, after = (asim.run(model, inputs, values=values).outputs["scores"] for model in (whole, parts))  # type: ignore[arg-type]
    assert np.array_equal(before, after)


def test_passes_run_one_after_the_other_and_borders_move_nothing() -> None:
    whole = compiled(residual_net())
    parts = cut(whole, 1, 5, 2)
    inside = len([task for task in whole.program.tasks if 1 <= task.id < 5])
    assert len(parts.program.tasks) == len(whole.program.tasks) + 3 * inside
    names = [task.name for task in parts.program.tasks if "_l2split" in task.name]
    order = [int(name.split("_l2split")[-1].split("_")[0]) for name in names]
    assert order == sorted(order)
    assert all(
        not parts.tasks_of(node.name) for node in parts.graph.nodes if node.op_type in ("Split", "Concat")
    )
    assert {node.origin[BLOCK] for node in parts.graph.nodes if BLOCK in node.origin} == {0}


def test_slices_lie_one_behind_the_other_in_the_whole() -> None:
    parts = cut(compiled(residual_net()), 1, 5, 2)
    split = next(node for node in parts.graph.nodes if node.op_type == "Split")
    regions = parts.program.memory.regions
    whole = regions[split.required(0).name]
    offsets = [regions[tensor.name].offset - whole.offset for tensor in split.outputs]
    assert offsets == [number * whole.bytes // 4 for number in range(4)]


def test_a_graph_at_another_batch_has_the_same_operators() -> None:
    model = compiled(residual_net())
    small = at_batch(model.graph, find_batch(model.graph, default_opset()), 2)
    assert [node.name for node in small.topological()] == [node.name for node in model.graph.topological()]
    assert {tensor.static_shape[0] for tensor in small.inputs} == {2}
    assert small.outputs[0].static_shape == (2, 10)


def test_blocks_that_cannot_be_cut_are_refused() -> None:
    b = new_builder()
    x = b.input("x", (4, 64))
    b.output(b.op("Softmax", b.op("Relu", b.op("Relu", x)), axis=0), "y")
    graph = b.build()
    axis = find_batch(graph, default_opset())
    assert "cannot run on a part" in (refusal(graph, axis, graph.topological()) or "")
    relus = graph.topological()[:2]
    assert refusal(graph, axis, relus) is None
    assert "no memory of its own" in (refusal(graph, axis, relus, {relus[1].name}) or "")
    relus[1].output.format = Format.FRACTAL_NZ
    assert "format FRACTAL_NZ" in (refusal(graph, axis, relus) or "")
    with pytest.raises(CompileError, match="cannot be cut into batches"):
        cut_blocks(graph, axis, [BatchBlock(tuple(node.name for node in relus), 2)])
    with pytest.raises(CompileError, match="must divide 4"):
        cut_blocks(graph, axis, [BatchBlock((relus[0].name,), 3)])


def test_blocks_that_read_into_the_memory_of_a_join_are_refused() -> None:
    """Maps that are joined along channels by no task lie in the memory of the join, and cannot be slices of
    memory along the batch too; inside a block they can."""
    b = new_builder()
    x = b.input("x", (4, 3, 8, 8))
    sides = [b.op("Relu", x), b.op("Neg", x)]
    b.output(b.op("Relu", b.op("Concat", *sides, axis=1)), "y")
    graph = b.build()
    axis = find_batch(graph, default_opset())
    nodes = graph.topological()
    join = next(node for node in nodes if node.op_type == "Concat")
    tail = nodes[nodes.index(join) :]
    assert refusal(graph, axis, tail) is None
    assert "memory of another tensor" in (refusal(graph, axis, tail, {join.name}) or "")
    assert refusal(graph, axis, nodes, {join.name}) is None
