"""Operators, one file a family; `default_opset()` collects them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib import import_module

from ascendsim.ops.arity import MOST_INPUTS
from ascendsim.opset import InferContext, Layout, OpDef, OpSet

# Each module defines OPERATORS: tuple[OpDef, ...]. Order does not matter; a name may appear once.
FAMILIES: tuple[str, ...] = (
    "elementwise",
    "activation",
    "comparison",
    "cast",
    "quantize",
    "reduction",
    "softmax",
    "cumulative",
    "normalisation",
    "random_values",
    "conv",
    "aipp",
    "conv_transpose",
    "matmul",
    "einsum",
    "pooling",
    "recurrent",
    "resize",
    "grid_sample",
    "quantised",
    "detection",
    "shape",
    "markers",
    "control_flow",
    "switch",
    "movement",
    "padding",
    "indexing",
    "scatter",
    "sorting",
    "rearrange",
    "generators",
    "signal",
    "transdata",
    "losses",
    "rotary",
    "optimizers",
    "classical",
    "linear_attention",
    "fused_conv",
    "fused_strided",
    "fused_batchnorm",
    "fused_batchnorm_grad",
    "fused_quant",
    "fused_elementwise",
    "fused_matmul",
    "fused_movement",
    "fused_softmax",
    "fused_layer_norm",
    "fused_relu",
    "fused_training",
    "composite_members",
    "composite",
)


@cache
def default_opset() -> OpSet:
    """All built-in operators."""
    operators = (
        operator for family in FAMILIES for operator in import_module(f"ascendsim.ops.{family}").OPERATORS
    )
    return OpSet(replace(operator, most_inputs=MOST_INPUTS.get(operator.name)) for operator in operators)


__all__ = ["InferContext", "Layout", "OpDef", "OpSet", "default_opset"]
