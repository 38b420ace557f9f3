"""Patterns of operators: what `search.py` looks for.

A `Pattern` says for each of its parts which nodes may stand for it and what they must read. Most are written
as a tree that is read from its last operator backwards through its inputs:

    Op("Relu", Op("Conv", Any("x"), Const("w"), name="conv"), name="relu")

Captured names are unique; the same tensor name twice means the same tensor. Inner operators must feed nobody
outside the match unless `shared=True`, since a rewrite takes them away. What is no tree (shared results,
several outputs) can be written as a list of edges (`fusion/rules/edges.py`), what is read forwards, from an
operator to chains of those that follow, as classes of operators (`ub/pattern.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import permutations, product
from typing import NamedTuple, Union

from ascendsim.graph.ir import Node, Tensor


@dataclass(frozen=True, slots=True)
class Any:
    """Any tensor."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class Const:
    """A constant tensor (its values may be absent)."""

    name: str = ""


@dataclass(frozen=True, slots=True, init=False)
class Op:
    """One operator.

    Args:
        types: Operator type, or several joined by "|" ("Mul|Add").
        inputs: Patterns by input port; ports beyond them are free, None leaves a port free.
        name: Capture name of the node.
        commutative: Whether the given inputs may stand in any order.
        shared: Whether its output may have readers outside the match, or be a graph output.
        output: Output port that the reader takes.
    """

    types: tuple[str, ...]
    inputs: tuple[Term | None, ...]
    name: str
    commutative: bool
    shared: bool
    output: int

    def __init__(
        self,
        types: str,
        *inputs: Term | None,
        name: str = "",
        commutative: bool = False,
        shared: bool = False,
        output: int = 0,
    ) -> None:
        for key, value in (
            ("types", tuple(types.split("|"))),
            ("inputs", inputs),
            ("name", name or types.split("|")[0].lower()),
            ("commutative", commutative),
            ("shared", shared),
            ("output", output),
        ):
            object.__setattr__(self, key, value)


Term = Union[Op, Any, Const]


class Form(NamedTuple):
    """Nodes that stand for one part of a pattern: the last one, what comes before it, and the operands."""

    nodes: tuple[Node, ...]
    inputs: tuple[Tensor | None, ...]


FormOf = Callable[[Node], "Form | None"]


@dataclass(frozen=True, slots=True)
class Operand:
    """What a part reads at one port.

    Attributes:
        name: Of another part, or under which the tensor is captured; empty = it is not.
        is_part: Whether a part makes it.
        constant: Whether it must be a constant.
        output: Output port of the part.
    """

    name: str
    is_part: bool = False
    constant: bool = False
    output: int = 0


Way = tuple[tuple[int, Operand], ...]  # (input port, what is read there)


@dataclass(frozen=True, slots=True)
class Part:
    """One operator of a pattern, or a chain of them, each of which reads the one before.

    Attributes:
        types: Operators of which one stands for it; where a graph has none, the pattern is not looked for.
        form: How a node stands for it.
        ways: All ways to lay what it reads on its ports; other ports are free.
        shared: Whether results that the match reads may have readers outside it too, or be graph outputs.
        most_inputs: How many inputs it may have; None = any number.
        reads: Parts whose results it reads at whatever port; what stands for nothing hands on what it reads
            itself. The search goes from them to their readers then.
        least, most: How many nodes stand for it, the longest chain first; it may be nothing if `reads` says
            where the search goes on.
        others: How many inputs each node has from outside, constants of one element left aside; None = any
            number.
        plain: Whether a single node stands for it, by its type, with its inputs.
    """

    types: tuple[str, ...]
    form: FormOf
    ways: tuple[Way, ...] = ((),)
    shared: bool = False
    most_inputs: int | None = None
    reads: tuple[str, ...] = ()
    least: int = 1
    most: int = 1
    others: int | None = None
    plain: bool = False


class Source(NamedTuple):
    """What makes an input of a part: operators of one of these types, which read from such sources."""

    types: tuple[str, ...]
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Pattern:
    """What is looked for.

    Attributes:
        parts: By capture name.
        root: The part where the search starts.
        results: Parts whose first outputs are the results, if there are several.
        waiting: Parts that a control edge from outside must hold, all others not; None = no matter.
        distinct: Whether no node may stand for two parts.
        deep: Whether what a part reads is searched before what its neighbours read.
        least, most: How many nodes a match has in all; None = no limit of its own.
        needs_shared: Whether a result that the match reads must have a reader outside it.
        sources: Operators of each part that the root reads; of plain parts also what these read, and so on.
        needs: For each part the operators of which one stands for it.
    """

    parts: Mapping[str, Part]
    root: str
    results: tuple[str, ...] = ()
    waiting: frozenset[str] | None = None
    distinct: bool = False
    deep: bool = True
    least: int = 1
    most: int | None = None
    needs_shared: bool = False
    sources: tuple[Source, ...] = field(init=False)
    needs: tuple[tuple[str, ...], ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sources", self._sources_of(self.parts[self.root]))
        object.__setattr__(self, "needs", tuple([part.types for part in self.parts.values()]))

    def _sources_of(self, part: Part) -> tuple[Source, ...]:
        read = [self.parts[operand.name] for _, operand in part.ways[0] if operand.is_part]
        return tuple([Source(one.types, self._sources_of(one) if one.plain else ()) for one in read])


@dataclass(frozen=True, slots=True)
class Match:
    """Where a pattern was found.

    Attributes:
        pattern: Name of the pattern.
        root: The last node of the match.
        nodes: Captured nodes by name; a rule that finds its matches itself may add lists under `lists`.
        tensors: Captured tensors by name.
        all_nodes: Every node of the match, root first.
    """

    pattern: str
    root: Node
    nodes: Mapping[str, Node]
    tensors: Mapping[str, Tensor]
    all_nodes: tuple[Node, ...]
    lists: Mapping[str, tuple[Node, ...]] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """Name of the last node, by which reports name the match."""
        return self.root.name

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all nodes."""
        return tuple([node.name for node in self.all_nodes])


def single(pattern: str, *nodes: Node) -> Match:
    """A match of nodes that a rule has found itself, the one that names it first."""
    return Match(pattern, nodes[0], {}, {}, nodes)


def compiled(pattern: Op | Pattern) -> Pattern:
    """A tree as a pattern. An operator that is named twice is one node that reads what both say."""
    return pattern if isinstance(pattern, Pattern) else _compiled(pattern)


@cache
def _compiled(pattern: Op) -> Pattern:
    named: dict[str, list[Op]] = {}
    stack: list[Term | None] = [pattern]
    while stack:
        item = stack.pop()
        if isinstance(item, Op):
            named.setdefault(item.name, []).append(item)
            stack.extend(reversed(item.inputs))
    return Pattern({name: _part(mentions) for name, mentions in named.items()}, pattern.name)


def _part(mentions: list[Op]) -> Part:
    first = mentions[0]
    types = tuple(kind for kind in first.types if all(kind in item.types for item in mentions))
    ways = tuple(sum(choice, ()) for choice in product(*map(_ways, mentions)))
    return Part(types, _form_of(frozenset(types)), ways, first.shared, plain=True)


def _ways(item: Op) -> list[Way]:
    orders = permutations(item.inputs) if item.commutative else [item.inputs]
    return [
        tuple((port, _operand(wanted)) for port, wanted in enumerate(order) if wanted is not None)
        for order in orders
    ]


def _operand(wanted: Term) -> Operand:
    if isinstance(wanted, Op):
        return Operand(wanted.name, is_part=True, output=wanted.output)
    return Operand(wanted.name, constant=isinstance(wanted, Const))


def _form_of(types: frozenset[str]) -> FormOf:
    def form(node: Node) -> Form | None:
        if node.op_type not in types or node.domain not in ("", "ascend"):
            return None
        return Form((node,), node.inputs)

    return form
