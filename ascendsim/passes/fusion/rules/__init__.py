"""All graph-fusion rules, one file each, in the room of what they are about; `all_rules()` collects them.

The order of execution follows from `fusion/order.py` (stages and priorities of `fusion/data/passes.csv`),
never from where a rule stands.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import walk_packages

from ascendsim.core import plugins
from ascendsim.core.errors import InputError
from ascendsim.passes.fusion.order import check_custom
from ascendsim.passes.fusion.rule import FusionRule


@cache
def all_rules() -> tuple[FusionRule, ...]:
    """Every built-in rule: those in the `RULES` of any module below."""
    modules = walk_packages(__path__, f"{__name__}.")
    return tuple(rule for module in modules for rule in getattr(import_module(module.name), "RULES", ()))


@plugins.remembered
def plugin_rules() -> tuple[FusionRule, ...]:
    """The rules of installed packages.

    Raises:
        InputError: If two packages bring rules of one name.
    """
    return tuple(plugins.load(plugins.PASSES, _checked_plugin).values())


def _checked_plugin(value: object) -> dict[str, FusionRule]:
    """The rules of a plugin by name.

    Raises:
        InputError: If it is no `FusionRule` and no tuple of some, or a rule breaks those of `check_custom`.
    """
    rules = value if isinstance(value, tuple) else (value,)
    if not rules:
        raise InputError("it", "must name FusionRules", "an empty tuple")
    made = [rule() if isinstance(rule, type) and issubclass(rule, FusionRule) else rule for rule in rules]
    return {rule.name: rule for rule in check_custom(made, (rule.name for rule in all_rules()))}
