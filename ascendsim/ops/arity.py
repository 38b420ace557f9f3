"""How many inputs operators take at most.

For operators of ONNX the numbers are those of the newest schemas (a test compares them), for those of the
chip the ports that their files describe. What is not listed takes any number: Concat, Sum, optimisers, loops,
composites.
"""

from __future__ import annotations

from collections.abc import Mapping

_NAMES: Mapping[int, str] = {
    0: """
        RandomNormal RandomUniform
    """,
    1: """
        Abs Acos Acosh ArgMax ArgMin AscendQuant Asin Asinh Atan Atanh AveragePool BNTrainingReduce
        Bernoulli Binarizer BitCast BitwiseNot BlackmanWindow Cast Ceil Celu ConfusionTransposeD
        ConstantOfShape Cos Cosh DepthToSpace Det DynamicQuantizeLinear Elu Erf Exp EyeLike Flatten Floor
        Gelu GlobalAveragePool GlobalLpPool GlobalMaxPool GuaranteeConst HammingWindow HannWindow
        HardSigmoid HardSwish Hardmax Identity If IsInf IsNaN LRN LabelEncoder LeakyRelu Log LogSoftmax
        LpNormalization LpPool MaxPool MeanVarianceNormalization Mish Muls Multinomial Neg NonZero Not
        PlaceholderWithDefault PreventGradient RandomNormalLike RandomUniformLike Reciprocal Relu ReluV2
        Round Rsqrt Selu Shape Shrink Sigmoid Sign Sin Sinh Size Snapshot Softmax Softplus Softsign
        SpaceToDepth Sqrt Square StopGradient Swish Tan Tanh TfIdfVectorizer ThresholdedRelu Transpose
        TreeEnsemble Unique
    """,
    2: """
        Add AffineGrid And ArrayFeatureExtractor AscendDequant AscendRequant AscendWeightQuant Assign
        BitShift BitwiseAnd BitwiseOr BitwiseXor CastLike CenterCropPad Compress ConfusionSoftmaxGrad
        CumProd CumSum Div Equal Expand Gather GatherElements GatherND Greater GreaterOrEqual GridSample
        Less LessOrEqual MatMul MaxRoiPool Mod Mul Or PRelu Pow RMSNormalization ReduceL1 ReduceL2
        ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare
        ReluGrad ReluGradV2 Reshape ReverseSequence RsqrtGrad SoftmaxGrad Split Squeeze Sub SwiGLU Tile TopK
        Trilu Unsqueeze Xor
    """,
    3: """
        BNInferenceD BatchMatMul Clip Col2Im CompositeMatMul Conv ConvTranspose DFT DequantizeLinear Dropout
        FullyConnection FusedMulAdd FusedMulAddN Gemm GroupNormalization InstanceNormalization
        LayerNormalization MaxUnpool NegativeLogLikelihoodLoss OneHot QuantizeLinear Range RoiAlign Scale
        ScatterElements ScatterND SoftmaxCrossEntropyLoss TensorScatter Where
    """,
    4: """
        BNTrainingUpdateGrad ConvInteger MatMulInteger Pad QuantConv Resize RotaryEmbedding STFT
    """,
    5: """
        BNInference BatchNormGrad BatchNormalization DeformConv MelWeightMatrix NonMaxSuppression Slice
    """,
    6: """
        GRU LinearAttention RNN
    """,
    7: """
        BNTrainingReduceGrad BNTrainingUpdate
    """,
    8: """
        LSTM QLinearMatMul
    """,
    9: """
        QLinearConv
    """,
}
MOST_INPUTS: Mapping[str, int] = {name: count for count, names in _NAMES.items() for name in names.split()}
