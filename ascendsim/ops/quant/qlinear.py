"""Elementwise operators and Concat between quantised tensors, as onnxruntime has them (domain
"com.microsoft"): QLinearAdd, QLinearMul, QLinearSigmoid, QLinearLeakyRelu, QLinearConcat.

    real value = (q - zero point) * scale        result = sat(round(f(real values ...) / scale) + zero point)

The vector unit takes the integers to float16, computes, and goes back to int8 on the way to memory; scales
and zero points are numbers in its instructions. Unsigned tensors lie in memory as int8, lower by 128. `low`
and `high` are bounds of the stored integers, in which a Relu or Clip behind the operator has gone up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.core.formats import Format
from ascendsim.graph.ir import Array, Node, Tensor
from ascendsim.ops.elementwise.activation import SIGMOID_STEPS
from ascendsim.ops.movement.joining import concat_shape, concat_work
from ascendsim.ops.quant.checks import check_single, check_steps
from ascendsim.ops.quant.quantize import saturated
from ascendsim.ops.shared.bursts import cuts_whole_blocks
from ascendsim.ops.shared.common import (
    AI_CORE_TYPES,
    StepSpec,
    as_float32,
    broadcast_shapes,
    make_steps,
    on_ai_cpu,
    split_broadcast,
    walking_shape,
)
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.definition import Compute
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.structure import along_axes, elementwise
from ascendsim.opset.work import LowerContext, MoveWork, NoTask, Ref, Stream, VectorWork, Work

DOMAIN = "com.microsoft"
INSIDE = DType.FLOAT16  # what the vector unit computes bytes in
Wanted = Sequence["np.dtype[Any]"]


def number_of(parameter: Any) -> np.float32:
    """A scale or zero point; one that is absent is 0."""
    if parameter is None:
        return np.float32(0)
    return np.float32(as_float32(np.asarray(parameter)).reshape(-1)[0])


def real_values(array: Array, scale: Any, zero: Any) -> Array:
    """What quantised numbers stand for, in float32; one scale for all."""
    return np.asarray((array.astype(np.float32) - number_of(zero)) * number_of(scale))


def quantised(node: Node, real: Array, scale: Any, zero: Any, dtype: np.dtype[Any]) -> Array:
    """Real values as integers of a type, ties to even, within the node's bounds."""
    return bounded(node, np.rint(real / number_of(scale)) + number_of(zero), dtype)


def bounded(node: Node, integers: Array, dtype: np.dtype[Any]) -> Array:
    """Integers cut to the node's bounds and to the range of a type."""
    limits = np.iinfo(dtype)
    low, high = int(node.attr("low", limits.min)), int(node.attr("high", limits.max))
    return saturated(np.clip(integers, low, high), dtype)


def bound_steps(node: Node) -> list[StepSpec]:
    """Vector steps for the node's bounds."""
    return [op for name, op in (("low", "vmaxs"), ("high", "vmins")) if node.attr(name) is not None]


def infer_bytes(context: InferContext, ports: Sequence[int]) -> DType:
    """The type of quantised inputs.

    Raises:
        GraphError: If they are not all int8, or all uint8.
    """
    kinds = [context.dtype(port) for port in ports]
    if kinds[0] not in (DType.INT8, DType.UINT8) or any(kind is not kinds[0] for kind in kinds):
        raise context.fail(
            "needs quantised tensors of one type, int8 or uint8", ", ".join(kind.value for kind in kinds)
        )
    return kinds[0]


def _infer(ports: Sequence[int]) -> Callable[[InferContext], None]:
    def infer(context: InferContext) -> None:
        kind = infer_bytes(context, ports)
        check_steps(context, tuple(port + 1 for port in ports))
        single = [port + step for port in ports for step in (1, 2)]
        check_single(context, (*single, 3 * len(ports), 3 * len(ports) + 1))
        try:
            shape = broadcast_shapes([context.shape(port) for port in ports])
        except GraphError as error:
            shapes = " and ".join(str(context.shape(port)) for port in ports)
            raise context.fail("needs inputs that broadcast", shapes) from error
        context.set(0, kind, shape)

    return infer


def by_real_values(ports: Sequence[int], function: Callable[..., Array]) -> Compute:
    """Values: every data input has its scale and zero point behind it, those of the result come last."""
    last = 3 * len(ports)

    def compute(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Any]:
        given = [*inputs, *(None,) * (last + 2 - len(inputs))]
        with np.errstate(all="ignore"):
            real = function(node, *(real_values(*given[port : port + 3]) for port in ports))
            return [quantised(node, real, given[last], given[last + 1], wanted[0])]

    return compute


def _compute_add(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Any]:
    """Values of a (sa / sc) + b (sb / sc) + what the zero points come to, in the order of the instructions,
    which is onnxruntime's too.
    """
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = (*inputs, None)[:8]
    step = number_of(scale)
    left, right = number_of(a_scale) / step, number_of(b_scale) / step
    rest = number_of(zero) - (left * number_of(a_zero) + right * number_of(b_zero))
    total = (rest + a.astype(np.float32) * left) + b.astype(np.float32) * right
    return [bounded(node, np.rint(total), wanted[0])]


def lower_real_values(
    ports: Sequence[int], steps: Callable[[Node, LowerContext], Sequence[StepSpec]]
) -> Callable[[Node, LowerContext], Work]:
    """Work of an operator on bytes: the steps of a function of the real values, between conversions.

    Args:
        ports: Of the data.
        steps: Node and chip -> instructions, those for scales and zero points included.
    """

    def lower(node: Node, context: LowerContext) -> Work:
        output = node.output
        if output.elements == 0:
            return NoTask()
        data = [node.required(port) for port in ports]
        if any(tensor.element_type not in AI_CORE_TYPES for tensor in (*data, output)):
            return on_ai_cpu(node, 4.0)
        split = split_broadcast(walking_shape(output), [walking_shape(tensor, output) for tensor in data])
        body: list[StepSpec] = [("vconv", len(ports)), *steps(node, context), *bound_steps(node), "vconv"]
        streams = [Stream(Ref.of(tensor), over) for tensor, over in zip(data, split.overs, strict=True)]
        made = (Stream(Ref.of(output)),)
        return VectorWork(split.rows, split.cols, make_steps(body, INSIDE), tuple(streams), made)

    return lower


def _shifts(node: Node, port: int) -> list[StepSpec]:
    """The step for the zero point at a port, unless it is absent or known to be 0."""
    return [] if is_zero(node.input(port)) else ["vadds"]


def is_zero(tensor: Tensor | None) -> bool:
    """Whether a zero point is absent, or a constant 0."""
    if tensor is None:
        return True
    constant = tensor.constant
    return constant is not None and constant.available and not np.any(constant.array())


def _add_steps(node: Node, _context: LowerContext) -> list[StepSpec]:
    # a * (sa / sc) + b * (sb / sc) + (what all zero points come to)
    offset = [] if all(is_zero(node.input(port)) for port in (2, 5, 7)) else ["vadds"]
    return ["vmuls", "vaxpy", *offset]


def _mul_steps(node: Node, _context: LowerContext) -> list[StepSpec]:
    return [*_shifts(node, 2), *_shifts(node, 5), "vmul", "vmuls", *_shifts(node, 7)]


def _sigmoid_body(node: Node, _context: LowerContext) -> list[StepSpec]:
    # the scale of x joins the first factor; 8 bits need no better reciprocal than the table's
    return [*_shifts(node, 2), *SIGMOID_STEPS, "vmuls", *_shifts(node, 4)]


def _leaky_body(node: Node, _context: LowerContext) -> list[StepSpec]:
    return [*_shifts(node, 2), "vmuls", "vlrelu", *_shifts(node, 4)]


def _sigmoid(_node: Node, x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _leaky(node: Node, x: Array) -> Array:
    return np.where(x < 0, x * np.float32(node.attr("alpha", 0.01)), x)


def _operator(
    name: str,
    ports: tuple[int, ...],
    compute: Compute,
    steps: Callable[[Node, LowerContext], Sequence[StepSpec]],
    cann: str,
) -> OpDef:
    inputs = 3 * len(ports) + 2
    return OpDef(
        name,
        _infer(ports),
        compute,
        lower_real_values(ports, steps),
        Layout.FOLLOW,
        cann,
        domain=DOMAIN,
        most_inputs=inputs,
        facts=Facts(
            elementwise(*ports),
            Kind.ELEMENTWISE,
            Precision.GRAY,
            parameters=tuple(port for port in range(inputs) if port not in ports),
        ),
    )


# ---- Concat: scale and zero point of the result, then each part with its own


_SCALES = tuple(port for port in range(3 * 256) if port < 2 or port % 3 != 2)


def _parts(node: Node) -> range:
    return range(2, node.input_count, 3)


def _infer_concat(context: InferContext) -> None:
    parts = _parts(context.node)
    if not parts:
        raise context.fail("needs at least one part", f"{context.node.input_count} inputs")
    context.set(0, infer_bytes(context, parts), concat_shape(context, parts))


def _concat(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Any]:
    scale, zero = inputs[:2]
    parts = [
        quantised(node, real_values(*[*inputs, None][at : at + 3]), scale, zero, wanted[0])
        for at in _parts(node)
    ]
    return [np.concatenate(parts, axis=int(node.attr("axis", 0)))]


def _lower_concat(node: Node, _context: LowerContext) -> Work:
    """The parts are carried to their places; bytes are rescaled on the way."""
    work = concat_work(node, [node.required(port) for port in _parts(node)])
    rescale = make_steps(["vconv", "vmuls", "vadds", "vconv"], INSIDE)
    return replace(work, steps=(*work.steps, *rescale)) if isinstance(work, MoveWork) else work


def _concat_in_blocks(node: Node, format: Format) -> bool:
    parts = [node.required(port) for port in _parts(node)]
    axis = int(node.attr("axis", 0)) % len(node.output.static_shape)
    return not any(part.is_constant for part in parts) and cuts_whole_blocks(parts, axis, format)


def _concat_axes(node: Node) -> Any:
    return along_axes(
        lambda n, rank: (int(n.attr("axis", 0)) % rank,) if rank else (), tuple(_parts(node)) or (0,)
    )(node)


OPERATORS = (
    _operator("QLinearAdd", (0, 3), _compute_add, _add_steps, "Add"),
    _operator("QLinearMul", (0, 3), by_real_values((0, 3), lambda _node, a, b: a * b), _mul_steps, "Mul"),
    _operator("QLinearSigmoid", (0,), by_real_values((0,), _sigmoid), _sigmoid_body, "Sigmoid"),
    _operator("QLinearLeakyRelu", (0,), by_real_values((0,), _leaky), _leaky_body, "LeakyRelu"),
    OpDef(
        "QLinearConcat",
        _infer_concat,
        _concat,
        _lower_concat,
        Layout.FOLLOW,
        "ConcatD",
        domain=DOMAIN,
        in_blocks=_concat_in_blocks,
        most_inputs=None,
        facts=Facts(_concat_axes, Kind.MOVEMENT, Precision.GRAY, parameters=_SCALES),
    ),
)
