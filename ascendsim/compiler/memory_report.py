"""The memory of a compiled model: figures, a table of all tensors, and the map of addresses over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from ascendsim.core.formats import REGION_BYTES, align
from ascendsim.core.table import Table
from ascendsim.graph.ir import Graph
from ascendsim.isa.program import Program, Region, owner_of
from ascendsim.lower.memory.report import MemoryFigures, memory_figures
from ascendsim.trace.records import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # noqa: TID251 - only for the type checker, nothing is loaded

    from ascendsim.plot.memory_map import MemoryMapDisplay


@dataclass(frozen=True)
class MemoryReport:
    """Where everything lies in device memory, and how good that is.

    Attributes:
        name: Of the model.
        figures: Totals in bytes.
        regions: By name; slices and other names of a tensor among them.
        spans: Start and end of each task in microseconds, in launch order; empty if only the plan is known.
    """

    name: str
    figures: MemoryFigures
    regions: Mapping[str, Region]
    spans: tuple[tuple[float, float], ...] = ()

    @classmethod
    def of(cls, name: str, graph: Graph, program: Program, trace: Trace | None = None) -> MemoryReport:
        """The report on a program; with a trace the map has microseconds on its axis."""
        spans: tuple[tuple[float, float], ...] = ()
        if trace is not None:
            records = {record.task: record for record in trace.tasks}
            spans = tuple(
                (trace.us(records[task.id].start), trace.us(records[task.id].end)) for task in program.tasks
            )
        return cls(name, memory_figures(graph, program), program.memory.regions, spans)

    def table(self) -> Table:
        """One row a tensor or workspace that owns its bytes: kind, address, bytes, first and last task, and
        what it shares.
        """
        names = sorted(
            self._owners(),
            key=lambda region: (region.kind == "weight", region.offset, region.first, region.name),
        )
        aliases: dict[str, list[str]] = {}
        for region in self.regions.values():
            if region.alias_of is not None:
                aliases.setdefault(owner_of(self.regions, region.name), []).append(region.name)
        rows = [
            (
                region.name,
                region.kind,
                region.offset,
                align(region.bytes, REGION_BYTES),
                None if region.kind == "weight" else region.first,
                None if region.kind == "weight" else region.last,
                region.in_place_of,
                ";".join(sorted(aliases.get(region.name, ()))) or None,
            )
            for region in names
        ]
        columns = (
            "Tensor",
            "Kind",
            "Offset(B)",
            "Size(B)",
            "First task",
            "Last task",
            "In place of",
            "Same memory",
        )
        return Table("memory_map", columns, tuple(rows))

    def planners(self) -> Table:
        """Peaks of this plan and of other planners on the same tensors, each against the largest live set."""
        figures = self.figures
        rows = [
            ("best fit", figures.peak),
            ("largest live set", figures.lower_bound),
            *figures.planners.items(),
        ]
        bound = max(figures.lower_bound, 1)
        return Table(
            "memory_planners",
            ("Planner", "Peak(B)", "Of the bound"),
            tuple((name, size, size / bound) for name, size in rows),
        )

    def plot(self, ax: Axes | None = None) -> MemoryMapDisplay:
        """Draws the map: address against time, a rectangle a tensor. Weights are left out: they lie behind
        all others all the time.

        Args:
            ax: Axes to draw on; a new figure if None.
        """
        return self.map().plot(ax)

    def map(self) -> MemoryMapDisplay:
        """The map as numbers; `plot` draws it."""
        from ascendsim.plot.memory_map import memory_map

        figures = self.figures
        spans: Sequence[tuple[float, float]] = self.spans or [
            (number, number + 1) for number in range(len(figures.live))
        ]
        share = (
            f" ({figures.peak / figures.lower_bound:.2f} of the largest live set)"
            if figures.lower_bound
            else ""
        )
        size = (
            f"{figures.peak / 2**20:,.2f} MiB"
            if figures.peak >= 2**20
            else f"{figures.peak / 2**10:,.1f} KiB"
        )
        title = f"{self.name}: device memory, {size} at most{share}"
        shown = [region for region in self._owners() if region.kind != "weight"]
        unit = "us" if self.spans else "task"
        return memory_map(shown, spans, figures.peak, figures.lower_bound, title, unit)

    def _owners(self) -> list[Region]:
        return [region for region in self.regions.values() if region.alias_of is None]

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.planners().to_html()}"

    def __repr__(self) -> str:
        figures = self.figures
        return (
            f"MemoryReport({self.name!r}: {figures.peak:,} bytes, bound {figures.lower_bound:,}, weights "
            f"{figures.weights:,})"
        )
