"""Kinds of operators, for colours and groups in reports.

A kind says what an operator is for; where its time goes is another question (`metrics`), answered from the trace alone.
"""

from __future__ import annotations

from ascendsim.profiling.view import TaskView

CONVOLUTION = "Convolution"
MATMUL = "Matrix product"
ELEMENTWISE = "Elementwise"
REDUCTION = "Normalisation, pooling, reduction"
MOVEMENT = "Data movement"
OTHER = "Other"
AI_CPU = "AI CPU"

KINDS = (CONVOLUTION, MATMUL, ELEMENTWISE, REDUCTION, MOVEMENT, OTHER, AI_CPU)  # the order of legends and stacks

# fmt: off
_MOVEMENT = {
    "Cast", "CenterCropPad", "Compress", "Concat", "ConcatFromSequence", "Crop", "DepthToSpace", "Expand", "Flatten", "Gather",
    "GatherElements", "GatherND", "Identity", "Pad", "Permute", "Reshape", "ReverseSequence", "Roll", "Scatter", "ScatterElements",
    "ScatterND", "Shape", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "TransData", "Transpose", "Unsqueeze", "Upsample",
    "Resize", "Where", "ConfusionTransposeD", "StridedRead", "StridedWrite",
}
_REDUCTION = {
    "ArgMax", "ArgMin", "AveragePool", "BatchNormalization", "CumSum", "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool",
    "GroupNormalization", "Hardmax", "InstanceNormalization", "LRN", "LayerNormalization", "LogSoftmax", "LpNormalization", "LpPool",
    "MaxPool", "MaxRoiPool", "MeanVarianceNormalization", "RMSNormalization", "RoiAlign", "SkipLayerNormalization", "Softmax", "TopK",
    "BNInference", "BNInferenceD", "BNTrainingReduce", "BNTrainingReduceGrad", "BNTrainingUpdate", "BNTrainingUpdateGrad",
    "BatchNormGrad", "ClipByNormNoDivSum", "ConfusionSoftmaxGrad",
    "LayerNormBetaGammaBackpropV2", "LayerNormGrad", "LayerNormXBackpropV2", "SoftmaxGrad",
}
# fmt: on


def kind_of(view: TaskView) -> str:
    """The kind of a task, one of `KINDS`.

    A task of the AI CPU is "AI CPU" whatever it computes. A task that used the Cube is a convolution if one of its nodes is
    one, else a matrix product. The rest goes by the operator of its first node; "Other" are tasks without a node.
    """
    if not view.on_ai_core:
        return AI_CPU
    types = [node.op_type for node in view.nodes]
    if view.busy("M"):
        return CONVOLUTION if any("Conv" in name for name in types) else MATMUL
    if not types:
        return OTHER
    if types[0] in _MOVEMENT:
        return MOVEMENT
    if types[0] in _REDUCTION or types[0].startswith("Reduce"):
        return REDUCTION
    return ELEMENTWISE
