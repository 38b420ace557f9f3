"""The memory plan on the time axis: when each tensor takes its bytes and gives them back."""

from __future__ import annotations

from dataclasses import dataclass

from ascendsim.core.formats import REGION_BYTES, align
from ascendsim.profiling.export.capture import Capture


@dataclass(frozen=True, slots=True)
class Allocation:
    """Bytes of one tensor or workspace.

    Attributes:
        allocated, released: Nanoseconds since 1970: start of the first task that uses it, end of the last.
        before, after: Bytes taken by all together once it is allocated, and once it is released.
    """

    name: str
    bytes: int
    allocated: int
    released: int
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """What a run takes of device memory, weights left out of `allocations` and `levels`.

    Attributes:
        allocations: By start.
        levels: (nanoseconds since 1970, bytes taken from then on), by time, at least one.
        reserved: Bytes that the plan reserves, weights among them.
    """

    allocations: tuple[Allocation, ...]
    levels: tuple[tuple[int, int], ...]
    reserved: int


def memory_use(capture: Capture) -> MemoryUse:
    """The memory plan of a run on its time axis."""
    plan = capture.run.program.memory
    records = {record.task: record for record in capture.run.trace.tasks}
    spans = []
    for region in plan.regions.values():
        if region.alias_of is not None or region.kind == "weight":
            continue
        first, last = records.get(region.first), records.get(region.last)
        start = capture.base if first is None else capture.at(first.start)
        end = capture.end if last is None else capture.at(last.end)
        spans.append((start, max(start, end), region.name, align(region.bytes, REGION_BYTES)))
    spans.sort()
    changes: dict[int, int] = {capture.base: 0}
    for start, end, _, size in spans:
        changes[start] = changes.get(start, 0) + size
        changes[end] = changes.get(end, 0) - size
    levels, level = {}, 0
    for time in sorted(changes):
        level += changes[time]
        levels[time] = level
    allocations = [
        Allocation(name, size, start, end, levels[start], levels[end]) for start, end, name, size in spans
    ]
    return MemoryUse(tuple(allocations), tuple(levels.items()), plan.peak_bytes + plan.weight_bytes)
