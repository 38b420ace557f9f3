"""The order in which the graph engine works (ge_passes.csv holds GE's full list; this is what of it acts on a
graph of this project).

    stage              when                    what
    preprocess         before graph fusion     one traversal: dead edges, shapes, folding; values then become
                                               constants
    inline             before graph fusion     calls of branches are dissolved
    prepare            before graph fusion     markers, operators that change nothing, pruning
    stage1_1           after graph fusion      chains of transposes and casts, equal small constants, common
                                               subexpressions
    stage1_2           after graph fusion      a second traversal, folding for good, with the dimension passes
    stage1_3           after graph fusion      pruning, equal constants
    stage2             after graph fusion      identities that are left

The stages after graph fusion are repeated until they change nothing, so that a second run of everything
changes nothing either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, islice
from time import perf_counter

from ascendsim.graph.ir import Graph
from ascendsim.opset import OpSet
from ascendsim.passes.engine.common_subexpressions import CommonSubexpressionEliminationPass
from ascendsim.passes.engine.cond_remove import CondRemovePass
from ascendsim.passes.engine.constant_folding import ConstantFoldingPass
from ascendsim.passes.engine.dimension_compute import DimensionComputePass
from ascendsim.passes.engine.empty_const import ReplaceWithEmptyConstPass
from ascendsim.passes.engine.identities import DROPOUT, IDENTITY, MARKERS
from ascendsim.passes.engine.identity_arithmetic import IdentityArithmeticPass
from ascendsim.passes.engine.infer_shape import InferShapePass
from ascendsim.passes.engine.inlining import InlinePartitionedCallPass
from ascendsim.passes.engine.no_use import (
    ADD_N,
    CAST_REMOVE,
    NO_USE_MOVEMENT,
    NO_USE_RESHAPE,
    UNCHANGED_TRANSPOSE,
)
from ascendsim.passes.engine.node_pass import NodePass
from ascendsim.passes.engine.potential import ConvertPotentialConstantToOfficialPass
from ascendsim.passes.engine.prune import PrunePass, UnusedConstPass
from ascendsim.passes.engine.report import EngineReport, PassRecord, PassRun, Weight, weigh
from ascendsim.passes.engine.reshapes import (
    DIMENSION_ADJUST,
    RESHAPE_REMOVE,
    Dim1TransposeToSqueezePass,
)
from ascendsim.passes.engine.same_constants import ConstantFuseSamePass, RemoveSameConstPass
from ascendsim.passes.engine.settings import EngineSettings
from ascendsim.passes.engine.switch_dead_branch import MergePass, SwitchDeadBranchElimination
from ascendsim.passes.engine.trans_ops import (
    TransOpSymmetryEliminationPass,
    TransOpWithoutReshapeFusionPass,
)
from ascendsim.passes.engine.traversal import Traversal
from ascendsim.passes.engine.value_range import InferValueRangePass
from ascendsim.passes.rewriting.passes import Pass, run_pass, verify_after

MAX_ROUNDS = 20  # of the stages after graph fusion; two are usual
Dump = Callable[[str, Graph], None]


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage.

    Attributes:
        name: See the module's text.
        node_passes: Run together in one traversal.
        closing: Belongs to the traversal: runs at its end, before anybody looks at the graph.
        passes: Run one after the other, behind the traversal.
    """

    name: str
    node_passes: tuple[NodePass, ...] = ()
    closing: tuple[Pass, ...] = ()
    passes: tuple[Pass, ...] = ()

    @property
    def all_passes(self) -> tuple[NodePass | Pass, ...]:
        """All its passes, in order."""
        return (*self.node_passes, *self.closing, *self.passes)


def before_fusion() -> tuple[Stage, ...]:
    """The stages before graph fusion."""
    traversal: tuple[NodePass, ...] = (
        SwitchDeadBranchElimination(),
        CondRemovePass(),
        InferShapePass(),
        MergePass(),
        ReplaceWithEmptyConstPass(potential=True),
        DimensionComputePass(potential=True),
        ConstantFoldingPass(potential=True),
        InferValueRangePass(potential=True),
    )
    markers: tuple[NodePass, ...] = (NO_USE_RESHAPE, DROPOUT, UNCHANGED_TRANSPOSE, *MARKERS, IDENTITY)
    return (
        Stage("preprocess", traversal, (ConvertPotentialConstantToOfficialPass(),)),
        Stage("inline", (), (), (InlinePartitionedCallPass(),)),
        Stage("prepare", markers, (), (PrunePass(), UnusedConstPass())),
    )


def after_fusion(opset: OpSet) -> tuple[Stage, ...]:
    """The stages after graph fusion, one round."""
    second: tuple[NodePass, ...] = (
        ADD_N,
        SwitchDeadBranchElimination(),
        CondRemovePass(),
        InferShapePass(),
        MergePass(),
        CAST_REMOVE,
        NO_USE_RESHAPE,
        UNCHANGED_TRANSPOSE,
        NO_USE_MOVEMENT,
        IdentityArithmeticPass(),
        RESHAPE_REMOVE,
        TransOpSymmetryEliminationPass(),
        ReplaceWithEmptyConstPass(),
        DimensionComputePass(),
        ConstantFoldingPass(),
        InferValueRangePass(),
        DIMENSION_ADJUST,
        Dim1TransposeToSqueezePass(),
    )
    common = CommonSubexpressionEliminationPass(opset)
    return (
        Stage("stage1_1", (TransOpWithoutReshapeFusionPass(),), (), (ConstantFuseSamePass(), common)),
        Stage("stage1_2", second, (), (InlinePartitionedCallPass(),)),
        Stage("stage1_3", (), (), (PrunePass(), RemoveSameConstPass())),
        Stage("stage2", (IDENTITY,), (), (UnusedConstPass(),)),
    )


def all_stages(opset: OpSet) -> tuple[Stage, ...]:
    """Every stage, in order."""
    return (*before_fusion(), *after_fusion(opset))


def pass_names(opset: OpSet) -> tuple[str, ...]:
    """Names of all passes, in the order in which they first run."""
    return tuple(dict.fromkeys(item.name for stage in all_stages(opset) for item in stage.all_passes))


class GraphEngine:
    """Runs stages on graphs and keeps what they did.

    Args:
        opset: Operators.
        settings: Which passes run.
        dump: Called with "<number>_<stage>_<pass>" and the graph after each pass (or traversal) that changed
            it.
    """

    def __init__(
        self, opset: OpSet, settings: EngineSettings | None = None, dump: Dump | None = None
    ) -> None:
        self.opset, self.settings, self._dump = opset, settings or EngineSettings(), dump
        self.report = EngineReport()
        self._number = 0
        self._weight: Weight | None = None  # of the graph as the last pass left it
        self._unverified: list[str] = []  # passes that changed the graph since it was verified

    def stop(self) -> None:
        """Lets nothing run any more."""
        self.settings = replace(self.settings, off=True)

    def prepare(self, graph: Graph) -> None:
        """Stages before graph fusion, in place.

        Raises:
            PassError: If a pass failed or broke the graph.
        """
        self._weight = None
        for step in self._steps(before_fusion()):
            step(graph)
        self._verify(graph)

    def finish(self, graph: Graph) -> None:
        """Stages after graph fusion, in place, again and again until none changes anything.

        Raises:
            PassError: If a pass failed or broke the graph.
        """
        steps = self._steps(after_fusion(self.opset))
        self._weight = None
        quiet = 0  # steps since the last change: once it is all of them, none would find anything
        for step in islice(cycle(steps), MAX_ROUNDS * len(steps)):
            quiet = 0 if step(graph) else quiet + 1
            if quiet == len(steps):
                break
        self._verify(graph)

    def _verify(self, graph: Graph) -> None:
        """Verifies once what all passes left: each is tested by itself, and large graphs take long."""
        if self._unverified:
            names = ", ".join(dict.fromkeys(self._unverified))
            verify_after(graph, f"graph engine ({names})", "this is a defect of one of these passes")
            self._unverified.clear()

    def _steps(self, stages: Sequence[Stage]) -> list[Callable[[Graph], bool]]:
        """What runs, in order: a stage's traversal, then its other passes. Each tells whether it changed the
        graph.
        """
        steps: list[Callable[[Graph], bool]] = []
        for stage in stages:
            running = [item for item in stage.node_passes if self.settings.runs(item.name)]
            if running:
                steps.append(partial(self._traverse, stage=stage, passes=running))
            steps.extend(
                partial(self._pass, stage=stage, item=item)
                for item in stage.passes
                if self.settings.runs(item.name)
            )
        return steps

    def _pass(self, graph: Graph, stage: Stage, item: Pass) -> bool:
        before, started = self._weight or weigh(graph), perf_counter()
        result = run_pass(item, graph)
        self._note(graph, stage, [PassRecord(item.name, result)], before, perf_counter() - started, item.name)
        return result.changed

    def _traverse(self, graph: Graph, stage: Stage, passes: Sequence[NodePass]) -> bool:
        before, started = self._weight or weigh(graph), perf_counter()
        traversal = Traversal(graph, passes, self.opset)
        changed = traversal.run()
        records = [
            PassRecord(name, tally.result(), tally.seconds) for name, tally in traversal.tallies.items()
        ]
        for item in stage.closing:
            records.append(PassRecord(item.name, run_pass(item, graph)))
            changed |= records[-1].result.changed
        self._note(
            graph,
            stage,
            records,
            before,
            perf_counter() - started,
            passes[0].name if len(passes) == 1 else "traversal",
        )
        return changed

    def _note(
        self,
        graph: Graph,
        stage: Stage,
        records: Sequence[PassRecord],
        before: Weight,
        seconds: float,
        name: str,
    ) -> None:
        changed = any(record.result.changed for record in records)
        self._weight = weigh(graph) if changed else before
        self.report.runs.append(PassRun(stage.name, name, tuple(records), before, self._weight, seconds))
        if not changed:
            return
        self._unverified += [record.name for record in records if record.result.changed]
        if self._dump is not None:
            self._number += 1
            self._dump(f"{self._number:02d}_{stage.name}_{name}", graph)
