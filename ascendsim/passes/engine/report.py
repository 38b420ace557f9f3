"""What the graph engine did: by run of a pass or traversal, with the size of the graph before and after."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ascendsim.graph.ir import Graph
from ascendsim.passes.rewriting.folding import origin_bytes
from ascendsim.passes.rewriting.passes import LEFT, PassResult
from ascendsim.passes.rewriting.removal import all_graphs


@dataclass(frozen=True, slots=True)
class Weight:
    """Size of a graph with all its subgraphs.

    Attributes:
        nodes: Number of nodes.
        constants: Number of constants.
        constant_bytes: Their bytes in the model's own types.
    """

    nodes: int
    constants: int
    constant_bytes: int


def weigh(graph: Graph) -> Weight:
    """Size of a graph; values that are kept beside nodes do not count."""
    nodes = constants = size = 0
    for scope in all_graphs(graph):
        nodes += len(scope)
        for tensor in scope.constants:
            if tensor.producer is None:
                constants += 1
                size += origin_bytes(tensor) if tensor.is_static else 0
    return Weight(nodes, constants, size)


@dataclass(frozen=True, slots=True)
class PassRecord:
    """What one pass did in one run.

    Attributes:
        name: Of the pass.
        result: Counts and notes.
        seconds: Time that it took; 0 where only that of the whole run is known.
    """

    name: str
    result: PassResult
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class PassRun:
    """One run of a pass, or of several together in a traversal.

    Attributes:
        stage: Name of the stage.
        name: Of the pass, or "traversal".
        records: By pass, in order.
        before, after: Size of the graph.
        seconds: Time of the whole run.
    """

    stage: str
    name: str
    records: tuple[PassRecord, ...]
    before: Weight
    after: Weight
    seconds: float

    @property
    def changed(self) -> bool:
        """Whether any of its passes changed the graph."""
        return any(record.result.changed for record in self.records)


@dataclass(slots=True)
class EngineReport:
    """Every run, in order."""

    runs: list[PassRun] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Whether anything changed the graph, types and shapes included."""
        return any(run.changed for run in self.runs)

    @property
    def seconds(self) -> float:
        """Time of all passes, without the checks between them."""
        return sum(run.seconds for run in self.runs)

    @property
    def removed_nodes(self) -> int:
        """By how many nodes the runs made the graph smaller; what graph fusion did between them does not
        count.
        """
        return sum(run.before.nodes - run.after.nodes for run in self.runs)

    def totals(self) -> dict[str, Counter[str]]:
        """Counts by pass over all runs, passes in order of their first run; what was left alone is that of
        the last run.
        """
        sums: dict[str, Counter[str]] = {}
        for run in self.runs:
            for record in run.records:
                total = sums.setdefault(record.name, Counter())
                for kind in [kind for kind in total if kind.startswith(LEFT)]:
                    del total[kind]
                total.update(record.result.counts)
        return sums

    def notes(self) -> tuple[tuple[str, str], ...]:
        """(pass, sentence) over all runs, each once."""
        return tuple(
            dict.fromkeys(
                (record.name, note)
                for run in self.runs
                for record in run.records
                for note in record.result.notes
            )
        )
