"""Which steps of a loop a profiler records, in torch_npu's words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from ascendsim.core.arguments import checked
from ascendsim.core.errors import InputError


class ProfilerAction(Enum):
    """What a profiler does in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class ProfilerActivity(Enum):
    """Whose doings a profile shows."""

    CPU = "CPU"
    NPU = "NPU"


Activities = frozenset[ProfilerActivity]
ALL: Activities = frozenset(ProfilerActivity)


def activities_of(given: Iterable[Any] | None) -> Activities:
    """Activities by their names, so that those of torch_npu and PyTorch do as well; all if nothing is given.

    Raises:
        InputError: If one is not known, or there is none.
    """
    if given is None:
        return ALL
    names = [str(getattr(one, "name", one)) for one in given]
    known = {one.name: one for one in ProfilerActivity}
    for name in names:
        if name not in known:
            raise InputError("option activities", f"knows {' and '.join(known)} only", name)
    if not names:
        raise InputError("option activities", "needs at least one", remedy="leave it out for all")
    return frozenset(known[name] for name in names)


Schedule = Callable[[int], ProfilerAction]


@checked()
def schedule(*, wait: int, active: int, warmup: int = 0, repeat: int = 0, skip_first: int = 0) -> Schedule:
    """Steps that a profiler waits, warms up and records, over and over.

    Args:
        wait: Steps at the start of a cycle of which nothing is kept.
        active: Steps that are recorded.
        warmup: Steps in front of them that may compile; nothing of them is kept either.
        repeat: Number of cycles; 0 = as long as the profiler runs.
        skip_first: Steps before the first cycle.

    Returns:
        A function from the number of a step to what happens in it.

    Raises:
        InputError: If a number is negative, or `active` is 0.

    >>> [schedule(wait=1, warmup=1, active=2)(step).name for step in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    numbers = {"wait": wait, "warmup": warmup, "repeat": repeat, "skip_first": skip_first}
    for name, number in numbers.items():
        if number < 0:
            raise InputError(f"argument {name}", "must not be negative", number)
    if active < 1:
        raise InputError("argument active", "must be at least 1", active, "say how many steps to record")
    cycle = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        step -= skip_first
        if step < 0 or (repeat and step >= repeat * cycle):
            return ProfilerAction.NONE
        place = step % cycle
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if place == cycle - 1 else ProfilerAction.RECORD

    return action


def always(step: int) -> ProfilerAction:
    """Records every step."""
    return ProfilerAction.RECORD
