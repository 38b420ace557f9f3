"""Graph fusion: rules with CANN's names, order and semantics, and what it takes to write one's own."""

from ascendsim.passes.fusion.report import FusionReport
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.rewriting.pattern import Any, Const, Match, Op
from ascendsim.passes.rewriting.removal import remove_dead_from
from ascendsim.passes.rewriting.replace import replace, replace_root

__all__ = [
    "Any",
    "Const",
    "FusionContext",
    "FusionReport",
    "FusionRule",
    "Match",
    "Op",
    "remove_dead_from",
    "replace",
    "replace_root",
]
