"""TensorFlow's auxiliary operators around quantised weights.

    TfTagNoConstFoldingFusionPass  marks operators that quantise constants, so that constant folding leaves
                                   them for the rules below
    TfMergeSubFusionPass           Conv(x, Sub([Cast] w, o))                 =>  Conv(x, w - o)
                                   constants joined
    TfMergeWeightQuantFusionPass   Sub(AscendWeightQuant(w, o1), o2)         =>  AscendWeightQuant(w, o1 + o2)
                                   Add(QuantConv(x, AscendWeightQuant), b)   =>  QuantConv(x,
                                       AscendWeightQuant, b)
    DeleteNoConstFolding           takes the marks away; AscendWeightQuant of constants becomes one

Names of patterns are those of CANN's log (introduction to fusion; FE of the public graph engine, whose
patterns 0 and 1 are those with and without a bias). Patterns without a number are this project's: CANN looks
at whole chains from AscendQuant to AscendDequant only. The pattern of TfMergeSubFusionPass is not public.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Graph, Node, Tensor
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.fusion.rules.conv.conv_folding import is_per_channel, lazy_constant, other_input
from ascendsim.passes.rewriting.folding import KEEP
from ascendsim.passes.rewriting.pattern import Any, Const, Match, Op
from ascendsim.passes.rewriting.removal import drop_constants
from ascendsim.passes.rewriting.replace import replace_root

QUANTISERS = "AscendWeightQuant|DequantizeLinear|QuantizeLinear"
_INT8_CONV = Op(
    "QuantConv",
    Op("AscendQuant", shared=True),
    Op("AscendWeightQuant|Sub", name="weights", shared=True),
    name="conv",
)


class TfTagNoConstFoldingFusionPass(FusionRule):
    """Marks quantisers of constants."""

    name = "TfTagNoConstFoldingFusionPass"
    patterns = {
        "tfTagNoConstFoldingFusion0": Op(
            "AscendDequant", Op("Add", _INT8_CONV, Const("bias"), commutative=True), Any("scale")
        ),
        "tfTagNoConstFoldingFusion1": Op("AscendDequant", _INT8_CONV, Any("scale")),
        "TfTagNoConstFoldingFusionPass": Op(QUANTISERS, Const("values"), name="quantiser"),
    }

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Leaves those that are marked."""
        quantiser = _marked(match)
        if quantiser is None:
            return "nothing quantises the weights"
        return "it is marked already" if quantiser.attr(KEEP, 0) else None

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Sets the mark."""
        quantiser = _marked(match)
        assert quantiser is not None
        quantiser.attributes[KEEP] = 1


def _marked(match: Match) -> Node | None:
    """The quantiser of a match: the root, or what makes a convolution's weights, behind a subtraction too."""
    node: Node | None = match.nodes.get("weights", match.root)
    if node is not None and node.op_type == "Sub":
        node = node.required(0).producer
        return node if node is not None and node.op_type == "AscendWeightQuant" else None
    return node


class DeleteNoConstFolding(FusionRule):
    """Takes the marks away."""

    name = "DeleteNoConstFolding"
    patterns = {
        "deleteNoConstFoldingFusion0": Op("AscendWeightQuant", name="quantiser"),
        "DeleteNoConstFolding": Op("DequantizeLinear|QuantizeLinear", name="quantiser"),
    }

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Leaves those without a mark."""
        return None if match.root.attr(KEEP, 0) else "it is not marked"

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Removes the mark; weights that are known now are computed once, and not in every run."""
        quantiser = match.root
        del quantiser.attributes[KEEP]
        sources = [tensor for tensor in quantiser.inputs if tensor is not None]
        if quantiser.op_type != "AscendWeightQuant" or not all(
            t.is_constant and t.is_static for t in sources
        ):
            return
        prepared = lazy_constant(
            graph,
            f"{sources[0].name}_prepared",
            sources[0].element_type,
            quantiser.output.static_shape,
            sources,
            shifted_weights,
        )
        replace_root(graph, quantiser, prepared)
        drop_constants(graph, sources)


def shifted_weights(weight: Array, offset: Array) -> Array:
    """What AscendWeightQuant makes of weights: weight - offset, saturated to int8."""
    return np.clip(weight.astype(np.int32) - offset.astype(np.int32), -128, 127)


class TfMergeSubFusionPass(FusionRule):
    """Constant subtractions from weights join the weights."""

    name = "TfMergeSubFusionPass"
    patterns = {
        "SubConv": Op("Conv", Any("x"), Op("Sub", Const("w"), Const("o"), name="sub"), name="conv"),
        "CastSubConv": Op(
            "Conv",
            Any("x"),
            Op("Sub", Op("Cast", Const("w"), name="cast"), Const("o"), name="sub"),
            name="conv",
        ),
    }

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Needs static shapes of one form."""
        sub, weight = match.nodes["sub"], match.tensors["w"]
        static = sub.output.is_static and weight.is_static and sub.output.static_shape == weight.static_shape
        return (
            None
            if static and sub.output.element_type.is_float
            else "the weights are not a static array of floats"
        )

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Joins the constants."""
        sub, sources = match.nodes["sub"], [match.tensors["w"], match.tensors["o"]]
        kind = sub.output.element_type

        def values(weight: Array, offset: Array) -> Array:
            # the operators' own arithmetic: bit for bit
            return np.asarray(weight.astype(kind.numpy) - offset)

        joined = lazy_constant(
            graph, f"{sources[0].name}_joined", kind, sub.output.static_shape, sources, values
        )
        replace_root(graph, sub, joined)
        drop_constants(graph, sources)


class TfMergeWeightQuantFusionPass(FusionRule):
    """Subtractions behind AscendWeightQuant join it, a bias behind the convolution joins that."""

    name = "TfMergeWeightQuantFusionPass"
    patterns = {
        "tfMergeWeightQuantFusion0": Op(
            "Sub", Op("AscendWeightQuant", Const("w"), Const("o1"), name="quantiser"), Const("o2"), name="sub"
        ),
        "tfMergeWeightQuantFusion1": Op(
            "Add",
            Op("QuantConv", None, Op("AscendWeightQuant", name="quantiser", shared=True), name="conv"),
            Const("bias"),
            commutative=True,
            name="add",
        ),
    }

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses sums that leave int8, and summands that are no bias."""
        if match.pattern == "tfMergeWeightQuantFusion0":
            return _offset_refusal([match.tensors["w"], match.tensors["o1"], match.tensors["o2"]])
        conv = match.nodes["conv"]
        if conv.input(2) is not None:
            return "the convolution has a bias already"
        shape = conv.output.shape
        if shape is None or not isinstance(shape[1], int):
            return "the channels are not known"
        bias = match.tensors["bias"]
        whole = (
            is_per_channel(bias, shape[1], len(shape))
            and bias.elements == shape[1]
            and bias.dtype is DType.INT32
        )
        return None if whole else "the summand is not one int32 value a channel"

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Adds the offsets, or makes the summand the bias."""
        if match.pattern == "tfMergeWeightQuantFusion1":
            conv = match.nodes["conv"]
            bias = other_input(match.root, conv.output)
            channels = conv.required(1).static_shape[0]
            conv.set_input(
                2,
                lazy_constant(
                    graph, f"{bias.name}_row", DType.INT32, (channels,), [bias], lambda array: array
                ),
            )
            replace_root(graph, match.root, conv.output)
            drop_constants(graph, (bias,))
            return
        quantiser, sources = match.nodes["quantiser"], [match.tensors["o1"], match.tensors["o2"]]
        shape = np.broadcast_shapes(*(tensor.static_shape for tensor in sources))
        offset = lazy_constant(
            graph, f"{sources[0].name}_joined", sources[0].element_type, shape, sources, lambda a, b: a + b
        )
        quantiser.set_input(1, offset)
        replace_root(graph, match.root, quantiser.output)
        drop_constants(graph, sources)


def _offset_refusal(tensors: Sequence[Tensor]) -> str | None:
    """Why two offsets cannot be taken off at once: a step on the way, or the end, may leave int8."""
    if not all(tensor.is_static for tensor in tensors):
        return "the weights are not static"
    if np.broadcast_shapes(*(tensor.static_shape for tensor in tensors)) != tensors[0].static_shape:
        return "an offset is larger than the weights"
    held = [tensor.constant for tensor in tensors if tensor.constant is not None]
    if not all(constant.available for constant in held):
        return None
    weight, first, second = (constant.array().astype(np.int32) for constant in held)
    steps = (weight - first, weight - first - second, first + second)
    inside = all(np.all((step >= -128) & (step <= 127)) for step in steps)
    return None if inside else "a difference leaves int8"


RULES = (
    TfTagNoConstFoldingFusionPass(),
    DeleteNoConstFolding(),
    TfMergeSubFusionPass(),
    TfMergeWeightQuantFusionPass(),
)
