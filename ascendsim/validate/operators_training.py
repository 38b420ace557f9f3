"""Graphs of one operator of MindSpore's training steps (first generation), from the rows of a profile.

Feature maps get their logical shape back, and what UB fusion joins in one kernel is built as its parts, for
fusion to join them again. Sizes that padding to blocks hides count as padded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format
from ascendsim.graph.ir import Tensor
from ascendsim.validate.operators_bench import Bench, OneOperator, logical
from ascendsim.validate.operators_cube import convolved, gradient_of_image, multiplied
from ascendsim.validate.operators_rows import Operand, OperatorRow

Builder = Callable[[OperatorRow, Bench], "OneOperator | str"]
ELEMENTWISE = {
    "Abs": "Abs",
    "Add": "Add",
    "AddN": "Sum",
    "AssignAdd": "Add",
    "Cos": "Cos",
    "Equal": "Equal",
    "Exp": "Exp",
    "GeLU": "Gelu",
    "Greater": "Greater",
    "GreaterEqual": "GreaterOrEqual",
    "Less": "Less",
    "Log": "Log",
    "LogSoftmaxV2": "LogSoftmax",
    "LogicalNot": "Not",
    "LogicalOr": "Or",
    "Mul": "Mul",
    "Neg": "Neg",
    "Pows": "Pow",
    "RealDiv": "Div",
    "Relu": "Relu",
    "Select": "Where",
    "Sigmoid": "Sigmoid",
    "Sin": "Sin",
    "Sub": "Sub",
}
_ONNX_PARTS = {"Add": "Add", "Floor": "Floor", "Mul": "Mul", "RealDiv": "Div", "Sqrt": "Sqrt"}


def _maps(operand: Operand, bench: Bench) -> Tensor:
    """What an operator in front made, with its logical shape."""
    if operand.format == "NC1HWC0":
        return bench.map_made(operand)
    return bench.made(logical(operand), operand.dtype)


def _own(op: str, outputs: int = 1, **attributes: Any) -> Builder:
    """An operator whose inputs are the row's, feature maps in their logical shape."""

    def build(row: OperatorRow, bench: Bench) -> OneOperator:
        tensors = [_maps(operand, bench) for operand in row.inputs]
        made = bench.builder.ops(op, *tensors, outputs=outputs, domain="ascend", **attributes)
        return bench.finish(*made)

    return build


def _plain(op: str, outputs: int = 1, inputs: int | None = None, **attributes: Any) -> Builder:
    """An operator of ONNX whose inputs are the first of the row."""

    def build(row: OperatorRow, bench: Bench) -> OneOperator:
        tensors = bench.all_made()[:inputs]
        return bench.finish(*bench.builder.ops(op, *tensors, outputs=outputs, **attributes))

    return build


def _chain(*parts: str) -> Builder:
    """An elementwise operator of the row's inputs, and others on what it makes."""

    def build(row: OperatorRow, bench: Bench) -> OneOperator:
        if parts[0] == "Mul" and row.updates and row.inputs[0].format != "FRACTAL_NZ":
            tensors = [bench.kept(o.shape, o.dtype or DType.FLOAT32) for o in row.inputs]
        else:
            tensors = bench.all_made()
        results: list[Tensor] = []
        for part in parts:
            given = [results[-1]] if results else tensors
            onnx = _ONNX_PARTS.get(part)
            made = bench.builder.op(onnx or part, *given, domain="" if onnx else "ascend")
            results.append(made)
        wanted = results if len(row.outputs) > 1 else results[-1:]
        return bench.finish(*wanted, fusion="ub")

    return build


def _filters_reduce(row: OperatorRow, bench: Bench) -> OneOperator:
    """A convolution and the sums that batch normalisation wants of it."""
    result, macs = convolved(row, bench)
    sums = bench.builder.ops("BNTrainingReduce", result, outputs=2, domain="ascend")
    return bench.finish(result, *sums, fusion="ub", macs=macs)


def _bn_update(*behind: str) -> Builder:
    """BNTrainingUpdate with what fusion joins to it: x, sum, square sum, scale, offset, mean, variance."""

    def build(row: OperatorRow, bench: Bench) -> OneOperator:
        tensors = [_maps(operand, bench) for operand in row.inputs]
        update = bench.builder.ops("BNTrainingUpdate", *tensors[:7], outputs=5, domain="ascend")
        result, more = update[0], list(update[1:])
        if "Add" in behind:
            result = bench.builder.op("Add", result, tensors[7])
        if "ReLUV2" in behind:
            result, mask = bench.builder.ops("ReluV2", result, outputs=2, domain="ascend")
            more.append(mask)
        return bench.finish(result, *more, fusion="ub" if behind else "off")

    return build


def _bn_update_plain(row: OperatorRow, bench: Bench) -> OneOperator:
    return _bn_update()(row, bench)  # type: ignore[return-value]


def _image_gradient(adds: bool) -> Builder:
    """Conv2DBackpropInput, the gradient of another branch added, cut by Relu's mask."""

    def build(row: OperatorRow, bench: Bench) -> OneOperator:
        result, macs = gradient_of_image(row, bench)
        if adds:
            result = bench.builder.op("Sum", result, _maps(row.inputs[2], bench))
        n, c, h, w = result.static_shape
        mask = bench.stored((n, c // 8, h, w), DType.UINT8)
        result = bench.builder.op("ReluGradV2", result, mask, domain="ascend")
        return bench.finish(result, fusion="ub", macs=macs)

    return build


def _product(behind: str = "") -> Builder:
    """A product of operands in FRACTAL_NZ, and what fusion joins to it."""

    def build(row: OperatorRow, bench: Bench) -> OneOperator:
        bias = behind in ("", "ReLU") and len(row.inputs) > 2
        result, macs = multiplied(row, bench, bias)
        results = [result]
        if behind == "ReLU":
            results = [bench.builder.op("Relu", result)]
        elif behind == "AddN":
            results = [bench.builder.op("Sum", result, *(_maps(o, bench) for o in row.inputs[2:]))]
        elif behind == "Mul":
            other = row.inputs[2]
            factor = bench.stored(logical(other), DType.FLOAT32)
            results = [bench.builder.op("Mul", result, factor), *([result] if len(row.outputs) > 1 else [])]
        pair = (row.inputs[0].dtype, row.outputs[0].dtype)
        mode = "must_keep_origin_dtype" if pair[0] is pair[1] else "cube_fp16in_fp32out"
        return bench.finish(*results, fusion="ub" if behind else "off", precision=mode, macs=macs)

    return build


def _batched(row: OperatorRow, bench: Bench) -> OneOperator:
    """Products of the heads of attention; square, so that nothing says what is turned."""
    tensors = [_maps(operand, bench) for operand in row.inputs]
    *batch, m, k = tensors[0].static_shape
    result = bench.builder.op("MatMul", *tensors)
    return bench.finish(result, macs=math.prod(batch) * m * k * result.static_shape[-1])


def _sliced(row: OperatorRow, bench: Bench) -> OneOperator:
    source, target = row.inputs[0].shape, row.outputs[0].shape
    if len(target) < len(source):
        lost = next(axis for axis in range(len(source)) if target[: axis + 1] != source[: axis + 1])
        target = (*target[:lost], 1, *target[lost:])
    given = bench.made(source, row.inputs[0].dtype)
    return bench.finish(bench.builder.op("Slice", given, [0] * len(source), list(target)))


def _slice_gradient(row: OperatorRow, bench: Bench) -> OneOperator:
    """Where in the axis the slice was taken is not printed: at its beginning."""
    source, target = row.inputs[0].shape, row.outputs[0].shape
    cut = len(source) < len(target)
    lost = next((a for a in range(len(target)) if target[: a + 1] != source[: a + 1]), 0)
    end = [1 if cut and axis == lost else size for axis, size in enumerate(target)]
    made = bench.builder.op(
        "StridedSliceGrad",
        list(target),
        [0] * len(target),
        end,
        [1] * len(target),
        bench.made(source, row.inputs[0].dtype),
        domain="ascend",
        shrink_axis_mask=(1 << lost) if cut else 0,
    )
    return bench.finish(made)


def _bias_gradient(row: OperatorRow, bench: Bench) -> OneOperator:
    """Sums over all rows, which lie in fractals where the row has them so."""
    source = row.inputs[0]
    if source.format != "FRACTAL_NZ":
        given = bench.made(source.shape, source.dtype)
        return bench.finish(bench.builder.op("BiasAddGrad", given, domain="ascend"))
    given = bench.made(logical(source), source.dtype, Format.FRACTAL_NZ)
    return bench.finish(bench.builder.op("BiasAddGrad", given, domain="ascend"), placed=True)


def _joined(row: OperatorRow, bench: Bench) -> OneOperator:
    """Parts along the axis in which they and the whole differ."""
    first, whole = row.inputs[0].shape, row.outputs[0].shape
    axis = next(axis for axis in range(len(whole)) if first[axis] != whole[axis])
    return bench.finish(bench.builder.op("Concat", *bench.all_made(), axis=axis))


def _dropped(row: OperatorRow, bench: Bench) -> OneOperator:
    data, bits = row.inputs[:2]
    mask = bench.stored(bits.shape, DType.UINT8)
    given = bench.made(data.shape, data.dtype)
    kept = bench.builder.constant(0.9, dtype=data.dtype)
    return bench.finish(bench.builder.op("DropOutDoMask", given, mask, kept, domain="ascend"))


def _mul_add(row: OperatorRow, bench: Bench) -> OneOperator:
    tensors = [bench.stored(operand.shape, DType.FLOAT32) for operand in row.inputs[:2]]
    factor = bench.builder.constant([0.5])
    return bench.finish(bench.builder.op("FusedMulAddN", *tensors, factor, domain="ascend"))


def _mul_momentum(row: OperatorRow, bench: Bench) -> OneOperator:
    """Weight, velocity, rate, gradient, momentum, factor; only the gradient has just been made."""
    weight, velocity, _, gradient = row.inputs[:4]
    kept = [bench.kept(operand.shape, DType.FLOAT32) for operand in (weight, velocity)]
    made = bench.made(gradient.shape, gradient.dtype)
    rate, count, factor = (
        bench.builder.constant(0.1),
        bench.builder.constant(1),
        bench.builder.constant(0.5),
    )
    numbers: dict[str, Any] = {"alpha": 0.9, "beta": 1.0, "mode": "standard", "norm_coefficient": 0.0}
    updated = bench.builder.ops(
        "FusedMulApplyMomentum",
        *(rate, count, kept[0], made, kept[1], factor),
        outputs=2,
        domain="ascend",
        **numbers,
    )
    return bench.finish(*updated)


def _adam(row: OperatorRow, bench: Bench) -> OneOperator:
    """Weight, moments, powers of the betas, rate, betas, epsilon, gradient."""
    shapes = [row.inputs[0].shape] * 3 + [()] * 6 + [row.inputs[-1].shape]
    tensors = [bench.kept(shape, DType.FLOAT32) for shape in shapes]
    return bench.finish(*bench.builder.ops("ApplyAdam", *tensors, outputs=3, domain="ascend"))


def _gather(row: OperatorRow, bench: Bench) -> OneOperator:
    table = row.inputs[0]
    assert table.dtype is not None
    given = bench.stored(table.shape, table.dtype)
    indices = bench.stored(row.inputs[1].shape, row.inputs[1].dtype or DType.INT32)
    return bench.finish(bench.builder.op("Gather", given, indices, axis=0))


def _layer_norm(row: OperatorRow, bench: Bench) -> OneOperator:
    made = bench.builder.ops("LayerNormalization", *bench.all_made(), outputs=3)
    return bench.finish(*made)


def _segment_sum(row: OperatorRow, bench: Bench) -> OneOperator:
    count = bench.builder.constant(row.outputs[0].shape[0])
    made = bench.builder.op("UnsortedSegmentSum", *bench.all_made()[:2], count, domain="ascend")
    return bench.finish(made)


def _square_sum(row: OperatorRow, bench: Bench) -> OneOperator:
    given = bench.made(row.inputs[0].shape, row.inputs[0].dtype)
    axes = tuple(range(len(row.inputs[0].shape)))
    return bench.finish(*bench.builder.ops("SquareSumV2", given, outputs=2, domain="ascend", axis=axes))


def _assign(row: OperatorRow, bench: Bench) -> OneOperator:
    return bench.finish(bench.builder.op("Assign", *bench.all_made(), domain="ascend"))


def _relu_grad_v2(row: OperatorRow, bench: Bench) -> OneOperator:
    given = _maps(row.inputs[0], bench)
    n, c, h, w = given.static_shape
    mask = bench.stored((n, c // 8, h, w), DType.UINT8)
    return bench.finish(bench.builder.op("ReluGradV2", given, mask, domain="ascend"))


def _pool_gradient(row: OperatorRow, bench: Bench) -> OneOperator:
    """Windows of 3 x 3 with stride 2, as in ResNet's and AlexNet's."""
    source, gradient, mask = row.inputs
    size, out = logical(source)[2], logical(gradient)[2]
    kernel = 2 if size == 2 * out and mask.shape[2] == 4 else 3
    pads = 0 if (size - kernel) // 2 + 1 == out else 1
    n, c, _, _ = logical(source)
    kept = bench.stored(logical(source), source.dtype or DType.FLOAT32)
    words = math.ceil(out * logical(gradient)[3] / 16) + 1
    bits = bench.stored((n, c, kernel * kernel, words), DType.UINT16)
    made = bench.builder.op(
        "MaxPoolGradWithArgmax",
        kept,
        _maps(gradient, bench),
        bits,
        domain="ascend",
        kernel_shape=(kernel, kernel),
        strides=(2, 2),
        pads=(0, 0, pads, pads) if size % 2 == 0 and pads else (pads,) * 4,
    )
    return bench.finish(made)


def _turned_parts(row: OperatorRow, bench: Bench) -> OneOperator:
    """Patches of an image: a map seen as a grid of them, their axes behind those of the grid."""
    n, c, _, _ = row.inputs[0].shape
    _, down, right, _, height, width = row.outputs[0].shape
    given = bench.made((n, c, down, height, right, width), row.inputs[0].dtype)
    return bench.finish(bench.builder.op("Transpose", given, perm=(0, 2, 4, 1, 3, 5)))


TRAINING: dict[str, Builder] = {
    "Adam": _adam,
    "Assign": _assign,
    "BNTrainingReduceGrad": _own("BNTrainingReduceGrad"),
    "BNTrainingUpdate": _bn_update_plain,
    "BNTrainingUpdateGrad": _own("BNTrainingUpdateGrad", 2),
    "BatchMatMul": _batched,
    "Concat": _joined,
    "ConcatD": _joined,
    "BiasAddGrad": _bias_gradient,
    "ConfusionSoftmaxGrad": _own("ConfusionSoftmaxGrad"),
    "ConfusionTransposeD": _turned_parts,
    "DropoutDoMask": _dropped,
    "DropOutDoMask": _dropped,
    "FusedMulAddN": _mul_add,
    "FusedMulApplyMomentum": _mul_momentum,
    "FusionOp_Add_Floor": _chain("Add", "Floor"),
    "FusionOp_BNTrainingUpdate_Add_ReLUV2": _bn_update("Add", "ReLUV2"),
    "FusionOp_BNTrainingUpdate_ReLUV2": _bn_update("ReLUV2"),
    "FusionOp_Conv2DBackpropInput_AddN_ReluGradV2": _image_gradient(adds=True),
    "FusionOp_Conv2DBackpropInput_ReluGradV2": _image_gradient(adds=False),
    "FusionOp_Conv2D_BNTrainingReduce": _filters_reduce,
    "FusionOp_MatMul_AddN": _product("AddN"),
    "FusionOp_MatMul_Mul": _product("Mul"),
    "FusionOp_MatMul_ReLU": _product("ReLU"),
    "FusionOp_Mul_Square": _chain("Mul", "Square"),
    "FusionOp_RealDiv_Sqrt": _chain("RealDiv", "Sqrt"),
    "Gather": _gather,
    "GatherV2": _gather,
    "GeLUGrad": _own("GeluGrad"),
    "LayerNorm": _layer_norm,
    "LayerNormBetaGammaBackpropV2": _own("LayerNormBetaGammaBackpropV2", 2, shape_gamma=(768,)),
    "LayerNormXBackpropV2": _own("LayerNormXBackpropV2", 2),
    "LogSoftmaxGrad": _own("LogSoftmaxGrad"),
    "MaxPoolGradWithArgmax": _pool_gradient,
    "MaxPoolGradWithArgmaxV1": _pool_gradient,
    "ReluGradV2": _relu_grad_v2,
    "SigmoidCrossEntropyWithLogits": _own("SigmoidCrossEntropyWithLogits"),
    "SigmoidCrossEntropyWithLogitsGrad": _own("SigmoidCrossEntropyWithLogitsGrad"),
    "Slice": _sliced,
    "Softmax": _plain("Softmax"),
    "SoftmaxCrossEntropyWithLogits": _own("SoftmaxCrossEntropyWithLogits", 2),
    "Square": _own("Square"),
    "SquareSumV2": _square_sum,
    "StridedSlice": _sliced,
    "StridedSliceGrad": _slice_gradient,
    "UnsortedSegmentSum": _segment_sum,
}
PRODUCT = _product()
