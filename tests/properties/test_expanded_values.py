"""Operators that graph-kernel fusion writes out give the bits of the whole operator, in both value modes: a
step of the operator's kernel and the operator of that name round alike, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.graph.composites import body_of
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.ops import default_opset
from ascendsim.passes.graph_kernel import composites_in
from ascendsim.passes.graph_kernel.expanders import expand, expandable
from tests.support.gate import every, in_turn

Maker = Callable[[asim.GraphBuilder, Tensor, Tensor, int], Tensor]
OPSET, WIDTH = default_opset(), 45  # no whole number of the kernels' partial sums
ROW = np.random.default_rng(5).standard_normal((2, WIDTH)).astype(np.float32)
MAKERS: Mapping[str, tuple[Maker, ...]] = {
    "Softmax": (lambda b, x, _y, axis: b.op("Softmax", x, axis=axis),),
    "LogSoftmax": (lambda b, x, _y, axis: b.op("LogSoftmax", x, axis=axis),),
    "SoftmaxGradExt": (
        lambda b, x, y, axis: b.op("SoftmaxGrad", x, y, domain="ascend", axis=axis),
        lambda b, x, y, axis: b.op(
            "SoftmaxGradExt", x, y, b.constant(np.float32(0.3)), domain="ascend", axis=axis
        ),
    ),
    "LayerNorm": (
        lambda b, x, _y, _a: b.op("LayerNormalization", x, b.constant(ROW[0]), b.constant(ROW[1])),
        lambda b, x, _y, _a: b.op("LayerNormalization", x, b.constant(ROW[0]), epsilon=0.1),
        lambda b, x, _y, _a: b.op("LayerNormalization", x, b.constant(ROW[0]), b.constant(ROW[1]), axis=1),
    ),
    "GeLU": (
        lambda b, x, _y, _a: b.op("Gelu", x),
        lambda b, x, _y, _a: b.op("Gelu", x, approximate="tanh"),
    ),
    "Sigmoid": (lambda b, x, _y, _a: b.op("Sigmoid", x),),
    "ReLU": (lambda b, x, _y, _a: b.op("Relu", x),),
    "Square": (lambda b, x, _y, _a: b.op("Square", x, domain="ascend"),),
    "FusedMulAdd": (lambda b, x, y, _a: b.op("FusedMulAdd", x, y, x, domain="ascend"),),
    "AddN": (
        lambda b, x, y, _a: b.op("Sum", x, y),
        lambda b, x, y, _a: b.op("Sum", x, y, x, y),
    ),
    "ReduceMean": (lambda b, x, _y, axis: b.op("ReduceMean", x, b.constant([axis])),),
    "SquareSumV1": (lambda b, x, _y, axis: b.op("ReduceSumSquare", x, b.constant([axis]), keepdims=0),),
}
# What has other bits, by the type that it computes in, and why
OTHERWISE = {
    (
        "Softmax",
        "float16",
    ): "CANN's kernel rounds differences and powers to float16, MindSpore's formula widens",
    ("LogSoftmax", "float16"): "as Softmax",
    ("FusedMulAdd", "float16"): "the operator rounds once, the formula rounds its product too",
    ("ReduceMean", "float32"): "the operator scales a wide sum; not written out on Ascend unless asked for",
    ("ReduceMean", "float16"): "the same, and seldom seen",
}


def test_every_operator_that_is_written_out_has_a_case() -> None:
    assert set(MAKERS) == expandable(OPSET)
    assert {name for name, _ in OTHERWISE} <= set(MAKERS)


def one(maker: Maker, shape: tuple[int, ...], axis: int, dtype: DType) -> Graph:
    """A graph of one operator; on the device float32 is float16 where that is asked for."""
    b = asim.GraphBuilder()
    b.output(maker(b, b.input("x", shape), b.input("y", shape), axis), "z")
    graph = b.build()
    for tensor in graph.tensors.values():
        if tensor.dtype is DType.FLOAT32:
            tensor.dtype = dtype
    return graph


def computed(graph: Graph, feed: Mapping[str, np.ndarray]) -> np.ndarray:
    """The output in the types of the device."""
    values = {t: feed[t.name].astype(t.element_type.numpy) for t in graph.inputs}
    values |= {t: t.constant.array().astype(t.element_type.numpy) for t in graph.constants if t.constant}
    for node in graph.topological():
        given = [None if t is None else values[t] for t in node.inputs]
        made = OPSET.get(node).compute(node, given, [t.element_type.numpy for t in node.outputs])
        values.update(zip(node.outputs, made, strict=False))
    return values[graph.outputs[0]]


@pytest.mark.parametrize(("name", "dtype"), in_turn([*MAKERS], [DType.FLOAT32, DType.FLOAT16]))
@given(
    rows=st.integers(1, 9),
    cols=st.integers(1, 7) | st.just(37),
    axis=st.sampled_from((-1, 1, 0)),
    spread=st.sampled_from((0.1, 3.0, 40.0)),
    seed=st.integers(0, 99),
)
def test_a_formula_has_the_bits_of_its_operator(
    name: str, dtype: DType, rows: int, cols: int, axis: int, spread: float, seed: int
) -> None:
    shape = (rows, cols, WIDTH)
    draw = np.random.default_rng(seed)
    feed = {key: (draw.standard_normal(shape) * spread + 1).astype(np.float32) for key in "xy"}
    for maker in MAKERS[name]:
        whole = one(maker, shape, axis, dtype)
        apart = copy_graph(whole)
        made = expand(apart, apart.nodes[-1], OPSET)
        assert made
        found, wanted = computed(apart, feed), computed(whole, feed)
        assert found.dtype == wanted.dtype == dtype.numpy
        if (name, dtype.name.lower()) in OTHERWISE:
            limit = 4 * np.finfo(wanted.dtype).eps * max(1.0, float(np.abs(wanted).max(initial=0)))
            np.testing.assert_allclose(found.astype(float), wanted.astype(float), rtol=0, atol=limit)
        else:
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", dict.fromkeys(name for name, _ in OTHERWISE))
def test_what_is_listed_as_other_is(name: str) -> None:
    dtype = next(DType[kind.upper()] for other, kind in OTHERWISE if other == name)
    draw = np.random.default_rng(0)
    feed = {key: draw.standard_normal((8, 37, WIDTH)).astype(np.float32) for key in "xy"}
    whole = one(MAKERS[name][0], (8, 37, WIDTH), -1, dtype)
    apart = copy_graph(whole)
    assert expand(apart, apart.nodes[-1], OPSET)
    assert not np.array_equal(computed(apart, feed), computed(whole, feed))


@pytest.mark.usefixtures("untimed_tiles")
@pytest.mark.parametrize("soc", every(2, ["Ascend910B2", "Ascend910A"]))
def test_runs_with_composites_have_the_bits_of_whole_operators(soc: str) -> None:
    """Composites compute with kernels of their own, slice by slice."""
    b, draw = asim.GraphBuilder(), np.random.default_rng(3)
    feed = {}
    for name in MAKERS:
        for number, maker in enumerate(MAKERS[name]):
            labels = [f"{key}_{name}_{number}" for key in "xy"]
            feed |= {key: draw.standard_normal((4, 60, WIDTH)).astype(np.float32) for key in labels}
            x, y = (b.input(key, (4, 60, WIDTH)) for key in labels)
            b.output(maker(b, b.op("Add", x, y), y, -1), f"{name}_{number}")
    graph = b.build()
    every = ",".join(MAKERS)
    apart, whole = (
        asim.compile(graph, soc, fusion="graph-kernel", graph_kernel_flags=f"--{flag}={every}")
        for flag in ("enable_expand_ops", "disable_expand_ops")
    )
    kinds = {node.op_type for item in composites_in(apart.graph) for node in body_of(item).topological()}
    assert kinds.isdisjoint({"Gelu", "LayerNormalization", "Softmax", "ReduceMean"})
    assert {"Erf", "Tanh", "Sqrt", "Log", "ReduceMax", "Reciprocal"} <= kinds
    for mode, own in (("float32", "float32"), ("device", "float16")):
        found, wanted = (asim.run(model, feed, values=mode).outputs for model in (apart, whole))
        for name, array in wanted.items():
            if (name.split("_")[0], own) not in OTHERWISE:
                np.testing.assert_array_equal(found[name], array, err_msg=f"{name}, {mode}")
