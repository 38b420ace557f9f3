"""A mark for functions of plain numbers that numba may compile as they are, beside the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def compilable(function: Function) -> Function:
    """Says that compiled code calls a function too (`ascendsim_kernels.jit.compiled_with_callees`), which
    takes arguments by position only. The function stays as it is.
    """
    return function
