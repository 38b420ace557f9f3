"""Graph kernels: written-out operators against NumPy and against the operators themselves, and groups on
graphs that differ in one thing.

The texts (tests/golden/graph_kernel_near_misses) say what each operator becomes and which operators share a
composite. A legitimate reason to renew one is an expander or list that is meant to be another one; read every
change that moves from one group to another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.composites import body_of
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Array, Graph, Tensor
from ascendsim.graph.text import to_text
from ascendsim.graph.verify import verify
from ascendsim.ops import default_opset
from ascendsim.passes.graph_kernel import GraphKernelFlags, composites_in, fuse_marked, mark_graph
from ascendsim.passes.graph_kernel.expanders import expand, expandable
from tests.support.evaluate import evaluate
from tests.support.fusing import build, difference, random
from tests.support.near_misses import (
    Edit,
    all_edits,
    has_values,
    near_misses,
    operators_changed,
    size_edits,
    sorted_outcomes,
    structure_edits,
)

Body = Callable[[GraphBuilder], "Tensor | list[Tensor]"]
OPSET, SHAPE = default_opset(), (3, 4, 5)


def x(b: GraphBuilder, name: str = "x") -> Tensor:
    return b.input(name, SHAPE)


def softmax(array: Array, axis: int) -> Array:
    powers = np.exp(array - array.max(axis=axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True))


def normed(array: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    return np.asarray(
        (array - array.mean(axis=axes, keepdims=True))
        / np.sqrt(array.var(axis=axes, keepdims=True) + epsilon)
    )


G8, G20 = random(5, seed=1), random(4, 5, seed=2)
# MindSpore's name and an attribute or two -> the graph, and its values in float64
EXPANDED: dict[str, tuple[Body, Callable[..., Array]]] = {
    "Softmax": (lambda b: b.op("Softmax", x(b)), lambda v: softmax(v, -1)),
    "Softmax along 1": (lambda b: b.op("Softmax", x(b), axis=1), lambda v: softmax(v, 1)),
    "LogSoftmax": (lambda b: b.op("LogSoftmax", x(b), axis=-2), lambda v: np.log(softmax(v, -2))),
    "SoftmaxGradExt": (
        lambda b: b.op("SoftmaxGrad", x(b), x(b, "dy"), domain="ascend", axis=1),
        lambda y, dy: y * (dy - (dy * y).sum(axis=1, keepdims=True)),
    ),
    "LayerNorm": (
        lambda b: b.op("LayerNormalization", x(b), G8, 2 * G8),
        lambda v: normed(v, (2,), 1e-5) * G8 + 2 * G8,
    ),
    "LayerNorm without shift": (
        lambda b: b.op("LayerNormalization", x(b), G20, axis=1, epsilon=0.25),
        lambda v: normed(v, (1, 2), 0.25) * G20,
    ),
    "GeLU": (
        lambda b: b.op("Gelu", x(b)),
        lambda v: v / 2 * (1 + np.vectorize(__import__("math").erf)(v / 2**0.5)),
    ),
    "GeLU by tanh": (
        lambda b: b.op("Gelu", x(b), approximate="tanh"),
        lambda v: v / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (v + 0.044715 * v**3))),
    ),
    "Sigmoid": (lambda b: b.op("Sigmoid", x(b)), lambda v: 1 / (1 + np.exp(-v))),
    "ReLU": (lambda b: b.op("Relu", x(b)), lambda v: v * (v > 0)),
    "Square": (lambda b: b.op("Square", x(b), domain="ascend"), lambda v: v**2),
    "FusedMulAdd": (
        lambda b: b.op("FusedMulAdd", x(b), x(b, "y"), x(b, "z"), domain="ascend"),
        lambda v, w, u: v * w + u,
    ),
    "AddN": (lambda b: b.op("Sum", x(b), x(b, "y"), x(b, "z")), lambda v, w, u: v + w + u),
    "AddN of two": (lambda b: b.op("Sum", x(b), x(b, "y")), lambda v, w: v + w),
    "ReduceMean": (
        lambda b: b.op("ReduceMean", x(b), b.constant([0, -1], "axes")),
        lambda v: v.mean(axis=(0, 2), keepdims=True),
    ),
    "ReduceMean of all": (lambda b: b.op("ReduceMean", x(b), keepdims=0), lambda v: v.mean()),
    "SquareSumV1": (
        lambda b: b.op("ReduceSumSquare", x(b), b.constant([1], "axes"), keepdims=0),
        lambda v: (v**2).sum(axis=1),
    ),
}


def expanded(graph: Graph) -> Graph | None:
    """The graph with its last operator written out; None if it cannot be."""
    after = copy_graph(graph)
    node = after.topological()[-1]
    made = expand(after, node, OPSET)
    if made is None:
        assert to_text(after) == to_text(graph)
        return None
    verify(after)
    assert made
    assert all(new.origin["source_names"] == (node.name,) for new in made)
    return after


@pytest.mark.parametrize("name", EXPANDED)
def test_an_operator_written_out_has_the_values_of_its_formula(name: str) -> None:
    body, formula = EXPANDED[name]
    graph = build(body)
    arrays = {tensor.name: random(*SHAPE, seed=number) for number, tensor in enumerate(graph.inputs)}
    after = expanded(graph)
    assert after is not None
    (got,) = evaluate(after, OPSET, arrays)
    wanted = formula(*(array.astype(np.float64) for array in arrays.values()))
    assert got.shape == np.shape(wanted)
    np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-6)


def test_every_expander_has_its_formula() -> None:
    assert {name.split(" ")[0] for name in EXPANDED} == expandable(OPSET)


def outcome(graph: Graph) -> str:
    after = expanded(graph)
    if after is None:
        return "stays"
    if has_values(graph):
        coarse = any(tensor.dtype is DType.FLOAT16 for tensor in graph.tensors.values())
        assert difference(graph, after) < (4e-3 if coarse else 2e-5)
    return operators_changed(graph, after)


def last_edits(graph: Graph) -> Iterator[tuple[str, Edit]]:
    """Everything but what puts another operator last."""
    yield from (
        (label, edit) for label, edit in all_edits(graph) if "reader" not in label and "wait" not in label
    )


@pytest.mark.parametrize("name", EXPANDED)
def test_what_an_expander_asks_for(golden: Callable[[str, str], None], name: str) -> None:
    outcomes = [
        (label, outcome(variant)) for label, variant in near_misses(build(EXPANDED[name][0]), last_edits)
    ]
    golden(f"graph_kernel_near_misses/expanded_{name.replace(' ', '_')}.txt", sorted_outcomes(outcomes))


@pytest.mark.parametrize(
    "name",
    ["Softmax", "LogSoftmax", "SoftmaxGradExt", "LayerNorm", "ReduceMean", "SquareSumV1", "GeLU", "AddN"],
)
def test_a_blocked_operand_is_not_reduced(name: str) -> None:
    """Blocked formats reorder the axes; what works element by element does not mind."""
    for format, plain in (
        (Format.ND, True),
        (Format.NCHW, True),
        (Format.FRACTAL_NZ, False),
        (Format.NC1HWC0, False),
    ):
        graph = build(EXPANDED[name][0])
        graph.inputs[0].format = format
        assert (expanded(graph) is not None) is (plain or name in ("GeLU", "AddN"))


def test_on_the_device_sums_and_exponentials_are_taken_in_float32_and_rounded_once() -> None:
    graph = build(lambda b: b.op("Softmax", x(b)))
    for tensor in graph.tensors.values():
        tensor.dtype = DType.FLOAT16
    after = expanded(graph)
    assert after is not None
    types = {node.op_type: node.output.dtype for node in after.topological()[:-1]}
    assert types == {
        "ReduceMax": DType.FLOAT16,
        "Cast": DType.FLOAT32,
        "Sub": DType.FLOAT32,
        "Exp": DType.FLOAT32,
        "ReduceSum": DType.FLOAT32,
        "Div": DType.FLOAT32,
    }
    assert after.topological()[-1].op_type == "Cast"
    assert after.outputs[0].dtype is DType.FLOAT16


def test_what_a_float16_model_computes_in_between_is_float32_for_its_own_types_too() -> None:
    """Else `values="float32"`, which computes in the user's types, would round each step."""
    graph = build(lambda b: b.op("Softmax", b.input("x", SHAPE, DType.FLOAT16)))
    after = expanded(graph)
    assert after is not None
    assert {node.op_type: node.output.origin_dtype for node in after.topological()[:-1]} == {
        "ReduceMax": DType.FLOAT16,
        "Cast": DType.FLOAT32,
        "Sub": DType.FLOAT32,
        "Exp": DType.FLOAT32,
        "ReduceSum": DType.FLOAT32,
        "Div": DType.FLOAT32,
    }


# ------------------------------------------------------------------------------------------------------------


def gate(b: GraphBuilder) -> list[Tensor]:
    v = b.op("Mul", x(b), x(b, "y"))
    w = b.op("Add", v, b.op("Neg", v))
    return [b.op("Pow", w, 2.0), b.op("Tanh", v)]


def around_a_product(b: GraphBuilder) -> Tensor:
    """The way by the product leads out of the group and back into it."""
    v = b.op("Mul", x(b), x(b, "y"))
    return b.op("Add", b.op("MatMul", v, random(5, 5)), b.op("Exp", v))


def reductions(b: GraphBuilder) -> Tensor:
    v = b.op("Exp", b.op("Sub", x(b), x(b, "y")))
    return b.op("Div", b.op("Mul", v, v), b.op("ReduceSum", b.op("Add", v, 1.0), b.constant([2], "axes")))


def normalised(b: GraphBuilder) -> Tensor:
    return b.op("Relu", b.op("LayerNormalization", b.op("Add", x(b), x(b, "y")), G8, G8))


NETWORKS: dict[str, Body] = {f.__name__: f for f in (gate, around_a_product, reductions, normalised)}
FLAGS = {
    "plain": "--opt_level=1",
    "expanded": "--opt_level=2",
    "reduced": "--opt_level=1 --enable_cluster_ops=ReduceSum,Exp,Tanh",
    "basic": "--disable_pass=composite",
}


def edits(graph: Graph) -> Iterator[tuple[str, Edit]]:
    yield from structure_edits(graph)
    yield from size_edits(graph)


def composites(graph: Graph, flags: str) -> str:
    """Operators of each composite, and those outside; asserts that values stay."""
    marked = copy_graph(graph)
    checked = GraphKernelFlags.of(OPSET, flags)
    mark_graph(marked, OPSET, checked)
    after, report = fuse_marked(marked, OPSET, checked)
    verify(after)
    assert [record.name for record in report.composites] == [
        str(node.attr("graph_kernel")) for node in composites_in(after)
    ]
    bodies = [
        ", ".join(node.op_type for node in body_of(composite).topological())
        for composite in composites_in(after)
    ]
    outside = [node.op_type for node in after.topological() if node.op_type != "GraphKernel"]
    return "; ".join([*(f"({body})" for body in bodies), *outside])


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("name", NETWORKS)
def test_which_operators_share_a_composite(golden: Callable[[str, str], None], name: str, flags: str) -> None:
    outcomes = [
        (label, composites(variant, FLAGS[flags]))
        for label, variant in near_misses(build(NETWORKS[name]), edits)
    ]
    golden(f"graph_kernel_near_misses/{name}_{flags}.txt", sorted_outcomes(outcomes))
