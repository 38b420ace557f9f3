"""What a pass is: a named rewrite of a graph in place, with a result that says what it did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ascendsim.graph.ir import Graph


@dataclass(frozen=True, slots=True)
class PassResult:
    """What a pass did.

    Attributes:
        changed: Whether the graph is different now.
        counts: Numbers by kind ("removed nodes": 3), for reports.
        notes: Sentences for a person, for example why a rewrite was refused.
    """

    changed: bool
    counts: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Pass(Protocol):
    """A rewrite of a graph in place. Implementations are small frozen dataclasses: their fields are their
    options.
    """

    @property
    def name(self) -> str:
        """Unique, lower case, words joined by dashes."""
        ...

    def run(self, graph: Graph) -> PassResult:
        """Rewrites the graph.

        Raises:
            AscendSimError: If the graph cannot be rewritten; the manager adds the pass's name.
        """
        ...
