"""Runs of a quantised network beside the float one: noise of values, and times of layers."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from os import PathLike

import numpy as np

from ascendsim.api.compiling import compile
from ascendsim.api.running import simulate
from ascendsim.compiler.naming import TaskNames
from ascendsim.core.errors import GraphError
from ascendsim.graph.ir import Array, Graph, Tensor
from ascendsim.opset import OpSet
from ascendsim.quantisation.data import Batch
from ascendsim.runtime.plain import evaluate_plain
from ascendsim.soc import SocSpec

Chip = str | PathLike[str] | SocSpec


@dataclass(slots=True)
class Noise:
    """Squares of values and of their errors, summed over data.

    Attributes:
        powers: Tensor -> sum of squares of the float values, of the differences.
        ends: Outputs of the network.
    """

    powers: dict[str, tuple[float, float]] = field(default_factory=dict)
    ends: tuple[str, ...] = ()

    def add(self, name: str, wanted: Array, got: Array) -> None:
        """Adds arrays of one tensor."""
        signal, noise = self.powers.get(name, (0.0, 0.0))
        right = wanted.astype(np.float64)
        difference = got.astype(np.float64) - right
        self.powers[name] = (signal + float((right**2).sum()), noise + float((difference**2).sum()))

    def of(self, name: str) -> float:
        """Signal-to-noise ratio of a tensor in dB; infinite without noise, NaN if nothing was seen of it."""
        return _decibels(*self.powers.get(name, (math.nan, math.nan)))

    @property
    def outputs(self) -> float:
        """That of all outputs together, in dB."""
        held = [self.powers[name] for name in self.ends if name in self.powers]
        return _decibels(sum(signal for signal, _ in held), sum(noise for _, noise in held))


def _decibels(signal: float, noise: float) -> float:
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal > 0 else -math.inf if signal == 0 else math.nan


def compare_values(
    source: Graph, made: Graph, opset: OpSet, data: Iterable[Batch], names: Collection[str]
) -> Noise:
    """Runs both over data and sums up how far named tensors, and outputs of floats, are from each other.

    Args:
        source: The float network.
        made: The quantised one, with tensors of the same names.
        opset: Operators.
        data: Batches.
        names: Tensors to compare besides outputs.
    """
    ends = tuple(tensor.name for tensor in source.outputs if tensor.element_type.is_float)
    noise, wanted = Noise(ends=ends), {*names, *ends}
    for batch in data:
        held: dict[str, Array] = {}

        def keep(tensor: Tensor, array: Array, held: dict[str, Array] = held) -> None:
            if tensor.name in wanted:
                held[tensor.name] = array

        def compare(tensor: Tensor, array: Array, held: dict[str, Array] = held) -> None:
            if tensor.name in held:
                noise.add(tensor.name, held.pop(tensor.name), array)

        evaluate_plain(source, opset, batch, see=keep)
        evaluate_plain(made, opset, batch, see=compare)
    return noise


@dataclass(frozen=True, slots=True)
class Times:
    """Times of a network on a chip.

    Attributes:
        total_us: Of the whole run.
        layers: Node of the float network -> time of its task in us, what is fused with it included.
    """

    total_us: float
    layers: Mapping[str, float]


def times_of(graph: Graph, chip: Chip, opset: OpSet, names: Iterable[str]) -> Times:
    """Simulates a network and looks up its layers' tasks."""
    built_in = _built_in()
    own = [operator for operator in opset if built_in.find(operator.name, operator.domain) != operator]
    model = compile(graph, chip, operators=own)
    result = simulate(model)
    spans = {record.task: record.end - record.start for record in result.trace.tasks}
    known = TaskNames(model.graph, model.program)
    return Times(
        result.duration_us,
        {name: result.trace.us(sum(spans[number] for number in _tasks(known, name))) for name in names},
    )


def _tasks(known: TaskNames, name: str) -> list[int]:
    try:
        return [task.id for task in known.tasks(name)]
    except GraphError:  # folded away
        return []


def _built_in() -> OpSet:
    from ascendsim.ops import default_opset

    return default_opset()
