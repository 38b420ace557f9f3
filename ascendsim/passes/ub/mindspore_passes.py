"""MindSpore's UB-fusion passes (buffer_fusion of 1.0.1 .. 1.3.0): patterns, in MindSpore's order.

Elementwise members: exactly one user and one data input, two where the pass says so. Numbers: MAX_ELTWISE_NUM
= 3, MIN_ELTWISE_SIZE = 2, MAX_ELTWISE_SIZE = 6, MULTI_ELTWISE_SIZE = 4. MindSpore's walk of ConvSingleIn
starts from the inputs, so that it may group the first elementwise operator behind a convolution alone before
it sees the chain (inferred from its source); here the chain up to the limit counts.
"""

from __future__ import annotations

from ascendsim.opset.facts import OpPattern as K
from ascendsim.passes.ub.cann_passes import UbPass, bn_add_relu, head
from ascendsim.passes.ub.limits import UbLimits
from ascendsim.passes.ub.pattern import ANY, Part, UbPattern, chain

ANYWISE = (K.ELEMWISE, K.BROADCAST)  # MindSpore's class ELEMWISE holds both
MULTI_NODES = 4


def mindspore_passes(limits: UbLimits) -> tuple[UbPass, ...]:
    """All passes with a rule here, in MindSpore's order."""
    single = Part("eltwise", ANYWISE)
    double = Part("eltwise1", ANYWISE, others=1)
    convolution = head("conv", K.CONVOLUTION, K.DEPTHWISE)
    reduced = head("conv", K.CONVOLUTION, shared=True)
    dx = head("dx", K.CONV_BACKPROP)
    product = head("matmul", K.MATMUL, K.BATCH_MATMUL, K.GEMM, shared=True)
    longer = Part("chain", ANYWISE, 1, max(1, limits.elementwise - 1))
    multi = (
        head("first", *ANYWISE),
        Part("second", ANYWISE),
        Part("third", ANYWISE, others=ANY, shared=True),
        Part("fourth", ANYWISE, others=ANY),
    )
    return (
        UbPass(
            "Conv2DBackpropEltwiseEltwiseFusionPass",
            (chain("dx_eltwise_eltwise", dx, double, Part("eltwise2", ANYWISE, others=ANY)),),
        ),
        UbPass("Conv2DBackpropEltwiseFusionPass", (chain("dx_eltwise", dx, single),)),
        UbPass(
            "ConvBnReduceFusionPass", (chain("conv_bnreduce", reduced, Part("bnreduce", (K.BN_REDUCE,))),)
        ),
        UbPass(
            "ConvSingleInFusionPass",
            (chain("conv_single_in", convolution, Part("eltwise", ANYWISE, 1, limits.conv_elementwise)),),
        ),
        UbPass(
            "BnupdateEltwiseFusionPass",
            (
                chain(
                    "bnupdate_eltwise", head("bnupdate", K.BN_UPDATE, shared=True), Part("eltwise", ANYWISE)
                ),
            ),
        ),
        UbPass("BnupdateEltwiseEltwiseFusionPass", (bn_add_relu(),)),
        UbPass("MatmulEltwiseFusionPass", (chain("matmul_eltwise", product, single),)),
        UbPass(
            "ConvDoubleInFusionPass",
            (chain("conv_double_in", convolution, double, Part("eltwise2", ANYWISE)),),
        ),
        UbPass("ReduceEltwiseFusionPass", _around(K.COMM_REDUCE, limits.reduce_before, limits.reduce_after)),
        UbPass("SegmentEltwiseFusionPass", _around(K.SEGMENT, limits.segment_before, limits.segment_after)),
        UbPass(
            "MultiOutputFusionPass", (chain("multi_output", *multi, most=MULTI_NODES, needs_shared=True),)
        ),
        UbPass(
            "EltwiseFusionPass", (chain("eltwise", head("first", *ANYWISE), longer, most=limits.elementwise),)
        ),
        UbPass(
            "DepthwiseConvEltwiseFusionPass", (chain("depthwise_eltwise", head("conv", K.DEPTHWISE), single),)
        ),
        UbPass(
            "MatmulConfusionTranposeFusionPass",
            (
                chain(
                    "matmul_transpose",
                    head("matmul", K.MATMUL),
                    Part("transpose", (K.CONFUSION_TRANSPOSE,), others=ANY),
                ),
            ),
        ),
    )


def _around(kind: K, before: int, after: int) -> tuple[UbPattern, ...]:
    """Up to `before` elementwise operators, one of the kind, 1 to `after` elementwise operators."""
    middle, behind = Part("middle", (kind,), others=ANY), Part("behind", ANYWISE, 1, after)
    name = f"{kind.value.lower()}_eltwise"
    return chain(f"eltwise_{name}", Part("before", ANYWISE, 1, before, others=ANY), middle, behind), chain(
        name, middle, behind
    )
