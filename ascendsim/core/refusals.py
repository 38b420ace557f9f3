"""What a chip, or CANN's converter for it, refuses of a model: found before anything is compiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ascendsim.core.errors import CompileError

SHOWN = 3  # names in one line


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reason.

    Attributes:
        code: ATC's code of it ("E16005"); "" where CANN's documents name the rule and no code.
        subject: What is wrong, named as the user knows it.
        rule: What it is, and what must hold.
        remedy: What to do about it.
        by_chip: Whether the chip cannot do it; else only the converter does not take it.
    """

    code: str
    subject: str
    rule: str
    remedy: str
    by_chip: bool = False

    @property
    def fact(self) -> str:
        """Subject, rule and code."""
        return f"{self.subject} {self.rule}" + (f" ({self.code})" if self.code else "")

    @property
    def warning(self) -> str:
        """One line for people who go on all the same."""
        return f"ATC would refuse the model: {self.fact}; {self.remedy} (here it runs all the same)"


class ConversionError(CompileError):
    """A model that the chip or the converter refuses.

    Args:
        name: Of the model.
        refusals: All reasons.

    Attributes:
        refusals: The same.
    """

    def __init__(self, name: str, refusals: Sequence[Refusal]) -> None:
        self.refusals = tuple(refusals)
        if len(refusals) == 1:
            (only,) = refusals
            super().__init__(only.subject, only.fact.removeprefix(f"{only.subject} "), None, only.remedy)
            return
        listed = "; ".join(f"[{number}] {one.fact}; {one.remedy}" for number, one in enumerate(refusals, 1))
        super().__init__(f"model {name!r}", f"is refused for {len(refusals)} reasons: {listed}")


def some(names: Sequence[str], shown: int = SHOWN) -> str:
    """Names for one line: the first few, and how many more there are.

    >>> some(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    more = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {more} more" if more > 0 else "")
