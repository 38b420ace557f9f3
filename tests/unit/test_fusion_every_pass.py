"""Every pass that matters most (tier 1) or that CANN's introduction names (seed) has a rule, and every rule
takes effect when a model is compiled.

The list of passes is that of the data files and of the rules, so a pass without an example fails; each
example is compiled as a user does, with all other passes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.api.result import Result
from ascendsim.compiler.dynamic import DynamicModel
from ascendsim.compiler.model import CompiledModel
from ascendsim.core.dtypes import DType
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.passes.fusion.catalogue import all_facts
from ascendsim.passes.fusion.rules import all_rules
from ascendsim.passes.fusion.rules.json_rules import JsonRule
from tests.support.edge_graphs import step_inputs, write_edges
from tests.support.fusing import build, random
from tests.support.language_graphs import LANGUAGE
from tests.unit.test_fusion_rules_training import norm_gradient

Body = Callable[[GraphBuilder], "Tensor | Sequence[Tensor]"]
MAP = (1, 16, 8, 8)
WANTED = list(
    dict.fromkeys(
        [
            *(fact.name for fact in all_facts("graph") if fact.tier == 1 or fact.seed),
            *(rule.name for rule in all_rules() if not isinstance(rule, JsonRule)),
        ]
    )
)
OFF = frozenset({"HardSwishFusionPass", "SwishFusionPass"})  # this project's own, tested where they are
WANTED = [name for name in WANTED if name not in OFF]


def number(b: GraphBuilder, value: float) -> Tensor:
    return b.constant(np.float32(value))


def image(b: GraphBuilder, *shape: int) -> Tensor:
    """A map that some operator made."""
    return b.op("Abs", b.input("x", shape or MAP))


def conv(
    b: GraphBuilder,
    x: Tensor | None = None,
    channels: int = 32,
    size: int = 3,
    bias: bool = True,
    **attributes: Any,
) -> Tensor:
    x = x if x is not None else image(b)
    group = attributes.get("group", 1)
    weight = random(channels, x.static_shape[1] // group, size, size, seed=size)
    return b.op(
        "Conv", x, weight, random(channels) if bias else None, **{"pads": (size // 2,) * 4, **attributes}
    )


def norm(b: GraphBuilder, x: Tensor, **attributes: Any) -> list[Tensor]:
    count = x.static_shape[1]
    parameters = [random(count, seed=seed) for seed in range(3)]
    return b.ops(
        "BatchNormalization",
        x,
        *parameters,
        random(count, seed=3, positive=True),
        outputs=3 if attributes else 1,
        **attributes,
    )


def channels(count: int = 32, seed: int = 7) -> Any:
    return random(count, 1, 1, seed=seed)


def norm_grad(b: GraphBuilder) -> list[Tensor]:
    parameters = [b.input(name, (16,)) for name in ("scale", "mean", "variance")]
    return b.ops("BatchNormGrad", b.input("dy", MAP), image(b), *parameters, outputs=3, domain="ascend")


def padded(b: GraphBuilder) -> Tensor:
    return b.op("Pad", image(b), [0, 0, 1, 1, 0, 0, 1, 1])


def branches(b: GraphBuilder, sizes: Sequence[int] = (3, 3), before: bool = True) -> Tensor:
    """Convolutions of parts of a map, or of one map, side by side."""
    x = image(b, 1, 32, 8, 8)
    parts = b.ops("Split", x, [16, 16], outputs=2, axis=1) if before else [x, x]
    made = [
        b.op("Relu", conv(b, part, size=size)) if len(set(sizes)) > 1 else conv(b, part)
        for part, size in zip(parts, sizes, strict=True)
    ]
    return b.op("Relu", b.op("Concat", *made, axis=1))


def pooled(b: GraphBuilder) -> Tensor:
    return b.op("AveragePool", image(b), kernel_shape=(3, 3), pads=(1, 1, 1, 1), count_include_pad=0)


def gelu(b: GraphBuilder, form: str) -> Tensor:
    x = b.op("Neg", b.input("x", (4, 16)))
    if form == "erf":
        inner = b.op("Erf", b.op("Div", x, number(b, 2**0.5)))
    else:
        cubic = b.op("Add", x, b.op("Mul", b.op("Pow", x, 3.0), number(b, 0.044715)))
        inner = b.op("Tanh", b.op("Mul", cubic, number(b, (2 / np.pi) ** 0.5)))
    return b.op("Mul", b.op("Mul", x, number(b, 0.5)), b.op("Add", inner, number(b, 1)))


def layer_norm(b: GraphBuilder, onnx: bool) -> Tensor:
    x, axes = b.op("Neg", b.input("x", (4, 16))), b.constant([-1], "axes")
    centred = b.op("Sub", x, b.op("ReduceMean", x, axes))
    variance = b.op("Add", b.op("ReduceMean", b.op("Pow", centred, 2.0), axes), number(b, 1e-5))
    gamma, beta = random(16, seed=1), random(16, seed=2)
    if onnx:
        return b.op("Add", b.op("Mul", b.op("Div", centred, b.op("Sqrt", variance)), gamma), beta)
    factor = b.op("Mul", b.op("Reciprocal", b.op("Sqrt", variance)), gamma)
    return b.op("Add", b.op("Mul", factor, centred), beta)


def softmax_grad(b: GraphBuilder) -> Tensor:
    y, gradient = b.input("y", (4, 16)), b.op("Neg", b.input("dy", (4, 16)))
    total = b.op("ReduceSum", b.op("Mul", y, gradient), b.constant([-1], "axes"))
    return b.op("Mul", b.op("Sub", gradient, total), y)


def momentum(b: GraphBuilder) -> list[Tensor]:
    w, g, v = (b.input(name, (4, 16)) for name in "wgv")
    attributes: dict[str, Any] = {"alpha": 0.9, "beta": 0.7, "norm_coefficient": 0.01, "mode": "standard"}
    inputs = [
        b.constant(np.float32(0.1), "rate"),
        b.constant(3, "count"),
        w,
        b.op("Mul", g, number(b, 0.125)),
        v,
    ]
    return b.ops("Momentum", *inputs, outputs=2, domain="ai.onnx.preview.training", **attributes)


def relu_grad(b: GraphBuilder) -> list[Tensor]:
    y = b.op("Relu", b.input("x", MAP))
    return [y, b.op("ReluGrad", b.input("dy", MAP), y, domain="ascend")]


def int8(*shape: int, kind: Any = np.int8) -> Any:
    return np.random.default_rng(shape).integers(-50, 50, shape).astype(kind)


def int8_conv(b: GraphBuilder, weight: Any = None, **attributes: Any) -> Tensor:
    x = b.input("x", MAP, DType.INT8)
    return b.op(
        "QuantConv", x, int8(32, 16, 3, 3) if weight is None else weight, domain="ascend", **attributes
    )


def weights(b: GraphBuilder) -> Tensor:
    """Int8 weights from two subtractions."""
    return b.op(
        "Sub",
        b.op("AscendWeightQuant", int8(32, 16, 3, 3) // 2, int8(1) // 8, domain="ascend"),
        int8(32, 1, 1, 1) // 8,
    )


def marked(b: GraphBuilder) -> Tensor:
    """Quantised weights that no convolution takes in."""
    return b.op(
        "MatMulInteger",
        b.input("x", (32, 64), DType.INT8),
        b.op("AscendWeightQuant", int8(64, 48), int8(1) // 8, domain="ascend"),
    )


def dequantised(b: GraphBuilder, **attributes: Any) -> Tensor:
    return b.op(
        "Relu",
        b.op("AscendDequant", int8_conv(b, **attributes), random(32, positive=True) / 4000, domain="ascend"),
    )


def quantised(b: GraphBuilder, x: Tensor) -> Tensor:
    return b.op("AscendQuant", x, domain="ascend", scale=16.0, offset=3.0)


def joined_int8(b: GraphBuilder) -> Tensor:
    x = image(b, 1, 32, 8, 8)
    return quantised(b, b.op("Concat", b.op("Relu", x), b.op("Tanh", x), axis=1))


def many(b: GraphBuilder, count: int = 70) -> Tensor:
    x = image(b, 2, 4)
    return b.op("Concat", *(b.op("Add", x, float(item)) for item in range(count)), axis=1)


def nested(b: GraphBuilder) -> Tensor:
    x = image(b, 2, 4)
    return b.op("Concat", b.op("Relu", x), b.op("Concat", b.op("Tanh", x), b.op("Exp", x), axis=1), axis=1)


def parts(b: GraphBuilder, count: int = 70) -> list[Tensor]:
    return [
        b.op("Relu", part) for part in b.ops("Split", image(b, 2, count), [1] * count, outputs=count, axis=1)
    ]


def split_twice(b: GraphBuilder) -> list[Tensor]:
    first, second = b.ops("Split", image(b, 4, 12), [5, 7], outputs=2, axis=1)
    return [b.op("Relu", part) for part in (second, *b.ops("Split", first, [2, 3], outputs=2, axis=1))]


def matmul(b: GraphBuilder, *shape: int) -> Tensor:
    return b.op("MatMul", b.input("x", shape or (32, 64)), random(64, 48))


def turned(b: GraphBuilder) -> Tensor:
    return b.op(
        "MatMul", b.input("x", (2, 32, 64)), b.op("Transpose", b.input("y", (2, 48, 64)), perm=(0, 2, 1))
    )


def casts(b: GraphBuilder) -> Tensor:
    return b.op("Cast", b.op("Cast", b.input("x", (4, 16), DType.INT32), to=DType.FLOAT32), to=DType.FLOAT16)


def squeezed(b: GraphBuilder) -> Tensor:
    shorter = b.op("Squeeze", b.op("Abs", b.input("x", (4, 1, 16))), b.constant([1], "axes"))
    return b.op("Relu", b.op("Unsqueeze", shorter, b.constant([1], "axes")))


def twice(b: GraphBuilder) -> Tensor:
    x = b.input("x", (4, 16))
    return b.op("Mul", x, x)


def larger(b: GraphBuilder) -> Tensor:
    x = b.input("x", (4, 16))
    return b.op("Max", b.op("Mul", x, number(b, 0.1)), x)


def turn(b: GraphBuilder, first: bool) -> Tensor:
    if first:
        return b.op(
            "Reshape",
            b.op("Transpose", b.input("x", (2, 3, 16, 32)), perm=(0, 2, 1, 3)),
            b.constant([32, 96], "shape"),
        )
    return b.op(
        "Transpose",
        b.op("Reshape", b.input("x", (32, 96)), b.constant([2, 16, 3, 32], "shape")),
        perm=(0, 2, 1, 3),
    )


def bert(b: GraphBuilder) -> Tensor:
    return b.op(
        "Add",
        b.op("Mul", b.input("x", (4, 16)), b.input("y", (4, 16)), name="bert/mul"),
        b.input("z", (4, 16)),
    )


def reduced(b: GraphBuilder, kind: str, size: int = 1) -> Tensor:
    return b.op(f"Reduce{kind}", image(b, 4, size, 16), b.constant([1], "axes"), keepdims=0)


def sliced(b: GraphBuilder, size: int = 8) -> Tensor:
    bounds = [b.constant([item], name) for item, name in ((0, "starts"), (size, "ends"), (1, "axes"))]
    return b.op("Relu", b.op("Slice", image(b, 4, 16), *bounds))


def recurrent(b: GraphBuilder, kind: str, gates: int) -> Tensor:
    w, r = random(1, gates * 32, 16), random(1, gates * 32, 32)
    return b.ops(kind, b.input("x", (5, 2, 16)), w, r, outputs=2, hidden_size=32)[0]


def turned_back(b: GraphBuilder, x: Tensor | None = None) -> Tensor:
    return b.op("ConvTranspose", x if x is not None else image(b), random(16, 8, 3, 3))


def keras_prelu(b: GraphBuilder) -> Tensor:
    x = image(b, 4, 16)
    return b.op("Add", b.op("Relu", x), b.op("Mul", b.op("Relu", b.op("Neg", x)), random(16, seed=1)))


def tensorflow_prelu(b: GraphBuilder) -> Tensor:
    x = image(b, 4, 16)
    scaled = b.op("Mul", b.op("Sub", x, b.op("Abs", x)), random(16, seed=1))
    return b.op("Add", b.op("Relu", x), b.op("Mul", scaled, number(b, 0.5)))


def unpacked(b: GraphBuilder) -> list[Tensor]:
    axes = b.constant([1], "axes")
    parts = b.ops("Split", image(b, 4, 3, 16), [1, 1, 1], outputs=3, axis=1)
    return [b.op("Relu", b.op("Squeeze", part, axes)) for part in parts]


def halves(b: GraphBuilder) -> list[Tensor]:
    return [b.op("Relu", part) for part in b.ops("Split", image(b, 4, 16), outputs=2, axis=1, num_outputs=2)]


def half_model(b: GraphBuilder) -> Tensor:
    x = b.op("Neg", b.input("x", (4, 16), DType.FLOAT16))
    return b.op("Relu", b.op("Cast", x, to=DType.FLOAT32))


def wide_result(b: GraphBuilder) -> Tensor:
    x = b.op("Abs", b.input("x", (1, 16, 8, 8), DType.FLOAT16))
    weight = random(32, 16, 8, 8, dtype=np.float16)
    return b.op("Cast", b.op("Conv", x, weight), to=DType.FLOAT32)


def wide_product(b: GraphBuilder) -> Tensor:
    x = b.op("Abs", b.input("x", (30, 64), DType.FLOAT16))
    return b.op("Cast", b.op("MatMul", x, random(64, 50, dtype=np.float16)), to=DType.FLOAT32)


def half_product(b: GraphBuilder) -> Tensor:
    return b.op("Softmax", b.op("MatMul", b.input("x", (30, 64)), random(64, 50)), axis=-1)


def weighted_loss(b: GraphBuilder) -> Tensor:
    inputs = [b.input(name, (4, 16)) for name in ("predict", "target")]
    return b.op(
        "SigmoidCrossEntropyWithLogitsV2", *inputs, random(16), random(4, 1), domain="ascend", reduction="sum"
    )


def gear_index(b: GraphBuilder) -> Tensor:
    table = b.constant(np.array([1, 64, 2, 64, 4, 128], np.int32), "table")
    return b.op("MapIndex", b.input("sizes", (2,), DType.INT32), table, domain="ascend")


def places(b: GraphBuilder) -> Tensor:
    found = b.op("Cast", b.op("NonZero", b.input("x", (4, 16))), to=DType.INT32)
    return b.op("Add", found, b.input("first", (2, 1), DType.INT32))


def proposal(b: GraphBuilder) -> Tensor:
    scores, changes = random(2, 4, 3, 5, positive=True), b.input("changes", (2, 8, 3, 5))
    settings = {"base_size": 12.0, "ratio": (1.0, 2.0), "scale": (1.0,), "min_size": 4.0, "post_nms_topn": 16}
    sizes = np.array([[40, 60], [50, 70]], np.float32)
    return b.op("Proposal", scores, changes, sizes, domain="ascend", **settings)


def nearest_grad(b: GraphBuilder) -> Tensor:
    size = {"orig_input_shape": (1, 16, 4, 4), "scales": (2.0, 2.0)}
    return b.op("ResizeNearestNeighborV2Grad", image(b, 1, 16, 8, 8), domain="ascend", **size)


EXAMPLES: dict[str, Body] = {
    **LANGUAGE,
    "AReduceMaxFusionPass": lambda b: reduced(b, "Max"),
    "AReduceMinFusionPass": lambda b: reduced(b, "Min"),
    "AReduceProdFusionPass": lambda b: reduced(b, "Prod"),
    "AReduceSumFusionPass": lambda b: reduced(b, "Sum"),
    "ADepthwiseFusionPass": lambda b: conv(b, channels=16, group=16),
    "ARefreshCubeC0FusionPass": lambda b: int8_conv(b),
    "ArgMaxV2FusionPass": lambda b: b.op("ArgMax", image(b, 4, 16), axis=1),
    "AvgPoolV2FusionPass": pooled,
    "CommonLSTMFusionPass": lambda b: recurrent(b, "LSTM", 4),
    "ConstToAttrPass": lambda b: b.op("Transpose", image(b, 4, 16), perm=(1, 0)),
    "ConstToAttrReduceSumFusion": lambda b: reduced(b, "Sum", 3),
    "ConstToAttrResizeNearestNeighborGradFusion": nearest_grad,
    "ConstToAttrStridedSliceFusion": sliced,
    "ConstToAttrStridedSliceV2Fusion": sliced,
    "Conv2DbpInputBiasAddFusionPass": lambda b: b.op("Add", turned_back(b), channels(8)),
    "ConvCastFusionPass": wide_result,
    "CubeTransFixpipeFusionPass": half_product,
    "CumFusionPass": lambda b: b.op("CumSum", image(b, 4, 16), b.constant(1, "axis")),
    "DeconvWeightTransFusionPass": turned_back,
    "FIXPIPEAPREQUANTFUSIONPASS": lambda b: dequantised(b),
    "FIXPIPEFUSIONPASS": lambda b: b.op("Relu", conv(b)),
    "ForceFp16CastFusionPass": half_model,
    "GRUFusionPass": lambda b: recurrent(b, "GRU", 3),
    "MapIndexFusionPass": gear_index,
    "NonZeroFusionPass": places,
    "ProposalFusionPass": proposal,
    "SigmoidCrossEntropyWithLogitsV2FusionPass": weighted_loss,
    "OneHotFusionPass": lambda b: b.op(
        "OneHot", b.input("x", (4,), DType.INT64), b.constant(8, "depth"), b.constant([0.0, 1.0], "values")
    ),
    "PReluAbsFusionPass": tensorflow_prelu,
    "PReluFusionPass": keras_prelu,
    "PadFusionPass": lambda b: b.op("Relu", padded(b)),
    "PermuteFusionPass": lambda b: b.op("Transpose", image(b, 4, 16), perm=(1, 0)),
    "RefreshInt64ToInt32FusionPass": sliced,
    "StridedSliceRemovePass": lambda b: sliced(b, 16),
    "TileConstToAttrFusion": lambda b: b.op("Tile", image(b, 4, 16), b.constant([1, 2], "repeats")),
    "TopKFusionPass": lambda b: b.ops("TopK", image(b, 4, 16), b.constant([3], "k"), outputs=2)[0],
    "TransposedUpdateFusionPass": lambda b: b.op("Transpose", image(b, 4, 16), perm=(1, 0)),
    "UnpackFusionPass": unpacked,
    "ZConcatDFusionPass": many,
    "ZConcatFusionPass": nested,
    "ZSplitDFusionPass": halves,
    "ZSplitFusionPass": halves,
    "ZSplitVFusionPass": split_twice,
    "AABiasaddConvFusion": lambda b: b.op("Add", conv(b, bias=False), channels()),
    "AConv2dMulFusion": lambda b: b.op("Mul", conv(b), channels()),
    "AReduceMeanFusionPass": lambda b: b.op(
        "ReduceMean", image(b, 4, 1, 16), b.constant([1], "axes"), keepdims=0
    ),
    "ASplitConv2dConcatPass": branches,
    "A_MomentumLossscaleFusionPass": momentum,
    "AvgPoolFusionPass": pooled,
    "BatchMatMulFusionPass": turned,
    "BatchMatMulV2ReshapeFusionPass": lambda b: matmul(b, 64),
    "BatchNormBnInferFusionPass": lambda b: norm(b, image(b)),
    "CastCastFusionPass": casts,
    "CastRemoveFusionPass": lambda b: b.op("Relu", b.op("Cast", image(b), to=DType.FLOAT32)),
    "ConcatQuantFusionPass": joined_int8,
    "ConvBatchnormFusionPass": lambda b: norm(b, conv(b)),
    "ConvConcatFusionPass": lambda b: branches(b, (3, 5), before=False),
    "ConvScaleFusionPass": lambda b: b.op("Add", b.op("Mul", conv(b), channels()), channels(seed=8)),
    "ConvToFullyConnectionFusionPass": lambda b: conv(b, size=8, pads=(0, 0, 0, 0)),
    "Conv2DQuantProcessFusionPass": lambda b: dequantised(b, offset_x=5),
    "DeleteNoConstFolding": marked,
    "DreluFusionPass": relu_grad,
    "FixPipeAbilityProcessPass": lambda b: b.op("Relu", conv(b)),
    "FusedBatchNormGradFusionPass": norm_grad,
    "FusedBatchnormFusionPass": lambda b: norm(b, conv(b), training_mode=1),
    "GeluFusionPass": lambda b: gelu(b, "tanh"),
    "GeluONNXFusionPass": lambda b: gelu(b, "erf"),
    "GemmSplitFusionPass": lambda b: b.op("Gemm", b.input("x", (32, 64)), random(64, 48), random(48)),
    "GemmToMatmulFusionPass": lambda b: b.op("Gemm", b.input("x", (32, 64)), random(64, 48), alpha=0.5),
    "Globalavgpoolpass": lambda b: b.op("GlobalAveragePool", image(b)),
    "GroupConv2DFusionPass": lambda b: conv(b, group=4),
    "HostBNFusionPass": lambda b: norm(b, image(b)),
    "LayerNormFusionPass": lambda b: layer_norm(b, onnx=False),
    "LayerNormGradFusionPass": norm_gradient,
    "LayerNormGradFusionRule": norm_gradient,
    "LayerNormONNXFusionPass": lambda b: layer_norm(b, onnx=True),
    "MatMulBiasAddFusionPass": lambda b: b.op("Add", matmul(b), random(48)),
    "MatMulReshapeBiasAddFusionPass": lambda b: b.op(
        "Add", b.op("Reshape", matmul(b), b.constant([2, 16, 48], "shape")), random(48)
    ),
    "MatmulCastFusionPass": wide_product,
    "MulAddFusionPass": bert,
    "MulAddNPass": lambda b: b.op(
        "Sum", b.op("Mul", b.input("x", (4, 16)), number(b, 0.3)), b.input("y", (4, 16))
    ),
    "MulMaximumFusionPass": larger,
    "MulSquareFusionPass": twice,
    "PadConv2dFusionPass": lambda b: conv(b, padded(b), pads=(0, 0, 0, 0)),
    "PadDepthwiseConv2dFusionPass": lambda b: conv(b, padded(b), channels=16, group=16, pads=(0, 0, 0, 0)),
    "PadMaxPoolFusionPass": lambda b: b.op("MaxPool", padded(b), kernel_shape=(3, 3), strides=(2, 2)),
    "PoolingFusionPass": pooled,
    "Pow2SquareFusionPass": lambda b: b.op("Pow", b.input("x", (4, 16)), 2.0),
    "RealDiv2MulsFusionPass": lambda b: b.op("Div", b.input("x", (4, 16)), number(b, 3)),
    "ReshapeTransposeFusionPass": lambda b: turn(b, first=False),
    "SoftmaxFusionPass": lambda b: b.op("Softmax", b.input("x", (1, 8732, 21)), axis=-1),
    "SoftmaxGradExtFusionV2": lambda b: b.op("Mul", softmax_grad(b), number(b, 0.3)),
    "SoftmaxGradFusionPass": softmax_grad,
    "SplitConvConcatFusionPass": lambda b: branches(b, (3, 5)),
    "SquareSumV1": lambda b: b.op("ReduceSum", twice(b), b.constant([1], "axes")),
    "SqueezeUnsqueezeFusionPass": squeezed,
    "TBEConvAddFusion": lambda b: b.op("Add", conv(b), channels()),
    "TfMergeSubFusionPass": lambda b: b.op(
        "Conv", image(b), b.op("Sub", random(32, 16, 3, 3), random(32, 1, 1, 1))
    ),
    "TfMergeWeightQuantFusionPass": lambda b: int8_conv(b, weights(b)),
    "TfTagNoConstFoldingFusionPass": lambda b: int8_conv(b, weights(b)),
    "TransposeReshapeFusionPass": lambda b: turn(b, first=True),
    "V200NotRequantFusionPass": dequantised,
    "V200RequantFusionPass": lambda b: quantised(b, dequantised(b)),
    "ZConcatExt2FusionPass": many,
    "ZConcatv2dFusionPass": nested,
    "ZConfusionSoftmaxGradFusionPass": softmax_grad,
    "ZSplitVDFusionPass": parts,
    "ZSplitVDFusionPassV2": split_twice,
    "softmaxTransFusionPass": lambda b: b.op("Softmax", b.input("x", (1, 4420, 2)), axis=-1),
    "ClipFusionRule0": lambda b: b.op(
        "Max", b.op("Min", b.input("x", (4, 16)), number(b, 0.7)), number(b, -0.5)
    ),
}
# Chips of passes that some chips alone have; all others are compiled for an Ascend 310
CHIPS = {
    "ARefreshCubeC0FusionPass": "Ascend310P3",
    "AvgPoolV2FusionPass": "Ascend910B1",
    "ConvCastFusionPass": "Ascend910B1",
    "CubeTransFixpipeFusionPass": "Ascend310B1",
    "FIXPIPEAPREQUANTFUSIONPASS": "Ascend910B1",
    "FIXPIPEFUSIONPASS": "Ascend910B1",
    "FixPipeAbilityProcessPass": "Ascend910B1",
    "MatmulCastFusionPass": "Ascend310P3",
    "GemmToMatmulFusionPass": "Ascend910B1",
    "SoftmaxFusionPass": "Ascend310P3",
    "NonZeroFusionPass": "Ascend310P3",  # shapes that depend on values: not on Ascend310
    "SoftmaxGradFusionPass": "Ascend910B1",
    "V200NotRequantFusionPass": "Ascend310P3",
    "V200RequantFusionPass": "Ascend310P3",
    **dict.fromkeys(LANGUAGE, "Ascend910B1"),
}
# What else must be asked for
SETTINGS: dict[str, dict[str, Any]] = {
    "GemmSplitFusionPass": {"optimization_switch": "GemmSplitFusionPass:on"},
    "CastCastFusionPass": {"precision_mode": "must_keep_origin_dtype"},
    "GroupConv2DFusionPass": {"options": {"group_conv": "split"}},
    "TfMergeSubFusionPass": {"optimize": False},  # the graph engine folds what this pass would join
}
# Where the operators of a pass came from, if not from nowhere
FRAMEWORKS = {
    "ConstToAttrStridedSliceFusion": "tensorflow",
    "PermuteFusionPass": "caffe",
    "PoolingFusionPass": "caffe",
    "ZConcatDFusionPass": "onnx",
    "ZConcatFusionPass": "tensorflow",
    "ZSplitFusionPass": "onnx",
}


def example(name: str) -> Graph:
    """The graph on which a pass shall have effect: its own edges for a rule of CANN's JSON file, else an
    example of the table."""
    rules = {rule.name: rule for rule in all_rules()}
    if name not in EXAMPLES and isinstance(rules[name], JsonRule):
        edges = cast(JsonRule, rules[name]).edges

        def body(b: GraphBuilder) -> list[Tensor]:
            made = write_edges(b, edges, step_inputs(b, edges, (4, 16)))
            return [made[result] for _, result in edges.results]

        return build(body)
    graph = build(EXAMPLES[name])
    if name in FRAMEWORKS:
        for node in graph.nodes:
            node.origin["framework"] = FRAMEWORKS[name]
    return graph


def executed(model: CompiledModel) -> Result:
    """One execution; with inputs of ones if values tell shapes."""
    if not isinstance(model, DynamicModel):
        return asim.simulate(model)
    return asim.run(
        model, {each.name: np.ones(each.static_shape, each.dtype.numpy) for each in model.graph.inputs}
    )


@pytest.mark.parametrize("name", WANTED)
def test_a_pass_changes_a_model(name: str) -> None:
    model = asim.compile(
        example(name), soc=CHIPS.get(name, "Ascend310"), fusion="graph", **SETTINGS.get(name, {})
    )
    if isinstance(model, DynamicModel):
        model = executed(model).model
    matched, effected = model.fusion.totals("graph").get(name, (0, 0))
    assert matched >= effected >= 1, {
        refusal.reason for record in model.fusion.records for refusal in record.refusals
    }


def test_no_example_is_superfluous() -> None:
    assert [name for name in (*EXAMPLES, *CHIPS, *SETTINGS, *FRAMEWORKS) if name not in WANTED] == []


def test_the_pass_for_ub_fusion_that_the_introduction_names_takes_splits_their_task() -> None:
    assert [fact.name for fact in all_facts("ub") if fact.seed] == ["FusionVirtualOpSetSwitch"]
    graph = build(
        lambda b: [
            b.op("Relu", part)
            for part in b.ops("Split", b.input("x", (4, 16)), outputs=2, axis=0, num_outputs=2)
        ]
    )
    model = asim.compile(graph, soc="Ascend310", fusion="ub")
    assert model.fusion.totals("ub")["FusionVirtualOpSetSwitch"] == (1, 1)
    assert not any("Split" in task.name for task in model.program.tasks)
