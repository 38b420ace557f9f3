"""Data to calibrate with, as batches that fit a graph: arrays, archives of arrays, folders of images, or
anything that yields them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Union

import numpy as np

from ascendsim.core.errors import FIXED_SHAPES, InputError, suggest
from ascendsim.graph.ir import Array, Graph, Tensor

Batch = dict[str, Array]
Data = Union[str, PathLike[str], Mapping[str, Any], Iterable[Any], Any]

SUBJECT = "argument data"


def batches(graph: Graph, data: Data) -> Iterator[Batch]:
    """The data as batches of the graph's own size, one after the other; only what is at hand is in memory.

    Args:
        graph: With static inputs.
        data: Arrays by input name (of one input also the array alone), with any whole number of batches one
            behind the other along the first axis; the path of an .npz file of such arrays; or something that
            yields such arrays.

    Raises:
        InputError: If there are no data, or they do not fit the inputs, or hold NaN or infinities.
    """
    found = 0
    for part in _parts(data):
        for batch in _cut(graph, part):
            found += 1
            yield batch
    if not found:
        raise InputError(SUBJECT, "holds no sample", remedy="pass at least one batch of real inputs")


def _parts(data: Data) -> Iterator[Any]:
    if isinstance(data, (str, PathLike)):
        yield read_archive(data)
    elif isinstance(data, (Mapping, np.ndarray)) or not isinstance(data, Iterable):
        yield data
    else:
        yield from data


def read_archive(path: str | PathLike[str]) -> dict[str, Array]:
    """The arrays of an .npz file; never executes what is in it.

    Raises:
        InputError: If the file is missing or is no archive of plain arrays.
    """
    try:
        with np.load(Path(path), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise InputError(f"file {str(path)!r}", "does not exist") from None
    except Exception as error:  # damaged archives end in all sorts
        rule, remedy = f"is no .npz archive of arrays ({error})", "write it with numpy.savez"
        raise InputError(f"file {str(path)!r}", rule, remedy=remedy) from None


def _cut(graph: Graph, part: Any) -> Iterator[Batch]:
    """One part of the data as batches."""
    inputs = {tensor.name: tensor for tensor in graph.inputs}
    given = part if isinstance(part, Mapping) else _named(inputs, part)
    for name in given:
        if name not in inputs:
            raise InputError(
                f"input {name!r} in data", "is not an input of the model", remedy=suggest(str(name), inputs)
            )
    arrays, counts = {}, {}
    for name, tensor in inputs.items():
        if name not in given:
            raise InputError(f"input {name!r}", "is missing in data", remedy=f"add {_form(tensor)}")
        arrays[name], counts[name] = _checked(tensor, np.asarray(given[name]))
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{count} of {name!r}" for name, count in counts.items())
        raise InputError(SUBJECT, "must have as many batches of every input", listed)
    for number in range(next(iter(counts.values()), 0)):
        yield {
            name: array if not inputs[name].shape else _slice(array, number, inputs[name].static_shape[0])
            for name, array in arrays.items()
        }


def _named(inputs: Mapping[str, Tensor], part: Any) -> dict[str, Any]:
    if len(inputs) != 1:
        rule = f"must name the inputs {', '.join(map(repr, inputs))}"
        raise InputError(SUBJECT, rule, type(part).__name__, "pass {name: array}")
    return {next(iter(inputs)): part}


def _slice(array: Array, number: int, batch: int) -> Array:
    return array[number * batch : (number + 1) * batch]


def _form(tensor: Tensor) -> str:
    return f"{(tensor.origin_dtype or tensor.element_type).value}{list(tensor.static_shape)}"


def _checked(tensor: Tensor, array: Array) -> tuple[Array, int]:
    """An array of an input in the input's type, and how many batches it holds."""
    subject, shape = f"input {tensor.name!r} in data", tensor.static_shape
    fits = array.ndim == len(shape) and array.shape[1:] == shape[1:]
    if not fits or (shape and shape[0] and array.shape[0] % shape[0]):
        wanted = "a number" if not shape else f"[n * {shape[0]}{''.join(f', {dim}' for dim in shape[1:])}]"
        remedy = f"reshape it, or {FIXED_SHAPES}"
        raise InputError(subject, f"must have shape {wanted}", list(array.shape), remedy)
    kind = (tensor.origin_dtype or tensor.element_type).numpy
    if not np.can_cast(array.dtype, kind, "same_kind"):
        raise InputError(
            subject, f"must be of type {kind}", str(array.dtype), f"convert it by .astype({str(kind)!r})"
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        first = tuple(int(place) for place in np.argwhere(~np.isfinite(array))[0])
        where = f"{array[first]} at {list(first)}"
        raise InputError(subject, "must be finite", where, "leave such samples out")
    return array.astype(kind, copy=False), array.shape[0] // shape[0] if shape and shape[0] else 1
