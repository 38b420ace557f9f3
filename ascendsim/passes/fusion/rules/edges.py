"""Patterns given as lists of edges: graphs with shared results and several outputs, as CANN's JSON rules have
them.

    Input0 -> Square#Square0:0; Square#Square0:0 -> Mul#Mul3:1; Mul#Mul3:0 -> Output0

`Type#id:port` is an output port on the left and an input port on the right; a bare name on the left is an
input of the pattern, on the right a result. Port -1 is a control edge. One from a bare name says that the
node waits for some node outside; nodes without such an edge match only if they wait for none; edges between
nodes of the pattern match everything. A type is CANN's; `FORMS` says which nodes stand for it. Ports count:
operand orders that a rule does not list do not match, which is why CANN has its rules several times.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Node
from ascendsim.passes.fusion.checks import known_values, scalar
from ascendsim.passes.rewriting.pattern import Form, FormOf, Operand, Part, Pattern

_END = re.compile(r"(?:(?P<type>\w+)#)?(?P<id>\w+)(?::(?P<port>-?\d+))?")
CONTROL = -1


@dataclass(frozen=True, slots=True)
class Standing:
    """What stands for an operator of CANN.

    Attributes:
        types: Operators of which one does.
        form: How a node does.
    """

    types: tuple[str, ...]
    form: FormOf


def _plain(op_type: str, inputs: int | None = None, domain: str = "") -> Standing:
    def form(node: Node) -> Form | None:
        if (
            node.op_type != op_type
            or node.domain != domain
            or (inputs is not None and node.input_count != inputs)
        ):
            return None
        return Form((node,), node.inputs)

    return Standing((op_type,), form)


def _square(node: Node) -> Form | None:
    if node.op_type == "Square" and node.domain == "ascend":
        return Form((node,), node.inputs)
    if node.domain or node.op_type not in ("Mul", "Pow"):
        return None
    twice = node.input(0) is node.input(1) if node.op_type == "Mul" else scalar(node.input(1)) == 2
    return Form((node,), node.inputs[:1]) if twice else None


def _rsqrt(node: Node) -> Form | None:
    """Reciprocal of Sqrt: ONNX has no operator of its own."""
    if node.op_type != "Reciprocal" or node.domain:
        return None
    root = node.required(0).producer
    return (
        Form((node, root), root.inputs)
        if root is not None and root.op_type == "Sqrt" and not root.domain
        else None
    )


def _constant_axes(op_type: str) -> Standing:
    """An operator whose second input CANN holds as an attribute."""

    def form(node: Node) -> Form | None:
        if (
            node.op_type != op_type
            or node.domain
            or (node.input(1) is not None and known_values(node.input(1)) is None)
        ):
            return None
        return Form((node,), node.inputs[:1])

    return Standing((op_type,), form)


FORMS: Mapping[str, Standing] = {
    **{name: _plain(name) for name in ("Mul", "Add", "Sub", "Sqrt", "Neg", "Greater", "Reshape")},
    "RealDiv": _plain("Div"),
    "Select": _plain("Where"),
    "Minimum": _plain("Min", 2),
    "Maximum": _plain("Max", 2),
    "AddN": _plain("Sum"),
    "RsqrtGrad": _plain("RsqrtGrad", domain="ascend"),
    "Square": Standing(("Square", "Mul", "Pow"), _square),
    "Rsqrt": Standing(("Reciprocal",), _rsqrt),
    "ReduceSumD": _constant_axes("ReduceSum"),
    "TileD": _constant_axes("Tile"),
}


@dataclass(frozen=True, slots=True)
class EdgePattern:
    """A pattern of edges.

    Attributes:
        types: CANN's operator type by id, in order of appearance.
        operands: By id and input port: the id of the node whose first output it is, or the name of an input
            of the pattern.
        inputs: Names of the inputs, in order of appearance.
        results: (name, id) of the results, in order of appearance.
        constants: Ids of constants that the pattern holds itself; each captures a tensor.
        waiting: Ids of nodes that a control edge from outside holds.
    """

    types: Mapping[str, str]
    operands: Mapping[tuple[str, int], str]
    inputs: tuple[str, ...]
    results: tuple[tuple[str, str], ...]
    constants: frozenset[str] = frozenset()
    waiting: frozenset[str] = frozenset()

    @property
    def root(self) -> str:
        """The node where the search starts: the last result that no other node of the pattern reads."""
        read = set(self.operands.values())
        ends = [name for _, name in self.results if name not in read]
        return (ends or [name for _, name in self.results])[-1]


def parse_edges(text: str) -> EdgePattern:
    """Reads a list of edges.

    Raises:
        InputError: If an edge is malformed, a type has no form, or an input port is given twice.
    """
    types: dict[str, str] = {}
    operands: dict[tuple[str, int], str] = {}
    inputs: dict[str, None] = {}
    results: list[tuple[str, str]] = []
    waiting: set[str] = set()
    for edge in filter(None, (part.strip() for part in text.split(";"))):
        ends = [_END.fullmatch(end.strip()) for end in edge.split("->")]
        if len(ends) != 2 or ends[0] is None or ends[1] is None:
            raise InputError(f"edge {edge!r}", "must read `source -> target`, each `Type#id:port` or a name")
        source, target = ends[0], ends[1]
        for end in (source, target):
            if end["type"] is not None:
                types.setdefault(end["id"], end["type"])
        if CONTROL in (_port(source), _port(target)):
            if source["type"] is None:
                waiting.add(target["id"])
            continue
        if source["type"] is None:
            inputs.setdefault(source["id"])
        if target["type"] is None:
            results.append((target["id"], source["id"]))
        elif (target["id"], _port(target)) in operands:
            raise InputError(f"edge {edge!r}", "feeds an input port that is fed already")
        else:
            operands[target["id"], _port(target)] = source["id"]
    unknown = {kind for kind in types.values() if kind not in FORMS and kind != "Constant"}
    if unknown:
        raise InputError("edge pattern", "names operators without a form", ", ".join(sorted(unknown)))
    constants = frozenset(name for name, kind in types.items() if kind == "Constant")
    kept = {name: kind for name, kind in types.items() if name not in constants}
    return EdgePattern(kept, operands, tuple(inputs), tuple(results), constants, frozenset(waiting))


def _port(end: re.Match[str]) -> int:
    return int(end["port"] or 0)


def pattern_of_edges(edges: EdgePattern) -> Pattern:
    """A list of edges as a pattern; who reads its results is for the rule to check."""
    parts = {}
    for name, kind in edges.types.items():
        way = tuple(
            (port, Operand(source, source in edges.types, source in edges.constants))
            for (target, port), source in sorted(edges.operands.items())
            if target == name
        )
        standing = FORMS[kind]
        # no sum of more
        parts[name] = Part(standing.types, standing.form, (way,), shared=True, most_inputs=len(way))
    results = tuple(name for _, name in edges.results)
    return Pattern(parts, edges.root, results, edges.waiting, distinct=True, deep=False)
