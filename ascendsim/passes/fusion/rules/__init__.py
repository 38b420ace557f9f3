"""All graph-fusion rules, one file each.

`RULES` is the explicit list of what exists; the order of execution follows from `fusion/order.py` (stages and priorities of
`fusion/data/passes.csv`), never from the order in this tuple.
"""

from __future__ import annotations

from ascendsim.passes.fusion.rule import FusionRule
from ascendsim.passes.fusion.rules.concat_conv import ConvConcatFusionPass
from ascendsim.passes.fusion.rules.conv_batchnorm import ConvBatchnormFusionPass
from ascendsim.passes.fusion.rules.conv_bias import AABiasaddConvFusion, TBEConvAddFusion
from ascendsim.passes.fusion.rules.conv_fully_connected import ConvToFullyConnectionFusionPass
from ascendsim.passes.fusion.rules.conv_group import GroupConv2DFusionPass
from ascendsim.passes.fusion.rules.conv_scale import AConv2dMulFusion, ConvScaleFusionPass
from ascendsim.passes.fusion.rules.conv_split_concat import ASplitConv2dConcatPass
from ascendsim.passes.fusion.rules.pad_conv import PadConv2dFusionPass, PadDepthwiseConv2dFusionPass
from ascendsim.passes.fusion.rules.pad_pool import PadMaxPoolFusionPass
from ascendsim.passes.fusion.rules.pool_average import AvgPoolFusionPass, PoolingFusionPass
from ascendsim.passes.fusion.rules.pool_global import Globalavgpoolpass
from ascendsim.passes.fusion.rules.split_conv_concat import SplitConvConcatFusionPass

RULES: tuple[FusionRule, ...] = (
    SplitConvConcatFusionPass(),
    ConvConcatFusionPass(),
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
)
