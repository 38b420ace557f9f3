"""What operators say of their axes is all that can be said: an axis along which slices stay apart in the
values is one along which the map lets them be cut."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from ascendsim.graph.ir import Node
from ascendsim.ops import default_opset
from ascendsim.opset.axes import Relation
from tests.support.axes_law import changed_at
from tests.support.operator_cases import Case, build, compute, few_cases

Array = Any
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
CHANGES = 10  # elements of an input that are changed, one after the other


def _differing(old: Array, new: Array) -> Array:
    return (old != new) & ~((old != old) & (new != new))


def _apart(case: Case, node: Node) -> dict[tuple[int, int], set[tuple[int, int]]]:
    """By port and output: pairs of axes of one size whose slices change together, each with its own only."""
    before = compute(node, case.inputs)
    random = np.random.default_rng(0)
    found: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for port, array in enumerate(case.inputs):
        if array is None or array.ndim == 0 or array.size < 2:
            continue
        seen: dict[tuple[int, int, int], set[int]] = defaultdict(set)
        mixed: set[tuple[int, int, int]] = set()
        for flat in random.permutation(array.size)[:CHANGES]:
            place = np.unravel_index(int(flat), array.shape)
            arrays = [*case.inputs[:port], changed_at(array, place), *case.inputs[port + 1 :]]
            try:
                after = compute(node, arrays)
            except Exception:  # an index that leaves its range, say: nothing to learn
                continue
            for output, (old, new) in enumerate(zip(before, after, strict=True)):
                differs = _differing(old, new) if old.shape == new.shape else np.ones(old.shape, bool)
                if not differs.any():
                    continue
                slices = [set(found.tolist()) for found in np.atleast_1d(differs).nonzero()]
                for axis, b in np.ndindex(array.ndim, old.ndim):
                    if array.shape[axis] != old.shape[b] or old.shape[b] < 2:
                        continue
                    if slices[b] == {int(place[axis])}:
                        seen[output, axis, b].add(int(place[axis]))
                    else:
                        mixed.add((output, axis, b))
        for (output, axis, b), places in seen.items():
            if (output, axis, b) not in mixed and len(places) >= min(3, array.shape[axis]):
                found.setdefault((port, output), set()).add((axis, b))
    return found


def _unsaid(case: Case) -> list[str]:
    node = build(case)
    definition = default_opset().get(node)
    rules = definition.facts.axes(node)
    lines = []
    for (port, output), pairs in _apart(case, node).items():
        if port in definition.facts.parameters:
            continue
        for axis, b in sorted(pairs):
            if [a for a, other in pairs if other == b] != [axis] or [o for a, o in pairs if a == axis] != [b]:
                continue  # too few changes to tell two axes of one size
            link = rules.link(port, axis, output)
            if link.relation not in (Relation.PARALLEL, Relation.GROUP, Relation.WINDOW):
                lines.append(f"{case.operator} {port}->{output} {link.relation.value}")
    return lines


# Slices stay apart, and the map says less: by operator, why.
GIVEN = "the updates of a tensor are independent, and cut by nobody"
LESS = {
    "Bernoulli": "the numbers that are drawn depend on the place of an element",
    "Dropout": "as Bernoulli",
    "BitCast": "elements of one width only",
    "Col2Im": "the batch goes along, images and blocks of them do not",
    "ConvTranspose": "channels of groups",
    "DynamicQuantizeLinear": "one changed element that is no extreme; the extremes are those of all",
    "LinearAttention": "what is masked",
    "QuantizeLinear": "its blocks",
    "com.microsoft::QGemm": "the bias goes with the weights, which stay whole",
    "RNN": "one step, one direction",
    "ScatterElements": "what an element is replaced by depends on values",
    "ScatterND": "as ScatterElements",
    "TensorScatter": "as ScatterElements",
    "Trilu": "its lower part depends on both places",
    "GatherND": "picks that are in order",
    "ai.onnx.ml::ArrayFeatureExtractor": "as GatherND",
    **{f"ai.onnx.preview.training::{name}": GIVEN for name in ("Adagrad", "Adam", "Momentum")},
    "ascend::AccumulateGrad": "a gradient of any shape as one row",
    "ascend::Aipp": "rows and columns of an image are cropped, padded and scaled",
    "ascend::AippConv": "as Aipp, channels of filters",
    **{
        f"ascend::{name}": "one value a channel, and sums over all others"
        for name in ("BNTrainingReduceGrad", "BNTrainingUpdateGrad", "BatchNormGrad")
    },
    **{
        f"ascend::{name}": "gradients are taken as a whole"
        for name in (
            "GroupNormGrad",
            "LayerNormBetaGammaBackpropV2",
            "LayerNormGrad",
            "LayerNormXBackpropV2",
            "RmsNormGrad",
            "RotaryPositionEmbeddingGrad",
        )
    },
    "ascend::CompositeMatMul": "blocks of the matrices",
    "ascend::FlashAttentionScore": "its own teams share out batches and heads, and nobody cuts it further",
    "ascend::FlashAttentionScoreGrad": "as FlashAttentionScore",
    "ascend::GroupedMatmul": "which matrix a row meets depends on its place; nobody cuts columns of weights",
    "ascend::FusedInferAttentionScore": "as FlashAttentionScore",
    "ascend::Scatter": "as ScatterElements",
    "ascend::IncreFlashAttention": "as FlashAttentionScore",
    "ascend::PromptFlashAttention": "as FlashAttentionScore",
    "ascend::ConfusionTransposeD": "a reshape and a transposition at once",
    "ascend::Proposal": "the number of the image is part of the result",
    "ascend::ReluGradV2": "bits",
    **{
        f"ascend::{name}": "as DynamicQuantizeLinear, row by row"
        for name in ("DynamicQuant", "RmsNormDynamicQuant", "AddRmsNormDynamicQuant")
    },
    **{f"ascend::{name}": "as ScatterElements" for name in ("ReshapeAndCache", "ScatterPaKvCache")},
}


def test_axes_whose_slices_stay_apart_can_be_cut() -> None:
    unsaid = {line for case in few_cases(3) for line in _unsaid(case) if case.operator not in LESS}
    assert not unsaid
