"""CANN's UB-fusion passes: their patterns.

Facts of a pass (stage, priority, default, whether it may be switched off) stand in
`passes/fusion/data/ub_fusion.csv` under the same name. Patterns: canndev operator fusion passes (public copy
of 2022) and the public rule reference, in this module's own terms. Forms with an elementwise operator in
front of a convolution are left out: the result would have to go from the Unified Buffer to L1.

Where sources say less: TbeConv2DEltwisePass is the public form conv2d + relu + eltwise; the common rules take
as many elementwise operators as the profile allows. BnupdateEltwiseEltwiseFusionPass has MindSpore's pattern
of that name.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from ascendsim.graph.ir import Node
from ascendsim.opset.facts import OpPattern as K
from ascendsim.passes.ub.limits import UbLimits
from ascendsim.passes.ub.pattern import ANY, Part, UbPattern, chain

ELEMWISE, EITHER = (K.ELEMWISE,), (K.ELEMWISE, K.BROADCAST)
PRODUCTS = (K.MATMUL, K.GEMM, K.BATCH_MATMUL)
# Operators behind a fully connected layer, from the public list of the pass, in ONNX's names (Relu6 = Clip,
# Power = Pow, AddN = Sum)
BEHIND_PRODUCT = frozenset(
    {
        "Elu",
        "LeakyRelu",
        "Gelu",
        "Softsign",
        "Clip",
        "Relu",
        "Softplus",
        "Sigmoid",
        "Tanh",
        "Selu",
        "Add",
        "Sum",
        "PRelu",
        "Mul",
        "Pow",
    }
)
# operators between quantised tensors: dequantised in front and quantised behind in themselves
OF_INTEGERS = frozenset({"QLinearAdd", "QLinearMul"})
FIRST_OF_TWO = frozenset({"Relu", "LeakyRelu", "Add", "Muls", "Sum"})
# Operators behind a batched product and its bias where the latter is an operator (rule reference,
# TbeBatchMatmulElementWiseFusionPass: elemwise1; TbeFullyconnectionElemwiseDequantFusionPass takes two
# operators only if the second is Relu6). FusedMulAdd behind a bias does not come up.
BEHIND_BIAS = frozenset({"Add", "Relu"})


@dataclass(frozen=True, slots=True)
class UbPass:
    """A UB-fusion pass.

    Attributes:
        name: CANN's or MindSpore's.
        patterns: In the order in which they are tried.
        bias_apart: Whether a bias of a batched product counts as an operator behind it. Here graph fusion
            makes it an input on every chip, which is the same work.
    """

    name: str
    patterns: tuple[UbPattern, ...]
    bias_apart: bool = False

    def refusal(self, nodes: tuple[Node, ...]) -> str | None:
        """Why a match must not be fused, apart from what patterns say; None if it may."""
        for node in nodes:
            if node.op_type.startswith("Reduce") and node.origin.get("framework") == "caffe":
                return "a reduction of Caffe cannot be fused (one of TensorFlow can)"
        return _bias_refusal(nodes) if self.bias_apart else None


def _bias_refusal(nodes: tuple[Node, ...]) -> str | None:
    product, *behind = nodes
    if product.op_type != "BatchMatMul" or product.input(2) is None:
        return None
    refused = next((node.op_type for node in behind if node.op_type not in BEHIND_BIAS), None)
    return (
        None if refused is None else f"behind a batched product and its bias {refused} has a task of its own"
    )


def head(name: str, *kinds: K, shared: bool = False) -> Part:
    """The first operator: its inputs do not matter."""
    return Part(name, kinds, others=ANY, shared=shared)


def optional(name: str, kind: K, others: int | None = ANY) -> Part:
    """An operator that may be missing."""
    return Part(name, (kind,), least=0, others=others)


def gated(name: str, first: Part, *between: Part, behind: tuple[Part, ...] = ()) -> UbPattern:
    """The product x * sigmoid(x) behind an operator: x is read twice."""
    sigmoid = Part("sigmoid", EITHER, types=frozenset({"Sigmoid", "QLinearSigmoid"}))
    product = Part("mul", EITHER, types=frozenset({"Mul", "QLinearMul"}))
    source = between[-1] if between else first
    parts = (first, *between, sigmoid, product, *behind)
    edges = [(first.name, between[0].name)] if between else []
    edges += [(source.name, "sigmoid"), (source.name, "mul"), ("sigmoid", "mul")]
    names = ["mul", *(part.name for part in behind)]
    return UbPattern(name, parts, tuple(edges) + tuple(pairwise(names)))


def cann_passes(limits: UbLimits) -> tuple[UbPass, ...]:
    """All passes with a rule here but the automatic one, in no particular order."""
    return (*convolution_passes(limits), *product_passes(limits), *vector_passes(limits))


def convolution_passes(limits: UbLimits) -> tuple[UbPass, ...]:
    """Passes whose head is a convolution."""
    conv, dx = head("conv", K.CONVOLUTION), head("dx", K.CONV_BACKPROP)
    dequant = Part("dequant", (K.DEQUANT,), others=ANY)
    quant = Part("quant", (K.QUANT,), others=ANY)
    maybe_quant = optional("quant", K.QUANT)
    vadd = Part("vadd", EITHER, others=1, types=frozenset({"Add"}))
    relu = Part("relu", EITHER)
    leaky = Part("leakyrelu", EITHER, types=frozenset({"LeakyRelu"}))
    one, two = Part("eltwise1", ELEMWISE), Part("eltwise2", ELEMWISE)
    other = Part("eltwise1", ELEMWISE, others=1)
    rules = (
        optional("dequant", K.DEQUANT),
        Part("elemwise", ELEMWISE, 0, limits.conv_elementwise),
        maybe_quant,
    )
    several = (rules[0], Part("elemwise", ELEMWISE, 1, limits.conv_elementwise, shared=True), maybe_quant)
    depthwise = head("conv", K.DEPTHWISE)
    return (
        UbPass("TbeConvDequantQuantFusionPass", (chain("conv_dequant_quant", conv, dequant, quant),)),
        UbPass(
            "TbeConv2DEltwisePass",
            (chain("conv_relu_eltwise", conv, one, Part("eltwise2", ELEMWISE, others=1)),),
        ),
        UbPass(
            "TbeConvSigmoidMulQuantFusionPass",
            (
                gated("conv_sigmoid_mul", conv, behind=(maybe_quant,)),
                gated("conv_dequant_sigmoid_mul", conv, dequant, behind=(maybe_quant,)),
                gated(
                    "conv_fixpipe_sigmoid_mul",
                    conv,
                    Part("FixPipe", (K.FIXPIPE,), others=ANY),
                    behind=(maybe_quant,),
                ),
            ),
        ),
        UbPass(
            "TbeConvDequantSigmoidMulAddFusionPass",
            (
                gated(
                    "conv_sigmoid_mul_add",
                    conv,
                    behind=(Part("add", ELEMWISE, others=1, types=frozenset({"Add"})),),
                ),
                gated(
                    "conv_dequant_sigmoid_mul_add", conv, dequant, behind=(Part("add", ELEMWISE, others=1),)
                ),
            ),
        ),
        UbPass("TbeConv2dAddRelu6MulMulFusionPass", (hard_swish("conv_add_relu6_mul_mul"),)),
        UbPass("TbeConvDoubleInFusionPass", (chain("conv_double_in", conv, other, two),)),
        UbPass(
            "TbeConvDequantVaddReluQuantFusionPass",
            (
                chain("conv_dequant_vadd_relu_quant", conv, dequant, vadd, relu, quant),
                chain("conv_dequant_leakyrelu_vadd_quant", conv, dequant, leaky, vadd, quant),
                chain("conv_dequant_vadd_quant", conv, dequant, vadd, quant),
                chain("conv_vadd_int8", conv, Part("vadd", EITHER, others=1, types=OF_INTEGERS)),
            ),
        ),
        UbPass(
            "TbeConvDequantVaddReluFusionPass",
            (
                chain("conv_dequant_vadd_relu", conv, dequant, vadd, relu),
                chain("conv_dequant_leakyrelu_vadd", conv, dequant, leaky, vadd),
                chain("conv_dequant_vadd", conv, dequant, vadd),
            ),
        ),
        UbPass(
            "TbeConvRequantFusionPass",
            (chain("conv_requant", conv, Part("requant", (K.REQUANT,), others=ANY)),),
        ),
        UbPass(
            "TbeConvBnreduceFusionPass",
            (
                chain(
                    "conv_bnreduce",
                    head("conv", K.CONVOLUTION, shared=True),
                    Part("bnreduce", (K.BN_REDUCE,), others=ANY),
                ),
            ),
        ),
        UbPass(
            "TbeConv2DBackpropElemwiseFusionPass",
            (
                chain("dx_eltwise_eltwise", dx, Part("eltwise", ELEMWISE, others=ANY), other),
                chain("dx_eltwise", dx, Part("eltwise", ELEMWISE, others=1)),
            ),
        ),
        UbPass(
            "TbeDxElemwisePass",
            (
                chain("dx_elemwise", dx, one),
                chain("dx_elemwise_input", dx, other),
            ),
        ),
        UbPass(
            "TbeDepthwiseConvElemwiseFusionPass",
            (
                chain("depthwise_eltwise_quant", depthwise, Part("eltwise", EITHER), maybe_quant),
                chain("depthwise_eltwise_input", depthwise, Part("eltwise", EITHER, others=1)),
                gated("depthwise_sigmoid_mul", depthwise),
            ),
        ),
        UbPass(
            "TbeDepthwiseConvDequantFusionPass",
            (
                gated("depthwise_dequant_sigmoid_mul", depthwise, dequant),
                chain("depthwise_dequant", depthwise, dequant, Part("eltwise", EITHER, 0, 1), maybe_quant),
            ),
        ),
        UbPass(
            "TbeDepthwiseConvRequantFusionPass",
            (chain("depthwise_requant", depthwise, Part("requant", (K.REQUANT,), others=ANY)),),
        ),
        UbPass(
            "TbeConvCommonRules2FusionPass",
            (chain("conv_common_several", conv, *several, needs_shared=True),),
        ),
        UbPass("TbeConvCommonRules0FusionPass", (chain("conv_common", conv, *rules),)),
        UbPass("TbeCommonRules0FusionPass", (chain("conv_common", conv, *rules),)),
    )


def hard_swish(name: str) -> UbPattern:
    """The product (x * relu6(x + 3)) / 6 behind a convolution, from its four operators."""
    conv = head("conv", K.CONVOLUTION, K.DEPTHWISE)
    parts = (
        Part("add", EITHER, types=frozenset({"Add"})),
        Part("relu6", EITHER, types=frozenset({"Clip"})),
        Part("mul1", EITHER, types=frozenset({"Mul"})),
        Part("mul2", EITHER, types=frozenset({"Mul", "Muls", "Div"})),
    )
    edges = (("conv", "add"), ("add", "relu6"), ("conv", "mul1"), ("relu6", "mul1"), ("mul1", "mul2"))
    return UbPattern(name, (conv, *parts), edges)


def product_passes(limits: UbLimits) -> tuple[UbPass, ...]:
    """Passes whose head is a matrix product."""
    dequant, quant = optional("dequant", K.DEQUANT), optional("quant", K.QUANT)
    first = Part("eltwise1", EITHER, others=ANY, types=BEHIND_PRODUCT)
    second = Part("eltwise2", EITHER, types=frozenset({"Clip"}))
    anything, more = Part("elemwise", EITHER, others=ANY), Part("elemwise1", EITHER, others=ANY)
    matmul = head("matmul", K.MATMUL, K.GEMM)
    batched = head("batchmatmul", K.BATCH_MATMUL, K.GEMM)
    shared = head("batchmatmul", K.BATCH_MATMUL, K.GEMM, shared=True)
    diamond = (
        Part("elemwise1", ELEMWISE, others=1),
        Part("elemwise2", EITHER),
        Part("elemwise", EITHER, others=1),
    )
    any_product = head("matmul", *PRODUCTS)
    return (
        UbPass(
            "TbeFullyconnectionElemwiseDequantFusionPass",
            (
                chain(
                    "product_eltwise_eltwise",
                    any_product,
                    dequant,
                    Part("eltwise1", EITHER, others=ANY, types=FIRST_OF_TWO),
                    second,
                ),
                chain("product_eltwise", any_product, dequant, first, quant),
                chain(
                    "product_eltwise_double_out",
                    head("matmul", K.BATCH_MATMUL, K.GEMM, shared=True),
                    first,
                    needs_shared=True,
                ),
            ),
            limits.bias_apart,
        ),
        UbPass(
            "ATbeMatmulElemwiseFusionPass",
            (
                chain("matmul_elemwise", matmul, anything),
                chain(
                    "matmul_elemwise_double_out",
                    head("matmul", K.MATMUL, K.GEMM, shared=True),
                    anything,
                    needs_shared=True,
                ),
            ),
        ),
        UbPass(
            "TbeBatchMatmulElementWiseFusionPass",
            (
                chain("batchmatmul_elemwise_elemwise", batched, anything, more),
                chain("batchmatmul_elemwise", batched, anything),
                chain("batchmatmul_double_out", shared, *diamond, needs_shared=True),
            ),
            limits.bias_apart,
        ),
        UbPass(
            "MatmulConfusiontransposeUbFusion",
            (
                chain(
                    "matmul_transpose",
                    head("matmul", K.MATMUL),
                    Part("transpose", (K.CONFUSION_TRANSPOSE,), others=ANY),
                ),
            ),
        ),
        UbPass(
            "MatmulReduceSumUbFusion",
            (
                chain(
                    "matmul_reduce_sum",
                    head("matmul", K.BATCH_MATMUL),
                    Part("reduce", (K.COMM_REDUCE,), types=frozenset({"ReduceSum"})),
                ),
            ),
        ),
        UbPass(
            "TbeMatmulDequantFusionPass",
            (chain("matmul_dequant", any_product, Part("dequant", (K.DEQUANT,), others=ANY)),),
        ),
        UbPass(
            "TbeMatmulRequantFusionPass",
            (chain("matmul_requant", any_product, Part("requant", (K.REQUANT,), others=ANY)),),
        ),
        UbPass(
            "MatmulTransdataFusionPass",
            (
                chain(
                    "transdata_matmul_transdata",
                    head("transdata1", K.TRANSDATA),
                    Part("matmul", (K.MATMUL, K.BATCH_MATMUL), others=ANY),
                    Part("transdata2", (K.TRANSDATA,)),
                ),
            ),
        ),
    )


def vector_passes(limits: UbLimits) -> tuple[UbPass, ...]:
    """Passes without a Cube operator."""
    quant = Part("quant", (K.QUANT,), others=ANY)
    first = Part("eltwise", EITHER, others=ANY)
    rest = 0 if limits.name == "Ascend310" else ANY  # "rest single input, single output"
    bn = (chain("bnupdate_eltwise", head("bnupdate", K.BN_UPDATE, shared=True), Part("eltwise", ELEMWISE)),)
    return (
        UbPass("BNUpdateEltwiseFusionPass", bn),
        UbPass("BnupdateEltwiseFusionPass", bn),
        UbPass("BnupdateEltwiseEltwiseFusionPass", (bn_add_relu(),)),
        UbPass("TbePool2dQuantFusionPass", (chain("pool_quant", head("pool", K.POOL2D, K.MAX_POOL), quant),)),
        UbPass(
            "TbeMultiOutputFusionPass",
            (
                chain(
                    "multi_output",
                    head("eltwise", *EITHER, shared=True),
                    Part("chain", EITHER, 1, limits.elementwise - 1, others=rest),
                    most=limits.elementwise,
                    needs_shared=True,
                ),
            ),
        ),
        UbPass(
            "TbeReduceElemwiseFusionPass",
            around(K.COMM_REDUCE, limits.reduce_before, limits.reduce_after, limits.reduce_all),
        ),
        UbPass(
            "TbeSegmentElemwiseFusionPass",
            around(K.SEGMENT, limits.segment_before, limits.segment_after, limits.segment_all),
        ),
        UbPass(
            "TbeEltwiseQuantFusionPass",
            (
                chain("eltwise_eltwise_quant", first, Part("eltwise2", EITHER), quant),
                chain("eltwise_quant", first, quant),
            ),
        ),
        UbPass(
            "TbeEltwiseFusionPass",
            (
                chain(
                    "eltwise",
                    first,
                    Part("chain", EITHER, 1, max(1, limits.elementwise - 1), others=rest),
                    most=limits.elementwise,
                ),
            ),
        ),
    )


def bn_add_relu() -> UbPattern:
    """The end of a residual block in training: normalisation, sum with the other branch, activation."""
    add, relu = (
        Part("add", EITHER, others=1, types=frozenset({"Add"})),
        Part("relu", EITHER, types=frozenset({"Relu", "ReluV2"})),
    )
    return chain("bnupdate_add_relu", head("bnupdate", K.BN_UPDATE, shared=True), add, relu)


def around(kind: K, before: int, after: int, total: int) -> tuple[UbPattern, ...]:
    """Elementwise operators in front of and behind one operator of a kind; the first one may have several
    inputs.
    """
    middle = Part("middle", (kind,), others=ANY)
    behind = Part("behind", EITHER, 0, after, others=ANY)
    first = Part("first", EITHER, others=ANY)
    front = (first, Part("before", EITHER, 0, before - 1)) if before > 1 else (first,)
    name = kind.value.lower()
    return (
        chain(f"elemwise_{name}_elemwise", *front, middle, behind, most=total + 1),
        chain(f"{name}_elemwise", middle, Part("behind", EITHER, 1, after, others=ANY), most=total + 1),
    )
