"""Graphs on the chip: timed by the machine once, their values computed as often as they are called."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ascendsim.api.compiling import compile
from ascendsim.api.result import Result
from ascendsim.api.running import simulate
from ascendsim.core.errors import OptionWarning
from ascendsim.frontends.torch.notes import Break, CallNote, Captured
from ascendsim.graph.ir import Array, Node
from ascendsim.opset import OpDef, OpSet
from ascendsim.runtime import evaluate
from ascendsim.runtime.device_memory import DeviceMemory
from ascendsim.torch.recording import note, note_fallback

VALUES = ("float32", "device", "off")
MAX_RUNS = 64  # graphs whose results are kept


@dataclass(slots=True)
class Run:
    """A graph that torch.compile gave to the chip.

    Attributes:
        kind: "forward", "backward", "inference" or "optimizer".
        result: Times and reports, as `ascendsim.simulate` gives them.
        calls: How often it ran.
        notes: The PyTorch operators that it was made of.
    """

    kind: str
    result: Result
    calls: int = 0
    notes: Sequence[CallNote] = ()

    @property
    def duration_us(self) -> float:
        """Time of one call on the chip, in microseconds."""
        return self.result.duration_us


_runs: deque[Run] = deque(maxlen=MAX_RUNS)


def last_runs() -> tuple[Run, ...]:
    """The graphs that ran on the chip, the latest last; each once, however often it was called."""
    return tuple(_runs)


def clear_runs() -> None:
    """Forgets them; `torch._dynamo.reset()` does so too."""
    _runs.clear()


class DeviceGraph:
    """A compiled graph.

    Args:
        captured: With a static graph.
        options: Of `compile`.
        values: One of `VALUES`.
    """

    def __init__(self, captured: Captured, options: Mapping[str, Any], values: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OptionWarning)  # the report holds them
            self._model = compile(captured.graph, **options)
        self._values = values
        self._run = Run(captured.kind, simulate(self._model), notes=captured.calls)
        self._order = [record.task for record in self._run.result.trace.tasks]
        self._memory: DeviceMemory | None = None
        self._drawn: Mapping[str, Array] = {}
        self._opset: OpSet | None = None
        _runs.append(self._run)

    def __call__(self, inputs: Mapping[str, Array], drawn: Mapping[str, Array]) -> dict[str, Array] | None:
        """Outputs by name; None with values="off".

        Args:
            inputs: Arrays by graph input name.
            drawn: Results of random nodes by the node's name.
        """
        self._run.calls += 1
        note(self._run)
        if self._values == "off":
            return None
        model = self._model
        values: Any = self._values
        if self._memory is None:
            self._memory = DeviceMemory(model.graph, model.program.memory, values)
            self._opset = self._with_draws(drawn)
        self._drawn = drawn
        assert self._opset is not None
        return evaluate(
            model.graph, model.program, self._opset, self._order, inputs, values=values, memory=self._memory
        )

    def _with_draws(self, drawn: Mapping[str, Array]) -> OpSet:
        """Operators of which random ones give what was drawn for them."""
        model = self._model
        keys = {model.opset.get(model.graph.node(name)).key for name in drawn}
        return OpSet(self._giving(one) if one.key in keys else one for one in model.opset)

    def _giving(self, definition: OpDef) -> OpDef:
        def compute(node: Node, inputs: Sequence[Any], wanted: Sequence[Any]) -> Sequence[Array]:
            given = self._drawn.get(node.name)
            if given is None:
                return definition.compute(node, inputs, wanted)
            return [given.astype(wanted[0], copy=False)]

        return replace(definition, compute=compute)


class Simulated:
    """The simulated chip as the front end sees it.

    Args:
        options: Of `compile`.
        values: One of `VALUES`.
    """

    def __init__(self, options: Mapping[str, Any], values: str) -> None:
        self._options, self._values = options, values

    def compile(self, captured: Captured) -> DeviceGraph:
        return DeviceGraph(captured, self._options, self._values)

    def fell_back(self, calls: Sequence[CallNote]) -> None:
        note_fallback(calls)

    def broke(self, behind: Break) -> None:
        note(behind)
