"""Random graphs for tests of graph passes: shapes, element types, shared subexpressions, multiple edges, shape arithmetic, branches.

A graph is drawn as a list of choices and built from them, so hypothesis can shrink it. All values are small and finite unless an operator
makes them otherwise; integer arithmetic wraps as NumPy has it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.ops import default_opset
from ascendsim.opset import InferContext

OPSET = default_opset()
FLOATS = (DType.FLOAT32, DType.FLOAT16, DType.FLOAT64)
UNARY = ("Neg", "Abs", "Relu", "Tanh", "Identity", "Dropout", "Sigmoid", "Floor")
BINARY = ("Add", "Sub", "Mul", "Max", "Min")
CASTS = (DType.FLOAT32, DType.FLOAT16, DType.FLOAT64, DType.INT32, DType.INT64, DType.BOOL)
NEUTRAL = (0.0, -0.0, 1.0, 2.0)
MOST_ELEMENTS = 512


def infer(node: Any) -> None:
    OPSET.get(node).infer(InferContext(node))


@st.composite
def networks(draw: st.DrawFn, branches: bool = True) -> Graph:
    """A valid graph with one to four outputs; shapes are inferred where inference alone can tell."""
    b = GraphBuilder("random", infer=infer)
    pool: list[Tensor] = []
    for number in range(draw(st.integers(1, 3))):
        shape = tuple(draw(st.lists(st.sampled_from((1, 1, 2, 3, 4)), min_size=0, max_size=4)))
        pool.append(b.input(f"x{number}", shape, draw(st.sampled_from((*FLOATS, DType.INT64, DType.INT32)))))
    for _ in range(draw(st.integers(1, 14))):
        made = _step(draw, b, pool, branches)
        pool.extend(tensor for tensor in made if tensor.is_static and tensor.elements <= MOST_ELEMENTS)
    made_by_nodes = [tensor for tensor in pool if tensor.producer is not None]
    if not made_by_nodes:
        made_by_nodes = [b.op("Identity", pool[0])]
    count = draw(st.integers(1, min(4, len(made_by_nodes))))
    for tensor in draw(st.permutations(made_by_nodes))[:count]:
        b.output(tensor)
    return b.build()


def inputs_for(graph: Graph, seed: int) -> dict[str, Any]:
    """Values with zeros of both signs, infinities and NaN among them."""
    generator = np.random.default_rng(seed)
    arrays = {}
    for tensor in graph.inputs:
        kind = tensor.element_type
        if kind.is_float:
            array = generator.standard_normal(tensor.static_shape)
            special = generator.choice(np.array([0.0, -0.0, np.inf, -np.inf, np.nan]), array.shape)
            array = np.where(generator.random(array.shape) < 0.1, special, array)
        else:
            array = generator.integers(-3, 4, tensor.static_shape)
        arrays[tensor.name] = np.asarray(array).astype(kind.numpy)
    return arrays


def _step(draw: st.DrawFn, b: GraphBuilder, pool: list[Tensor], branches: bool) -> list[Tensor]:
    """One operator (or a few that belong together) on tensors of the pool."""
    x = draw(st.sampled_from(pool))
    shape, kind = x.static_shape, x.element_type
    choice = draw(st.integers(0, 15 if branches else 14))
    if choice == 0:
        return [b.op(draw(st.sampled_from(UNARY if kind.is_float else ("Neg", "Abs", "Identity"))), x)] if kind is not DType.BOOL else []
    if choice == 1:
        return _binary(draw, b, x, draw(st.sampled_from(pool)))
    if choice == 2:
        return [b.op("Mul", x, x)] if kind is not DType.BOOL else []  # both ports of one node read one tensor
    if choice == 3:
        return _neutral(draw, b, x)
    if choice == 4:
        return [b.op("Transpose", x, perm=draw(st.permutations(range(len(shape)))))] if shape else []
    if choice == 5:
        return [b.op("Cast", x, to=draw(st.sampled_from((*FLOATS, DType.BOOL) if kind.is_float else CASTS)))]  # NaN has no integer value
    if choice == 6:
        return [b.op("Reshape", x, draw(st.permutations(shape)) if shape else [1], allowzero=1)]
    if choice == 7:
        axis = draw(st.integers(0, len(shape)))
        return [b.op("Unsqueeze", x, [axis])] if len(shape) < 4 else []
    if choice == 8:
        ones = [axis for axis, dim in enumerate(shape) if dim == 1]
        return [b.op("Squeeze", x, [draw(st.sampled_from(ones))])] if ones else []
    if choice == 9:  # x reshaped to its own shape in another order, by shape arithmetic
        if not shape:
            return []
        order = b.op("Gather", b.op("Shape", x), np.array(draw(st.permutations(range(len(shape))))))
        target = tuple(int(dim) for dim in _value(order))
        result = b.op("Reshape", x, order, allowzero=1)
        result.shape = target
        return [result]
    if choice == 10:
        if not shape:
            return []
        first = draw(st.integers(0, shape[0]))
        return b.ops("Split", x, [first, shape[0] - first], outputs=2, axis=0)
    if choice == 11:
        values = np.arange(draw(st.integers(1, 3)), dtype=np.float32) + draw(st.integers(0, 1))
        return [b.op(draw(st.sampled_from(BINARY)), b.constant(values), b.constant(values.copy()))]
    if choice == 12:
        return [b.op("Expand", x, shape or [1])]
    if choice == 13:
        return [b.op("Concat", *[x] * draw(st.integers(1, 3)), axis=0)] if shape else []
    if choice == 14:
        return [b.op("Slice", x, [0], [draw(st.integers(0, shape[0]))], [0])] if shape else []
    return _branch(draw, b, x)


def _binary(draw: st.DrawFn, b: GraphBuilder, x: Tensor, y: Tensor) -> list[Tensor]:
    if x.element_type is not y.element_type or x.element_type is DType.BOOL:
        return []
    try:
        np.broadcast_shapes(x.static_shape, y.static_shape)
    except ValueError:
        return []
    try:
        return [b.op(draw(st.sampled_from(BINARY)), x, y)]
    except GraphError:
        return []


def _neutral(draw: st.DrawFn, b: GraphBuilder, x: Tensor) -> list[Tensor]:
    """x with a number that may be neutral, of x's type; sometimes it broadcasts x to another rank."""
    if x.element_type is DType.BOOL:
        return []
    number = draw(st.sampled_from(NEUTRAL))
    shape = draw(st.sampled_from(((), (1,), (1, 1, 1, 1, 1), x.static_shape)))
    other = b.constant(np.full(shape, number, x.element_type.numpy))
    op_type = draw(st.sampled_from(("Add", "Sub", "Mul", "Div")))
    if op_type == "Div" and number == 0 and not x.element_type.is_float:
        return []
    operands = (x, other) if op_type in ("Sub", "Div") or draw(st.booleans()) else (other, x)
    return [b.op(op_type, *operands)]


def _branch(draw: st.DrawFn, b: GraphBuilder, x: Tensor) -> list[Tensor]:
    """If on a condition that is constant, folded or an input; both branches read x from around them."""
    if x.element_type is DType.BOOL:
        return []
    known = draw(st.booleans())
    graph = b.graph
    bodies = []
    for name in ("then", "else"):
        body = Graph(graph.fresh(name))
        inner = body.add_node(
            draw(st.sampled_from(("Neg", "Abs", "Identity"))), [x], [graph.fresh(f"{body.name}_out")], name=graph.fresh(body.name)
        )
        infer(inner)
        if draw(st.booleans()):  # a constant of the branch's own, and an operator that folds
            extra = body.add_constant(graph.fresh(f"{body.name}_c"), np.array(2, x.element_type.numpy))
            inner = body.add_node("Mul", [inner.output, extra], [graph.fresh(f"{body.name}_mul")], name=graph.fresh(f"{body.name}_m"))
            infer(inner)
        body.outputs.append(inner.output)
        bodies.append(body)
    condition = b.constant(np.array(draw(st.booleans()))) if known else b.op("Cast", b.op("Size", x), to=DType.BOOL)
    node = graph.add_node("If", [condition], [graph.fresh("chosen")], name=graph.fresh("If"), then_branch=bodies[0], else_branch=bodies[1])
    infer(node)
    return [node.output]


def _value(tensor: Tensor) -> Any:
    """Value of a tensor that depends on shapes alone."""
    node = tensor.producer
    assert node is not None
    source = node.required(0).producer
    assert source is not None
    indices = node.required(1).constant
    assert indices is not None
    return np.array(source.required(0).static_shape)[indices.array()]
