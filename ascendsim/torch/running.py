"""Graphs on the chip: timed by the machine once, their values computed as often as they are called."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from ascendsim.api.compiling import compile
from ascendsim.api.running import simulate
from ascendsim.core.errors import NumericsWarning, OptionWarning
from ascendsim.core.files import make_folder, write_whole
from ascendsim.frontends.torch.notes import Break, CallNote, Captured
from ascendsim.graph.ir import Array, Node
from ascendsim.graph.text import to_text
from ascendsim.opset import OpDef, OpSet
from ascendsim.runtime import evaluate
from ascendsim.runtime.device_memory import DeviceMemory
from ascendsim.runtime.numerics import Numerics
from ascendsim.runtime.watch import Watch
from ascendsim.torch.fx_summary import fx_summary
from ascendsim.torch.recording import Run, Runs, note, note_fallback

VALUES = ("float32", "device", "off")
MAX_RUNS = 64  # graphs whose results are kept


_runs: deque[Run] = deque(maxlen=MAX_RUNS)
_numbers = count(1)  # of graphs, for names of files


def last_runs() -> Runs:
    """The graphs that ran on the chip, the latest last; each once, however often it was called. Printed they
    are a line each.
    """
    return Runs(_runs)


def clear_runs() -> None:
    """Forgets them; `torch._dynamo.reset()` does so too."""
    global _numbers
    _runs.clear()
    _numbers = count(1)


class DeviceGraph:
    """A compiled graph.

    Args:
        captured: With a static graph.
        options: Of `compile`.
        values: One of `VALUES`.

    Attributes:
        run: What it is known by.
    """

    def __init__(self, captured: Captured, options: Mapping[str, Any], values: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OptionWarning)  # the report holds them
            self._model = compile(captured.graph, **options)
        self._values = values
        self.run = Run(captured.kind, simulate(self._model), notes=captured.calls)
        records = self.run.result.trace.tasks
        self._order = [record.task for record in records]
        self._memory: DeviceMemory | None = None
        self._drawn: Mapping[str, Array] = {}
        self._opset: OpSet | None = None
        self._warned = False
        _runs.append(self.run)

    def __call__(self, inputs: Mapping[str, Array], drawn: Mapping[str, Array]) -> dict[str, Array] | None:
        """Outputs by name; None with values="off".

        Args:
            inputs: Arrays by graph input name.
            drawn: Results of random nodes by the node's name.
        """
        self.run.calls += 1
        note(self.run)
        if self._values == "off":
            return None
        model = self._model
        values: Any = self._values
        if self._memory is None:
            self._memory = DeviceMemory(model.graph, model.program.memory, values, model.float16)
            self._opset = self._with_draws(drawn)
        self._drawn = drawn
        assert self._opset is not None
        watch = Watch(self._opset) if values == "device" else None
        outputs: dict[str, Array] = evaluate(
            model.graph,
            model.program,
            self._opset,
            self._order,
            inputs,
            values=values,
            memory=self._memory,
            watch=watch,
        )
        if watch is not None:
            watch.end(outputs, model.graph.tensors)
            self._report(watch.report())
        return outputs

    def _report(self, seen: Numerics) -> None:
        """Keeps what the last call did to its numbers, and warns of an overflow, once a graph."""
        self.run.result = replace(self.run.result, watched=seen)
        if seen.overflows and not self._warned:
            self._warned = True
            remedy = "keep it in float32 (keep_dtype=, precision_mode=), or scale the loss"
            warnings.warn(f"{self.run.kind} graph: {seen}; {remedy}", NumericsWarning, stacklevel=2)

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
        dumps: Folders for files about each graph, by what they are: "graph_dump" (the graph as text),
            "fx_summary" (what PyTorch's operators became).
    """

    def __init__(self, options: Mapping[str, Any], values: str, dumps: Mapping[str, Path | None]) -> None:
        self._options, self._values, self._dumps = options, values, dumps

    @property
    def computes(self) -> bool:
        return self._values != "off"

    def compile(self, captured: Captured) -> DeviceGraph:
        made = DeviceGraph(captured, self._options, self._values)
        name = f"graph_{next(_numbers):03d}_{captured.kind}"
        if folder := self._dumps.get("graph_dump"):
            text = to_text(made.run.result.model.graph)
            write_whole(make_folder(folder) / f"{name}.txt", text.encode())
        if folder := self._dumps.get("fx_summary"):
            fx_summary([captured.calls]).to_csv(make_folder(folder) / f"{name}.csv")
        return made

    def fell_back(self, calls: Sequence[CallNote]) -> None:
        note_fallback(calls)

    def broke(self, behind: Break) -> None:
        note(behind)
