"""Parser of the text form of a graph (see `text.py` for the grammar)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError, suggest
from ascendsim.core.formats import Format
from ascendsim.graph.ir import Array, AttributeValue, Constant, Graph, Node, Shape, Tensor

LARGE = "large"  # mark of a constant whose values the text form leaves out
MAX_TEXT = 64 << 20  # characters
MAX_NESTING = 32  # subgraphs and lists

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r]+|\#[^\n]*)|(?P<newline>\n)|(?P<string>"(?:[^"\\\n]|\\.)*")"""
    r"""|(?P<double>::)|(?P<mark>[%:=,(){}\[\]@<>?*])|(?P<word>[A-Za-z0-9_./+\-]+)"""
)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z|[+-]?(nan|inf)\Z")
_INTEGER = re.compile(r"[+-]?\d+\Z")
_T = TypeVar("_T")


class _Token(NamedTuple):
    kind: str
    text: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class _PendingNode:
    """A node whose inputs may be defined further down, or in a graph around this one."""

    name: str
    outputs: list[Tensor]
    operator: tuple[str, str]
    inputs: list[_Token | None]
    attributes: dict[str, AttributeValue]
    control: list[_Token]


class _Scope:
    """A graph being read and what still has to be connected."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[_PendingNode] = []
        self.outputs: list[_Token] = []


def parse_text(text: str) -> Graph:
    """Reads the text form of a graph.

    Args:
        text: At most 64 Mi characters.

    Returns:
        The graph. It is not verified, so that broken graphs can be written down too.

    Raises:
        GraphError: If the text does not follow the grammar, or a name is not defined or defined twice; names
            line and column.
    """
    if len(text) > MAX_TEXT:
        raise GraphError("text form", f"must have at most {MAX_TEXT} characters", len(text))
    parser = _Parser(_tokens(text))
    graph = parser.graph(0)
    parser.expect_end()
    return graph


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    position, line, start = 0, 1, 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _error(_Token("", text[position], line, position - start + 1), "is not part of the grammar")
        kind = str(match.lastgroup)
        if kind == "newline":
            line, start = line + 1, match.end()
        elif kind != "space":
            found.append(_Token(kind, match.group(), line, position - start + 1))
        position = match.end()
    found.append(_Token("end", "end of text", line, position - start + 1))
    return found


def _error(
    token: _Token, rule: str, actual: object = None, remedy: str = "see ascendsim.graph.text for the grammar"
) -> GraphError:
    return GraphError(
        f"text form, line {token.line} column {token.column}: {token.text[:60]!r}", rule, actual, remedy
    )


class _Parser:
    """Recursive descent, one method a rule of the grammar."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens, self._at = tokens, 0
        self._scopes: list[_Scope] = []
        self._unresolved: list[tuple[Node, int, _Token, tuple[Graph, ...]]] = []

    # tokens

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        token = self._tokens[self._at]
        if token.kind != "end":
            self._at += 1
        return token

    def _accept(self, text: str) -> bool:
        if self._next.text == text and self._next.kind != "string":
            self._at += 1
            return True
        return False

    def _expect(self, text: str) -> _Token:
        token = self._next
        if not self._accept(text):
            raise _error(token, f"must be {text!r}")
        return token

    def expect_end(self) -> None:
        if self._next.kind != "end":
            raise _error(self._next, "follows the end of the graph")

    def _name(self) -> _Token:
        token = self._take()
        if token.kind == "string":
            try:
                return _Token("word", str(json.loads(token.text)), token.line, token.column)
            except ValueError:
                raise _error(token, "is not a JSON string") from None
        if token.kind != "word":
            raise _error(token, "must be a name")
        return token

    def _list(self, opening: str, closing: str, item: Callable[[], _T]) -> list[_T]:
        self._expect(opening)
        items: list[_T] = []
        while not self._accept(closing):
            if items:
                self._expect(",")
            items.append(item())
        return items

    # graphs

    def graph(self, depth: int) -> Graph:
        """Reads a graph; its nodes are connected once it and the graphs around it are complete."""
        start = self._expect("graph")
        if depth > MAX_NESTING:
            raise _error(start, f"must not nest deeper than {MAX_NESTING} graphs")
        scope = _Scope(Graph(self._name().text))
        self._scopes.append(scope)
        self._expect("{")
        while not self._accept("}"):
            self._statement(scope, depth)
        self._connect(scope)
        self._scopes.pop()
        if not self._scopes:
            self._resolve()
        return scope.graph

    def _statement(self, scope: _Scope, depth: int) -> None:
        token, after = self._next, self._tokens[min(self._at + 1, len(self._tokens) - 1)]
        if token.text == "input" and after.text == "%":
            self._take()
            scope.graph.inputs.append(self._tensor(scope.graph))
        elif token.text == "const" and after.text == "%":
            self._take()
            tensor = self._tensor(scope.graph)
            self._expect("=")
            tensor.constant = self._constant(tensor)
        elif token.text == "output" and after.text == "%":
            self._take()
            scope.outputs.append(self._reference())
        else:
            self._node(scope, depth)

    def _node(self, scope: _Scope, depth: int) -> None:
        name = self._name()
        self._expect(":")
        outputs: list[Tensor] = []
        while not self._accept("="):
            if outputs:
                self._expect(",")
            outputs.append(self._tensor(scope.graph))
        domain, operator = "", self._name().text
        if self._accept("::"):
            domain, operator = operator, self._name().text
        inputs = self._list("(", ")", self._input)
        attributes: dict[str, AttributeValue] = {}
        if self._next.text == "{":
            attributes.update(self._list("{", "}", lambda: self._pair(depth)))
        control = self._list("(", ")", self._name) if self._accept("after") else []
        scope.nodes.append(_PendingNode(name.text, outputs, (domain, operator), inputs, attributes, control))

    def _input(self) -> _Token | None:
        return None if self._accept("_") else self._reference()

    def _reference(self) -> _Token:
        self._expect("%")
        return self._name()

    def _pair(self, depth: int) -> tuple[str, AttributeValue]:
        key = self._name().text
        self._expect("=")
        return key, self._attribute(depth)

    # connecting

    def _connect(self, scope: _Scope) -> None:
        graph, graphs = scope.graph, tuple(item.graph for item in reversed(self._scopes))
        controls: list[tuple[Node, _Token]] = []
        for pending in scope.nodes:
            domain, operator = pending.operator
            node = graph.add_node(
                operator, [None] * len(pending.inputs), pending.outputs, pending.name, domain
            )
            if node.name != pending.name:
                raise GraphError(
                    f"text form: node {pending.name!r}",
                    "must be defined once",
                    remedy="rename one of the two",
                )
            node.attributes.update(pending.attributes)
            self._unresolved.extend(
                (node, index, token, graphs)
                for index, token in enumerate(pending.inputs)
                if token is not None
            )
            controls.extend((node, token) for token in pending.control)
        for node, token in controls:
            try:
                node.add_control(graph.node(token.text))
            except GraphError:
                raise _error(
                    token,
                    "is not a node of this graph",
                    remedy=suggest(token.text, [n.name for n in graph.nodes]),
                ) from None
        for token in scope.outputs:
            graph.outputs.append(self._lookup(token, (graph,)))

    def _resolve(self) -> None:
        for node, index, token, graphs in self._unresolved:
            node.set_input(index, self._lookup(token, graphs))

    def _lookup(self, token: _Token, graphs: tuple[Graph, ...]) -> Tensor:
        for graph in graphs:
            tensor = graph.tensors.get(token.text)
            if tensor is not None:
                return tensor
        raise _error(
            token,
            "is not a tensor here",
            remedy=suggest(token.text, [name for graph in graphs for name in graph.tensors]),
        )

    # tensors and values

    def _tensor(self, graph: Graph) -> Tensor:
        token = self._reference()
        self._expect(":")
        dtype = self._dtype()
        origin = dtype
        if self._accept("<"):
            origin = self._dtype()
            self._expect(">")
        shape = self._shape()
        format = Format.ND
        if self._accept("@"):
            format = self._format()
        tensor = Tensor(token.text, dtype, shape, format)
        tensor.origin_dtype = origin
        try:
            return graph.add_tensor(tensor)
        except GraphError:
            raise _error(token, "is defined twice", remedy="rename one of the two") from None

    def _dtype(self) -> DType | None:
        token = self._take()
        if token.text == "?":
            return None
        try:
            return DType(token.text)
        except ValueError:
            raise _error(
                token, "must be an element type", remedy=suggest(token.text, [kind.value for kind in DType])
            ) from None

    def _format(self) -> Format:
        token = self._take()
        try:
            return Format(token.text)
        except ValueError:
            raise _error(
                token, "must be a format", remedy=suggest(token.text, [item.value for item in Format])
            ) from None

    def _shape(self) -> Shape | None:
        if self._next.text == "[" and self._tokens[self._at + 1].text == "*":  # the last token is the end
            self._at += 2
            self._expect("]")
            return None
        return tuple(self._list("[", "]", self._dim))

    def _dim(self) -> int | str | None:
        if self._accept("?"):
            return None
        quoted = self._next.kind == "string"
        token = self._name()
        if not quoted and _INTEGER.match(token.text):
            return int(token.text)
        return token.text

    def _constant(self, tensor: Tensor) -> Constant:
        token = self._next
        if self._accept(LARGE):
            return Constant(absent_because=LARGE)
        if self._accept("absent"):
            return Constant(absent_because=self._name().text)
        if tensor.origin_dtype is None or not tensor.is_static:
            raise _error(token, "needs a type and a static shape to hold values")
        return Constant(self._array(tensor.origin_dtype, tensor.static_shape))

    def _array(self, dtype: DType, shape: tuple[int, ...]) -> Array:
        start = self._next
        values = self._list("[", "]", self._value)
        if len(values) != math.prod(shape):
            raise _error(start, f"must hold {math.prod(shape)} values", len(values))
        try:
            return (
                np.array(values, np.float64 if dtype.is_float else dtype.numpy)
                .astype(dtype.numpy)
                .reshape(shape)
            )
        except (OverflowError, ValueError) as error:
            raise _error(start, f"does not fit {dtype.value}: {error}") from None

    def _value(self) -> int | float | bool:
        token = self._take()
        if token.text in ("true", "false"):
            return token.text == "true"
        if token.kind == "word" and _INTEGER.match(token.text):
            return int(token.text)
        if token.kind == "word" and _NUMBER.match(token.text):
            return float(token.text)
        raise _error(token, "must be a number")

    def _attribute(self, depth: int) -> AttributeValue:
        token = self._next
        if token.kind == "string":
            return self._name().text
        if token.text == "graph":
            return self.graph(depth + 1)
        if self._accept("type"):
            kind = self._dtype()
            if kind is None:
                raise _error(token, "must name an element type")
            return kind
        if self._accept("array"):
            dtype, shape = self._dtype(), self._shape()
            sizes = tuple(dim for dim in shape or () if isinstance(dim, int))
            if dtype is None or sizes != shape:
                raise _error(token, "needs a type and a static shape")
            return self._array(dtype, sizes)
        if token.text == "[":
            if depth > MAX_NESTING:
                raise _error(token, f"must not nest deeper than {MAX_NESTING}")
            return tuple(self._list("[", "]", lambda: self._attribute(depth + 1)))  # type: ignore[return-value]
        return self._value()
