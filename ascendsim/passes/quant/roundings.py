"""Two operators of integers in a row as one, without the rounding between them.

    QLinearAdd(QLinearMatMul(x, w), b)      =>      QGemm(x, w, b)            b one value a column
    QLinearMul(QLinearMatMul(x, y), c)      =>      QLinearMatMul(x, y)       c one number above 0
    QLinearMul(x, QLinearSigmoid(x))        =>      QuantSwish(x)

An exporter quantises every result, so a product and its bias come apart. Joined, what lies between stays in
int32 (float16 on the vector unit) and is not cut to its own range. Asked for is that the rounding that is
left out is worth less than one step of the result, so that values within the range between differ from those
of the file by at most one step; values that the file cuts there go on uncut, and may differ by more. A
rounding of half a step s reaches the result as s / 2 / s_result, times the largest factor it meets.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, AttributeValue, Graph, Node, Tensor
from ascendsim.opset import InferContext, OpSet
from ascendsim.passes.fusion.checks import known_values, scalar
from ascendsim.passes.fusion.rules.conv.conv_folding import lazy_constant
from ascendsim.passes.quant.pairs import RefusedError
from ascendsim.passes.rewriting.outputs import is_output
from ascendsim.passes.rewriting.replace import replace_root, replacing
from ascendsim.passes.rewriting.report import PatternRecord

NAME = "QuantizedRoundings"
MICROSOFT = "com.microsoft"
BOUNDS = ("low", "high")


def leave_out_roundings(graph: Graph, opset: OpSet) -> list[PatternRecord]:
    """Joins such pairs; one record a form.

    Args:
        graph: Changed in place; types and shapes known as far as they can be.
        opset: Operators.
    """
    records = []
    for form, op_type, join in (
        ("product_factor", "QLinearMul", _factor),
        ("product_bias", "QLinearAdd", _bias),
        ("sigmoid_product", "QLinearMul", _swish),
    ):
        record = PatternRecord("graph", NAME, form)
        for last in list(graph.nodes):
            first = _first(last, "QLinearSigmoid" if join is _swish else "QLinearMatMul", op_type)
            if first is None:
                continue
            record.matched += 1
            try:
                if not _alone(first.output) or first.control or last.control:
                    raise RefusedError("something else reads what is between them, or waits")
                if any(first.attr(bound) is not None for bound in BOUNDS):
                    raise RefusedError("there are bounds between them")
                names = (first.name, last.name)
                with replacing(graph, (last, first)):
                    op, inputs, domain, attributes = join(graph, first, last)
                    attributes |= {key: last.attributes[key] for key in BOUNDS if key in last.attributes}
                    made = graph.add_node(op, inputs, 1, name=f"{last.name}_joined", domain=domain)
                    graph.place_before(made, last)
                    made.attributes.update(attributes)
                    made.origin.update(first.origin)
                    opset.get(made).infer(InferContext(made))
                    replace_root(graph, last, made.output)
            except RefusedError as error:
                record.refuse(last.name, str(error))
            else:
                record.effect(names)
        if record.matched:
            records.append(record)
    return records


Joined = tuple[str, "list[Tensor | None]", str, dict[str, AttributeValue]]
Join = Callable[[Graph, Node, Node], Joined]


def _first(last: Node, first: str, op_type: str) -> Node | None:
    if last.op_type != op_type or last.domain != MICROSOFT:
        return None
    producers = [tensor.producer for tensor in (last.required(0), last.required(3))]
    return next((node for node in producers if node is not None and node.op_type == first), None)


def _alone(tensor: Tensor) -> bool:
    node = tensor.producer
    return len(tensor.uses) == 1 and node is not None and not is_output(node.graph, tensor)


def _other(first: Node, last: Node) -> tuple[Tensor, float, int]:
    """The operand that does not come from the first operator: integers, scale and zero point."""
    port = 3 if last.required(0) is first.output else 0
    return last.required(port), _number(last, port + 1), int(_number(last, port + 2, 0.0))


def _number(node: Node, port: int, absent: float | None = None) -> float:
    tensor = node.input(port)
    value = absent if tensor is None else scalar(tensor)
    if value is None:
        raise RefusedError("a scale or zero point is not one known number")
    return value


def _small(steps: float) -> None:
    if not steps < 1:
        raise RefusedError(f"the rounding between them is worth up to {steps:.2g} steps of the result")


def _bias(graph: Graph, first: Node, last: Node) -> Joined:
    given, step, zero = _other(first, last)
    left, weight = first.required(0), first.required(3)
    if len(weight.static_shape) != 2 or len(left.static_shape) < 2:
        raise RefusedError("the right operand is no matrix")
    columns = weight.static_shape[1]
    if not given.is_constant or given.static_shape not in ((columns,), (1, columns), (1, 1, columns)):
        raise RefusedError("what is added is not one constant a column")
    _small(_number(first, 6) / 2 / _number(last, 6))
    steps = known_values(first.required(4))
    if steps is None or steps.size not in (1, columns):
        raise RefusedError("the scale of the weights is not known")
    unit = np.float64(_number(first, 1)) * np.broadcast_to(steps.reshape(-1), (columns,))

    def values(array: Array) -> Array:
        whole = np.rint((array.reshape(-1).astype(np.int32) - zero) * step / unit)
        return np.asarray(np.clip(whole, -(2**31), 2**31 - 1))

    bias = lazy_constant(graph, f"{given.name}_int32", DType.INT32, (columns,), [given], values)
    return "QGemm", [*first.inputs[:6], bias, last.input(6), last.input(7)], MICROSOFT, {"alpha": 1.0}


def _factor(graph: Graph, first: Node, last: Node) -> Joined:
    given, step, zero = _other(first, last)
    held = scalar(given)
    if held is None or (held - zero) * step <= 0:
        raise RefusedError("the factor is not one number above 0")
    factor, scale = (held - zero) * step, _number(last, 6)
    _small(_number(first, 6) * factor / 2 / scale)
    made = graph.add_constant(graph.fresh(f"{last.name}_scale"), np.float32(scale / factor))
    zero_point = last.input(7) if last.input(7) is not None else first.input(7)
    return "QLinearMatMul", [*first.inputs[:6], made, zero_point], "", {}


def _swish(_graph: Graph, first: Node, last: Node) -> Joined:
    x, step, zero = _other(first, last)
    if x is not first.required(0) or (step, zero) != (_number(first, 1), int(_number(first, 2, 0.0))):
        raise RefusedError("the product is not that of a tensor and its sigmoid")
    limits = np.iinfo(x.element_type.numpy)
    largest = max(zero - limits.min, limits.max - zero) * step
    _small(_number(first, 3) / 2 * largest / _number(last, 6))
    return "QuantSwish", [*first.inputs[:3], last.input(6), last.input(7)], "ascend", {}
