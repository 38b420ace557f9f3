"""What operators ask of the chip: laws that hold for each of them, and a table of instructions that a person
reads."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.core.formats import Format
from ascendsim.graph.ir import Node, Tensor
from ascendsim.ops import default_opset
from ascendsim.ops.shared.common import walking_shape
from ascendsim.ops.shared.inference_attention import SLOPES
from ascendsim.opset.work import (
    WORKSPACE,
    AiCpuWork,
    AttentionWork,
    CubeWork,
    FilterWork,
    FinishedProduct,
    MoveWork,
    NoTask,
    Ref,
    ScalarWork,
    SequenceWork,
    StagedProduct,
    VectorWork,
    Work,
    WorkChoice,
)
from tests.support.operator_cases import (
    CHIPS,
    Case,
    all_operator_cases,
    as_type,
    blocked,
    build,
    cases_of,
    few_cases,
    initials,
    ports_of_values,
    settled,
    work_of,
)
from tests.support.work_text import describe

# Made of subgraphs, or decided before anything is lowered; LabelEncoder has attributes that only a file of
# another domain has. Collectives have no values on one device (tests/unit/test_links.py has their tasks);
# copies out of the host's memory come with a compilation (tests/unit/test_host_inputs.py).
WITHOUT_CASES = {"If", "Loop", "Scan", "ai.onnx.ml::LabelEncoder"} | {
    f"ascend::{name}" for name in ("Case", "GraphKernel", "Merge", "PartitionedCall", "Switch", "While")
}
WITHOUT_CASES |= {f"ascend::Hcom{name}" for name in ("AllGather", "AllReduce", "AllToAll", "ReduceScatter")}
WITHOUT_CASES.add("ascend::MemcpyAsync")


TYPES = {dtype.value: dtype for dtype in (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT64)}


BY_INITIAL = pytest.mark.parametrize("initial", initials())


@cache
def works(initial: str) -> tuple[tuple[Case, str, Node, tuple[Work | None, ...]], ...]:
    """Every case of operators with this first letter in several forms, with its work on each chip."""
    found = []
    for case in cases_of(initial):
        for form in ("own types", "float16", "bfloat16", "float64", "blocked", "values unknown"):
            if form == "blocked":
                node = blocked(case)
            else:
                if form == "values unknown" and case.op_type.startswith("Reduce"):
                    continue  # lowered with axes that are known
                node = settled(case, () if form == "values unknown" else None)
                if form in TYPES and not as_type(node, TYPES[form]):
                    continue
            if node is not None:
                found.append((case, form, node, tuple(work_of(node, chip) for chip in CHIPS)))
    return tuple(found)


def test_every_operator_has_cases() -> None:
    have = {case.operator for case in all_operator_cases()}
    names = {f"{item.domain}::{item.name}" if item.domain else item.name for item in default_opset()}
    assert names - have == WITHOUT_CASES


@BY_INITIAL
def test_works_are_those_of_the_table(initial: str, golden: Callable[[str, str], None]) -> None:
    """One line for every form that an operator's work takes, with the sizes of one case."""
    seen: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for case, form, node, work in works(initial):
        if case.name.startswith("edge"):
            continue
        key = (case.operator, tuple(re.sub("@[A-Z0-9_]+", "", describe(item, sizes=False)) for item in work))
        seen.setdefault(key, _lines(case, form, node, work))
    lines = [line for key in sorted(seen, key=lambda key: key[0]) for line in seen[key]]
    golden(f"ops_work/{initial}.txt", "\n".join(lines) + "\n")


# ------------------------------------------------------------------------------------------------------------

STATES = "the scalar unit reads the starting state, the last step's result is the final one"
CONSTANTS = "folded into the bias or the instructions when the graph is compiled"
SCALARS = "numbers that the scalar unit reads"
UNREAD: dict[str, tuple[set[int], str]] = {
    **{
        name: ({3, 4, 5, 6, 7}, STATES + "; bias and peepholes lie with the weights")
        for name in ("RNN", "GRU", "LSTM")
    },
    **{name: ({2, 3}, CONSTANTS) for name in ("ConvInteger", "MatMulInteger")},
    **{name: ({1, 2, 4, 5, 6, 7}, CONSTANTS) for name in ("QLinearConv", "QLinearMatMul")},
    **{f"com.microsoft::QLinear{name}": ({1, 2, 4, 5, 6, 7}, CONSTANTS) for name in ("Add", "Mul")},
    **{
        f"com.microsoft::QLinear{name}": ({1, 2, 3, 4}, CONSTANTS)
        for name in ("GlobalAveragePool", "AveragePool", "ReduceMean", "Sigmoid", "LeakyRelu", "Softmax")
    },
    "ascend::QuantSwish": ({1, 2, 3, 4}, CONSTANTS),
    "com.microsoft::QLinearWhere": ({2, 3, 5, 6, 7, 8}, CONSTANTS),
    "ascend::QuantConvTranspose": ({1, 2, 4, 5, 6, 7}, CONSTANTS),
    "com.microsoft::QLinearConcat": ({0, 1, 3, 4, 6, 7}, CONSTANTS),
    "com.microsoft::QGemm": ({1, 2, 4, 5, 7, 8}, CONSTANTS),
    "ascend::QuantConv": ({3}, "FIXPIPE holds the scale"),
    "ascend::QuantBatchMatmulV3": ({2}, "one scale is a number in an instruction; sums in int32 have none"),
    **{
        f"ascend::{name}": ({2, 3, 4, 5}, CONSTANTS + "; the way out holds the scale")
        for name in ("DequantConv", "DequantMatMul")
    },
    "LinearAttention": ({3}, "the state that is given is where the new one goes"),
    "CastLike": ({1}, "only its type counts"),
    "EyeLike": ({0}, "only its shape counts"),
    "ascend::Assign": ({0}, "overwritten"),
    "ascend::MaxPoolGradWithArgmax": ({0}, "only its shape counts"),
    "ascend::MaxPoolGradWithArgmaxV1": ({0}, "only its shape counts"),
    "Dropout": ({1, 2}, SCALARS),
    "CumSum": ({1}, SCALARS),
    "CumProd": ({1}, SCALARS),
    "NonMaxSuppression": ({2, 3, 4}, SCALARS),
    "OneHot": ({2}, SCALARS),
    "Pad": ({2}, SCALARS),
    "Resize": ({1}, SCALARS),
    "Trilu": ({1}, SCALARS),
    **{f"ai.onnx.preview.training::{name}": ({0, 1}, SCALARS) for name in ("Adam", "Adagrad", "Momentum")},
    "ascend::FusedMulApplyMomentum": ({0, 1}, SCALARS),
    "ascend::ApplyAdamWV2": ({4}, SCALARS),
    "ascend::FusedInferAttentionScore": ({6, 12, 14}, SCALARS + ", and scales, which queries have in them"),
    "ascend::IncreFlashAttention": ({5}, SCALARS),
    "ascend::GroupedMatmul": ({7}, "numbers of rows, which the host knows"),
    "ascend::NLLLossGrad": ({0}, "only its shape counts"),
    "ascend::AtomicAddrClean": ({0}, "its memory becomes zero, whatever was there"),
    "ascend::NPUClearFloatStatus": ({0, 1}, "the register is cleared, whatever came before"),
    "ascend::NPUGetFloatStatus": ({1, 2}, "the register holds what became of them"),
    "ascend::Scatter": ({0}, "changed in place"),
    "ascend::ReshapeAndCache": ({2, 3}, "changed in place"),
    "ascend::ScatterPaKvCache": ({1, 4}, "changed in place"),
}
UNWRITTEN: dict[str, tuple[set[int], str]] = {
    **{name: ({1, 2}, STATES) for name in ("RNN", "GRU", "LSTM")},
    "NonMaxSuppression": ({0}, "its size is known after the run"),
}
OTHER_REFS = {
    **{name: "slices of a step" for name in ("RNN", "GRU", "LSTM")},
    "ascend::AccumulateGrad": "a gradient of any shape as one row",
    "ascend::CompositeMatMul": "tiled tensors are named as the matrices that they hold",
    "ascend::FusedInferAttentionScore": "of a pool the pages that are read",
    "ascend::FullyConnection": "images as rows of a matrix",
    "ascend::GroupedMatmul": "rows and matrices of groups of one size",
    "ascend::Proposal": "of the scores those of the foreground, half of them",
    "ascend::ReluV2": "bits",
    "ascend::ReluGradV2": "bits",
    "ascend::DropOutDoMask": "bits",
    "ascend::MoeFinalizeRoutingV2": "rows as often as tokens chose them",
    "ascend::WeightQuantBatchMatmulV2": "int4 lie eight in an int32; the vector unit reads bytes of two",
}


def _ways(on_chips: Sequence[Work | None]) -> Iterator[Work | None]:
    """Each way of those that can be done in several."""
    for work in on_chips:
        yield from work.ways if isinstance(work, WorkChoice) else (work,)


def _parts(work: Work) -> Iterator[Work]:
    if isinstance(work, SequenceWork):
        for part in work.parts:
            yield from _parts(part)
    elif isinstance(work, StagedProduct):
        yield from (work.staging, work.product)
    elif isinstance(work, FinishedProduct):
        yield work.product
    else:
        yield work


def _traffic(work: Work) -> tuple[list[Ref], list[Ref]]:
    """What is read and what is written."""
    reads: list[Ref] = []
    writes: list[Ref] = []
    for part in _parts(work):
        if isinstance(part, VectorWork):
            reads += [stream.ref for stream in part.inputs]
            writes += [stream.ref for stream in part.outputs]
        elif isinstance(part, CubeWork):
            reads += [
                part.a,
                part.b,
                *([part.bias] if part.bias else []),
                *(stream.ref for stream in part.epilogue_inputs),
            ]
            writes.append(part.out)
        elif isinstance(part, FilterWork):
            reads += [part.gradient, part.image]
            writes.append(part.out)
        elif isinstance(part, AttentionWork):
            products, sweeps = (*part.before, *part.after), (*part.prologue, *part.epilogue)
            reads += [matrix.ref for product in products for matrix in (product.a, product.b)]
            reads += [matrix.ref for product in products for _, *both in product.more for matrix in both]
            reads += [*part.given, *part.row_values, *part.masks]
            reads += [ref for sweep in sweeps for ref in sweep.inputs]
            writes += [product.out.ref for product in products] + [matrix.ref for matrix in part.weights]
            writes += [ref for sweep in sweeps for ref in sweep.outputs]
            writes += [part.join.out.ref, *part.join.rows] if part.join is not None else []
        elif isinstance(part, MoveWork):
            reads += [*(copy.src for copy in part.copies), *part.extra_inputs]
            writes += [copy.dst for copy in part.copies]
        elif isinstance(part, ScalarWork | AiCpuWork):
            reads += part.inputs
            writes += part.outputs
    return reads, writes


@BY_INITIAL
def test_every_data_input_is_read_and_every_output_written(initial: str) -> None:
    missing: Counter[str] = Counter()
    needed: set[str] = set()
    for case, _, node, on_chips in works(initial):
        for work in _ways(on_chips):
            if (
                work is None
                or isinstance(work, NoTask)
                or any(tensor is not None and not tensor.elements for tensor in node.inputs)
            ):
                continue
            reads, writes = ({ref.region for ref in refs} for refs in _traffic(work))
            unread = {
                port
                for port, tensor in enumerate(node.inputs)
                if tensor is not None and tensor.elements and tensor.name not in reads
            }
            unread -= set(ports_of_values(case))
            if node.attr("pse_type", 0) == SLOPES:
                unread.discard(3)  # slopes of heads are numbers in instructions
            unwritten = {
                port
                for port, tensor in enumerate(node.outputs)
                if tensor.elements and tensor.name not in writes
            }
            for kind, ports, table in (("input", unread, UNREAD), ("output", unwritten, UNWRITTEN)):
                allowed, _why = table.get(case.operator, (set(), ""))
                needed |= {case.operator} if ports else set()
                missing.update(f"{case.operator}: {kind} {port}" for port in ports - allowed)
    assert not missing
    listed = set(UNREAD) | set(UNWRITTEN)
    assert needed == {name for name in listed if name.split("::")[-1][0].upper() == initial}


@BY_INITIAL
def test_bytes_are_those_of_the_tensors(initial: str) -> None:
    for case, _, node, on_chips in works(initial):
        tensors = {tensor.name: tensor for tensor in (*node.inputs, *node.outputs) if tensor is not None}
        for work in _ways(on_chips):
            for ref in [] if work is None else [*_traffic(work)[0], *_traffic(work)[1]]:
                if not ref.region.startswith(WORKSPACE) and case.operator not in OTHER_REFS:
                    assert ref == Ref.of(tensors[ref.region]), case.name


@BY_INITIAL
def test_results_without_elements_ask_for_nothing_and_others_for_something(initial: str) -> None:
    for case, _, node, on_chips in works(initial):
        elements = sum(tensor.elements for tensor in node.outputs)
        for work in _ways(on_chips):
            if isinstance(work, NoTask):
                assert work.aliases or not elements or case.op_type in ("Shape", "Size"), case.name
            elif work is not None:
                assert elements, case.name


def test_an_axis_without_elements_asks_for_nothing() -> None:
    """On the AI Core: kernels of the AI CPU are started all the same."""
    checked = set()
    for case in few_cases():
        for axis in range(case.inputs[0].ndim if case.inputs and case.inputs[0] is not None else 0):
            node = _without_elements(case, axis)
            if node is None or not node.outputs or any(tensor.elements for tensor in node.outputs):
                continue
            checked.add(case.operator)
            for chip in CHIPS:
                assert isinstance(work_of(node, chip), NoTask | AiCpuWork | None), (
                    f"{case.name} without elements on axis {axis}"
                )
    assert len(checked) > 190


def _without_elements(case: Case, axis: int) -> Node | None:
    """A node whose first input, and those of its shape, have no elements along an axis; None if it cannot
    be."""
    first = case.inputs[0].shape
    arrays = [
        np.take(array, [], axis) if array is not None and array.shape == first else array
        for array in case.inputs
    ]
    try:
        node = build(replace(case, inputs=tuple(arrays)))
    except GraphError:
        return None
    return node if all(tensor.is_static for tensor in node.outputs) else None


# the data, or zeros, first, then the updates over them; the updates alone, in place
WRITTEN_TWICE = {
    "ReshapeAndCache",
    "Scatter",
    "ScatterPaKvCache",
    "ScatterND",
    "TensorScatter",
    "EmbeddingDenseGrad",
    "InplaceIndexAdd",
    *(f"UnsortedSegment{of}" for of in ("Sum", "Max", "Min", "Prod")),
    *(f"Segment{of}" for of in ("Sum", "Mean", "Max", "Min", "Prod")),
}


@BY_INITIAL
def test_copies_bring_every_byte_of_a_result(initial: str) -> None:
    for case, _, node, on_chips in works(initial):
        stored = {tensor.name: tensor.storage_bytes for tensor in node.outputs}
        for part in (
            part
            for work in _ways(on_chips)
            if work is not None
            for part in _parts(work)
            if isinstance(part, MoveWork)
        ):
            written: Counter[str] = Counter()
            for copy in part.copies:
                written[copy.dst.region] += copy.written
                assert 0 < copy.write_burst <= copy.written, case.name
                assert copy.read_burst > 0 or not copy.bytes, case.name
                assert copy.read_burst <= max(copy.bytes, copy.src.bytes), case.name
            if case.op_type not in WRITTEN_TWICE:
                assert all(
                    count == stored[name] for name, count in written.items() if not name.startswith(WORKSPACE)
                ), case.name


# Results that are not as large as the space: what windows spread, the best of a row, folded columns, one loss
# or one value a channel for all images; sequences whose last part makes the result.
LOOSE = {
    "AscendAntiQuant",
    "BNTrainingReduce",
    "BNTrainingUpdateGrad",
    "BatchNormGrad",
    "BiasAddGrad",
    "SwiGlu",  # two elements of the large tensor at a time
    "SwiGluGrad",
    "ApplyRotaryPosEmb",  # a position with all heads of two tensors
    "split_qkv_rmsnorm_rope",
    "MoeGatingTopK",
    "MoeGatingTopKSoftmax",
    "GroupNormGrad",
    "AvgPoolV2Grad",
    "MaxPoolGradWithArgmax",
    "MaxPoolGradWithArgmaxV1",
    "ResizeBilinearV2Grad",
    "ResizeNearestNeighborV2Grad",
    "TopK",
    "ArgMax",
    "ArgMin",
    "Col2Im",
    "SoftmaxCrossEntropyLoss",
    "DeformConv",
    "Proposal",  # boxes, of whose pairs no tensor has as many
    "RpnProposals",
    "RpnProposalsD",
    "LinearAttention",
    "FusedInferAttentionScore",  # keys in order, with the queries that see them
    "IncreFlashAttention",
    "PromptFlashAttention",
    "RNN",
    "GRU",
    "LSTM",
}


@BY_INITIAL
def test_vector_programs_go_over_all_of_their_results(initial: str) -> None:
    """A full result has rows x cols elements, one value a row as many as rows, one a column as many as
    columns; no input has more."""
    for case, _, node, on_chips in works(initial):
        tensors = {tensor.name: tensor for tensor in (*node.inputs, *node.outputs) if tensor is not None}
        for part in (
            part
            for work in _ways(on_chips)
            if work is not None
            for part in _parts(work)
            if isinstance(part, VectorWork)
        ):
            assert part.steps, case.name
            if case.op_type in LOOSE:
                continue
            space = {"all": part.rows * part.cols, "row": part.rows, "col": part.cols, "one": 1}
            for stream in part.outputs:
                if stream.ref.region == node.output.name:
                    assert _elements(tensors[stream.ref.region]) == space[stream.over], case.name
            if not part.gather_bytes:
                assert all(
                    _elements(tensors[stream.ref.region]) <= space["all"]
                    for stream in part.inputs
                    if stream.ref.region in tensors
                ), case.name


def _elements(tensor: Tensor) -> int:
    return math.prod(walking_shape(tensor))


@BY_INITIAL
def test_the_cube_multiplies_as_much_as_the_mathematics_ask_for(initial: str) -> None:
    """Products are at least those of the operator itself, and what is padded is less than what is
    multiplied."""
    checked = set()
    for case, _, _, on_chips in works(initial):
        for part in (
            part
            for work in _ways(on_chips)
            if work is not None
            for part in _parts(work)
            if isinstance(part, CubeWork | FilterWork)
        ):
            products = _products(case)
            if isinstance(part, FilterWork):
                positions = part.conv.batch * part.conv.out_h * part.conv.out_w
                assert part.useful_macs <= part.batch * part.m * part.n * positions, case.name
                assert part.useful_macs == products, case.name
                checked.add(case.op_type)
                continue
            if products is not None:
                assert (part.useful_macs or part.batch * part.m * part.k * part.n) == products, case.name
                checked.add(case.op_type)
            if case.op_type not in SPREADS:
                assert part.useful_macs <= part.batch * part.m * part.k * part.n, case.name
    known = {
        "Conv",
        "MatMul",
        "Gemm",
        "BatchMatMul",
        "ConvInteger",
        "QLinearConv",
        "FullyConnection",
        "ConvTranspose",
        "Conv2DBackpropFilter",
        "Conv3DBackpropFilter",
        "DepthwiseConv2DBackpropInput",
    }
    assert {name for name in known if name[0] == initial} <= checked


# their images have zeros between neighbours, which useful products leave out and cropped borders may lack
SPREADS = {
    "ConvTranspose",
    "QuantConvTranspose",
    "Conv2DBackpropInput",
    "Conv3DBackpropInput",
    "DepthwiseConv2DBackpropInput",
}


def _products(case: Case) -> int | None:
    """Multiplications of a product of matrices or a convolution by its definition; None for others."""
    arrays, result = case.inputs, math.prod(settled(case).output.static_shape)
    match case.op_type:
        case (
            "Conv"
            | "ConvInteger"
            | "DequantConv"
            | "QuantConv"
            | "QLinearConv"
            | "AippConv"
            | "FullyConnection"
        ):
            weight = arrays[3 if case.op_type == "QLinearConv" else 1]
            return result * math.prod(weight.shape[1:])
        case "QuantBatchMatmulV3" | "WeightQuantBatchMatmulV2":
            turned = case.attributes.get("transpose_x1", 0)
            return result * arrays[0].shape[-2 if turned else -1]
        case "MatMul" | "MatMulInteger" | "DequantMatMul" | "QLinearMatMul":
            return result * arrays[0].shape[-1]
        case "Gemm" | "BatchMatMul":
            turned = case.attributes.get("transA", case.attributes.get("adj_x1", 0))
            return result * arrays[0].shape[-2 if turned else -1]
        case "Conv2DBackpropInput" | "Conv3DBackpropInput" | "DepthwiseConv2DBackpropInput":
            return math.prod(arrays[1].shape) * math.prod(arrays[0].shape[1:])
        case "Conv2DBackpropFilter" | "DepthwiseConv2DBackpropFilter":
            return math.prod(arrays[1].shape) * math.prod(case.attributes["filter_size"][1:])
        case "Conv3DBackpropFilter":  # each depth tap is a product of its own
            sizes = case.attributes["filter_size"]
            return math.prod(arrays[1].shape) * sizes[1] * math.prod(sizes[3:])
        case "ConvTranspose":  # those that pads cut off count, as a Conv's with padding do
            return math.prod(arrays[0].shape) * math.prod(arrays[1].shape[1:])
        case "QuantConvTranspose":
            return math.prod(arrays[0].shape) * math.prod(arrays[3].shape[1:])
        case _:
            return None


def _lines(case: Case, form: str, node: Node, works: tuple[Work | None, ...]) -> list[str]:
    """A line for each chip that is different: operator, inputs, chips, work."""
    inputs = " ".join(map(_input, node.inputs))
    by_text: dict[str, list[str]] = {}
    for chip, work in zip(CHIPS, works, strict=True):
        by_text.setdefault(describe(work), []).append(chip.removeprefix("Ascend"))
    start = f"{case.operator} {inputs}" + (" (values unknown)" if form == "values unknown" else "")
    return [
        f"{start}{'' if len(by_text) == 1 else ' on ' + ', '.join(chips)}: {text}"
        for text, chips in by_text.items()
    ]


def _input(tensor: Tensor | None) -> str:
    if tensor is None:
        return "-"
    format = "" if tensor.format is Format.ND else f"@{tensor.format.value}"
    return f"{tensor.element_type.value}[{','.join(map(str, tensor.static_shape))}]{format}"
