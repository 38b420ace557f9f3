"""Every operator under inputs and attributes that are other in one place than those of a case: what its shape
rule says of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import AscendSimError
from tests.support.operator_cases import Case, build, few_cases_of


def _resized(array: Any) -> Iterator[Any]:
    """The array with one axis a little longer, shorter, doubled, of size 1 or gone, and with one more in
    front."""
    for axis, size in enumerate(array.shape):
        for other in sorted({size + 1, max(0, size - 1), 2 * size, 1, 3} - {size}):
            yield np.resize(array, (*array.shape[:axis], other, *array.shape[axis + 1 :]))
    yield np.resize(array, (1, *array.shape))
    if array.ndim:
        yield np.resize(array, array.shape[1:])
    if array.ndim > 1:
        yield np.resize(array, ())


def _retyped(array: Any) -> Iterator[Any]:
    for dtype in (np.int32, np.float32, np.int8, np.float16):
        if array.dtype != dtype:
            yield array.astype(dtype)


def _changed(value: Any) -> Iterator[Any]:
    """Other values of an attribute: next to it, far away, of another length, no word that is known."""
    match value:
        case bool() | DType():
            return
        case int():
            yield from (value - 1, value + 1, -value - 3, 0, 99)
        case str():
            yield "nonsense"
        case tuple() if value and all(isinstance(item, int) for item in value):
            yield from (
                (*value, 1),
                value[:-1],
                (value[0] + 1, *value[1:]),
                (-7, *value[1:]),
                (0, *value[1:]),
                (99, *value[1:]),
            )
        case _:
            return


def _mistakes(case: Case) -> Iterator[tuple[int | None, Case]]:
    """Cases that are wrong in one place; the port of the input that is, if it is one."""
    for port, array in enumerate(case.inputs):
        if array is None:
            continue
        others = [*_resized(array), *_retyped(array)]
        if array.dtype.kind == "i" and array.size and array.ndim <= 1:
            others += [array - 7, array + 99, -array, np.zeros_like(array)]
        for other in others:
            yield port, replace(case, inputs=(*case.inputs[:port], other, *case.inputs[port + 1 :]))
    for name, value in case.attributes.items():
        for other in (
            () if name.startswith("aipp_") else _changed(value)
        ):  # those are checked where a configuration is read
            yield None, replace(case, attributes={**case.attributes, name: other})


@cache
def outcomes(initial: str) -> list[tuple[Case, int | None, Case, str]]:
    """Each case, where it was made wrong, how, and what its operator says: nothing where it takes it."""
    found = []
    for case in few_cases_of(initial):
        for port, wrong in _mistakes(case):
            try:
                build(wrong)
                text = ""
            except AscendSimError as error:
                text = str(error).removeprefix(f"node '{case.op_type}' ({case.op_type}) ")
            except Exception as error:
                text = f"CRASH {type(error).__name__}: {error}"
            found.append((case, port, wrong, text))
    return found
