"""Forms as the checker's tables: which bytes they touch, and which flags they set or wait for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ascendsim.isa.effects import Box, Effect
from ascendsim.isa.forms import Form
from ascendsim.isa.instructions import Buffer, Pipe
from ascendsim_kernels import tile_race as r

PIPES = {
    Pipe.S: r.S,
    Pipe.V: r.V,
    Pipe.M: r.M,
    Pipe.MTE1: r.MTE1,
    Pipe.MTE2: r.MTE2,
    Pipe.MTE3: r.MTE3,
    Pipe.FIX: r.FIX,
}
_LANES = ("vector", "cast")  # kinds whose mask says which lanes of all operands take part
_Run = tuple[int, int]


class Tables:
    """What all forms so far do.

    Args:
        forms: All forms of the launch, also those that come later.
        memory: Finds the number of the memory of a box.
    """

    def __init__(self, forms: Sequence[Form], memory: Callable[[Box], int]) -> None:
        self.forms, self.memory = forms, memory
        self.flags: dict[tuple[str, int], int] = {}  # by name and count at the start: cores may differ in it
        self.initial: list[int] = []
        self.binary: list[bool] = []
        self.listed: list[Box] = []
        self._steps: list[list[int]] = []
        self._boxes: list[list[int]] = []
        self._runs: list[_Run] = []
        self._known: dict[tuple[_Run, ...], int] = {}
        self.steps: NDArray[np.int64] = np.zeros((0, r.FORM), np.int64)
        self.boxes: NDArray[np.int64] = np.zeros((1, r.BOX_WIDTH), np.int64)
        self.runs: NDArray[np.int64] = np.zeros((1, 2), np.int64)
        self.widths: NDArray[np.int64] = np.zeros(0, np.int64)

    def update(self) -> Sequence[Form]:
        """Takes forms in that have come since the last time, and returns them."""
        new = list(self.forms[len(self._steps) :])
        for form in new:
            self._steps.append(self._step(form))
        if new:
            self.steps = np.array(self._steps, np.int64).reshape(-1, r.FORM)
            self.boxes = np.array(self._boxes or [[0] * r.BOX_WIDTH], np.int64)
            self.runs = np.array(self._runs or [(0, 0)], np.int64)
            self.widths = np.array([form.width for form in self.forms[: len(self._steps)]], np.int64)
        return new

    def _step(self, form: Form) -> list[int]:
        pipe = PIPES[form.pipe]
        if form.barrier:
            return [r.BARRIER, pipe, 0, 0, 0, 0]
        if form.flag is not None and form.flag.mode is not None:
            return [r.CROSS, pipe, 0, 0, 0, 0]
        if form.flag is not None:
            number = self.flags.setdefault((form.flag.name, form.flag.initial), len(self.flags))
            if number == len(self.initial):
                self.initial.append(form.flag.initial)
                self.binary.append(form.flag.event is not None)
            return [r.WAIT if form.flag.wait else r.SET, pipe, number, 0, 0, 0]
        effect = form.effect
        if effect is None or not effect.boxes:
            return [r.NOTHING, pipe, 0, 0, 0, 0]
        first = len(self._boxes)
        for operand, box in enumerate(effect.boxes):
            self._boxes.append(self._box(effect, operand))
            self.listed.append(box)
        return [r.INSTRUCTION, pipe, 0, first, len(effect.boxes), int(_is_strict(effect))]

    def _box(self, effect: Effect, operand: int) -> list[int]:
        box = effect.boxes[operand]
        write = operand < len(effect.writes)
        adds = write and box.buffer is Buffer.GM and bool(effect.parameter("atomic"))
        loops, runs = shape(box, effect.mask if effect.kind in _LANES else 0)
        at = self._known.setdefault(runs, len(self._runs))
        if at == len(self._runs):
            self._runs += runs
        flat = [number for pair in loops for number in pair]
        unit = int(bool(effect.parameter("unit_flag")) and box.buffer is Buffer.L0C)
        return [self.memory(box), 2 if adds else int(write), operand, at, len(runs), *flat, unit]


def _is_strict(effect: Effect) -> bool:
    """Whether its target may share bytes with a source only from the first one on."""
    if effect.kind not in _LANES or not effect.writes or not effect.reads:
        return False
    return len({box.dtype.itemsize for box in effect.boxes}) == 1


def shape(box: Box, mask: int = 0) -> tuple[tuple[tuple[int, int], ...], tuple[_Run, ...]]:
    """The bytes of a box as stretches in three loops around them (count, distance), outermost first.

    >>> from ascendsim.core.dtypes import DType
    >>> shape(Box(Buffer.UB, "", DType.FLOAT32, ((4, 256), (8, 32), (8, 4))))
    (((1, 0), (1, 0), (1, 0)), ((0, 1024),))
    >>> shape(Box(Buffer.UB, "", DType.FLOAT32, ((4, 512), (2, 64), (8, 4))), 0xF0F)
    (((1, 0), (1, 0), (4, 512)), ((0, 16), (64, 16)))
    >>> shape(Box(Buffer.UB, "", DType.FLOAT32, ((4, 0), (8, 32), (8, 4))))
    (((1, 0), (1, 0), (1, 0)), ((0, 256),))
    """
    size = box.dtype.itemsize
    if mask and len(box.dims) == 3:
        (times, step), (blocks, between), (each, _) = box.dims
        runs: list[_Run] = []
        for lane in range(blocks * each):
            if mask >> lane & 1:
                _extend(runs, lane // each * between + lane % each * size, size)
        return _loops([(times, step)], runs)
    run, dims = size, list(box.dims)
    while dims and (dims[-1][0] == 1 or dims[-1][1] == run):
        run *= dims.pop()[0]
    return _loops(dims, [(0, run)])


def _extend(runs: list[_Run], start: int, length: int) -> None:
    if runs and sum(runs[-1]) == start:
        runs[-1] = (runs[-1][0], runs[-1][1] + length)
    else:
        runs.append((start, length))


def _loops(dims: list[_Run], runs: list[_Run]) -> tuple[tuple[tuple[int, int], ...], tuple[_Run, ...]]:
    dims = [pair for pair in dims if pair[0] != 1 and pair[1] != 0]  # 0: the same bytes again
    while dims and len(runs) == 1 and dims[-1][1] == runs[0][1]:
        runs = [(runs[0][0], runs[0][1] * dims.pop()[0])]
    while len(dims) > 3:  # more than the tables hold: the inner ones become stretches of their own
        count, step = dims.pop()
        runs = [(start + number * step, length) for number in range(count) for start, length in runs]
    return ((1, 0),) * (3 - len(dims)) + tuple(dims), tuple(runs)
