"""How much a function does: the bytecode instructions that the package runs for it, which no load of the
machine changes.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import ascendsim

_OWN = str(Path(ascendsim.__file__).parent)


def work_of(function: Callable[[], object]) -> int:
    """Instructions of functions of the package while one runs; those of libraries are not counted."""
    count = 0

    def inside(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "opcode"
        return inside

    def called(frame: FrameType, event: str, argument: object) -> Any:
        if not frame.f_code.co_filename.startswith(_OWN):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return inside

    before = sys.gettrace()
    sys.settrace(called)
    try:
        function()
    finally:
        sys.settrace(before)
    return count


def questions(thing: object) -> Iterator[tuple[str, Callable[[], object]]]:
    """All that can be asked of an object without an argument: its properties and methods, and how it shows
    itself.
    """
    kind = type(thing)
    for name in dir(kind):
        if name.startswith("_") and name not in ("__repr__", "__str__", "_repr_html_"):
            continue
        member = inspect.getattr_static(kind, name)
        if hasattr(member, "__get__") and not callable(member):
            yield name, lambda name=name: getattr(thing, name)  # type: ignore[misc]
        elif inspect.isfunction(member):
            _, *parameters = inspect.signature(member).parameters.values()
            free = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
            if all(one.default is not one.empty or one.kind in free for one in parameters):
                yield name, lambda name=name: getattr(thing, name)()  # type: ignore[misc]
