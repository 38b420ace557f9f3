"""In which pass of its loops a kernel made a call: found out by running it once more, without values."""

from __future__ import annotations

import ast
import io
import linecache
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from functools import lru_cache
from sys import _getframe
from types import CodeType, FrameType
from typing import Any

import numpy as np

from ascendsim.asc.launch import Kernel, record
from ascendsim.asc.recorder import Context, Recorder

FURTHEST = 200_000  # rows of a core behind which nobody waits for an answer


class _StopError(Exception):
    """All that was asked for is known, or cannot be."""


class _Rows(list[int]):
    """Rows that are looked at as they come in."""

    def __init__(self, recorder: Recorder, kernel: Kernel, wanted: Mapping[int, int]) -> None:
        super().__init__()
        self.recorder, self.kernel, self.wanted = recorder, kernel, dict(wanted)
        self.found: dict[int, str] = {}

    def append(self, form: int) -> None:
        row = self.recorder.total + len(self)
        super().append(form)
        line = self.wanted.pop(row, None)
        if line is not None:
            self.found[row] = _values(_getframe(1), line, self.kernel.function.__code__)
            if not self.wanted:
                raise _StopError


def loop_values(
    kernel: Kernel, given: Sequence[Any], context: Context, core: int, wanted: Mapping[int, int]
) -> dict[int, str]:
    """Loop variables around calls, as "i=256, j=0"; nothing for calls that cannot be reached again.

    Args:
        kernel: The kernel.
        given: Its arguments.
        context: The launch.
        core: The core.
        wanted: Rows of this core, and the lines of their calls.
    """
    near = {row: line for row, line in wanted.items() if row < FURTHEST}
    if not near or sys.gettrace() is not None:  # a debugger would stop a second time
        return {}
    recorder = Recorder(context, core, lambda rows, values: None, _refuse)
    rows = recorder.rows = _Rows(recorder, kernel, near)
    try:
        with redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
            record(kernel, given, recorder)
    except Exception:  # the first run went through: whatever stops this one is of no interest
        pass
    return rows.found


def _refuse(tensor: Any, address: int, where: Any, element: str) -> Any:
    raise _StopError


def _values(frame: FrameType | None, line: int, outermost: CodeType) -> str:
    """Loop variables of the functions from a kernel down to a line of it, outermost first."""
    while frame is not None and not (
        frame.f_lineno == line and frame.f_code.co_filename == outermost.co_filename
    ):
        if frame.f_code is outermost:
            break
        frame = frame.f_back
    parts: list[str] = []
    while frame is not None:
        found = [
            f"{name}={int(frame.f_locals[name])}"
            for name in _around(frame.f_code.co_filename, frame.f_code.co_firstlineno, frame.f_lineno)
            if isinstance(frame.f_locals.get(name), int | np.integer)
        ]
        parts = found + parts
        if frame.f_code is outermost:
            break
        frame = frame.f_back
    return ", ".join(parts)


@lru_cache(maxsize=1024)
def _around(file: str, first: int, line: int) -> tuple[str, ...]:
    """Variables of the loops of a function (that begins at a line) around a line of it, outermost first."""
    return tuple([name for begin, name in sorted(_loops(file, line)) if begin >= first])


def _loops(file: str, line: int) -> Iterator[tuple[int, str]]:
    for node in ast.walk(_tree(file)):
        if isinstance(node, ast.For):
            if node.lineno <= line <= (node.end_lineno or line):
                yield from ((node.lineno, name) for name in _names(node.target))
        elif isinstance(node, ast.ListComp) and node.lineno <= line <= (node.end_lineno or line):
            for part in node.generators:
                yield from ((node.lineno, name) for name in _names(part.target))


def _names(target: ast.expr) -> Iterator[str]:
    names = (node.id for node in ast.walk(target) if isinstance(node, ast.Name))
    return (name for name in names if not name.startswith("_"))


@lru_cache(maxsize=32)
def _tree(file: str) -> ast.Module:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return ast.Module([], [])
