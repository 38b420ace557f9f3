"""A row of the table of published kernels: which kernel with what arguments gives its time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ascendsim as asim
from ascendsim import asc


@dataclass(frozen=True)
class Row:
    """A published time and the launch that predicts it.

    Attributes:
        number: The row's `id`.
        kernel: What is run.
        cores: Blocks.
        args: Gives the arguments; called when the row is run, for arrays are large.
        soc: The chip.
        measure: What is read from a result, in microseconds: `task`, `block` (the mean of all
            cores), `cube` (of the cube cores of teams) or the busy time of a pipe.
        less: Arguments of a second launch whose time is taken off: what is measured is a part of the kernel.
        scale: Times the time, for what is run smaller than it was, or repeated.
        unit: Microseconds of the row's unit.
        values: Whether values are needed to know what the kernel does.
        note: What of the published conditions is not so here.
    """

    number: int
    kernel: asc.Kernel
    cores: int
    args: Callable[[], tuple[Any, ...]]
    soc: str = "Ascend910B1"
    measure: str = "task"
    less: Callable[[], tuple[Any, ...]] | None = None
    scale: float = 1.0
    unit: float = 1.0
    values: bool = False
    note: str = ""

    def predict(self) -> float:
        """The time in the row's unit."""
        time = self._time(self.args())
        if self.less is not None:
            time -= self._time(self.less())
        return time * self.scale / self.unit

    def _time(self, args: tuple[Any, ...]) -> float:
        result = asim.run_kernel(self.kernel, self.cores, *args, soc=self.soc, values=self.values)
        if self.measure == "task":
            return result.duration_us
        if self.measure == "block":
            record = result.trace.tasks[0]
            return result.trace.us(record.block_ticks) / record.blocks
        if self.measure == "cube":
            record = result.trace.tasks[0]
            return result.trace.us(record.block_ticks - record.vector_ticks) / self.cores
        return result.pipes()[self.measure]


def empty(*shape: int, dtype: str = "float16") -> NDArray[Any]:
    """An array whose pages nobody touches: where only the time is asked for, its values do not matter."""
    return np.zeros(shape, dtype)
