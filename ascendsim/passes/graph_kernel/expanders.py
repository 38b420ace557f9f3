"""Expanders: composite operators written out in basic ones, so that a composite can take them in and grow
around them.

Before: y = Softmax(x)
After:  m = ReduceMax(x); e = Exp(Sub(x, m)); y = RealDiv(e, ReduceSum(e))

float16 is widened to float32 where the operator itself computes in float32 (sums, exponentials), with one
rounding at the end, as MindSpore's expanders do on Ascend. They run on the device graph; reductions only of
row-major tensors, since a blocked format reorders the axes that they fold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format
from ascendsim.graph.ir import AttributeValue, Graph, Node, Tensor
from ascendsim.opset import InferContext, OpSet
from ascendsim.passes.rewriting.replace import SOURCES, replace, sources_of


class Writer:
    """Writes basic nodes in the place of one node.

    Args:
        graph: Changed in place.
        opset: To infer shapes.
        node: What is expanded.
    """

    def __init__(self, graph: Graph, opset: OpSet, node: Node) -> None:
        self.graph, self.opset, self.node = graph, opset, node
        self.made: list[Node] = []

    def op(
        self,
        op_type: str,
        *inputs: Tensor | float | Sequence[int],
        domain: str = "",
        **attributes: AttributeValue,
    ) -> Tensor:
        """Adds a node; a number becomes a constant of the first operand's type, a list of integers a constant
        of axes or sizes.
        """
        like = next(item for item in inputs if isinstance(item, Tensor))
        tensors = [item if isinstance(item, Tensor) else self._constant(item, like) for item in inputs]
        name = self.graph.fresh(f"{self.node.name}/{op_type}")
        node = self.graph.add_node(op_type, tensors, 1, name=name, domain=domain, **attributes)
        self.opset.get(node).infer(InferContext(node))
        result = node.output
        to = attributes.get("to")
        if isinstance(to, DType):
            result.dtype, result.origin_dtype = (
                to,
                like.origin_dtype if like.origin_dtype is DType.FLOAT32 else to,
            )
        else:
            result.dtype = like.dtype
        if result.shape == like.shape:
            result.format = like.format
        self.made.append(node)
        return result

    def _constant(self, value: float | Sequence[int], like: Tensor) -> Tensor:
        if isinstance(value, (int, float)):
            wide = like.origin_dtype or like.element_type
            shape = (1,) if like.static_shape else ()  # a scalar stays one
            array = np.asarray(value, wide.numpy).reshape(shape)
            tensor = self.graph.add_constant(self.graph.fresh(f"{self.node.name}/number"), array)
            tensor.dtype, tensor.origin_dtype = like.dtype, wide
            return tensor
        return self.graph.add_constant(
            self.graph.fresh(f"{self.node.name}/axes"), np.asarray(value, np.int64)
        )

    def wide(self, tensor: Tensor) -> Tensor:
        """The tensor in float32."""
        return self.op("Cast", tensor, to=DType.FLOAT32) if tensor.element_type is DType.FLOAT16 else tensor

    def like_output(self, tensor: Tensor) -> Tensor:
        """The tensor in the type of the node's output."""
        target = self.node.output.element_type
        return self.op("Cast", tensor, to=target) if tensor.element_type is not target else tensor

    def __call__(self, index: int) -> Tensor:
        """An input of the node."""
        return self.node.required(index)


Expander = Callable[[Writer], "Tensor | None"]  # the new result, None where the node cannot be expanded


def _axis(w: Writer) -> int | None:
    """The node's axis if its operand is row-major."""
    source = w(0)
    if source.format not in (Format.ND, Format.NCHW):
        return None
    return int(w.node.attr("axis", -1)) % len(source.static_shape)


def _softmax(w: Writer) -> Tensor | None:
    axis = _axis(w)
    if axis is None:
        return None
    x = w(0)
    powers = w.op("Exp", w.op("Sub", w.wide(x), w.wide(w.op("ReduceMax", x, [axis], keepdims=1))))
    return w.like_output(w.op("Div", powers, w.op("ReduceSum", powers, [axis], keepdims=1)))


def _log_softmax(w: Writer) -> Tensor | None:
    axis = _axis(w)
    if axis is None:
        return None
    x = w(0)
    shifted = w.op("Sub", w.wide(x), w.wide(w.op("ReduceMax", x, [axis], keepdims=1)))
    total = w.op("ReduceSum", w.op("Exp", shifted), [axis], keepdims=1)
    return w.like_output(w.op("Sub", shifted, w.op("Log", total)))


def _softmax_grad(w: Writer) -> Tensor | None:
    """The gradient y (dy - sum(dy y)) of y = softmax(x); inputs y and dy in CANN's order."""
    axis = _axis(w)
    if axis is None:
        return None
    y, dy = w.wide(w(0)), w.wide(w(1))
    total = w.op("ReduceSum", w.op("Mul", dy, y), [axis], keepdims=1)
    return w.like_output(w.op("Mul", y, w.op("Sub", dy, total)))


def _layer_norm(w: Writer) -> Tensor | None:
    """Mean and variance over the last axes, then scale and shift; only where nobody reads mean and
    deviation.
    """
    axis = _axis(w)
    if axis is None or any(tensor.uses for tensor in w.node.outputs[1:]):
        return None
    x = w.wide(w(0))
    shape = x.static_shape
    axes = list(range(axis, len(shape)))
    part = 1.0 / math.prod(shape[axis:])
    centred = w.op("Sub", x, w.op("Mul", w.op("ReduceSum", x, axes, keepdims=1), part))
    variance = w.op("Mul", w.op("ReduceSum", w.op("Mul", centred, centred), axes, keepdims=1), part)
    deviation = w.op("Sqrt", w.op("Add", variance, float(w.node.attr("epsilon", 1e-5))))
    result = w.op("Mul", w.op("Div", centred, deviation), w.wide(w(1)))
    if w.node.input(2) is not None:
        result = w.op("Add", result, w.wide(w(2)))
    return w.like_output(result)


def _gelu(w: Writer) -> Tensor | None:
    """The tanh form, as MindSpore has it: x / 2 (1 + tanh u), u = sqrt(2 / pi) (x + 0.044715 x^3); the exact
    form by erf.
    """
    x = w.wide(w(0))
    if w.node.attr("approximate", "none") == "tanh":
        cube = w.op("Mul", w.op("Mul", w.op("Mul", x, x), x), 0.044715)
        curve = w.op("Tanh", w.op("Mul", w.op("Add", x, cube), math.sqrt(2 / math.pi)))
    else:
        curve = w.op("Erf", w.op("Mul", x, math.sqrt(0.5)))
    return w.like_output(w.op("Mul", w.op("Mul", w.op("Add", curve, 1.0), x), 0.5))


def _sigmoid(w: Writer) -> Tensor | None:
    x = w.wide(w(0))
    return w.like_output(w.op("Reciprocal", w.op("Add", w.op("Exp", w.op("Neg", x)), 1.0)))


def _relu(w: Writer) -> Tensor | None:
    return w.op("Max", w(0), 0.0)


def _square(w: Writer) -> Tensor | None:
    return w.op("Mul", w(0), w(0))


def _fused_mul_add(w: Writer) -> Tensor | None:
    return w.op("Add", w.op("Mul", w(0), w(1)), w(2))


def _add_n(w: Writer) -> Tensor | None:
    """Sums of two; AddN rounds once, so float16 is widened in between."""
    if w.node.input_count < 2:
        return None
    total = w.wide(w(0)) if w.node.input_count > 2 else w(0)
    for index in range(1, w.node.input_count):
        total = w.op("Add", total, w.wide(w(index)) if w.node.input_count > 2 else w(index))
    return w.like_output(total)


def _folded_axes(w: Writer) -> list[int] | None:
    """Axes of a reduction, if they are known and the operand is row-major."""
    source, given = w(0), w.node.input(1)
    if source.format not in (Format.ND, Format.NCHW):
        return None
    rank = len(source.static_shape)
    if given is None:
        return list(range(rank)) if not w.node.attr("noop_with_empty_axes", 0) else None
    if given.constant is None or not given.constant.available or given.elements == 0:
        return None
    return [int(axis) % rank for axis in given.constant.array().ravel()]


def _reduce_mean(w: Writer) -> Tensor | None:
    axes = _folded_axes(w)
    if axes is None:
        return None
    part = 1.0 / math.prod(w(0).static_shape[axis] for axis in axes)
    total = w.op("ReduceSum", w.wide(w(0)), axes, keepdims=int(w.node.attr("keepdims", 1)))
    return w.like_output(w.op("Mul", total, part))


def _square_sum(w: Writer) -> Tensor | None:
    axes = _folded_axes(w)
    if axes is None:
        return None
    x = w.wide(w(0))
    return w.like_output(w.op("ReduceSum", w.op("Mul", x, x), axes, keepdims=int(w.node.attr("keepdims", 1))))


EXPANDERS: Mapping[str, Expander] = {  # by MindSpore's operator name
    "Softmax": _softmax,
    "LogSoftmax": _log_softmax,
    "SoftmaxGradExt": _softmax_grad,
    "LayerNorm": _layer_norm,
    "GeLU": _gelu,
    "Sigmoid": _sigmoid,
    "ReLU": _relu,
    "Square": _square,
    "FusedMulAdd": _fused_mul_add,
    "AddN": _add_n,
    "ReduceMean": _reduce_mean,
    "SquareSumV1": _square_sum,
}


def expand(graph: Graph, node: Node, name: str, opset: OpSet) -> list[Node] | None:
    """Replaces a node by basic ones.

    Args:
        graph: Changed in place.
        node: What is expanded.
        name: MindSpore's name of its operator.
        opset: Operators.

    Returns:
        The new nodes in order; None (and nothing changed) if the node cannot be expanded.
    """
    expander = EXPANDERS.get(name)
    floats = (DType.FLOAT16, DType.FLOAT32)
    data = [tensor for tensor in node.inputs if tensor is not None and tensor.element_type is not DType.INT64]
    if (
        expander is None
        or node.output.element_type not in floats
        or any(tensor.element_type not in floats for tensor in data)
    ):
        return None
    if not all(tensor.is_static for tensor in (*data, node.output)):
        return None
    writer = Writer(graph, opset, node)
    result = expander(writer)
    if result is None or result.producer is None:
        return None
    old = node.output
    result.dtype, result.format, result.shape = old.dtype, old.format, old.shape
    result.origin_dtype = old.origin_dtype
    for made in writer.made:
        made.origin.update(node.origin)
        made.origin[SOURCES] = sources_of([node])
        graph.place_before(made, node)
    label = old.name
    replace(graph, [node], [(old, result)], writer.made, deep=False)
    graph.rename_tensor(result, label)
    return writer.made
