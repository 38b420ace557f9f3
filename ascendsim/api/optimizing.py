"""`optimize`: the graph engine on a graph, with a report of what each pass did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

from ascendsim.api.graph_dumps import GraphDumps
from ascendsim.compiler.pipeline import check_operators
from ascendsim.core.arguments import checked
from ascendsim.core.collection import without_collection
from ascendsim.graph.connection import connected_parts, multi_edges
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Graph, Node
from ascendsim.ops import opset_with
from ascendsim.opset import OpDef
from ascendsim.passes.engine import (
    EngineReport,
    EngineSettings,
    GraphEngine,
    Weight,
    pass_names,
    select_outputs,
    weigh,
)

if TYPE_CHECKING:
    from ascendsim.core.table import Cell, Table

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class OptimizeResult:
    """An optimised graph and how it came about.

    Attributes:
        graph: The result; the graph that was given stays as it is.
        before, after: Sizes: nodes, constants and their bytes, subgraphs included.
        report: Every run of every pass.
    """

    graph: Graph
    before: Weight
    after: Weight
    report: EngineReport

    def table(self) -> Table:
        """What each pass did, summed over its runs, in the order of the first runs; sizes are those around
        whole runs of a stage's part.
        """
        from ascendsim.core.table import Table

        columns = (
            "stage",
            "pass",
            "what it did",
            "nodes before",
            "nodes after",
            "weights before(MiB)",
            "weights after(MiB)",
            "time(ms)",
        )
        rows: list[tuple[Cell, ...]] = []
        for run in self.report.runs:
            acted = [record for record in run.records if record.result.counts]
            if not acted:
                continue
            sizes = (
                run.before.nodes,
                run.after.nodes,
                run.before.constant_bytes / MIB,
                run.after.constant_bytes / MIB,
            )
            if len(run.records) > 1:
                rows.append((run.stage, run.name, "together:", *sizes, run.seconds * 1e3))
                rows.extend(
                    (run.stage, f"  {item.name}", _did(item.result.counts), *(None,) * 4, item.seconds * 1e3)
                    for item in acted
                )
            else:
                rows.append(
                    (run.stage, acted[0].name, _did(acted[0].result.counts), *sizes, run.seconds * 1e3)
                )
        return Table("optimize", columns, tuple(rows))

    def _repr_html_(self) -> str:
        return f"<p>{self}</p>{self.table()._repr_html_()}"

    def __repr__(self) -> str:
        return f"OptimizeResult({self.graph.name!r}, {self.before.nodes} -> {self.after.nodes} nodes)"

    def __str__(self) -> str:
        before, after = self.before, self.after
        return (
            f"{before.nodes} nodes -> {after.nodes}, {before.constants} constants "
            f"({_size(before.constant_bytes)}) -> {after.constants} ({_size(after.constant_bytes)}), "
            f"{self.report.seconds * 1e3:.1f} ms in passes"
        )

    @property
    def parts(self) -> tuple[tuple[Node, ...], ...]:
        """The nodes of the result by connected component: one in a graph that hangs together."""
        return connected_parts(self.graph)

    @property
    def multi_edges(self) -> dict[tuple[str, str], int]:
        """How many edges join two nodes of the result, by producer and consumer, where there is more than
        one.
        """
        return multi_edges(self.graph)


def _size(count: int) -> str:
    return f"{count / MIB:.2f} MiB" if count >= MIB else f"{count / 1024:.1f} KiB"


def _did(counts: object) -> str:
    assert isinstance(counts, dict)
    return ", ".join(f"{kind} {number}" for kind, number in counts.items() if number)


@without_collection
@checked(graph="asim.load and asim.GraphBuilder make one")
def optimize(
    graph: Graph,
    *,
    passes: Sequence[str] | None = None,
    outputs: Sequence[str] | str | None = None,
    dump: str | PathLike[str] | None = None,
    oo_level: str = "O3",
    oo_constant_folding: bool = True,
    oo_dead_code_elimination: bool = True,
    operators: Sequence[OpDef] = (),
) -> OptimizeResult:
    """Optimises a graph as CANN's graph engine does, apart from fusion; values stay the same under == (NaN =
    NaN).

    Args:
        graph: From `load` or `GraphBuilder`; stays as it is. `load(fold=False)` leaves shape arithmetic for
            the passes to fold.
        passes: Names of the only passes that run (`ascendsim passes list`); all by default. Shape inference
            always runs.
        outputs: What to keep, "node:index" or tensor names, in this order (ATC's --out_nodes); all outputs by
            default.
        dump: Folder that receives the graph before and after each pass that changed it: diff, Graphviz files,
            pictures.
        oo_level: "O3", or "O1" for shape inference, folding and dead-edge elimination only (ATC's option).
        oo_constant_folding: Whether constants are folded (ATC's option).
        oo_dead_code_elimination: Whether branches of constant conditions are resolved (ATC's option).
        operators: Operators of your own, the same as for `load`.

    Raises:
        InputError: If an option is not valid, or `outputs` names something that the graph lacks.
        PassError: If a pass failed; names it.
        UnsupportedOperatorError: Lists all operators that are not known.
    """
    opset = opset_with(operators)
    settings = EngineSettings.of(
        passes, pass_names(opset), oo_level, oo_constant_folding, oo_dead_code_elimination
    )
    check_operators(graph, opset)
    work = copy_graph(graph)
    dumps = None if dump is None else GraphDumps(dump, work)
    before = weigh(work)
    if outputs is not None:
        select_outputs(work, outputs)
        if dumps is not None:
            dumps("00_outputs", work)
    engine = GraphEngine(opset, settings, dumps)
    engine.prepare(work)
    engine.finish(work)
    return OptimizeResult(work, before, weigh(work), engine.report)
