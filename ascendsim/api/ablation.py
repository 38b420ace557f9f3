"""`ablate`: what each fusion pass contributes, found by switching passes on and off one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

from ascendsim.api.compiling import compile
from ascendsim.api.result import Result
from ascendsim.api.running import simulate
from ascendsim.core.arguments import checked
from ascendsim.core.errors import CompileError, InputError, PassError
from ascendsim.core.table import Row, Table
from ascendsim.graph.ir import Graph
from ascendsim.passes.fusion.catalogue import all_facts, find_fact
from ascendsim.passes.fusion.report import FusionReport
from ascendsim.passes.fusion.switches import parse_optimization_switch
from ascendsim.soc import SocSpec

# options without a meaning at fusion="off"
_FUSION_ONLY = {"fusion_switch_file", "optimization_switch", "passes", "buffer_optimize"}
_NO_BUFFERS = "off_optimize"
_ALWAYS = "what this level does with all passes off that have a switch"
_CLOSED = "closed to switch files; --optimization_switch reaches it"

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one pass contributes.

    Attributes:
        name: Of the pass.
        family: "graph", "ub", or "buffer" for L1 and L2 fusion.
        effected: How often it took effect with everything on; None for L1 and L2 fusion, which places tensors
            instead of joining nodes.
        time_us: Time that it saves on top of those that ran before it, with all that ran later off; negative
            if it costs time.
        ddr_bytes: DDR traffic that it saves, likewise.
        tasks: Tasks that it saves, likewise.
        alone_us: Time that it saves with all other passes off.
        without_us: Time that is lost if it alone is switched off.
        note: Why there are no figures, or what to know about them.
    """

    name: str
    family: str
    effected: int | None
    time_us: float | None = None
    ddr_bytes: int | None = None
    tasks: int | None = None
    alone_us: float | None = None
    without_us: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Ablation:
    """Contributions of the passes that took effect, the largest first, those without figures last.

    `time_us` of all contributions add up to the gain of all together: passes are switched on one after
    another in the order in which they ran, and each gets what it adds to those before it, which is what it
    did in the whole compilation. `alone_us` and `without_us` do not add up: where a pass takes over what
    another one leaves, either saves it alone and leaving out one costs little.

    Attributes:
        base: The run with everything on.
        unfused: The run with fusion off.
        contributions: By pass.
    """

    base: Result
    unfused: Result
    contributions: tuple[Contribution, ...]

    def table(self) -> Table:
        """One row a pass below one for all of them together; savings are positive.

        Columns: pass, family, how often it took effect; time, share of the time, DDR traffic and tasks that
        it saves on top of those that ran before it; time that it saves alone; time that is lost without it;
        a note.
        """
        together = _cells(_saved(self.unfused, self.base), self.base)
        rows: list[Row] = [("all together", "", None, *together, None, None, "")]
        for item in self.contributions:
            cells = (
                (None,) * 4
                if item.time_us is None
                else _cells((item.time_us, item.ddr_bytes or 0, item.tasks or 0), self.base)
            )
            alone, without = item.alone_us, item.without_us
            rows.append((item.name, item.family, item.effected, *cells, alone, without, item.note))
        columns = (
            "Pass",
            "Family",
            "Effected",
            "Saves(us)",
            "Of time(%)",
            "Saves DDR(MB)",
            "Saves tasks",
            "Only this(us)",
            "Without it(us)",
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
    """Measures what each fusion pass that took effect contributes: on top of those that ran before it, alone,
    and by leaving it out.

    Args:
        graph: From `load` or `GraphBuilder`.
        soc: As for `compile`.
        fusion: Level with everything on; not "off".
        shapes, branches, trips: As for `simulate`, for models with open shapes or control flow.
        progress: Called with (passes done, passes in all).
        **options: Further options of `compile`, the same for every run.

    Raises:
        InputError: If fusion is "off", an option breaks a rule, or shapes, branches or numbers of iterations
            are missing.
        CompileError: If the graph cannot be compiled.
    """
    if fusion == "off":
        raise InputError("option fusion", "must be a level with passes to leave out", "'off'", "try all")

    def timed(level: str, **chosen: Any) -> Result:
        return simulate(
            compile(graph, soc, fusion=level, **chosen), shapes=shapes, branches=branches, trips=trips
        )

    base = timed(fusion, **options)
    plain = {name: value for name, value in options.items() if name not in _FUSION_ONLY}
    unfused = timed("off", **plain)
    buffers = str(options.get("buffer_optimize", "l2_optimize"))
    placed = fusion == "all" and buffers != _NO_BUFFERS
    trial = _Trials(timed, fusion, options, effected_passes(base.model.fusion))
    found = trial.left_out(base, progress)
    top = trial.without_buffers() if placed else base
    floor = trial.floor(found, unfused, placed)
    found = trial.switched_on(found, floor, top, placed)
    always = _saved(unfused, floor)
    if any(always):
        found.append(Contribution("always on", "", None, *always, note=_ALWAYS))
    if any(saved := _saved(top, base)):
        found.append(Contribution(f"buffer_optimize={buffers}", "buffer", None, *saved, without_us=saved[0]))
    found.sort(key=lambda item: (item.time_us is None, -(item.time_us or 0.0), item.name))
    return Ablation(base, unfused, tuple(found))


class _Trials:
    """Runs of one network with some passes on and some off.

    Args:
        timed: Compiles at a level with options, and simulates.
        level: With everything on.
        options: Of the user.
        effected: The passes that took effect, in the order in which they ran.
    """

    def __init__(
        self,
        timed: Callable[..., Result],
        level: str,
        options: Mapping[str, Any],
        effected: Mapping[tuple[str, str], int],
    ) -> None:
        self._timed, self._level, self._options, self._effected = timed, level, options, effected
        own = (rule.name for rule in options.get("passes", ()))
        known = (fact.name for fact in all_facts())
        self._names = tuple(dict.fromkeys((*known, *own, *(name for _, name in effected))))
        self._fixed: frozenset[str] = frozenset()

    def left_out(self, base: Result, progress: Progress | None) -> list[Contribution]:
        """Each pass with the time that is lost without it, or why it cannot be switched off."""
        found = []
        for number, ((family, name), count) in enumerate(self._effected.items()):
            if progress is not None:
                progress(number, len(self._effected))
            whole = Contribution(name, family, count)
            try:
                without = self._run(_switched(self._options, (name,)))
            except (CompileError, PassError) as error:
                found.append(replace(whole, note=f"without it: {error}"))
                continue
            if (family, name) in effected_passes(without.model.fusion):
                found.append(replace(whole, note="has no switch"))
                continue
            fact = find_fact(name)
            closed = fact is not None and fact.switchable != "yes"
            lost = _saved(without, base)[0]
            found.append(replace(whole, without_us=lost, note=_CLOSED if closed else ""))
        if progress is not None:
            progress(len(self._effected), len(self._effected))
        return found

    def floor(self, found: Sequence[Contribution], unfused: Result, placed: bool) -> Result:
        """The run with all passes off that can be; the one without fusion where none compiles."""
        self._fixed = frozenset(item.name for item in found if item.without_us is None)
        try:
            return self._with((), placed)
        except (CompileError, PassError):
            return unfused

    def switched_on(
        self, found: Sequence[Contribution], floor: Result, top: Result, placed: bool
    ) -> list[Contribution]:
        """The passes with what each adds to those before it, from `floor` to `top`, and saves alone."""
        done = list(found)
        measured = [index for index, item in enumerate(found) if item.without_us is not None]
        names = [found[index].name for index in measured]
        last = floor
        for number, index in enumerate(measured, 1):
            item = found[index]
            try:
                more = top if number == len(names) else self._with(names[:number], placed)
            except (CompileError, PassError) as error:  # what it adds goes to the next one that compiles
                done[index] = replace(item, note=f"without those after it: {error}")
                continue
            time_us, ddr_bytes, tasks = _saved(last, more)
            alone = _saved(floor, more)[0] if number == 1 else self._alone(item.name, floor, placed)
            done[index] = replace(item, time_us=time_us, ddr_bytes=ddr_bytes, tasks=tasks, alone_us=alone)
            last = more
        return done

    def without_buffers(self) -> Result:
        """The run without L1 and L2 fusion."""
        return self._run({**self._options, "buffer_optimize": _NO_BUFFERS})

    def _alone(self, name: str, floor: Result, placed: bool) -> float | None:
        """Time that a pass saves with all others off; None if that does not compile."""
        try:
            return _saved(floor, self._with((name,), placed))[0]
        except (CompileError, PassError):
            return None

    def _with(self, on: Iterable[str], placed: bool) -> Result:
        """With these passes alone, and those that have no switch; without L1 and L2 fusion."""
        kept = self._fixed.union(on)
        options = _switched(self._options, [name for name in self._names if name not in kept])
        return self._run({**options, "buffer_optimize": _NO_BUFFERS} if placed else options)

    def _run(self, options: Mapping[str, Any]) -> Result:
        return self._timed(self._level, **options)


def effected_passes(report: FusionReport) -> dict[tuple[str, str], int]:
    """How often each pass took effect, by (family, name), in the order in which they ran."""
    counts: dict[tuple[str, str], int] = {}
    for record in report.records:
        if record.effected:
            key = (record.family, record.name)
            counts[key] = counts.get(key, 0) + record.effected
    return counts


def _switched(options: Mapping[str, Any], off: Iterable[str]) -> dict[str, Any]:
    """The user's options with some more passes off."""
    switches = parse_optimization_switch(options.get("optimization_switch")) | dict.fromkeys(off, False)
    text = ";".join(f"{key}:{'on' if value else 'off'}" for key, value in switches.items())
    return {**options, "optimization_switch": text}


def _saved(without: Result, base: Result) -> tuple[float, int, int]:
    """Time in us, DDR bytes and tasks that a run needs more than another."""
    a, b = without.summary(), base.summary()
    return a.duration_us - b.duration_us, a.ddr_bytes - b.ddr_bytes, a.tasks - b.tasks


def _cells(saved: tuple[float, int, int], base: Result) -> tuple[float, float, float, int]:
    time_us, ddr_bytes, tasks = saved
    share = 100 * time_us / base.duration_us if base.duration_us else 0.0
    return time_us, share, ddr_bytes / 1e6, tasks
