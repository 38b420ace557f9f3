"""Random graphs for tests of graph passes: shapes, element types, shared subexpressions, multiple edges,
shape arithmetic, branches.

A graph is drawn as a list of choices and built from them, so hypothesis can shrink it. All values are small
and finite unless an operator makes them otherwise; integer arithmetic wraps as NumPy has it.
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
from ascendsim.passes.infer import Inference

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
    count = draw(st.integers(1, min(4, len(made_by_nodes))))  # of the last ones, so that little is dead
    for tensor in draw(st.permutations(made_by_nodes[-8:]))[:count]:
        b.output(tensor)
    Inference(OPSET).forget_values(b.graph)
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
    x = draw(st.sampled_from(pool[-2:] if draw(st.booleans()) else pool))
    shape, kind = x.static_shape, x.element_type
    choice = draw(st.integers(0, 19 if branches else 18))
    if choice == 0:
        return (
            [b.op(draw(st.sampled_from(UNARY if kind.is_float else ("Neg", "Abs", "Identity"))), x)]
            if kind is not DType.BOOL
            else []
        )
    if choice == 1:
        return _binary(draw, b, x, draw(st.sampled_from(pool)))
    if choice == 2:
        return [b.op("Mul", x, x)] if kind is not DType.BOOL else []  # both ports of one node read one tensor
    if choice == 3:
        return _neutral(draw, b, x)
    if choice == 4:
        return [b.op("Transpose", x, perm=draw(st.permutations(range(len(shape)))))] if shape else []
    if choice == 5:
        # NaN has no integer value
        return [b.op("Cast", x, to=draw(st.sampled_from((*FLOATS, DType.BOOL) if kind.is_float else CASTS)))]
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
    if choice == 15:
        return [b.op("Sum", x)] if kind.is_float else []
    if choice in (16, 17):
        return _pair(draw, b, x)
    if choice == 18:
        return _again(draw, b)
    return _branch(draw, b, x)


def _pair(draw: st.DrawFn, b: GraphBuilder, x: Tensor) -> list[Tensor]:
    """Two neighbours of one kind, which may undo each other; the tensor between them may be used elsewhere
    too."""
    shape, kind = x.static_shape, draw(st.sampled_from(("Transpose", "Cast", "Reshape", "Unsqueeze")))
    if kind == "Transpose" and len(shape) > 1:
        order = draw(st.permutations(range(len(shape))))
        back = np.argsort(order).tolist() if draw(st.booleans()) else draw(st.permutations(range(len(shape))))
        first = b.op("Transpose", x, perm=order)
        return [first, b.op("Transpose", first, perm=back)]
    if kind == "Cast":
        kinds = (*FLOATS, DType.BOOL) if x.element_type.is_float else CASTS
        first = b.op("Cast", x, to=draw(st.sampled_from(kinds)))
        if first.element_type.is_float and not x.element_type.is_float:
            return [first, b.op("Cast", first, to=draw(st.sampled_from(FLOATS)))]
        return [first, b.op("Cast", first, to=x.element_type if draw(st.booleans()) else first.element_type)]
    if kind == "Reshape" and shape:
        first = b.op("Flatten", x, axis=draw(st.integers(0, len(shape))))
        return [first, b.op("Reshape", first, draw(st.sampled_from((list(shape), [*shape, 1]))), allowzero=1)]
    if kind == "Unsqueeze" and len(shape) < 4:
        first = b.op("Unsqueeze", x, [draw(st.integers(0, len(shape)))])
        ones = [axis for axis, dim in enumerate(first.static_shape) if dim == 1]
        return [first, b.op("Squeeze", first, [draw(st.sampled_from(ones))])]
    return []


def _again(draw: st.DrawFn, b: GraphBuilder) -> list[Tensor]:
    """A node that is there already, once more: a common subexpression."""
    nodes = [node for node in b.graph.nodes if not any(True for _ in node.subgraphs)]
    if not nodes:
        return []
    node = draw(st.sampled_from(nodes))
    twin = b.graph.add_node(
        node.op_type,
        node.inputs,
        len(node.outputs),
        name=b.graph.fresh(node.name),
        domain=node.domain,
        **node.attributes,
    )
    for old, new in zip(node.outputs, twin.outputs, strict=True):
        new.dtype, new.origin_dtype, new.shape = old.dtype, old.origin_dtype, old.shape
    return list(twin.outputs)


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
    """If, Case, PartitionedCall or Loop; conditions and numbers of iterations are constant, folded from
    shapes, or unknown."""
    if x.element_type is DType.BOOL:
        return []
    kind = draw(st.sampled_from(("If", "Case", "PartitionedCall", "Loop")))
    graph = b.graph
    attributes: dict[str, Any]
    if kind == "If":
        condition = (
            b.constant(np.array(draw(st.booleans())))
            if draw(st.booleans())
            else b.op("Cast", _number(draw, b, x), to=DType.BOOL)
        )
        inputs, domain = [condition], ""
        attributes = {name: _body(draw, b, x, bound=False) for name in ("then_branch", "else_branch")}
    elif kind == "Case":
        inputs, domain = [b.op("Cast", _number(draw, b, x), to=DType.INT32), x], "ascend"
        attributes = {"branches": tuple(_body(draw, b, x) for _ in range(draw(st.integers(1, 3))))}
    elif kind == "PartitionedCall":
        inputs, domain = [x], "ascend"
        attributes = {"f": _body(draw, b, x)}
    else:
        inputs, domain = [_number(draw, b, x, most=3), b.constant(np.array(True)), x], ""
        attributes = {"body": _loop_body(draw, b, x)}
    node = graph.add_node(
        kind, inputs, [graph.fresh("chosen")], name=graph.fresh(kind), domain=domain, **attributes
    )
    Inference(OPSET).visit(node)
    return [node.output]


def _number(draw: st.DrawFn, b: GraphBuilder, x: Tensor, most: int = 4) -> Tensor:
    """A small int64 scalar: a constant, or the number of dimensions of x, which folding finds."""
    if draw(st.booleans()):
        return b.constant(np.array(draw(st.integers(0, most)), np.int64))
    rank = b.op("Size", b.op("Shape", x))
    return b.op("Min", rank, b.constant(np.array(most, np.int64)))


def _body(draw: st.DrawFn, b: GraphBuilder, x: Tensor, bound: bool = True) -> Graph:
    """A subgraph with one result of x's type; it reads x as its input, or from around it."""
    body = Graph(b.graph.fresh("body"))
    prefix = f"{body.name}_{draw(st.integers(0, 9))}_{len(b.graph)}"
    source = body.add_input(f"{prefix}_in", x.element_type, x.shape or ()) if bound else x
    _steps(draw, body, source, prefix)
    return body


def _loop_body(draw: st.DrawFn, b: GraphBuilder, x: Tensor) -> Graph:
    body = Graph(b.graph.fresh("loop"))
    prefix = f"{body.name}_{len(b.graph)}"
    body.add_input(f"{prefix}_i", DType.INT64, ())
    goes_on = body.add_input(f"{prefix}_c", DType.BOOL, ())
    variable = body.add_input(f"{prefix}_v", x.element_type, x.shape or ())
    body.outputs.append(
        body.add_node("Identity", [goes_on], [f"{prefix}_next"], name=f"{prefix}_identity").output
    )
    _steps(draw, body, variable, prefix)
    return body


def _steps(draw: st.DrawFn, body: Graph, source: Tensor, prefix: str) -> None:
    """Appends an operator, maybe one with a constant that folds, and an output."""
    node = body.add_node(
        draw(st.sampled_from(("Neg", "Abs", "Identity"))), [source], [f"{prefix}_a"], name=f"{prefix}_first"
    )
    infer(node)
    if draw(st.booleans()):
        one = body.add_constant(f"{prefix}_k", np.array(1, source.element_type.numpy))
        product = body.add_node("Mul", [one, one], [f"{prefix}_p"], name=f"{prefix}_product")
        infer(product)
        node = body.add_node("Mul", [node.output, product.output], [f"{prefix}_b"], name=f"{prefix}_second")
        infer(node)
    body.outputs.append(node.output)


def _value(tensor: Tensor) -> Any:
    """Value of a tensor that depends on shapes alone."""
    node = tensor.producer
    assert node is not None
    source = node.required(0).producer
    assert source is not None
    indices = node.required(1).constant
    assert indices is not None
    return np.array(source.required(0).static_shape)[indices.array()]
