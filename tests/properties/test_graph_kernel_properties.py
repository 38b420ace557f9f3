"""Graph-kernel fusion on random networks: values kept to the bit, never a cycle, never more traffic, only
operators of the lists."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.composites import body_of
from ascendsim.graph.ir import Graph
from ascendsim.ops import default_opset
from ascendsim.opset import InferContext
from ascendsim.passes.graph_kernel import composites_in
from ascendsim.passes.graph_kernel.lists import operators
from tests.support.gate import examples

OPSET = default_opset()
ONE = ("Neg", "Sqrt", "Reciprocal", "Tanh", "Relu", "Abs", "Softmax", "Sigmoid")
TWO = ("Add", "Sub", "Mul", "Div", "Max", "Min")


@st.composite
def networks(draw: st.DrawFn) -> Graph:
    b = GraphBuilder(
        "random",
        infer=lambda node: OPSET.get(node).infer(InferContext(node)),
        dtype=draw(st.sampled_from([DType.FLOAT32, DType.FLOAT16])),
    )
    full = [b.input("x", (6, 40)), b.input("w", (6, 40))]
    small = [b.input("row", (6, 1)), b.input("column", (40,))]
    for _ in range(draw(st.integers(3, 14))):
        x = draw(st.sampled_from(full))
        kind = draw(st.integers(0, 6))
        if kind == 0:
            full.append(b.op(draw(st.sampled_from(ONE)), x))
        elif kind == 1:
            small.append(b.op(draw(st.sampled_from(["ReduceSum", "ReduceMax", "ReduceMean"])), x, [1]))
        elif kind == 2:
            full.append(b.op(draw(st.sampled_from(TWO)), x, draw(st.sampled_from([0.5, 2.0, -1.5]))))
        elif kind == 3:
            full.append(b.op("Pow", x, draw(st.sampled_from([2.0, 3.0]))))
        elif kind == 4:
            full.append(b.op("Reshape", b.op("Mul", b.op("Reshape", x, [240]), 3.0), [6, 40]))
        else:
            full.append(b.op(draw(st.sampled_from(TWO)), x, draw(st.sampled_from([*full, *small]))))
    for tensor in dict.fromkeys([full[-1], draw(st.sampled_from(full)), *small[2:3]]):
        if tensor.producer is not None and tensor not in b.graph.outputs:
            b.output(tensor)
    if not b.graph.outputs:
        b.output(b.op("Neg", full[0]), "y")
    return b.build()


@examples(0.5)
@given(networks(), st.sampled_from(["force_fp16", "must_keep_origin_dtype"]), st.integers(0, 99))
def test_values_are_kept_to_the_bit(graph: Graph, mode: str, seed: int) -> None:
    flags = "--opt_level=1 --enable_cluster_ops=Tanh,Abs,Sigmoid,ReduceSum,ReduceMax"
    options = {"soc": "Ascend910A", "precision_mode": mode}
    parts = asim.compile(graph, fusion="graph", **options)
    whole = asim.compile(graph, fusion="graph-kernel", graph_kernel_flags=flags, **options)
    whole.graph.topological()
    inputs = asim.random_inputs(parts, seed)
    for values in ("device", "float32"):
        expected, got = (asim.run(model, inputs, values=values).outputs for model in (parts, whole))
        assert expected.keys() == got.keys()
        for name, array in expected.items():
            assert np.array_equal(array, got[name], equal_nan=True), (name, values)
    assert moved(whole) <= moved(parts)
    assert len(whole.program.tasks) <= len(parts.program.tasks)
    allowed = (
        operators("composite") | operators("basic") | {"Tanh", "Abs", "Sigmoid", "ReduceSum", "ReduceMax"}
    )
    assert whole.graph_kernel is not None
    for record in whole.graph_kernel.composites:
        assert set(record.types) <= allowed
        assert record.composite_us is not None
        assert record.parts_us is not None
        assert record.composite_us < record.parts_us
    assert len(list(composites_in(whole.graph))) == len(whole.graph_kernel.composites)
    assert all(len(body_of(node).nodes) >= 2 for node in composites_in(whole.graph))


@examples(0.5)
@given(networks())
def test_level_0_and_the_plain_flow_are_the_same(graph: Graph) -> None:
    plain = asim.compile(graph, soc="Ascend910A", fusion="ub", options={"ub_limits": "MindSpore"})
    nothing = asim.compile(graph, soc="Ascend910A", fusion="graph-kernel", graph_kernel_flags="--opt_level=0")
    assert [task.name for task in plain.program.tasks] == [task.name for task in nothing.program.tasks]


def moved(model: asim.CompiledModel) -> int:
    return sum(access.moved_bytes for task in model.program.tasks for access in task.accesses)
