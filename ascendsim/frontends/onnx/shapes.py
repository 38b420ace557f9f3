"""The options `batch` and `shapes`: from what the user asks to the input shapes of the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ascendsim.core.errors import InputError, suggest
from ascendsim.graph.ir import Dim, Graph, Shape, Tensor

MAX_DIM = 1 << 31
OPEN = -1  # a dimension that stays open, as ATC marks it


@dataclass(frozen=True, slots=True)
class ShapePlan:
    """Input shapes to infer with.

    Attributes:
        wanted: By input name.
        reference: The same with the old batch, where the batch changes from a number to another; else equal
            to `wanted`.
        batches: Old and new batch, or None if it does not change.
        dynamic: Whether the model leaves its batch open: then what it says holds for any batch, and only what
            cannot be is rewritten.
    """

    wanted: dict[str, Shape]
    reference: dict[str, Shape]
    batches: tuple[int, int] | None
    dynamic: bool = False


def plan_shapes(graph: Graph, batch: int | None, shapes: Mapping[str, Sequence[int]] | None) -> ShapePlan:
    """Checks the options against the model and applies them to its input shapes.

    The model's batch is the first dimension of its first input of rank 1 or more. `batch` replaces it as the
    first dimension of every input that has the same number or a symbol there, and the same symbol wherever
    else it stands; in a shape that `shapes` gives too, whether it is open (-1) or a number there.

    Raises:
        InputError: If a name is unknown, a rank differs, or a size is not positive.
    """
    wanted = {tensor.name: tensor.shape for tensor in graph.inputs}
    given = _checked_shapes(graph, shapes or {})
    wanted.update(given)
    old = _batch_of(graph, given)
    if batch is not None:
        _positive("option batch", batch)
        if old is None:
            raise InputError(
                "option batch",
                "needs a model with a batch dimension: no input has a first dimension",
                remedy="say its shapes: --input_shape NAME:DIMS, in Python shapes={...}",
            )
        for tensor in graph.inputs:
            shape = given.get(tensor.name)
            wanted[tensor.name] = (
                _with_batch(tensor, old, batch)
                if shape is None
                else _rebatched(tensor, shape, given, old, batch)
            )
    complete = {name: shape for name, shape in wanted.items() if shape is not None}
    return _with_reference(graph, complete, old)


def _with_reference(graph: Graph, wanted: dict[str, Shape], old: Dim) -> ShapePlan:
    """Adds the shapes with the old batch if every input that carries the batch gets the same new one."""
    before = old if isinstance(old, int) else 1  # exporters trace a symbolic batch with one sample
    carriers = [t for t in graph.inputs if t.shape and _carries(t, old) and t.name in wanted]
    changed = [t for t in carriers if t.shape and wanted[t.name][0] != t.shape[0]]
    sizes = {wanted[tensor.name][0] for tensor in changed}
    after = sizes.pop() if len(sizes) == 1 else None
    if not isinstance(after, int) or after == before or before == 0:
        return ShapePlan(wanted, wanted, None)
    reference = dict(wanted)
    for tensor in graph.inputs:
        shape, original = wanted.get(tensor.name), tensor.shape
        if shape is None or original is None:
            continue
        symbolic = [isinstance(dim, str) and dim == old for dim in original]
        reference[tensor.name] = tuple(
            before if (axis == 0 and tensor in changed) or (symbolic[axis] and dim == after) else dim
            for axis, dim in enumerate(shape)
        )
    return ShapePlan(wanted, reference, (before, after), not isinstance(old, int))


def _checked_shapes(graph: Graph, shapes: Mapping[str, Sequence[int]]) -> dict[str, Shape]:
    inputs = {tensor.name: tensor for tensor in graph.inputs}
    checked: dict[str, Shape] = {}
    for name, dims in shapes.items():
        subject = f"option shapes: input {name!r}"
        if name not in inputs:
            raise InputError(
                subject,
                "is not an input of the model",
                remedy=suggest(str(name), inputs) if inputs else "the model has no inputs",
            )
        if isinstance(dims, (str, bytes)) or not isinstance(dims, Sequence):
            raise InputError(
                subject,
                "must be a sequence of numbers",
                repr(dims),
                'for example shapes={"input": (1, 3, 224, 224)}',
            )
        for dim in dims:
            if dim != OPEN:
                _positive(subject, dim)
        declared = inputs[name].shape
        if declared is not None and len(declared) != len(dims):
            raise InputError(
                subject, f"must have {len(declared)} dimensions, as in {_text(declared)}", list(dims)
            )
        checked[name] = tuple(None if dim == OPEN else int(dim) for dim in dims)
    return checked


def _positive(subject: str, value: object) -> None:
    is_integer = hasattr(value, "__index__") and not isinstance(value, bool)
    if not is_integer or not 1 <= int(value) < MAX_DIM:  # type: ignore[call-overload]
        raise InputError(subject, f"must have sizes from 1 to {MAX_DIM - 1}", repr(value))


def _batch_of(graph: Graph, given: Mapping[str, Shape]) -> Dim:
    """The model's batch: a number, a symbol; None if no input has a first dimension, or nothing is known
    about it. Where the model does not say an input's rank, the shape that is given does.
    """
    first = next((tensor.shape for tensor in graph.inputs if tensor.shape), None)
    if first is None:
        ranked = any(tensor.shape is None and given.get(tensor.name) for tensor in graph.inputs)
        return "" if ranked else None
    return "" if first[0] is None else first[0]


def _carries(tensor: Tensor, old: Dim) -> bool:
    """Whether an input's first dimension is the batch: the same number, or not a number."""
    return (
        bool(tensor.shape)
        and tensor.shape is not None
        and (not isinstance(tensor.shape[0], int) or tensor.shape[0] == old)
    )


def _with_batch(tensor: Tensor, old: Dim, batch: int) -> Shape | None:
    if tensor.shape is None:
        return None
    return tuple(
        batch if (axis == 0 and _carries(tensor, old)) or (isinstance(dim, str) and dim == old) else dim
        for axis, dim in enumerate(tensor.shape)
    )


def _rebatched(tensor: Tensor, shape: Shape, given: Mapping[str, Shape], old: Dim, batch: int) -> Shape:
    """A shape that the user gives, with another batch: as its first dimension where the model has its batch
    there or the user leaves it open, and wherever the model has the symbol of its batch. Exporters name the
    batch of each input by itself: one of another name is meant where it has the size of the first input's.
    """
    declared = tensor.shape or (None,) * len(shape)
    now = next((sizes[0] for sizes in given.values() if sizes), None)

    def is_batch(axis: int, size: Dim, then: Dim) -> bool:
        if isinstance(then, str) and then == old:
            return True
        return axis == 0 and (then == old or (not isinstance(then, int) and size in (None, now)))

    return tuple(
        batch if is_batch(axis, size, then) else size
        for axis, (size, then) in enumerate(zip(shape, declared, strict=True))
    )


def _text(shape: Shape) -> str:
    return "[" + ", ".join("?" if dim is None else str(dim) for dim in shape) + "]"
