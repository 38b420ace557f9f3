"""All graph-fusion rules, one file each.

`RULES` is the explicit list of what exists; the order of execution follows from `fusion/order.py` (stages and
priorities of `fusion/data/passes.csv`), never from the order in this tuple.
"""

from __future__ import annotations

from ascendsim.passes.fusion.rule import FusionRule
from ascendsim.passes.fusion.rules.batch_matmul import BatchMatMulFusionPass, BatchMatMulV2ReshapeFusionPass
from ascendsim.passes.fusion.rules.batchnorm_inference import BatchNormBnInferFusionPass, HostBNFusionPass
from ascendsim.passes.fusion.rules.casts import CastCastFusionPass, CastRemoveFusionPass
from ascendsim.passes.fusion.rules.concat_conv import ConvConcatFusionPass
from ascendsim.passes.fusion.rules.concat_quant import ConcatQuantFusionPass
from ascendsim.passes.fusion.rules.concat_tree import ZConcatExt2FusionPass, ZConcatv2dFusionPass
from ascendsim.passes.fusion.rules.conv_batchnorm import ConvBatchnormFusionPass
from ascendsim.passes.fusion.rules.conv_bias import AABiasaddConvFusion, TBEConvAddFusion
from ascendsim.passes.fusion.rules.conv_fully_connected import ConvToFullyConnectionFusionPass
from ascendsim.passes.fusion.rules.conv_group import GroupConv2DFusionPass
from ascendsim.passes.fusion.rules.conv_scale import AConv2dMulFusion, ConvScaleFusionPass
from ascendsim.passes.fusion.rules.conv_split_concat import ASplitConv2dConcatPass
from ascendsim.passes.fusion.rules.drelu import DreluFusionPass
from ascendsim.passes.fusion.rules.fixpipe_conv import FixPipeAbilityProcessPass
from ascendsim.passes.fusion.rules.gelu import GeluFusionPass, GeluONNXFusionPass
from ascendsim.passes.fusion.rules.gemm_to_matmul import GemmToMatmulFusionPass
from ascendsim.passes.fusion.rules.json_rules import json_rules
from ascendsim.passes.fusion.rules.layer_norm import LayerNormFusionPass, LayerNormONNXFusionPass
from ascendsim.passes.fusion.rules.layer_norm_grad import LayerNormGradFusionPass
from ascendsim.passes.fusion.rules.matmul_bias import MatMulBiasAddFusionPass, MatMulReshapeBiasAddFusionPass
from ascendsim.passes.fusion.rules.momentum_loss_scale import A_MomentumLossscaleFusionPass
from ascendsim.passes.fusion.rules.mul_add import MulAddFusionPass, MulAddNPass
from ascendsim.passes.fusion.rules.mul_maximum import MulMaximumFusionPass
from ascendsim.passes.fusion.rules.pad_conv import PadConv2dFusionPass, PadDepthwiseConv2dFusionPass
from ascendsim.passes.fusion.rules.pad_pool import PadMaxPoolFusionPass
from ascendsim.passes.fusion.rules.pool_average import AvgPoolFusionPass, PoolingFusionPass
from ascendsim.passes.fusion.rules.pool_global import Globalavgpoolpass
from ascendsim.passes.fusion.rules.quant_conv import Conv2DQuantProcessFusionPass
from ascendsim.passes.fusion.rules.quant_requant import V200NotRequantFusionPass, V200RequantFusionPass
from ascendsim.passes.fusion.rules.quant_weights import (
    DeleteNoConstFolding,
    TfMergeSubFusionPass,
    TfMergeWeightQuantFusionPass,
    TfTagNoConstFoldingFusionPass,
)
from ascendsim.passes.fusion.rules.realdiv_muls import RealDiv2MulsFusionPass
from ascendsim.passes.fusion.rules.reduce_mean import AReduceMeanFusionPass
from ascendsim.passes.fusion.rules.softmax import SoftmaxFusionPass
from ascendsim.passes.fusion.rules.softmax_grad import SoftmaxGradFusionPass, ZConfusionSoftmaxGradFusionPass
from ascendsim.passes.fusion.rules.split_batchnorm import FusedBatchnormFusionPass
from ascendsim.passes.fusion.rules.split_batchnorm_grad import FusedBatchNormGradFusionPass
from ascendsim.passes.fusion.rules.split_conv_concat import SplitConvConcatFusionPass
from ascendsim.passes.fusion.rules.split_tree import ZSplitVDFusionPass, ZSplitVDFusionPassV2
from ascendsim.passes.fusion.rules.square import MulSquareFusionPass, Pow2SquareFusionPass
from ascendsim.passes.fusion.rules.squeeze_unsqueeze import SqueezeUnsqueezeFusionPass
from ascendsim.passes.fusion.rules.swish import HardSwishFusionPass, SwishFusionPass
from ascendsim.passes.fusion.rules.transpose_reshape import (
    ReshapeTransposeFusionPass,
    TransposeReshapeFusionPass,
)

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
