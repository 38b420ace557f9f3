"""What families of operators say of their axes, by hand, for sizes that are known, open or unknown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Constant, Graph, Node
from ascendsim.ops import default_opset
from ascendsim.opset.axes import CHOSEN, NOTHING_SAID, REDUCED, UNREAD, WHOLE, AxisMap, Link, Relation
from ascendsim.opset.structure import constant_ints, regrouping

P, W, G = Relation.PARALLEL, Relation.WHOLE, Relation.GROUP


def node(op_type: str, *shapes: Any, result: Any, outputs: int = 1, **attributes: Any) -> Node:
    """A node with inputs and a result of these shapes (None: of unknown rank; "-": absent)."""
    graph = Graph("g")
    inputs = []
    for place, shape in enumerate(shapes):
        if shape == "-":
            inputs.append(None)
            continue
        inputs.append(graph.add_input(f"x{place}", DType.FLOAT32, shape or ()))
        inputs[-1].shape = shape
    made = graph.add_node(op_type, inputs, outputs, **attributes)
    for tensor in made.outputs:
        tensor.dtype, tensor.shape = DType.FLOAT32, result
    return made


def links(op_type: str, *shapes: Any, result: Any, port: int = 0, **attributes: Any) -> tuple[Link, ...]:
    made = node(op_type, *shapes, result=result, **attributes)
    found: AxisMap = default_opset().get(made).facts.axes(made)
    return found.of(port)


def parallel(*axes: int) -> tuple[Link, ...]:
    return tuple(Link(P, axis) for axis in axes)


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ((2, 3), (2, 3), parallel(0, 1)),
        ((2, 12), (2, 3, 4), (Link(P, 0), Link(G, 1, 4, 1))),
        ((2, 3, 4), (6, 4), (Link(G, 0, 1, 3), Link(W, 0), Link(P, 1))),
        ((6, 4), (2, 12), (Link(G, 0, 3, 1), Link(W, None))),
        ((4, 6), (6, 4), (Link(G, 0, 2, 3), Link(W, None))),
        ((2, 3, 4), (24,), (Link(G, 0, 1, 12), Link(W, 0), Link(W, 0))),
        ((5, 1, 7), (5, 7), (Link(P, 0), WHOLE, Link(P, 1))),
        ((5, 7), (1, 5, 1, 7), parallel(1, 3)),
        (("n", 12), ("n", 3, 4), (Link(P, 0), Link(G, 1, 4, 1))),
        # sizes that are not known: what is before them holds, and nothing behind
        (("n", 3, 4), ("n", 12), (Link(P, 0), Link(G, 1, 1, 4), Link(W, 1))),
        ((2, "n", 4), (2, "n", 2, 2), (Link(P, 0), Link(P, 1), Link(G, 2, 2, 1))),
        ((2, "n"), (2, "m"), (Link(P, 0), WHOLE)),
        ((None, 4), (None, 4), (WHOLE, WHOLE)),
        ((None, 4), ("n", 4), (WHOLE, WHOLE)),
        (("n", "m"), ("m", "n"), (WHOLE, WHOLE)),
        ((4, "n"), (2, 2, "n"), (Link(G, 0, 2, 1), Link(P, 2))),
        (("n", 4), (None,), (WHOLE, WHOLE)),
        ((3, 4), (5, 2), (WHOLE, WHOLE)),
        ((), (1, 1), ()),
    ],
)
def test_reshaped_axes(before: Any, after: Any, wanted: tuple[Link, ...]) -> None:
    """Runs of axes with as many elements on both sides are groups of their outermost axes."""
    assert regrouping()(node("Reshape", before, result=after)).of(0) == wanted


def test_shapes_that_are_not_known_say_nothing() -> None:
    for before, after in ((None, (2, 3)), ((2, 3), None)):
        assert regrouping()(node("Reshape", before, result=after)) == NOTHING_SAID
    for op_type, shapes in (
        ("Softmax", (None,)),
        ("MatMul", (None, (3, 4))),
        ("MatMul", ((2, 3), None)),
        ("Conv", (None, (4, 3, 3, 3))),
        ("MaxPool", (None,)),
        ("Gather", (None, (2,))),
        ("Gather", ((2, 3), None)),
        ("Transpose", (None,)),
        ("ReduceMax", (None,)),
        ("BatchNormalization", (None, (3,), (3,), (3,), (3,))),
        ("Flatten", (None,)),
        ("ArgMax", (None,)),
    ):
        assert links(op_type, *shapes, result=None, kernel_shape=(3, 3)) == (), op_type


@pytest.mark.parametrize(
    ("groups", "inside", "outside", "wanted"),
    [
        (1, 6, 8, REDUCED),
        (2, 6, 8, Link(G, 1, 3, 4)),
        (6, 6, 6, Link(G, 1, 1, 1)),
        (2, "c", 8, REDUCED),
        (2, 6, None, REDUCED),
    ],
)
def test_channels_of_a_convolution(groups: int, inside: Any, outside: Any, wanted: Link) -> None:
    shapes = (("n", inside, 9, 9), (outside, 3, 1, 1))
    (batch, channels, *_) = links("Conv", *shapes, result=("n", outside, 9, 9), group=groups)
    assert (batch, channels) == (Link(P, 0), wanted)
    weight = links("Conv", *shapes, result=("n", outside, 9, 9), group=groups, port=1)
    assert weight == (Link(P, 1), REDUCED, REDUCED, REDUCED)
    turned = links("ConvTranspose", *shapes, result=("n", outside, 9, 9), group=groups, port=1)
    assert turned[1:] == ((Link(P, 1) if groups == 1 else REDUCED), REDUCED, REDUCED)
    assert turned[0] == REDUCED
    bias = links("Conv", *shapes, (outside,), result=("n", outside, 9, 9), group=groups, port=2)
    assert bias == parallel(1)


@pytest.mark.parametrize(
    ("left", "right", "result", "first", "second"),
    [
        ((2, 3), (3, 4), (2, 4), (Link(P, 0), REDUCED), (REDUCED, Link(P, 1))),
        ((3,), (3, 4), (4,), (REDUCED,), (REDUCED, Link(P, 0))),
        ((2, 3), (3,), (2,), (Link(P, 0), REDUCED), (REDUCED,)),
        ((3,), (3,), (), (REDUCED,), (REDUCED,)),
        ((5, 2, 3), (3, 4), (5, 2, 4), (*parallel(0, 1), REDUCED), (REDUCED, Link(P, 2))),
        ((2, 3), (5, 3, 4), (5, 2, 4), (Link(P, 1), REDUCED), (Link(P, 0), REDUCED, Link(P, 2))),
        (
            (1, 2, 3),
            (5, 3, 4),
            (5, 2, 4),
            (Link(W, 0), Link(P, 1), REDUCED),
            (Link(P, 0), REDUCED, Link(P, 2)),
        ),
    ],
)
def test_products_of_stacks_matrices_and_vectors(
    left: Any, right: Any, result: Any, first: tuple[Link, ...], second: tuple[Link, ...]
) -> None:
    assert links("MatMul", left, right, result=result) == first
    assert links("MatMul", left, right, result=result, port=1) == second


def test_what_is_added_to_a_product_lies_against_its_end() -> None:
    assert links("Gemm", (2, 3), (3, 4), (4,), result=(2, 4), port=2) == parallel(1)
    assert links("Gemm", (2, 3), (3, 4), (2, 1), result=(2, 4), port=2) == (Link(P, 0), Link(W, 1))
    assert links("Gemm", (3, 2), (4, 3), (4,), result=(2, 4), transA=1, transB=1) == (REDUCED, Link(P, 0))
    assert links("Gemm", (3, 2), (4, 3), (4,), result=(2, 4), transA=1, transB=1, port=1) == (
        Link(P, 1),
        REDUCED,
    )


def test_axes_that_are_named() -> None:
    assert links("Softmax", (2, 3, 4), result=(2, 3, 4)) == (*parallel(0, 1), Link(W, 2))
    assert links("Softmax", (2, 3, 4), result=(2, 3, 4), axis=-3) == (Link(W, 0), *parallel(1, 2))
    assert links("Concat", (2, 3), (2, 5), result=(2, 8), axis=1, port=1) == (Link(P, 0), Link(W, 1))
    assert links("Softmax", (), result=()) == ()
    assert links("LayerNormalization", (2, 3, 4), (3, 4), result=(2, 3, 4), axis=1) == (
        Link(P, 0),
        Link(W, 1),
        Link(W, 2),
    )
    assert links("LayerNormalization", (2, 3, 4), (3, 4), result=(2, 3, 4), axis=1, port=1) == parallel(1, 2)
    assert links("ArgMax", (2, 3, 4), result=(2, 1, 4), axis=1) == (Link(P, 0), REDUCED, Link(P, 2))
    assert links("ArgMax", (2, 3, 4), result=(2, 4), axis=1, keepdims=0) == (Link(P, 0), REDUCED, Link(P, 1))
    assert links("Transpose", (2, 3, 4), result=(4, 2, 3), perm=(2, 0, 1)) == parallel(1, 2, 0)
    assert links("Transpose", (2, 3, 4), result=(4, 3, 2)) == parallel(2, 1, 0)


def test_picked_slices() -> None:
    shapes = (2, 3, 4), (5, 6)
    assert links("Gather", *shapes, result=(2, 5, 6, 4), axis=1) == (
        Link(P, 0),
        CHOSEN,
        Link(P, 3),
    )
    assert links("Gather", *shapes, result=(2, 5, 6, 4), axis=1, port=1) == parallel(1, 2)
    assert links("Gather", (2, 3), (), result=(2,), axis=-1) == (Link(P, 0), CHOSEN)
    nd = (2, 3, 4, 5), (2, 6, 1)
    depth = links("GatherND", *nd, result=(2, 6, 4, 5), batch_dims=1)
    assert depth == (Link(P, 0), CHOSEN, *parallel(2, 3))
    assert links("GatherND", *nd, result=(2, 6, 4, 5), batch_dims=1, port=1) == (*parallel(0, 1), REDUCED)
    assert links("GatherND", (2, 3), (6, "d"), result=None) == ()


def test_positions_of_pools_and_channels() -> None:
    pooled = links("GlobalMaxPool", (2, 3, 8, 9), result=(2, 3, 1, 1))
    assert pooled == (*parallel(0, 1), REDUCED, REDUCED)
    (batch, channel, high, wide) = links(
        "MaxPool", (2, 3, 8, 9), result=(2, 3, 4, 9), kernel_shape=(3, 1), strides=(2, 1), pads=(1, 0, 0, 0)
    )
    assert (batch, channel) == parallel(0, 1)
    assert high == Link(Relation.WINDOW, 2, stride=2, before=1, reach=3)
    assert wide == Link(Relation.WINDOW, 3)
    norm = ("n", 3, 8, 9), (3,), (3,), (3,), (3,)
    assert links("BatchNormalization", *norm, result=("n", 3, 8, 9)) == parallel(0, 1, 2, 3)
    assert links("BatchNormalization", *norm, result=("n", 3, 8, 9), port=3) == parallel(1)
    assert links("Shape", (2, 3), result=(2,)) == (UNREAD, UNREAD)


def test_operands_that_broadcast() -> None:
    assert links("Add", (2, 3, 4), (3, 1), result=(2, 3, 4), port=1) == (Link(P, 1), Link(W, 2))
    assert links("Add", (2, 1), (2, "n"), result=(2, "n")) == (Link(P, 0), Link(W, 1))
    assert links("Add", (2, 1), (2, 1), result=(2, 1)) == parallel(0, 1)
    assert links("Add", (2, 3), None, result=(2, 3)) == parallel(0, 1)
    assert links("Add", (2, 3), None, result=(2, 3), port=1) == ()
    assert links("Clip", (2, 3), "-", (), result=(2, 3)) == parallel(0, 1)


def test_lists_of_numbers_that_are_known() -> None:
    graph = Graph("g")
    assert constant_ints(graph.add_constant("c", np.array([[3], [-1]], np.int64))) == (3, -1)
    assert constant_ints(graph.add_constant("e", np.array([], np.int64))) == ()
    assert constant_ints(graph.add_input("x", DType.INT64, (2,))) is None
    assert constant_ints(None) is None
    lost = graph.add_constant("l", np.array([1], np.int64))
    lost.constant = Constant(absent_because="the file is lost")
    assert constant_ints(lost) is None
