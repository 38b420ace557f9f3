"""The source of a kernel with all that it names, as the text of a module that another process can import."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping
from types import FunctionType, ModuleType
from typing import Any

from ascendsim.core.errors import InputError

_PLAIN = (bool, int, float, str, type(None))


def function_of(kernel: Any) -> FunctionType:
    """The Python function of a kernel: a function, or what `@triton.jit` made of it.

    Raises:
        InputError: It is none.
    """
    function = getattr(kernel, "fn", kernel)
    if not isinstance(function, FunctionType):
        kind = type(kernel).__name__
        raise InputError("kernel", "must be a function with @triton.jit", kind)
    return function


def source_of(kernel: Any) -> str:
    """Text of a module with a kernel, the functions that it calls, its constants and imports.

    Raises:
        InputError: Its source cannot be found.
    """
    parts: dict[str, str] = {}
    _add(function_of(kernel), parts)
    return "\n\n".join(["import triton\nimport triton.language", *parts.values()]) + "\n"


def _add(function: FunctionType, parts: dict[str, str]) -> None:
    name = function.__name__
    try:
        text = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        raise InputError(f"kernel {name!r}", "must lie in a file: its source is compiled") from None
    tree = ast.parse(text)
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    own = "\n".join(text.splitlines()[definition.lineno - 1 :])
    definition.decorator_list = []
    place = f"def {name}"
    if place in parts:
        if parts[place] != f"@triton.jit\n{own}":
            raise InputError(f"kernel function {name!r}", "stands for two functions", remedy="rename one")
        return
    parts[place] = ""  # a function may call itself
    names = {node.id for node in ast.walk(definition) if isinstance(node, ast.Name)}
    for used in sorted(names):
        if used in function.__globals__ and used != name:
            _name(used, function.__globals__[used], parts)
    del parts[place]
    parts[place] = f"@triton.jit\n{own}"


def _name(used: str, value: Any, parts: dict[str, str]) -> None:
    """What a name of the kernel's module stands for."""
    module = getattr(value, "__module__", None) or ""
    if isinstance(value, ModuleType):
        line = (
            f"import {value.__name__} as {used}"
            if "." in value.__name__ or value.__name__ != used
            else f"import {used}"
        )
    elif module.partition(".")[0] == "triton" and type(value).__name__ not in ("constexpr", "JITFunction"):
        line = f"from {module} import {getattr(value, '__name__', used)} as {used}"
    elif type(value).__name__ == "constexpr":
        line = f"{used} = triton.language.constexpr({value.value!r})"
    elif isinstance(getattr(value, "fn", None), FunctionType):
        if module.partition(".")[0] == "triton":
            line = f"from {module} import {value.fn.__name__} as {used}"
        else:
            _add(value.fn, parts)
            line = "" if used == value.fn.__name__ else f"{used} = {value.fn.__name__}"
    elif isinstance(value, _PLAIN):
        line = f"{used} = {value!r}"
    else:
        return  # the compiler says what it cannot use
    known = parts.setdefault(used, line)
    if known != line:
        raise InputError(f"name {used!r} of a kernel", "stands for two things", remedy="rename one")


def bound(
    function: FunctionType, args: tuple[Any, ...], named: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments by parameter, with defaults, and the options that are left.

    Raises:
        InputError: An argument lacks, or is too much.
    """
    signature = inspect.signature(function)
    own = {name: value for name, value in named.items() if name in signature.parameters}
    options = {name: value for name, value in named.items() if name not in own}
    try:
        given = signature.bind(*args, **own)
    except TypeError as error:
        raise InputError(f"kernel {function.__name__!r}", f"cannot be called so: {error}") from None
    given.apply_defaults()
    return dict(given.arguments), options
