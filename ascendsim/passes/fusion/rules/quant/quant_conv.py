"""What the host prepares for an int8 convolution before the run.

    QuantConv(AscendQuant(x, offset o), AscendWeightQuant(w, ow), b)      =>      QuantConv(AscendQuant(x), w
        - ow, b - o * sum(w - ow))

    sum_k (x_k - o) * w_k  =  sum_k x_k * w_k  -  o * sum_k w_k            exact in int32; padding takes the
                                                  value o

So the Cube multiplies what lies in memory, and the correction costs nothing. AscendWeightQuant that
TfTagNoConstFoldingFusionPass has marked stays for DeleteNoConstFolding. CANN's pattern of this name goes from
AscendQuant to AscendDequant; here every int8 convolution is taken.
"""

from __future__ import annotations

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Graph, Node
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.fusion.rules.conv.conv_folding import lazy_constant
from ascendsim.passes.fusion.rules.quant.quant_weights import shifted_weights
from ascendsim.passes.rewriting.folding import KEEP
from ascendsim.passes.rewriting.pattern import Match, Op
from ascendsim.passes.rewriting.removal import drop_constants, remove_dead_from


class Conv2DQuantProcessFusionPass(FusionRule):
    """Weights and bias of an int8 convolution in the form that the Cube takes."""

    name = "Conv2DQuantProcessFusionPass"
    patterns = {"Conv2DQuantProcessFusion": Op("QuantConv", name="conv")}

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses operands that the host does not know, and convolutions with nothing to prepare."""
        conv = match.root
        weight, bias = conv.required(1), conv.input(2)
        quantised = _weight_quant(conv)
        sources = (
            [weight] if quantised is None else [tensor for tensor in quantised.inputs if tensor is not None]
        )
        if not all(tensor.is_constant and tensor.is_static for tensor in sources):
            return "the filter is not constant"
        if bias is not None and not bias.is_constant:
            return "the bias is not constant"
        stays = quantised is None or quantised.attr(KEEP, 0)
        if stays and (conv.attr("offset_in_bias", 0) or not conv.attr("offset_x", 0)):
            return "there is nothing left to prepare"
        return None

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Folds the weights' offset into the weights, and the data's into the bias."""
        conv = match.root
        quantised = _weight_quant(conv)
        if quantised is not None and not quantised.attr(KEEP, 0):
            weight, offset = quantised.required(0), quantised.required(1)
            prepared = lazy_constant(
                graph,
                f"{weight.name}_prepared",
                weight.element_type,
                weight.static_shape,
                [weight, offset],
                shifted_weights,
            )
            conv.set_input(1, prepared)
            remove_dead_from(quantised)
        if conv.attr("offset_x", 0) and not conv.attr("offset_in_bias", 0):
            _correct_bias(graph, conv)


def _weight_quant(conv: Node) -> Node | None:
    producer = conv.required(1).producer
    return producer if producer is not None and producer.op_type == "AscendWeightQuant" else None


def _correct_bias(graph: Graph, conv: Node) -> None:
    bias, offset = conv.input(2), int(conv.attr("offset_x", 0))
    channels = conv.required(1).static_shape[0]
    quantised = _weight_quant(conv)  # one that stays
    weights = [conv.required(1)] if quantised is None else [quantised.required(0), quantised.required(1)]

    def corrected(*arrays: Array) -> Array:
        weight = arrays[0] if quantised is None else shifted_weights(*arrays[:2])
        sums = weight.reshape(channels, -1).sum(axis=1, dtype=np.int64)
        given = arrays[-1].astype(np.int64) if bias is not None else np.zeros(channels, np.int64)
        return np.asarray((given - offset * sums).astype(np.int32))

    sources = weights if bias is None else [*weights, bias]
    conv.set_input(2, lazy_constant(graph, f"{conv.name}_bias", DType.INT32, (channels,), sources, corrected))
    conv.attributes["offset_in_bias"] = 1
    drop_constants(graph, (bias,))


RULES = (Conv2DQuantProcessFusionPass(),)
