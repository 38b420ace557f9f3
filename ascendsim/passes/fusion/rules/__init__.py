"""All graph-fusion rules, one file each.

`RULES` is the explicit list of what exists; the order of execution follows from `fusion/order.py` (stages and
priorities of `fusion/data/passes.csv`), never from the order in this tuple.
"""

from __future__ import annotations

from ascendsim.passes.fusion.rule import FusionRule
from ascendsim.passes.fusion.rules.conv.concat_conv import ConvConcatFusionPass
from ascendsim.passes.fusion.rules.conv.conv_batchnorm import ConvBatchnormFusionPass
from ascendsim.passes.fusion.rules.conv.conv_bias import AABiasaddConvFusion, TBEConvAddFusion
from ascendsim.passes.fusion.rules.conv.conv_fully_connected import ConvToFullyConnectionFusionPass
from ascendsim.passes.fusion.rules.conv.conv_group import GroupConv2DFusionPass
from ascendsim.passes.fusion.rules.conv.conv_scale import AConv2dMulFusion, ConvScaleFusionPass
from ascendsim.passes.fusion.rules.conv.conv_split_concat import ASplitConv2dConcatPass
from ascendsim.passes.fusion.rules.conv.fixpipe_conv import FixPipeAbilityProcessPass
from ascendsim.passes.fusion.rules.conv.pad_conv import PadConv2dFusionPass, PadDepthwiseConv2dFusionPass
from ascendsim.passes.fusion.rules.conv.split_conv_concat import SplitConvConcatFusionPass
from ascendsim.passes.fusion.rules.elementwise.casts import CastCastFusionPass, CastRemoveFusionPass
from ascendsim.passes.fusion.rules.elementwise.gelu import GeluFusionPass, GeluONNXFusionPass
from ascendsim.passes.fusion.rules.elementwise.mul_add import MulAddFusionPass, MulAddNPass
from ascendsim.passes.fusion.rules.elementwise.mul_maximum import MulMaximumFusionPass
from ascendsim.passes.fusion.rules.elementwise.realdiv_muls import RealDiv2MulsFusionPass
from ascendsim.passes.fusion.rules.elementwise.square import MulSquareFusionPass, Pow2SquareFusionPass
from ascendsim.passes.fusion.rules.elementwise.swish import HardSwishFusionPass, SwishFusionPass
from ascendsim.passes.fusion.rules.json_rules import json_rules
from ascendsim.passes.fusion.rules.matmul.batch_matmul import (
    BatchMatMulFusionPass,
    BatchMatMulV2ReshapeFusionPass,
)
from ascendsim.passes.fusion.rules.matmul.gemm_to_matmul import GemmToMatmulFusionPass
from ascendsim.passes.fusion.rules.matmul.matmul_bias import (
    MatMulBiasAddFusionPass,
    MatMulReshapeBiasAddFusionPass,
)
from ascendsim.passes.fusion.rules.movement.concat_tree import ZConcatExt2FusionPass, ZConcatv2dFusionPass
from ascendsim.passes.fusion.rules.movement.split_tree import ZSplitVDFusionPass, ZSplitVDFusionPassV2
from ascendsim.passes.fusion.rules.movement.squeeze_unsqueeze import SqueezeUnsqueezeFusionPass
from ascendsim.passes.fusion.rules.movement.transpose_reshape import (
    ReshapeTransposeFusionPass,
    TransposeReshapeFusionPass,
)
from ascendsim.passes.fusion.rules.normalise.batchnorm_inference import (
    BatchNormBnInferFusionPass,
    HostBNFusionPass,
)
from ascendsim.passes.fusion.rules.normalise.layer_norm import LayerNormFusionPass, LayerNormONNXFusionPass
from ascendsim.passes.fusion.rules.normalise.reduce_mean import AReduceMeanFusionPass
from ascendsim.passes.fusion.rules.normalise.softmax import SoftmaxFusionPass
from ascendsim.passes.fusion.rules.normalise.split_batchnorm import FusedBatchnormFusionPass
from ascendsim.passes.fusion.rules.pooling.pad_pool import PadMaxPoolFusionPass
from ascendsim.passes.fusion.rules.pooling.pool_average import AvgPoolFusionPass, PoolingFusionPass
from ascendsim.passes.fusion.rules.pooling.pool_global import Globalavgpoolpass
from ascendsim.passes.fusion.rules.quant.concat_quant import ConcatQuantFusionPass
from ascendsim.passes.fusion.rules.quant.quant_conv import Conv2DQuantProcessFusionPass
from ascendsim.passes.fusion.rules.quant.quant_requant import V200NotRequantFusionPass, V200RequantFusionPass
from ascendsim.passes.fusion.rules.quant.quant_weights import (
    DeleteNoConstFolding,
    TfMergeSubFusionPass,
    TfMergeWeightQuantFusionPass,
    TfTagNoConstFoldingFusionPass,
)
from ascendsim.passes.fusion.rules.training.drelu import DreluFusionPass
from ascendsim.passes.fusion.rules.training.layer_norm_grad import LayerNormGradFusionPass
from ascendsim.passes.fusion.rules.training.momentum_loss_scale import A_MomentumLossscaleFusionPass
from ascendsim.passes.fusion.rules.training.softmax_grad import (
    SoftmaxGradFusionPass,
    ZConfusionSoftmaxGradFusionPass,
)
from ascendsim.passes.fusion.rules.training.split_batchnorm_grad import FusedBatchNormGradFusionPass

RULES: tuple[FusionRule, ...] = (
    ConvBatchnormFusionPass(),
    AABiasaddConvFusion(),
    TBEConvAddFusion(),
    AConv2dMulFusion(),
    ConvScaleFusionPass(),
    ASplitConv2dConcatPass(),
    GroupConv2DFusionPass(),
    PadConv2dFusionPass(),
    PadDepthwiseConv2dFusionPass(),
    PadMaxPoolFusionPass(),
    AvgPoolFusionPass(),
    PoolingFusionPass(),
    Globalavgpoolpass(),
    ConvToFullyConnectionFusionPass(),
    ConvConcatFusionPass(),
    SplitConvConcatFusionPass(),
    BatchMatMulFusionPass(),
    BatchMatMulV2ReshapeFusionPass(),
    CastCastFusionPass(),
    CastRemoveFusionPass(),
    DreluFusionPass(),
    GeluFusionPass(),
    GeluONNXFusionPass(),
    GemmToMatmulFusionPass(),
    LayerNormFusionPass(),
    LayerNormONNXFusionPass(),
    LayerNormGradFusionPass(),
    MatMulBiasAddFusionPass(),
    MatMulReshapeBiasAddFusionPass(),
    A_MomentumLossscaleFusionPass(),
    MulAddFusionPass(),
    MulAddNPass(),
    MulMaximumFusionPass(),
    RealDiv2MulsFusionPass(),
    AReduceMeanFusionPass(),
    SoftmaxFusionPass(),
    SoftmaxGradFusionPass(),
    ZConfusionSoftmaxGradFusionPass(),
    MulSquareFusionPass(),
    Pow2SquareFusionPass(),
    SqueezeUnsqueezeFusionPass(),
    HardSwishFusionPass(),
    SwishFusionPass(),
    ReshapeTransposeFusionPass(),
    TransposeReshapeFusionPass(),
    *json_rules(),
    BatchNormBnInferFusionPass(),
    HostBNFusionPass(),
    FusedBatchnormFusionPass(),
    FusedBatchNormGradFusionPass(),
    ZConcatExt2FusionPass(),
    ZConcatv2dFusionPass(),
    ZSplitVDFusionPass(),
    ZSplitVDFusionPassV2(),
    ConcatQuantFusionPass(),
    Conv2DQuantProcessFusionPass(),
    V200NotRequantFusionPass(),
    V200RequantFusionPass(),
    DeleteNoConstFolding(),
    TfMergeSubFusionPass(),
    TfMergeWeightQuantFusionPass(),
    TfTagNoConstFoldingFusionPass(),
    FixPipeAbilityProcessPass(),
)
