"""InferValueRangePass: what is known of a shape vector though some of its elements are open.

A tensor of shape (batch, 128, 768) gives a Shape of which two elements are numbers and one is a symbol.
Exporters cut such vectors up and join them again; this pass follows the elements, each of them a number, a
symbol or unknown, through operators that move them (their own value functions say where to) and through
arithmetic on those that are numbers. Where all elements turn out to be numbers the node folds; where a
Reshape or Expand reads a vector of which some are known, these become dimensions of its output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import AscendSimError
from ascendsim.graph.ir import Array, Constant, Dim, Node, Tensor
from ascendsim.opset import OpDef
from ascendsim.opset.facts import Elements, Kind
from ascendsim.passes.engine.edits import is_standard, small_value
from ascendsim.passes.engine.keeping import is_folded, keep_values, must_stay
from ascendsim.passes.engine.node_pass import Site, again_readers

MAX_ELEMENTS = 64  # of a vector that is followed; shapes are far shorter
Parts = tuple[Dim, ...]
# The least number in a shape that is a dimension for certain: 0 and -1 have meanings of their own, and a 1 in
# Expand keeps what is there
_LEAST = {"Reshape": 1, "Expand": 2}
_INTEGERS = (DType.INT64, DType.INT32)


@dataclass(frozen=True, slots=True)
class InferValueRangePass:
    """Follows the elements of shape vectors.

    Attributes:
        potential: Whether values are only kept beside the node (see `graph_engine.potential`).
    """

    potential: bool = False
    name: str = "InferValueRangePass"
    op_types: None = None

    def run(self, node: Node, site: Site) -> bool:
        shaped = is_standard(node, *_LEAST)
        followed = len(node.outputs) == 1 and _is_short(node.output)
        if not (shaped or followed) or is_folded(node) or must_stay(node):
            return False
        if shaped and self._shape(node, site):
            return True
        parts = _parts_of(node, site) if followed else None
        output = node.output
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
        least = _LEAST[node.op_type]
        known = [
            part if dim is None and _least_of(part) >= least else dim
            for dim, part in zip(shape, parts, strict=True)
        ]
        if tuple(known) == shape:
            return False
        node.output.shape = tuple(known)
        again_readers(node, site)
        site.tally.count("inferred tensors")
        return True


def _least_of(part: Dim) -> int:
    """The least number that a part may be; a symbol is a dimension."""
    return 1 if isinstance(part, str) else part or 0


def _is_short(tensor: Tensor) -> bool:
    """Whether a tensor holds so few integers that it may be a shape."""
    return tensor.origin_dtype in _INTEGERS and tensor.is_static and tensor.elements <= MAX_ELEMENTS


def _parts_of(node: Node, site: Site) -> Parts | None:
    """Elements of a node's result, in order; None if nothing is known of them."""
    if is_standard(node, "Shape"):
        shape = node.required(0).shape
        return None if shape is None else tuple(shape[slice(node.attr("start", 0), node.attr("end"))])
    if is_standard(node, "Cast"):
        return _known(node.input(0), site)
    definition = site.opset.find(node.op_type, node.domain)
    if definition is None:
        return None
    if definition.facts.kind is Kind.MOVEMENT and definition.facts.elements is Elements.KEPT:
        return _moved(node, definition, site)
    if definition.facts.kind is Kind.ELEMENTWISE and definition.facts.elements is Elements.COMPUTED:
        return _combined(node, definition, site)
    return None


def _known(tensor: Tensor | None, site: Site) -> Parts | None:
    if tensor is None or tensor.origin_dtype is None or tensor.origin_dtype.is_float:
        return None
    array = small_value(tensor, MAX_ELEMENTS)
    return site.parts.get(tensor) if array is None else tuple(int(value) for value in array.ravel())


def _moved(node: Node, definition: OpDef, site: Site) -> Parts | None:
    """The elements that an operator moves; it is computed on their numbers, counted from 1."""
    parts: list[Dim] = [None]  # what an operator puts in by itself, unknown
    arrays: list[Array | None] = []
    for port, tensor in enumerate(node.inputs):
        if tensor is None:
            arrays.append(None)
        elif definition.facts.typed and port not in definition.facts.typed:
            arrays.append(small_value(tensor))
            if arrays[-1] is None:
                return None
        else:
            known = _known(tensor, site)
            if known is None or not tensor.is_static:
                return None
            arrays.append(np.arange(len(parts), len(parts) + len(known)).reshape(tensor.static_shape))
            parts.extend(known)
    places = _computed(node, definition, arrays)
    return None if places is None else tuple(parts[int(place)] for place in places.ravel())


def _combined(node: Node, definition: OpDef, site: Site) -> Parts | None:
    """Arithmetic on the elements that are numbers on all sides."""
    sides = [_known(tensor, site) for tensor in node.inputs]
    shapes = [tensor.static_shape for tensor in node.inputs if tensor is not None and tensor.is_static]
    if None in sides or len(shapes) != len(sides):
        return None
    numbers = [[part if isinstance(part, int) else None for part in side or ()] for side in sides]
    arrays = [
        np.array([1 if part is None else part for part in side], np.int64).reshape(shape)
        for side, shape in zip(numbers, shapes, strict=True)
    ]
    known = [
        np.array([part is not None for part in side], np.bool_).reshape(shape)
        for side, shape in zip(numbers, shapes, strict=True)
    ]
    results = _computed(node, definition, arrays)
    if results is None:
        return None
    sure = np.broadcast_to(np.logical_and.reduce(np.broadcast_arrays(*known)), results.shape)
    return tuple(
        int(value) if certain else None for value, certain in zip(results.ravel(), sure.ravel(), strict=True)
    )


def _computed(node: Node, definition: OpDef, arrays: Sequence[Array | None]) -> Array | None:
    """The result for other inputs; None where there is none, as for an index out of range."""
    try:
        with np.errstate(all="ignore"):
            return np.asarray(definition.compute(node, arrays, [np.dtype(np.int64)])[0])
    except (AscendSimError, IndexError, ValueError, ZeroDivisionError):
        return None
