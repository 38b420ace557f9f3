"""The regions of global memory that work names, and the same work on others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from ascendsim.core.keys import changed_in, found_in
from ascendsim.opset.work import Ref, Work

AnyWork = TypeVar("AnyWork", bound=Work | tuple[Work, ...])


def refs_of(work: Work | tuple[Work, ...]) -> Iterator[Ref]:
    """All that work reads and writes, in the order of its fields."""
    return found_in(work, Ref)


def with_regions(work: AnyWork, name_of: Callable[[str], str]) -> AnyWork:
    """The work with other names of its regions."""
    changed: AnyWork = changed_in(work, Ref, lambda ref: replace(ref, region=name_of(ref.region)))
    return changed
