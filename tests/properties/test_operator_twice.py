"""Twice the slices of an axis whose slices stay apart are twice the result and twice the work, and none of
them are neither."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from ascendsim.core.errors import AscendSimError
from ascendsim.graph.ir import Node
from ascendsim.ops import default_opset
from ascendsim.opset.axes import Relation
from ascendsim.opset.work import (
    AiCpuWork,
    CubeWork,
    FilterWork,
    FinishedProduct,
    MoveWork,
    NoTask,
    ScalarWork,
    SequenceWork,
    StagedProduct,
    VectorWork,
    Work,
    WorkChoice,
)
from tests.support.operator_cases import Case, build, compute, few_cases, settled, work_of

Array = Any
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
CHIPS = ("Ascend310P3", "Ascend910B1")

FIXED = "one of its operands is as long as before"
MORE_OR_LESS = {
    "DFT": "a transform of n takes n log n steps",
    "STFT": "as DFT",
    "AffineGrid": "an input holds the size of its result",
    "DeformConv": "positions follow from the image, not from its offsets; offsets serve all channels",
    "GridSample": "places serve all channels",
    "GatherElements": FIXED,
    "ascend::ApplyRotaryPosEmb": "one tensor of the two has as many heads as before",
    "ascend::InplaceIndexAdd": FIXED,
    "ascend::MoeInitRoutingV2": "experts are sorted once for all columns",
    "ascend::ReshapeAndCache": FIXED,
    "ascend::ScatterPaKvCache": FIXED,
    "ascend::TransData": "blocks are padded",
    "ascend::WeightQuantBatchMatmulV2": "weights are made wide once for all rows",
    "com.microsoft::MatMulNBits": "as WeightQuantBatchMatmulV2",
}
OTHER_VALUES = {
    "DeformConv": MORE_OR_LESS["DeformConv"],
    "ascend::BNTrainingUpdate": "sums that it is given are divided by the number of elements",
    "ascend::InplaceIndexAdd": FIXED,
}


# No axis of the first result has slices that are those of an input's.
UNCUT = {
    **dict.fromkeys(
        ("Bernoulli", "Multinomial", "RandomNormalLike", "RandomUniformLike", "DynamicQuantizeLinear"),
        "an element depends on its place, or on all others",
    ),
    **dict.fromkeys(
        (
            "BlackmanWindow",
            "ConstantOfShape",
            "EyeLike",
            "HammingWindow",
            "HannWindow",
            "MelWeightMatrix",
            "Range",
        ),
        "made of sizes",
    ),
    **dict.fromkeys(("RandomNormal", "RandomUniform", "Shape", "Size"), "made of sizes"),
    **dict.fromkeys(
        ("MaxUnpool", "NonMaxSuppression", "NonZero", "Unique", "ai.onnx.ml::ArrayFeatureExtractor"),
        "values say what there is",
    ),
    **dict.fromkeys(
        ("BitCast", "Flatten", "Reshape", "ascend::AccumulateGrad", "ascend::ConfusionTransposeD"),
        "groups of slices",
    ),
    **{f"ai.onnx.preview.training::{name}": "updates stay whole" for name in ("Adagrad", "Adam", "Momentum")},
    **{
        f"ascend::{name}": "one number, or none, comes of all"
        for name in (
            "AllFinite",
            "Assert",
            "AtomicAddrClean",
            "L2Loss",
            "LpNormV2",
            "MapIndex",
            "NonFiniteCheck",
        )
    },
    **{f"ascend::NPU{name}FloatStatus": "a register" for name in ("Alloc", "Clear")},
    **{
        f"ascend::{name}": "gradients are taken as a whole"
        for name in (
            "BNTrainingReduceGrad",
            "BNTrainingUpdateGrad",
            "BatchNormGrad",
            "GroupNormGrad",
            "LayerNormBetaGammaBackpropV2",
            "LayerNormGrad",
            "LayerNormXBackpropV2",
            "RmsNormGrad",
            "RotaryPositionEmbeddingGrad",
        )
    },
    **{
        f"ascend::{name}": "its own teams share it out"
        for name in (
            "FlashAttentionScore",
            "FlashAttentionScoreGrad",
            "FusedInferAttentionScore",
            "GroupedMatmul",
            "IncreFlashAttention",
            "PromptFlashAttention",
        )
    },
    **{f"ascend::{name}": "boxes of all scores" for name in ("Proposal", "RpnProposals", "RpnProposalsD")},
    **{f"ascend::{name}": "bits that are drawn" for name in ("DropOutGenMask", "StatelessDropOutGenMask")},
    "ascend::Scatter": "values say which slices change",
}


def _grown(case: Case, node: Node, axis: int) -> dict[int, int]:
    """Axes of the inputs, by port, whose slices are those of an axis of the result."""
    rules = default_opset().get(node).facts.axes(node)
    size = node.output.static_shape[axis]
    return {
        port: own
        for port, array in enumerate(case.inputs)
        if array is not None
        for own, link in enumerate(rules.of(port))
        if link.relation is Relation.PARALLEL and link.axis == axis and array.shape[own] == size
    }


def _results(node: Node, grown: dict[int, int], axis: int) -> dict[int, int]:
    """Axes of the results, by number, that grow along."""
    rules, found = default_opset().get(node).facts.axes(node), {0: axis}
    for number in range(1, len(node.outputs)):
        links = [rules.link(port, own, number) for port, own in grown.items()]
        axes = {link.axis for link in links if link.relation is Relation.PARALLEL and link.axis is not None}
        if len(axes) == 1:
            found[number] = axes.pop()
    return found


def test_an_operator_that_nobody_can_cut_has_a_reason() -> None:
    cut = {case.operator for case, node in _single() for axis in _axes(node) if _grown(case, node, axis)}
    assert {case.operator for case, _ in _single()} - cut == set(UNCUT)


@cache
def _single() -> tuple[tuple[Case, Node], ...]:
    """A case of each operator."""
    return tuple((case, settled(case)) for case in few_cases(1))


def _axes(node: Node) -> range:
    return range(len(node.output.static_shape) if node.outputs else 0)


@cache
def pairs() -> tuple[tuple[Case, Node, Case, Node, dict[int, int]], ...]:
    """A case of each operator beside itself with each axis of the result doubled; and which axes grow."""
    return tuple(_pairs())


def _pairs() -> Iterator[tuple[Case, Node, Case, Node, dict[int, int]]]:
    for case, node in _single():
        for axis in _axes(node):
            grown = _grown(case, node, axis)
            arrays = [
                np.concatenate([array, array], grown[port]) if port in grown else array
                for port, array in enumerate(case.inputs)
            ]
            twice = replace(case, inputs=tuple(arrays))
            try:
                other = settled(twice)
            except (AscendSimError, ValueError):  # an operand that is not of this axis does not fit any more
                continue
            if grown:
                yield case, node, twice, other, _results(node, grown, axis)


def test_slices_that_come_twice_give_their_results_twice() -> None:
    wrong, compared = [], set()
    for case, node, twice, other, axes in pairs():
        if case.operator in OTHER_VALUES:
            continue
        try:
            before, after = compute(node, case.inputs), compute(other, twice.inputs)
        except ValueError:
            continue
        compared.add(case.operator)
        for number, axis in axes.items():
            wanted = np.concatenate([before[number]] * 2, axis)
            if not _equal(after[number], wanted):
                wrong.append(f"{case.name}: result {number} along axis {axis}")
    assert not wrong
    assert len(compared) > 230


def _equal(found: Array, wanted: Array) -> bool:
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return False
    if found.dtype.kind == "O":
        return bool((found == wanted).all())
    return np.allclose(found.astype(np.float64), wanted.astype(np.float64), 1e-4, 1e-5, equal_nan=True)


def amounts(work: Work | None) -> dict[str, float]:
    """What a work comes to, by kind; nothing for attention, whose sizes are those of heads."""
    found: dict[str, float] = defaultdict(float)
    for kind, amount in _amounts(work):
        found[kind] += amount
    return dict(found)


def _amounts(work: Work | None) -> Iterator[tuple[str, float]]:
    match work:
        case SequenceWork():
            for part in work.parts:
                yield from ((kind, amount * work.repeat) for kind, amount in _amounts(part))
        case StagedProduct() | FinishedProduct():
            yield from _amounts(work.product)
        case WorkChoice():
            for number, way in enumerate(work.ways):
                yield from ((f"{kind} {number}", amount) for kind, amount in _amounts(way))
        case VectorWork():
            yield "elements", work.rows * work.cols
        case CubeWork():
            yield "products", work.useful_macs or work.batch * work.m * work.k * work.n
        case FilterWork():
            yield "products", work.useful_macs
        case MoveWork():
            for copy in work.copies:
                yield "read", copy.bytes
                yield "written", copy.written
        case ScalarWork():
            yield "scalar cycles", work.elements * work.cycles_per_element
        case AiCpuWork():
            yield "operations", work.elements * work.operations


def test_no_slices_give_no_result_and_ask_for_nothing() -> None:
    """On the AI Core: kernels of the AI CPU are started all the same."""
    asked, compared = set(), set()
    for case, node, _, _, axes in pairs():
        grown = _grown(case, node, axes[0])
        arrays = [
            np.take(array, [], grown[port]) if port in grown else array
            for port, array in enumerate(case.inputs)
        ]
        try:
            empty = build(replace(case, inputs=tuple(arrays)))
        except AscendSimError:  # an operand that is not of this axis does not fit any more
            continue
        if (
            0 not in grown
            or not all(tensor.is_static for tensor in empty.outputs)
            or case.op_type == "AffineGrid"
        ):
            continue
        compared.add(case.operator)
        assert empty.output.static_shape[axes[0]] == 0, case.name
        for chip in CHIPS if len(axes) == len(node.outputs) else ():
            if not isinstance(work_of(empty, chip), NoTask | AiCpuWork | None):
                asked.add(case.operator)
    assert not asked
    assert len(compared) > 200


def test_twice_the_slices_are_twice_the_work() -> None:
    wrong, compared = set(), set()
    for case, node, _, other, _ in pairs():
        for chip in CHIPS:
            once, both = amounts(work_of(node, chip)), amounts(work_of(other, chip))
            compared.add(case.operator)
            if {kind: 2 * amount for kind, amount in once.items()} != both:
                wrong.add(case.operator)
    assert wrong <= set(MORE_OR_LESS), sorted(wrong - set(MORE_OR_LESS))
    assert len(compared) > 250
