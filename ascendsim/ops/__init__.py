"""Operators, one file a family in the room of its kind; `default_opset()` collects them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pkgutil import walk_packages

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


def opset_with(own: Sequence[OpDef] = ()) -> OpSet:
    """The built-in operators and a user's own.

    Raises:
        InputError: If two have one domain and name.
    """
    built_in = default_opset()
    taken = {operator.key for operator in built_in}
    for operator in own:
        if operator.key in taken:
            rule = "must have a domain and name that no other operator has"
            raise InputError(
                "option operators", rule, "::".join(operator.key), "give it a domain of your own"
            )
        taken.add(operator.key)
    return OpSet((*built_in, *own)) if own else built_in


__all__ = ["InferContext", "Layout", "OpDef", "OpSet", "default_opset", "opset_with"]
