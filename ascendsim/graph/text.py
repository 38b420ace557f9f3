"""The text form of a graph: readable in tests, dumps and reviews, and parsed back by `parse_text`.

    graph "tiny" {
      input %x: float32[batch,3,8,8]
      const %w: float32[4,3,1,1] = large
      const %axes: int64[1] = [1]
      conv1: %y: float16<float32>[batch,4,8,8] @NC1HWC0 = Conv(%x, %w, _) {strides = [1, 1]}
      relu1: %z: float16<float32>[batch,4,8,8] = Relu(%y) after (conv1)
      output %z
    }

A tensor is `%name: type<origin type>[dims] @FORMAT`; the origin type is written where it differs, `?` is an
unknown type or dimension, `[*]` an unknown rank, a dimension that is a word is a symbol, the format ND is
left out. `_` is an input that is left out. Constants of up to 16 elements hold their values; `large` and
`absent "why"` are shape-only after parsing. Names that are not plain words are quoted as JSON strings.
Operators of other domains are `domain::Name`. Attributes are numbers, strings, lists, types (`type float16`),
arrays (`array float32[2] [1.0, 2.0]`) and graphs; `after (...)` are control edges. A `#` starts a comment.
What is not part of a graph's meaning is left out: `origin` of nodes and `metadata`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format
from ascendsim.graph.ir import Array, AttributeValue, Dim, Graph, Node, Tensor
from ascendsim.graph.parsing import LARGE, parse_text

INLINE_ELEMENTS = 16
_PLAIN = re.compile(r"[A-Za-z0-9_./\-]+\Z")
_KEYWORDS = frozenset({"_", "after", "array", "const", "graph", "input", "output", "type"})

__all__ = ["INLINE_ELEMENTS", "parse_text", "to_text"]


def to_text(graph: Graph, inline_elements: int = INLINE_ELEMENTS) -> str:
    """Returns the text form of a graph; the same graph gives the same text.

    Args:
        graph: May be incomplete or broken; nothing is checked.
        inline_elements: Constants of more elements are written as `large` (their values are not touched).
    """
    return "\n".join(_graph_lines(graph, inline_elements, "")) + "\n"


def quote(name: str) -> str:
    """A name as the text form writes it: plain if possible, else a JSON string."""
    return name if _PLAIN.match(name) and name not in _KEYWORDS else json.dumps(name)


def _graph_lines(graph: Graph, inline: int, indent: str) -> Iterator[str]:
    yield f"graph {quote(graph.name)} {{"
    inner = indent + "  "
    for tensor in graph.inputs:
        yield f"{inner}input {_typed(tensor)}"
    for tensor in graph.constants:
        if tensor.producer is None:
            yield f"{inner}const {_typed(tensor)} = {_constant(tensor, inline)}"
    for node in graph.nodes:
        yield inner + _node(node, inline, inner)
    for tensor in graph.outputs:
        yield f"{inner}output %{quote(tensor.name)}"
    yield indent + "}"


def _node(node: Node, inline: int, indent: str) -> str:
    outputs = ", ".join(_typed(tensor) for tensor in node.outputs)
    operator = f"{quote(node.domain)}::{quote(node.op_type)}" if node.domain else quote(node.op_type)
    inputs = ", ".join("_" if tensor is None else f"%{quote(tensor.name)}" for tensor in node.inputs)
    text = f"{quote(node.name)}: {outputs}{' ' if outputs else ''}= {operator}({inputs})"
    if node.attributes:
        items = sorted(node.attributes.items())
        text += (
            " {"
            + ", ".join(f"{quote(key)} = {_attribute(value, inline, indent)}" for key, value in items)
            + "}"
        )
    if node.control:
        text += f" after ({', '.join(quote(before.name) for before in node.control)})"
    return text


def _typed(tensor: Tensor) -> str:
    text = f"%{quote(tensor.name)}: {tensor.dtype.value if tensor.dtype else '?'}"
    if tensor.origin_dtype is not tensor.dtype:
        text += f"<{tensor.origin_dtype.value if tensor.origin_dtype else '?'}>"
    text += dims(tensor.shape)
    return text if tensor.format is Format.ND else f"{text} @{tensor.format.value}"


def dims(shape: Iterable[Dim] | None) -> str:
    """A shape as the text form writes it: `[2,batch,?]`, `[*]` for an unknown rank.

    >>> dims((2, "batch", None)), dims(None), dims(("3d",))
    ('[2,batch,?]', '[*]', '["3d"]')
    """
    if shape is None:
        return "[*]"
    return (
        "["
        + ",".join(
            "?" if dim is None else str(dim) if isinstance(dim, int) else _symbol(dim) for dim in shape
        )
        + "]"
    )


def _symbol(name: str) -> str:
    return name if re.match(r"[A-Za-z][A-Za-z0-9_]*\Z", name) else json.dumps(name)


def _constant(tensor: Tensor, inline: int) -> str:
    constant = tensor.constant
    assert constant is not None
    if not constant.available:
        return LARGE if constant.absent_because == LARGE else f"absent {json.dumps(constant.absent_because)}"
    if not tensor.is_static or math.prod(tensor.static_shape) > inline:
        return LARGE
    return _values(constant.array())


def _values(array: Array) -> str:
    kind = DType.of(array.dtype)
    flat = array.ravel()
    if kind.is_float:
        # NumPy writes the shortest text that reads back as the same value of the type
        items = [str(value) for value in flat]
    elif kind is DType.BOOL:
        items = ["true" if value else "false" for value in flat]
    else:
        items = [str(int(value)) for value in flat]
    return "[" + ", ".join(items) + "]"


def _attribute(value: AttributeValue, inline: int, indent: str) -> str:
    if isinstance(value, Graph):
        return "\n".join(_graph_lines(value, inline, indent))
    if isinstance(value, DType):
        return f"type {value.value}"
    if isinstance(value, np.ndarray):
        return f"array {DType.of(value.dtype).value}{dims(value.shape)} {_values(value)}"
    if isinstance(value, tuple):
        return "[" + ", ".join(_attribute(item, inline, indent) for item in value) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value)
    return repr(float(value)) if isinstance(value, (float, np.floating)) else str(int(value))
