"""Operators, one file a family in the room of its kind; `default_opset()` collects them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pkgutil import walk_packages

from ascendsim.core import plugins
from ascendsim.core.errors import InputError
from ascendsim.opset import InferContext, Layout, OpDef, OpSet


def families() -> tuple[str, ...]:
    """The modules that define operators: those of any room that have `OPERATORS`."""
    names = (
        module.name for module in walk_packages(import_module("ascendsim.ops").__path__, "ascendsim.ops.")
    )
    return tuple(name for name in names if hasattr(import_module(name), "OPERATORS"))


@cache
def default_opset() -> OpSet:
    """All built-in operators."""
    return OpSet(operator for family in families() for operator in import_module(family).OPERATORS)


@plugins.remembered
def opset_with_plugins() -> OpSet:
    """The built-in operators and those of installed packages.

    Raises:
        InputError: If two packages bring the same operator.
    """
    brought = plugins.load(plugins.OPERATORS, _checked_plugin)
    return OpSet((*default_opset(), *brought.values())) if brought else default_opset()


def opset_with(own: Sequence[OpDef] = ()) -> OpSet:
    """The built-in operators, those of installed packages and a user's own.

    Raises:
        InputError: If two have one domain and name.
    """
    known = opset_with_plugins()
    if not own:
        return known
    taken = {operator.key for operator in known}
    own = [operator for operator in own if known.find(operator.name, operator.domain) is not operator]
    for operator in own:
        if operator.key in taken:
            rule = "must have a domain and name that no other operator has"
            raise InputError(
                "option operators", rule, "::".join(operator.key), "give it a domain of your own"
            )
        taken.add(operator.key)
    return OpSet((*known, *own)) if own else known


def _checked_plugin(value: object) -> dict[str, OpDef]:
    """The operators of a plugin by domain and name.

    Raises:
        InputError: If it is no `OpDef` and no tuple of some, or one has the name of a built-in operator.
    """
    operators = (value,) if isinstance(value, OpDef) else value
    if not isinstance(operators, tuple) or not operators:
        raise InputError("it", "must name a tuple of OpDef", type(value).__name__)
    found: dict[str, OpDef] = {}
    for each in operators:
        if not isinstance(each, OpDef):
            raise InputError("it", "must name a tuple of OpDef", f"one with a {type(each).__name__}")
        key = "::".join(each.key)
        if key in found or default_opset().find(each.name, each.domain) is not None:
            raise InputError(f"operator {key}", "has a name that is taken", remedy="give it another domain")
        found[key] = each
    return found


__all__ = ["InferContext", "Layout", "OpDef", "OpSet", "default_opset", "opset_with", "opset_with_plugins"]
