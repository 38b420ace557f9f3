"""Products of quantised matrices as large language models have them (domain "ascend", CANN's prototypes).

    QuantBatchMatmulV3(x1, x2, scale, offset, bias, pertoken_scale)
        (x1 x2 [+ bias]) * scale * pertoken_scale [+ bias], int8 operands; scale is one number or one a
        column, pertoken_scale one a row; an int32 bias counts in units of the sums, one of floats is added
        last. An int8 result is rounded, with offset on top
    WeightQuantBatchMatmulV2(x, weight, antiquant_scale, antiquant_offset, quant_scale, quant_offset, bias)
        x ((weight + offset) * scale) + bias; weights in int8, or in int4, eight of which make an int32 (the
        first in its lowest bits), with a scale for all, for a column, or for every `antiquant_group_size`
        weights of a column

`dtype` is the type of the result: a type, or CANN's number of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format
from ascendsim.graph.ir import Array, Dim, Node, Shape, Tensor
from ascendsim.ops.quant.ascend import scale_values
from ascendsim.ops.quant.checks import check_step
from ascendsim.ops.quant.quantize import saturated
from ascendsim.ops.quant.staged_weights import product_of_staged
from ascendsim.ops.shared.bursts import fill_work
from ascendsim.ops.shared.common import (
    as_float32,
    broadcast_shapes,
    finish,
    on_ai_cpu,
    own_type,
    rounded_within,
)
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.axes import AxisMap, by_labels, rank_of
from ascendsim.opset.facts import Facts, Kind, OpPattern, Precision
from ascendsim.opset.structure import product
from ascendsim.opset.work import (
    SCALED,
    CubeWork,
    FinishedProduct,
    LowerContext,
    Over,
    Ref,
    Step,
    Stream,
    VectorWork,
    Work,
    workspace_of,
)

# GE's numbers of types (ge::DataType)
TYPES = {0: DType.FLOAT32, 1: DType.FLOAT16, 2: DType.INT8, 3: DType.INT32, 27: DType.BFLOAT16}
PACKED = 8  # int4 in an int32
TILES, TILE_BYTES = 2, 128 << 10  # of sums in scratch memory for each core, each as large as L0C: assumed
_HALF = DType.FLOAT16


def result_type(context: InferContext, otherwise: DType, known: Sequence[DType]) -> DType:
    """The type that the attribute `dtype` names, as a type or by GE's number."""
    given = context.node.attr("dtype", -1)
    kind = given if isinstance(given, DType) else otherwise if given == -1 else TYPES.get(int(given))
    if kind is None or kind not in known:
        names = ", ".join(one.value for one in known)
        raise context.fail(
            f"can give {names}", given if kind is None else kind.value, "set the attribute dtype"
        )
    return kind


def _turned(shape: Shape, flip: bool) -> tuple[Dim, Dim]:
    rows, columns = shape[-2:]
    return (columns, rows) if flip else (rows, columns)


def _shape(context: InferContext, second: Shape | None, flips: tuple[str, str]) -> Shape | None:
    """Shape of the product; `second` as the right operand counts, unpacked."""
    first = context.shape(0)
    if first is None or second is None:
        return None
    if len(first) < 2 or len(second) < 2:
        raise context.fail("needs operands of rank >= 2", f"shapes {first} and {second}")
    left, right = (bool(context.node.attr(name, 0)) for name in flips)
    (m, k), (k2, n) = _turned(first, left), _turned(second, right)
    if isinstance(k, int) and isinstance(k2, int) and k != k2:
        raise context.fail("needs equal inner dimensions", f"{k} and {k2}")
    return (*(broadcast_shapes([first[:-2], second[:-2]]) or ()), m, n)


def _vector(context: InferContext, port: int, size: Dim, what: str, single: bool = True) -> None:
    """Checks that an input is one value a column or row, or one in all."""
    shape = context.shape(port) if context.has(port) else None
    if shape is None or not isinstance(size, int) or not all(isinstance(dim, int) for dim in shape):
        return
    count = math.prod(dim for dim in shape if isinstance(dim, int))
    if count != size and not (single and count == 1):
        raise context.fail(f"needs {'1 or ' * single}{size} values as input {port}, one a {what}", count)


# ---- int8 by int8

_FLIPS = ("transpose_x1", "transpose_x2")


def _infer_quant(context: InferContext) -> None:
    for port in (0, 1):
        if context.dtype(port) is not DType.INT8:
            raise context.fail(f"needs int8 as input {port}", context.dtype(port).value)
    shape = _shape(context, context.shape(1), _FLIPS)
    check_step(context, 2)
    check_step(context, 5)
    if shape is not None:
        _vector(context, 2, shape[-1], "column")
        _vector(context, 4, shape[-1], "column", single=False)
        _vector(context, 5, shape[-2], "row", single=False)
    kinds = (DType.FLOAT16, DType.BFLOAT16, DType.INT8, DType.INT32)
    context.set(0, result_type(context, DType.FLOAT16, kinds), shape)


def _operand(node: Node, array: Array, attribute: str) -> Array:
    return array.swapaxes(-1, -2) if node.attr(attribute, 0) else array


def _compute_quant(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    """Exact sums, scaled in float32, rounded once."""
    from ascendsim_kernels.gemm import integer_matmul

    x1, x2, scale, offset, bias, token = (*inputs, None, None, None)[:6]
    left, right = (_operand(node, array, name) for array, name in zip((x1, x2), _FLIPS, strict=True))
    sums = integer_matmul(np.ascontiguousarray(left), np.ascontiguousarray(right))
    whole = bias is not None and bias.dtype.kind == "i"
    if whole:
        sums = sums + bias.reshape(-1)
    if wanted[0] == np.int32:
        return [sums.astype(np.int32)]
    result = sums.astype(np.float32) * scale_values(scale).reshape(-1)
    if token is not None:
        result = result * as_float32(token).reshape(-1, 1)
    if bias is not None and not whole:
        result = result + as_float32(bias).reshape(-1)
    if wanted[0] == np.int8:
        shift = np.float32(0) if offset is None else as_float32(offset).reshape(-1)
        return [saturated(np.rint(result + shift), wanted[0])]
    return [finish(result, wanted[0])]


def _lower_quant(node: Node, context: LowerContext) -> Work:
    """Sums leave L0C by the column's scale, which FIXPIPE does; scales of rows, bfloat16 and a bias of floats
    take the vector unit: where that is on other cores, beside the product.
    """
    output, bias, token = node.output, node.input(4), node.input(5)
    right, scale = node.required(1), Ref.of(node.required(2))
    if output.elements == 0 or node.required(0).elements == 0:
        return fill_work(Ref.of(output))  # a sum of nothing is 0
    whole = bias is not None and bias.element_type is DType.INT32
    kind, single = output.element_type, node.required(2).elements == 1
    by_column = [] if single else [Stream(scale, "col")]
    steps: list[Step] = []
    beside = False
    if kind is DType.INT32:
        by_column = []
    elif kind is DType.INT8:
        offset = [] if node.input(3) is None else [Step("vadds", _HALF)]
        steps = [Step(SCALED, _HALF), *offset, Step("vconv", _HALF)]
    elif token is None and kind is _HALF and (bias is None or whole):
        steps = [Step(SCALED, _HALF)]
    else:
        beside = context.split_cores
        steps = [Step("vconv", DType.FLOAT32), Step("vmuls" if single else "vmul", DType.FLOAT32)]
        if token is not None:
            steps.append(Step("vmul", DType.FLOAT32))
            by_column.append(Stream(Ref.of(token), "row"))
        if bias is not None and not whole:
            steps.append(Step("vadd", DType.FLOAT32))
            by_column.append(Stream(Ref.of(bias), "col"))
        steps.append(Step("vconv", DType.FLOAT32))
    port = 4 if whole else None
    product = _product(node, Ref.of(right), _FLIPS, steps=steps, streams=by_column, bias_port=port)
    product = replace(product, library=True)
    return finished(product, output, context) if beside else product


def finished(product: CubeWork, result: Tensor, context: LowerContext) -> FinishedProduct:
    """A product that vector cores finish, with room for the sums of few tiles of each core, at most as many
    as there are.
    """
    size = DType.INT32.itemsize * result.elements
    size = min(size, max(1, context.cores) * TILES * TILE_BYTES)
    region = workspace_of(result.name)
    sums = Ref(region, (size // DType.INT32.itemsize,), DType.INT32, Format.ND, size)
    return FinishedProduct(product, sums, TILES)


def _product(
    node: Node,
    right: Ref,
    flips: tuple[str, str],
    *,
    steps: Sequence[Step],
    streams: Sequence[Stream],
    bias_port: int | None,
) -> CubeWork:
    """The Cube's part; batch entries that share the right operand are rows of one product."""
    left, output = node.required(0), node.output
    bias = None if bias_port is None else node.input(bias_port)
    flip_a, flip_b = (bool(node.attr(name, 0)) for name in flips)
    form = left.static_shape
    m, k = (form[-1], form[-2]) if flip_a else (form[-2], form[-1])
    n = output.static_shape[-1]
    shared = math.prod(right.shape[:-2]) == 1
    batch = output.elements // (m * n)
    if shared and not flip_a:
        m, batch = m * batch, 1
    return CubeWork(
        m=m,
        k=k,
        n=n,
        a=Ref.of(left),
        b=right,
        out=Ref.of(output),
        batch=batch,
        bias=None if bias is None else Ref.of(bias),
        a_shared=batch > 1 and math.prod(form[:-2]) == 1,
        b_shared=batch > 1 and shared,
        transpose_a=flip_a,
        transpose_b=flip_b,
        dtype=left.element_type,
        epilogue=tuple(steps),
        epilogue_inputs=tuple(streams),
    )


# ---- floats by quantised weights

_WEIGHT_FLIPS = ("transpose_x", "transpose_weight")


def _unpacked_shape(weight: Tensor) -> Shape | None:
    shape = weight.shape
    if not shape or weight.origin_dtype is not DType.INT32:
        return shape
    return (*shape[:-1], PACKED * shape[-1] if isinstance(shape[-1], int) else None)


def _infer_weight(context: InferContext) -> None:
    if not context.dtype(0).is_float:
        raise context.fail("needs floating-point data", context.dtype(0).value)
    if context.dtype(1) not in (DType.INT8, DType.INT32):
        rule = "needs weights in int8, or in int4 packed into int32"
        raise context.fail(rule, context.dtype(1).value)
    second = _unpacked_shape(context.tensor(1))
    shape = _shape(context, second, _WEIGHT_FLIPS)
    check_step(context, 2)
    if shape is not None and second is not None:
        _check_groups(context, shape[-1], _turned(second, bool(context.node.attr("transpose_weight", 0)))[0])
        _vector(context, 6, shape[-1], "column", single=False)
    otherwise = DType.INT8 if context.has(4) else context.dtype(0)
    context.set(0, result_type(context, otherwise, (context.dtype(0), DType.INT8)), shape)


def _check_groups(context: InferContext, n: Dim, k: Dim) -> None:
    """As many scales as groups and columns."""
    group, held = int(context.node.attr("antiquant_group_size", 0)), context.shape(2)
    if group < 0 or (isinstance(k, int) and group >= max(k, 1) + 1):
        raise context.fail(f"needs an antiquant_group_size from 0 to {k}", group)
    sizes = (n, k, *(held or ()))
    if held is None or not all(isinstance(size, int) for size in sizes):
        return
    count = math.prod(dim for dim in held if isinstance(dim, int))
    groups = -(-int(k or 0) // group) if group else 1
    if count != groups * int(n or 0) and not (count == 1 and not group):
        rule = f"needs {groups * int(n or 0)} scales as input 2, {groups} a column"
        raise context.fail(rule, count, "see the attribute antiquant_group_size")


def int4_of(packed: Array) -> Array:
    """Eight int4 of every int32, the lowest bits first, along the last axis.

    >>> int4_of(np.array([[0x7654F210]], np.uint32).view(np.int32))
    array([[ 0,  1,  2, -1,  4,  5,  6,  7]], dtype=int8)
    """
    shifts = np.arange(0, 32, 4, dtype=np.uint32)
    nibbles = (packed.view(np.uint32)[..., None] >> shifts) & 15
    signed = nibbles.astype(np.int8)
    signed = np.where(signed > 7, signed - np.int8(16), signed)
    return signed.reshape(*packed.shape[:-1], -1)


def _compute_weight(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    """Weights are rounded to the type of the data; sums stay in float32 until the result."""
    x, weight, scale, offset, quant_scale, quant_offset, bias = (*inputs, None, None, None, None)[:7]
    whole = int4_of(weight) if weight.dtype == np.int32 else weight
    real = as_float32(_operand(node, whole, "transpose_weight")).astype(np.float32)
    k, n = real.shape[-2:]
    for parameter, add in ((offset, True), (scale, False)):
        if parameter is not None:
            spread = _spread(node, scale_values(parameter), k, n)
            real = real + spread if add else real * spread
    real = as_float32(rounded_within(real, own_type(x, wanted)))
    result = np.matmul(as_float32(_operand(node, x, "transpose_x")), real)
    if bias is not None:
        result = result + as_float32(bias).reshape(-1)
    if wanted[0] == np.int8:
        step = np.float32(1) if quant_scale is None else scale_values(quant_scale).reshape(-1)
        shift = np.float32(0) if quant_offset is None else as_float32(quant_offset).reshape(-1)
        return [saturated(np.rint(result * step + shift), wanted[0])]
    return [finish(result, wanted[0])]


def _spread(node: Node, values: Array, k: int, n: int) -> Array:
    """A parameter of groups as [k, n], or in a form that broadcasts over it."""
    if values.size == 1:
        return values.reshape(())
    group, flip = int(node.attr("antiquant_group_size", 0)), bool(node.attr("transpose_weight", 0))
    if not group:
        return values.reshape(1, n)
    table = values.reshape(n, -1).T if flip else values.reshape(-1, n)
    return np.repeat(table, group, axis=0)[:k]


def _lower_weight(node: Node, context: LowerContext) -> Work:
    """The vector unit makes halves of the weights, the Cube multiplies them."""
    x, weight, output = node.required(0), node.required(1), node.output
    if output.elements == 0 or x.elements == 0:
        return fill_work(Ref.of(output))
    if x.element_type not in (DType.FLOAT16, DType.BFLOAT16):  # CANN's kernel has no other
        return on_ai_cpu(node, float(x.static_shape[-1]))
    packed = weight.element_type is DType.INT32
    shape = (*weight.static_shape[:-1], weight.static_shape[-1] * (PACKED if packed else 1))
    halves = Ref(workspace_of(weight.name), shape, x.element_type, Format.ND, 2 * math.prod(shape))
    steps: list[Step] = []
    if output.element_type is DType.INT8:
        steps += [Step("vmul", DType.FLOAT32), Step("vconv", DType.FLOAT32)]
    streams = []
    if output.element_type is DType.INT8 and node.input(4) is not None:
        scale = node.required(4)
        streams = [Stream(Ref.of(scale), "one" if scale.elements == 1 else "col")]
    cube = _product(node, halves, _WEIGHT_FLIPS, steps=steps, streams=streams, bias_port=6)
    return product_of_staged(_antiquant(node, shape, halves, packed), cube, context)


def _antiquant(node: Node, shape: tuple[int, ...], halves: Ref, packed: bool) -> VectorWork:
    """Integers to halves. Two int4 make a byte, and what comes of them four: a grid of half the columns.

    Scales of groups count as if they were read once a column: they are few beside the weights.
    """
    weight, scale, offset = Ref.of(node.required(1)), node.required(2), node.input(3)
    rows, columns = math.prod(shape[:-1]), shape[-1]
    over: Over = "one" if scale.elements == 1 else "row" if node.attr("transpose_weight", 0) else "col"
    each = 2 if packed else 1
    kinds = [Step("vconv", _HALF, count=each)]
    kinds += [Step("vadds" if over == "one" else "vadd", _HALF, count=each)] if offset is not None else []
    kinds.append(Step("vmuls" if over == "one" else "vmul", _HALF, count=each))
    source, target = weight, halves
    if packed:
        columns //= 2
        form = (*shape[:-1], columns)
        source = Ref(weight.region, form, DType.INT8, weight.format, weight.bytes, weight.constant)
        target = Ref(halves.region, form, DType.FLOAT32, halves.format, halves.bytes)
    parameters = [Stream(Ref.of(tensor), over) for tensor in (scale, offset) if tensor is not None]
    return VectorWork(rows, columns, tuple(kinds), (Stream(source), *parameters), (Stream(target),))


def _weight_axes(node: Node) -> AxisMap:
    """A product's; packed weights have other axes than what they hold, so only the data's are followed."""
    left, flip = rank_of(node, 0), bool(node.attr("transpose_x", 0))
    if node.required(1).dtype is not DType.INT32 or not left:
        return product(flipped=_WEIGHT_FLIPS)(node)
    stack = list(range(left - 2))
    return by_labels(node, {0: [*stack, *(("k", "m") if flip else ("m", "k"))]}, {0: [*stack, "m", "n"]})


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "QuantBatchMatmulV3",
        _infer_quant,
        _compute_quant,
        _lower_quant,
        Layout.MATMUL,
        domain="ascend",
        most_inputs=6,
        facts=Facts(
            product(flipped=_FLIPS),
            Kind.MATMUL,
            Precision.GRAY,
            pattern=OpPattern.BATCH_MATMUL,
            operands=(0, 1),
            parameters=(2, 3, 4, 5),
        ),
    ),
    OpDef(
        "WeightQuantBatchMatmulV2",
        _infer_weight,
        _compute_weight,
        _lower_weight,
        Layout.ND,
        domain="ascend",
        most_inputs=7,
        facts=Facts(_weight_axes, Kind.MATMUL, Precision.WHITE, parameters=(1, 2, 3, 4, 5, 6)),
    ),
)
