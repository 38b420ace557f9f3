"""`build_up`: what each technique of the graph engine adds, switched on one after another over a graph that
the host launches operator by operator.

GE's documentation counts them up in this order: graph optimisation, sinking, reuse of memory, several
streams.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

from ascendsim.api.compiling import compile
from ascendsim.api.running import simulate
from ascendsim.core.arguments import checked
from ascendsim.core.errors import InputError, suggest
from ascendsim.core.table import Row, Table
from ascendsim.graph.ir import Graph
from ascendsim.soc import SocSpec

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # noqa: TID251 - only for the type checker, nothing is loaded

    from ascendsim.plot.waterfall import WaterfallDisplay

# Each technique, and the options that differ from those of the one before.
TECHNIQUES: Mapping[str, Mapping[str, Any]] = {
    "host launches": {
        "schedule": "host",
        "fusion": "off",
        "optimize": False,
        "disable_reuse_memory": True,
        "enable_single_stream": True,
    },
    "constant folding": {"optimize": ("ConstantFoldingPass",)},
    "graph engine": {"optimize": True},
    "graph fusion": {"fusion": "graph"},
    "UB fusion": {"fusion": "ub"},
    "L2 fusion": {"fusion": "all"},
    "sinking": {"schedule": "sink"},
    "memory reuse": {"disable_reuse_memory": False},
    "several streams": {"enable_single_stream": False, "multi_stream_parallel_mode": "MainStream:4"},
}
# Where to begin: with nothing, or with a graph that is optimised and fused already; the technique that is the
# first row, and what that row is called.
STARTS: Mapping[str, tuple[str, str]] = {
    "host": ("host launches", "host launches"),
    "fused": ("L2 fusion", "fused graph, host launches"),
}
SWITCHED = frozenset(name for options in TECHNIQUES.values() for name in options)


@dataclass(frozen=True, slots=True)
class Step:
    """The model with one technique more.

    Attributes:
        name: Of the technique.
        time_us: Device time of one execution.
        tasks: Their number.
        memory_bytes: Device memory without weights, at its peak.
    """

    name: str
    time_us: float
    tasks: int
    memory_bytes: int


@dataclass(frozen=True)
class BuildUp:
    """Techniques of the graph engine, one added at a time.

    Attributes:
        network: Name of the graph.
        soc: Name of the chip.
        steps: The first one without any technique.
    """

    network: str
    soc: str
    steps: tuple[Step, ...]

    @checked()
    def gain(self, first: str, last: str) -> float:
        """Throughput that the techniques from one to another add together, 0.2 = 20 %.

        Raises:
            InputError: If there is no such technique.
        """
        names = [step.name for step in self.steps]
        for name in (first, last):
            if name not in names[1:]:
                raise InputError(f"technique {name!r}", f"must be one of {', '.join(names[1:])}")
        before = self.steps[names.index(first) - 1]
        return before.time_us / self.steps[names.index(last)].time_us - 1

    def table(self) -> Table:
        """One row a technique: time, gain in throughput over the row before and over the first, tasks,
        memory.
        """
        base, last, rows = self.steps[0], self.steps[0], []
        for step in self.steps:
            gains = (100 * (before.time_us / step.time_us - 1) for before in (last, base))
            row: Row = (step.name, step.time_us, *gains, step.tasks, step.memory_bytes / 2**20)
            rows.append(row)
            last = step
        columns = ("Technique", "Time(us)", "Gain(%)", "In all(%)", "Tasks", "Memory(MiB)")
        return Table("build_up", columns, tuple(rows))

    @checked()
    def plot(self, ax: Axes | None = None) -> WaterfallDisplay:
        """Draws the steps as a waterfall.

        Args:
            ax: Axes to draw on; a new figure if None.
        """
        from ascendsim.plot import plot_waterfall

        names, times = zip(*((step.name, step.time_us) for step in self.steps), strict=True)
        return plot_waterfall(names, times, f"{self.network} on {self.soc}", ax)

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def __repr__(self) -> str:
        first, last = self.steps[0].time_us, self.steps[-1].time_us
        return f"BuildUp({self.network!r} on {self.soc}: {first:.1f} us -> {last:.1f} us)"


@checked(graph="asim.load and asim.GraphBuilder make one")
def build_up(
    graph: Graph,
    soc: str | PathLike[str] | SocSpec = "Ascend310",
    *,
    start: str = "host",
    shapes: Mapping[str, Sequence[int]] | None = None,
    branches: Mapping[str, str | int] | None = None,
    trips: Mapping[str, int] | None = None,
    **options: Any,
) -> BuildUp:
    """Compiles and simulates a graph with no technique of the graph engine, then with one more at a time.

    Args:
        graph: From `load` or `GraphBuilder`.
        soc: As for `compile`.
        start: "host" = the bare graph that the host launches, "fused" = optimised and fused already, so that
            the rows are sinking, memory reuse and several streams: the reading of GE's documentation that
            comes nearest to its 20 % (docs/scheduling.md).
        shapes, branches, trips: As for `simulate`, for models with open shapes or control flow.
        **options: Further options of `compile`, the same for every step.

    Raises:
        InputError: If an option is one of those that the steps switch.
        CompileError: If the graph cannot be compiled.
    """
    for name in options:
        if name in SWITCHED:
            raise InputError(f"option {name}", "is switched step by step", remedy="leave it out")
    if start not in STARTS:
        raise InputError(
            "option start", f"must be one of {', '.join(STARTS)}", repr(start), suggest(start, STARTS)
        )
    first, title = STARTS[start]
    steps: list[Step] = []
    chosen: dict[str, Any] = dict(options)
    before = list(TECHNIQUES).index(first)
    for number, (name, more) in enumerate(TECHNIQUES.items()):
        chosen |= more
        if number < before:
            continue
        result = simulate(compile(graph, soc, **chosen), shapes=shapes, branches=branches, trips=trips)
        program = result.model.program
        shown = title if number == before else name
        steps.append(Step(shown, result.duration_us, len(program.tasks), program.memory.peak_bytes))
    return BuildUp(graph.name, result.model.soc.name, tuple(steps))
