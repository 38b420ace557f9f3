"""Instructions of one operator by the blocks that MindStudio Insight knows: cores with their kinds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ascendsim.profiling.export.capture import Capture, merged
from ascendsim.profiling.view import TaskView
from ascendsim.soc.spec import SocSpec
from ascendsim.trace.records import InstructionRecord


@dataclass(frozen=True, slots=True)
class CorePlace:
    """Where a core is.

    Attributes:
        core: The AI Core that it is, or is part of.
        kind: "cube" or "vector" on split chips, "" for a core with all units.
        number: Among those of its kind in the AI Core.
    """

    core: int
    kind: str
    number: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    """What cores of one kind did in one of the tool's blocks.

    Attributes:
        name: "cube0", "vector0", "vector1" or "AiCore".
        cores: What each core did.
    """

    name: str
    cores: tuple[tuple[InstructionRecord, ...], ...]

    def of(self, *pipes: str) -> list[InstructionRecord]:
        """Instructions of some pipes."""
        return [record for records in self.cores for record in records if record.pipe in pipes]

    def busy(self, pipe: str) -> int:
        """Ticks during which the pipe was occupied, of all cores."""
        return sum(
            end - start
            for records in self.cores
            for start, end in merged((item.start, item.end) for item in records if item.pipe == pipe)
        )

    @property
    def ticks(self) -> int:
        """From the first instruction to the end of the last, of all cores."""
        return sum(span(records) for records in self.cores)

    def moved(self) -> dict[tuple[str, str], list[InstructionRecord]]:
        """Transfers by (from, to), as far as their names say it."""
        found: dict[tuple[str, str], list[InstructionRecord]] = {}
        for record in self.of("MTE1", "MTE2", "MTE3", "FIX"):
            way = re.match(r"\w+ (\w+)->(\w+) |load3d (\w+) ", record.name)
            if way:
                found.setdefault((way[1], way[2]) if way[1] else ("L1", way[3]), []).append(record)
        return found


@dataclass(frozen=True, slots=True)
class Unit:
    """One of the tool's blocks: a core, or all cores of a chip whose cores have all units."""

    id: str
    parts: tuple[Part, ...]


def core_place(soc: SocSpec, core: int) -> CorePlace:
    """Where the core of a number is."""
    if core < soc.ai_cores:
        return CorePlace(core, "cube" if soc.split_cores else "")
    vector = core - soc.ai_cores
    if not soc.split_cores:  # vector cores of their own beside AI Cores
        return CorePlace(soc.ai_cores + vector, "vector")
    beside = max(soc.vector_cores // max(soc.ai_cores, 1), 1)
    return CorePlace(vector // beside, "vector", vector % beside)


def units_of(capture: Capture, view: TaskView) -> tuple[str, list[Unit]]:
    """The kind of the operator ("cube", "vector", "mix", "AiCore"), and its blocks."""
    soc = capture.run.soc
    by_core: dict[int, list[InstructionRecord]] = {}
    for record in capture.run.trace.instructions:
        for core in record.cores if record.task == view.id else ():
            by_core.setdefault(core, []).append(record)
    if not soc.split_cores:
        cores = tuple(tuple(by_core[core]) for core in sorted(by_core))
        return "AiCore", [Unit("NA", (Part("AiCore", cores),))]
    places = {core: core_place(soc, core) for core in sorted(by_core)}
    kinds = {place.kind for place in places.values()}
    kind = kinds.pop() if len(kinds) == 1 else "mix"
    found: dict[str, list[Part]] = {}
    for core, place in places.items():
        number = place.number if kind == "mix" else 0
        name = str(place.core if kind == "mix" else core - (soc.ai_cores if kind == "vector" else 0))
        found.setdefault(name, []).append(Part(f"{place.kind}{number}", (tuple(by_core[core]),)))
    return kind, [Unit(name, tuple(parts)) for name, parts in found.items()]


def span(records: Sequence[InstructionRecord]) -> int:
    """Ticks from the first of some instructions to the end of the last."""
    return max(record.end for record in records) - min(record.start for record in records)
