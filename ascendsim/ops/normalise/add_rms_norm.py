"""Root-mean-square normalisation together with what stands before and behind it in a language model's layer
(domain "ascend", CANN's prototypes; AddRmsNormBias is vLLM-Ascend's).

    AddRmsNorm(x1, x2, gamma) -> y, rstd, x                x = x1 + x2, y = x rstd gamma
    AddRmsNormBias(x1, x2, gamma, beta) -> y, rstd, x      y = x rstd gamma + beta
    RmsNormQuant(x, gamma, beta, scale, offset) -> y       round(y scale + offset) in int8
    AddRmsNormQuant(x1, x2, gamma, scales1, scales2, zero_points1, zero_points2, beta) -> y1, y2, x
        round(y / scales + zero_points) in int8, times scales with div_mode = 0; y2 is empty without scales2
    RmsNormDynamicQuant(x, gamma, smooth_scales, beta) -> y, scale
    AddRmsNormDynamicQuant(x1, x2, gamma, smooth_scale1, smooth_scale2, beta) -> y1, y2, x, scale1, scale2
        a row of y (times smooth_scale) by the largest of it, as DynamicQuant; the second pair is empty
        without smooth_scale2

A row is what gamma spans. The sum x is rounded before it is normalised, and y before it is made int8, so that
all results are those of the operators one by one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Dim, Node, Shape, Tensor
from ascendsim.ops.normalise.normalisation_work import row_statistics, rows_apart
from ascendsim.ops.quant.dynamic import (
    check_int8,
    dynamic_steps,
    per_row,
    rounded_steps,
    scaled_bytes,
    statistics_shape,
)
from ascendsim.ops.shared.common import (
    as_float32,
    computing_type,
    finish,
    make_steps,
    on_ai_cpu,
    own_type,
    rounded_within,
    runs_on_ai_core,
    settled,
)
from ascendsim.ops.shared.dims import may_equal, need_shape
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.axes import NOTHING_SAID, WHOLE, AxisMap, Label, Labels, Link, by_labels, rank_of
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.work import LowerContext, NoTask, Over, Ref, Step, Stream, VectorWork, Work

Wanted = Sequence["np.dtype[Any]"]


@dataclass(frozen=True, slots=True)
class _Form:
    """Ports of a member of the family.

    Attributes:
        added: Whether two tensors are added first, and their sum is handed out.
        beta: Port of what is added behind gamma; None = there is none.
        scales: Ports of the scales of one or two results in int8.
        zeros: Ports of their zero points.
        dynamic: Whether each row of these results has a scale of its own, and the ports are smooth scales.
        statistics: Whether rstd is a result.
    """

    added: bool
    beta: int | None = None
    scales: tuple[int, ...] = ()
    zeros: tuple[int, ...] = ()
    dynamic: bool = False
    statistics: bool = False

    @property
    def gamma(self) -> int:
        return 2 if self.added else 1

    @property
    def sum_at(self) -> int | None:
        """Output that is the sum."""
        return 2 if self.added else None


_FORMS = {
    "AddRmsNorm": _Form(True, statistics=True),
    "AddRmsNormBias": _Form(True, 3, statistics=True),
    "RmsNormQuant": _Form(False, 2, (3,), (4,)),
    "AddRmsNormQuant": _Form(True, 7, (3, 4), (5, 6)),
    "RmsNormDynamicQuant": _Form(False, 3, (2,), dynamic=True),
    "AddRmsNormDynamicQuant": _Form(True, 5, (3, 4), dynamic=True),
}


def _given(node: Node, form: _Form) -> tuple[int, ...]:
    """Which of the int8 results are made: the second one only with scales."""
    return tuple(
        number for number, port in enumerate(form.scales) if number == 0 or node.input(port) is not None
    )


def _infer(context: InferContext) -> None:
    form = _FORMS[context.node.op_type]
    data, gamma, kind = context.shape(0), context.shape(form.gamma), context.dtype(0)
    if form.added:
        need_shape(context, 1, data)
        if context.dtype(1) is not kind:
            raise context.fail(f"needs {kind.value} as input 1, the type of input 0", context.dtype(1).value)
    kept = None if data is None or gamma is None else len(data) - len(gamma)
    if data is not None and kept is not None and (not gamma or kept < 0 or not may_equal(data[kept:], gamma)):
        raise context.fail("needs gamma of the shape of the last axes", f"{gamma} for {data}")
    for port in (form.beta, *form.scales, *form.zeros):
        if port is not None and context.has(port) and (port == form.beta or not _single(context, port)):
            need_shape(context, port, gamma)
    if form.scales:
        check_int8(context)
        if not form.dynamic and not context.has(form.scales[0]):
            raise context.fail(f"needs scales as input {form.scales[0]}", None)
        _infer_bytes(context, form, data, gamma)
    elif data is None or gamma is None or kept is None:
        context.set(0, kind, data)
        context.set(1, DType.FLOAT32, None)
    else:
        context.set(0, kind, data)
        context.set(1, DType.FLOAT32, (*data[:kept], *(1,) * len(gamma)))
    if form.sum_at is not None:
        context.set(form.sum_at, kind, data)


def _single(context: InferContext, port: int) -> bool:
    """Whether an input is one number for all columns."""
    shape = context.shape(port) if context.has(port) else None
    return shape is not None and all(size == 1 for size in shape)


def _infer_bytes(context: InferContext, form: _Form, data: Shape | None, gamma: Shape | None) -> None:
    made = _given(context.node, form)
    empty: tuple[Dim, ...] = (0,)
    for number in range(len(form.scales)):
        context.set(number, DType.INT8, data if number in made else empty)
        if form.dynamic:
            rows = statistics_shape(data, None if gamma is None else len(gamma))
            at = len(form.scales) + (form.sum_at is not None) + number
            context.set(at, DType.FLOAT32, rows if number in made else empty)


def _compute(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Any]:
    form = _FORMS[node.op_type]
    given = [*inputs, *(None,) * 8]
    kind, total = own_type(inputs[0], wanted), inputs[0]
    with np.errstate(all="ignore"):
        if form.added:
            total = finish(as_float32(total) + as_float32(inputs[1]), kind)
        x = settled(total, kind)
        wide = x.astype(np.float64)
        gamma = as_float32(given[form.gamma])
        axes = tuple(range(x.ndim - gamma.ndim, x.ndim))
        rstd = 1 / np.sqrt(np.mean(wide * wide, axis=axes, keepdims=True) + float(node.attr("epsilon", 1e-6)))
        y = wide * rstd * gamma
        if form.beta is not None and given[form.beta] is not None:
            y = y + as_float32(given[form.beta])
        y = rounded_within(y, kind) if form.scales else y
        if not form.scales:
            results: list[Array] = [y, rstd]
        elif form.dynamic:
            results = _by_row(node, form, y, given, len(axes))
        else:
            results = _by_scales(node, form, y, given)
    if form.sum_at is not None:
        results.insert(form.sum_at, total)
    return [finish(array, dtype) for array, dtype in zip(results, wanted, strict=False)]


def _by_row(node: Node, form: _Form, y: Array, given: Sequence[Any], axes: int) -> list[Array]:
    """Results in int8, then the scales of their rows."""
    made = _given(node, form)
    bytes, scales = [], []
    for number, port in enumerate(form.scales):
        if number in made:
            values, scale = per_row(as_float32(y), given[port], axes)
        else:
            values, scale = np.zeros(0, np.int8), np.zeros(0, np.float32)
        bytes.append(values)
        scales.append(scale)
    return [*bytes, *scales]


def _by_scales(node: Node, form: _Form, y: Array, given: Sequence[Any]) -> list[Array]:
    divides = form.added and bool(node.attr("div_mode", 1))
    made = _given(node, form)
    return [
        scaled_bytes(as_float32(y), as_float32(given[port]), given[zero], divides)
        if number in made
        else np.zeros(0, np.int8)
        for number, (port, zero) in enumerate(zip(form.scales, form.zeros, strict=True))
    ]


def _lower(node: Node, context: LowerContext) -> Work:
    """Rows stay in UB from the sum to the last result; gamma, beta and scales are one value a column."""
    form, data = _FORMS[node.op_type], node.required(0)
    if data.elements == 0:
        return NoTask()
    if not runs_on_ai_core(node):
        return on_ai_cpu(node, 10.0)
    kind = data.element_type
    inside = computing_type(kind, context, wide=True)
    cols = node.required(form.gamma).elements
    convert = make_steps(["vconv"] if inside is not kind else [], inside)
    steps: list[Step] = list(convert)
    if form.added:  # the sum leaves in its own type, and is what the rest begins with
        steps += [*convert, *make_steps(["vadd"], inside), *convert, *convert]
    in_turn = rows_apart(cols) or form.dynamic
    steps += row_statistics(node, context, centred=False, by_number=in_turn)
    steps += make_steps(["vmul"], inside)
    if form.beta is not None and node.input(form.beta) is not None:
        steps += make_steps(["vadd"], inside)
    if not form.scales:
        steps += convert
    for number in _given(node, form):
        if form.dynamic:
            steps += dynamic_steps(inside, smooth=node.input(form.scales[number]) is not None)
        else:
            steps += rounded_steps(inside, offset=node.input(form.zeros[number]) is not None)
    return VectorWork(
        data.elements // cols,
        cols,
        tuple(steps),
        tuple(
            Stream(Ref.of(tensor), _over(port, tensor, form))
            for port, tensor in enumerate(node.inputs)
            if tensor is not None
        ),
        tuple(
            Stream(Ref.of(tensor), "all" if tensor.elements == data.elements else "row")
            for tensor in node.outputs
            if tensor.elements
        ),
        reduces="cols",
        sweeps=3,
        in_turn=in_turn,
        cores="shares",
        overlaps=in_turn,
    )


def _over(port: int, tensor: Tensor, form: _Form) -> Over:
    if port < form.gamma:
        return "all"
    return "one" if math.prod(tensor.static_shape) == 1 else "col"


def _links(node: Node) -> AxisMap:
    """Rows are independent of one another. A column of a sum is made of that column, one of a norm of its row
    and of its own factors, one of a row that has a scale of its own of all factors.
    """
    form = _FORMS[node.op_type]
    rank, inner = rank_of(node, 0), rank_of(node, form.gamma)
    if rank is None or inner is None or inner > rank:
        return NOTHING_SAID
    full: list[Label] = list(range(rank))
    columns = full[rank - inner :]
    whole: dict[Label, Link] = dict.fromkeys(columns, WHOLE)
    data: dict[int, Labels] = dict.fromkeys((0, 1) if form.added else (0,), full)
    factors: dict[int, Labels] = {}
    for port in range(form.gamma, node.input_count):
        tensor = node.input(port)
        if tensor is not None:
            factors[port] = ["one"] if tensor.shape == (1,) else columns
    links: dict[tuple[int, int], tuple[Link, ...]] = {}
    for number in range(len(node.outputs)):
        by_row = form.dynamic and number != form.sum_at
        result = full[: rank - inner] if by_row and number >= len(form.scales) else full
        summed = number == form.sum_at
        links |= by_labels(node, data, {number: result}, None if summed else whole).links
        links |= by_labels(node, factors, {number: result}, whole if by_row else None).links
    return AxisMap(links)


OPERATORS: tuple[OpDef, ...] = tuple(
    OpDef(
        name,
        _infer,
        _compute,
        _lower,
        domain="ascend",
        most_inputs=1 + max(form.gamma, form.beta or 0, *form.scales, *form.zeros),
        facts=Facts(
            _links,
            Kind.REDUCTION,
            Precision.BLACK,
            parameters=() if form.dynamic else (*form.scales, *form.zeros),
        ),
    )
    for name, form in _FORMS.items()
)
