"""Graphs of one operator, from the rows of a profile.

A profile prints stored shapes. Operators that do not care about the layout get them as they are (a Cast of an
NC1HWC0 tensor is a Cast of a tensor of rank 5); convolutions and pooling get the logical shape back and the
compiler puts the layout on again.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format, storage_bytes
from ascendsim.validate.operators_bench import Bench, OneOperator, logical
from ascendsim.validate.operators_calls import CALLS
from ascendsim.validate.operators_cube import (
    convolution,
    convolution_gradient,
    depthwise_filter_gradient,
    filter_gradient,
    product,
    sample_groups,
    sample_product,
)
from ascendsim.validate.operators_language import LANGUAGE
from ascendsim.validate.operators_rows import OperatorRow
from ascendsim.validate.operators_training import ELEMENTWISE, PRODUCT, TRAINING

_GRADIENTS = "ai.onnx.preview.training"
_SUNK = ("910A", "910B-30")  # steps of MindSpore, run from the device


def one_operator(row: OperatorRow) -> OneOperator | str:
    """The graph of a row, or the reason why there is none."""
    build = (_CALLS if row.call else _BUILDERS).get(row.op_type)
    if build is None:
        return "no operator of this project does this"
    bench = Bench(row)
    built = build(row, bench)
    for _ in range(bench.before):
        built = build(row, bench)
    return built


def _elementwise(op: str) -> _Builder:
    def build(row: OperatorRow, bench: Bench) -> OneOperator:
        old = _older(row) if op == "Sum" else None
        tensors = [
            (bench.stored if number == old else bench.made)(o.shape, o.dtype or DType.FLOAT32)
            for number, o in enumerate(row.inputs)
        ]
        return bench.finish(bench.builder.op(op, *tensors))

    return build


def _cast(row: OperatorRow, bench: Bench) -> OneOperator:
    """In mixed precision a float32 matrix, vector or filter that becomes shorter is a weight."""
    source, target = row.inputs[0], row.outputs[0]
    assert source.dtype is not None
    assert target.dtype is not None
    weight = len(source.shape) < 3 or source.format.upper().startswith("FRAC")
    shorter = source.dtype is DType.FLOAT32 and target.dtype.itemsize < source.dtype.itemsize
    give = bench.kept if row.profiled and weight and shorter else bench.made
    return bench.finish(bench.builder.op("Cast", give(source.shape, source.dtype), to=target.dtype))


def _older(row: OperatorRow) -> int | None:
    """Of tensors of one size that a step adds or multiplies only the last was made just before. The other is
    what went around a branch of the network, or what the forward pass kept for the gradient of a product.
    """
    sizes = {operand.shape for operand in row.inputs}
    alike = len(row.inputs) > 1 and len(sizes) == 1 and len(row.inputs[0].shape) > 1
    return 0 if row.profiled and not row.updates and alike else None


def _with_kept(op: str) -> _Builder:
    """What is added to in float32, changed by an update or flat is a weight, a moment or a gradient that lies
    in DRAM, and so does the older operand of a sum or a product. What an update has in fractals was turned
    just before: weights and moments lie row-major.
    """

    def build(row: OperatorRow, bench: Bench) -> OneOperator:
        wide = len({operand.dtype for operand in row.inputs}) > 1
        old = _older(row) if op != "Sub" and not wide else None
        tensors = []
        for number, operand in enumerate(row.inputs):
            assert operand.dtype is not None
            float32 = operand.dtype is DType.FLOAT32
            changed = row.updates and (op == "Mul" or (op == "Sub" and number == 0))
            changed = changed and operand.format != "FRACTAL_NZ"
            kept = row.profiled and float32 and (changed or wide or len(operand.shape) == 1)
            give = bench.kept if kept else bench.stored if number == old else bench.made
            tensors.append(give(operand.shape, operand.dtype))
        return bench.finish(bench.builder.op(op, *tensors))

    return build


def _relu_grad(row: OperatorRow, bench: Bench) -> OneOperator:
    """The gradient has just been made, the activation was kept since the forward pass."""
    gradient, kept = row.inputs
    assert kept.dtype is not None
    made = bench.made(gradient.shape, gradient.dtype)
    return bench.finish(
        bench.builder.op("ReluGrad", made, bench.stored(kept.shape, kept.dtype), domain="ascend")
    )


def _relu_v2(row: OperatorRow, bench: Bench) -> OneOperator:
    return bench.finish(
        *bench.builder.ops(
            "ReluV2", bench.made(logical(row.inputs[0]), row.inputs[0].dtype), outputs=2, domain="ascend"
        )
    )


def _copy(row: OperatorRow, bench: Bench) -> OneOperator:
    """TensorMove: GM to UB to GM, the work of a Concat of one part. In MindSpore's steps it fetches what the
    host has sent: labels, indices.
    """
    source = row.inputs[0]
    give = bench.stored if row.group in _SUNK else bench.made
    given = give(source.shape, source.dtype or DType.FLOAT32)
    return bench.finish(bench.builder.op("Concat", given, axis=0))


def _filled(row: OperatorRow, bench: Bench) -> OneOperator:
    """A memory range set to one value: Fill, OnesLike, MemSet (whose row has the range as input)."""
    target = row.outputs[0] if row.outputs else row.inputs[0]
    like = bench.builder.constant(1.0, dtype=target.dtype)
    return bench.finish(bench.builder.op("Expand", like, list(target.shape)))


def _cleared(row: OperatorRow, bench: Bench) -> OneOperator:
    """A memory range set to zero for atomic additions: the row has the range as input."""
    memory = row.inputs[0]
    given = bench.stored(memory.shape, memory.dtype or DType.FLOAT32)
    return bench.finish(bench.builder.op("AtomicAddrClean", given, domain="ascend"))


def _expand(row: OperatorRow, bench: Bench) -> OneOperator:
    source = row.inputs[0]
    return bench.finish(
        bench.builder.op("Expand", bench.made(source.shape, source.dtype), list(row.outputs[0].shape))
    )


def _transpose(row: OperatorRow, bench: Bench) -> OneOperator:
    source, target = row.inputs[0].shape, row.outputs[0].shape
    orders = itertools.permutations(range(len(source)))
    order = next(o for o in orders if tuple(source[axis] for axis in o) == target)
    return bench.finish(bench.builder.op("Transpose", bench.made(source, row.inputs[0].dtype), perm=order))


def _reduce(op: str) -> _Builder:
    def build(row: OperatorRow, bench: Bench) -> OneOperator:
        """Axes are those that explain the output's shape, the first ones if several do."""
        source, target = row.inputs[0].shape, row.outputs[0].shape
        keeps = len(target) == len(source) > 1
        axes = next(
            chosen
            for count in range(1, len(source) + 1)
            for chosen in itertools.combinations(range(len(source)), count)
            if _reduced(source, chosen, keeps) == (target if keeps or target != (1,) else ())
        )
        made = bench.made(source, row.inputs[0].dtype)
        return bench.finish(bench.builder.op(op, made, list(axes), keepdims=int(keeps)))

    return build


def _reduced(shape: tuple[int, ...], axes: tuple[int, ...], keeps: bool) -> tuple[int, ...]:
    return tuple(1 if axis in axes else size for axis, size in enumerate(shape) if keeps or axis not in axes)


def _momentum(row: OperatorRow, bench: Bench) -> OneOperator:
    """Weight, velocity and gradient of a row are its first, second and fourth input."""
    weight, velocity, _, gradient = row.inputs[:4]
    tensors = [bench.made(o.shape, o.dtype) for o in (weight, gradient, velocity)]
    rate, count = bench.builder.constant(0.1), bench.builder.constant(1)
    updated = bench.builder.ops(
        "Momentum",
        rate,
        count,
        *tensors,
        outputs=2,
        domain=_GRADIENTS,
        alpha=0.9,
        beta=1.0,
        mode="standard",
        norm_coefficient=0.0,
    )
    return bench.finish(*updated)


def _max_pool(row: OperatorRow, bench: Bench) -> OneOperator:
    """Windows of the networks in the data: LeNet-5 2x2 (halves exactly), AlexNet 3x3; both with stride 2."""
    source, target = logical(row.inputs[0]), logical(row.outputs[0])
    kernel = 2 if source[2] == 2 * target[2] else 3
    pooled = bench.builder.ops(
        "MaxPool",
        bench.made(source, row.inputs[0].dtype),
        outputs=2,
        kernel_shape=(kernel, kernel),
        strides=(2, 2),
    )
    return bench.finish(*pooled)


def _max_pool_with_bits(row: OperatorRow, bench: Bench) -> OneOperator:
    """The same with a bit for each tap of each window, as steps have it."""
    source, target = logical(row.inputs[0]), logical(row.outputs[0])
    kernel = 2 if source[2] == 2 * target[2] and row.outputs[1].shape[2] == 4 else 3
    short = max(0, 2 * (target[2] - 1) + kernel - source[2])
    pooled = bench.builder.ops(
        "MaxPoolWithArgmax",
        bench.made(source, row.inputs[0].dtype),
        outputs=2,
        domain="ascend",
        kernel_shape=(kernel, kernel),
        strides=(2, 2),
        pads=(0, 0, short, short),
    )
    return bench.finish(*pooled)


def _one_hot(row: OperatorRow, bench: Bench) -> OneOperator:
    values = bench.builder.constant([0.0, 1.0])
    return bench.finish(
        bench.builder.op(
            "OneHot", bench.made(row.inputs[0].shape, DType.INT32), row.outputs[0].shape[-1], values
        )
    )


def _top_k(row: OperatorRow, bench: Bench) -> OneOperator:
    made = bench.made(row.inputs[0].shape, row.inputs[0].dtype)
    return bench.finish(*bench.builder.ops("TopK", made, [row.outputs[0].shape[-1]], outputs=2))


def _nll_loss(row: OperatorRow, bench: Bench) -> OneOperator:
    tensors = [bench.made(o.shape, o.dtype) for o in row.inputs]
    return bench.finish(bench.builder.op("NegativeLogLikelihoodLoss", *tensors))


_LAYOUTS = {
    "FRACTAL_Z": Format.FRACTAL_Z,
    "FracZ": Format.FRACTAL_Z,
    "NC1HWC0": Format.NC1HWC0,
    "FRACTAL_NZ": Format.FRACTAL_NZ,
}


def _trans_data(row: OperatorRow, bench: Bench) -> OneOperator | str:
    """Formats are what is asked for here, so the graph is lowered as it is. The row-major side has the
    logical shape.
    """
    source, target = row.inputs[0], row.outputs[0]
    before, after = _LAYOUTS.get(source.format, Format.ND), _LAYOUTS.get(target.format, Format.ND)
    shape, blocked = (source.shape, target) if before is Format.ND else (target.shape, source)
    assert source.dtype is not None
    if (
        storage_bytes(shape, before if before is not Format.ND else after, source.dtype)
        != math.prod(blocked.shape) * source.dtype.itemsize
    ):
        return "its blocked form has other sizes than C0 = 32 bytes gives (float32 in blocks of 16)"
    give = bench.kept if row.updates and before is Format.ND else bench.made  # weights and moments
    given = give(shape, source.dtype, before)
    turned = bench.builder.op(
        "TransData", given, domain="ascend", src_format=before.value, dst_format=after.value
    )
    return bench.finish(turned, placed=True)


def _nd_to_nz(row: OperatorRow, bench: Bench) -> OneOperator:
    made = bench.made(row.inputs[0].shape, DType.FLOAT16)
    turned = bench.builder.op("TransData", made, domain="ascend", src_format="ND", dst_format="FRACTAL_NZ")
    return bench.finish(turned, placed=True)


def _any_product(row: OperatorRow, bench: Bench) -> OneOperator | str:
    return PRODUCT(row, bench) if row.profiled else sample_product(row, bench)


_Builder = Callable[[OperatorRow, Bench], "OneOperator | str"]
_BUILDERS: dict[str, _Builder] = {
    **{op: _elementwise(onnx) for op, onnx in ELEMENTWISE.items()},
    **{op: _with_kept(op) for op in ("Add", "Mul", "Sub")},
    **TRAINING,
    **LANGUAGE,
    "ReluGrad": _relu_grad,
    "Cast": _cast,
    "ReluV2": _relu_v2,
    "TensorMove": _copy,
    "AtomicAddrClean": _cleared,
    **dict.fromkeys(("MemSet", "Fill", "OnesLike", "ZerosLike"), _filled),
    **dict.fromkeys(("BroadcastTo", "Tile"), _expand),
    "Transpose": _transpose,
    "ReduceSum": _reduce("ReduceSum"),
    **dict.fromkeys(("ReduceMean", "ReduceMeanD"), _reduce("ReduceMean")),
    "SquareSumV1": _reduce("ReduceSumSquare"),
    "ApplyMomentumD": _momentum,
    "MaxPoolWithArgmax": _max_pool_with_bits,
    "MaxPoolWithArgmaxV1": _max_pool,
    "Conv2D": convolution,
    **dict.fromkeys(("Conv2DBackpropInput", "Conv2DBackpropInputD"), convolution_gradient),
    "DepthwiseConv2DBackpropFilter": depthwise_filter_gradient,
    **dict.fromkeys(("Conv2DBackpropFilter", "Conv2DBackpropFilterD"), filter_gradient),
    **dict.fromkeys(("MatMulV2", "MatMulV3"), product),
    **dict.fromkeys(("MatMul", "Matmul"), _any_product),
    "GroupedMatMul int8 dequant": sample_groups,
    **dict.fromkeys(("OneHot", "OneHotD"), _one_hot),
    "TopKV2": _top_k,
    "NLLLoss": _nll_loss,
    "TransData": _trans_data,
    "ND2NZ": _nd_to_nz,
}
_CALLS: dict[str, _Builder] = CALLS
