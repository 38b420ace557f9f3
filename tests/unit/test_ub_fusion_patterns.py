"""Classes of operators and the matching of UB-fusion patterns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.ops import default_opset
from ascendsim.opset.facts import OpPattern
from ascendsim.opset.patterns import data_inputs, pattern_of
from ascendsim.passes.rewriting.search import match_at
from ascendsim.passes.ub.cann_passes import gated, head, optional
from ascendsim.passes.ub.pattern import ANY, Part, UbPattern, chain
from tests.support.fusing import build, new_builder, random
from tests.support.ub import conv

E, B, C = OpPattern.ELEMWISE, OpPattern.BROADCAST, OpPattern.CONVOLUTION
MAP = (1, 16, 8, 8)


def kind_of(op_type: str, *inputs: Any, **attributes: Any) -> OpPattern:
    b = new_builder()
    x = b.input("x", MAP)
    node = b.op(op_type, x, *inputs, **attributes).producer
    assert node is not None
    return pattern_of(node, default_opset())


@pytest.mark.parametrize(
    ("kind", "op_type", "inputs", "attributes"),
    [
        (E, "Relu", (), {}),
        (E, "Sigmoid", (), {}),
        (E, "Clip", (0.0, 6.0), {}),
        (E, "Mul", (2.0,), {}),
        (E, "Add", (random(*MAP),), {}),
        (B, "Add", (random(1, 16, 1, 1),), {}),
        (B, "PRelu", (random(16, 1, 1),), {}),
        (C, "Conv", (random(16, 16, 3, 3),), {"pads": (1, 1, 1, 1)}),
        (OpPattern.DEPTHWISE, "Conv", (random(16, 1, 3, 3),), {"group": 16}),
        (OpPattern.CONV_BACKPROP, "ConvTranspose", (random(16, 8, 2, 2),), {"strides": (2, 2)}),
        (OpPattern.BATCH_MATMUL, "MatMul", (random(8, 4),), {}),
        (OpPattern.COMM_REDUCE, "ReduceMean", (np.array([2, 3]),), {}),
        (OpPattern.MAX_POOL, "MaxPool", (), {"kernel_shape": (2, 2)}),
        (OpPattern.POOL2D, "AveragePool", (), {"kernel_shape": (2, 2)}),
        (OpPattern.BROADCAST, "BatchNormalization", tuple(random(16, positive=True) for _ in range(4)), {}),
        (OpPattern.OPAQUE, "Softmax", (), {}),
        (OpPattern.OPAQUE, "Transpose", (), {"perm": (0, 2, 3, 1)}),
        (OpPattern.OPAQUE, "Resize", (None, np.array([1, 1, 2, 2], np.float32)), {"mode": "nearest"}),
    ],
)
def test_class(kind: OpPattern, op_type: str, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> None:
    assert kind_of(op_type, *inputs, **attributes) is kind


def test_products_and_segments() -> None:
    b = new_builder()
    x = b.input("x", (32, 16))
    kinds = []
    for tensor in (
        b.op("MatMul", x, random(16, 8)),
        b.op("Gemm", x, random(16, 8), random(8)),
        b.op("ScatterND", x, np.array([[0]]), random(1, 16), reduction="add"),
        b.op("ScatterND", x, np.array([[0]]), random(1, 16)),
    ):
        assert tensor.producer is not None
        kinds.append(pattern_of(tensor.producer, default_opset()))
    assert kinds == [OpPattern.MATMUL, OpPattern.GEMM, OpPattern.SEGMENT, OpPattern.OPAQUE]


def test_constants_of_one_element_are_parameters() -> None:
    b = new_builder()
    x = b.input("x", MAP)
    scaled, shifted = b.op("Mul", x, 2.0), b.op("Add", x, random(1, 16, 1, 1))
    assert scaled.producer is not None
    assert shifted.producer is not None
    assert [len(data_inputs(node)) for node in (scaled.producer, shifted.producer)] == [1, 2]


def matched(graph: Graph, pattern: UbPattern, start: str, taken: tuple[str, ...] = ()) -> list[str] | None:
    order = graph.topological()

    def kind(node: Node) -> OpPattern:
        return pattern_of(node, default_opset())

    wanted = pattern.compiled(kind, lambda node: node.name not in taken, set(map(kind, order)))
    match = match_at(graph.node(start), pattern.name, wanted, graph.outputs) if wanted is not None else None
    return None if match is None else [node.name for node in order if node in match.all_nodes]


def line(*types: str) -> Graph:
    """A convolution and elementwise operators behind it."""

    def body(b: GraphBuilder) -> Tensor:
        tensor = conv(b, b.input("x", MAP), 16)
        for op_type in types:
            tensor = b.op(op_type, tensor, *((random(*MAP, seed=1),) if op_type in ("Add", "Mul") else ()))
        return tensor

    return build(body)


def test_longest_chain_first_and_optional_parts() -> None:
    pattern = chain("p", head("conv", C), optional("dequant", OpPattern.DEQUANT), Part("e", (E,), 0, 2))
    assert matched(line("Relu", "Abs", "Exp"), pattern, "Conv") == ["Conv", "Relu", "Abs"]
    assert matched(line("Relu"), pattern, "Conv") == ["Conv", "Relu"]
    assert matched(line("Softmax"), pattern, "Conv") is None, "a head alone is no match"


def test_numbers_of_other_inputs_must_fit() -> None:
    none, one, some = (chain("p", head("conv", C), Part("e", (E,), others=count)) for count in (0, 1, ANY))
    assert matched(line("Add"), none, "Conv") is None
    assert matched(line("Add"), one, "Conv") == ["Conv", "Add"]
    assert matched(line("Add"), some, "Conv") == ["Conv", "Add"]
    assert matched(line("Relu"), one, "Conv") is None


def test_shorter_chain_where_the_next_part_needs_its_end() -> None:
    pattern = chain(
        "p", head("conv", C), Part("first", (E,), 1, 3), Part("last", (E,), types=frozenset({"Exp"}))
    )
    assert matched(line("Relu", "Abs", "Exp"), pattern, "Conv") == ["Conv", "Relu", "Abs", "Exp"]


def test_gate_reads_its_source_twice() -> None:
    def body(b: GraphBuilder) -> Tensor:
        y = conv(b, b.input("x", MAP), 16)
        return b.op("Mul", b.op("Sigmoid", y), y)

    pattern = gated("p", head("conv", C), behind=(optional("quant", OpPattern.QUANT),))
    assert matched(build(body), pattern, "Conv") == ["Conv", "Sigmoid", "Mul"]
    assert matched(line("Sigmoid", "Mul"), pattern, "Conv") is None, "the product reads something else"


def test_readers_outside_need_a_shared_part() -> None:
    def body(b: GraphBuilder) -> list[Tensor]:
        y = conv(b, b.input("x", MAP), 16)
        return [b.op("Relu", y), b.op("Softmax", y)]

    assert matched(build(body), chain("p", head("conv", C), Part("e", (E,))), "Conv") is None
    assert matched(build(body), chain("p", head("conv", C, shared=True), Part("e", (E,))), "Conv") == [
        "Conv",
        "Relu",
    ]


def test_a_graph_output_inside_counts_as_reader() -> None:
    def body(b: GraphBuilder) -> list[Tensor]:
        y = conv(b, b.input("x", MAP), 16)
        return [y, b.op("Relu", y)]

    assert matched(build(body), chain("p", head("conv", C), Part("e", (E,))), "Conv") is None


def test_needs_shared_and_most() -> None:
    lone = chain("p", head("conv", C, shared=True), Part("e", (E,)), needs_shared=True)
    assert matched(line("Relu"), lone, "Conv") is None
    bounded = chain("p", head("conv", C), Part("e", (E,), 1, 5), most=3)
    assert matched(line("Relu", "Abs", "Exp", "Neg"), bounded, "Conv") == ["Conv", "Relu", "Abs"]


def test_nodes_that_are_taken_do_not_match() -> None:
    pattern = chain("p", head("conv", C), Part("e", (E,), 1, 3))
    assert matched(line("Relu", "Abs"), pattern, "Conv", taken=("Abs",)) == ["Conv", "Relu"]
    assert matched(line("Relu", "Abs"), pattern, "Conv", taken=("Relu",)) is None


def test_unknown_operator_is_opaque() -> None:
    assert pattern_of(Node("NoSuchOperator", "n"), default_opset()) is OpPattern.OPAQUE
