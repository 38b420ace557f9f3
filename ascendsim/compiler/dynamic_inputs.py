"""What a user gives a run: arrays, and for models with open shapes or control flow shapes, branches and
numbers of iterations; checked.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ascendsim.core.errors import InputError, InputWarning, suggest
from ascendsim.graph.ir import Array, Dim, Graph, Tensor
from ascendsim.opset import OpSet
from ascendsim.passes.control_flow import control_flow_nodes
from ascendsim.passes.gears.example import how_to_say_shapes
from ascendsim.runtime.control_flow import MAX_ITERATIONS, Value
from ascendsim.runtime.host_run import Choices


def user_arrays(inputs: Mapping[str, Any]) -> dict[str, Array]:
    """The user's inputs as arrays: what NumPy makes arrays of, and `onnx.TensorProto`.

    Raises:
        InputError: If one is something else.
    """
    return {name: _user_array(name, given) for name, given in inputs.items()}


def _user_array(name: object, given: Any) -> Array:
    if type(given).__name__ == "TensorProto":  # without loading onnx for those who have none
        from ascendsim.frontends.onnx import tensor_values

        return tensor_values(given)
    try:
        array = np.asarray(given)
    except Exception:  # ragged lists, tensors of a framework on its device: they fail in any way
        array = np.asarray(None)
    if array.dtype.kind in "OUSMm":  # objects, texts, times
        accepted = (
            "must be an array of numbers: NumPy's, what np.asarray makes one of, or an onnx.TensorProto"
        )
        raise InputError(f"input {name!r}", accepted, f"{type(given).__name__} of {array.dtype}")
    return array


def shapes_only(graph: Graph, opset: OpSet, shapes: Mapping[str, Sequence[int]]) -> dict[str, Value]:
    """Inputs without values, of the graph's own shapes or those that the user gives.

    Raises:
        InputError: If a shape is open and not given, or does not fit.
    """
    known = {tensor.name: tensor for tensor in graph.inputs}
    for name in shapes:
        if name not in known:
            raise InputError(
                f"option shapes: input {name!r}",
                "is not an input of the model",
                remedy=suggest(str(name), known),
            )
    values = {}
    for name, tensor in known.items():
        given = shapes.get(name)
        if given is None and not tensor.is_static:
            raise InputError(
                f"input {name!r}",
                f"has the open shape {_text(tensor)}",
                remedy=how_to_say_shapes(graph, opset),
            )
        shape = tensor.static_shape if given is None else _dims(name, given)
        _check_shape(tensor, shape, f"option shapes: input {name!r}", least=1)
        values[name] = Value((tensor.origin_dtype or tensor.element_type).numpy, shape)
    return values


def shapes_of_arrays(graph: Graph, arrays: Mapping[str, Array]) -> dict[str, tuple[int, ...]]:
    """Shapes of open inputs that arrays say: of their own inputs, and of others whose open dimensions have
    names that those have too.
    """
    opened = [tensor for tensor in graph.inputs if not tensor.is_static]
    found = {tensor.name: arrays[tensor.name].shape for tensor in opened if tensor.name in arrays}
    sizes: dict[Dim, int] = {
        dim: size
        for tensor in opened
        for dim, size in zip(tensor.shape or (), found.get(tensor.name, ()), strict=False)
        if isinstance(dim, str)
    }
    for tensor in opened:
        shape = tensor.shape or (None,)
        if tensor.name not in found and all(isinstance(dim, int) or dim in sizes for dim in shape):
            found[tensor.name] = tuple(dim if isinstance(dim, int) else sizes[dim] for dim in shape)
    return found


def checked_choices(
    graph: Graph, branches: Mapping[str, str | int] | None, trips: Mapping[str, int] | None
) -> Choices:
    """The user's branches and numbers of iterations.

    Raises:
        InputError: If a name is no node with subgraphs, or a number is not usable.
    """
    nodes = {node.name: node.op_type for node in control_flow_nodes(graph)}
    for option, given, kinds in (
        ("branches", branches or {}, ("If", "Case")),
        ("trips", trips or {}, ("Loop", "While")),
    ):
        known = [name for name, kind in nodes.items() if kind in kinds]
        for name, value in given.items():
            if name not in known:
                remedy = suggest(str(name), known) if known else f"the model has no {' or '.join(kinds)}"
                raise InputError(
                    f"option {option}: node {name!r}",
                    f"must be one of the model's {' or '.join(kinds)} nodes",
                    remedy=remedy,
                )
            if option == "trips" and (
                not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_ITERATIONS
            ):
                raise InputError(
                    f"option trips: node {name!r}",
                    f"must be a number from 0 to {MAX_ITERATIONS}",
                    repr(value),
                )
    return Choices(dict(branches or {}), dict(trips or {}))


def input_values(graph: Graph, inputs: Mapping[str, Any]) -> dict[str, Value]:
    """The user's arrays, checked against the graph's inputs.

    Raises:
        InputError: If an input is missing, unknown, or of the wrong shape or type.

    Warns:
        InputWarning: Dimensions with one name differ. Exporters name some alike that need not be equal; where
            they must be, an operator says so.
    """
    known = {tensor.name: tensor for tensor in graph.inputs}
    for name in inputs:
        if name not in known:
            raise InputError(
                f"input {name!r}", "is not an input of the model", remedy=suggest(str(name), known)
            )
    values = {}
    for name, tensor in known.items():
        dtype = (tensor.origin_dtype or tensor.element_type).numpy
        if name not in inputs:
            raise InputError(
                f"input {name!r}",
                f"is missing; the model wants {dtype}{_text(tensor)}",
                remedy=f"pass {{{name!r}: array}}",
            )
        array = np.asarray(inputs[name])
        _check_shape(tensor, array.shape, f"input {name!r}", least=0)
        if array.dtype != dtype:
            raise InputError(
                f"input {name!r}",
                f"must be of type {dtype}",
                str(array.dtype),
                f"convert it with .astype({str(dtype)!r})",
            )
        values[name] = Value(array.dtype, array.shape, array)
    same: dict[str, tuple[int, str]] = {}
    for name, tensor in known.items():
        for dim, size in zip(tensor.shape or (), values[name].shape, strict=False):
            if isinstance(dim, str) and same.setdefault(dim, (size, name))[0] != size:
                other = same[dim]
                text = f"input {name!r}: {dim} is {size}, and {other[0]} in input {other[1]!r}"
                warnings.warn(f"{text}, though the model says they are equal", InputWarning, stacklevel=2)
    return values


def _dims(name: str, given: object) -> tuple[int, ...]:
    """A shape that the user gives, as numbers."""
    dims = tuple(given) if isinstance(given, Sequence) and not isinstance(given, (str, bytes)) else ()
    if given != () and (
        not dims or any(not hasattr(dim, "__index__") or isinstance(dim, bool) for dim in dims)
    ):
        raise InputError(f"option shapes: input {name!r}", "must be a sequence of whole numbers", repr(given))
    return tuple(int(dim) for dim in dims)


def _check_shape(tensor: Tensor, shape: Sequence[int], subject: str, least: int) -> None:
    """Checks a shape against the declared one; an open dimension may have sizes from `least` on."""
    declared = tensor.shape
    if declared is None:
        return
    fits = len(declared) == len(shape) and all(
        size == dim if isinstance(dim, int) else size >= least
        for dim, size in zip(declared, shape, strict=True)
    )
    if not fits:
        raise InputError(subject, f"must have shape {_text(tensor)}", list(shape))


def _text(tensor: Tensor) -> str:
    if tensor.shape is None:
        return "of unknown rank"
    return "[" + ", ".join("?" if dim is None else str(dim) for dim in tensor.shape) + "]"
