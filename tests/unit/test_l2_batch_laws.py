"""What runs on a part of the batch gives the part of its result: the law of L2 fusion, by brute force over
operators and their neighbours.

For each operator the graph with it, and all graphs that differ in one thing: where `find_batch` says that it
works by sample, a run of half of the samples must give half of the result. Whether it says so is a golden
text (tests/golden/l2_batch). A legitimate reason to renew one is an operator that is meant to be cut or not;
read every change that moves between groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from ascendsim.core.errors import CompileError
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.composites import body_graph
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.ops import default_opset
from ascendsim.passes.l2 import BatchAxis, BatchBlock, at_batch, cut_blocks, find_batch, refusal
from tests.support.evaluate import evaluate
from tests.support.fusing import build, new_builder, random
from tests.support.near_misses import (
    Edit,
    attribute_edits,
    has_values,
    near_misses,
    port_edits,
    size_edits,
    sorted_outcomes,
    structure_edits,
)

Body = Callable[[GraphBuilder, Tensor], "Tensor | list[Tensor]"]
OPSET, BATCH = default_opset(), 4
MAP, ROW, PLANE = (6, 5, 5), (6,), (3, 8)
OPERATORS: dict[str, tuple[Body, tuple[int, ...]]] = {
    "Relu": (lambda b, x: b.op("Relu", x), ROW),
    "Add of a row": (lambda b, x: b.op("Add", x, random(6)), ROW),
    "Add of one row": (lambda b, x: b.op("Add", random(1, 6), x), ROW),
    "Add of a row a sample": (lambda b, x: b.op("Add", x, random(BATCH, 6)), ROW),
    "Add of another axis": (lambda b, x: b.op("Add", x, random(2, 1, 6)), ROW),
    "Where": (lambda b, x: b.op("Where", b.op("Greater", x, 0.0), x, random(6)), ROW),
    "Conv": (lambda b, x: b.op("Conv", x, random(4, 6, 3, 3), random(4)), MAP),
    "Conv of its own samples": (lambda b, x: b.op("Conv", x, b.op("Slice", x, [0], [3], [2])), MAP),
    "BatchNormalization": (
        lambda b, x: b.op("BatchNormalization", x, *(random(6, seed=n, positive=True) for n in range(4))),
        MAP,
    ),
    "FullyConnection": (lambda b, x: b.op("FullyConnection", x, random(4, 6, 5, 5), domain="ascend"), MAP),
    "MaxPool": (lambda b, x: b.op("MaxPool", x, kernel_shape=(2, 2)), MAP),
    "GlobalAveragePool": (lambda b, x: b.op("GlobalAveragePool", x), MAP),
    "Softmax": (lambda b, x: b.op("Softmax", x), PLANE),
    "Softmax along 1": (lambda b, x: b.op("Softmax", x, axis=1), PLANE),
    "Concat": (lambda b, x: b.op("Concat", x, b.op("Abs", x), axis=1), PLANE),
    "Concat of samples": (lambda b, x: b.op("Concat", x, x, axis=0), PLANE),
    "Split": (lambda b, x: b.ops("Split", x, [1, 2], outputs=2, axis=1), PLANE),
    "Split of samples": (lambda b, x: b.ops("Split", x, outputs=2, axis=0, num_outputs=2), PLANE),
    "LayerNormalization": (lambda b, x: b.op("LayerNormalization", x, random(8), random(8)), PLANE),
    "LayerNormalization over two axes": (
        lambda b, x: b.op("LayerNormalization", x, random(3, 8), random(3, 8), axis=1),
        PLANE,
    ),
    "Transpose": (lambda b, x: b.op("Transpose", x, perm=[0, 2, 1]), PLANE),
    "Transpose of samples": (lambda b, x: b.op("Transpose", x, perm=[1, 0, 2]), PLANE),
    "Transpose of all": (lambda b, x: b.op("Transpose", x), PLANE),
    "Gemm": (lambda b, x: b.op("Gemm", x, random(6, 5), random(5)), ROW),
    "Gemm of samples": (lambda b, x: b.op("Gemm", x, random(BATCH, 5), transA=1), (4,)),
    "Gemm of a row a sample": (lambda b, x: b.op("Gemm", x, random(6, 5), random(BATCH, 5)), ROW),
    "MatMul of matrices": (lambda b, x: b.op("MatMul", x, random(8, 5)), PLANE),
    "MatMul of one stack": (lambda b, x: b.op("MatMul", x, random(1, 8, 5)), PLANE),
    "MatMul of a stack a sample": (lambda b, x: b.op("MatMul", x, random(BATCH, 8, 5)), PLANE),
    "MatMul of its own": (lambda b, x: b.op("MatMul", x, b.op("Transpose", x, perm=[0, 2, 1])), PLANE),
    "MatMul from the left": (lambda b, x: b.op("MatMul", random(5, 3), x), PLANE),
    "MatMul of a vector": (lambda b, x: b.op("MatMul", x, random(8)), PLANE),
    "BatchMatMul with bias": (
        lambda b, x: b.op("BatchMatMul", x, random(8, 5), random(5), domain="ascend"),
        PLANE,
    ),
    "ReduceMean": (lambda b, x: b.op("ReduceMean", x, b.constant([1], "axes")), PLANE),
    "ReduceMax of the last": (lambda b, x: b.op("ReduceMax", x, b.constant([-1], "axes"), keepdims=0), PLANE),
    "ReduceSum of all": (lambda b, x: b.op("ReduceSum", x), PLANE),
    "Slice": (lambda b, x: b.op("Slice", x, [1], [3], [1]), PLANE),
    "Slice without axes": (lambda b, x: b.op("Slice", x, [0], [4]), PLANE),
    "Squeeze": (lambda b, x: b.op("Squeeze", x, b.constant([1], "axes")), (1, 8)),
    "Unsqueeze": (lambda b, x: b.op("Unsqueeze", x, b.constant([1], "axes")), PLANE),
    "Unsqueeze in front": (lambda b, x: b.op("Unsqueeze", x, b.constant([0], "axes")), PLANE),
    "Pad": (lambda b, x: b.op("Pad", x, b.constant([0, 1, 0, 0, 1, 0], "pads")), PLANE),
    "Resize": (lambda b, x: b.op("Resize", x, None, np.array([1, 1, 2, 2], np.float32), mode="nearest"), MAP),
    "Resize to sizes": (
        lambda b, x: b.op("Resize", x, None, None, np.array([BATCH, 6, 10, 10]), mode="nearest"),
        MAP,
    ),
    "Reshape": (lambda b, x: b.op("Reshape", x, b.constant([BATCH, 24], "shape")), PLANE),
    "Reshape into more rows": (
        lambda b, x: b.op("Relu", b.op("Reshape", x, b.constant([BATCH * 3, 8], "shape"))),
        PLANE,
    ),
    "Reshape into fewer rows": (lambda b, x: b.op("Reshape", x, b.constant([2, 48], "shape")), PLANE),
    "Flatten": (lambda b, x: b.op("Flatten", x), PLANE),
    "Flatten of two axes": (lambda b, x: b.op("Flatten", x, axis=2), PLANE),
    "CumSum": (lambda b, x: b.op("CumSum", x, np.array(1)), PLANE),
}


def edits(graph: Graph) -> Iterator[tuple[str, Edit]]:
    for kind in (structure_edits, attribute_edits, port_edits, size_edits):
        yield from kind(graph)


def check_parts(graph: Graph, axis: BatchAxis) -> None:
    """Each operator that is said to work by sample, alone on the first half of the samples, gives the first
    half of its results."""
    generator, part = np.random.default_rng(1), axis.batch // 2
    shown = copy_graph(graph)
    shown.outputs[:] = [tensor for node in shown.nodes for tensor in node.outputs]
    whole = {
        t.name: generator.standard_normal(t.static_shape).astype(t.element_type.numpy) for t in graph.inputs
    }
    whole |= dict(zip((tensor.name for tensor in shown.outputs), evaluate(shown, OPSET, whole), strict=True))
    small = at_batch(graph, axis, part)
    for name in axis.nodes:
        alone, taken, given = body_graph([small.node(name)], name)
        alone.outputs[:] = [alone.tensors[tensor.name] for tensor in small.node(name).outputs]
        rows = {tensor.name: part * axis.factors.get(tensor.name, 0) for tensor in (*taken, *given)}
        inputs = {
            t.name: whole[t.name][: rows[t.name] or None] if t.name in whole else t.constant.array()
            for t in taken
        }  # type: ignore[union-attr]
        for tensor, result in zip(small.node(name).outputs, evaluate(alone, OPSET, inputs), strict=True):
            wanted = whole[tensor.name][: part * axis.factors[tensor.name]]
            # sums of a product of fewer columns may be taken in another order
            bound = 1e-6 * max(1.0, float(np.abs(np.nan_to_num(wanted)).max(initial=0)))
            np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=bound)


def cut(graph: Graph) -> str:
    """Operators that are said to work by sample; asserts that they do."""
    axis = find_batch(graph, default_opset())
    if axis.nodes and has_values(graph):
        assert axis.batch == graph.inputs[0].static_shape[0]
        if axis.batch % 2 == 0:
            check_parts(graph, axis)
    names = [node.op_type for node in graph.topological() if node.name in axis.nodes]
    return f"batch {axis.batch}: {', '.join(names) or 'nothing'}"


@pytest.mark.parametrize("name", OPERATORS)
def test_a_part_of_the_batch_gives_the_part_of_the_result(
    golden: Callable[[str, str], None], name: str
) -> None:
    body, shape = OPERATORS[name]
    graph = build(lambda b: body(b, b.input("x", (BATCH, *shape))))
    golden(
        f"l2_batch/{name.replace(' ', '_')}.txt",
        sorted_outcomes((label, cut(variant)) for label, variant in near_misses(graph, edits)),
    )


@pytest.mark.parametrize("batch", [0, 1, 2, 3, 4, 6, 12, 24])
def test_the_batch_of_a_pass_divides_the_whole(batch: int) -> None:
    """And is smaller: 12 samples run by 1, 2, 3, 4 or 6."""
    b = new_builder()
    b.output(b.op("Exp", b.op("Relu", b.input("x", (12, 3)), name="relu"), name="exp"), "y")
    graph = b.build()
    axis = find_batch(graph, default_opset())
    assert axis.batch == 12
    assert refusal(graph, axis, graph.topological()) is None
    if batch in (0, 12, 24):
        with pytest.raises(CompileError, match="must divide 12 and be smaller"):
            cut_blocks(graph, axis, [BatchBlock(("relu", "exp"), batch)])
        return
    x = random(12, 3)
    (before,) = evaluate(graph, OPSET, {"x": x})
    cut_blocks(graph, axis, [BatchBlock(("relu", "exp"), batch)])
    assert sum(node.op_type == "Relu" for node in graph.nodes) == 12 // batch
    assert [node.op_type for node in graph.topological()][1:3] == ["Relu", "Exp"], (
        "a pass is done before the next begins"
    )
    np.testing.assert_array_equal(evaluate(graph, OPSET, {"x": x})[0], before)


def test_a_result_that_is_read_inside_and_outside_a_block_is_joined_and_stays_in_its_pass() -> None:
    b = new_builder()
    first = b.op("Relu", b.input("x", (4, 3)), name="first")
    second = b.op("Exp", first, name="second")
    b.output(b.op("CumSum", first, np.array(0), name="outside"), "y")
    b.output(second, "z")
    graph = b.build()
    graph.node("outside").add_control(graph.node("first"))
    x = random(4, 3)
    before = evaluate(graph, OPSET, {"x": x})
    cut_blocks(graph, find_batch(graph, default_opset()), [BatchBlock(("first", "second"), 2)])
    for old, new in zip(before, evaluate(graph, OPSET, {"x": x}), strict=True):
        np.testing.assert_array_equal(old, new)
    assert [node.op_type for node in graph.nodes].count("Concat") == 2
    assert {before.op_type for before in graph.node("outside").control} >= {"Relu"}
    readers = [
        reader.op_type for node in graph.nodes if node.op_type == "Relu" for reader in node.output.consumers
    ]
    assert sorted(readers) == ["Concat", "Concat", "Exp", "Exp"]
