"""Levers: changes of the model that make it faster on the chip, each a rewrite of a copy of the user's graph.

Fusion happens on its own; a lever is for the user to pull, because it changes the model's file, its interface
or its values. The list follows the Ascend 310 tuning guide: operator split, operator replacement, channel
alignment, parameter change, layout tricks.
"""

from ascendsim.passes.levers.attention_pattern import AttentionPattern
from ascendsim.passes.levers.channel_shuffle import ChannelShuffle
from ascendsim.passes.levers.channels import AlignChannels
from ascendsim.passes.levers.flat_rows import FlatRows
from ascendsim.passes.levers.half_outputs import HalfOutputs
from ascendsim.passes.levers.identity_conv import IdentityConv
from ascendsim.passes.levers.layer_norm_pattern import LayerNormPattern
from ascendsim.passes.levers.lever import (
    Lever,
    LeverContext,
    Relation,
    Rewritten,
    Site,
    apply_lever,
    find_sites,
)
from ascendsim.passes.levers.narrow_types import NarrowTypes
from ascendsim.passes.levers.pad_tokens import PadTokens
from ascendsim.passes.levers.pow_to_mul import PowToMul
from ascendsim.passes.levers.resize_sizes import ResizeSizes
from ascendsim.passes.levers.softmax_axis import SoftmaxAxis
from ascendsim.passes.levers.sort_as_float import SortAsFloat
from ascendsim.passes.levers.transpose_list import TransposeList

LEVERS: tuple[Lever, ...] = (
    NarrowTypes(),
    SortAsFloat(),
    PowToMul(),
    AlignChannels(),
    ChannelShuffle(),
    ResizeSizes(),
    IdentityConv(),
    HalfOutputs(),
    TransposeList(),
    LayerNormPattern(),
    PadTokens(),
    FlatRows(),
    SoftmaxAxis(),
    AttentionPattern(),
)
"""Every lever, in the order in which several of them are applied to one graph."""

__all__ = [
    "LEVERS",
    "AlignChannels",
    "AttentionPattern",
    "ChannelShuffle",
    "FlatRows",
    "HalfOutputs",
    "IdentityConv",
    "LayerNormPattern",
    "Lever",
    "LeverContext",
    "NarrowTypes",
    "PadTokens",
    "PowToMul",
    "Relation",
    "ResizeSizes",
    "Rewritten",
    "Site",
    "SoftmaxAxis",
    "SortAsFloat",
    "TransposeList",
    "apply_lever",
    "find_sites",
]
