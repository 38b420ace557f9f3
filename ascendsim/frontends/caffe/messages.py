"""Caffe's messages as far as they are needed: names and numbers of fields, which are public facts of its file
format.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ascendsim.frontends.protobuf import message_class

_ENUMS = {
    "Phase": "TRAIN=0 TEST=1",
    "PoolMethod": "MAX=0 AVE=1 STOCHASTIC=2",
    "RoundMode": "CEIL=0 FLOOR=1",
    "EltwiseOp": "PROD=0 SUM=1 MAX=2",
    "NormRegion": "ACROSS_CHANNELS=0 WITHIN_CHANNEL=1",
    "ReductionOp": "SUM=1 ASUM=2 SUMSQ=3 MEAN=4",
    "LayerType": "NONE=0 ACCURACY=1 BNLL=2 CONCAT=3 CONVOLUTION=4 DATA=5 DROPOUT=6 EUCLIDEAN_LOSS=7 "
    "FLATTEN=8 HDF5_DATA=9 HDF5_OUTPUT=10 IM2COL=11 IMAGE_DATA=12 INFOGAIN_LOSS=13 INNER_PRODUCT=14 LRN=15 "
    "MULTINOMIAL_LOGISTIC_LOSS=16 POOLING=17 RELU=18 SIGMOID=19 SOFTMAX=20 SOFTMAX_LOSS=21 SPLIT=22 TANH=23 "
    "WINDOW_DATA=24 ELTWISE=25 POWER=26 SIGMOID_CROSS_ENTROPY_LOSS=27 HINGE_LOSS=28 MEMORY_DATA=29 "
    "ARGMAX=30 THRESHOLD=31 DUMMY_DATA=32 SLICE=33 MVN=34 ABSVAL=35 SILENCE=36 CONTRASTIVE_LOSS=37 "
    "EXP=38 DECONVOLUTION=39",
}
_MESSAGES = {
    "BlobShape": "1 dim int64*",
    "BlobProto": "1 num int32; 2 channels int32; 3 height int32; 4 width int32; 5 data float*; "
    "7 shape BlobShape; 8 double_data double*",
    "NetStateRule": "1 phase Phase",
    "InputParameter": "1 shape BlobShape*",
    "ConvolutionParameter": "1 num_output uint32; 2 bias_term bool=true; 3 pad uint32*; "
    "4 kernel_size uint32*; 5 group uint32=1; 6 stride uint32*; 9 pad_h uint32; 10 pad_w uint32; "
    "11 kernel_h uint32; 12 kernel_w uint32; 13 stride_h uint32; 14 stride_w uint32; 18 dilation uint32*",
    "PoolingParameter": "1 pool PoolMethod=MAX; 2 kernel_size uint32; 3 stride uint32=1; 4 pad uint32; "
    "5 kernel_h uint32; 6 kernel_w uint32; 7 stride_h uint32; 8 stride_w uint32; 9 pad_h uint32; "
    "10 pad_w uint32; 12 global_pooling bool; 13 round_mode RoundMode=CEIL",
    "InnerProductParameter": "1 num_output uint32; 2 bias_term bool=true; 5 axis int32=1; 6 transpose bool",
    "LRNParameter": "1 local_size uint32=5; 2 alpha float=1; 3 beta float=0.75; "
    "4 norm_region NormRegion=ACROSS_CHANNELS; 5 k float=1",
    "ReLUParameter": "1 negative_slope float",
    "PReLUParameter": "2 channel_shared bool",
    "ELUParameter": "1 alpha float=1",
    "BatchNormParameter": "3 eps float=1e-05",
    "ScaleParameter": "1 axis int32=1; 2 num_axes int32=1; 4 bias_term bool",
    "BiasParameter": "1 axis int32=1; 2 num_axes int32=1",
    "EltwiseParameter": "1 operation EltwiseOp=SUM; 2 coeff float*",
    "ConcatParameter": "1 concat_dim uint32=1; 2 axis int32=1",
    "SliceParameter": "1 slice_dim uint32=1; 2 slice_point uint32*; 3 axis int32=1",
    "SoftmaxParameter": "2 axis int32=1",
    "FlattenParameter": "1 axis int32=1; 2 end_axis int32=-1",
    "ReshapeParameter": "1 shape BlobShape; 2 axis int32; 3 num_axes int32=-1",
    "PowerParameter": "1 power float=1; 2 scale float=1; 3 shift float",
    "ReductionParameter": "1 operation ReductionOp=SUM; 2 axis int32; 3 coeff float=1",
    "PermuteParameter": "1 order uint32*",
    # ATC's extension of Caffe (its guide, chapter on Proposal)
    "ProposalParameter": "1 feat_stride float=16; 2 base_size float=16; 3 min_size float=16; 4 ratio float*; "
    "5 scale float*; 6 pre_nms_topn int32=3000; 7 post_nms_topn int32=304; 8 iou_threshold float=0.7; "
    "9 output_actual_rois_num bool",
    # of the forks for DeepLab and PSPNet, which ATC's caffe.proto has taken over
    "InterpParameter": "1 height int32; 2 width int32; 3 zoom_factor int32=1; 4 shrink_factor int32=1; "
    "5 pad_beg int32; 6 pad_end int32",
    "TileParameter": "1 axis int32=1; 2 tiles int32",
    "LayerParameter": "1 name string; 2 type string; 3 bottom string*; 4 top string*; 7 blobs BlobProto*; "
    "8 include NetStateRule*; 9 exclude NetStateRule*; 104 concat_param ConcatParameter; "
    "106 convolution_param ConvolutionParameter; 110 eltwise_param EltwiseParameter; "
    "117 inner_product_param InnerProductParameter; 118 lrn_param LRNParameter; "
    "121 pooling_param PoolingParameter; 122 power_param PowerParameter; 123 relu_param ReLUParameter; "
    "125 softmax_param SoftmaxParameter; 126 slice_param SliceParameter; 131 prelu_param PReLUParameter; "
    "133 reshape_param ReshapeParameter; 135 flatten_param FlattenParameter; "
    "136 reduction_param ReductionParameter; 138 tile_param TileParameter; "
    "139 batch_norm_param BatchNormParameter; 140 elu_param ELUParameter; 141 bias_param BiasParameter; "
    "142 scale_param ScaleParameter; 143 input_param InputParameter; 201 proposal_param ProposalParameter; "
    "202 permute_param PermuteParameter; "
    "2143 interp_param InterpParameter",
    # the layers of files before 2015 (`old_layers`); a type of V1 is a number of a list
    "V0LayerParameter": "1 name string; 2 type string; 3 num_output uint32; 4 biasterm bool=true; "
    "7 pad uint32; 8 kernelsize uint32; 9 group uint32=1; 10 stride uint32=1; 11 pool PoolMethod=MAX; "
    "13 local_size uint32=5; 14 alpha float=1; 15 beta float=0.75; 22 k float=1; 50 blobs BlobProto*; "
    "65 concat_dim uint32=1",
    "V1LayerParameter": "1 layer V0LayerParameter; 2 bottom string*; 3 top string*; 4 name string; "
    "5 type LayerType; 6 blobs BlobProto*; 9 concat_param ConcatParameter; "
    "10 convolution_param ConvolutionParameter; 17 inner_product_param InnerProductParameter; "
    "18 lrn_param LRNParameter; 19 pooling_param PoolingParameter; 21 power_param PowerParameter; "
    "24 eltwise_param EltwiseParameter; 30 relu_param ReLUParameter; 31 slice_param SliceParameter; "
    "32 include NetStateRule*; 33 exclude NetStateRule*; 39 softmax_param SoftmaxParameter",
    "NetParameter": "1 name string; 2 layers V1LayerParameter*; 3 input string*; 4 input_dim int32*; "
    "8 input_shape BlobShape*; 100 layer LayerParameter*",
}
_PACKED = ("BlobShape.dim", "BlobProto.data", "BlobProto.double_data")


@cache
def net_class() -> Any:
    """The class of NetParameter."""
    return message_class("ascendsim.caffe", "NetParameter", _MESSAGES, _ENUMS, _PACKED)
