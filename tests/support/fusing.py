"""Small graphs for tests of graph-fusion rules: built, fused by given rules alone, and evaluated before and
after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Array, Graph, Tensor
from ascendsim.graph.text import to_text
from ascendsim.graph.verify import verify
from ascendsim.ops import default_opset
from ascendsim.opset import InferContext
from ascendsim.passes.fusion.engine import run_rules
from ascendsim.passes.fusion.report import FusionReport
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from tests.support.evaluate import Known, evaluate

EXACT = 0.0
CHANGED_ALGEBRA = 1e-5  # largest error in terms of the output's range


def new_builder() -> GraphBuilder:
    """A builder that infers types as it goes."""
    return GraphBuilder(infer=lambda node: default_opset().get(node).infer(InferContext(node)))


def random(*shape: int, seed: int = 0, positive: bool = False, dtype: Any = np.float32) -> Array:
    """Normal numbers, or numbers in [0.5, 1.5)."""
    generator = np.random.default_rng([seed, *shape])
    return (generator.random(shape) + 0.5 if positive else generator.standard_normal(shape)).astype(dtype)


def build(body: Callable[[GraphBuilder], Tensor | Sequence[Tensor]]) -> Graph:
    """The graph whose outputs the function returns."""
    builder = new_builder()
    results = body(builder)
    for number, tensor in enumerate([results] if isinstance(results, Tensor) else results):
        builder.output(tensor, f"out{number}")
    return builder.build()


@dataclass(frozen=True)
class Fused:
    """A graph before and after some rules.

    Attributes:
        graph: After them.
        counts: (matched, effected) by rule.
        reasons: Why matches were refused.
        error: Largest difference of an output in terms of its range.
    """

    graph: Graph
    counts: dict[str, tuple[int, int]]
    reasons: list[str]
    error: float

    @property
    def operators(self) -> dict[str, int]:
        """How many nodes of each type are left."""
        return dict(Counter(node.op_type for node in self.graph.nodes))

    def effected(self, name: str) -> int:
        """How often a rule changed the graph."""
        return self.counts.get(name, (0, 0))[1]

    @property
    def reason(self) -> str:
        """The only reason of a refusal."""
        (found,) = set(self.reasons)
        return found


def context(generation: str = "v100", **options: object) -> FusionContext:
    """What rules see of a chip of this generation."""
    names = {
        "v100": "Ascend310",
        "m200": "Ascend310P",
        "m300": "Ascend310B",
        "c220": "Ascend910B",
        "c310": "Ascend910_95",
    }
    return FusionContext(default_opset(), generation, names[generation], options)


def fused(
    graph: Graph, *rules: FusionRule, generation: str = "v100", seed: int = 0, **options: object
) -> Fused:
    """Applies rules to a copy; asserts that it stays valid, keeps its interface, and that a second run
    changes nothing."""
    after, report = copy_graph(graph), FusionReport()
    run_rules(after, rules, context(generation, **options), report)
    verify(after)
    for before, now in zip((*graph.inputs, *graph.outputs), (*after.inputs, *after.outputs), strict=True):
        assert (before.name, before.shape, before.dtype) == (now.name, now.shape, now.dtype)
    unread = [tensor.name for tensor in after.constants if not tensor.uses and tensor not in after.outputs]
    assert not unread, f"constants that nobody reads: {unread}"
    text, again = to_text(after), FusionReport()
    run_rules(after, rules, context(generation, **options), again)
    assert to_text(after) == text
    assert not any(record.effected for record in again.records)
    reasons = [refusal.reason for record in report.records for refusal in record.refusals]
    return Fused(after, report.totals("graph"), reasons, difference(graph, after, seed))


def difference(before: Graph, after: Graph, seed: int = 0, known: Known | None = None) -> float:
    """Largest difference of any output of two graphs in terms of its range, on random inputs."""
    return apart(*(answers(graph, before, seed, known) for graph in (before, after)))


def answers(graph: Graph, asked: Graph, seed: int = 0, known: Known | None = None) -> list[Array]:
    """The outputs of a graph on random inputs, which are made for those of `asked`."""

    def drawn() -> list[Array]:
        generator, arrays = np.random.default_rng(seed), []
        for tensor in asked.inputs:
            kind = tensor.element_type
            low, high = (-100, 100) if kind.itemsize < 8 else (0, 2)  # int64: indices, token ids and masks
            values = (
                generator.standard_normal(tensor.static_shape)
                if kind.is_float
                else generator.integers(low, high, tensor.static_shape)
            )
            arrays.append(np.asarray(values).astype(kind.numpy))
        return arrays

    names = [tensor.name for tensor in asked.inputs]
    key = seed, tuple([(tensor.element_type, tensor.static_shape) for tensor in asked.inputs])
    arrays = drawn() if known is None else known.arrays(key, drawn)
    return evaluate(graph, default_opset(), dict(zip(names, arrays, strict=True)), known)


def apart(before: Sequence[Array], after: Sequence[Array]) -> float:
    """Largest difference of any two arrays in terms of the range of the first."""
    worst = 0.0
    for old, new in zip(before, after, strict=True):
        assert (old.shape, old.dtype) == (new.shape, new.dtype)
        if np.array_equal(old, new):
            continue
        wide = [array.astype(np.float64) for array in (old, new)]
        with np.errstate(invalid="ignore"):  # equal infinities
            gap = np.where(
                (wide[0] == wide[1]) | np.isnan(wide[0]) & np.isnan(wide[1]), 0.0, np.abs(wide[0] - wide[1])
            )
        finite = wide[0][np.isfinite(wide[0])]
        spread = float(np.ptp(finite)) if finite.size > 1 else float(np.abs(finite).sum())
        worst = max(worst, float(np.max(gap, initial=0) / max(spread, 1e-30)))
    return worst


def types(graph: Graph) -> list[str]:
    """Operators in execution order."""
    return [node.op_type for node in graph.topological()]
