"""Operator patterns: the classes by which CANN's UB-fusion passes name operators, and which one a node has.

Names: FE's OpPattern (hicann/ge, buffer fusion patterns). Elementwise operators are ElemWise if nothing is broadcast and Broadcast
else; a constant of one element counts as a parameter of the instruction, not as a broadcast operand, as CANN's own forms have it (Muls,
Adds). Batch normalisation with known statistics is a broadcast (BNInferenceD); only its training form is bn_update. Segment operators have
no ONNX form but the scatter with addition.
"""

from __future__ import annotations

from enum import Enum

from ascendsim.graph.ir import Node, Tensor
from ascendsim.opset import Layout, OpSet


class OpPattern(Enum):
    """FE's classes of operators; the value is CANN's spelling."""

    ELEMWISE = "ElemWise"
    BROADCAST = "Broadcast"
    COMM_REDUCE = "CommReduce"
    SEGMENT = "Segment"
    CONVOLUTION = "Convolution"
    DEPTHWISE = "DepthwiseConvolution"
    CONV3D = "Conv3d"
    CONV_BACKPROP = "Conv2d_backprop_input"
    MATMUL = "Matmul"
    GEMM = "GEMM"
    BATCH_MATMUL = "BatchMatmul"
    BN_UPDATE = "bn_update"
    BN_REDUCE = "bn_reduce"
    DEQUANT = "dequant"
    QUANT = "quant"
    REQUANT = "requant"
    POOL2D = "Pool2d"
    MAX_POOL = "MaxPool"
    STRIDED_READ = "strided_read"
    STRIDED_WRITE = "strided_write"
    CONFUSION_TRANSPOSE = "confusiontranspose"
    FIXPIPE = "fixpipe"
    AIPP = "aipp"
    TRANSDATA = "TransData"
    OPAQUE = "Opaque"


_BY_TYPE: dict[str, OpPattern] = {
    "ReduceSum": OpPattern.COMM_REDUCE,
    "ReduceMean": OpPattern.COMM_REDUCE,
    "ReduceMax": OpPattern.COMM_REDUCE,
    "ReduceMin": OpPattern.COMM_REDUCE,
    "ReduceProd": OpPattern.COMM_REDUCE,
    "ReduceSumSquare": OpPattern.COMM_REDUCE,
    "ReduceL1": OpPattern.COMM_REDUCE,
    "ReduceL2": OpPattern.COMM_REDUCE,
    "AveragePool": OpPattern.POOL2D,
    "MaxPool": OpPattern.MAX_POOL,
    "DequantizeLinear": OpPattern.DEQUANT,
    "AscendDequant": OpPattern.DEQUANT,
    "QuantizeLinear": OpPattern.QUANT,
    "AscendQuant": OpPattern.QUANT,
    "AscendRequant": OpPattern.REQUANT,
    "BNTrainingUpdate": OpPattern.BN_UPDATE,
    "BNInferenceD": OpPattern.BROADCAST,
    "BNInference": OpPattern.BROADCAST,
    "BatchNormalization": OpPattern.BROADCAST,
    "Scale": OpPattern.BROADCAST,
    "BNTrainingReduce": OpPattern.BN_REDUCE,
    "BNTrainingReduceGrad": OpPattern.OPAQUE,
    "BNTrainingUpdateGrad": OpPattern.OPAQUE,
    "BatchNormGrad": OpPattern.OPAQUE,
    "StridedRead": OpPattern.STRIDED_READ,
    "StridedWrite": OpPattern.STRIDED_WRITE,
    "ConfusionTransposeD": OpPattern.CONFUSION_TRANSPOSE,
    "FixPipe": OpPattern.FIXPIPE,
    "Aipp": OpPattern.AIPP,
    "TransData": OpPattern.TRANSDATA,
    "ConvTranspose": OpPattern.CONV_BACKPROP,
    "MatMul": OpPattern.MATMUL,
    "BatchMatMul": OpPattern.BATCH_MATMUL,
    "FullyConnection": OpPattern.MATMUL,
    "MatMulInteger": OpPattern.MATMUL,
    "Gemm": OpPattern.GEMM,
    "Softmax": OpPattern.OPAQUE,
    "LogSoftmax": OpPattern.OPAQUE,
    "LayerNormalization": OpPattern.OPAQUE,
    "RMSNormalization": OpPattern.OPAQUE,
    "Concat": OpPattern.OPAQUE,
    "Split": OpPattern.OPAQUE,
    "Pad": OpPattern.OPAQUE,
    "Identity": OpPattern.OPAQUE,
    "Dropout": OpPattern.OPAQUE,
    "SwiGLU": OpPattern.OPAQUE,
    "SoftmaxGrad": OpPattern.OPAQUE,
    "ConfusionSoftmaxGrad": OpPattern.OPAQUE,
}
_CONVOLUTIONS = frozenset({"Conv", "AippConv", "ConvInteger", "QuantConv"})


def pattern_of(node: Node, opset: OpSet) -> OpPattern:
    """The class of a node; OPAQUE for everything that no pass names."""
    if node not in opset:
        return OpPattern.OPAQUE
    kind = _BY_TYPE.get(node.op_type)
    if node.op_type in _CONVOLUTIONS:
        named = opset.cann_type(node)
        return {"DepthwiseConv2D": OpPattern.DEPTHWISE, "Conv3D": OpPattern.CONV3D}.get(named, OpPattern.CONVOLUTION)
    if kind is OpPattern.MATMUL and opset.cann_type(node).startswith("BatchMatMul"):
        return OpPattern.BATCH_MATMUL
    if kind is not None:
        return kind
    if node.attr("reduction", "none") == "add":  # ScatterElements and ScatterND; no other operator has it
        return OpPattern.SEGMENT
    if opset.get(node).layout is not Layout.FOLLOW or len(node.outputs) != 1 or not node.output.is_static:
        return OpPattern.OPAQUE
    shape = node.output.static_shape
    if any(tensor.shape != shape for tensor in data_inputs(node)):
        return OpPattern.BROADCAST
    return OpPattern.ELEMWISE


def data_inputs(node: Node) -> tuple[Tensor, ...]:
    """Inputs by port that are read element by element: all but constants of one element."""
    return tuple(tensor for tensor in node.inputs if tensor is not None and not (tensor.is_constant and tensor.elements == 1))
