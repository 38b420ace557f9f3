"""Small laws and tables by hand of passes: element types by mode, formats that hold the same bytes, casts,
padding, limits."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable

import numpy as np
import onnx.defs
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError, InputError
from ascendsim.core.formats import Format
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Constant, Graph, Node, Tensor
from ascendsim.ops import default_opset
from ascendsim.opset.definition import MAX_ELEMENTS
from ascendsim.passes.control_flow import host_reasons, is_dynamic
from ascendsim.passes.engine.report import weigh
from ascendsim.passes.engine.trans_ops import is_lossless
from ascendsim.passes.fusion.rules.pooling.pad_pool import PadMaxPoolFusionPass
from ascendsim.passes.fusion.rules.pooling.pad_windows import taps_inside
from ascendsim.passes.infer import infer
from ascendsim.passes.layout.fold_batch import fold_batches
from ascendsim.passes.layout.formats import same_bytes, storable, weight_format, wished
from ascendsim.passes.precision.assign import apply_precision
from ascendsim.passes.precision.output_type import output_types
from ascendsim.passes.rewriting.folding import shape_values
from ascendsim.passes.rewriting.removal import remove_dead
from tests.support.evaluate import evaluate
from tests.support.fusing import build, fused, new_builder, random
from tests.support.gate import in_one, in_turn

OPSET = default_opset()
HALF, SINGLE = DType.FLOAT16, DType.FLOAT32


# -------------------------------------------------------------------------------------------------------- ele

# Mode, whether the Cube multiplies float32 -> types that an operator takes and gives: of the Cube, a
# sensitive one, another behind float32
TYPES: dict[tuple[str, bool], tuple[tuple[DType, DType], tuple[DType, DType], tuple[DType, DType]]] = {
    ("force_fp16", False): ((HALF, HALF), (HALF, HALF), (HALF, HALF)),
    ("force_fp16", True): ((HALF, HALF), (HALF, HALF), (HALF, HALF)),
    ("allow_fp32_to_fp16", False): ((HALF, HALF), (SINGLE, SINGLE), (SINGLE, SINGLE)),
    ("allow_fp32_to_fp16", True): ((HALF, HALF), (SINGLE, SINGLE), (SINGLE, SINGLE)),
    ("must_keep_origin_dtype", False): ((SINGLE, SINGLE), (SINGLE, SINGLE), (SINGLE, SINGLE)),
    ("force_fp32", False): ((HALF, SINGLE), (SINGLE, SINGLE), (SINGLE, SINGLE)),
    ("cube_fp16in_fp32out", True): ((HALF, SINGLE), (SINGLE, SINGLE), (SINGLE, SINGLE)),
    ("allow_mix_precision", False): ((HALF, HALF), (SINGLE, SINGLE), (SINGLE, SINGLE)),
    ("allow_mix_precision", True): ((HALF, HALF), (SINGLE, SINGLE), (SINGLE, SINGLE)),
}


@pytest.mark.parametrize(("mode", "wide_cube"), TYPES)
def test_types_by_mode_and_operator(mode: str, wide_cube: bool) -> None:
    graph = build(
        lambda b: [
            b.op("MatMul", b.input("x", (4, 8)), random(8, 8), name="cube"),
            b.op("Exp", b.input("y", (4, 8)), name="sensitive"),
            b.op("Add", b.input("z", (4, 8)), random(8), name="other"),
        ]
    )
    apply_precision(
        graph,
        default_opset(),
        mode,
        cube_types=frozenset({"float16", "float32"} if wide_cube else {"float16"}),
    )
    for name, (taken, given) in zip(("cube", "sensitive", "other"), TYPES[mode, wide_cube], strict=True):
        node = graph.node(name)
        assert {tensor.dtype for tensor in node.inputs if tensor is not None} == {taken}, name
        assert node.output.dtype is given, name
    assert {tensor.dtype for tensor in (*graph.inputs, *graph.outputs)} == {SINGLE}


def test_with_mixed_precision_the_rest_follows_its_first_input() -> None:
    """Behind a product float16, behind an exponential float32; an input of the other type is cast."""
    graph = build(
        lambda b: (
            lambda product, power: [
                b.op("Add", product, power, name="a"),
                b.op("Add", power, product, name="b"),
            ]
        )(b.op("MatMul", b.input("x", (4, 8)), random(8, 8)), b.op("Exp", b.input("y", (4, 8))))
    )
    apply_precision(graph, default_opset(), "allow_mix_precision")
    assert [graph.node(name).output.dtype for name in "ab"] == [HALF, SINGLE]
    assert [{tensor.dtype for tensor in graph.node(name).inputs if tensor is not None} for name in "ab"] == [
        {HALF},
        {SINGLE},
    ]


# What ONNX and CANN call inputs that are numbers to steer by; their ports follow from the operators' own
# input lists
STEERING = {
    "scales",
    "sizes",
    "roi",
    "iou_threshold",
    "score_threshold",
    "max_output_boxes_per_class",
    "start",
    "limit",
    "delta",
    "ratio",
}
STEERING |= {
    "training_mode",
    "axes",
    "axis",
    "shape",
    "split",
    "starts",
    "ends",
    "steps",
    "repeats",
    "pads",
    "K",
    "k",
    "depth",
    "size",
    "output_shape",
}
STEERING |= {
    "image_shape",
    "block_shape",
    "dft_length",
    "frame_step",
    "frame_length",
    "num_mel_bins",
    "sample_rate",
}
_ATTENTION = ("padding_mask", "*atten_mask")
_OPERANDS = ("query", "key", "value", "pse_shift", "*atten_mask", "*actual_seq_lengths")
_SCALES = ("dequant_scale1", "quant_scale1", "dequant_scale2", "quant_scale2", "quant_offset2")
_BYTES = ("antiquant_scale", "antiquant_offset", "*block_table")
CANN_INPUTS = {
    "FusedInferAttentionScore": (*_OPERANDS, "*actual_seq_lengths_kv", *_SCALES, *_BYTES),
    "IncreFlashAttention": (*_OPERANDS, *_SCALES, *_BYTES),
    "Scatter": ("var", "*indices", "updates"),
    "PromptFlashAttention": (*_OPERANDS, "*actual_seq_lengths_kv", *_SCALES),
    "FlashAttentionScore": ("query", "key", "value", "real_shift", "*drop_mask", *_ATTENTION),
    "FlashAttentionScoreGrad": (
        *("query", "key", "value", "dy", "pse_shift", "*drop_mask", *_ATTENTION),
        *("*softmax_max", "*softmax_sum", "softmax_in", "attention_in"),
    ),
    "RpnProposals": ("rois", "cls_bg_prob", "*img_size"),
    "BNTrainingUpdate": ("x", "*sum", "*square_sum", "*scale", "*offset", "*mean", "*variance"),
    "BatchNormGrad": ("y_backprop", "x", "*scale", "*reserve_space_1", "*reserve_space_2"),
    "BNTrainingUpdateGrad": ("grads", "x", "*batch_mean", "*batch_variance"),
    "BNTrainingReduceGrad": (
        "grads",
        "x",
        "*diff_scale",
        "*diff_offset",
        "*scale",
        "*batch_mean",
        "*batch_variance",
    ),
    "BNInferGrad": ("grads", "*scale", "*batch_variance"),
    "AscendDequant": ("x", "*deq_scale"),
    "GroupedMatmul": (
        "x",
        "weight",
        "*bias",
        "*scale",
        "offset",
        "antiquant_scale",
        "antiquant_offset",
        "*group_list",
        "*per_token_scale",
    ),
    "QuantBatchMatmulV3": ("x1", "x2", "*scale", "*offset", "*bias", "*pertoken_scale"),
    "WeightQuantBatchMatmulV2": (
        "x",
        "*weight",
        "*antiquant_scale",
        "*antiquant_offset",
        "*quant_scale",
        "*quant_offset",
        "*bias",
    ),
    "DynamicQuant": ("x", "*smooth_scales"),
    "AscendQuantV2": ("x", "*scale", "*offset"),
    "DequantSwigluQuant": (
        "x",
        *(f"*{name}" for name in ("weight", "activation", "bias", "scale", "offset")),
    ),
    "RmsNormQuant": ("x", "gamma", "beta", "*scale", "*offset"),
    "AddRmsNormQuant": ("x1", "x2", "gamma", "*scales1", "*scales2", "*zero_points1", "*zero_points2"),
    "DropOutGenMask": ("*shape", "*prob"),
    "StatelessDropOutGenMask": ("*shape", "*prob", "*seed", "*seed1", "*offset"),
    "NPUGetFloatStatus": ("*addr",),
    "PadV3Grad": ("x", "*paddings"),
    "StridedSliceGrad": ("*shape", "*begin", "*end", "*strides", "dy"),
    **{f"Segment{kind}": ("x", "*segment_ids") for kind in ("Sum", "Mean", "Max", "Min", "Prod")},
    "UnsortedSegmentMax": ("x", "segment_ids", "*num_segments"),
    "UnsortedSegmentMin": ("x", "segment_ids", "*num_segments"),
    "UnsortedSegmentProd": ("x", "segment_ids", "*num_segments"),
    "UnsortedSegmentSum": ("x", "segment_ids", "*num_segments"),
    # this project's own: an integer product with what scales its sums on the way out
    "DequantConv": ("x", "filter", "*x_zero_point", "*filter_zero_point", "*deq_scale", "*more"),
    "DequantMatMul": ("a", "b", "*a_zero_point", "*b_zero_point", "*deq_scale", "*more"),
    "AscendRequant": ("x", "*req_scale"),
    # as QLinearConv, QLinearSigmoid
    "QuantConvTranspose": (
        "x",
        "*x_scale",
        "*x_zero",
        "w",
        "*w_scale",
        "*w_zero",
        "*y_scale",
        "*y_zero",
        "b",
    ),
    "QuantSwish": ("x", "*sx", "*zx", "*sy", "*zy"),
}
DEFINITIONS = {(item.domain, item.name): item for item in default_opset() if item.domain in ("", "ascend")}


@in_one("domain, operator", sorted(DEFINITIONS))
def test_parameters_are_the_inputs_that_are_named_so(domain: str, operator: str) -> None:
    if domain:
        wanted = [port for port, name in enumerate(CANN_INPUTS.get(operator, ())) if name.startswith("*")]
    else:
        names = (
            [item.name for item in onnx.defs.get_schema(operator, "").inputs]
            if onnx.defs.has(operator, "")
            else []
        )
        wanted = [
            port
            for port, name in enumerate(names)
            if name in STEERING or name.endswith(("_scale", "_zero_point"))
        ]
        if operator == "ConstantOfShape":  # its one input is the shape of the result
            wanted = [0]
    assert list(DEFINITIONS[domain, operator].facts.parameters) == wanted


FLOATS = [name for name, inputs in sorted(CANN_INPUTS.items()) if any(item[0] != "*" for item in inputs)] + [
    "Resize",
    "NonMaxSuppression",
    "QLinearConv",
    "Dropout",
]


@in_one("operator", FLOATS)
def test_a_constant_parameter_keeps_its_type(operator: str) -> None:
    """Whatever else the operator does with types: data becomes float16 where parameters stay float32."""
    graph = Graph("steered")
    domain = "ascend" if operator in CANN_INPUTS else ""
    ports = DEFINITIONS[domain, operator].facts.parameters
    inputs = [graph.add_input("x", SINGLE, (2,))]
    inputs += [graph.add_constant(f"p{port}", np.ones(2, np.float32)) for port in range(1, max(ports) + 2)]
    node = graph.add_node(operator, inputs, ["y"], name="node", domain=domain)
    node.output.dtype, node.output.origin_dtype, node.output.shape = SINGLE, SINGLE, (2,)
    graph.outputs.append(node.output)
    apply_precision(graph, default_opset(), "force_fp16")
    kept = [port for port, tensor in enumerate(node.inputs) if tensor is not None and tensor.dtype is SINGLE]
    assert kept == list(ports)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (None, (None, None, None)),
        ("", (None, None, None)),
        ("FP16", (HALF, None, HALF)),
        ("FP32", (SINGLE, None, SINGLE)),
        ("relu:0:FP16", (HALF, None, None)),
        ("relu:0:FP16;exp:0:FP32", (HALF, None, SINGLE)),
        (" relu:0:FP32 ; ", (SINGLE, None, None)),
    ],
)
def test_output_types(text: str | None, wanted: tuple[DType | None, ...]) -> None:
    graph = outputs_graph()
    assert output_types(graph, text) == wanted


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("FP64", "must name FP16 or FP32, not 'FP64'"),
        ("relu:0:INT8", "must name FP16 or FP32, not 'INT8'"),
        ("relu:0", "must be FP16, FP32 or node:index:type;node:index:type, not 'relu:0'"),
        ("relu:x:FP16", "must be FP16, FP32 or node:index:type;node:index:type, not 'relu:x:FP16'"),
        (":0:FP16", "must be FP16, FP32 or node:index:type;node:index:type, not ':0:FP16'"),
        ("relu:1:FP16", "output relu:1 is no output of the network"),
        ("neg:0:FP16", "output neg:0 is no output of the network"),
        ("cast:0:FP16", "output cast:0 must be floating-point, not int"),
    ],
)
def test_output_types_that_cannot_be(text: str, rule: str) -> None:
    with pytest.raises(InputError, match=f"output_type:? {re.escape(rule)}"):
        output_types(outputs_graph(), text)


def outputs_graph() -> Graph:
    def body(b: GraphBuilder) -> list[Tensor]:
        x = b.input("x", (2,))
        return [
            b.op("Relu", x, name="relu"),
            b.op("Cast", x, to=DType.INT32, name="cast"),
            b.op("Exp", b.op("Neg", x, name="neg"), name="exp"),
        ]

    return build(body)


# ------------------------------------------------------------------------------------------------------------


def order(shape: tuple[int, ...], format: Format, block: int) -> list[int]:
    """Row-major numbers of elements in the order in which a format stores them, -1 for padding; written out
    index by index."""
    numbers = np.arange(math.prod(shape)).reshape(shape)

    def at(*index: int) -> int:
        return (
            int(numbers[index]) if all(place < size for place, size in zip(index, shape, strict=True)) else -1
        )

    up = lambda size, to: range(-(-size // to))
    if format is Format.NC1HWC0:
        n, c, h, w = shape
        places = itertools.product(range(n), up(c, block), range(h), range(w), range(block))
        return [at(i, c1 * block + c0, y, x) for i, c1, y, x, c0 in places]
    if format is Format.FRACTAL_NZ:
        *batch, m, n = shape
        places = itertools.product(*map(range, batch), up(n, block), up(m, 16), range(16), range(block))
        return [at(*some, m1 * 16 + m0, n1 * block + n0) for *some, n1, m1, m0, n0 in places]
    return list(range(math.prod(shape)))


SHAPES = [
    (1, 16, 1, 1),
    (3, 32, 1, 1),
    (2, 15, 1, 1),
    (1, 17, 1, 1),
    (1, 16, 1, 2),
    (1, 16, 2, 1),
    (1, 8, 1, 1),
    (1, 1, 4, 4),
    (2, 64, 1, 1),
]
SHAPES += [
    (16, 16),
    (32, 16),
    (16, 32),
    (17, 16),
    (15, 16),
    (16, 15),
    (16, 8),
    (32, 8),
    (3, 16, 16),
    (2, 32, 16),
    (1, 1),
]


@pytest.mark.parametrize(("shape", "dtype"), in_turn(SHAPES, [DType.FLOAT16, DType.FLOAT32, DType.INT8]))
def test_formats_that_hold_the_same_bytes_are_those_whose_orders_agree(
    shape: tuple[int, ...], dtype: DType
) -> None:
    tensor = Tensor("t", dtype, shape)
    formats = [Format.ND, Format.NCHW, Format.FRACTAL_NZ, *([Format.NC1HWC0] if len(shape) == 4 else [])]
    orders = {format: order(shape, format, 32 // dtype.itemsize) for format in formats}
    for one, other in itertools.product(formats, formats):
        plain = orders[one] == orders[other] and -1 not in orders[one]
        assert same_bytes(tensor, one, other) is (one is other or plain), (one, other)


@pytest.mark.parametrize(
    ("shape", "formats"),
    [
        ((1, 2, 3, 4), "NC1HWC0 FRACTAL_Z FRACTAL_NZ ND"),
        ((2, 3, 4), "FRACTAL_NZ ND"),
        ((3, 4), "FRACTAL_NZ ND"),
        ((4,), "ND"),
        ((), "ND"),
        ((1, 2, 3, 4, 5), "FRACTAL_NZ ND"),
        ((1, 0, 3, 4), ""),
        ((None, 2, 3, 4), ""),
        (None, ""),
    ],
)
def test_formats_take_tensors_of_their_rank(shape: tuple[int | None, ...] | None, formats: str) -> None:
    tensor = Tensor("t", HALF, shape)
    assert {
        format.value for format in Format if format is not Format.NCHW and storable(tensor, format)
    } == set(formats.split())
    assert not storable(Tensor("t", None, shape), Format.ND)


def wishes(node: Node, matmul: Format = Format.FRACTAL_NZ) -> str:
    """What a node wants at its inputs: "*" for anything."""
    definition, words = OPSET.get(node), []
    for port, tensor in enumerate(node.inputs):
        if tensor is None:
            words.append("_")
        elif tensor.is_constant:
            words.append(weight_format(node, definition, port, matmul).value)
        else:
            want = wished(node, definition, port, matmul)
            words.append("*" if want is None else want.value)
    return " ".join(words)


def q(*shape: int) -> np.ndarray:
    return np.ones(shape, np.uint8)


# Operator by operator, by hand: maps in blocks, filters in their fractals, matrices in theirs, everything
# else as it comes
WISHES: list[tuple[Callable[[GraphBuilder], Tensor], str]] = [
    (
        lambda b: b.op("Conv", b.input("x", (1, 4, 5, 5)), random(8, 4, 3, 3), random(8)),
        "NC1HWC0 FRACTAL_Z ND",
    ),
    (lambda b: b.op("Conv", b.input("x", (1, 4, 5)), random(8, 4, 3)), "ND ND"),
    (lambda b: b.op("ConvTranspose", b.input("x", (1, 4, 5, 5)), random(4, 8, 3, 3)), "NC1HWC0 FRACTAL_Z"),
    (lambda b: b.op("MaxPool", b.input("x", (1, 4, 5, 5)), kernel_shape=(2, 2)), "NC1HWC0"),
    (
        lambda b: b.op("BatchNormalization", b.input("x", (1, 4, 5, 5)), *[random(4)] * 4),
        "NC1HWC0 ND ND ND ND",
    ),
    (lambda b: b.op("MatMul", b.input("x", (4, 5)), b.input("y", (5, 6))), "FRACTAL_NZ FRACTAL_NZ"),
    (lambda b: b.op("MatMul", b.input("x", (4, 5)), random(5, 6)), "FRACTAL_NZ FRACTAL_NZ"),
    (lambda b: b.op("MatMul", b.input("x", (4, 5)), random(5)), "FRACTAL_NZ ND"),
    (
        lambda b: b.op("Gemm", b.input("x", (4, 5)), random(5, 6), b.input("c", (4, 6))),
        "FRACTAL_NZ FRACTAL_NZ ND",
    ),
    (lambda b: b.op("Gemm", b.input("x", (4, 5)), random(5, 6), random(4, 6)), "FRACTAL_NZ FRACTAL_NZ ND"),
    (
        lambda b: b.op(
            "QLinearMatMul",
            b.input("x", (4, 5), "uint8"),
            1.0,
            np.uint8(0),
            q(5, 6),
            1.0,
            np.uint8(0),
            1.0,
            np.uint8(0),
        ),
        "FRACTAL_NZ ND ND FRACTAL_NZ ND ND ND ND",
    ),
    (
        lambda b: b.op(
            "QLinearConv",
            b.input("x", (1, 4, 5, 5), "uint8"),
            1.0,
            np.uint8(0),
            q(8, 4, 3, 3),
            1.0,
            np.uint8(0),
            1.0,
            np.uint8(0),
        ),
        "NC1HWC0 ND ND FRACTAL_Z ND ND ND ND",
    ),
    (
        lambda b: b.op(
            "LSTM",
            b.input("x", (3, 2, 16)),
            random(1, 32, 16),
            random(1, 32, 8),
            random(1, 64),
            hidden_size=8,
        ),
        "ND FRACTAL_NZ FRACTAL_NZ ND",
    ),
    (
        lambda b: b.op(
            "GRU",
            b.input("x", (3, 2, 16)),
            b.input("w", (1, 24, 16)),
            b.input("r", (1, 24, 8)),
            hidden_size=8,
        ),
        "ND FRACTAL_NZ FRACTAL_NZ",
    ),
    (lambda b: b.op("Add", b.input("x", (4, 5)), random(5)), "* ND"),
    (lambda b: b.op("Relu", b.input("x", (4, 5))), "*"),
    (lambda b: b.op("CumSum", b.input("x", (4, 5)), np.array(0)), "ND ND"),
]


@pytest.mark.parametrize("number", range(len(WISHES)))
def test_formats_that_operators_want(number: int) -> None:
    make, wanted = WISHES[number]
    node = build(make).topological()[-1]
    assert wishes(node) == wanted
    assert wishes(node, Format.ND) == wanted.replace("FRACTAL_NZ", "ND")


# At least 50 products of at most 32 rows, or 4096 of at most 64 (CANN's BatchMatMulV2ReshapeFusionPass)
@pytest.mark.parametrize(
    ("products", "rows", "folds"),
    [
        (49, 1, False),
        (50, 1, True),
        (50, 32, True),
        (50, 33, False),
        (4095, 33, False),
        (4096, 33, True),
        (4096, 64, True),
        (4096, 65, False),
    ],
)
def test_many_products_of_few_rows_become_one(products: int, rows: int, folds: bool) -> None:
    shape = (2, products // 2, rows, 2) if products % 2 == 0 else (products, rows, 2)
    b = new_builder()
    b.output(b.op("Relu", b.op("MatMul", b.input("x", shape), random(2, 3))), "y")
    assert fold_batches(b.graph) == int(folds)
    for tensor in b.graph.outputs:
        assert tensor.shape == (*shape[:-1], 3)
    if folds and products < 4000:
        x = random(*shape)
        np.testing.assert_allclose(
            evaluate(b.graph, OPSET, {"x": x})[0], np.maximum(x @ random(2, 3), 0), rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("change", ["turned", "batched", "matrix", "empty"])
def test_other_products_do_not_fold(change: str) -> None:
    b = new_builder()
    right = random(60, 4, 3) if change == "batched" else random(4, 3)
    shape = {"matrix": (60, 4), "empty": (60, 0, 4)}.get(change, (60, 4, 4))
    node = b.op("BatchMatMul", b.input("x", shape), right, domain="ascend", adj_x1=int(change == "turned"))
    b.output(node, "y")
    assert fold_batches(b.graph) == 0


# ------------------------------------------------------------------------------------------------------------

KINDS = [
    k for k in DType if k is DType.BOOL or k.is_integer or k in (DType.FLOAT16, DType.FLOAT32, DType.FLOAT64)
]


def hard_values(kind: DType) -> np.ndarray:
    """Values of a type that another type loses first: ends of the range, the largest run of digits, the
    smallest numbers, -0.0."""
    if kind is DType.BOOL:
        return np.array([False, True])
    if kind.is_float:
        info = np.finfo(kind.numpy)
        values = [
            0.0,
            -0.0,
            np.inf,
            -np.inf,
            info.max,
            info.tiny,
            info.smallest_subnormal,
            1 + info.eps,
            2 - info.eps,
        ]
        return np.array([*values, *(-value for value in values)], kind.numpy)
    limits = np.iinfo(kind.numpy)
    bits = [2**n + d for n in range(64) for d in (-1, 0, 1)]
    return np.array(
        [value for bit in bits for value in (bit, -bit) if limits.min <= value <= limits.max], kind.numpy
    )


@in_one("source", KINDS)
@in_one("target", KINDS)
def test_a_cast_is_lossless_if_every_value_comes_back(source: DType, target: DType) -> None:
    values = hard_values(source)
    with np.errstate(all="ignore"):
        there = values.astype(target.numpy)
        back = there.astype(source.numpy)
    same = np.array_equal(back, values) and np.array_equal(
        np.signbit(back.astype(np.float64)), np.signbit(values.astype(np.float64))
    )
    if (
        same and not source.is_float and source is not DType.BOOL
    ):  # integers that wrap come back too: the value itself must be there
        same = [int(value) for value in values.tolist()] == [
            int(value) for value in there.tolist() if abs(value) != np.inf
        ]
    assert is_lossless(source, target) is bool(same)


# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "value", "joined"),
    [
        ("Relu", 0.0, True),
        ("Neg", 0.0, False),
        ("Relu", 0.5, False),
        ("Relu", -0.5, False),
        ("Neg", -np.inf, True),
        ("Neg", float(np.finfo(np.float32).min), True),
        ("Neg", float(np.finfo(np.float16).min), False),
        ("Sigmoid", 0.0, True),
        (0.0, 0.0, True),
        (0.5, 0.0, True),
        (-0.5, 0.0, False),
    ],
)
def test_padding_of_a_maximum_goes_if_it_never_wins(before: str | float, value: float, joined: bool) -> None:
    def body(b: GraphBuilder) -> Tensor:
        x = b.input("x", (1, 2, 5, 5))
        x = b.op(before, x) if isinstance(before, str) else b.op("Clip", x, before, 6.0)
        return b.op(
            "MaxPool",
            b.op("Pad", x, [0, 0, 1, 1, 0, 0, 1, 1], np.float32(value)),
            kernel_shape=(3, 3),
            strides=(2, 2),
        )

    result = fused(build(body), PadMaxPoolFusionPass())
    assert result.effected("PadMaxPoolFusionPass") == int(joined)
    assert result.error == 0
    if not joined:
        assert result.reason == "the padding may be larger than an element"


@pytest.mark.parametrize(
    ("side", "reason"),
    [(254, "a window holds padding alone"), (255, "a window holds padding alone"), (256, "wider than 255")],
)
def test_padding_is_at_most_255_wide(side: int, reason: str) -> None:
    """The instruction that unfolds a map has 8 bits for it."""
    graph = build(
        lambda b: b.op(
            "MaxPool",
            b.op("Pad", b.op("Relu", b.input("x", (1, 1, 4, 4))), [0, 0, side, 0, 0, 0, 0, 0]),
            kernel_shape=(3, 3),
        )
    )
    assert reason in fused(graph, PadMaxPoolFusionPass()).reason


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "dilation", "before"),
    [(5, 3, 1, 1, 1), (7, 2, 3, 2, 4), (1, 1, 1, 1, 0), (4, 3, 2, 1, 2)],
)
def test_taps_inside_are_those_that_hit_an_element(
    size: int, kernel: int, stride: int, dilation: int, before: int
) -> None:
    count = 6
    wanted = [
        sum(0 <= at * stride - before + tap * dilation < size for tap in range(kernel)) for at in range(count)
    ]
    assert taps_inside(size, kernel, stride, dilation, before, count).tolist() == wanted


# --------------------------------------------------------------------------------------------------- inferenc


@pytest.mark.parametrize(("surplus", "fits"), [(-1, True), (0, True), (1, False)])
def test_a_tensor_has_at_most_2_to_the_40_elements(surplus: int, fits: bool) -> None:
    assert MAX_ELEMENTS == 2**40
    b = GraphBuilder()
    b.output(b.op("Relu", b.input("x", (MAX_ELEMENTS + surplus,))), "y")
    if fits:
        infer(b.graph, OPSET)
        assert b.graph.outputs[0].shape == (MAX_ELEMENTS + surplus,)
    else:
        with pytest.raises(GraphError, match="must have at most 1099511627776 elements"):
            infer(b.graph, OPSET)


@pytest.mark.parametrize(
    ("shape", "attributes", "wanted"),
    [
        ((2, 3, 4), {}, [2, 3, 4]),
        ((2, 3, 4), {"start": 1}, [3, 4]),
        ((2, 3, 4), {"end": -1}, [2, 3]),
        ((2, 3, 4), {"start": -2, "end": 3}, [3, 4]),
        ((2, 3, 4), {"start": 2, "end": 1}, []),
        (("n", 3, 4), {"start": 1}, [3, 4]),
        (("n", 3, 4), {}, None),
        ((2, 3, None), {"end": 2}, [2, 3]),
        (None, {}, None),
    ],
)
def test_parts_of_shapes_that_are_known(
    shape: tuple[int | str | None, ...] | None, attributes: dict[str, int], wanted: list[int] | None
) -> None:
    for op_type in ("Shape", "Size"):
        graph = Graph("g")
        node = graph.add_node(
            op_type, [graph.add_input("x", SINGLE, shape)], 1, **(attributes if op_type == "Shape" else {})
        )
        values = shape_values(node)
        if op_type == "Size":
            known = shape is not None and all(isinstance(dim, int) for dim in shape)
            assert (None if values is None else values[0].tolist()) == (24 if known else None)
        else:
            assert (None if values is None else values[0].tolist()) == wanted
        node.domain = "ascend"
        assert shape_values(node) is None


def test_weight_of_a_graph_counts_nodes_constants_and_their_bytes_in_the_users_types() -> None:
    b = new_builder()
    b.output(b.op("Add", b.input("x", (3,)), b.op("Mul", np.ones(3, np.float32), np.float32(2))), "y")
    graph = b.graph
    assert (weigh(graph).nodes, weigh(graph).constants, weigh(graph).constant_bytes) == (2, 2, 16)
    next(graph.constants).dtype = HALF
    assert weigh(graph).constant_bytes == 16
    # kept beside the node: not counted
    graph.node("Mul").output.constant = Constant(np.full(3, 2, np.float32))
    assert (weigh(graph).constants, weigh(graph).constant_bytes) == (2, 16)


def test_dead_nodes_go_unless_somebody_waits_for_them() -> None:
    b = new_builder()
    x = b.input("x", (2,))
    b.output(b.op("Relu", x, name="alive"), "y")
    b.op("Exp", b.op("Add", x, np.ones(2, np.float32), name="first"), name="last")
    assert remove_dead(b.graph) == (2, 1)
    held = b.op("Exp", b.op("Add", x, np.ones(2, np.float32), name="first"), name="last")
    assert held.producer is not None
    b.graph.node("alive").add_control(held.producer)
    assert remove_dead(b.graph) == (0, 0)
    b.graph.node("alive").remove_control(held.producer)
    assert remove_dead(b.graph) == (2, 1)


@pytest.mark.parametrize("count", [0, 1, 5, 6, 8])
def test_five_reasons_for_a_host_are_told_and_the_rest_is_counted(count: int) -> None:
    graph = Graph("open")
    tensors = [graph.add_input(f"x{number}", SINGLE, ("n", None, 3)) for number in range(count)] or [
        graph.add_input("x", SINGLE, (2,))
    ]
    graph.outputs.append(graph.add_node("Sum", tensors, ["y"]).output)
    graph.outputs[0].shape = (2,)
    reasons = host_reasons(graph)
    assert is_dynamic(graph) is (count > 0)
    assert len(reasons) == min(count, 5) + (count > 5)
    if count:
        assert reasons[0] == "input 'x0' has the open shape [-1 (n), -1, 3]"
    if count > 5:
        assert reasons[-1] == f"and {count - 5} more"


def test_a_result_that_alone_is_open_is_named_and_what_follows_is_not() -> None:
    b = new_builder()
    found = b.op("NonZero", b.input("x", (2, 3)), name="nonzero")
    b.output(b.op("Transpose", found, perm=[1, 0]), "y")
    assert host_reasons(b.graph) == ("node 'nonzero' (NonZero) gives 'nonzero_out' the shape [2, -1]",)
    assert is_dynamic(b.graph)
