"""Findings: what a kernel does wrong although it runs, one for each kind and place, with a count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ascendsim.core.errors import KernelError


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault, however often it happens.

    Attributes:
        kind: "undefined", "outside" ...; "advice" if it is no error.
        where: File, line and call.
        text: What happens there, in the first of the cases.
        core: Core of the first case.
        row: Number of the row on that core at which it first happened.
        remedy: What to do about it.
        count: Cases.
        error: Whether it is one; advice is not.
        other: The other side: file, line and call; "" if there is none.
        pipes: Pipes concerned, that of the other side first.
        buffer: Array or on-chip buffer concerned.
        bytes: First and last byte there.
        loop: Values of the loop variables around the call in the first case ("i=256").
        cycles: Of advice: core clock cycles that the kernel loses; None where that cannot be computed.
    """

    kind: str
    where: str
    text: str
    core: int
    row: int
    remedy: str = ""
    count: int = 1
    error: bool = True
    other: str = ""
    pipes: tuple[str, ...] = ()
    buffer: str = ""
    bytes: tuple[int, int] | None = None
    loop: str = ""
    cycles: int | None = None

    def __str__(self) -> str:
        times = f", {self.count} times" if self.count > 1 else ""
        remedy = f"; {self.remedy}" if self.remedy else ""
        if not self.error:
            times += f"; cycles lost: {'not known' if self.cycles is None else self.cycles}"
        if self.loop:
            times = f", {self.loop}{times}"
        return f"{self.where} {self.text}; core {self.core}{times}{remedy}"


class Findings:
    """Collects findings; those of one kind, place and buffer become one."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], Finding] = {}

    def add(self, finding: Finding, about: str = "", count: int = 1) -> None:
        """Adds one.

        Args:
            finding: The fault.
            about: What it concerns besides its place, for example a region.
            count: How often it happened.
        """
        key = finding.kind, finding.where, about
        known = self._found.get(key)
        self._found[key] = (
            replace(finding, count=count) if known is None else replace(known, count=known.count + count)
        )

    def place(self, core: int, loops: Mapping[int, str]) -> None:
        """Says in which pass of its loops a call was that something was found at.

        Args:
            core: Its core.
            loops: By row, values of loop variables.
        """
        for key, found in self._found.items():
            if found.core == core and found.row in loops:
                self._found[key] = replace(found, loop=loops[found.row])

    @property
    def listed(self) -> tuple[Finding, ...]:
        """All of them, in the order in which they first happened on their cores, so that a cause stands
        before what follows from it; what is known at the end only, and advice, come last.
        """
        return tuple(sorted(self._found.values(), key=lambda one: (one.row < 0, one.row)))


class FaultError(KernelError):
    """A kernel that cannot come to its end on the chip.

    Args:
        subject: What is wrong.
        fault: The same as a finding.
        findings: What else was found before.
        remedy: What to do about it.
    """

    def __init__(self, subject: str, fault: Finding, findings: Findings, remedy: str = "") -> None:
        super().__init__(subject, remedy=remedy)
        self.findings = (*findings.listed, fault)
