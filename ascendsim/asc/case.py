"""Cases: a kernel with arguments and what it shall have written; files of kernels have functions that give
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import isfunction, signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.asc.launch import Kernel
from ascendsim.asc.tensors import GlobalAddress
from ascendsim.core.errors import InputError, suggest


@dataclass(frozen=True)
class Case:
    """A kernel, what it is run with, and what it shall have written.

    Attributes:
        kernel: The kernel.
        cores: Blocks.
        args: Its arguments; arrays that it writes are filled by a run.
        expect: By name of a parameter, what its array shall hold after a run; others are not looked at.
        rtol: Difference that is allowed, as a share of the expected number; 0 with `atol` 0 asks for equal
            numbers.
        atol: Difference that is allowed in any case.
    """

    kernel: Kernel
    cores: int
    args: tuple[Any, ...]
    expect: Mapping[str, NDArray[Any]]
    rtol: float = 0.0
    atol: float = 0.0

    def __post_init__(self) -> None:
        given = self._arguments()
        for name in self.expect:
            if name not in given:
                raise InputError(
                    f"case of kernel {self.kernel.name!r}",
                    "expects something of a parameter that the kernel has",
                    name,
                    suggest(name, given),
                )

    def _arguments(self) -> dict[str, Any]:
        return dict(signature(self.kernel.function).bind(*self.args).arguments)

    def failures(self) -> list[str]:
        """One line for every array that does not hold what it should; to be asked after a run."""
        given = self._arguments()
        lines = []
        for name, wanted in self.expect.items():
            value = given[name]
            array = np.asarray(value.array if isinstance(value, GlobalAddress) else value)
            line = _difference(array, np.asarray(wanted), self.rtol, self.atol)
            if line:
                lines.append(f"{name}{line}")
        return lines


def _difference(array: NDArray[Any], wanted: NDArray[Any], rtol: float, atol: float) -> str:
    """Where two arrays differ first, and in how many places; "" if they do not."""
    if array.shape != wanted.shape:
        return f" has shape {array.shape} instead of {wanted.shape}"
    near = (array == wanted) | (_nan(array) & _nan(wanted))
    if rtol or atol:
        got, right = array.astype(np.float64), wanted.astype(np.float64)
        near |= np.abs(got - right) <= atol + rtol * np.abs(right)
    if near.all():
        return ""
    wrong = np.argwhere(~near)
    first = tuple(int(index) for index in wrong[0])
    place = ", ".join(map(str, first))
    return f"[{place}] is {array[first]} instead of {wanted[first]}, {len(wrong)} of {array.size} differ"


def _nan(array: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray(array != array)


def unmarked(namespace: Mapping[str, Any]) -> list[str]:
    """Functions of a file that take nothing and do not say what they give: perhaps cases that lack
    `-> asc.Case`.
    """
    return [
        name
        for name, value in namespace.items()
        if isfunction(value)
        and value.__module__ == namespace.get("__name__", value.__module__)
        and "return" not in value.__annotations__
        and not signature(value).parameters
    ]


def cases(namespace: Mapping[str, Any]) -> dict[str, Callable[[], Case]]:
    """Functions of a file that give cases, by name: those that say `-> asc.Case` and take nothing.

    Args:
        namespace: Names of the file.
    """
    found: dict[str, Callable[[], Case]] = {}
    for name, value in namespace.items():
        if not isfunction(value) or value.__module__ != namespace.get("__name__", value.__module__):
            continue
        gives = value.__annotations__.get("return")
        said = gives.rpartition(".")[2] if isinstance(gives, str) else getattr(gives, "__name__", "")
        if said == Case.__name__ and not signature(value).parameters:
            found[name] = value
    return found
