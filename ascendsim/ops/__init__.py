"""Operators, one file a family in the room of its kind; `default_opset()` collects them."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import walk_packages

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


__all__ = ["InferContext", "Layout", "OpDef", "OpSet", "default_opset"]
