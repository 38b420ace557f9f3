"""What a rule did: how many matches there were, how many were rewritten, and why the others were not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Refusal:
    """A match that was not rewritten, and why."""

    node: str
    reason: str


@dataclass(slots=True)
class PatternRecord:
    """One pattern of one rule in the order of execution.

    Attributes:
        family: "graph" or "ub" for fusion, "lever", "engine".
        name: Of the rule.
        pattern: Of the pattern.
        matched: Matches found before the first rewrite (UB: scopes compiled and scopes failed).
        effected: Matches rewritten (UB: scopes compiled).
        refusals: Why the others were not.
        fused: Names of the nodes of each effected match.
    """

    family: str
    name: str
    pattern: str
    matched: int = 0
    effected: int = 0
    refusals: list[Refusal] = field(default_factory=list)
    fused: list[tuple[str, ...]] = field(default_factory=list)

    def refuse(self, node: str, reason: str) -> bool:
        """Notes that a match was left, named by one of its nodes; tells whether that is news."""
        self.refusals.append(Refusal(node, reason))
        return True

    def effect(self, names: Iterable[str]) -> None:
        """Notes that a match was rewritten."""
        self.effected += 1
        self.fused.append(tuple(names))
