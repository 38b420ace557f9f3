"""The evaluator: memories with definedness, and recorded rows that run on them.

On-chip memories start as 0xFF with nothing defined. Arrays of the user are global memory in place: they count
as defined, and what a kernel writes is in them at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from ascendsim.core.errors import SimulationError
from ascendsim.isa.capacity import capacity
from ascendsim.isa.effects import Box
from ascendsim.isa.forms import Form
from ascendsim.isa.instructions import Buffer
from ascendsim.soc.spec import SocSpec
from ascendsim.tile.encode import encode
from ascendsim.tile.findings import Finding, Findings
from ascendsim_kernels import tile_memory as m
from ascendsim_kernels.tile_cube import SCRATCH as PRODUCT
from ascendsim_kernels.tile_lanes import SCRATCH
from ascendsim_kernels.tile_run import FORM, SCRATCHES, run

ON_CHIP = (Buffer.UB, Buffer.L1, Buffer.L0A, Buffer.L0B, Buffer.L0C, Buffer.BT)
MOST_EVENTS = 4096  # reports of one run of rows that are kept; more are counted
_KINDS = {
    m.Event.UNDEFINED_OUT: "undefined",
    m.Event.UNDEFINED_INDEX: "undefined index",
    m.Event.UNDEFINED_MASK: "undefined mask",
    m.Event.OUTSIDE_READ: "outside",
    m.Event.OUTSIDE_WRITE: "outside",
}


class GlobalMemory:
    """Regions of global memory: arrays, and which of their bytes are defined.

    Args:
        arrays: By name; contiguous, and kept alive by who made them.
    """

    def __init__(self, arrays: Iterable[tuple[str, NDArray[Any]]]) -> None:
        listed = list(arrays)
        self.names = [name for name, _ in listed]
        self.arrays = [array for _, array in listed]
        self.defined = [np.full(array.nbytes // 32 + 2, 0xFFFFFFFF, np.uint32) for array in self.arrays]


class CoreMemory:
    """The memories of one core, global memory among them, as the evaluator's table.

    Args:
        soc: The chip.
        outside: Global memory.
        saturates: Whether float16 saturates on it.
    """

    def __init__(self, soc: SocSpec, outside: GlobalMemory, saturates: bool = False) -> None:
        self.saturates = saturates
        sizes = [capacity(soc, buffer) for buffer in ON_CHIP]
        self._bytes = [np.full(size // 8 + 8, -1, np.int64) for size in sizes]
        self._defined = [np.zeros(size // 32 + 2, np.uint32) for size in sizes]
        self.outside = outside
        self.numbers = {(buffer, ""): number for number, buffer in enumerate(ON_CHIP)}
        for number, name in enumerate(outside.names, len(ON_CHIP)):
            self.numbers[Buffer.GM, name] = number
        # the value of a piece of memory must not depend on who used it before: each core has its own
        rows = [
            (_start(data), _start(bits), size)
            for data, bits, size in zip(self._bytes, self._defined, sizes, strict=True)
        ]
        rows += [
            (_start(array), _start(bits), array.nbytes)
            for array, bits in zip(outside.arrays, outside.defined, strict=True)
        ]
        self.table = np.array(rows, np.int64)

    def number(self, box: Box) -> int:
        """Number of the memory that a box lies in."""
        return self.numbers[box.buffer, box.name]

    def array(self, box: Box) -> NDArray[Any]:
        """What a box on the chip holds, as a view in the shape of its counts."""
        start, size = box.offset.base, box.dtype.itemsize
        low, high = box.span
        if low < 0 or start % size or start < 0 or start + high > int(self.table[self.number(box), m.SIZE]):
            raise SimulationError(
                f"a tile in {box.buffer.value}", "must lie in the buffer", f"{start} + {high}"
            )
        raw = self._bytes[self.number(box)].view(np.uint8)[start : start + high]
        counts, steps = zip(*box.dims, strict=True)
        return as_strided(raw[: high // size * size].view(box.dtype.numpy), counts, steps)

    def defined(self, box: Box) -> bool:
        """Whether all bytes of a box on the chip are."""
        return bool(self._flags(box)[1].all())

    def define(self, box: Box) -> None:
        """Marks all bytes of a box on the chip as defined."""
        flags, view = self._flags(box)
        view[...] = 1
        first = box.offset.base >> 3
        self._defined[self.number(box)].view(np.uint8)[first : first + len(flags) // 8] = np.packbits(
            flags, bitorder="little"
        )

    def _flags(self, box: Box) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Of the bytes that a box spans (in whole groups of eight): whether each is defined; and a view of
        those that are its elements'.
        """
        start, (_, high) = box.offset.base, box.span
        raw = self._defined[self.number(box)].view(np.uint8)[start >> 3 : (start + high + 7) >> 3]
        flags = np.unpackbits(raw, bitorder="little")
        counts, steps = zip(*box.dims, strict=True)
        shape, strides = (*counts, box.dtype.itemsize), (*steps, 1)
        return flags, as_strided(flags[start & 7 :], shape, strides)

    def element(self, number: int, address: int, dtype: np.dtype[Any]) -> tuple[Any, bool]:
        """An element, and whether all of its bytes are defined."""
        size = dtype.itemsize
        chip = len(ON_CHIP)
        if number < chip:
            whole, bits = self._bytes[number].view(np.uint8), self._defined[number]
        else:
            array = self.outside.arrays[number - chip]
            whole, bits = array.reshape(-1).view(np.uint8), self.outside.defined[number - chip]
        value = whole[address : address + size].copy().view(dtype)[0]
        places = np.arange(address, address + size)
        return value, bool(((bits[places >> 5] >> (places & 31).astype(np.uint32)) & 1).all())


def _start(array: NDArray[Any]) -> int:
    start: int = array.__array_interface__["data"][0]
    return start


class Evaluator:
    """Runs rows of one core in the order in which they come.

    Args:
        memory: What they run on.
        forms: All forms of the launch, also those that come later.
        core: Number of the core, for findings.
        findings: Takes what is found.
    """

    def __init__(self, memory: CoreMemory, forms: Sequence[Form], core: int, findings: Findings) -> None:
        self.memory, self.forms, self.core, self.findings = memory, forms, core, findings
        self._parameters = np.zeros((0, FORM), np.int64)
        self._floats = np.zeros((SCRATCHES, SCRATCH), np.float32)
        self._integers = np.zeros((SCRATCHES, SCRATCH), np.int64)
        self._wide = np.zeros(SCRATCH, np.float64)
        self._block = np.zeros(1024, np.uint8)
        self._products = np.zeros((SCRATCHES, PRODUCT), np.float32)
        self._events = np.zeros((MOST_EVENTS, 5), np.int64)
        self._done = 0

    def run(self, rows: NDArray[np.int32], values: NDArray[np.int64]) -> None:
        """Executes rows: numbers of forms, and values one row behind the other."""
        known = len(self._parameters)
        if len(self.forms) > known:
            new = [
                encode(form.effect, self.memory.number, self.memory.saturates) for form in self.forms[known:]
            ]
            self._parameters = np.concatenate([self._parameters, np.stack(new)])
        widths = np.array([form.width for form in self.forms], np.int64)
        addresses = np.array([form.addresses for form in self.forms], np.int64)
        self._events[0, 0] = 0
        run(
            rows,
            values,
            values.view(np.float64),
            widths,
            addresses,
            self._parameters,
            self.memory.table,
            self._floats,
            self._integers,
            self._wide,
            self._block,
            self._products,
            self._events,
        )
        total = int(self._events[0, 0])
        kept = self._events[1 : min(total + 1, MOST_EVENTS)].tolist()
        for number, event in enumerate(kept, 1):  # those that found no room count with the last one
            self._report(rows, event, 1 if number < len(kept) else 1 + total - len(kept))
        self._done += len(rows)

    @property
    def done(self) -> int:
        """Rows that have run."""
        return self._done

    def _report(self, rows: NDArray[np.int32], event: Sequence[int], count: int) -> None:
        row, code, number, first, last = event
        form = self.forms[rows[row]]
        kind = _KINDS[m.Event(code)]
        where = str(form.site)
        name = self._name(number)
        size = self._element_bytes(form, number)
        span = f"{first // size}..{last // size}"
        remedy = ""
        if code == m.Event.UNDEFINED_OUT:
            text = f"writes {name}[{span}], bytes that nothing has written"
            remedy = "write them first, or move fewer elements out"
        elif code in (m.Event.OUTSIDE_READ, m.Event.OUTSIDE_WRITE):
            verb = "reads" if code == m.Event.OUTSIDE_READ else "writes"
            there = int(self.memory.table[number, m.SIZE]) // size
            text = f"{verb} {name}[{span}], but {name} has {there} elements"
            remedy = "move fewer elements"
        else:
            what = "an index" if code == m.Event.UNDEFINED_INDEX else "a mask"
            text = f"takes {what} from {name} {first:#x}, which nothing has written, or which leads outside"
            remedy = "write it first"
        self.findings.add(Finding(kind, where, text, self.core, self._done + row, remedy), name, count)

    def _name(self, number: int) -> str:
        chip = len(ON_CHIP)
        return ON_CHIP[number].value if number < chip else self.memory.outside.names[number - chip]

    def _element_bytes(self, form: Form, number: int) -> int:
        assert form.effect is not None
        sizes = [box.dtype.itemsize for box in form.effect.boxes if self.memory.number(box) == number]
        return sizes[0] if sizes else 1
