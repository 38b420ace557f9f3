"""`ablate`: what each fusion pass contributes, found by leaving one out at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

from ascendsim.api.compiling import compile
from ascendsim.api.result import Result
from ascendsim.api.running import simulate
from ascendsim.compiler.model import CompiledModel
from ascendsim.core.arguments import checked
from ascendsim.core.errors import CompileError, InputError, PassError
from ascendsim.core.table import Row, Table
from ascendsim.graph.ir import Graph
from ascendsim.passes.fusion.catalogue import find_fact
from ascendsim.passes.fusion.report import FusionReport
from ascendsim.passes.fusion.switches import parse_optimization_switch
from ascendsim.soc import SocSpec

# options without a meaning at fusion="off"
_FUSION_ONLY = {"fusion_switch_file", "optimization_switch", "passes", "buffer_optimize"}
_CLOSED = "closed to switch files; --optimization_switch reaches it"

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one pass contributes: the run without it less the run with it.

    Attributes:
        name: Of the pass.
        family: "graph", "ub", or "buffer" for L1 and L2 fusion.
        effected: How often it took effect with everything on; None for L1 and L2 fusion, which places tensors
            instead of joining nodes.
        time_us: Time that it saves; negative if it costs time.
        ddr_bytes: DDR traffic that it saves.
        tasks: Tasks that it saves.
        note: Why there are no figures, or what to know about them.
    """

    name: str
    family: str
    effected: int | None
    time_us: float | None = None
    ddr_bytes: int | None = None
    tasks: int | None = None
    note: str = ""


@dataclass(frozen=True)
class Ablation:
    """Contributions of the passes that took effect, the largest first, those without figures last.

    Contributions need not add up to the gain of all together. Where a pass takes over what another one
    leaves, leaving out either costs little, and most of the gain is nobody's alone; where one prepares what
    another does, both have it in their rows.

    Attributes:
        base: The run with everything on.
        unfused: The run with fusion off.
        contributions: By pass.
    """

    base: Result
    unfused: Result
    contributions: tuple[Contribution, ...]

    def table(self) -> Table:
        """One row a pass, between one for all of them together and one for what no row or more than one
        accounts for; savings are positive.
        """
        together = _saved(self.unfused, self.base)
        rows: list[Row] = [("all together", "", None, *_cells(together, self.base), "")]
        for item in self.contributions:
            cells = (
                (None,) * 4
                if item.time_us is None
                else _cells((item.time_us, item.ddr_bytes or 0, item.tasks or 0), self.base)
            )
            rows.append((item.name, item.family, item.effected, *cells, item.note))
        measured = [item for item in self.contributions if item.time_us is not None]
        rest = (
            together[0] - sum(item.time_us or 0.0 for item in measured),
            together[1] - sum(item.ddr_bytes or 0 for item in measured),
            together[2] - sum(item.tasks or 0 for item in measured),
        )
        if measured:
            note = "either of several passes saves it" if rest[0] >= 0 else "in several rows"
            rows.append(("no single pass", "", None, *_cells(rest, self.base), note))
        columns = (
            "Pass",
            "Family",
            "Effected",
            "Saves(us)",
            "Of time(%)",
            "Saves DDR(MB)",
            "Saves tasks",
            "Note",
        )
        return Table("ablation", columns, tuple(rows))

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def __repr__(self) -> str:
        return f"Ablation({self.base.model.source.name!r}, {len(self.contributions)} passes)"


@checked(graph="asim.load and asim.GraphBuilder make one")
def ablate(
    graph: Graph,
    soc: str | PathLike[str] | SocSpec = "Ascend310",
    *,
    fusion: str = "all",
    shapes: Mapping[str, Sequence[int]] | None = None,
    branches: Mapping[str, str | int] | None = None,
    trips: Mapping[str, int] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Ablation:
    """Switches off each fusion pass that took effect, one at a time, and measures what is lost.

    Args:
        graph: From `load` or `GraphBuilder`.
        soc: As for `compile`.
        fusion: Level with everything on; not "off".
        shapes, branches, trips: As for `simulate`, for models with open shapes or control flow.
        progress: Called with (runs done, runs in all).
        **options: Further options of `compile`, the same for every run.

    Raises:
        InputError: If fusion is "off", an option breaks a rule, or shapes, branches or numbers of iterations
            are missing.
        CompileError: If the graph cannot be compiled.
    """
    if fusion == "off":
        raise InputError("option fusion", "must be a level with passes to leave out", "'off'", "try all")

    def timed(model: CompiledModel) -> Result:
        return simulate(model, shapes=shapes, branches=branches, trips=trips)

    base = timed(compile(graph, soc, fusion=fusion, **options))
    unfused = timed(
        compile(
            graph,
            soc,
            fusion="off",
            **{name: value for name, value in options.items() if name not in _FUSION_ONLY},
        )
    )
    effected = effected_passes(base.model.fusion)
    found = []
    for number, ((family, name), count) in enumerate(effected.items()):
        if progress is not None:
            progress(number, len(effected))
        whole = Contribution(name, family, count)
        try:
            without = compile(
                graph, soc, fusion=fusion, **{**options, "optimization_switch": _switched_off(options, name)}
            )
        except (CompileError, PassError) as error:
            found.append(replace(whole, note=f"without it: {error}"))
            continue
        if (family, name) in effected_passes(without.fusion):
            found.append(replace(whole, note="has no switch"))
            continue
        time_us, ddr_bytes, tasks = _saved(timed(without), base)
        fact = find_fact(name)
        closed = fact is not None and fact.switchable != "yes"
        found.append(
            replace(whole, time_us=time_us, ddr_bytes=ddr_bytes, tasks=tasks, note=_CLOSED if closed else "")
        )
    buffers = options.get("buffer_optimize", "l2_optimize")
    if fusion == "all" and buffers != "off_optimize":
        saved = _saved(
            timed(compile(graph, soc, fusion=fusion, **{**options, "buffer_optimize": "off_optimize"})), base
        )
        if any(saved):
            found.append(Contribution(f"buffer_optimize={buffers}", "buffer", None, *saved))
    if progress is not None:
        progress(len(effected), len(effected))
    found.sort(key=lambda item: (item.time_us is None, -(item.time_us or 0.0), item.name))
    return Ablation(base, unfused, tuple(found))


def effected_passes(report: FusionReport) -> dict[tuple[str, str], int]:
    """How often each pass took effect, by (family, name), in the order in which they ran."""
    counts: dict[tuple[str, str], int] = {}
    for record in report.records:
        if record.effected:
            key = (record.family, record.name)
            counts[key] = counts.get(key, 0) + record.effected
    return counts


def _switched_off(options: Mapping[str, Any], name: str) -> str:
    """The user's --optimization_switch with one more pass off."""
    switches = {**parse_optimization_switch(options.get("optimization_switch")), name: False}
    return ";".join(f"{key}:{'on' if value else 'off'}" for key, value in switches.items())


def _saved(without: Result, base: Result) -> tuple[float, int, int]:
    """Time in us, DDR bytes and tasks that a run needs more than another."""
    a, b = without.summary(), base.summary()
    return a.duration_us - b.duration_us, a.ddr_bytes - b.ddr_bytes, a.tasks - b.tasks


def _cells(saved: tuple[float, int, int], base: Result) -> tuple[float, float, float, int]:
    time_us, ddr_bytes, tasks = saved
    share = 100 * time_us / base.duration_us if base.duration_us else 0.0
    return time_us, share, ddr_bytes / 1e6, tasks
