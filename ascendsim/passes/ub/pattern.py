"""The notation of UB fusion: a head operator and what follows it, read forwards along the edges, as FE's
BufferFusionPattern does.

    UbPattern("conv_sigmoid_mul", (head("conv", CONVOLUTION), part("sigmoid", ELEMWISE), part("mul",
    ELEMWISE)),
              (("conv", "sigmoid"), ("conv", "mul"), ("sigmoid", "mul")))

Every part stands for one node, or for a chain of `least` to `most` nodes; a part that may be empty is skipped
over. Inside a match a tensor has no readers outside it unless its part is `shared`. The search is that of all
patterns (`rewriting/search.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from itertools import pairwise

from ascendsim.graph.ir import Node
from ascendsim.opset.facts import OpPattern
from ascendsim.passes.rewriting import pattern as rewriting
from ascendsim.passes.rewriting.pattern import Form, FormOf

ANY = None  # any number of inputs from outside


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive nodes of a pattern.

    Attributes:
        name: Unique in the pattern.
        kinds: Classes that they may have.
        least, most: How many there may be, one behind the other.
        others: Inputs from outside the match that each has (FE's InputData); `ANY` = any number.
        shared: Whether nodes outside the match may read them too (FE's OutputData).
        types: Operator types, if only some of a class will do.
    """

    name: str
    kinds: tuple[OpPattern, ...]
    least: int = 1
    most: int = 1
    others: int | None = 0
    shared: bool = False
    types: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class UbPattern:
    """Parts with edges between them; the first part is the head, and every other one follows a part before
    it.

    Attributes:
        name: Of the pattern.
        parts: In an order in which data flows.
        edges: Pairs of names (producer, reader).
        most: Nodes of a match in all; None = no limit of its own.
        needs_shared: Whether some tensor inside must have a reader outside.
    """

    name: str
    parts: tuple[Part, ...]
    edges: tuple[tuple[str, str], ...]
    most: int | None = None
    needs_shared: bool = False

    def compiled(
        self,
        kind: Callable[[Node], OpPattern],
        free: Callable[[Node], bool],
        present: Container[OpPattern],
    ) -> rewriting.Pattern | None:
        """The pattern for the search in one graph; None if the graph lacks a class that it needs.

        Args:
            kind: Class of a node.
            free: Whether a node may join a scope.
            present: Classes of the graph's nodes.
        """
        parts = {}
        for part in self.parts:
            found = any(item in present for item in part.kinds)
            if part.least and not found:
                return None
            parts[part.name] = rewriting.Part(
                (),
                _form_of(part, kind, free),
                shared=part.shared,
                reads=tuple([producer for producer, reader in self.edges if reader == part.name]),
                least=part.least,
                most=part.most if found else 0,
                others=part.others,
            )
        return rewriting.Pattern(
            parts,
            self.parts[0].name,
            distinct=True,
            least=2,  # a head alone is no match
            most=self.most,
            needs_shared=self.needs_shared,
        )


def _form_of(part: Part, kind: Callable[[Node], OpPattern], free: Callable[[Node], bool]) -> FormOf:
    def form(node: Node) -> Form | None:
        if kind(node) not in part.kinds or (part.types and node.op_type not in part.types) or not free(node):
            return None
        return Form((node,), node.inputs)

    return form


def chain(name: str, *parts: Part, most: int | None = None, needs_shared: bool = False) -> UbPattern:
    """A pattern whose parts follow each other."""
    edges = tuple([(before.name, part.name) for before, part in pairwise(parts)])
    return UbPattern(name, parts, edges, most, needs_shared)
