"""Statements of CANN's introduction to graph fusion and UB fusion (the log that it prints, where it lies, and
the rules that it lists), each by way of the public interface."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.compiler.model import CompiledModel
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Tensor
from ascendsim.passes.fusion.plog import PlogLine, plog_lines, read_plog
from tests.support.fusing import build, random

Body = Callable[[GraphBuilder], list[Tensor]]
INTRODUCTION = Path(__file__).parents[1] / "data" / "fusion" / "plog_introduction.log"
PRINTED = read_plog(INTRODUCTION.read_text(encoding="utf-8"))


def int8(*shape: int, most: int = 20, seed: int = 0, kind: type = np.int8) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).integers(-most, most, shape).astype(kind)


def int8_branch(b: GraphBuilder, part: Tensor, seed: int, kernel: int) -> Tensor:
    """AscendQuant, an int8 convolution with weights of two subtractions, AscendDequant, Relu."""
    x = b.op("AscendQuant", part, domain="ascend", scale=20.0, offset=3.0)
    weight = b.op(
        "Sub",
        b.op("AscendWeightQuant", int8(32, 32, kernel, kernel, seed=seed), int8(1, most=3), domain="ascend"),
        int8(32, 1, 1, 1, most=3),
    )
    sums = b.op(
        "QuantConv", x, weight, int8(32, kind=np.int32), domain="ascend", offset_x=3, pads=(kernel // 2,) * 4
    )
    scale = (random(32, seed=seed, positive=True) / 4000).astype(np.float32)
    return b.op("Relu", b.op("AscendDequant", sums, scale, domain="ascend"))


def int8_block(b: GraphBuilder) -> list[Tensor]:
    """Two int8 convolutions between a Split and a Concat."""
    parts = b.ops("Split", b.op("Abs", b.input("x", (1, 64, 8, 8))), [32, 32], outputs=2, axis=1)
    branches = [
        int8_branch(b, part, seed, kernel)
        for seed, (part, kernel) in enumerate(zip(parts, (3, 5), strict=True))
    ]
    return [b.op("Exp", b.op("Concat", *branches, axis=1))]


def wide_concat(b: GraphBuilder) -> list[Tensor]:
    y = b.op("Abs", b.input("y", (2, 4)))
    return [b.op("Exp", b.op("Concat", *(b.op("Add", y, float(item)) for item in range(70)), axis=1))]


def nested_splits(b: GraphBuilder) -> list[Tensor]:
    first, second = b.ops("Split", b.op("Abs", b.input("z", (2, 70))), [30, 40], outputs=2, axis=1)
    inner = b.ops("Split", first, [10, 20], outputs=2, axis=1)
    return [b.op("Exp", part) for part in (*inner, second)]


def wide_split(b: GraphBuilder) -> list[Tensor]:
    parts = b.ops("Split", b.op("Abs", b.input("w", (2, 70))), [1] * 70, outputs=70, axis=1)
    return [b.op("Exp", part) for part in parts]


# Parts of a network for which the lines of the text stand, and the rules that show there alone
PARTS: dict[Body, set[str]] = {
    int8_block: {
        "TfTagNoConstFoldingFusionPass",
        "TfMergeWeightQuantFusionPass",
        "Conv2DQuantProcessFusionPass",
        "V200NotRequantFusionPass",
        "DeleteNoConstFolding",
        "SplitConvConcatFusionPass",
        "FixPipeAbilityProcessPass",
    },
    wide_concat: {"ZConcatExt2FusionPass"},
    nested_splits: {"ZSplitVDFusionPassV2"},
    wide_split: {"ZSplitVDFusionPass"},
}


def effects(model: CompiledModel, names: set[str]) -> list[PlogLine]:
    """What a user sees who types the text's second command, of some rules."""
    lines = read_plog("\n".join(plog_lines(model.fusion)))
    return [line for line in lines if line.effected and line.name in names]


def test_the_eleven_lines_of_the_introduction_are_what_a_compilation_logs() -> None:
    """Rules, patterns, effects and order; rules that the text does not name may stand between them. Rules
    that look at every Split or Concat match more often here, since this network has several."""
    model = asim.compile(build(lambda b: [y for part in PARTS for y in part(b)]), "Ascend910B1")
    names = {line.name for line in PRINTED}
    seen = [(line.name, line.pattern, line.effected) for line in effects(model, names)]
    assert seen == [(line.name, line.pattern, line.effected) for line in PRINTED]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_each_line_stands_letter_by_letter_where_nothing_else_matches(part: Body) -> None:
    model = asim.compile(build(part), "Ascend910B1")
    assert effects(model, PARTS[part]) == [line for line in PRINTED if line.name in PARTS[part]]


def test_an_int8_block_computes_the_same_with_the_rules_of_the_log() -> None:
    graph = build(int8_block)
    models = [asim.compile(graph, "Ascend910B1", fusion=level) for level in ("off", "all")]
    inputs = asim.random_inputs(models[0])
    plain, fused = (asim.run(model, inputs).outputs["out0"] for model in models)
    np.testing.assert_allclose(fused, plain, rtol=2e-3, atol=2e-3)
    assert len(models[1].program.tasks) < len(models[0].program.tasks)
