"""Arguments of a launch: arrays as bytes of global memory, numbers as they are."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.core.errors import InputError, KernelError

KNOWN = (
    "float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64",
    "uint8", "uint16", "uint32", "uint64", "bool",
)  # fmt: skip
_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
MOST_BYTES = 8 << 30


class Arguments:
    """Arguments of a kernel by parameter.

    Args:
        kernel: Its name, for errors.
        given: Values by parameter: arrays, tensors, numbers, types of Triton.

    Attributes:
        arrays: Memory of the arrays, each once, as unsigned integers of the size of its elements.
        regions: The name of the first parameter that each belongs to.

    Raises:
        InputError: Something that a kernel cannot take.
    """

    def __init__(self, kernel: str, given: Mapping[str, Any]) -> None:
        self._kernel, self._given = kernel, given
        self.arrays: list[NDArray[Any]] = []
        self.regions: list[str] = []
        self._number: dict[str, int] = {}
        self._seen: dict[str, dict[str, Any]] = {}
        known: dict[tuple[int, int], int] = {}
        for name, value in given.items():
            self._seen[name] = self._take(name, value, known)
        if sum(array.nbytes for array in self.arrays) > MOST_BYTES:
            raise InputError(
                f"arrays of kernel {kernel!r}", f"may have at most {MOST_BYTES:,} bytes together"
            )

    def _take(self, name: str, value: Any, known: dict[tuple[int, int], int]) -> dict[str, Any]:
        what = f"argument {name!r} of kernel {self._kernel!r}"
        found = _memory(what, value)
        if found is not None:
            dtype, memory = found
            if dtype not in KNOWN:
                raise InputError(what, "must have one of the types " + ", ".join(KNOWN), dtype)
            place = (memory.ctypes.data, memory.nbytes)
            if place not in known:
                self._refuse_overlap(what, place, known)
                known[place] = len(self.arrays)
                self.arrays.append(memory)
                self.regions.append(name)
            self._number[name] = known[place]
            return {"kind": "array", "dtype": dtype}
        if isinstance(value, np.generic):
            value = value.item()
        if type(value).__name__ == "dtype" and hasattr(value, "name"):
            return {"kind": "dtype", "name": _type_name(value)}
        if type(value).__name__ == "constexpr":
            value = value.value
        if isinstance(value, bool | int | float | str | type(None)):
            return {"kind": "value", "value": value}
        kind = type(value).__name__
        raise InputError(what, "must be an array, a tensor on the CPU, a number or a type of Triton", kind)

    @staticmethod
    def _refuse_overlap(what: str, place: tuple[int, int], known: Mapping[tuple[int, int], int]) -> None:
        for start, length in known:
            if place[0] < start + length and start < place[0] + place[1]:
                raise InputError(what, "shares a part of its memory with another one", remedy="pass a copy")

    def seen(self) -> dict[str, dict[str, Any]]:
        """What the compiler sees of each."""
        return self._seen

    def of(self, parameters: Sequence[str]) -> tuple[list[int], list[Any]]:
        """Numbers of the arrays, and the numbers, that a compiled module takes for some parameters."""
        memrefs, scalars = [], []
        for name in parameters:
            if name in self._number:
                memrefs.append(self._number[name])
            else:
                value = self._given[name]
                scalars.append(value.item() if isinstance(value, np.generic) else value)
        return memrefs, [int(one) if isinstance(one, bool) else one for one in scalars]

    def fill(self, results: Sequence[NDArray[Any]]) -> None:
        """Writes results into the arrays of the caller.

        Raises:
            KernelError: The kernel has written an array that is read only.
        """
        for name, array, result in zip(self.regions, self.arrays, results, strict=True):
            if np.array_equal(array, result):
                continue
            if not _writeable(self._given[name]):
                raise KernelError(f"kernel {self._kernel!r}", f"writes {name}, which is read only")
            ctypes.memmove(array.ctypes.data, result.ctypes.data, result.nbytes)


def _writeable(value: Any) -> bool:
    return bool(value.flags.writeable) if isinstance(value, np.ndarray) else True


def _type_name(value: Any) -> str:
    """The name of a type in `triton.language`."""
    names = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64", "int1": "int1"}
    return str(names.get(value.name, value.name))


def _memory(what: str, value: Any) -> tuple[str, NDArray[Any]] | None:
    """Element type and memory of an array or a tensor; None if it is neither."""
    if isinstance(value, np.ndarray):
        name, start, sizes = value.dtype.name, value.ctypes.data, value.shape
        strides, itemsize = value.strides, value.dtype.itemsize
    elif hasattr(value, "data_ptr") and hasattr(value, "untyped_storage"):
        if value.device.type != "cpu":
            raise InputError(what, "must lie on the CPU", str(value.device), "call .cpu()")
        itemsize = value.element_size()
        name, start, sizes = str(value.dtype).rpartition(".")[2], value.data_ptr(), tuple(value.shape)
        strides = tuple([step * itemsize for step in value.stride()])
    else:
        return None
    if itemsize not in _WORDS or any(step < 0 or step % itemsize for step in strides):
        raise InputError(what, "must have elements of 1 to 8 bytes in rising order")
    empty = 0 in sizes
    length = (
        0 if empty else itemsize + sum((size - 1) * step for size, step in zip(sizes, strides, strict=True))
    )
    if not length:
        return name, np.zeros(0, _WORDS[itemsize])
    held = (ctypes.c_uint8 * length).from_address(start)
    return name, np.frombuffer(memoryview(held), np.uint8).view(_WORDS[itemsize])
