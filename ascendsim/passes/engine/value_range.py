"""InferValueRangePass: what is known of a shape vector though some of its elements are open.

A tensor of shape (batch, 128, 768) gives a Shape of which two elements are numbers and one is a symbol.
Exporters cut such vectors up and join them again; this pass follows the elements, each of them a number, a
symbol or unknown, through Shape, Gather, Slice, Concat, the operators that rename dimensions, and sums,
differences and products. Where all elements turn out to be numbers the node folds; where a Reshape or Expand
reads a vector of which some are known, these become dimensions of its output.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Constant, Dim, Node, Tensor
from ascendsim.passes.engine.edits import small_value
from ascendsim.passes.engine.keeping import is_folded, keep_values, must_stay
from ascendsim.passes.engine.node_pass import Site, again_readers, standard

MAX_ELEMENTS = 64  # of a vector that is followed; shapes are far shorter
Parts = tuple[Dim, ...]
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "Add": int.__add__,
    "Sub": int.__sub__,
    "Mul": int.__mul__,
}
_RENAMING = ("Identity", "Cast", "Unsqueeze", "Squeeze", "Reshape", "Flatten")


@dataclass(frozen=True, slots=True)
class InferValueRangePass:
    """Follows the elements of shape vectors.

    Attributes:
        potential: Whether values are only kept beside the node (see `graph_engine.potential`).
    """

    potential: bool = False
    name: str = "InferValueRangePass"
    op_types: frozenset[tuple[str, str]] = standard(
        "Shape", "Gather", "Slice", "Concat", "Expand", *_RENAMING, *_ARITHMETIC
    )

    def run(self, node: Node, site: Site) -> bool:
        if is_folded(node) or must_stay(node) or not node.outputs:
            return False
        if node.op_type in ("Reshape", "Expand") and self._shape(node, site):
            return True
        output = node.output
        if (
            output.origin_dtype not in (DType.INT64, DType.INT32)
            or not output.is_static
            or output.elements > MAX_ELEMENTS
        ):
            return False
        parts = _parts_of(node, site)
        if parts is None or len(parts) != output.elements:
            return False
        if None in parts or any(isinstance(part, str) for part in parts):
            if site.parts.get(output) != parts:
                site.parts[output] = parts
                again_readers(node, site)
            return False
        assert output.origin_dtype is not None
        value = np.array(parts, output.origin_dtype.numpy).reshape(output.static_shape)
        keep_values(node, [Constant(value)], site, self.potential)
        return True

    @staticmethod
    def _shape(node: Node, site: Site) -> bool:
        """Fills open dimensions of a Reshape's or Expand's output from the parts of its shape vector; tells
        whether any was.
        """
        target = node.input(1)
        parts = None if target is None else site.parts.get(target)
        shape = node.output.shape
        if parts is None or shape is None or len(shape) != len(parts):
            return False
        # 0 and -1 have meanings of their own; a 1 in Expand keeps what is there
        least = 1 if node.op_type == "Reshape" else 2
        known = [
            part if dim is None and (isinstance(part, str) or (part or 0) >= least) else dim
            for dim, part in zip(shape, parts, strict=True)
        ]
        if node.op_type == "Expand":
            # the symbol may be 1
            known = [new if isinstance(new, int) else dim for new, dim in zip(known, shape, strict=True)]
        if tuple(known) == shape:
            return False
        node.output.shape = tuple(known)
        again_readers(node, site)
        site.tally.count("inferred tensors")
        return True


def _parts_of(node: Node, site: Site) -> Parts | None:
    """Elements of a node's result, in order; None if nothing is known of them."""
    if node.op_type == "Shape":
        shape = node.required(0).shape
        return None if shape is None else tuple(shape[slice(node.attr("start", 0), node.attr("end"))])
    first = _known(node.input(0), site)
    if first is None and node.op_type != "Concat":
        return None
    if node.op_type == "Gather":
        return _gathered(node, first)
    if node.op_type == "Slice":
        return _sliced(node, first)
    if node.op_type == "Concat":
        found = [_known(tensor, site) for tensor in node.inputs]
        return None if None in found else tuple(part for parts in found for part in parts or ())
    if node.op_type in _ARITHMETIC:
        return _combined(first, _known(node.input(1), site), _ARITHMETIC[node.op_type])
    return first


def _known(tensor: Tensor | None, site: Site) -> Parts | None:
    if tensor is None or tensor.origin_dtype is None or tensor.origin_dtype.is_float:
        return None
    array = small_value(tensor, MAX_ELEMENTS)
    return site.parts.get(tensor) if array is None else tuple(int(value) for value in array.ravel())


def _gathered(node: Node, parts: Parts | None) -> Parts | None:
    indices = small_value(node.input(1), MAX_ELEMENTS)
    if parts is None or indices is None or node.required(0).shape != (len(parts),):
        return None
    if any(not -len(parts) <= index < len(parts) for index in indices.ravel()):
        return None
    return tuple(parts[int(index)] for index in indices.ravel())


def _sliced(node: Node, parts: Parts | None) -> Parts | None:
    bounds = [small_value(node.input(port), 1) for port in (1, 2)]
    steps = np.ones(1, np.int64) if node.input(4) is None else small_value(node.input(4), 1)
    if (
        parts is None
        or node.required(0).shape != (len(parts),)
        or any(item is None or item.size != 1 for item in (*bounds, steps))
    ):
        return None
    start, stop, step = (int(item.ravel()[0]) for item in (*bounds, steps) if item is not None)
    return parts[start:stop:step] if step > 0 else None


def _combined(left: Parts | None, right: Parts | None, function: Callable[[int, int], int]) -> Parts | None:
    if not left or not right or (len(left) != len(right) and 1 not in (len(left), len(right))):
        return None
    length = max(len(left), len(right))
    pairs = zip(left * (length // len(left)), right * (length // len(right)), strict=True)
    return tuple(function(a, b) if isinstance(a, int) and isinstance(b, int) else None for a, b in pairs)
