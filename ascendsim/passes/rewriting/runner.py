"""The one runner of rules: what is found is looked at again, checked and rewritten; all that is counted.

Rules that look for patterns are run on their matches (`rewrite_found`), rules that look at single nodes on
one node after the other (`rewrite_at`), in the order of a `Worklist`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from ascendsim.core.errors import AscendSimError, PassError
from ascendsim.graph.ir import Node
from ascendsim.passes.rewriting.report import PatternRecord

OVERLAP = "an overlapping match was rewritten before"


class Found(Protocol):
    """A place where something could be rewritten."""

    @property
    def place(self) -> str:
        """Name of the node that names the place in reports."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all nodes concerned."""
        ...


F = TypeVar("F", bound=Found)
S = TypeVar("S")


class RefusedError(Exception):
    """A rewrite saw that it cannot be, before it changed anything; the text says why."""


def rewrite_found(
    record: PatternRecord,
    found: Iterable[F],
    check: Callable[[F], str | None],
    rewrite: Callable[[F], None],
    again: Callable[[F], F | None] | None = None,
) -> PatternRecord:
    """Rewrites what was found, in order, as far as it may be.

    Args:
        record: Counts what came of it.
        found: Matches; each must hold when its turn comes, unless there is `again`.
        check: None, or why a match must stay as it is.
        rewrite: Does it, or raises `RefusedError` and has changed nothing.
        again: A match as it stands after earlier rewrites, None if it is gone.

    Raises:
        TypeError: If `check` gives something else.
    """
    for item in found:
        record.matched += 1
        match = again(item) if again is not None and record.effected else item
        reason = OVERLAP if match is None else check(match)
        if not isinstance(reason, str | None):
            raise TypeError(f"check must return None or why not, as text, not {reason!r}")
        if match is not None and reason is None:
            names = match.names
            try:
                rewrite(match)
            except RefusedError as refused:
                reason = str(refused)
            else:
                record.effect(names)
        if reason is not None:
            record.refuse(item.place, reason)
    return record


def rewrite_at(record: PatternRecord, node: Node, rule: Callable[[Node, S], bool], site: S) -> bool:
    """Lets a rule look at one node; tells whether it rewrote it.

    Args:
        record: Counts what came of it; a node that is nothing for the rule does not count.
        node: In a graph.
        rule: Rewrites the node and tells so, or raises `RefusedError` if it must stay.
        site: What the rule is told besides.
    """
    try:
        if not rule(node, site):
            return False
    except RefusedError as refused:
        record.matched += record.refuse(node.name, str(refused))
        return False
    record.matched += 1
    record.effect((node.name,))
    return True


class Blame:
    """Turns whatever a rule raises into an error that names the rule and the match at hand.

    Args:
        subject: The rule.
        looking: Where it is while it looks for matches.
        remedy: For the error's text.
    """

    def __init__(self, subject: str, looking: str, remedy: str) -> None:
        self._subject, self._where, self._remedy = subject, looking, remedy

    def at(self, found: Iterable[F]) -> Iterable[F]:
        """Hands on matches and remembers which one is at hand."""
        for item in found:
            self._where = f"at node {item.place!r}"
            yield item

    def __enter__(self) -> Blame:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):  # rules are users' code too, so that can be any
            what = str(error) if isinstance(error, AscendSimError) else f"{type(error).__name__}: {error}"
            text = f"failed {self._where}: {what}"
            raise PassError(self._subject, text, remedy=self._remedy) from error
