"""What many fusion rules ask before they rewrite.

Every question answers None for "fine" or a sentence that says why not, ready to be a rule's refusal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Tensor
from ascendsim.passes.rewriting.control import way_back
from ascendsim.passes.rewriting.outputs import is_output
from ascendsim.passes.rewriting.pattern import Match

FLOATS = (DType.FLOAT32, DType.FLOAT16)


def known_values(tensor: Tensor | None) -> Array | None:
    """Values of a constant that has them, else None."""
    if tensor is None or tensor.constant is None or not tensor.constant.available:
        return None
    return tensor.constant.array()


def scalar(tensor: Tensor | None) -> float | None:
    """The value of a constant of one element, else None."""
    if tensor is None or not tensor.is_static or tensor.elements != 1:
        return None
    values = known_values(tensor)
    return None if values is None else float(np.asarray(values).ravel()[0])


def numbers(tensor: Tensor | None) -> list[float] | None:
    """Values of a constant as plain numbers, else None."""
    values = known_values(tensor)
    return None if values is None else [float(value) for value in np.asarray(values).ravel()]


def not_scalar(match: Match, name: str, wanted: float, tolerance: float = 0.0) -> str | None:
    """Why a captured tensor is not the constant `wanted` (within an absolute tolerance)."""
    value = scalar(match.tensors[name])
    if value is None:
        return f"{name} is not one known number"
    return None if abs(value - wanted) <= tolerance else f"{name} is {value:g}, not {wanted:g}"


def not_static(tensors: Iterable[Tensor | None]) -> str | None:
    """Why tensors are not all of known shape."""
    for tensor in tensors:
        if tensor is not None and not tensor.is_static:
            return f"the shape of {tensor.name} is not static"
    return None


def not_float(tensor: Tensor) -> str | None:
    """Why a tensor is not one that the vector unit computes in (float32 or float16)."""
    return None if tensor.dtype in FLOATS else f"{tensor.name} is no float32 or float16 tensor"


def read_outside(match: Match, results: Collection[Tensor] = ()) -> str | None:
    """Which inner result of a match somebody outside reads, so that it must stay.

    Args:
        match: All its nodes would go.
        results: Tensors that the rewrite provides; by default the first output of the root.
    """
    graph = match.root.graph
    inside = set(match.all_nodes)
    provided = set(results or (match.root.output,))
    for node in match.all_nodes:
        for tensor in node.outputs:
            if tensor in provided:
                continue
            if is_output(graph, tensor):
                return f"{node.name} makes a graph output"
            if any(use.node not in inside for use in tensor.uses):
                return f"{node.name} has a reader outside"
    return None


def closes_cycle(match: Match, inputs: Iterable[Tensor]) -> str | None:
    """Why one node in place of the match would wait for itself: an input depends on the match by a way
    outside it.
    """
    graph = match.root.graph
    assert graph is not None
    starts = [tensor.producer for tensor in inputs if tensor.producer is not None]
    node = way_back(graph, set(match.all_nodes), starts)
    return None if node is None else f"{node.name} would have to run before and after the fused operator"
