"""All graph-fusion rules, one file each, in the room of what they are about; `all_rules()` collects them.

The order of execution follows from `fusion/order.py` (stages and priorities of `fusion/data/passes.csv`),
never from where a rule stands.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import walk_packages

from ascendsim.passes.fusion.rule import FusionRule


@cache
def all_rules() -> tuple[FusionRule, ...]:
    """Every rule: those in the `RULES` of any module below."""
    modules = walk_packages(__path__, f"{__name__}.")
    return tuple(rule for module in modules for rule in getattr(import_module(module.name), "RULES", ()))
