"""Attributes that a node leaves out mean what ONNX's schemas say, in the shape rule, the values and the
work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest

from ascendsim.core.dtypes import DType
from tests.support.operator_cases import CHIPS, Case, all_operator_cases, build, compute, settled, work_of
from tests.support.work_text import describe

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

# Defaults of the schema that say nothing of a node: found out from another attribute, or read by another
# operator set.
UNUSED = {("RNN", "activations"), ("Resize", "cubic_coeff_a")}

BY_VOLUME_AXIS = {"strides": (1, 1, 1), "dilations": (1, 1, 1), "pads": (0,) * 6}
BY_AXIS = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1)}

# Operators of our own have no schema; their defaults are those of CANN's prototypes and of the ONNX operators
# that they stand for.
OWN: dict[str, dict[str, Any]] = {
    "ascend::BNInference": {"epsilon": 1e-5},
    "ascend::BNTrainingUpdate": {"epsilon": 1e-5, "momentum": 0.9},
    "ascend::BatchNormGrad": {"epsilon": 1e-5, "training_mode": 1},
    "ascend::BNInferGrad": {"epsilon": 1e-5},
    "ascend::BiasAddGrad": {"data_format": "NHWC"},
    "ascend::AvgPoolV2Grad": {"count_include_pad": 0, "ceil_mode": 0, "auto_pad": "NOTSET"},
    "ascend::BNTrainingUpdateGrad": {"epsilon": 1e-5},
    "ascend::BNTrainingReduceGrad": {"epsilon": 1e-5},
    **{
        f"ascend::{kind}Backprop{operand}": {"groups": 1, "auto_pad": "NOTSET", **by_axis}
        for kind, by_axis in (("Conv2D", BY_AXIS), ("Conv3D", BY_VOLUME_AXIS), ("DepthwiseConv2D", BY_AXIS))
        for operand in ("Input", "Filter")
    },
    "ascend::ResizeBilinearV2Grad": {"coordinate_transformation_mode": "half_pixel"},
    "ascend::ResizeNearestNeighborV2Grad": {
        "coordinate_transformation_mode": "half_pixel",
        "nearest_mode": "round_prefer_floor",
    },
    "ascend::SoftmaxGrad": {"axis": -1},
    "ascend::SoftmaxGradExt": {"axis": -1},
    "ascend::ConfusionSoftmaxGrad": {"axis": -1},
    "ascend::BatchMatMul": {"adj_x1": 0, "adj_x2": 0},
    "ascend::CompositeMatMul": {
        "transpose_a": 0,
        "transpose_b": 0,
        "format_a": "ND",
        "format_b": "ND",
        "format_out": "ND",
    },
    "ascend::ConfusionTransposeD": {"transpose_first": 0},
    "ascend::AscendQuant": {"scale": 1.0, "offset": 0.0, "dtype": DType.INT8},
    "ascend::AscendDequant": {"relu_flag": 0, "dtype": DType.FLOAT32},
    "ascend::AscendRequant": {"relu_flag": 0, "offset": 0.0, "dtype": DType.INT8},
    "ascend::QuantConv": {
        "offset_x": 0,
        "offset_in_bias": 0,
        "relu_flag": 0,
        "group": 1,
        "dtype": DType.FLOAT32,
    },
    "ascend::DequantConv": {"group": 1},
    "ascend::AscendAntiQuant": {"scale": 1.0, "offset": 0.0, "dtype": DType.FLOAT32},
    "ascend::QuantMatMul": {"offset_x": 0, "transA": 0, "transB": 0},
    "ascend::QuantConvTranspose": {"group": 1},
    "ascend::FusedMulApplyMomentum": {"norm_coefficient": 0.0},
    "ascend::AippConv": {"group": 1},
    "ascend::GeluGrad": {"approximate": "none"},
    "ascend::SwishGrad": {"scale": 1.0},
    "ascend::HardSigmoidGrad": {"alpha": 0.16666666, "beta": 0.5},
    "ascend::HardtanhGrad": {"min_val": -1.0, "max_val": 1.0},
    "ascend::LeakyReluGrad": {"negative_slope": 0.0},
    "ascend::EluGradV2": {"alpha": 1.0, "scale": 1.0, "input_scale": 1.0, "is_result": 0},
    "ascend::SoftplusV2Grad": {"beta": 1.0, "threshold": 20.0},
    "ascend::LogSoftmaxGrad": {"axis": -1},
    "ascend::NLLLoss": {"reduction": "mean", "ignore_index": -100},
    "ascend::NLLLossGrad": {"reduction": "mean", "ignore_index": -100},
    "ascend::EmbeddingDenseGrad": {"padding_idx": -1, "scale_grad_by_freq": 0},
    "ascend::StridedSliceGrad": {
        "begin_mask": 0,
        "end_mask": 0,
        "ellipsis_mask": 0,
        "new_axis_mask": 0,
        "shrink_axis_mask": 0,
    },
    "ascend::PadV3Grad": {"mode": "reflect", "paddings_contiguous": 1},
    "ascend::DropOutGenMask": {"seed": 0, "seed2": 0},
    "ascend::SquareSumV2": {"keep_dims": 0},
    "ascend::ApplyMomentum": {"use_nesterov": 0},
    "ascend::ApplyAdam": {"use_nesterov": 0},
    "ascend::ApplyAdamW": {"maximize": 0},
    "ascend::ApplyAdamWV2": {
        **dict.fromkeys(("lr", "beta1", "beta2", "weight_decay", "eps"), 0.1),
        "maximize": 0,
        "amsgrad": 0,
    },
    "ascend::SwiGlu": {"dim": -1},
    "ascend::SwiGluGrad": {"dim": -1},
    "ascend::RotaryPositionEmbedding": {"mode": 0},
    "ascend::RotaryPositionEmbeddingGrad": {"mode": 0},
    "ascend::LpNormV2": {"p": 2.0, "axes": (), "keepdim": 0},
    "ascend::RmsNorm": {"epsilon": 1e-6},
    "ascend::AddRmsNorm": {"epsilon": 1e-6},
    "ascend::AddRmsNormBias": {"epsilon": 1e-6},
    "ascend::RmsNormQuant": {"epsilon": 1e-6, "dst_type": 2},
    "ascend::AddRmsNormQuant": {"epsilon": 1e-6, "div_mode": 1, "dst_type": 2},
    "ascend::RmsNormDynamicQuant": {"epsilon": 1e-6, "dst_type": 2},
    "ascend::AddRmsNormDynamicQuant": {"epsilon": 1e-6, "dst_type": 2},
    "ascend::DynamicQuant": {"dst_type": 2},
    "ascend::AscendQuantV2": {"sqrt_mode": 0, "round_mode": "round", "axis": -1, "dst_type": 2},
    "ascend::DequantSwigluQuant": {"quant_mode": "static", "activate_left": 0, "dst_type": 2},
    "ascend::GeGluV2": {"dim": -1, "approximate": 1, "activate_left": 0},
    "ascend::ApplyRotaryPosEmb": {"layout": 1, "rotary_mode": "half"},
    "ascend::split_qkv_rmsnorm_rope": {"eps": 1e-6},
    "ascend::MoeGatingTopKSoftmax": {"k": 1},
    "ascend::MoeGatingTopK": {
        **{"k": 1, "k_group": 1, "group_count": 1, "group_select_mode": 0, "renorm": 0, "norm_type": 0},
        **{"out_flag": 0, "routed_scaling_factor": 1.0, "eps": 1e-20},
    },
    "ascend::MoeInitRoutingV2": {
        **{"active_num": 0, "drop_pad_mode": 0, "expert_tokens_count_or_cumsum_flag": 0},
        "expert_tokens_before_capacity_flag": 0,
    },
    "ascend::MoeFinalizeRoutingV2": {"drop_pad_mode": 0},
    "ascend::Sort": {"axis": -1, "descending": 0},
}


def _defaults(case: Case) -> Mapping[str, Any]:
    """Values that attributes of the newest form of an operator have if they are left out."""
    if case.operator in OWN:
        return OWN[case.operator]
    if not onnx.defs.has(case.op_type, case.domain):
        return {}
    schema = onnx.defs.get_schema(case.op_type, domain=case.domain)
    given = {name: attribute.default_value for name, attribute in schema.attributes.items()}
    stated = {name: onnx.helper.get_attribute_value(value) for name, value in given.items() if value.type}
    return {name: _plain(name, value) for name, value in stated.items() if (case.op_type, name) not in UNUSED}


def _plain(name: str, value: Any) -> Any:
    """An attribute as graphs hold it."""
    if name in ("dtype", "output_datatype"):
        return DType.of(onnx.helper.tensor_dtype_to_np_dtype(value))
    if isinstance(value, list):
        return tuple(_plain(name, item) for item in value)
    if isinstance(value, float):
        return float(str(np.float32(value)))  # 0.01, not the float32 next to it
    return value.decode() if isinstance(value, bytes) else value


def _behaviour(case: Case) -> tuple[Any, ...]:
    node = settled(case)
    shapes = [(tensor.shape, tensor.dtype) for tensor in build(case).outputs]
    return (
        shapes,
        [array.tobytes() for array in compute(node, case.inputs)],
        [describe(work_of(node, chip)) for chip in CHIPS],
    )


def test_left_out_attributes_are_those_of_the_schema() -> None:
    checked = set()
    for case in all_operator_cases():
        defaults = _defaults(case)
        absent = {name: value for name, value in defaults.items() if name not in case.attributes}
        stated = {name for name, value in defaults.items() if case.attributes.get(name) == value}
        if not absent and not stated:
            continue
        bare = replace(
            case, attributes={name: value for name, value in case.attributes.items() if name not in stated}
        )
        full = replace(case, attributes={**case.attributes, **absent})
        assert _behaviour(bare) == _behaviour(full), f"{case.name}: {absent} {stated}"
        checked.add(case.operator)
    assert set(OWN) <= checked
    assert len(checked) > 80
