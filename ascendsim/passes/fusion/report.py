"""What fusion did: matched and effected times a pass and pattern, with the reason of every refusal."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from html import escape

from ascendsim.core.table import Row, Table
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

    def table(self) -> Table:
        """One row a pass that matched: how often it matched and took effect, and the commonest reason against
        it.
        """
        rows: list[Row] = []
        for family in dict.fromkeys(record.family for record in self.records):
            for name, (matched, effected) in self.totals(family).items():
                reasons = Counter(
                    refusal.reason
                    for record in self.records
                    if record.family == family and record.name == name
                    for refusal in record.refusals
                )
                reason = reasons.most_common(1)[0][0] if reasons else ""
                rows.append((family, name, matched, effected, reason))
        return Table("fusion", ("Family", "Pass", "Matched", "Effected", "Commonest refusal"), tuple(rows))

    def __repr__(self) -> str:
        effected = sum(record.effected for record in self.records)
        passes = len({record.name for record in self.records if record.effected})
        return (
            f"FusionReport({effected} fusions by {passes} passes, {len(self.scopes)} scopes of UB fusion, "
            f"{self.saved_bytes:,} bytes saved, {len(self.switched_off)} passes off)"
        )

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.table().to_html()}"

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
