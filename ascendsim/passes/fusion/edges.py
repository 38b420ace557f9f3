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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.passes.fusion.checks import known_values, scalar

_END = re.compile(r"(?:(?P<type>\w+)#)?(?P<id>\w+)(?::(?P<port>-?\d+))?")
CONTROL = -1


@dataclass(frozen=True, slots=True)
class Form:
    """Nodes that stand for one operator of CANN: the last one, what comes before it, and the operands."""

    nodes: tuple[Node, ...]
    inputs: tuple[Tensor | None, ...]


FormOf = Callable[[Node], "Form | None"]


def _plain(op_type: str, inputs: int | None = None, domain: str = "") -> FormOf:
    def form(node: Node) -> Form | None:
        if (
            node.op_type != op_type
            or node.domain != domain
            or (inputs is not None and node.input_count != inputs)
        ):
            return None
        return Form((node,), node.inputs)

    return form


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


def _constant_axes(op_type: str) -> FormOf:
    """An operator whose second input CANN holds as an attribute."""

    def form(node: Node) -> Form | None:
        if (
            node.op_type != op_type
            or node.domain
            or (node.input(1) is not None and known_values(node.input(1)) is None)
        ):
            return None
        return Form((node,), node.inputs[:1])

    return form


_STANDING_FOR = {
    "RealDiv": ("Div",),
    "Select": ("Where",),
    "Minimum": ("Min",),
    "Maximum": ("Max",),
    "AddN": ("Sum",),
} | {
    "Square": ("Square", "Mul", "Pow"),
    "Rsqrt": ("Reciprocal",),
    "ReduceSumD": ("ReduceSum",),
    "TileD": ("Tile",),
}
FORMS: Mapping[str, FormOf] = {
    "Mul": _plain("Mul"),
    "Add": _plain("Add"),
    "Sub": _plain("Sub"),
    "RealDiv": _plain("Div"),
    "Sqrt": _plain("Sqrt"),
    "Neg": _plain("Neg"),
    "Greater": _plain("Greater"),
    "Select": _plain("Where"),
    "Minimum": _plain("Min", 2),
    "Maximum": _plain("Max", 2),
    "AddN": _plain("Sum"),
    "Reshape": _plain("Reshape"),
    "RsqrtGrad": _plain("RsqrtGrad", domain="ascend"),
    "Square": _square,
    "Rsqrt": _rsqrt,
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
    def operators(self) -> tuple[tuple[str, ...], ...]:
        """For each node of the pattern, the graph's operators of which one stands for it."""
        return tuple(_STANDING_FOR.get(kind, (kind,)) for kind in self.types.values())

    @property
    def root(self) -> str:
        """The node where the search starts: the last result that no other node of the pattern reads."""
        read = set(self.operands.values())
        ends = [name for _, name in self.results if name not in read]
        return (ends or [name for _, name in self.results])[-1]


@dataclass(frozen=True, slots=True)
class Found:
    """A place where an edge pattern stands."""

    forms: Mapping[str, Form]
    tensors: Mapping[str, Tensor]

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes, each once."""
        return tuple(dict.fromkeys(node for form in self.forms.values() for node in form.nodes))


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


def find_edges(graph: Graph, pattern: EdgePattern) -> Iterator[tuple[Node, Found]]:
    """All places of a pattern with the node that stands for its root, in execution order; one for each
    root.
    """
    form = FORMS[pattern.types[pattern.root]]
    if not any(form(node) is not None for node in graph.nodes):
        return
    for node in graph.topological():
        found = find_at(node, pattern)
        if found is not None:
            yield node, found


def find_at(root: Node, pattern: EdgePattern) -> Found | None:
    """The place whose root is this node, or None."""
    form = FORMS[pattern.types[pattern.root]](root)
    if form is None:
        return None
    return next(_search(pattern, {pattern.root: form}, {}, [pattern.root]), None)


def _search(
    pattern: EdgePattern, forms: dict[str, Form], tensors: dict[str, Tensor], todo: list[str]
) -> Iterator[Found]:
    """Extends a partial match by the operands and readers of the ids in `todo`."""
    if not todo:
        missing = [name for name in pattern.types if name not in forms]
        if not missing:
            if {name for name, form in forms.items() if _waits(form, forms)} == pattern.waiting:
                yield Found(forms, tensors)
            return
        for name, candidate in _readers(pattern, forms, tensors, missing):
            yield from _take(pattern, forms, tensors, name, candidate, [])
        return
    name, rest = todo[0], todo[1:]
    wanted = sorted((port, source) for (target, port), source in pattern.operands.items() if target == name)
    if len(forms[name].inputs) > len(wanted):  # a sum of more
        return
    yield from _operands(pattern, forms, tensors, name, wanted, rest)


def _operands(
    pattern: EdgePattern,
    forms: dict[str, Form],
    tensors: dict[str, Tensor],
    name: str,
    wanted: list[tuple[int, str]],
    todo: list[str],
) -> Iterator[Found]:
    """Follows the operands of one matched node, port by port."""
    for position, (port, source) in enumerate(wanted):
        inputs = forms[name].inputs
        tensor = inputs[port] if port < len(inputs) else None
        if tensor is None:
            return
        if source in pattern.types:
            if source in forms:
                if forms[source].nodes[0].output is not tensor:
                    return
                continue
            producer = tensor.producer
            form = (
                FORMS[pattern.types[source]](producer) if producer is not None and tensor.index == 0 else None
            )
            if form is None or not _free(form, forms):
                return
            yield from _operands(
                pattern, {**forms, source: form}, tensors, name, wanted[position + 1 :], [*todo, source]
            )
            return
        if tensors.get(source, tensor) is not tensor or (
            source in pattern.constants and not tensor.is_constant
        ):
            return
        tensors = {**tensors, source: tensor}
    yield from _search(pattern, forms, tensors, todo)


def _take(
    pattern: EdgePattern,
    forms: dict[str, Form],
    tensors: dict[str, Tensor],
    name: str,
    node: Node,
    todo: list[str],
) -> Iterator[Found]:
    form = FORMS[pattern.types[name]](node)
    if form is not None and _free(form, forms):
        yield from _search(pattern, {**forms, name: form}, tensors, [*todo, name])


def _readers(
    pattern: EdgePattern, forms: Mapping[str, Form], tensors: Mapping[str, Tensor], missing: list[str]
) -> Iterator[tuple[str, Node]]:
    """Candidates for the first missing node that reads a matched node or a known input."""
    for name in missing:
        for (target, _), source in sorted(pattern.operands.items()):
            tensor = forms[source].nodes[0].output if source in forms else tensors.get(source)
            if target == name and tensor is not None:
                readers = dict.fromkeys(reader for use in tensor.uses for reader in _with_heads(use.node))
                yield from ((name, reader) for reader in readers)
                return


def _with_heads(node: Node) -> Iterator[Node]:
    """The node, and the nodes that would stand at the end of a form that begins with it (Sqrt of Rsqrt)."""
    yield node
    if node.op_type == "Sqrt":
        yield from node.output.consumers


def _waits(form: Form, forms: Mapping[str, Form]) -> bool:
    """Whether a control edge from outside the match holds a node of a form."""
    inside = {node for other in forms.values() for node in other.nodes}
    return any(before not in inside for node in form.nodes for before in node.control)


def _free(form: Form, forms: Mapping[str, Form]) -> bool:
    """Whether no node of a form belongs to another one already."""
    taken = {node for other in forms.values() for node in other.nodes}
    return not any(node in taken for node in form.nodes)
