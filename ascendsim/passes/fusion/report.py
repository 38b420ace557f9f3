"""What fusion did: matched and effected times a pass and pattern, with the reason of every refusal."""

from __future__ import annotations

from dataclasses import dataclass, field

from ascendsim.passes.rewriting.report import PatternRecord


@dataclass(frozen=True, slots=True)
class FusedScopeRecord:
    """Nodes that UB fusion put into one task.

    Attributes:
        number: Of the scope (`Node.origin["scope"]`).
        name: Of the pass.
        nodes: Names in execution order.
        saved_bytes: Bytes to and from global memory that are gone, since what is between the nodes stays in
            the Unified Buffer.
        operand_bytes: Bytes of what they read besides that move more often than before (negative: less
            often), with tilings of the closed form, before and after; those that are picked by time may move
            others.
    """

    number: int
    name: str
    nodes: tuple[str, ...]
    saved_bytes: int
    operand_bytes: int


@dataclass(slots=True)
class FusionReport:
    """All records of a compilation, in the order in which the passes ran, and the scopes of UB fusion."""

    records: list[PatternRecord] = field(default_factory=list)
    scopes: list[FusedScopeRecord] = field(default_factory=list)
    switched_off: dict[str, str] = field(default_factory=dict)  # pass name -> who switched it off
    warnings: list[str] = field(default_factory=list)

    @property
    def saved_bytes(self) -> int:
        """Bytes to and from global memory that UB fusion saved: those of the scopes, less what their operands
        cost more.
        """
        return sum(scope.saved_bytes - scope.operand_bytes for scope in self.scopes)

    def totals(self, family: str) -> dict[str, tuple[int, int]]:
        """(matched, effected) by pass name, patterns of a pass added up; passes that matched nothing are left
        out.
        """
        sums: dict[str, tuple[int, int]] = {}
        for record in self.records:
            if record.family == family and record.matched:
                matched, effected = sums.get(record.name, (0, 0))
                sums[record.name] = (matched + record.matched, effected + record.effected)
        return sums
