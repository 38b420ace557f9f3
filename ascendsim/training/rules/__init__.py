"""Rules of reverse mode, one file a family; `default_rules()` collects them.

A file holds `RULES`: by (domain, operator) a function that takes a `Backward` and returns one gradient an
input port (None = no gradient flows there). A rule makes only what `needs(port)` asks for where that saves
work.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType

from ascendsim.training.backward import Rule

Key = tuple[str, str]  # domain and operator


@cache
def default_rules() -> Mapping[Key, Rule]:
    """All built-in rules by domain and operator."""
    rules: dict[Key, Rule] = {}
    for module in iter_modules(import_module(__name__).__path__, f"{__name__}."):
        for key, rule in import_module(module.name).RULES.items():
            if key in rules:
                raise ValueError(f"operator {key} has two gradients")
            rules[key] = rule
    return MappingProxyType(rules)
