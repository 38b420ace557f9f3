"""What a pass is: a named rewrite of a graph in place, with a result that says what it did; and how passes
run one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from ascendsim.core.errors import AscendSimError, PassError
from ascendsim.graph.ir import Graph
from ascendsim.graph.verify import KnownOperators, verify

LEFT = "left"  # beginning of the name of a count of what a pass left alone
NOTES_LEFT_OUT = "notes left out"


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

    @classmethod
    def of(cls, counts: Mapping[str, int], notes: Iterable[str] = ()) -> PassResult:
        """The result that counts say: changed, unless all they count is what was left; zeros are left out."""
        told = {kind: number for kind, number in counts.items() if number}
        return cls(any(not kind.startswith((LEFT, NOTES_LEFT_OUT)) for kind in told), told, tuple(notes))


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
            AscendSimError: If the graph cannot be rewritten; who runs it adds the pass's name.
        """
        ...


def run_pass(item: Pass, graph: Graph, remedy: str = "") -> PassResult:
    """Runs one pass; an error names it.

    Raises:
        PassError: If the pass failed.
    """
    try:
        return item.run(graph)
    except PassError:
        raise
    except AscendSimError as error:
        raise PassError(f"pass {item.name!r}", f"failed: {error}", remedy=remedy) from error


def verify_after(
    graph: Graph, subject: str, remedy: str = "", known_ops: KnownOperators | None = None
) -> None:
    """Verifies a graph that something has changed.

    Args:
        graph: As it is now.
        subject: Who changed it, for the error's text.
        remedy: For the error's text.
        known_ops: If given, an operator that this set lacks is an error.

    Raises:
        PassError: If the graph is broken.
    """
    try:
        verify(graph, known_ops)
    except AscendSimError as error:
        raise PassError(subject, f"left a broken graph: {error}", remedy=remedy) from error


def run_passes(
    graph: Graph,
    passes: Iterable[Pass],
    known_ops: KnownOperators | None = None,
    check: Literal["each", "last"] = "each",
) -> tuple[tuple[str, PassResult], ...]:
    """Runs passes on a graph, in place.

    Args:
        graph: Changed in place.
        passes: In the order in which they run.
        known_ops: If given, a pass that leaves behind an operator that this set lacks is an error.
        check: When to verify the graph: after "each" pass, or behind the "last", for passes that are tested
            by themselves.

    Returns:
        (name, result) of each pass, in order.

    Raises:
        PassError: If a pass failed or broke the graph; names the pass and those that ran before it.
    """
    results: list[tuple[str, PassResult]] = []
    items = tuple(passes)
    for item in items:
        before = f"passes before it: {', '.join(name for name, _ in results) or 'none'}"
        result = run_pass(item, graph, before)
        if check == "each" or item is items[-1]:
            culprit = "the pass" if check == "each" else "this pass or one before it"
            verify_after(graph, f"pass {item.name!r}", f"this is a defect of {culprit}; {before}", known_ops)
        results.append((item.name, result))
    return tuple(results)
