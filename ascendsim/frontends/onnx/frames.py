"""Naming scopes of a model file, and what the importer needs to know of single nodes in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx

from ascendsim.core.errors import UnsupportedTypeError
from ascendsim.graph.ir import Array, Graph, Tensor

STANDARD_DOMAINS = ("", "ai.onnx")


@dataclass(slots=True)
class Frame:
    """One naming scope of the file.

    Attributes:
        graph: Where its nodes go.
        versions: Operator set versions by domain.
        values: Tensors by the name they have in the file.
        outer: The scope around a subgraph; a function's body sees none.
        prefix: Of tensor and node names that come from a function's body.
        renamed: Names in the graph of values that a function returns.
        arguments: Attribute values of the call, in a function's body.
        declared: Types that the file declares for values.
    """

    graph: Graph
    versions: Mapping[str, int]
    values: dict[str, Tensor] = field(default_factory=dict)
    outer: Frame | None = None
    prefix: str = ""
    renamed: dict[str, str] = field(default_factory=dict)
    arguments: Mapping[str, onnx.AttributeProto] | None = None
    declared: dict[str, onnx.ValueInfoProto] = field(default_factory=dict)
    depth: int = 0

    def find(self, name: str) -> Tensor | None:
        frame: Frame | None = self
        while frame is not None:
            if name in frame.values:
                return frame.values[name]
            frame = frame.outer
        return None


def visible_names(frame: Frame) -> Frame | None:
    """For `_unique` a body inside a subgraph must still avoid the names of the graphs around; it sees no
    values of theirs.
    """
    if frame.outer is None:
        return None
    return Frame(frame.outer.graph, frame.versions, outer=visible_names(frame.outer))


def without(node: onnx.NodeProto, absent: set[str]) -> onnx.NodeProto:
    """A node of a body with the parameters that the call leaves out left out."""
    if not absent.intersection(node.input):
        return node
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = ["" if name in absent else name for name in node.input]
    return copy


def constant_array(attribute: onnx.AttributeProto, subject: str) -> Array:
    """The value of a Constant node that is no tensor.

    Raises:
        UnsupportedTypeError: The value is sparse, or text.
    """
    if attribute.name == "value_int":
        return np.array(attribute.i, np.int64)
    if attribute.name == "value_ints":
        return np.array(attribute.ints, np.int64)
    if attribute.name == "value_float":
        return np.array(attribute.f, np.float32)
    if attribute.name == "value_floats":
        return np.array(attribute.floats, np.float32)
    kind = (
        "sparse"
        if attribute.name == "sparse_value"
        else "text"
        if attribute.name.startswith("value_string")
        else repr(attribute.name)
    )
    raise UnsupportedTypeError(subject, f"holds a {kind} value", remedy="store it as a dense numeric tensor")


def standard_domain(name: str) -> str:
    """A domain's name; both names of ONNX's own are ""."""
    return "" if name in STANDARD_DOMAINS else name
