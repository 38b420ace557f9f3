"""What a node pass of the graph engine is: it looks at one node, and says which nodes must be looked at
again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

from ascendsim.graph.ir import Dim, Graph, Node, Tensor
from ascendsim.opset import OpSet
from ascendsim.passes.engine.edits import bypass
from ascendsim.passes.rewriting.passes import LEFT, NOTES_LEFT_OUT, PassResult
from ascendsim.passes.rewriting.report import PatternRecord, Refusal
from ascendsim.passes.rewriting.runner import RefusedError
from ascendsim.passes.rewriting.worklist import When

MAX_NOTES = 50  # sentences that one pass keeps in one run; what is left out is counted


@dataclass(slots=True)
class Tally(PatternRecord):
    """What one pass did in one run.

    Attributes:
        counts: Numbers by kind.
        notes: Sentences, for example why something was left alone.
        seconds: Time that it took.
    """

    counts: Counter[str] = field(default_factory=Counter)
    notes: dict[str, None] = field(default_factory=dict)
    seconds: float = 0.0
    _refused: set[Refusal] = field(default_factory=set)

    @classmethod
    def of(cls, name: str) -> Tally:
        """That of a pass of the graph engine, which is its own pattern."""
        return cls("engine", name, name)

    def count(self, kind: str, number: int = 1) -> None:
        self.counts[kind] += number

    def refuse(self, node: str, reason: str) -> bool:
        """Notes that a node was left, once however often it was visited."""
        refusal = Refusal(node, reason)
        if refusal in self._refused:
            return False
        self._refused.add(refusal)
        self.refusals.append(refusal)
        self.counts[f"{LEFT}: {reason}"] += 1
        return True

    def note(self, text: str) -> None:
        """Keeps a sentence once; beyond `MAX_NOTES` they are only counted."""
        if text in self.notes:
            return
        if len(self.notes) < MAX_NOTES:
            self.notes[text] = None
        else:
            self.counts[NOTES_LEFT_OUT] += 1

    def result(self) -> PassResult:
        """What it counted and noted."""
        return PassResult.of(self.counts, self.notes)


class Site(Protocol):
    """What a node pass sees of the traversal that runs it.

    Attributes:
        opset: Operators.
        graph: The graph of the node.
        tally: What the pass did so far.
        parts: Elements of integer tensors that are known in part (see `value_range`).
    """

    opset: OpSet
    graph: Graph
    tally: Tally
    parts: dict[Tensor, tuple[Dim, ...]]

    def again(self, node: Node, when: When = When.IMMEDIATE) -> None:
        """Asks for a node to be visited again; nodes that are gone by then are passed over."""

    def visit_new(self, nodes: list[Node]) -> None:
        """Asks for nodes that were just made to be visited next, in this order."""


class NodePass(Protocol):
    """A pass of the traversal. Implementations are small frozen dataclasses: their fields are their
    options.
    """

    @property
    def name(self) -> str:
        """GE's name of the pass."""
        ...

    @property
    def op_types(self) -> frozenset[tuple[str, str]] | None:
        """(domain, operator) of the nodes that it looks at; None = all."""
        ...

    def run(self, node: Node, site: Site) -> bool:
        """Looks at one node; tells whether it changed anything.

        Raises:
            RefusedError: If it could be changed, but must not; says why.
        """
        ...


def standard(*op_types: str) -> frozenset[tuple[str, str]]:
    """(domain, operator) of standard ONNX operators."""
    return frozenset(("", op_type) for op_type in op_types)


def again_around(node: Node, site: Site) -> None:
    """Asks for the neighbours of a node to be visited again: producers of its inputs and readers of its
    outputs.
    """
    for tensor in node.inputs:
        if tensor is not None and tensor.producer is not None:
            site.again(tensor.producer)
    again_readers(node, site)


def again_readers(node: Node, site: Site) -> None:
    """Asks for the readers of a node's outputs to be visited again."""
    for tensor in node.outputs:
        for reader in tensor.consumers:
            site.again(reader)


def replace_by(node: Node, source: Tensor, site: Site) -> bool:
    """Lets readers of a node read `source` instead and counts that; a node that names an output of the graph
    stays.

    Raises:
        RefusedError: If the node stays.
    """
    again_around(node, site)
    if not bypass(node, source):
        raise RefusedError("it names an output")
    site.tally.count(f"removed {node.op_type}")
    return True
